"""Append-only files of JSON lines, from which an interrupted run resumes.

Layer sweeps keep one, requests to a model behind an endpoint, and `pragworld-tasks collect`. The
first line says what the records depend on. A line is on the disk before the run continues. What an
interruption leaves is at worst an incomplete end, which is removed when the file is opened again.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_whole


class Journal:
    """A journal that is open for appending; `records` are those that it held when it was opened."""

    def __init__(self, path: Path, records: list[Any], stream: TextIO) -> None:
        self.records = records
        self._path = path
        self._stream = stream

    def append(self, value: Any) -> None:
        """Append a JSON value. It is on the disk when this returns."""
        try:
            self._stream.write(json.dumps(value, ensure_ascii=False) + "\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise InputError(
                f"{self._path}: {error.strerror}; make room, then rerun the command to resume"
            ) from error


@contextlib.contextmanager
def open_journal(path: Path, identity: Mapping[str, Any]) -> Iterator[Journal]:
    """Open a journal, to resume from what it holds and to append to it, or begin one.

    Args:
        path: The file. Missing folders are created.
        identity: What the records depend on, such as model, data and settings, as JSON values.
    """
    from filelock import FileLock, Timeout

    header = json.dumps(identity, sort_keys=True) + "\n"
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            held = path.with_name(f"{path.name}.lock")
            stack.enter_context(FileLock(held, blocking=False))
            stack.callback(held.unlink, missing_ok=True)  # while it is held
            content = path.read_bytes()
            records = read_journal(path, identity)
            kept = content[: content.rfind(b"\n") + 1] if records else header.encode()
            if kept != content:
                write_whole(path, kept)
            # Half a character, which UTF-8 does not have, is written as JSON escapes it.
            stream = path.open("a", encoding="utf-8", errors="backslashreplace")
        except Timeout as error:
            raise InputError(
                f"{path}: another process is writing to it; wait for its end"
            ) from error
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}; choose another place") from error
        try:
            yield Journal(path, records, stream)
        finally:
            with contextlib.suppress(OSError):  # a full disk was reported by `append`
                stream.close()


def read_journal(path: Path, identity: Mapping[str, Any]) -> list[Any]:
    """Return the records of a journal, JSON values, which another process may be writing."""
    header, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]
    if not lines:
        return []
    now = json.loads(json.dumps(identity))
    if changed := [*_differences(json.loads(header), now)][:4]:
        raise InputError(
            f"{path}: written with {', and '.join(changed)}; use that again, remove the file to "
            "start over, or choose another place"
        )
    return [json.loads(line) for line in lines]


def _differences(
    before: Mapping[str, Any], now: Mapping[str, Any], within: str = ""
) -> Iterator[str]:
    """Yield the settings that differ, as in `model.dtype 'float32', not None`."""
    for name in dict.fromkeys([*now, *before]):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, f"{within}{name}.")
        elif old != new:
            yield f"{within}{name} {old!r:.60}, not {new!r:.60}"
