"""The report of an ablation sweep: what each layer does, its file, its tables and its figures.

A layer is useful if ablating it lowers the accuracy, and harmful if ablating it raises the accuracy
(PragWorld paper, section 6.2). Published sets of layers follow the bare sign of A_l - A_0, which
one document in 500 can decide. The report therefore gives a test, corrected over layers, next to
the sign.

A report holds what was observed: the probability of each gold answer in each run. Everything else
is computed from that.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.layers import figures
from pragworld_tasks.layers.files import LAYERS, Report, by_title, read_report
from pragworld_tasks.layers.layer_statistics import (
    By,
    DocumentResult,
    LayerResult,
    Outcome,
    PlainRun,
    Role,
    SweepSettings,
    compute_statistics,
)
from pragworld_tasks.layers.settings import (
    DataIdentity,
    Intervention,
    ModelIdentity,
    Target,
    check_choice,
    every_layer,
)
from pragworld_tasks.text import (
    format_interval,
    format_number,
    format_percent,
    format_points,
    format_size,
    markdown_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Metric = Literal["accuracy", "robust_accuracy"]

_SIGNS = {"useful": -1, "neutral": 0, "harmful": 1}


# The report ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayerReport(Report):
    """The report of one model, one set of documents and one intervention.

    Attributes:
        targets: What was ablated, in turn: each layer from layer 0, unless others were chosen.
        documents: The probabilities that everything else is computed from.
        settings: The settings of the statistics. `dataclasses.replace` returns a report with
            others.

    Examples:
        >>> from pragworld_tasks.layers import EXAMPLES
        >>> report = read_layers(EXAMPLES / "layers.json")
        >>> report.selected("useful"), report.selected("useful", by="evidence")
        ([0, 1], [])
    """

    schema = LAYERS
    rows = "documents"

    model: ModelIdentity
    data: DataIdentity
    intervention: Intervention
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]
    documents: Annotated[tuple[DocumentResult, ...], Field(min_length=1)]
    settings: SweepSettings = field(default_factory=SweepSettings)

    @property
    def is_whole(self) -> bool:
        """Whether each layer of the model was ablated, and alone."""
        return self.targets == every_layer(self.model.layers)

    @property
    def plain(self) -> PlainRun:
        """The run without intervention."""
        return self._statistics[0]

    @property
    def layers(self) -> tuple[LayerResult, ...]:
        """The effect of each target."""
        return self._statistics[1]

    @cached_property
    def _statistics(self) -> tuple[PlainRun, tuple[LayerResult, ...]]:
        return compute_statistics(self.documents, self.targets, self.data.split, self.settings)

    def selected(self, role: Role, by: By = "sign") -> list[Any]:
        """Return the layers that have a role, as numbers; see `Target.place` for other targets.

        Args:
            role: "useful", "harmful" or "neutral".
            by: Whether the sign of A_l - A_0 or the evidence decides.

        Raises:
            InputError: The role or the criterion does not exist.
        """
        check_choice("role", role, Role)
        check_choice("by", by, By)
        return [layer.target.place for layer in self.layers if getattr(layer, by) == role]

    def selected_layers(self, role: Role, by: By = "sign") -> list[int]:
        """Return the numbers of the layers that have a role; see `selected`.

        Raises:
            InputError: Something else than single layers at all positions was ablated.
        """
        if self.intervention.positions != "all" or any(
            target.head is not None or len(target.layers) > 1 for target in self.targets
        ):
            raise InputError(
                f"a report of {self.intervention.name} of {self.targets[0].name} and others; "
                "ablate single layers at all positions"
            )
        return self.selected(role, by)

    def to_frame(self) -> "DataFrame":
        """Return the figures of the layers as a pandas DataFrame, a row for each target."""
        from pandas import DataFrame

        rows = []
        for layer in self.layers:
            accuracy, robust = layer.accuracy, layer.robust_accuracy
            row = {
                "layer": layer.target.place,
                "percent": accuracy.share.percent,
                "points": accuracy.difference.points,
                "low": accuracy.difference.interval.low,
                "high": accuracy.difference.interval.high,
            }
            if robust:
                row["robust_percent"] = robust.share.percent
                row["robust_points"] = robust.difference.points
            for name in ("p", "holm", "sign", "evidence", "log_odds", "log_odds_holm"):
                row[name] = getattr(layer, name)
            rows.append(row)
        return DataFrame(rows).set_index("layer")

    def to_text(self) -> str:
        """Return a Markdown table of the layers, and what was found in words."""
        return "\n".join([_layer_table(self), *_findings(self)])

    def plot(
        self, path: str | Path | None = None, metric: Metric = "accuracy", by: By = "evidence"
    ) -> "Figure":
        """Draw the accuracy by ablated layer; see `accuracy_figure`."""
        return accuracy_figure(by_title([self]), path, metric, by)


def read_layers(path: str | Path) -> LayerReport:
    """Read the report that `pragworld-interp ablate` or `LayerReport.write` wrote.

    Raises:
        InputError: The file is missing, malformed or of another version.
    """
    return read_report(path, LayerReport)


def check_same_sweep(layer_reports: Mapping[str, LayerReport]) -> LayerReport:
    """Return the first report, once all are of the same documents and the same intervention.

    Raises:
        InputError: They are not, or there is none.
    """
    if not layer_reports:
        raise InputError("there are no layer reports; give at least one")
    (name, first), *others = layer_reports.items()
    for other_name, other in others:
        if other.data.fingerprint != first.data.fingerprint:
            raise InputError(
                f"{other_name} was evaluated on other documents than {name}; sweep both on the "
                "same documents"
            )
        if other.intervention.name != first.intervention.name:
            raise InputError(
                f"{other_name} was swept with {other.intervention.name} and {name} with "
                f"{first.intervention.name}; use the same intervention for both"
            )
    return first


# Tables -------------------------------------------------------------------------------------------


def p_text(p: float) -> str:
    """Return a p value with four digits, or a dash for NaN."""
    return "-" if math.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _layer_table(report: LayerReport) -> str:
    robust = report.plain.robust_accuracy
    headers = ["layer", "%", "points", f"{report.settings.level:.0%} interval"]
    headers += [*(["robust points"] if robust else []), "Holm p", "log-odds", "role"]
    rows = []
    for layer in report.layers:
        difference, groups = layer.accuracy.difference, layer.robust_accuracy
        row = [layer.target.name, format_percent(layer.accuracy.share.percent)]
        row += [format_points(difference.points), format_interval(difference.interval)]
        row += [format_points(groups.difference.points)] if groups else []
        star = "*" if layer.log_odds_holm <= report.settings.alpha else ""
        row += [p_text(layer.holm), format_number(layer.log_odds, "+.3f") + star, layer.evidence]
        rows.append(row)
    plain = f"accuracy {report.plain.accuracy.percent:.2f}"
    if robust:
        plain += f", robust accuracy {robust.percent:.2f}"
    title = (
        f"{report.model.title}, {report.intervention.name}: {report.data.split}, "
        f"{format_size(report.data.documents, report.data.groups)}; without ablation: {plain}"
    )
    return markdown_table(title, headers, rows)


def _findings(report: LayerReport) -> list[str]:
    """Return in words which layers are useful and harmful, and what the others may do."""
    alpha = f"{report.settings.alpha:g}"
    rules: dict[By, str] = {"evidence": f"by evidence (Holm p <= {alpha})", "sign": "by sign alone"}
    lines = []
    for by, rule in rules.items():
        useful, harmful = (
            ", ".join(layer.target.name for layer in report.layers if getattr(layer, by) == role)
            for role in ("useful", "harmful")
        )
        lines.append(f"{rule}: useful {useful or 'none'}; harmful {harmful or 'none'}")
    neutral = [layer for layer in report.layers if layer.evidence == "neutral"]
    reach = max((abs(end) for layer in neutral for end in layer.accuracy.band), default=math.nan)
    if not math.isnan(reach):
        lines.append(
            f"A layer without evidence changes the accuracy by at most {reach:.1f} points "
            f"({report.settings.level:.0%} band of all layers)."
        )
    if any(layer.log_odds_holm <= report.settings.alpha for layer in report.layers):
        lines.append(f"*: mean change of the log-odds with Holm p <= {alpha}")
    return lines


# Figures ------------------------------------------------------------------------------------------


def accuracy_figure(
    layer_reports: Mapping[str, LayerReport],
    path: str | Path | None = None,
    metric: Metric = "accuracy",
    by: By = "evidence",
) -> "Figure":
    """Draw accuracy by ablated layer, and its difference from the plain run.

    The models share a panel of accuracies; below, each has a panel of differences with their band.
    Heads have a heat map of differences for each model.

    Args:
        layer_reports: Reports by the name of each model, at most four unless of heads.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        metric: Accuracy or robust accuracy. Only accuracy has marks on useful and harmful layers.
        by: Whether the marks follow the evidence or the bare sign.

    Raises:
        InputError: There are no reports or more than four, they are of different documents or
            interventions or lack the metric, or the file cannot be written.
    """
    check_choice("metric", metric, Metric)
    check_choice("by", by, By)
    first = check_same_sweep(layer_reports)
    if metric == "robust_accuracy" and not first.plain.robust_accuracy:
        raise InputError(f"split {first.data.split} has no alterations, so no robust accuracy")
    axis = _ablated_axis(layer_reports)
    marked_by = by if metric == "accuracy" else None
    words, marks = metric.replace("_", " "), _marks(first, marked_by)
    if first.intervention.module == "heads":
        axis = figures.LayerAxis("ablated head", ())
        maps = {}
        for name, report in layer_reports.items():
            plain: Share = getattr(report.plain, metric)
            maps[figures.panel_title(name, plain.percent)] = [
                _metric_changes(f"layer {number}", plain, [*heads], metric, marked_by)
                for number, heads in groupby(report.layers, lambda head: head.target.layers[0])
            ]
        return figures.change_maps(path, f"{_title(first)}, {words}", maps, axis, marks)
    models = [
        _metric_changes(name, getattr(report.plain, metric), report.layers, metric, marked_by)
        for name, report in layer_reports.items()
    ]
    level = first.settings.level
    return figures.change_lines(path, _title(first), models, axis, words, level, marks)


def alterations_figure(
    layer_reports: Mapping[str, LayerReport], path: str | Path | None = None
) -> "Figure":
    """Draw a heat map for each model: changes in accuracy by alteration and by ablated layer.

    Marks are where the band of all layers of a row excludes 0; rows of few groups have no band.

    Args:
        layer_reports: Reports by the name of each model.
        path: The file to write; None to return the figure only.

    Raises:
        InputError: As for `accuracy_figure`, or the split has no alterations.
    """
    first = check_same_sweep(layer_reports)
    classes = [name for name in first.plain.by_class if name not in ("flip", "invariant")]
    if not classes:
        raise InputError(f"split {first.data.split} has no alterations to show by category")
    maps: dict[str, list[figures.Changes]] = {}
    for model, report in layer_reports.items():
        rows = maps[figures.panel_title(model, report.plain.accuracy.percent)] = []
        for name in classes:
            plain = report.plain.by_class[name]
            label = f"{name} ({plain.total}), {format_percent(plain.percent)} %"
            rows.append(_changes(label, plain, [layer.by_class[name] for layer in report.layers]))
    title = f"{_title(first)}\nafter the number of documents: accuracy without ablation"
    axis = _ablated_axis(layer_reports)
    return figures.change_maps(path, title, maps, axis, _marks(first, None))


def _title(report: LayerReport) -> str:
    return f"{report.intervention.name}: {report.data.split}, {report.data.documents} documents"


def _metric_changes(
    name: str, plain: Share, layers: Sequence[LayerResult], metric: Metric, by: By | None
) -> figures.Changes:
    roles = [getattr(layer, by) for layer in layers] if by else None
    return _changes(name, plain, [getattr(layer, metric) for layer in layers], roles)


def _changes(
    name: str, plain: Share, outcomes: Sequence[Outcome], roles: Sequence[Role] | None = None
) -> figures.Changes:
    """Return changes, marked by role or, without roles, where the band of all layers excludes 0."""
    points = [outcome.difference.points for outcome in outcomes]
    bands = [outcome.band for outcome in outcomes]
    signs = [int(band.low > 0) - int(band.high < 0) for band in bands]
    if roles:
        signs = [_SIGNS[role] for role in roles]
    return figures.Changes(name, plain.percent, points, bands, signs)


def _marks(report: LayerReport, by: By | None) -> dict[int, str]:
    """Return what marks mean: roles or, without a rule, that the band of all layers excludes 0."""
    if by:
        rule = "by sign" if by == "sign" else f"Holm p ≤ {report.settings.alpha:g}"
        return {-1: f"useful ({rule})", 1: f"harmful ({rule})"}
    band = f"{report.settings.level:.0%} band of all layers"
    return {-1: f"lower ({band} below 0)", 1: f"higher ({band} above 0)"}


def _ablated_axis(layer_reports: Mapping[str, LayerReport]) -> figures.LayerAxis:
    """Return the axis of reports that fit into one figure.

    Raises:
        InputError: Other targets than every layer were ablated, and not the same ones in all.
    """
    if all(report.is_whole for report in layer_reports.values()):
        layers = [len(report.targets) for report in layer_reports.values()]
        return figures.LayerAxis("ablated layer", layers)
    shown, *others = {report.targets for report in layer_reports.values()}
    if others:
        raise InputError(
            "the reports are of different layers or heads; draw sweeps of the same ones, or of "
            "every layer"
        )
    names = [target.name for target in shown]
    short = [name if len(name) <= 12 else f"{name[:11]}…" for name in names]
    return figures.LayerAxis("ablated layers", [len(names)], short)
