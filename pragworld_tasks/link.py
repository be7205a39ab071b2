"""The commands `pragworld-tasks link` and `path`, by which lm-eval finds the tasks.

lm-eval enters no linked folders, so `link` makes a folder among its tasks with a link to each task
file. Files that a task file includes are found relative to its target.
"""

import argparse
import contextlib
import importlib.util
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import refusing


def add_link(commands: Commands) -> None:
    """Add the command to those of `pragworld-tasks`."""
    command = add_command(
        commands,
        "link",
        lambda options: print(unlink() if options.remove else link()),
        "make the tasks known to the installed lm-eval",
        example="pragworld-tasks link\n"
        "lm_eval --model hf --model_args pretrained=… --tasks pragworld_manual",
    )
    command.add_argument("--remove", action="store_true", help="undo it")


def add_path(commands: Commands) -> None:
    """Add the command to those of `pragworld-tasks`."""
    command = add_command(
        commands,
        "path",
        _print_path,
        "print the folder of the tasks, or of the small model",
        example='lm_eval --include_path "$(pragworld-tasks path)" --tasks pragworld_manual …\n'
        'lm_eval --model hf --model_args pretrained="$(pragworld-tasks path model)" …',
    )
    command.add_argument(
        "what",
        nargs="?",
        choices=("tasks", "model"),
        default="tasks",
        help="the task files, for lm-eval's --include_path (the default), or pragworld-tiny",
    )


def _print_path(options: argparse.Namespace) -> None:
    from pragworld_tasks.tiny import tiny_folder

    print(tiny_folder() if options.what == "model" else task_folder())


def task_folder() -> Path:
    """Return the folder of the task files: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "task_configs"
    return installed if installed.is_dir() else package.parent / "task_configs"


def task_files() -> list[Path]:
    """Return the files of tasks and groups, without those that they include."""
    return sorted(path for path in task_folder().glob("*.yaml") if not path.name.startswith("_"))


def task_names() -> set[str]:
    """Return the names of all tasks and groups."""
    return {path.stem for path in task_files()}


def link() -> str:
    """Link the tasks into the installed lm-eval, in place of older links, and return a report.

    Raises:
        InputError: lm-eval's folder cannot be written, or holds other files of these names.
    """
    unlink()
    folder, paths = _linked_folder(), task_files()
    try:
        folder.mkdir(exist_ok=True)
        for path in paths:
            (folder / path.name).symlink_to(path)
    except OSError as error:
        raise InputError(
            f"{folder}: {error.strerror}; pass --include_path {task_folder()} to lm_eval instead"
        ) from error
    return f"linked {len(paths)} tasks and groups in {folder}"


def unlink() -> str:
    """Remove the links and return a report; files that somebody else placed there stay.

    Raises:
        InputError: lm-eval's folder cannot be written.
    """
    folder = _linked_folder()
    links = _links(folder)
    with refusing(folder):
        for path in links:
            path.unlink()
    with contextlib.suppress(OSError):  # not empty, or not there
        folder.rmdir()
    return f"unlinked {len(links)} tasks and groups from {folder}"


def _linked_folder() -> Path:
    """Return the folder of the links inside the installed lm-eval; it need not exist yet."""
    spec = importlib.util.find_spec("lm_eval")  # importing lm_eval takes a second
    assert spec
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0], "tasks", "pragworld")


def _links(folder: Path) -> list[Path]:
    """Return what `link` made; an older version's files may be gone."""
    return [
        path
        for path in sorted(folder.glob("*.yaml"))
        if path.is_symlink() and path.readlink().parent.name == task_folder().name
    ]
