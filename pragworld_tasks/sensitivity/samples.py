"""Responses to the world_model tasks, read from lm-eval's samples files."""

import functools
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError
from tqdm import tqdm

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.runs import part_of_run
from pragworld_tasks.files import read_json_lines
from pragworld_tasks.quantities import read_quantity
from pragworld_tasks.sensitivity.components import Responses, nest_prompts
from pragworld_tasks.sensitivity.open_questions import PromptRecord, questions


class _Sample(BaseModel):
    """A line of a samples file; a response that an API refused to give is null."""

    doc: PromptRecord
    resps: list[list[str | None]] = Field(min_length=1, max_length=1)


@dataclass(frozen=True)
class SampledPrompt:
    """A prompt and the responses to it.

    Attributes:
        slot: The value in the slot.
        values: The number in each response, in the question's unit; None if there is none to read.
    """

    intent: int
    paraphrase: int
    slot: str
    responses: tuple[str, ...]
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class ModelSamples:
    """The responses of one model to one question, by prompt."""

    path: Path
    model: str
    question: str
    unit: str
    prompts: tuple[SampledPrompt, ...]

    @property
    def values(self) -> list[float | None]:
        """The values of all responses, prompt by prompt."""
        return [value for prompt in self.prompts for value in prompt.values]

    def nested(self) -> Responses:
        """Return the readable responses for a decomposition."""
        return nest_prompts(
            (prompt.intent, prompt.paraphrase, prompt.values) for prompt in self.prompts
        )

    def with_values(self, values: Mapping[str, float | None]) -> "ModelSamples":
        """Return the same responses with other values, by response."""
        prompts = [
            replace(prompt, values=tuple(map(values.get, prompt.responses)))
            for prompt in self.prompts
        ]
        return replace(self, prompts=tuple(prompts))


def read_samples(paths: Sequence[Path], signed: bool = False) -> list[ModelSamples]:
    """Read lm-eval's samples files, one for each model and question, in parallel.

    Losses and refunds can be negative (`signed`), for the questions that name such `signs`.

    Raises:
        InputError: A file cannot be read, holds samples of another task or of several questions, or
            is a part of a run (by `--limit`, say), or two files are of the same model and question.
    """
    read = functools.partial(_read, signed=signed)
    if len(paths) == 1:
        return [read(paths[0])]
    with ProcessPoolExecutor() as pool:
        reading = pool.map(read, paths)
        samples = list(tqdm(reading, total=len(paths), desc="reading", unit="file", disable=None))
    first: dict[tuple[str, str], Path] = {}
    for of_model in samples:
        other = first.setdefault((of_model.model, of_model.question), of_model.path)
        if other is not of_model.path:
            raise InputError(
                f"{of_model.path}: {of_model.model} on {of_model.question} is also in {other}; "
                "give the samples of one run"
            )
    return samples


def _read(path: Path, signed: bool) -> ModelSamples:
    read_once = functools.cache(read_quantity)  # samples of short answers hold few different ones
    prompts: dict[tuple[int, int], SampledPrompt] = {}
    first: PromptRecord | None = None
    for where, record in read_json_lines(path):
        try:
            sample = _Sample.model_validate(record)
        except ValidationError:
            where.refuse("not a sample of a world_model task; give lm-eval's samples_world_model_*")
        prompt = sample.doc
        first = first or prompt
        key = (prompt.intent, prompt.paraphrase)
        if prompt.question != first.question or key in prompts:
            where.refuse(
                "an earlier row is of another question, or of the same prompt; give the samples of "
                "one run, with one question a file"
            )
        known = questions().get(prompt.question)
        signs = known.signs if signed and known else ()
        responses = tuple(response or "" for response in sample.resps[0])
        values = tuple(read_once(text, prompt.unit, prompt.prompt, signs) for text in responses)
        prompts[key] = SampledPrompt(*key, prompt.value, responses, values)
    assert first  # files have a line at least
    if part := part_of_run(path, len(prompts)):
        raise InputError(f"{path}: {part}; pass a whole run")
    model = path.resolve().parent.name.replace("__", "/")
    by_intent = tuple(prompts[key] for key in sorted(prompts))
    return ModelSamples(path, model, first.question, first.unit, by_intent)
