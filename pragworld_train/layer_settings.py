"""The settings of layer regularization: which layers to amplify and suppress, and by how much.

They stand apart from the trainer's configuration, which needs torch and trl, so that
`pragworld-train --help` can list them without either.
"""

import logging
import operator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.ablation_report import LayerReport, read_layers
from pragworld_tasks.layers.layer_statistics import By
from pragworld_tasks.layers.settings import is_same_model
from pragworld_tasks.text import format_size

Reduction = Literal["mean", "norm"]
PAPER_WEIGHT = 1e-3  # of either loss (PragWorld paper, appendix H)
_logger = logging.getLogger(__name__)


@dataclass
class LayerSettings:
    """The settings of ULA and HLS, to be put before the arguments of a trainer.

    The `help` of each field says what it is, and so does `pragworld-train --help`. With both
    weights 0, training is what it would be without, and a warning says so.

    Attributes:
        amplified: The layers that ULA amplifies, in order; none if its weight is 0.
        suppressed: The layers that HLS suppresses, in order; none if its weight is 0.

    Raises:
        InputError: A setting is out of range, the settings contradict each other, or the layer
            report cannot be used.
    """

    layers: str | None = field(
        default=None,
        metadata={
            "help": "The layers.json that `pragworld-interp ablate` wrote for this model. Useful "
            "layers are amplified, harmful layers suppressed."
        },
    )
    layer_selection: By = field(
        default="evidence",
        metadata={
            "help": "What makes a layer of that file useful or harmful: a corrected test, or the "
            "sign alone, as in the paper."
        },
    )
    useful_layers: list[int] | None = field(
        default=None, metadata={"help": "Layers to amplify, from 0, if there is no file."}
    )
    harmful_layers: list[int] | None = field(
        default=None, metadata={"help": "Layers to suppress, from 0, if there is no file."}
    )
    ula_weight: float | None = field(
        default=None,
        metadata={"help": "Weight of ULA, at most 1. Default: 1e-3 if there are useful layers."},
    )
    hls_weight: float | None = field(
        default=None,
        metadata={"help": "Weight of HLS, at most 1. Default: 1e-3 if there are harmful layers."},
    )
    hls_reduction: Reduction = field(
        default="mean",
        metadata={"help": "HLS of an MLP output: its mean square or its squared norm."},
    )
    probe_hidden_size: int = field(default=128, metadata={"help": "Hidden width of the probes."})
    probe_classes: list[str] | None = field(
        default=None,
        metadata={
            "help": "Labels, as in completions, that the probes tell apart. Default: yes and no."
        },
    )
    gradient_share_steps: int = field(
        default=0, metadata={"help": "Log each loss's share of the gradient every so many steps."}
    )

    def __post_init__(self) -> None:
        """Check the arguments of a trainer, if this is a part of them, and resolve the layers."""
        parent: Any = super()
        if hasattr(parent, "__post_init__"):
            parent.__post_init__()
        self.resolve_layers()

    def resolve_layers(self) -> None:
        """Check the settings, set `amplified` and `suppressed`, and weights that are None.

        The layers of a report and the rule that selects them are logged, and so is each loss that
        has layers but does nothing.
        """
        for name, least in (("probe_hidden_size", 1), ("gradient_share_steps", 0)):
            if (number := getattr(self, name)) < least:
                raise InputError(f"{name} {number}: must be at least {least}")
        if self.probe_classes is None:
            self.probe_classes = ["yes", "no"]
        classes = self.probe_classes
        texts = {name for name in classes if isinstance(name, str) and name}
        if isinstance(classes, str) or len(texts) < max(2, len(classes)):  # YAML's yes is no text
            raise InputError(f"probe_classes {classes!r:.80}: must be two or more different texts")
        for name, kind in (("layer_selection", By), ("hls_reduction", Reduction)):
            if (choice := getattr(self, name)) not in get_args(kind):
                raise InputError(f"{name} {choice!r}: must be one of {', '.join(get_args(kind))}")
        for name in ("useful_layers", "harmful_layers"):
            try:
                if (given := getattr(self, name)) is not None:  # an array, perhaps
                    setattr(self, name, [operator.index(layer) for layer in given])
            except TypeError as error:
                raise InputError(f"{name} {given!r:.80}: must be a list of integers") from error
        useful, harmful = self.useful_layers or [], self.harmful_layers or []
        rule, self._ablated = None, None
        if self.layers is not None:
            report = self._read_report(self.layers)
            useful, harmful, rule = self._selected(report)
            self._ablated = report.model
        for name, role, layers in (
            ("ula_weight", "useful", useful),
            ("hls_weight", "harmful", harmful),
        ):
            if len({*layers}) < len(layers) or any(layer < 0 for layer in layers):
                raise InputError(f"{role}_layers {layers}: must be different and at least 0")
            weight = getattr(self, name)
            if weight is not None and not 0 <= weight <= 1:
                raise InputError(f"{name} {weight}: must be between 0 and 1")
            if weight and not layers:
                remedy = f"set {role}_layers or layers"
                if rule:
                    remedy = f"{self.layers} has none by {rule}, so leave the weight out"
                raise InputError(f"{name} {weight} needs {role} layers; {remedy}")
            if weight is None:
                setattr(self, name, PAPER_WEIGHT if layers else 0.0)
            elif layers and not weight:
                _logger.warning("%s 0: the %s layers %s have no effect", name, role, sorted(layers))
        if both := sorted({*useful} & {*harmful}):
            raise InputError(f"layer {both[0]} is both useful and harmful; it must be one of them")
        self.amplified = sorted(useful) if self.ula_weight else []
        self.suppressed = sorted(harmful) if self.hls_weight else []
        if not useful and not harmful:
            _logger.warning("no useful and no harmful layers: training is plain SFT")

    def _read_report(self, path: str) -> LayerReport:
        if self.useful_layers is not None or self.harmful_layers is not None:
            raise InputError(
                f"layers {path}: useful_layers or harmful_layers is set too; use either the file "
                "or the numbers"
            )
        report = read_layers(Path(path))
        if report.intervention.module != "mlp":
            raise InputError(
                f"layers {path}: a report of {report.intervention.module} ablation; both losses "
                "act on MLP outputs, so ablate with --module mlp"
            )
        return report

    def _selected(self, report: LayerReport) -> tuple[list[int], list[int], str]:
        """Return the useful and the harmful layers of a report, and by what rule they are so."""
        by = self.layer_selection
        try:
            useful, harmful = (report.selected_layers(role, by) for role in ("useful", "harmful"))
        except InputError as error:
            raise InputError(f"layers {self.layers}: {error}") from error
        rule = f"evidence (corrected p at most {report.settings.alpha:g})"
        if by == "sign":
            rule = "the sign of the change in accuracy alone"
        if not useful and not harmful:
            raise InputError(
                f"layers {self.layers}: no layer is useful or harmful by {rule}; sweep more "
                "documents, name useful_layers or harmful_layers, or set layer_selection to sign "
                "for the paper's recipe"
            )
        _logger.warning(
            "%s: useful layers %s, harmful layers %s; by %s in %s",
            *(self.layers, useful or "none", harmful or "none", rule),
            format_size(report.data.documents, report.data.groups),
        )
        return useful, harmful, rule

    def check_model(self, config: Any) -> None:
        """Check that the layers fit a model, given its configuration.

        Raises:
            InputError: The model lacks one of them, or is not the one that the report is of.
        """
        layers: int = config.get_text_config().num_hidden_layers
        for role, numbers in (("useful", self.amplified), ("harmful", self.suppressed)):
            if beyond := [number for number in numbers if number >= layers]:
                raise InputError(
                    f"{role} layer {beyond[0]}: the model has layers 0 to {layers - 1} only"
                )
        if (ablated := self._ablated) is None:
            return
        name = getattr(config, "_name_or_path", "")
        if not is_same_model(ablated.name, name):
            other = f"model {ablated.name}"
        elif ablated.adapter is not None:
            other = f"model {ablated.name} with adapter {ablated.adapter}"
        elif ablated.layers != layers:
            other = f"a model of {ablated.layers} layers"
        else:
            return
        raise InputError(
            f"layers {self.layers}: a report of {other}, not of {name} with {layers} layers; "
            f"ablate {name}, or set useful_layers and harmful_layers"
        )
