"""Direct effect patching: how an altered variant's residuals change the answer to the original.

The original prompt runs with its residual stream at the input of one layer replaced, at all aligned
positions, by the altered prompt's (PragWorld paper, section 6.1). Let y be the gold answer of the
altered prompt, and let OR and AR be p(y) for the original and the altered prompt. The direct effect
of a layer is p(y) in the patched run minus OR.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial

import torch
from torch import Tensor

from pragworld_interp.decoder import Decoder
from pragworld_interp.packing import Tokens, TokenTree, build_tree, pack_trees, pad_prompts
from pragworld_interp.patching_report import PairEffect, Positions
from pragworld_interp.serialization import DIGITS
from pragworld_interp.sweep import LiveBlock, Suffix, sweep_layers
from pragworld_interp.tokenization import PromptGroup

# Positions of the original prompt, each with the position of the altered prompt to patch from.
Alignment = list[tuple[int, int]]


def align_tokens(original: Tokens, altered: Tokens) -> Alignment:
    """Return pairs of positions, in the original and the altered prompt, with the same token.

    They are those of the longest matching blocks. Both prompts include BOS, as the model gets them.
    """
    matcher = SequenceMatcher(None, original, altered, autojunk=False)
    return [
        (block.a + step, block.b + step)
        for block in matcher.get_matching_blocks()
        for step in range(block.size)
    ]


@dataclass(frozen=True)
class PatchingPair:
    """An original and an altered variant among the prompts of a group, and what is patched."""

    original: int
    altered: int
    alignment: Alignment


@dataclass(frozen=True)
class PatchedLogits:
    """The logits of yes and no of prompts, and of the original of each pair, patched."""

    plain: Tensor  # [prompts, 2]
    patched: Tensor  # [layers, pairs, 2] patched at the input of each layer


@dataclass(frozen=True)
class _PatchedRun:
    """The place of a pair in the batch."""

    suffix: Suffix  # the original, from the first token that differs or is patched
    source_row: int  # of the altered prompt
    targets: Tensor  # the patched columns, counted within the suffix
    sources: Tensor  # the columns of the altered prompt that they are aligned with


def patched_logits(
    decoder: Decoder,
    prompts: Sequence[Tokens],
    pairs: Sequence[PatchingPair],
    trees: bool,
    chunk: int,
) -> PatchedLogits:
    """Run the prompts of a group, and the original of every pair patched at every layer.

    Args:
        decoder: The model.
        prompts: The prompts of the group.
        pairs: Pairs of these prompts.
        trees: Whether the prompts form a tree and patched runs start where something changes
            (`packing.supports_trees`), or all rows are padded and run from the beginning.
        chunk: Roughly how many tokens go through a block at a time.
    """
    if trees:
        tree = build_tree(prompts)
        batch = pack_trees([tree], decoder.dtype)
        runs = [_in_tree(pair, tree, decoder.device) for pair in pairs]
    else:
        batch = pad_prompts(prompts)
        runs = [_in_rows(pair, prompts, decoder.device) for pair in pairs]
    layers = len(decoder.blocks)
    stacks: list[Tensor] = []  # of each pair, [layers, length of the suffix, width]
    plain = torch.empty(0)

    def at_layer(live: LiveBlock, hidden: Tensor) -> Tensor:
        nonlocal plain, stacks
        plain = live.rerun(hidden)
        if not live.number:
            lengths = (len(run.suffix.columns) for run in runs)
            width = hidden.shape[2]
            stacks = [plain.new_empty(layers, length, width) for length in lengths]
        stacks = [stack.to(hidden.device) for stack in stacks]  # layers may be on several devices
        for stack, run in zip(stacks, runs, strict=True):
            columns, targets, sources = (
                index.to(hidden.device) for index in (run.suffix.columns, run.targets, run.sources)
            )
            stack[live.number] = hidden[run.suffix.row, columns]
            stack[live.number, targets] = hidden[run.source_row, sources]
            branches = stack[: live.number + 1]
            if trees:
                live.run_suffix(branches, run.suffix)
            else:
                rows = torch.full((len(branches),), run.suffix.row, device=decoder.device)
                live.run(branches, rows)
        return plain

    sweep_layers(decoder, batch, at_layer, chunk=chunk, keep_keys=trees)
    rows, columns = batch.ends.unbind(1)
    ends = [plain[rows, columns]]
    for stack, pair in zip(stacks, pairs, strict=True):
        ends.append(stack[:, -1 if trees else len(prompts[pair.original]) - 1])
    logits = decoder.label_logits(torch.cat(ends))
    patched = logits[len(prompts) :].view(len(pairs), layers, 2)
    return PatchedLogits(logits[: len(prompts)], patched.transpose(0, 1))


def _in_tree(pair: PatchingPair, tree: TokenTree, device: torch.device) -> _PatchedRun:
    original, altered = tree.paths[pair.original], tree.paths[pair.altered]
    start = next(
        (at for at, nodes in enumerate(zip(original, altered, strict=False)) if len({*nodes}) > 1),
        min(len(original), len(altered)),
    )
    # The longest matching block may reach back into the shared prefix, shifted by a token; then
    # more than the difference is patched. And the last token must run, to answer.
    shifted = [target for target, source in pair.alignment if original[target] != altered[source]]
    start = min(start, len(original) - 1, *shifted)
    later = [(target, source) for target, source in pair.alignment if target >= start]
    index = partial(torch.tensor, dtype=torch.long, device=device)
    return _PatchedRun(
        Suffix(0, index(original[:start]), index(original[start:])),
        0,
        index([target - start for target, _ in later]),
        index([altered[source] for _, source in later]),
    )


def _in_rows(pair: PatchingPair, prompts: Sequence[Tokens], device: torch.device) -> _PatchedRun:
    length = max(map(len, prompts))
    index = partial(torch.tensor, dtype=torch.long, device=device)
    return _PatchedRun(
        Suffix(pair.original, index([]), index(range(length))),
        pair.altered,
        index([target for target, _ in pair.alignment]),
        index([source for _, source in pair.alignment]),
    )


def patching_pairs(group: PromptGroup, positions: Positions) -> list[PatchingPair]:
    """Return each altered variant of a group with its original; empty without an original."""
    originals = [n for n, document in enumerate(group.documents) if document.is_original]
    if not originals:
        return []
    original = originals[0]
    pairs = []
    for altered, document in enumerate(group.documents):
        if not document.is_original:
            alignment = align_tokens(group.prompts[original], group.prompts[altered])
            if positions == "dialogue":
                targets, sources = group.dialogues[original], group.dialogues[altered]
                alignment = [(t, s) for t, s in alignment if t in targets and s in sources]
            pairs.append(PatchingPair(original, altered, alignment))
    return pairs


def pair_effects(
    group: PromptGroup, pairs: Sequence[PatchingPair], logits: PatchedLogits
) -> list[PairEffect]:
    """Return the effects of pairs of a group from the logits of `patched_logits`."""
    plain, patched = (part.cpu().double().softmax(-1) for part in (logits.plain, logits.patched))
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
