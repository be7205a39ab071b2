"""Candidates for the final number: the quantities of an answer, with the evidence on each."""

import bisect
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pragworld_tasks.quantities.alternatives import (
    is_alternative,
    is_labelled_alternative,
    says_which,
)
from pragworld_tasks.quantities.context import Context, QuantityTarget, find_contexts, stems
from pragworld_tasks.quantities.conversion import convert
from pragworld_tasks.quantities.cues import CUES, WEIGHTS, evidence
from pragworld_tasks.quantities.layout import Layout, Place
from pragworld_tasks.quantities.mentions import QuantityMention, find_quantities
from pragworld_tasks.quantities.numerals import find_numerals
from pragworld_tasks.quantities.patterns import ignoring_case, pattern
from pragworld_tasks.quantities.plain_text import PlainText, Span
from pragworld_tasks.quantities.subjects import (
    has_foreign_heading,
    has_foreign_purpose,
    has_foreign_subject,
    states,
)

_LOW = pattern("low_end")
_HIGH = pattern("high_end")
_HEDGES = pattern("hedges")
_NO_DIGITS = re.compile(r"\D*$")
# A plus with a blank only before it is a sign: `I'd say +4.5 kg`.
_OPERATOR_BEFORE = re.compile(r"[\w)%](?: ?[*÷] ?|\+ ?| \+ )\(?(?:US)?[$]?$")
_OPERATOR_AFTER = re.compile(r"\)? ?(?:[+*÷/x]|-) ?\(?(?:US)?[$\d]|\)? ?=(?!>)")
_EQUALS_BEFORE = re.compile(r"[=≈→] ?(?:[~≈]|US\$|\$)?$")
# `n = 180` is not a computation.
_ASSIGNED = re.compile(r"(?:^|(?<![\d+*÷/-])[ (,;])[a-zA-Z](?:_\w{1,6})? ?[=≈] ?(?:[~≈]|US\$|\$)?$")
_COMPUTED_BEFORE = re.compile(
    r"[+*÷/x-] ?[$(]{0,2}\d[\d,.]*(?! with| where)[^=\n\d]{0,15}"
    r"(?<![ (][a-zA-Z])(?<![ (][a-zA-Z] )= ?[$~≈]?$"
)

# The end of an answer that is cut off, and steps that may have led to a result.
_CUT_OFF = re.compile(r"(?:[^\W_]|[-+*/=(,$:;÷])\s*$")
_NEXT = ignoring_case(r"(?:next|now|then|finally|after that|to \w+),? ")
_STEP = ignoring_case(r"\W*(?:step|part|phase)\W*\w{1,2}\b")

_BEFORE = 300  # characters of a sentence that are searched before a quantity
_FRAGMENT = 60  # characters around a quantity that stands alone
_EQUATION = 80  # characters of an equation
_GREETING = 40  # characters before the first sentence in its line
_GREETING_WORDS = 15  # words of a line before the first
_SHORT = 12  # words of an answer that is hardly more than its value
_LONG = 40  # words of an answer that may have been cut off
_FEW = 4  # quantities in one sentence that make an enumeration
_LARGE = 0.5  # of a price or an income in the prompt
_MILLION = 1e6
_LITTLE, _TRIFLE = 0.1, 0.01  # of the millions that the prompt asks for
_SAME = 0.005  # relative difference of equal values


@dataclass
class Candidate:
    """A quantity that may be the final number of an answer.

    Attributes:
        mention, place, context: The quantity, its place, and the words around it.
        low, high: Its ends in the target unit, without a sign.
        sized: Whether it has a unit, if only in its label.
        weights: Weights of what speaks for it (positive) and against it (negative), by name.
        alternative: Whether it is marked as one of several alternatives.
        labelled: Whether its label marks it so.
    """

    mention: QuantityMention
    place: Place
    context: Context
    low: float
    high: float
    sized: bool
    weights: dict[str, float] = field(default_factory=dict)
    alternative: bool = False
    labelled: bool = False

    @property
    def value(self) -> float:
        """The middle of its ends."""
        return (self.low + self.high) / 2

    @property
    def score(self) -> float:
        """The sum of its weights."""
        return sum(self.weights.values())

    def weigh(self, name: str, holds: object = True, times: float = 1.0) -> None:
        """Add one of `WEIGHTS` if something holds."""
        if holds:
            self.weights[name] = WEIGHTS[name] * times

    def has(self, *names: str) -> bool:
        """Return whether it has any of some weights."""
        return not self.weights.keys().isdisjoint(names)

    def same(self, other: "Candidate") -> bool:
        """Return whether it has the same value as another."""
        return abs(self.value - other.value) <= _SAME * max(self.value, other.value)


def find_candidates(answer: PlainText, target: QuantityTarget) -> list[Candidate]:
    """Return the quantities of an answer in order, with all that speaks for and against each."""
    layout = Layout(answer)
    if not layout.lines:
        return []
    mentions = _ranged_columns(layout, find_quantities(answer.text, target.unit))
    greetings = _greetings(layout)
    candidates = []
    for mention, place, context in find_contexts(answer.text, layout, mentions, target):
        low, high, sized, notes = convert(mention, context, target)
        candidate = Candidate(mention, place, context, low, high, sized)
        _weigh_words(candidate, target)
        for note in notes:
            candidate.weigh(note)
        _weigh_arithmetic(candidate, answer.text, target)
        _weigh_place(candidate, answer, layout, greetings)
        stands_apart = candidate.has("alone", "result")
        candidate.labelled = is_labelled_alternative(context, place, stands_apart)
        candidate.alternative = candidate.labelled or is_alternative(context)
        foreign = has_foreign_purpose(context.tail, target)
        candidate.weigh("purpose", foreign and not says_which(context.rest))
        candidates.append(candidate)
    _weigh_answer(answer.text, layout, candidates)
    _weigh_neighbours(candidates)
    _weigh_preferred(answer.text, candidates)
    return candidates


def _ranged_columns(layout: Layout, mentions: Sequence[QuantityMention]) -> list[QuantityMention]:
    """Return quantities with a row's cells under `Low` and `High` joined to one range."""
    merged: list[QuantityMention] = []
    for mention in mentions:
        last = merged[-1] if merged else None
        if last and last.size and mention.size and mention.low >= last.high:
            left = layout.place(last.start, last.end)
            right = layout.place(mention.start, mention.end)
            same_row = left.line is right.line and right.line.kind == "row"
            if same_row and _LOW.search(left.column) and _HIGH.search(right.column):
                merged[-1] = replace(mention, start=last.start, low=last.low)
                continue
        merged.append(mention)
    return merged


def _greetings(layout: Layout) -> int:
    """Return how many lines come before the first with content: 1 for `Sure, I can help!`."""
    line = layout.lines[0]
    written = layout.text[line.start : line.end]
    greets = line.kind == "text" and len(written.split()) <= _GREETING_WORDS
    return int(greets and ":" not in written and bool(_NO_DIGITS.match(written)))


# Evidence on one quantity -------------------------------------------------------------------------


def _weigh_words(candidate: Candidate, target: QuantityTarget) -> None:
    context = candidate.context
    for cue in CUES:
        if abs(cue.weight) > abs(candidate.weights.get(cue.name, 0)) and cue.pattern.search(
            getattr(context, cue.where)
        ):
            candidate.weights[cue.name] = cue.weight
    if candidate.has("prediction"):
        candidate.weigh("foreign subject", has_foreign_subject(context.lead, target))
    else:
        candidate.weigh("statement", states(context.lead, target))
    words = stems(f"{context.lead} {context.tail} {context.label}")
    candidate.weigh("topic", target.topic, min(3, len(words & target.topic)))
    in_label = (number.value for number in find_numerals(context.label))
    candidate.weigh("terms", not target.numbers.isdisjoint(in_label))
    off_topic = has_foreign_heading(context, target) and not candidate.has("conclusion")
    candidate.weigh("foreign heading", off_topic)
    # `save` means an addition, unless the prompt asks for savings.
    asks_savings = "save" in target.topic if target.topic else target.unit.kind == "money"
    candidate.weigh("added", not asks_savings and pattern("saves").search(context.lead))


def _weigh_arithmetic(candidate: Candidate, text: str, target: QuantityTarget) -> None:
    """Weigh what a quantity is computed from, what is computed from it, and its size."""
    mention, unit = candidate.mention, target.unit
    start, end, first = mention.start, mention.end, candidate.place.start
    equals = _EQUALS_BEFORE.search(text, max(0, start - 4), start)
    computed = bool(equals) and not _ASSIGNED.search(text, max(0, start - 12), start)
    candidate.weigh("sum", computed and "+" in text[max(first, start - _EQUATION) : start])
    if _OPERATOR_AFTER.match(text, end) or _OPERATOR_BEFORE.search(text, max(0, start - 5), start):
        candidate.weigh("operand")
    else:
        candidate.weigh("result", computed)
    if target.repeats(mention):
        by_sum = _COMPUTED_BEFORE.search(text, max(first, start - _EQUATION), start)
        candidate.weigh("input, computed" if by_sum and mention.size else "input")
    single = mention.low == mention.high
    candidate.weigh("one unit", single and mention.low == (mention.size or 1))
    largest = max((given.high for given in target.inputs if given.size), default=0.0)
    dollars = unit.kind == "money" and unit.size == 1
    candidate.weigh("as large as given", dollars and 0 < largest * _LARGE < candidate.low)
    millions = unit.kind == "money" and unit.size >= _MILLION
    if millions and candidate.sized and 0 < candidate.high < _LITTLE:
        candidate.weigh("trifle", times=1.0 if candidate.high < _TRIFLE else 0.5)
    candidate.weigh("fraction", unit.kind == "count" and single and candidate.low % 1)


def _weigh_place(candidate: Candidate, answer: PlainText, layout: Layout, greetings: int) -> None:
    text, place, line = answer.text, candidate.place, candidate.place.line
    start, end, sized = candidate.mention.start, candidate.mention.end, candidate.sized
    before = text[max(place.start, start - _BEFORE) : start]
    after = text[end : min(place.end, end + _FRAGMENT)]
    first = line.number <= greetings and place.start - line.start < _GREETING
    unprepared = len(before) < _FRAGMENT and bool(
        _NO_DIGITS.match(before) and _HEDGES.fullmatch(before)
    )
    candidate.weigh("boxed", _within(answer.boxed, start, end))
    candidate.weigh("bold", _within(answer.bold, start, end))
    stated = line.kind != "heading" and not candidate.has("input")  # unlike `## 1. What you spend`
    if first and unprepared and candidate.has("no unit") and stated:
        del candidate.weights["no unit"]  # `Two or three should cover it.`
        candidate.weigh("unit left out")
        candidate.sized = sized = True
    candidate.weigh("opens", first and sized and unprepared)
    candidate.weigh("in heading", sized and line.kind == "heading" and line.number > 0)
    candidate.weigh("alone", unprepared and line.kind != "row" and _HEDGES.fullmatch(after))
    candidate.weigh("later", times=start / len(text))
    candidate.weigh("brackets", before.count("(") > before.count(")"))
    candidate.weigh("last row", _is_last_row(answer, layout, place))
    saying = evidence("saying")
    candidate.weigh("first sentence", first and sized and candidate.has(*saying))
    marked = candidate.has(*saying, "bold", "alone", "result", "statement", "horizon", "terms")
    candidate.weigh("not stated", not (marked or candidate.has("in heading")))


def _within(spans: Sequence[Span], start: int, end: int) -> bool:
    """Return whether the place of a quantity overlaps one of some spans, which are in order."""
    index = bisect.bisect_left(spans, (end, 0)) - 1
    return index >= 0 and spans[index][1] > start


def _is_last_row(answer: PlainText, layout: Layout, place: Place) -> bool:
    """Return whether a place is in a table's last row, and that in bold, unlike the row above."""
    line = place.line
    if line.kind != "row" or not line.last or line.number == 0:
        return False
    above = layout.lines[line.number - 1]
    if above.group != line.group or not (line.cells and above.cells):
        return False
    return _within(answer.bold, *line.cells[0]) and not _within(answer.bold, *above.cells[0])


# Evidence in the whole answer ---------------------------------------------------------------------


def _weigh_answer(text: str, layout: Layout, candidates: Sequence[Candidate]) -> None:
    words = len(text.split())
    sized = sum(candidate.sized and not candidate.has("input") for candidate in candidates)
    names = ("declines", "asks_back", "hard_to_say")
    declines, asks, hard = (pattern(name).search(text) for name in names)
    breaks_off = _CUT_OFF.search(text)
    cut_off = breaks_off and (words > _LONG or not breaks_off[0][0].isalnum())
    cut_off = cut_off and not _ends_like_a_list(layout)
    last_line = layout.lines[-1]
    within_step = cut_off and _STEP.match(last_line.section)
    within_line = cut_off and _NEXT.match(text, last_line.start)
    first = min((candidate.place.start for candidate in candidates if candidate.sized), default=0)
    last = max((candidate.place.start for candidate in candidates), default=0)
    for candidate in candidates:
        place = candidate.place
        concludes = candidate.has("boxed", "conclusion", "total", "judgement")
        if words <= _SHORT and len(text) <= _BEFORE:
            candidate.weigh("short answer", not candidate.has(*evidence("beside_the_point")))
            rest = f"{text[: candidate.mention.start]} {text[candidate.mention.end :]}"
            candidate.weigh("whole answer", _HEDGES.fullmatch(rest))
        candidate.weigh("only one", sized == 1 and candidate.sized and not candidate.has("input"))
        opens = place.start == first < _BEFORE and not candidate.has("foreign heading")
        predicted = candidate.has("prediction") and place.line.kind != "item"
        predicted = predicted and (opens or place.start == last)
        settled = concludes or predicted or candidate.has("first sentence")
        candidate.weigh("cut off", cut_off and not settled)
        earlier = within_step and place.line.section != last_line.section
        earlier = earlier or (within_line and place.line is not last_line)
        candidate.weigh("cut off later", earlier and not candidate.has("boxed", "judgement"))
        candidate.weigh("declines, concludes" if concludes else "declines", declines)
        candidate.weigh("hard to say", hard and not concludes)
        candidate.weigh("asks back", asks and not concludes)


def _ends_like_a_list(layout: Layout) -> bool:
    """Return whether the last two lines are list items without a full stop, as items may be."""
    last = layout.lines[-2:]
    if len(last) < 2 or any(line.kind != "item" for line in last) or last[0].group != last[1].group:
        return False
    above, below = (layout.text[line.start : line.end].rstrip() for line in last)
    alike = _NO_DIGITS.match(above) or not _NO_DIGITS.match(below)
    return bool(alike and above[-1:].isalnum() and below[-1:].isalnum())


def _weigh_neighbours(candidates: Sequence[Candidate]) -> None:
    sized = [candidate for candidate in candidates if candidate.sized]
    in_sentence = Counter(candidate.place.start for candidate in sized)
    rows: dict[int, set[int]] = defaultdict(set)
    for candidate in sized:
        if candidate.place.line.group >= 0:
            rows[candidate.place.line.group].add(candidate.place.line.number)
    values = sorted(candidate.value for candidate in sized)
    for candidate in candidates:
        value, near = candidate.value, _SAME * candidate.value
        equal = bisect.bisect_right(values, value + near) - bisect.bisect_left(values, value - near)
        candidate.weigh("repeated", equal > candidate.sized)
        concludes = candidate.has("total", "judgement", "conclusion", "sum")
        candidate.weigh("enumerated", in_sentence[candidate.place.start] >= _FEW and not concludes)
        siblings = len(rows.get(candidate.place.line.group, ()))
        candidate.weigh("part", siblings > 1 and not candidate.has("total", "named", "last row"))


def _weigh_preferred(text: str, candidates: Sequence[Candidate]) -> None:
    """Weigh preferences for a quantity by its name: `the moderate case seems the most credible`."""
    for match in pattern("prefers").finditer(text):
        name = (match["name"] or match["chosen"]).lower()
        for candidate in candidates:
            label = candidate.context.label.lower()
            candidate.weigh("preferred", label.startswith(name) and not candidate.has("operand"))
