"""Writing a site: all of it or nothing, and over nothing but a site that was written here."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json, write_json

_CONTENTS = "pragworld-board.json"  # names every file of the site; marks the folder as ours


def check_site_folder(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that exists, unless it may be overwritten and holds a site and nothing else.

    Raises:
        InputError: The folder may not be written.
    """
    if not folder.exists():
        return
    if not overwrite:
        raise InputError(f"{folder} exists; pass --overwrite, or another folder")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    ours = _names_in(folder / _CONTENTS) if _CONTENTS in names else set()
    if others := sorted(names - ours):
        held = f"holds {others[0]}, which" if others[0] else "is a file, which"
        raise InputError(f"{folder} {held} `board` did not write; pass another folder")


def write_site(files: Iterable[tuple[str, str]], folder: Path) -> int:
    """Write a site beside its folder, then rename it, and return its size in bytes.

    Args:
        files: name and content of each file.
        folder: the folder of the site, checked by `check_site_folder`; a site there is replaced.

    Raises:
        InputError: The folder cannot be written.
    """
    target = folder.resolve()
    partial: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
        partial.chmod(0o755)  # mkdtemp's folders are for their owner alone; a site is to be read
        site = partial / "site"
        site.mkdir()
        names = [_CONTENTS]
        for name, content in files:
            (site / name).write_text(content, encoding="utf-8", newline="\n")
            names.append(name)
        write_json(site / _CONTENTS, {"schema_version": 1, "files": names})
        _put_in_place(site, target, partial / "replaced")
        return sum(path.stat().st_size for path in target.iterdir())
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror or error}); pass another folder"
        ) from error
    finally:
        if partial:
            shutil.rmtree(partial, ignore_errors=True)


def _put_in_place(site: Path, target: Path, replaced: Path) -> None:
    """Rename a site to its folder; the one that it replaces comes back if that fails."""
    if target.exists():
        target.rename(replaced)
    try:
        site.rename(target)
    except OSError:
        if replaced.exists():
            replaced.rename(target)
        raise


def _names_in(contents: Path) -> set[str]:
    listed = read_json(contents)
    files = listed.get("files") if isinstance(listed, dict) else None
    return {name for name in files if isinstance(name, str)} if isinstance(files, list) else set()
