"""The sweep engine: an intervention at every layer in a single pass through the model.

An intervention at layer l leaves all layers below l unchanged. The plain run and all branches so
far therefore go through a block together, and at every layer a new branch forks off the plain run:
the work of L(L+1)/2 blocks instead of L times L. The sweep takes place inside the model's own
forward call. The arguments of a block are captured there, never rebuilt, so the engine works for
any architecture. Only the last position of each prompt is read out.

The blocks of a model may be on several devices. What goes into a block is moved to its device once,
however many branches run through it.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

from pragworld_interp.decoder import Block, Decoder
from pragworld_interp.modules import first_tensor, replaced_forward, with_tensor
from pragworld_interp.packing import Batch
from pragworld_interp.rope import rope_of_each_row
from pragworld_interp.tree_attention import Span, TreeAttention, spans


@dataclass(frozen=True)
class Suffix:
    """The part of a prompt in which a branch may differ from the plain run."""

    row: int  # of the batch
    prefix: list[int]  # the columns before, whose keys and values are the plain run's
    columns: list[int]
    end: int  # the place among the columns where the prompt ends


@dataclass(frozen=True)
class Suffixes:
    """Suffixes padded to one length. Padding repeats columns, so that residuals are finite."""

    rows: Tensor  # [n]
    prefixes: Tensor  # [n, p]
    columns: Tensor  # [n, length]
    are_keys: Tensor  # [n, p + length] false for padding
    ends: Tensor  # [n]

    def to(self, device: torch.device) -> "Suffixes":
        """Return the suffixes on a device."""
        return Suffixes(*(tensor.to(device) for tensor in vars(self).values()))


def pad_suffixes(suffixes: Sequence[Suffix], device: torch.device) -> Suffixes:
    """Return suffixes padded to the longest."""
    index = partial(torch.tensor, device=device)
    prefixes, prefix_keys = _pad([suffix.prefix for suffix in suffixes])
    columns, keys = _pad([suffix.columns for suffix in suffixes])
    return Suffixes(
        index([suffix.row for suffix in suffixes]),
        index(prefixes),
        index(columns),
        torch.cat([index(prefix_keys), index(keys)], 1),
        index([suffix.end for suffix in suffixes]),
    )


def _pad(columns: Sequence[list[int]]) -> tuple[list[list[int]], list[list[bool]]]:
    """Return columns repeated up to the longest, at least 1, and whether each is not padding.

    With a prefix, no mask of suffixes has the shape of the mask of a tree.
    """
    length = max(1, *map(len, columns))
    return (
        [own + (own[-1:] or [0]) * (length - len(own)) for own in columns],
        [[place < len(own) for place in range(length)] for own in columns],
    )


@dataclass(frozen=True)
class LiveBlock:
    """A block in the middle of a sweep, which can run on any rows, any number of times."""

    number: int
    block: Block
    is_last: bool
    _batch: Batch
    _ends: Tensor  # [rows of the batch, n] columns, those of prompts' ends among them
    _forward: Callable[..., Any]
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    _chunk: int

    def run(self, hidden: Tensor, rows: Tensor) -> None:
        """Run branches through the block, in place.

        Args:
            hidden: [n, length, width] residuals before the block, which become those after it.
            rows: [n] the row of the batch that each belongs to, for its mask and positions.
        """
        rows = rows.to(hidden.device)
        for part in self._chunks(hidden):
            arguments = _map((self._args, self._kwargs), partial(self._of_rows, rows=rows[part]))
            hidden[part] = self._call(hidden[part], arguments, self._ends[rows[part]])

    def run_suffixes(self, hidden: Tensor, suffixes: Suffixes) -> None:
        """Run branches of suffixes through the block, in place. The sweep has to `keep_keys`.

        Args:
            hidden: [a multiple of n, length, width] residuals before the block, which become those
                after it. The n suffixes take turns.
            suffixes: The place of each suffix in the batch.
        """
        suffixes = suffixes.to(hidden.device)
        take = partial(self._taker, suffixes=suffixes)
        takers = _map((self._args, self._kwargs), take)
        numbers = torch.arange(len(hidden), device=hidden.device) % len(suffixes.rows)
        for part in self._chunks(hidden):
            arguments = _map(takers, partial(_taken, numbers=numbers[part]))
            ends = suffixes.ends[numbers[part], None]
            hidden[part] = self._call(hidden[part], arguments, ends)

    def rerun(self, hidden: Tensor) -> Tensor:
        """Return the residuals after the block for all rows of the batch, [rows, length, width].

        All positions run in one call, so that a caller can record or replace outputs on the way.
        """
        return first_tensor(self._forward(hidden, *self._args, **self._kwargs))

    def _chunks(self, hidden: Tensor) -> list[slice]:
        size = max(1, self._chunk // hidden.shape[1])
        return [slice(start, start + size) for start in range(0, len(hidden), size)]

    def _call(self, hidden: Tensor, arguments: tuple[Any, Any], ends: Tensor) -> Tensor:
        args, kwargs = arguments
        if not self.is_last:
            return first_tensor(self._forward(hidden, *args, **kwargs))
        # After the last block only the ends of prompts are read, and the MLP treats each position
        # alone, so it can skip the others.
        mlp = self.block.mlp
        with replaced_forward(mlp, partial(_at_ends, ends, hidden.shape[1], mlp.forward)):
            return first_tensor(self._forward(hidden, *args, **kwargs))

    def _of_rows(self, value: Any, rows: Tensor) -> Any:
        """Return the part of an argument for some rows; what serves all rows stays as it is."""
        count = len(self._batch.ids)
        is_bias = isinstance(value, Tensor) and value.ndim == 3 and value.shape[1] == 1
        if is_bias and self.block.head_bias:
            return value
        if is_bias and self.block.folded:
            by_row = value.view(count, -1, *value.shape[1:])
            return by_row[rows].flatten(0, 1)
        if isinstance(value, Tensor) and value.ndim > 1 and value.shape[0] == count > 1:
            return value[rows]
        return None if isinstance(value, Cache) else value

    def _taker(self, value: Any, suffixes: Suffixes) -> Callable[[Tensor], Any]:
        """Return a function from numbers of suffixes to the part of an argument for them."""
        if isinstance(value, Cache):
            plain = value.layers[self.number]
            rows = suffixes.rows[:, None]
            keys, values = (
                kept[rows, :, suffixes.prefixes].transpose(1, 2)
                for kept in (plain.keys, plain.values)
            )
            return lambda numbers: _PrefixCache(keys[numbers], values[numbers])
        parts = self._of_suffixes(value, suffixes) if isinstance(value, Tensor) else None
        return (lambda _: value) if parts is None else parts.__getitem__

    def _of_suffixes(self, value: Tensor, suffixes: Suffixes) -> Tensor | None:
        """Return the parts of a mask, positions or their embeddings for suffixes, else None."""
        count, length = self._batch.ids.shape
        rows, columns = suffixes.rows[:, None], suffixes.columns
        if value.ndim == 1 and len(value) == length:
            return value[columns]
        if value.ndim > 1 and value.shape[0] == 1:
            rows = torch.zeros_like(rows)
        elif value.ndim < 2 or value.shape[0] != count:
            return None
        if value.ndim == 4 and value.shape[2:] == (length, length):
            keys = torch.cat([suffixes.prefixes, suffixes.columns], 1)
            mask = value[rows[:, None], :, columns[:, :, None], keys[:, None]].permute(0, 3, 1, 2)
            return mask.masked_fill_(~suffixes.are_keys[:, None, None], torch.finfo(mask.dtype).min)
        return value[rows, columns] if value.ndim in (2, 3) and value.shape[1] == length else None


def _taken(take: Callable[[Tensor], Any], numbers: Tensor) -> Any:
    return take(numbers)


def _at_ends(ends: Tensor, length: int, mlp: Callable[..., Any], inputs: Tensor) -> Any:
    """Return the output of an MLP at some columns of each row, and zeros elsewhere.

    Args:
        ends: [rows, n] columns.
        length: The length of a row. Some blocks flatten rows and columns before the MLP.
        mlp: The MLP.
        inputs: [rows, length, width] or [rows times length, width].
    """
    starts = torch.arange(0, len(ends) * length, length, device=inputs.device)
    places = (starts[:, None] + ends).flatten()
    output = mlp(inputs.flatten(0, -2)[places][None])
    at_ends = first_tensor(output).view(len(places), -1)
    everywhere = at_ends.new_zeros(*inputs.shape[:-1], at_ends.shape[1])
    everywhere.flatten(0, -2)[places] = at_ends
    return with_tensor(output, everywhere)


def _end_columns(batch: Batch) -> Tensor:
    """Return the columns where the prompts of each row end, [rows, n].

    Rows in which fewer prompts end have other columns in addition.
    """
    is_end = torch.zeros(batch.ids.shape, dtype=torch.long)
    is_end[batch.ends[:, 0], batch.ends[:, 1]] = 1
    most = int(is_end.sum(1).max())
    return is_end.argsort(dim=1, descending=True, stable=True)[:, :most]


def _map(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to everything in nested tuples, lists and dictionaries."""
    if isinstance(value, tuple | list):
        return type(value)(_map(item, function) for item in value)
    if isinstance(value, dict):
        return {name: _map(item, function) for name, item in value.items()}
    return function(value)


def _moved(value: Any, device: torch.device) -> Any:
    """Return a tensor on a device, and anything else as it is."""
    return value.to(device) if isinstance(value, Tensor) else value


class _PrefixCache(Cache):
    """A cache that puts the keys and values of prefixes before those of a block's input."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        """Set the keys and values, both [rows, heads, length, width of a head]."""
        super().__init__(layers=[])
        self._keys, self._values = keys, values

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Return all keys and values, without keeping the new ones."""
        return torch.cat([self._keys, keys], 2), torch.cat([self._values, values], 2)


@torch.inference_mode()
def sweep_layers(
    decoder: Decoder,
    batch: Batch,
    at_layer: Callable[[LiveBlock, Tensor], Tensor],
    *,
    chunk: int,
    keep_keys: bool = False,
) -> None:
    """Run a model on a batch, with `at_layer` in place of each block.

    Args:
        decoder: The model.
        batch: Its input.
        at_layer: Called with the block and the plain run's residuals before it, [rows, length,
            width], on the block's device; returns the residuals after it.
        chunk: Roughly how many tokens go through a block at a time.
        keep_keys: Whether to keep keys and values of the plain run, for `LiveBlock.run_suffixes`.
    """
    device = decoder.device
    last = len(decoder.blocks) - 1
    ends = _end_columns(batch).to(device)
    cache = DynamicCache() if keep_keys else None

    def stand_in(number: int, block: Block, forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            here = next(block.module.parameters()).device
            args, kwargs = _map((args, kwargs), partial(_moved, device=here))
            hidden, args = (args[0], args[1:]) if args else (kwargs.pop("hidden_states"), args)
            live = LiveBlock(
                number, block, number == last, batch, ends.to(here), forward, args, kwargs, chunk
            )
            output = block.as_returned(at_layer(live, hidden))
            if cache is not None:
                cache.layers[number] = DynamicLayer()  # no later block needs these keys
            return output

        return run

    with ExitStack() as stack:
        for number, block in enumerate(decoder.blocks):
            forward = stand_in(number, block, block.module.forward)
            stack.enter_context(replaced_forward(block.module, forward))
        stack.enter_context(rope_of_each_row(decoder.model))
        if batch.mask.ndim == 4:
            batch_spans = spans(batch.mask[:, 0] == 0)
            on_device = [Span(span.queries, span.keys.to(device)) for span in batch_spans]
            stack.enter_context(TreeAttention(on_device))
        decoder.model.base_model(
            input_ids=batch.ids.to(device),
            attention_mask=batch.mask.to(device),
            position_ids=batch.positions.to(device),
            use_cache=keep_keys,
            **({"past_key_values": cache} if keep_keys else {}),
        )
