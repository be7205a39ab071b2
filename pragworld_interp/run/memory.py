"""Work that adapts to the memory of a device."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from accelerate.utils.memory import clear_device_cache

from pragworld_interp.engine.modules import is_out_of_memory
from pragworld_tasks.errors import InputError

# Tokens that go through a block at a time. On a CPU more is slower, because less fits its cache.
CPU_TOKENS = 1280
ACCELERATOR_TOKENS = 32768
_FEWEST_TOKENS = 16

Element = TypeVar("Element")

# A function from some items and a budget in tokens to a result for each item.
Work = Callable[[Sequence[Element], int], list[Any]]


def default_budget(device: torch.device) -> int:
    """Return how many tokens go through a layer at a time on a device."""
    return CPU_TOKENS if device.type == "cpu" else ACCELERATOR_TOKENS


def within_memory(
    units: Iterable[Sequence[Element]],
    work: Work[Element],
    budget: int,
    name: Callable[[Element], str],
) -> Iterator[list[Any]]:
    """Yield the results of each unit; out of memory, halve the items and tokens at a time.

    What did not fit is not tried again for the units that follow.

    Args:
        units: Items that run together.
        work: The work.
        budget: The tokens that go through a layer at a time.
        name: What an error calls an item.

    Raises:
        InputError: A single item does not fit into memory.
    """
    most: int | None = None
    for items in units:
        results: list[Any] = []
        while len(results) < len(items):
            part = items[len(results) :][:most]
            try:
                results += work(part, budget)
                continue
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            clear_device_cache(garbage_collection=True)  # of what the error referred to
            if len(part) == 1 and budget <= _FEWEST_TOKENS:
                raise InputError(
                    f"out of memory on {name(part[0])}, even on its own; use a smaller dtype, "
                    "quantize the model, or use a larger device"
                )
            most = math.ceil(len(part) / 2)
            budget = max(budget // 2, min(budget, _FEWEST_TOKENS))
        yield results
