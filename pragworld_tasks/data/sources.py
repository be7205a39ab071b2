"""Where a split's file comes from: a folder the user names, the cache, or a download.

In this order; the first that has the file is used. A folder is one laid out like the released
repository (a clone of it, for example). The download is the file at the pinned commit: resumed
where the server allows, checked for size and structure before it takes its place in the cache, and
done once however many processes ask for it.

Environment variables:
    PRAGWORLD_DATA: the folder the user names.
    PRAGWORLD_CACHE: the folder of downloads, instead of the user's cache folder.
    PRAGWORLD_URL: a mirror of the repository's files, instead of GitHub.
"""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from pragworld_tasks.data.documents import (
    Document,
    ReleasedSplit,
    Split,
    read_entity_tracking,
    read_manual,
    read_synthetic,
)
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_text
from pragworld_tasks.log import logger

if TYPE_CHECKING:
    from requests import Session

REPOSITORY = "SachinVashisth/PRAGWORLD"
COMMIT = "ab002286b82e39c75057edee94e4e84f11b5d6d4"
_GITHUB = f"https://raw.githubusercontent.com/{REPOSITORY}/{COMMIT}"
ATTEMPTS = 5
TIMEOUT = (10, 60)  # seconds to connect, and between two pieces of an answer


@dataclass(frozen=True)
class ReleasedFile:
    """A file of the released repository at `COMMIT`, and what is known of it.

    Attributes:
        path: inside the repository.
        characters: its size, which is how it is told from a broken or changed copy.
        documents, groups: how many it holds.
        yes: how many of the documents have the gold answer yes.
        read: its reader.
    """

    path: str
    characters: int
    documents: int
    groups: int
    yes: int
    read: Callable[[Path], list[Document]]


FILES: dict[Split, ReleasedFile] = {
    "manual": ReleasedFile("Manual_Dataset_500_Final.csv", 375_830, 500, 88, 277, read_manual),
    # The paper counts 2,114: it leaves out the 44 rows whose answer is `cannot answer`.
    "synthetic": ReleasedFile("synthetic_final.csv", 2_804_889, 2_158, 494, 1_074, read_synthetic),
    "entity_tracking": ReleasedFile(
        "runs/gpt35tdec23/sachin_entitytracking_364_25_Mar27_2107_18/outputs.jsonl",
        316_944,
        364,
        15,
        182,
        read_entity_tracking,
    ),
}


@dataclass(frozen=True)
class Location:
    """Where a split's file is on this machine."""

    path: Path
    origin: Literal["named folder", "cache"]


def load(split: ReleasedSplit) -> list[Document]:
    """The documents of a split, from wherever it is found; downloaded if it is nowhere.

    Raises:
        InputError: it is nowhere and cannot be downloaded, or the file is malformed.
    """
    location = locate(split)
    path = location.path if location else fetch(split)
    documents = FILES[split].read(path)
    logger.info("%s: %d documents from %s", split, len(documents), path)
    if differences := deviations(documents):
        logger.warning("%s is not the released file: %s", path, "; ".join(differences))
    return documents


def deviations(documents: Sequence[Document]) -> list[str]:
    """How the numbers of a split's documents differ from the released file's, in words.

    Args:
        documents: one split's, at least one.
    """
    released = FILES[documents[0].split]
    counts = (
        ("documents", len(documents), released.documents),
        ("groups", len({document.group for document in documents}), released.groups),
        ("answers yes", sum(document.answer == "yes" for document in documents), released.yes),
    )
    return [f"{found} {what} instead of {known}" for what, found, known in counts if found != known]


def locate(split: ReleasedSplit) -> Location | None:
    """Where the split's file is on this machine: named folder, then cache. None: nowhere.

    Raises:
        InputError: the folder the user named does not exist, or may not be looked into.
    """
    path = FILES[split].path
    folder = named_folder()
    if folder is not None:
        if _is_file(folder / path):
            return Location(folder / path, "named folder")
        logger.warning("PRAGWORLD_DATA=%s has no %s; looking in the cache", folder, path)
    cached = cache_folder() / path
    return Location(cached, "cache") if _is_file(cached) else None


def named_folder() -> Path | None:
    """The folder that PRAGWORLD_DATA names, if it is set.

    Raises:
        InputError: there is no such folder.
    """
    folder = _folder_named_by("PRAGWORLD_DATA")
    if folder is not None and not folder.is_dir():
        raise InputError(f"PRAGWORLD_DATA={folder}: no such folder; correct or unset it")
    return folder


def cache_folder() -> Path:
    """The folder that downloads go to, one for each commit."""
    cache = _folder_named_by("PRAGWORLD_CACHE")
    if cache is None:
        cache = (_folder_named_by("XDG_CACHE_HOME") or Path.home() / ".cache") / "pragworld"
    return cache / COMMIT


def _folder_named_by(variable: str) -> Path | None:
    """The folder that an environment variable names, if it is set."""
    named = os.environ.get(variable)
    try:
        return Path(named).expanduser() if named else None
    except RuntimeError as error:
        raise InputError(
            f"{variable}={named}: no such user's folder; correct or unset it"
        ) from error


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; make it readable") from error


def fetch(split: ReleasedSplit) -> Path:
    """Downloads the split's file into the cache, unless it is there, and returns its path.

    Raises:
        InputError: it could not be had, or what came is not the released file.
    """
    from filelock import FileLock

    file = FILES[split]
    target = cache_folder() / file.path
    if _is_file(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(target.name + ".lock")):
            if not target.is_file():  # else it is from the process that we waited for
                _download(split, file, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            _partial(target).unlink()
        raise InputError(
            f"{target.parent}: {error.strerror}; set PRAGWORLD_CACHE to another folder"
        ) from error
    return target


def _download(split: ReleasedSplit, file: ReleasedFile, target: Path) -> None:
    """Puts the released file at `target`, whole and checked, or raises and leaves nothing."""
    import requests
    from requests.exceptions import ChunkedEncodingError

    base = os.environ.get("PRAGWORLD_URL") or _GITHUB
    url = f"{base.rstrip('/')}/{quote(file.path)}"
    partial = _partial(target)
    problem = ""
    with requests.Session() as session:
        for attempt in range(ATTEMPTS):
            if attempt:
                pause = 2**attempt / 4
                logger.warning("%s: %s; again in %g s", url, problem, pause)
                time.sleep(pause)
            fresh = not partial.exists()
            try:
                _receive(session, url, partial)
                _check(file, partial)
            except requests.HTTPError as error:
                problem = f"the server answered {error.response.status_code}"
                if error.response.status_code < 500 and error.response.status_code != 429:
                    break
            except (requests.ConnectionError, requests.Timeout, ChunkedEncodingError) as error:
                cause = _root_cause(error)
                problem = f"the connection failed ({cause})"
                if isinstance(cause, socket.gaierror):  # no such host, or no network at all
                    break
            except requests.RequestException as error:
                problem = f"{error} (PRAGWORLD_URL={os.environ.get('PRAGWORLD_URL')})"
                break
            except InputError as error:
                partial.unlink()
                problem = str(error)
                if fresh:
                    break
                # Else what was continued may be to blame: once more from the start.
            else:
                partial.replace(target)
                return
    partial.unlink(missing_ok=True)
    raise InputError(
        f"split {split!r} is not on this machine and {url} could not be downloaded: {problem}. "
        f"Do one of these: set PRAGWORLD_DATA to a clone of https://github.com/{REPOSITORY}; "
        f"copy the file to {target}; or connect to the network and run "
        f"`pragworld-tasks data fetch {split}`"
    )


def _partial(target: Path) -> Path:
    """Where a file is received before it takes its place."""
    return target.with_name(target.name + ".partial")


def _receive(session: "Session", url: str, partial: Path) -> None:
    """Downloads `url` behind what `partial` holds already, or from the start."""
    from tqdm import tqdm

    have = partial.stat().st_size if partial.exists() else 0
    # Uncompressed, so that what has been received can be continued by its size.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == 416:  # there is nothing behind it
            return
        response.raise_for_status()
        resumed = have if response.status_code == 206 else 0
        length = response.headers.get("Content-Length", "")
        progress = tqdm(
            desc=url.rsplit("/", 1)[-1],
            total=resumed + int(length) if length.isdigit() else None,
            initial=resumed,
            unit="B",
            unit_scale=True,
            disable=None,  # where nobody watches
        )
        with progress, partial.open("ab" if resumed else "wb") as stream:
            for piece in response.iter_content(65_536):
                stream.write(piece)
                progress.update(len(piece))


def _check(file: ReleasedFile, path: Path) -> None:
    """Raises `InputError` unless `path` holds the released file: its size and its structure."""
    characters = len(read_text(path))
    if characters != file.characters:
        raise InputError(f"{path}: {characters} characters instead of {file.characters}")
    if differences := deviations(file.read(path)):
        raise InputError(f"{path}: {'; '.join(differences)}")


def _root_cause(error: BaseException) -> BaseException:
    while cause := error.__cause__ or error.__context__:
        error = cause
    return error
