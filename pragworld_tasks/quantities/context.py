"""What stands around a quantity: the words before and behind it, its labels; and its question."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pragworld_tasks.quantities.layout import Layout, Place
from pragworld_tasks.quantities.mentions import Mention, mentions
from pragworld_tasks.quantities.numerals import numerals
from pragworld_tasks.quantities.plain import plain
from pragworld_tasks.quantities.tables import vocabulary
from pragworld_tasks.quantities.units import Asked, asked

# Characters that are looked at, and that may lie between lines.
_LONGEST_LEAD, _LONGEST_TAIL, _LONGEST_OPENING, _LONGEST_GAP = 200, 120, 40, 10
# Where the words about the quantity before end and those about this one begin.
_NEXT_CLAUSE = re.compile(r"[,;:—(]|\b(?:and|but|so|while|then)\b")
# Where the words about this one end.
_CLAUSE_ENDS = re.compile(
    r"[;(—]|\. (?=[A-Z])|, ?(?=but|and|while|though|although|so|which|as|since)"
)
# A clause about something that was only just named: `…, which typically costs …`.
_RELATIVE = re.compile(
    r"(?<=,)(?= (?:which|who|whose|where) (?!(?:\w+ ){0,2}(?:means?|gives?|works?|is|was|adds?|"
    r"comes?|brings?|makes?|equals?|translates?|leaves?|amounts?|results?|be|turns?|totals?|"
    r"takes us|puts?|lands?)\b))"
)
_EQUATION_GOES_ON = re.compile(r"[^a-z]{0,4}[=+*÷≈]")
_SPAN = 0.05  # relative difference of times that are one: a month and 30 days
_WORD = re.compile(r"[a-z]{3,40}")
_STEM = 5  # letters by which words are compared: `estimate` and `estimating`
_NO_TOPIC = {
    word[:_STEM]
    for word in vocabulary(
        "what would could should have with that this your from about much many more likely expect "
        "into they them will been using over each some take long make kind sort need help know "
        "want like give tell think please estimate roughly approximately anticipated around "
        "planning going based when where which there their just well does money amount number "
        "currently morning next worse the and for how can day get per san any one not you are our "
        "has may lot mind"
    )
}
HORIZON = re.compile(
    r"\b(?:over|in|within|during|across)(?: \w+){0,4}? "
    r"(?:\d+|two|three|five|ten|twenty)[- ]years?\b"
    r"|\b(?:decade|(?:\d+|five|ten|twenty)-year)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Question:
    """What was asked.

    Attributes:
        wanted: the unit asked for.
        inputs: quantities of that unit in the prompt.
        numbers: all numbers in the prompt.
        topic: stems of its words.
        days: how long the spans of time are that it names, in days.
        horizon: whether it asks for a sum over several years, and not for a rate.
    """

    wanted: Asked
    inputs: Sequence[Mention]
    numbers: frozenset[float]
    topic: frozenset[str]
    days: Sequence[float]
    horizon: bool

    @classmethod
    def of(cls, wanted: Asked, prompt: str) -> "Question":
        """Out of a prompt."""
        text = plain(prompt).text
        return cls(
            wanted,
            mentions(text, wanted),
            frozenset(one.value for one in numerals(text) if one.kind in ("digits", "words")),
            stems(text) - _NO_TOPIC,
            [one.low for one in mentions(text, asked("day")) if one.size],
            wanted.per is None and bool(HORIZON.search(text)),
        )

    def spans(self, per: str) -> bool:
        """Whether a quantity per some time is the whole of what was asked for: as long a time."""
        days = self.wanted.days(per)
        return days is not None and any(abs(days - one) <= _SPAN * one for one in self.days)

    def repeats(self, mention: Mention) -> bool:
        """Whether a quantity only repeats what the prompt says."""
        if mention.size is None:
            return mention.low == mention.high and mention.low in self.numbers
        return any(
            one.size and one.low == mention.low and one.high == mention.high for one in self.inputs
        )


@dataclass(frozen=True)
class Context:
    """The words around a quantity.

    Attributes:
        lead: of its sentence, up to it; from where they are about it and no other quantity.
        opening: of its sentence.
        tail: behind it, as far as its clause goes; rest: as far as its sentence goes.
        label, column: of its item or row, and its column.
        size: of the last unit that was named before it in its line.
        heading: of its section; intro: the line with a colon that announces its list or line.
    """

    lead: str
    opening: str
    tail: str
    rest: str
    label: str
    column: str
    heading: str
    intro: str
    size: float | None


def stems(text: str) -> frozenset[str]:
    """The words of a text, cut to what related words share."""
    return frozenset(word[:_STEM] for word in _WORD.findall(text.lower()))


def contexts(
    text: str, layout: Layout, quantities: Sequence[Mention], question: Question
) -> list[tuple[Mention, Place, Context]]:
    """The places and contexts of quantities; those in a list's numbering are left out."""
    found = []
    before: Mention | None = None  # the last one that what is said before it is about
    last: Mention | None = None  # the last one with a unit
    starts = [one.start for one in quantities if one.size]
    nexts = iter([*starts[1:], len(text)])
    following = starts[0] if starts else len(text)
    for one in quantities:
        while following <= one.start and following < len(text):
            following = next(nexts, len(text))
        place = layout.place(one.start, one.end)
        if place.line.start <= one.start < place.line.end:
            context = _context(text, one, place, before, last, following)
            found.append((one, place, context))
        last = one if one.size else last
        leads_on = question.repeats(one) or question.wanted.rate(one.per) is None
        leads_on = leads_on or (question.horizon and one.per is not None)
        if one.size and not leads_on and not _EQUATION_GOES_ON.match(text, one.end):
            before = one
    return found


def _context(
    text: str,
    one: Mention,
    place: Place,
    before: Mention | None,
    last: Mention | None,
    following: int,
) -> Context:
    """The context of one quantity."""
    line = place.line
    start = place.start
    if before and start < before.end <= one.start:
        clause = _NEXT_CLAUSE.search(text, before.end, one.start)
        start = clause.start() if clause else before.end
    bracket = text.rfind("(", max(start, one.start - _LONGEST_LEAD), one.start)
    bracketed = bracket > text.rfind(")", start, one.start)
    if bracketed:  # what is said outside is about something else
        start = bracket
    lead = _RELATIVE.split(text[start : one.start][-_LONGEST_LEAD:])[-1]
    announced = line.start - len(line.intro) - _LONGEST_GAP  # an intro with a quantity is no lead
    if (
        place.start == line.start
        and line.kind == "text"
        and line.intro
        and not place.label
        and (before is None or before.end < announced)
    ):
        lead = f"{line.intro[-_LONGEST_LEAD:]} {lead}"
    elif place.start > line.start and not lead.strip(" ~≈"):
        said = text[line.start : place.start].rstrip()[-_LONGEST_LEAD:]
        lead = f"{said} {lead}" if said.endswith("?") else lead
    tail = text[one.end : max(one.end, min(following, place.end))][:_LONGEST_TAIL]
    return Context(
        lead,
        text[place.start : min(place.start + _LONGEST_OPENING, one.start)],
        _CLAUSE_ENDS.split(tail, maxsplit=1)[0],
        text[one.end : place.end][:_LONGEST_LEAD],
        "" if bracketed else place.label[:_LONGEST_LEAD],
        place.column[:_LONGEST_LEAD],
        line.section[:_LONGEST_LEAD],
        line.intro[-_LONGEST_LEAD:] if line.kind != "text" else "",
        last.size if last and last.start >= line.start else None,
    )
