"""Features of the candidates: cues around them, structure, arithmetic, and relations among them.

What a feature is worth is learned: `weights.json` has a weight for each name. Names of cues begin
with the place relative to the quantity (`lead`, `after`, `label` and so on).
"""

import bisect
import re
from collections import defaultdict
from collections.abc import Sequence

from pragworld_tasks.quantities.candidates import Answer, Candidate
from pragworld_tasks.quantities.layout import NOWHERE
from pragworld_tasks.quantities.plain_text import Span

# A plus with a blank only before it is a sign: `I'd say +4.5 kg`.
_OPERATOR_BEFORE = re.compile(r"[\w)%](?: ?[*÷] ?|\+ ?| \+ )\(?(?:us)?[$]?$")
_OPERATOR_AFTER = re.compile(r"\)? ?(?:[+*÷/x]|-) ?\(?(?:us)?[$\d]|\)? ?=(?!>)")
_CUT_OFF = re.compile(r"(?:[^\W_]|[-+*/=(,$:;÷])\s*$")

_NEAR, _FAR = 3, 14  # cues just before or after a quantity, and all that count
_OPENING = 30  # characters of a sentence
_OPTION = frozenset(("CASE", "IF", "with", "via", "at", "for"))  # in headings
_MARKS = frozenset(("CASE", "IF", "IDEAL"))  # of alternatives

_SAME = 0.005  # relative difference of equal values
_FEW_WORDS, _LONG = 12, 40
_MOST_TERMS = 12  # of a sum
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
    """Add the cues around a quantity, and note whether it is one of several alternatives."""
    features, mention, heading = candidate.features, candidate.mention, candidate.place.line.section
    lead = answer.cues_between(candidate.lead_start, mention.start)[-_FAR:]
    tail = answer.cues_between(mention.end, candidate.tail_end)[:_FAR]
    label, above = answer.cues_between(*candidate.label), answer.cues_between(*heading)
    features.update({f"lead {cue}": 1 for cue in lead})
    for part, cues in (("after", tail[:_NEAR]), ("label", label), ("heading", above)):
        features.update({f"{part} {cue}": 1 for cue in cues if cue.isupper()})
    in_heading = len(lead) <= _NEAR and candidate.label == NOWHERE and not _MARKS.isdisjoint(above)
    candidate.labelled = (
        in_heading or answer.has_term(*candidate.label) or not _MARKS.isdisjoint(label)
    )
    has_term = answer.has_term(candidate.lead_start, mention.start)
    candidate.alternative = candidate.labelled or has_term or not _MARKS.isdisjoint(lead + tail)
    # `Scenario A`, `At 20 mg` and `Via Dubai` are options.
    candidate.under_option = answer.has_term(*heading) or not _OPTION.isdisjoint(above)
    features["preferred"] = answer.written(candidate.label).startswith(answer.preferred)
    # Words of the prompt around a quantity.
    words = answer.topic_between(candidate.lead_start, candidate.tail_end)
    features["topic"] = min(3, len(words | answer.topic_between(*candidate.label))) / 3
    if heading != NOWHERE and answer.target.topic:
        features["heading off topic"] = not answer.topic_between(*heading)


def _add_arithmetic(answer: Answer, candidate: Candidate) -> None:
    """Add whether something is computed from a quantity, whether the prompt gives it, its size."""
    features, mention, text = candidate.features, candidate.mention, answer.text
    start, end, target, unit = mention.start, mention.end, answer.target, answer.target.unit
    if _OPERATOR_AFTER.match(text, end) or _OPERATOR_BEFORE.search(text, max(0, start - 5), start):
        features["operand"] = 1
    if target.repeats(mention):
        features["input"] = 1
    features["one unit"] = mention.low == mention.high == (mention.size or 1)
    if unit.kind == "money":
        largest = max((given.high for given in target.inputs if given.size), default=0)
        features["as large as given"] = unit.size == 1 and 0 < largest * _LARGE < candidate.low
        little = unit.size >= _MILLION and candidate.sized and 0 < candidate.high < _LITTLE
        features["trifle"] = little * (1 if candidate.high < _LITTLE / 10 else 0.5)


def _add_place(answer: Answer, candidate: Candidate) -> None:
    features, place, line = candidate.features, candidate.place, candidate.place.line
    start, end = candidate.mention.start, candidate.mention.end
    features["bold"] = _within(answer.plain.bold, start, end)
    features["boxed"] = _within(answer.plain.boxed, start, end)
    if features["boxed"]:
        features.pop("no unit", 0)
    features["row, bold"] = bool(line.cells) and _within(answer.plain.bold, *line.cells[0])
    before = len(answer.cues_between(place.start, start))
    features["alone"] = before + len(answer.cues_between(end, place.end)) <= _NEAR + 1
    opens = line.number <= 1 and before <= _NEAR + 1 and place.start - line.start <= _OPENING
    features["opens without unit"] = opens and not candidate.sized


def _within(spans: Sequence[Span], start: int, end: int) -> bool:
    """Return whether the place of a quantity overlaps one of some spans, which are in order."""
    index = bisect.bisect_left(spans, (end, 0)) - 1
    return index >= 0 and spans[index][1] > start


def _add_relations(candidates: Sequence[Candidate]) -> None:
    """Add what other candidates say of each: repeated, a part, a term of a sum, the only one."""
    sized = [candidate for candidate in candidates if candidate.sized]
    fresh = [candidate for candidate in sized if "input" not in candidate.features]
    rows: dict[int, set[int]] = defaultdict(set)
    for candidate in sized:
        rows[candidate.place.line.group].add(candidate.place.line.number)
    earlier: list[float] = []
    for candidate in candidates:
        features, value, group = candidate.features, candidate.value, candidate.place.line.group
        features["part"] = group >= 0 and len(rows[group]) > 1
        first = bisect.bisect_left(earlier, value * (1 - _SAME))
        features["repeated earlier"] = (
            value > 0 and first < len(earlier) and earlier[first] <= value * (1 + _SAME)
        )
        if candidate.sized:
            features["only one"] = len(fresh) == 1 and candidate is fresh[0]
            bisect.insort(earlier, value)
    for index, candidate in enumerate(fresh):
        total, value = 0.0, candidate.value
        for first in range(index - 1, max(-1, index - 1 - _MOST_TERMS), -1):
            total += fresh[first].value
            if first < index - 1 and value and abs(total - value) <= 2 * _SAME * value:
                for term in fresh[first:index]:
                    term.features["term of a sum"] = 1
