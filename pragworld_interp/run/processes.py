"""Processes that share a run: `accelerate launch` or `torchrun` starts them, each with a model."""

from datetime import timedelta

import torch
from accelerate import PartialState

# A process with faster devices waits for the others at the end; torch would give up after minutes.
_LONGEST_WAIT = timedelta(days=1)


def process_state() -> PartialState:
    """Return the state of this process among those that share a run, on CPUs too."""
    accelerators = getattr(torch, "accelerator", torch.cuda)  # new in torch 2.6
    # accelerate recognizes several processes on CPUs only if it is told to use CPUs.
    return PartialState(cpu=not accelerators.is_available(), timeout=_LONGEST_WAIT)


def own_share(count: int) -> range:
    """Return the numbers of what this process does of `count` things."""
    state = process_state()
    return range(state.process_index, count, state.num_processes)


def hides_progress() -> bool | None:
    """Return `disable` for tqdm: None, for no terminal only, in a machine's first process."""
    return None if process_state().is_local_main_process else True
