"""Prompts as the tensors that a model is fed: token trees, or rows padded to one length.

The prompts of a group share most of their text. As a token tree they are one row in which shared
beginnings stand once; a mask lets every token see its own ancestors only, and positions count from
the root. What a model makes of the last token of a prompt is the same as if it stood alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor
from transformers import DynamicCache

from pragworld_interp.decoder import Decoder

Tokens = Sequence[int]


@dataclass(frozen=True)
class Batch:
    """Prompts as a model is fed them.

    Attributes:
        ids: [rows, length].
        mask: [rows, length], 1 for tokens and 0 for padding; or, of trees, [rows, 1, length,
            length], 0 where a token sees another and the lowest number elsewhere.
        positions: [rows, length].
        history: [rows, length] the text up to each token, as a number below 2^31.
        ends: [prompts, 2] row and column of every prompt's last token.
    """

    ids: Tensor
    mask: Tensor
    positions: Tensor
    history: Tensor
    ends: Tensor


def padded(prompts: Sequence[Tokens], side: Literal["left", "right"] = "right") -> Batch:
    """A row for each prompt, all padded to the longest."""
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
        history[row, own] = torch.tensor(list(accumulate(prompt, _continued, initial=0))[1:])
        ends.append((row, start + len(prompt) - 1))
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    return Batch(ids, mask, positions, history, torch.tensor(ends))


def _continued(history: int, token: int) -> int:
    """The text that was, and one more token, as a number: a linear congruential generator's."""
    return (history * 1_103_515_245 + token + 12_345) % 2**31


@dataclass(frozen=True)
class Tree:
    """Prompts with their shared beginnings once.

    Attributes:
        ids: of all nodes; a node stands behind its parent.
        history: of all nodes, the text up to each, as a number.
        paths: of every prompt, its nodes from the root on.
    """

    ids: list[int]
    history: list[int]
    paths: list[list[int]]


def grow(prompts: Iterable[Tokens]) -> Tree:
    """The token tree of some prompts."""
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
                history.append(_continued(history[parent] if path else 0, token))
            path.append(node)
            parent = node
        paths.append(path)
    return Tree(ids, history, paths)


def packed(trees: Sequence[Tree], dtype: torch.dtype) -> Batch:
    """A row for each tree. Prompts are in the order of the trees, and of their paths."""
    length = max(len(tree.ids) for tree in trees)
    ids = torch.zeros(len(trees), length, dtype=torch.long)
    positions = torch.zeros_like(ids)
    history = torch.zeros_like(ids)
    sees = torch.eye(length, dtype=torch.bool).repeat(len(trees), 1, 1)
    ends = []
    for row, tree in enumerate(trees):
        ids[row, : len(tree.ids)] = torch.tensor(tree.ids)
        history[row, : len(tree.ids)] = torch.tensor(tree.history)
        for path in tree.paths:
            nodes = torch.tensor(path)
            positions[row, nodes] = torch.arange(len(path))
            sees[row, nodes[:, None], nodes] |= torch.ones(len(path), len(path)).tril().bool()
            ends.append((row, path[-1]))
    return Batch(ids, additive(sees[:, None], dtype), positions, history, torch.tensor(ends))


def additive(sees: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to attention scores: nothing where a token sees, else the lowest number."""
    hidden = torch.zeros(sees.shape, dtype=dtype, device=sees.device)
    return hidden.masked_fill_(~sees, torch.finfo(dtype).min)


def batches(sizes: Sequence[tuple[int, int]], budget: int) -> Iterator[list[int]]:
    """Puts together what is fed in one go.

    Args:
        sizes: of every unit, the rows and the length that it takes.
        budget: in tokens, padding included. A unit that is larger goes alone.

    Returns:
        Positions of units, in order, those of one batch together.
    """
    batch: list[int] = []
    rows = length = 0
    for position, (its_rows, its_length) in enumerate(sizes):
        if batch and (rows + its_rows) * max(length, its_length) > budget:
            yield batch
            batch, rows, length = [], 0, 0
        batch.append(position)
        rows, length = rows + its_rows, max(length, its_length)
    if batch:
        yield batch


@torch.inference_mode()
def takes_trees(decoder: Decoder) -> bool:
    """Whether the model makes of a tree what it makes of its prompts, and continues from a cache.

    A few tokens are run both ways. Models whose attention does not take a mask of four dimensions
    (linear attention, ALiBi, some fused kernels) give something else, or fail.
    """
    prompts = [[1, 2, 3, 4, 5], [1, 2, 3, 5, 4, 2]]
    tree = packed([grow(prompts)], decoder.dtype)
    plain = [_logits(decoder, padded([prompt]))[0, -1] for prompt in prompts]
    scale = (plain[0] - plain[1]).abs().max()
    tolerance = scale * (1e-3 if decoder.dtype == torch.float32 else 0.1)
    try:
        together = _logits(decoder, tree)[tree.ends[:, 0], tree.ends[:, 1]]
        cache = DynamicCache()
        first = padded([prompts[0][:3]])
        decoder.model(input_ids=first.ids.to(decoder.device), past_key_values=cache, use_cache=True)
        rest = torch.tensor([prompts[0][3:]], device=decoder.device)
        sees = torch.ones(1, 1, 2, 5, dtype=torch.bool, device=decoder.device).tril(3)
        continued = decoder.model(
            input_ids=rest,
            attention_mask=additive(sees, decoder.dtype),
            position_ids=torch.tensor([[3, 4]], device=decoder.device),
            past_key_values=cache,
            use_cache=True,
        ).logits[0, -1]
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, NotImplementedError):
        return False
    found = torch.stack([*together, continued])
    differences = (found - torch.stack([*plain, plain[0]])).abs().max()
    return bool(differences <= tolerance)


def _logits(decoder: Decoder, batch: Batch) -> Tensor:
    device = decoder.device
    logits: Tensor = decoder.model(
        input_ids=batch.ids.to(device),
        attention_mask=batch.mask.to(device),
        position_ids=batch.positions.to(device),
        use_cache=False,
    ).logits
    return logits
