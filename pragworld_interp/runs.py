"""Long runs over the groups of a split: resumed where they were, halved when memory is short.

The groups are put into units of work once, by the token budget, before anything runs; so what a
run gives depends neither on when it was killed nor on how many processes share it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size
from tqdm import tqdm

from pragworld_interp.journal import Journal
from pragworld_interp.loading import Fed
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError

# Tokens that go through a block in one go. On a CPU more is slower, since less stays in its cache.
CPU_TOKENS = 2048
ACCELERATOR_TOKENS = 32768
_FEWEST_TOKENS = 16


@dataclass(frozen=True)
class Group:
    """A group of documents, their prompts as token ids, and which of these hold the dialogue."""

    documents: tuple[Document, ...]
    prompts: tuple[list[int], ...]
    dialogues: tuple[frozenset[int], ...]


def groups_of(documents: Sequence[Document], prompts: Sequence[Fed]) -> list[Group]:
    """The documents of each group together, in order."""
    pairs = sorted(zip(documents, prompts, strict=True), key=lambda pair: pair[0].group)
    return [
        Group(
            tuple(document for document, _ in each),
            tuple(prompt.ids for _, prompt in each),
            tuple(prompt.dialogue for _, prompt in each),
        )
        for each in (list(of) for _, of in groupby(pairs, key=lambda pair: pair[0].group))
    ]


# The results of some groups, one for each, from the groups and a token budget.
Work = Callable[[Sequence[Group], int], list[Any]]


def run(
    units: Sequence[Sequence[Group]],
    work: Work,
    target: Path,
    identity: Mapping[str, Any],
    budget: int,
    what: str,
) -> list[Any] | None:
    """Does the work on all units, or on what is left of them.

    Args:
        units: groups that are worked on in one go.
        work: gives a result, as JSON has them, for each group.
        target: the file that the results are for; the journal lies beside it.
        identity: of the run; a journal of another one is refused.
        budget: in tokens.
        what: the run is called beside its progress bar.

    Returns:
        The results of all groups, in order; None in all processes but the first.

    Raises:
        InputError: the journal is another run's, or memory does not do for one group.
    """
    state = PartialState()
    with Journal(target, identity, state.process_index) as journal:
        mine = range(state.process_index, len(units), state.num_processes)
        progress = tqdm(
            total=sum(_documents(units[number]) for number in mine),
            initial=sum(_documents(units[number]) for number in mine if number in journal.done),
            desc=what,
            unit="document",
            smoothing=0,
            disable=None if state.is_local_main_process else True,
        )
        memory = _Memory(work, budget)
        with progress:
            for number in mine:
                if number not in journal.done:
                    journal.add(number, memory.work(units[number]))
                    progress.update(_documents(units[number]))
        state.wait_for_everyone()
        if not state.is_main_process:
            return None
        journal.reread()
        return [result for number in range(len(units)) for result in journal.done[number]]


def _documents(unit: Sequence[Group]) -> int:
    return sum(len(group.documents) for group in unit)


class _Memory:
    """What memory does for: as many groups in one go, and a token budget, as it turns out."""

    def __init__(self, work: Work, budget: int) -> None:
        self._work = work
        self._budget = budget
        self._most_groups: int | None = None  # not known to be too many

    def work(self, groups: Sequence[Group]) -> list[Any]:
        """The results of the groups. Where memory is short, fewer go in at once, then less."""
        results: list[Any] = []
        while len(results) < len(groups):
            some = groups[len(results) :][: self._most_groups]
            try:
                results += self._work(some, self._budget)
            except (RuntimeError, MemoryError) as error:
                if not (isinstance(error, MemoryError) or should_reduce_batch_size(error)):
                    raise
                self._take_less(some)
        return results

    def _take_less(self, groups: Sequence[Group]) -> None:
        clear_device_cache(garbage_collection=True)
        if len(groups) > 1:
            self._most_groups = math.ceil(len(groups) / 2)
        elif self._budget > _FEWEST_TOKENS:
            self._budget //= 2
        else:
            raise InputError(
                f"group {groups[0].documents[0].group}: out of memory, alone as it is; take a "
                "smaller dtype, --quantization, or more memory"
            )
