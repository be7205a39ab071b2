"""Candidates for the final number: the quantities of an answer, converted, with their contexts."""

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pragworld_tasks.quantities.cues import find_cues
from pragworld_tasks.quantities.layout import NOWHERE, Layout, Place
from pragworld_tasks.quantities.mentions import QuantityMention, find_quantities
from pragworld_tasks.quantities.numerals import SCALES, find_numerals
from pragworld_tasks.quantities.patterns import pattern
from pragworld_tasks.quantities.plain_text import PlainText, Span
from pragworld_tasks.quantities.target import HORIZON, STEM, QuantityTarget
from pragworld_tasks.quantities.units import named_in, parse_period

_LONGEST_LEAD, _LONGEST_TAIL, _NEAR = 200, 120, 60  # characters of a context
# Where the words about the previous quantity end and those about this one begin, or end.
_NEXT_CLAUSE = re.compile(r"[,;:—(]|\b(?:and|but|so|while|then)\b")
_CLAUSE_ENDS = pattern("clause_ends")
_EQUATION_GOES_ON = re.compile(r"[^a-z]{0,4}[=+*÷≈]")
_UNIT_LEFT_OUT, _PERIOD = pattern("unit_left_out"), pattern("period")
_PERIOD_AFTER, _LABEL_PER, _SCALE_IN_LABEL = (
    pattern(name) for name in ("period_after", "label_per", "scale_in_label")
)
_IF = re.compile(r" (?:if|when)\b")  # `fifty days if …, twenty-five if …`
_MUCH = 100  # dollars


@dataclass(slots=True)
class Candidate:
    """A quantity that may be the final number of an answer.

    Attributes:
        mention, place: The quantity, and its place.
        lead_start, tail_end: Where the words about it begin and end.
        label: The place of the label of its item, row or paragraph, if that is about it.
        low, high: Its ends in the target unit, without a sign.
        sized: Whether it has a unit, if only in its label.
        labelled, alternative: Whether its label, or any words around it, mark an alternative.
        under_option: Whether it stands under the heading of an option.
        features: Its features, by name.
    """

    mention: QuantityMention
    place: Place
    lead_start: int
    tail_end: int
    label: Span
    low: float = 0.0
    high: float = 0.0
    sized: bool = False
    labelled: bool = False
    alternative: bool = False
    under_option: bool = False
    features: dict[str, float] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """The middle of its ends."""
        return (self.low + self.high) / 2


class Answer:
    """An answer with its layout, its cues, and the quantities that may be its final number."""

    def __init__(self, answer: PlainText, target: QuantityTarget) -> None:
        self.plain, self.text, self.target = answer, answer.text, target
        self.layout = Layout(answer)
        self.cue_starts, self.cues = find_cues(self.text)
        self.preferred = tuple(pattern("prefers").findall(self.text))
        words = STEM.finditer(self.text)
        self._topic = [(word.start(), word[0]) for word in words if word[0] in target.topic]
        has_periods = target.unit.per or target.horizon
        self._periods = list(_PERIOD.finditer(self.text)) if has_periods else []
        numerals = list(find_numerals(self.text, letters=target.unit.kind == "money"))
        self._terms = [number.start for number in numerals if number.value in target.numbers]
        mentions = find_quantities(self.text, target.unit, numerals) if self.layout.lines else []
        self.candidates = list(self._find(_ranged_columns(self.layout, mentions)))
        previous = None
        for candidate in self.candidates:
            self._convert(candidate, previous)
            previous = candidate if candidate.mention.size else previous

    def cues_between(self, start: int, end: int) -> list[str]:
        """Return the cues and stems of the words in text[start:end]."""
        first = bisect.bisect_left(self.cue_starts, start)
        return self.cues[first : bisect.bisect_left(self.cue_starts, end, first)]

    def written(self, span: Span) -> str:
        """Return what stands at a place, without blanks around it."""
        return self.text[slice(*span)].strip()

    def topic_between(self, start: int, end: int) -> set[str]:
        """Return the stems of the prompt's words in text[start:end]."""
        first = bisect.bisect_left(self._topic, (start, ""))
        return {stem for _, stem in self._topic[first : bisect.bisect_left(self._topic, (end, ""))]}

    def has_term(self, start: int, end: int) -> bool:
        """Return whether text[start:end] has a number of the prompt: `at 20 mg`."""
        return bisect.bisect_left(self._terms, start) < bisect.bisect_left(self._terms, end)

    def _find(self, mentions: Sequence[QuantityMention]) -> Iterator[Candidate]:
        """Yield the quantities, except those that number a list's items."""
        text, target = self.text, self.target
        before: QuantityMention | None = None  # the last one that the words before it are about
        starts = [mention.start for mention in mentions if mention.size] + [len(text)]
        for mention in mentions:
            place = self.layout.place(mention.start, mention.end)
            if place.line.start <= mention.start < place.line.end:
                following = starts[bisect.bisect_right(starts, mention.start, hi=len(starts) - 1)]
                yield self._candidate(mention, place, before.end if before else 0, following)
            leads_on = target.repeats(mention) or target.unit.rate(mention.per) is None
            leads_on = leads_on or (target.horizon and mention.per is not None)
            if mention.size and not leads_on and not _EQUATION_GOES_ON.match(text, mention.end):
                before = mention

    def _candidate(
        self, mention: QuantityMention, place: Place, before: int, following: int
    ) -> Candidate:
        """Return a candidate, given the end of the one before it and the start of the next."""
        text, start = self.text, place.start
        if start < before <= mention.start:
            clause = _NEXT_CLAUSE.search(text, before, mention.start)
            start = clause.start() if clause else before
        start = max(start, mention.start - _LONGEST_LEAD)
        bracket = text.rfind("(", start, mention.start)
        bracketed = bracket > text.rfind(")", start, mention.start)
        end = max(mention.end, min(following, place.end, mention.end + _LONGEST_TAIL))
        clause = _CLAUSE_ENDS.search(text, mention.end, end)
        label = NOWHERE if bracketed else place.label
        start, end = bracket if bracketed else start, clause.start() if clause else end
        return Candidate(mention, place, start, end, label, features={"brackets": bracketed})

    def _convert(self, candidate: Candidate, previous: Candidate | None) -> None:
        """Convert a candidate into the target unit, and note what is doubtful about that."""
        mention, unit, features = candidate.mention, self.target.unit, candidate.features
        lead = self.text[candidate.lead_start : mention.start]
        tail = self.text[mention.end : candidate.tail_end]
        factor, size = 1.0, mention.size
        if size is None:
            size = self._size_in_label(candidate) or self._size_left_out(
                candidate, previous, lead, tail
            )
            features["no unit"] = size is None
            # 4,000,000 where the target is in millions does not mean millions of millions.
            factor = size or (1 / unit.size if mention.high >= unit.size / 100 else 1.0)
        per = self._per(candidate, lead, tail)
        if per and unit.per is None and self.target.spans(per):
            per = None
        rate = unit.rate(per)
        if self.target.horizon:
            in_all = HORIZON.search(f"{lead[-_NEAR:]}|{tail[:_NEAR]}")
            yearly = per or self._periods_before(candidate)
            features["rate"] = unit.kind == "money" and bool(yearly) and not in_all
        if rate is None:
            features["rate"] = 1
        factor *= rate or 1.0
        candidate.low, candidate.high = abs(mention.low * factor), abs(mention.high * factor)
        candidate.sized = size is not None

    def _size_left_out(
        self, candidate: Candidate, previous: Candidate | None, lead: str, tail: str
    ) -> float | None:
        """Return the size of a unit that goes without saying: `plan on two`, `a million a year`."""
        mention, unit = candidate.mention, self.target.unit
        if unit.kind == "money" and (
            (mention.scale >= unit.size > 1 and not pattern("people").search(lead))
            or (unit.per and mention.per and mention.low >= _MUCH)
        ):
            return unit.sized(unit.unit)
        announced = _UNIT_LEFT_OUT.search(lead)
        same_line = previous and previous.mention.start >= candidate.place.line.start
        if previous and same_line and (announced or (_IF.match(tail) and mention.low > 1)):
            return previous.mention.size
        return 1.0 if unit.kind == "count" and announced else None

    def _size_in_label(self, candidate: Candidate) -> float | None:
        unit, place = self.target.unit, candidate.place
        labels = (place.column, candidate.label, place.line.intro)
        if unit.kind == "money":
            for label in labels:
                if match := _SCALE_IN_LABEL.search(self.text, *label):
                    scale = next(filter(None, match.groups()))
                    return SCALES[scale] * unit.sized(unit.unit)
        column, own = (self.written(label) for label in labels[:2])
        named = named_in(column, unit) or named_in(own, unit)
        return unit.sized(named) if named else None

    def _per(self, candidate: Candidate, lead: str, tail: str) -> str | None:
        """Return what a quantity is per by its unit, its label, or the words around it, or None."""
        if candidate.mention.per is not None:
            return candidate.mention.per
        unit = self.target.unit
        if unit.kind == "money" and (match := _PERIOD_AFTER.match(tail)):
            return parse_period(match[1] or match[2])
        if unit.per and (periods := self._periods_before(candidate)):
            return parse_period(periods[-1])
        for label in (candidate.place.column, candidate.label):
            if match := _LABEL_PER.search(self.written(label)):
                return parse_period(match[1]) or match[1]
        return None

    def _periods_before(self, candidate: Candidate) -> list[str]:
        """Return the periods before a quantity, the nearest last; in a table also in its labels."""
        place, lead = candidate.place, (candidate.lead_start, candidate.mention.start)
        section = place.line.section if place.column != NOWHERE else NOWHERE
        for span in (lead, candidate.label, place.column, section):
            first, last = (bisect.bisect_left(self._periods, at, key=re.Match.start) for at in span)
            if first < last:
                return [match[1] or match[2] for match in self._periods[first:last]]
        return []


def _ranged_columns(layout: Layout, mentions: Sequence[QuantityMention]) -> list[QuantityMention]:
    """Return quantities with a row's cells under `Low` and `High` joined to one range."""
    merged: list[QuantityMention] = []
    for mention in mentions:
        last = merged[-1] if merged and "|" in layout.text else None
        if last and bool(last.size) == bool(mention.size) and mention.low >= last.high:
            left, right = (layout.place(end.start, end.end) for end in (last, mention))
            same_row = left.line is right.line and right.line.kind == "row"
            ends = (
                pattern("low_end").search(layout.text, *left.column),
                pattern("high_end").search(layout.text, *right.column),
            )
            if same_row and all(ends):
                merged[-1] = mention._replace(start=last.start, low=last.low)
                continue
        merged.append(mention)
    return merged
