"""The sweep engine: an intervention at every layer in a single pass through the model.

An intervention at layer l leaves all layers below l unchanged. The plain run and all branches so
far therefore go through a block together, and at every layer a new branch forks off the plain run:
the work of L(L+1)/2 blocks instead of L times L. The sweep takes place inside the model's own
forward call. The arguments of a block are captured there, never rebuilt, so the engine works for
any architecture. Only the last position of each prompt is read out.
"""

from collections.abc import Callable
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
    prefix: Tensor  # the columns before the suffix, whose keys and values are the plain run's
    columns: Tensor  # of the suffix


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
        for part in self._chunks(hidden):
            arguments = _map((self._args, self._kwargs), partial(self._of_rows, rows=rows[part]))
            hidden[part] = self._call(hidden[part], arguments, self._ends[rows[part]])

    def run_suffix(self, hidden: Tensor, suffix: Suffix) -> None:
        """Run branches of a suffix through the block, in place. The sweep has to `keep_keys`.

        Args:
            hidden: [n, columns of the suffix, width] residuals before the block, which become those
                after it.
            suffix: The place of all n in the batch.
        """
        cache = next(v for v in (*self._args, *self._kwargs.values()) if isinstance(v, Cache))
        plain = cache.layers[self.number]
        prefix = suffix.prefix.to(plain.keys.device)
        keys, values = (kept[suffix.row, :, prefix] for kept in (plain.keys, plain.values))

        def of_suffix(value: Any) -> Any:
            if isinstance(value, Cache):
                return _PrefixCache(keys, values)
            return self._of_suffix(value, suffix)

        arguments = _map((self._args, self._kwargs), of_suffix)
        ends = self._ends.new_full((len(hidden), 1), hidden.shape[1] - 1)
        for part in self._chunks(hidden):
            hidden[part] = self._call(hidden[part], arguments, ends[part])

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
            return by_row[rows.to(value.device)].flatten(0, 1)
        if isinstance(value, Tensor) and value.ndim > 1 and value.shape[0] == count > 1:
            return value[rows.to(value.device)]
        return None if isinstance(value, Cache) else value

    def _of_suffix(self, value: Any, suffix: Suffix) -> Any:
        """Return the part of a mask, positions or their embeddings for the columns of a suffix."""
        if not isinstance(value, Tensor):
            return value
        count, length = self._batch.ids.shape
        if value.ndim > 1 and value.shape[0] == count:
            value = value[suffix.row : suffix.row + 1]
        columns = suffix.columns.to(value.device)
        if value.ndim == 4 and value.shape[2:] == (length, length):
            keys = torch.cat([suffix.prefix, suffix.columns]).to(value.device)
            return value[:, :, columns[:, None], keys]
        if value.ndim in (2, 3) and value.shape[1] == length:
            return value[:, columns]
        return value[columns] if value.shape == (length,) else value


def _at_ends(ends: Tensor, length: int, mlp: Callable[..., Any], inputs: Tensor) -> Any:
    """Return the output of an MLP at some columns of each row, and zeros elsewhere.

    Args:
        ends: [rows, n] columns.
        length: The length of a row. Some blocks flatten rows and columns before the MLP.
        mlp: The MLP.
        inputs: [rows, length, width] or [rows times length, width].
    """
    starts = torch.arange(0, len(ends) * length, length, device=inputs.device)
    places = (starts[:, None] + ends.to(inputs.device)).flatten()
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


class _PrefixCache(Cache):
    """A cache that puts the keys and values of a prefix before those of a block's input."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        """Set the keys and values, both [heads, length, width of a head]."""
        super().__init__(layers=[])
        self._keys, self._values = keys, values

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Return all keys and values, without keeping the new ones."""
        rows = (len(keys), -1, -1, -1)
        return (
            torch.cat([self._keys.expand(rows), keys], 2),
            torch.cat([self._values.expand(rows), values], 2),
        )


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
            width]; returns the residuals after it.
        chunk: Roughly how many tokens go through a block at a time.
        keep_keys: Whether to keep keys and values of the plain run, for `LiveBlock.run_suffix`.
    """
    device = decoder.device
    last = len(decoder.blocks) - 1
    ends = _end_columns(batch).to(device)
    cache = DynamicCache() if keep_keys else None

    def stand_in(number: int, block: Block, forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            hidden, args = (args[0], args[1:]) if args else (kwargs.pop("hidden_states"), args)
            live = LiveBlock(
                number, block, number == last, batch, ends, forward, args, kwargs, chunk
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
