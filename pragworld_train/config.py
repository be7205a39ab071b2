"""The settings of layer-regularised fine-tuning: those of TRL's SFT, and which layers, how much."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from transformers import AutoConfig
from trl import SFTConfig

from pragworld_interp.layer_report import By, LayerReport, read_layers, selected
from pragworld_interp.loading import check_folder, first_line
from pragworld_tasks.errors import InputError
from pragworld_train.losses import Reduction


@dataclass
class LayerRegularizedSFTConfig(SFTConfig):
    r"""Configuration class for the [`LayerRegularizedSFTTrainer`].

    This class includes only the parameters that are specific to layer regularisation. For the
    others see [`~trl.SFTConfig`] and [`~transformers.TrainingArguments`]. With both weights 0
    training is plain SFT.

    Using [`~transformers.HfArgumentParser`] we can turn this class into
    [argparse](https://docs.python.org/3/library/argparse#module-argparse) arguments that can be
    specified on the command line.

    Args:
        layers (`str`, *optional*):
            Path of the `layers.json` that `pragworld-interp ablate` wrote for this model: useful
            and harmful layers are taken from it. Not together with `useful_layers` or
            `harmful_layers`.
        layer_selection (`str`, *optional*, defaults to `"sign"`):
            Which layers of the file count: `"sign"`, all whose ablation lowers (useful) or raises
            (harmful) the accuracy, as in the paper; `"evidence"`, those of them for which a test
            corrected over layers says so.
        useful_layers (`list[int]`, *optional*):
            Numbers of the layers to amplify, from 0.
        harmful_layers (`list[int]`, *optional*):
            Numbers of the layers to suppress, from 0.
        ula_weight (`float`, *optional*, defaults to `0.0`):
            Weight alpha of useful layer amplification, from 0 to 1; 1e-3 in the paper.
        hls_weight (`float`, *optional*, defaults to `0.0`):
            Weight beta of harmful layer suppression, from 0 to 1; 1e-3 in the paper.
        hls_reduction (`str`, *optional*, defaults to `"mean"`):
            Over the features of an MLP's output: `"mean"`, their mean square, as the paper's text
            and released code have it; `"norm"`, the squared norm of its equation.
        probe_hidden_size (`int`, *optional*, defaults to `128`):
            Width of the layer between the two of each useful layer's probe.
    """

    layers: str | None = field(
        default=None,
        metadata={
            "help": "Path of the `layers.json` that `pragworld-interp ablate` wrote for this "
            "model: useful and harmful layers are taken from it."
        },
    )
    layer_selection: str = field(
        default="sign",
        metadata={
            "help": "Which layers of the file count: `sign`, all whose ablation lowers (useful) or "
            "raises (harmful) the accuracy, as in the paper; `evidence`, those for which a test "
            "corrected over layers says so.",
            "choices": list(get_args(By)),
        },
    )
    useful_layers: list[int] | None = field(
        default=None,
        metadata={"help": "Numbers of the layers to amplify, from 0, in place of a file."},
    )
    harmful_layers: list[int] | None = field(
        default=None,
        metadata={"help": "Numbers of the layers to suppress, from 0, in place of a file."},
    )
    ula_weight: float = field(
        default=0.0,
        metadata={"help": "Weight of useful layer amplification, from 0 to 1; 1e-3 in the paper."},
    )
    hls_weight: float = field(
        default=0.0,
        metadata={"help": "Weight of harmful layer suppression, from 0 to 1; 1e-3 in the paper."},
    )
    hls_reduction: str = field(
        default="mean",
        metadata={
            "help": "Over the features of an MLP's output: `mean`, their mean square; `norm`, the "
            "squared norm of the paper's equation.",
            "choices": list(get_args(Reduction)),
        },
    )
    probe_hidden_size: int = field(
        default=128,
        metadata={"help": "Width of the layer between the two of each useful layer's probe."},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("ula_weight", "hls_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} {getattr(self, name)}: not from 0 to 1")
        if self.probe_hidden_size < 1:
            raise InputError(f"probe_hidden_size {self.probe_hidden_size}: at least 1 is needed")
        for name, kind in (("layer_selection", By), ("hls_reduction", Reduction)):
            if getattr(self, name) not in get_args(kind):
                raise InputError(
                    f"{name} {getattr(self, name)!r}: not one of {', '.join(get_args(kind))}"
                )
        if self.layers is not None:
            if self.useful_layers is not None or self.harmful_layers is not None:
                raise InputError(
                    f"layers {self.layers}: useful_layers or harmful_layers are given too; take "
                    "the file, or the numbers"
                )
            report = self.layer_report()
            assert report is not None
            by: By = "sign" if self.layer_selection == "sign" else "evidence"
            useful, harmful = (selected(report, role, by) for role in ("useful", "harmful"))
            where = f"in {self.layers} by {by}"
        else:
            useful, harmful = self.useful_layers or [], self.harmful_layers or []
            where = "given; name them, or a layers.json"
        for name, numbers in (("useful_layers", useful), ("harmful_layers", harmful)):
            if len({*numbers}) < len(numbers) or any(number < 0 for number in numbers):
                raise InputError(f"{name} {numbers}: one twice, or below 0")
        if both := sorted({*useful} & {*harmful}):
            raise InputError(f"layer {both[0]} is both useful and harmful; it can be one of them")
        # Of layers, those that have a part in the loss.
        self._amplified = sorted(useful) if self.ula_weight else []
        self._suppressed = sorted(harmful) if self.hls_weight else []
        if self.ula_weight and not useful:
            raise InputError(f"ula_weight {self.ula_weight}: no useful layers {where}")
        if self.hls_weight and not harmful:
            raise InputError(f"hls_weight {self.hls_weight}: no harmful layers {where}")

    @property
    def amplified(self) -> list[int]:
        """The layers whose probes have a part in the loss, in order; none with a weight of 0."""
        return self._amplified

    @property
    def suppressed(self) -> list[int]:
        """The layers whose outputs have a part in the loss, in order; none with a weight of 0."""
        return self._suppressed

    def layer_report(self) -> LayerReport | None:
        """What `layers` names, if it does.

        Raises:
            InputError: the file is no layer report, or one of something else than MLPs.
        """
        if self.layers is None:
            return None
        report = read_layers(Path(self.layers))
        if report.intervention.module != "mlp":
            raise InputError(
                f"layers {self.layers}: of {report.intervention.module} ablation; both losses are "
                "of MLP outputs, so take a report of MLP ablation"
            )
        return report


def model_config(name: str, revision: str | None, trust_remote_code: bool) -> Any:
    """The configuration of a model, without its weights.

    Raises:
        InputError: there is no such model, or it cannot be read.
    """
    check_folder("model", name, "config.json", "adapter_config.json")
    try:
        return AutoConfig.from_pretrained(
            name, revision=revision, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise InputError(f"model {name}: {first_line(error)}") from error


def check_model(args: LayerRegularizedSFTConfig, model: Any) -> int:
    """How many layers a model has.

    Args:
        args: the settings.
        model: itself, or its name: then none of its weights are loaded.

    Raises:
        InputError: there is no such model, it lacks layers that the settings name, or the report
            that they come from is of another.
    """
    if isinstance(model, str):
        options = dict(args.model_init_kwargs or {})
        config = model_config(
            model,
            options.get("revision"),
            bool(options.get("trust_remote_code", args.trust_remote_code)),
        )
        name = model
    else:
        config, name = model.config, getattr(model.config, "_name_or_path", "")
    layers: int = config.get_text_config().num_hidden_layers
    check_layers(args, layers)
    report = args.layer_report()
    if report is None:
        return layers
    swept = report.model
    other = None
    if not _same_model(swept.name, name):
        other = f"model {swept.name}"
    elif swept.adapter is not None:
        other = f"model {swept.name} with adapter {swept.adapter}"
    elif swept.layers != layers:
        other = f"a model of {swept.layers} layers"
    if other:
        raise InputError(
            f"layers {args.layers}: of {other}, not of {name} with {layers} layers; sweep that, or "
            "name layers by useful_layers and harmful_layers"
        )
    return layers


def _same_model(first: str, second: str) -> bool:
    folders = [Path(name) for name in (first, second)]
    if all(folder.is_dir() for folder in folders):
        return folders[0].samefile(folders[1])
    return first == second


def check_layers(args: LayerRegularizedSFTConfig, layers: int) -> None:
    """Refuses settings that name layers beyond those that a model has."""
    for name, numbers in (("useful", args.amplified), ("harmful", args.suppressed)):
        if beyond := [number for number in numbers if number >= layers]:
            raise InputError(
                f"{name} layer {beyond[0]}: the model has layers 0 to {layers - 1} only"
            )
