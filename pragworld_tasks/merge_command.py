"""The command `pragworld-tasks merge`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command


def add_merge(commands: Commands) -> None:
    """Add the command to those of `pragworld-tasks`."""
    command = add_command(
        commands,
        "merge",
        _merge,
        "join the shards of a run of `collect`",
        description="The shards are folders that `collect` wrote with --shard. The folder --out "
        "holds what a run without shards writes, byte for byte, if the model gives the same "
        "responses.",
        example="pragworld-tasks merge runs/MODEL/shard-*-of-4 --out runs/MODEL",
    )
    add = command.add_argument
    add("shards", nargs="+", type=Path, metavar="SHARD", help="the folders of all shards of a run")
    add("--out", required=True, type=Path, metavar="FOLDER", help="folder of the whole run")
    add("--overwrite", action="store_true", help="replace the files there")


def _merge(options: argparse.Namespace) -> None:
    from pragworld_tasks.sensitivity.collected_shards import merge_collected

    merge_collected(options.shards, options.out, options.overwrite)
