"""Numbers in digits and in words: `1,200.50`, `2.5k`, `three and a half`, `half a million`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Words for numbers below a hundred.
_ONES = {
    **{"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7},
    **{"eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13},
    **{"fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18},
    **{"nineteen": 19},
}
_TENS = {
    **{"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70},
    **{"eighty": 80, "ninety": 90},
}
# Words and letters that multiply what stands before them.
_SCALE_WORDS = {
    **{"dozen": 12.0, "hundred": 1e2, "thousand": 1e3, "grand": 1e3, "lakh": 1e5},
    **{"million": 1e6, "mil": 1e6, "mln": 1e6, "mio": 1e6, "billion": 1e9, "trillion": 1e12},
}
_SCALE_LETTERS = {"k": 1e3, "m": 1e6, "mm": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9, "tn": 1e12}
_PARTS = {"half": 0.5, "quarter": 0.25, "third": 1 / 3}
_COUNTS = {"a": 1.0, "one": 1.0, "two": 2.0, "three": 3.0}

_TEN = "|".join(_TENS)
_ONE = "|".join(sorted(_ONES, key=len, reverse=True))
_SMALL = rf"(?:(?:{_TEN})(?:[ -](?:{_ONE}))?|(?:{_ONE}))"
_HUNDREDS = rf"(?:(?:{_SMALL}|an?) +hundred(?: +(?:and +)?{_SMALL})?|{_SMALL})"
_WORDED = rf"{_HUNDREDS}(?: +thousand +(?:and +)?{_HUNDREDS})?"
_SCALE_WORD = "|".join(sorted(_SCALE_WORDS, key=len, reverse=True))
# Of digits: `1,234.5`, `1.234.567`, `1 1/2`, `1/2`, `12.5`, `.5`.
_DIGITS = (
    r"\d{1,3}(?:,\d{2,3}){0,5},\d{3}(?!\d)(?:\.\d+)?"
    r"|\d{1,3}(?:\.\d{3}){2,5}(?![\d.]*\d)"
    r"|\d{1,3}[ -][1-9]/[2-8](?![\d/])|[1-9]/[2-8](?![\d/])"
    r"|\d+(?:\.\d+)?|\.\d+"
)
_NUMERAL = re.compile(
    # Not within a word, a number or a path; `USD5` and `2h30` are numbers all the same.
    rf"(?:(?<![\w.,/^_])|(?<=USD)|(?<=\dh))(?P<digits>{_DIGITS})"
    rf"|\b(?:(?P<part>(?:(?:an?|one|two|three)[ -])?(?:half|quarters?|thirds?)(?: +(?:of +)?an?)?)"
    r"|(?P<single>(?:an?|one) single)"
    r"|(?P<couple>(?:(?:a|one) +(?:couple|pair)(?: +of)?|couple +of))"
    rf"|(?P<words>{_WORDED})|(?P<article>an?))(?![\w'])",
    re.IGNORECASE,
)
_SCALE = re.compile(
    rf"[ -]?(?:(?P<word>{_SCALE_WORD})s?\b(?!-)|(?P<letter>k|mm|mn|m|bn|b|tn)(?![\w(]))",
    re.IGNORECASE,
)
AND_A_PART = re.compile(
    r" +and +(?:(?P<count>an?|one|two|three)[ -]+)?(?P<part>half|quarter|third)s?\b", re.IGNORECASE
)
_GREATEST = 1e18  # what is greater is no quantity, but a row of digits
_POINT = re.compile(rf" +point +({_ONE})\b", re.IGNORECASE)


@dataclass(frozen=True)
class Numeral:
    """A number in a text, at text[start:end].

    Attributes:
        value: with its scale.
        scale: what `k`, `million` and the like multiplied it by; 1 without.
        kind: `digits`, `words`, `article` (the `an` of `an hour`) or `part` (`half an`).
    """

    start: int
    end: int
    value: float
    scale: float
    kind: str


def numerals(text: str, letters: bool = True) -> Iterator[Numeral]:
    """The numbers in a text from left to right.

    Args:
        text: plain text.
        letters: whether `m` and `b` may mean millions and billions (and not minutes or metres).
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
    """The scale that stands at a place and where it ends."""
    match = _SCALE.match(text, end)
    if not match:
        return None
    if match["word"]:
        return _SCALE_WORDS[match["word"].lower()], match.end()
    letter = match["letter"].lower()
    if kind != "digits" or (letter != "k" and not letters):
        return None
    return _SCALE_LETTERS[letter], match.end()


def _value(written: str, kind: str) -> float:
    """The number that a match stands for, without its scale."""
    if kind == "digits":
        return _of_digits(written)
    words = re.findall(r"[a-z]+", written.lower())
    if kind == "part":
        part = next(word.rstrip("s") for word in words if word.rstrip("s") in _PARTS)
        return _COUNTS.get(words[0], 1.0) * _PARTS[part]
    return {"article": 1.0, "single": 1.0, "couple": 2.0}.get(kind) or _of_words(words)


def part_of(match: re.Match[str]) -> float:
    """What `and a half` or `and three quarters` adds."""
    return _COUNTS.get((match["count"] or "a").lower(), 1.0) * _PARTS[match["part"].lower()]


def _of_digits(written: str) -> float:
    """`1,234.5` is 1234.5, `1 1/2` is 1.5, `1.234.567` is 1234567."""
    if "/" in written:
        *whole, fraction = re.split(r"[ -]", written)
        above, below = fraction.split("/")
        return sum(map(float, whole)) + int(above) / int(below)
    if written.count(".") > 1:
        written = written.replace(".", "")
    return float(written.replace(",", ""))


def _of_words(words: list[str]) -> float:
    """`two thousand five hundred and twenty one` is 2521."""
    total = current = 0.0
    for word in words:
        if word == "hundred":
            current = (current or 1) * 100
        elif word == "thousand":
            total, current = total + (current or 1) * 1000, 0
        else:
            current += _ONES.get(word, _TENS.get(word, 1 if word in ("a", "an") else 0))
    return total + current
