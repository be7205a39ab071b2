"""The reports of patching: the direct effects of pairs, and of the tokens of one pair.

A pair is kept (D' in the PragWorld paper, section 6.1) if the altered prompt is answered correctly
and the original prompt gets another answer.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pragworld_tasks.data.documents import alteration_names
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.statistics import LEVEL, bootstrap_intervals, tally
from pragworld_tasks.layers import figures
from pragworld_tasks.layers.figures import PatchedProbability
from pragworld_tasks.layers.report import PATCHING, Probability, Report, by_title, check_same_sweep
from pragworld_tasks.layers.settings import (
    DataIdentity,
    Into,
    ModelIdentity,
    PatchedModule,
    Target,
    every_layer,
)
from pragworld_tasks.text import format_interval, format_number, markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True)
class PairEffect:
    """An original and an altered variant, and the probabilities with each target patched.

    They are p(y), where y is the gold answer of the prompt that is patched from.
    """

    group: int
    original: int  # its row in the split
    altered: int
    alteration: str | None
    answer: str  # y
    original_run: Probability  # OR
    altered_run: Probability  # AR
    patched: tuple[Probability, ...]  # in the run of the other prompt

    def runs(self, into: Into) -> tuple[float, float]:
        """Return p(y) in the plain runs of the prompt that is patched, and of the other."""
        runs = self.original_run, self.altered_run
        return runs if into == "original" else runs[::-1]


@dataclass(frozen=True)
class PatchingReport(Report):
    """The report of one model and one set of documents.

    Attributes:
        positions: The positions that were patched; see `settings.PARTS_OF_PAIRS`.
        module: What was patched: the residuals at the input of layers, or outputs of their parts.
        into: Which prompt of a pair was patched.
        chosen: What was patched in turn; none for each layer.

    Examples:
        >>> from pragworld_tasks.layers import EXAMPLES
        >>> report = read_patching(EXAMPLES / "patching.json")
        >>> [round(p, 2) for p in report.averages()["all"].probability]
        [0.04, 0.42, 0.86, 0.94, 0.95]
        >>> print(report.to_text().splitlines()[-1])
        By the 95% interval, p is above one half at layers 2, 3, 4.
    """

    schema = PATCHING
    rows = "pairs"

    model: ModelIdentity
    data: DataIdentity
    positions: str
    pairs: tuple[PairEffect, ...]
    module: PatchedModule = "residual"
    into: Into = "original"
    chosen: tuple[Target, ...] = ()

    @property
    def targets(self) -> tuple[Target, ...]:
        """What was patched, in turn."""
        return self.chosen or every_layer(self.model.layers)

    @property
    def sweep(self) -> dict[str, object]:
        """The documents, the positions, and what was patched into which prompt."""
        return {
            "documents": self.data.fingerprint,
            "positions": self.positions,
            "modules": (self.module, self.into),
            "layers or heads": self.chosen,
        }

    @property
    def what(self) -> str:
        """What was patched, in words."""
        module = "residuals" if self.module == "residual" else self.module
        return f"{module} patched" + " from originals" * (self.into == "altered")

    @property
    def place(self) -> str:
        """The positions that were patched, in words."""
        if ":" in self.positions:
            return f"aligned positions {self.positions}"
        places = {
            "all": "all aligned positions",
            "last": "the last position",
            "altered": "the altered tokens",
            "utterance": "the rest of the altered utterances",
        }
        return places.get(self.positions, f"aligned positions of the {self.positions}")

    def is_kept(self, pair: PairEffect) -> bool:
        """Return whether only the prompt that is patched from gets its gold answer (D')."""
        patched, other = pair.runs(self.into)
        return other > 0.5 > patched

    def averages(self) -> dict[str, PatchedProbability]:
        """Return the averages over the kept pairs as "all", and over those of each alteration."""
        kept = [pair for pair in self.pairs if self.is_kept(pair)]
        names = alteration_names(pair.alteration for pair in kept)
        groups = {name: [pair for pair in kept if pair.alteration == name] for name in names}
        groups = {"all": kept, **groups}
        return {name: _average(pairs) for name, pairs in groups.items() if pairs}

    def to_frame(self) -> "DataFrame":
        """Return the effects as a pandas DataFrame, a row for each pair and patched layer."""
        from pandas import DataFrame

        rows = [
            {
                **vars(pair),
                "kept": self.is_kept(pair),
                "layer": target.place,
                "probability": p,
                "direct_effect": p - pair.runs(self.into)[0],
            }
            for pair in self.pairs
            for target, p in zip(self.targets, pair.patched, strict=True)
        ]
        return DataFrame(rows).drop(columns="patched")

    def to_text(self) -> str:
        """Return a Markdown table of the direct effects by layer, and what was found in words."""
        total = self.averages().get("all")
        title = (
            f"{self.model.name}, {self.what} at {self.place}: "
            f"{self.data.split}, {len(self.pairs)} pairs, {total.pairs if total else 0} kept"
        )
        if total is None:
            return f"{title}: in no pair only the prompt that is patched from is answered correctly"
        before = total.original_run if self.into == "original" else total.altered_run
        names = [target.name for target in self.targets]
        rows = [
            [name, f"{p:.3f}", format_interval(interval, ".3f"), format_number(p - before, "+.3f")]
            for name, p, interval in zip(names, total.probability, total.intervals, strict=True)
        ]
        title += f"; OR {total.original_run:.3f}, AR {total.altered_run:.3f}"
        headers = ["layer", "p patched", f"{LEVEL:.0%} interval", "direct effect"]
        noun = "head" if self.module == "heads" else "layer"
        above = [name for name, (low, _) in zip(names, total.intervals, strict=True) if low > 0.5]
        where = f"{noun}{'s' * (len(above) > 1)} {', '.join(above)}" if above else f"no {noun}"
        finding = f"By the {headers[2]}, p is above one half at {where}."
        return f"{markdown_table(title, headers, rows)}\n{finding}"

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Draw the patched probability by layer; see `patching_figure`."""
        return patching_figure(by_title([self]), path)


read_patching = PatchingReport.read
"""Read the report that `pragworld-interp patch` or `PatchingReport.write` wrote."""


def _average(pairs: Sequence[PairEffect]) -> PatchedProbability:
    """Return the average over pairs, at least one, with intervals from a bootstrap over groups."""
    group = [pair.group for pair in pairs]
    patched = np.array([pair.patched for pair in pairs])
    everywhere = np.ones(len(pairs))
    tallies = {layer: tally(column, everywhere, group) for layer, column in enumerate(patched.T)}
    return PatchedProbability(
        probability=patched.mean(0).tolist(),
        intervals=list(bootstrap_intervals(tallies).values()),
        original_run=float(np.mean([pair.original_run for pair in pairs])),
        altered_run=float(np.mean([pair.altered_run for pair in pairs])),
        pairs=len(pairs),
    )


def _by_layer(
    targets: Sequence[Target], heads: PatchedProbability
) -> dict[str, PatchedProbability]:
    """Return the heads of each layer."""
    by_layer: dict[str, list[float]] = defaultdict(list)
    for target, p in zip(targets, heads.probability, strict=True):
        by_layer[f"layer {target.layers[0]}"].append(p)
    return {name: replace(heads, probability=own) for name, own in by_layer.items()}


def patching_figure(
    patching_reports: Mapping[str, PatchingReport], path: str | Path | None = None
) -> "Figure":
    """Draw the probability of the altered prompt's gold answer by patched layer, with OR and AR.

    Args:
        patching_reports: Reports by the name of each model, at most four unless heads are patched.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.

    Raises:
        InputError: There are no reports or more than four, one keeps no pair, they are of different
            documents or positions, or the file cannot be written.
    """
    first = check_same_sweep(patching_reports)
    averages = {name: report.averages() for name, report in patching_reports.items()}
    if empty := [name for name, of_classes in averages.items() if not of_classes]:
        raise InputError(f"{empty[0]}: no pair is kept, so there is nothing to show")
    title = f"{first.what} at {first.place}: {first.data.split}"
    if first.module == "heads":
        heads = {name: _by_layer(first.targets, of["all"]) for name, of in averages.items()}
        return figures.patching_maps(path, title, heads)
    return figures.patching_lines(path, title, {name: of["all"] for name, of in averages.items()})
