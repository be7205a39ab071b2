"""The requests' wording: a file of ours, of which a user's file may replace some or all.

A prompt is a system message and a user's message with slots, such as `{conversation}`. Its id names
it and a digest of both messages, so that a record tells which wording it comes from.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_package_toml, read_text

_SLOT = re.compile(r"\{([a-z][a-z_0-9]*)\}")
_MESSAGES = ("system", "user")


@dataclass(frozen=True)
class PromptText:
    """A prompt that is filled in.

    Attributes:
        system: the system message.
        user: the user's message.
        id: name and digest of the prompt, such as `conversation.general@1f2e3d4c`.
    """

    system: str
    user: str
    id: str


@dataclass(frozen=True)
class PromptTemplate:
    """A prompt with slots."""

    system: str
    user: str

    @property
    def slots(self) -> frozenset[str]:
        """The names of its slots."""
        return frozenset(_SLOT.findall(self.system) + _SLOT.findall(self.user))

    @property
    def digest(self) -> str:
        """The SHA-256 digest of both messages, in hexadecimal."""
        return hashlib.sha256(json.dumps([self.system, self.user]).encode()).hexdigest()


@dataclass(frozen=True)
class Prompts:
    """The prompts of a run, by name.

    Attributes:
        templates: the prompts.
    """

    templates: Mapping[str, PromptTemplate]

    @classmethod
    def read(cls, path: Path | None = None) -> Self:
        """Return our prompts, those of a user's TOML file in place of ours.

        Args:
            path: a file with tables named as in `prompts.toml`, each with `system`, `user` or both;
                None for none.

        Raises:
            InputError: The file cannot be read, names a prompt or a field that does not exist, or
                has other slots than the prompt that it replaces.

        Examples:
            >>> prompts = Prompts.read()
            >>> text = prompts.fill("label", conversation="A: {hi}", question="Is B here?")
            >>> print(text.user.splitlines()[2])
            A: {hi}
        """
        templates = dict(_templates(read_package_toml(__package__, "prompts.toml")))
        for name, fields in _own_prompts(path).items() if path else ():
            if name not in templates:
                raise InputError(
                    f"{path}: unknown prompt {name!r}; must be one of {', '.join(templates)}"
                )
            templates[name] = _replaced(templates[name], f"{path}: prompt {name!r}", fields)
        return cls(templates)

    def fill(self, name: str, **values: str) -> PromptText:
        """Return a prompt with a value in each slot. Braces in the values are no slots.

        Args:
            name: the name of the prompt, such as `conversation.general`.
            values: the values by the names of the slots.
        """
        template = self.templates[name]
        system, user = (
            _SLOT.sub(lambda slot: values[slot[1]], text)
            for text in (template.system, template.user)
        )
        return PromptText(system, user, f"{name}@{template.digest[:8]}")

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each prompt, by name."""
        return {name: template.digest for name, template in self.templates.items()}


def default_prompts() -> str:
    """Return our prompts as TOML, in the form that `Prompts.read` takes."""
    return (files(__package__) / "prompts.toml").read_text(encoding="utf-8")


def _templates(tables: Mapping[str, Any]) -> dict[str, PromptTemplate]:
    return {name: PromptTemplate(**fields) for name, fields in _prompt_tables(tables).items()}


def _prompt_tables(tables: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Return the tables that hold messages, by their names with dots."""
    prompts: dict[str, Any] = {}
    for key, value in tables.items():
        name = f"{within}{key}"
        holds_tables = isinstance(value, dict) and any(
            isinstance(field, dict) for field in value.values()
        )
        prompts |= _prompt_tables(value, f"{name}.") if holds_tables else {name: value}
    return prompts


def _own_prompts(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML ({error}); correct that") from error
    if not tables:
        raise InputError(f"{path}: holds no prompt; write a table such as [label] with 'user'")
    return _prompt_tables(tables)


def _replaced(ours: PromptTemplate, subject: str, fields: Any) -> PromptTemplate:
    """Return the user's messages in place of ours.

    Raises:
        InputError: They are not messages, or have other slots.
    """
    if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
        raise InputError(f"{subject} is not a table of texts; write 'system', 'user' or both")
    if unknown := sorted(fields.keys() - {*_MESSAGES}):
        raise InputError(f"{subject} has an unknown field {unknown[0]!r}; use 'system' and 'user'")
    if blank := [name for name, text in fields.items() if not text.strip()]:
        raise InputError(f"{subject} has an empty {blank[0]!r}; write it, or leave it out for ours")
    theirs = PromptTemplate(fields.get("system", ours.system), fields.get("user", ours.user))
    if missing := sorted(ours.slots - theirs.slots):
        raise InputError(
            f"{subject} lacks the slot {{{missing[0]}}}; put it where the value belongs"
        )
    if unknown := sorted(theirs.slots - ours.slots):
        raise InputError(
            f"{subject} has an unknown slot {{{unknown[0]}}}; its slots are "
            + ", ".join(f"{{{slot}}}" for slot in sorted(ours.slots))
            + f"; write {{ {unknown[0]} }}, with spaces, for braces that are no slot"
        )
    return theirs
