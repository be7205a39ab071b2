"""Where a split's file comes from: a folder that the user names, the cache, or a download.

They are tried in this order. The folder (PRAGWORLD_DATA) is a clone of the released repository or a
dataset that `scripts/hub_dataset.py` wrote. PRAGWORLD_CACHE replaces the user's cache folder, and
PRAGWORLD_URL, a mirror of the repository's files, GitHub. A download is checked before it is kept.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeGuard

from pydantic import TypeAdapter

from pragworld_tasks.data.documents import Document, ReleasedSplit, Split, documents_digest
from pragworld_tasks.data.readers import (
    read_entity_tracking,
    read_parquet,
    read_released_table,
)
from pragworld_tasks.errors import InputError, logger
from pragworld_tasks.files import read_package_toml

REPOSITORY = "SachinVashisth/PRAGWORLD"
COMMIT = "ab002286b82e39c75057edee94e4e84f11b5d6d4"
HUB_DATASET = "pragworld/pragworld"  # the proposed name of what `scripts/hub_dataset.py` writes
_GITHUB = f"https://raw.githubusercontent.com/{REPOSITORY}/{COMMIT}"


@dataclass(frozen=True)
class ReleasedFile:
    """A file of the released repository at `COMMIT`, as `released_files.toml` describes it."""

    path: str
    counts: tuple[int, int, int]
    digest: str | None = None
    texts_digest: str | None = None


FILES = TypeAdapter(dict[Split, ReleasedFile]).validate_python(
    read_package_toml(__package__, "released_files.toml")
)


def is_released(split: str) -> TypeGuard[ReleasedSplit]:
    """Return whether a split of that name is among the released ones."""
    return split in FILES


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
        raise InputError(f"there is no released split {split!r}; choose from {', '.join(FILES)}")
    path = locate(split) or fetch(split)
    documents = read_split(split, path)
    logger.info("%s: %d documents from %s", split, len(documents), path)
    if difference := deviation(documents):
        logger.warning("%s is not the released file: %s", path, difference)
    return documents


def read_split(split: ReleasedSplit, path: Path) -> list[Document]:
    """Return the documents of a split from its released file, or from a dataset's Parquet file."""
    if path.suffix == ".parquet":
        return [Document.from_dict(record) for _, record in read_parquet(path)]
    if split == "entity_tracking":
        return read_entity_tracking(path)
    return read_released_table(path, split)


def deviation(documents: Sequence[Document]) -> str:
    """Return how a split's documents (at least one) differ from the released file's; "" if not."""
    released = FILES[documents[0].split]
    groups = {document.group for document in documents}
    counts = len(documents), len(groups), sum(document.answer == "yes" for document in documents)
    if counts != released.counts:
        return f"documents, groups and yes answers: {counts} instead of {released.counts}"
    digest = documents_digest(documents)
    if released.digest and digest != released.digest:
        return f"texts or gold answers differ (digest {digest:.12}, not {released.digest:.12})"
    return ""


def locate(split: ReleasedSplit) -> Path | None:
    """Return where the split's file is: in the named folder or the cache; None if in neither."""
    released = FILES[split].path
    if named := os.environ.get("PRAGWORLD_DATA"):
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise InputError(f"PRAGWORLD_DATA={folder}: no such folder; correct or unset it")
        for name in (released, parquet_path(split)):
            if (folder / name).is_file():
                return folder / name
        logger.warning("PRAGWORLD_DATA=%s has no %s; looking in the cache", folder, released)
    cached = cache_folder() / released
    return cached if cached.is_file() else None


def parquet_path(split: Split) -> str:
    """Return where a dataset repository has the file of a split."""
    return f"{split}/test-00000-of-00001.parquet"


def cache_folder() -> Path:
    """Return the folder of downloads; each commit has its own."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("PRAGWORLD_CACHE") or f"{caches}/pragworld").expanduser() / COMMIT


def fetch(split: ReleasedSplit) -> Path:
    """Download the split's file into the cache, unless it is there, and return its path."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    target = cache_folder() / FILES[split].path
    if target.is_file():
        return target
    url = f"{os.environ.get('PRAGWORLD_URL', _GITHUB).rstrip('/')}/{FILES[split].path}"
    retries = Retry(4, backoff_factor=0.25, status_forcelist=(429, 500, 502, 503, 504))
    try:
        with requests.Session() as session:
            session.mount(url, HTTPAdapter(max_retries=retries))
            response = session.get(url, timeout=(10, 60))  # to connect, to read
        response.raise_for_status()
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent) as folder:
            received = Path(folder, target.name)
            received.write_bytes(response.content)
            if difference := deviation(read_split(split, received)):
                raise InputError(f"not the released file: {difference}")
            received.replace(target)
    except (OSError, InputError) as error:  # requests' errors are of the first kind
        raise InputError(
            f"split {split!r} is not on this machine and could not be downloaded. {url}: {error}. "
            f"Set PRAGWORLD_DATA to a clone of https://github.com/{REPOSITORY}, or copy the file "
            f"to {target}"
        ) from error
    return target
