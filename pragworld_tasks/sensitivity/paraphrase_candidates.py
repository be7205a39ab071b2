"""Candidate paraphrases: proposed, checked and judged until enough are accepted.

Candidates are numbered from 0. What is proposed depends on a candidate's number alone, and whether
it is accepted on those before it alone, so the same candidates are tried and accepted in whatever
order replies come in.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pragworld_tasks.chat import Connection, UnansweredError
from pragworld_tasks.sensitivity.paraphrases import Paraphrase, find_fault

TRIES = 3  # the most candidates that are tried for each that is wanted
FIRST = 50  # candidates of which one must be accepted, or no more are tried

# The candidate of a number; and whether a text makes the same request as the base prompt (None if
# the verdict is unreadable). Both raise what `Connection.ask` raises.
ProposeFunction = Callable[[Connection, int], Awaitable[Paraphrase]]
JudgeFunction = Callable[[Connection, str], Awaitable[bool | None]]


@dataclass
class Candidates:
    """The candidates that were tried.

    Attributes:
        accepted: The accepted ones, in the order of their numbers.
        rejected: The number of rejected ones by reason.
    """

    accepted: list[Paraphrase] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def tried(self) -> int:
        """The number of all of them."""
        return len(self.accepted) + self.rejected.total()


@dataclass(frozen=True)
class _Rejection:
    reason: str


async def gather_candidates(
    connection: Connection,
    prompt: str,
    propose: ProposeFunction,
    judge: JudgeFunction,
    wanted: int,
    watch: Callable[[Candidates], object] = lambda _: None,
) -> Candidates:
    """Try candidates until `wanted` distinct ones are accepted, or `TRIES` times as many are tried.

    If none of the `FIRST` is accepted, no more are tried, for they would only cost.
    No candidate is tried that might turn out not to be needed: no more are in flight than are still
    missing. The base prompt itself counts as a duplicate.

    Args:
        connection: The endpoint; as many candidates as its concurrency are in flight at a time.
        prompt: The base prompt.
        propose: The method.
        judge: The judge of candidates without a visible fault.
        wanted: The number of candidates to accept.
        watch: Called after each candidate that is accepted or rejected.

    Raises:
        InputError: The endpoint cannot be used.
    """
    candidates = Candidates()
    seen = {_words(prompt)}
    started = 0
    tasks: dict[asyncio.Task[Paraphrase | _Rejection], int] = {}
    results: dict[int, Paraphrase | _Rejection] = {}  # after a candidate that is in flight
    try:
        while True:
            hopeful = len(tasks) + sum(
                isinstance(result, Paraphrase) for result in results.values()
            )
            most = TRIES * wanted if candidates.accepted else min(FIRST, TRIES * wanted)
            missing = min(wanted - len(candidates.accepted) - hopeful, most - started)
            for _ in range(min(missing, connection.endpoint.concurrency - len(tasks))):
                task = asyncio.create_task(_try(connection, prompt, propose, judge, started))
                tasks[task] = started
                started += 1
            if not tasks:
                return candidates
            done, _in_flight = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                results[tasks.pop(task)] = task.result()
            while (result := results.pop(candidates.tried, None)) is not None:
                if isinstance(result, Paraphrase) and (words := _words(result.text)) in seen:
                    result = _Rejection("duplicate")
                if isinstance(result, _Rejection):
                    candidates.rejected[result.reason] += 1
                else:
                    seen.add(words)
                    candidates.accepted.append(result)
                watch(candidates)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _try(
    connection: Connection,
    prompt: str,
    propose: ProposeFunction,
    judge: JudgeFunction,
    number: int,
) -> Paraphrase | _Rejection:
    """Return a candidate, or why it is rejected."""
    try:
        candidate = await propose(connection, number)
        if fault := find_fault(prompt, candidate.text):
            return _Rejection(re.sub(r"\bthe number .*", "a number", fault))
        same_request = await judge(connection, candidate.text)
    except UnansweredError as error:
        return _Rejection(f"no reply: {error}")
    if same_request is None:
        return _Rejection("unreadable verdict")
    return candidate if same_request else _Rejection("judged to make another request")


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text; texts of equal words count as one."""
    return tuple(re.findall(r"[\w{}]+", text.casefold()))
