"""Prompts as input tensors: token trees, or rows padded to one length.

The prompts of a group share most of their text. A token tree is one row in which each shared prefix
occurs once. A mask lets every token attend to its own ancestors only, and positions count from the
root, so the last token of each prompt gets the same residuals as if the prompt ran alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor
from transformers import DynamicCache

from pragworld_interp.decoder import Decoder
from pragworld_interp.modules import is_out_of_memory
from pragworld_interp.rope import rope_of_each_row
from pragworld_interp.tokenization import PromptGroup

Tokens = Sequence[int]

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
    ends: Tensor  # [prompts, 2] the row and the column of each prompt's last token


def pad_prompts(prompts: Sequence[Tokens], side: Literal["left", "right"] = "right") -> Batch:
    """Return a batch with one row for each prompt, padded to the longest."""
    length = max(map(len, prompts))
    ids = torch.zeros(len(prompts), length, dtype=torch.long)
    mask = torch.zeros_like(ids)
    history = torch.zeros_like(ids)
    ends = []
    for row, prompt in enumerate(prompts):
        start = length - len(prompt) if side == "left" else 0
        own = slice(start, start + len(prompt))
        ids[row, own] = torch.tensor(prompt)
        mask[row, own] = 1
        history[row, own] = torch.tensor(list(accumulate(prompt, _extend_history, initial=0))[1:])
        ends.append((row, start + len(prompt) - 1))
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    return Batch(ids, mask, positions, history, torch.tensor(ends))


def _extend_history(history: int, token: int) -> int:
    """Return the hash of a text and one more token, by a linear congruential generator."""
    return (history * 1_103_515_245 + token + 12_345) % 2**31


@dataclass(frozen=True)
class TokenTree:
    """Prompts with each shared prefix once. A node comes after its parent."""

    ids: list[int]  # the token of each node
    history: list[int]  # the text up to each node, hashed
    paths: list[list[int]]  # the nodes of each prompt, from the root


def build_tree(prompts: Iterable[Tokens]) -> TokenTree:
    """Return the token tree of some prompts."""
    ids: list[int] = []
    history: list[int] = []
    children: dict[tuple[int, int], int] = {}
    paths = []
    for prompt in prompts:
        path: list[int] = []
        parent = -1
        for token in prompt:
            node = children.get((parent, token))
            if node is None:
                node = children[parent, token] = len(ids)
                ids.append(token)
                history.append(_extend_history(history[parent] if path else 0, token))
            path.append(node)
            parent = node
        paths.append(path)
    return TokenTree(ids, history, paths)


def pack_trees(trees: Sequence[TokenTree], dtype: torch.dtype) -> Batch:
    """Return a batch with one row for each tree; prompts keep the order of trees and paths."""
    length = max(len(tree.ids) for tree in trees)
    ids = torch.zeros(len(trees), length, dtype=torch.long)
    positions = torch.zeros_like(ids)
    history = torch.zeros_like(ids)
    attends = torch.eye(length, dtype=torch.bool).repeat(len(trees), 1, 1)
    ends = []
    for row, tree in enumerate(trees):
        ids[row, : len(tree.ids)] = torch.tensor(tree.ids)
        history[row, : len(tree.ids)] = torch.tensor(tree.history)
        for path in tree.paths:
            nodes = torch.tensor(path)
            positions[row, nodes] = torch.arange(len(path))
            attends[row, nodes[:, None], nodes] |= torch.ones(len(path), len(path)).tril().bool()
            ends.append((row, path[-1]))
    mask = additive_mask(attends[:, None], dtype)
    return Batch(ids, mask, positions, history, torch.tensor(ends))


def additive_mask(attends: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask to add to attention scores: 0 where `attends`, else the lowest number."""
    mask = torch.zeros(attends.shape, dtype=dtype, device=attends.device)
    return mask.masked_fill_(~attends, torch.finfo(dtype).min)


def group_batch(groups: Sequence[PromptGroup], trees: bool, dtype: torch.dtype) -> Batch:
    """Return the prompts of groups as a batch: each group a tree, or each prompt a row."""
    if trees:
        return pack_trees([build_tree(group.prompts) for group in groups], dtype)
    return pad_prompts([prompt for group in groups for prompt in group.prompts])


def work_units(groups: Sequence[PromptGroup], trees: bool, budget: int) -> list[list[PromptGroup]]:
    """Divide groups into units of similar lengths that run together, the longest first.

    A unit has as many groups as a budget in tokens and `MOST_PADDING` allow.
    """
    sizes = [
        (1, len(build_tree(group.prompts).ids))
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


@torch.inference_mode()
def supports_trees(decoder: Decoder, prompts: Sequence[Tokens]) -> bool:
    """Return whether a token tree and a continued cache give a model's residuals of each prompt.

    Models whose attention does not support a mask of four dimensions (linear attention, ALiBi, some
    fused kernels) or does not see all tokens (windows) give others, or fail. A lack of memory says
    nothing about the model and is raised.

    Args:
        decoder: The model.
        prompts: The prompts of a group that is about to be run, the longest one.
    """
    tree = pack_trees([build_tree(prompts)], decoder.dtype)
    longest = max(range(len(prompts)), key=lambda number: len(prompts[number]))
    length, start = len(prompts[longest]), len(prompts[longest]) // 2
    # Two rows with one mask, as branches of a sweep have.
    ids = torch.tensor([prompts[longest]] * 2, device=decoder.device)
    try:
        together = _residuals(decoder, tree)
        cache = DynamicCache()
        decoder.model.base_model(input_ids=ids[:, :start], past_key_values=cache, use_cache=True)
        attends = torch.ones(1, 1, length - start, length, dtype=torch.bool, device=decoder.device)
        continued = decoder.model.base_model(
            input_ids=ids[:, start:],
            attention_mask=additive_mask(attends.tril(start), decoder.dtype),
            position_ids=torch.arange(start, length, device=decoder.device)[None],
            past_key_values=cache,
            use_cache=True,
        )[0][:, -1]
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        if is_out_of_memory(error):
            raise
        return False
    alone = _alone(decoder, prompts)
    return _agree(together, alone) and _agree(continued, alone[longest : longest + 1])


@torch.inference_mode()
def supports_rows(decoder: Decoder, prompts: Sequence[Tokens]) -> bool:
    """Return whether prompts padded to one length give a model's residuals of each prompt alone."""
    return _agree(_residuals(decoder, pad_prompts(prompts)), _alone(decoder, prompts))


def _alone(decoder: Decoder, prompts: Sequence[Tokens]) -> Tensor:
    return torch.cat([_residuals(decoder, pad_prompts([prompt])) for prompt in prompts])


def _residuals(decoder: Decoder, batch: Batch) -> Tensor:
    """Return the [prompts, width] residuals at the end of each prompt, after the final norm."""
    device = decoder.device
    with rope_of_each_row(decoder.model):
        residuals: Tensor = decoder.model.base_model(
            input_ids=batch.ids.to(device),
            attention_mask=batch.mask.to(device),
            position_ids=batch.positions.to(device),
            use_cache=False,
        )[0]
    return residuals[batch.ends[:, 0], batch.ends[:, 1]]


def _agree(residuals: Tensor, expected: Tensor) -> bool:
    """Return whether residuals differ by no more than rounding, where the expected are finite."""
    errors = (residuals - expected).float().norm(dim=-1) / expected.float().norm(dim=-1)
    tolerance = 1e-4 if residuals.dtype == torch.float32 else 8 * torch.finfo(residuals.dtype).eps
    overflows = expected.isfinite().all(-1).logical_not()  # which a sweep refuses, with the layer
    return bool((errors.le(tolerance) | overflows).all())
