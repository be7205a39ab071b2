"""Writing a site into a folder, and over nothing but a site that was written here."""

from collections.abc import Iterable
from pathlib import Path

from pragworld_tasks.errors import InputError

_MARKER = "pragworld-board.txt"


def write_site(files: Iterable[tuple[str, str]], folder: Path, overwrite: bool) -> int:
    """Write a site, in place of the pages of an older one, and return its size in bytes.

    Args:
        files: name and content of each file.
        folder: the folder of the site.
        overwrite: whether it may hold a site.

    Raises:
        InputError: The folder exists, and may not be overwritten or holds no site.
    """
    if folder.exists() and not overwrite:
        raise InputError(f"{folder} exists; pass --overwrite, or another folder")
    if folder.exists() and not (folder / _MARKER).is_file():
        raise InputError(f"{folder} is no site that `board` wrote; pass another folder")
    contents = {name: content.encode() for name, content in files}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARKER).write_text("`pragworld-tasks board --overwrite` may replace this site.\n")
    for page in folder.glob("*.html"):
        page.unlink()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return sum(map(len, contents.values()))
