"""The choice of the final number among candidates, groups of alternatives, and none.

A conditional logit: the score of an option is the sum of its features' weights, and its probability
is in proportion to the exponential of its score.
"""

import functools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from pragworld_tasks.files import read_json
from pragworld_tasks.quantities.candidates import SAME, Answer, Candidate
from pragworld_tasks.quantities.plain_text import PlainText

Weights = Mapping[str, float]
WEIGHTS_FILE = Path(str(files(__package__) / "weights.json"))

# Before a blank, a minus follows a sign. Otherwise it is a bullet or a dash.
_MINUS = re.compile(r"(?:^|[\s(~≈:=|])-$|[(~≈:=|] ?- $")
_CUT_OFF = frozenset("-+*/=(,$:;÷")  # signs that no answer ends with
_FEW_WORDS, _LONG = 12, 40

_ALIKE = 8.0  # difference of the scores of members of a group
_SCALE = 2.0  # of scores as features


class Option(NamedTuple):
    """A value that may be the final number."""

    value: float | None  # without a sign; None for no number
    score: float  # the sum of the weights of its features
    features: Mapping[str, float]
    start: int = 0  # where it stands in the plain text; for a group, where its first member does


@functools.cache
def shipped_weights() -> Weights:
    """Return the weights that `examples/fit_quantity_reader.py` fitted."""
    weights: Weights = read_json(WEIGHTS_FILE)["weights"]
    return weights


def find_options(answer: Answer, weights: Weights) -> list[Option]:
    """Return the options of an answer: candidates, groups of alternatives and, last, none."""
    get = weights.get

    def option(value: float | None, features: Mapping[str, float], start: int = 0) -> Option:
        score = sum([get(name, 0.0) * value for name, value in features.items() if value])
        return Option(value, score, features, start)

    options = [option(single.value, single.features, single.start) for single in answer.candidates]
    scored = zip(answer.candidates, (single.score for single in options), strict=True)
    options += [option(*group) for group in _find_groups(answer, scored)]
    return [*options, option(None, _features_of_none(answer))]


def choose(options: Sequence[Option]) -> Option:
    """Return the most probable option. Options of equal value share their probability."""
    greatest = max(option.score for option in options)
    ranked = sorted(
        (math.inf if value is None else value, math.exp(score - greatest), number)
        for number, (value, score, _, _) in enumerate(options)
    )
    share = most = 0.0
    first, bounds = 0, (0, len(ranked))
    for last, (value, probability, _) in enumerate(ranked):
        share += probability
        while ranked[first][0] < value * (1 - SAME):  # leaves the run of equal values
            share -= ranked[first][1]
            first += 1
        if share > most:
            most, bounds = share, (first, last + 1)
    return options[max(ranked[slice(*bounds)], key=lambda entry: entry[1])[2]]


def read_sign(answer: PlainText, start: int, signs: Sequence[str]) -> int:
    """Return -1 or 1, by a minus sign at a place or by the nearest word that says which."""
    if _MINUS.search(answer.text[max(0, start - 4) : start]):
        return -1
    negative, positive = (set(words.split()) for words in signs)
    telling = negative | positive
    placed = zip(answer.starts, answer.words, strict=True)
    distances = [(abs(at - start), word) for at, word in placed if word in telling]
    return -1 if distances and min(distances)[1] in negative else 1


def _features_of_none(answer: Answer) -> dict[str, float]:
    """Return the features of an answer as a whole, which say whether it has a final number."""
    features: dict[str, float] = {f"none {cue}": 1 for cue in set(answer.cues)}
    last = answer.text.rstrip()[-1:]
    # List items and rows may end without a full stop.
    ends_list = all(line.kind != "text" for line in answer.layout.lines[-2:])
    ends_in_word = last.isalnum() and len(answer.cues) > _LONG and not ends_list
    features |= {
        "none": 1,
        "none: few words": len(answer.cues) <= _FEW_WORDS,
        "none: cut off": ends_in_word or last in _CUT_OFF,
    }
    return features


def _find_groups(
    answer: Answer, scored: Iterable[tuple[Candidate, float]]
) -> Iterator[tuple[float, dict[str, float], int]]:
    """Yield the middle of what an answer offers side by side, the features of that, and its start.

    Groups (`50 days at 20 mg, 25 at 40 mg`) are the best candidates of each item of a list, of each
    row of a table, or under each heading of an option; all labelled ones; and all of one paragraph.
    """
    groups: dict[tuple[str, int], dict[int, tuple[float, Candidate]]] = defaultdict(dict)
    for candidate, score in scored:
        if not candidate.sized or candidate.features["one unit"]:
            continue
        line, start = candidate.place.line, candidate.start
        spots = {
            ("option", 0): line.section_number if candidate.under_option else None,
            ("list", line.group): line.number if line.group >= 0 else None,
            ("labelled", 0): start if candidate.labelled else None,
            ("paragraph", line.number): start if candidate.alternative and line.group < 0 else None,
        }
        for group, spot in spots.items():
            if spot is not None:
                best = groups[group].get(spot)
                if best is None or score >= best[0]:
                    groups[group][spot] = score, candidate
    for best_of_spots in groups.values():
        least = max(score for score, _ in best_of_spots.values()) - _ALIKE
        members = [member for member in best_of_spots.values() if member[0] >= least]
        if len(members) < 2:
            continue
        scores, candidates = zip(*members, strict=True)
        low, high = min(end.low for end in candidates), max(end.high for end in candidates)
        features = {"group": 1.0, "group: least score": min(scores) / _SCALE}
        for span in (candidates[0].place.line.section, candidates[0].place.line.intro):
            features |= {f"group {cue}": 1.0 for cue in answer.words_of(span).cues}
        yield (low + high) / 2, features, candidates[0].start
