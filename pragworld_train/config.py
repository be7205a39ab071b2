"""The configuration of `LayerRegularizedSFTTrainer`, and its check against the model."""

from dataclasses import dataclass
from typing import Any

from trl import SFTConfig

from pragworld_interp.run.loading import load_config
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import is_same_model
from pragworld_train.layer_settings import LayerSettings


@dataclass
class LayerRegularizedSFTConfig(LayerSettings, SFTConfig):
    """The configuration of `LayerRegularizedSFTTrainer`.

    These are the settings of layer regularization only. All settings of `trl.SFTConfig`, and of
    `transformers.TrainingArguments`, are available as well. With both weights 0, training is plain
    SFT, and a warning says so.

    Args:
        layers: Path of the `layers.json` that `pragworld-interp ablate` wrote for this model. Its
            useful layers are amplified, its harmful layers suppressed. Cannot be combined with
            `useful_layers` or `harmful_layers`.
        layer_selection: Which layers of that file to use. `"evidence"`, by default: those for
            which a test corrected over all layers supports it. `"sign"`: every layer whose ablation
            lowers (useful) or raises (harmful) the accuracy, as in the paper.
        useful_layers: Layers to amplify, counted from 0.
        harmful_layers: Layers to suppress, counted from 0.
        ula_weight: Weight alpha of useful layer amplification (ULA), from 0 to 1. By default the
            paper's 1e-3 if there are useful layers, and 0 otherwise.
        hls_weight: Weight beta of harmful layer suppression (HLS), from 0 to 1. By default the
            paper's 1e-3 if there are harmful layers, and 0 otherwise.
        hls_reduction: How HLS sums up the features of an MLP output. `"mean"`: their mean square,
            as in the paper's text and released code. `"norm"`: the squared norm of the paper's
            equation.
        probe_hidden_size: Hidden width of the two-layer probe on each useful layer.
        probe_classes: The labels that probes tell apart, as they are written in completions, in
            the order of their indices in `probe_labels`. By default `["yes", "no"]`.
        gradient_share_steps: Every how many steps to log `ula_gradient_share` and
            `hls_gradient_share`: the norm of each loss's gradient on the trained weights, with its
            weight, divided by that of cross-entropy. By default 0, for never, because it takes
            three backward passes more.

    Raises:
        InputError: A setting is out of range, the settings contradict each other, or the layer
            report cannot be used.
    """


def check_model(args: Any, model: Any) -> int:
    """Check that the layers in the settings fit a model, and return how many layers it has.

    Args:
        args: The settings, with the fields of `LayerSettings`.
        model: The model, or its name. None of its weights are loaded.

    Raises:
        InputError: The model does not exist, lacks a layer that the settings name, or is not the
            one that the layer report was made for.
    """
    if isinstance(model, str):
        options = dict(args.model_init_kwargs or {})
        config = load_config(
            model,
            options.get("revision"),
            bool(options.get("trust_remote_code", args.trust_remote_code)),
        )
        name = model
    else:
        config, name = model.config, getattr(model.config, "_name_or_path", "")
    layers: int = config.get_text_config().num_hidden_layers
    args.check_layer_count(layers)
    report = args.layer_report()
    if report is None:
        return layers
    ablated = report.model
    if not is_same_model(ablated.name, name):
        other = f"model {ablated.name}"
    elif ablated.adapter is not None:
        other = f"model {ablated.name} with adapter {ablated.adapter}"
    elif ablated.layers != layers:
        other = f"a model of {ablated.layers} layers"
    else:
        return layers
    raise InputError(
        f"layers {args.layers}: a report of {other}, not of {name} with {layers} layers; ablate "
        f"{name}, or set useful_layers and harmful_layers"
    )
