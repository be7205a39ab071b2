"""The command `pragworld-tasks dataset`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.data.sources import HUB_DATASET


def add_dataset(commands: Commands) -> None:
    """Add the command that writes the benchmark as a dataset of the Hugging Face Hub."""
    command = add_command(
        commands,
        "dataset",
        _dataset,
        "write the benchmark as a dataset of the Hugging Face Hub",
        description="Writes a folder with a Parquet file for each split, a dataset card, a licence "
        "and eval.yaml, which makes it a benchmark of the Hub. `datasets.load_dataset` and "
        "PRAGWORLD_DATA take the folder. The manual and entity-tracking splits are downloaded "
        "where necessary; the synthetic split is included if it is on this machine.",
        example="pragworld-tasks dataset --out pragworld-dataset",
    )
    command.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder to write")
    command.add_argument(
        "--name",
        default=HUB_DATASET,
        metavar="OWNER/NAME",
        help="name that it will have on the Hub, for its card; default: %(default)s",
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace the folder if this command wrote it"
    )


def _dataset(options: argparse.Namespace) -> None:
    from pragworld_tasks.data.documents import Document, ReleasedSplit
    from pragworld_tasks.data.sources import load_split, locate
    from pragworld_tasks.files import write_folder
    from pragworld_tasks.leaderboard.hub_dataset import dataset_files
    from pragworld_tasks.leaderboard.hub_names import check_repository

    check_repository(options.name, "--name")
    names: list[ReleasedSplit] = ["manual", "entity_tracking"]
    if locate("synthetic"):
        names.append("synthetic")
    splits: dict[ReleasedSplit, list[Document]] = {name: load_split(name) for name in names}
    write_folder(options.out, dataset_files(splits, options.name), options.overwrite)
    for name, documents in splits.items():
        print(f"{name}: {len(documents)} documents")
    if "synthetic" not in splits:
        print("synthetic: left out; `pragworld-tasks data fetch synthetic` downloads it first")
    print(f"written to {options.out}")
