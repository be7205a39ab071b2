"""The engine: every layer's intervention in one climb through the model.

An intervention at layer l leaves all below l as it was. So the plain run and all branches forked so
far go through a block together, and at every layer a new branch forks off the plain run: L(L+1)/2
blocks' work instead of L times L. The climb takes place inside the model's own forward call. What a
block is called with is captured there, never rebuilt, which is what makes this hold for any
architecture; only the last position of each prompt is read out.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache

from pragworld_interp.decoder import Block, Decoder, first_of, replaced, with_first
from pragworld_interp.packing import Batch
from pragworld_interp.tree_attention import TreeAttention, spans


@dataclass(frozen=True)
class Lane:
    """Where the rows of a branch are in the batch: all of a row, or one prompt from some point on.

    Attributes:
        row: of the batch.
        before: columns of what stands before the lane, whose keys and values are the plain run's.
        columns: of the lane itself.
    """

    row: int
    before: Tensor
    columns: Tensor


@dataclass(frozen=True)
class Layer:
    """A block in the middle of a climb, to be run on any rows and as often as wanted.

    Attributes:
        number: of the layer, from 0.
        block: it and its parts.
        is_last: whether it is the last one.
    """

    number: int
    block: Block
    is_last: bool
    _batch: Batch
    _forward: Callable[..., Any]
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    _chunk: int

    def run(self, hidden: Tensor, rows: Tensor) -> Tensor:
        """The residuals behind the block.

        Args:
            hidden: [n, length, width] residuals before the block.
            rows: [n] which row of the batch each belongs to, for its mask and positions.
        """
        parts = []
        for part in self._chunks(hidden):
            called = _each((self._args, self._kwargs), partial(self._of_rows, rows=rows[part]))
            parts.append(self._call(hidden[part], called, self._ends_of(rows[part])))
        return torch.cat(parts)

    def run_lane(self, hidden: Tensor, lane: Lane) -> Tensor:
        """The residuals behind the block, in a lane. The climb has to `keep_keys`.

        Args:
            hidden: [n, columns of the lane, width] residuals before the block.
            lane: where all n are.
        """
        plain = next(
            each for each in (*self._args, *self._kwargs.values()) if isinstance(each, Cache)
        ).layers[self.number]
        keys = plain.keys[lane.row, :, lane.before.to(plain.keys.device)]
        values = plain.values[lane.row, :, lane.before.to(plain.keys.device)]

        def of_lane(value: Any) -> Any:
            return (
                _Beginning(keys, values) if isinstance(value, Cache) else self._of_lane(value, lane)
            )

        called = _each((self._args, self._kwargs), of_lane)
        parts = []
        for part in self._chunks(hidden):
            last = torch.tensor([[n, hidden.shape[1] - 1] for n in range(len(part))])
            parts.append(self._call(hidden[part], called, last))
        return torch.cat(parts)

    def rerun(self, hidden: Tensor) -> Tensor:
        """The residuals behind the block for all rows of the batch, [rows, length, width].

        In one go and at all positions, for what is to be recorded or replaced on the way.
        """
        return first_of(self._forward(hidden, *self._args, **self._kwargs))

    def _chunks(self, hidden: Tensor) -> Sequence[Tensor]:
        return torch.split(torch.arange(len(hidden)), max(1, self._chunk // hidden.shape[1]))

    def _call(self, hidden: Tensor, called: tuple[Any, Any], ends: Tensor) -> Tensor:
        args, kwargs = called
        if not self.is_last:
            return first_of(self._forward(hidden, *args, **kwargs))
        # Behind the last block only the prompts' ends are read, and the MLP takes each position
        # alone; so it need not see the others.
        with ExitStack() as stack:
            mlp = self.block.mlp
            before = mlp.forward
            stack.enter_context(replaced(mlp, lambda inputs: _at(ends, before, inputs)))
            return first_of(self._forward(hidden, *args, **kwargs))

    def _ends_of(self, rows: Tensor) -> Tensor:
        """[ends, 2] number of row and column of every prompt's end in these rows."""
        ends = self._batch.ends
        return torch.cat(
            [
                torch.nn.functional.pad(ends[ends[:, 0] == row][:, 1:], (1, 0), value=number)
                for number, row in enumerate(rows.tolist())
            ]
        )

    def _of_rows(self, value: Any, rows: Tensor) -> Any:
        """What is there for each row of the batch, for these; what serves all rows, as it is."""
        count = len(self._batch.ids)
        if isinstance(value, Tensor) and value.ndim > 1 and value.shape[0] == count > 1:
            return value[rows.to(value.device)]
        return None if isinstance(value, Cache) else value

    def _of_lane(self, value: Any, lane: Lane) -> Any:
        """A mask, positions or their embeddings, for the columns of the lane."""
        if not isinstance(value, Tensor):
            return value
        count, length = self._batch.ids.shape
        if value.ndim > 1 and value.shape[0] == count:
            value = value[lane.row : lane.row + 1]
        columns = lane.columns.to(value.device)
        if value.ndim == 4 and value.shape[2:] == (length, length):
            seen = torch.cat([lane.before, lane.columns]).to(value.device)
            return value[:, :, columns[:, None], seen]
        if value.ndim in (2, 3) and value.shape[1] == length:
            return value[:, columns]
        return value[columns] if value.shape == (length,) else value


def _at(ends: Tensor, mlp: Callable[..., Any], inputs: Tensor) -> Any:
    """What the MLP makes of some positions, and zeros elsewhere."""
    rows, columns = ends.to(inputs.device).unbind(1)
    output = mlp(inputs[rows, columns][None])
    everywhere = torch.zeros_like(inputs)
    everywhere[rows, columns] = first_of(output).view(len(rows), -1)
    return with_first(output, everywhere)


def _each(value: Any, of: Callable[[Any], Any]) -> Any:
    """The nested value with `of` applied to everything that is no tuple, list or dictionary."""
    if isinstance(value, tuple | list):
        return type(value)(_each(each, of) for each in value)
    if isinstance(value, dict):
        return {name: _each(each, of) for name, each in value.items()}
    return of(value)


class _Beginning(Cache):
    """Keys and values of what stands before the positions that a block is run on."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        """Takes both as [heads, length, width of a head]."""
        super().__init__(layers=[])
        self._keys, self._values = keys, values

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """All keys and values; nothing is kept."""
        rows = (len(keys), -1, -1, -1)
        return (
            torch.cat([self._keys.expand(rows), keys], 2),
            torch.cat([self._values.expand(rows), values], 2),
        )


@torch.inference_mode()
def climb(
    decoder: Decoder,
    batch: Batch,
    at_layer: Callable[[Layer, Tensor], Tensor],
    *,
    chunk: int,
    keep_keys: bool = False,
) -> None:
    """Runs the model on the batch, with `at_layer` in the place of each block.

    Args:
        decoder: the model.
        batch: what it is fed.
        at_layer: given the layer and the plain run's residuals before it, [rows, length, width];
            returns those behind it.
        chunk: how many tokens go through a block in one go, about.
        keep_keys: whether keys and values of the plain run are kept, for `Layer.run_lane`.
    """
    device = decoder.device
    last = len(decoder.blocks) - 1

    def stand_in(number: int, block: Block, forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            hidden, args = (args[0], args[1:]) if args else (kwargs.pop("hidden_states"), args)
            layer = Layer(number, block, number == last, batch, forward, args, kwargs, chunk)
            return block.returned(at_layer(layer, hidden))

        return run

    with ExitStack() as stack:
        for number, block in enumerate(decoder.blocks):
            before = block.module.forward
            stack.enter_context(replaced(block.module, stand_in(number, block, before)))
        if batch.mask.ndim == 4:
            stack.enter_context(TreeAttention(spans(batch.mask[:, 0] == 0)))
        decoder.model.base_model(
            input_ids=batch.ids.to(device),
            attention_mask=batch.mask.to(device),
            position_ids=batch.positions.to(device),
            use_cache=keep_keys,
            **({"past_key_values": DynamicCache()} if keep_keys else {}),
        )
