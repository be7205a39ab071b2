"""Long runs over groups of prompts: resumed after an interruption, and adapted to the memory.

Before anything runs, the groups are divided into units of work by a budget in tokens. The results
therefore depend neither on interruptions nor on how many processes share the run.

Several processes that `accelerate launch` or `torchrun` starts divide the units among them, each
with a model of its own.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from accelerate.utils.memory import clear_device_cache
from torch import Tensor
from tqdm import tqdm

from pragworld_interp.engine.modules import is_out_of_memory
from pragworld_interp.prompts.tokenization import PromptGroup
from pragworld_tasks.errors import InputError
from pragworld_tasks.journal import open_journal, read_journal

# Tokens that go through a block at a time. On a CPU more is slower, because less fits its cache.
CPU_TOKENS = 1280
ACCELERATOR_TOKENS = 32768
_FEWEST_TOKENS = 16
# A process with faster devices waits for the others at the end; torch would give up after minutes.
_LONGEST_WAIT = timedelta(days=1)

_Item = TypeVar("_Item")
_Value = TypeVar("_Value")

# A function from some groups and a budget in tokens to a result for each group, as JSON data.
Work = Callable[[Sequence[PromptGroup], int], list[Any]]


def run_units(
    units: Sequence[Sequence[PromptGroup]],
    work: Work,
    decode: Callable[[PromptGroup, Any], Any],
    target: Path,
    identity: Mapping[str, Any],
    budget: int,
    description: str,
) -> list[Any] | None:
    """Do the work on all units, or on those that an interrupted run has left.

    Several processes divide the units among them. Each keeps a journal beside `target`.

    Args:
        units: Groups that run together.
        work: The work.
        decode: Turns the JSON data of a group's result back; raises ValueError where it does not
            fit the group.
        target: The file that the results are for.
        identity: What the results depend on; a journal with another identity is refused.
        budget: The tokens that go through a layer at a time.
        description: The text beside the progress bar.

    Returns:
        The decoded results of all groups, in order; None in all processes but the first.

    Raises:
        InputError: The journal has another identity, or a single group does not fit into memory.
    """
    state = process_state()
    memory = MemoryLimit(work, budget, lambda group: f"group {group.documents[0].group}")
    mine = own_share(len(units))
    path = target.with_name(f"{_prefix(target)}{state.process_index}")

    def decode_unit(record: Any) -> tuple[int, list[Any]]:
        number, results = record
        if number < 0:
            raise ValueError("units are numbered from 0")
        return number, [
            decode(group, result) for group, result in zip(units[number], results, strict=True)
        ]

    with open_journal(path, identity) as journal:
        finished = {*_read_journals(target, identity, decode_unit)}
        progress = tqdm(
            total=sum(_count_documents(units[number]) for number in mine),
            initial=sum(_count_documents(units[number]) for number in mine if number in finished),
            desc=description,
            unit="document",
            smoothing=0,
            disable=hides_progress(),
        )
        with progress:
            for number in mine:
                if number not in finished:
                    journal.append([number, memory.work(units[number])])
                    progress.update(_count_documents(units[number]))
        state.wait_for_everyone()
    if not state.is_main_process:
        return None
    done = _read_journals(target, identity, decode_unit)
    return [result for number in range(len(units)) for result in done[number]]


def divide_prompts(count: int, work: Callable[[int], Tensor], description: str) -> list[Tensor]:
    """Do the work on prompts, which several processes divide among them.

    Args:
        count: How many prompts there are.
        work: A function from the number of a prompt to a tensor on the CPU.
        description: The text beside the progress bar.

    Returns:
        The tensors in the order of the prompts, in all processes.
    """
    mine = tqdm(
        own_share(count),
        desc=description,
        unit="prompt",
        disable=hides_progress(),
    )
    done = dict(gather_object([(number, work(number)) for number in mine]))
    return [done[number] for number in range(count)]


def own_share(count: int) -> range:
    """Return the numbers of what this process does of `count` things."""
    state = process_state()
    return range(state.process_index, count, state.num_processes)


def from_all(value: _Value) -> list[_Value]:
    """Return the values of all processes, in all processes."""
    result: list[_Value] = gather_object([value])
    return result


def hides_progress() -> bool | None:
    """Return `disable` for tqdm: None, for no terminal only, in a machine's first process."""
    return None if process_state().is_local_main_process else True


def default_budget(device: torch.device) -> int:
    """Return how many tokens go through a layer at a time on a device."""
    return CPU_TOKENS if device.type == "cpu" else ACCELERATOR_TOKENS


def process_state() -> PartialState:
    """Return the state of this process among those that share a run, on CPUs too."""
    accelerators = getattr(torch, "accelerator", torch.cuda)  # new in torch 2.6
    # accelerate recognizes several processes on CPUs only if it is told to use CPUs.
    return PartialState(cpu=not accelerators.is_available(), timeout=_LONGEST_WAIT)


def remove_journals(target: Path) -> None:
    """Remove the journals of a run, once its results are in `target`."""
    for path in _journals(target):
        path.unlink(missing_ok=True)


def _read_journals(
    target: Path, identity: Mapping[str, Any], decode_unit: Callable[[Any], tuple[int, list[Any]]]
) -> dict[int, list[Any]]:
    """Return the results in the journals of all processes, by the number of the unit."""
    return dict(
        decode_unit(record) for path in _journals(target) for record in read_journal(path, identity)
    )


def _prefix(target: Path) -> str:
    return f".{target.name}.journal-"


def _journals(target: Path) -> list[Path]:
    prefix = _prefix(target)
    return sorted(
        path
        for path in target.parent.glob("*")
        if path.name.startswith(prefix) and path.name.removeprefix(prefix).isdigit()
    )


def _count_documents(unit: Sequence[PromptGroup]) -> int:
    return sum(len(group.documents) for group in unit)


class MemoryLimit(Generic[_Item]):
    """Work that adapts to the memory: as many items and as many tokens at a time as have fit.

    Args:
        work: A function from some items and a budget in tokens to a result for each item.
        budget: The tokens that go through a layer at a time.
        name: What an error calls an item.
    """

    def __init__(
        self,
        work: Callable[[Sequence[_Item], int], list[Any]],
        budget: int,
        name: Callable[[_Item], str],
    ) -> None:
        """Set the work."""
        self._work = work
        self._budget = budget
        self._name = name
        self._most: int | None = None

    def work(self, items: Sequence[_Item]) -> list[Any]:
        """Return the results of items; out of memory, halve the items and tokens at a time.

        Raises:
            InputError: A single item does not fit into memory.
        """
        results: list[Any] = []
        while len(results) < len(items):
            part = items[len(results) :][: self._most]
            done = self._try(part)
            if done is None:
                self._reduce(part)
            else:
                results += done
        return results

    def _try(self, items: Sequence[_Item]) -> list[Any] | None:
        """Return the results of items, or None without memory for them.

        When this returns, the tensors that the exception refers to are free.
        """
        try:
            return self._work(items, self._budget)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None

    def _reduce(self, items: Sequence[_Item]) -> None:
        clear_device_cache(garbage_collection=True)
        if len(items) == 1 and self._budget <= _FEWEST_TOKENS:
            raise InputError(
                f"out of memory on {self._name(items[0])}, even on its own; use a smaller dtype, "
                "quantize the model, or use a larger device"
            )
        self._most = math.ceil(len(items) / 2)
        self._budget = max(self._budget // 2, min(self._budget, _FEWEST_TOKENS))
