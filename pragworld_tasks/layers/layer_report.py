"""The report of an ablation sweep: what each layer does, the file `layers.json`, and the tables.

A layer is useful if ablating it lowers the accuracy, and harmful if ablating it raises the accuracy
(PragWorld paper, section 6.2). Published sets of layers follow the bare sign of A_l - A_0, which
one document in 500 can decide. The report therefore gives a test, corrected over layers, next to
the sign. `layer_statistics` computes the report.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from pragworld_tasks.data.documents import Effect
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.comparison import Difference
from pragworld_tasks.evaluation.metrics import LEVEL, RESAMPLES, Interval, McNemar
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.files import check_output, write_whole
from pragworld_tasks.layers.identities import DataIdentity, ModelIdentity, model_titles
from pragworld_tasks.layers.power import Detectable
from pragworld_tasks.layers.serialization import encode
from pragworld_tasks.layers.targets import Module, Target, every_layer
from pragworld_tasks.text import (
    format_interval,
    format_number,
    format_percent,
    format_points,
    format_size,
    markdown_table,
)

if TYPE_CHECKING:
    from pandas import DataFrame

Role = Literal["useful", "harmful", "neutral"]
By = Literal["sign", "evidence"]
Replacement = Literal["zero", "mean", "resample"]

SCHEMA = "pragworld-layers"
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Intervention:
    """What the sweep does to each target.

    Attributes:
        module: The part of the block whose output is replaced; "heads" for the parts of attention.
        replacement: What replaces it: zeros, its mean, or its output at a random position.
        seed: The seed of "resample"; None for other replacements.
        positions: The positions of the prompt at which it is replaced; see `positions.PARTS`.
    """

    module: Module
    replacement: Replacement
    seed: int | None = None
    positions: str = "all"

    @property
    def name(self) -> str:
        """The intervention in words, without the seed."""
        at = "" if self.positions == "all" else f" at positions {self.positions}"
        return f"{self.module} {self.replacement} ablation{at}"


@dataclass(frozen=True)
class SweepSettings:
    """Settings of the statistics.

    Attributes:
        level: The level of the intervals.
        resamples: The number of bootstrap draws over groups.
        halvings: The number of split halves of the groups that measure stability.
        seed: The seed of the bootstrap and of the split halves.
        alpha: The largest corrected p at which a layer counts as useful or harmful by evidence.
    """

    level: float = LEVEL
    resamples: int = RESAMPLES
    halvings: int = 1_000
    seed: int = 0
    alpha: float = 0.05


@dataclass(frozen=True)
class DocumentResult:
    """One document and the probability of its gold answer in every run.

    Attributes:
        row, group, answer, alteration, effect: The fields of the `Document`. The number of a prompt
            of your own, its group (or number) and the label that is right.
        gold: The probability of the gold answer, the softmax over it and the likeliest other label:
            in the plain run, then with each layer ablated. The answer is right if it is above one
            half.
    """

    row: int
    group: int
    answer: str
    alteration: str | None
    effect: Effect | None
    gold: tuple[float, ...]


@dataclass(frozen=True)
class PlainRun:
    """The run without intervention: A_0 and its breakdowns.

    Attributes:
        accuracy: The accuracy over documents.
        robust_accuracy: The accuracy over groups; None for a split without alterations.
        by_alteration: The accuracy by category of alteration; empty without alterations.
        by_effect: The accuracy of variants that flip the answer, of variants that keep it, and of
            originals; empty without alterations.
    """

    accuracy: Share
    robust_accuracy: Share | None
    by_alteration: dict[str, Share]
    by_effect: dict[str, Share]


@dataclass(frozen=True)
class Outcome:
    """A metric with one layer ablated, and its difference from the plain run.

    Attributes:
        share: The metric.
        difference: Its difference from the plain run, with an interval of its own.
        band: The interval of the difference such that those of all layers hold at once.
    """

    share: Share
    difference: Difference
    band: Interval


@dataclass(frozen=True)
class LogOdds:
    """The change in the log-odds of the gold answer when a layer is ablated.

    Accuracy only changes where a probability crosses one half. The log-odds change with every
    probability, so that smaller effects show; a change need not change any answer.

    Attributes:
        change: The mean over documents, in natural logarithms.
        interval: Its interval, with groups as independent; see `metrics.clustered_mean`.
        p: The p of a test that it is 0. NaN for fewer than two groups.
        holm: That p, corrected over layers.
    """

    change: float
    interval: Interval
    p: float
    holm: float


@dataclass(frozen=True)
class LayerResult:
    """The effect of ablating one target, such as a layer.

    Attributes:
        target: What was ablated.
        accuracy: The accuracy over documents with the target ablated.
        robust_accuracy: The accuracy over groups; None for a split without alterations.
        by_alteration: The accuracy by category of alteration; empty without alterations.
        by_effect: The accuracy by effect, as in `PlainRun`; empty without alterations.
        mcnemar: The exact test over documents; "first" is the plain run.
        holm: Its p, corrected over layers.
        groups_p: The p of an exact test that treats groups, not documents, as independent; see
            `metrics.sign_flip_test`.
        groups_holm: That p, corrected over layers.
        sign: Useful where A_l < A_0, harmful where A_l > A_0.
        evidence: The sign if both `holm` and `groups_holm` are at most `SweepSettings.alpha`, else
            neutral. Answers about one dialogue are correlated, so the test over documents alone
            finds too many layers.
        detectable: The smallest change that the two tests would have found in this layer.
        log_odds: The change in the log-odds of the gold answer.
        both_halves: How often the sign is the same in both halves of the groups, when these are
            split at random. A layer whose effect is noise has about one half. NaN for fewer than
            two groups.
    """

    target: Target
    accuracy: Outcome
    robust_accuracy: Outcome | None
    by_alteration: dict[str, Outcome]
    by_effect: dict[str, Outcome]
    mcnemar: McNemar
    holm: float
    groups_p: float
    groups_holm: float
    sign: Role
    evidence: Role
    detectable: Detectable
    log_odds: LogOdds
    both_halves: float


@dataclass(frozen=True, eq=False)
class LayerReport:
    """The report of one model, one set of documents and one intervention.

    Attributes:
        model: The model that was swept.
        data: The documents that it was evaluated on.
        intervention: What was done to each target.
        settings: The settings of the statistics.
        plain: The run without intervention.
        layers: The effect of each target: of each layer from layer 0, unless others were chosen.
        documents: The probabilities that everything else is computed from.

    Examples:
        >>> from pragworld_interp import EXAMPLES, read_layers
        >>> report = read_layers(EXAMPLES / "layers.json")
        >>> report.selected("useful"), report.selected("useful", by="evidence")
        ([0, 1], [])
        >>> round(report.layers[1].accuracy.difference.points, 1)
        -13.9
    """

    model: ModelIdentity
    data: DataIdentity
    intervention: Intervention
    settings: SweepSettings
    plain: PlainRun
    layers: tuple[LayerResult, ...]
    documents: tuple[DocumentResult, ...]

    @property
    def targets(self) -> tuple[Target, ...]:
        """What was ablated, in turn."""
        return tuple(layer.target for layer in self.layers)

    @property
    def is_whole(self) -> bool:
        """Whether each layer of the model was ablated, and alone."""
        return self.targets == every_layer(self.model.layers)

    def selected(self, role: Role, by: By = "sign") -> list[Any]:
        """Return the layers that have a role, as numbers; see `Target.place` for other targets.

        Args:
            role: "useful", "harmful" or "neutral".
            by: Whether the sign of A_l - A_0 or the evidence decides.

        Raises:
            InputError: The role or the criterion does not exist.
        """
        return [target.place for target in self.with_role(role, by)]

    def selected_layers(self, role: Role, by: By = "sign") -> list[int]:
        """Return the numbers of the layers that have a role; see `selected`.

        Raises:
            InputError: Something else than single layers at all positions was ablated.
        """
        targets = self.with_role(role, by)
        if self.intervention.positions != "all" or any(
            target.head is not None or len(target.layers) > 1 for target in self.targets
        ):
            raise InputError(
                f"a report of {self.intervention.name} of {self.targets[0].name} and others; "
                "ablate single layers at all positions"
            )
        return [layer for target in targets for layer in target.layers]

    def with_role(self, role: Role, by: By = "sign") -> list[Target]:
        """Return the targets that have a role; see `selected`."""
        for name, choices in ((role, get_args(Role)), (by, get_args(By))):
            if name not in choices:
                raise InputError(f"{name!r} does not exist; choose from {', '.join(choices)}")
        return [layer.target for layer in self.layers if getattr(layer, by) == role]

    def useful(self, by: By = "sign") -> list[Any]:
        """Return the useful layers; see `selected`."""
        return self.selected("useful", by)

    def harmful(self, by: By = "sign") -> list[Any]:
        """Return the harmful layers; see `selected`."""
        return self.selected("harmful", by)

    def to_frame(self) -> "DataFrame":
        """Return the figures of the layers as a pandas DataFrame, a row for each target.

        Examples:
            >>> from pragworld_interp import EXAMPLES, read_layers
            >>> frame = read_layers(EXAMPLES / "layers.json").to_frame()
            >>> frame.index[frame["sign"] == "useful"].tolist()
            [0, 1]
        """
        from pandas import DataFrame

        rows = []
        for layer in self.layers:
            row = {
                "layer": layer.target.place,
                "percent": layer.accuracy.share.percent,
                "points": layer.accuracy.difference.points,
                "low": layer.accuracy.difference.interval.low,
                "high": layer.accuracy.difference.interval.high,
            }
            if layer.robust_accuracy:
                row["robust_percent"] = layer.robust_accuracy.share.percent
                row["robust_points"] = layer.robust_accuracy.difference.points
            rows.append(
                {
                    **row,
                    "holm": layer.holm,
                    "groups_holm": layer.groups_holm,
                    "sign": layer.sign,
                    "evidence": layer.evidence,
                    "found_from": layer.detectable.points,
                    "log_odds": layer.log_odds.change,
                    "log_odds_holm": layer.log_odds.holm,
                    "both_halves": layer.both_halves,
                }
            )
        return DataFrame(rows).set_index("layer")

    def write(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the report to a file, `layers.json`, that the commands and the trainer read.

        Raises:
            InputError: The file exists and `overwrite` is false, or it cannot be written.
        """
        check_output(Path(path), overwrite)
        write_layers(self, Path(path))

    def __eq__(self, other: object) -> bool:
        """Return whether two reports say the same. Undefined figures, which are NaN, are equal."""
        return isinstance(other, LayerReport) and self.to_json() == other.to_json()

    def to_json(self) -> dict[str, Any]:
        """Return the content of `layers.json`; null stands for NaN.

        A metric has the keys right, total and percent, and its interval in percent as low and high.
        A difference has the keys points, low and high.
        """
        return {"schema": SCHEMA, "version": SCHEMA_VERSION, **encode(self)}

    def to_text(self) -> str:
        """Return Markdown tables of the layers and the breakdowns, and the sets of layers."""
        return "\n".join([_layer_table(self), *_breakdown_tables(self), *_role_lines(self)])


# The file -----------------------------------------------------------------------------------------


def write_layers(report: LayerReport, path: Path) -> None:
    """Write a report to a file, with one document a line.

    Raises:
        InputError: The file cannot be written.
    """
    content = report.to_json()
    documents = [json.dumps(document, allow_nan=False) for document in content.pop("documents")]
    head = json.dumps(content, indent=2, allow_nan=False).removesuffix("\n}")
    rows = ",\n    ".join(documents)
    write_whole(path, f'{head},\n  "documents": [\n    {rows}\n  ]\n}}\n'.encode())


# Tables -------------------------------------------------------------------------------------------


def p_text(p: float) -> str:
    """Return a p value with four digits, or a dash for NaN."""
    return "-" if math.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _layer_table(report: LayerReport) -> str:
    layers, robust = report.layers, report.plain.robust_accuracy
    accuracy = [layer.accuracy for layer in layers]
    columns = {
        "layer": [layer.target.name for layer in layers],
        "%": [format_percent(outcome.share.percent) for outcome in accuracy],
        "points": [format_points(outcome.difference.points) for outcome in accuracy],
        f"{report.settings.level:.0%} interval": [
            format_interval(outcome.difference.interval) for outcome in accuracy
        ],
        "robust points": [
            format_points(outcome.difference.points)
            for outcome in (layer.robust_accuracy for layer in layers)
            if outcome
        ],
        "Holm p": [p_text(layer.holm) for layer in layers],
        "of groups": [p_text(layer.groups_holm) for layer in layers],
        "sign": [layer.sign for layer in layers],
        "evidence": [layer.evidence for layer in layers],
        "found from": [format_percent(layer.detectable.points) for layer in layers],
        "log-odds": [format_number(layer.log_odds.change, "+.3f") for layer in layers],
        "its Holm p": [p_text(layer.log_odds.holm) for layer in layers],
        "both halves": [_rate(layer.both_halves) for layer in layers],
    }
    plain = f"accuracy {report.plain.accuracy.percent:.2f}"
    if robust:
        plain += f", robust accuracy {robust.percent:.2f}"
    else:
        del columns["robust points"]
    return markdown_table(
        f"{model_titles([report.model])[0]}, {report.intervention.name}: {report.data.split}, "
        f"{format_size(report.data.documents, report.data.groups)}; "
        f"without ablation: {plain}",
        list(columns),
        [list(row) for row in zip(*columns.values(), strict=True)],
    )


def _breakdown_tables(report: LayerReport) -> list[str]:
    """Return, for each class of documents, the layers that cost and gain most when ablated."""
    tables = []
    for breakdown in ("alteration", "effect"):
        classes: dict[str, Share] = getattr(report.plain, f"by_{breakdown}")
        rows = []
        for name, share in classes.items():
            outcomes = [getattr(layer, f"by_{breakdown}")[name] for layer in report.layers]
            points = [outcome.difference.points for outcome in outcomes]
            row = [name, str(share.total), format_percent(share.percent)]
            for place in (int(np.argmin(points)), int(np.argmax(points))):
                row += [report.targets[place].name, format_points(points[place])]
            rows.append(row)
        if rows:
            headers = ["documents", "plain %", "lowest at", "points", "highest at", "points"]
            tables.append(markdown_table(f"by {breakdown}", [breakdown, *headers], rows))
    return tables


def _role_lines(report: LayerReport) -> list[str]:
    rules: dict[By, str] = {
        "sign": "by sign",
        "evidence": f"both Holm p <= {report.settings.alpha:g}",
    }
    roles: tuple[Role, ...] = ("useful", "harmful")
    lines = []
    for by, rule in rules.items():
        for role in roles:
            names = [target.name for target in report.with_role(role, by)]
            lines.append(f"{role}, {rule}: {', '.join(names) or 'none'}")
    return lines


def _rate(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.0f} %"


def check_choice(name: str, value: str, choices: Any) -> None:
    """Refuse a setting that is not one of its choices, the arguments of a `Literal`."""
    if value not in get_args(choices):
        raise InputError(f"{name}={value!r}: must be one of {', '.join(get_args(choices))}")
