"""Figures: accuracy by ablated layer, and the probability that patching a layer brings.

The papers' figures 4, 5, 9 and 10 (accuracy with the MLP of each layer zeroed), and 3 and 8 (direct
effect patching). Models differ by look, useful and harmful layers by shape.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pragworld_interp.compare import check_comparable
from pragworld_interp.layer_report import By, LayerReport, Outcome, selected
from pragworld_interp.patching_report import PatchedProbability
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation import reports
from pragworld_tasks.evaluation.metrics import LEVEL, Floats
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.figures import LOOKS, Look, figure_file

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Horizontal = Literal["layer", "depth"]
Metric = Literal["accuracy", "robust_accuracy"]

_COLUMNS = 4  # of small multiples
_GREY = "0.35"
_PLAIN_RUN = (0, (1, 1))
_ORIGINAL_RUN, _ALTERED_RUN = (0, (1, 1)), (0, (4, 2))


def accuracy_figure(
    layer_reports: Mapping[str, LayerReport],
    path: Path,
    metric: Metric = "accuracy",
    by: By = "evidence",
    horizontal: Horizontal = "layer",
) -> None:
    """Accuracy by ablated layer, all models in one panel, each with its base line and intervals.

    Args:
        layer_reports: by the name that the figure calls each; see `layers.titles`.
        path: where to; .png, .svg or .pdf.
        metric: accuracy, or robust accuracy. Useful and harmful layers are marked on accuracy only.
        by: whether layers are marked by evidence or by the bare sign.
        horizontal: the number of the layer, or its relative depth from 0 to 1.

    Raises:
        InputError: no reports, too many, reports of different documents or interventions or without
            that metric, or a path that cannot be written.
    """
    _check(layer_reports, path)
    if metric == "robust_accuracy" and not _first(layer_reports).plain.robust_accuracy:
        raise InputError(f"{_first(layer_reports).data.split}: no alterations, no robust accuracy")
    with figure_file(path, 7, 3.8) as figure:
        axes = figure.subplots()
        for look, report in zip(LOOKS, layer_reports.values(), strict=False):
            plain: Share = getattr(report.plain, metric)
            outcomes = [getattr(layer, metric) for layer in report.layers]
            _draw_outcomes(axes, plain, outcomes, look, horizontal)
            if metric == "accuracy":
                _mark_roles(axes, report, by, look, horizontal)
        axes.set_title(_title(layer_reports))
        _set_ticks(axes, horizontal, 10)
        axes.set_xlabel(_horizontal_label("ablated layer", horizontal))
        axes.set_ylabel(f"{metric.replace('_', ' ')} (%)")
        handles = [
            *_model_handles(
                {
                    f"{name} ({reports.percent(getattr(report.plain, metric))} % without)": report
                    for name, report in layer_reports.items()
                }
            ),
            *_outcome_handles(layer_reports),
        ]
        if metric == "accuracy":
            handles += _role_handles(layer_reports, by)
        _legend(figure, handles)


def alterations_figure(
    layer_reports: Mapping[str, LayerReport], path: Path, horizontal: Horizontal = "layer"
) -> None:
    """Accuracy by ablated layer, a panel for each category of alteration and one for originals.

    Args:
        layer_reports: by the name that the figure calls each; see `layers.titles`.
        path: where to; .png, .svg or .pdf.
        horizontal: the number of the layer, or its relative depth from 0 to 1.

    Raises:
        InputError: no reports, too many, reports of different documents or interventions or of a
            split without alterations, or a path that cannot be written.
    """
    _check(layer_reports, path)
    first = _first(layer_reports)
    panels = [("by_alteration", name) for name in first.plain.by_alteration]
    if "original" in first.plain.by_effect:
        panels.append(("by_effect", "original"))
    if not first.plain.by_alteration:
        raise InputError(f"{first.data.split}: no alterations to show by category")
    with _panels(path, len(panels)) as (figure, grid):
        for axes, (breakdown, name) in zip(grid, panels, strict=True):
            for look, report in zip(LOOKS, layer_reports.values(), strict=False):
                outcomes = [getattr(layer, breakdown)[name] for layer in report.layers]
                plain: Share = getattr(report.plain, breakdown)[name]
                _draw_outcomes(axes, plain, outcomes, look, horizontal, small=True)
            total = getattr(first.plain, breakdown)[name].total
            _set_panel_title(axes, f"{name.capitalize() if name.islower() else name} ({total})")
        figure.suptitle(_title(layer_reports), fontsize=9)
        _label_panels(grid, "ablated layer", horizontal, "accuracy (%)")
        _legend(figure, [*_model_handles(layer_reports), *_outcome_handles(layer_reports)])


def patching_figure(
    panels: Mapping[str, Mapping[str, PatchedProbability]],
    path: Path,
    title: str = "",
    horizontal: Horizontal = "layer",
) -> None:
    """Probability of the altered prompt's gold label by patched layer, with OR and AR.

    Args:
        panels: by title of the panel (a category, say, or one for all), models by name.
        path: where to; .png, .svg or .pdf.
        title: above all panels.
        horizontal: the number of the layer, or its relative depth: 0 at the first point, 1 at the
            last.

    Raises:
        InputError: nothing to show, too many models, or a path that cannot be written.
    """
    models = dict.fromkeys(model for curves in panels.values() for model in curves)
    _check_drawable(models, path)
    looks = dict(zip(models, LOOKS, strict=False))
    with _panels(path, len(panels)) as (figure, grid):
        for axes, (name, curves) in zip(grid, panels.items(), strict=True):
            for model, curve in curves.items():
                _draw_patched(axes, curve, looks[model], horizontal, small=len(panels) > 1)
            _set_panel_title(axes, name)
            axes.set_ylim(-0.03, 1.03)
        if title:
            figure.suptitle(title, fontsize=9)
        _label_panels(grid, "patched layer", horizontal, "p(altered gold label)")
        handles = _model_handles(models)
        handles += [
            _line_handle("original run (OR)", _ORIGINAL_RUN),
            _line_handle("altered run (AR)", _ALTERED_RUN),
        ]
        if any(curve.low is not None for curves in panels.values() for curve in curves.values()):
            handles.append(_band_handle(f"{LEVEL:.0%} interval"))
        _legend(figure, handles)


# Curves -------------------------------------------------------------------------------------------


def _draw_outcomes(
    axes: "Axes",
    plain: Share,
    outcomes: Sequence[Outcome],
    look: Look,
    horizontal: Horizontal,
    small: bool = False,
) -> None:
    """A_l as a line, A_0 as a base line, and around A_l the interval of A_l - A_0."""
    at = _positions(range(len(outcomes)), horizontal)
    ends = np.array([outcome.difference.interval for outcome in outcomes]) + plain.percent
    ends = ends.clip(0, 100)
    axes.fill_between(at, ends[:, 0], ends[:, 1], color=look.color, alpha=0.15, linewidth=0)
    _draw_line(axes, at, [outcome.share.percent for outcome in outcomes], look, small)
    _draw_level(axes, plain.percent, look, _PLAIN_RUN, small)


def _draw_patched(
    axes: "Axes", curve: PatchedProbability, look: Look, horizontal: Horizontal, small: bool
) -> None:
    at = _positions(curve.layers, horizontal)
    if curve.low is not None and curve.high is not None:
        axes.fill_between(at, curve.low, curve.high, color=look.color, alpha=0.15, linewidth=0)
    _draw_line(axes, at, curve.probability, look, small)
    _draw_level(axes, curve.original_run, look, _ORIGINAL_RUN, small)
    _draw_level(axes, curve.altered_run, look, _ALTERED_RUN, small)


def _draw_line(axes: "Axes", at: Floats, values: Sequence[float], look: Look, small: bool) -> None:
    axes.plot(
        at,
        values,
        color=look.color,
        linestyle=look.line,
        linewidth=1.1 if small else 1.5,
        marker=look.marker,
        markersize=2.2 if small else 4,
    )


def _draw_level(axes: "Axes", value: float, look: Look, line: Any, small: bool) -> None:
    """A horizontal line, at its right end the marker of the model that it belongs to."""
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


def _mark_roles(
    axes: "Axes", report: LayerReport, by: By, look: Look, horizontal: Horizontal
) -> None:
    at = _positions(range(len(report.layers)), horizontal)
    for role, marker in _ROLE_MARKERS.items():
        layers = selected(report, role, by)
        axes.plot(
            at[layers],
            [report.layers[layer].accuracy.share.percent for layer in layers],
            linestyle="none",
            marker=marker,
            markersize=9,
            color=look.color,
            markeredgecolor="black",
            markeredgewidth=0.8,
            zorder=3,
        )


_ROLE_MARKERS: dict[Literal["useful", "harmful"], str] = {"useful": "v", "harmful": "^"}


def _positions(layers: Sequence[int], horizontal: Horizontal) -> Floats:
    at = np.asarray(layers, dtype=np.float64)
    if horizontal == "depth":
        at = (at - at[0]) / max(at[-1] - at[0], 1)
    return at


# Words around them --------------------------------------------------------------------------------


def _first(layer_reports: Mapping[str, LayerReport]) -> LayerReport:
    return next(iter(layer_reports.values()))


def _title(layer_reports: Mapping[str, LayerReport]) -> str:
    first = _first(layer_reports)
    return f"{first.intervention.name}: {first.data.split}, {first.data.documents} documents"


def _horizontal_label(what: str, horizontal: Horizontal) -> str:
    return what if horizontal == "layer" else f"{what}, relative depth"


def _set_ticks(axes: "Axes", horizontal: Horizontal, most: int) -> None:
    from matplotlib.ticker import MaxNLocator

    whole = horizontal == "layer"
    axes.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], integer=whole))


def _set_panel_title(axes: "Axes", title: str) -> None:
    """The title, on two lines if need be, but not broken within parentheses."""
    whole = re.sub(r"\([^)]*\)", lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), title)
    axes.set_title(textwrap.fill(whole, 30))


def _label_panels(grid: Sequence["Axes"], what: str, horizontal: Horizontal, vertical: str) -> None:
    """Labels the lowest panel of each column and the first of each row."""
    _set_ticks(grid[0], horizontal, 4)
    for axes in grid[-_COLUMNS:]:
        axes.set_xlabel(_horizontal_label(what, horizontal))
        axes.tick_params(labelbottom=True)
    for axes in grid[::_COLUMNS]:
        axes.set_ylabel(vertical)


def _model_handles(models: Mapping[str, object]) -> list["Artist"]:
    from matplotlib.lines import Line2D

    return [
        Line2D(
            [],
            [],
            color=look.color,
            linestyle=look.line,
            marker=look.marker,
            markersize=4,
            label=name,
        )
        for look, name in zip(LOOKS, models, strict=False)
    ]


def _outcome_handles(layer_reports: Mapping[str, LayerReport]) -> list["Artist"]:
    level = _first(layer_reports).settings.level
    return [
        _line_handle("without ablation", _PLAIN_RUN),
        _band_handle(f"{level:.0%} interval of the difference"),
    ]


def _role_handles(layer_reports: Mapping[str, LayerReport], by: By) -> list["Artist"]:
    from matplotlib.lines import Line2D

    alpha = _first(layer_reports).settings.alpha
    way = "by sign" if by == "sign" else f"both Holm p ≤ {alpha:g}"
    return [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=marker,
            markersize=8,
            color="0.7",
            markeredgecolor="black",
            markeredgewidth=0.8,
            label=f"{role} ({way})",
        )
        for role, marker in _ROLE_MARKERS.items()
    ]


def _line_handle(label: str, line: Any) -> "Artist":
    from matplotlib.lines import Line2D

    return Line2D([], [], color=_GREY, linestyle=line, linewidth=1.1, label=label)


def _band_handle(label: str) -> "Artist":
    from matplotlib.patches import Patch

    return Patch(color=_GREY, alpha=0.2, linewidth=0, label=label)


def _legend(figure: "Figure", handles: Sequence["Artist"]) -> None:
    """Below all panels, in as many columns as its longest label fits; adds its height."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, int(figure.get_figwidth() / (0.6 + 0.065 * longest)))
    figure.set_figheight(figure.get_figheight() + 0.17 * -(-len(handles) // columns))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(columns, len(handles)),
        handlelength=4,
    )


# Files --------------------------------------------------------------------------------------------


def _check(layer_reports: Mapping[str, LayerReport], path: Path) -> None:
    _check_drawable(layer_reports, path)
    check_comparable(layer_reports)


def _check_drawable(models: Mapping[str, object], path: Path) -> None:
    if not models:
        raise InputError(f"{path}: nothing to show")
    if len(models) > len(LOOKS):
        raise InputError(
            f"{path}: {len(models)} models; no more than {len(LOOKS)} can be told apart in a panel"
        )


@contextmanager
def _panels(path: Path, panels: int) -> Iterator[tuple["Figure", list["Axes"]]]:
    """The same with small multiples that share their axes."""
    columns = min(_COLUMNS, panels)
    rows = -(-panels // columns)
    with figure_file(path, max(5.5, 2.4 * columns), 0.8 + 1.9 * rows + (rows == 1)) as figure:
        grid = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
        for axes in grid[panels:]:
            axes.set_visible(False)
        yield figure, grid[:panels]
