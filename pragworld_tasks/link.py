"""Links to the task files in an installed lm-eval, which finds tasks in its own folder only.

A folder `pragworld` among lm-eval's own tasks gets a symbolic link to each task file. A link to the
folder would not do: lm-eval's search does not enter linked folders. Files that a task file includes
are found relative to the target of its link, so they need no links.
"""

import importlib.util
from pathlib import Path
from uuid import uuid4

from pragworld_tasks.errors import InputError


def task_folder() -> Path:
    """Return the folder of the task files: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "task_configs"
    return installed if installed.is_dir() else package.parent / "task_configs"


def task_files() -> list[Path]:
    """Return the files of tasks and groups, without those that they include."""
    return sorted(path for path in task_folder().glob("*.yaml") if not path.name.startswith("_"))


def task_descriptions() -> dict[str, str]:
    """Return the description of each task and group: the comment at the top of its file."""
    return {
        path.stem: path.read_text(encoding="utf-8").split("\n")[0].removeprefix("# ")
        for path in task_files()
    }


def link() -> str:
    """Link the tasks into the installed lm-eval and return a report. May be repeated.

    Raises:
        InputError: lm-eval is not installed, or its folder cannot be written or holds other files.
    """
    folder = _linked_folder()
    present = {path.name: path.readlink() for path in _links(folder)}
    wanted = {path.name: path for path in task_files()}
    if present == wanted:
        return f"{len(wanted)} tasks and groups are already linked in {folder}"
    try:
        folder.mkdir(exist_ok=True)
        for name in present.keys() - wanted.keys():  # left by an older version
            (folder / name).unlink(missing_ok=True)
        for name, target in wanted.items():
            # Created beside and renamed, so that several processes can link at once.
            new = folder / f".{name}.{uuid4()}"
            new.symlink_to(target)
            new.replace(folder / name)
    except OSError as error:
        raise InputError(
            f"{folder}: {error.strerror}; pass --include_path {task_folder()} to lm_eval instead"
        ) from error
    return f"linked {len(wanted)} tasks and groups in {folder}"


def unlink() -> str:
    """Remove the links and return a report. May be repeated.

    Raises:
        InputError: lm-eval is not installed, or its folder cannot be written or holds other files.
    """
    folder = _linked_folder()
    links = _links(folder)
    if not links:
        return f"no tasks are linked in {folder}"
    try:
        for path in links:
            path.unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; make it writable") from error
    return f"unlinked {len(links)} tasks and groups from {folder}"


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


def _links(folder: Path) -> list[Path]:
    """Return the links in the folder, even broken ones: an older version's files may be gone.

    Raises:
        InputError: The folder holds something else, so somebody else created it.
    """
    if not folder.exists():
        return []
    entries = sorted(folder.iterdir()) if folder.is_dir() else [folder]
    visible = [entry for entry in entries if not entry.name.startswith((".", "__"))]
    for entry in visible:
        if not (entry.is_symlink() and entry.readlink().parent.name == task_folder().name):
            raise InputError(f"{entry}: not created by `pragworld-tasks link`; move it away")
    return visible
