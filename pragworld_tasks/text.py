"""Texts: tables and numbers as people read them, differences, and responses without reasoning."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import takewhile, zip_longest
from operator import eq
from typing import Any, Literal, NamedTuple

from pragworld_tasks.errors import printable
from pragworld_tasks.files import read_package_toml

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBER_VALUES = {word: value for value, word in enumerate(ONES)} | {
    word: 10 * value for value, word in enumerate(TENS, start=2)
}


def markdown_table(title: str, headers: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table under its title; the first column is text, the others are numbers.

    A cell may hold anything: it becomes `printable`, and a `|` in it is escaped.

    >>> print(markdown_table("Two models", ["model", "J"], [["a", "71"], ["b", "9"]]))
    Two models
    <BLANKLINE>
    | model |  J |
    | :---- | -: |
    | a     | 71 |
    | b     |  9 |
    <BLANKLINE>
    """
    lines = [[printable(cell).replace("|", r"\|") for cell in cells] for cells in (headers, *rows)]
    # A rule of one column has two characters at least.
    widths = [max(2, *map(len, column)) for column in zip(*lines, strict=True)]

    def line(cells: list[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        aligned = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        return f"| {' | '.join(aligned)} |"

    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    head, *body = map(line, lines)
    return "\n".join([f"{printable(title)}\n", head, line(rule), *body, ""])


def format_count(number: int, noun: str) -> str:
    """Return a number and what is counted, in the singular for one."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def format_size(documents: int, groups: int) -> str:
    """Return how many documents and groups there are, as in `1,200 documents, 1 group`."""
    return f"{format_count(documents, 'document')}, {format_count(groups, 'group')}"


def format_number(number: float | None, digits: str = ".3f") -> str:
    """Return a number without a sign if it rounds to 0, or a dash where it is None or NaN.

    >>> format_number(0.5), format_number(-0.0001), format_number(-0.001, "+.2f")
    ('0.500', '0.000', '+0.00')
    """
    rest = digits.lstrip("+")
    undefined = number is None or math.isnan(number)
    return "-" if undefined else format(number, f"{digits.removesuffix(rest)}z{rest}")


def format_percent(percent: float) -> str:
    """Return a percentage with two decimals, or a dash where it is not defined (NaN)."""
    return format_number(percent, ".2f")


def format_points(points: float) -> str:
    """Return a difference in points with its sign, or a dash where it is not defined (NaN)."""
    return format_number(points, "+.2f")


def format_interval(interval: tuple[float, float], digits: str = ".2f") -> str:
    """Return the two ends of an interval, or a dash where it is not defined (NaN).

    >>> format_interval((1.5, 20.25)), format_interval((1.5, 20.25), "#.3g")
    ('1.50 to 20.25', '1.50 to 20.2')
    """
    if math.isnan(interval[0]):
        return "-"
    return " to ".join(format_number(end, digits) for end in interval)


def format_p(p: float) -> str:
    """Return a p value with four digits, or a dash for NaN."""
    return "-" if math.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.4f}"


def null_if_nan(value: float) -> float | None:
    """Return a number for JSON, which has no NaN: None (null) in its place."""
    return None if math.isnan(value) else value


# Differences --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """The words that differ in a line of an altered conversation and its original; or none."""

    utterance: int
    old: str
    new: str


def line_changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """Yield the differences between two versions of a conversation, at most one for each line.

    >>> list(line_changes(["A: Is it here?", "B: It is."], ["A: Is it here?", "B: It was not."]))
    [Change(utterance=1, old='is', new='was not')]
    """
    for utterance, (old, new) in enumerate(zip(before, after, strict=False)):
        if old == new:
            continue
        old_words, new_words = old.split(" "), new.split(" ")
        start = alike(old_words, new_words)
        end = alike(old_words[start:][::-1], new_words[start:][::-1])
        old = " ".join(old_words[start : len(old_words) - end])
        new = " ".join(new_words[start : len(new_words) - end])
        if old and new and old[-1] == new[-1] and old[-1] in ".?":
            old, new = old[:-1], new[:-1]
        yield Change(utterance, old, new)


def alike(first: Sequence[str], second: Sequence[str]) -> int:
    """Return with how many equal items two sequences begin."""
    return len([*takewhile(bool, map(eq, first, second))])


_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LEAST_ALIKE = 0.4  # less similar lines are shown as one line removed and one added


class Piece(NamedTuple):
    """Some words of a line, with the spaces between them, that both texts have or only one."""

    text: str
    change: Literal["same", "removed", "added"]


def diff_lines(original: str, altered: str) -> list[list[Piece]]:
    r"""Return the lines of an altered text, with the words that were removed from the original.

    Examples:
        >>> for line in diff_lines("Alice: Hi\nBob: All left", "Alice: Hi\nBob: Some left"):
        ...     print([(piece.text, piece.change) for piece in line])
        [('Alice: Hi', 'same')]
        [('Bob: ', 'same'), ('All', 'removed'), ('Some', 'added'), (' left', 'same')]
    """
    before, after = original.split("\n"), altered.split("\n")
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [
        _diff_words(old, new)
        for _, start, end, start_after, end_after in matcher.get_opcodes()
        for old, new in zip_longest(before[start:end], after[start_after:end_after], fillvalue="")
    ]


def _diff_words(old: str, new: str) -> list[Piece]:
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _LEAST_ALIKE:
        before, after = [old], [new]
        matcher.set_seqs(before, after)
    pieces: list[Piece] = []
    for kind, start, end, start_after, end_after in matcher.get_opcodes():
        removed, added = "".join(before[start:end]), "".join(after[start_after:end_after])
        if kind == "equal":
            pieces.append(Piece(removed, "same"))
        else:
            pieces += [Piece(removed, "removed"), Piece(added, "added")]
    return [piece for piece in pieces if piece.text]


# Reasoning ----------------------------------------------------------------------------------------

_MARKERS = read_package_toml("pragworld_tasks", "reasoning_markers.toml")


def pattern_compiler(phrases: Mapping[str, Any]) -> Callable[[str], re.Pattern[str]]:
    """Return a function that compiles a pattern of `phrases` by its name.

    A list is any of its patterns, a table any with its name, and `%name%` that which is named.
    """

    def source(entry: Any) -> str:
        if isinstance(entry, dict):
            entry = [f"(?P<{name}>{pattern})" for name, pattern in entry.items()]
        text = entry if isinstance(entry, str) else f"(?:{'|'.join(entry)})"
        return re.sub(r"%(\w+)%", lambda named: source(phrases[named[1]]), text)

    return cache(lambda name: re.compile(source(phrases[name])))


_marker = pattern_compiler(_MARKERS)


def strip_reasoning(response: str) -> str:
    """Return a response without its reasoning: all that readers of answers and quantities look at.

    Reasoning stands between markers: brackets with a word such as `think` or `analysis` in them,
    channels, headings (`reasoning_markers.toml`). Blocks are removed wherever they stand. Where a
    block ends that was never opened, its opening stood in the prompt, and everything before its
    end is reasoning. A block that never ends was cut off: unfinished reasoning is never an answer,
    so it is removed to the end of the response. Takes time in proportion to the response's length.

    Examples:
        >>> strip_reasoning("<think>Yes? No.</think>No")
        'No'
        >>> strip_reasoning("It must be yes.</seed:think>No")
        'No'
        >>> strip_reasoning("<think>Yes</think><think>No, because")
        ''
    """
    kept: list[str] = []
    open_blocks: list[str] = []
    start = 0  # of the text that follows the last block
    for mark in _marker("marker").finditer(response):
        role, _, kind = str(mark.lastgroup).partition("_")
        if kind == "tag" and (word := _marker("word").search(mark[0])):
            kind = word[0].lower().replace("thought", "think")
        if role == "open":
            if not open_blocks:
                kept.append(response[start : mark.start()])
            if kind not in open_blocks:
                open_blocks.append(kind)
        elif role != "end" or kind in open_blocks:
            if not open_blocks:
                kept.clear()
            del open_blocks[open_blocks.index(kind) if kind in open_blocks else 0 :]
            start = mark.end()
    if not open_blocks:
        kept.append(response[start:])
    return "".join(kept)
