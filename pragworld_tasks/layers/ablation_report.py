"""The report of an ablation sweep: what each layer does, its file, its tables and its figures.

A layer is useful if ablating it lowers the accuracy, and harmful if ablating it raises the accuracy
(PragWorld paper, section 6.2). Published sets of layers follow the bare sign of A_l - A_0, which
one document in 500 can decide. The report therefore gives a test, corrected over layers, next to
the sign.

A report holds what was observed: the probability of each gold answer in each run. Everything else
is computed from that when it is asked for.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.layers import figures
from pragworld_tasks.layers.files import LAYERS, read_report, write_report
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
    model_titles,
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
class LayerReport:
    """The report of one model, one set of documents and one intervention.

    Attributes:
        model: The model that was swept.
        data: The documents that it was evaluated on.
        intervention: What was done to each target.
        targets: What was ablated, in turn: each layer from layer 0, unless others were chosen.
        documents: The probabilities that everything else is computed from.
        settings: The settings of the statistics. `dataclasses.replace` returns a report with
            others.

    Raises:
        ValueError: A document has not a probability for each run.

    Examples:
        >>> from pragworld_tasks.layers import EXAMPLES
        >>> report = read_layers(EXAMPLES / "layers.json")
        >>> report.selected("useful"), report.selected("useful", by="evidence")
        ([0, 1], [])
    """

    model: ModelIdentity
    data: DataIdentity
    intervention: Intervention
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]
    documents: Annotated[tuple[DocumentResult, ...], Field(min_length=1)]
    settings: SweepSettings = field(default_factory=SweepSettings)

    def __post_init__(self) -> None:
        """Check that each document has a probability for the plain run and each target."""
        runs = 1 + len(self.targets)
        for document in self.documents:
            if len(document.gold) != runs:
                raise ValueError(
                    f"row {document.row} has {len(document.gold)} probabilities, not {runs}"
                )

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

    def write(self, path: str | Path, overwrite: bool = False) -> None:
        """Write what was observed to a file, `layers.json`, that commands and trainer read.

        Raises:
            InputError: The file exists and `overwrite` is false, or it cannot be written.
        """
        write_report(path, LAYERS, self, "documents", overwrite)

    def to_text(self) -> str:
        """Return Markdown tables of the layers and the breakdowns, and what was found in words."""
        return "\n".join([_layer_table(self), *_classes_table(self), *_findings(self)])

    def _repr_markdown_(self) -> str:
        return self.to_text()

    def plot(
        self,
        path: str | Path | None = None,
        metric: Metric = "accuracy",
        by: By = "evidence",
    ) -> "Figure":
        """Draw the accuracy by ablated layer; see `accuracy_figure`."""
        return accuracy_figure({model_titles([self.model])[0]: self}, path, metric, by)


def read_layers(path: str | Path) -> LayerReport:
    """Read the report that `pragworld-interp ablate` or `LayerReport.write` wrote.

    Raises:
        InputError: The file is missing, malformed or of another version.
    """
    return read_report(path, LAYERS, LayerReport)


def read_layer_files(paths: Sequence[str | Path]) -> dict[str, LayerReport]:
    """Read layer reports and return them by a short, unique title of each model.

    Raises:
        InputError: A file is not a layer report.

    Examples:
        >>> from pragworld_tasks.layers import EXAMPLES
        >>> list(read_layer_files([EXAMPLES / "layers.json"]))
        ['tiny']
    """
    reports = [read_layers(path) for path in paths]
    return dict(zip(model_titles([report.model for report in reports]), reports, strict=True))


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
            ours, theirs = (
                f"{data.split}, {data.documents} documents, fingerprint {data.fingerprint[:8]}"
                for data in (first.data, other.data)
            )
            raise InputError(
                f"{other_name} was evaluated on other documents ({theirs}) than {name} ({ours}); "
                "sweep both on the same documents"
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
        f"{model_titles([report.model])[0]}, {report.intervention.name}: {report.data.split}, "
        f"{format_size(report.data.documents, report.data.groups)}; without ablation: {plain}"
    )
    return markdown_table(title, headers, rows)


def _classes_table(report: LayerReport) -> list[str]:
    """Return a table of the layers that cost and gain most in each class of enough documents."""
    rows = []
    for name, share in report.plain.by_class.items():
        if not math.isnan(share.interval.low):
            points = [layer.by_class[name].difference.points for layer in report.layers]
            row = [name, str(share.total), format_percent(share.percent)]
            for place in (int(np.argmin(points)), int(np.argmax(points))):
                row += [report.targets[place].name, format_points(points[place])]
            rows.append(row)
    headers = ["class", "documents", "plain %", "lowest at", "points", "highest at", "points"]
    return [markdown_table("by alteration and effect", headers, rows)] if rows else []


def _findings(report: LayerReport) -> list[str]:
    """Return in words which layers are useful and harmful, and what the others may do."""
    alpha = f"{report.settings.alpha:g}"
    rules: dict[By, str] = {"evidence": f"by evidence (Holm p <= {alpha})", "sign": "by sign alone"}
    lines = []
    for by, rule in rules.items():
        roles = []
        for role in ("useful", "harmful"):
            names = [layer.target.name for layer in report.layers if getattr(layer, by) == role]
            roles.append(f"{role} {', '.join(names) or 'none'}")
        lines.append(f"{rule}: {'; '.join(roles)}")
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

    Up to four models share a panel of accuracies; below, each has a panel of differences with their
    band. More models are rows of a heat map of differences, and heads have a map for each model.

    Args:
        layer_reports: Reports by the name of each model; see `read_layer_files`.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        metric: Accuracy or robust accuracy. Only accuracy has marks on useful and harmful layers.
        by: Whether the marks follow the evidence or the bare sign.

    Raises:
        InputError: There are no reports, they are of different documents or interventions or lack
            the metric, or the file cannot be written.
    """
    check_choice("metric", metric, Metric)
    check_choice("by", by, By)
    first = check_same_sweep(layer_reports)
    if metric == "robust_accuracy" and not first.plain.robust_accuracy:
        raise InputError(f"split {first.data.split} has no alterations, so no robust accuracy")
    axis = _ablated_axis(layer_reports)
    models = []
    for name, report in layer_reports.items():
        outcomes = [getattr(layer, metric) for layer in report.layers]
        model = _changes(name, getattr(report.plain, metric), outcomes)
        if metric == "accuracy":
            model = model._replace(signs=[_SIGNS[getattr(layer, by)] for layer in report.layers])
        models.append(model)
    title, words = _title(first), metric.replace("_", " ")
    constant = _constant_percent(first) if metric == "accuracy" else None
    marks = _marks(first, by if metric == "accuracy" else None)
    if first.intervention.module == "heads":
        axis = figures.LayerAxis("ablated head", [1 + max(t.head or 0 for t in first.targets)])
        maps = {model.title: _head_rows(model, first.targets) for model in models}
        return figures.change_maps(path, f"{title}, {words}", maps, axis, marks)
    if len(models) > figures.MOST_LINES:
        title += f"\npercentages are the {words} without ablation"
        if constant is not None:
            title += f"\n{figures.constant_text(constant)}"
        return figures.change_maps(path, title, {"": [*map(_row, models)]}, axis, marks)
    level = first.settings.level
    return figures.change_lines(path, title, models, axis, words, level, marks, constant)


def alterations_figure(
    layer_reports: Mapping[str, LayerReport], path: str | Path | None = None
) -> "Figure":
    """Draw a heat map for each model: changes in accuracy by alteration and by ablated layer.

    Marks are where the band of all layers of a row excludes 0; rows of few groups have no band.

    Args:
        layer_reports: Reports by the name of each model; see `read_layer_files`.
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
        rows = maps[_changes(model, report.plain.accuracy, ()).title] = []
        for name in classes:
            plain = report.plain.by_class[name]
            outcomes = [layer.by_class[name] for layer in report.layers]
            rows.append(_row(_changes(f"{name} ({plain.total})", plain, outcomes)))
    title = f"{_title(first)}\nafter the number of documents: accuracy without ablation"
    axis = _ablated_axis(layer_reports)
    return figures.change_maps(path, title, maps, axis, _marks(first, None))


def _title(report: LayerReport) -> str:
    return f"{report.intervention.name}: {report.data.split}, {report.data.documents} documents"


def _changes(name: str, plain: Share, outcomes: Sequence[Outcome]) -> figures.Changes:
    """Return changes that are marked where the band of all layers excludes 0."""
    return figures.Changes(
        name,
        plain.percent,
        [outcome.difference.points for outcome in outcomes],
        [outcome.band for outcome in outcomes],
        [int(outcome.band.low > 0) - int(outcome.band.high < 0) for outcome in outcomes],
    )


def _row(changes: figures.Changes) -> figures.Changes:
    """Return the changes as a row of a heat map, whose name says what the plain run reaches."""
    label = f"{changes.name}, {format_percent(changes.plain)}\N{NO-BREAK SPACE}%"
    return changes._replace(name=label)


def _head_rows(model: figures.Changes, targets: Sequence[Target]) -> list[figures.Changes]:
    """Return the changes of a model's heads, a row for each layer."""
    rows = []
    for layers in dict.fromkeys(target.layers for target in targets):
        places = [place for place, target in enumerate(targets) if target.layers == layers]
        points = [model.points[place] for place in places]
        bands = [model.bands[place] for place in places]
        signs = [model.signs[place] for place in places]
        rows.append(figures.Changes(f"layer {layers[0]}", model.plain, points, bands, signs))
    return rows


def _marks(report: LayerReport, by: By | None) -> dict[int, str]:
    """Return what marks mean: roles or, without a rule, that the band of all layers excludes 0."""
    if by:
        rule = "by sign" if by == "sign" else f"Holm p ≤ {report.settings.alpha:g}"
        return {-1: f"useful ({rule})", 1: f"harmful ({rule})"}
    band = f"{report.settings.level:.0%} band of all layers"
    return {-1: f"lower ({band} below 0)", 1: f"higher ({band} above 0)"}


def _constant_percent(report: LayerReport) -> float | None:
    """Return what always giving the most frequent answer reaches; unknown for several labels."""
    if len(report.model.labels) > 2:
        return None
    answers = Counter(document.answer for document in report.documents)
    return 100 * max(answers.values()) / answers.total()


def _ablated_axis(layer_reports: Mapping[str, LayerReport]) -> figures.LayerAxis:
    """Return the axis of reports that fit into one figure.

    Raises:
        InputError: Other targets than every layer were ablated, and not the same ones in all.
    """
    if all(report.is_whole for report in layer_reports.values()):
        layers = [len(report.targets) for report in layer_reports.values()]
        return figures.LayerAxis("ablated layer", layers)
    (first, shown), *others = layer_reports.items()
    for name, other in others:
        if other.targets != shown.targets:
            raise InputError(
                f"{name} was swept on other layers or heads than {first}; draw sweeps of the same "
                "ones, or of every layer"
            )
    names = [target.name for target in shown.targets]
    short = [name if len(name) <= 12 else f"{name[:11]}…" for name in names]
    return figures.LayerAxis("ablated layers", [len(names)], short)
