"""Figures: accuracy by ablated layer, and the probability that patching a layer leads to.

They follow figures 4, 5, 9 and 10 of the papers (accuracy with the MLP of each layer zeroed) and
figures 3 and 8 (direct effect patching). Few models are lines, which differ in color, line and
marker; more models are rows of a heat map. Changes are on a scale that is linear up to 5 points and
logarithmic beyond, so that a layer without which a model collapses leaves the others readable. The
functions need matplotlib only.
"""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import LEVEL, Floats
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.figures import LOOKS, Look, figure_file
from pragworld_tasks.layers.comparison import check_same_sweep
from pragworld_tasks.layers.layer_report import By, LayerReport, Outcome, check_choice
from pragworld_tasks.layers.patching_report import PatchedProbability
from pragworld_tasks.layers.targets import Target, every_layer
from pragworld_tasks.text import format_percent

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

Horizontal = Literal["layer", "depth"]
Metric = Literal["accuracy", "robust_accuracy"]

_MOST_LINES = 4  # models that lines tell apart; more are rows of a heat map
_COLUMNS = 4  # of small multiples
_GREY = "0.35"
_DOTTED, _DASHED, _DASH_DOTTED = (0, (1, 1)), (0, (4, 2)), (0, (6, 2, 1, 2))
_ROLES = {"useful": -1, "neutral": 0, "harmful": 1}  # the sign of the change
_MARKERS = {-1: "v", 1: "^"}  # by that sign
_LINEAR = 5.0  # points up to which the scale of changes is linear
_RUN_WIDTH = 0.07  # of the cell of a plain run, as a share of all layers
_POINTS = (0, 2, 5, 15, 40, 100)  # where this scale has ticks, on both sides
# From a loss to a gain, and from the original's answer to the variant's. Only losses get dark, so
# that the two also differ in grey.
_COLORS = ("#00263d", "#0072B2", "#9fd0ec", "#ffffff", "#f7cf7a", "#E69F00", "#D55E00")


def accuracy_figure(
    layer_reports: Mapping[str, LayerReport],
    path: str | Path | None = None,
    metric: Metric = "accuracy",
    by: By = "evidence",
    horizontal: Horizontal | None = None,
) -> "Figure":
    """Draw accuracy by ablated layer, and its difference from the plain run.

    If heads were ablated, each model has a heat map of differences, layers by heads. Otherwise up
    to four models share a panel of accuracies, with their plain runs and with what always giving
    the most frequent answer would reach, if all prompts have the same two labels. Below, each model
    has a panel of differences with their band. More models are rows of a heat map of differences.

    Args:
        layer_reports: Reports by the name of each model; see `read_layer_files`.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        metric: Accuracy or robust accuracy. Only accuracy has marks on useful and harmful layers.
        by: Whether the marks follow the evidence or the bare sign.
        horizontal: The number of the layer, or its relative depth from 0 to 1. None for the number
            if all models have as many layers, else the depth.

    Returns:
        The figure, which notebooks show.

    Raises:
        InputError: There are no reports, they are of different documents or interventions or lack
            the metric, or the file cannot be written.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from pragworld_interp import EXAMPLES, accuracy_figure, read_layer_files
        >>> with TemporaryDirectory() as folder:
        ...     reports = read_layer_files([EXAMPLES / "layers.json"])
        ...     figure = accuracy_figure(reports, f"{folder}/figure.png", by="sign")
    """
    check_choice("metric", metric, Metric)
    check_choice("by", by, By)
    check_choice("horizontal", horizontal or "layer", Horizontal)
    first = _first_comparable(layer_reports, path)
    if metric == "robust_accuracy" and not first.plain.robust_accuracy:
        raise InputError(f"split {first.data.split} has no alterations, so no robust accuracy")
    axis = _ablated_axis(layer_reports, horizontal)
    models = []
    for name, report in layer_reports.items():
        outcomes = [getattr(layer, metric) for layer in report.layers]
        model = _changes(name, getattr(report.plain, metric), outcomes, axis)
        if metric == "accuracy":
            model = model._replace(signs=[_ROLES[getattr(layer, by)] for layer in report.layers])
        models.append(model)
    title = _title(first)
    constant = _constant_percent(first) if metric == "accuracy" else None
    marks = _mark_handles(first, by if metric == "accuracy" else None)
    if first.intervention.module == "heads":
        title = f"{title}, {metric.replace('_', ' ')}"
        return _head_maps(path, title, models, first.targets, marks)
    if len(models) > _MOST_LINES:
        title += f"\npercentages are the {metric.replace('_', ' ')} without ablation"
        if constant is not None:
            title += f"\n{_constant_text(constant)}"
        return _change_maps(path, title, {"": [*map(_row, models)]}, axis, marks)
    high = 1.9 if len(models) == 1 else 1.5
    with figure_file(_as_path(path), 7, 2.1 + high * len(models)) as figure:
        top, *grid = figure.subplots(
            1 + len(models), 1, sharex=True, height_ratios=[2.1] + [high] * len(models)
        )
        figure.suptitle(axis.title(title), fontsize=9)
        for axes, look, model in zip(grid, LOOKS, models, strict=False):
            axes.set_title(
                _wrapped(_with_percent(model.name, model.plain), 90), loc="left", fontsize=8
            )
            _draw_line(top, model.at, [o.share.percent for o in model.outcomes], look)
            _draw_level(top, model.plain.percent, look, _DOTTED)
            _draw_changes(axes, model, look)
            axes.set_ylabel("difference\n(points)")
        _scale_changes(grid, models)
        top.set_ylabel(f"{metric.replace('_', ' ')} (%)")
        axis.label(grid[-1], 10)
        handles = [*_model_handles(layer_reports), _line_handle("without ablation", _DOTTED)]
        if constant is not None:
            top.axhline(constant, color=_GREY, linestyle=_DASH_DOTTED, linewidth=1.1)
            handles.append(_line_handle(_constant_text(constant), _DASH_DOTTED))
        handles.append(_band_handle(f"{first.settings.level:.0%} band of all differences"))
        _add_legend(figure, [*handles, *marks])
    return figure


def alterations_figure(
    layer_reports: Mapping[str, LayerReport],
    path: str | Path | None = None,
    horizontal: Horizontal | None = None,
) -> "Figure":
    """Draw a heat map for each model: changes in accuracy by alteration and by ablated layer.

    Rows are the categories of alteration and the originals, with their number of documents and
    their accuracy in the plain run. Marks are where the band of all layers of a row excludes 0;
    rows of few groups have no band.

    Args:
        layer_reports: Reports by the name of each model; see `read_layer_files`.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        horizontal: As in `accuracy_figure`.

    Raises:
        InputError: There are no reports, they are of different documents or interventions or of a
            split without alterations, or the file cannot be written.
    """
    first = _first_comparable(layer_reports, path)
    rows = [("by_alteration", name) for name in first.plain.by_alteration]
    if not rows:
        raise InputError(f"split {first.data.split} has no alterations to show by category")
    if "original" in first.plain.by_effect:
        rows.append(("by_effect", "original"))
    axis = _ablated_axis(layer_reports, horizontal)
    panels = {}
    for model, report in layer_reports.items():
        panels[_with_percent(model, report.plain.accuracy)] = [
            _row(
                _changes(
                    f"{name.capitalize() if name.islower() else name} ({plain.total})",
                    plain,
                    [getattr(layer, breakdown)[name] for layer in report.layers],
                    axis,
                )
            )
            for breakdown, name in rows
            for plain in [getattr(report.plain, breakdown)[name]]
        ]
    title = f"{_title(first)}\nafter the number of documents: accuracy without ablation"
    return _change_maps(path, title, panels, axis, _mark_handles(first, None))


def patching_figure(
    panels: Mapping[str, Mapping[str, PatchedProbability]],
    path: str | Path | None = None,
    title: str = "",
    horizontal: Horizontal | None = None,
) -> "Figure":
    """Draw the probability of the altered prompt's gold answer by patched layer, with OR and AR.

    Up to four models are lines. More are rows of a heat map or, if there are several panels, have a
    heat map each with a row for each panel.

    Args:
        panels: Curves by the title of the panel, such as a category, and the name of the model.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        title: The title above all panels.
        horizontal: As in `accuracy_figure`. Depth 0 is at the first point, 1 at the last.

    Raises:
        InputError: There is nothing to draw, or the file cannot be written.
    """
    models = list(dict.fromkeys(model for curves in panels.values() for model in curves))
    _check_models(models, path)
    depths = [len(curve.layers) for curves in panels.values() for curve in curves.values()]
    axis = _LayerAxis("patched layer", depths, horizontal or _common(depths))
    draw = _patching_lines if len(models) <= _MOST_LINES else _patching_maps
    return draw(panels, path, title, axis, models)


def _patching_lines(
    panels: Mapping[str, Mapping[str, PatchedProbability]],
    path: str | Path | None,
    title: str,
    axis: "_LayerAxis",
    models: Sequence[str],
) -> "Figure":
    looks = dict(zip(models, LOOKS, strict=False))
    width = 30 if len(panels) > 1 else 85
    with _small_multiples(path, len(panels)) as (figure, grid):
        for axes, (name, curves) in zip(grid, panels.items(), strict=True):
            axes.axhline(0.5, color=_GREY, linestyle=_DASH_DOTTED, linewidth=0.9)
            for model, curve in curves.items():
                _draw_patched(axes, curve, looks[model], axis, small=len(panels) > 1)
            pairs = _pairs_text([curves.get(model) for model in models])
            axes.set_title(_wrapped(f"{name} ({pairs})" if name else pairs, width))
            axes.set_ylim(-0.03, 1.03)
        figure.suptitle(axis.title(title), fontsize=9)
        for axes in grid[-_COLUMNS:]:
            axis.label(axes, 4 if len(panels) > 1 else 10)
            axes.tick_params(labelbottom=True)
        for axes in grid[::_COLUMNS]:
            axes.set_ylabel("p(altered gold label)")
        handles = [
            *_model_handles(models),
            _line_handle("original run (OR)", _DOTTED),
            _line_handle("altered run (AR)", _DASHED),
            _line_handle("one half: the answer changes", _DASH_DOTTED),
        ]
        if any(curve.low is not None for curves in panels.values() for curve in curves.values()):
            handles.append(_band_handle(f"{LEVEL:.0%} interval"))
        _add_legend(figure, handles)
    return figure


def _patching_maps(
    panels: Mapping[str, Mapping[str, PatchedProbability]],
    path: str | Path | None,
    title: str,
    axis: "_LayerAxis",
    models: Sequence[str],
) -> "Figure":
    from matplotlib.colors import Normalize

    edges = axis.edges(axis.positions(max(axis.layers)))
    distance = _RUN_WIDTH * (edges[-1] - edges[0])
    places = {edges[0] - distance: "original_run", edges[-1] + distance: "altered_run"}

    def row(name: str, curve: PatchedProbability) -> _Row:
        label = f"{name} ({_pairs_text([curve])})"
        at = axis.positions(len(curve.layers))
        runs = {place: getattr(curve, run) for place, run in places.items()}
        return _Row(label, at, curve.probability, [0] * len(at), runs)

    if len(panels) == 1:
        ((name, curves),) = panels.items()
        maps = {name: [row(model, curve) for model, curve in curves.items()]}
    else:
        maps = {
            model: [row(name, curves[model]) for name, curves in panels.items() if model in curves]
            for model in models
        }
    scale = Normalize(0, 1), {"ticks": [0, 0.25, 0.5, 0.75, 1]}, "p(altered gold label)"
    with _heat_maps(path, title, maps, axis, *scale) as (figure, (*_, axes)):
        axes.set_xlabel(f"{axes.get_xlabel()}, between original run (OR) and altered run (AR)")
        labels = [label.get_text() for label in axes.get_xticklabels()]
        axes.set_xticks([*axes.get_xticks(), *places], [*labels, "OR", "AR"])
    return figure


# Changes ------------------------------------------------------------------------------------------


class _Changes(NamedTuple):
    """A metric of one model in the plain run and with each layer ablated.

    Attributes:
        name: The name of the model, or of a class of documents.
        at: [layers] where the layers are on the horizontal axis.
        plain: The metric in the plain run.
        outcomes: [layers] the metric with each layer ablated.
        signs: [layers] the sign of changes that are marked, 0 for others.
    """

    name: str
    at: Floats
    plain: Share
    outcomes: Sequence[Outcome]
    signs: Sequence[int]

    @property
    def points(self) -> list[float]:
        """The changes in points."""
        return [outcome.difference.points for outcome in self.outcomes]

    @property
    def ends(self) -> Floats:
        """[layers, 2] the ends of their bands, which the metric cannot leave."""
        ends = np.array([outcome.band for outcome in self.outcomes], dtype=np.float64)
        return ends.clip(-self.plain.percent, 100 - self.plain.percent)


def _changes(name: str, plain: Share, outcomes: Sequence[Outcome], axis: "_LayerAxis") -> _Changes:
    """Return changes that are marked where the band of all layers excludes 0."""
    signs = [int(outcome.band.low > 0) - int(outcome.band.high < 0) for outcome in outcomes]
    return _Changes(name, axis.positions(len(outcomes)), plain, outcomes, signs)


def _draw_changes(axes: "Axes", model: _Changes, look: Look) -> None:
    """Draw A_l - A_0 as a line, with the band over all layers and marks."""
    axes.axhline(0, color=look.color, linestyle=_DOTTED, linewidth=1.1)
    low, high = model.ends.T
    axes.fill_between(model.at, low, high, color=look.color, alpha=0.22, linewidth=0)
    _draw_line(axes, model.at, model.points, look, small=True)
    for sign, marker in _MARKERS.items():
        marked = np.asarray(model.signs) == sign
        axes.plot(
            model.at[marked],
            np.asarray(model.points)[marked],
            **_mark_style(marker),
            markersize=6.5,
            color=look.color,
            zorder=3,
        )


def _scale_changes(grid: Sequence["Axes"], models: Sequence[_Changes]) -> None:
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


def _row(changes: _Changes) -> "_Row":
    label = f"{changes.name}, {format_percent(changes.plain.percent)}\N{NO-BREAK SPACE}%"
    return _Row(label, changes.at, changes.points, changes.signs)


def _head_maps(
    path: str | Path | None,
    title: str,
    models: Sequence[_Changes],
    targets: Sequence[Target],
    marks: Sequence["Artist"],
) -> "Figure":
    """Draw a heat map for each model, of layers by heads."""
    heads = [target.head or 0 for target in targets]
    axis = _LayerAxis("ablated head", [1 + max(heads)], "layer")
    maps: dict[str, list[_Row]] = {}
    for model in models:
        rows = maps[_with_percent(model.name, model.plain)] = []
        for layers in dict.fromkeys(target.layers for target in targets):
            places = [place for place, target in enumerate(targets) if target.layers == layers]
            at = np.array([heads[place] for place in places], dtype=np.float64)
            points = [model.points[place] for place in places]
            rows.append(
                _Row(f"layer {layers[0]}", at, points, [model.signs[place] for place in places])
            )
    return _change_maps(path, title, maps, axis, marks)


def _change_maps(
    path: str | Path | None,
    title: str,
    maps: Mapping[str, Sequence["_Row"]],
    axis: "_LayerAxis",
    marks: Sequence["Artist"],
) -> "Figure":
    from matplotlib.colors import SymLogNorm

    points = np.abs([value for rows in maps.values() for row in rows for value in row.values])
    most = _outer_tick(points)
    norm = SymLogNorm(_LINEAR, vmin=-most, vmax=most, base=10)
    scale = norm, _change_ticks(-most, most), "difference (points)"
    with _heat_maps(path, title, maps, axis, *scale) as (figure, _):
        _add_legend(figure, marks)
    return figure


# Heat maps ----------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A row of a heat map.

    Attributes:
        label: What is left of it.
        at: [layers] where the layers are on the horizontal axis.
        values: [layers] what colors show.
        signs: [layers] the sign of marks, 0 for none.
        runs: The values of plain runs, by their places outside the layers.
    """

    label: str
    at: Floats
    values: Sequence[float]
    signs: Sequence[int]
    runs: Mapping[float, float] = MappingProxyType({})


@contextmanager
def _heat_maps(
    path: str | Path | None,
    title: str,
    maps: Mapping[str, Sequence[_Row]],
    axis: "_LayerAxis",
    norm: "Normalize",
    ticks: Mapping[str, Any],
    label: str,
) -> Iterator[tuple["Figure", list["Axes"]]]:
    """Open a figure of heat maps below each other, and write it to `path` afterwards."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("loss and gain", _COLORS)
    labels = {name: [_wrapped(row.label, 42) for row in rows] for name, rows in maps.items()}
    lines = 1 + max(label.count("\n") for texts in labels.values() for label in texts)
    heights = [(0.03 + 0.12 * lines) * len(texts) for texts in labels.values()]
    with figure_file(_as_path(path), 8, 1.1 + sum(heights) + 0.3 * len(maps)) as figure:
        grid = list(
            figure.subplots(len(maps), 1, sharex=True, squeeze=False, height_ratios=heights).flat
        )
        for axes, (name, rows) in zip(grid, maps.items(), strict=True):
            for number, row in enumerate(rows):
                _draw_row(axes, number, row, axis.edges(row.at), norm, colors)
            axes.set_yticks(range(len(rows)), labels[name], fontsize=7.5)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.tick_params(left=False)
            axes.spines[:].set_visible(False)
            axes.grid(visible=False)
            axes.set_title(_wrapped(name, 70), loc="left", fontsize=8.5)
        axis.label(grid[-1], 10)
        figure.suptitle(axis.title(title), fontsize=9)
        shrink = min(1, 2.5 / sum(heights))
        bar = figure.colorbar(ScalarMappable(norm, colors), ax=grid, aspect=20, shrink=shrink)
        bar.set_label(label)
        bar.set_ticks(**ticks)
        bar.minorticks_off()
        yield figure, grid


def _draw_row(
    axes: "Axes", number: int, row: _Row, edges: Floats, norm: "Normalize", colors: Any
) -> None:
    """Draw a cell for each layer, and marks in cells."""
    vertical = [number - 0.45, number + 0.45]
    style = {"norm": norm, "cmap": colors, "edgecolors": "0.85", "linewidth": 0.2}
    axes.pcolormesh(edges, vertical, np.array([row.values]), **style)
    for place, value in row.runs.items():
        half = 0.4 * _RUN_WIDTH * (edges[-1] - edges[0])
        axes.pcolormesh([place - half, place + half], vertical, np.array([[value]]), **style)
    middles = (edges[1:] + edges[:-1]) / 2
    for sign, marker in _MARKERS.items():
        marked = np.asarray(row.signs) == sign
        axes.plot(
            middles[marked],
            np.full(marked.sum(), number),
            **_mark_style(marker),
            markersize=min(5.0, max(3.2, 200 / len(middles))),
            color="white",
        )


# Curves -------------------------------------------------------------------------------------------


def _draw_patched(
    axes: "Axes", curve: PatchedProbability, look: Look, axis: "_LayerAxis", small: bool
) -> None:
    at = axis.positions(len(curve.layers))
    if curve.low is not None and curve.high is not None:
        axes.fill_between(at, curve.low, curve.high, color=look.color, alpha=0.15, linewidth=0)
    _draw_line(axes, at, curve.probability, look, small)
    _draw_level(axes, curve.original_run, look, _DOTTED, small)
    _draw_level(axes, curve.altered_run, look, _DASHED, small)


def _draw_line(
    axes: "Axes", at: Floats, values: Sequence[float], look: Look, small: bool = False
) -> None:
    axes.plot(
        at,
        values,
        color=look.color,
        linestyle=look.line,
        linewidth=1.1 if small else 1.5,
        marker=look.marker,
        markersize=min(2.2, 100 / len(at)) if small else min(4.0, 200 / len(at)),
    )


def _draw_level(axes: "Axes", value: float, look: Look, line: Any, small: bool = False) -> None:
    """Draw a horizontal line that ends on the right in the marker of its model."""
    axes.axhline(value, color=look.color, linestyle=line, linewidth=0.9 if small else 1.1)
    axes.plot(
        [1.01],
        [value],
        marker=look.marker,
        markersize=3 if small else 5,
        color=look.color,
        transform=axes.get_yaxis_transform(),
        clip_on=False,
    )


def _mark_style(marker: str) -> dict[str, Any]:
    edge = {"markeredgecolor": "black", "markeredgewidth": 0.6}
    return {"linestyle": "none", "marker": marker, **edge}


def _constant_percent(report: LayerReport) -> float | None:
    """Return what always giving the most frequent answer reaches, if that is known.

    A model that has collapsed often gives one answer. Of more than two labels, a report does not
    say which of them a prompt has.
    """
    if len(report.model.labels) > 2:
        return None
    answers = Counter(document.answer for document in report.documents)
    return 100 * max(answers.values()) / answers.total()


# Layers -------------------------------------------------------------------------------------------


class _LayerAxis(NamedTuple):
    """The horizontal axis of a figure.

    Attributes:
        what: What it shows.
        layers: How many layers the models have, or what else was swept.
        horizontal: Whether it shows their number or their relative depth.
        names: Their names if they are not numbered from 0.
    """

    what: str
    layers: Sequence[int]
    horizontal: Horizontal
    names: Sequence[str] = ()

    def positions(self, layers: int) -> Floats:
        """Return [layers] where the layers of a model are."""
        at = np.arange(layers, dtype=np.float64)
        return at / max(layers - 1, 1) if self.horizontal == "depth" else at

    def edges(self, at: Floats) -> Floats:
        """Return [layers + 1] where their cells begin and end: halfway; depths are from 0 to 1."""
        ends = (0, 1) if self.horizontal == "depth" else (at[0] - 0.5, at[-1] + 0.5)
        return np.array([ends[0], *(at[1:] + at[:-1]) / 2, ends[1]])

    def label(self, axes: "Axes", most: int) -> None:
        """Label the axis, with ticks at layers that exist, at most as many as given."""
        from matplotlib.ticker import MaxNLocator

        whole = self.horizontal == "layer"
        if self.names:
            most = min(most, 60 // max(map(len, self.names)))
        last = max(self.layers) - 1 if whole else 1
        locator = MaxNLocator(most, steps=[1, 2, 5, 10], integer=whole)
        ticks = [tick for tick in locator.tick_values(0, max(last, 1)) if 0 <= tick <= last]
        axes.set_xticks(ticks, [self.names[int(tick)] for tick in ticks] if self.names else None)
        axes.set_xlabel(self.what if whole else f"{self.what}, relative depth")

    def title(self, title: str) -> str:
        """Return a title that says how layers of models of different depths are aligned."""
        *others, last = sorted(set(self.layers))
        lines = [_wrapped(line, 85) for line in title.split("\n") if line]
        if others and self.horizontal == "depth":
            counts = f"{', '.join(map(str, others))} and {last}"
            lines.append(f"models of {counts} layers, aligned by relative depth")
        return "\n".join(lines)


def _ablated_axis(
    layer_reports: Mapping[str, LayerReport], horizontal: Horizontal | None
) -> _LayerAxis:
    """Return the axis of reports that fit into one figure."""
    names = _target_names(layer_reports)
    if names:
        has_heads = next(iter(layer_reports.values())).intervention.module == "heads"
        what = "ablated head, with its layer before it" if has_heads else "ablated layers"
        return _LayerAxis(what, [len(names)], "layer", names)
    layers = [len(report.layers) for report in layer_reports.values()]
    return _LayerAxis("ablated layer", layers, horizontal or _common(layers))


def _target_names(layer_reports: Mapping[str, LayerReport]) -> list[str]:
    """Return what was ablated in all reports; nothing if that is every layer, each alone.

    Raises:
        InputError: It differs.
    """
    if all(report.targets == every_layer(report.model.layers) for report in layer_reports.values()):
        return []
    (first, shown), *others = layer_reports.items()
    for name, other in others:
        if other.targets != shown.targets:
            raise InputError(
                f"{name} was swept on other layers or heads than {first}; draw sweeps of the same "
                "ones, or of every layer"
            )
    names = [target.name for target in shown.targets]
    return [name if len(name) <= 12 else f"{name[:11]}…" for name in names]


def _common(layers: Sequence[int]) -> Horizontal:
    return "layer" if len(set(layers)) == 1 else "depth"


# Titles, labels and legends -----------------------------------------------------------------------


def _title(report: LayerReport) -> str:
    return f"{report.intervention.name}: {report.data.split}, {report.data.documents} documents"


def _wrapped(text: str, width: int) -> str:
    """Break a text into lines, but not within parentheses."""
    whole = re.sub(r"\([^)]*\)", lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    return textwrap.fill(whole, width).replace("\N{NO-BREAK SPACE}", " ")


def _with_percent(name: str, plain: Share) -> str:
    return f"{name}, {format_percent(plain.percent)} % without"


def _constant_text(constant: float) -> str:
    return f"always the most frequent answer: {format_percent(constant)} %"


def _pairs_text(curves: Sequence[PatchedProbability | None]) -> str:
    """Return how many pairs curves are averages of."""
    counts = [curve.pairs if curve else 0 for curve in curves]
    return f"{', '.join(map(str, counts))} {'pair' if counts == [1] else 'pairs'}"


def _model_handles(names: Iterable[str]) -> list["Artist"]:
    return [
        _handle(name, color=look.color, linestyle=look.line, marker=look.marker, markersize=4)
        for look, name in zip(LOOKS, names, strict=False)
    ]


def _mark_handles(report: LayerReport, by: By | None) -> list["Artist"]:
    """Return handles of marks by role or, without a rule, by the band of all layers."""
    rule = "by sign" if by == "sign" else f"both Holm p ≤ {report.settings.alpha:g}"
    labels = {-1: f"useful ({rule})", 1: f"harmful ({rule})"}
    if not by:
        band = f"{report.settings.level:.0%} band of all layers"
        labels = {-1: f"lower ({band} below 0)", 1: f"higher ({band} above 0)"}
    return [
        _handle(labels[sign], **_mark_style(marker), markersize=7, color="white")
        for sign, marker in _MARKERS.items()
    ]


def _line_handle(label: str, line: Any) -> "Artist":
    return _handle(label, color=_GREY, linestyle=line, linewidth=1.1)


def _handle(label: str, **style: Any) -> "Artist":
    from matplotlib.lines import Line2D

    return Line2D([], [], label=_wrapped(label, 90), **style)


def _band_handle(label: str) -> "Artist":
    from matplotlib.patches import Patch

    return Patch(color=_GREY, alpha=0.25, linewidth=0, label=label)


def _add_legend(figure: "Figure", handles: Sequence["Artist"]) -> None:
    """Add a legend below all panels, in as many columns as fit, and make the figure higher."""
    labels = [str(handle.get_label()) for handle in handles]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    columns = max(1, int(figure.get_figwidth() / (0.6 + 0.065 * longest)))
    lines = 1 + max(label.count("\n") for label in labels)
    figure.set_figheight(figure.get_figheight() + 0.17 * lines * -(-len(handles) // columns))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(columns, len(handles)),
        handlelength=4,
    )


# Files --------------------------------------------------------------------------------------------


def _first_comparable(
    layer_reports: Mapping[str, LayerReport], path: str | Path | None
) -> LayerReport:
    """Return the first report once all are known to fit into one figure."""
    _check_models(layer_reports, path)
    check_same_sweep(layer_reports)
    return next(iter(layer_reports.values()))


def _as_path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _check_models(models: Iterable[str], path: str | Path | None) -> None:
    if not list(models):
        figure = "the figure" if path is None else path
        raise InputError(f"{figure}: there is nothing to draw; give at least one model")


@contextmanager
def _small_multiples(
    path: str | Path | None, panels: int
) -> Iterator[tuple["Figure", list["Axes"]]]:
    """Open a figure of panels that share their axes, and write it to `path` afterwards."""
    columns = min(_COLUMNS, panels)
    rows = -(-panels // columns)
    with figure_file(
        _as_path(path), max(7, 2.4 * columns), 0.8 + 1.9 * rows + (rows == 1)
    ) as figure:
        grid = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
        for axes in grid[panels:]:
            axes.set_visible(False)
        yield figure, grid[:panels]
