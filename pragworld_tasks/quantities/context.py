"""The context of a quantity, its labels and the words around it, and the target of a prompt."""

import bisect
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pragworld_tasks.quantities.layout import Layout, Place
from pragworld_tasks.quantities.mentions import QuantityMention, find_quantities
from pragworld_tasks.quantities.numerals import find_numerals
from pragworld_tasks.quantities.patterns import pattern, vocabulary
from pragworld_tasks.quantities.plain_text import to_plain_text
from pragworld_tasks.quantities.units import TargetUnit, parse_unit, period_in_days

# Characters of each part of a context, and between two lines.
_LONGEST_LEAD, _LONGEST_TAIL, _LONGEST_OPENING, _LONGEST_GAP = 200, 120, 40, 10
# Where the words about the previous quantity end and those about this one begin.
_NEXT_CLAUSE = re.compile(r"[,;:—(]|\b(?:and|but|so|while|then)\b")
# Where the words about this one end.
_CLAUSE_ENDS = pattern("clause_ends")
_EQUATION_GOES_ON = re.compile(r"[^a-z]{0,4}[=+*÷≈]")
_SPAN = 0.05  # relative difference of equal spans of time: a month and 30 days
_WORD = re.compile(r"[a-z]{3,40}")
_STEM = 5  # letters by which related words are compared: `estimate` and `estimating`
_NO_TOPIC = {word[:_STEM] for word in vocabulary("no_topic")}
HORIZON = pattern("horizon")


@dataclass(frozen=True)
class QuantityTarget:
    """The quantity that a prompt asks for.

    Attributes:
        unit: The unit in which the value is returned.
        inputs: The quantities in the prompt that can be converted into that unit.
        numbers: All numbers in the prompt.
        topic: The stems of the prompt's words.
        days: The lengths in days of the spans of time in the prompt.
        horizon: Whether the prompt asks for a sum over several years, not for a rate.
    """

    unit: TargetUnit
    inputs: Sequence[QuantityMention]
    numbers: frozenset[float]
    topic: frozenset[str]
    days: Sequence[float]
    horizon: bool

    def spans(self, per: str) -> bool:
        """Return whether a quantity per some time is the whole target, being per its whole span."""
        length = period_in_days(per)
        return length is not None and any(abs(length - days) <= _SPAN * days for days in self.days)

    def repeats(self, mention: QuantityMention) -> bool:
        """Return whether a quantity only repeats one of the prompt."""
        if mention.size is None:
            return mention.low == mention.high and mention.low in self.numbers
        return any(
            given.size and given.low == mention.low and given.high == mention.high
            for given in self.inputs
        )


@functools.lru_cache(maxsize=1024)
def read_target(unit: str, prompt: str) -> QuantityTarget:
    """Return the target of a prompt and a unit, cached because prompts are answered many times.

    Raises:
        InputError: `unit` is not a unit.
    """
    text, target_unit = to_plain_text(prompt).text, parse_unit(unit)
    return QuantityTarget(
        unit=target_unit,
        inputs=find_quantities(text, target_unit),
        numbers=frozenset(
            number.value for number in find_numerals(text) if number.kind in ("digits", "words")
        ),
        topic=stems(text) - _NO_TOPIC,
        days=[span.low for span in find_quantities(text, parse_unit("day")) if span.size],
        horizon=target_unit.per is None and bool(HORIZON.search(text)),
    )


@dataclass(frozen=True)
class Context:
    """The words around a quantity.

    Attributes:
        lead: The words of its sentence before it, from where they stop being about another one.
        opening: The beginning of its sentence.
        tail: The words after it up to the end of its clause.
        rest: The words after it up to the end of its sentence.
        label, column: The label of its item, row or paragraph, and the header of its column.
        heading: The heading of its section.
        intro: The line that announces its list or table with a colon.
        size: The size of the last unit before it in its line, or None.
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
    """Return the words of a text, cut to the letters that related words share."""
    return frozenset(word[:_STEM] for word in _WORD.findall(text.lower()))


def find_contexts(
    text: str, layout: Layout, mentions: Sequence[QuantityMention], target: QuantityTarget
) -> list[tuple[QuantityMention, Place, Context]]:
    """Return quantities with their places and contexts, except those that number a list's items."""
    contexts = []
    before: QuantityMention | None = None  # the last one that the words before it are about
    last: QuantityMention | None = None  # the last one with a unit
    starts = [mention.start for mention in mentions if mention.size]
    for mention in mentions:
        place = layout.place(mention.start, mention.end)
        if place.line.start <= mention.start < place.line.end:
            following = bisect.bisect_right(starts, mention.start)
            end = starts[following] if following < len(starts) else len(text)
            contexts.append((mention, place, _context(text, mention, place, before, last, end)))
        last = mention if mention.size else last
        leads_on = (
            target.repeats(mention)
            or target.unit.rate(mention.per) is None
            or (target.horizon and mention.per is not None)
        )
        if mention.size and not leads_on and not _EQUATION_GOES_ON.match(text, mention.end):
            before = mention
    return contexts


def _context(
    text: str,
    mention: QuantityMention,
    place: Place,
    before: QuantityMention | None,
    last: QuantityMention | None,
    following: int,
) -> Context:
    """Return the context of one quantity, given the ones before it and the start of the next."""
    line = place.line
    start = place.start
    if before and start < before.end <= mention.start:
        clause = _NEXT_CLAUSE.search(text, before.end, mention.start)
        start = clause.start() if clause else before.end
    bracket = text.rfind("(", max(start, mention.start - _LONGEST_LEAD), mention.start)
    bracketed = bracket > text.rfind(")", start, mention.start)
    if bracketed:  # the words outside are about something else
        start = bracket
    lead = pattern("relative_clause").split(text[start : mention.start][-_LONGEST_LEAD:])[-1]
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
    tail = text[mention.end : max(mention.end, min(following, place.end))][:_LONGEST_TAIL]
    return Context(
        lead=lead,
        opening=text[place.start : min(place.start + _LONGEST_OPENING, mention.start)],
        tail=_CLAUSE_ENDS.split(tail, maxsplit=1)[0],
        rest=text[mention.end : place.end][:_LONGEST_LEAD],
        label="" if bracketed else place.label[:_LONGEST_LEAD],
        column=place.column[:_LONGEST_LEAD],
        heading=line.section[:_LONGEST_LEAD],
        intro=line.intro[-_LONGEST_LEAD:] if line.kind != "text" else "",
        size=last.size if last and last.start >= line.start else None,
    )
