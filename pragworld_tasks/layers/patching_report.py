"""The report of a patching sweep: the direct effects of each pair, their file and their averages.

A pair is kept (D' in the PragWorld paper, section 6.1) if the altered prompt is answered correctly
and the original prompt gets another answer.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.evaluation.metrics import LEAST_GROUPS, LEVEL, bootstrap_intervals, tally
from pragworld_tasks.files import check_output, write_whole
from pragworld_tasks.layers.identities import DataIdentity, ModelIdentity
from pragworld_tasks.layers.positions import describe_positions
from pragworld_tasks.layers.serialization import DIGITS, encode
from pragworld_tasks.text import format_number, markdown_table

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = "pragworld-patching"
SCHEMA_VERSION = 2

# Every layer patched in a run of its own, or estimated; see `attribution`.
Method = Literal["exact", "attribution"]
CHECKED_PAIRS = 16  # on which estimates are compared with exact patching


@dataclass(frozen=True)
class PairEffect:
    """An original and an altered variant, and the probabilities with each layer patched.

    Attributes:
        group: The group of both documents.
        original, altered: Their rows in the split.
        alteration: The category of the alteration.
        answer: The gold answer y of the altered prompt. All probabilities are p(y).
        original_run, altered_run: p(y) in the plain runs, OR and AR.
        patched: p(y) in the original run, patched at the input of each layer.
    """

    group: int
    original: int
    altered: int
    alteration: str | None
    answer: str
    original_run: float
    altered_run: float
    patched: tuple[float, ...]

    @property
    def kept(self) -> bool:
        """Whether only the altered prompt gets the altered prompt's gold answer (D')."""
        return self.altered_run > 0.5 > self.original_run


@dataclass(frozen=True)
class PatchedProbability:
    """The probability that patching leads to, for one pair or averaged over pairs.

    Attributes:
        layers: [points] the layers at whose input the residual stream is patched, ascending. The
            number after the last layer stands for the final residual.
        probability: [points] p of the altered prompt's gold answer in the patched original run.
        low, high: [points] the ends of its `metrics.LEVEL` interval; None for pairs of one group.
        original_run, altered_run: That probability in the plain runs, OR and AR.
        pairs: How many pairs there are.
    """

    layers: Sequence[int]
    probability: Sequence[float]
    low: Sequence[float] | None
    high: Sequence[float] | None
    original_run: float
    altered_run: float
    pairs: int = 1


@dataclass(frozen=True)
class Agreement:
    """How estimated probabilities agree with those of patching, on a sample of pairs.

    Attributes:
        pairs: The number of pairs.
        correlation: The correlation over layers of the mean probabilities; NaN if the model has one
            layer, or if either is the same at every layer.
        difference: The mean absolute difference of probabilities over pairs and layers.
    """

    pairs: int
    correlation: float
    difference: float

    def to_text(self) -> str:
        """Return the agreement as a line."""
        return (
            f"agreement with exact patching on {self.pairs} pairs: correlation over layers "
            f"{format_number(self.correlation)}, mean absolute difference of p "
            f"{self.difference:.3f}\n"
        )


@dataclass(frozen=True)
class PatchingReport:
    """The report of one model and one set of documents.

    Attributes:
        model: The model that was swept.
        data: The documents that the pairs are from.
        positions: The positions that were patched; see `positions.PARTS_OF_PAIRS`.
        pairs: The effects of each pair, kept or not.
        method: How the probabilities in patched runs were computed.
        agreement: How estimates agree with patching; None for exact ones, or if not compared.

    Examples:
        >>> from pragworld_interp import EXAMPLES, average_effects, read_patching
        >>> report = read_patching(EXAMPLES / "patching.jsonl")
        >>> average = average_effects(report.kept_by_alteration()["all"])
        >>> [round(p, 2) for p in average.probability]
        [0.04, 0.78, 0.92, 0.94, 0.94]
    """

    model: ModelIdentity
    data: DataIdentity
    positions: str
    pairs: tuple[PairEffect, ...]
    method: Method = "exact"
    agreement: Agreement | None = None

    @property
    def place(self) -> str:
        """The positions that were patched, in words, and whether the effects are estimated."""
        estimated = ", estimated by attribution" if self.method == "attribution" else ""
        return f"{describe_positions(self.positions)}{estimated}"

    def kept_by_alteration(self) -> dict[str, list[PairEffect]]:
        """Return the kept pairs under "all", and those of each alteration that has any."""
        kept = [pair for pair in self.pairs if pair.kept]
        groups = {name: [pair for pair in kept if pair.alteration == name] for name in ALTERATIONS}
        return {name: pairs for name, pairs in {"all": kept, **groups}.items() if pairs}

    def to_frame(self) -> "DataFrame":
        """Return the effects as a pandas DataFrame, a row for each pair and patched layer.

        Examples:
            >>> from pragworld_interp import EXAMPLES, read_patching
            >>> report = read_patching(EXAMPLES / "patching.jsonl")
            >>> frame = report.to_frame()
            >>> len(frame) == len(report.pairs) * report.model.layers
            True
        """
        from pandas import DataFrame

        return DataFrame(
            {
                "group": pair.group,
                "original": pair.original,
                "altered": pair.altered,
                "alteration": pair.alteration,
                "answer": pair.answer,
                "kept": pair.kept,
                "layer": layer,
                "probability": probability,
                "direct_effect": probability - pair.original_run,
                "original_run": pair.original_run,
                "altered_run": pair.altered_run,
            }
            for pair in self.pairs
            for layer, probability in enumerate(pair.patched)
        )

    def write(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the report to a file, `patching.jsonl`, that the commands read.

        Raises:
            InputError: The file exists and `overwrite` is false, or it cannot be written.
        """
        check_output(Path(path), overwrite)
        write_patching(self, Path(path))

    def to_text(self) -> str:
        """Return Markdown tables of the direct effects, by layer and by alteration."""
        groups = self.kept_by_alteration()
        title = (
            f"{self.model.name}, residuals patched at {self.place}: "
            f"{self.data.split}, {len(self.pairs)} pairs, {len(groups.get('all', ()))} kept"
        )
        agreement = [] if self.agreement is None else [self.agreement.to_text()]
        if not groups:
            none = f"{title}: no altered prompt is answered correctly while its original is not"
            return "\n".join([none, *agreement])
        averages = {name: average_effects(pairs) for name, pairs in groups.items()}
        total = averages["all"]
        ends = ["-"] * len(total.layers)
        if total.low is not None and total.high is not None:
            ends = [
                f"[{low:.3f}, {high:.3f}]" for low, high in zip(total.low, total.high, strict=True)
            ]
        by_layer = markdown_table(
            f"{title}; OR {total.original_run:.3f}, AR {total.altered_run:.3f}",
            ["layer", "p patched", f"{LEVEL:.0%} interval", "direct effect"],
            [
                [
                    str(layer),
                    f"{p:.3f}",
                    interval,
                    format_number(p - total.original_run, "+.3f"),
                ]
                for layer, p, interval in zip(total.layers, total.probability, ends, strict=True)
            ],
        )
        rows = []
        for name, average in averages.items():
            runs = [f"{average.original_run:.3f}", f"{average.altered_run:.3f}"]
            effects = np.asarray(average.probability) - average.original_run
            layer = int(effects.argmax())
            effect = format_number(float(effects[layer]), "+.3f")
            rows.append([name, str(len(groups[name])), *runs, str(layer), effect])
        headers = ["alteration", "pairs", "OR", "AR", "largest at layer", "direct effect"]
        return "\n".join([by_layer, markdown_table("by alteration", headers, rows), *agreement])


def average_effects(pairs: Sequence[PairEffect], seed: int = 0) -> PatchedProbability:
    """Return the average over pairs, with intervals from the bootstrap over groups.

    Pairs of one group have no intervals.

    Args:
        pairs: The pairs, at least one.
        seed: The seed of the bootstrap.
    """
    group = [pair.group for pair in pairs]
    everywhere = np.ones(len(pairs))
    patched = np.array([pair.patched for pair in pairs])
    tallies = {layer: tally(column, everywhere, group) for layer, column in enumerate(patched.T)}
    intervals = bootstrap_intervals(tallies, seed=seed).values()
    has_intervals = tallies[0].groups >= LEAST_GROUPS
    return PatchedProbability(
        layers=list(tallies),
        probability=patched.mean(0).tolist(),
        low=[interval.low for interval in intervals] if has_intervals else None,
        high=[interval.high for interval in intervals] if has_intervals else None,
        original_run=float(np.mean([pair.original_run for pair in pairs])),
        altered_run=float(np.mean([pair.altered_run for pair in pairs])),
        pairs=len(pairs),
    )


def compare_estimates(estimated: Sequence[PairEffect], exact: Sequence[PairEffect]) -> Agreement:
    """Return how estimated effects agree with exact ones of the same pairs, at least one."""
    estimates, patched = (np.array([pair.patched for pair in own]) for own in (estimated, exact))
    means = np.stack([estimates.mean(0), patched.mean(0)])
    varies = means.shape[1] > 1 and bool((np.ptp(means, axis=1) > 0).all())
    return Agreement(
        pairs=len(estimated),
        correlation=round(float(np.corrcoef(means)[0, 1]), DIGITS) if varies else math.nan,
        difference=round(float(np.abs(estimates - patched).mean()), DIGITS),
    )


# The file -----------------------------------------------------------------------------------------


def write_patching(report: PatchingReport, path: Path) -> None:
    """Write a report to a JSON-lines file: the identities, then one pair a line.

    Raises:
        InputError: The file cannot be written.
    """
    head = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "model": encode(report.model),
        "data": encode(report.data),
        "positions": report.positions,
        "method": report.method,
        "agreement": encode(report.agreement),
        "pairs": len(report.pairs),
    }
    lines = [head, *({**encode(pair), "kept": pair.kept} for pair in report.pairs)]
    text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
    write_whole(path, text.encode())
