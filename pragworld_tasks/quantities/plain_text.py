"""Plain text of a response in Markdown, LaTeX or HTML, and the places that were bold or boxed."""

import bisect
import functools
import itertools
import re
import unicodedata
from dataclasses import dataclass

from pragworld_tasks.files import read_package_toml
from pragworld_tasks.text import strip_reasoning

TextSpan = tuple[int, int]

_LONGEST = 20_000  # characters that are read, from the end of an answer
_MARKUP = read_package_toml(__package__, "markup.toml")
_REPLACED: dict[str, str] = {
    sign: plain for plain, signs in _MARKUP["characters"].items() for sign in signs
}
_STEPS: dict[str, list[tuple[str, re.Pattern[str], str]]] = {
    name: [(sign, re.compile(found.replace("\n", "")), put) for sign, found, put in _MARKUP[name]]
    for name in ("first", "latex", "innermost", "last")
}
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_MARKS = re.compile("[¦«»]")
_IN_BOLD, _IN_BOX = re.compile("¦([^¦\n]*)[¦\n]"), re.compile("«([^«»]*)»")
_WORD = re.compile(r"([a-z]+(?:'[a-z]+)?|[≈~=+?%(])")


@dataclass(frozen=True)
class PlainText:
    """A response without markup."""

    text: str  # in lower case; headings keep their `#`, list items their bullet, rows their `|`
    bold: list[TextSpan]  # the places in `text` that were bold, in order
    boxed: list[TextSpan]  # those that were in a LaTeX box
    starts: list[int]  # of `words`
    words: list[str]  # and signs that say something


def to_plain_text(response: str) -> PlainText:
    """Return a response's answer without reasoning and markup. Bold ends with its line."""
    text = _after("first", strip_reasoning(response)[-_LONGEST:])
    text = _NOT_ASCII.sub(lambda match: _plain_character(match[0]), text)
    for steps in ("latex", *["innermost"] * 4, "last"):
        text = _after(steps, text)
    marks = [mark.start() for mark in _MARKS.finditer(text)]

    def marked(pattern: re.Pattern[str]) -> list[TextSpan]:
        spans = [match.span(1) for match in pattern.finditer(text)]
        spans = [
            (at - bisect.bisect_left(marks, at), to - bisect.bisect_left(marks, to))
            for at, to in spans
        ]
        return [span for span in spans if span[0] < span[1]]

    plain = _MARKS.sub("", text).lower()
    pieces = _WORD.split(plain)  # every second one is a word
    starts = list(itertools.accumulate(map(len, pieces)))[:-1:2]
    return PlainText(plain, marked(_IN_BOLD), marked(_IN_BOX), starts, pieces[1::2])


def _after(steps: str, text: str) -> str:
    """Return a text after some steps of `markup.toml`."""
    for sign, found, put in _STEPS[steps]:
        if sign in text:
            text = found.sub(put, text)
    return text


@functools.lru_cache(maxsize=1 << 12)
def _plain_character(sign: str) -> str:
    """Return a character that is not ASCII in the form that the steps expect."""
    if sign in _REPLACED:
        return _REPLACED[sign]
    kind, plain = unicodedata.category(sign), unicodedata.normalize("NFKC", sign)
    if kind == "No":  # `2³` is a power, and 1½ is not 11/2
        plain = ("^" if "<super>" in unicodedata.decomposition(sign) else " ") + plain
    return "" if kind == "Cf" else plain.replace("\N{FRACTION SLASH}", "/")
