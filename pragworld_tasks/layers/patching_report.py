"""The reports of patching: the direct effects of pairs, and of the tokens of one pair.

A pair is kept (D' in the PragWorld paper, section 6.1) if the altered prompt is answered correctly
and the original prompt gets another answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pragworld_tasks.data.documents import alteration_names
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.statistics import LEVEL, bootstrap_intervals, tally
from pragworld_tasks.layers import figures
from pragworld_tasks.layers.figures import PatchedProbability
from pragworld_tasks.layers.report import PATCHING, Probability, Report, by_title, check_same_sweep
from pragworld_tasks.layers.settings import DataIdentity, ModelIdentity
from pragworld_tasks.text import format_interval, format_number, markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


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
    original_run: Probability
    altered_run: Probability
    patched: tuple[Probability, ...]

    @property
    def kept(self) -> bool:
        """Whether only the altered prompt gets the altered prompt's gold answer (D')."""
        return self.altered_run > 0.5 > self.original_run


@dataclass(frozen=True)
class PatchingReport(Report):
    """The report of one model and one set of documents.

    Attributes:
        positions: The positions that were patched; see `settings.PARTS_OF_PAIRS`.
        pairs: The effects of each pair, kept or not.

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

    @property
    def sweep(self) -> dict[str, object]:
        """The documents and the positions."""
        return {"documents": self.data.fingerprint, "positions": self.positions}

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

    def averages(self) -> dict[str, PatchedProbability]:
        """Return the averages over the kept pairs as "all", and over those of each alteration."""
        kept = [pair for pair in self.pairs if pair.kept]
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
                "kept": pair.kept,
                "layer": layer,
                "probability": p,
                "direct_effect": p - pair.original_run,
            }
            for pair in self.pairs
            for layer, p in enumerate(pair.patched)
        ]
        return DataFrame(rows).drop(columns="patched")

    def to_text(self) -> str:
        """Return a Markdown table of the direct effects by layer, and what was found in words."""
        total = self.averages().get("all")
        title = (
            f"{self.model.name}, residuals patched at {self.place}: "
            f"{self.data.split}, {len(self.pairs)} pairs, {total.pairs if total else 0} kept"
        )
        if total is None:
            return f"{title}: no altered prompt is answered correctly while its original is not"
        rows = []
        for layer, p in enumerate(total.probability):
            interval = format_interval(total.intervals[layer], ".3f")
            effect = format_number(p - total.original_run, "+.3f")
            rows.append([str(layer), f"{p:.3f}", interval, effect])
        title += f"; OR {total.original_run:.3f}, AR {total.altered_run:.3f}"
        headers = ["layer", "p patched", f"{LEVEL:.0%} interval", "direct effect"]
        above = [str(layer) for layer, (low, _) in enumerate(total.intervals) if low > 0.5]
        where = f"layer{'s' * (len(above) > 1)} {', '.join(above)}" if above else "no layer"
        finding = f"By the {headers[2]}, p is above one half at {where}."
        return f"{markdown_table(title, headers, rows)}\n{finding}"

    def plot(self, path: str | Path | None = None, by_alteration: bool = False) -> "Figure":
        """Draw the patched probability by layer; see `patching_figure`."""
        return patching_figure(by_title([self]), path, by_alteration)


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


def patching_figure(
    patching_reports: Mapping[str, PatchingReport],
    path: str | Path | None = None,
    by_alteration: bool = False,
) -> "Figure":
    """Draw the probability of the altered prompt's gold answer by patched layer, with OR and AR.

    Args:
        patching_reports: Reports by the name of each model, at most four unless `by_alteration`.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        by_alteration: Whether each model has a heat map with a row for each alteration instead.

    Raises:
        InputError: There are no reports or more than four, one keeps no pair, they are of different
            documents or positions, or the file cannot be written.
    """
    first = check_same_sweep(patching_reports)
    averages = {name: report.averages() for name, report in patching_reports.items()}
    if empty := [name for name, of_classes in averages.items() if not of_classes]:
        raise InputError(f"{empty[0]}: no pair is kept, so there is nothing to show")
    title = f"residuals patched at {first.place}: {first.data.split}"
    if by_alteration:
        return figures.patching_maps(path, title, averages)
    return figures.patching_lines(path, title, {name: of["all"] for name, of in averages.items()})
