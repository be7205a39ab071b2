"""Which words an alteration removed from a conversation, and which it added."""

import re
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal, NamedTuple

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LEAST_ALIKE = 0.4  # less similar lines are shown as one line removed and one added


class Piece(NamedTuple):
    """Some words of a line that both texts have, or only one of them.

    Attributes:
        text: the words, with the spaces between them.
        change: which of the texts has them.
        quoted: whether somebody quotes them from the altered text.
    """

    text: str
    change: Literal["same", "removed", "added"]
    quoted: bool = False


def diff_lines(original: str, altered: str) -> list[list[Piece]]:
    r"""Return the lines of an altered text, with the words that were removed from the original.

    Without the words removed, the lines are those of the altered text; without the words added,
    those of the original one.

    Examples:
        >>> for line in diff_lines("Alice: Hi\nBob: All left", "Alice: Hi\nBob: Some left"):
        ...     print([(piece.text, piece.change) for piece in line])
        [('Alice: Hi', 'same')]
        [('Bob: ', 'same'), ('All', 'removed'), ('Some', 'added'), (' left', 'same')]
    """
    before, after = original.split("\n"), altered.split("\n")
    lines: list[list[Piece]] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, start_after, end_after in matcher.get_opcodes():
        if kind == "equal":
            lines += [[Piece(line, "same")] for line in before[start:end]]
            continue
        for old, new in zip_longest(before[start:end], after[start_after:end_after]):
            lines.append(_diff_words(old, new))
    return lines


def _diff_words(old: str | None, new: str | None) -> list[Piece]:
    before, after = (_WORDS.findall(line or "") for line in (old, new))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _LEAST_ALIKE:
        whole = [Piece(old or "", "removed"), Piece(new or "", "added")]
        return [piece for piece in whole if piece.text]
    pieces = []
    for kind, start, end, start_after, end_after in matcher.get_opcodes():
        if kind == "equal":
            pieces.append(Piece("".join(before[start:end]), "same"))
            continue
        if start < end:
            pieces.append(Piece("".join(before[start:end]), "removed"))
        if start_after < end_after:
            pieces.append(Piece("".join(after[start_after:end_after]), "added"))
    return pieces
