"""Reading text and JSON lines with places for messages, and writing whole files."""

import contextlib
import errno
import functools
import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from pragworld_tasks.errors import InputError


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file, for messages: rows count records from 0, lines are an editor's."""

    path: Path
    row: int
    line: int

    def refuse(self, reason: str) -> NoReturn:
        """Raise the `InputError` that names this place and the reason."""
        raise InputError(f"{self.path}, row {self.row} (line {self.line}): {reason}")


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file with its line breaks unchanged.

    Raises:
        InputError: The file cannot be read, is not UTF-8, or is a web page saved under the name of
            a data file.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        text = raw.decode("utf-8-sig")
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
            f"{option} {text!r:.80}: not JSON ({error}); pass an object such as "
            "'{\"groups\": 20}'"
        ) from error
    if not isinstance(given, dict):
        raise InputError(f"{option} {text!r:.80}: not a JSON object")
    return given


def check_output(path: Path, overwrite: bool) -> None:
    """Refuse a file that could not be written, before the work whose result it will hold.

    Args:
        path: the file to write later.
        overwrite: whether it may exist.

    Raises:
        InputError: The file exists, or it cannot be written.
    """
    if _is_stream(path):
        return
    path = path.resolve()
    if path.is_file() and not overwrite:
        raise InputError(f"{path} exists; pass --overwrite, or another name")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        partial = _partial_of(path)
        if not partial.exists():  # left by a killed run, or being written now
            partial.touch()
            partial.unlink()
    except OSError as error:
        raise _not_writable(path, error) from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, all of it or nothing.

    Raises:
        InputError: The file cannot be written.
    """
    write_whole(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside `path`, then rename it, so that `path` is never incomplete.

    Raises:
        InputError: The file cannot be written.
    """
    if not _is_stream(path):
        path = path.resolve()  # so that a symbolic link stays one
    partial = _partial_of(path)
    try:
        if path.exists() and not path.is_file():  # a stream; a folder raises
            path.write_bytes(content)
        else:
            partial.write_bytes(content)
            partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # its folder may not exist
            partial.unlink(missing_ok=True)
        raise _not_writable(path, error) from error


def write_folder(folder: Path, contents: Mapping[str, bytes], overwrite: bool) -> None:
    """Write a folder beside `folder`, then rename it, so that `folder` is never incomplete.

    Args:
        folder: the folder to write.
        contents: the contents of its files, by their paths inside it.
        overwrite: whether the folder may exist and hold older versions of these files.

    Raises:
        InputError: The folder holds files that would be replaced without `overwrite`, or lost with
            it, or cannot be written.
    """
    folder = folder.resolve()
    partial = _partial_of(folder)
    try:
        if folder.exists():
            present = {
                str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
            }
            if present and not overwrite:
                raise InputError(f"{folder} exists; pass --overwrite, or another name")
            if foreign := sorted(present - set(contents)):
                raise InputError(
                    f"{folder} holds {foreign[0]}, which would be lost; remove it, or pass another "
                    "name"
                )
        if partial.exists():  # of a run that was killed
            shutil.rmtree(partial)
        try:
            for name, content in contents.items():
                path = partial / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            if folder.exists():
                shutil.rmtree(folder)
            partial.replace(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror or error}); use another name"
        ) from error


def _is_stream(path: Path) -> bool:
    """Return whether a path is a pipe or a terminal, such as /dev/stdout."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _partial_of(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


def _not_writable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: {error.strerror}; choose a file that can be written")
