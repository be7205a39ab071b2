"""The choice of the final number among candidates, groups of alternatives, and none.

A conditional logit: the score of an option is the sum of its features' weights, and its probability
is in proportion to the exponential of its score.
"""

import functools
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from pragworld_tasks.files import read_json
from pragworld_tasks.quantities.candidates import Answer, Candidate
from pragworld_tasks.quantities.features import add_features, answer_features

_MINUS, _WORD = re.compile(r"(?:^|[\s(~≈:=|])- ?$"), re.compile(r"[a-z]+")
Weights = Mapping[str, float]
WEIGHTS_FILE = Path(str(files(__package__) / "weights.json"))

_SAME = 0.005  # relative difference of equal values
_ALIKE = 8.0  # difference of the scores of members of a group
_SCALE = 2.0  # of scores as features
_FAR = 10  # times the least value of a group
# No member of a group of alternatives has one of these features.
_NEVER_IN_GROUPS = ("rate", "input", "operand", "one unit", "no unit")


class Option(NamedTuple):
    """A value that may be the final number; None for no number.

    Attributes:
        value: The value, without a sign.
        features: Its features.
        start: Where it stands in the plain text; for a group, its first member.
    """

    value: float | None
    features: Mapping[str, float]
    start: int = 0


@functools.cache
def shipped_weights() -> Weights:
    """Return the weights that `examples/fit_quantity_reader.py` fitted."""
    weights: Weights = read_json(WEIGHTS_FILE)["weights"]
    return weights


def total_weight(features: Mapping[str, float], weights: Weights) -> float:
    """Return the sum of the weights of some features."""
    get = weights.get
    return sum([get(name, 0.0) * value for name, value in features.items()])


def find_options(answer: Answer, weights: Weights) -> list[Option]:
    """Return the options of an answer: candidates, groups of alternatives and, last, none."""
    add_features(answer)
    return [*candidate_options(answer), *group_options(answer, weights), none_option(answer)]


def candidate_options(answer: Answer) -> list[Option]:
    """Return the candidates of an answer, of which the features are known, as options."""
    return [
        Option(candidate.value, candidate.features, candidate.mention.start)
        for candidate in answer.candidates
    ]


def none_option(answer: Answer) -> Option:
    """Return the option that an answer has no final number."""
    return Option(None, answer_features(answer))


def choose(options: Sequence[Option], weights: Weights) -> Option:
    """Return the most probable option. Options of equal value share their probability."""
    scores = [total_weight(option.features, weights) for option in options]
    greatest = max(scores)
    ranked = sorted(
        ((math.inf if option.value is None else option.value), math.exp(points - greatest), number)
        for number, (option, points) in enumerate(zip(options, scores, strict=True))
    )
    share = most = 0.0
    first, bounds = 0, (0, len(ranked))
    for last, (value, probability, _) in enumerate(ranked):
        share += probability
        while ranked[first][0] < value * (1 - _SAME):  # leaves the run of equal values
            share -= ranked[first][1]
            first += 1
        if share > most:
            most, bounds = share, (first, last + 1)
    return options[max(ranked[slice(*bounds)], key=lambda entry: entry[1])[2]]


def read_sign(text: str, start: int, signs: Sequence[str]) -> int:
    """Return -1 or 1, by a minus sign at a place or by the nearest word that says which."""
    if _MINUS.search(text[max(0, start - 4) : start]):
        return -1
    negative, positive = (set(words.split()) for words in signs)
    distances = [
        (abs(word.start() - start), word[0])
        for word in _WORD.finditer(text)
        if word[0] in negative or word[0] in positive
    ]
    return -1 if distances and min(distances)[1] in negative else 1


def group_options(answer: Answer, weights: Weights) -> list[Option]:
    """Return the middles of what an answer offers side by side: `50 days at 20 mg, 25 at 40 mg`.

    Groups are the best candidates of each item of a list, of each row of a table, or under each
    heading of an option; all labelled ones of the text; and all of one paragraph.
    """
    groups: dict[tuple[str, int], dict[int, tuple[float, Candidate]]] = defaultdict(dict)
    for candidate in answer.candidates:
        features, line = candidate.features, candidate.place.line
        if not candidate.sized or any(map(features.get, _NEVER_IN_GROUPS)):
            continue
        start, points = candidate.mention.start, total_weight(features, weights)
        spots = {
            ("option", 0): line.section_number if candidate.under_option else None,
            ("list", line.group): line.number if line.group >= 0 else None,
            ("labelled", 0): start if candidate.labelled else None,
            ("paragraph", line.number): start if candidate.alternative and line.group < 0 else None,
        }
        for group, spot in spots.items():
            if spot is not None:
                best = groups[group].get(spot)
                if best is None or points >= best[0]:
                    groups[group][spot] = points, candidate
    options = []
    for (kind, _), best_of_spots in groups.items():
        least = max(points for points, _ in best_of_spots.values()) - _ALIKE
        members = [member for member in best_of_spots.values() if member[0] >= least]
        if len(members) > 1:
            options.append(_group(answer, kind, members))
    return options


def _group(answer: Answer, kind: str, members: Sequence[tuple[float, Candidate]]) -> Option:
    scores = [points for points, _ in members]
    candidates = [candidate for _, candidate in members]
    count, line = len(members), candidates[0].place.line
    low = min(candidate.low for candidate in candidates)
    high = max(candidate.high for candidate in candidates)
    features: dict[str, float] = {
        "group": 1,
        "group: labelled": kind == "labelled",
        "group: alternatives": sum(candidate.alternative for candidate in candidates) / count,
        "group: topic": sum(candidate.features["topic"] for candidate in candidates) / count,
        "group: mean score": sum(scores) / count / _SCALE,
        "group: least score": min(scores) / _SCALE,
        "group: same": high <= low * (1 + _SAME),
        "group: far apart": high > low * _FAR,
    }
    cues = answer.cues_between(*line.section) + answer.cues_between(*line.intro)
    features.update({f"group {cue}": 1 for cue in cues if cue.isupper()})
    return Option((low + high) / 2, features, candidates[0].mention.start)
