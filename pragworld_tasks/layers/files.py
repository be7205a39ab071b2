"""Files of sweeps: what was observed. Whatever follows from it is computed when a file is read."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.files import check_output, read_text, write_whole

_Report = TypeVar("_Report")

LAYERS, PATCHING, TOKENS = "pragworld-layers", "pragworld-patching", "pragworld-patched-tokens"
WRITERS = {  # the commands that write the files of each schema
    LAYERS: "pragworld-interp ablate",
    PATCHING: "pragworld-interp patch",
    TOKENS: "pragworld-interp patch --row",
}
VERSION = 3
DIGITS = 6  # of the probabilities in a file
Probability = Annotated[float, Field(ge=0, le=1)]

_HEAD = re.compile(r'\s*\{\s*"schema":\s*"([\w-]+)",\s*"version":\s*(\d+)')


def schema_of(path: str | Path) -> str | None:
    """Return the schema that a file names at its beginning; None if it names none.

    Raises:
        InputError: The file cannot be read.
    """
    head = _HEAD.match(read_text(path))
    return head[1] if head else None


def read_report(path: str | Path, schema: str, kind: type[_Report]) -> _Report:
    """Return the report in a file of one of the schemas in `WRITERS`.

    Raises:
        InputError: The file cannot be read, another command or another version wrote it, or it does
            not fit the schema.
    """
    text = read_text(path)
    head = _HEAD.match(text)
    if head is None or head[1] != schema:
        other = f"written by `{WRITERS[head[1]]}`; " if head and head[1] in WRITERS else ""
        raise InputError(f"{path}: {other}give a file that `{WRITERS[schema]}` wrote")
    if int(head[2]) != VERSION:
        raise InputError(
            f"{path}: version {head[2]} of {schema}, but this pragworld reads version {VERSION}; "
            f"make it anew with `{WRITERS[schema]}`, from the same model and documents"
        )
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}; write the file again") from error


def write_report(
    path: str | Path, schema: str, report: object, rows: str, overwrite: bool = False
) -> None:
    """Write a report as JSON, with its observations one a line.

    Args:
        path: The file.
        schema: One of the schemas in `WRITERS`.
        report: The report, a dataclass.
        rows: The name of the attribute that holds the observations.
        overwrite: Whether the file may exist.

    Raises:
        InputError: The file exists and `overwrite` is false, or it cannot be written.
    """
    check_output(Path(path), overwrite)
    fields: dict[str, Any] = TypeAdapter(type(report)).dump_python(report, mode="json")
    lines = ",\n    ".join(json.dumps(row) for row in fields.pop(rows))
    content = {"schema": schema, "version": VERSION, **fields}
    head = "".join(f'  "{name}": {json.dumps(value)},\n' for name, value in content.items())
    text = f'{{\n{head}  "{rows}": [\n    {lines}\n  ]\n}}\n'
    write_whole(Path(path), text.encode())
