"""Work that adapts to the memory of a device."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

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


class MemoryLimit(Generic[Element]):
    """Work on as many items, and with as many tokens at a time, as have fit into memory so far.

    Args:
        work: The work.
        budget: The tokens that go through a layer at a time.
        name: What an error calls an item.
    """

    def __init__(self, work: Work[Element], budget: int, name: Callable[[Element], str]) -> None:
        """Set the work."""
        self._work = work
        self._budget = budget
        self._name = name
        self._most: int | None = None

    def work(self, items: Sequence[Element]) -> list[Any]:
        """Return the results of items; out of memory, halve the items and tokens at a time.

        Raises:
            InputError: A single item does not fit into memory.
        """
        results: list[Any] = []
        while len(results) < len(items):
            part = items[len(results) :][: self._most]
            try:
                results += self._work(part, self._budget)
                continue
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            clear_device_cache(garbage_collection=True)  # of what the error referred to
            if len(part) == 1 and self._budget <= _FEWEST_TOKENS:
                raise InputError(
                    f"out of memory on {self._name(part[0])}, even on its own; use a smaller "
                    "dtype, quantize the model, or use a larger device"
                )
            self._most = math.ceil(len(part) / 2)
            self._budget = max(self._budget // 2, min(self._budget, _FEWEST_TOKENS))
        return results
