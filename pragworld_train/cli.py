"""The command `pragworld-train`.

Help is printed without torch, transformers or trl: what needs them is imported where it is used.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal, get_args, get_origin

from pragworld_interp.run import round_repeatably
from pragworld_tasks.command_line import clean_exit
from pragworld_tasks.errors import InputError
from pragworld_train.arguments import DEFAULTS, TrainArguments, make_parser, parse_settings
from pragworld_train.layer_settings import LayerSettings

_TRAIN = """\
Fine-tune a model on PragWorld dialogues with TRL, while amplifying its useful
layers (ULA) and suppressing its harmful ones (HLS).

example:
  pragworld-train --model_name_or_path Qwen/Qwen2.5-0.5B-Instruct --use_peft \\
    --layers layers.json --output_dir out
"""

# The settings of TRL that most runs need, and its defaults where ours are not different.
_TRL_SETTINGS: dict[str, tuple[str, Any]] = {
    "model_name_or_path": ("A name on the Hugging Face hub or a folder. Required.", None),
    "output_dir": ("Where to save the model or adapter.", None),
    "use_peft": ("Train a LoRA adapter instead of all weights.", False),
    "lora_r": ("Rank of the adapter.", None),
    "learning_rate": ("Initial learning rate.", None),
    "num_train_epochs": ("Number of epochs.", None),
    "per_device_train_batch_size": ("Examples in a batch.", 8),
    "gradient_accumulation_steps": ("Batches in a training step.", 1),
    "seed": ("Random seed.", 42),
    "report_to": ("Where to log, such as wandb or tensorboard.", "none"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with these arguments, or with those of the command line."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    round_repeatably()
    with clean_exit():
        if {"-h", "--help"} & {*words}:
            help_parser().print_help()
        elif words == ["--version"]:
            print(version("pragworld"))
        else:
            _train(words)


def _train(words: Sequence[str]) -> None:
    for package in ("torch", "trl"):
        if find_spec(package) is None:
            raise InputError(
                f"`pragworld-train` needs the {package} package: pip install 'pragworld[train]'"
            )
    from pragworld_train.training_run import train

    if "--help-all" in words:
        make_parser().print_help()
    else:
        train(parse_settings(words))


# Help ---------------------------------------------------------------------------------------------


def help_parser() -> argparse.ArgumentParser:
    """Return a parser that prints the settings most runs need; `make_parser` parses them all."""
    parser = argparse.ArgumentParser(
        prog="pragworld-train",
        usage="pragworld-train --model_name_or_path MODEL [--SETTING VALUE ...]",
        description=_TRAIN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    for title, settings in (("layers", LayerSettings), ("data and evaluation", TrainArguments)):
        group = parser.add_argument_group(title)
        for setting in fields(settings):
            _add_setting(
                group, setting.name, setting.metadata["help"], setting.default, setting.type
            )
    group = parser.add_argument_group("model and training (settings of TRL that most runs need)")
    for name, (text, default) in _TRL_SETTINGS.items():
        _add_setting(group, name, text, DEFAULTS.get(name, default))
    group = parser.add_argument_group("options")
    group.add_argument(
        "--config", metavar="FILE", help="A YAML file with settings, which options override."
    )
    group.add_argument(
        "--resume_from_checkpoint",
        metavar="last",
        help="Resume an interrupted run from its last checkpoint, or from the checkpoint named.",
    )
    group.add_argument("-h", "--help", action="help", help="Show this help.")
    group.add_argument("--help-all", action="help", help="Show all settings of TRL as well.")
    group.add_argument("--version", action="version", help="Show the version.")
    return parser


def _add_setting(group: Any, name: str, text: str, default: Any, kind: Any = None) -> None:
    options: dict[str, Any] = {"metavar": name.rpartition("_")[2].upper()}
    if isinstance(default, bool):
        options = {"action": "store_true"}
    elif get_origin(kind) is Literal:
        options = {"choices": get_args(kind)}
    elif "list" in str(kind):
        options["nargs"] = "+"
    if default is not None and default is not False:
        text += f" Default: {default}."
    # The other programs have this option too; TRL's parser takes both spellings.
    spelled = "chat-template" if name == "chat_template" else name
    group.add_argument(f"--{spelled}", default=default, help=text, **options)
