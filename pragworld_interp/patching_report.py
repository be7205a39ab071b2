"""Direct effects of every pair: their file, and their averages over pairs.

A pair is kept (the paper's D') where the altered prompt is answered right, and otherwise than the
original (SPEC, section 2; PragWorld paper, section 6.1).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from pragworld_interp.layer_report import DataIdentity, ModelIdentity
from pragworld_interp.serialization import check_schema, decoded, encoded
from pragworld_tasks.data.documents import ALTERATIONS, Answer
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation import reports
from pragworld_tasks.evaluation.metrics import LEVEL, bootstrap_intervals, tally
from pragworld_tasks.files import read_json_lines, read_text, write_whole

# Which of the aligned positions are patched: all, or those that hold the dialogue.
Positions = Literal["all", "dialogue"]

SCHEMA = "pragworld-patching"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class PairEffect:
    """A pair of an original and an altered variant, patched at every layer.

    Attributes:
        group: of both.
        original, altered: their rows in the split.
        alteration: its category.
        answer: gold answer of the altered prompt; all probabilities are of this answer.
        original_run, altered_run: in the plain runs: OR and AR.
        patched: in the original, patched at the input of each layer.
    """

    group: int
    original: int
    altered: int
    alteration: str | None
    answer: Answer
    original_run: float
    altered_run: float
    patched: tuple[float, ...]

    @property
    def kept(self) -> bool:
        """Whether the altered prompt is answered right, and the original otherwise (D')."""
        return self.altered_run > 0.5 > self.original_run


@dataclass(frozen=True)
class PatchingReport:
    """One model, one split, all pairs.

    Attributes:
        positions: which were patched.
    """

    model: ModelIdentity
    data: DataIdentity
    positions: Positions
    pairs: tuple[PairEffect, ...]


@dataclass(frozen=True)
class PatchedProbability:
    """One model's patching, over pairs or for one pair.

    Attributes:
        layers: [points] at whose input the residual stream was patched, ascending; the number
            behind the last layer's stands for the final residual.
        probability: [points] p of the altered prompt's gold label in the patched original run.
        low, high: [points] the ends of its `metrics.LEVEL` interval; None for one pair.
        original_run, altered_run: that probability in the two plain runs, OR and AR.
    """

    layers: Sequence[int]
    probability: Sequence[float]
    low: Sequence[float] | None
    high: Sequence[float] | None
    original_run: float
    altered_run: float


def averages(pairs: Sequence[PairEffect], seed: int = 0) -> PatchedProbability:
    """Means over pairs, with intervals by bootstrap over groups.

    Args:
        pairs: at least one.
        seed: of the bootstrap.
    """
    group = np.unique([pair.group for pair in pairs], return_inverse=True)[1]
    everywhere = np.ones(len(pairs))
    patched = np.array([pair.patched for pair in pairs])
    tallies = {layer: tally(column, everywhere, group) for layer, column in enumerate(patched.T)}
    intervals = bootstrap_intervals(tallies, seed=seed)
    return PatchedProbability(
        layers=list(tallies),
        probability=patched.mean(0).tolist(),
        low=[interval.low for interval in intervals.values()],
        high=[interval.high for interval in intervals.values()],
        original_run=float(np.mean([pair.original_run for pair in pairs])),
        altered_run=float(np.mean([pair.altered_run for pair in pairs])),
    )


def kept_by_alteration(report: PatchingReport) -> dict[str, list[PairEffect]]:
    """The pairs that are kept: all of them, then those of every alteration that has any."""
    kept = [pair for pair in report.pairs if pair.kept]
    found = {"all": kept}
    for name in ALTERATIONS:
        found[name] = [pair for pair in kept if pair.alteration == name]
    return {name: pairs for name, pairs in found.items() if pairs}


def to_text(report: PatchingReport) -> str:
    """Direct effects by layer, over all pairs kept, and where they are largest by alteration."""
    groups = kept_by_alteration(report)
    title = (
        f"{report.model.name}, residuals patched at {report.positions} aligned positions: "
        f"{report.data.split}, {len(report.pairs)} pairs, {len(groups.get('all', ()))} kept"
    )
    if not groups:
        return f"{title}: none is answered right where the original is answered otherwise"
    mean = averages(groups["all"])
    assert mean.low is not None
    assert mean.high is not None
    headers = ["layer", "p patched", f"{LEVEL:.0%} interval", "direct effect"]
    rows = [
        [
            str(layer),
            f"{p:.3f}",
            f"[{low:.3f}, {high:.3f}]",
            f"{p - mean.original_run:+.3f}",
        ]
        for layer, p, low, high in zip(
            mean.layers, mean.probability, mean.low, mean.high, strict=True
        )
    ]
    by_layer = reports.table(
        f"{title}; OR {mean.original_run:.3f}, AR {mean.altered_run:.3f}", headers, rows
    )
    rows = []
    for name, pairs in groups.items():
        mean = averages(pairs)
        effects = np.asarray(mean.probability) - mean.original_run
        largest = int(effects.argmax())
        rows.append(
            [
                *[name, str(len(pairs)), f"{mean.original_run:.3f}", f"{mean.altered_run:.3f}"],
                *[str(largest), f"{effects[largest]:+.3f}"],
            ]
        )
    headers = ["alteration", "pairs", "OR", "AR", "largest at layer", "direct effect"]
    return "\n".join([by_layer, reports.table("by alteration", headers, rows)])


# The file -----------------------------------------------------------------------------------------


def write_effects(report: PatchingReport, path: Path) -> None:
    """Writes JSON lines, all of it or nothing: what was run, then a pair a line.

    Raises:
        InputError: it cannot be written there.
    """
    head = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "model": encoded(report.model),
        "data": encoded(report.data),
        "positions": report.positions,
        "pairs": len(report.pairs),
    }
    lines = [head, *({**encoded(pair), "kept": pair.kept} for pair in report.pairs)]
    text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
    write_whole(path, text.encode())


def are_effects(path: Path) -> bool:
    """Whether the file begins as those of `write_effects` do, of whatever version.

    Raises:
        InputError: it cannot be read.
    """
    return f'"{SCHEMA}"' in read_text(path).partition("\n")[0]


def read_effects(path: Path) -> PatchingReport:
    """The report that `write_effects` wrote.

    Raises:
        InputError: there is none in this file, or not one that this version reads.
    """
    (_, head), *rest = read_json_lines(path)
    check_schema(path, head, SCHEMA, SCHEMA_VERSION, "pragworld-interp patch")
    try:
        model = decoded(ModelIdentity, head.get("model"), "model")
        data = decoded(DataIdentity, head.get("data"), "data")
        positions = decoded(Positions, head.get("positions"), "positions")
    except ValueError as error:
        raise InputError(f"{path}, line 1: {error}; make the file again") from error
    pairs = []
    for where, record in rest:
        try:
            pair: PairEffect = decoded(PairEffect, _without_kept(record), "")
        except ValueError as error:
            where.refuse(f"{error}; make the file again")
        if len(pair.patched) != model.layers:
            where.refuse(f"{len(pair.patched)} layers where the model has {model.layers}")
        pairs.append(pair)
    if head.get("pairs") != len(pairs):
        raise InputError(f"{path}: {len(pairs)} pairs of {head.get('pairs')}; is the file cut off?")
    return PatchingReport(model, data, positions, tuple(pairs))


def _without_kept(record: Mapping[str, object]) -> dict[str, object]:
    """The record without what follows from the rest and stands there for people."""
    return {name: value for name, value in record.items() if name != "kept"}
