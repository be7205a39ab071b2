"""Dataclasses as JSON has them, and back, strictly: a file that was tampered with is refused."""

import functools
import json
import math
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import Interval
from pragworld_tasks.evaluation.scoring import Share


class UnfitError(ValueError):
    """What is wrong with the content of a file, and where in it."""


def encoded(value: Any) -> Any:
    """A value as JSON has it. The ends of an interval stand beside what it is the interval of."""
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if is_dataclass(value) and not isinstance(value, type):
        content: dict[str, Any] = {}
        for field in fields(value):
            if field.name == "interval":
                content |= {"percent": encoded(value.percent)} if isinstance(value, Share) else {}
                content |= encoded(getattr(value, field.name))
            else:
                content[field.name] = encoded(getattr(value, field.name))
        return content
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return encoded(value._asdict())
    if isinstance(value, dict):
        return {name: encoded(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [encoded(one) for one in value]
    return value


_hints = functools.cache(get_type_hints)
_PLAIN_KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def decoded(kind: Any, value: Any, place: str) -> Any:
    """What `encoded` made out of a value of type `kind`.

    Args:
        kind: a type as this file's dataclasses name them.
        value: what JSON has.
        place: where it has it, for messages.

    Raises:
        UnfitError: it has something else there.
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
        return None if value is None else decoded(other, value, place)
    if origin is tuple:
        if not isinstance(value, list):
            raise UnfitError(f"{place} is {_shown(value)}, not a list")
        if arguments[-1] is not ... and len(value) != len(arguments):
            raise UnfitError(f"{place} has {len(value)} values instead of {len(arguments)}")
        return tuple(
            decoded(arguments[0], one, f"{place}[{number}]") for number, one in enumerate(value)
        )
    if not isinstance(value, dict):
        raise UnfitError(f"{place} is {_shown(value)}, not an object")
    if origin is dict:
        return {name: decoded(arguments[1], one, f"{place}.{name}") for name, one in value.items()}
    content = {}
    for name, hint in _hints(kind).items():
        if hint is Interval:
            content[name] = decoded(hint, value, place)
        elif name not in value:
            raise UnfitError(f"no {name!r} in {place or 'it'}")
        else:
            content[name] = decoded(hint, value[name], f"{place}.{name}".lstrip("."))
    return kind(**content)


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


def check_schema(path: Path, content: Any, schema: str, version: int, command: str) -> None:
    """Refuses what is not of this schema and version.

    Args:
        path: where it was read, for the message.
        content: an object, if it is what it should be.
        schema: that this program reads.
        version: of it.
        command: that writes it.

    Raises:
        InputError: it is of another schema or version.
    """
    found = content if isinstance(content, dict) else {}
    if found.get("schema") != schema:
        raise InputError(
            f"{path}: schema {str(found.get('schema'))[:40]!r} instead of {schema!r}; "
            f"is it what `{command}` wrote?"
        )
    if found.get("version") != version:
        raise InputError(
            f"{path}: version {str(found.get('version'))[:40]} of {schema!r}, and this program "
            f"reads version {version}; take the pragworld that wrote it, or make the file again"
        )
