"""Writing a site: all of it or nothing, and over nothing but a site that was written here."""

import json
from collections.abc import Iterable
from pathlib import Path

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json, refusing, replace_folder

_CONTENTS = "pragworld-board.json"  # names every file of the site; marks the folder as ours


def check_site_folder(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that exists, unless it may be overwritten and holds a site and nothing else.

    Raises:
        InputError: The folder may not be written.
    """
    with refusing(folder):
        if not folder.exists():
            return
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    if not overwrite:
        raise InputError(f"{folder} exists; pass --overwrite, or another folder")
    ours = _names_in(folder / _CONTENTS) if _CONTENTS in names else set()
    if others := sorted(names - ours):
        held = f"holds {others[0]}, which" if others[0] else "is a file, which"
        raise InputError(f"{folder} {held} `board` did not write; pass another folder")


def write_site(files: Iterable[tuple[str, str]], folder: Path) -> int:
    """Write a site, all of it or nothing, and return its size in bytes.

    Args:
        files: name and content of each file.
        folder: the folder of the site, checked by `check_site_folder`; a site there is replaced.

    Raises:
        InputError: The folder cannot be written.
    """
    contents = {name: content.encode() for name, content in files}
    listed = {"schema_version": 1, "files": [_CONTENTS, *contents]}
    contents[_CONTENTS] = json.dumps(listed, indent=2).encode()
    replace_folder(folder, contents)
    return sum(map(len, contents.values()))


def _names_in(contents: Path) -> set[str]:
    listed = read_json(contents)
    files = listed.get("files") if isinstance(listed, dict) else None
    return {name for name in files if isinstance(name, str)} if isinstance(files, list) else set()
