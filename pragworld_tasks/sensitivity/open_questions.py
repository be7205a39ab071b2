"""The open questions: base prompts with a slot, and its values (arXiv 2506.16584, appendix C)."""

import functools
import re

from pydantic import BaseModel
from pydantic.dataclasses import dataclass

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_package_toml

QUESTION_DOMAINS = ("health", "logistics", "finance", "social_planning", "travel")
# As in Python's format strings, a word in double braces is text. So are the braces of JSON.
FIELD = re.compile(r"\{\{\w+\}\}|\{\w*\}")


@dataclass(frozen=True)
class OpenQuestion:
    """A question without fixed answers; each value in its slot makes an intent.

    Attributes:
        prompt: The base prompt, with one `{slot}`.
        unit: The unit in which `pragworld_tasks.quantities` reads the value of a response.
        extraction: The instruction to an LLM that extracts that value; empty for own questions.
    """

    name: str
    prompt: str
    values: tuple[str, ...]
    unit: str
    extraction: str = ""


class PromptRecord(BaseModel, frozen=True):
    """A document of the world_model tasks: a paraphrase with a value in its slot, its intent."""

    question: str
    unit: str
    intent: int
    value: str
    paraphrase: int
    prompt: str


@functools.cache
def questions() -> dict[str, OpenQuestion]:
    """Return the fifteen questions by name, in the order of the domains."""
    entries = read_package_toml(__package__, "questions.toml").items()
    return {name: OpenQuestion(name, **fields) for name, fields in entries}


def domain_of(question: str) -> str:
    """Return the domain of a question by its name; `own` for a user's own question."""
    domain = question.rpartition("_")[0]
    return domain if domain in QUESTION_DOMAINS else "own"


def slot_of(prompt: str) -> str:
    """Return the one slot of a prompt, with its braces; refuse none and several."""
    if len(slots := slots_in(prompt)) != 1:
        raise InputError(
            f"prompt {prompt!r:.80}: has {len(slots)} slots; write one, as in 'I live in {{city}}' "
            "(words in double braces are text)"
        )
    return slots[0]


def slots_in(text: str) -> list[str]:
    """Return the slots of a text, with their braces."""
    return [name for name in FIELD.findall(text) if not name.startswith("{{") and name != "{}"]


def fill_slot(text: str, value: str) -> str:
    """Return a text with a value in its slot, and with single braces for double ones.

    Examples:
        >>> fill_slot('From {city}: reply with {"hours": {{number}}}', "Oslo")
        'From Oslo: reply with {"hours": {number}}'
    """

    def replacement(field: re.Match[str]) -> str:
        if field[0].startswith("{{"):
            return field[0][1:-1]
        return field[0] if field[0] == "{}" else value

    return FIELD.sub(replacement, text)
