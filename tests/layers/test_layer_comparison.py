"""The comparison of layers between models against SciPy, scikit-learn and plain loops."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
from layer_reports import random_report
from scipy.stats import spearmanr
from sklearn.metrics import jaccard_score

from pragworld_tasks.evaluation.statistics import Floats
from pragworld_tasks.layers.ablation_report import LayerReport
from pragworld_tasks.layers.comparison import (
    LayerComparison,
    compare_reports,
    nearest_layers,
)
from pragworld_tasks.layers.layer_statistics import holm
from pragworld_tasks.layers.settings import Target, every_layer
from pragworld_tasks.text import format_number, format_p

BASE = random_report(1)


def with_effects(effects: Floats) -> LayerReport:
    """Return a report whose layers have these effects, in points, and signs to match."""
    (layer,) = BASE.layers
    layers = tuple(
        dataclasses.replace(
            layer,
            target=Target((number,)),
            accuracy=dataclasses.replace(layer.accuracy, points=float(effect)),
            sign="useful" if effect < 0 else "harmful" if effect > 0 else "neutral",
            evidence="harmful" if effect > 1 else "neutral",
        )
        for number, effect in enumerate(effects)
    )
    report = dataclasses.replace(
        BASE,
        model=dataclasses.replace(BASE.model, layers=len(effects)),
        targets=every_layer(len(effects)),
        documents=(dataclasses.replace(BASE.documents[0], gold=(0.5,) * (1 + len(effects))),),
    )
    vars(report)["_statistics"] = BASE.plain, layers  # instead of what the documents give
    return report


def compare_effects(*effects: Floats) -> LayerComparison:
    return compare_reports(
        {f"m{number}": with_effects(own) for number, own in enumerate(effects)}, by="sign"
    )


def test_evidence_gives_its_own_sets() -> None:
    effects = np.array([-3.0, 0.5, 2.0, 3.0, 0.0])
    reports = {"a": with_effects(effects), "b": with_effects(effects[::-1])}
    (by_sign,) = compare_reports(reports, by="sign").pairs
    (by_evidence,) = compare_reports(reports, by="evidence").pairs
    assert by_sign.harmful.value == 1
    assert by_evidence.harmful.value == pytest.approx(1 / 3)
    assert math.isnan(by_evidence.useful.value)
    assert math.isnan(by_evidence.useful.p)


def test_models_of_different_depth_meet_at_relative_depths() -> None:
    def curve(layers: int) -> Floats:
        return np.square(np.linspace(0, 1, layers)) - 0.4

    (pair,) = compare_effects(curve(31), curve(12)).pairs
    assert pair.correlation.value == pytest.approx(1)
    assert pair.useful.value == pytest.approx(1)
    nearest = [nearest_layers(4, depths).tolist() for depths in (1, 2, 3, 4)]
    assert nearest == [[0], [0, 3], [0, 1, 3], [0, 1, 2, 3]]  # 1.5 goes down


def test_models_without_any_effect_have_no_correlation() -> None:
    comparison = compare_effects(np.zeros(5), np.arange(5.0), np.arange(5.0))
    assert math.isnan(comparison.pairs[0].correlation.value)
    assert json.dumps(comparison.to_json(), allow_nan=False)
    assert "|           - |" in comparison.to_text()
    one_layer = compare_effects(np.ones(1), np.ones(3))
    assert math.isnan(one_layer.pairs[0].correlation.value)


def test_values_and_p_of_shifts_by_hand() -> None:
    first, second = np.random.default_rng(5).integers(-3, 4, size=(2, 17)).astype(float)
    shifted = [np.roll(second, shift) for shift in range(17)]
    (pair,) = compare_effects(first, second).pairs
    by_measure = {
        pair.correlation: [spearmanr(first, effects).statistic for effects in shifted],
        pair.useful: [jaccard_score(first < 0, effects < 0) for effects in shifted],
        pair.harmful: [jaccard_score(first > 0, effects > 0) for effects in shifted],
    }
    for found, values in by_measure.items():
        assert found.value == pytest.approx(values[0])
        assert found.p == pytest.approx(np.mean([one >= values[0] - 1e-12 for one in values]))


def test_json_and_text_say_the_same_and_all_p_are_corrected_together() -> None:
    reports = {name: random_report(12, seed=seed) for seed, name in enumerate("abc")}
    seeded = dataclasses.replace(BASE.intervention, seed=1)  # which makes no difference
    reports["d"] = dataclasses.replace(reports["a"], intervention=seeded)
    comparison = compare_reports(reports, by="sign")
    content, text = comparison.to_json(), comparison.to_text()
    assert (content["schema"], content["layers"]["d"]) == ("pragworld-layer-comparison", 12)
    measures = []
    for pair, written in zip(comparison.pairs, content["pairs"], strict=True):
        assert json.dumps(dataclasses.asdict(pair)).replace("NaN", "null") == json.dumps(written)
        cells = [f"{pair.first} and {pair.second}"]
        for found in (pair.correlation, pair.useful, pair.harmful):
            measures.append(found)
            cells += [format_number(found.value), format_p(found.p) + "*" * (found.holm <= 0.05)]
        assert f"| {' | '.join(cells)} |" in re.sub(" +", " ", text)
    corrected = holm([measure.p for measure in measures])
    np.testing.assert_equal([measure.holm for measure in measures], corrected)
    same = np.random.default_rng(0).normal(size=80)
    assert " 0.0125* |" in compare_effects(same, same).to_text()
    assert text.endswith("\nWith so few layers, no p can be below 0.0833.")
