"""The commands `pragworld-tasks link` and `path`, by which lm-eval finds the tasks.

lm-eval enters no linked folders, so `link` makes a folder among its tasks with a link to each task
file. Files that a task file includes are found relative to its target.
"""

import contextlib
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import refusing
from pragworld_tasks.tiny import tiny_folder


def add_link(commands: Commands) -> None:
    """Add the command `link`."""
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
    """Add the command `path`."""
    command = add_command(
        commands,
        "path",
        lambda options: print(tiny_folder() if options.what == "model" else task_folder()),
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


def task_folder() -> Path:
    """Return the folder of the task files."""
    return Path(__file__).resolve().parent / "task_configs"


def task_files() -> list[Path]:
    """Return the files of tasks and groups, without those that they include."""
    return sorted(path for path in task_folder().glob("*.yaml") if not path.name.startswith("_"))


def task_names() -> set[str]:
    """Return the names of all tasks and groups."""
    return {path.stem for path in task_files()}


def link() -> str:
    """Link the tasks into the installed lm-eval, in place of older links, and return a report."""
    from lm_eval.tasks import TaskManager

    unlink()
    if task_names() & {*TaskManager(include_defaults=False).all_tasks}:
        return "lm-eval finds the tasks by the package's entry point; no links are needed"
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
    """Remove the links and return a report; files that somebody else placed there stay."""
    folder = _linked_folder()
    links = [  # of an older version, too, whose files may be gone
        path
        for path in folder.glob("*.yaml")
        if path.is_symlink() and path.readlink().parent.name == task_folder().name
    ]
    with refusing(folder):
        for path in links:
            path.unlink()
    with contextlib.suppress(OSError):  # not empty, or not there
        folder.rmdir()
    return f"unlinked {len(links)} tasks and groups from {folder}"


def _linked_folder() -> Path:
    """Return the folder of the links inside the installed lm-eval; it need not exist yet."""
    import lm_eval

    return Path(lm_eval.__file__).parent / "tasks" / "pragworld"
