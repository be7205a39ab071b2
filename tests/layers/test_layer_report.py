"""The statistics of layers against plain loops, SciPy and closed forms, and their file."""

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layer_reports import QUICK, make_documents, make_report, random_report, to_yes
from scipy.stats import binomtest, ttest_1samp

from pragworld_interp import EXAMPLES, read_patching, read_trace
from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import (
    Floats,
    bootstrap_difference_intervals,
    clustered_mean,
    sign_flip_test,
    tally,
)
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.layers.figures import accuracy_figure
from pragworld_tasks.layers.identities import fingerprint, model_titles
from pragworld_tasks.layers.layer_report import (
    Intervention,
    Outcome,
    SweepSettings,
    write_layers,
)
from pragworld_tasks.layers.layer_statistics import (
    compute_report,
    holm,
    recompute_report,
    split_half,
)
from pragworld_tasks.layers.report_files import read_layers
from pragworld_train.layer_settings import LayerSettings

Sweep = tuple[list[Document], Floats]


@st.composite
def sweeps(draw: st.DrawFn) -> Sweep:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=8))
    documents = make_documents(sizes, seed=draw(st.integers(0, 9)))
    layers = draw(st.integers(1, 4))
    cells = st.sampled_from([0.0, 0.2, 0.5, 0.500001, 0.7, 1.0])
    rows = st.lists(cells, min_size=1 + layers, max_size=1 + layers)
    yes = draw(st.lists(rows, min_size=len(documents), max_size=len(documents)))
    return documents, np.array(yes)


# Metrics ------------------------------------------------------------------------------------------


@given(sweeps())
def test_metrics_against_a_plain_loop(sweep: Sweep) -> None:
    documents, yes = sweep
    report = make_report(documents, yes)

    def is_right(document: Document, run: int) -> bool:
        p = yes[document.row, run]
        return bool(p > 0.5 if document.answer == "yes" else p < 0.5)

    def count(run: int, subset: list[Document]) -> tuple[int, int]:
        return sum(is_right(document, run) for document in subset), len(subset)

    groups = [
        list(group) for _, group in itertools.groupby(documents, lambda document: document.group)
    ]
    names = {document.alteration for document in documents if document.alteration}
    effects = {document.effect or "original" for document in documents}
    shares: list[Any] = [report.plain, *report.layers]
    for run, found in enumerate(shares):

        def numbers(value: Share | Outcome) -> tuple[int, int]:
            share = value.share if isinstance(value, Outcome) else value
            return share.right, share.total

        assert numbers(found.accuracy) == count(run, documents)
        robust = sum(all(is_right(document, run) for document in group) for group in groups)
        assert numbers(found.robust_accuracy) == (robust, len(groups))
        assert {name: numbers(one) for name, one in found.by_alteration.items()} == {
            name: count(run, [document for document in documents if document.alteration == name])
            for name in names
        }
        assert {name: numbers(one) for name, one in found.by_effect.items()} == {
            name: count(run, [one for one in documents if (one.effect or "original") == name])
            for name in effects
        }
    for layer in report.layers:
        plain, ablated = report.plain.accuracy.right, layer.accuracy.share.right
        difference = layer.accuracy.difference.points
        assert difference == pytest.approx(100 * (ablated - plain) / len(documents))
        assert layer.sign == (
            "useful" if ablated < plain else "harmful" if ablated > plain else "neutral"
        )


@given(sweeps())
def test_mcnemar_against_scipy(sweep: Sweep) -> None:
    documents, yes = sweep
    gold = np.array([document.answer == "yes" for document in documents])[:, None]
    correct = np.where(gold, yes > 0.5, yes < 0.5)
    for number, layer in enumerate(make_report(documents, yes).layers):
        lost = int((correct[:, 0] & ~correct[:, number + 1]).sum())
        won = int((~correct[:, 0] & correct[:, number + 1]).sum())
        assert (layer.mcnemar.only_first, layer.mcnemar.only_second) == (lost, won)
        expected = binomtest(lost, lost + won).pvalue if lost + won else 1
        assert layer.mcnemar.p == pytest.approx(expected)


def test_intervals_are_those_of_the_paired_bootstrap_over_groups() -> None:
    documents = make_documents([3, 6, 2, 4, 5] * 8)
    yes = np.random.default_rng(1).random((len(documents), 3))
    report = make_report(documents, yes, settings=SweepSettings(resamples=500, seed=4))
    group = [document.group for document in documents]
    gold = np.array([document.answer == "yes" for document in documents])[:, None]
    flips = [document.effect == "flip" for document in documents]
    right = (yes > 0.5) == gold
    plain, ablated = (
        {"acc": tally(one, np.ones(len(group)), group), "flip": tally(one, flips, group)}
        for one in (right[:, 0], right[:, 2])
    )
    expected = bootstrap_difference_intervals(ablated, plain, resamples=500, seed=4)
    found = report.layers[1]
    pairs = {"acc": found.accuracy, "flip": found.by_effect["flip"]}
    for name, outcome in pairs.items():
        scaled = [100 * end for end in expected[name]]
        assert list(outcome.difference.interval) == pytest.approx(scaled)


@pytest.mark.parametrize("groups", [29, 30])
def test_classes_of_few_groups_have_no_intervals(groups: int) -> None:
    documents = [
        dataclasses.replace(
            document, alteration=ALTERATIONS[number % 2 if number < 2 * groups else 0]
        )
        for number, document in enumerate(make_documents([1] * 100))
    ]
    yes = np.random.default_rng(0).random((100, 2))
    report = make_report(documents, yes)
    (layer,) = report.layers
    few, many = (report.plain.by_alteration[name] for name in (ALTERATIONS[1], ALTERATIONS[0]))
    assert few.total == groups
    assert math.isnan(few.interval.low) == (groups < 30)
    difference = layer.by_alteration[ALTERATIONS[1]].difference
    assert math.isnan(difference.interval.high) == (groups < 30)
    assert not math.isnan(difference.points)
    assert not math.isnan(many.interval.low)
    assert not math.isnan(layer.accuracy.difference.interval.low)


def test_one_group_has_no_intervals() -> None:
    documents = make_documents([8])
    report = make_report(documents, np.random.default_rng(0).random((8, 3)))
    for layer in report.layers:
        assert layer.robust_accuracy
        for outcome in (layer.accuracy, layer.robust_accuracy):
            assert np.isnan([outcome.share.interval, outcome.difference.interval]).all()
            assert np.isnan(outcome.band).all()
            assert not np.isnan([outcome.share.percent, outcome.difference.points]).any()
    assert np.isnan(report.plain.accuracy.interval).all()
    assert report.to_json()["plain"]["accuracy"]["low"] is None
    rows = [line.split("|") for line in report.to_text().splitlines() if line.startswith("|")]
    column = [cell.strip() for cell in rows[0]].index("95% interval")
    assert [row[column].strip() for row in rows[2:4]] == ["-", "-"]
    assert len(accuracy_figure({"model": report}).axes) > 1


def test_a_layer_that_changes_nothing_is_neutral() -> None:
    documents = make_documents([4] * 10)
    yes = np.repeat(np.random.default_rng(0).random((40, 1)), 2, axis=1)
    (layer,) = make_report(documents, yes).layers
    assert (layer.sign, layer.evidence) == ("neutral", "neutral")
    assert (layer.mcnemar.p, layer.holm, layer.groups_p) == (1, 1, 1)
    assert layer.accuracy.difference.interval == (0, 0)
    assert layer.both_halves == 1


def test_evidence_follows_the_corrected_p() -> None:
    documents = make_documents([1] * 20)
    plain = [True] * 20
    ablated = [False] * 6 + [True] * 14  # p = 2 / 2 ** 6, about 0.031
    one = make_report(documents, to_yes(documents, [plain, ablated]))
    two = make_report(documents, to_yes(documents, [plain, ablated, plain]))
    assert one.layers[0].holm == pytest.approx(1 / 32)
    assert two.layers[0].holm == pytest.approx(1 / 16)
    assert one.selected("useful") == one.selected("useful", by="evidence") == [0]
    assert two.selected("useful") == [0]
    assert two.selected("useful", by="evidence") == []
    mirrored = make_report(documents, to_yes(documents, [ablated, plain, ablated]))
    assert mirrored.selected("harmful") == [0]
    assert mirrored.selected("neutral") == [1]
    lenient = recompute_report(two, dataclasses.replace(two.settings, alpha=0.07))
    assert lenient.selected("useful", by="evidence") == [0]


def test_documents_of_one_group_are_no_evidence_of_their_own() -> None:
    documents = make_documents([10, 10])
    plain = [True] * 20
    (layer,) = make_report(documents, to_yes(documents, [plain, [False] * 20])).layers
    assert layer.mcnemar.p == pytest.approx(2 / 2**20)
    assert layer.groups_p == layer.groups_holm == 0.5  # two groups agree half of the time
    assert (layer.sign, layer.evidence) == ("useful", "neutral")


def test_rounding_makes_no_tie_and_a_tie_is_wrong() -> None:
    documents = make_documents([1] * 8)
    near = 0.5 + 1e-9 * np.where([document.answer == "yes" for document in documents], 1, -1)
    report = make_report(documents, np.stack([near, np.full(8, 0.5)], axis=1))
    assert report.plain.accuracy.right == 8
    assert [layer.accuracy.share.right for layer in report.layers] == [0]
    assert {value for one in report.documents for value in one.gold[:1]} <= {0.499999, 0.500001}
    assert recompute_report(report).to_json() == report.to_json()


def test_groups_left_out_of_a_split_change_nothing() -> None:
    documents = make_documents([3] * 12)
    yes = np.random.default_rng(2).random((36, 4))
    apart = [dataclasses.replace(one, group=7 * one.group + 3) for one in documents]
    reports = (make_report(subset, yes).to_json() for subset in (apart, documents))
    first, second = (report["layers"] for report in reports)
    assert first == second


def test_a_split_without_alterations_has_no_robust_accuracy() -> None:
    report = random_report(3, "entity_tracking")
    assert report.plain.robust_accuracy is None
    assert report.plain.by_alteration == report.plain.by_effect == {}
    assert report.layers[0].robust_accuracy is None
    assert "robust" not in report.to_text()
    assert "robust" in random_report(3).to_text()


@pytest.mark.parametrize(
    ("yes", "message"),
    [
        (np.zeros((3, 2)), "shape"),
        (np.zeros((4, 2)) + 1.5, "not from 0 to 1"),
        (np.zeros((4, 2)) - 0.1, "not from 0 to 1"),
    ],
)
def test_what_is_no_sweep_is_refused(yes: Floats, message: str) -> None:
    documents = make_documents([4])
    good = make_report(documents, np.zeros((4, 2)))
    with pytest.raises(ValueError, match=message):
        compute_report(documents, yes, good.model, good.data, good.intervention)
    with pytest.raises(ValueError, match="their identity says"):
        compute_report(documents[:3], np.zeros((3, 2)), good.model, good.data, good.intervention)


# Tests and stability ------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    # In order: 0.005 * 4, 0.01 * 3, 0.03 * 2, and 0.04 * 1 raised to the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9, 0.4]) == pytest.approx([1, 1, 1])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_keeps_the_order_and_lies_between_no_correction_and_bonferroni(p: list[float]) -> None:
    corrected = holm(p)
    assert (corrected >= p).all()
    assert (corrected <= np.minimum(np.array(p) * len(p), 1)).all()
    assert (np.diff(corrected[np.argsort(p)]) >= 0).all()


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


def halvings_by_hand(differences: list[list[int]]) -> list[float]:
    groups = range(len(differences))
    both = []
    for column in zip(*differences, strict=True):
        same = []
        for first in itertools.combinations(groups, len(groups) // 2):
            sums = [
                sum(column[g] for g in groups if (g in first) == inside) for inside in (True, False)
            ]
            signs = [(one > 0) - (one < 0) for one in sums]
            same.append(signs[0] == signs[1])
        both.append(float(np.mean(same)))
    return both


@given(
    st.lists(
        st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=2, max_size=7
    )
)  # fmt: skip
def test_stability_against_all_halvings(differences: list[list[int]]) -> None:
    both = split_half(np.array(differences), halvings=100, seed=0)
    assert list(both) == pytest.approx(halvings_by_hand(differences))


def test_drawn_halvings_come_near_all_of_them() -> None:
    differences = np.random.default_rng(0).integers(-2, 3, size=(12, 6))
    exact = split_half(differences, halvings=math.comb(12, 6), seed=0)
    drawn = split_half(differences, halvings=800, seed=0)
    np.testing.assert_allclose(drawn, exact, atol=0.06)
    again = split_half(differences, halvings=800, seed=0)
    np.testing.assert_array_equal(drawn, again)
    assert not np.array_equal(drawn, split_half(differences, halvings=800, seed=1))


def test_stability_tells_an_effect_from_noise() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(100, 300))
    both = split_half(np.append(noise, noise[:, :5] + 1, axis=1), halvings=200, seed=0)
    assert both[:300].mean() == pytest.approx(0.5, abs=0.05)
    assert (both[300:] == 1).all()


def test_one_group_has_no_halves() -> None:
    assert np.isnan(split_half([[1, 2]], halvings=10, seed=0)).all()
    report = make_report(make_documents([4]), np.full((4, 2), 0.2))
    assert "| -" in report.to_text()


# Log-odds -----------------------------------------------------------------------------------------


def test_the_mean_of_single_documents_is_tested_as_students_t_test_does() -> None:
    values = np.random.default_rng(3).normal(0.3, 1, 40)
    mean = clustered_mean(values, np.arange(40))
    expected = ttest_1samp(values, 0)
    assert mean.p == pytest.approx(expected.pvalue)
    assert mean.value == pytest.approx(values.mean())
    assert list(mean.interval) == pytest.approx(list(expected.confidence_interval(0.95)))


def test_copies_of_documents_add_nothing_to_a_test_over_groups() -> None:
    values = np.random.default_rng(3).normal(0.3, 1, 40)
    once = clustered_mean(values, np.arange(40))
    copied = clustered_mean(np.repeat(values, 7), np.repeat(np.arange(40), 7))
    assert copied.p == pytest.approx(once.p)
    assert list(copied.interval) == pytest.approx(list(once.interval))


def test_log_odds_see_what_no_answer_shows() -> None:
    documents = make_documents([5] * 20)
    gold = np.array([document.answer == "yes" for document in documents])
    right = np.random.default_rng(0).uniform(0.7, 0.9, len(documents))
    probability = np.stack([right, right - 0.05, np.full(len(documents), 1.0)], axis=1)
    report = make_report(documents, np.where(gold[:, None], probability, 1 - probability))
    less, saturated = report.layers
    assert (less.accuracy.difference.points, less.evidence) == (0, "neutral")
    rounded = np.round(probability, 6)
    logits = np.log(rounded[:, :2] / (1 - rounded[:, :2]))
    assert less.log_odds.change == pytest.approx((logits[:, 1] - logits[:, 0]).mean())
    assert less.log_odds.interval.high < 0
    assert less.log_odds.p <= less.log_odds.holm < 1e-6
    assert 0 < saturated.log_odds.change < 20  # a probability of 1 has no infinite log-odds


# Identities ---------------------------------------------------------------------------------------


def test_a_fingerprint_is_of_everything_in_the_prompts() -> None:
    documents = make_documents([2, 2])
    prompts = ["a", "b", "c", "d"]
    found = {
        fingerprint(documents, prompts),
        fingerprint(documents, ["a", "b", "c", "e"]),
        fingerprint(documents, ["ab", "", "c", "d"]),
        fingerprint(documents[:3], prompts[:3]),
        *(
            fingerprint([*documents[:3], dataclasses.replace(documents[3], **change)], prompts)
            for change in (
                {"row": 9},
                {"group": 9},
                {"alteration": "other"},
                {"effect": "other"},
                {"answer": "other"},
                {"split": "synthetic"},
            )
        ),
    }
    assert len(found) == 10
    assert fingerprint(documents, prompts) == fingerprint(make_documents([2, 2]), prompts)
    assert all(len(one) == 64 for one in found)


def test_titles_are_short_and_differ() -> None:
    documents, yes = make_documents([2]), np.full((2, 2), 0.2)
    names = [("org/model", None), ("runs/model/", None), ("model", "runs/ula"), ("other", None)]
    models = [make_report(documents, yes, name, adapter).model for name, adapter in names]
    models.append(dataclasses.replace(models[0], quantization="4bit"))
    assert model_titles(models) == ["model", "model (2)", "model + ula", "other", "model + 4bit"]


# The file -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a file that tests overwrite."""
    return tmp_path_factory.mktemp("layers") / "layers.json"


@given(sweep=sweeps())
def test_a_report_comes_back_from_its_file(sweep: Sweep, file: Path) -> None:
    report = make_report(*sweep)
    write_layers(report, file)
    assert read_layers(file).to_json() == report.to_json()


@pytest.mark.parametrize("split", ["manual", "entity_tracking"])
def test_the_file_is_the_same_each_time(split: Any, tmp_path: Path) -> None:
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for path in paths:
        write_layers(random_report(4, split), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    write_layers(read_layers(paths[0]), paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == paths
    content = json.loads(paths[0].read_text())
    assert (content["schema"], content["version"]) == ("pragworld-layers", 2)
    assert content == random_report(4, split).to_json()
    assert len(content["documents"][0]["gold"]) == 5


def test_a_metric_has_the_keys_that_score_gives_it() -> None:
    content = random_report(2).to_json()
    metric = content["plain"]["accuracy"]
    assert list(metric) == ["right", "total", "percent", "low", "high"]
    assert metric["percent"] == pytest.approx(100 * metric["right"] / metric["total"])
    assert list(content["layers"][0]["accuracy"]["difference"]) == ["points", "low", "high"]


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        write_layers(random_report(1), tmp_path / "nowhere" / "layers.json")


def changed(content: dict[str, Any], *place: str | int, value: Any) -> dict[str, Any]:
    """Return the content with one value replaced, or removed if the new one is `...`."""
    content = json.loads(json.dumps(content))
    inner: Any = content
    for key in place[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return content


CONTENT = random_report(3).to_json()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 5_000, "not JSON"),
        ("<!doctype html>", "a web page"),
        ("[1]", "the schema is 'None', not 'pragworld-layers'"),
        (changed(CONTENT, "schema", value="other"), "the schema is 'other', not 'pragworld-layers'"),
        (changed(CONTENT, "version", value=1), "version 1 of 'pragworld-layers'"),
        (changed(CONTENT, "version", value=...), "version None of"),
        (changed(CONTENT, "model", value=...), "the file has no 'model'"),
        (changed(CONTENT, "model", "labels", value=["a"]), "model.labels has 1 values, not at least 2"),
        (changed(CONTENT, "model", "layers", value=2), "layers[2].target.layers is [2], which are not different layers of 2"),
        (changed(CONTENT, "model", "layers", value=True), "model.layers is true, not an integer"),
        (changed(CONTENT, "model", "dtype", value=1), "model.dtype is 1, not a string"),
        (changed(CONTENT, "data", "documents", value=7), "200 documents, but the file states 7"),
        (changed(CONTENT, "data", "groups", value=7), "40 groups, but the file states 7"),
        (changed(CONTENT, "data", "split", value="x"), 'data.split is "x", not one of manual'),
        (changed(CONTENT, "layers", 1, "holm", value=...), "layers[1] has no 'holm'"),
        (changed(CONTENT, "layers", 1, "target", "layers", value=[0]), "layers[1].target is 0, as one before"),
        (changed(CONTENT, "layers", 1, "target", "layers", value=[1, 1]), "layers[1].target.layers is [1, 1], which"),
        (changed(CONTENT, "layers", 1, "target", "layers", value=[-1]), "layers[1].target.layers is [-1], which"),
        (changed(CONTENT, "layers", 1, "target", "layers", value=[]), "layers[1].target.layers is [], which"),
        (changed(CONTENT, "layers", 1, "target", "head", value=3), "layers[1].target.head is 3"),
        (changed(CONTENT, "intervention", "module", value="heads"), "layers[0].target.head is None"),
        (changed(CONTENT, "intervention", "positions", value="first"), "intervention.positions is 'first': must be all, "),
        (changed(CONTENT, "layers", value=[]), "layers is empty"),
        (changed(CONTENT, "layers", 1, value=[]), "layers[1] is [], not an object"),
        (changed(CONTENT, "layers", 2, value=...), "documents[0].gold has 4 numbers instead of 3"),
        (changed(CONTENT, "layers", 0, "accuracy", "difference", "low", value=...), "layers[0].accuracy.difference has no 'low'"),
        (changed(CONTENT, "layers", 0, "sign", value="bad"), 'layers[0].sign is "bad", not one of useful'),
        (changed(CONTENT, "plain", "by_effect", value=[]), "plain.by_effect is [], not an object"),
        (changed(CONTENT, "documents", value=[]), "0 documents, but the file states 200"),
        (changed(CONTENT, "documents", value={}), "documents is {}, not a list"),
        (changed(CONTENT, "documents", 3, "gold", 0, value="x"), 'documents[3].gold[0] is "x", not a number'),
        (changed(CONTENT, "documents", 3, "gold", 0, value=2), "documents[3].gold has a number that is not a probability"),
        (changed(CONTENT, "settings", "level", value=None), "settings.level is nan, not from 0.5 to 0.999"),
        (changed(CONTENT, "settings", "seed", value=-1), "settings.seed is -1, not from 0 to"),
        (changed(CONTENT, "documents", 3, "gold", 0, value=None), "documents[3].gold has a number that is not a probability"),
        (changed(CONTENT, "documents", 3, "gold", value=[0.5]), "documents[3].gold has 1 numbers instead of 4"),
        (changed(CONTENT, "documents", 3, "gold", 0, value=10**400), "too large"),
    ],
)  # fmt: skip
def test_files_that_are_refused(text: str | dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "layers.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(InputError) as refused:
        read_layers(path)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("layers", 1, "evidence"), "harmful"),
        (("layers", 1, "sign"), "neutral"),
        (("layers", 0, "holm"), 0.0001),
        (("layers", 0, "accuracy", "difference", "points"), 40),
        (("layers", 0, "accuracy", "share", "percent"), 99.5),
        (("layers", 2, "mcnemar", "only_first"), 100),
        (("plain", "accuracy", "right"), 1),
    ],
)
def test_a_report_that_its_probabilities_do_not_give_is_refused(
    place: tuple[Any, ...], value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(changed(CONTENT, *place, value=value)))
    named = re.sub(r"\.(\d)", r"[\1]", ".".join(map(str, place)))
    with pytest.raises(InputError, match=re.escape(f"{path}: {named} is {value}, but")):
        read_layers(path)


def test_what_random_draws_gave_is_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "layers.json"
    place = ("layers", 0, "accuracy", "difference", "low")
    path.write_text(json.dumps(changed(CONTENT, *place, value=-99.5)))
    assert read_layers(path).to_json() == CONTENT


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            ("documents", 1, "row"),
            CONTENT["documents"][0]["row"],
            "a row is negative, or here twice",
        ),
        (("documents", 1, "row"), -5, "a row is negative, or here twice"),
        (("intervention", "seed"), 5, "intervention.seed is 5, with replacement zero"),
        (("intervention", "replacement"), "resample", "seed is None, with replacement resample"),
        (("model", "labels"), ["no", "no"], "model.labels has 1 values, not at least 2, each once"),
        (
            ("documents", 1, "answer"),
            "banana",
            "documents[1].answer is 'banana', not one of 'yes, no'",
        ),
        (("extra",), 1, "unknown 'extra'; write the file again"),
    ],
)
def test_what_no_sweep_writes_is_refused(
    tmp_path: Path, place: tuple[Any, ...], value: Any, message: str
) -> None:
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(changed(CONTENT, *place, value=value)))
    with pytest.raises(InputError, match=re.escape(message)):
        read_layers(path)


def test_answers_of_own_prompts_need_not_be_as_the_tokenizer_shows_them(tmp_path: Path) -> None:
    """A tokenizer may map characters, such as ✓ to `true`."""
    report = make_report(make_documents([1, 1], "own"), np.full((2, 2), 0.2))
    answered = [dataclasses.replace(document, answer="✓") for document in report.documents]
    report = dataclasses.replace(report, documents=tuple(answered))
    report.write(tmp_path / "layers.json")
    assert read_layers(tmp_path / "layers.json").documents == report.documents
    content = changed(report.to_json(), "documents", 1, "answer", value="")
    (tmp_path / "layers.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"documents\[1\]\.answer is empty"):
        read_layers(tmp_path / "layers.json")


def _to(**values: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda lines: lines[1].update(values)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda lines: lines.__setitem__(2, lines[1]), "are no pair, or here twice"),
        (lambda lines: lines[1].update(altered=lines[1]["original"]), "are no pair, or here twice"),
        (_to(original=-1), "are no pair, or here twice"),
        (lambda lines: lines[1].update(kept=not lines[1]["kept"]), "kept is .*, but the probabil"),
        (_to(kept="yes"), "kept is yes, but the probabilities of the pair give"),
        (_to(answer="banana"), "answer is 'banana', not one of 'yes, no'"),
        (_to(alteration="Banana"), "alteration is 'Banana', not one of Negation, Variable"),
        (_to(group=100), "rows .* are in group .* and in another one"),
        (lambda lines: [line.update(group=0) for line in lines[1:]], "group 0 has the originals"),
        (_to(original=999), "group .* has the originals 999 and "),
        (
            lambda lines: lines[0]["data"].update(documents=3),
            "line 1 states 3 documents, but the p",
        ),
        (
            lambda lines: lines[0]["data"].update(groups=1),
            "line 1 states 1 groups, but the pairs a",
        ),
        (lambda lines: lines[0]["data"].update(groups=-5), "line 1 states -5 groups"),
        (lambda lines: lines[0]["model"].update(labels=[]), "model.labels has 0 values, not at l"),
    ],
)
def test_pairs_that_contradict_the_rest_are_refused(
    edit: Callable[[list[dict[str, Any]]], None], message: str, tmp_path: Path
) -> None:
    lines = [json.loads(line) for line in (EXAMPLES / "patching.jsonl").read_text().splitlines()]
    edit(lines)
    path = tmp_path / "patching.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match=f"^{path}.*{message}.*; write the file again$"):
        read_patching(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"layers\.json: No such file"):
        read_layers(tmp_path / "layers.json")


SMALL = make_report(make_documents([2, 2]), np.full((4, 2), 0.2)).to_json()


def places(content: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items: list[tuple[Any, Any]] = []
    if isinstance(content, dict):
        items = list(content.items())
    elif isinstance(content, list):
        items = list(enumerate(content))
    return [one for key, value in items for one in [(*place, key), *places(value, (*place, key))]]


@given(
    place=st.sampled_from(places(SMALL)),
    value=st.sampled_from([..., None, True, -1, 1.5, "", [], {}, [[]], {"": 1}]),
)
def test_a_damaged_file_is_refused_in_a_line_or_read(
    place: tuple[Any, ...], value: Any, file: Path
) -> None:
    file.write_text(json.dumps(changed(SMALL, *place, value=value)))
    message = f"{file}: a report"
    try:
        read_layers(file)
    except InputError as error:
        message = str(error)
    assert message.startswith(f"{file}: ")
    assert "\n" not in message


# For people ---------------------------------------------------------------------------------------


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
    assert [row[1:4] + row[8:10] for row in rows[2:5]] == [
        ["0", "0.00", "-60.00", "useful", "useful"],
        ["1", "100.00", "+40.00", "harmful", "harmful"],
        ["2", "60.00", "+0.00", "neutral", "neutral"],
    ]
    assert "useful, by sign: 0\nharmful, by sign: 1\n" in text
    assert text.endswith("useful, both Holm p <= 0.05: 0\nharmful, both Holm p <= 0.05: 1")
    assert report.settings == QUICK


def test_a_reader_names_the_command_that_wrote_another_file(tmp_path: Path) -> None:
    layers, patching = EXAMPLES / "layers.json", EXAMPLES / "patching.jsonl"
    trace = tmp_path / "trace.json"
    trace.write_text('{\n  "schema": "pragworld-trace",\n  "version": 1\n}\n')
    writers = {
        layers: "ablate",
        patching: "patch",
        trace: "patch --row",
    }
    readers: dict[Path, Callable[[str], object]] = {
        layers: read_layers,
        patching: read_patching,
        trace: read_trace,
    }
    journal = tmp_path / ".layers.json.journal-0"
    journal.write_text('{"model": "m"}\n[0, [[0.5]]]\n')
    for own, read in readers.items():
        for path, writer in writers.items():
            message = (
                f"^{path}: written by `pragworld-interp {writer}`; give a file that "
                f"`pragworld-interp {writers[own]}` wrote$"
            )
            if path != own:
                with pytest.raises(InputError, match=message):
                    read(str(path))
        with pytest.raises(InputError, match=f"^{journal}: the journal of an unfinished sweep; re"):
            read(str(journal))
    with pytest.raises(InputError, match="written by `pragworld-interp patch`; give a file that"):
        LayerSettings(layers=str(patching)).layer_report()
