"""The reports of patching: the direct effects of pairs, and of the tokens of one pair.

A pair is kept (D' in the PragWorld paper, section 6.1) if the altered prompt is answered correctly
and the original prompt gets another answer. Averages are computed when they are asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import LEAST_GROUPS, LEVEL, bootstrap_intervals, tally
from pragworld_tasks.layers import figures
from pragworld_tasks.layers.figures import PatchedProbability
from pragworld_tasks.layers.files import PATCHING, Probability, read_report, write_report
from pragworld_tasks.layers.settings import (
    DataIdentity,
    ModelIdentity,
    describe_positions,
    model_titles,
)
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
class PatchingReport:
    """The report of one model and one set of documents.

    Attributes:
        model: The model that was swept.
        data: The documents that the pairs are from.
        positions: The positions that were patched; see `settings.PARTS_OF_PAIRS`.
        pairs: The effects of each pair, kept or not.

    Raises:
        ValueError: A pair has not a probability for each layer.

    Examples:
        >>> from pragworld_tasks.layers import EXAMPLES
        >>> report = read_patching(EXAMPLES / "patching.json")
        >>> average = average_effects(report.kept_by_alteration()["all"])
        >>> [round(p, 2) for p in average.probability]
        [0.04, 0.78, 0.92, 0.94, 0.94]
    """

    model: ModelIdentity
    data: DataIdentity
    positions: str
    pairs: tuple[PairEffect, ...]

    def __post_init__(self) -> None:
        """Check that each pair has a probability for each layer."""
        layers = self.model.layers
        for pair in self.pairs:
            if len(pair.patched) != layers:
                raise ValueError(f"row {pair.altered} has {len(pair.patched)} layers, not {layers}")

    @property
    def place(self) -> str:
        """The positions that were patched, in words."""
        return describe_positions(self.positions)

    def kept_by_alteration(self) -> dict[str, list[PairEffect]]:
        """Return the kept pairs under "all", and those of each alteration that has any."""
        kept = [pair for pair in self.pairs if pair.kept]
        groups = {name: [pair for pair in kept if pair.alteration == name] for name in ALTERATIONS}
        return {name: pairs for name, pairs in {"all": kept, **groups}.items() if pairs}

    def to_frame(self) -> "DataFrame":
        """Return the effects as a pandas DataFrame, a row for each pair and patched layer."""
        from pandas import DataFrame

        names = [field.name for field in fields(PairEffect) if field.name != "patched"]
        return DataFrame(
            {
                **{name: getattr(pair, name) for name in (*names, "kept")},
                "layer": layer,
                "probability": probability,
                "direct_effect": probability - pair.original_run,
            }
            for pair in self.pairs
            for layer, probability in enumerate(pair.patched)
        )

    def write(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the report to a file, `patching.json`; see `LayerReport.write`."""
        write_report(path, PATCHING, self, "pairs", overwrite)

    def to_text(self) -> str:
        """Return Markdown tables of the direct effects, by layer and by alteration."""
        groups = self.kept_by_alteration()
        title = (
            f"{self.model.name}, residuals patched at {self.place}: "
            f"{self.data.split}, {len(self.pairs)} pairs, {len(groups.get('all', ()))} kept"
        )
        if not groups:
            return f"{title}: no altered prompt is answered correctly while its original is not"
        averages = {name: average_effects(pairs) for name, pairs in groups.items()}
        total = averages["all"]
        rows = []
        for layer, p in zip(total.layers, total.probability, strict=True):
            effect = format_number(p - total.original_run, "+.3f")
            rows.append([str(layer), f"{p:.3f}", interval_text(total, layer), effect])
        title += f"; OR {total.original_run:.3f}, AR {total.altered_run:.3f}"
        headers = ["layer", "p patched", f"{LEVEL:.0%} interval", "direct effect"]
        by_layer = markdown_table(title, headers, rows)
        rows = []
        for name, average in averages.items():
            runs = [f"{average.original_run:.3f}", f"{average.altered_run:.3f}"]
            effects = np.asarray(average.probability) - average.original_run
            layer = int(effects.argmax())
            effect = format_number(float(effects[layer]), "+.3f")
            rows.append([name, str(average.pairs), *runs, str(layer), effect])
        headers = ["alteration", "pairs", "OR", "AR", "largest at layer", "direct effect"]
        return "\n".join([by_layer, markdown_table("by alteration", headers, rows)])

    def _repr_markdown_(self) -> str:
        return self.to_text()

    def plot(self, path: str | Path | None = None, by_alteration: bool = False) -> "Figure":
        """Draw the patched probability by layer; see `patching_figure`."""
        return patching_figure({model_titles([self.model])[0]: self}, path, by_alteration)


def read_patching(path: str | Path) -> PatchingReport:
    """Read the report that `pragworld-interp patch` or `PatchingReport.write` wrote.

    Raises:
        InputError: The file is missing, malformed, or of another version.
    """
    return read_report(path, PATCHING, PatchingReport)


def average_effects(pairs: Sequence[PairEffect]) -> PatchedProbability:
    """Return the average over pairs, at least one, with intervals from the bootstrap over groups.

    Pairs of one group have no intervals.
    """
    group = [pair.group for pair in pairs]
    everywhere = np.ones(len(pairs))
    patched = np.array([pair.patched for pair in pairs])
    tallies = {layer: tally(column, everywhere, group) for layer, column in enumerate(patched.T)}
    intervals = bootstrap_intervals(tallies).values()
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


def interval_text(average: PatchedProbability, layer: int) -> str:
    """Return the interval at a patched layer, or a dash if there is none."""
    if average.low is None or average.high is None:
        return "-"
    return format_interval((average.low[layer], average.high[layer]), ".3f")


def read_patching_files(paths: Sequence[str | Path]) -> dict[str, PatchingReport]:
    """Read patching reports and return them by a short, unique title of each model.

    Raises:
        InputError: A file is not a patching report.
    """
    reports = [read_patching(path) for path in paths]
    return dict(zip(model_titles([report.model for report in reports]), reports, strict=True))


def patching_figure(
    patching_reports: Mapping[str, PatchingReport],
    path: str | Path | None = None,
    by_alteration: bool = False,
) -> "Figure":
    """Draw the probability of the altered prompt's gold answer by patched layer, with OR and AR.

    Up to four models are lines. More are rows of a heat map.

    Args:
        patching_reports: Reports by the name of each model; see `read_patching_files`.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        by_alteration: Whether each model has a heat map with a row for each alteration instead.

    Raises:
        InputError: There are no reports, one keeps no pair, they are of different documents or
            positions, or the file cannot be written.
    """
    if not patching_reports:
        raise InputError("there are no patching reports; give at least one")
    (first_name, first), *_ = patching_reports.items()
    classes: dict[str, dict[str, PatchedProbability]] = {}
    for name, report in patching_reports.items():
        if (report.data, report.positions) != (first.data, first.positions):
            raise InputError(
                f"{name} was patched on other documents or positions than {first_name}; patch all "
                "models on the same"
            )
        kept = report.kept_by_alteration()
        if not kept:
            raise InputError(f"{name}: no pair is kept, so there is nothing to show")
        for alteration, pairs in (kept if by_alteration else {"": kept["all"]}).items():
            classes.setdefault(alteration, {})[name] = average_effects(pairs)
    title = f"residuals patched at {first.place}: {first.data.split}"
    return figures.patching_curves(path, title, classes)
