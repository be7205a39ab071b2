"""The choice of the final number among candidates, groups of alternatives, and none.

A conditional logit: probabilities are in proportion to the exponentials of sums of weights.
"""

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from pragworld_tasks.files import read_json
from pragworld_tasks.quantities.candidates import SAME, Candidate, ParsedAnswer, Words
from pragworld_tasks.quantities.wording import pattern, words

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
_CERTAIN = 100.0  # added to the score of the middle one of three alternatives
# What may be said of an answer or its quantity that does not state the final number, and words
# after which a cue of another quantity does not.
_UNSTATED = {"ASK", "DECLINE", "RATE", "brackets", "none: cut off", "one unit", "trifle"}
_BESIDES = frozenset(("at", "inclu", "on", "with"))
_MANY = 4  # alternatives
_PLACES = {word: place for place, word in enumerate(words("ordinal_words"))}
_OTHER, _PREFERRING = frozenset(words("other_words")), frozenset(words("preferring_words"))
_FAR = 10  # times the least of three alternatives
_OFFER = 70  # cues of an answer that offers three quantities and says little else


class Option(NamedTuple):
    """A value that may be the final number."""

    value: float | None  # without a sign; None for no number
    score: float  # the sum of the weights of its features
    features: Features
    least: float = 0.0  # of a group, the least score of its members, scaled


class Alternative(NamedTuple):
    """The best candidate of a block."""

    candidate: Candidate
    score: float
    first: int  # the number of the block's first line
    label: Words


class Alternatives(NamedTuple):
    """Blocks of one kind with the best candidate of each, in order."""

    kind: str  # `headings`, `items`, `paragraphs`, `rows` or `sentences`
    marked: str  # `marked` as alternatives, `total` if one is a total of the others, or `plain`
    members: Sequence[Alternative]


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
    for found in _find_alternatives(answer, zip(answer.candidates, scores, strict=True)):
        for member, names in _features_of_members(answer, found):
            added[member.candidate.start] += names
        if group := _group(answer, found):
            groups.append(group._replace(score=score(group.features, group.least)))
    middle = _middle_of_three(answer)
    singles: list[Option] = []
    for one, known in zip(answer.candidates, scores, strict=True):
        among = {"among": list(dict.fromkeys(added.get(one.start, ())))}
        features = {**one.features, **among}
        known += _CERTAIN if one is middle else 0.0
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
    cut_off = ["none: cut off"] * (ends_in_word or last in _CUT_OFF)
    return {"none": list(dict.fromkeys(answer.cues)), "is": ["none", *cut_off]}


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
    near = {cue for cue, *others in before if _BESIDES.isdisjoint(others)}
    near.update(features["after"], features["label"])
    said = {*answer.cues, *features["is"], *none["is"]}
    if not said.isdisjoint(("topic 2", "topic 3")):  # two words of the prompt say what it is
        near -= {"MEANS", "PART"}
    return _OTHER.isdisjoint(near) and _UNSTATED.isdisjoint(said)


def _middle_of_three(answer: ParsedAnswer) -> Candidate | None:
    """Return the middle one of three quantities side by side, if a short answer prefers none.

    They stand in one sentence, or in a sentence, an item, a row or a section each.
    """
    members = [candidate for candidate in answer.candidates if candidate.sized]
    if len(members) != 3 or len(answer.cues) > _OFFER:
        return None
    first, _, last = members
    low, middle, high = sorted(members, key=lambda member: member.value)
    sentences = {member.place.start for member in members}
    lines = {member.place.line.number for member in members}
    kinds = {member.place.line.kind for member in members}
    is_parallel = 2 not in (len(sentences), len(lines)) and len(kinds) == 1
    if not (is_parallel and low.value < middle.value < high.value < _FAR * low.value):
        return None
    beside = ("lead", "after", "label", "heading")
    own = [{cue for part in beside for cue in member.features[part]} for member in members]

    # A part is no alternative, unless the two beside it are.
    others = sum(not cues.isdisjoint({*_OTHER, "RATE"}) for cues in own)
    marked = sum(member.alternative for member in members)
    if others > (marked > 1) or "INPUT" in answer.cues:
        return None

    # One is preferred by a cue that not all of them have, or by a reference to it.
    said = Counter(answer.cues_between(first.place.line.start, len(answer.text)))
    said.update(first.features["heading"])
    preferring = _PREFERRING.difference(own[0] & own[1] & own[2])
    is_preferred = (
        any(said[cue] > (cue in own[members.index(middle)]) for cue in preferring)
        or not {"CASE", "TYPICAL"}.isdisjoint(answer.cues_between(last.place.end, len(answer.text)))
        or pattern("favored").search(answer.text, first.start)
        or pattern("ordinal").search(answer.text, last.start)
    )
    return None if is_preferred else middle


def _group(answer: ParsedAnswer, found: Alternatives) -> Option | None:
    """Return the middle of alternatives that score alike, as an option without its score."""
    most = max(member.score for member in found.members)
    members = [member for member in found.members if member.score >= most - _ALIKE]
    if len(members) < 2:
        return None
    candidates, size = [member.candidate for member in members], f"of {min(len(members), _MANY)}"
    low, high = min(end.low for end in candidates), max(end.high for end in candidates)
    names = (f"group: {name}" for name in (found.kind, found.marked, size))
    features = {"is": ["group", *names]}
    if found.kind == "sentences":
        between = answer.cues_between(candidates[0].start, candidates[-1].start)
        features["between"] = list(dict.fromkeys(between[-_BETWEEN:]))
    least = min(member.score for member in members) / _SCALE
    middle = sorted(end.value for end in candidates)[1] if len(members) == 3 else (low + high) / 2
    return Option(middle, 0.0, features, least)


def _find_alternatives(
    answer: ParsedAnswer, scored: Iterable[tuple[Candidate, float]]
) -> Iterator[Alternatives]:
    """Yield the alternatives of an answer. The scores of candidates say which is a block's best."""
    blocks: dict[tuple[str, int], dict[int, Alternative]] = defaultdict(dict)
    for candidate, score in scored:
        if not candidate.sized or "one unit" in candidate.features["is"]:
            continue
        line = candidate.place.line
        spots = [(key, *block) for key, block in line.blocks.items()]
        if line.kind in ("text", "heading"):
            spots.append((("sentences", line.number), candidate.start, candidate.place.label))
        for key, first, span in spots:
            best = blocks[key].get(first)
            if best is None or score >= best.score:
                blocks[key][first] = Alternative(candidate, score, first, answer.words_of(span))
    for (kind, _), found in blocks.items():
        members = [found[first] for first in sorted(found)]
        is_marked = [
            member.candidate.alternative
            if kind == "sentences"
            else bool(member.label.is_marked or member.label.has_term or member.label.number)
            for member in members
        ]
        marked = "plain"
        if sum(is_marked) > 1:
            marked, members = "marked", list(itertools.compress(members, is_marked))
        elif any("TOTAL" in member.label.cues for member in members):
            marked = "total"
        if len(members) > 1:
            yield Alternatives(kind, marked, members)


def _features_of_members(
    answer: ParsedAnswer, found: Alternatives
) -> Iterator[tuple[Alternative, list[str]]]:
    """Yield alternatives in blocks with their places, and whether the answer refers to one."""
    if found.kind == "sentences":
        return
    count = len(found.members)
    references = _references(answer, found.members) if found.marked != "total" else [0] * count
    most = max(references)
    for place, (member, times) in enumerate(zip(found.members, references, strict=True)):
        inner = "middle" if 2 * place + 1 == count else "other"
        where = {0: "first", count - 1: "last"}.get(place, inner)
        features = [f"{found.kind}, {found.marked}: {where} of {min(count, _MANY)}"]
        if most and references.count(most) == 1:
            features.append(f"{found.marked}: {'' if times == most else 'other '}numbered")
        yield member, features


def _references(answer: ParsedAnswer, members: Sequence[Alternative]) -> list[int]:
    """Return how often the text after some alternatives refers to each by its number or place."""
    text, count = answer.text, len(members)
    end = max(member.candidate.place.line.end for member in members)
    middle = count // 2 if count % 2 else count
    places = {**_PLACES, "middle": middle, "central": middle}
    named = [places.get(match[1], count - 1) for match in pattern("ordinal").finditer(text, end)]
    lines = [answer.layout.lines[member.first] for member in members]
    bullets = [text[line.bullet : line.start].strip(" ().") for line in lines]
    said = [match[1] for match in pattern("by_number").finditer(text, end)]
    numbers = [
        member.label.number or bullet for member, bullet in zip(members, bullets, strict=True)
    ]
    return [named.count(place) + said.count(number) for place, number in enumerate(numbers)]
