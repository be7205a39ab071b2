"""Links to the task files in an installed lm-eval, which finds tasks in its own folder only.

A folder `pragworld` among lm-eval's own tasks gets a symbolic link to each task file. A link to the
folder would not do: lm-eval's search does not enter linked folders. Files that a task file includes
are found relative to the target of its link, so they need no links.
"""

import contextlib
import errno
import importlib.util
from collections.abc import Mapping
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


def is_linked() -> bool:
    """Return whether an installed lm-eval finds the tasks without `--include_path`."""
    try:
        return _links(_linked_folder()) == {path.name: path for path in task_files()}
    except InputError:  # no lm-eval, or somebody else's files
        return False


def link() -> str:
    """Link the tasks into the installed lm-eval and return a report. May be repeated.

    Raises:
        InputError: lm-eval is not installed, or its folder cannot be written or holds other files.
    """
    folder = _linked_folder()
    wanted = {path.name: path for path in task_files()}
    if _links(folder) == wanted:
        return f"{len(wanted)} tasks and groups are already linked in {folder}"
    try:
        # Other processes may link and unlink at the same time. Each ends only once it has seen what
        # it wants, so the last one to end leaves all links or none.
        while True:
            with contextlib.suppress(FileNotFoundError, FileExistsError):  # unlinked meanwhile
                _place(wanted, folder)
            if _links(folder).keys() == wanted.keys():
                break
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
    linked = _links(folder)
    if not linked:
        return f"no tasks are linked in {folder}"
    try:
        while present := _links(folder):  # as in `link`
            for name in present:
                (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    except FileNotFoundError:  # another process has removed it
        pass
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:  # hidden files, or another process links again
            raise InputError(f"{folder}: {error.strerror}; make it writable") from error
    return f"unlinked {len(linked)} tasks and groups from {folder}"


def _place(wanted: Mapping[str, Path], folder: Path) -> None:
    """Create or replace the links to the wanted files, by name, and remove others."""
    folder.mkdir(exist_ok=True)
    for name in _links(folder).keys() - wanted.keys():  # left by an older version
        (folder / name).unlink(missing_ok=True)
    for name, target in wanted.items():
        # Created beside and renamed, which replaces a link of an older version.
        new = folder / f".{name}.{uuid4()}"
        new.symlink_to(target)
        new.replace(folder / name)


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
    try:
        entries = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        if not (folder.is_file() or folder.is_symlink()):
            return {}
        entries = [folder]
    links = {}
    for entry in entries:
        if entry.name.startswith((".", "__")):
            continue
        try:
            target = entry.readlink()
        except FileNotFoundError:  # another process has unlinked it
            continue
        except OSError:  # no link
            target = entry
        if target.parent.name != task_folder().name:
            raise InputError(f"{entry}: not created by `pragworld-tasks link`; move it away")
        links[entry.name] = target
    return links
