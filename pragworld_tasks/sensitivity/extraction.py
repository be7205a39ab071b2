"""The value of a response, as a model reads it (arXiv 2506.16584, section 4 and appendix C)."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pragworld_tasks.chat import Connection, Endpoint, Request, UnansweredError, connect, run_async
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


def read_extracted(reply: str) -> float | None:
    """Return the value in the extractor's reply; None where it says that there is none.

    A value is a number, with thousands commas and a dollar sign before it at most, or a range a-b
    of two numbers, which counts as its mean. `UnansweredError`: the reply is neither.
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

    Values have no sign, as in the paper. Equal responses are sent once. The journal keeps the
    replies, so a second call asks only for missing ones.

    Raises:
        InputError: The endpoint or the journal cannot be used, or no reply can.
    """
    settings = {"extraction": question.name, "prompt": question.prompt, "model": endpoint.model}

    async def extract_all() -> list[float | UnansweredError | None]:
        with tqdm(total=len(responses), desc="extraction") as progress:
            async with connect(endpoint, journal, settings) as connection:
                reads = (_read(connection, question, response, progress) for response in responses)
                return await asyncio.gather(*reads)

    values = run_async(extract_all())
    problems = [value for value in values if isinstance(value, UnansweredError)]
    if problems and len(problems) == len(responses):
        raise InputError(
            f"{endpoint.url}: no reply can be used, the last one because {problems[-1]}"
        )
    if problems:
        logger.warning(
            "%s: %d of %d values are missing: %s sent no usable reply (%s); rerun to ask again",
            *(question.name, len(problems), len(values), endpoint.model, problems[-1]),
        )
    return [None if isinstance(value, UnansweredError) else value for value in values]


async def _read(
    connection: Connection, question: OpenQuestion, response: str, progress: "tqdm[Any]"
) -> float | UnansweredError | None:
    """Return the value of a response, or why the reply cannot be used."""
    user = f"{question.extraction} {_NOTHING}\n\nAnswer text:\n{response}"
    request = Request("extraction", connection.endpoint.model, _SYSTEM, user, temperature=0.0)
    try:
        value = read_extracted(await connection.ask(request))
    except UnansweredError as error:
        return error
    finally:
        progress.update()
    return None if value is None else abs(value)
