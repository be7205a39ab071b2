"""Decomposition against definitions worked out by hand, textbook formulas and simulation."""

import math
from collections import defaultdict
from fractions import Fraction
from statistics import mean, pvariance
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag
from scipy.stats import f_oneway

from pragworld_tasks.evaluation.statistics import Floats, Ints
from pragworld_tasks.sensitivity.components import (
    NAMES,
    Cells,
    Components,
    Responses,
    Scale,
    cells,
    nest,
    plug_in,
    rescale,
    unbiased,
)
from pragworld_tasks.sensitivity.decomposition import (
    Estimate,
    articulation_p,
    decompose,
    decompose_responses,
    estimates,
    redraw_paraphrases,
    redraw_responses,
    small_sample,
)

# Nothing here may divide by zero unsaid, or take the mean of nothing.
pytestmark = pytest.mark.filterwarnings("error")

Answer = tuple[float, int, int]  # value, paraphrase, intent
NESTED, CROSSED = True, False
LITTLE = 1e-6  # where unbiased parts add up to less, of what is published, shares are rounding

READABLE = st.integers(-30, 30).map(lambda tenths: tenths / 10)


@st.composite
def answers(
    draw: st.DrawFn, least: int = 1, values: st.SearchStrategy[float] = READABLE
) -> list[Answer]:
    """Draw a few answers with gaps; paraphrases are nested in intents or shared by them."""
    one = st.tuples(values, st.integers(0, 3), st.integers(0, 2))
    drawn, nested = draw(st.lists(one, min_size=least, max_size=40)), draw(st.booleans())
    return [(value, paraphrase + 10 * i * nested, i) for value, paraphrase, i in drawn]


def nest_answers(given: list[Answer]) -> Responses:
    return nest(*zip(*given, strict=True)) if given else nest([], [], [])


def nest_table(values: Floats, nested: bool = CROSSED) -> Responses:
    """Nest [paraphrases, intents, responses] without NaN."""
    paraphrase, intent, _ = np.indices(values.shape)
    paraphrase = paraphrase + nested * len(values) * intent
    return nest(values.ravel(), paraphrase.ravel(), intent.ravel())


def shares(components: Components) -> Floats:
    """Return [3, ...]: PS, AS, MU."""
    return np.array([components.ps, components.as_, components.mu])


def parts(components: Components) -> Floats:
    """Return [3, ...]: the parts of the variance."""
    return shares(components) * components.variance


def by_hand(given: list[Answer]) -> list[Fraction]:
    """Compute the parts of the variance from their definitions, in fractions."""
    prompts: dict[int, dict[int, list[Fraction]]] = defaultdict(lambda: defaultdict(list))
    for value, paraphrase, intent in given:
        prompts[intent][paraphrase].append(Fraction(value))
    means = [[mean(values) for values in one.values()] for one in prompts.values()]
    return [
        pvariance([mean(of_intent) for of_intent in means]),
        mean([pvariance(of_intent) for of_intent in means]),
        mean([mean([pvariance(values) for values in one.values()]) for one in prompts.values()]),
    ]


@given(answers())
def test_plug_in_against_definitions_in_fractions(given: list[Answer]) -> None:
    found = plug_in(cells(nest_answers(given)))
    expected = by_hand(given)
    assert found.variance == pytest.approx(float(sum(expected)))
    if not sum(expected):
        assert np.isnan(shares(found)).all()
        assert math.isnan(found.mvs)
        return
    assert shares(found) == pytest.approx([float(part / sum(expected)) for part in expected])
    if sum(expected[:2]) > 1e-9:  # else means that are equal but for rounding
        assert found.mvs == pytest.approx(float(expected[0] / sum(expected[:2])))


def test_unbiased_articulation_and_chance_against_one_way_analysis_of_variance() -> None:
    values = np.random.default_rng(1).normal(np.arange(7)[:, None], 4, size=(7, 6))
    found = parts(unbiased(cells(nest_table(values[:, None]))))
    within = values.var(axis=1, ddof=1).mean()
    assert found == pytest.approx([0, within * (f_oneway(*values).statistic - 1) / 6, within])


@pytest.mark.parametrize("nested", [NESTED, CROSSED])
def test_unbiased_purpose_against_covariances_of_a_full_table(nested: bool) -> None:
    generator = np.random.default_rng(2)
    values = generator.normal(generator.normal(size=(8, 1, 1)), 1, size=(8, 4, 3))
    covariance = np.cov(values.mean(axis=2), rowvar=False) / 8
    if nested:
        covariance = np.diag(np.diag(covariance))
    noise = np.diag(covariance).mean() - covariance.mean()
    found = parts(unbiased(cells(nest_table(values, nested))))
    assert found[0] == pytest.approx(values.mean(axis=(0, 2)).var() - noise)


SETS = 1_000
OF_INTENTS = np.array([0.0, 1.0, 3.0])
COMMON, OWN, CHANCE = 1.0, 0.5, 3.0  # standard deviations
TRUTH = {
    NESTED: np.array([OF_INTENTS.var(), OWN**2, CHANCE**2]),
    CROSSED: np.array([OF_INTENTS.var(), COMMON**2 + OWN**2, CHANCE**2]),
}


def simulated(count: Ints, common: float) -> Cells:
    """Simulate sets with these numbers of responses: [sets, paraphrases, intents]."""
    generator = np.random.default_rng(0)
    prompts = OF_INTENTS + OWN * generator.normal(size=(SETS, *count.shape))
    prompts += common * generator.normal(size=(SETS, len(count), 1))
    values = generator.normal(prompts[..., None], CHANCE, size=(*prompts.shape, count.max()))
    there = np.arange(count.max()) < count[..., None]
    share = there / np.maximum(count, 1)[..., None]
    means = (share * values).sum(axis=-1)
    square = (share * (values - means[..., None]) ** 2).sum(axis=-1)
    return Cells(np.broadcast_to(count, means.shape), means, square)


def in_blocks(*of_intents: list[int]) -> Ints:
    """Return the numbers of responses where each intent has its own paraphrases."""
    return np.asarray(block_diag(*(np.transpose([counts]) for counts in of_intents)))


@pytest.mark.parametrize(
    ("count", "nested"),
    [
        (in_blocks([5, 1, 2, 7], [2, 2], [1, 1, 6, 4, 3, 3, 1]), NESTED),
        (in_blocks([5, 5, 4], [3], [4, 2, 6, 5]), NESTED),  # an intent with one paraphrase
        (in_blocks([5, 5, 4], [1, 1, 1, 1], [4, 2, 6, 5]), NESTED),  # with one response a prompt
        (np.full((6, 3), 5), CROSSED),
        (np.random.default_rng(4).integers(0, 6, size=(9, 3)), CROSSED),  # some are missing
    ],
)
def test_unbiased_parts_are_right_on_average(count: Ints, nested: bool) -> None:
    found = parts(unbiased(simulated(count, 0 if nested else COMMON)))
    away = found.mean(axis=1) - TRUTH[nested]
    assert (np.abs(away) < 4 * found.std(axis=1) / np.sqrt(SETS)).all()


def test_the_floor_is_the_articulation_published_where_there_is_none() -> None:
    generator = np.random.default_rng(5)
    excess = []
    for _ in range(100):
        values = generator.normal(OF_INTENTS[:, None], CHANCE, size=(2, 3, 5))
        values[1:, 0, 3:] = np.nan
        found = decompose_responses(nest_table(values), draws=2, permutations=2)
        excess.append(found.published["as"].value - found.floor)
    assert abs(np.mean(excess)) < 4 * np.std(excess) / np.sqrt(100)


def ragged_responses() -> Responses:
    """Return up to 8 responses to each of up to 15 prompts, a single one to one of them."""
    generator = np.random.default_rng(8)
    values = generator.normal(generator.normal(size=(5, 3, 1)), 2, size=(5, 3, 8))
    values[np.arange(8) >= generator.integers(0, 9, size=(5, 3, 1))] = np.nan
    values[0, 0] = [1.5] + [np.nan] * 7
    return nest_table(values)


def test_redrawn_responses_have_the_means_and_variances_of_theory() -> None:
    responses, draws = ragged_responses(), 20_000
    whole, drawn = cells(responses), redraw_responses(responses, draws)
    np.testing.assert_array_equal(drawn.count, np.broadcast_to(whole.count, drawn.count.shape))
    count = np.maximum(whole.count, 1)
    variance = whole.square / count
    away = np.abs(drawn.mean.mean(axis=0) - whole.mean)
    assert (away <= 4 * np.sqrt(variance / draws) + 1e-12).all()
    np.testing.assert_allclose(drawn.mean.var(axis=0), variance, rtol=0.06, atol=1e-12)
    expected = whole.square * (1 - 1 / count)
    np.testing.assert_allclose(drawn.square.mean(axis=0), expected, rtol=0.06, atol=1e-12)


def test_redrawn_paraphrases_are_whole_and_never_of_another_kind() -> None:
    responses = ragged_responses()
    whole, drawn = cells(responses), redraw_paraphrases(responses, 2_000)
    rows = np.concatenate([whole.count, whole.mean, whole.square], axis=1)
    drawn_rows = np.concatenate([drawn.count, drawn.mean, drawn.square], axis=2)
    same = (drawn_rows[:, :, None] == rows).all(axis=-1)  # [draws, place, paraphrase]
    assert (same.sum(axis=-1) == 1).all()
    kind = whole.count > 0
    alike = (kind[:, None] == kind).all(axis=-1)  # [place, paraphrase]
    assert 1 < len(np.unique(kind, axis=0)) < len(kind)
    # Those of its kind come to a place equally often, the others never.
    expected = alike / alike.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(same.mean(axis=0), expected, atol=4 * 0.5 / np.sqrt(2_000))
    assert not same[:, ~alike].any()
    np.testing.assert_array_equal(drawn.count > 0, np.broadcast_to(kind, drawn.count.shape))


def test_another_seed_gives_other_draws() -> None:
    for redraw in (redraw_responses, redraw_paraphrases):
        first, again, other = (redraw(ragged_responses(), 5, seed).mean for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()


def ends(estimate: Estimate) -> tuple[float, float]:
    return estimate.low, estimate.high


def test_intervals_are_quantiles_of_the_draws_moved_to_what_was_found() -> None:
    draws = np.append(np.arange(101) / 100, np.nan)
    found = Components(*np.array([1.0, 0.3, 0.5, 0.2]))
    drawn = Components(draws, draws, draws[::-1] / 2, draws)
    shown, wider = estimates(found, drawn), estimates(found, drawn, widened=2.0)
    assert list(shown) == list(NAMES)
    assert shown["ps"].value == wider["ps"].value == 0.3
    assert ends(shown["ps"]) == pytest.approx((0.3 - 0.475, 0.3 + 0.475))
    assert ends(wider["ps"]) == pytest.approx((0.3 - 0.95, 0.3 + 0.95))
    assert ends(shown["as"]) == pytest.approx((0.5 - 0.2375, 0.5 + 0.2375))
    assert shown["ps"].standard_error == pytest.approx(np.arange(101).std() / 100)
    assert wider["ps"].standard_error == pytest.approx(2 * np.arange(101).std() / 100)
    assert 0 <= shown["mvs"].low < shown["mvs"].high <= 1


def test_equal_draws_give_no_interval() -> None:
    found = decompose([0, 1, 1, 0], intents=[0, 1, 0, 1], paraphrases=[0, 0, 1, 1]).unbiased
    assert math.isnan(found["variance"].standard_error)  # 1/4 in all draws
    assert found["ps"].low < found["ps"].value < found["ps"].high


def test_few_paraphrases_make_wider_intervals() -> None:
    assert small_sample(2) == pytest.approx(12.7062 / 1.95996 * math.sqrt(2), rel=1e-4)
    assert small_sample(10) == pytest.approx(2.26216 / 1.95996 * math.sqrt(10 / 9), rel=1e-4)
    assert small_sample(1_000_000) == pytest.approx(1, abs=1e-5)
    assert small_sample(1) == 1


def test_p_is_small_by_chance_as_often_as_it_says() -> None:
    generator = np.random.default_rng(12)
    sets = 200
    found = []
    for _ in range(sets):
        # Purpose matters, intents differ in their spread, and counts are ragged.
        values = generator.normal(OF_INTENTS[:, None], [[1], [2], [5]], size=(4, 3, 5))
        values[np.arange(5) >= generator.integers(1, 6, size=(4, 3, 1))] = np.nan
        found.append(articulation_p(nest_table(values), permutations=99))
    for level in (0.1, 0.5):
        error = np.sqrt(level * (1 - level) / sets)
        assert abs((np.array(found) <= level).mean() - level) < 3 * error


def test_p_against_all_permutations() -> None:
    """Of the six ways to divide four responses between two prompts, two are as far apart."""
    values = nest([0.0, 1.0, 2.0, 3.0], [0, 0, 1, 1], [0, 0, 0, 0])
    assert articulation_p(values, permutations=20_000) == pytest.approx(1 / 3, abs=0.015)


def test_p_is_undefined_where_nothing_can_be_permuted() -> None:
    equal = nest([0.1] * 10, [0] * 5 + [1] * 5, [0] * 10)
    # Two prompts here, two responses there.
    apart = nest([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 0], [0, 0, 1, 1])
    for responses in (nest([], [], []), equal, apart):
        assert math.isnan(articulation_p(responses, permutations=9))


def scaled(values: list[float], scale: Scale) -> Floats:
    return rescale(nest(values, np.zeros(len(values)), np.zeros(len(values))), scale).values


def test_values_on_each_scale() -> None:
    values = [-3.0, 0.0, 7.0, 7.0, 1e6]
    np.testing.assert_array_equal(scaled(values, "raw"), values)
    expected = [-math.log(4), 0, math.log(8), math.log(8), math.log(1e6 + 1)]
    np.testing.assert_allclose(scaled(values, "log"), expected)
    np.testing.assert_allclose(scaled(values, "rank"), [0.1, 0.3, 0.6, 0.6, 0.9])
    np.testing.assert_array_equal(scaled(values, "winsorised"), [0, 0, 7, 7, 7])
    # A hundredth at either end is winsorised.
    for size, moved in {1: 0, 2: 0, 3: 1, 100: 1, 101: 2, 700: 7}.items():
        clipped = np.clip(np.arange(size), moved, size - 1 - moved)
        np.testing.assert_array_equal(scaled(list(range(size)), "winsorised"), clipped)


NAN = math.nan
DEGENERATE: dict[str, tuple[list[Answer], set[str]]] = {
    "nothing readable": ([(NAN, 0, 0), (NAN, 1, 2)], set(NAMES)),
    "no variance": ([(0.1, p, i) for p, i in np.ndindex(7, 3)], set(NAMES[1:])),
    "one intent": ([(p + r / 3, p, 0) for p, r in np.ndindex(3, 4)], {"ps", "mvs"}),
    "one paraphrase": ([(i + r / 3, 0, i) for i, r in np.ndindex(3, 4)], {"as", "mvs"}),
    "one response": ([(p * p - i, p, i) for p, i in np.ndindex(4, 3)], {"as", "mu", "mvs"}),
    "one readable intent": (
        [(NAN if i else p + r / 3, p, i) for p, r, i in np.ndindex(3, 4, 2)],
        {"ps", "mvs"},
    ),
    "no chance": ([(p * p + i, p, i) for p, i, _ in np.ndindex(4, 3, 3)], set()),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_undefined_estimates_are_named_and_all_others_are_finite(case: str) -> None:
    given, undefined = DEGENERATE[case]
    found = decompose_responses(nest_answers(given), draws=50, permutations=20)
    assert set(found.undefined) == undefined
    assert all(found.undefined.values())
    for shown in (found.published, found.unbiased):
        assert {name for name in NAMES if not math.isfinite(shown[name].value)} == undefined
        for name in undefined:
            assert np.isnan([*ends(shown[name]), shown[name].standard_error]).all()
    assert math.isnan(found.floor) == ("as" in undefined)
    readable = [answer for answer in given if not math.isnan(answer[0])]
    assert found.responses == len(readable)
    assert found.prompts == len({answer[1:] for answer in readable})
    assert found.intents == len({answer[2] for answer in readable})


@settings(max_examples=100)
@given(answers(0, READABLE | st.just(NAN)))
def test_any_few_answers_can_be_decomposed(given: list[Answer]) -> None:
    found = decompose_responses(nest_answers(given), draws=10, permutations=10)
    for shown in (found.published, found.unbiased):
        assert shown is found.unbiased or "mu" in found.undefined or shown["variance"].value > 0
        missing = set(found.undefined)
        if not shown["variance"].value > 0:
            missing |= {"ps", "as", "mu", "mvs"}
        if not (shown["ps"].value > 0 or shown["as"].value > 0):
            missing.add("mvs")
        for name, number in shown.items():
            assert math.isfinite(number.value) != (name in missing)
            if not math.isnan(number.standard_error):
                assert number.low <= number.high


@settings(max_examples=20)
@given(answers())
def test_labels_may_be_words_and_unreadable_values_none(given: list[Answer]) -> None:
    values, paraphrases, intents = zip(*given, strict=True)
    numbered = decompose_responses(nest_answers(given), 5, 5, seed=3)
    words = [chr(97 + intent) for intent in intents]
    letters = [chr(97 + paraphrase) for paraphrase in paraphrases]
    found = decompose([*values, None], [*words, "a"], [*letters, "z"], 5, 5, seed=3)
    assert repr(found) == repr(numbered)  # NaN and all


def assert_same_shares(given: list[Answer], other: list[Answer]) -> None:
    one, another = cells(nest_answers(given)), cells(nest_answers(other))
    published = plug_in(one).variance
    assert (plug_in(another).variance > 0) == (published > 0)
    for estimator in (plug_in, unbiased):
        if estimator(one).variance > LITTLE * published:
            expected = pytest.approx(shares(estimator(one)), rel=1e-6, abs=1e-6)
            assert shares(estimator(another)) == expected


@given(answers(), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.sampled_from([-1, 1]))
def test_shift_and_scale_of_values_make_no_difference(
    given: list[Answer], shift: float, scale: float, sign: int
) -> None:
    assert_same_shares(given, [(value * sign * scale + shift, p, i) for value, p, i in given])


@given(answers(), st.permutations(range(40)), st.permutations(range(3)), st.randoms())
def test_order_names_and_unreadable_responses_make_no_difference(
    given: list[Answer], paraphrases: list[int], intents: list[int], chance: Any
) -> None:
    other = [(value, 1000 * paraphrases[p] - 7, intents[i] - 1) for value, p, i in given]
    assert_same_shares(given, [*chance.sample(other, len(other)), (NAN, 77, 0), (NAN, 0, 77)])
