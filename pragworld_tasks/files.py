"""Reading text and JSON with places for messages, and writing whole files."""

import contextlib
import functools
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from pragworld_tasks.errors import InputError


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file, for messages: rows count records from 0, lines are an editor's.

    A file that is not text has rows only.
    """

    path: str | Path
    row: int
    line: int | None

    @property
    def short(self) -> str:
        """The place within the file, in words."""
        return f"row {self.row}" if self.line is None else f"line {self.line}"

    def refuse(self, reason: str) -> NoReturn:
        """Raise the `InputError` that names this place and the reason."""
        line = "" if self.line is None else f" (line {self.line})"
        raise InputError(f"{self.path}, row {self.row}{line}: {reason}")


# Reading ------------------------------------------------------------------------------------------


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file with its line breaks unchanged.

    Raises:
        InputError: The file cannot be read, is not UTF-8, or is a web page saved under the name of
            a data file.
    """
    try:
        raw = Path(path).read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        remedy = "; name a file in it" if isinstance(error, IsADirectoryError) else ""
        raise InputError(f"{path}: {error.strerror}{remedy}") from error
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: not UTF-8; save the file in that encoding"
        ) from error
    if re.match(r"\s*<(!doctype|html|\?xml)", text, re.IGNORECASE):
        raise InputError(f"{path}, line 1: a web page, not a data file; download the raw file")
    return text


@functools.cache
def read_package_toml(package: str, name: str) -> Mapping[str, Any]:
    """Return the TOML file of a name that ships with a package, read once."""
    return tomllib.loads((files(package) / name).read_text(encoding="utf-8"))


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        InputError: The file cannot be read or is not JSON.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); is the file cut off?") from error


def read_json_lines(path: str | Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Yield the objects of a JSON-lines file, each with its place. Blank lines are skipped.

    Raises:
        InputError: A line is not a JSON object, or the file holds none.
    """
    row = 0
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        where = Where(Path(path), row, line)
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            hint = "is the line cut off?" if row else "each line must be a JSON object"
            where.refuse(f"not JSON ({error}); {hint}")
        if not isinstance(record, dict):
            where.refuse("not a JSON object; each line must be one")
        yield where, record
        row += 1
    if row == 0:
        raise InputError(f"{path}: empty; each line must be a JSON object")


def json_object(text: str, option: str) -> dict[str, Any]:
    """Parse the JSON object that was passed to an option.

    Raises:
        InputError: The text is not a JSON object.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{option} {text!r:.80}: not JSON ({error}); pass an object, such as "
            "'{\"groups\": 20}'"
        ) from error
    if not isinstance(given, dict):
        raise InputError(f"{option} {text!r:.80}: not a JSON object")
    return given


# Writing ------------------------------------------------------------------------------------------


def check_output(path: Path, overwrite: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a file that could not be written, before the work whose result it will hold.

    Args:
        path: the file to write later.
        overwrite: whether it may exist.
        inputs: files that the work reads, and folders of runs, which no overwriting may replace: a
            model's answers may exist nowhere else.

    Raises:
        InputError: The file exists or is an input, or it cannot be written.
    """
    with refusing(path):
        if _is_stream(path):
            return
        if path.is_dir():
            raise IsADirectoryError(0, "Is a directory")
        place = Path(os.path.realpath(path))
        if path.exists():
            if not overwrite:
                raise InputError(f"{path} exists; pass --overwrite, or another name")
            if _is_or_holds(inputs, place):
                raise InputError(
                    f"{path}: an input of this command, which would be lost; use another name"
                )
        partial = _partial_of(place)
        partial.touch()
        partial.unlink(missing_ok=True)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, all of it or nothing.

    Raises:
        InputError: The file cannot be written.
    """
    write_whole(path, json_bytes(content))


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return the content of a JSON file."""
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside `path`, then rename it, so that `path` is never incomplete.

    Raises:
        InputError: The file cannot be written.
    """
    with refusing(path):
        if _is_stream(path):
            path.write_bytes(content)
            return
        place = Path(os.path.realpath(path))  # so that a symbolic link stays one
        partial = _partial_of(place)
        try:
            partial.write_bytes(content)
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)


@contextlib.contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn what the system says about a path to be written into an `InputError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: {reason}; choose a file that can be written") from error


def _is_or_holds(inputs: Iterable[str | Path], place: Path) -> bool:
    """Return whether a file is an input, or one of lm-eval's in a folder that is one."""
    is_of_run = place.match("samples_*.jsonl") or place.match("results_*.json")
    paths = {Path(os.path.realpath(given)) for given in inputs}
    return place in paths or (is_of_run and not paths.isdisjoint(place.parents))


def _is_stream(path: Path) -> bool:
    """Return whether a path is a pipe or a terminal, such as /dev/stdout."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _partial_of(path: Path) -> Path:
    """Return where this process writes a file before it renames it."""
    return path.with_name(f".{path.name}.{os.getpid()}.partial")
