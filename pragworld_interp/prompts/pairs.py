"""Pairs of an original and an altered variant, and which positions are patched."""

from collections.abc import Sequence
from dataclasses import dataclass

from pragworld_interp.prompts.alignment import (
    Alignment,
    align_altered,
    align_tokens,
    align_utterances,
)
from pragworld_interp.prompts.tokenization import PromptGroup, group_positions


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
    return [
        PatchingPair(original, altered, _align_pair(group, original, altered, positions, selected))
        for altered, example in enumerate(group.examples)
        if not example.is_original
    ]


def _align_pair(
    group: PromptGroup,
    original: int,
    altered: int,
    positions: str,
    selected: Sequence[frozenset[int]],
) -> Alignment:
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
