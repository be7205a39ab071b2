"""Prompts as input tensors: token trees, or rows padded to one length.

The prompts of a group share most of their text. A token tree is one row in which each shared prefix
occurs once. A mask lets every token attend to its own ancestors only, and positions count from the
root, so the last token of each prompt gets the same residuals as if the prompt ran alone.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from pragworld_interp.prompts.alignment import Tokens
from pragworld_interp.prompts.tokenization import PromptGroup, group_positions

MOST_PADDING = 1.05  # the most tokens of a batch, for each token of its units


@dataclass(frozen=True)
class Batch:
    """Input tensors for some prompts.

    The mask of rows is 1 for tokens and 0 for padding. The mask of trees is [rows, 1, length,
    length], 0 where a token attends to another and the lowest number elsewhere.
    """

    ids: Tensor  # [rows, length]
    mask: Tensor
    positions: Tensor  # [rows, length] in the prompt of each token
    history: Tensor  # [rows, length] the text up to each token, hashed to a number below 2^31
    chosen: Tensor  # [rows, length] whether an intervention applies to each token
    ends: Tensor  # [prompts, 2] the row and the column of each prompt's last token


def pad_prompts(
    prompts: Sequence[Tokens],
    chosen: Sequence[Set[int]] | None = None,
) -> Batch:
    """Return a batch with one row for each prompt, padded to the longest.

    Args:
        prompts: The prompts.
        chosen: The positions of each prompt that an intervention applies to; None for all.
    """
    length = max(map(len, prompts))
    ids = torch.zeros(len(prompts), length, dtype=torch.long)
    mask = torch.zeros_like(ids)
    history = torch.zeros_like(ids)
    is_chosen = torch.full(ids.shape, chosen is None)
    ends = []
    for row, prompt in enumerate(prompts):
        own = slice(0, len(prompt))
        ids[row, own] = torch.tensor(prompt)
        mask[row, own] = 1
        history[row, own] = torch.tensor(list(accumulate(prompt, _extend_history, initial=0))[1:])
        if chosen is not None:
            is_chosen[row, [*chosen[row]]] = True
        ends.append((row, len(prompt) - 1))
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    return Batch(ids, mask, positions, history, is_chosen, torch.tensor(ends))


def _extend_history(history: int, token: int) -> int:
    """Return the hash of a text and one more token, by a linear congruential generator."""
    return (history * 1_103_515_245 + token + 12_345) % 2**31


@dataclass(frozen=True)
class TokenTree:
    """Prompts with each shared prefix once. A node comes after its parent."""

    ids: list[int]  # the token of each node
    history: list[int]  # the text up to each node, hashed
    chosen: list[bool]  # whether an intervention applies to each node
    paths: list[list[int]]  # the nodes of each prompt, from the root


def build_tree(prompts: Sequence[Tokens], chosen: Sequence[Set[int]] | None = None) -> TokenTree:
    """Return the token tree of some prompts.

    Args:
        prompts: The prompts.
        chosen: The positions of each prompt that an intervention applies to; None for all. Prompts
            share a token only if it applies to both or to none.
    """
    tree = TokenTree([], [], [], [])
    children: dict[tuple[int, int, bool], int] = {}
    for number, prompt in enumerate(prompts):
        path: list[int] = []
        parent = -1
        for position, token in enumerate(prompt):
            is_chosen = chosen is None or position in chosen[number]
            node = children.get((parent, token, is_chosen))
            if node is None:
                node = children[parent, token, is_chosen] = len(tree.ids)
                tree.ids.append(token)
                tree.history.append(_extend_history(tree.history[parent] if path else 0, token))
                tree.chosen.append(is_chosen)
            path.append(node)
            parent = node
        tree.paths.append(path)
    return tree


def pack_trees(trees: Sequence[TokenTree], dtype: torch.dtype) -> Batch:
    """Return a batch with one row for each tree; prompts keep the order of trees and paths."""
    length = max(len(tree.ids) for tree in trees)
    ids = torch.zeros(len(trees), length, dtype=torch.long)
    positions = torch.zeros_like(ids)
    history = torch.zeros_like(ids)
    chosen = torch.zeros(ids.shape, dtype=torch.bool)
    attends = torch.eye(length, dtype=torch.bool).repeat(len(trees), 1, 1)
    ends = []
    for row, tree in enumerate(trees):
        ids[row, : len(tree.ids)] = torch.tensor(tree.ids)
        history[row, : len(tree.ids)] = torch.tensor(tree.history)
        chosen[row, : len(tree.ids)] = torch.tensor(tree.chosen)
        for path in tree.paths:
            nodes = torch.tensor(path)
            positions[row, nodes] = torch.arange(len(path))
            attends[row, nodes[:, None], nodes] |= torch.ones(len(path), len(path)).tril().bool()
            ends.append((row, path[-1]))
    mask = additive_mask(attends[:, None], dtype)
    return Batch(ids, mask, positions, history, chosen, torch.tensor(ends))


def additive_mask(attends: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask to add to attention scores: 0 where `attends`, else the lowest number."""
    mask = torch.zeros(attends.shape, dtype=dtype, device=attends.device)
    return mask.masked_fill_(~attends, torch.finfo(dtype).min)


def group_batch(
    groups: Sequence[PromptGroup], trees: bool, dtype: torch.dtype, positions: str = "all"
) -> Batch:
    """Return the prompts of groups as a batch: each group a tree, or each prompt a row.

    Args:
        groups: The groups.
        trees: Whether they are trees.
        dtype: The type of the residuals.
        positions: The positions that an intervention applies to; see `positions`.
    """
    if trees:
        return pack_trees([_group_tree(group, positions) for group in groups], dtype)
    prompts = [prompt for group in groups for prompt in group.prompts]
    chosen = [own for group in groups for own in group_positions(group, positions)]
    return pad_prompts(prompts, chosen=chosen)


def _group_tree(group: PromptGroup, positions: str) -> TokenTree:
    return build_tree(group.prompts, group_positions(group, positions))


def longest_tree(groups: Sequence[PromptGroup], positions: str = "all") -> int:
    """Return the tokens of the longest of the trees that `group_batch` makes of groups."""
    return max(len(_group_tree(group, positions).ids) for group in groups)


def work_units(
    groups: Sequence[PromptGroup], trees: bool, budget: int, positions: str = "all"
) -> list[list[PromptGroup]]:
    """Divide groups into units of similar lengths that run together, the longest first.

    A unit has as many groups as a budget in tokens and `MOST_PADDING` allow.
    """
    sizes = [
        (1, len(_group_tree(group, positions).ids))
        if trees
        else (len(group.prompts), max(map(len, group.prompts)))
        for group in groups
    ]
    return [[groups[position] for position in batch] for batch in token_batches(sizes, budget)]


def token_batches(sizes: Sequence[tuple[int, int]], budget: int) -> Iterator[list[int]]:
    """Group units of work of similar lengths into batches, the longest first.

    Args:
        sizes: The rows and the length of each unit.
        budget: The largest batch in tokens, padding included. A larger unit is a batch of its own.

    Yields:
        The positions of the units of one batch. Its tokens are at most `MOST_PADDING` times those
        of its units.
    """
    batch: list[int] = []
    rows = tokens = 0
    longest = 0  # of the batch, which is its first
    for position in sorted(range(len(sizes)), key=lambda position: -sizes[position][1]):
        unit_rows, length = sizes[position]
        rows, tokens = rows + unit_rows, tokens + unit_rows * length
        if batch and rows * longest > min(budget, MOST_PADDING * tokens):
            yield batch
            batch, rows, tokens = [], unit_rows, unit_rows * length
        if not batch:
            longest = length
        batch.append(position)
    if batch:
        yield batch
