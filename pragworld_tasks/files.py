"""Reading text and JSON with places for messages, and writing whole files.

What cannot be read or written is refused with an `InputError` that names the file.
"""

import contextlib
import functools
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from pragworld_tasks.errors import InputError, first_problem

_Record = TypeVar("_Record", bound=BaseModel)


class Where(NamedTuple):
    """A place in a file, for messages: rows count records from 0, lines are an editor's.

    A file that is not text has rows only.
    """

    path: str | Path
    row: int
    line: int | None

    def refuse(self, reason: str) -> NoReturn:
        """Raise the `InputError` that names this place and the reason."""
        line = "" if self.line is None else f" (line {self.line})"
        raise InputError(f"{self.path}, row {self.row}{line}: {reason}")

    def validate(self, kind: type[_Record], content: Any) -> _Record:
        """Return what pydantic reads at this place, or refuse it with the first problem."""
        try:
            return kind.model_validate(content)
        except ValidationError as error:
            self.refuse(first_problem(error))


# Reading ------------------------------------------------------------------------------------------


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file with its line breaks unchanged."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8; save the file in that encoding") from error


@functools.cache
def read_package_toml(package: str, name: str) -> Mapping[str, Any]:
    """Return the TOML file of a name that ships with a package, read once."""
    return tomllib.loads((files(package) / name).read_text(encoding="utf-8"))


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file."""
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}); is the file cut off?") from error


def read_json_lines(path: str | Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Yield the objects of a JSON-lines file, at least one, each with its place."""
    row = 0
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        where = Where(Path(path), row, line)
        try:
            record = json.loads(text)
        except ValueError as error:
            hint = "is the line cut off?" if row else "each line must be a JSON object"
            where.refuse(f"not JSON ({error}); {hint}")
        if not isinstance(record, dict):
            where.refuse("not a JSON object; each line must be one")
        yield where, record
        row += 1
    if row == 0:
        raise InputError(f"{path}: empty; each line must be a JSON object")


def json_object(text: str, option: str) -> dict[str, Any]:
    """Return the JSON object that was passed to an option."""
    with contextlib.suppress(ValueError):
        if isinstance(given := json.loads(text), dict):
            return given
    raise InputError(f"{option} {text!r:.80}: not a JSON object, such as '{{\"groups\": 20}}'")


# Writing ------------------------------------------------------------------------------------------


def check_output(path: Path, overwrite: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a file that could not be written, before the work whose result it will hold.

    Its folders may be missing. What the work reads (`inputs`) may not be replaced, not even with
    `overwrite`: a model's answers may exist nowhere else.
    """
    with refusing(path):
        if path.is_dir():
            raise IsADirectoryError(0, "Is a directory")
        if path.exists() and not overwrite:
            raise InputError(f"{path} exists; pass --overwrite, or another name")
        if path.resolve() in {Path(given).resolve() for given in inputs}:
            raise InputError(
                f"{path}: an input of this command, which would be lost; use another name"
            )
        folder = next(folder for folder in path.resolve().parents if folder.exists())
        probe = folder / f".{os.getpid()}.partial"
        probe.touch()
        probe.unlink()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, all of it or nothing."""
    write_whole(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


# The beginning of a formula, behind any marks; not numbers, nor - alone, which stands for nothing.
_FORMULA = re.compile(r"'*(?![+-]?[\d.,]*(?:[eE][+-]?\d+)?\Z)[=+\-@\t\r\n]")


def to_csv(rows: Iterable[Mapping[str, Any]], line_end: str = "\n") -> str:
    r"""Return rows as CSV, with the mark `'` before texts that a spreadsheet takes for formulas.

    >>> to_csv([{"name": "=1+1", "points": -1, "label": "-1"}])
    "name,points,label\n'=1+1,-1,-1\n"
    """
    from pandas import DataFrame

    def cell(value: Any) -> Any:
        return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value

    safe = [{cell(name): cell(value) for name, value in row.items()} for row in rows]
    return str(DataFrame(safe).to_csv(index=False, lineterminator=line_end))


def from_cell(text: str) -> str:
    """Return the text that `to_csv` wrote as a cell."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside `path`, then rename it, so that `path` is never incomplete."""
    with refusing(path):
        place = path.resolve()  # so that a symbolic link stays one
        partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
        place.parent.mkdir(parents=True, exist_ok=True)
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
