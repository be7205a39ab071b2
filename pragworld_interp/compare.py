"""Do useful and harmful layers agree across models? The papers leave it open.

Layers of different models are compared by relative depth: 0 for the first layer, 1 for the last.
Where the numbers of layers differ, the model with more is read at the depths of the one with fewer:
its effects A_l - A_0 are interpolated, and its sets of layers are those of the nearest layers.

What chance would give depends on what is taken for chance. Effects of neighbouring layers resemble
each other, so two models can agree on a stretch of layers by one coincidence. Permuting layers one
by one destroys that resemblance: two unrelated series of 32 layers with an autocorrelation of 0.9
then come out alike at p <= 0.05 about one time in four. Circular shifts, the default, keep each
model's series and only break how the two are aligned; such series come out alike one time in 16.
Their price is that there are only as many as layers: no p of a pair can be under 1 / layers. Only
several models together, each shifted by itself, can go below. Permutations can be asked for.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pragworld_interp.layer_report import (
    By,
    Intervention,
    LayerReport,
    Role,
    selected,
)
from pragworld_interp.layer_tables import p_text
from pragworld_interp.serialization import encoded
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation import reports
from pragworld_tasks.evaluation.metrics import Bools, Floats, Ints

Null = Literal["shift", "permutation"]

_ROLES: tuple[Role, ...] = ("useful", "harmful")
SCHEMA = "pragworld-layer-comparison"
SCHEMA_VERSION = 1
DRAWS = 10_000
_TIE = 1e-9  # closer than this is equal


@dataclass(frozen=True)
class Agreement:
    """How alike models are, and how often chance makes them as alike or more; NaN if undefined."""

    value: float
    p: float


@dataclass(frozen=True)
class Pair:
    """Two models.

    Attributes:
        first, second: their names.
        depths: how many relative depths they are compared at: the layers of the one with fewer.
        correlation: Spearman rank correlation of A_l - A_0. Undefined where all layers of one
            have the same effect.
        useful, harmful: Jaccard overlap of the sets of layers: layers in both out of layers in
            either. Undefined where both are empty.
    """

    first: str
    second: str
    depths: int
    correlation: Agreement
    useful: Agreement
    harmful: Agreement


@dataclass(frozen=True)
class LayerComparison:
    """Several models swept on the same documents by the same intervention.

    Attributes:
        fingerprint: of the documents.
        intervention: of the first model; the others may have had another seed.
        by: what the sets of layers were read off.
        null: what was taken for chance.
        draws, seed: of rearrangements, where not all are gone through.
        layers: how many layers each model has.
        pairs: every two of them. Each p is of that pair alone.
        together: mean rank correlation over all pairs, at the depths of the model with the fewest
            layers, every model being rearranged by itself; None for two models.
    """

    fingerprint: str
    intervention: Intervention
    by: By
    null: Null
    draws: int
    seed: int
    layers: dict[str, int]
    pairs: tuple[Pair, ...]
    together: Agreement | None


def compare(
    layer_reports: Mapping[str, LayerReport],
    by: By = "sign",
    null: Null = "shift",
    draws: int = DRAWS,
    seed: int = 0,
) -> LayerComparison:
    """How far the models agree on which layers help and which hurt.

    Args:
        layer_reports: by the name that messages and tables call each; see `layers.titles`.
        by: whether sets of layers are read off the sign or off the evidence.
        null: what is taken for chance: circular shifts, or permutations of the layers.
        draws: how many rearrangements to draw, where there are too many to go through.
        seed: of the draws.

    Raises:
        InputError: fewer than two reports, or reports of different documents or interventions.
    """
    if len(layer_reports) < 2:
        raise InputError(f"{len(layer_reports)} layer reports; a comparison takes at least two")
    check_comparable(layer_reports)
    first = next(iter(layer_reports.values()))
    effects = {name: _effects(report) for name, report in layer_reports.items()}
    pairs = []
    for one, other in itertools.combinations(layer_reports, 2):
        depths = min(len(effects[one]), len(effects[other]))
        table = rearrangements(depths, null, draws, seed)
        useful, harmful = (
            _overlap(
                nearest(_members(layer_reports[one], role, by), depths),
                nearest(_members(layer_reports[other], role, by), depths),
                table,
            )
            for role in _ROLES
        )
        correlation = _correlation([effects[one], effects[other]], table, draws, seed)
        pairs.append(Pair(one, other, depths, correlation, useful, harmful))
    together = None
    if len(effects) > 2:
        table = rearrangements(min(map(len, effects.values())), null, draws, seed)
        together = _correlation(list(effects.values()), table, draws, seed)
    return LayerComparison(
        fingerprint=first.data.fingerprint,
        intervention=first.intervention,
        by=by,
        null=null,
        draws=draws,
        seed=seed,
        layers={name: len(found) for name, found in effects.items()},
        pairs=tuple(pairs),
        together=together,
    )


def check_comparable(layer_reports: Mapping[str, LayerReport]) -> None:
    """Makes sure that all reports are of the same documents and by the same intervention.

    Raises:
        InputError: they are not.
    """
    (name, first), *others = layer_reports.items()
    for other_name, other in others:
        if other.data.fingerprint != first.data.fingerprint:
            raise InputError(
                f"{other_name} was asked about other documents ({_data(other)}) than {name} "
                f"({_data(first)}); sweep both on the same"
            )
        if other.intervention.name != first.intervention.name:
            raise InputError(
                f"{other_name} was swept by {other.intervention.name} and {name} by "
                f"{first.intervention.name}; sweep both by the same"
            )


def rearrangements(depths: int, null: Null, draws: int, seed: int) -> Ints:
    """What chance does to the order of layers: [rearrangements, depths], the first as it was.

    All of them where there are no more than `draws`, and all circular shifts in any case.
    """
    as_it_was = np.arange(depths)
    if null == "shift":
        shifts: Ints = (as_it_was + as_it_was[:, None]) % depths
        return shifts
    if math.factorial(depths) <= draws:
        return np.array(list(itertools.permutations(range(depths))), dtype=np.int64)
    drawn = np.random.default_rng(seed).permuted(np.tile(as_it_was, (draws, 1)), axis=1)
    return np.concatenate([as_it_was[None], drawn])


def interpolated(effects: Floats, depths: int) -> Floats:
    """Effects of layers, [layers], at equally spaced relative depths, [depths]."""
    if len(effects) == depths:
        return effects
    there, here = (np.linspace(0, 1, number) for number in (depths, len(effects)))
    # Rounded, since interpolation of equal effects would give almost equal ones, and those ranks.
    return np.round(np.interp(there, here, effects), 9)


def nearest(members: Bools, depths: int) -> Bools:
    """The same of a set: [layers] to [depths]. Between two layers, the lower one counts."""
    position = np.linspace(0, 1, depths) * (len(members) - 1)
    found: Bools = members[np.ceil(position - 0.5 - _TIE).astype(np.int64)]
    return found


def _correlation(effects: Sequence[Floats], table: Ints, draws: int, seed: int) -> Agreement:
    """Mean Spearman correlation over all pairs, all models but the first being rearranged."""
    from scipy.stats import rankdata  # slow to import, and only this needs it

    models, depths = len(effects), table.shape[1]
    ranks = np.stack([rankdata(interpolated(one, depths)) for one in effects])
    ranks -= ranks.mean(axis=1, keepdims=True)
    lengths = np.sqrt(np.square(ranks).sum(axis=1, keepdims=True))
    if not lengths.all():
        return Agreement(math.nan, math.nan)
    ranks /= lengths
    sums = ranks[0] + sum(
        one[table[picked]]
        for one, picked in zip(ranks[1:], _picks(len(table), models - 1, draws, seed), strict=True)
    )
    # The squared length of a sum of unit vectors: `models`, and each pair's correlation twice.
    correlations = (np.square(sums).sum(axis=1) - models) / (models * (models - 1))
    return _agreement(correlations)


def _picks(size: int, models: int, draws: int, seed: int) -> Ints:
    """Which rearrangement each model gets: [models, draws], first the one that changes nothing."""
    if models == 1 or size**models <= draws:
        return np.indices((size,) * models).reshape(models, -1)
    drawn = np.random.default_rng(seed).integers(size, size=(models, draws))
    return np.concatenate([np.zeros((models, 1), dtype=np.int64), drawn], axis=1)


def _overlap(one: Bools, other: Bools, table: Ints) -> Agreement:
    """Jaccard overlap of two sets of depths, the second being rearranged."""
    rearranged = other[table]
    either = (one | rearranged).sum(axis=1)
    if not either.all():
        return Agreement(math.nan, math.nan)
    return _agreement((one & rearranged).sum(axis=1) / either)


def _agreement(values: Floats) -> Agreement:
    """The first value, and how many of all are at least as great; itself counts as one."""
    return Agreement(float(values[0]), float((values >= values[0] - _TIE).mean()))


def _effects(report: LayerReport) -> Floats:
    return np.array([layer.accuracy.difference.points for layer in report.layers])


def _members(report: LayerReport, role: Role, by: By) -> Bools:
    members = np.zeros(len(report.layers), dtype=np.bool_)
    members[selected(report, role, by)] = True
    return members


def _data(report: LayerReport) -> str:
    data = report.data
    return f"{data.split}, {data.documents} documents, fingerprint {data.fingerprint[:8]}"


def to_json(comparison: LayerComparison) -> dict[str, Any]:
    """The comparison as JSON has it: its fields by name; null for what is not defined."""
    content: dict[str, Any] = encoded(comparison)
    return {"schema": SCHEMA, "version": SCHEMA_VERSION, **content}


def to_text(comparison: LayerComparison) -> str:
    """The pairs as a Markdown table, and all models together in a line."""
    shown = [
        [
            f"{pair.first} and {pair.second}",
            str(pair.depths),
            *_cells(pair.correlation),
            *_cells(pair.useful),
            *_cells(pair.harmful),
        ]
        for pair in comparison.pairs
    ]
    chance = {"shift": "circular shifts", "permutation": "permutations"}[comparison.null]
    pairs = reports.table(
        f"{comparison.intervention.name}, layers by {comparison.by}: Spearman correlation of "
        f"effects, Jaccard overlap of sets; p by {chance} of layers",
        ["models", "depths", "correlation", "p", "useful", "p", "harmful", "p"],
        shown,
    )
    lines = [pairs]
    if comparison.null == "shift":
        fewest = min(pair.depths for pair in comparison.pairs)
        lines.append(f"with {fewest} depths, no p of a pair can be under {p_text(1 / fewest)}")
    if comparison.together:
        value, p = _cells(comparison.together)
        lines.append(f"all models together: mean correlation {value}, p = {p}")
    return "\n".join(lines)


def _cells(agreement: Agreement) -> tuple[str, str]:
    value = "-" if math.isnan(agreement.value) else f"{agreement.value:.3f}"
    return value, p_text(agreement.p)
