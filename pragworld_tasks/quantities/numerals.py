"""Numbers in digits and words: `1,200.50`, `2.5k`, `three and a half`, `half a million`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pragworld_tasks.quantities.patterns import ignoring_case

_ONE_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_ONES = {word: value for value, word in enumerate(_ONE_WORDS.split())}
_TEN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * index for index, word in enumerate(_TEN_WORDS.split(), start=2)}
# Words and letters that multiply the number before them.
_SCALE_WORDS = {
    **{"dozen": 12.0, "hundred": 1e2, "thousand": 1e3, "grand": 1e3, "lakh": 1e5},
    **{"million": 1e6, "mil": 1e6, "mln": 1e6, "mio": 1e6, "billion": 1e9, "trillion": 1e12},
}
_SCALE_LETTERS = {"k": 1e3, "m": 1e6, "mm": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9, "tn": 1e12}
SCALES = {**_SCALE_WORDS, **_SCALE_LETTERS}
_PARTS = {"half": 0.5, "quarter": 0.25, "third": 1 / 3}
_COUNTS = {"a": 1.0, "one": 1.0, "two": 2.0, "three": 3.0}

_TEN = "|".join(_TENS)
_ONE = "|".join(sorted(_ONES, key=len, reverse=True))
_SMALL = rf"(?:(?:{_TEN})(?:[ -](?:{_ONE}))?|(?:{_ONE}))"
_HUNDREDS = rf"(?:(?:{_SMALL}|an?) +hundred(?: +(?:and +)?{_SMALL})?|{_SMALL})"
_WORDED = rf"{_HUNDREDS}(?: +thousand +(?:and +)?{_HUNDREDS})?"
_SCALE_WORD = "|".join(sorted(_SCALE_WORDS, key=len, reverse=True))
# Numbers in digits: `1,234.5`, `1.234.567`, `1 1/2`, `1/2`, `12.5`, `.5`.
_DIGITS = (
    r"\d{1,3}(?:,\d{2,3}){0,5},\d{3}(?!\d)(?:\.\d+)?"
    r"|\d{1,3}(?:\.\d{3}){2,5}(?![\d.]*\d)"
    r"|\d{1,3}[ -][1-9]/[2-8](?![\d/])|[1-9]/[2-8](?![\d/])"
    r"|\d+(?:\.\d+)?|\.\d+"
)
_NUMERAL = ignoring_case(
    # No number starts within a word, a number or a path, except in `USD5` and `2h30`.
    rf"(?:(?<![\w.,/^_])|(?<=USD)|(?<=\dh))(?P<digits>{_DIGITS})"
    rf"|\b(?:(?P<part>(?:(?:an?|one|two|three)[ -])?(?:half|quarters?|thirds?)(?: +(?:of +)?an?)?)"
    r"|(?P<single>(?:an?|one) single)"
    r"|(?P<couple>(?:(?:a|one) +(?:couple|pair)(?: +of)?|couple +of))"
    rf"|(?P<words>{_WORDED})|(?P<article>an?))(?![\w'])"
)
_SCALE = ignoring_case(
    rf"[ -]?(?:(?P<word>{_SCALE_WORD})s?\b(?!-)|(?P<letter>k|mm|mn|m|bn|b|tn)(?![\w(]))"
)
AND_A_PART = ignoring_case(
    r" +and +(?:(?P<count>an?|one|two|three)[ -]+)?(?P<part>half|quarter|third)s?\b"
)
_GREATEST = 1e18  # above that, a row of digits is not a quantity
_POINT = ignoring_case(rf" +point +({_ONE})\b")


@dataclass(frozen=True)
class Numeral:
    """A number in a text.

    Attributes:
        start, end: Its place: the number is `text[start:end]`.
        value: Its value, multiplied by its scale.
        scale: The factor that `k`, `million` and the like stand for, 1 without any.
        kind: `digits`, `words`, `article` (the `an` of `an hour`) or `part` (`half an`).
    """

    start: int
    end: int
    value: float
    scale: float
    kind: str


def find_numerals(text: str, letters: bool = True) -> Iterator[Numeral]:
    """Yield the numbers in a text from left to right.

    Args:
        text: Plain text.
        letters: Whether `m` and `b` may mean millions and billions (and not minutes or metres).
    """
    position = 0
    while match := _NUMERAL.search(text, position):
        kind = match.lastgroup or "digits"
        value = _value(match[0], kind)
        end, scale = match.end(), 1.0
        while scaled := _scale_at(text, end, kind, letters):
            scale *= scaled[0]
            end = scaled[1]
        if kind in ("words", "digits") or scale > 1:
            if tail := AND_A_PART.match(text, end):
                value += part_of(tail)
                end = tail.end()
                if scale == 1 and (scaled := _scale_at(text, end, kind, letters)):
                    scale, end = scaled
            elif kind == "words" and (tail := _POINT.match(text, end)):
                value += _ONES[tail[1].lower()] / 10
                end = tail.end()
                if scaled := _scale_at(text, end, kind, letters):
                    scale, end = scaled
        position = end
        if kind in ("couple", "single") or (kind == "article" and scale > 1):
            kind = "words"
        if value * scale < _GREATEST:
            yield Numeral(match.start(), end, value * scale, scale, kind)


def _scale_at(text: str, end: int, kind: str, letters: bool) -> tuple[float, int] | None:
    """Return the scale at a place of a text and where it ends."""
    match = _SCALE.match(text, end)
    if not match:
        return None
    if match["word"]:
        return SCALES[match["word"].lower()], match.end()
    letter = match["letter"].lower()
    if kind != "digits" or (letter != "k" and not letters):
        return None
    return SCALES[letter], match.end()


def _value(written: str, kind: str) -> float:
    """Return the value of a match of a kind, without its scale."""
    if kind == "digits":
        return _value_of_digits(written)
    words = re.findall(r"[a-z]+", written.lower())
    if kind == "part":
        part = next(word.rstrip("s") for word in words if word.rstrip("s") in _PARTS)
        return _COUNTS.get(words[0], 1.0) * _PARTS[part]
    return {"article": 1.0, "single": 1.0, "couple": 2.0}.get(kind) or _value_of_words(words)


def part_of(match: re.Match[str]) -> float:
    """Return what a match of `AND_A_PART` adds: `and three quarters` adds 0.75."""
    return _COUNTS.get((match["count"] or "a").lower(), 1.0) * _PARTS[match["part"].lower()]


def _value_of_digits(written: str) -> float:
    """Return the value of digits: `1,234.5` is 1234.5, `1 1/2` is 1.5, `1.234.567` is 1234567."""
    if "/" in written:
        *whole, fraction = re.split(r"[ -]", written)
        above, below = fraction.split("/")
        return sum(map(float, whole)) + int(above) / int(below)
    if written.count(".") > 1:
        written = written.replace(".", "")
    return float(written.replace(",", ""))


def _value_of_words(words: list[str]) -> float:
    """Return the value of words: `two thousand five hundred and twenty one` is 2521."""
    total = current = 0.0
    for word in words:
        if word == "hundred":
            current = (current or 1) * 100
        elif word == "thousand":
            total, current = total + (current or 1) * 1000, 0
        else:
            current += _ONES.get(word, _TENS.get(word, 1 if word in ("a", "an") else 0))
    return total + current
