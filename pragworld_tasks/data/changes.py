"""What an alteration changed: the words of each line that differ from the original's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import ne


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between an altered conversation and its original.

    Attributes:
        utterance: Number of the line, from 0.
        old, new: The words that differ. One of the two may be empty.
    """

    utterance: int
    old: str
    new: str


def line_changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """Yield the differences between two versions of a conversation, at most one for each line.

    >>> list(line_changes(["A: Is it here?", "B: It is."], ["A: Is it here?", "B: It was not."]))
    [Change(utterance=1, old='is', new='was not')]
    """
    for utterance, old, new in compress(zip(count(), before, after), map(ne, before, after)):
        old_words, new_words = old.split(" "), new.split(" ")
        start, end, shortest = 0, 0, min(len(old_words), len(new_words))
        while start < shortest and old_words[start] == new_words[start]:
            start += 1
        while end < shortest - start and old_words[-1 - end] == new_words[-1 - end]:
            end += 1
        old = " ".join(old_words[start : len(old_words) - end])
        new = " ".join(new_words[start : len(new_words) - end])
        if old and new and old[-1] == new[-1] and old[-1] in ".?":
            old, new = old[:-1], new[:-1]
        yield Change(utterance, old, new)
