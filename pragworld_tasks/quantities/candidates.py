"""Candidates for the final number: the quantities of an answer, converted, with their features.

Features are cues around a quantity, by their place, its structure and its relations to others.
"""

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pragworld_tasks.quantities.layout import NO_SPAN, Layout, QuantityPlace
from pragworld_tasks.quantities.mentions import (
    QuantityMention,
    QuantityTarget,
    find_numerals,
    find_quantities,
)
from pragworld_tasks.quantities.plain_text import PlainText, TextSpan
from pragworld_tasks.quantities.units import parse_period
from pragworld_tasks.quantities.wording import STEM, find_cues, pattern

_LONGEST_LEAD, _LONGEST_TAIL = 200, 120  # characters of a context
# Cues next to a quantity, near it, all that count before it, and words after it.
_NEXT, _NEAR, _FAR, _THEN = 2, 3, 14, 5
_OPENING = 30  # characters of a sentence
_MANY = 5  # quantities with a unit, beside which one without hardly ever counts
_MARKS = frozenset(("CASE", "IF", "IDEAL", "TYPICAL"))  # of alternatives

SAME = 0.005  # relative difference of equal values
_CLOSE = 0.9  # share of a value from which another is like it
# Bounds of steps: of how many there are, of ranks from 0 to 1, and of shares of the middle value.
_ORDERS, _RANKS = (1, 2, 3, 4, 6), (0.01, 0.25, 0.5, 0.75)
_RATIOS = (0.14, 0.37, 0.74, 0.95, 1.05, 1.35, 2.7, 7.4)
_LARGE = 0.5  # of a price or an income in the prompt
_MILLION, _LITTLE = 1e6, 0.1  # of the millions that the prompt asks for


@dataclass(slots=True)
class Candidate:
    """A quantity that may be the final number of an answer."""

    start: int
    place: QuantityPlace
    low: float  # its ends and their middle in the target unit, without a sign
    high: float
    value: float
    sized: bool  # whether it has a unit, if only in its label
    alternative: bool  # whether its label or the words around it mark it as one of several
    features: dict[str, list[str]]  # by their place; `is` for structure and relations


class Words(NamedTuple):
    """What stands in a label or a heading."""

    cues: list[str]  # without stems
    text: str = ""
    has_term: bool = False  # whether it has a number of the prompt: `At 20 mg`
    is_marked: bool = False  # whether a cue marks an alternative
    topic: frozenset[str] = frozenset()  # the stems of the prompt's words in it
    number: str = ""  # its number or letter, as of `Option B`
    per: str | None = None  # what it says that quantities are per


class ParsedAnswer:
    """An answer with its layout, its cues, and the quantities that may be its final number."""

    def __init__(self, answer: PlainText, target: QuantityTarget) -> None:
        self.plain, self.text, self.target = answer, answer.text, target
        self.layout = Layout(answer)
        self._cue_starts, self.cues = find_cues(answer)
        stems = zip(answer.starts, [word[:STEM] for word in answer.words], strict=True)
        self._topic = [placed for placed in stems if placed[1] in target.topic]
        numerals = list(find_numerals(answer, letters=target.unit.kind == "money"))
        self._terms = [number.start for number in numerals if number.value in target.numbers]
        mentions = find_quantities(answer, target.unit, numerals) if self.layout.lines else []
        mentions = _ranged_columns(self.layout, mentions)
        self._sized = sum(bool(mention.size) for mention in mentions)
        self._words = {NO_SPAN: Words([])}
        self.candidates = list(self._find(mentions))
        _add_relations(self.candidates)

    def words_of(self, span: TextSpan) -> Words:
        """Return what stands in a label or a heading."""
        words = self._words.get(span)
        if words is None:
            start, end = span
            text, cues = self.text[start:end].strip(), self.cues_between(start, end)
            per = pattern("label_per").search(text) if "per " in text else None
            if per is None and self.target.unit.per:
                per = pattern("period").search(text)
            number = pattern("label_number").search(text)
            words = self._words[span] = Words(
                text=text,
                number=number[1] or number[2] if number else "",
                cues=[cue for cue in cues if cue.isupper()],
                is_marked=not _MARKS.isdisjoint(cues),
                has_term=self._has_term(start, end),
                topic=frozenset(self._topic_between(start, end)),
                per=per and (parse_period(per[1]) or per[1]),
            )
        return words

    def _cue_at(self, place: int) -> int:
        return bisect.bisect_left(self._cue_starts, place)  # the first cue from a place on

    def cues_between(self, start: int, end: int) -> Sequence[str]:
        """Return the cues in text[start:end]."""
        return self.cues[self._cue_at(start) : self._cue_at(end)]

    def _topic_between(self, start: int, end: int) -> set[str]:
        first = bisect.bisect_left(self._topic, (start, ""))
        return {stem for _, stem in self._topic[first : bisect.bisect_left(self._topic, (end, ""))]}

    def _has_term(self, start: int, end: int) -> bool:
        """Return whether text[start:end] has a number of the prompt."""
        return bisect.bisect_left(self._terms, start) < bisect.bisect_left(self._terms, end)

    def _find(self, mentions: Sequence[QuantityMention]) -> Iterator[Candidate]:
        text, target = self.text, self.target
        before = 0  # the end of the last quantity that the words before it are about
        starts = [mention.start for mention in mentions if mention.size] + [len(text)]
        for mention in mentions:
            start, end = mention.start, mention.end
            # What repeats the prompt is no candidate unless boxed, computed or rounded; nor a term.
            repeats = target.repeats(mention) and not (
                _within(self.plain.boxed, start, end)
                or pattern("computed").search(text, max(0, start - 12), start)
            )
            follows = pattern("term_before").search(text, max(0, start - 5), start)
            if not (repeats or follows or pattern("term_after").match(text, end)):
                following = starts[bisect.bisect_right(starts, start, hi=len(starts) - 1)]
                if candidate := self._candidate(mention, before, following):
                    yield candidate
            is_rate = target.unit.rate(mention.per) is None
            goes_on = pattern("equation_goes_on").match(text, end)
            if mention.size and not (repeats or is_rate or goes_on):
                before = end

    def _candidate(self, mention: QuantityMention, before: int, following: int) -> Candidate | None:
        """Return a candidate and the words beside it; None for a rate or the number of an item."""
        text, unit, start, end = self.text, self.target.unit, mention.start, mention.end
        place = self.layout.place(start, end)
        line, first = place.line, place.start
        if not line.start <= start < line.end:
            return None
        if first < before <= start:
            clause = pattern("next_clause").search(text, before, start)
            first = clause.start() if clause else before
        first = max(first, start - _LONGEST_LEAD)
        bracket = text.rfind("(", first, start)
        if bracketed := bracket > text.rfind(")", first, start):
            first = bracket
        last = max(end, min(following, place.end, end + _LONGEST_TAIL))
        clause = pattern("clause_ends").search(text, end, last)
        last = clause.start() if clause else last
        label = NO_SPAN if bracketed else place.label
        column, about, heading = map(self.words_of, (place.column, label, line.section))
        # Conversion.
        size, factor = mention.size, 1.0
        if size is None:
            # `A million`, or `about 2,000 a year`, where the prompt asks for just that.
            is_asked = mention.scale >= unit.size > 1 or (unit.per and mention.per)
            if unit.kind == "money" and is_asked:
                size = unit.sized(unit.unit)
            else:
                texts = [words.text for words in (column, about, self.words_of(line.intro))]
                scale = next(filter(None, map(unit.scale_in, texts)), None)
                size = unit.sized(unit.unit) * scale if scale else unit.size_in(*texts[:2])
            # 4,000,000 where the target is in millions does not mean millions of millions.
            factor = size or (1 / unit.size if mention.high >= unit.size / 100 else 1.0)
        elif mention.scale == 1:  # `$135` in a column `Cost (millions)`
            factor = unit.scale_in(column.text) or 1.0
        per = mention.per or self.words_of(place.label).per
        if per is None and place.column != NO_SPAN:
            per = column.per or heading.per
        rate, boxed = unit.rate(per), _within(self.plain.boxed, start, end)
        is_bare = size is None and not boxed
        is_lost = is_bare and self._sized >= _MANY and not about.cues
        if is_lost or rate is None or (per and self.target.sums_years):
            return None
        low, high = abs(mention.low * factor * rate), abs(mention.high * factor * rate)
        # Cues.
        number, after = self._cue_at(start), self._cue_at(end)
        lead_cues = self.cues[max(self._cue_at(first), number - _FAR) : number]
        tail_cues = self.cues[after : min(self._cue_at(last), after + _FAR)]
        opens_sentence = number - self._cue_at(place.start)
        features = {
            "lead": list(dict.fromkeys(lead_cues)),
            "next": list(dict.fromkeys(self.cues[number - min(_NEXT, opens_sentence) : number])),
            "after": list(dict.fromkeys(cue for cue in tail_cues[:_NEAR] if cue.isupper())),
            "then": list(dict.fromkeys(self.cues[after : after + _THEN])),
            "label": about.cues,
            "heading": heading.cues,
        }
        in_heading = len(lead_cues) <= _NEAR and label == NO_SPAN and heading.is_marked
        has_label = in_heading or about.has_term or about.is_marked
        alternative = has_label or self._has_term(first, start)
        # Structure.
        topic = self._topic_between(first, last) | about.topic
        words = opens_sentence + self._cue_at(place.end) - after
        opens = line.number <= 1 and place.start - line.start <= _OPENING
        little = unit.size >= _MILLION and size is not None and 0 < high < _LITTLE
        flags = {
            "brackets": bracketed,
            "no unit": is_bare,
            "one unit": mention.low == mention.high == (mention.size or 1),
            "bold": _within(self.plain.bold, start, end),
            "boxed": boxed,
            "alone": words <= _NEAR + 1,
            "opens without unit": opens and opens_sentence <= _NEAR + 1 and size is None,
            "as large as given": unit.size == 1 and 0 < self.target.largest * _LARGE < low,
            "trifle": little,
            "heading off topic": bool(heading.text and self._topic and not heading.topic),
        }
        features["is"] = [
            *itertools.compress(flags, flags.values()),
            f"in {line.kind}",
            _step("topic", len(topic), (1, 2, 3)),
            _step("lines after", len(self.layout.lines) - 1 - line.number, (1, 2, 4, 8)),
        ]
        return Candidate(
            start=start,
            place=place,
            low=low,
            high=high,
            value=(low + high) / 2,
            sized=size is not None,
            alternative=alternative or not _MARKS.isdisjoint(lead_cues + tail_cues),
            features=features,
        )


def _within(spans: Sequence[TextSpan], start: int, end: int) -> bool:
    """Return whether the place of a quantity overlaps one of some spans, which are in order."""
    index = bisect.bisect_left(spans, (end, 0)) - 1
    return index >= 0 and spans[index][1] > start


def _step(name: str, value: float, bounds: Sequence[float]) -> str:
    """Return the name of a feature for how many bounds a value reaches."""
    return f"{name} {bisect.bisect_right(bounds, value)}"


def _add_relations(candidates: Sequence[Candidate]) -> None:
    """Add what other candidates say of each: its rank, its order, and values like it."""
    sized = [candidate for candidate in candidates if candidate.sized] or candidates
    ordered = sorted(candidate.value for candidate in sized)
    middle = ordered[len(ordered) // 2] if ordered else 0.0
    greatest = bisect.bisect_left(ordered, ordered[-1]) if ordered else 0
    earlier: list[float] = []
    for candidate in candidates:
        value, first = candidate.value, bisect.bisect_left(earlier, candidate.value * (1 - SAME))
        repeated = value > 0 and first < len(earlier) and earlier[first] <= value * (1 + SAME)
        low, high = (bisect.bisect_left(ordered, value * share) for share in (_CLOSE, 2 - _CLOSE))
        rank = bisect.bisect_left(ordered, value)
        others = high - low - (candidate.sized or sized is candidates)  # that are like it
        flags = {
            "repeated earlier": repeated,
            "greatest": rank == greatest,
            "inexact beside another": others > 0 and "INEXACT" in candidate.features["next"],
        }
        candidate.features["is"] += [
            *itertools.compress(flags, flags.values()),
            _step("alike", others, (1, 2)),
            _step("rank", rank / max(1, len(ordered)), _RANKS),
        ]
        if value and middle:
            candidate.features["is"].append(_step("to the middle one", value / middle, _RATIOS))
        if candidate.sized:
            before, after = len(earlier), len(sized) - 1 - len(earlier)
            orders = _step("sized before", before, _ORDERS), _step("sized after", after, _ORDERS)
            candidate.features["is"] += orders
            bisect.insort(earlier, value)


def _ranged_columns(layout: Layout, mentions: Sequence[QuantityMention]) -> list[QuantityMention]:
    """Return quantities with a row's cells under `Low` and `High` joined to one range."""
    merged: list[QuantityMention] = []
    for mention in mentions:
        if merged and "|" in layout.text and mention.low >= merged[-1].high:
            left, right = (layout.place(*end[:2]) for end in (merged[-1], mention))
            is_low = pattern("low_end").search(layout.text, *left.column)
            is_high = pattern("high_end").search(layout.text, *right.column)
            alike = left.line is right.line and bool(merged[-1].size) == bool(mention.size)
            if is_low and is_high and alike:
                merged[-1] = mention._replace(start=merged[-1].start, low=merged[-1].low)
                continue
        merged.append(mention)
    return merged
