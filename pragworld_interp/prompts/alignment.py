"""Pairs of prompts: which positions of one are patched from which of the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pragworld_interp.prompts.parts import PromptParts
from pragworld_interp.prompts.tokenization import PromptGroup, group_positions
from pragworld_tasks.errors import InputError

Tokens = Sequence[int]

# Positions of the prompt that is patched, each with the position of the other to patch from.
Alignment = list[tuple[int, int]]

# The kinds of positions that have a mean output of their own.
KINDS = ("rest", "dialogue", "question", "altered", "last")


@dataclass(frozen=True)
class PatchingPair:
    """Two prompts of a group: the one that is patched, the one it is patched from, and where."""

    target: int
    source: int
    alignment: Alignment


def patching_pairs(
    group: PromptGroup, positions: str, into: str = "original"
) -> list[PatchingPair]:
    """Return each altered variant of a group with its original; empty without an original."""
    original, variants = _original_and_variants(group)
    if original is None:
        return []
    pairs = [(original, variant) for variant in variants]
    return _pairs(group, positions, pairs if into == "original" else [pair[::-1] for pair in pairs])


def counterpart_pairs(group: PromptGroup, positions: str) -> list[PatchingPair]:
    """Return each prompt of a group, to be patched from its counterpart."""
    pairs = []
    for target, source in enumerate(counterparts(group)):
        if source is None:
            raise InputError(
                f"{group.examples[target].place}: there is no original or altered variant of it, "
                "from which outputs could be taken; add it, or choose another replacement"
            )
        pairs.append((target, source))
    return _pairs(group, positions, pairs)


def counterparts(group: PromptGroup) -> list[int | None]:
    """Return which prompt of a group is the counterpart of each; None for one without.

    That of a variant is its original. That of an original is the first variant with another answer,
    or the first one if all have its answer.
    """
    original, variants = _original_and_variants(group)
    if original is None:
        return [None] * len(group.prompts)
    answer = group.examples[original].answer
    others = [number for number in variants if group.examples[number].answer != answer]
    first = next(iter([*others, *variants]), None)
    return [first if example.is_original else original for example in group.examples]


def position_kinds(group: PromptGroup) -> list[list[int]]:
    """Return the kind of each position of each prompt of a group, as its place in `KINDS`.

    Altered are the tokens that are not aligned with the counterpart's.
    """
    by_prompt = []
    for prompt, parts, other in zip(group.prompts, group.parts, counterparts(group), strict=True):
        altered = {*range(len(prompt))} if other is not None else set()
        if other is not None:
            altered -= {target for target, _ in align_tokens(prompt, group.prompts[other])}
        kinds = [0] * len(prompt)
        own = (parts.dialogue, parts.question, altered, {len(prompt) - 1})
        for kind, positions in enumerate(own, start=1):
            for position in positions:
                kinds[position] = kind
        by_prompt.append(kinds)
    return by_prompt


def _original_and_variants(group: PromptGroup) -> tuple[int | None, list[int]]:
    are_original = [example.is_original for example in group.examples]
    variants = [number for number, is_original in enumerate(are_original) if not is_original]
    return are_original.index(True) if True in are_original else None, variants


def _pairs(
    group: PromptGroup, positions: str, numbers: Sequence[tuple[int, int]]
) -> list[PatchingPair]:
    """Return pairs of prompts, targets and sources, with the alignment at some positions."""
    needed = {"altered": "all", "utterance": "dialogue"}.get(positions, positions)
    selected = group_positions(group, needed)
    pairs = []
    for target, source in numbers:
        prompts = group.prompts[target], group.prompts[source]
        match positions:
            case "altered":
                alignment = align_altered(*prompts)
            case "utterance":
                alignment = align_utterances(*prompts, group.parts[target], group.parts[source])
            case "last":
                alignment = [(len(prompts[0]) - 1, len(prompts[1]) - 1)]
            case _:
                own, others = selected[target], selected[source]
                aligned = align_tokens(*prompts)
                alignment = [pair for pair in aligned if pair[0] in own and pair[1] in others]
        pairs.append(PatchingPair(target, source, alignment))
    return pairs


def align_tokens(original: Tokens, altered: Tokens) -> Alignment:
    """Return pairs of positions, in the original and the altered prompt, with the same token.

    They are those of the longest matching blocks. Both prompts include BOS, as the model gets them.
    """
    return [
        (block.a + step, block.b + step)
        for block in _matcher(original, altered).get_matching_blocks()
        for step in range(block.size)
    ]


def align_altered(original: Tokens, altered: Tokens) -> Alignment:
    """Return pairs of positions where a stretch of tokens is replaced by another.

    The tokens of a stretch are paired from the right, as many as the shorter side has. Tokens that
    are only inserted or only deleted have no counterpart.
    """
    return [
        (stop - step, other_stop - step)
        for tag, start, stop, other_start, other_stop in _matcher(original, altered).get_opcodes()
        if tag == "replace"
        for step in range(min(stop - start, other_stop - other_start), 0, -1)
    ]


def align_utterances(
    original: Tokens, altered: Tokens, parts: PromptParts, altered_parts: PromptParts
) -> Alignment:
    """Return the part of `align_tokens` in the utterances that hold a difference."""
    aligned = align_tokens(original, altered)
    targets = _differing_utterances(parts, {target for target, _ in aligned})
    sources = _differing_utterances(altered_parts, {source for _, source in aligned})
    return [pair for pair in aligned if pair[0] in targets or pair[1] in sources]


def _differing_utterances(parts: PromptParts, aligned: set[int]) -> frozenset[int]:
    """Return the positions of the utterances with a token that is not aligned."""
    return frozenset().union(*(own for own in parts.utterances if own - aligned))


def _matcher(original: Tokens, altered: Tokens) -> "SequenceMatcher[int]":
    return SequenceMatcher(None, original, altered, autojunk=False)
