"""Conversations with slots: what people say, which details vary, and questions about them.

The files `*.toml` beside this module have the conversations, by field. A table of slots for each
alteration says what the alteration may change; a slot whose value is the name of another one has
the same values, and always another one of them. Questions name slots, or say which value of a slot
makes the answer yes.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain
from typing import Any
from zlib import crc32

from pragworld_tasks.dialogues.settings import SHARES

# The tables of slots and the alterations that change their values.
ALTERATIONS_OF_TABLES = {
    "variable": "Variable Substitution",
    "number": "Quantity Change",
    "negation": "Negation",
    "quantifier": "Quantifier Change",
    "connective": "Logical Connective Change",
    "odd": "Injecting Inconsistent Data",
}
_NAMED = re.compile(r"\{(\w+)(?:\.(\d))?\}")
_PARTS = " / "  # between the parts of a value of several words that change together

Choice = Mapping[str, int]  # which of its values each slot has


@dataclass(frozen=True, slots=True)
class Slot:
    """A detail that varies.

    Attributes:
        alteration: One of `documents.ALTERATIONS`, which changes the value.
        values: What the slot may say. The first value of a slot for inconsistent data is nothing.
        like: The slot whose values it shares: its own name, or that of another one.
    """

    alteration: str
    values: tuple[tuple[str, ...], ...]
    like: str


@dataclass(frozen=True, slots=True)
class TemplateQuestion:
    """A question with slots; `conditions` are values of others that make its answer yes."""

    text: str
    conditions: Choice

    @property
    def named(self) -> tuple[str, ...]:
        """The slots that the question names."""
        return tuple(dict.fromkeys(names_in(self.text)))

    def expected(self, choice: Choice) -> dict[str, int]:
        """Return which values make the answer yes if the question names those of a choice."""
        return {**{name: choice[name] for name in self.named}, **self.conditions}


@dataclass(frozen=True)
class Template:
    """A conversation with slots, and questions about it."""

    name: str
    lines: tuple[str, ...]
    slots: Mapping[str, Slot]
    questions: tuple[TemplateQuestion, ...]

    @cached_property
    def share(self) -> int:
        """Which of the `SHARES` it belongs to, so that no two splits have it."""
        return crc32(self.name.encode()) % SHARES

    @cached_property
    def partners(self) -> dict[str, list[str]]:
        """For each slot, the other slots with the same values."""
        return {
            name: [
                each for each, its in self.slots.items() if its.like == slot.like and each != name
            ]
            for name, slot in self.slots.items()
        }

    def free_values(self, name: str, choice: Choice) -> list[int]:
        """Return the values of a slot that neither it nor its partners have."""
        taken = {choice[slot] for slot in (name, *self.partners[name]) if slot in choice}
        return [number for number in range(len(self.slots[name].values)) if number not in taken]

    def filled(self, text: str, choice: Choice) -> str:
        """Return a text with the values of its slots."""

        def value(match: re.Match[str]) -> str:
            name = _slot_of(match[1])
            part = self.slots[name].values[choice[name]][int(match[2] or 0)]
            return part[:1].upper() + part[1:] if name != match[1] else part

        return _NAMED.sub(value, text)


def names_in(text: str) -> Iterator[str]:
    """Yield the slots that a text names, in order."""
    return (_slot_of(match[1]) for match in _NAMED.finditer(text))


def _slot_of(name: str) -> str:
    """Return the slot that a name stands for. A capital letter asks for one in its value."""
    return name[0].lower() + name[1:]


@cache
def templates() -> tuple[Template, ...]:
    """Return all conversations.

    >>> template = templates()[0]
    >>> template.lines[0][:2], len(template.questions) >= 4
    ('A:', True)
    """
    folder = files(__package__)
    texts = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".toml"))
    tables = (tomllib.loads(file.read_text(encoding="utf-8"))["conversation"] for _, file in texts)
    return tuple(map(_template, chain(*tables)))


def _template(table: Mapping[str, Any]) -> Template:
    slots = dict(chain(*(_slots(table.get(name, {}), name) for name in ALTERATIONS_OF_TABLES)))
    questions = (TemplateQuestion(each["ask"], each.get("yes", {})) for each in table["question"])
    lines = tuple(table["text"].strip().split("\n"))
    return Template(table["name"], lines, slots, tuple(questions))


def _slots(table: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Slot]]:
    for name, values in table.items():
        like = values if isinstance(values, str) else name
        parts = [tuple(value.split(_PARTS)) for value in table[like]]
        if kind == "odd":
            parts = [("",), *((f" {sentence}",) for (sentence,) in parts)]
        yield name, Slot(ALTERATIONS_OF_TABLES[kind], tuple(parts), like)
