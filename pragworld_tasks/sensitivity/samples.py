"""Responses to the world_model tasks, out of lm-eval's samples files."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import Where, read_json_lines
from pragworld_tasks.quantities import read_quantity
from pragworld_tasks.sensitivity import decomposition

_KEYS = {
    **dict.fromkeys(("question", "unit", "value", "prompt"), str),
    **dict.fromkeys(("intent", "paraphrase"), int),
}


@dataclass(frozen=True)
class Prompt:
    """One prompt and what was written to it.

    Attributes:
        intent, paraphrase: numbers from 0.
        slot: the value in the slot.
        text: the prompt.
        responses: as they were written.
        values: what was read of each, in the question's unit; None where there is nothing to read.
    """

    intent: int
    paraphrase: int
    slot: str
    text: str
    responses: tuple[str, ...]
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Sampled:
    """All that one model wrote on one question.

    Attributes:
        path: the file.
        model: its name, as the folder has it in which lm-eval put the file.
        question: as in `travel_miami`.
        unit: of the values.
        prompts: in the order of intents and paraphrases.
    """

    path: Path
    model: str
    question: str
    unit: str
    prompts: tuple[Prompt, ...]

    @property
    def responses(self) -> list[str]:
        """All, prompt by prompt."""
        return [response for prompt in self.prompts for response in prompt.responses]

    @property
    def values(self) -> list[float | None]:
        """Those of `responses`."""
        return [value for prompt in self.prompts for value in prompt.values]

    @property
    def unreadable(self) -> int:
        """In how many responses there is no value."""
        return self.values.count(None)

    def nested(self) -> decomposition.Responses:
        """The readable ones, for the decomposition."""
        return decomposition.nest_prompts(
            (prompt.intent, prompt.paraphrase, prompt.values) for prompt in self.prompts
        )

    def with_values(self, values: Sequence[float | None]) -> "Sampled":
        """The same, read otherwise: a value for each response, prompt by prompt."""
        left = iter(values)
        return replace(
            self,
            prompts=tuple(
                replace(prompt, values=tuple(next(left) for _ in prompt.responses))
                for prompt in self.prompts
            ),
        )


def read_samples(paths: Sequence[Path]) -> list[Sampled]:
    """What is in lm-eval's samples files (or in those of `pragworld-tasks collect`).

    A prompt may be there several times, as one that was topped up is: its responses are put
    together. Files are read side by side: a long response takes some milliseconds.

    Args:
        paths: files; of one model and question there should be one.

    Raises:
        InputError: a file cannot be read, holds samples of another task or of several questions, or
            two files are of the same model and question.
    """
    found: dict[tuple[str, str], Sampled] = {}
    for sampled in _read_all(paths):
        key = (sampled.model, sampled.question)
        if key in found:
            raise InputError(
                f"{sampled.path}: {sampled.model} on {sampled.question} is in {found[key].path} "
                "too; give the samples of one run"
            )
        found[key] = sampled
    return list(found.values())


def _read_all(paths: Sequence[Path]) -> Iterator[Sampled]:
    if len(paths) < 2:
        yield from map(_read, paths)
        return
    with ProcessPoolExecutor(min(len(paths), os.cpu_count() or 1)) as pool:
        read = pool.map(_read, paths)
        yield from tqdm(read, total=len(paths), desc="reading", unit="file", disable=None)


def _read(path: Path) -> Sampled:
    prompts: dict[tuple[int, int], Prompt] = {}
    question: tuple[str, str] | None = None
    for where, record in read_json_lines(path):
        document = _document(record, where)
        if question is None:
            question = (document["question"], document["unit"])
        if question != (document["question"], document["unit"]):
            where.refuse(f"{document['question']}, in a file of {question[0]}")
        responses = _responses(record, where)
        key = (document["intent"], document["paraphrase"])
        values = tuple(
            read_quantity(response, document["unit"], document["prompt"]) for response in responses
        )
        if key in prompts:
            before = prompts[key]
            if before.text != document["prompt"]:
                where.refuse("another prompt than before under the same intent and paraphrase")
            responses, values = before.responses + responses, before.values + values
        prompts[key] = Prompt(*key, document["value"], document["prompt"], responses, values)
    assert question is not None  # the file had a line
    model = path.resolve().parent.name.replace("__", "/")
    return Sampled(path, model, *question, tuple(prompts[key] for key in sorted(prompts)))


def _document(record: Mapping[str, Any], where: Where) -> Mapping[str, Any]:
    document = record.get("doc")
    if not isinstance(document, Mapping) or not all(
        isinstance(document.get(key), kind) for key, kind in _KEYS.items()
    ):
        where.refuse("not a sample of a world_model task; give lm-eval's samples_world_model_*")
    return document


def _responses(record: Mapping[str, Any], where: Where) -> tuple[str, ...]:
    """All responses to the prompt; one that an API refused to give is empty."""
    given = record.get("resps")
    if not isinstance(given, list) or len(given) != 1 or not isinstance(given[0], list):
        where.refuse("'resps' is not a list of one list of responses")
    return tuple("" if response is None else str(response) for response in given[0])
