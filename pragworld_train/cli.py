"""The command `pragworld-train`.

Help is printed without torch, transformers or trl: what needs them is imported where it is used.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pragworld_tasks.command_line import clean_exit, round_repeatably
from pragworld_tasks.errors import InputError
from pragworld_train.arguments import DEFAULTS, TrainArguments, make_parser, parse_settings
from pragworld_train.experiments.arms import ARMS
from pragworld_train.layer_settings import LayerSettings

_TRAIN = """\
Fine-tune a model on PragWorld dialogues with TRL, while amplifying its useful
layers (ULA) and suppressing its harmful ones (HLS).

example:
  pragworld-train --model_name_or_path Qwen/Qwen2.5-0.5B-Instruct --use_peft \\
    --layers layers.json --ula_weight 1e-3 --hls_weight 1e-3 --output_dir out

other commands, each with its own --help:
  pragworld-train evaluate  compare a finished run with the model it started from
  pragworld-train study  compare ways of training over several seeds
  pragworld-train probe  fit label probes to every layer of a model
"""
_EVALUATE = """\
Evaluate the model that a finished run started from and what the run saved,
compare them document by document, and add the tables to the run's model card
and pragworld_train.json.

example:
  pragworld-train evaluate out --retain hellaswag
"""
_STUDY = """\
Train a model in several ways over several seeds; evaluate, ablate and probe
each result; write tables (study.md, study.json) and a figure (study.png) to
--output_dir. Rerun the same command to resume an interrupted study.

example:
  pragworld-train study --model_name_or_path Qwen/Qwen2.5-0.5B-Instruct \\
    --use_peft --layers layers.json --ula_weight 1e-3 --hls_weight 1e-3 \\
    --seeds 1 2 3 --output_dir study
"""
_PROBE = """\
Fit new label probes to the MLP outputs of every layer on generated dialogues,
and report their accuracy on other dialogues and the size of the outputs.

example:
  pragworld-train probe --model Qwen/Qwen2.5-0.5B-Instruct --adapter out
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
        if words[:1] == ["study"]:
            _study(words[1:])
        elif words[:1] == ["probe"]:
            _probe(words[1:])
        elif words[:1] == ["evaluate"]:
            _evaluate(words[1:])
        elif {"-h", "--help"} & {*words}:
            help_parser().print_help()
        elif words == ["--version"]:
            print(version("pragworld"))
        else:
            _train(words)


def _train(words: Sequence[str]) -> None:
    _require_packages()
    from pragworld_train.training_run import train

    if "--help-all" in words:
        make_parser().print_help()
    else:
        train(parse_settings(words))


def _evaluate(words: Sequence[str]) -> None:
    parser = _new_parser("pragworld-train evaluate", _EVALUATE)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="--output_dir of the run")
    names = ("evaluate_tasks", "retain", "include_path", "evaluate_groups", "evaluate_batch_size")
    for setting in fields(TrainArguments):
        if setting.name in names:
            help_text = setting.metadata["help"]
            _add_setting(parser, setting.name, help_text, setting.default, setting.type)
    options = vars(parser.parse_args(words))
    _require_packages()
    from pragworld_train.training_run import evaluate_run

    evaluate_run(options.pop("folder"), TrainArguments(**options))


def _study(words: Sequence[str]) -> None:
    arms = "\n".join(f"  {arm:14}  {description}" for arm, description in ARMS.items())
    parser = _new_parser(
        "pragworld-train study",
        _STUDY,
        usage="pragworld-train study --model_name_or_path MODEL [--SETTING VALUE ...]",
        epilog=f"arms:\n{arms}\n\nAll other settings are those of pragworld-train and apply to "
        "every run.",
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="SEED", help="default: 1 2 3"
    )
    parser.add_argument(
        "--arms", nargs="+", choices=ARMS, default=[*ARMS], metavar="ARM", help="default: all"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time; default: 1")
    options, settings = parser.parse_known_args(words)
    _require_packages()
    from pragworld_train.experiments.study import run_study

    run_study(settings, options.arms, options.seeds, options.jobs)


def _probe(words: Sequence[str]) -> None:
    parser = _new_parser("pragworld-train probe", _PROBE)
    parser.add_argument("--model", required=True, help="a name on the Hugging Face hub or a folder")
    parser.add_argument("--revision", help="a branch, tag or commit on the hub")
    parser.add_argument(
        "--adapter", help="the name or folder of a PEFT adapter on top of the model"
    )
    parser.add_argument(
        "--dtype",
        default="auto",
        choices=("auto", "float32", "bfloat16", "float16"),
        help="default: the type of the weights",
    )
    parser.add_argument(
        "--chat_template",
        "--chat-template",
        action="store_true",
        help="apply the model's chat template to prompts",
    )
    parser.add_argument(
        "--trust_remote_code",
        "--trust-remote-code",
        action="store_true",
        help="run code that comes with the model",
    )
    parser.add_argument(
        "--groups",
        type=int,
        default=200,
        help="groups of the validation split to fit the probes to, and of the test split to test "
        "them on; default: 200",
    )
    parser.add_argument("--held_out_alteration", help="an alteration to leave out of fitting")
    parser.add_argument("--probe_hidden_size", type=int, default=128, help="default: 128")
    parser.add_argument("--seed", type=int, default=0, help="seed of the probes; default: 0")
    parser.add_argument("--out", type=Path, help="a JSON file to write everything to")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --out")
    options = parser.parse_args(words)
    _require_packages()
    from pragworld_train.experiments.probing import run_probe

    run_probe(options)


def _require_packages() -> None:
    """Check that the packages are installed that everything but help needs."""
    for package in ("torch", "trl"):
        if find_spec(package) is None:
            raise InputError(
                f"`pragworld-train` needs the {package} package: pip install 'pragworld[train]'"
            )


# Help ---------------------------------------------------------------------------------------------


def _new_parser(name: str, description: str, **options: Any) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=name,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        **options,
    )


def help_parser() -> argparse.ArgumentParser:
    """Return a parser that prints the settings most runs need; `make_parser` parses them all."""
    parser = _new_parser(
        "pragworld-train",
        _TRAIN,
        usage="pragworld-train --model_name_or_path MODEL [--SETTING VALUE ...]",
        add_help=False,
    )
    for title, settings in (("layers", LayerSettings), ("data and evaluation", TrainArguments)):
        group = parser.add_argument_group(title)
        for setting in fields(settings):
            _add_setting(
                group, setting.name, setting.metadata["help"], setting.default, setting.type
            )
    group = parser.add_argument_group(
        "model and training (the settings of TRL that most runs need)"
    )
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
    elif kind is int:
        options["type"] = int
    if default is not None and default is not False:
        text += f" Default: {default}."
    group.add_argument(f"--{name}", default=default, help=text, **options)
