"""What `layers.html`, a page of the board, shows: sweeps of several models, as heat maps."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.ablation_report import LayerReport, read_layers
from pragworld_tasks.layers.figures import PatchedProbability
from pragworld_tasks.layers.layer_statistics import LayerResult, Outcome, Role
from pragworld_tasks.layers.patching_report import PatchingReport, read_patching
from pragworld_tasks.layers.report import PATCHING, by_title, schema_of
from pragworld_tasks.text import format_interval, format_percent, format_points

# Steps of the color scale in points. They grow, so that one layer that everything depends on does
# not make all others look alike.
STEPS = (0.25, 1.0, 2.5, 5.0, 10.0, 20.0)


class HeatCell(NamedTuple):
    """A layer in a heat map: the class that colors it, its figure, a text, and its role."""

    color: str
    value: str
    text: str
    mark: Role = "neutral"


class HeatRow(NamedTuple):
    """A class of documents or of pairs in a heat map of one model."""

    name: str
    total: int
    without: str
    cells: list[HeatCell]


def read_sweeps(paths: Sequence[Path]) -> dict[str, Any]:
    """Read files of `pragworld-interp ablate` and `patch`, and return what the template needs.

    Reports of the same documents, prompts and intervention or positions are together.
    """
    ablations: dict[Any, list[LayerReport]] = defaultdict(list)
    patchings: dict[Any, list[PatchingReport]] = defaultdict(list)
    for path in paths:
        if schema_of(path) == PATCHING:
            patched = read_patching(path)
            if (patched.module, patched.into, patched.chosen) != ("residual", "original", ()):
                raise InputError(f"{path}: not residuals of originals, patched at every layer")
            patchings[patched.data.fingerprint, patched.positions].append(patched)
            continue
        ablated = read_layers(path)
        if not ablated.is_whole:
            raise InputError(f"{path}: not of every layer, each alone; sweep on all layers")
        ablations[ablated.data.fingerprint, ablated.intervention.name].append(ablated)
    return {
        "ablations": [
            [(title, report, _class_rows(report)) for title, report in by_title(reports).items()]
            for reports in ablations.values()
        ],
        "patchings": [
            [(title, report, *_patched_rows(report)) for title, report in by_title(reports).items()]
            for reports in patchings.values()
        ],
        "steps": STEPS,
        "difference_cells": difference_cells,
    }


def ranges(layers: Sequence[int]) -> str:
    """Return ascending numbers in words, with those that follow each other as a range.

    Examples:
        >>> ranges([0, 2, 3, 4, 7, 8])
        '0, 2 to 4, 7 to 8'
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


def difference_cells(report: LayerReport, metric: str) -> list[HeatCell]:
    """Return a cell for each layer; those of the accuracy have its role by evidence."""
    cells = []
    for layer in report.layers:
        cell = _difference_cell(layer, getattr(layer, metric))
        cells.append(cell._replace(mark=layer.evidence) if metric == "accuracy" else cell)
    return cells


def _class_rows(report: LayerReport) -> list[HeatRow]:
    rows = []
    for name, share in report.plain.by_class.items():
        cells = [_difference_cell(layer, layer.by_class[name]) for layer in report.layers]
        rows.append(HeatRow(name, share.total, format_percent(share.percent), cells))
    return rows


def _difference_cell(layer: LayerResult, outcome: Outcome) -> HeatCell:
    points = outcome.points
    value, interval = format_points(points), format_interval(outcome.interval)
    text = f"layer {layer.target.name}: {value} points, {interval}"
    return HeatCell(color_of(points), value, text)


def _patched_rows(report: PatchingReport) -> tuple[PatchedProbability | None, list[HeatRow]]:
    """Return the average over all kept pairs, and a row for these and for each alteration."""
    averages = report.averages()
    rows = []
    for name, average in averages.items():
        cells = [
            HeatCell(f"share-{round(10 * p)}", f"{p:.3f}", f"layer {layer}: p = {p:.3f}")
            for layer, p in enumerate(average.probability)
        ]
        rows.append(HeatRow(name, average.pairs, f"{average.original_run:.3f}", cells))
    return averages.get("all"), rows
