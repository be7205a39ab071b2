"""Plain text of a response in markdown, LaTeX or HTML, and the places that were bold or boxed.

Every pattern is bounded or reads each character once, so that no text takes long. Most patterns
begin with a character of markup, which `re` finds quickly, or are tried only where one occurs.
"""

import bisect
import functools
import itertools
import re
import unicodedata
from dataclasses import dataclass

from pragworld_tasks.evaluation.reasoning import strip_reasoning

Span = tuple[int, int]

_LONGEST = 20_000  # characters that are read, from the end of an answer

# Marks that replace bold and boxes until the other markup is removed: control characters.
_BOLD, _BOX_OPENS, _BOX_ENDS, _CURRENCY = "\x80", "\x81", "\x82", "\x83"

_TIMES = "\N{MULTIPLICATION SIGN}"  # becomes an asterisk at the end, when none is markup

# Replacements of characters; others are normalized for Unicode compatibility.
_REPLACED = {
    **dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", (f"^{digit}" for digit in "0123456789"), strict=True)),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),  # hyphens, dashes to en dash, minus
    **dict.fromkeys("\u2018\u2019\u02bc", "'"),
    **dict.fromkeys("\u201c\u201d\u2033", '"'),
    **dict.fromkeys("\u223c\u2243\u2245", "≈"),
    **dict.fromkeys(("™", "®"), ""),
    "\N{HORIZONTAL BAR}": "—",
    "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}": "i",  # it alone would be two in lower case
}
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SPACED_THOUSANDS = re.compile(r"[\u00a0\u2009\u202f'\u2019](?=\d{3}(?!\d))(?<=\d.)")
_KEYCAP = re.compile(r"(\d)\ufe0f?\u20e3")

# LaTeX, innermost braces first. The length of a command's argument is bounded.
_IN_BRACES = r"\s{0,3}\{([^{}]{0,400})\}"
_DEPTH = 4
_LATEX_INNERMOST = (
    (re.compile(r"\\[dtc]?frac\{(\d)\}\{(\d)\}"), r" \1/\2"),
    (re.compile(rf"\\[dtc]?frac{_IN_BRACES}{_IN_BRACES}"), r"(\1) / (\2)"),
    (re.compile(rf"\\(?:boxed|fbox){_IN_BRACES}"), rf"{_BOX_OPENS}\1{_BOX_ENDS}"),
    (re.compile(rf"\\(?:textbf|mathbf|bm|boldsymbol){_IN_BRACES}"), rf"{_BOLD}\1{_BOLD}"),
    (re.compile(rf"\\(?:begin|end){_IN_BRACES}"), " "),
    (re.compile(rf"\\[a-zA-Z]{{2,16}}{_IN_BRACES}"), r"\1"),
    (re.compile(rf"([\^_]){_IN_BRACES}"), r"\1\2"),
)
_LATEX_SYMBOLS = {
    **{"times": _TIMES, "cdot": _TIMES, "div": "÷", "approx": "≈", "sim": "≈", "simeq": "≈"},
    **{"rightarrow": "→", "Rightarrow": "→", "implies": "→", "to": "→", "pm": "±", "le": "≤"},
    **{"leq": "≤", "ge": "≥", "geq": "≥", "therefore": "therefore", "quad": " ", "dots": "..."},
}
_LATEX_COMMAND = re.compile(r"\\([a-zA-Z]{1,20})")
_LATEX_ESCAPED = re.compile(r"\\([%&#_{}*~|.)\]\[(+-])")
_LATEX_SPACE = re.compile(r"\\[,;:! ]|(?<=\d)~(?=[a-zA-Z\\])")
_DISPLAY_MATH = re.compile(r"\$\$|\\\[(?!\d)|\\\]")
# `$…$` is mathematics if no digit follows and no space pads it (pandoc's rule), and if it holds a
# formula or one short term. Otherwise `$` means dollars.
_INLINE_MATH = re.compile(r"\$(?<![\w$\\]\$)(?=\S)([^$\n]{1,300})(?<=\S)\$(?![\w$])")
_FORMULA = re.compile(rf"[\\=^_{{}}+{_TIMES}≈<>]|^-?{_CURRENCY}?[\w.,%/]{{1,20}}$")

# Markdown and HTML.
_LINK = re.compile(r"\[([^\[\]\n]{0,200})\]\([^()\n]{0,300}\)")
_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s)|]{1,300}")
_LINE_BREAK = re.compile(r"<(?:br|p|/p|/li|/tr|/h\d)\s{0,3}/?>", re.IGNORECASE)
_BOLD_TAG = re.compile(r"</?(?:b|strong)>")
_BOLD_UNDERSCORES = re.compile(r"__(?<!\w__)(?=\S)|__(?<=\S__)(?!\w)")
_OTHER_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]{0,12}(?:\s[^<>\n]{0,100})?/?>")
_STAR_TIMES = re.compile(r"\*(?:(?<=[\d)]\*)|(?<=[\d)] \*))[ \t]{0,3}(?=[\d($\x83])")
_STARS = re.compile(r"\*(?=[^\s*])|\*(?<=[^\s*]\*)")
_UNDERSCORE = re.compile(r"_(?:(?<!\w_)(?=\w)|(?<=\w_)(?!\w))")
_QUOTED_LINE = re.compile(r"^[ \t]{0,8}>[ \t]?", re.MULTILINE)
_ISH = re.compile(r"-?ish\b(?:(?<=\dish)|(?<=-ish))", re.IGNORECASE)
_BLANKS = re.compile(r"  (?<=\S  ) *")
_WRAPPED_LINE = re.compile(r"\n(?=[a-z]{2})(?<=[a-z\d,]\n)")
_WORD = re.compile(r"([a-z]+(?:'[a-z]+)?|[≈~=+?%(])")
_MARKS = re.compile(f"[{_BOLD}{_BOX_OPENS}{_BOX_ENDS}]")
_IN_BOLD = re.compile(f"{_BOLD}([^{_BOLD}\n]*)[{_BOLD}\n]")
_IN_BOX = re.compile(f"{_BOX_OPENS}([^{_BOX_OPENS}{_BOX_ENDS}]*){_BOX_ENDS}")


@dataclass(frozen=True)
class PlainText:
    """A response without markup."""

    text: str  # in lower case; headings keep their `#`, list items their bullet, rows their `|`
    bold: list[Span]  # the places in `text` that were bold, in order
    boxed: list[Span]  # those that were in a LaTeX box
    starts: list[int]  # of `words`
    words: list[str]  # and signs that say something


def to_plain_text(response: str) -> PlainText:
    """Return a response's answer without reasoning and markup."""
    text = _SPACED_THOUSANDS.sub(",", strip_reasoning(response)[-_LONGEST:]).replace("\r", "\n")
    if not text.isascii():
        text = _KEYCAP.sub(r"\n\1. ", text) if "\u20e3" in text else text
        text = _NOT_ASCII.sub(lambda match: _simplified(match[0]), text)
    return _unmarked(_without_markdown(_without_latex(text)))


@functools.lru_cache(maxsize=1 << 12)
def _simplified(sign: str) -> str:
    """Return a character that is not ASCII in the form that the other patterns expect."""
    if sign in _REPLACED or sign <= _CURRENCY:  # a mark
        return _REPLACED.get(sign, "")
    # A blank before a fraction keeps 1½ from becoming 11/2.
    blank = " " if unicodedata.category(sign) == "No" else ""
    normal = blank + unicodedata.normalize("NFKC", sign).replace("\N{FRACTION SLASH}", "/")
    return "" if unicodedata.category(sign) == "Cf" else normal


def _without_latex(text: str) -> str:
    r"""Return a text with LaTeX as plain characters, but `\boxed` and `\textbf` as marks."""
    if "\\" in text:
        text = text.replace("\\$", _CURRENCY).replace("\\\\", "\n")
        text = _LATEX_SPACE.sub(" ", text)
    text = text.replace("{,}", ",").replace("{.}", ".")
    text = _DISPLAY_MATH.sub("\n", text) if "\\" in text or "$$" in text else text
    text = _INLINE_MATH.sub(lambda match: match[1] if _FORMULA.search(match[1]) else match[0], text)
    if "\\" in text:
        text = text.replace("\\(", "").replace("\\)", "")
        text = text.replace("\\left", "").replace("\\right)", ")").replace("\\right]", "]")
        for _ in range(_DEPTH):
            for pattern, plain_form in _LATEX_INNERMOST if "{" in text else ():
                text = pattern.sub(plain_form, text)
        text = _LATEX_ESCAPED.sub(r"\1", text)
        text = _LATEX_COMMAND.sub(lambda match: f" {_LATEX_SYMBOLS.get(match[1], '')} ", text)
    return text.replace("{", "").replace("}", "").replace(_CURRENCY, "$").replace("&=", "=")


def _without_markdown(text: str) -> str:
    """Return a text with links as their words, without emphasis, and with bold as marks."""
    text = _LINK.sub(r"\1", text).replace("`", "").replace("~~", "")
    text = _ADDRESS.sub(" ", text) if "http" in text or "www." in text else text
    if "<" in text:
        text = _LINE_BREAK.sub("; " if "|" in text else "\n", text)
        text = _OTHER_TAG.sub("", _BOLD_TAG.sub(_BOLD, text))
    if "*" in text:
        text = _STAR_TIMES.sub(f" {_TIMES} ", text)
        text = _STARS.sub("", text.replace("***", _BOLD).replace("**", _BOLD))
    if "_" in text:
        text = _UNDERSCORE.sub("", _BOLD_UNDERSCORES.sub(_BOLD, text))
    if ">" in text:
        text = _QUOTED_LINE.sub("", text)
    text = _ISH.sub("", text) if "ish" in text else text
    return _WRAPPED_LINE.sub(" ", _BLANKS.sub(" ", text.replace("\t", "  ").replace(" \n", "\n")))


def _unmarked(text: str) -> PlainText:
    """Return a text without marks, and the places between them. Bold ends with its line."""
    marks = [mark.start() for mark in _MARKS.finditer(text)]

    def marked(pattern: re.Pattern[str]) -> list[Span]:
        spans = [match.span(1) for match in pattern.finditer(text)]
        spans = [
            (at - bisect.bisect_left(marks, at), to - bisect.bisect_left(marks, to))
            for at, to in spans
        ]
        return [span for span in spans if span[0] < span[1]]

    plain = text.replace(_BOLD, "").replace(_BOX_OPENS, "").replace(_BOX_ENDS, "")
    plain = plain.replace(_TIMES, "*").lower()
    pieces = _WORD.split(plain)  # every second one is a word
    starts = list(itertools.accumulate(map(len, pieces)))[:-1:2]
    return PlainText(plain, marked(_IN_BOLD), marked(_IN_BOX), starts, pieces[1::2])
