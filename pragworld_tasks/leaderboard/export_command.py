"""The command `pragworld-tasks export-lm-eval`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.data.parquet import parquet_path
from pragworld_tasks.data.sources import FILES, HUB_DATASET
from pragworld_tasks.errors import InputError


def add_export_lm_eval(commands: Commands) -> None:
    """Add the command that writes the tasks as a folder of lm-eval's own."""
    command = add_command(
        commands,
        "export-lm-eval",
        _export,
        "write the tasks on the released splits as a folder for lm-eval without this plugin",
        description="The folder has a README, YAML files and one utils.py, as lm-eval asks for in "
        "new tasks. It imports nothing of pragworld, and its data comes from a dataset that "
        "`pragworld-tasks dataset` wrote.",
        example="pragworld-tasks export-lm-eval pragworld --dataset pragworld-dataset\n"
        "lm_eval --include_path pragworld --tasks pragworld_manual …",
    )
    command.add_argument("folder", type=Path, metavar="DIR", help="folder to write")
    command.add_argument(
        "--dataset",
        default=HUB_DATASET,
        metavar="NAME_OR_DIR",
        help="name of the dataset on the Hub, or a folder; default: %(default)s",
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace the folder if this command wrote it"
    )


def _export(options: argparse.Namespace) -> None:
    from pragworld_tasks.files import write_folder
    from pragworld_tasks.leaderboard.hub_names import is_repository
    from pragworld_tasks.leaderboard.lm_eval_folder import lm_eval_files

    dataset, folder = options.dataset, Path(options.dataset)
    if folder.is_dir():
        dataset = str(folder.resolve())
        missing = [split for split in FILES if not (folder / parquet_path(split)).is_file()]
        if len(missing) == len(FILES):
            raise InputError(
                f"--dataset {folder}: holds no {parquet_path(missing[0])}; pass a folder that "
                "`pragworld-tasks dataset` wrote"
            )
        for split in missing:
            print(f"{folder} has no split {split}: its tasks will not run")
    elif not is_repository(dataset):
        raise InputError(
            f"--dataset {dataset}: no such folder, and not a name on the Hub such as "
            f"{HUB_DATASET}; pass either"
        )
    files = lm_eval_files(dataset)
    write_folder(options.folder, files, options.overwrite)
    print(f"{len(files)} files written to {options.folder}")
