"""Agreement between models on which layers are useful and harmful, with tests.

Layers of different models are matched by relative depth: 0 for the first layer, 1 for the last. If
the numbers of layers differ, the deeper model is read at the depths of the shallower one: effects
A_l - A_0 are interpolated, and sets of layers are those of the nearest layers.

The p of a measure is how often it is at least as large if the layers of one model are shifted in a
circle. Shifts keep the similarity of neighboring layers, by which two models can agree on a
stretch of layers by one coincidence: two unrelated series of 32 layers with an autocorrelation of
0.9 reach p <= 0.05 one time in 16. Permutations would take one time in four. There are only as many
shifts as layers, so no p of a pair is below 1 / layers; several models together, each shifted
independently, can go below.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import Bools, Floats, Ints, average_ranks
from pragworld_tasks.layers.ablation_report import LayerReport, check_same_sweep, p_text
from pragworld_tasks.layers.layer_statistics import By, Role, holm
from pragworld_tasks.layers.settings import Intervention, check_choice
from pragworld_tasks.text import format_number, markdown_table

_SCHEMA, _SCHEMA_VERSION = "pragworld-layer-comparison", 2
DRAWS = 10_000  # of shifts of several models together, if there are too many to use all
_TIE = 1e-9  # closer values are equal
_SMALL = 0.05
_MEASURES = ("correlation", "useful", "harmful")


@dataclass(frozen=True)
class Similarity:
    """How similar models are, and how often chance makes them at least as similar.

    Attributes:
        value: The measure.
        p: How often chance makes it at least as great.
        holm: That p, corrected over all pairs and measures of the comparison by the method of
            Holm. All three are NaN where the measure is undefined.
    """

    value: float
    p: float
    holm: float


@dataclass(frozen=True)
class ModelPair:
    """The comparison of two models.

    Attributes:
        first, second: The names of the models.
        depths: The number of relative depths: the layers of the shallower model.
        correlation: The Spearman rank correlation of A_l - A_0. Undefined if all layers of a model
            have the same effect.
        useful, harmful: The Jaccard overlap of the sets of layers. Undefined if both are empty.
    """

    first: str
    second: str
    depths: int
    correlation: Similarity
    useful: Similarity
    harmful: Similarity


@dataclass(frozen=True)
class LayerComparison:
    """The comparison of several models swept on the same documents with the same intervention.

    Attributes:
        fingerprint: The fingerprint of the documents.
        intervention: The intervention of the first model; the others may have another seed.
        by: Whether the sign or the evidence decides the sets of layers.
        layers: The number of layers of each model.
        pairs: Every pair of models. Each p is of that pair alone.
        together: The mean rank correlation over all pairs, at the depths of the shallowest model,
            with every model shifted independently; None for two models.
    """

    fingerprint: str
    intervention: Intervention
    by: By
    layers: dict[str, int]
    pairs: tuple[ModelPair, ...]
    together: Similarity | None

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON data; null stands for undefined values."""
        content: dict[str, Any] = json.loads(TypeAdapter(LayerComparison).dump_json(self))
        return {"schema": _SCHEMA, "version": _SCHEMA_VERSION, **content}

    def to_text(self) -> str:
        """Return a Markdown table of the pairs, and a line for all models together."""
        rows, small = [], []
        for pair in self.pairs:
            names = f"{pair.first} and {pair.second}"
            row = [names, str(pair.depths)]
            for measure in _MEASURES:
                similarity: Similarity = getattr(pair, measure)
                row += [format_number(similarity.value), p_text(similarity.p)]
                if similarity.holm <= _SMALL:
                    small.append(f"{measure} of {names} ({p_text(similarity.holm)})")
            rows.append(row)
        title = (
            f"{self.intervention.name}, layers by {self.by}: Spearman correlation of effects, "
            "Jaccard overlap of sets; p by circular shifts of layers"
        )
        headers = ["models", "depths", *(name for of in _MEASURES for name in (of, "p"))]
        fewest = min(pair.depths for pair in self.pairs)
        lines = [
            markdown_table(title, headers, rows),
            f"corrected over all p of the table by Holm's method, at most {_SMALL}: "
            f"{', '.join(small) or 'none'}",
            f"with {fewest} depths, no p of a pair can be below {p_text(1 / fewest)}",
        ]
        if self.together:
            value, p = format_number(self.together.value), p_text(self.together.p)
            lines.append(f"all models together: mean correlation {value}, p = {p}")
        return "\n".join(lines)


def compare_reports(
    layer_reports: Mapping[str, LayerReport], by: By = "evidence"
) -> LayerComparison:
    """Compare models by which of their layers are useful and harmful.

    Args:
        layer_reports: Reports by the name of each model; see `read_layer_files`.
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
    effects = {
        name: np.array([layer.accuracy.difference.points for layer in report.layers])
        for name, report in layer_reports.items()
    }
    pairs = []
    for names in itertools.combinations(layer_reports, 2):
        depths = min(len(effects[name]) for name in names)
        correlation = correlate([effects[name] for name in names])
        useful, harmful = (
            _overlap(*(_members(layer_reports[name], role, by, depths) for name in names))
            for role in ("useful", "harmful")
        )
        pairs.append(ModelPair(*names, depths, correlation, useful, harmful))
    return LayerComparison(
        fingerprint=first.data.fingerprint,
        intervention=first.intervention,
        by=by,
        layers={name: len(points) for name, points in effects.items()},
        pairs=tuple(_corrected(pairs)),
        together=correlate(list(effects.values())) if len(effects) > 2 else None,
    )


def _corrected(pairs: Sequence[ModelPair]) -> list[ModelPair]:
    """Return the pairs with the p of all their measures corrected together."""
    p = [getattr(pair, measure).p for pair in pairs for measure in _MEASURES]
    tested = ~np.isnan(p)
    corrected = np.full(len(p), math.nan)
    corrected[tested] = holm(np.array(p)[tested])
    values = iter(corrected.tolist())
    return [
        replace(pair, **{m: replace(getattr(pair, m), holm=next(values)) for m in _MEASURES})
        for pair in pairs
    ]


def shifts(depths: int) -> Ints:
    """Return the circular shifts of layers, [shifts, depths]; the first is the order as it is."""
    shifted: Ints = (np.arange(depths) + np.arange(depths)[:, None]) % depths
    return shifted


def interpolate_effects(effects: Floats, depths: int) -> Floats:
    """Return [layers] effects at equally spaced relative depths, [depths]."""
    if len(effects) == depths:
        return effects
    targets, sources = (np.linspace(0, 1, number) for number in (depths, len(effects)))
    # Rounded, because interpolation of equal effects gives almost equal ones, which would rank.
    return np.round(np.interp(targets, sources, effects), 9)


def nearest_layers(members: Bools, depths: int) -> Bools:
    """Return a [layers] set at equally spaced relative depths, [depths].

    Halfway between two layers, the lower one counts.
    """
    position = np.linspace(0, 1, depths) * (len(members) - 1)
    nearest: Bools = members[np.ceil(position - 0.5 - _TIE).astype(np.int64)]
    return nearest


def correlate(effects: Sequence[Floats], draws: int = DRAWS) -> Similarity:
    """Return the mean Spearman correlation over pairs of models, [layers] each.

    All models but the first are shifted: in all ways, or in `draws` random ones if these are fewer.
    """
    models, depths = len(effects), min(map(len, effects))
    ranks = np.stack([average_ranks(interpolate_effects(points, depths)) for points in effects])
    ranks -= ranks.mean(axis=1, keepdims=True)
    lengths = np.sqrt(np.square(ranks).sum(axis=1, keepdims=True))
    if not lengths.all():
        return Similarity(math.nan, math.nan, math.nan)
    ranks /= lengths
    picks = np.random.default_rng(0).integers(depths, size=(models - 1, draws))
    picks[:, 0] = 0  # as it is
    if models == 2 or depths ** (models - 1) <= draws:
        picks = np.indices((depths,) * (models - 1)).reshape(models - 1, -1)
    table = shifts(depths)
    sums = ranks[0] + sum(
        vector[table[pick]] for vector, pick in zip(ranks[1:], picks, strict=True)
    )
    # The squared length of a sum of unit vectors: `models`, and each pair's correlation twice.
    return _similarity((np.square(sums).sum(axis=1) - models) / (models * (models - 1)))


def _overlap(first: Bools, second: Bools) -> Similarity:
    """Return the Jaccard overlap of two sets of depths; the second is shifted."""
    shifted = second[shifts(len(second))]
    union = (first | shifted).sum(axis=1)
    if not union.all():
        return Similarity(math.nan, math.nan, math.nan)
    return _similarity((first & shifted).sum(axis=1) / union)


def _similarity(values: Floats) -> Similarity:
    """Return the first value and the share of all values that are at least as great."""
    p = float((values >= values[0] - _TIE).mean())
    return Similarity(float(values[0]), p, p)


def _members(report: LayerReport, role: Role, by: By, depths: int) -> Bools:
    members = np.zeros(len(report.layers), dtype=np.bool_)
    members[report.selected(role, by)] = True
    return nearest_layers(members, depths)
