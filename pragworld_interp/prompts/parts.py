"""The parts of a prompt, and the positions that a setting of a sweep selects."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class PromptParts:
    """The positions of the parts of a prompt; empty if the tokenizer does not tell them.

    A token belongs to a part if all of its characters do.
    """

    utterances: tuple[frozenset[int], ...] = ()  # the lines of the dialogue
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
        >>> find_parts("Hi! Who? Who?", "Hi! Who?", "Who?", [(0, 3), (4, 8), (9, 13)])
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


def select_positions(positions: str, length: int, parts: PromptParts) -> frozenset[int]:
    """Return the positions of one prompt that a setting stands for.

    Args:
        positions: A setting without a problem; see `pragworld_tasks.layers.settings`.
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
