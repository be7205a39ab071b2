"""Attention over token trees without the scores that the mask would discard.

In a row that holds a tree, most tokens attend to few of the others: the shared prefix and their own
branch. A kernel with a mask computes every score all the same. Here the queries run branch by
branch, each with only the keys that some of them attend to; the output is the same. This covers
PyTorch's `scaled_dot_product_attention`, which most models call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

# The number of queries in a span. A short branch does not pay for a call of its own. In a long
# branch, the first queries do not attend to its end.
SHORTEST, LONGEST = 32, 256
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


class TreeAttention(TorchFunctionMode):
    """A mode in which attention over all columns is computed span by span."""

    def __init__(self, batch_spans: Sequence[Span]) -> None:
        """Set the spans of the batch."""
        super().__init__()
        self._spans = batch_spans
        self._length = batch_spans[-1].queries.stop

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run any function as it is, except attention."""
        kwargs = kwargs or {}
        if function is scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        return function(*args, **kwargs)

    def _attention(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, **settings: Any
    ) -> Tensor:
        full = (self._length, self._length)
        is_full = isinstance(attn_mask, Tensor) and attn_mask.shape[-2:] == full
        if len(self._spans) == 1 or not is_full:
            return scaled_dot_product_attention(query, key, value, attn_mask, **settings)
        parts = []
        for span in self._spans:
            keys = span.keys.to(key.device)
            parts.append(
                scaled_dot_product_attention(
                    query[..., span.queries, :],
                    key.index_select(-2, keys),
                    value.index_select(-2, keys),
                    attn_mask[..., span.queries, :].index_select(-1, keys),
                    **settings,
                )
            )
        return torch.cat(parts, -2)
