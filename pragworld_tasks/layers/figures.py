"""Drawings of sweeps: changes by ablated layer, and probabilities by patched layer.

They follow figures 4, 5, 9 and 10 of the papers (accuracy with the MLP of each layer zeroed) and
figures 3 and 8 (direct effect patching). Models are lines, which differ in color, line and marker;
classes of documents are rows of a heat map. Changes are on a scale that is linear up to 5 points
and logarithmic beyond, so that one layer that everything depends on does not hide the others. The
functions need matplotlib only, and know nothing of reports.
"""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.statistics import LEVEL, Interval
from pragworld_tasks.figures import LOOKS, Look, figure_file
from pragworld_tasks.layers.layer_statistics import Outcome
from pragworld_tasks.text import format_count, format_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_MODELS = 4  # that lines tell apart
_DOTTED, _DASHED = (0, (1, 1)), (0, (4, 2))
_MARK: dict[str, Any] = {"linestyle": "none", "markeredgecolor": "black", "zorder": 3}
_MARKERS = {-1: "v", 1: "^"}  # by the sign of the change
_LINEAR = 5.0  # points up to which the scale of changes is linear
_POINTS = (0, 2, 5, 15, 40, 100)  # where this scale has ticks, on both sides
# From a loss to a gain, and from the original's answer to the variant's. Only losses get dark, so
# that the two also differ in grey.
_COLORS = ("#00263d", "#0072B2", "#9fd0ec", "#ffffff", "#f7cf7a", "#E69F00", "#D55E00")


class Changes(NamedTuple):
    """The accuracy of a model, or on a class of documents, with each layer ablated."""

    name: str
    plain: float  # in percent
    outcomes: Sequence[Outcome]  # [layers]
    marked: Sequence[bool]

    @property
    def points(self) -> list[float]:
        """The differences, [layers]."""
        return [outcome.points for outcome in self.outcomes]

    @property
    def bands(self) -> list[Interval]:
        """The intervals of all differences at once, [layers]."""
        return [outcome.band for outcome in self.outcomes]


@dataclass(frozen=True)
class PatchedProbability:
    """The probability of the altered prompt's gold answer, averaged over pairs.

    The intervals of each layer are NaN for pairs of one group.
    """

    probability: Sequence[float]  # [layers], patched at the input of each
    intervals: Sequence[Interval]
    original_run: float  # OR
    altered_run: float  # AR
    pairs: int


# Changes ------------------------------------------------------------------------------------------


def change_lines(
    path: str | Path | None,
    title: str,
    models: Sequence[Changes],
    names: Sequence[str],
    level: float,
    marks: Mapping[int, str],
) -> "Figure":
    """Draw at most `MOST_MODELS` as lines: accuracy above, and a panel of differences for each.

    `names` are those of the ablated layers if they are not numbered from 0, `level` is that of the
    bands, and `marks` says what marks of losses, -1, and of gains, 1, mean.
    """
    _check_number(models)
    high = 1.9 if len(models) == 1 else 1.5
    with figure_file(path, 7, 2.1 + high * len(models)) as figure:
        ratios = [2.1] + [high] * len(models)
        top, *grid = figure.subplots(1 + len(models), 1, sharex=True, height_ratios=ratios)
        figure.suptitle(textwrap.fill(title, 85), fontsize=9)
        top.set_ylabel("accuracy (%)")
        for axes, look, model in zip(grid, LOOKS, models, strict=False):
            accuracies = [outcome.share.percent for outcome in model.outcomes]
            _draw_line(top, accuracies, look, label=model.name)
            top.axhline(model.plain, color=look.color, linestyle=_DOTTED, label="without ablation")
            title = panel_title(model.name, model.plain)
            axes.set_title(textwrap.fill(title, 90), loc="left", fontsize=8)
            axes.axhline(0, color=look.color, linestyle=_DOTTED, linewidth=1.1)
            _draw_band(axes, model.bands, look, label=f"{level:.0%} band")
            _draw_line(axes, model.points, look, label=model.name)
            _draw_marks(axes, model.points, model, marks, markersize=6.5, color=look.color)
            axes.set_ylabel("difference\n(points)")
        _scale_changes(grid, models)
        _label_layers(grid[-1], "ablated layer", max(len(of.points) for of in models), names)
        _add_legend(figure)
    return figure


def change_maps(
    path: str | Path | None,
    title: str,
    maps: Mapping[str, Sequence[Changes]],
    marks: Mapping[int, str],
) -> "Figure":
    """Draw heat maps of ablated heads below each other, by their titles; see `change_lines`."""
    from matplotlib.colors import SymLogNorm

    most = max(2, *(abs(p) for rows in maps.values() for row in rows for p in row.points))
    norm = SymLogNorm(_LINEAR, vmin=-most, vmax=most, base=10)
    scale = norm, _change_ticks(-most, most), "difference (points)"
    cells = {name: {row.name: row.points for row in rows} for name, rows in maps.items()}
    with _heat_maps(path, title, cells, "ablated head", *scale) as (figure, grid):
        for axes, rows in zip(grid, maps.values(), strict=True):
            for number, row in enumerate(rows):
                height = np.full(len(row.points), number)
                _draw_marks(axes, height, row, marks, markersize=4, color="white")
        _add_legend(figure)
    return figure


def panel_title(model: str, plain: float) -> str:
    """Return the title of a model's panel of changes, with its accuracy in the plain run."""
    return f"{model}, {format_percent(plain)} % without ablation"


def _scale_changes(grid: Sequence["Axes"], models: Sequence[Changes]) -> None:
    """Give panels one scale of changes."""
    from matplotlib.ticker import NullLocator

    shown = np.concatenate([[model.points, *zip(*model.bands, strict=True)] for model in models], 1)
    low, high = 1.15 * min(-2, np.nanmin(shown)), 1.15 * max(2, np.nanmax(shown))
    for axes in grid:
        axes.set_yscale("symlog", linthresh=_LINEAR)
        axes.set_ylim(low, high)
        axes.set_yticks(**_change_ticks(low, high), fontsize=7)
        axes.yaxis.set_minor_locator(NullLocator())


def _change_ticks(low: float, high: float) -> dict[str, Any]:
    """Return ticks of a scale of changes, and their labels."""
    ticks = sorted({sign * points for points in _POINTS for sign in (-1, 1)})
    ticks = [points for points in ticks if low <= points <= high]
    return {"ticks": ticks, "labels": [f"{tick:+d}" if tick else "0" for tick in ticks]}


# Patching -----------------------------------------------------------------------------------------


def patching_lines(
    path: str | Path | None, title: str, models: Mapping[str, PatchedProbability]
) -> "Figure":
    """Draw the probability by patched layer as a line for each model, at most `MOST_MODELS`."""
    _check_number(models)
    with figure_file(path, 7, 3.7) as figure:
        axes = figure.subplots()
        for look, (model, curve) in zip(LOOKS, models.items(), strict=False):
            pairs = format_count(curve.pairs, "pair")
            _draw_line(axes, curve.probability, look, label=f"{model}, {pairs}")
            level: dict[str, Any] = {"color": look.color, "linewidth": 1.1}
            axes.axhline(curve.original_run, **level, linestyle=_DOTTED, label="original run (OR)")
            axes.axhline(curve.altered_run, **level, linestyle=_DASHED, label="altered run (AR)")
            _draw_band(axes, curve.intervals, look, label=f"{LEVEL:.0%} interval")
        axes.axhline(0.5, color="0.35", linestyle="dashdot", label="one half")
        axes.set_ylim(-0.03, 1.03)
        axes.set_ylabel("p(altered gold label)")
        layers = max(len(curve.probability) for curve in models.values())
        _label_layers(axes, "patched layer", layers)
        figure.suptitle(textwrap.fill(title, 85), fontsize=9)
        _add_legend(figure)
    return figure


def patching_maps(
    path: str | Path | None, title: str, models: Mapping[str, Mapping[str, PatchedProbability]]
) -> "Figure":
    """Draw the probability by patched head as a heat map for each model, a row for each layer."""
    from matplotlib.colors import Normalize

    cells: dict[str, dict[str, Sequence[float]]] = {}
    for model, curves in models.items():
        cells[model] = {
            f"{name} ({format_count(curve.pairs, 'pair')}, OR {curve.original_run:.2f}, "
            f"AR {curve.altered_run:.2f})": curve.probability
            for name, curve in curves.items()
        }
    scale = Normalize(0, 1), {"ticks": [0, 0.25, 0.5, 0.75, 1]}, "p(altered gold label)"
    with _heat_maps(path, title, cells, "patched head", *scale) as (figure, _):
        return figure


# What figures share -------------------------------------------------------------------------------


@contextmanager
def _heat_maps(
    path: str | Path | None,
    title: str,
    maps: Mapping[str, Mapping[str, Sequence[float]]],
    what: str,
    norm: Any,
    ticks: Mapping[str, Any],
    label: str,
) -> Iterator[tuple["Figure", list["Axes"]]]:
    """Open a figure of heat maps, whose values are by title, label and layer, and write it."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("loss and gain", _COLORS)
    heights = [0.27 * len(rows) for rows in maps.values()]
    with figure_file(path, 8, 1.0 + sum(heights) + 0.65 * len(maps)) as figure:
        panels = figure.subplots(len(maps), 1, squeeze=False, height_ratios=heights)
        grid = list(panels.flat)
        for axes, (name, rows) in zip(grid, maps.items(), strict=True):
            values = np.array([*zip_longest(*rows.values(), fillvalue=math.nan)]).T
            axes.imshow(values, aspect="auto", norm=norm, cmap=colors)
            axes.set_yticks(
                range(len(rows)), [textwrap.fill(text, 48) for text in rows], fontsize=7.5
            )
            axes.tick_params(left=False)
            axes.spines[:].set_visible(False)
            axes.grid(visible=False)
            axes.set_title(textwrap.fill(name, 70), loc="left", fontsize=8.5)
            _label_layers(axes, what, values.shape[1])
        figure.suptitle(textwrap.fill(title, 85), fontsize=9)
        shrink = min(1, 2.5 / sum(heights))
        bar = figure.colorbar(ScalarMappable(norm, colors), ax=grid, aspect=20, shrink=shrink)
        bar.set_label(label)
        bar.set_ticks(**ticks)
        bar.minorticks_off()
        yield figure, grid


def _label_layers(axes: "Axes", what: str, layers: int, names: Sequence[str] = ()) -> None:
    """Label the axis of layers, with ticks at layers that exist."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(what)
    if names:
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    else:
        axes.set_xlim(-0.5, layers - 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10], integer=True))


def _check_number(models: Sequence[Changes] | Mapping[str, PatchedProbability]) -> None:
    if len(models) > MOST_MODELS:
        raise InputError(
            f"{len(models)} models: a figure shows at most {MOST_MODELS}; draw several figures"
        )


def _draw_line(axes: "Axes", values: Sequence[float], look: Look, label: str) -> None:
    style: dict[str, Any] = {"color": look.color, "linestyle": look.line, "marker": look.marker}
    axes.plot(values, markersize=min(4.0, 200 / len(values)), label=label, **style)


def _draw_band(axes: "Axes", intervals: Sequence[Interval], look: Look, label: str) -> None:
    low, high = np.array(intervals).T
    if not np.isnan(low).all():
        style: dict[str, Any] = {"color": look.color, "alpha": 0.2, "linewidth": 0}
        axes.fill_between(range(len(low)), low, high, label=label, **style)


def _draw_marks(
    axes: "Axes", heights: Any, changes: Changes, marks: Mapping[int, str], **style: Any
) -> None:
    signs = np.sign(changes.points) * changes.marked
    for sign, marker in _MARKERS.items():
        marked = np.array([range(len(signs)), heights])[:, signs == sign]
        if marked.size:
            axes.plot(*marked, marker=marker, label=marks[sign], **_MARK, **style)


def _add_legend(figure: "Figure") -> None:
    """Add a legend in two columns below all panels, and make the figure higher."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(textwrap.fill(label, 48), handle)
    if handles:
        lines = sum(1 + label.count("\n") for label in handles)
        figure.set_figheight(figure.get_figheight() + 0.2 + 0.1 * lines)
        place: dict[str, Any] = {"loc": "outside lower center", "ncols": 2, "handlelength": 4}
        figure.legend(handles.values(), handles, **place)
