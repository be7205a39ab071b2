"""What an answer offers side by side (scenarios, options, rows), and which of it it settles on."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pragworld_tasks.quantities.candidates import Candidate, ParsedAnswer, Words
from pragworld_tasks.quantities.layout import Line
from pragworld_tasks.quantities.wording import pattern, words

_PLACES = {word: place for place, word in enumerate(words("ordinal_words"))}
MANY = 4  # alternatives


class Alternative(NamedTuple):
    """The best candidate of a block."""

    candidate: Candidate
    score: float
    line: Line  # in which the block begins
    label: Words


class Alternatives(NamedTuple):
    """Blocks of one kind with the best candidate of each, in order."""

    kind: str  # `headings`, `items`, `paragraphs`, `rows` or `sentences`
    marked: str  # `marked` as alternatives, `total` if one is a total of the others, or `plain`
    members: Sequence[Alternative]


def find_alternatives(
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
                begins = line if key[0] == "sentences" else answer.layout.lines[first]
                blocks[key][first] = Alternative(candidate, score, begins, answer.words_of(span))
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


def features_of_members(
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
        features = [f"{found.kind}, {found.marked}: {where} of {min(count, MANY)}"]
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
    bullets = [text[line.bullet : line.start].strip(" ().") for _, _, line, _ in members]
    said = [match[1] for match in pattern("by_number").finditer(text, end)]
    numbers = [
        member.label.number or bullet for member, bullet in zip(members, bullets, strict=True)
    ]
    return [named.count(place) + said.count(number) for place, number in enumerate(numbers)]
