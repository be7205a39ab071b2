"""What models put around a text that they are asked for: fences, bold, quotes, prefaces, notes.

`unwrap` removes it where it can be told from the text, and `find_wrapping` finds what is left, so
that no wrapped text is taken for a paraphrase. Whatever the base prompt has itself is part of the
text.
"""

import re

from pragworld_tasks.sensitivity.languages import TRANSLATION_WORDS
from pragworld_tasks.sensitivity.open_questions import slot_of

_PAIRS = {
    **{"***": "***", "**": "**", "__": "__", "*": "*", "_": "_", "`": "`", "[": "]"},
    **{'"': '"', "'": "'", "\u201c": "\u201d", "\u201e": "\u201c", "\u2018": "\u2019"},
    **{"\u00ab": "\u00bb", "\u300c": "\u300d"},
}
_APOSTROPHE = re.compile(r"(?<=[\w}])['\u2019](?=[\w\s])")
_FENCE = re.compile(r"```(?:[\w-]*\n)?(.*?)(?:```|\Z)", re.DOTALL)
_TAG = re.compile(r"<(\w+)>(.*)</\1>", re.DOTALL)
_LIST_MARK = re.compile(r"(?:>|#+|[-*\u2022]|1[.)])\s+")

# Words with which a model speaks of its text. A prompt may ask how "that translates into dollars".
_ABOUT_TEXT = (
    r"\b(?:translat(?:ion|ed|or)|paraphras|re-?phras|re-?word(?:ed|ing)|rewritten|placeholder)|"
    + "|".join(TRANSLATION_WORDS.values())
)
_SPEAKS_OF_TEXT = re.compile(_ABOUT_TEXT, re.IGNORECASE)
_NAMES = "|".join(
    [
        "English",
        "question",
        "prompt",
        "text",
        "answer",
        "output",
        "response",
        "final",
        r"(?:option|version) \w+",
    ]
)
_PREFACES = (
    # "Sure! Here is the translation:", "**Translation (English):**", "In English, that would be:"
    rf"[^\n{{}}?]{{0,120}}?(?:{_ABOUT_TEXT}|here you (?:go|are)|here it is"
    r"|\bin english\b|\benglish version\b)"
    r"[^\n{}?:\uff1a]{0,60}[:\uff1a]",
    # "Here is a question that you could ask:", unlike "Here's my situation:"
    r"\W*here(?:'s|\u2019s| is| are) (?:an?|the|your|one|another) [^\n{}?:\uff1a]{0,40}"
    r"\b(?:question|prompt|request|text|sentence|message|answer|way)\b[^\n{}?:\uff1a]{0,60}[:\uff1a]",
    rf"\W*(?:in )?(?:{_NAMES}|{'|'.join(TRANSLATION_WORDS)})\W{{0,3}}[:\uff1a]",
    r"(?:sure(?: thing)?|certainly|of course|absolutely|gladly|no problem|understood|got it)[!.]"
    r"(?=\s|\Z)",
)
_PREFACE = re.compile(
    rf"(?P<mark>[*_]*)(?![*_\"'`\u201c])(?:{'|'.join(_PREFACES)})(?P=mark)\s*", re.IGNORECASE
)
_NOTE = re.compile(
    r"[(\[\uff08*_]|-{3}|\W*(?:notes?|n\.b\.|p\.s\.)\W|(?:please )?let me know\b|(?:i )?hope\b|"
    r"feel free\b|if you\b|would you like\b",
    re.IGNORECASE,
)
_NOTE_AT_END = re.compile(
    rf"\s*[(\[](?:note\b|[^()\[\]]*(?:{_ABOUT_TEXT}))[^()\[\]]*[)\]]\Z", re.IGNORECASE
)
_FORMATTING = re.compile(
    r"\*|`|__|</?\w+>|\A\W*[\"'\u201c\u201e\u2018\u00ab\u300c]|[\"\u201d\u00bb\u300d]\W*\Z"
)


def unwrap(reply: str, prompt: str) -> str:
    r"""Return the text of a reply, without what its model put around it.

    It removes code fences and tags, formatting and quotation marks around the whole text, prefaces
    and notes. A reply in which the text cannot be told from the rest is returned with that rest.

    Examples:
        >>> unwrap("Here is the translation:\n\n**How far is {city}?**", "Is {city} far?")
        'How far is {city}?'

    Args:
        reply: A reply that should be a text in any language.
        prompt: The base prompt, in English, of which the text is a wording.
    """
    text = reply.strip()
    while (inner := _unwrap_once(text, prompt)) != text:
        text = inner
    return text


def find_wrapping(text: str, prompt: str) -> str | None:
    """Return what is around or in a text that is not part of it; None if nothing is."""
    if unwrap(text, prompt) != text.strip() or _found(_SPEAKS_OF_TEXT, text, prompt):
        return "a preface, a note or marks around the text"
    return "formatting or quotation marks" if _found(_FORMATTING, text, prompt) else None


def _unwrap_once(text: str, prompt: str) -> str:
    """Return a text without the outermost layer of what is around it."""
    slot = slot_of(prompt)
    fence = _FENCE.search(text)
    if fence and slot in fence[1] and "```" not in prompt:
        return fence[1].strip()
    for opening, closing in _PAIRS.items():
        inner = text[len(opening) : -len(closing)]
        rest = _APOSTROPHE.sub("", inner)
        if (
            inner
            and (text.startswith(opening) and text.endswith(closing))
            and not (opening in rest or closing in rest or prompt.startswith(opening))
        ):
            return inner.strip()
    if (tag := _TAG.fullmatch(text)) and not _TAG.match(prompt):
        return tag[2].strip()
    if (line := _without_other_lines(text, slot)) != text:
        return line
    for mark in (_LIST_MARK, _PREFACE):
        if (found := mark.match(text)) and text[found.end() :] and not mark.match(prompt):
            return text[found.end() :].strip()
    return text if _NOTE_AT_END.search(prompt) else _NOTE_AT_END.sub("", text)


def _without_other_lines(text: str, slot: str) -> str:
    """Return a text without the lines before and after the one with the slot, if they are known."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]

    def has_slot(some: list[str]) -> bool:
        return any(slot in line for line in some)

    while has_slot(lines[1:]) and not has_slot(lines[:1]) and _is_before(lines[0]):
        del lines[0]
    while has_slot(lines[:-1]) and _is_after(lines[-1], slot):
        del lines[-1]
    return "\n".join(lines) if len(lines) == 1 else text


def _is_before(line: str) -> bool:
    """Return whether a line stands before a text: a heading, a preface, or what a colon ends."""
    return bool(
        line.startswith(("#", "**", "---"))
        or line.rstrip("*_ ").endswith((":", "\uff1a"))
        or _PREFACE.fullmatch(line)
        or _SPEAKS_OF_TEXT.search(line)
    )


def _is_after(line: str, slot: str) -> bool:
    """Return whether a line stands after a text: a note, perhaps on the slot."""
    return bool(_NOTE.match(line) or (slot not in line and _SPEAKS_OF_TEXT.search(line)))


def _found(pattern: re.Pattern[str], text: str, prompt: str) -> bool:
    return bool(pattern.search(text)) and not pattern.search(prompt)
