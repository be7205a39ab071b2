"""Makes the task files known to an installed lm-eval, which looks for tasks in its own folder only.

A folder `pragworld` beside lm-eval's own tasks gets a link to each of ours. Links to the files,
not one to the folder: lm-eval's search does not go into linked folders. Files that a task file
includes are found where the link points to, so they need none.
"""

import importlib.util
from pathlib import Path
from uuid import uuid4

from pragworld_tasks.errors import InputError


def task_folder() -> Path:
    """The folder of our task files: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "task_configs"
    return installed if installed.is_dir() else package.parent / "task_configs"


def task_files() -> list[Path]:
    """The files of tasks and groups, without those that they include."""
    return sorted(path for path in task_folder().glob("*.yaml") if not path.name.startswith("_"))


def task_descriptions() -> dict[str, str]:
    """What each task and group is, by its name: the comment that its file begins with."""
    return {
        path.stem: path.read_text(encoding="utf-8").split("\n")[0].removeprefix("# ")
        for path in task_files()
    }


def link() -> str:
    """Links our tasks into the installed lm-eval and says what was done. May be repeated.

    Raises:
        InputError: no lm-eval, or its folder cannot be written, or holds what is not ours.
    """
    folder = _linked_folder()
    present = {path.name: path.readlink() for path in _links(folder)}
    wanted = {path.name: path for path in task_files()}
    if present == wanted:
        return f"{len(wanted)} tasks and groups are linked in {folder} already"
    try:
        folder.mkdir(exist_ok=True)
        for name in present.keys() - wanted.keys():  # an older version's
            (folder / name).unlink(missing_ok=True)
        for name, target in wanted.items():
            # Made beside and renamed, so that several processes may link at once.
            new = folder / f".{name}.{uuid4()}"
            new.symlink_to(target)
            new.replace(folder / name)
    except OSError as error:
        raise InputError(
            f"{folder}: {error.strerror}; pass --include_path {task_folder()} to lm_eval instead"
        ) from error
    return f"linked {len(wanted)} tasks and groups in {folder}"


def unlink() -> str:
    """Takes the links away and says what was done. May be repeated.

    Raises:
        InputError: no lm-eval, or its folder cannot be written, or holds what is not ours.
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
    """The folder of our links inside the installed lm-eval, which need not exist yet."""
    # Found, not imported: that would take a second.
    spec = importlib.util.find_spec("lm_eval")
    for package in (spec.submodule_search_locations or []) if spec else []:
        tasks = Path(package) / "tasks"
        if tasks.is_dir():
            return tasks / "pragworld"
    raise InputError("no lm-eval in this environment; install it with `pip install lm_eval`")


def _links(folder: Path) -> list[Path]:
    """Our links in the folder, whatever they point to: an older version's files may be gone.

    Raises:
        InputError: something else is there, so somebody else made the folder.
    """
    if not folder.exists():
        return []
    entries = sorted(folder.iterdir()) if folder.is_dir() else [folder]
    visible = [entry for entry in entries if not entry.name.startswith((".", "__"))]
    for entry in visible:
        if not (entry.is_symlink() and entry.readlink().parent.name == task_folder().name):
            raise InputError(f"{entry}: not placed there by `pragworld-tasks link`; move it away")
    return visible
