"""Responses to the world_model tasks: what is read in them, and lm-eval's samples files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ValidationError
from tqdm.contrib.concurrent import process_map

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.runs import part_of_run, results_beside, task_and_date
from pragworld_tasks.files import read_json_lines
from pragworld_tasks.quantities import read_quantity
from pragworld_tasks.sensitivity.components import Responses, nest
from pragworld_tasks.sensitivity.open_questions import PromptRecord


class _Sample(BaseModel):
    """A line of a samples file; a response that an API refused to give is null."""

    doc: PromptRecord
    resps: tuple[list[str | None]]


class SampledPrompt(NamedTuple):
    """What is read in the responses to a prompt: numbers in the question's unit, or None.

    They are `copied` if there are several responses, and all are the same.
    """

    intent: int
    paraphrase: int
    slot: str  # the value in it
    values: tuple[float | None, ...]
    copied: bool


def read_prompt(document: PromptRecord, responses: Sequence[str]) -> SampledPrompt:
    """Read the numbers in the responses to a prompt."""
    value_of = {text: read_quantity(text, document.unit, document.prompt) for text in {*responses}}
    return SampledPrompt(
        document.intent,
        document.paraphrase,
        document.value,
        tuple(map(value_of.get, responses)),
        copied=len(responses) > len(value_of) == 1,
    )


def nest_prompts(prompts: Iterable[SampledPrompt]) -> Responses:
    """Return the readable responses for a decomposition."""
    flat = [
        (value, prompt.paraphrase, prompt.intent) for prompt in prompts for value in prompt.values
    ]
    return nest(*zip(*flat, strict=True)) if flat else nest((), (), ())


@dataclass(frozen=True)
class ModelSamples:
    """The responses of one model to one question, and what is read in them, by prompt."""

    path: Path
    model: str
    question: str
    unit: str
    prompts: tuple[SampledPrompt, ...]
    responses: tuple[tuple[str, ...], ...]

    @property
    def values(self) -> list[float | None]:
        """The values of all responses, prompt by prompt."""
        return [value for prompt in self.prompts for value in prompt.values]

    def with_values(self, values: Mapping[str, float | None]) -> "ModelSamples":
        """Return the same responses with other values, by response."""
        prompts = tuple(
            prompt._replace(values=tuple(map(values.get, texts)))
            for prompt, texts in zip(self.prompts, self.responses, strict=True)
        )
        return replace(self, prompts=prompts)


def read_samples(paths: Sequence[Path]) -> list[ModelSamples]:
    """Read lm-eval's samples files, one for each model and question, in parallel."""
    if len(paths) == 1:
        return [_read(paths[0])]
    samples = process_map(_read, paths, desc="reading", unit="file", disable=None)
    first: dict[tuple[str, str], Path] = {}
    for of_model in samples:
        other = first.setdefault((of_model.model, of_model.question), of_model.path)
        if other is not of_model.path:
            raise InputError(
                f"{of_model.path}: {of_model.model} on {of_model.question} is also in {other}; "
                "give the samples of one run"
            )
    return samples


def _read(path: Path) -> ModelSamples:
    found: dict[tuple[int, int], tuple[SampledPrompt, tuple[str, ...]]] = {}
    first: PromptRecord | None = None
    for where, record in read_json_lines(path):
        try:
            sample = _Sample.model_validate(record)
        except ValidationError:
            where.refuse("not a sample of a world_model task; give lm-eval's samples_world_model_*")
        document = sample.doc
        first = first or document
        key = (document.intent, document.paraphrase)
        if document.question != first.question or key in found:
            where.refuse(
                "an earlier row is of another question, or of the same prompt; give the samples of "
                "one run, with one question a file"
            )
        responses = tuple(response or "" for response in sample.resps[0])
        found[key] = read_prompt(document, responses), responses
    assert first  # files have a line at least
    if part := part_of_run(results := results_beside(path), task_and_date(path)[0], len(found)):
        raise InputError(f"{path}: {part}; pass a whole run")
    model = results.get("model_name") or path.resolve().parent.name.replace("__", "/")
    prompts, texts = zip(*(found[key] for key in sorted(found)), strict=True)
    return ModelSamples(path, model, first.question, first.unit, prompts, texts)
