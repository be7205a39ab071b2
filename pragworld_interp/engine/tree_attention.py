"""Attention over token trees without the scores that the mask would discard.

In a row that holds a tree, most tokens attend to few of the others: the shared prefix and their own
branch. A kernel with a mask computes every score all the same. Here the queries run branch by
branch, each with only the keys that some of them attend to; the output is the same. This covers
PyTorch's `scaled_dot_product_attention`, which most models call.
"""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

# The number of queries in a span. A short branch does not pay for a call of its own. In a long
# branch, the first queries do not attend to its end.
SHORTEST, LONGEST = 32, 128
WORTHWHILE = 0.5  # the largest share of scores to compute; above it one call for all is faster


@dataclass(frozen=True)
class Span:
    """The columns of adjacent queries, and those of the keys that any of them attends to."""

    queries: slice
    keys: Tensor  # in order


def spans(attends: Tensor) -> list[Span]:
    """Return spans that hold for all rows of a batch; a single span if more are not worthwhile.

    Args:
        attends: [rows, length, length] whether a token attends to another.
    """
    anywhere = attends.any(0)
    length = len(anywhere)
    # A branch begins where, in some row, a token does not attend to the one before it.
    follows = attends.diagonal(-1, 1, 2).all(0).tolist()
    starts = [0]
    for column, follows_previous in enumerate(follows, start=1):
        if column - starts[-1] >= (LONGEST if follows_previous else SHORTEST):
            starts.append(column)
    result = [
        Span(slice(start, end), anywhere[start:end].any(0).nonzero()[:, 0])
        for start, end in zip(starts, [*starts[1:], length], strict=True)
    ]
    scores = sum((span.queries.stop - span.queries.start) * len(span.keys) for span in result)
    if scores > WORTHWHILE * length**2:
        return [Span(slice(0, length), torch.arange(length))]
    return result


@dataclass(frozen=True)
class _Branch:
    """Adjacent spans whose keys begin those of the last of them."""

    spans: list[Span]
    keys: Tensor
    is_beginning: bool  # whether the keys are the first columns

    def chosen(self, heads: Tensor) -> Tensor:
        """Return the branch's part of [..., heads, length, width] keys or values."""
        if self.is_beginning:
            return heads[..., : len(self.keys), :]
        # Most models have the heads behind the positions in memory.
        by_position = heads.transpose(-3, -2)
        return by_position.index_select(-3, self.keys.to(heads.device)).transpose(-3, -2)


def _branches(batch_spans: Sequence[Span], device: torch.device | str) -> list[_Branch]:
    """Return the branches of spans, with their keys on a device."""
    together: list[list[Span]] = []
    for span in batch_spans:
        before = together[-1][-1].keys if together else span.keys
        if together and torch.equal(before, span.keys[: len(before)]):
            together[-1].append(span)
        else:
            together.append([span])
    return [
        _Branch(own, own[-1].keys.to(device), int(own[-1].keys[-1]) + 1 == len(own[-1].keys))
        for own in together
    ]


class TreeAttention(TorchFunctionMode):
    """A mode in which attention over all columns is computed span by span."""

    def __init__(self, batch_spans: Sequence[Span], device: torch.device | str = "cpu") -> None:
        """Set the spans of the batch, and the device of the model."""
        super().__init__()
        self._is_single = len(batch_spans) == 1
        self._length = batch_spans[-1].queries.stop
        self._branches = _branches(batch_spans, device)
        # Of each mask, those of the spans by their first queries.
        self._masks: MutableMapping[Tensor, dict[int, Tensor]] = WeakTensorKeyDictionary()

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run any function as it is, except attention."""
        run = self._attention if function is scaled_dot_product_attention else function
        return run(*args, **(kwargs or {}))

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        **settings: Any,
    ) -> Tensor:
        """Return the attention of all columns span by span, and other attention as it is."""
        full = (self._length, self._length)
        if self._is_single or attn_mask is None or attn_mask.shape[-2:] != full:
            return scaled_dot_product_attention(query, key, value, attn_mask, **settings)
        heads, width = query.shape[-3], value.shape[-1]
        # Positions before heads, as models need it next.
        output = query.new_empty(*query.shape[:-3], self._length, heads, width).transpose(-3, -2)
        masks = self._masks_of_spans(attn_mask)
        for branch in self._branches:
            keys, values = branch.chosen(key), branch.chosen(value)
            for span in branch.spans:
                output[..., span.queries, :] = scaled_dot_product_attention(
                    query[..., span.queries, :],
                    keys[..., : len(span.keys), :],
                    values[..., : len(span.keys), :],
                    masks[span.queries.start],
                    **settings,
                )
        return output

    def _masks_of_spans(self, mask: Tensor) -> dict[int, Tensor]:
        """Return the mask of each span by its first query. It is the same in many layers."""
        masks = self._masks.get(mask)
        if masks is None:
            masks = self._masks[mask] = {}
            for branch in self._branches:
                keys = branch.keys.to(mask.device)
                for span in branch.spans:
                    queries = mask[..., span.queries, :]
                    own = queries.index_select(-1, keys[: len(span.keys)])
                    masks[span.queries.start] = own
        return masks
