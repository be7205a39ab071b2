"""The value of a response, as a model reads it (arXiv 2506.16584, section 4 and appendix C)."""

import re

from tqdm.asyncio import tqdm_asyncio

from pragworld_tasks.chat import Connection, Endpoint, Request, UnansweredError, connect, run_async
from pragworld_tasks.errors import InputError, logger
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.sensitivity.components import LARGEST_VALUE
from pragworld_tasks.sensitivity.open_questions import questions
from pragworld_tasks.sensitivity.samples import ModelSamples

_PROMPT = read_package_toml(__package__, "prompts.toml")["extraction"]
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


def extract(samples: ModelSamples, endpoint: Endpoint) -> ModelSamples:
    """Return the same responses with the values that the endpoint's model reads at temperature 0.

    Values have no sign, as in the paper. Equal responses are sent once. The replies are kept in a
    journal beside the samples, so a second call asks only for missing ones.
    """
    question = questions().get(samples.question)
    if not question or question.unit != samples.unit:
        raise InputError(
            f"{samples.path}: the paper has no extraction prompt for {samples.question} in the "
            f"unit {samples.unit!r}; leave out --model"
        )
    settings = {"extraction": question.name, "prompt": question.prompt, "model": endpoint.model}
    suffix = re.sub(r"[^\w.-]", "_", endpoint.model)
    journal = samples.path.with_name(f"{samples.path.stem}.{suffix}.journal")
    responses = [text for texts in samples.responses for text in texts]
    problems: list[UnansweredError] = []

    async def read(connection: Connection, response: str) -> float | None:
        """Return the value of a response, and note why a reply cannot be used."""
        user = _PROMPT["user"].format(instruction=question.extraction, response=response)
        request = Request("extraction", endpoint.model, _PROMPT["system"], user, temperature=0.0)
        try:
            value = read_extracted(await connection.ask(request))
        except UnansweredError as error:
            problems.append(error)
            return None
        return None if value is None else abs(value)

    async def read_all() -> list[float | None]:
        async with connect(endpoint, journal, settings) as connection:
            reads = [read(connection, response) for response in responses]
            return list(await tqdm_asyncio.gather(*reads, desc="extraction"))

    values = run_async(read_all())
    if problems and len(problems) == len(responses):
        raise InputError(
            f"{endpoint.url}: no reply can be used, the last one because {problems[-1]}"
        )
    if problems:
        logger.warning(
            "%s: %d of %d values are missing: %s sent no usable reply (%s); rerun to ask again",
            *(question.name, len(problems), len(values), endpoint.model, problems[-1]),
        )
    return samples.with_values(dict(zip(responses, values, strict=True)))
