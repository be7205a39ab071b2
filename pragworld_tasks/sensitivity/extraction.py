"""The value of a response, as a model reads it (arXiv 2506.16584, section 4 and appendix C)."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pragworld_tasks.chat import Endpoint, Request, UnansweredError, connect, run_async
from pragworld_tasks.errors import InputError, logger
from pragworld_tasks.sensitivity.components import LARGEST_VALUE
from pragworld_tasks.sensitivity.open_questions import OpenQuestion

# The paper's words.
_SYSTEM = (
    "You are an assistant designed to extract the final numerical answer from a given text. Return "
    "only the number, with no additional words. If the answer is a range, return it in the format "
    "a-b (e.g., 10-15), using a single hyphen with no spaces."
)
# The paper says what the value is, each time a little differently ("If no duration can …").
_NOTHING = 'If no value can be inferred from the text, return "None".'

_NUMBER = r"(?:-?\$|\$?-)?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
_EXTRACTED = re.compile(rf"({_NUMBER})(?:\s?[-\u2013]\s?({_NUMBER}))?", re.ASCII)


def extraction_prompt(question: OpenQuestion, response: str) -> str:
    """Return the message to the extractor.

    Raises:
        InputError: The question has no instruction for it.
    """
    if not question.extraction:
        raise InputError(
            f"question {question.name!r}: has no extraction prompt; an LLM can extract the values "
            "of the paper's fifteen questions only"
        )
    return f"{question.extraction} {_NOTHING}\n\nAnswer text:\n{response}"


def read_extracted(reply: str) -> tuple[float | None, str]:
    """Return the value in the extractor's reply, and the kind of the reply.

    A value is a number, with thousands commas and a dollar sign before it at most, or a range a-b
    of two numbers, which counts as its mean. The kinds are `number`, `range`, `none` and
    `unreadable`; the last two have no value.
    """
    text = reply.strip().strip("\"'`*").strip().removesuffix(".").strip("\"'`*")
    if text.casefold() == "none":
        return None, "none"
    match = _EXTRACTED.fullmatch(text)
    if not match:
        return None, "unreadable"
    ends = [float(re.sub(r"[$,]", "", end)) for end in match.groups() if end]
    value = sum(ends) / len(ends)
    if abs(value) > LARGEST_VALUE:
        return None, "unreadable"
    return value, "range" if len(ends) == 2 else "number"


def extract(
    endpoint: Endpoint,
    question: OpenQuestion,
    responses: Sequence[str],
    journal: Path | None = None,
    counts: Counter[str] | None = None,
) -> list[float | None]:
    """Return the value of each response, as the endpoint's model reads it at temperature 0.

    Args:
        endpoint: The model.
        question: The question to which they respond.
        responses: Any number. Equal ones are sent once.
        journal: A file that keeps the replies, so that a second call asks only for those that are
            missing, or that were empty, cut off or refused.
        counts: Receives the number of replies of each kind: those of `read_extracted`, and
            `no answer` for responses without a reply.

    Returns:
        A value without a sign, as in the paper, or None, for each response. A number counts as one
        in the question's unit, which the message to the model names.

    Raises:
        InputError: The endpoint or the journal cannot be used, or all requests failed.
    """
    prompts = [extraction_prompt(question, response) for response in responses]
    settings = {"extraction": question.name, "prompt": question.prompt, "model": endpoint.model}
    replies, problem = run_async(_ask_all(endpoint, journal, settings, prompts))
    extracted = [
        (None, "no answer") if reply is None else read_extracted(reply) for reply in replies
    ]
    kinds = Counter(kind for _, kind in extracted)
    if counts is not None:
        counts.update(kinds)
    missing = "%s: %d of %d values are missing: %s "
    if number := kinds["unreadable"]:
        unreadable = (
            reply
            for reply, (_, kind) in zip(replies, extracted, strict=True)
            if kind == "unreadable"
        )
        example = next(unreadable)
        logger.warning(
            missing + "replied neither a number nor None (for example %.80r)",
            *(question.name, number, len(extracted), endpoint.model, example),
        )
    if number := kinds["no answer"]:
        logger.warning(
            missing + "gave no usable reply (%s); rerun to ask for them again",
            *(question.name, number, len(extracted), endpoint.model, problem),
        )
    money = [
        reply
        for reply, (value, _) in zip(replies, extracted, strict=True)
        if reply and value is not None and "$" in reply
    ]
    if money and "dollar" not in question.unit:
        logger.warning(
            "%s: %s replied with a dollar sign for %d of %d values (for example %.80r), which "
            "count as %s; check the replies",
            *(question.name, endpoint.model, len(money), len(extracted), money[0], question.unit),
        )
    return [None if value is None else abs(value) for value, _ in extracted]


async def _ask_all(
    endpoint: Endpoint, journal: Path | None, settings: dict[str, str], prompts: Sequence[str]
) -> tuple[list[str | None], str]:
    """Return the extractor's reply to each prompt, None where a request failed, and why one did.

    Raises:
        InputError: The endpoint cannot be used, or all requests failed.
    """
    from tqdm import tqdm

    problem = ""
    with tqdm(total=len(prompts), desc="extraction") as progress:
        async with connect(endpoint, journal, settings) as connection:

            async def ask(prompt: str) -> str | None:
                nonlocal problem
                try:
                    return await connection.ask(
                        Request("extraction", endpoint.model, _SYSTEM, prompt, temperature=0.0)
                    )
                except UnansweredError as error:
                    problem = str(error)
                    return None
                finally:
                    progress.update()

            replies = await asyncio.gather(*map(ask, prompts))
    if problem and not any(replies):
        raise InputError(f"{endpoint.url}: all requests failed, the last one because {problem}")
    return replies, problem
