"""The questions that are asked: base prompts, slots and values (arXiv 2506.16584, appendix C)."""

import functools
import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from pragworld_tasks.errors import InputError

DOMAINS = ("health", "logistics", "finance", "social_planning", "travel")
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        name: domain and a word, as in `travel_miami`.
        prompt: the base prompt, with one `{slot}`.
        values: of the slot. Each makes an intent.
        unit: in which a response's value is given: `pragworld_tasks.quantities` reads it.
        extraction: what an LLM is told to extract from a response; empty for questions of a user's.
        survey: the scenario of which survey participants make a prompt; empty likewise.
    """

    name: str
    prompt: str
    values: tuple[str, ...]
    unit: str
    extraction: str = ""
    survey: str = ""

    @property
    def slot(self) -> str:
        """The slot with its braces."""
        return slot_of(self.prompt)


@functools.cache
def questions() -> dict[str, Question]:
    """The fifteen questions by name, in the order of the domains."""
    text = (files(__package__) / "questions.toml").read_text(encoding="utf-8")
    return {
        name: Question(name, values=tuple(given.pop("values")), **given)
        for name, given in tomllib.loads(text).items()
    }


def domain_of(question: str) -> str:
    """One of `DOMAINS`, by the name of a question; nothing for a question of the user's own."""
    domain = question.rpartition("_")[0]
    return domain if domain in DOMAINS else ""


def slot_of(prompt: str) -> str:
    """The one slot of a prompt, with its braces.

    Raises:
        InputError: it has none, or several.
    """
    found = [match[0] for match in _SLOT.finditer(prompt)]
    if len(found) != 1:
        raise InputError(
            f"prompt {prompt!r:.80}: {len(found)} slots; write one, as in 'I live in {{city}}'"
        )
    return found[0]
