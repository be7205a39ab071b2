"""Positions of prompts: a part by its name, or a span of tokens.

A setting `positions` is a string: `all`; `dialogue`, `question` or `last`, a part of the prompt; or
a span `start:stop`, which means what a Python slice of the prompt's tokens does. For a pair of an
original and an altered variant, it may also be `altered`, the tokens that differ, or `utterance`,
the rest of the utterances that hold a difference.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

PARTS = ("all", "dialogue", "question", "last")
PARTS_OF_PAIRS = (*PARTS, "altered", "utterance")

_SPAN = re.compile("(-?[0-9]{1,9})?:(-?[0-9]{1,9})?")


@dataclass(frozen=True)
class PromptParts:
    """The positions of the parts of a prompt; empty if the tokenizer does not tell them.

    A token belongs to a part if all of its characters do.

    Attributes:
        utterances: The positions of each line of the dialogue.
        question: The positions of the question.
    """

    utterances: tuple[frozenset[int], ...] = ()
    question: frozenset[int] = frozenset()

    @property
    def dialogue(self) -> frozenset[int]:
        """The positions of the dialogue, without the instructions around it and the question."""
        return frozenset().union(*self.utterances)


def find_parts(
    text: str, context: str, question: str, offsets: Sequence[tuple[int, int]]
) -> PromptParts:
    """Find the parts of a prompt.

    Args:
        text: The prompt. If it does not contain the context as it is, because a chat template has
            changed it, all parts are empty.
        context: The dialogue, an utterance a line.
        question: The question, which follows.
        offsets: Where each token starts and ends in the text.

    Examples:
        >>> find_parts("Hi you. Who?", "Hi you.", "Who?", [(0, 2), (2, 7), (8, 12)])
        PromptParts(utterances=(frozenset({0, 1}),), question=frozenset({2}))
    """
    start = text.find(context)
    if not context or start < 0:
        return PromptParts()
    end = start + len(context)
    asked = text.find(question, end)
    lines = context.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=start))[:-1]
    utterances: list[set[int]] = [set() for _ in lines]
    asking = set()
    for position, (first, behind) in enumerate(offsets):
        if first < behind and start <= first and behind <= end:
            utterances[bisect_right(starts, first) - 1].add(position)
        if first < behind and 0 <= asked <= first and behind <= asked + len(question):
            asking.add(position)
    return PromptParts(tuple(map(frozenset, utterances)), frozenset(asking))


def positions_problem(positions: object, parts: Sequence[str] = PARTS) -> str | None:
    """Return what is wrong with a setting of positions, as the end of an error; None if nothing.

    Args:
        positions: The setting.
        parts: The names that it may be, `PARTS` or `PARTS_OF_PAIRS`.

    Examples:
        >>> positions_problem("dialog")
        'must be all, dialogue, question, last, or a span of tokens such as 3:8 or -5:'
    """
    if isinstance(positions, str) and (positions in parts or _SPAN.fullmatch(positions)):
        return None
    return f"must be {', '.join(parts)}, or a span of tokens such as 3:8 or -5:"


def describe_positions(positions: str) -> str:
    """Return what reports call the patched positions of pairs.

    Examples:
        >>> describe_positions("dialogue")
        'aligned positions of the dialogue'
    """
    if ":" in positions:
        return f"aligned positions {positions}"
    return {
        "all": "all aligned positions",
        "last": "the last position",
        "altered": "the altered tokens",
        "utterance": "the rest of the altered utterances",
    }.get(positions, f"aligned positions of the {positions}")


def select_positions(positions: str, length: int, parts: PromptParts) -> frozenset[int]:
    """Return the positions of one prompt that a setting stands for; see `PARTS`.

    Args:
        positions: A setting without `positions_problem`.
        length: The number of tokens.
        parts: The parts of the prompt.

    Returns:
        The positions, none if the prompt has no such part or no token in the span.

    Examples:
        >>> sorted(select_positions("-3:", 8, PromptParts()))
        [5, 6, 7]
    """
    if positions == "last":
        return frozenset([length - 1])
    if positions == "dialogue":
        return parts.dialogue
    if positions == "question":
        return parts.question
    start, _, stop = positions.partition(":") if positions != "all" else ("", "", "")
    span = slice(int(start) if start else None, int(stop) if stop else None)
    return frozenset(range(length)[span])
