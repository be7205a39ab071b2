"""Quantities of an answer with what speaks for and against each."""

import bisect
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pragworld_tasks.quantities.amounts import amount
from pragworld_tasks.quantities.context import Context, Question, contexts, stems
from pragworld_tasks.quantities.cues import CUES, SAYING, WEIGHTS
from pragworld_tasks.quantities.layout import Layout, Place
from pragworld_tasks.quantities.mentions import Mention, mentions
from pragworld_tasks.quantities.numerals import numerals
from pragworld_tasks.quantities.plain import Plain, Span
from pragworld_tasks.quantities.replies import ASKS_BACK, DECLINES, HARD_TO_SAY, PREFERS
from pragworld_tasks.quantities.scenarios import is_alternative, is_labelled_alternative, says_which
from pragworld_tasks.quantities.subjects import (
    is_for_something_else,
    is_foreign,
    is_foreign_heading,
    states,
)

_LOW = re.compile(r"\b(?:low|lower|min(?:imum)?|from|best|conservative)\b", re.IGNORECASE)
_HIGH = re.compile(r"\b(?:high|higher|upper|max(?:imum)?|to|worst|optimistic)\b", re.IGNORECASE)
# Words that leave a quantity the only thing that is said.
_HEDGES = re.compile(
    r"(?:about|around|roughly|approximately|probably|maybe|perhaps|likely|nearly|almost|somewhere|"
    r"between|over|under|just|up to|at least|it's|that's|that is|estimated|i'd say|say|to|or|so|"
    r"less|more|than|anywhere|from|in|range|neighborhood|of|an?|the|figure on|basically|honestly|"
    r"cool|good|solid|full|pretty|much|figure|north|south|close|something|like|well|oh|hmm|then|"
    r"ish|let's|theoretically|technically|typically|usually|normally|on paper|give|"
    r"take|few|realistically|i think|i guess|my guess|guess|[\W\d_])*",
    re.IGNORECASE,
)
_NO_DIGITS = re.compile(r"\D*$")
# A plus with room before it alone is a sign: `I'd say +4.5 kg`.
_OPERATOR_BEFORE = re.compile(r"[\w)%](?: ?[*÷] ?|\+ ?| \+ )\(?(?:US)?[$]?$")
_OPERATOR_AFTER = re.compile(r"\)? ?(?:[+*÷/x]|-) ?\(?(?:US)?[$\d]|\)? ?=(?!>)")
_EQUALS_BEFORE = re.compile(r"[=≈→] ?(?:[~≈]|US\$|\$)?$")
# `n = 180` computes nothing.
_ASSIGNED = re.compile(r"(?:^|(?<![\d+*÷/-])[ (,;])[a-zA-Z](?:_\w{1,6})? ?[=≈] ?(?:[~≈]|US\$|\$)?$")
_COMPUTED_BEFORE = re.compile(
    r"[+*÷/x-] ?[$(]{0,2}\d[\d,.]*(?! with| where)[^=\n\d]{0,15}"
    r"(?<![ (][a-zA-Z])(?<![ (][a-zA-Z] )= ?[$~≈]?$"
)
_SAVES = re.compile(
    r"\bsav(?:e|es|ing)(?: you)?(?: up to| about| around| roughly)? $", re.IGNORECASE
)

# Where an answer breaks off, and what it may break off in before it has a result.
_CUT_OFF = re.compile(r"(?:[^\W_]|[-+*/=(,$:;÷])\s*$")
_NEXT = re.compile(r"(?:next|now|then|finally|after that|to \w+),? ", re.IGNORECASE)
_STEP = re.compile(r"\W*(?:step|part|phase)\W*\w{1,2}\b", re.IGNORECASE)

_BEFORE = 300  # characters of a sentence that are looked at before a quantity
_FRAGMENT = 60  # characters that may stand around a quantity that is alone
_EQUATION = 80  # characters of one
_GREETING = 40  # characters that may come before the first sentence in its line
_GREETING_WORDS = 15  # words of a line before the first
_SHORT = 12  # words of an answer that is hardly more than its value
_LONG = 40  # words of an answer that may have been cut off
_FEW = 4  # quantities in one sentence that make an enumeration
_BESIDE_THE_POINT = (
    *("aside", "added", "brackets", "purpose", "relative clause", "component"),
    *("part by name", "input by name", "as large as given"),
)
_LARGE = 0.5  # of a price or an income in the prompt
_MILLION = 1e6
_LITTLE, _TRIFLE = 0.1, 0.01  # of the millions that were asked for
_SAME = 0.005  # relative difference of values that are one


@dataclass
class Candidate:
    """A quantity that may be the bottom line.

    Attributes:
        mention, place, context: what it is and where it stands.
        low, high: its ends as asked for, without a sign.
        sized: whether it has a unit, be it by its label.
        weights: what speaks for it (positive) and against it, by name.
        alternative: whether it is said to be one of several; `labelled`: by its label.
    """

    mention: Mention
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
        """The sum of what speaks for and against it."""
        return sum(self.weights.values())

    def weigh(self, name: str, holds: object = True, times: float = 1.0) -> None:
        """Adds one of `WEIGHTS` if something holds."""
        if holds:
            self.weights[name] = WEIGHTS[name] * times

    def has(self, *names: str) -> bool:
        """Whether any of these counts for or against it."""
        return not self.weights.keys().isdisjoint(names)

    def same(self, other: "Candidate") -> bool:
        """Whether another has the same value."""
        return abs(self.value - other.value) <= _SAME * max(self.value, other.value)


def candidates(answer: Plain, question: Question) -> list[Candidate]:
    """The quantities of an answer, in their order, with what speaks for and against each."""
    layout = Layout(answer)
    if not layout.lines:
        return []
    listed = _ranged_columns(layout, mentions(answer.text, question.wanted))
    greetings = _greetings(layout)
    found = []
    for mention, place, context in contexts(answer.text, layout, listed, question):
        is_ = amount(mention, context, question)
        one = Candidate(mention, place, context, is_.low, is_.high, is_.sized)
        _weigh_words(one, question)
        for note in is_.notes:
            one.weigh(note)
        _weigh_arithmetic(one, answer.text, question)
        _weigh_place(one, answer, layout, greetings)
        one.labelled = is_labelled_alternative(
            context, place, stands_apart=one.has("alone", "result")
        )
        one.alternative = one.labelled or is_alternative(context)
        other = is_for_something_else(context.tail, question)
        one.weigh("purpose", other and not says_which(context.rest))
        found.append(one)
    _weigh_answer(answer.text, layout, found)
    _weigh_neighbours(found)
    _weigh_preferred(answer.text, found)
    return found


def _ranged_columns(layout: Layout, listed: Sequence[Mention]) -> list[Mention]:
    """Quantities, a row's cells under `Low` and `High` as one range."""
    merged: list[Mention] = []
    for one in listed:
        last = merged[-1] if merged else None
        if last and last.size and one.size and one.low >= last.high:
            left = layout.place(last.start, last.end)
            right = layout.place(one.start, one.end)
            same_row = left.line is right.line and right.line.kind == "row"
            if same_row and _LOW.search(left.column) and _HIGH.search(right.column):
                merged[-1] = replace(one, start=last.start, low=last.low)
                continue
        merged.append(one)
    return merged


def _greetings(layout: Layout) -> int:
    """How many lines come before the first that says something: `Sure, I can help!`."""
    line = layout.lines[0]
    written = layout.text[line.start : line.end]
    greets = line.kind == "text" and len(written.split()) <= _GREETING_WORDS
    return int(greets and ":" not in written and bool(_NO_DIGITS.match(written)))


# One quantity -------------------------------------------------------------------------------------


def _weigh_words(one: Candidate, question: Question) -> None:
    """What is said around it."""
    context = one.context
    for cue in CUES:
        if abs(cue.weight) > abs(one.weights.get(cue.name, 0)) and cue.pattern.search(
            getattr(context, cue.where)
        ):
            one.weights[cue.name] = cue.weight
    if one.has("prediction"):
        one.weigh("foreign subject", is_foreign(context.lead, question))
    else:
        one.weigh("statement", states(context.lead, question))
    said = stems(f"{context.lead} {context.tail} {context.label}")
    one.weigh("topic", question.topic, min(3, len(said & question.topic)))
    one.weigh("terms", any(n.value in question.numbers for n in numerals(context.label)))
    off_topic = is_foreign_heading(context, question) and not one.has("conclusion")
    one.weigh("foreign heading", off_topic)
    # `save` is an addition, unless savings were asked for.
    asks_savings = "save" in question.topic if question.topic else question.wanted.kind == "money"
    one.weigh("added", not asks_savings and _SAVES.search(context.lead))


def _weigh_arithmetic(one: Candidate, text: str, question: Question) -> None:
    """What it is computed from, or what is computed from it."""
    start, end, first = one.mention.start, one.mention.end, one.place.start
    equals = _EQUALS_BEFORE.search(text, max(0, start - 4), start)
    computed = bool(equals) and not _ASSIGNED.search(text, max(0, start - 12), start)
    one.weigh("sum", computed and "+" in text[max(first, start - _EQUATION) : start])
    if _OPERATOR_AFTER.match(text, end) or _OPERATOR_BEFORE.search(text, max(0, start - 5), start):
        one.weigh("operand")
    else:
        one.weigh("result", computed)
    if question.repeats(one.mention):
        by_sum = _COMPUTED_BEFORE.search(text, max(first, start - _EQUATION), start)
        one.weigh("input, computed" if by_sum and one.mention.size else "input")
    single = one.mention.low == one.mention.high
    one.weigh("one", single and one.mention.low == (one.mention.size or 1))
    given = max((given.high for given in question.inputs if given.size), default=0.0)
    dollars = question.wanted.kind == "money" and question.wanted.size == 1
    one.weigh("as large as given", dollars and 0 < given * _LARGE < one.low)
    million = question.wanted.kind == "money" and question.wanted.size >= _MILLION
    if million and one.sized and 0 < one.high < _LITTLE:
        one.weigh("trifle", times=1.0 if one.high < _TRIFLE else 0.5)
    one.weigh("fraction", question.wanted.kind == "count" and single and one.low % 1)


def _weigh_place(one: Candidate, answer: Plain, layout: Layout, greetings: int) -> None:
    """Where it stands."""
    text, line = answer.text, one.place.line
    start, end, sized = one.mention.start, one.mention.end, one.sized
    before = text[max(one.place.start, start - _BEFORE) : start]
    behind = text[end : min(one.place.end, end + _FRAGMENT)]
    first = line.number <= greetings and one.place.start - line.start < _GREETING
    unprepared = len(before) < _FRAGMENT and bool(
        _NO_DIGITS.match(before) and _HEDGES.fullmatch(before)
    )
    one.weigh("boxed", _within(answer.boxed, start, end))
    one.weigh("bold", _within(answer.bold, start, end))
    said = line.kind != "heading" and not one.has("input")  # `## 1. What you spend` numbers
    if first and unprepared and one.has("no unit") and said:
        del one.weights["no unit"]  # `Two or three should cover it.`
        one.weigh("unit left out")
        one.sized = sized = True
    one.weigh("opens", first and sized and unprepared)
    one.weigh("in heading", sized and line.kind == "heading" and line.number > 0)
    one.weigh("alone", unprepared and line.kind != "row" and _HEDGES.fullmatch(behind))
    one.weigh("later", times=start / len(text))
    one.weigh("brackets", before.count("(") > before.count(")"))
    one.weigh("last row", _is_last_row(answer, layout, one.place))
    one.weigh("first sentence", first and sized and one.has(*SAYING))
    one.weigh(
        "not said",
        not one.has(
            *SAYING, "bold", "alone", "result", "statement", "horizon", "terms", "in heading"
        ),
    )


def _within(spans: Sequence[Span], start: int, end: int) -> bool:
    """Whether a quantity stands in one of some places, or around one."""
    index = bisect.bisect_left(spans, (end, 0)) - 1
    return index >= 0 and spans[index][1] > start


def _is_last_row(answer: Plain, layout: Layout, place: Place) -> bool:
    """Whether it stands in the last row of a table, in bold while the row above is not."""
    line = place.line
    if line.kind != "row" or not line.last or line.number == 0:
        return False
    above = layout.lines[line.number - 1]
    if above.group != line.group or not (line.cells and above.cells):
        return False
    return _within(answer.bold, *line.cells[0]) and not _within(answer.bold, *above.cells[0])


# All quantities -----------------------------------------------------------------------------------


def _weigh_answer(text: str, layout: Layout, found: Sequence[Candidate]) -> None:
    """What the whole answer says of each."""
    words = len(text.split())
    sized = sum(one.sized and not one.has("input") for one in found)
    declines, asks = DECLINES.search(text), ASKS_BACK.search(text)
    hard = HARD_TO_SAY.search(text)
    breaks_off = _CUT_OFF.search(text)
    cut_off = breaks_off and (words > _LONG or not breaks_off[0][0].isalnum())
    cut_off = cut_off and not _ends_like_a_list(layout)
    line = layout.lines[-1]
    within_step = cut_off and _STEP.match(line.section)
    within_line = cut_off and _NEXT.match(text, line.start)
    first = min((one.place.start for one in found if one.sized), default=0)
    last = max((one.place.start for one in found), default=0)
    for one in found:
        concludes = one.has("boxed", "conclusion", "total", "judgement")
        if words <= _SHORT and len(text) <= _BEFORE:
            one.weigh("short answer", not one.has(*_BESIDE_THE_POINT))
            rest = f"{text[: one.mention.start]} {text[one.mention.end :]}"
            one.weigh("whole answer", _HEDGES.fullmatch(rest))
        one.weigh("only one", sized == 1 and one.sized and not one.has("input"))
        predicted = one.has("prediction") and one.place.line.kind != "item"
        said_first = one.place.start == first < _BEFORE and not one.has("foreign heading")
        predicted = predicted and (said_first or one.place.start == last)
        settled = concludes or predicted or one.has("first sentence")
        one.weigh("cut off", cut_off and not settled)
        earlier = within_step and one.place.line.section != line.section
        earlier = earlier or (within_line and one.place.line is not line)
        one.weigh("cut off later", earlier and not one.has("boxed", "judgement"))
        one.weigh("declines, concludes" if concludes else "declines", declines)
        one.weigh("hard to say", hard and not concludes)
        one.weigh("asks back", asks and not concludes)


def _ends_like_a_list(layout: Layout) -> bool:
    """Whether the last two lines are items that end without a stop, as items may."""
    last = layout.lines[-2:]
    if len(last) < 2 or any(line.kind != "item" for line in last) or last[0].group != last[1].group:
        return False
    above, below = (layout.text[line.start : line.end].rstrip() for line in last)
    alike = _NO_DIGITS.match(above) or not _NO_DIGITS.match(below)
    return bool(alike and above[-1:].isalnum() and below[-1:].isalnum())


def _weigh_neighbours(found: Sequence[Candidate]) -> None:
    """What they say of each other."""
    in_sentence = Counter(one.place.start for one in found if one.sized)
    rows: dict[int, set[int]] = defaultdict(set)
    for one in found:
        if one.sized and one.place.line.group >= 0:
            rows[one.place.line.group].add(one.place.line.number)
    values = sorted(one.value for one in found if one.sized)
    for one in found:
        near = _SAME * one.value
        equal = bisect.bisect_right(values, one.value + near) - bisect.bisect_left(
            values, one.value - near
        )
        one.weigh("said again", equal > one.sized)
        concludes = one.has("total", "judgement", "conclusion", "sum")
        one.weigh("enumerated", in_sentence[one.place.start] >= _FEW and not concludes)
        siblings = len(rows.get(one.place.line.group, ()))
        one.weigh("part", siblings > 1 and not one.has("total", "named", "last row"))


def _weigh_preferred(text: str, found: Sequence[Candidate]) -> None:
    """What is said of one by its name: `the moderate case seems the most credible`."""
    for match in PREFERS.finditer(text):
        name = (match["name"] or match["chosen"]).lower()
        for one in found:
            label = one.context.label.lower()
            one.weigh("preferred", label.startswith(name) and not one.has("operand"))
