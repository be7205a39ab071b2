"""Responses to the world_model tasks, read from lm-eval's samples files."""

import functools
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.runs import part_of_run
from pragworld_tasks.files import Where, read_json_lines
from pragworld_tasks.quantities import read_quantity
from pragworld_tasks.sensitivity.components import Responses, nest_prompts
from pragworld_tasks.sensitivity.open_questions import questions

_KEYS = {
    **dict.fromkeys(("question", "unit", "value", "prompt"), str),
    **dict.fromkeys(("intent", "paraphrase"), int),
}
# Starting processes takes longer than reading files that have fewer bytes together.
_FEW_BYTES = 1 << 18


@dataclass(frozen=True)
class SampledPrompt:
    """A prompt and the responses to it.

    Attributes:
        intent, paraphrase: Numbers from 0.
        slot: The value in the slot.
        text: The prompt.
        responses: The responses.
        values: The number in each response, in the question's unit; None if there is none to read.
    """

    intent: int
    paraphrase: int
    slot: str
    text: str
    responses: tuple[str, ...]
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class ModelSamples:
    """The responses of one model to one question.

    Attributes:
        path: The file.
        model: The model's name, from the folder in which lm-eval puts the file.
        question: The question's name, such as `travel_miami`.
        unit: The unit of the values.
        prompts: The prompts, in the order of intents and paraphrases.
    """

    path: Path
    model: str
    question: str
    unit: str
    prompts: tuple[SampledPrompt, ...]

    @property
    def responses(self) -> list[str]:
        """All responses, prompt by prompt."""
        return [response for prompt in self.prompts for response in prompt.responses]

    @property
    def values(self) -> list[float | None]:
        """The values of `responses`."""
        return [value for prompt in self.prompts for value in prompt.values]

    @property
    def unreadable(self) -> int:
        """The number of responses without a value."""
        return self.values.count(None)

    def nested(self) -> Responses:
        """Return the readable responses for a decomposition."""
        return nest_prompts(
            (prompt.intent, prompt.paraphrase, prompt.values) for prompt in self.prompts
        )

    def with_values(self, values: Sequence[float | None]) -> "ModelSamples":
        """Return the same responses with other values, one for each, prompt by prompt."""
        remaining = iter(values)
        return replace(
            self,
            prompts=tuple(
                replace(prompt, values=tuple(next(remaining) for _ in prompt.responses))
                for prompt in self.prompts
            ),
        )


def read_samples(paths: Sequence[Path], signed: bool = False) -> list[ModelSamples]:
    """Read samples files of lm-eval or `pragworld-tasks collect`, large ones in parallel.

    A prompt may occur several times, for instance if it was topped up: its responses are joined.

    Args:
        paths: The files, one for each model and question.
        signed: Whether losses and refunds are negative, for the questions that name such `signs`.

    Raises:
        InputError: A file cannot be read, holds samples of another task or of several questions, or
            is a part of a run (by `--limit`, say), or two files are of the same model and question.
    """
    by_key: dict[tuple[str, str], ModelSamples] = {}
    for samples in _read_all(paths, signed):
        key = (samples.model, samples.question)
        if key in by_key:
            raise InputError(
                f"{samples.path}: {samples.model} on {samples.question} is also in "
                f"{by_key[key].path}; give the samples of one run"
            )
        by_key[key] = samples
    return list(by_key.values())


def _read_all(paths: Sequence[Path], signed: bool) -> Iterator[ModelSamples]:
    read = functools.partial(_read, signed=signed)
    size = sum(path.stat().st_size for path in paths if path.is_file())
    if len(paths) < 2 or size < _FEW_BYTES:
        yield from map(read, paths)
        return
    # A long response takes some milliseconds to read.
    with ProcessPoolExecutor(min(len(paths), os.cpu_count() or 1)) as pool:
        results = pool.map(read, paths)
        yield from tqdm(results, total=len(paths), desc="reading", unit="file", disable=None)


def _read(path: Path, signed: bool) -> ModelSamples:
    read_once = functools.cache(read_quantity)  # samples of short answers hold few different ones
    prompts: dict[tuple[int, int], SampledPrompt] = {}
    documents: dict[tuple[int, int], Mapping[str, Any]] = {}
    rounds: set[tuple[int, int, Any]] = set()
    slots: dict[int, str] = {}  # the value of each intent
    question: tuple[str, str] | None = None
    for where, record in read_json_lines(path):
        document = _document(record, where)
        if question is None:
            question = (document["question"], document["unit"])
        if question != (document["question"], document["unit"]):
            where.refuse(
                f"{document['question']}, in a file of {question[0]}; there must be one question a "
                "file"
            )
        known = questions().get(question[0]) if signed else None
        signs = known.signs if known else ()
        responses = _responses(record, where)
        key = (document["intent"], document["paraphrase"])
        row = (*key, record.get("round"))
        if row in rounds:
            where.refuse(
                "an earlier row has the same intent and paraphrase; give the samples of one run, "
                "each row once"
            )
        rounds.add(row)
        if (slot := slots.setdefault(key[0], document["value"])) != document["value"]:
            where.refuse(
                f"intent {key[0]} is the value {document['value']!r}, but {slot!r} in an earlier "
                "row; give the samples of one run, in which an intent is one value"
            )
        unit, prompt = document["unit"], document["prompt"]
        values = tuple(read_once(response, unit, prompt, signs) for response in responses)
        if key in prompts:
            before = prompts[key]
            if before.text != document["prompt"]:
                where.refuse(
                    "has another prompt than an earlier row of the same intent and paraphrase; "
                    "give the samples of one run"
                )
            responses, values = before.responses + responses, before.values + values
        documents[key] = document
        prompts[key] = SampledPrompt(*key, document["value"], document["prompt"], responses, values)
    assert question is not None  # the file had a line
    _check_whole(path, documents)
    model = path.resolve().parent.name.replace("__", "/")
    return ModelSamples(path, model, *question, tuple(prompts[key] for key in sorted(prompts)))


def _check_whole(path: Path, documents: Mapping[tuple[int, int], Mapping[str, Any]]) -> None:
    """Refuse a part of a run: its shares would be those of another design.

    Args:
        path: The file of samples.
        documents: Those in it, by intent and paraphrase.
    """
    if part := part_of_run(path, len(documents)):
        raise InputError(f"{path}: {part}; pass a whole run")
    intents, paraphrases = map(set, zip(*documents, strict=True))
    for paraphrase, intent in itertools.product(sorted(paraphrases), sorted(intents)):
        if (intent, paraphrase) not in documents:
            raise InputError(
                f"{path}: paraphrase {paraphrase} has samples of other intents, but none of intent "
                f"{intent}; pass a whole run"
            )


def _document(record: Mapping[str, Any], where: Where) -> Mapping[str, Any]:
    document = record.get("doc")
    if not isinstance(document, Mapping) or not all(
        isinstance(document.get(key), kind) for key, kind in _KEYS.items()
    ):
        where.refuse("not a sample of a world_model task; give lm-eval's samples_world_model_*")
    return document


def _responses(record: Mapping[str, Any], where: Where) -> tuple[str, ...]:
    """Return all responses to a prompt; one that an API refused to give is empty."""
    responses = record.get("resps")
    if (
        not isinstance(responses, list)
        or len(responses) != 1
        or not isinstance(responses[0], list)
        or not responses[0]
    ):
        where.refuse("'resps' must be a list of one list of responses, as lm-eval writes it")
    return tuple("" if response is None else str(response) for response in responses[0])
