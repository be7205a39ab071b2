"""Pairs of prompts: which positions of an original are patched from which of its variant."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pragworld_interp.prompts.parts import PromptParts
from pragworld_interp.prompts.tokenization import PromptGroup, group_positions

Tokens = Sequence[int]

# Positions of the original prompt, each with the position of the altered prompt to patch from.
Alignment = list[tuple[int, int]]


@dataclass(frozen=True)
class PatchingPair:
    """An original and an altered variant among the prompts of a group, and what is patched."""

    original: int
    altered: int
    alignment: Alignment


def patching_pairs(group: PromptGroup, positions: str) -> list[PatchingPair]:
    """Return each altered variant of a group with its original; empty without an original.

    Args:
        group: The group.
        positions: A name in `settings.PARTS_OF_PAIRS`, or a span.

    Raises:
        InputError: A prompt has no such positions, or its tokenizer does not tell them.
    """
    originals = [n for n, example in enumerate(group.examples) if example.is_original]
    if not originals:
        return []
    original = originals[0]
    needed = {"altered": "all", "utterance": "dialogue"}.get(positions, positions)
    selected = group_positions(group, needed)

    def align(altered: int) -> Alignment:
        prompts = group.prompts[original], group.prompts[altered]
        match positions:
            case "altered":
                return align_altered(*prompts)
            case "utterance":
                return align_utterances(*prompts, group.parts[original], group.parts[altered])
            case "last":
                return [(len(prompts[0]) - 1, len(prompts[1]) - 1)]
        targets, sources = selected[original], selected[altered]
        aligned = align_tokens(*prompts)
        return [pair for pair in aligned if pair[0] in targets and pair[1] in sources]

    return [
        PatchingPair(original, altered, align(altered))
        for altered, example in enumerate(group.examples)
        if not example.is_original
    ]


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
