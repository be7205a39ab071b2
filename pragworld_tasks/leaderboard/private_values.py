"""What a run record leaves out of how a model ran: secrets, and what only one machine knows.

lm-eval logs the arguments of a model as they were passed, and records are published:

- an argument with the name of a secret is dropped;
- a folder is reduced to its own name, `./NAME`;
- an address keeps neither user, password nor query, and is left out unless its host has a public
  name.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from pragworld_tasks.errors import InputError

PRIVATE_ADDRESS = "PRIVATE_ADDRESS"
_DEEPEST = 20  # levels of nested values; those of a stranger could be too many to walk
# Names of arguments that hold secrets, and not those of special tokens.
_SECRET = re.compile(
    r"(?<!bos)(?<!eos)(?<!pad)(?<!unk)(?:^|[_-])(?:token|(?:api_?)?key|secret|password|auth\w{0,40}|"
    r"headers?|cookies?)$",
    re.IGNORECASE,
)
_PUBLIC_HOST = re.compile(
    r"(?:[a-z0-9_-]+\.)+(?P<domain>[a-z]{2,}|xn--[a-z0-9-]+)\.?", re.IGNORECASE
)
# Domains that only local networks resolve, most of them reserved for that (RFC 2606, 6761, 6762).
_LOCAL_DOMAINS = (
    *("arpa", "corp", "example", "home", "internal", "intranet", "invalid", "lan", "local"),
    *("localdomain", "localhost", "private", "test"),
)
# How paths begin that are no names on a hub: /, ./, ../, .cache/, ~/, ~me/, C:\ and \\.
_START = r"(?:[a-z]:[/\\]|\\\\|/|~[\w-]*/|\.[\w.-]*[/\\])"
_FOLDER = re.compile(rf"{_START}.*[^/\\\s].*", re.IGNORECASE | re.DOTALL)
_WORD = r"""[^\s"'=,;:()\[\]{}]"""
_PARTS = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,30}://)(?:[^/@\s]*@)?(?P<host>\[[^\]\s]*\]|[^/?#\s:]*)"
    r"(?P<rest>[^?#\s]*)\S*"
    r"|\b(?:localhost|\d{1,3}(?:\.\d{1,3}){3})\b(?::\d+)?"
    rf"|(?<!{_WORD})(?P<folder>{_START}{_WORD}*[/\\]{_WORD}+)",
    re.IGNORECASE,
)


def is_folder(name: str) -> bool:
    """Return whether the name of a model says that it was loaded from a folder.

    Examples:
        >>> is_folder("/models/mine"), is_folder("./mine"), is_folder("developer/model")
        (True, True, False)
    """
    return bool(_FOLDER.fullmatch(name))


def public_text(text: str) -> str:
    """Return a text without folders and addresses that only one machine or network knows.

    Examples:
        >>> public_text("/data/me/models/mine"), public_text("developer/model")
        ('./mine', 'developer/model')
        >>> public_text("https://me:secret@api.openai.com/v1?key=secret")
        'https://api.openai.com/v1'
        >>> public_text("http://localhost:8000/v1")
        'PRIVATE_ADDRESS'
    """
    return _own_name(text) if is_folder(text) else _PARTS.sub(_public_part, text)


def public_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values without secrets, and with `public_text` only, at any depth.

    Raises:
        InputError: A value is nested too deeply, or is not a number that JSON has.
    """
    public: dict[str, Any] = _public(values, _DEEPEST)
    return public


def _public(value: Any, levels: int) -> Any:
    if levels < 0:
        raise InputError(f"nested more than {_DEEPEST} levels deep; leave that setting out")
    if isinstance(value, Mapping):
        return {
            public_text(name): _public(inner, levels - 1)
            for name, inner in value.items()
            if not _SECRET.search(name)
        }
    if isinstance(value, list):
        return [_public(inner, levels - 1) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{value} is not a number that JSON has; leave that setting out")
    return public_text(value) if isinstance(value, str) else value


def _public_part(part: re.Match[str]) -> str:
    if part["folder"]:
        return _own_name(part["folder"])
    host = _PUBLIC_HOST.fullmatch(part["host"] or "")
    if not host or host["domain"].lower() in _LOCAL_DOMAINS or "@" in part["rest"]:
        return PRIVATE_ADDRESS
    return part["scheme"] + part["host"] + part["rest"]


def _own_name(folder: str) -> str:
    return "./" + re.split(r"[/\\]", folder.rstrip("/\\"))[-1]
