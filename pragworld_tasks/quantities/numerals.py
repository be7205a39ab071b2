"""Numbers in digits and words: `1,200.50`, `2.5k`, `three and a half`, `half a million`."""

import operator
import re
from collections.abc import Iterator
from typing import NamedTuple

from pragworld_tasks.quantities.plain_text import PlainText
from pragworld_tasks.quantities.wording import pattern, words

_ONES = {word: value for value, word in enumerate(words("ones_words"))}
_TENS = {word: 10 * index for index, word in enumerate(words("tens_words"), start=2)}
# Words and letters that multiply the number before them.
MULTIPLIERS = {
    **{"dozen": 12.0, "hundred": 1e2, "thousand": 1e3, "grand": 1e3, "lakh": 1e5, "k": 1e3},
    **{"million": 1e6, "mil": 1e6, "mln": 1e6, "mio": 1e6, "mm": 1e6, "mn": 1e6, "m": 1e6},
    **{"billion": 1e9, "bn": 1e9, "b": 1e9, "trillion": 1e12, "tn": 1e12},
}
_PARTS = {"half": 0.5, "quarter": 0.25, "third": 1 / 3}
_COUNTS = {"a": 1.0, "one": 1.0, "two": 2.0, "three": 3.0}
# What a number may begin with. Such places are found much faster than numbers are.
_FIRST_WORDS = {*_ONES, *_TENS, *_COUNTS, *_PARTS, "an", "couple", "quarters", "thirds"}
_GREATEST = 1e18  # above that, a row of digits is not a quantity


class Numeral(NamedTuple):
    """A number in a text: `text[start:end]`."""

    start: int
    end: int
    value: float  # multiplied by its scale
    scale: float  # the factor that `k`, `million` and the like stand for, 1 without any
    kind: str  # `digits`, `words`, `article` (the `an` of `an hour`), `part` (`half an`) or `clock`


def find_numerals(answer: PlainText, letters: bool = True) -> Iterator[Numeral]:
    """Yield the numbers in a text. With `letters`, `m` and `b` may mean millions and billions."""
    position, text = 0, answer.text
    starts = [(match.start(), pattern("digits")) for match in pattern("first_digit").finditer(text)]
    starts += [
        (start, pattern("spelled_number"))
        for start, word in zip(answer.starts, answer.words, strict=True)
        if word in _FIRST_WORDS
    ]
    for start, written in sorted(starts, key=operator.itemgetter(0)):
        match = written.match(text, start) if start >= position else None
        if not match:
            continue
        kind = match.lastgroup or "digits"
        value, scale, end = _value(match[0], kind), 1.0, match.end()
        while scaled := _scale_at(text, end, kind, letters):
            scale, end = scale * scaled[0], scaled[1]
        if text.startswith((" and ", " point "), end) and (
            kind in ("words", "digits") or scale > 1
        ):
            addition = 0.0
            if tail := pattern("and_a_part").match(text, end):
                addition = part_of(tail)
            elif kind == "words" and (tail := pattern("point").match(text, end)):
                addition = _ONES[tail[1]] / 10
            if tail:
                value, end = value + addition, tail.end()
                if scale == 1 and (scaled := _scale_at(text, end, kind, letters)):
                    scale, end = scaled
        position = end
        if kind == "couple" or (kind == "article" and scale > 1):
            kind = "words"
        if value * scale < _GREATEST:
            yield Numeral(start, end, value * scale, scale, kind)


def _scale_at(text: str, end: int, kind: str, letters: bool) -> tuple[float, int] | None:
    match = pattern("scale").match(text, end)
    if not match or (match["letter"] and (kind != "digits" or not (letters or match[0] == "k"))):
        return None
    return MULTIPLIERS[match["word"] or match["letter"]], match.end()


def part_of(match: re.Match[str]) -> float:
    """Return what a match of the pattern `and_a_part` adds: `and three quarters` adds 0.75."""
    return _COUNTS.get(match["count"] or "a", 1.0) * _PARTS[match["part"]]


def _value(written: str, kind: str) -> float:
    if kind == "digits":
        if "/" in written:
            above, below = written.split("/")
            *whole, above = above.replace("-", " ").split()
            return sum(map(float, whole)) + int(above) / int(below)
        if written.count(".") > 1:  # `1.234.567`
            written = written.replace(".", "")
        return float(written.replace(",", ""))
    in_words = pattern("word").findall(written)
    if kind == "part":
        part = next(word.rstrip("s") for word in in_words if word.rstrip("s") in _PARTS)
        return _COUNTS.get(in_words[0], 1.0) * _PARTS[part]
    return {"article": 1.0, "couple": 2.0}.get(kind) or _value_of_words(in_words)


def _value_of_words(in_words: list[str]) -> float:
    """Return the value of words: `two thousand five hundred and twenty one` is 2521."""
    total = current = 0.0
    for word in in_words:
        if word == "hundred":
            current = (current or 1) * 100
        elif word == "thousand":
            total, current = total + (current or 1) * 1000, 0
        else:
            current += _ONES.get(word, _TENS.get(word, 1 if word in ("a", "an") else 0))
    return total + current
