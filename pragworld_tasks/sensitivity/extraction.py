"""The value of a response, as a model reads it (arXiv 2506.16584, section 4 and appendix C)."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pragworld_tasks.endpoint import (
    Endpoint,
    EndpointError,
    Unanswered,
    connect,
    require_client,
    run,
)
from pragworld_tasks.errors import InputError
from pragworld_tasks.log import logger
from pragworld_tasks.request_journal import Journal, Request
from pragworld_tasks.sensitivity.questions import Question

# The paper's words.
SYSTEM = (
    "You are an assistant designed to extract the final numerical answer from a given text. Return "
    "only the number, with no additional words. If the answer is a range, return it in the format "
    "a-b (e.g., 10-15), using a single hyphen with no spaces."
)
# The paper says what the value is, each time a little differently ("If no duration can …").
_NOTHING = 'If no value can be inferred from the text, return "None".'

_NUMBER = r"(?:-?\$|\$?-)?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
_EXTRACTED = re.compile(rf"({_NUMBER})(?:\s?[-\u2013]\s?({_NUMBER}))?", re.ASCII)


def extraction_prompt(question: Question, response: str) -> str:
    """What the extractor is asked.

    Raises:
        InputError: it is not known what to extract for this question.
    """
    if not question.extraction:
        raise InputError(f"question {question.name!r}: no extraction prompt; give it one")
    return f"{question.extraction} {_NOTHING}\n\nAnswer text:\n{response}"


def read_extracted(answer: str) -> tuple[float | None, str]:
    """The value in what the extractor answered, and what kind of answer it is.

    Read are a number, with thousands commas and a dollar sign before it at most, and a range a-b of
    two of them, which counts as its mean. The kinds are `number`, `range`, `none` and `unreadable`;
    the last two have no value.
    """
    text = answer.strip().strip("\"'`*").strip().removesuffix(".").strip("\"'`*")
    if text.casefold() == "none":
        return None, "none"
    match = _EXTRACTED.fullmatch(text)
    if not match:
        return None, "unreadable"
    ends = [float(re.sub(r"[$,]", "", end)) for end in match.groups() if end]
    return sum(ends) / len(ends), "range" if len(ends) == 2 else "number"


def extract(
    endpoint: Endpoint,
    question: Question,
    responses: Sequence[str],
    journal: Path | None = None,
    counts: Counter[str] | None = None,
) -> list[float | None]:
    """The value of each response, as the endpoint's model reads it at temperature 0.

    Args:
        endpoint: where, and which model.
        question: to which they respond.
        responses: any number. Those that are the same are asked about once.
        journal: a file that keeps the answers. With it, a second call asks nothing twice.
        counts: is told how many there were of each kind: those of `read_extracted`, and `no answer`
            where the endpoint gave none.

    Returns:
        A value in the question's unit, or None, for each response.

    Raises:
        InputError: the endpoint or the journal cannot be used, or answered nothing at all.
    """
    require_client()
    prompts = [extraction_prompt(question, response) for response in responses]
    settings = {"extraction": question.name, "prompt": question.prompt, "model": endpoint.model}
    with Journal(journal, settings) as kept:
        answers = run(_ask_all(endpoint, kept, prompts))
    found = [(None, "no answer") if one is None else read_extracted(one) for one in answers]
    kinds = Counter(kind for _, kind in found)
    if counts is not None:
        counts.update(kinds)
    if lost := kinds["unreadable"] + kinds["no answer"]:
        unreadable = [one for one in answers if one and read_extracted(one)[1] == "unreadable"]
        logger.warning(
            "%s: %d of %d values are missing, for %s gave neither a number nor None%s",
            *(question.name, lost, len(found), endpoint.model),
            f", as in {unreadable[0]!r:.80}" if unreadable else "",
        )
    return [value for value, _ in found]


async def _ask_all(
    endpoint: Endpoint, journal: Journal, prompts: Sequence[str]
) -> list[str | None]:
    """What the extractor answers to each; None where it did not.

    Raises:
        EndpointError: it cannot be used, or answered none.
    """
    from tqdm import tqdm

    problem = ""
    with tqdm(total=len(prompts), desc="extraction", disable=None) as progress:
        async with connect(endpoint, journal) as connection:

            async def ask(prompt: str) -> str | None:
                nonlocal problem
                try:
                    return await connection.ask(
                        Request("extraction", endpoint.model, SYSTEM, prompt, temperature=0.0)
                    )
                except Unanswered as error:
                    problem = str(error)
                    return None
                finally:
                    progress.update()

            answers = await asyncio.gather(*map(ask, prompts))
    if problem and not any(answers):
        raise EndpointError(f"{endpoint.shown}: no request found an answer, because {problem}")
    return answers
