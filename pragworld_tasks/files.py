"""Text and JSON lines out of files, and the place in them that a message names."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pragworld_tasks.errors import InputError


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file, for messages."""

    path: Path
    row: int
    line: int

    def refuse(self, reason: str) -> NoReturn:
        """Raises the `InputError` that names this place and `reason`."""
        raise InputError(f"{self.path}, row {self.row} (line {self.line}): {reason}")


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, line breaks as they are.

    Raises:
        InputError: no such file, not UTF-8, or a web page saved under the name of a data file.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: not UTF-8 text; if it is text, save it again in that encoding"
        ) from error
    if re.match(r"\s*<(!doctype|html|\?xml)", text, re.IGNORECASE):
        raise InputError(f"{path}, line 1: a web page, not a data file; download the raw file")
    return text


def read_json_lines(path: Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    """The objects of a JSON-lines file, each with its place. Blank lines are skipped.

    Raises:
        InputError: a line is not a JSON object (cut off, perhaps), or there is none.
    """
    row = 0
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        where = Where(path, row, line)
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            hint = "is the line cut off?" if row else "there should be a JSON object on each line"
            where.refuse(f"not JSON ({error}); {hint}")
        if not isinstance(record, dict):
            where.refuse("not a JSON object; there should be one on each line")
        yield where, record
        row += 1
    if row == 0:
        raise InputError(f"{path}: nothing in it; there should be a JSON object on each line")


def json_object(text: str, option: str) -> dict[str, Any]:
    """The JSON object that an option was given.

    Raises:
        InputError: it is something else.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{option} {text!r:.80}: not JSON ({error})") from error
    if not isinstance(given, dict):
        raise InputError(f"{option} {text!r:.80}: not a JSON object")
    return given


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes JSON, all of it or nothing.

    Raises:
        InputError: it cannot be written there.
    """
    write_whole(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def write_whole(path: Path, content: bytes) -> None:
    """Writes beside `path`, then renames: the file is whole or as it was.

    Raises:
        InputError: it cannot be written there.
    """
    path = path.resolve()  # so that a link stays one
    partial = path.with_name(path.name + ".partial")
    try:
        if path.exists() and not path.is_file():  # a pipe or a terminal; a folder refuses
            path.write_bytes(content)
        else:
            partial.write_bytes(content)
            partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # there may be no such place at all
            partial.unlink(missing_ok=True)
        raise InputError(f"{path}: {error.strerror}; name a file that can be written") from error
