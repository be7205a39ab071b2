"""Agreement between models on which layers are useful and harmful, with tests.

Layers of different models are matched by relative depth: 0 for the first layer, 1 for the last. If
the numbers of layers differ, each layer of the shallower model is compared with the nearest one of
the deeper model.

The p of a measure is how often it is at least as large if the layers of one model are shifted in a
circle. Shifts keep the similarity of neighboring layers: two unrelated series of 32 layers with an
autocorrelation of 0.9 reach p <= 0.05 one time in 16, with permutations one time in four. There are
only as many shifts as layers, so no p is below 1 / layers.
"""

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.statistics import Bools, Floats, Ints, average_ranks
from pragworld_tasks.layers.ablation_report import LayerReport
from pragworld_tasks.layers.layer_statistics import By, holm
from pragworld_tasks.layers.report import check_same_sweep
from pragworld_tasks.layers.settings import Intervention, check_choice
from pragworld_tasks.text import format_number, format_p, markdown_table

_SCHEMA, _SCHEMA_VERSION = "pragworld-layer-comparison", 3
_TIE = 1e-9  # closer values are equal
_SMALL = 0.05


@dataclass(frozen=True)
class Similarity:
    """How similar models are, and how often chance makes them as similar; NaN if undefined.

    `holm` is that p, corrected over all pairs and measures by the method of Holm.
    """

    value: float
    p: float
    holm: float


@dataclass(frozen=True)
class ModelPair:
    """The comparison of two models.

    Attributes:
        correlation: The Spearman rank correlation of A_l - A_0. Undefined if all layers of a model
            have the same effect.
        useful, harmful: The Jaccard overlap of the sets of layers. Undefined if both are empty.
    """

    first: str
    second: str
    correlation: Similarity
    useful: Similarity
    harmful: Similarity


@dataclass(frozen=True)
class LayerComparison:
    """The comparison of several models swept on the same documents with the same intervention.

    It is the intervention of the first model; the others may have another seed.
    """

    fingerprint: str
    intervention: Intervention
    by: By
    layers: dict[str, int]
    pairs: tuple[ModelPair, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON data; null stands for undefined values."""
        content: dict[str, Any] = json.loads(TypeAdapter(LayerComparison).dump_json(self))
        return {"schema": _SCHEMA, "version": _SCHEMA_VERSION, **content}

    def to_text(self) -> str:
        """Return a Markdown table of the pairs, and which p stay small when they are corrected."""
        rows = []
        for pair in self.pairs:
            row = [f"{pair.first} and {pair.second}"]
            for similarity in (pair.correlation, pair.useful, pair.harmful):
                star = "*" if similarity.holm <= _SMALL else ""
                row += [format_number(similarity.value), format_p(similarity.p) + star]
            rows.append(row)
        title = (
            f"{self.intervention.name}, layers by {self.by}: Spearman correlation of effects, "
            "Jaccard overlap of sets; p by circular shifts of layers"
        )
        headers = ["models", "correlation", "p", "useful", "p", "harmful", "p"]
        least = format_p(1 / min(self.layers.values()))
        return (
            f"{markdown_table(title, headers, rows)}\n"
            f"*: at most {_SMALL} when all p of the table are corrected by Holm's method\n"
            f"With so few layers, no p can be below {least}."
        )


def compare_reports(
    layer_reports: Mapping[str, LayerReport], by: By = "evidence"
) -> LayerComparison:
    """Compare models by which of their layers are useful and harmful.

    Args:
        layer_reports: Reports by the name of each model.
        by: Whether the sign or the evidence decides the sets of layers.

    Raises:
        InputError: There are fewer than two reports, they are of different documents or
            interventions, or not of every layer.

    Examples:
        >>> from pragworld_tasks.layers import EXAMPLES
        >>> from pragworld_tasks.layers.ablation_report import read_layers
        >>> report = read_layers(EXAMPLES / "layers.json")
        >>> compare_reports({"before": report, "after": report}, "sign").pairs[0].correlation.p
        0.2
    """
    check_choice("by", by, By)
    if len(layer_reports) < 2:
        raise InputError(f"a comparison needs at least 2 layer reports, not {len(layer_reports)}")
    if partial := [name for name, report in layer_reports.items() if not report.is_whole]:
        raise InputError(
            f"{partial[0]}: not swept on every layer, each alone; sweep it without --layers"
        )
    first = check_same_sweep(layer_reports)
    measured = {
        pair: _measures(*(layer_reports[name] for name in pair), by=by)
        for pair in itertools.combinations(layer_reports, 2)
    }
    corrected = iter(holm([p for values in measured.values() for _, p in values]).tolist())
    return LayerComparison(
        fingerprint=first.data.fingerprint,
        intervention=first.intervention,
        by=by,
        layers={name: report.model.layers for name, report in layer_reports.items()},
        pairs=tuple(
            ModelPair(*pair, *(Similarity(value, p, next(corrected)) for value, p in values))
            for pair, values in measured.items()
        ),
    )


def _measures(*reports: LayerReport, by: By) -> list[tuple[float, float]]:
    """Return the value and the p of each measure of two models, in the order of `ModelPair`."""
    depths = min(report.model.layers for report in reports)
    effects, useful, harmful = [], [], []
    for report in reports:
        layers = [report.layers[number] for number in nearest_layers(report.model.layers, depths)]
        effects.append(np.array([layer.accuracy.points for layer in layers]))
        roles = np.array([getattr(layer, by) for layer in layers])
        useful.append(roles == "useful")
        harmful.append(roles == "harmful")
    return [correlate(*effects), _overlap(*useful), _overlap(*harmful)]


def nearest_layers(layers: int, depths: int) -> Ints:
    """Return which layers are nearest to equally spaced relative depths, [depths].

    Halfway between two layers, it is the lower one.
    """
    return np.ceil(np.linspace(0, layers - 1, depths) - 0.5 - _TIE).astype(np.int64)


def correlate(first: Floats, second: Floats) -> tuple[float, float]:
    """Return the Spearman correlation of two models, [depths] each, and its p."""
    ranks = np.stack([average_ranks(first), average_ranks(second)])
    ranks -= ranks.mean(axis=1, keepdims=True)
    lengths = np.sqrt(np.square(ranks).sum(axis=1))
    if not lengths.all():
        return math.nan, math.nan
    fixed, shifted = ranks / lengths[:, None]
    return _value_and_p(shifted[_shifts(len(second))] @ fixed)


def _overlap(first: Bools, second: Bools) -> tuple[float, float]:
    """Return the Jaccard overlap of two sets of depths, and its p."""
    shifted = second[_shifts(len(second))]
    union = (first | shifted).sum(axis=1)
    if not union.all():
        return math.nan, math.nan
    return _value_and_p((first & shifted).sum(axis=1) / union)


def _shifts(depths: int) -> Ints:
    """Return the circular shifts of layers, [shifts, depths]; the first is the order as it is."""
    return np.add.outer(np.arange(depths), np.arange(depths)) % depths


def _value_and_p(by_shift: Floats) -> tuple[float, float]:
    """Return the first value, and the share of all values that are at least as great."""
    return float(by_shift[0]), float((by_shift >= by_shift[0] - _TIE).mean())
