"""Where a split's file comes from: a folder that the user names, the cache, or a download.

They are tried in this order. The folder is laid out like the released repository, for example a
clone of it, or is a dataset that `scripts/hub_dataset.py` wrote. The download is the file at the
pinned commit: resumed where the server allows it, bounded, checked for size and structure before it
enters the cache, and made once however many processes need it.

Environment variables:
    PRAGWORLD_DATA: the folder that the user names.
    PRAGWORLD_CACHE: the folder of downloads, in place of the user's cache folder.
    PRAGWORLD_URL: a mirror of the repository's files, in place of GitHub.
"""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeGuard
from urllib.parse import quote

from pragworld_tasks.data.documents import Document, ReleasedSplit, Split, documents_digest
from pragworld_tasks.data.parquet import parquet_path, read_parquet
from pragworld_tasks.data.readers import read_entity_tracking, read_manual, read_synthetic
from pragworld_tasks.errors import InputError, logger
from pragworld_tasks.text import format_count

if TYPE_CHECKING:
    from requests import Session

REPOSITORY = "SachinVashisth/PRAGWORLD"
COMMIT = "ab002286b82e39c75057edee94e4e84f11b5d6d4"
HUB_DATASET = "pragworld/pragworld"  # the proposed name of what `scripts/hub_dataset.py` writes
_GITHUB = f"https://raw.githubusercontent.com/{REPOSITORY}/{COMMIT}"
ATTEMPTS = 5
TIMEOUT = (10, 60)  # seconds to connect, and between two pieces of an answer


@dataclass(frozen=True)
class ReleasedFile:
    """A file of the released repository at `COMMIT`, and its known properties.

    Attributes:
        path: path inside the repository.
        characters: size, which tells the file from a broken or changed copy.
        documents, groups: number of each in the file.
        yes: number of documents with the gold answer yes.
        read: the file's reader.
        digest, texts_digest: `documents_digest` and `texts_digest` of the file's documents; None
            where the whole file has never been seen here.
    """

    path: str
    characters: int
    documents: int
    groups: int
    yes: int
    read: Callable[[Path], list[Document]]
    digest: str | None = None
    texts_digest: str | None = None

    @property
    def most_bytes(self) -> int:
        """Bytes that a download may have: twice the characters, of which few are not ASCII."""
        return 2 * self.characters


FILES: dict[Split, ReleasedFile] = {
    "manual": ReleasedFile(
        "Manual_Dataset_500_Final.csv",
        375_830,
        500,
        88,
        277,
        read_manual,
        "3a17e02f370694cecc7553b727c8b36349faf8fe0fe691065b84960583fbeb26",
        "656b68a4c228a8551b492e73d4efd60e74cfb3aa611d54dbf7b448d35175cb03",
    ),
    # The paper counts 2,114: it leaves out the 44 rows whose answer is `cannot answer`.
    "synthetic": ReleasedFile("synthetic_final.csv", 2_804_889, 2_158, 494, 1_074, read_synthetic),
    "entity_tracking": ReleasedFile(
        "runs/gpt35tdec23/sachin_entitytracking_364_25_Mar27_2107_18/outputs.jsonl",
        316_944,
        364,
        15,
        182,
        read_entity_tracking,
        "308c152917bdca3437968e93b678d10c930669966e3265e6133d6d9bca4d36b6",
        "f04e4a2c4e9f9c5fffb9285d7df7ffffec544fff2cca7b5e80954b0bf0c27b1b",
    ),
}


def is_released(split: str) -> TypeGuard[ReleasedSplit]:
    """Return whether a split of that name is among the released ones."""
    return split in FILES


@dataclass(frozen=True)
class Location:
    """Where a split's file is on this machine."""

    path: Path
    origin: Literal["named folder", "cache"]


def load_split(split: str) -> list[Document]:
    """Return the documents of a released split, downloading its file where necessary.

    Args:
        split: `manual` (paper, section 4), `synthetic` (section 4) or `entity_tracking`
            (section 5.2).

    Raises:
        InputError: The split does not exist, its file is neither on this machine nor can it be
            downloaded, or the file is malformed.
    """
    if not is_released(split):
        raise InputError(f"split {split!r} does not exist; choose from {', '.join(FILES)}")
    location = locate(split)
    path = location.path if location else fetch(split)
    documents = read_split(split, path)
    logger.info("%s: %d documents from %s", split, len(documents), path)
    if differences := deviations(documents):
        logger.warning("%s is not the released file: %s", path, "; ".join(differences))
    return documents


def read_split(split: ReleasedSplit, path: Path) -> list[Document]:
    """Return the documents of a split from its released file, or from a dataset's Parquet file.

    Raises:
        InputError: The file is malformed.
    """
    return read_parquet(path, split) if path.suffix == ".parquet" else FILES[split].read(path)


def deviations(documents: Sequence[Document]) -> list[str]:
    """Return how a split's documents differ from the released file's, in words.

    Counts come first. Where they agree, the digest shows a text or a gold answer that differs.

    Args:
        documents: at least one document, all of one split.
    """
    released = FILES[documents[0].split]
    counts = (
        ("document", len(documents), released.documents),
        ("group", len({document.group for document in documents}), released.groups),
        ("yes answer", sum(document.answer == "yes" for document in documents), released.yes),
    )
    differences = [
        f"{format_count(found, noun)} instead of {known:,}"
        for noun, found, known in counts
        if found != known
    ]
    digest = documents_digest(documents)
    if not differences and released.digest and digest != released.digest:
        differences = [
            f"texts or gold answers differ (digest {digest:.12} instead of {released.digest:.12})"
        ]
    return differences


def locate(split: ReleasedSplit) -> Location | None:
    """Return where the split's file is on this machine: named folder, then cache; None if nowhere.

    Raises:
        InputError: The folder that the user names does not exist or cannot be read.
    """
    folder = named_folder()
    if folder is not None:
        if path := file_in(folder, split):
            return Location(path, "named folder")
        logger.warning(
            "PRAGWORLD_DATA=%s has no %s; looking in the cache", folder, FILES[split].path
        )
    cached = cache_folder() / FILES[split].path
    return Location(cached, "cache") if _is_file(cached) else None


def file_in(folder: Path, split: ReleasedSplit) -> Path | None:
    """Return the split's file in a folder: the released one, or a dataset's; None if neither is.

    Raises:
        InputError: The folder cannot be read.
    """
    paths = (folder / FILES[split].path, folder / parquet_path(split))
    return next((path for path in paths if _is_file(path)), None)


def named_folder() -> Path | None:
    """Return the folder that PRAGWORLD_DATA names, or None if it is not set.

    Raises:
        InputError: The folder does not exist.
    """
    folder = _folder_named_by("PRAGWORLD_DATA")
    if folder is not None and not folder.is_dir():
        raise InputError(f"PRAGWORLD_DATA={folder}: no such folder; correct or unset it")
    return folder


def cache_folder() -> Path:
    """Return the folder of downloads; each commit has its own."""
    cache = _folder_named_by("PRAGWORLD_CACHE")
    if cache is None:
        cache = (_folder_named_by("XDG_CACHE_HOME") or Path.home() / ".cache") / "pragworld"
    return cache / COMMIT


def _folder_named_by(variable: str) -> Path | None:
    """Return the folder that an environment variable names, or None if it is not set."""
    named = os.environ.get(variable)
    try:
        return Path(named).expanduser() if named else None
    except RuntimeError as error:
        raise InputError(f"{variable}={named}: no such user; correct or unset it") from error


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; make it readable") from error


def fetch(split: ReleasedSplit) -> Path:
    """Download the split's file into the cache, unless it is there, and return its path.

    Raises:
        InputError: The download failed, or what arrived is not the released file.
    """
    from filelock import FileLock

    file = FILES[split]
    target = cache_folder() / file.path
    if _is_file(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(target.name + ".lock")):
            if not target.is_file():  # otherwise the process that held the lock downloaded it
                _download(split, file, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            _partial(target).unlink()
        raise InputError(
            f"{target.parent}: {error.strerror}; set PRAGWORLD_CACHE to another folder"
        ) from error
    return target


def _download(split: ReleasedSplit, file: ReleasedFile, target: Path) -> None:
    """Put the released file at `target`, complete and checked, or raise and leave nothing."""
    import requests
    from requests.exceptions import ChunkedEncodingError

    mirror = os.environ.get("PRAGWORLD_URL")
    url = f"{(mirror or _GITHUB).rstrip('/')}/{quote(file.path)}"
    partial = _partial(target)
    problem = ""
    with requests.Session() as session:
        for attempt in range(ATTEMPTS):
            if attempt:
                pause = 2**attempt / 4
                logger.warning("%s: %s; retrying in %g s", url, problem, pause)
                time.sleep(pause)
            fresh = not partial.exists()
            try:
                _receive(session, url, partial, file.most_bytes)
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
                problem = str(error)
                break
            except _NotReleasedError as error:
                partial.unlink()
                problem = f"what the server sent is not the released file: {error}"
                if fresh:
                    break
                # The resumed part may be to blame: download once more from the start.
            else:
                partial.replace(target)
                return
    partial.unlink(missing_ok=True)
    correct = f"correct or unset PRAGWORLD_URL={mirror}; " if mirror else ""
    raise InputError(
        f"split {split!r} is not on this machine and could not be downloaded. {url}: {problem}. "
        f"Do one of these: {correct}set PRAGWORLD_DATA to a clone of "
        f"https://github.com/{REPOSITORY}; copy the file to {target}; or run "
        f"`pragworld-tasks data fetch {split}` with a working connection"
    )


class _NotReleasedError(Exception):
    """How what a server sent differs from the released file."""


def _partial(target: Path) -> Path:
    """Return where a file is received before it is renamed."""
    return target.with_name(target.name + ".partial")


def _receive(session: "Session", url: str, partial: Path, most_bytes: int) -> None:
    """Download `url`: the rest of what `partial` holds already, or everything.

    Raises:
        _NotReleasedError: There is more of it than `most_bytes`.
    """
    from tqdm import tqdm

    have = partial.stat().st_size if partial.exists() else 0
    # Uncompressed, so that the size of what has been received says where to resume.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == 416:  # nothing is left to download
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
            disable=None,  # where stderr is no terminal
        )
        with progress, partial.open("ab" if resumed else "wb") as stream:
            received = resumed
            for piece in response.iter_content(65_536):
                received += len(piece)
                if received > most_bytes:  # a server may send without end
                    raise _NotReleasedError(f"it has more than {most_bytes} bytes")
                stream.write(piece)
                progress.update(len(piece))


def _check(file: ReleasedFile, path: Path) -> None:
    """Raise `_NotReleasedError` unless `path` holds the released file, by size and structure."""
    content = path.read_bytes()
    if content.lstrip()[:1] == b"<":
        raise _NotReleasedError("it looks like a web page")
    try:
        characters = len(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _NotReleasedError("it is not text in UTF-8") from error
    if characters != file.characters:
        raise _NotReleasedError(f"it has {characters} characters instead of {file.characters}")
    try:
        differences = deviations(file.read(path))
    except InputError as error:
        raise _NotReleasedError("its rows cannot be read") from error
    if differences:
        raise _NotReleasedError("; ".join(differences))


def _root_cause(error: BaseException) -> BaseException:
    while cause := error.__cause__ or error.__context__:
        error = cause
    return error
