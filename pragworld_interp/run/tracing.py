"""Traces: patching one token of a prompt at a time, or one part of it.

Meng et al. (2022, "Locating and Editing Factual Associations in GPT", arXiv:2202.05262) draw such
maps for corrupted embeddings. Here the other run is the altered variant's, as in `patching`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pragworld_interp.prompts.alignment import (
    PatchingPair,
    align_altered,
    align_tokens,
    align_utterances,
)
from pragworld_interp.prompts.tokenization import PromptGroup, gold_probabilities
from pragworld_tasks.layers.report import DIGITS
from pragworld_tasks.layers.settings import DataIdentity, ModelIdentity
from pragworld_tasks.layers.token_report import PART_TITLES, Part, PatchedToken, TokenReport


@dataclass(frozen=True)
class TracePlan:
    """What a trace patches in one pair.

    Attributes:
        group: The original and one altered variant.
        original: The place of the original in the group.
        altered: The place of the variant.
        parts: The part that each position of the original belongs to.
        sources: The position of the variant that a position is patched from, if there is one.
    """

    group: PromptGroup
    original: int
    altered: int
    parts: list[Part]
    sources: dict[int, int]

    @property
    def traced_parts(self) -> dict[Part, list[int]]:
        """The positions that are patched, by part, without parts that have none."""
        positions: dict[Part, list[int]] = {part: [] for part in PART_TITLES}
        for position in sorted(self.sources):
            positions[self.parts[position]].append(position)
        return {part: own for part, own in positions.items() if own}

    @property
    def pairs(self) -> list[PatchingPair]:
        """What to patch: each token alone, then each part."""
        together = [[position] for position in sorted(self.sources)]
        return [
            PatchingPair(self.original, self.altered, [(at, self.sources[at]) for at in positions])
            for positions in [*together, *self.traced_parts.values()]
        ]


def plan_trace(group: PromptGroup) -> TracePlan:
    """Return what a trace patches in a group of an original and one altered variant.

    Tokens are patched from their aligned counterparts, and altered ones from those that replace
    them. The last token is patched from the last one, whatever it is.
    """
    original = next(n for n, example in enumerate(group.examples) if example.is_original)
    altered = 1 - original
    prompts = group.prompts[original], group.prompts[altered]
    parts = group.parts[original], group.parts[altered]
    differing, aligned = dict(align_altered(*prompts)), dict(align_tokens(*prompts))
    beside = dict(align_utterances(*prompts, *parts))
    last = len(prompts[0]) - 1
    sources = {**differing, **aligned, last: len(prompts[1]) - 1}

    def part_of(position: int) -> Part:
        if position == last:
            return "last"
        if position not in aligned:
            return "altered"
        if position in beside:
            return "utterance"
        asked = position in parts[0].question and aligned[position] in parts[1].question
        return "question" if asked else "rest"

    return TracePlan(group, original, altered, [*map(part_of, range(last + 1))], sources)


def build_trace(
    plan: TracePlan,
    model: ModelIdentity,
    data: DataIdentity,
    tokenizer: Any,
    plain: Tensor,
    patched: Sequence[Tensor],
) -> TokenReport:
    """Return the report of a trace.

    Args:
        plan: The plan.
        model: The model.
        data: The two documents.
        tokenizer: The tokenizer, for the texts of tokens.
        plain: [2, labels] logits of the prompts.
        patched: [layers, labels] logits of each pair of the plan.
    """
    original, altered = (plan.group.examples[n] for n in (plan.original, plan.altered))
    runs = torch.cat([plain[[plan.original, plan.altered]], *patched])
    (probabilities,) = gold_probabilities(runs[:, None], [altered])
    rounded = [round(p, DIGITS) for p in probabilities]
    by_pair = [
        tuple(rounded[start : start + model.layers])
        for start in range(2, len(rounded), model.layers)
    ]
    alone = dict(zip(sorted(plan.sources), by_pair, strict=False))
    ids, other_ids = plan.group.prompts[plan.original], plan.group.prompts[plan.altered]
    tokens = []
    for position, part in enumerate(plan.parts):
        source = plan.sources.get(position)
        tokens.append(
            PatchedToken(
                text=tokenizer.decode([ids[position]]),
                part=part,
                source=source,
                source_text=None if source is None else tokenizer.decode([other_ids[source]]),
                patched=alone.get(position),
            )
        )
    return TokenReport(
        model=model,
        data=data,
        original=original.row,
        altered=altered.row,
        alteration=altered.alteration,
        answer=altered.answer,
        original_run=rounded[0],
        altered_run=rounded[1],
        parts=dict(zip(plan.traced_parts, by_pair[len(alone) :], strict=True)),
        tokens=tuple(tokens),
    )
