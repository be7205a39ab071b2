"""Append-only files of JSON lines, from which an interrupted run resumes.

All long runs keep one: a layer sweep (a line for each unit of work), requests to a model behind an
endpoint (a line for each reply) and `pragworld-tasks collect` (several lines for each chunk of
prompts). A line is on the disk before the run continues. What an interruption leaves is at worst an
incomplete end, which is removed when the file is opened again.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, Generic, TextIO, TypeVar

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_whole

SHOWN = 4  # differing settings that a message names

Record = TypeVar("Record")


class Journal(Generic[Record]):
    """A journal that is open for appending.

    Attributes:
        records: What the file held when it was opened, in order.
    """

    def __init__(self, path: Path, records: list[Record], stream: TextIO) -> None:
        self.records = records
        self._path = path
        self._stream = stream

    def append(self, *values: Any) -> None:
        """Append JSON values, a line each. They are on the disk when this returns.

        Raises:
            InputError: The file cannot be written, for instance because the disk is full.
        """
        lines = [json.dumps(value, ensure_ascii=False) + "\n" for value in values]
        try:
            self._stream.write("".join(lines))
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise InputError(
                f"{self._path}: {error.strerror}; make room for the file, then rerun the command "
                "to resume"
            ) from error


@contextlib.contextmanager
def open_journal(
    path: Path,
    identity: Mapping[str, Any] | None = None,
    decode: Callable[[Any], Record] = lambda value: value,
    *,
    section: str = "",
    complete: Callable[[Sequence[Record]], Sequence[bool]] = lambda records: [True] * len(records),
    lock: bool = False,
) -> Iterator[Journal[Record]]:
    """Open a journal, to resume from what it holds and to append to it, or begin one.

    Args:
        path: The file. Missing folders are created.
        identity: What the records depend on, such as model, data and settings, as JSON values. The
            file begins with it. None: the file holds records only.
        decode: Turns the JSON value of a line into a record.
        section: Key of the first line under which the identity stands; empty if it is the line.
        complete: Where an entry has several lines: tells which records belong to complete entries.
            The others are removed from the file.
        lock: Whether to refuse a file that another process has open.

    Raises:
        InputError: The file cannot be written, is open elsewhere, has a corrupt line, or holds
            records of another identity.
    """
    header = [] if identity is None else [{section: identity} if section else identity]
    beginning = "".join(json.dumps(value, sort_keys=True) + "\n" for value in header).encode()
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            if lock:
                stack.enter_context(exclusive(path.with_name(f"{path.name}.lock"), path))
            content = path.read_bytes()
            first_key = beginning.partition(b":")[0]
            if b"\n" not in content and content[: len(first_key)] != first_key[: len(content)]:
                raise InputError(f"{path}: not a journal; choose another place")
            lines, records = _read(path, content, identity, decode, section)
            whole = complete(records)
            kept = b"".join([*lines[: len(header)], *compress(lines[len(header) :], whole)])
            records = list(compress(records, whole))
            if not records:
                kept = beginning
            if kept != content:
                write_whole(path, kept)
            # Half a character, which UTF-8 does not have, is written as JSON escapes it.
            stream = path.open("a", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}; choose another place") from error
        stack.callback(_close, stream)
        yield Journal(path, records, stream)


def read_journal(
    path: Path,
    identity: Mapping[str, Any] | None = None,
    decode: Callable[[Any], Record] = lambda value: value,
) -> list[Record]:
    """Return the records of a journal that another process may be writing.

    Raises:
        InputError: A line is corrupt, or the records have another identity.
    """
    return _read(path, path.read_bytes(), identity, decode)[1]


@contextlib.contextmanager
def exclusive(lock: Path, subject: Path) -> Iterator[None]:
    """Hold a lock file as long as this process writes to `subject`.

    Raises:
        InputError: Another process holds it.
    """
    from filelock import FileLock, Timeout

    held = FileLock(lock)
    try:
        held.acquire(blocking=False)
    except Timeout as error:
        raise InputError(
            f"{subject}: another process is writing to it; wait until that has ended"
        ) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()  # while it is held, so that nobody else holds it
        held.release()


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Name the settings that differ, as in `model.dtype 'float32', not None, and seed 0, not 1`.

    Of more than `SHOWN`, the others are counted.
    """
    differing = list(_differences(before, now))
    if len(differing) > SHOWN:
        differing[SHOWN:] = [f"{len(differing) - SHOWN} more"]
    return ", and ".join(differing)


def _differences(
    before: Mapping[str, Any], now: Mapping[str, Any], within: str = ""
) -> Iterator[str]:
    for name in dict.fromkeys([*now, *before]):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, f"{within}{name}.")
        elif old != new:
            yield f"{within}{name} {old!r:.60}, not {new!r:.60}"


def _read(
    path: Path,
    content: bytes,
    identity: Mapping[str, Any] | None,
    decode: Callable[[Any], Record],
    section: str = "",
) -> tuple[list[bytes], list[Record]]:
    """Return the complete lines of a journal, and its records.

    The identity is compared before any record is decoded, as what fits depends on it.
    """
    lines = [line + b"\n" for line in content.split(b"\n")[:-1]]
    now = json.loads(json.dumps(identity))
    records = []
    for number, line in enumerate(lines, start=1):
        is_header = number == 1 and identity is not None
        try:
            value = json.loads(line)
            if is_header:
                before = {**(value[section] if section else value)}
            else:
                records.append(decode(value))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            remedy = "move the file away to start over"
            if not is_header:
                remedy = f"remove the line to redo its part of the run, or {remedy}"
            raise InputError(
                f"{path}, line {number}: corrupt, or not written by this command; {remedy}"
            ) from error
        if is_header and len(lines) > 1 and (changed := difference(before, now)):
            raise InputError(
                f"{path}: written with {changed}; use that again, remove the file to start over, "
                "or choose another place"
            )
    return lines, records


def _close(stream: TextIO) -> None:
    with contextlib.suppress(OSError):  # a full disk was reported when it was written to
        stream.close()
