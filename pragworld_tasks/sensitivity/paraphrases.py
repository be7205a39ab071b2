"""Paraphrases of a prompt: files of them, and what must hold of each and of all."""

import itertools
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from pydantic import BaseModel

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json_lines
from pragworld_tasks.sensitivity.open_questions import FIELD, slot_of, slots_in
from pragworld_tasks.text import NUMBER_VALUES

NEAR = 0.7  # share of words in the same order above which two paraphrases are near duplicates

_NUMBER_WORDS = NUMBER_VALUES | {"dozen": 12, "decade": 10, "weekday": 5, "weekdays": 5}
del _NUMBER_WORDS["one"]  # mostly a pronoun
_OPTIONAL = {"30"}  # "a month" and "30 days" are the same


class _Wording(BaseModel):
    text: str


def shipped_paraphrases(question: str) -> list[str]:
    """Return the paraphrases that are part of this package, by the name of the question."""
    return read_paraphrases(Path(__file__).with_name("paraphrases") / f"{question}.jsonl")


def read_paraphrases(path: Path) -> list[str]:
    """Read a file as `pragworld-tasks paraphrase` writes it: JSON lines with a `text`."""
    return [where.validate(_Wording, record).text for where, record in read_json_lines(path)]


def read_paraphrases_of(prompt: str | None, path: Path) -> list[str]:
    """Read the paraphrases of a prompt, or of the first one; each has to keep the slot."""
    paraphrases = read_paraphrases(path)
    prompt = prompt or paraphrases[0]
    slot = slot_of(prompt)
    for row, text in enumerate(paraphrases):
        if slots_in(text) != [slot]:
            raise InputError(
                f"{path}, row {row}: must hold {slot} exactly once, as {prompt!r:.60} does; use "
                "a file of paraphrases of that prompt"
            )
    return paraphrases


def find_fault(prompt: str, paraphrase: str) -> str | None:
    """Return what is visibly wrong with a paraphrase of a prompt; None if nothing is."""
    slot = slot_of(prompt)
    if slots_in(paraphrase) != [slot]:
        return f"not exactly one {slot}"
    if sorted(FIELD.findall(paraphrase)) != sorted(FIELD.findall(prompt)):
        return "other words in braces"
    if paraphrase != " ".join(paraphrase.split()):
        return "line breaks or stray spaces"
    expected, actual = _numbers(prompt), _numbers(paraphrase)
    if added := actual - expected:
        return f"adds the number {min(added)}"
    if lost := expected - actual - _OPTIONAL:
        return f"lacks the number {min(lost)}"
    return None


def list_faults(prompt: str, texts: Sequence[str]) -> list[str]:
    """Return a line for each fault of a set of paraphrases; number 0 is the base prompt."""
    faults = [
        f"{number}: {fault}: {text}"
        for number, text in enumerate(texts, start=1)
        if (fault := find_fault(prompt, text))
    ]
    for (i, first), (j, second) in itertools.combinations(enumerate([prompt, *texts]), 2):
        words = SequenceMatcher(None, _words(first), _words(second), autojunk=False)
        if words.ratio() > NEAR:
            faults.append(f"{i} and {j}: {words.ratio():.0%} of the words are the same: {second}")
    return faults


def _words(text: str) -> list[str]:
    return re.findall(r"[\w{}$%.]*\w[}%]?|\w", text.lower().replace("'", "").replace("\u2019", ""))


def _numbers(text: str) -> set[str]:
    """Return the numbers in a text, slots aside, in digits."""
    text = re.sub(r"\{\w*\}", " ", text.lower())
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"(?<=\d)k\b", "000", text)
    words = re.findall(r"[a-z]+", text)
    in_words = {str(_NUMBER_WORDS[word]) for word in words if word in _NUMBER_WORDS}
    return set(re.findall(r"\d+(?:\.\d+)?", text)) | in_words
