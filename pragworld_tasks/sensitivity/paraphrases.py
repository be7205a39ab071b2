"""Paraphrases of a prompt: files of them, and what must hold of each and of all."""

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json_lines

# Of two paraphrases, how much of their words may be the same in the same order.
NEAR = 0.7

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
# Words that hold a number. "one" mostly is a pronoun.
_NUMBER_WORDS = (
    {word: str(number) for number, word in enumerate(_ONES.split()) if word != "one"}
    | {word: str(10 * number) for number, word in enumerate(_TENS.split(), start=2)}
    | {"dozen": "12", "decade": "10", "weekday": "5", "weekdays": "5"}
)
# "a month" and "30 days" say the same.
_MAY_BE_LEFT_OUT = {"30"}


@dataclass(frozen=True)
class Paraphrase:
    """A wording of a prompt, and where it comes from: by hand, or through which languages."""

    text: str
    source: str


def shipped(question: str) -> list[Paraphrase]:
    """The paraphrases that come along, by the name of the question."""
    with as_file(files(__package__) / "paraphrases" / f"{question}.jsonl") as path:
        return read(path)


def read(path: Path) -> list[Paraphrase]:
    """Paraphrases out of a file that `pragworld-tasks paraphrase` wrote: JSON lines with a `text`.

    Raises:
        InputError: no such file, or a line that is no such object.
    """
    found = []
    for where, record in read_json_lines(path):
        text, source = record.get("text"), record.get("source", "")
        if not isinstance(text, str) or not isinstance(source, str):
            where.refuse('no paraphrase; each line should be like {"text": "…", "source": "…"}')
        found.append(Paraphrase(text, source))
    return found


def fault(prompt: str, slot: str, paraphrase: str) -> str | None:
    """What is wrong with a paraphrase of a prompt; None where nothing is, as far as can be seen.

    Seen are a slot that is missing, doubled or changed, numbers that were added (a constraint, most
    likely), numbers that got lost, and text that is not one line.
    """
    if re.findall(r"\{\w*\}", paraphrase) != [slot]:
        return f"not exactly one {slot}"
    if paraphrase != " ".join(paraphrase.split()):
        return "line breaks or stray spaces"
    asked, said = _numbers(prompt), _numbers(paraphrase)
    if added := said - asked:
        return f"adds the number {min(added)}"
    if lost := asked - said - _MAY_BE_LEFT_OUT:
        return f"lacks the number {min(lost)}"
    return None


def similarity(first: str, second: str) -> float:
    """Share of words that two texts have in common in the same order: 0 to 1."""
    return difflib.SequenceMatcher(None, _words(first), _words(second), autojunk=False).ratio()


def near_duplicates(texts: Sequence[str]) -> Iterator[tuple[int, int, float]]:
    """The pairs of texts that are more alike than `NEAR`, and how alike."""
    for (i, first), (j, second) in itertools.combinations(enumerate(texts), 2):
        if (alike := similarity(first, second)) > NEAR:
            yield i, j, alike


def check(prompt: str, slot: str, texts: Sequence[str]) -> list[str]:
    """Everything that is wrong with a set of paraphrases, a line each; the base prompt is 0."""
    faults = [
        f"{number}: {found}: {text}"
        for number, text in enumerate(texts, start=1)
        if (found := fault(prompt, slot, text))
    ]
    alike = [
        f"{i} and {j}: {share:.0%} of the words are the same: {texts[j - 1]}"
        for i, j, share in near_duplicates([prompt, *texts])
    ]
    return faults + alike


def checked(path: Path, prompt: str, slot: str) -> list[Paraphrase]:
    """Paraphrases of a prompt out of a file.

    Raises:
        InputError: the file cannot be read, or one of them does not keep the slot.
    """
    found = read(path)
    for number, paraphrase in enumerate(found):
        if paraphrase.text.count(slot) != 1:
            raise InputError(
                f"{path}, row {number}: not exactly one {slot}, as {prompt!r:.60} has; "
                "is it of another prompt?"
            )
    return found


def _words(text: str) -> list[str]:
    return re.findall(r"[\w{}$%.]*\w[}%]?|\w", text.lower().replace("'", "").replace("\u2019", ""))


def _numbers(text: str) -> set[str]:
    """The numbers in a text, slots aside, in digits."""
    text = re.sub(r"\{\w*\}", " ", text.lower())
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"(?<=\d)k\b", "000", text)
    words = re.findall(r"[a-z]+", text)
    in_words = {_NUMBER_WORDS[word] for word in words if word in _NUMBER_WORDS}
    return set(re.findall(r"\d+(?:\.\d+)?", text)) | in_words
