"""Metrics against brute force, SciPy and closed forms; intervals by simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, rankdata

from pragworld_tasks.evaluation.metrics import UNREADABLE, AnswerArrays, tallies
from pragworld_tasks.evaluation.statistics import (
    Tally,
    average_ranks,
    bootstrap_differences,
    bootstrap_intervals,
    coin_tosses,
    mcnemar,
    percentile_interval,
    rank_runs,
    robust_tally,
    tally,
)

YES, NO = 0, 1  # places among the labels


def make_run(gold: list[int], predicted: list[int], group: list[int]) -> AnswerArrays:
    """Answers in groups that begin with their originals; every other variant flips."""
    groups = np.array(group)
    is_original = np.append(True, groups[1:] != groups[:-1])
    flips = ~is_original & (np.arange(len(gold)) % 2 == 0)
    return AnswerArrays(
        gold=np.array(gold),
        predicted=np.array(predicted),
        group=groups,
        robust_group=groups,
        is_original=is_original,
        flips=flips,
        keeps=~is_original & ~flips,
        disputed=np.arange(len(gold)) % 3 == 1,
        entailed=np.array(gold) == YES,
        excluded=(np.array(gold) == NO) & (np.arange(len(gold)) % 4 != 0),
        undetermined=(np.array(gold) == NO) & (np.arange(len(gold)) % 4 == 0),
        labels=("yes", "no", "Not said"),
    )


@st.composite
def answer_arrays(draw: st.DrawFn) -> AnswerArrays:
    size = draw(st.integers(1, 40))
    documents = st.lists(st.sampled_from([YES, NO, 2]), min_size=size, max_size=size)
    predicted = st.lists(st.sampled_from([YES, NO, 2, UNREADABLE]), min_size=size, max_size=size)
    starts = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    starts[0] = True
    return make_run(draw(documents), draw(predicted), list(np.cumsum(starts) - 1))


@given(answer_arrays())
def test_metrics_against_brute_force(arrays: AnswerArrays) -> None:
    places = range(len(arrays.gold))
    right = [arrays.predicted[i] == arrays.gold[i] for i in places]

    def share(asked: list[int]) -> float:
        return sum(right[i] for i in asked) / len(asked) if asked else math.nan

    groups = [[i for i in places if arrays.group[i] == g] for g in sorted(set(arrays.group))]
    undisputed = [[i for i in group if not arrays.disputed[i]] for group in groups]
    undisputed = [group for group in undisputed if group]
    expected = {
        "robust_acc": sum(all(right[i] for i in group) for group in groups) / len(groups),
        "acc": share(list(places)),
        "yes_acc": share([i for i in places if arrays.gold[i] == YES]),
        "no_acc": share([i for i in places if arrays.gold[i] == NO]),
        "acc_not_said": share([i for i in places if arrays.gold[i] == 2]),
        "original_acc": share([group[0] for group in groups]),
        "altered_acc": share([i for group in groups for i in group[1:]]),
        "flip_acc": share([i for i in places if arrays.flips[i]]),
        "invariant_acc": share([i for i in places if arrays.keeps[i]]),
        "unreadable": sum(arrays.predicted == UNREADABLE) / len(arrays.gold),
        "robust_acc_undisputed": sum(all(right[i] for i in group) for group in undisputed)
        / len(undisputed),
        "acc_undisputed": share([i for i in places if not arrays.disputed[i]]),
        "determined_acc": share([i for i in places if not arrays.undetermined[i]]),
        "entailed_acc": share([i for i in places if arrays.entailed[i]]),
        "excluded_acc": share([i for i in places if arrays.excluded[i]]),
        "undetermined_acc": share([i for i in places if arrays.undetermined[i]]),
    }
    found = {name: one.share for name, one in tallies(arrays).items()}
    assert found == pytest.approx(expected, nan_ok=True)
    assert list(found) == list(expected)


def test_a_robust_group_that_is_a_part_of_a_group_counts_by_itself() -> None:
    robust = robust_tally([True, True, False, True], [0, 0, 1, 2], [0, 0, 0, 1])
    np.testing.assert_array_equal(robust.right, [1, 1])
    np.testing.assert_array_equal(robust.total, [2, 1])
    assert robust.share == pytest.approx(2 / 3)


@pytest.mark.parametrize("groups", [1, 2])
def test_one_group_or_nothing_has_no_interval(groups: int) -> None:
    group = np.arange(6) % groups
    covered = {"all": [True] * 6, "first": group == 0, "nothing": [False] * 6}
    first, second = (
        {name: tally(right, mask, group) for name, mask in covered.items()}
        for right in ([1, 0, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1])
    )
    assert math.isnan(first["nothing"].standard_error)
    for drawn in (bootstrap_intervals(first), bootstrap_differences(first, second)):
        assert np.isnan([*drawn["first"], *drawn["nothing"]]).all()
        assert np.isnan(drawn["all"]).all() == (groups == 1)
    ranks = rank_runs({"first": first["all"], "second": second["all"]})
    assert {name: rank.place for name, rank in ranks.items()} == {"first": 2, "second": 1}
    if groups == 1:
        assert {(rank.low, rank.high) for rank in ranks.values()} == {(1, 2)}


@given(st.lists(st.booleans(), min_size=2, max_size=60))
def test_standard_error_of_single_documents_is_that_of_a_mean(right: list[bool]) -> None:
    one = tally(right, np.ones(len(right)), np.arange(len(right)))
    expected = np.std(right, ddof=1) / np.sqrt(len(right))
    assert one.standard_error == pytest.approx(expected)


def clustered(generator: np.random.Generator, groups: int = 60) -> tuple[Tally, float]:
    """Answers that agree within their groups more than between them, and their true accuracy."""
    sizes = generator.integers(1, 10, size=groups)
    chance = np.repeat(generator.beta(1, 1, size=groups), sizes)
    right = generator.random(sizes.sum()) < chance
    return tally(right, np.ones(sizes.sum()), np.repeat(np.arange(groups), sizes)), 0.5


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    generator = np.random.default_rng(1)
    held_bootstrap = held_normal = 0
    simulations = 400
    for _ in range(simulations):
        one, truth = clustered(generator)
        interval = bootstrap_intervals({"acc": one}, resamples=400)["acc"]
        held_bootstrap += interval.low <= truth <= interval.high
        held_normal += abs(one.share - truth) <= 1.96 * one.standard_error
    # 95 % of 400, give or take three standard errors (and what 60 groups cost a percentile interval).
    assert 0.90 <= held_bootstrap / simulations <= 0.98
    assert 0.90 <= held_normal / simulations <= 0.98


def test_bootstrap_and_linearised_errors_agree() -> None:
    one, _ = clustered(np.random.default_rng(2), groups=400)
    interval = bootstrap_intervals({"acc": one})["acc"]
    width = (interval.high - interval.low) / (2 * 1.96)
    assert width == pytest.approx(one.standard_error, rel=0.05)


def test_bootstrap_against_every_possible_draw() -> None:
    """With three groups there are 27 draws: the interval must be a quantile of their shares."""
    one = Tally(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0]))
    other = Tally(np.array([1.0, 1.0, 0.0]), one.total)
    draws = [list(draw) for draw in itertools.product(range(3), repeat=3)]
    shares, of_other = (
        [run.right[draw].sum() / run.total[draw].sum() for draw in draws] for run in (one, other)
    )
    low, high = np.quantile(np.repeat(shares, 1000), [0.1, 0.9])
    assert bootstrap_intervals({"acc": one}, level=0.8)["acc"] == pytest.approx((low, high))
    drawn = bootstrap_differences({"acc": one}, {"acc": other})["acc"]
    assert {*drawn.round(9)} == {*np.subtract(shares, of_other).round(9)}


def test_an_interval_does_not_depend_on_the_metrics_beside_it() -> None:
    one, _ = clustered(np.random.default_rng(4))
    other = Tally(one.total - one.right, one.total)
    both = bootstrap_intervals({"acc": one, "error": other})
    assert both["acc"] == bootstrap_intervals({"acc": one})["acc"]
    assert both["error"] == pytest.approx((1 - both["acc"].high, 1 - both["acc"].low))


@pytest.mark.parametrize("groups", [2, 88, 500])
def test_where_no_draw_differs_the_interval_is_exact(groups: int) -> None:
    every = [tally(np.full(2 * groups, right), np.ones(2 * groups), np.arange(2 * groups) // 2)
             for right in (0, 1)]  # fmt: skip
    expected = [binomtest(right, groups).proportion_ci() for right in (0, groups)]
    for name, interval in bootstrap_intervals(dict(enumerate(every)), resamples=500).items():
        assert interval == pytest.approx((expected[name].low, expected[name].high))
    same = percentile_interval([0.0], groups=groups, lowest=-1)
    assert same == pytest.approx((-expected[0].high, expected[0].high))
    # Half of each group is right: at worst, as many groups as are all wrong or all right are left.
    half = percentile_interval([0.5], groups=groups)
    assert half == pytest.approx((expected[1].low / 2, 1 - expected[1].low / 2))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_mcnemar_is_a_binomial_test_of_pairs_that_differ(pairs: list[tuple[bool, bool]]) -> None:
    only_first = sum(first and not second for first, second in pairs)
    only_second = sum(second and not first for first, second in pairs)
    throws = only_first + only_second
    test = mcnemar([first for first, _ in pairs], [second for _, second in pairs])
    assert (test.only_first, test.only_second) == (only_first, only_second)
    assert test.p == pytest.approx(binomtest(only_first, throws).pvalue if throws else 1)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40, 1200])
def test_tosses_of_a_coin_are_binomial(count: int) -> None:
    expected = binom.pmf(np.arange(count + 1), count, 0.5)
    np.testing.assert_allclose(coin_tosses(count), expected, rtol=1e-9)
    for only_second in {0, count // 3, count // 2}:
        second = [number < only_second for number in range(count)]
        first = [not right for right in second]
        p = mcnemar(first, second).p
        assert p == pytest.approx(binomtest(only_second, count).pvalue if count else 1)


@given(st.lists(st.integers(-3, 3), max_size=12))
def test_equal_values_share_their_average_rank(values: list[int]) -> None:
    np.testing.assert_array_equal(average_ranks(values), rankdata(values))


def test_ranks_and_their_intervals_are_those_of_counting() -> None:
    groups, resamples = 7, 200
    random = np.random.default_rng(5)
    right = {name: random.integers(0, 2, groups) for name in "abcd"}
    right["e"] = right["a"]  # as good as another run in every draw
    ranks = rank_runs(
        {name: tally(values, np.ones(groups), np.arange(groups)) for name, values in right.items()},
        resamples=resamples,
    )
    draws = np.random.default_rng(0).integers(groups, size=(resamples, groups))
    for name, values in right.items():
        places = sorted(
            1 + sum(other[draw].sum() > values[draw].sum() for other in right.values())
            for draw in draws
        )
        better = sum(other.sum() > values.sum() for other in right.values())
        # The smallest places that at least 2.5 % and 97.5 % of the draws do not exceed.
        assert ranks[name] == (1 + better, places[4], places[194])
    assert ranks["a"] == ranks["e"]
