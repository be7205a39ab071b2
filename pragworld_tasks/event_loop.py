"""Running asynchronous work to its end, and showing how far it has come."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

REPORT_PAUSE = 30.0  # seconds between lines of progress where there is no terminal

Result = TypeVar("Result")


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end; also in a notebook, which has an event loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)

    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def main() -> Result:
        task = asyncio.current_task()
        assert task
        begun.set_result((asyncio.get_running_loop(), task))
        return await work

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(asyncio.run, main())
        try:
            return done.result()
        except KeyboardInterrupt:
            loop, task = begun.result()
            loop.call_soon_threadsafe(task.cancel)
            raise


@contextlib.asynccontextmanager
async def report_progress(describe: Callable[[], str]) -> AsyncIterator[None]:
    """Print a line on stderr now and every half minute, unless a terminal has a progress bar there.

    Args:
        describe: Returns the line.
    """

    async def report() -> None:
        while not sys.stderr.isatty():
            print(describe(), file=sys.stderr, flush=True)
            await asyncio.sleep(REPORT_PAUSE)

    task = asyncio.create_task(report())
    try:
        yield
    finally:
        task.cancel()
