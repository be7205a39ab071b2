"""Alignment of two prompts: which positions of the one are patched from which of the other."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from pragworld_interp.prompts.parts import PromptParts

Tokens = Sequence[int]

# Positions of the original prompt, each with the position of the altered prompt to patch from.
Alignment = list[tuple[int, int]]


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
    """Return the part of `align_tokens` in the utterances that hold a difference.

    Args:
        original: The original prompt.
        altered: The altered prompt.
        parts: The parts of the original prompt.
        altered_parts: The parts of the altered prompt.
    """
    changes = [code for code in _matcher(original, altered).get_opcodes() if code[0] != "equal"]
    differing = {position for _, start, stop, _, _ in changes for position in range(start, stop)}
    others = {position for _, _, _, start, stop in changes for position in range(start, stop)}
    targets = _holding(parts, differing)
    sources = _holding(altered_parts, others)
    return [
        (target, source)
        for target, source in align_tokens(original, altered)
        if target in targets or source in sources
    ]


def _holding(parts: PromptParts, positions: set[int]) -> frozenset[int]:
    """Return the positions of the utterances that hold one of some positions."""
    held = [utterance for utterance in parts.utterances if utterance & positions]
    return frozenset().union(*held)


def _matcher(original: Tokens, altered: Tokens) -> "SequenceMatcher[int]":
    return SequenceMatcher(None, original, altered, autojunk=False)
