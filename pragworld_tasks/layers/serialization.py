"""Dataclasses to JSON and back, strictly: a damaged or edited file raises an error."""

import functools
import json
import math
import re
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ValidationError

from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.evaluation.scoring import Share

DIGITS = 6  # of the probabilities in a file
# The commands that write the files of each schema.
WRITERS = {
    "pragworld-layers": "pragworld-interp ablate",
    "pragworld-patching": "pragworld-interp patch",
    "pragworld-trace": "pragworld-interp patch --row",
    "pragworld-layer-comparison": "pragworld-interp compare --json",
    "pragworld-train": "pragworld-train",
}
_BEGINNING = 4096  # bytes, in which a file of ours names its schema
_SCHEMA = re.compile(rb'"schema"\s*:\s*"([^"]+)"')
_JOURNAL = re.compile(r"\..+\.journal-\d+")


class UnfitError(ValueError):
    """The content of a file does not fit its schema; the message says where."""


def encode(value: Any) -> Any:
    """Return a value as JSON data; null stands for NaN.

    The ends of an interval become keys of the object that the interval belongs to.
    """
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Share):
        content = value.model_dump(mode="json")
        return {name: content[name] for name in ("right", "total", "percent", "low", "high")}
    if is_dataclass(value) and not isinstance(value, type):
        content = {}
        for field in fields(value):
            if field.name == "interval":
                content |= encode(getattr(value, field.name))
            else:
                content[field.name] = encode(getattr(value, field.name))
        return content
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return encode(value._asdict())
    if isinstance(value, dict):
        return {name: encode(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


_hints = functools.cache(get_type_hints)
_PLAIN_KINDS = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}


def decode(kind: Any, value: Any, place: str) -> Any:
    """Return the value of type `kind` that `encode` turned into JSON data.

    Args:
        kind: A type, as the dataclasses annotate their fields.
        value: The JSON data.
        place: The path of the value within the file, for messages.

    Raises:
        UnfitError: The JSON data does not fit the type.
    """
    if kind in _PLAIN_KINDS:
        if kind is float and value is None:
            return math.nan
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise UnfitError(f"{place} is {_shown(value)}, not {_PLAIN_KINDS[kind]}")
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Literal:
        if value not in arguments:
            raise UnfitError(f"{place} is {_shown(value)}, not one of {', '.join(arguments)}")
        return value
    if origin in (types.UnionType, Union):
        (other,) = (argument for argument in arguments if argument is not type(None))
        return None if value is None else decode(other, value, place)
    if origin is tuple:
        if not isinstance(value, list):
            raise UnfitError(f"{place} is {_shown(value)}, not a list")
        if arguments[-1] is not ... and len(value) != len(arguments):
            raise UnfitError(f"{place} has {len(value)} values instead of {len(arguments)}")
        return tuple(
            decode(arguments[0], item, f"{place}[{number}]") for number, item in enumerate(value)
        )
    if kind is Share:
        try:
            return Share.model_validate(value)
        except ValidationError as error:
            raise UnfitError(f"{place}.{first_problem(error)}") from error
    if not isinstance(value, dict):
        raise UnfitError(f"{place} is {_shown(value)}, not an object")
    if origin is dict:
        return {name: decode(arguments[1], item, f"{place}.{name}") for name, item in value.items()}
    content = {}
    for name, hint in _hints(kind).items():
        if name == "interval":
            content[name] = decode(hint, value, place)
        elif name not in value:
            raise UnfitError(f"{place or 'the file'} has no {name!r}")
        else:
            content[name] = decode(hint, value[name], f"{place}.{name}".lstrip("."))
    return kind(**content)


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


def schema_of(path: str | Path) -> str | None:
    """Return which of the schemas in `WRITERS` a file names at its beginning; None for others."""
    if not Path(path).is_file():  # a pipe can be read once
        return None
    try:
        with Path(path).open("rb") as stream:
            named = _SCHEMA.search(stream.read(_BEGINNING))
    except OSError:  # whoever reads it says why it cannot be read
        return None
    schema = named[1].decode(errors="replace") if named else None
    return schema if schema in WRITERS else None


def check_writer(path: str | Path, schema: str) -> None:
    """Refuse a file that another command wrote, before it is read as one of a schema.

    Raises:
        InputError: The file is of another schema in `WRITERS`, or the journal of a sweep.
    """
    if _JOURNAL.fullmatch(Path(path).name):
        raise InputError(
            f"{path}: the journal of an unfinished sweep; rerun its command, then give the file "
            "that it writes"
        )
    if (other := schema_of(path)) and other != schema:
        raise InputError(
            f"{path}: written by `{WRITERS[other]}`; give a file that `{WRITERS[schema]}` wrote"
        )


def check_schema(path: str | Path, content: Any, schema: str, version: int) -> None:
    """Check the schema, one of `WRITERS`, and the version that the content of a file states.

    Raises:
        InputError: The content has another schema or version.
    """
    head = content if isinstance(content, dict) else {}
    if head.get("schema") != schema:
        raise InputError(
            f"{path}: the schema is {str(head.get('schema'))[:40]!r}, not {schema!r}; "
            f"give a file that `{WRITERS[schema]}` wrote"
        )
    if head.get("version") != version:
        raise InputError(
            f"{path}: the file has version {str(head.get('version'))[:40]} of {schema!r}, but this "
            f"pragworld reads version {version}; install the pragworld that wrote the file, or "
            "write it again"
        )
