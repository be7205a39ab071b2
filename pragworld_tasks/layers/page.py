"""What the page of layers shows: ablation and patching sweeps of several models, as heat maps."""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.identities import model_titles
from pragworld_tasks.layers.layer_report import LayerReport, LayerResult, Outcome, Role
from pragworld_tasks.layers.patching_report import SCHEMA as PATCHING
from pragworld_tasks.layers.patching_report import (
    PatchedProbability,
    PatchingReport,
    average_effects,
)
from pragworld_tasks.layers.report_files import read_layers, read_patching
from pragworld_tasks.layers.serialization import schema_of
from pragworld_tasks.text import format_interval, format_percent, format_points

Report = TypeVar("Report", LayerReport, PatchingReport)

# Steps of the color scale in points. They grow, so that one layer that everything depends on does
# not make all others look alike.
STEPS = (0.25, 1.0, 2.5, 5.0, 10.0, 20.0)


class HeatCell(NamedTuple):
    """A layer in a heat map.

    Attributes:
        color: the class that colors it.
        value: its figure.
        text: what a pointer that rests on it shows.
        mark: its role by evidence; "neutral" has no mark.
    """

    color: str
    value: str
    text: str
    mark: Role


class HeatRow(NamedTuple):
    """A class of documents in a heat map of one model."""

    name: str
    total: int
    without: str
    cells: list[HeatCell]


class AblationView(NamedTuple):
    """A model in a set of ablation sweeps."""

    title: str
    report: LayerReport
    accuracy: list[HeatCell]
    robust: list[HeatCell]
    by_alteration: list[HeatRow]


class PatchingView(NamedTuple):
    """A model in a set of patching sweeps.

    Attributes:
        title: its name.
        report: its report.
        average: the direct effects, averaged over the pairs that are kept; None if none is.
        cells: the probability at each layer.
        by_alteration: the same for each alteration.
    """

    title: str
    report: PatchingReport
    average: PatchedProbability | None
    cells: list[HeatCell]
    by_alteration: list[HeatRow]


@dataclass(frozen=True)
class LayerSweeps:
    """Sweeps over layers; those in one set can be compared.

    Attributes:
        ablations: sets of the same documents, prompts and intervention.
        patchings: sets of the same documents, prompts and positions.
    """

    ablations: Sequence[Sequence[LayerReport]]
    patchings: Sequence[Sequence[PatchingReport]]


def read_sweeps(paths: Sequence[Path]) -> LayerSweeps:
    """Read the files that `pragworld-interp ablate` and `pragworld-interp patch` wrote.

    Raises:
        InputError: A file cannot be read, contradicts itself, or is given twice.
    """
    is_patching = {path: schema_of(path) == PATCHING for path in paths}
    ablations = {path: read_layers(path) for path in paths if not is_patching[path]}
    for path, report in ablations.items():
        if not report.is_whole:
            raise InputError(f"{path}: not of every layer, each alone; sweep on all layers")
    return LayerSweeps(
        _comparable(
            [*ablations.values()],
            lambda report: (report.data.fingerprint, report.intervention.name),
        ),
        _comparable(
            [read_patching(path) for path in paths if is_patching[path]],
            lambda report: (report.data.fingerprint, report.positions, report.method),
        ),
    )


def layers_content(sweeps: LayerSweeps) -> dict[str, Any]:
    """Return what the template of the layers needs.

    Args:
        sweeps: the sweeps, as `read_sweeps` returns them.
    """
    return {
        "ablations": [
            [_ablation_view(title, report) for title, report in _titled(reports)]
            for reports in sweeps.ablations
        ],
        "patchings": [
            [_patching_view(title, report) for title, report in _titled(reports)]
            for reports in sweeps.patchings
        ],
        "steps": STEPS,
    }


def ranges(layers: Sequence[int]) -> str:
    """Return ascending numbers in words, with those that follow each other as a range.

    Examples:
        >>> ranges([0, 2, 3, 4, 7, 8])
        '0, 2 to 4, 7 to 8'
        >>> ranges([])
        'none'
    """
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return ", ".join(texts) or "none"


def color_of(points: float) -> str:
    """Return the class that colors a difference from the plain run.

    Examples:
        >>> color_of(-6.5), color_of(0.1), color_of(30)
        ('loss-4', 'same', 'gain-6')
    """
    step = bisect_right(STEPS, abs(points))
    return f"{'gain' if points > 0 else 'loss'}-{step}" if step else "same"


def _titled(reports: Sequence[Report]) -> Iterable[tuple[str, Report]]:
    return zip(model_titles([report.model for report in reports]), reports, strict=True)


def _comparable(reports: Sequence[Report], key: Callable[[Report], Hashable]) -> list[list[Report]]:
    """Return the reports in sets of the same key, in the order of the first of each set."""
    sets: dict[Hashable, list[Report]] = {}
    for report in reports:
        together = sets.setdefault(key(report), [])
        if any(other.model == report.model for other in together):
            raise InputError(
                f"{report.model.name}: two files are of the same sweep of this model; give one"
            )
        together.append(report)
    return list(sets.values())


def _ablation_view(title: str, report: LayerReport) -> AblationView:
    plain = report.plain
    classes = {
        (breakdown, name): share
        for breakdown in ("by_alteration", "by_effect")
        for name, share in getattr(plain, breakdown).items()
    }
    return AblationView(
        title,
        report,
        [_difference_cell(layer, layer.accuracy, layer.evidence) for layer in report.layers],
        [
            _difference_cell(layer, layer.robust_accuracy)
            for layer in report.layers
            if layer.robust_accuracy
        ],
        [
            HeatRow(
                name,
                share.total,
                format_percent(share.percent),
                [
                    _difference_cell(layer, getattr(layer, breakdown)[name])
                    for layer in report.layers
                ],
            )
            for (breakdown, name), share in classes.items()
        ],
    )


def _difference_cell(layer: LayerResult, outcome: Outcome, mark: Role = "neutral") -> HeatCell:
    difference = outcome.difference
    return HeatCell(
        color_of(difference.points),
        format_points(difference.points),
        f"layer {layer.target.name}: {format_points(difference.points)} points, "
        f"{format_interval(difference.interval)}",
        mark,
    )


def _patching_view(title: str, report: PatchingReport) -> PatchingView:
    averages = {name: average_effects(pairs) for name, pairs in report.kept_by_alteration().items()}
    counts = {name: len(pairs) for name, pairs in report.kept_by_alteration().items()}
    average = averages.pop("all", None)
    return PatchingView(
        title,
        report,
        average,
        _probability_cells(average) if average else [],
        [
            HeatRow(
                name, counts[name], f"{of_class.original_run:.3f}", _probability_cells(of_class)
            )
            for name, of_class in averages.items()
        ],
    )


def _probability_cells(average: PatchedProbability) -> list[HeatCell]:
    cells = []
    for layer, probability in zip(average.layers, average.probability, strict=True):
        value = f"{probability:.3f}"
        color = f"share-{round(10 * probability)}"
        cells.append(HeatCell(color, value, f"layer {layer}: p = {value}", "neutral"))
    return cells
