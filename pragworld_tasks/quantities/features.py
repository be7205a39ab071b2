"""Features of the candidates: cues around them, structure, arithmetic, and relations among them.

What a feature is worth is learned: `weights.json` has a weight for each name. Names of cues begin
with the place relative to the quantity (`lead`, `after`, `label` and so on).
"""

import bisect
import re
from collections import defaultdict
from collections.abc import Sequence

from pragworld_tasks.quantities.candidates import Answer, Candidate
from pragworld_tasks.quantities.plain_text import Span
from pragworld_tasks.quantities.target import stems

# A plus with a blank only before it is a sign: `I'd say +4.5 kg`.
_OPERATOR_BEFORE = re.compile(r"[\w)%](?: ?[*÷] ?|\+ ?| \+ )\(?(?:us)?[$]?$")
_OPERATOR_AFTER = re.compile(r"\)? ?(?:[+*÷/x]|-) ?\(?(?:us)?[$\d]|\)? ?=(?!>)")
_EQUALS_BEFORE = re.compile(r"[=≈→] ?(?:[~≈]|us\$|\$)?$")
# `n = 180` is not a computation.
_ASSIGNED = re.compile(r"(?:^|(?<![\d+*÷/-])[ (,;])[a-z](?:_\w{1,6})? ?[=≈] ?(?:[~≈]|us\$|\$)?$")
_CUT_OFF = re.compile(r"(?:[^\W_]|[-+*/=(,$:;÷])\s*$")
_EQUATION = 80  # characters of an equation

_NEAR, _FAR = 3, 14  # cues just before or after a quantity, and all that count
_OPENING = 30  # characters of a sentence
# Cues that name a quantity, of which the one nearest before it counts.
_NAMING = frozenset(
    (
        *("TOTAL", "CONCLUSION", "JUDGEMENT", "ADVICE", "ESTIMATE", "SO", "PART"),
        *("INPUT", "ASIDE", "ASSUMED", "RATE", "MARGIN", "HOLDS", "MEANS", "IDEAL"),
        *("ELSE", "CASE"),
    )
)
_OPTION = frozenset(("CASE", "IF", "with", "via", "at", "for"))  # in headings
_MARKS = frozenset(("CASE", "IF", "IDEAL"))  # of alternatives

_SAME = 0.005  # relative difference of equal values
_FEW_WORDS, _LONG = 12, 40
_MOST_TERMS = 12  # of a sum
_LAST = 3  # lines
_LONG_TEXT = 1000  # characters
_LARGE = 0.5  # of a price or an income in the prompt
_MILLION, _LITTLE = 1e6, 0.1  # of the millions that the prompt asks for


def add_features(answer: Answer) -> None:
    """Add the features of each candidate."""
    for candidate in answer.candidates:
        _add_cues(answer, candidate)
        _add_arithmetic(answer, candidate)
        _add_place(answer, candidate)
    _add_relations(answer.candidates)


def answer_features(answer: Answer) -> dict[str, float]:
    """Return the features of an answer as a whole, which say whether it has a final number."""
    features: dict[str, float] = {f"none {cue}": 1 for cue in set(answer.cues)}
    features["none"] = 1
    features["none: few words"] = len(answer.cues) <= _FEW_WORDS
    features["none: cut off"] = _is_cut_off(answer)
    features["none: asks"] = answer.text.rstrip().endswith("?")
    features["none: no unit"] = not any(candidate.sized for candidate in answer.candidates)
    return features


def _is_cut_off(answer: Answer) -> bool:
    """Return whether an answer breaks off; list items and rows may end without a full stop."""
    breaks_off = _CUT_OFF.search(answer.text)
    if not breaks_off:
        return False
    ends_list = all(line.kind != "text" for line in answer.layout.lines[-2:])
    return not breaks_off[0][0].isalnum() or (len(answer.cues) > _LONG and not ends_list)


def _add_cues(answer: Answer, candidate: Candidate) -> None:
    features, place, mention = candidate.features, candidate.place, candidate.mention
    lead = answer.cues_between(candidate.lead_start, mention.start)[-_FAR:]
    tail = answer.cues_between(mention.end, candidate.tail_end)[:_FAR]
    features.update({f"lead {cue}": 1 for cue in lead})
    parts = {
        "after": tail[:_NEAR],
        "label": answer.cues_of(candidate.label),
        "heading": answer.cues_of(place.line.section),
    }
    for part, cues in parts.items():
        features.update({f"{part} {cue}": 1 for cue in cues if cue.isupper()})
    named = [cue for cue in lead if cue in _NAMING]
    features[f"nearest {named[-1] if named else 'NOTHING'}"] = 1
    _add_topic(answer, candidate)
    in_heading = (
        len(lead) <= _NEAR and not candidate.label and not _MARKS.isdisjoint(parts["heading"])
    )
    features["labelled"] = (
        in_heading or "terms" in features or not _MARKS.isdisjoint(parts["label"])
    )
    has_term = answer.has_term(candidate.lead_start, mention.start)
    features["alternative"] = features["labelled"] or has_term or not _MARKS.isdisjoint(lead + tail)
    features["preferred"] = candidate.label.startswith(answer.preferred)
    features["under an option"] = _is_option(answer, place.line.section)


def _is_option(answer: Answer, heading: str) -> bool:
    """Return whether a heading names an option: `Scenario A`, `At 20 mg`, `Via Dubai`."""
    return answer.has_term_in(heading) or not _OPTION.isdisjoint(answer.cues_of(heading))


def _add_topic(answer: Answer, candidate: Candidate) -> None:
    """Add whether words of the prompt stand around a quantity, and numbers of it in its label."""
    features, target, section = candidate.features, answer.target, candidate.place.line.section
    words = answer.topic_between(candidate.lead_start, candidate.tail_end)
    features["topic"] = min(3, len(words | (stems(candidate.label) & target.topic))) / 3
    if above := stems(section):
        features["heading asks"] = len(above & target.words) / len(above)
    if section and target.topic:
        on_topic = not target.topic.isdisjoint(stems(section))
        features["heading on topic" if on_topic else "heading off topic"] = 1
    if answer.has_term_in(candidate.label):
        features["terms"] = 1
    features["question"] = answer.text.find("?", candidate.mention.end, candidate.place.end) >= 0


def _add_arithmetic(answer: Answer, candidate: Candidate) -> None:
    """Add what a quantity is computed from, what is computed from it, and its size."""
    features, mention, text = candidate.features, candidate.mention, answer.text
    start, end, target, unit = mention.start, mention.end, answer.target, answer.target.unit
    computed = bool(
        _EQUALS_BEFORE.search(text, max(0, start - 4), start)
        and not _ASSIGNED.search(text, max(0, start - 12), start)
    )
    if _OPERATOR_AFTER.match(text, end) or _OPERATOR_BEFORE.search(text, max(0, start - 5), start):
        features["operand"] = 1
    elif computed:
        features["result"] = 1
        first = max(candidate.place.start, start - _EQUATION)
        features["result of a sum"] = text.find("+", first, start) >= 0
    if target.repeats(mention):
        features["input, computed" if computed and mention.size else "input"] = 1
    if mention.low < mention.high:
        features["range"] = 1
    else:
        features["one unit"] = mention.low == (mention.size or 1)
        features["fraction"] = unit.kind == "count" and candidate.low % 1 > 0
    if mention.kind != "number":
        features[mention.kind] = 1
    if unit.kind == "money":
        largest = max((given.high for given in target.inputs if given.size), default=0)
        features["as large as given"] = unit.size == 1 and 0 < largest * _LARGE < candidate.low
        little = unit.size >= _MILLION and candidate.sized and 0 < candidate.high < _LITTLE
        features["trifle"] = little * (1 if candidate.high < _LITTLE / 10 else 0.5)


def _add_place(answer: Answer, candidate: Candidate) -> None:
    features, place, line = candidate.features, candidate.place, candidate.place.line
    start, end = candidate.mention.start, candidate.mention.end
    features[line.kind] = 1
    features["later"] = start / len(answer.text)
    features["first line"] = line.number == 0
    below = len(answer.layout.lines) - 1 - line.number
    features["last line"] = below == 0
    features["last lines"] = below <= _LAST
    features["long, later"] = features["later"] * (len(answer.text) > _LONG_TEXT)
    features["bold"] = _within(answer.plain.bold, start, end)
    features["boxed"] = _within(answer.plain.boxed, start, end)
    if features["boxed"] and features.pop("no unit", 0):
        features["boxed without unit"] = 1
    before = len(answer.cues_between(place.start, start))
    features["alone"] = before + len(answer.cues_between(end, place.end)) <= _NEAR + 1
    if line.number <= 1 and before <= _NEAR + 1 and place.start - line.start <= _OPENING:
        features["opens" if candidate.sized else "opens without unit"] = 1
    if line.kind == "row" and line.last and line.cells:
        features["last row"] = 1
        features["last row, bold"] = _within(answer.plain.bold, *line.cells[0])
        features["last cell"] = start >= line.cells[-1][0]


def _within(spans: Sequence[Span], start: int, end: int) -> bool:
    """Return whether the place of a quantity overlaps one of some spans, which are in order."""
    index = bisect.bisect_left(spans, (end, 0)) - 1
    return index >= 0 and spans[index][1] > start


def _add_relations(candidates: Sequence[Candidate]) -> None:
    """Add what other candidates say of each: repeated, the sum of earlier ones, the only one."""
    sized = [candidate for candidate in candidates if candidate.sized]
    fresh = [candidate for candidate in sized if "input" not in candidate.features]
    rows: dict[int, set[int]] = defaultdict(set)
    for candidate in sized:
        rows[candidate.place.line.group].add(candidate.place.line.number)
    largest = max((candidate.value for candidate in fresh), default=0)
    earlier: list[float] = []
    later = sorted(candidate.value for candidate in sized)
    for candidate in candidates:
        features, value, group = candidate.features, candidate.value, candidate.place.line.group
        features["part"] = group >= 0 and len(rows[group]) > 1
        if candidate.sized:
            del later[bisect.bisect_left(later, value)]
            features["only one"] = len(fresh) == 1 and candidate is fresh[0]
            features["largest"] = 0 < value >= largest
            features["last"] = candidate is sized[-1]
        near = _SAME * value
        features["repeated later"] = value > 0 and _count(later, value - near, value + near) > 0
        features["repeated earlier"] = value > 0 and _count(earlier, value - near, value + near) > 0
        if candidate.sized:
            bisect.insort(earlier, value)
    for index, candidate in enumerate(fresh):
        total, value = 0.0, candidate.value
        for first in range(index - 1, max(-1, index - 1 - _MOST_TERMS), -1):
            total += fresh[first].value
            if first < index - 1 and value and abs(total - value) <= 2 * _SAME * value:
                candidate.features["sum of two" if first == index - 2 else "sum of earlier"] = 1
                for term in fresh[first:index]:
                    term.features["term of a sum"] = 1
    operands: list[float] = []
    for candidate in reversed(candidates):
        value, near = candidate.value, _SAME * candidate.value
        candidate.features["used later"] = _count(operands, value - near, value + near) > 0
        if candidate.features.get("operand"):
            bisect.insort(operands, value)


def _count(values: Sequence[float], low: float, high: float) -> int:
    """Return how many of some values, which are in order, lie between two."""
    return bisect.bisect_right(values, high) - bisect.bisect_left(values, low)
