"""Drawings of sweeps: changes by ablated layer, and probabilities by patched layer.

They follow figures 4, 5, 9 and 10 of the papers (accuracy with the MLP of each layer zeroed) and
figures 3 and 8 (direct effect patching). Few models are lines, which differ in color, line and
marker; more models, and classes of documents, are rows of a heat map. Changes are on a scale that
is linear up to 5 points and logarithmic beyond, so that one layer that everything depends on does
not hide the others. The functions need matplotlib only, and know nothing of reports.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pragworld_tasks.evaluation.metrics import LEVEL, Floats, Interval
from pragworld_tasks.figures import LOOKS, Look, figure_file
from pragworld_tasks.text import format_count, format_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 4  # models that lines tell apart; more are rows of a heat map
_DOTTED, _DASHED = (0, (1, 1)), (0, (4, 2))
_LEVEL: dict[str, Any] = {"color": "0.35", "linestyle": (0, (6, 2, 1, 2)), "linewidth": 1.0}
_MARK: dict[str, Any] = {"linestyle": "none", "markeredgecolor": "black", "zorder": 3}
_CELL: dict[str, Any] = {"edgecolors": "0.85", "linewidth": 0.2}
_MARKERS = {-1: "v", 1: "^"}  # by the sign of the change
_LINEAR = 5.0  # points up to which the scale of changes is linear
_POINTS = (0, 2, 5, 15, 40, 100)  # where this scale has ticks, on both sides
# From a loss to a gain, and from the original's answer to the variant's. Only losses get dark, so
# that the two also differ in grey.
_COLORS = ("#00263d", "#0072B2", "#9fd0ec", "#ffffff", "#f7cf7a", "#E69F00", "#D55E00")


class Changes(NamedTuple):
    """A metric of a model, or of a class of documents, with each layer ablated.

    Attributes:
        name: The model, or the class.
        plain: The metric in the plain run, in percent.
        points: [layers] the differences from it.
        bands: [layers] the intervals of all differences at once.
        signs: [layers] the sign of changes that are marked, 0 for others.
    """

    name: str
    plain: float
    points: Sequence[float]
    bands: Sequence[Interval]
    signs: Sequence[int]

    @property
    def title(self) -> str:
        """The name and the metric without ablation."""
        return f"{self.name}, {format_percent(self.plain)} % without"

    @property
    def ends(self) -> Floats:
        """[layers, 2] the ends of the bands, which the metric cannot leave."""
        ends = np.array(self.bands, dtype=np.float64)
        return ends.clip(-self.plain, 100 - self.plain)


@dataclass(frozen=True)
class PatchedProbability:
    """The probability of the altered prompt's gold answer, averaged over pairs.

    Attributes:
        layers: [layers] the layers at whose input the residual stream is patched, ascending.
        probability: [layers] p in the original run, patched at each layer.
        low, high: [layers] the ends of its `metrics.LEVEL` interval; None for pairs of one group.
        original_run, altered_run: p in the plain runs, OR and AR.
        pairs: How many pairs there are.
    """

    layers: Sequence[int]
    probability: Sequence[float]
    low: Sequence[float] | None
    high: Sequence[float] | None
    original_run: float
    altered_run: float
    pairs: int = 1


class LayerAxis(NamedTuple):
    """The horizontal axis of a figure.

    Attributes:
        what: What it shows.
        layers: How many layers the models have, or what else was swept.
        names: Their names if they are not numbered from 0.
    """

    what: str
    layers: Sequence[int]
    names: Sequence[str] = ()

    @property
    def is_depth(self) -> bool:
        """Whether the axis shows relative depth, from 0 to 1, as models differ in depth."""
        return len({*self.layers}) > 1

    def positions(self, layers: int) -> Floats:
        """Return [layers] where the layers of a model are."""
        at = np.arange(layers, dtype=np.float64)
        return at / max(layers - 1, 1) if self.is_depth else at

    def edges(self, layers: int) -> Floats:
        """Return [layers + 1] where their cells begin and end: halfway; depths are from 0 to 1."""
        at = self.positions(layers)
        ends = (0, 1) if self.is_depth else (-0.5, layers - 0.5)
        return np.array([ends[0], *(at[1:] + at[:-1]) / 2, ends[1]])

    def label(self, axes: "Axes") -> None:
        """Label the axis, with ticks at layers that exist."""
        from matplotlib.ticker import MaxNLocator

        most = min(10, 60 // max(map(len, self.names))) if self.names else 10
        last = 1 if self.is_depth else max(self.layers) - 1
        locator = MaxNLocator(most, steps=[1, 2, 5, 10], integer=not self.is_depth)
        ticks = [tick for tick in locator.tick_values(0, max(last, 1)) if 0 <= tick <= last]
        axes.set_xticks(ticks, [self.names[int(tick)] for tick in ticks] if self.names else None)
        axes.set_xlabel(f"{self.what}, relative depth" if self.is_depth else self.what)

    def title(self, title: str) -> str:
        """Return a title that says how layers of models of different depths are aligned."""
        *others, last = sorted({*self.layers})
        lines = [_wrapped(line, 85) for line in title.split("\n") if line]
        if others:
            counts = f"{', '.join(map(str, others))} and {last}"
            lines.append(f"models of {counts} layers, aligned by relative depth")
        return "\n".join(lines)


# Changes ------------------------------------------------------------------------------------------


def change_lines(
    path: str | Path | None,
    title: str,
    models: Sequence[Changes],
    axis: LayerAxis,
    metric: str,
    level: float,
    marks: Mapping[int, str],
    constant: float | None,
) -> "Figure":
    """Draw up to `MOST_LINES` models as lines: the metric above, a panel of differences for each.

    Args:
        path: The file to write; None to return the figure only.
        title: The title.
        models: The models.
        axis: The horizontal axis.
        metric: The name of the metric.
        level: The level of the bands.
        marks: What the marks of losses, -1, and of gains, 1, mean.
        constant: What always giving the most frequent answer would reach, in percent, if known.
    """
    high = 1.9 if len(models) == 1 else 1.5
    with figure_file(path, 7, 2.1 + high * len(models)) as figure:
        ratios = [2.1] + [high] * len(models)
        top, *grid = figure.subplots(1 + len(models), 1, sharex=True, height_ratios=ratios)
        figure.suptitle(axis.title(title), fontsize=9)
        top.set_ylabel(f"{metric} (%)")
        for axes, look, model in zip(grid, LOOKS, models, strict=False):
            at = axis.positions(len(model.points))
            accuracies = [model.plain + points for points in model.points]
            _draw_line(top, at, accuracies, look, label=model.name)
            _draw_level(top, model.plain, look, _DOTTED, label="without ablation")
            axes.set_title(_wrapped(model.title, 90), loc="left", fontsize=8)
            axes.axhline(0, color=look.color, linestyle=_DOTTED, linewidth=1.1)
            band: dict[str, Any] = {"color": look.color, "alpha": 0.22, "linewidth": 0}
            if not np.isnan(model.ends).all():
                band["label"] = f"{level:.0%} band of all differences"
            axes.fill_between(at, *model.ends.T, **band)
            _draw_line(axes, at, model.points, look, label=model.name)
            place = at, model.points
            _draw_marks(axes, place, model.signs, marks, markersize=6.5, color=look.color)
            axes.set_ylabel("difference\n(points)")
        if constant is not None:
            top.axhline(constant, **_LEVEL, label=constant_text(constant))
        _scale_changes(grid, models)
        axis.label(grid[-1])
        _add_legend(figure)
    return figure


def change_maps(
    path: str | Path | None,
    title: str,
    maps: Mapping[str, Sequence[Changes]],
    axis: LayerAxis,
    marks: Mapping[int, str],
) -> "Figure":
    """Draw heat maps of differences below each other, by their titles; see `change_lines`."""
    from matplotlib.colors import SymLogNorm

    most = _outer_tick(np.abs([p for rows in maps.values() for row in rows for p in row.points]))
    norm = SymLogNorm(_LINEAR, vmin=-most, vmax=most, base=10)
    scale = norm, _change_ticks(-most, most), "difference (points)"
    cells = {name: {row.name: row.points for row in rows} for name, rows in maps.items()}
    with _heat_maps(path, title, cells, axis, *scale) as (figure, grid):
        for axes, rows in zip(grid, maps.values(), strict=True):
            for number, row in enumerate(rows):
                edges = axis.edges(len(row.points))
                place = (edges[1:] + edges[:-1]) / 2, np.full(len(row.points), number)
                size = min(5.0, max(3.2, 200 / len(row.points)))
                _draw_marks(axes, place, row.signs, marks, markersize=size, color="white")
        _add_legend(figure)
    return figure


def constant_text(constant: float) -> str:
    """Return what a figure says about always giving the most frequent answer."""
    return f"always the most frequent answer: {format_percent(constant)} %"


def _scale_changes(grid: Sequence["Axes"], models: Sequence[Changes]) -> None:
    """Give panels one scale of changes."""
    from matplotlib.ticker import NullLocator

    shown = np.concatenate([[*model.points, *model.ends.flat] for model in models])
    low, high = (1.15 * _outer_tick(side) for side in (-shown, shown))
    for axes in grid:
        axes.set_yscale("symlog", linthresh=_LINEAR)
        axes.set_ylim(-low, high)
        axes.set_yticks(**_change_ticks(-low, high), fontsize=7)
        axes.yaxis.set_minor_locator(NullLocator())


def _outer_tick(points: Floats) -> int:
    """Return the first tick that is not below any change, so that the scale reaches it."""
    return next(tick for tick in _POINTS[1:] if tick >= np.nanmax(points) or tick == 100)


def _change_ticks(low: float, high: float) -> dict[str, Any]:
    """Return ticks of a scale of changes, and their labels."""
    both = sorted({sign * points for points in _POINTS for sign in (-1, 1)})
    ticks = [points for points in both if low <= points <= high]
    return {
        "ticks": ticks,
        "labels": [f"{tick:+d}".replace("-", "\N{MINUS SIGN}") if tick else "0" for tick in ticks],
    }


# Patching -----------------------------------------------------------------------------------------


def patching_curves(
    path: str | Path | None, title: str, classes: Mapping[str, Mapping[str, PatchedProbability]]
) -> "Figure":
    """Draw curves by the class of pairs and the name of the model; see `patching_figure`."""
    from matplotlib.colors import Normalize

    models = list(dict.fromkeys(model for curves in classes.values() for model in curves))
    depths = [len(curve.layers) for curves in classes.values() for curve in curves.values()]
    axis = LayerAxis("patched layer", depths)
    (curves, *others) = classes.values()
    if not others and len(models) <= MOST_LINES:
        return _patching_lines(path, title, curves, axis)
    maps = classes
    if others:
        maps = {
            model: {name: of[model] for name, of in classes.items() if model in of}
            for model in models
        }
    cells = {
        name: {
            f"{row} ({format_count(curve.pairs, 'pair')}, OR {curve.original_run:.2f}, "
            f"AR {curve.altered_run:.2f})": curve.probability
            for row, curve in rows.items()
        }
        for name, rows in maps.items()
    }
    scale = Normalize(0, 1), {"ticks": [0, 0.25, 0.5, 0.75, 1]}, "p(altered gold label)"
    with _heat_maps(path, title, cells, axis, *scale) as (figure, _):
        return figure


def _patching_lines(
    path: str | Path | None, title: str, curves: Mapping[str, PatchedProbability], axis: LayerAxis
) -> "Figure":
    with figure_file(path, 7, 3.7) as figure:
        axes = figure.subplots()
        for look, (model, curve) in zip(LOOKS, curves.items(), strict=False):
            at = axis.positions(len(curve.layers))
            pairs = format_count(curve.pairs, "pair")
            _draw_line(axes, at, curve.probability, look, label=f"{model}, {pairs}")
            _draw_level(axes, curve.original_run, look, _DOTTED, label="original run (OR)")
            _draw_level(axes, curve.altered_run, look, _DASHED, label="altered run (AR)")
            if curve.low is not None and curve.high is not None:
                style: dict[str, Any] = {"color": look.color, "alpha": 0.15, "linewidth": 0}
                label = f"{LEVEL:.0%} interval"
                axes.fill_between(at, curve.low, curve.high, **style, label=label)
        axes.axhline(0.5, **_LEVEL, label="one half: the answer changes")
        axes.set_ylim(-0.03, 1.03)
        axes.set_ylabel("p(altered gold label)")
        axis.label(axes)
        figure.suptitle(axis.title(title), fontsize=9)
        _add_legend(figure)
    return figure


# What figures share -------------------------------------------------------------------------------


@contextmanager
def _heat_maps(
    path: str | Path | None,
    title: str,
    maps: Mapping[str, Mapping[str, Sequence[float]]],
    axis: LayerAxis,
    norm: Any,
    ticks: Mapping[str, Any],
    label: str,
) -> Iterator[tuple["Figure", list["Axes"]]]:
    """Open a figure of heat maps, whose values are by title, label and layer, and write it."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("loss and gain", _COLORS)
    labels = {name: [_wrapped(text, 42) for text in rows] for name, rows in maps.items()}
    lines = 1 + max(text.count("\n") for texts in labels.values() for text in texts)
    heights = [(0.03 + 0.12 * lines) * len(texts) for texts in labels.values()]
    with figure_file(path, 8, 1.1 + sum(heights) + 0.3 * len(maps)) as figure:
        grid = list(
            figure.subplots(len(maps), 1, sharex=True, squeeze=False, height_ratios=heights).flat
        )
        for axes, (name, rows) in zip(grid, maps.items(), strict=True):
            for number, values in enumerate(rows.values()):
                place = axis.edges(len(values)), [number - 0.45, number + 0.45]
                axes.pcolormesh(*place, np.array([values]), norm=norm, cmap=colors, **_CELL)
            axes.set_yticks(range(len(rows)), labels[name], fontsize=7.5)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.tick_params(left=False)
            axes.spines[:].set_visible(False)
            axes.grid(visible=False)
            axes.set_title(_wrapped(name, 70), loc="left", fontsize=8.5)
        axis.label(grid[-1])
        figure.suptitle(axis.title(title), fontsize=9)
        shrink = min(1, 2.5 / sum(heights))
        bar = figure.colorbar(ScalarMappable(norm, colors), ax=grid, aspect=20, shrink=shrink)
        bar.set_label(label)
        bar.set_ticks(**ticks)
        bar.minorticks_off()
        yield figure, grid


def _draw_line(axes: "Axes", at: Floats, values: Sequence[float], look: Look, label: str) -> None:
    style: dict[str, Any] = {"color": look.color, "linestyle": look.line, "marker": look.marker}
    axes.plot(at, values, markersize=min(4.0, 200 / len(at)), label=label, **style)


def _draw_level(axes: "Axes", value: float, look: Look, line: Any, label: str) -> None:
    """Draw a horizontal line that ends on the right in the marker of its model."""
    axes.axhline(value, color=look.color, linestyle=line, linewidth=1.1, label=label)
    end: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "clip_on": False}
    axes.plot([1.01], [value], marker=look.marker, markersize=5, color=look.color, **end)


def _draw_marks(
    axes: "Axes", places: Any, signs: Sequence[int], marks: Mapping[int, str], **style: Any
) -> None:
    """Mark the places, [2, layers], of changes that have a sign."""
    for sign, marker in _MARKERS.items():
        marked = np.asarray(places)[:, np.asarray(signs) == sign]
        if marked.size:
            axes.plot(*marked, marker=marker, label=marks[sign], **_MARK, **style)


def _add_legend(figure: "Figure") -> None:
    """Add a legend below all panels, in as many columns as fit, and make the figure higher."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(_wrapped(label, 90), handle)
    if not handles:
        return
    longest = max(len(line) for label in handles for line in label.split("\n"))
    columns = max(1, int(figure.get_figwidth() / (0.6 + 0.065 * longest)))
    lines = 1 + max(label.count("\n") for label in handles)
    figure.set_figheight(figure.get_figheight() + 0.17 * lines * -(-len(handles) // columns))
    figure.legend(
        handles.values(),
        handles,
        loc="outside lower center",
        ncols=min(columns, len(handles)),
        handlelength=4,
    )


def _wrapped(text: str, width: int) -> str:
    """Break a text into lines, but not within parentheses."""
    whole = re.sub(r"\([^)]*\)", lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    return textwrap.fill(whole, width).replace("\N{NO-BREAK SPACE}", " ")
