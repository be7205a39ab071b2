"""Processes that share a run: `accelerate launch` or `torchrun` starts them, each with a model."""

import sys
from datetime import timedelta
from typing import Any

import torch
from accelerate import PartialState
from tqdm import tqdm

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


def progress_bar(**options: Any) -> "tqdm[Any]":
    """Return a bar in a machine's first process, which begins late and moves slowly in a log."""
    if not sys.stderr.isatty():
        options |= {"delay": 10, "mininterval": 30}
    return tqdm(disable=not process_state().is_local_main_process, **options)
