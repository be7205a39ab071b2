"""The settings of a training run, from the command line and a YAML file."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pragworld_tasks.data.splits import GENERATED, SPLIT_NAMES
from pragworld_tasks.errors import InputError

if TYPE_CHECKING:
    from trl import ModelConfig, TrlParser

    from pragworld_train.config import LayerRegularizedSFTConfig

# Defaults other than TRL's: those of the paper (appendix H), and a folder. It names no dropout.
DEFAULTS: dict[str, Any] = {
    "learning_rate": 1e-4,
    "num_train_epochs": 3.0,
    "warmup_steps": 0.1,
    "lora_r": 8,
    "lora_alpha": 16,
    "lora_dropout": 0.0,
    "lora_target_modules": ["all-linear"],
    "output_dir": "pragworld-train",
}


@dataclass
class TrainArguments:
    """The data to train on and the tasks to evaluate. TRL's scripts use the same names for data."""

    dataset_name: str = field(
        default=GENERATED, metadata={"help": f"The split to train on: {', '.join(SPLIT_NAMES)}."}
    )
    documents: str | None = field(
        default=None,
        metadata={"help": "A file with documents of your own, instead."},
    )
    dataset_config: str = field(
        default="{}",
        metadata={
            "help": "Settings of generated documents as JSON: groups (default 2000), seed, domains."
        },
    )
    dataset_train_split: str = field(
        default="train", metadata={"help": "The generated split to train on."}
    )
    dataset_test_split: str = field(
        default="validation",
        metadata={
            "help": "The generated split to evaluate the loss on, for TRL's --eval_strategy."
        },
    )
    held_out_alteration: str | None = field(
        default=None, metadata={"help": "An alteration to leave out of training, not of tests."}
    )
    originals_only: bool = field(
        default=False, metadata={"help": "Leave altered documents out of training."}
    )
    chat_template: bool = field(
        default=False, metadata={"help": "Apply the model's chat template to all prompts."}
    )
    evaluate: bool = field(
        default=False,
        metadata={"help": "Evaluate before and after training, and compare."},
    )
    evaluate_tasks: list[str] | None = field(
        default=None,
        metadata={
            "help": "The tasks. If not set: pragworld_generated_label, and "
            "pragworld_manual_label if its data is available."
        },
    )
    retain: list[str] | None = field(
        default=None,
        metadata={
            "help": "More tasks, by name or YAML file, to get no worse on. If not set: the "
            "perplexity of generated dialogues."
        },
    )
    evaluate_groups: int = field(
        default=200, metadata={"help": "Number of generated groups to evaluate."}
    )
    evaluate_batch_size: int = field(default=16, metadata={"help": "Batch size of lm-eval."})
    overwrite: bool = field(
        default=False, metadata={"help": "Replace the run in --output_dir, if there is one."}
    )


class RunSettings(NamedTuple):
    """All settings of a training run, divided as in TRL's scripts."""

    script_args: TrainArguments
    training_args: "LayerRegularizedSFTConfig"
    model_args: "ModelConfig"


def make_parser() -> "TrlParser":
    """Return TRL's parser for our settings and all of its own."""
    from transformers.utils import is_torch_bf16_gpu_available
    from trl import ModelConfig, TrlParser

    from pragworld_train.config import LayerRegularizedSFTConfig

    parser = TrlParser(
        (TrainArguments, LayerRegularizedSFTConfig, ModelConfig),
        prog="pragworld-train",
        usage="pragworld-train --model_name_or_path MODEL [--config FILE] [--SETTING VALUE ...]",
        description="All settings of pragworld-train: its own, and those of TRL's SFTConfig and "
        "ModelConfig. `pragworld-train --help` shows those that most runs need.",
    )
    parser.set_defaults_with_config(**DEFAULTS)
    if not is_torch_bf16_gpu_available():  # where TRL's own default would fail
        parser.set_defaults_with_config(bf16=False)
    return parser


def parse_settings(words: Sequence[str]) -> RunSettings:
    """Return the settings on a command line and in the YAML file that it names.

    Args:
        words: The command line. Its settings have precedence over those of the file.

    Raises:
        InputError: The file cannot be read, or a setting is impossible.
    """
    # TRL's own use of that setting causes this warning.
    warnings.filterwarnings("ignore", ".*gradient_checkpointing` is deprecated", FutureWarning)
    _read_config(words)
    try:
        *settings, unknown = make_parser().parse_args_and_config(
            list(words), return_remaining_strings=True
        )
    except InputError:
        raise
    except (ValueError, TypeError, ImportError) as error:
        raise InputError(f"settings: {' '.join(str(error).split())}") from error
    if unknown:
        raise InputError(f"no setting {unknown[0]}; `pragworld-train --help-all` lists all of them")
    script_args, training_args, model_args = settings
    # A YAML file may have a mapping, and a name where a list may stand.
    if isinstance(script_args.dataset_config, dict):
        script_args.dataset_config = json.dumps(script_args.dataset_config)
    for name in ("evaluate_tasks", "retain"):
        if isinstance(getattr(script_args, name), str):
            setattr(script_args, name, [getattr(script_args, name)])
    if not model_args.model_name_or_path:
        raise InputError("--model_name_or_path is missing; name a model on the hub or a folder")
    return RunSettings(script_args, training_args, model_args)


def _read_config(words: Sequence[str]) -> dict[str, Any]:
    """Return the content of the YAML file that a command line names; empty if it names none."""
    import yaml

    if "--config" not in words:
        return {}
    place = list(words).index("--config") + 1
    if place == len(words):
        raise InputError("--config needs the name of a YAML file")
    try:
        content = yaml.safe_load(Path(words[place]).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"--config {words[place]}: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise InputError(f"--config {words[place]}: must be a mapping of settings to values")
    return content
