"""The settings of a training run, from the command line and a YAML file."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pragworld_tasks.data.documents import GENERATED
from pragworld_tasks.data.splits import SPLIT_NAMES
from pragworld_tasks.errors import InputError

if TYPE_CHECKING:
    from trl import ModelConfig, TrlParser

    from pragworld_train.trainer import LayerRegularizedSFTConfig

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
        default=None, metadata={"help": "A file with documents of your own, instead."}
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
        metadata={"help": "The generated split to evaluate the loss on, for --eval_strategy."},
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
        default=False, metadata={"help": "Evaluate before and after training, and compare."}
    )
    evaluate_tasks: list[str] | None = field(
        default=None,
        metadata={
            "help": "lm-eval's tasks, by name or YAML file. If not set: pragworld_generated_label, "
            "pragworld_generated_perplexity, and pragworld_manual_label if its data is available."
        },
    )
    evaluate_groups: int = field(
        default=200, metadata={"help": "Number of generated groups to evaluate."}
    )
    evaluate_batch_size: int = field(default=16, metadata={"help": "Batch size of lm-eval."})


class RunSettings(NamedTuple):
    """All settings of a training run, divided as in TRL's scripts."""

    script_args: TrainArguments
    training_args: "LayerRegularizedSFTConfig"
    model_args: "ModelConfig"


def make_parser() -> "TrlParser":
    """Return TRL's parser for our settings and all of its own."""
    from transformers.utils import is_torch_bf16_gpu_available
    from trl import ModelConfig, TrlParser

    from pragworld_train.trainer import LayerRegularizedSFTConfig

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
    """Return the settings on a command line, and in the YAML file that it names and overrides.

    Raises:
        InputError: The file cannot be read, or a setting is impossible.
    """
    from yaml import YAMLError

    # TRL's own use of that setting causes this warning.
    warnings.filterwarnings("ignore", ".*gradient_checkpointing` is deprecated", FutureWarning)
    try:
        *settings, unknown = make_parser().parse_args_and_config(
            list(words), return_remaining_strings=True
        )
    except InputError:
        raise
    except IndexError as error:
        raise InputError("--config needs the name of a YAML file") from error
    except (ValueError, TypeError, ImportError, OSError, YAMLError) as error:
        raise InputError(f"settings: {' '.join(str(error).split())}") from error
    if unknown:
        raise InputError(f"no setting {unknown[0]}; `pragworld-train --help-all` lists all of them")
    script_args, training_args, model_args = settings
    # A YAML file may have a mapping, and a name where a list may stand.
    if not isinstance(script_args.dataset_config, str):
        script_args.dataset_config = json.dumps(script_args.dataset_config)
    if isinstance(script_args.evaluate_tasks, str):
        script_args.evaluate_tasks = [script_args.evaluate_tasks]
    if not model_args.model_name_or_path:
        raise InputError("--model_name_or_path is missing; name a model on the hub or a folder")
    return RunSettings(script_args, training_args, model_args)
