"""Log-likelihoods of continuations, with prompts packed as token trees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.packing import (
    TokenTree,
    build_tree,
    common_beginning,
    pack_trees,
    token_batches,
)
from pragworld_interp.engine.sweep import LiveBlock, sweep_layers
from pragworld_interp.prompts.alignment import Tokens

# A sequence joins a tree that holds at least this share of it already. Each token of a tree costs
# a column of the mask for all others.
LEAST_SHARED = 0.1
_LOGITS = 2**25  # at a time


@dataclass(frozen=True)
class Continuation:
    """A continuation to score.

    Attributes:
        inputs: What the model reads: the context, and the continuation but for its last token.
        targets: The tokens of the continuation, which follow the last positions of `inputs`.
    """

    inputs: Tokens
    targets: Tokens


@dataclass(frozen=True)
class Likelihood:
    """The log-probability of a continuation, and whether each of its tokens is the likeliest."""

    log_probability: float
    is_greedy: bool


def share_prefixes(sequences: Sequence[Tokens], most: int) -> list[tuple[list[int], int]]:
    """Divide token sequences into those that make up one tree each.

    Args:
        sequences: The sequences.
        most: The most tokens of a tree. A longer sequence is a tree of its own.

    Returns:
        The positions of the sequences of each tree, and how many tokens the tree has.

    Examples:
        >>> share_prefixes([[1, 2, 3], [7, 8], [1, 2, 4]], most=100)
        [([0, 2], 4), ([1], 2)]
    """
    trees: list[tuple[list[int], int]] = []
    # In this order, the longest beginning that a sequence shares is that of the one before.
    for position in sorted(range(len(sequences)), key=lambda number: list(sequences[number])):
        own = sequences[position]
        members, size = trees[-1] if trees else ([], 0)
        shared = common_beginning(own, sequences[members[-1]]) if members else 0
        size += len(own) - shared
        if members and shared >= LEAST_SHARED * len(own) and size <= most:
            trees[-1] = ([*members, position], size)
        else:
            trees.append(([position], len(own)))
    return trees


def tree_batches(sequences: Sequence[Tokens], budget: int) -> Iterator[list[list[int]]]:
    """Divide token sequences into batches of trees.

    Args:
        sequences: The sequences.
        budget: The most tokens of a batch. A longer sequence is a batch of its own.

    Yields:
        The positions of the sequences of each tree of a batch.
    """
    trees = share_prefixes(sequences, budget)
    for batch in token_batches([(1, size) for _, size in trees], budget):
        yield [trees[number][0] for number in batch]


def tree_likelihoods(
    decoder: Decoder,
    continuations: Sequence[Continuation],
    budget: int,
    dtype: torch.dtype | None = None,
) -> list[Likelihood]:
    """Score continuations, with shared prefixes of their contexts run once.

    Args:
        decoder: The model, without labels.
        continuations: What to score.
        budget: The tokens that go through a block at a time.
        dtype: The type of the log-probabilities; None for that of the logits, float32.

    Returns:
        The likelihoods of the continuations, in their order.
    """
    scored: dict[int, Likelihood] = {}
    for trees in tree_batches([continuation.inputs for continuation in continuations], budget):
        numbers = [number for tree in trees for number in tree]
        batch = [[continuations[number] for number in tree] for tree in trees]
        scored |= zip(numbers, _batch_likelihoods(decoder, batch, budget, dtype), strict=True)
    return [scored[number] for number in range(len(continuations))]


def _batch_likelihoods(
    decoder: Decoder,
    trees: Sequence[Sequence[Continuation]],
    budget: int,
    dtype: torch.dtype | None,
) -> list[Likelihood]:
    forest = [
        build_tree([continuation.inputs for continuation in continuations])
        for continuations in trees
    ]
    places: dict[tuple[int, int], int] = {}  # a row and a column, numbered
    targets = []  # of each token of each continuation: the number of its place, and itself
    for row, (tree, continuations) in enumerate(zip(forest, trees, strict=True)):
        for path, continuation in zip(tree.paths, continuations, strict=True):
            nodes = path[len(path) - len(continuation.targets) :]
            for node, token in zip(nodes, continuation.targets, strict=True):
                targets.append((places.setdefault((row, node), len(places)), token))
    ends = torch.tensor(list(places))
    residuals = _residuals_at(decoder, forest, ends, budget)
    numbers, tokens = torch.tensor(targets, device=residuals.device).unbind(1)
    log_probabilities = torch.empty(len(targets), dtype=dtype or torch.float32)
    is_greedy = torch.empty(len(targets), dtype=torch.bool)
    size = max(1, _LOGITS // decoder.model.config.get_text_config().vocab_size)
    for start in range(0, len(residuals), size):
        logits = decoder.label_logits(residuals[start : start + size])
        shares = log_softmax(logits, -1, dtype=dtype)
        (mine,) = ((start <= numbers) & (numbers < start + size)).nonzero(as_tuple=True)
        rows, columns = (numbers[mine] - start).to(logits.device), tokens[mine].to(logits.device)
        mine = mine.cpu()
        log_probabilities[mine] = shares[rows, columns].cpu()
        is_greedy[mine] = (logits.argmax(-1)[rows] == columns).cpu()
    lengths = [
        len(continuation.targets) for continuations in trees for continuation in continuations
    ]
    return [
        Likelihood(float(own.sum()), bool(own_greedy.all()))
        for own, own_greedy in zip(
            torch.split(log_probabilities, lengths), torch.split(is_greedy, lengths), strict=True
        )
    ]


def _residuals_at(
    decoder: Decoder, forest: Sequence[TokenTree], ends: Tensor, chunk: int
) -> Tensor:
    """Return the [n, width] residuals after the last block at [n, 2] rows and columns."""
    batch = replace(pack_trees(forest, decoder.dtype), ends=ends)
    residuals = torch.empty(0)

    def at_layer(live: LiveBlock, hidden: Tensor) -> Tensor:
        nonlocal residuals
        if not live.is_last:
            return live.rerun(hidden)
        live.run(hidden)
        residuals = hidden[tuple(ends.to(hidden.device).T)]
        return hidden

    sweep_layers(decoder, batch, at_layer, chunk=chunk)
    return residuals
