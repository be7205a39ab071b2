"""The statistics of layers against plain loops, SciPy and closed forms, and their file."""

import dataclasses
import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layer_reports import make_documents, make_report, random_report, to_yes
from scipy.stats import binomtest, ttest_1samp
from statsmodels.stats.multitest import multipletests

from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.evaluation.statistics import (
    Floats,
    bootstrap_differences,
    percentile_interval,
    sign_flip_test,
    tally,
)
from pragworld_tasks.layers import layer_statistics
from pragworld_tasks.layers.ablation_report import accuracy_figure, read_layers
from pragworld_tasks.layers.layer_statistics import (
    Outcome,
    StatisticsSettings,
    clustered_mean,
    holm,
    simultaneous_intervals,
)
from pragworld_tasks.layers.report import by_title
from pragworld_tasks.layers.settings import Intervention

Sweep = tuple[list[Document], Floats]
FEW = StatisticsSettings(resamples=2)  # intervals are not looked at


@st.composite
def sweeps(draw: st.DrawFn) -> Sweep:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=8))
    documents = make_documents(sizes, seed=draw(st.integers(0, 9)))
    layers = draw(st.integers(1, 4))
    cells = st.sampled_from([0.0, 0.2, 0.5, 0.500001, 0.7, 1.0])
    rows = st.lists(cells, min_size=1 + layers, max_size=1 + layers)
    yes = draw(st.lists(rows, min_size=len(documents), max_size=len(documents)))
    return documents, np.array(yes)


@pytest.mark.filterwarnings("ignore:All-NaN slice")  # draws without documents of a class
@given(sweeps())
def test_metrics_against_a_plain_loop(sweep: Sweep) -> None:
    documents, yes = sweep
    report = make_report(documents, yes)

    def is_right(document: Document, run: int) -> bool:
        p = yes[document.row, run]
        return bool(p > 0.5 if document.answer == "yes" else p < 0.5)

    def count(run: int, subset: list[Document]) -> tuple[int, int]:
        return sum(is_right(document, run) for document in subset), len(subset)

    def numbers(value: Share | Outcome) -> tuple[float, int]:
        share = value.share if isinstance(value, Outcome) else value
        return share.right, share.total

    groups = [
        list(group) for _, group in itertools.groupby(documents, lambda document: document.group)
    ]
    classes = {
        name: [one for one in documents if name in (one.alteration, one.effect or "original")]
        for name in (*ALTERATIONS, "flip", "invariant", "original")
        if any(document.alteration for document in documents)
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(layer_statistics, "FEWEST_GROUPS", 1)
        runs: list[Any] = [report.plain, *report.layers]
    for number, run in enumerate(runs):
        assert numbers(run.accuracy) == count(number, documents)
        robust = sum(all(is_right(document, number) for document in group) for group in groups)
        assert numbers(run.robust_accuracy) == (robust, len(groups))
        assert {name: numbers(value) for name, value in run.by_class.items()} == {
            name: count(number, subset) for name, subset in classes.items() if subset
        }
    for layer in report.layers:
        plain, ablated = report.plain.accuracy.right, layer.accuracy.share.right
        difference = layer.accuracy.points
        assert difference == pytest.approx(100 * (ablated - plain) / len(documents))
        assert layer.sign == (
            "useful" if ablated < plain else "harmful" if ablated > plain else "neutral"
        )


def test_intervals_are_those_of_the_paired_bootstrap_over_groups() -> None:
    documents = make_documents([3, 6, 2, 4, 5] * 8)
    yes = np.random.default_rng(1).random((len(documents), 3))
    report = make_report(documents, yes, settings=StatisticsSettings(resamples=500, seed=4))
    group = [document.group for document in documents]
    right = (yes > 0.5) == np.array([[document.answer == "yes"] for document in documents])
    everything, flips = np.ones(len(group)), [document.effect == "flip" for document in documents]
    layer = report.layers[1]
    for covered, outcome in ((everything, layer.accuracy), (flips, layer.by_class["flip"])):
        plain, ablated = ({"": tally(right[:, run], covered, group)} for run in (0, 2))
        differences = bootstrap_differences(ablated, plain, resamples=500, seed=4)
        expected = {name: percentile_interval(drawn) for name, drawn in differences.items()}
        assert outcome.interval == pytest.approx([100 * end for end in expected[""]])


def test_classes_of_few_groups_are_left_out() -> None:
    documents = [
        dataclasses.replace(document, alteration=ALTERATIONS[document.row < 29])
        for document in make_documents([1] * 59)
    ]
    report = make_report(documents, np.random.default_rng(0).random((59, 2)))
    (layer,) = report.layers
    for by_class in (report.plain.by_class, layer.by_class):
        assert {*ALTERATIONS} & {*by_class} == {ALTERATIONS[0]}
    assert not np.isnan(layer.by_class[ALTERATIONS[0]].interval).any()


def test_one_group_has_no_intervals() -> None:
    report = make_report(make_documents([8]), np.random.default_rng(0).random((8, 3)))
    for layer in report.layers:
        assert layer.robust_accuracy
        for outcome in (layer.accuracy, layer.robust_accuracy):
            ends = outcome.share.interval, outcome.interval, outcome.band
            assert np.isnan(ends).all()
            assert not np.isnan([outcome.share.percent, outcome.points]).any()
    assert " | - " in re.sub(" +", " ", report.to_text())
    assert len(accuracy_figure({"model": report}).axes) > 1


def test_evidence_follows_the_corrected_p() -> None:
    documents = make_documents([1] * 20)
    plain = [True] * 20
    ablated = [False] * 6 + [True] * 14  # p = 2 / 2 ** 6, about 0.031
    one = make_report(documents, to_yes(documents, [plain, ablated]))
    two = make_report(documents, to_yes(documents, [plain, ablated, plain]))
    assert one.layers[0].holm == pytest.approx(1 / 32)
    assert two.layers[0].holm == pytest.approx(1 / 16)
    assert one.selected("useful") == one.selected("useful", by="sign") == [0]
    assert two.selected("useful", by="sign") == [0]
    assert two.selected("useful") == []
    assert (two.layers[1].sign, two.layers[1].p, two.layers[1].holm) == ("neutral", 1, 1)
    unseen = 100 * (1 - 0.025 ** (1 / 20))  # percent of groups that may change, where none did
    assert two.layers[1].accuracy.interval == pytest.approx([-unseen, unseen])
    lenient = dataclasses.replace(two, settings=dataclasses.replace(two.settings, alpha=0.07))
    assert lenient.selected("useful") == [0]


@pytest.mark.parametrize("replacement", ["zero", "all"])
def test_layers_without_effect_are_seldom_found(replacement: Any) -> None:
    """In at most 5 % of sweeps, but for chance: 150 sweeps of 12 runs, in correlated groups."""
    generator = np.random.default_rng(0)
    documents = make_documents([5] * 30)
    group = np.array([document.group for document in documents])
    is_yes = np.array([document.answer == "yes" for document in documents])[:, None]
    found = []
    for _ in range(150):
        shared = generator.normal(size=(30, 13))[group]
        margin = 0.5 + generator.normal(size=(150, 1)) + shared + generator.normal(size=(150, 13))
        gold = 1 / (1 + np.exp(-margin))
        intervention = Intervention("mlp", replacement, 0)
        yes = np.where(is_yes, gold, 1 - gold)
        report = make_report(documents, yes, settings=FEW, intervention=intervention)
        every = [layer for layers in report.by_replacement.values() for layer in layers]
        log_odds = min(layer.log_odds_holm for layer in every)
        found.append([{layer.evidence for layer in every} != {"neutral"}, log_odds <= 0.05])
    assert (np.mean(found, axis=0) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)).all()


def test_a_role_holds_under_every_replacement_or_not() -> None:
    documents = make_documents([1] * 20)
    right, wrong, less = [True] * 20, [False] * 20, [False] * 9 + [True] * 11
    runs = [right, wrong, wrong, less, right, wrong, wrong, less, wrong]
    report = make_report(
        documents, to_yes(documents, runs), intervention=Intervention("mlp", "all", 0)
    )
    every = [layer for layers in report.by_replacement.values() for layer in layers]
    np.testing.assert_allclose([layer.holm for layer in every], holm([x.p for x in every]))
    first, second = report.layers
    assert (first.evidence, first.holm) == ("useful", every[6].holm)  # larger where less is lost
    assert (second.sign, second.evidence, second.holm) == ("neutral", "neutral", 1)


def test_rounding_makes_no_tie_and_a_tie_is_wrong() -> None:
    documents = make_documents([1] * 8)
    near = 0.5 + 1e-9 * np.where([document.answer == "yes" for document in documents], 1, -1)
    report = make_report(documents, np.stack([near, np.full(8, 0.5)], axis=1))
    assert report.plain.accuracy.right == 8
    assert [layer.accuracy.share.right for layer in report.layers] == [0]
    assert {value for one in report.documents for value in one.gold[:1]} <= {0.499999, 0.500001}
    with pytest.raises(ValueError, match="not from 0 to 1"):
        make_report(documents, np.full((8, 2), 1.5))


def test_a_split_without_alterations_has_no_robust_accuracy() -> None:
    report = random_report(3, "entity_tracking")
    assert report.plain.robust_accuracy is None
    assert report.plain.by_class == {}
    assert report.layers[0].robust_accuracy is None
    assert "robust" not in report.to_text()
    assert "robust" in random_report(3).to_text()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_that_of_statsmodels(p: list[float]) -> None:
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_sign_flips_against_all_of_them(differences: list[int]) -> None:
    signs = list(itertools.product((-1, 1), repeat=len(differences)))
    sums = [sum(s * d for s, d in zip(one, differences, strict=True)) for one in signs]
    expected = np.mean([abs(one) >= abs(sum(differences)) for one in sums])
    assert sign_flip_test(differences) == pytest.approx(expected)


@given(st.integers(0, 60), st.integers(0, 60))
def test_sign_flips_of_single_documents_are_mcnemar(won: int, lost: int) -> None:
    expected = binomtest(won, won + lost).pvalue if won + lost else 1
    assert sign_flip_test([1] * won + [-1] * lost + [0] * 5) == pytest.approx(expected)


def test_intervals_of_several_metrics_hold_at_once_in_as_many_draws_as_asked_for() -> None:
    generator = np.random.default_rng(0)
    shared = generator.normal(size=4000)
    drawn = np.array([scale * (shared + generator.normal(size=4000)) for scale in (1, 2, 30)])
    *intervals, constant = simultaneous_intervals(np.array([*drawn, [7.0] * 4000]), 0.9)
    assert constant == (7, 7)
    low, high = np.array(intervals).T[:, :, None]
    inside = (low <= drawn) & (drawn <= high)
    assert inside.all(axis=0).mean() == pytest.approx(0.9, abs=0.001)
    for draws, interval in zip(drawn, intervals, strict=True):
        alone = percentile_interval(draws, level=0.9)
        assert interval.low < alone.low < alone.high < interval.high


def test_the_mean_of_single_documents_is_tested_as_students_t_test_does() -> None:
    values = np.random.default_rng(3).normal(0.3, 1, 40)
    expected = values.mean(), ttest_1samp(values, 0).pvalue
    assert clustered_mean(values, np.arange(40)) == pytest.approx(expected)
    # Copies add nothing to a test over groups.
    copied = clustered_mean(np.repeat(values, 7), np.repeat(np.arange(40), 7))
    assert copied == pytest.approx(expected)


def test_log_odds_see_what_no_answer_shows() -> None:
    documents = make_documents([5] * 20)
    gold = np.array([document.answer == "yes" for document in documents])
    right = np.random.default_rng(0).uniform(0.7, 0.9, len(documents))
    probability = np.stack([right, right - 0.05, np.full(len(documents), 1.0)], axis=1)
    report = make_report(documents, np.where(gold[:, None], probability, 1 - probability))
    less, saturated = report.layers
    assert (less.accuracy.points, less.evidence) == (0, "neutral")
    rounded = np.round(probability, 6)
    logits = np.log(rounded[:, :2] / (1 - rounded[:, :2]))
    assert less.log_odds == pytest.approx((logits[:, 1] - logits[:, 0]).mean())
    assert less.log_odds_holm < 1e-6
    assert 0 < saturated.log_odds < 20  # a probability of 1 has no infinite log-odds


def test_titles_are_short_and_differ() -> None:
    documents, yes = make_documents([2]), np.full((2, 2), 0.2)
    names = [("org/model", None), ("runs/model/", None), ("model", "runs/ula"), ("other", None)]
    reports = [make_report(documents, yes, name, adapter) for name, adapter in names]
    smaller = dataclasses.replace(reports[0].model, quantization="4bit")
    reports.append(dataclasses.replace(reports[0], model=smaller))
    titles = ["model", "model (2)", "model + ula", "other", "model + 4bit"]
    assert [*by_title(reports).items()] == [*zip(titles, reports, strict=True)]


@given(sweep=sweeps())
def test_a_report_comes_back_from_its_file(
    sweep: Sweep, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file, report = tmp_path_factory.mktemp("layers") / "layers.json", make_report(*sweep)
    report.write(file)
    read = read_layers(file)
    assert read == report
    assert (repr(read.plain), repr(read.layers)) == (repr(report.plain), repr(report.layers))


def test_the_table_says_what_the_report_does() -> None:
    documents = make_documents([4] * 20)
    plain = [True] * 48 + [False] * 32
    report = make_report(
        documents,
        to_yes(documents, [plain, [False] * 80, [True] * 80, plain]),
        intervention=Intervention("attention", "mean", seed=3),
    )
    text = report.to_text()
    assert "model, attention mean ablation: manual, 80 documents, 20 groups" in text
    assert "accuracy 60.00, robust accuracy 60.00" in text
    rows = [
        [cell.strip() for cell in line.split("|")] for line in text.split("\n") if line[:1] == "|"
    ]
    assert [[*row[1:4], row[-2]] for row in rows[2:5]] == [
        ["0", "0.00", "-60.00", "useful"],
        ["1", "100.00", "+40.00", "harmful"],
        ["2", "60.00", "+0.00", "neutral"],
    ]
    assert text.endswith(
        "By evidence (Holm p <= 0.05), layer 0 is useful and layer 1 is harmful.\n"
        "By sign, layer 0 is useful and layer 1 is harmful.\n"
        "In layers without evidence, changes of more than 21.3 points are ruled out "
        "(95% band of all layers).\n"
        "*: mean change of the log-odds with Holm p <= 0.05"
    )


def test_too_few_groups_for_evidence_are_named() -> None:
    """Six layers in 7 groups: p is at least 2 / 2 ** 7, which Holm multiplies by 6."""
    for groups, is_enough in ((7, False), (8, True)):
        documents = make_documents([1] * groups)
        right, wrong = [True] * groups, [False] * groups
        report = make_report(documents, to_yes(documents, [right, wrong, *[right] * 5]))
        assert (report.selected("useful") == [0]) == is_enough
        line = "With fewer than 8 groups, no test of 6 layers gives evidence."
        assert (line in report.to_text()) != is_enough
