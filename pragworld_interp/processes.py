"""Errors of several processes that share a run: what one of them meets, all of them raise.

The processes meet before each exchange, and at the end. A process that fails leaves its error at
the next meeting, where the others find it. Otherwise they would wait for it in an exchange of
torch or accelerate, or end with an error of the exchange.
"""

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

from pragworld_tasks.command_line import launched_processes
from pragworld_tasks.errors import InputError, ReportedError
from pragworld_tasks.files import whole_characters

# Seconds for which a process that fails stays, so that the others end by themselves. In an exchange
# of a divided model they cannot, but wait for the process; then it ends, and with it the exchange.
_LONGEST_STAY = 5.0


@contextmanager
def sharing_errors() -> Iterator[None]:
    """Raise in all processes the error that one of them raises, and wait for all of them.

    Raises:
        ReportedError: Another process has failed.
    """
    meetings = _meetings()
    if meetings is None:
        yield
        return
    try:
        yield
        meetings.attend()
    except (Exception, KeyboardInterrupt) as error:
        shared = meetings.share(error)
        if shared is error:
            raise
        raise shared from error


def meet() -> None:
    """Wait for all processes.

    Raises:
        ReportedError: Another process has failed.
    """
    if meetings := _meetings():
        meetings.attend()


def check_others() -> None:
    """Continue, without waiting, unless another process has failed.

    Raises:
        ReportedError: Another process has failed.
    """
    if meetings := _meetings():
        meetings.look()


@cache
def _meetings() -> "_Meetings | None":
    """Return the meetings of the processes that a launcher has started; None for a single one."""
    count = launched_processes()
    return _Meetings(count) if count > 1 and "LOCAL_RANK" in os.environ else None


class _Meetings:
    """Meetings of processes by keys in a store that they share."""

    def __init__(self, count: int) -> None:
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        store, *_ = next(rendezvous("env://"))
        self._store = PrefixStore("pragworld", store)
        self._count = count
        self._number = 0

    @property
    def _next(self) -> str:
        """The key of the next meeting: empty once all are there, else the error of one of them."""
        return f"meeting {self._number}"

    def attend(self) -> None:
        """Wait for all processes at the next meeting; see `meet`."""
        self._arrive(self._next)
        self._wait(self._next)
        self.look()
        self._number += 1

    def look(self) -> None:
        """Raise the error that was left at the next meeting, if there is one."""
        if self._store.check([self._next]) and (message := self._store.get(self._next)):
            raise ReportedError(message.decode())

    def share(self, error: BaseException) -> BaseException:
        """Leave an error at the next meeting, and return the first one that was left there."""
        with suppress(RuntimeError):  # the process that has the store may have ended
            if not isinstance(error, ReportedError):
                if self._store.add(f"{self._next}: errors", 1) == 1:
                    name = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
                    self._store.set(self._next, whole_characters(f"{name}{error}"))
                else:
                    error = ReportedError(self._store.get(self._next).decode())
            self._arrive(f"{self._next}: left")
            self._wait(f"{self._next}: left", _LONGEST_STAY)
        self._number += 1
        return error

    def _arrive(self, key: str) -> None:
        """Count this process at a key, and set the key if it is the last."""
        if self._store.add(f"{key}: count", 1) == self._count:
            self._store.set(key, "")

    def _wait(self, key: str, longest: float = math.inf) -> None:
        """Wait until a key is set, or some seconds. Torch's own `wait` logs what takes long."""
        end, pause = time.monotonic() + longest, 0.001
        while not self._store.check([key]) and time.monotonic() < end:
            time.sleep(pause)
            # Not longer: a process that fails prints its error before the first of the others ends.
            pause = min(2 * pause, 0.01)
