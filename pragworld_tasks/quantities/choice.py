"""The choice of the final number among candidates, groups of alternatives, and none.

A conditional logit: probabilities are in proportion to the exponentials of sums of weights.
"""

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from pragworld_tasks.files import read_json
from pragworld_tasks.quantities.alternatives import (
    MANY,
    Alternatives,
    features_of_members,
    find_alternatives,
)
from pragworld_tasks.quantities.candidates import SAME, ParsedAnswer

# The names of features, and their weights, by their place.
Features = Mapping[str, Sequence[str]]
Weights = Mapping[str, Mapping[str, float]]
LEAST_SCORE = "group: least score"  # the one feature with a value; others are there or not
WEIGHTS_FILE = Path(str(files(__package__) / "weights.json"))
_CUT_OFF = frozenset("-+*/=(,$:;÷")  # signs that no answer ends with
_FEW_WORDS, _LONG = 12, 40
_BETWEEN = 12  # cues between alternatives in a sentence
_ALIKE = 8.0  # difference of the scores of members of a group
_SCALE = 2.0  # of scores as features
_LIKELY = 10  # options that may be chosen
_SHORT = 25  # cues of an answer that states a quantity and little else
# Cues of another quantity before or after one, unless they follow words of the third set, and what
# else may be said of an answer or its quantity that does not state the final number.
_OTHER = frozenset(("ASIDE", "INPUT", "MARGIN", "MEANS", "PART"))
_UNSTATED = {"ASK", "DECLINE", "RATE", "brackets", "none: cut off", "one unit", "trifle"}
_BESIDES = frozenset(("at", "inclu", "on", "with"))


class Option(NamedTuple):
    """A value that may be the final number."""

    value: float | None  # without a sign; None for no number
    score: float  # the sum of the weights of its features
    features: Features
    least: float = 0.0  # of a group, the least score of its members, scaled


@functools.cache
def shipped_weights() -> Weights:
    """Return the weights that `examples/fit_quantity_reader.py` fitted."""
    weights: Weights = read_json(WEIGHTS_FILE)["weights"]
    return weights


def find_options(answer: ParsedAnswer, weights: Weights) -> list[Option]:
    """Return the options of an answer: candidates, groups of alternatives and, last, none."""

    def score(features: Features, least: float = 0.0) -> float:
        total = least * weights.get("is", {}).get(LEAST_SCORE, 0.0)
        for place, names in features.items():
            if names:
                total += sum(map(weights.get(place, {}).get, names, itertools.repeat(0.0)))
        return total

    scores = [score(candidate.features) for candidate in answer.candidates]
    added: dict[int, list[str]] = defaultdict(list)  # by the place of a candidate
    groups: list[Option] = []
    for found in find_alternatives(answer, zip(answer.candidates, scores, strict=True)):
        for member, names in features_of_members(answer, found):
            added[member.candidate.start] += names
        if group := _group(answer, found):
            value, features, least = group
            groups.append(Option(value, score(features, least), features, least))
    singles: list[Option] = []
    for one, known in zip(answer.candidates, scores, strict=True):
        among = {"among": list(dict.fromkeys(added.get(one.start, ())))}
        features = {**one.features, **among}
        singles.append(Option(one.value, known + score(among), features))
    none = _features_of_none(answer)
    least = -math.inf if _is_stated(answer, none) else score(none)
    return [*singles, *groups, Option(None, least, none)]


def choose(options: Sequence[Option]) -> Option:
    """Return the most probable option. Options of equal value share their probability."""
    likely = sorted(options, key=lambda option: -option.score)[:_LIKELY]
    values = [math.inf if option.value is None else option.value for option in likely]
    weights = [math.exp(option.score - likely[0].score) for option in likely]
    equal = [[math.isclose(value, other, rel_tol=SAME) for other in values] for value in values]
    best = max(equal, key=lambda same: sum(itertools.compress(weights, same)))
    return likely[best.index(True)]


def _features_of_none(answer: ParsedAnswer) -> Features:
    """Return the features of an answer as a whole, which say whether it has a final number."""
    last = answer.text.rstrip()[-1:]
    # List items and rows may end without a full stop.
    ends_list = all(line.kind != "text" for line in answer.layout.lines[-2:])
    ends_in_word = last.isalnum() and len(answer.cues) > _LONG and not ends_list
    is_short, is_cut_off = len(answer.cues) <= _FEW_WORDS, ends_in_word or last in _CUT_OFF
    true = ["none", *["none: few words"] * is_short, *["none: cut off"] * is_cut_off]
    return {"none": list(dict.fromkeys(answer.cues)), "is": true}


def _is_stated(answer: ParsedAnswer, none: Features) -> bool:
    """Return whether a short answer has one value and no cue that it is another than the asked."""
    sized = [candidate for candidate in answer.candidates if candidate.sized]
    ends_well = len(answer.cues) <= _FEW_WORDS or not answer.text.rstrip()[-1:].isalnum()
    is_short = ends_well and len(answer.cues) <= _SHORT and len(answer.layout.lines) == 1
    if len({candidate.value for candidate in sized}) != 1 or "?" in answer.text or not is_short:
        return False
    features, cues = sized[0].features, answer.cues_between(sized[0].place.start, sized[0].start)
    lead = list(itertools.takewhile(lambda cue: cue != "that", reversed(cues)))
    before = zip(lead, [*lead[1:], ""], [*lead[2:], "", ""], strict=False)
    near = {cue for cue, *words in before if _BESIDES.isdisjoint(words)}
    near.update(features["after"], features["label"])
    said = {*answer.cues, *features["is"], *none["is"]}
    return _OTHER.isdisjoint(near) and _UNSTATED.isdisjoint(said)


def _group(answer: ParsedAnswer, found: Alternatives) -> tuple[float, Features, float] | None:
    """Return the middle of alternatives that score alike, with the features of an option."""
    most = max(member.score for member in found.members)
    members = [member for member in found.members if member.score >= most - _ALIKE]
    if len(members) < 2:
        return None
    candidates, size = [member.candidate for member in members], f"of {min(len(members), MANY)}"
    low, high = min(end.low for end in candidates), max(end.high for end in candidates)
    line = candidates[0].place.line
    cues = answer.words_of(line.section).cues + answer.words_of(line.intro).cues
    features = {
        "is": ["group", *(f"group: {name}" for name in (found.kind, found.marked, size))],
        "group": list(dict.fromkeys(cues)),
    }
    if found.kind == "sentences":
        between = answer.cues_between(candidates[0].start, candidates[-1].start)
        features["between"] = list(dict.fromkeys(between[-_BETWEEN:]))
    least = min(member.score for member in members) / _SCALE
    middle = sorted(end.value for end in candidates)[1] if len(members) == 3 else (low + high) / 2
    return middle, features, least
