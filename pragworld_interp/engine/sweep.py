"""The sweep engine: an intervention at every layer in a single pass through the model.

An intervention at layer l leaves all layers below l unchanged. The plain run and all branches so
far therefore go through a block together, and at every layer a new branch forks off the plain run:
the work of L(L+1)/2 blocks instead of L times L. The sweep takes place inside the model's own
forward call. The arguments of a block are captured there, never rebuilt, so the engine works for
any architecture. Only the last position of each prompt is read out.

The blocks of a model may be on several devices. What goes into a block is moved to its device once,
however many branches run through it.
"""

import math
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

from pragworld_interp.engine.decoder import Block, Decoder
from pragworld_interp.engine.modules import (
    cache_name,
    first_tensor,
    replaced_forward,
)
from pragworld_interp.engine.packing import Batch
from pragworld_interp.engine.rope import rope_of_each_row
from pragworld_interp.engine.tree_attention import TreeAttention, spans


@dataclass(frozen=True)
class Suffix:
    """The part of a prompt in which a branch may differ from the plain run."""

    row: int  # of the batch
    prefix: list[int]  # the columns before, whose keys and values are the plain run's
    columns: list[int]


@dataclass(frozen=True)
class Suffixes:
    """Suffixes padded to one length. Padding repeats columns, so that residuals are finite."""

    rows: Tensor  # [n]
    prefixes: Tensor  # [n, p]
    columns: Tensor  # [n, length]
    are_keys: Tensor  # [n, p + length] false for padding

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


# What branches run on: suffixes, rows of the batch, or all of them.
Runs: TypeAlias = Suffixes | Tensor | None


@dataclass(frozen=True)
class LiveBlock:
    """A block in the middle of a sweep, which can run on any rows, any number of times."""

    number: int
    block: Block
    _batch: Batch
    _forward: Callable[..., Any]
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    _chunk: int
    _kept: "_Kept"

    def run(self, hidden: Tensor, runs: Runs) -> None:
        """Run branches through the block, in place.

        Args:
            hidden: [a multiple of n, length, width] residuals before the block, which become those
                after it.
            runs: The n rows or suffixes whose masks and positions the branches take in turn; None
                for all rows in order. For suffixes, the sweep has to `keep_keys`.
        """
        turns, taker = self._turns(runs, hidden.device)
        most = max(1, self._chunk // hidden.shape[1])
        times = min(max(1, most // turns), len(hidden) // turns)
        parts = math.ceil(turns / most)  # of the turns, where a call cannot take all
        size = math.ceil(times * turns / parts)
        takers = _map((self._args, self._kwargs), lambda value: taker(value, times))
        for first in range(0, len(hidden), times * turns):
            branches = hidden[first : first + times * turns]
            for start in range(0, len(branches), size):
                now = slice(start, min(start + size, len(branches)))
                args, kwargs = _map(takers, partial(_taken, turns=now))
                branches[now] = self._call(branches[now], args, kwargs)

    def run_once(self, hidden: Tensor, runs: Runs = None, other: nn.Module | None = None) -> Tensor:
        """Return the residuals after the block, or another in its place.

        All [n, length, width] run in one call, so that a caller can record or replace outputs on
        the way.
        """
        args, kwargs = self._args, self._kwargs
        if runs is not None:
            turns, taker = self._turns(runs, hidden.device)
            args, kwargs = _map((args, kwargs), lambda value: taker(value, 1)(slice(0, turns)))
        return (
            first_tensor(other(hidden, *args, **kwargs))
            if other
            else self._call(hidden, args, kwargs)
        )

    def _turns(
        self, runs: Runs, device: torch.device
    ) -> tuple[int, Callable[[Any, int], Callable[[slice], Any]]]:
        """Return how many take turns, and what takes an argument of the block for them.

        It returns, for an argument and how many times all take their turn in a call, a function
        from some of these turns to what they get.
        """
        if isinstance(runs, Suffixes):
            suffixes = runs.to(device)
            select = partial(self._of_suffixes, suffixes=suffixes)

            def taker(value: Any, times: int) -> Callable[[slice], Any]:
                if isinstance(value, Cache):
                    return _PrefixKeys(value.layers[self.number], suffixes, times).of_turns
                return self._taker(value, times, owner=suffixes.rows, select=select)

            return len(suffixes.rows), taker
        rows = None if runs is None else runs.to(device)
        owner = self._batch.ids if rows is None else rows
        of_rows = partial(self._of_rows, rows=rows)
        return len(owner), partial(self._taker, owner=owner, select=of_rows)

    def _call(self, hidden: Tensor, args: Any, kwargs: Any) -> Tensor:
        return first_tensor(self._forward(hidden, *args, **kwargs))

    def _taker(
        self, value: Any, times: int, owner: Tensor, select: Callable[[Tensor], Tensor | None]
    ) -> Callable[[slice], Any]:
        """Return a function from turns to the part of an argument for them.

        Args:
            value: The argument.
            times: How many times all take their turn.
            owner: [n, ...] a tensor that stands for those that take turns.
            select: Returns the part of an argument for these, None for all of it.
        """
        if isinstance(value, Cache):
            return lambda _: None
        parts = self._kept.parts(value, owner, select) if isinstance(value, Tensor) else None
        if parts is None:
            return lambda _: value
        if len(parts) == 1:
            return partial(_expanded, parts)
        each = len(parts) // len(owner)
        if times > 1:
            parts = parts.repeat(times, *[1] * (parts.ndim - 1))
        return partial(_of_turns, parts, each)

    def _of_rows(self, value: Tensor, rows: Tensor | None) -> Tensor | None:
        """Return the part of an argument for rows, None for all, or None if all get all of it."""
        count = len(self._batch.ids)
        is_bias = value.ndim == 3 and value.shape[1] == 1
        if is_bias and self.block.head_bias:
            return None
        if is_bias and self.block.folded:
            by_row = value.view(count, -1, *value.shape[1:])
            return value if rows is None else by_row[rows].flatten(0, 1)
        if value.ndim > 1 and value.shape[0] == count > 1:
            return value if rows is None else value[rows]
        return None

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


def _taken(taker: Callable[[slice], Any], turns: slice) -> Any:
    return taker(turns)


def _expanded(part: Tensor, turns: slice) -> Tensor:
    """Return the one row for all turns, for models that demand a mask of each."""
    return part.expand(turns.stop - turns.start, *part.shape[1:])


def _of_turns(parts: Tensor, each: int, turns: slice) -> Tensor:
    """Return the rows of some turns, `each` of them for a turn; the same object for all turns."""
    rows = slice(turns.start * each, turns.stop * each)
    return parts if rows == slice(0, len(parts)) else parts[rows]


class _Kept:
    """The parts of arguments for branches, kept as long as the argument: layers get the same."""

    def __init__(self) -> None:
        self._parts: MutableMapping[Tensor, MutableMapping[Tensor, Tensor]]
        self._parts = WeakTensorKeyDictionary()

    def parts(
        self, value: Tensor, owner: Tensor, select: Callable[[Tensor], Tensor | None]
    ) -> Tensor | None:
        """Return the part of an argument for those that take turns: see `LiveBlock._taker`."""
        by_owner = self._parts.setdefault(value, WeakTensorKeyDictionary())
        if owner not in by_owner:
            parts = select(value)
            if parts is None or parts is value:  # which would keep itself
                return parts
            by_owner[owner] = parts
        return by_owner[owner]


class _PrefixKeys:
    """Room for the keys and values of suffixes that take turns, behind those of their prefixes."""

    def __init__(self, plain: DynamicLayer, suffixes: Suffixes, times: int) -> None:
        """Fill in what the plain run has kept in a layer, as many times as all take their turn."""
        rows, prefixes = suffixes.rows[:, None], suffixes.prefixes
        turns, length = suffixes.are_keys.shape
        self._start = prefixes.shape[1]
        self._room: list[Tensor] = []
        for kept in (plain.keys, plain.values):
            assert isinstance(kept, Tensor)
            room = kept.new_empty(times, turns, kept.shape[1], length, kept.shape[3])
            room[..., : self._start, :] = kept[rows, :, prefixes].transpose(1, 2)
            self._room.append(room.flatten(0, 1))

    def of_turns(self, turns: slice) -> Cache:
        """Return a cache for some turns."""
        return _PrefixCache([room[turns] for room in self._room], self._start)


class _PrefixCache(Cache):
    """A cache that puts the keys and values of a block's input behind those of prefixes."""

    def __init__(self, room: Sequence[Tensor], start: int) -> None:
        """Set the room for [rows, heads, length, width of a head], and where new ones begin."""
        super().__init__(layers=[])
        self._room, self._start = room, start

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Return all keys and values. The next ones take the place of the new ones."""
        for room, new in zip(self._room, (keys, values), strict=True):
            room[:, :, self._start :] = new
        return self._room[0], self._room[1]


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
        keep_keys: Whether to keep the keys and values of the plain run, which suffixes need.
    """
    device = decoder.device
    kept = _Kept()
    cache = DynamicCache() if keep_keys else None

    def stand_in(number: int, block: Block, forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            here = next(block.module.parameters()).device
            args, kwargs = _map((args, kwargs), partial(_moved, device=here))
            hidden, args = (args[0], args[1:]) if args else (kwargs.pop("hidden_states"), args)
            live = LiveBlock(number, block, batch, forward, args, kwargs, chunk, kept)
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
            stack.enter_context(TreeAttention(spans(batch.mask[:, 0] == 0), device))
        model = decoder.model.base_model
        model(
            input_ids=batch.ids.to(device),
            attention_mask=batch.mask.to(device),
            position_ids=batch.positions.to(device),
            use_cache=keep_keys,
            **({cache_name(model): cache} if keep_keys else {}),
        )
