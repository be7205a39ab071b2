"""Candidate paraphrases: proposed, checked, judged and counted until there are enough.

A candidate is number 0, 1, … of those that are tried. What is proposed depends on its number alone,
and what becomes of it on those before it alone, so in whatever order answers come in, the same
candidates are tried and accepted.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from pragworld_tasks.endpoint import Connection, Unanswered
from pragworld_tasks.sensitivity.paraphrases import Paraphrase, fault
from pragworld_tasks.sensitivity.questions import slot_of

TRIES = 3  # candidates that are tried for each that is wanted, at most
# Models like to quote what they hand over.
_QUOTES = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\u201c": "\u201d",
    "\u2018": "\u2019",
    "\u00ab": "\u00bb",
    "\u300c": "\u300d",
}


class Propose(Protocol):
    """How a method comes by the candidate of a number: its text and its source."""

    def __call__(self, connection: Connection, number: int) -> Awaitable[Paraphrase]:
        """Raises `Unanswered` or `EndpointError`, as `Connection.ask` does."""


class Judge(Protocol):
    """Whether a text asks for what the base prompt asks for; None: the verdict is unreadable."""

    def __call__(self, connection: Connection, text: str) -> Awaitable[bool | None]:
        """Raises `Unanswered` or `EndpointError`, as `Connection.ask` does."""


@dataclass
class Candidates:
    """What became of those that were tried.

    Attributes:
        accepted: in the order of their numbers.
        rejected: how many, by the reason.
    """

    accepted: list[Paraphrase] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def tried(self) -> int:
        """How many."""
        return len(self.accepted) + self.rejected.total()


@dataclass(frozen=True)
class _Rejected:
    reason: str


async def gather(
    connection: Connection,
    prompt: str,
    propose: Propose,
    judge: Judge,
    wanted: int,
    watch: Callable[[Candidates], object] = lambda _: None,
) -> Candidates:
    """Tries candidates until `wanted` distinct ones are accepted, or `TRIES` times as many tried.

    Never is one tried that might turn out not to be needed: no more are under way than are still
    missing. The base prompt itself counts as a duplicate.

    Args:
        connection: the endpoint; as many candidates as its concurrency are under way at a time.
        prompt: the base prompt.
        propose: the method.
        judge: of the candidates in which no fault can be seen.
        wanted: how many.
        watch: is called with each candidate that is settled.

    Raises:
        EndpointError: the endpoint cannot be used.
    """
    found = Candidates()
    seen = {_words(prompt)}
    started = 0
    tasks: dict[asyncio.Task[Paraphrase | _Rejected], int] = {}
    results: dict[int, Paraphrase | _Rejected] = {}  # of those behind one that is under way
    try:
        while True:
            hopeful = len(tasks) + sum(isinstance(one, Paraphrase) for one in results.values())
            missing = min(wanted - len(found.accepted) - hopeful, TRIES * wanted - started)
            for _ in range(min(missing, connection.endpoint.concurrency - len(tasks))):
                tasks[asyncio.create_task(_try(connection, prompt, propose, judge, started))] = (
                    started
                )
                started += 1
            if not tasks:
                return found
            done, _under_way = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                results[tasks.pop(task)] = task.result()
            while (result := results.pop(found.tried, None)) is not None:
                if isinstance(result, Paraphrase) and (words := _words(result.text)) in seen:
                    result = _Rejected("duplicate")
                if isinstance(result, _Rejected):
                    found.rejected[result.reason] += 1
                else:
                    seen.add(words)
                    found.accepted.append(result)
                watch(found)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _try(
    connection: Connection, prompt: str, propose: Propose, judge: Judge, number: int
) -> Paraphrase | _Rejected:
    """One candidate, or why it is none."""
    try:
        proposed = await propose(connection, number)
        candidate = Paraphrase(_unquoted(proposed.text, prompt), proposed.source)
        if found := fault(prompt, slot_of(prompt), candidate.text):
            return _Rejected(re.sub(r"\bthe number .*", "a number", found))
        same = await judge(connection, candidate.text)
    except Unanswered as error:
        return _Rejected(f"no answer: {error}")
    if same is None:
        return _Rejected("verdict not readable")
    return candidate if same else _Rejected("judged to ask for something else")


def _unquoted(text: str, prompt: str) -> str:
    """The text without a pair of quotation marks around all of it, unless the prompt has them."""
    opening, inner, closing = text[:1], text[1:-1], text[-1:]
    quoted = _QUOTES.get(opening) == closing and opening not in inner and closing not in inner
    return inner.strip() if quoted and prompt[:1] != opening else text


def _words(text: str) -> tuple[str, ...]:
    """What two texts have in common that count as one."""
    return tuple(re.findall(r"[\w{}]+", text.casefold()))
