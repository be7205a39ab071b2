"""Direct effect patching: what the original's answer owes to the residuals of an altered variant.

The original prompt is run with its residual stream at the input of one layer replaced, at all
aligned positions, by the altered prompt's (SPEC, section 2; PragWorld paper, section 6.1). With y
the altered prompt's gold answer, OR and AR are p(y) of the original and of the altered prompt, and
the direct effect of a layer is p(y) in the patched run less OR.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch
from torch import Tensor

from pragworld_interp.decoder import Decoder
from pragworld_interp.layer_report import DIGITS
from pragworld_interp.packing import Tokens, Tree, grow, packed, padded
from pragworld_interp.patching_report import PairEffect, Positions
from pragworld_interp.runs import Group
from pragworld_interp.sweep import Lane, Layer, climb

Alignment = list[tuple[int, int]]


def aligned(original: Tokens, altered: Tokens) -> Alignment:
    """Pairs of positions, in the original and the altered prompt, that hold the same token.

    The longest matching blocks, over the ids that the model is fed, BOS included.
    """
    matcher = SequenceMatcher(None, original, altered, autojunk=False)
    return [
        (block.a + step, block.b + step)
        for block in matcher.get_matching_blocks()
        for step in range(block.size)
    ]


@dataclass(frozen=True)
class Pair:
    """An original and one of its altered variants, among the prompts of a group.

    Attributes:
        original, altered: which of the prompts.
        alignment: the positions at which the one's residuals are replaced by the other's.
    """

    original: int
    altered: int
    alignment: Alignment


@dataclass(frozen=True)
class Patched:
    """Logits of yes and of no.

    Attributes:
        plain: [prompts, 2] of every prompt as it is.
        patched: [layers, pairs, 2] of every pair's original, patched at the input of each layer.
    """

    plain: Tensor
    patched: Tensor


@dataclass(frozen=True)
class _Branching:
    """Where a pair is in the batch.

    Attributes:
        lane: of the patched runs: the original, from the first token on that is the altered
            prompt's own or is given what it does not have anyway. Before it nothing changes.
        source_row: of the altered prompt in the batch.
        targets: numbers of columns of the lane.
        sources: columns of the altered prompt, aligned with them.
    """

    lane: Lane
    source_row: int
    targets: Tensor
    sources: Tensor


def patched_logits(
    decoder: Decoder, prompts: Sequence[Tokens], pairs: Sequence[Pair], trees: bool, chunk: int
) -> Patched:
    """Runs a group's prompts, and every pair's original patched at every layer.

    Args:
        decoder: the model.
        prompts: of a group.
        pairs: of them.
        trees: whether the prompts go in as a tree, and patched runs only from where something
            changes (`packing.takes_trees`); else as padded rows, whole.
        chunk: tokens that go through a block in one go, about.
    """
    if trees:
        tree = grow(prompts)
        batch = packed([tree], decoder.dtype)
        branchings = [_in_tree(pair, tree) for pair in pairs]
    else:
        batch = padded(prompts)
        branchings = [_in_rows(pair, prompts) for pair in pairs]
    stacks: list[list[Tensor]] = [[] for _ in pairs]
    plain = torch.empty(0)

    def at_layer(layer: Layer, hidden: Tensor) -> Tensor:
        nonlocal plain
        plain = layer.rerun(hidden)
        for stack, at in zip(stacks, branchings, strict=True):
            new = hidden[at.lane.row, at.lane.columns][None].clone()
            new[0, at.targets] = hidden[at.source_row, at.sources]
            together = torch.cat([*stack, new])
            rows = torch.full((len(together),), at.lane.row)
            behind = layer.run_lane(together, at.lane) if trees else layer.run(together, rows)
            stack[:] = torch.split(behind, 1)
        return plain

    climb(decoder, batch, at_layer, chunk=chunk, keep_keys=trees)
    rows, columns = batch.ends.unbind(1)
    ends = [plain[rows, columns]]
    for stack, pair in zip(stacks, pairs, strict=True):
        end = -1 if trees else len(prompts[pair.original]) - 1
        ends.append(torch.cat(stack)[:, end])
    logits = decoder.label_logits(torch.cat(ends))
    patched = logits[len(prompts) :].view(len(pairs), len(decoder.blocks), 2)
    return Patched(logits[: len(prompts)], patched.transpose(0, 1))


def _in_tree(pair: Pair, tree: Tree) -> _Branching:
    original, altered = tree.paths[pair.original], tree.paths[pair.altered]
    start = next(
        (at for at, nodes in enumerate(zip(original, altered, strict=False)) if len({*nodes}) > 1),
        min(len(original), len(altered)),
    )
    # The longest matching block may run back into what both share, one token aside; then more than
    # what differs is replaced. And the last token is needed, to answer.
    moved = [target for target, source in pair.alignment if original[target] != altered[source]]
    start = min(start, len(original) - 1, *moved)
    later = [(target, source) for target, source in pair.alignment if target >= start]
    return _Branching(
        Lane(0, torch.tensor(original[:start]), torch.tensor(original[start:])),
        0,
        torch.tensor([target - start for target, _ in later], dtype=torch.long),
        torch.tensor([altered[source] for _, source in later], dtype=torch.long),
    )


def _in_rows(pair: Pair, prompts: Sequence[Tokens]) -> _Branching:
    length = max(map(len, prompts))
    return _Branching(
        Lane(pair.original, torch.arange(0), torch.arange(length)),
        pair.altered,
        torch.tensor([target for target, _ in pair.alignment], dtype=torch.long),
        torch.tensor([source for _, source in pair.alignment], dtype=torch.long),
    )


def pairs_of(group: Group, positions: Positions) -> list[Pair]:
    """Every altered variant of a group with its original; none where there is no original."""
    originals = [number for number, one in enumerate(group.documents) if one.is_original]
    if not originals:
        return []
    original = originals[0]
    pairs = []
    for number, document in enumerate(group.documents):
        if not document.is_original:
            alignment = aligned(group.prompts[original], group.prompts[number])
            if positions == "dialogue":
                of_original, of_altered = group.dialogues[original], group.dialogues[number]
                alignment = [
                    (target, source)
                    for target, source in alignment
                    if target in of_original and source in of_altered
                ]
            pairs.append(Pair(original, number, alignment))
    return pairs


def effects_of(group: Group, pairs: Sequence[Pair], logits: Patched) -> list[PairEffect]:
    """OR, AR and the patched runs of every pair of a group."""
    plain = logits.plain.double().softmax(-1)
    patched = logits.patched.double().softmax(-1)
    effects = []
    for number, pair in enumerate(pairs):
        original, altered = group.documents[pair.original], group.documents[pair.altered]
        gold = 0 if altered.answer == "yes" else 1
        effects.append(
            PairEffect(
                group=altered.group,
                original=original.row,
                altered=altered.row,
                alteration=altered.alteration,
                answer=altered.answer,
                original_run=round(float(plain[pair.original, gold]), DIGITS),
                altered_run=round(float(plain[pair.altered, gold]), DIGITS),
                patched=tuple(round(p, DIGITS) for p in patched[:, number, gold].tolist()),
            )
        )
    return effects
