"""The value of a response, as a model reads it (arXiv 2506.16584, section 4 and appendix C)."""

import asyncio
import re
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
    """Return the message to the extractor."""
    return f"{question.extraction} {_NOTHING}\n\nAnswer text:\n{response}"


def read_extracted(reply: str) -> float | None:
    """Return the value in the extractor's reply; None where it says that there is none.

    A value is a number, with thousands commas and a dollar sign before it at most, or a range a-b
    of two numbers, which counts as its mean.

    Raises:
        UnansweredError: The reply is neither.
    """
    text = reply.strip().strip("\"'`*").strip().removesuffix(".").strip("\"'`*")
    if text.casefold() == "none":
        return None
    match = _EXTRACTED.fullmatch(text)
    ends = [float(re.sub(r"[$,]", "", end)) for end in match.groups() if end] if match else []
    if not ends or max(map(abs, ends)) > LARGEST_VALUE:
        raise UnansweredError(f"{reply!r:.80} is neither a number nor None", reply)
    return sum(ends) / len(ends)


def extract(
    endpoint: Endpoint, question: OpenQuestion, responses: Sequence[str], journal: Path
) -> list[float | None]:
    """Return the value of each response, as the endpoint's model reads it at temperature 0.

    Args:
        endpoint: The model.
        question: The question to which they respond, with an extraction prompt.
        responses: Any number. Equal ones are sent once.
        journal: A file that keeps the replies, so that a second call asks only for missing ones.

    Returns:
        A value without a sign, as in the paper, or None, for each response. A number counts as one
        in the question's unit, which the message to the model names.

    Raises:
        InputError: The endpoint or the journal cannot be used, or no reply can.
    """
    values, problems = run_async(_extract(endpoint, question, responses, journal))
    if problems and len(problems) == len(responses):
        raise InputError(
            f"{endpoint.url}: no reply can be used, the last one because {problems[-1]}"
        )
    if problems:
        logger.warning(
            "%s: %d of %d values are missing: %s sent no usable reply (%s); rerun to ask again",
            *(question.name, len(problems), len(values), endpoint.model, problems[-1]),
        )
    return values


async def _extract(
    endpoint: Endpoint, question: OpenQuestion, responses: Sequence[str], journal: Path
) -> tuple[list[float | None], list[str]]:
    """Return the value of each response, and why there is none where a reply cannot be used."""
    from tqdm import tqdm

    settings = {"extraction": question.name, "prompt": question.prompt, "model": endpoint.model}
    problems: list[str] = []
    with tqdm(total=len(responses), desc="extraction") as progress:
        async with connect(endpoint, journal, settings) as connection:

            async def read(response: str) -> float | None:
                user = extraction_prompt(question, response)
                request = Request("extraction", endpoint.model, _SYSTEM, user, temperature=0.0)
                try:
                    value = read_extracted(await connection.ask(request))
                except UnansweredError as error:
                    problems.append(str(error))
                    return None
                finally:
                    progress.update()
                return None if value is None else abs(value)

            return await asyncio.gather(*map(read, responses)), problems
