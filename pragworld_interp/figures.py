"""Figures: accuracy by ablated layer, and the probability that patching a layer leads to.

They follow figures 4, 5, 9 and 10 of the papers (accuracy with the MLP of each layer zeroed) and
figures 3 and 8 (direct effect patching). Models differ in color, line and marker; useful and
harmful layers differ in the shape of their marks. The functions need matplotlib only.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pragworld_interp.comparison import check_comparable
from pragworld_interp.layer_report import By, LayerReport, Outcome
from pragworld_interp.patching_report import PatchedProbability
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import LEVEL, Floats
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.figures import LOOKS, Look, figure_file
from pragworld_tasks.formatting import format_percent

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Horizontal = Literal["layer", "depth"]
Metric = Literal["accuracy", "robust_accuracy"]

_COLUMNS = 4  # of small multiples
_GREY = "0.35"
_DOTTED, _DASHED = (0, (1, 1)), (0, (4, 2))
_ROLE_MARKERS: dict[Literal["useful", "harmful"], str] = {"useful": "v", "harmful": "^"}


def accuracy_figure(
    layer_reports: Mapping[str, LayerReport],
    path: str | Path | None = None,
    metric: Metric = "accuracy",
    by: By = "evidence",
    horizontal: Horizontal = "layer",
) -> "Figure":
    """Draw accuracy by ablated layer: all models in one panel, with base lines and intervals.

    Args:
        layer_reports: Reports by the name of each model; see `read_layer_files`.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        metric: Accuracy or robust accuracy. Only accuracy has marks on useful and harmful layers.
        by: Whether the marks follow the evidence or the bare sign.
        horizontal: The number of the layer, or its relative depth from 0 to 1.

    Returns:
        The figure, which notebooks show.

    Raises:
        InputError: There are no reports or too many, they are of different documents or
            interventions or lack the metric, or the file cannot be written.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from pragworld_interp import EXAMPLES, accuracy_figure, read_layer_files
        >>> with TemporaryDirectory() as folder:
        ...     reports = read_layer_files([EXAMPLES / "layers.json"])
        ...     figure = accuracy_figure(reports, f"{folder}/figure.png", by="sign")
    """
    first = _first_comparable(layer_reports, path)
    if metric == "robust_accuracy" and not first.plain.robust_accuracy:
        raise InputError(f"split {first.data.split} has no alterations, so no robust accuracy")
    with figure_file(_as_path(path), 7, 3.8) as figure:
        axes = figure.subplots()
        labels = []
        for look, (name, report) in zip(LOOKS, layer_reports.items(), strict=False):
            plain: Share = getattr(report.plain, metric)
            outcomes = [getattr(layer, metric) for layer in report.layers]
            _draw_outcomes(axes, plain, outcomes, look, horizontal)
            if metric == "accuracy":
                _mark_roles(axes, report, by, look, horizontal)
            labels.append(f"{name} ({format_percent(plain.percent)} % without)")
        axes.set_title(_title(first))
        _set_ticks(axes, horizontal, 10)
        axes.set_xlabel(_horizontal_label("ablated layer", horizontal))
        axes.set_ylabel(f"{metric.replace('_', ' ')} (%)")
        handles = [*_model_handles(labels), *_outcome_handles(first)]
        if metric == "accuracy":
            rule = "by sign" if by == "sign" else f"both Holm p ≤ {first.settings.alpha:g}"
            handles += [
                _handle(f"{role} ({rule})", **_role_style(marker), markersize=8, color="0.7")
                for role, marker in _ROLE_MARKERS.items()
            ]
        _add_legend(figure, handles)
    return figure


def alterations_figure(
    layer_reports: Mapping[str, LayerReport],
    path: str | Path | None = None,
    horizontal: Horizontal = "layer",
) -> "Figure":
    """Draw accuracy by ablated layer: one panel for each category of alteration and for originals.

    Args:
        layer_reports: Reports by the name of each model; see `read_layer_files`.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        horizontal: The number of the layer, or its relative depth from 0 to 1.

    Raises:
        InputError: There are no reports or too many, they are of different documents or
            interventions or of a split without alterations, or the file cannot be written.
    """
    first = _first_comparable(layer_reports, path)
    panels = [("by_alteration", name) for name in first.plain.by_alteration]
    if not panels:
        raise InputError(f"split {first.data.split} has no alterations to show by category")
    if "original" in first.plain.by_effect:
        panels.append(("by_effect", "original"))
    with _small_multiples(path, len(panels)) as (figure, grid):
        for axes, (breakdown, name) in zip(grid, panels, strict=True):
            for look, report in zip(LOOKS, layer_reports.values(), strict=False):
                outcomes = [getattr(layer, breakdown)[name] for layer in report.layers]
                plain: Share = getattr(report.plain, breakdown)[name]
                _draw_outcomes(axes, plain, outcomes, look, horizontal, small=True)
            total = getattr(first.plain, breakdown)[name].total
            _set_panel_title(axes, f"{name.capitalize() if name.islower() else name} ({total})")
        figure.suptitle(_title(first), fontsize=9)
        _label_panels(grid, "ablated layer", horizontal, "accuracy (%)")
        _add_legend(figure, [*_model_handles(layer_reports), *_outcome_handles(first)])
    return figure


def patching_figure(
    panels: Mapping[str, Mapping[str, PatchedProbability]],
    path: str | Path | None = None,
    title: str = "",
    horizontal: Horizontal = "layer",
) -> "Figure":
    """Draw the probability of the altered prompt's gold answer by patched layer, with OR and AR.

    Args:
        panels: Curves by the title of the panel, such as a category, and the name of the model.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        title: The title above all panels.
        horizontal: The number of the layer, or its relative depth: 0 at the first point, 1 at the
            last.

    Raises:
        InputError: There is nothing to draw, there are too many models, or the file cannot be
            written.
    """
    models = dict.fromkeys(model for curves in panels.values() for model in curves)
    _check_models(models, path)
    looks = dict(zip(models, LOOKS, strict=False))
    with _small_multiples(path, len(panels)) as (figure, grid):
        for axes, (name, curves) in zip(grid, panels.items(), strict=True):
            for model, curve in curves.items():
                _draw_patched(axes, curve, looks[model], horizontal, small=len(panels) > 1)
            _set_panel_title(axes, name)
            axes.set_ylim(-0.03, 1.03)
        if title:
            figure.suptitle(title, fontsize=9)
        _label_panels(grid, "patched layer", horizontal, "p(altered gold label)")
        handles = [
            *_model_handles(models),
            _line_handle("original run (OR)", _DOTTED),
            _line_handle("altered run (AR)", _DASHED),
        ]
        if any(curve.low is not None for curves in panels.values() for curve in curves.values()):
            handles.append(_band_handle(f"{LEVEL:.0%} interval"))
        _add_legend(figure, handles)
    return figure


# Curves -------------------------------------------------------------------------------------------


def _draw_outcomes(
    axes: "Axes",
    plain: Share,
    outcomes: Sequence[Outcome],
    look: Look,
    horizontal: Horizontal,
    small: bool = False,
) -> None:
    """Draw A_l as a line, A_0 as a base line, and the band of A_l - A_0 over all layers."""
    at = _positions(range(len(outcomes)), horizontal)
    ends = np.array([outcome.band for outcome in outcomes]) + plain.percent
    ends = ends.clip(0, 100)
    axes.fill_between(at, ends[:, 0], ends[:, 1], color=look.color, alpha=0.15, linewidth=0)
    _draw_line(axes, at, [outcome.share.percent for outcome in outcomes], look, small)
    _draw_level(axes, plain.percent, look, _DOTTED, small)


def _draw_patched(
    axes: "Axes", curve: PatchedProbability, look: Look, horizontal: Horizontal, small: bool
) -> None:
    at = _positions(curve.layers, horizontal)
    if curve.low is not None and curve.high is not None:
        axes.fill_between(at, curve.low, curve.high, color=look.color, alpha=0.15, linewidth=0)
    _draw_line(axes, at, curve.probability, look, small)
    _draw_level(axes, curve.original_run, look, _DOTTED, small)
    _draw_level(axes, curve.altered_run, look, _DASHED, small)


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


def _mark_roles(
    axes: "Axes", report: LayerReport, by: By, look: Look, horizontal: Horizontal
) -> None:
    at = _positions(range(len(report.layers)), horizontal)
    for role, marker in _ROLE_MARKERS.items():
        layers = report.selected(role, by)
        axes.plot(
            at[layers],
            [report.layers[layer].accuracy.share.percent for layer in layers],
            **_role_style(marker),
            markersize=9,
            color=look.color,
            zorder=3,
        )


def _role_style(marker: str) -> dict[str, Any]:
    edge = {"markeredgecolor": "black", "markeredgewidth": 0.8}
    return {"linestyle": "none", "marker": marker, **edge}


def _positions(layers: Sequence[int], horizontal: Horizontal) -> Floats:
    at = np.asarray(layers, dtype=np.float64)
    if horizontal == "depth":
        at = (at - at[0]) / max(at[-1] - at[0], 1)
    return at


# Titles, labels and legends -----------------------------------------------------------------------


def _title(report: LayerReport) -> str:
    return f"{report.intervention.name}: {report.data.split}, {report.data.documents} documents"


def _horizontal_label(what: str, horizontal: Horizontal) -> str:
    return what if horizontal == "layer" else f"{what}, relative depth"


def _set_ticks(axes: "Axes", horizontal: Horizontal, most: int) -> None:
    from matplotlib.ticker import MaxNLocator

    whole = horizontal == "layer"
    axes.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], integer=whole))


def _set_panel_title(axes: "Axes", title: str) -> None:
    """Set a title, wrapped outside parentheses if it is long."""
    whole = re.sub(r"\([^)]*\)", lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), title)
    axes.set_title(textwrap.fill(whole, 30))


def _label_panels(grid: Sequence["Axes"], what: str, horizontal: Horizontal, vertical: str) -> None:
    """Label the lowest panel of each column and the first panel of each row."""
    _set_ticks(grid[0], horizontal, 4)
    for axes in grid[-_COLUMNS:]:
        axes.set_xlabel(_horizontal_label(what, horizontal))
        axes.tick_params(labelbottom=True)
    for axes in grid[::_COLUMNS]:
        axes.set_ylabel(vertical)


def _model_handles(names: Iterable[str]) -> list["Artist"]:
    return [
        _handle(name, color=look.color, linestyle=look.line, marker=look.marker, markersize=4)
        for look, name in zip(LOOKS, names, strict=False)
    ]


def _outcome_handles(report: LayerReport) -> list["Artist"]:
    return [
        _line_handle("without ablation", _DOTTED),
        _band_handle(f"{report.settings.level:.0%} band of all differences"),
    ]


def _line_handle(label: str, line: Any) -> "Artist":
    return _handle(label, color=_GREY, linestyle=line, linewidth=1.1)


def _handle(label: str, **style: Any) -> "Artist":
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **style)


def _band_handle(label: str) -> "Artist":
    from matplotlib.patches import Patch

    return Patch(color=_GREY, alpha=0.2, linewidth=0, label=label)


def _add_legend(figure: "Figure", handles: Sequence["Artist"]) -> None:
    """Add a legend below all panels, in as many columns as fit, and make the figure higher."""
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


def _first_comparable(
    layer_reports: Mapping[str, LayerReport], path: str | Path | None
) -> LayerReport:
    """Return the first report once all are known to fit into one figure."""
    _check_models(layer_reports, path)
    check_comparable(layer_reports)
    return next(iter(layer_reports.values()))


def _as_path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _check_models(models: Mapping[str, object], path: str | Path | None) -> None:
    figure = "the figure" if path is None else path
    if not models:
        raise InputError(f"{figure}: there is nothing to draw; give at least one model")
    if len(models) > len(LOOKS):
        raise InputError(
            f"{figure}: a figure shows at most {len(LOOKS)} models, not {len(models)}; draw more"
            " figures"
        )


@contextmanager
def _small_multiples(
    path: str | Path | None, panels: int
) -> Iterator[tuple["Figure", list["Axes"]]]:
    """Open a figure of panels that share their axes, and write it to `path` afterwards."""
    columns = min(_COLUMNS, panels)
    rows = -(-panels // columns)
    with figure_file(
        _as_path(path), max(5.5, 2.4 * columns), 0.8 + 1.9 * rows + (rows == 1)
    ) as figure:
        grid = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
        for axes in grid[panels:]:
            axes.set_visible(False)
        yield figure, grid[:panels]
