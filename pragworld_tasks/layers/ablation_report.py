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
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from pragworld_tasks.errors import InputError
from pragworld_tasks.layers import figures
from pragworld_tasks.layers.layer_statistics import (
    By,
    DocumentResult,
    LayerResult,
    PlainRun,
    Role,
    StatisticsSettings,
    compute_statistics,
)
from pragworld_tasks.layers.report import LAYERS, Report, by_title, check_same_sweep
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
    format_p,
    format_percent,
    format_points,
    format_size,
    markdown_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


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
        >>> report.selected("useful"), report.selected("useful", by="sign")
        ([], [0, 1, 2])
    """

    schema = LAYERS
    rows = "documents"

    model: ModelIdentity
    data: DataIdentity
    intervention: Intervention
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]
    documents: Annotated[tuple[DocumentResult, ...], Field(min_length=1)]
    settings: StatisticsSettings = field(default_factory=StatisticsSettings)

    @property
    def sweep(self) -> dict[str, object]:
        """The documents, the intervention in words, and the targets, of models of any depth."""
        return {
            "documents": self.data.fingerprint,
            "interventions": self.intervention.name,
            "layers or heads": "all" if self.is_whole else self.targets,
        }

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
        """The effect of each target: of several replacements, that with the weakest evidence."""
        return tuple(map(_weakest, zip(*self.by_replacement.values(), strict=True)))

    @property
    def by_replacement(self) -> dict[str, tuple[LayerResult, ...]]:
        """The effect of each target, by each replacement; p are corrected for all of them."""
        names, results = self.intervention.nulls, iter(self._statistics[1])
        return {name: tuple(next(results) for _ in self.targets) for name in names}

    @property
    def lens(self) -> list[float]:
        """The accuracy in percent, read behind each layer of the plain run; empty if unknown."""
        right = np.array([document.lens for document in self.documents]) > 0.5
        return (100 * right.mean(0)).tolist() if right.size else []

    @cached_property
    def _statistics(self) -> tuple[PlainRun, tuple[LayerResult, ...]]:
        targets = self.targets * len(self.intervention.nulls)
        return compute_statistics(self.documents, targets, self.data.split, self.settings)

    def selected(self, role: Role, by: By = "evidence") -> list[Any]:
        """Return the layers that have a role, as numbers; see `Target.place` for other targets.

        Args:
            role: "useful", "harmful" or "neutral".
            by: Whether the evidence or the bare sign of A_l - A_0, as in the paper, decides.

        Raises:
            InputError: The role or the criterion does not exist.
        """
        check_choice("role", role, Role)
        check_choice("by", by, By)
        return [layer.target.place for layer in self.layers if getattr(layer, by) == role]

    def selected_layers(self, role: Role, by: By = "evidence") -> list[int]:
        """Return the numbers of the layers that have a role; see `selected`.

        Raises:
            InputError: Something else than single layers at all positions was ablated.
        """
        single = all(target == Target(target.layers[:1]) for target in self.targets)
        intervention = self.intervention
        if not single or intervention.positions != "all" or intervention.base is not None:
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
                "points": accuracy.points,
                "low": accuracy.interval.low,
                "high": accuracy.interval.high,
            }
            if robust:
                row["robust_percent"] = robust.share.percent
                row["robust_points"] = robust.points
            for name in ("p", "holm", "sign", "evidence", "log_odds", "log_odds_holm", "direct"):
                row[name] = getattr(layer, name)
            rows.append(row)
        return DataFrame(rows).set_index("layer")

    def to_text(self) -> str:
        """Return a Markdown table of the layers, and what was found in words."""
        return "\n".join([_layer_table(self), *_findings(self)])

    def plot(self, path: str | Path | None = None, by: By = "evidence") -> "Figure":
        """Draw the accuracy by ablated layer; see `accuracy_figure`."""
        return accuracy_figure(by_title([self]), path, by)


def _weakest(results: Sequence[LayerResult]) -> LayerResult:
    """Return the result with the largest p, with a role only if all have it."""
    weakest = max(results, key=lambda result: result.holm)
    if len({result.sign for result in results}) > 1:
        weakest = replace(weakest, sign="neutral", evidence="neutral")
    return weakest


read_layers = LayerReport.read
"""Read the report that `pragworld-interp ablate` or `LayerReport.write` wrote."""


# Tables -------------------------------------------------------------------------------------------


def _layer_table(report: LayerReport) -> str:
    robust, has_direct = report.plain.robust_accuracy, report.documents[0].direct
    headers = ["layer", "%", "points", f"{report.settings.level:.0%} interval"]
    headers += [*(["robust points"] if robust else []), "Holm p", "log-odds"]
    headers += [*(["direct"] if has_direct else []), "role"]
    rows = []
    names, results = [*report.by_replacement], zip(*report.by_replacement.values(), strict=True)
    named = [pair for of_target in results for pair in zip(names, of_target, strict=True)]
    for name, layer in named:
        accuracy, groups = layer.accuracy, layer.robust_accuracy
        row = [layer.target.name + f", {name}" * (len(names) > 1)]
        row += [format_percent(accuracy.share.percent), format_points(accuracy.points)]
        row += [format_interval(accuracy.interval)]
        row += [format_points(groups.points)] if groups else []
        star = "*" if layer.log_odds_holm <= report.settings.alpha else ""
        row += [format_p(layer.holm), format_number(layer.log_odds, "+.3f") + star]
        if has_direct:
            row += [format_number(layer.direct, "+.3f") + "!" * layer.is_repaired]
        rows.append([*row, layer.evidence])
    plain = f"accuracy {report.plain.accuracy.percent:.2f}"
    if robust:
        plain += f", robust accuracy {robust.percent:.2f}"
    title = (
        f"{report.model.title}, {report.intervention.name}: {report.data.split}, "
        f"{format_size(report.data.documents, report.data.groups)}; without ablation: {plain}"
    )
    return markdown_table(title, headers, rows)


def _findings(report: LayerReport) -> list[str]:
    """Return in words what was found, what was not, and how large a change may have been missed."""
    alpha, number = report.settings.alpha, len(report.layers)
    tests = number * len(report.by_replacement)
    noun = "layer" if report.intervention.module != "heads" else "head"
    under = " under every replacement" if tests > number else ""
    rules: dict[By, str] = {
        "evidence": f"By evidence (Holm p <= {alpha:g}){under}",
        "sign": f"By sign{under}",
    }
    lines = []
    for by, rule in rules.items():
        found = []
        for role in ("useful", "harmful"):
            names = [layer.target.name for layer in report.layers if getattr(layer, by) == role]
            listed = f"{noun} {names[0]} is" if names else f"no {noun} is"
            if len(names) > 1:
                listed = f"{noun}s {', '.join(names)} are"
            found.append(f"{listed} {role}")
        lines.append(f"{rule}, {' and '.join(found)}.")
    bands = [layer.accuracy.band for layer in report.layers if layer.evidence == "neutral"]
    needed = math.ceil(1 + math.log2(tests / alpha))  # p is at least 2 ** (1 - groups)
    if report.data.groups < needed:
        lines.append(f"With fewer than {needed} groups, no test of {tests} {noun}s gives evidence.")
    elif bands:
        reach = max(abs(end) for band in bands for end in band)
        lines.append(
            f"In {noun}s without evidence, changes of more than {reach:.1f} points are ruled out "
            f"({report.settings.level:.0%} band of all {noun}s)."
        )
    if any(layer.log_odds_holm <= alpha for layer in report.layers):
        lines.append(f"*: mean change of the log-odds with Holm p <= {alpha:g}")
    if any(layer.is_repaired for layer in report.layers):
        lines.append("!: later layers turn the direct effect on the log-odds around")
    if report.lens:
        shown = ", ".join(f"{percent:.0f}" for percent in report.lens)
        lines.append(
            f"Read behind each layer of the plain run (logit lens), accuracy is {shown} %."
        )
    return lines


# Figures ------------------------------------------------------------------------------------------


def accuracy_figure(
    layer_reports: Mapping[str, LayerReport], path: str | Path | None = None, by: By = "evidence"
) -> "Figure":
    """Draw accuracy by ablated layer, and its difference from the plain run.

    The models share a panel of accuracies; below, each has a panel of differences with their band.
    Heads have a heat map of differences for each model.

    Args:
        layer_reports: Reports by the name of each model, at most four unless of heads.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.
        by: Whether the marks on useful and harmful layers follow the evidence or the bare sign.

    Raises:
        InputError: There are no reports or more than four, they are of different documents or
            interventions, or the file cannot be written.
    """
    check_choice("by", by, By)
    first = check_same_sweep(layer_reports)
    marks = {-1: f"useful by {by}", 1: f"harmful by {by}"}
    if first.intervention.module == "heads":
        maps = {}
        for name, report in layer_reports.items():
            maps[figures.panel_title(name, report.plain.accuracy.percent)] = [
                _role_changes(f"layer {number}", report.plain, [*heads], by)
                for number, heads in groupby(report.layers, lambda head: head.target.layers[0])
            ]
        return figures.change_maps(path, _title(first), maps, marks)
    models = [
        _role_changes(name, report.plain, report.layers, by)
        for name, report in layer_reports.items()
    ]
    level = first.settings.level
    return figures.change_lines(path, _title(first), models, _target_names(first), level, marks)


def _title(report: LayerReport) -> str:
    return f"{report.intervention.name}: {report.data.split}, {report.data.documents} documents"


def _role_changes(
    name: str, plain: PlainRun, layers: Sequence[LayerResult], by: By
) -> figures.Changes:
    marked = [getattr(layer, by) != "neutral" for layer in layers]
    outcomes = [layer.accuracy for layer in layers]
    return figures.Changes(name, plain.accuracy.percent, outcomes, marked)


def _target_names(report: LayerReport) -> list[str]:
    """Return short names of what was ablated, unless it is each layer."""
    if report.is_whole:
        return []
    names = [target.name for target in report.targets]
    return [name if len(name) <= 12 else f"{name[:11]}…" for name in names]
