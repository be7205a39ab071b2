"""What a sweep observes, unit by unit, in memory or recorded so that a run can be interrupted.

Before anything runs, the items (groups of prompts, or pairs of them) are divided into units of work
by a budget in tokens. What is observed therefore depends neither on interruptions nor on how many
processes share the run.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from accelerate.utils.memory import clear_device_cache

from pragworld_interp.engine.modules import is_out_of_memory
from pragworld_interp.run.processes import own_share, process_state, progress_bar
from pragworld_tasks.errors import InputError
from pragworld_tasks.journal import open_journal, read_journal

# Tokens that go through a block at a time. On a CPU more is slower, because less fits its cache.
CPU_TOKENS = 1280
ACCELERATOR_TOKENS = 32768
_FEWEST_TOKENS = 16

Element = TypeVar("Element")

# A function from some items and a budget in tokens to what it observes of each item.
Work = Callable[[Sequence[Element], int], list[Any]]


def default_budget(device: torch.device) -> int:
    """Return how many tokens go through a layer at a time on a device."""
    return CPU_TOKENS if device.type == "cpu" else ACCELERATOR_TOKENS


@dataclass(frozen=True)
class SweepPlan(Generic[Element]):
    """What is to be observed."""

    units: Sequence[Sequence[Element]]  # items that run together
    work: Work[Element]
    budget: int  # the tokens that go through a layer at a time
    name: Callable[[Element], str]  # what an error calls an item
    description: str  # the text beside the progress bar


def observe(
    plan: SweepPlan[Element], done: Collection[int] = ()
) -> Iterator[tuple[int, list[Any]]]:
    """Yield the number of each unit of this process that is not done, and what it observes."""
    mine = own_share(len(plan.units))
    left = [number for number in mine if number not in done]
    shown: dict[str, Any] = {"desc": plan.description, "unit": "batch", "smoothing": 0}
    with progress_bar(total=len(mine), initial=len(mine) - len(left), **shown) as progress:
        for observation in zip(left, _within_memory(plan, left), strict=True):
            yield observation
            progress.update()


def _within_memory(plan: SweepPlan[Element], numbers: Sequence[int]) -> Iterator[list[Any]]:
    """Yield what is observed of each unit; out of memory, halve the items and tokens at a time.

    What did not fit is not tried again for the units that follow.
    """
    budget, most = plan.budget, None
    for number in numbers:
        items = plan.units[number]
        results: list[Any] = []
        while len(results) < len(items):
            part = items[len(results) :][:most]
            try:
                results += plan.work(part, budget)
                continue
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            clear_device_cache(garbage_collection=True)  # of what the error referred to
            if len(part) == 1 and budget <= _FEWEST_TOKENS:
                raise InputError(
                    f"out of memory on {plan.name(part[0])}, even on its own; use a smaller dtype, "
                    "quantize the model, or use a larger device"
                )
            most = math.ceil(len(part) / 2)
            budget = max(budget // 2, min(budget, _FEWEST_TOKENS))
        yield results


def recorded(
    plan: SweepPlan[Element], target: Path, identity: Mapping[str, Any]
) -> list[Any] | None:
    """Observe all units, or those that an interrupted run has left, and record each.

    Several processes divide the units among them. Each keeps a journal beside `target`.

    Returns:
        The observations of all items, in order; None in all processes but the first.
    """
    state = process_state()
    path = target.with_name(f".{target.name}.journal-{state.process_index}")

    def read_all() -> dict[int, list[Any]]:
        return dict(record for path in _journals(target) for record in read_journal(path, identity))

    with open_journal(path, identity) as journal:
        for observation in observe(plan, {*read_all()}):
            journal.append(observation)
        state.wait_for_everyone()
    if not state.is_main_process:
        return None
    done = read_all()
    return [result for number in range(len(plan.units)) for result in done[number]]


def remove_journals(target: Path) -> None:
    """Remove the journals of a run, once its results are in `target`."""
    for path in _journals(target):
        path.unlink(missing_ok=True)


def _journals(target: Path) -> list[Path]:
    name = re.compile(rf"\.{re.escape(target.name)}\.journal-\d+")
    return sorted(path for path in target.parent.glob(".*") if name.fullmatch(path.name))
