"""The command `pragworld-tasks verify`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command


def add_verify(commands: Commands) -> None:
    """Add the command `verify`."""
    command = add_command(
        commands,
        "verify",
        _verify,
        "check submissions to the leaderboard",
        description="Computes every metric again from the samples, and checks that documents, "
        "prompts, answers and settings are those of the record. Exits with 2 and names the row "
        "where something differs.",
        example="pragworld-tasks verify leaderboard/submissions/*",
    )
    command.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="submissions")


def _verify(options: argparse.Namespace) -> None:
    from pragworld_tasks.errors import InputError
    from pragworld_tasks.leaderboard.verify import verify

    failed = 0
    for folder in options.folders:
        try:
            run = verify(folder)
        except (InputError, RecursionError) as error:  # JSON can be nested too deeply to walk
            failed += 1
            print(f"{folder}: refused: {' '.join(str(error).split())}")
        else:
            percent = run.report.metrics[run.main_metric].percent
            print(
                f"{folder}: {run.name}, {run.record.data.split}: {run.main_metric} {percent:.2f} %"
            )
    if failed:
        raise InputError(f"{failed} of {len(options.folders)} submissions are refused; see above")
