"""Attention over token trees, without the scores that the mask would throw away.

In a row that holds a tree most tokens see few of the others: what is shared, and their own branch.
A kernel that is given a mask computes every score all the same. Here the queries are taken branch
by branch, each with only the keys that some of them see; what comes out is what came out before.
This is for PyTorch's `scaled_dot_product_attention`, which most models call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

# Queries of a span. Short branches are not worth a call of their own; in a long one the first
# queries need not see its end.
SHORTEST, LONGEST = 32, 256
WORTHWHILE = 0.5  # of all scores, at most, are computed; else one call for all is faster


@dataclass(frozen=True)
class Span:
    """Queries that stand side by side, and the keys that any of them sees.

    Attributes:
        queries: columns.
        keys: [n] columns, in order.
    """

    queries: slice
    keys: Tensor


def spans(sees: Tensor) -> list[Span]:
    """The spans of some rows, for all of them together; one span where more are not worthwhile.

    Args:
        sees: [rows, length, length] whether a token sees another; itself, always.
    """
    anywhere = sees.any(0)
    length = len(anywhere)
    # A branch begins where in some row a token does not see the one before it.
    follows = sees.diagonal(-1, 1, 2).all(0).tolist()
    starts = [0]
    for column, follows_on in enumerate(follows, start=1):
        if column - starts[-1] >= (LONGEST if follows_on else SHORTEST):
            starts.append(column)
    found = [
        Span(slice(start, end), anywhere[start:end].any(0).nonzero()[:, 0])
        for start, end in zip(starts, [*starts[1:], length], strict=True)
    ]
    scores = sum((span.queries.stop - span.queries.start) * len(span.keys) for span in found)
    if scores > WORTHWHILE * length**2:
        return [Span(slice(0, length), torch.arange(length))]
    return found


class TreeAttention(TorchFunctionMode):
    """While it is entered, attention with all columns of some rows is computed span by span."""

    def __init__(self, of: Sequence[Span]) -> None:
        """Takes the spans of the rows, of any of which attention may be asked for."""
        super().__init__()
        self._spans = of
        self._length = of[-1].queries.stop

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Runs every function as it is, but this one."""
        kwargs = kwargs or {}
        if function is scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        return function(*args, **kwargs)

    def _attention(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, **settings: Any
    ) -> Tensor:
        every = (self._length, self._length)
        of_all = isinstance(attn_mask, Tensor) and attn_mask.shape[-2:] == every
        if len(self._spans) == 1 or not of_all:
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
