"""Direct effect patching: how an altered variant's residuals change the answer to the original.

The original prompt runs with its residual stream at the input of one layer replaced, at all aligned
positions, by the altered prompt's (PragWorld paper, section 6.1). Let y be the gold answer of the
altered prompt, and let OR and AR be p(y) for the original and the altered prompt. The direct effect
of a layer is p(y) in the patched run minus OR.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.interventions import PatchedLogits
from pragworld_interp.engine.packing import (
    Batch,
    TokenTree,
    build_tree,
    pack_trees,
    pad_prompts,
    token_batches,
)
from pragworld_interp.engine.sweep import LiveBlock, Suffix, pad_suffixes, sweep_layers
from pragworld_interp.prompts.alignment import Alignment, PatchingPair, Tokens


@dataclass(frozen=True)
class PatchedRun:
    """The place of a pair in a batch."""

    suffix: Suffix  # the original, from the first token whose residuals change
    source_row: int  # of the altered prompt
    alignment: Alignment  # patched places in the suffix, and columns of the altered prompt


def patching_batch(
    groups: Sequence[Sequence[Tokens]],
    pairs: Sequence[Sequence[PatchingPair]],
    trees: bool,
    dtype: torch.dtype,
) -> tuple[Batch, list[PatchedRun]]:
    """Return the prompts of groups as a batch, and the patched runs of their pairs.

    Args:
        groups: The prompts of each group.
        pairs: Pairs of these prompts, by group.
        trees: Whether the prompts of a group form a tree and patched runs start where something
            changes (`agreement.tree_obstacle`), or all rows are padded and run from the beginning.
        dtype: The type of the residuals.
    """
    if trees:
        forest = [build_tree(prompts) for prompts in groups]
        batch = pack_trees(forest, dtype)
        runs = [
            _in_tree(pair, tree, row)
            for row, (tree, own) in enumerate(zip(forest, pairs, strict=True))
            for pair in own
        ]
    else:
        batch = pad_prompts([prompt for prompts in groups for prompt in prompts])
        starts = accumulate(map(len, groups[:-1]), initial=0)
        runs = [
            _in_rows(pair, prompts, start, batch.ids.shape[1])
            for start, prompts, own in zip(starts, groups, pairs, strict=True)
            for pair in own
        ]
    return batch, runs


@torch.inference_mode()
def patched_logits(
    decoder: Decoder,
    groups: Sequence[Sequence[Tokens]],
    pairs: Sequence[Sequence[PatchingPair]],
    trees: bool,
    chunk: int,
) -> list[PatchedLogits]:
    """Run the prompts of groups, and the original of every pair patched at every layer.

    Args:
        decoder: The model.
        groups: The prompts of each group.
        pairs: Pairs of these prompts, by group.
        trees: See `patching_batch`.
        chunk: Roughly how many tokens go through a block at a time.

    Returns:
        The logits of each group.
    """
    batch, runs = patching_batch(groups, pairs, trees, decoder.dtype)
    lengths = [len(run.suffix.columns) for run in runs]
    # Runs with suffixes of similar lengths go through a block together.
    units = list(token_batches([(1, length) for length in lengths], sum(lengths)))
    layers, device = len(decoder.blocks), decoder.device
    patches = [_Patch([runs[number] for number in unit], layers, device) for unit in units]
    plain = torch.empty(0)

    def at_layer(live: LiveBlock, hidden: Tensor) -> Tensor:
        nonlocal plain
        plain = live.rerun(hidden)
        for patch in patches:
            branches = patch.branches_at(live.number, hidden)
            if not len(branches):
                continue
            if trees:
                live.run_suffixes(branches, patch.suffixes)
            else:
                live.run(branches, patch.suffixes.rows)
        return plain

    sweep_layers(decoder, batch, at_layer, chunk=chunk, keep_keys=trees)
    ends = [plain.new_empty(layers, 0, plain.shape[2]), *(patch.ends(plain) for patch in patches)]
    order = torch.tensor([number for unit in units for number in unit], dtype=torch.long)
    patched_ends = torch.cat(ends, 1)[:, order.argsort().to(plain.device)]
    rows, columns = batch.ends.unbind(1)
    logits = decoder.label_logits(torch.cat([plain[rows, columns], patched_ends.flatten(0, 1)]))
    patched = logits[len(rows) :].view(layers, len(runs), logits.shape[1])
    prompt_counts, pair_counts = ([len(item) for item in items] for items in (groups, pairs))
    by_group = zip(
        torch.split(logits[: len(rows)], prompt_counts),
        torch.split(patched, pair_counts, 1),
        strict=True,
    )
    return [PatchedLogits(*parts) for parts in by_group]


class _Patch:
    """Some pairs, and their runs patched at each layer so far.

    Most patches leave the residuals at the first layer as they are, because aligned tokens are the
    same and their embeddings hold no positions. Then those runs are the plain one.
    """

    def __init__(self, runs: Sequence[PatchedRun], layers: int, device: torch.device) -> None:
        self.suffixes = pad_suffixes([run.suffix for run in runs], device)
        self._layers = layers
        self._first = 0  # layer whose patch changes residuals
        self._branches = torch.empty(0, device=device)  # [layers from the first on, pairs, …]
        patched = [
            (number, target, run.source_row, source)
            for number, run in enumerate(runs)
            for target, source in run.alignment
        ]
        self._places = torch.tensor(patched, dtype=torch.long, device=device).view(-1, 4).T

    def branches_at(self, layer: int, hidden: Tensor) -> Tensor:
        """Return the residuals of all runs before a layer, with new runs that it is patched in.

        Args:
            layer: The layer.
            hidden: [rows, length, width] residuals of the plain run before it.

        Returns:
            [patched layers times pairs, length, width], to be changed in place.
        """
        pairs, targets, source_rows, sources = self._places.to(hidden.device)
        suffixes = self.suffixes.to(hidden.device)
        patched = hidden[suffixes.rows[:, None], suffixes.columns]
        own = patched[pairs, targets]
        instead = hidden[source_rows, sources]
        if not layer:
            self._first = int(torch.equal(own, instead))
            self._branches = hidden.new_empty(self._layers - self._first, *patched.shape)
        patched[pairs, targets] = instead
        self._branches = self._branches.to(hidden.device)  # layers may be on several devices
        if layer >= self._first:
            self._branches[layer - self._first] = patched
        return self._branches[: layer + 1 - self._first].flatten(0, 1)

    def ends(self, plain: Tensor) -> Tensor:
        """Return the [layers, pairs, width] residuals of all runs where prompts end.

        Args:
            plain: [rows, length, width] residuals of the plain run after the last block.
        """
        suffixes = self.suffixes.to(plain.device)
        pair = torch.arange(len(suffixes.rows), device=plain.device)
        ends = self._branches[:, pair, suffixes.ends]
        if not self._first:
            return ends
        unchanged = plain[suffixes.rows, suffixes.columns[pair, suffixes.ends]]
        return torch.cat([unchanged[None], ends])


def _in_tree(pair: PatchingPair, tree: TokenTree, row: int) -> PatchedRun:
    original, altered = tree.paths[pair.original], tree.paths[pair.altered]
    # Positions that share a node have the same residuals in both prompts. The last token must run
    # in any case, to answer.
    changed = [target for target, source in pair.alignment if original[target] != altered[source]]
    start = min([len(original) - 1, *changed])
    later = [(target, source) for target, source in pair.alignment if target >= start]
    return PatchedRun(
        Suffix(row, original[:start], original[start:], len(original) - 1 - start),
        row,
        [(target - start, altered[source]) for target, source in later],
    )


def _in_rows(
    pair: PatchingPair, prompts: Sequence[Tokens], first_row: int, length: int
) -> PatchedRun:
    end = len(prompts[pair.original]) - 1
    return PatchedRun(
        Suffix(first_row + pair.original, [], [*range(length)], end),
        first_row + pair.altered,
        pair.alignment,
    )
