"""The commands `pragworld-tasks link` and `path`, by which lm-eval finds the tasks.

lm-eval searches its own folder of tasks only, and enters no linked folders. `link` makes a folder
there with a link to each task file. Files that one includes are found relative to its target.
"""

import argparse
import contextlib
import importlib.util
import sys
from pathlib import Path
from uuid import uuid4

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
    if options.what == "model":
        from pragworld_tasks.tiny import tiny_folder

        print(tiny_folder())
        return
    print(task_folder())
    if is_linked():
        print(
            "the tasks are linked into lm-eval: leave out --include_path, or lm-eval warns about "
            "each of them; `pragworld-tasks link --remove` undoes the linking",
            file=sys.stderr,
        )


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


def is_linked() -> bool:
    """Return whether an installed lm-eval finds the tasks without `--include_path`."""
    try:
        return _links(_linked_folder()) == {path.name: path for path in task_files()}
    except InputError:  # no lm-eval, or somebody else's files
        return False


def link() -> str:
    """Link the tasks into the installed lm-eval and return a report.

    Raises:
        InputError: lm-eval is not installed, or its folder cannot be written or holds other files.
    """
    folder = _linked_folder()
    wanted = {path.name: path for path in task_files()}
    present = _links(folder)
    if present == wanted:
        return f"{len(wanted)} tasks and groups are already linked in {folder}"
    try:
        folder.mkdir(exist_ok=True)
        for name in present.keys() - wanted.keys():  # left by an older version
            (folder / name).unlink(missing_ok=True)
        for name, target in wanted.items():
            # Created beside and renamed, as several jobs of a cluster may link at once.
            new = folder / f".{name}.{uuid4()}"
            new.symlink_to(target)
            new.replace(folder / name)
    except OSError as error:
        raise InputError(
            f"{folder}: {error.strerror}; pass --include_path {task_folder()} to lm_eval instead"
        ) from error
    return f"linked {len(wanted)} tasks and groups in {folder}"


def unlink() -> str:
    """Remove the links and return a report.

    Raises:
        InputError: lm-eval is not installed, or its folder cannot be written or holds other files.
    """
    folder = _linked_folder()
    linked = _links(folder)
    with refusing(folder):
        for name in linked:
            (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody's hidden files stay, in their folder
        folder.rmdir()
    return f"unlinked {len(linked)} tasks and groups from {folder}"


def _linked_folder() -> Path:
    """Return the folder of the links inside the installed lm-eval; it need not exist yet."""
    # find_spec, because importing lm_eval takes a second.
    spec = importlib.util.find_spec("lm_eval")
    for package in (spec.submodule_search_locations or []) if spec else []:
        tasks = Path(package) / "tasks"
        if tasks.is_dir():
            return tasks / "pragworld"
    raise InputError(
        "lm-eval is not installed in this environment; install it with `pip install lm_eval`"
    )


def _links(folder: Path) -> dict[str, Path]:
    """Return the links in the folder and their targets, which may be gone with an older version.

    Raises:
        InputError: The folder holds something else, so somebody else created it.
    """
    links = {}
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if entry.name.startswith((".", "__")):
            continue
        target = entry.readlink() if entry.is_symlink() else entry
        if target.parent.name != task_folder().name:
            raise InputError(f"{entry}: not created by `pragworld-tasks link`; move it away")
        links[entry.name] = target
    return links
