"""The command `pragworld-tasks collect`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command, at_least
from pragworld_tasks.sensitivity.collection import collect


def add_collect(commands: Commands) -> None:
    """Add the command to those of `pragworld-tasks`."""
    command = add_command(
        commands,
        "collect",
        _collect,
        "run lm_eval so that an interrupted run resumes",
        description="It passes further options to lm_eval and keeps the responses to a few "
        "prompts at a time in FOLDER. Rerun the same command to resume an interrupted run.",
        example="pragworld-tasks collect --tasks world_model --output_path runs \\\n"
        "  --model hf --model_args pretrained=… --apply_chat_template",
    )
    command.add_argument("--output_path", required=True, type=Path, metavar="FOLDER")
    command.add_argument("--chunk", type=int, default=15, help="prompts at a time; default: 15")
    command.add_argument("--seed", type=int, default=1234, help="default: 1234")
    command.set_defaults(passed_on=[])


def _collect(options: argparse.Namespace) -> None:
    at_least(options, chunk=1, seed=0)
    collect(options.output_path, options.passed_on, options.chunk, options.seed)
