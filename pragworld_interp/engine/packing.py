"""Prompts as input tensors: token trees, or rows padded to one length.

The prompts of a group share most of their text. A token tree is one row in which each shared prefix
occurs once. A mask lets every token attend to its own ancestors only, and positions count from the
root, so the last token of each prompt gets the same residuals as if the prompt ran alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pragworld_interp.prompts.alignment import Tokens
from pragworld_interp.prompts.tokenization import PromptGroup

# Returns what an intervention makes of each position of each prompt; see `Batch.marks`.
GroupMarks = Callable[[PromptGroup], Sequence[Sequence[int]]]

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
    marks: Tensor  # [rows, length] what an intervention makes of each token; negative for nothing
    rows: list[int]  # the row of each prompt
    paths: list[list[int]]  # the columns of each prompt

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and their length."""
        return self.ids.shape[0], self.ids.shape[1]

    @property
    def ends(self) -> Tensor:
        """The row and the column of each prompt's last token, [prompts, 2]."""
        return torch.tensor(
            [(row, path[-1]) for row, path in zip(self.rows, self.paths, strict=True)]
        )


def pad_prompts(prompts: Sequence[Tokens], marks: Sequence[Sequence[int]] | None = None) -> Batch:
    """Return a batch with one row for each prompt, padded to the longest."""
    length = max(map(len, prompts))
    ids = torch.zeros(len(prompts), length, dtype=torch.long)
    mask = torch.zeros_like(ids)
    row_marks = torch.full_like(ids, -1)
    for row, prompt in enumerate(prompts):
        own = slice(0, len(prompt))
        ids[row, own] = torch.tensor(prompt)
        mask[row, own] = 1
        row_marks[row, own] = torch.tensor(marks[row]) if marks else 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    paths = [[*range(len(prompt))] for prompt in prompts]
    return Batch(ids, mask, positions, row_marks, [*range(len(prompts))], paths)


@dataclass(frozen=True)
class TokenTree:
    """Prompts with each shared prefix once. A node comes after its parent."""

    ids: list[int]  # the token of each node
    marks: list[int]  # what an intervention makes of each node
    paths: list[list[int]]  # the nodes of each prompt, from the root


def build_tree(
    prompts: Sequence[Tokens], marks: Sequence[Sequence[int]] | None = None
) -> TokenTree:
    """Return the token tree of some prompts."""
    tree = TokenTree([], [], [])
    children: dict[tuple[int, int, int], int] = {}
    for number, prompt in enumerate(prompts):
        path: list[int] = []
        parent = -1
        for token, mark in zip(prompt, marks[number] if marks else [0] * len(prompt), strict=True):
            node = children.get((parent, token, mark))
            if node is None:
                node = children[parent, token, mark] = len(tree.ids)
                tree.ids.append(token)
                tree.marks.append(mark)
            path.append(node)
            parent = node
        tree.paths.append(path)
    return tree


def pack_trees(trees: Sequence[TokenTree], dtype: torch.dtype) -> Batch:
    """Return a batch with one row for each tree; prompts keep the order of trees and paths."""
    length = max(len(tree.ids) for tree in trees)
    ids = torch.zeros(len(trees), length, dtype=torch.long)
    positions = torch.zeros_like(ids)
    marks = torch.full_like(ids, -1)
    attends = torch.eye(length, dtype=torch.bool).repeat(len(trees), 1, 1)
    for row, tree in enumerate(trees):
        ids[row, : len(tree.ids)] = torch.tensor(tree.ids)
        marks[row, : len(tree.ids)] = torch.tensor(tree.marks)
        for path in tree.paths:
            nodes = torch.tensor(path)
            positions[row, nodes] = torch.arange(len(path))
            attends[row, nodes[:, None], nodes] |= torch.ones(len(path), len(path)).tril().bool()
    rows = [row for row, tree in enumerate(trees) for _ in tree.paths]
    paths = [path for tree in trees for path in tree.paths]
    return Batch(ids, additive_mask(attends[:, None], dtype), positions, marks, rows, paths)


def additive_mask(attends: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask to add to attention scores: 0 where `attends`, else the lowest number."""
    mask = torch.zeros(attends.shape, dtype=dtype, device=attends.device)
    return mask.masked_fill_(~attends, torch.finfo(dtype).min)


def group_batch(
    groups: Sequence[PromptGroup], trees: bool, dtype: torch.dtype, marks: GroupMarks | None = None
) -> Batch:
    """Return the prompts of groups as a batch: each group a tree, or each prompt a row."""
    if trees:
        return pack_trees([group_tree(group, marks) for group in groups], dtype)
    prompts = [prompt for group in groups for prompt in group.prompts]
    return pad_prompts(prompts, marks and [own for group in groups for own in marks(group)])


def group_tree(group: PromptGroup, marks: GroupMarks | None = None) -> TokenTree:
    """Return the token tree of a group; see `group_batch`."""
    return build_tree(group.prompts, marks and marks(group))


def work_units(
    groups: Sequence[PromptGroup], trees: bool, budget: int, marks: GroupMarks | None = None
) -> list[list[PromptGroup]]:
    """Divide groups into units of similar lengths that run together, the longest first.

    A unit has as many groups as a budget in tokens and `MOST_PADDING` allow.
    """
    sizes = [
        (1, len(group_tree(group, marks).ids))
        if trees
        else (len(group.prompts), max(map(len, group.prompts)))
        for group in groups
    ]
    return [[groups[position] for position in batch] for batch in token_batches(sizes, budget)]


def token_batches(sizes: Sequence[tuple[int, int]], budget: int) -> Iterator[list[int]]:
    """Group units of work of similar lengths into batches, the longest first.

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
