"""The world_model tasks of lm-eval: data sets, items and aggregations.

A document is a prompt: a paraphrase of a question (the wording) with a value in its slot (the
intent). lm-eval repeats each request and passes all of its responses, whose values are in the items
of the metrics. The aggregations decompose these.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from lm_eval.utils import warning_once
from pydantic import BaseModel, Field, ValidationError

from pragworld_tasks.chat import content_text
from pragworld_tasks.errors import InputError, first_problem, logger
from pragworld_tasks.evaluation.statistics import tally
from pragworld_tasks.evaluation.task_metrics import NotAvailable, shown_value
from pragworld_tasks.sensitivity.decomposition import Decomposition, Estimate, decompose_responses
from pragworld_tasks.sensitivity.open_questions import (
    OpenQuestion,
    PromptRecord,
    fill_slot,
    questions,
)
from pragworld_tasks.sensitivity.paraphrases import read_paraphrases_of, shipped_paraphrases
from pragworld_tasks.sensitivity.samples import SampledPrompt, nest_prompts, read_prompt

if TYPE_CHECKING:
    from datasets import Dataset

WORLD_MODEL_METRICS = (
    *("ps", "as", "mu", "mvs"),
    *("ps_unbiased", "as_unbiased", "mu_unbiased"),
    *("variance", "unreadable"),
)
SMALL = 10  # paraphrases in world_model_small


def question_records(world_model_question: str, **metadata: Any) -> list[dict[str, Any]]:
    """Return the prompts of one of the fifteen questions, in a file of `paraphrases` or in ours."""
    question, file = questions()[world_model_question], metadata.get("paraphrases")
    own = file and read_paraphrases_of(question.prompt, Path(file))
    return prompt_records(question, own or shipped_paraphrases(question.name))


class OwnQuestion(BaseModel, frozen=True, extra="ignore", coerce_numbers_to_str=True):
    """A user's own question, in `--metadata`.

    Attributes:
        paraphrases: A file of paraphrases, after which the question is named.
        values: Words or numbers for the slot.
        unit: The unit of the answers, such as `hour` or `dollar / month`.
    """

    paraphrases: Path
    values: list[str] = Field(min_length=1)
    unit: str


def own_question_records(**metadata: Any) -> list[dict[str, Any]]:
    """Return the prompts of a user's own question, an `OwnQuestion`."""
    from pragworld_tasks.quantities.units import parse_unit

    try:
        own = OwnQuestion.model_validate(metadata)
    except ValidationError as error:
        raise InputError(
            f"world_model_own: {first_problem(error)}; pass --metadata "
            '\'{"paraphrases": "mine.jsonl", "values": ["A", "B"], "unit": "hour"}\''
        ) from error
    if len(set(own.values)) < len(own.values):
        raise InputError(f"world_model_own: values: {own.values} must differ from each other")
    parse_unit(own.unit)
    wordings = read_paraphrases_of(None, own.paraphrases)
    question = OpenQuestion(own.paraphrases.stem, wordings[0], tuple(own.values), own.unit)
    return prompt_records(question, wordings)


def prompt_records(question: OpenQuestion, wordings: Sequence[str]) -> list[dict[str, Any]]:
    """Return a record for each prompt: all intents of one paraphrase, then all of the next."""
    return [
        PromptRecord(
            question=question.name,
            unit=question.unit,
            intent=intent,
            value=value,
            paraphrase=paraphrase,
            prompt=fill_slot(wording, value),
        ).model_dump()
        for paraphrase, wording in enumerate(wordings)
        for intent, value in enumerate(question.values)
    ]


def first_paraphrases(documents: "Dataset") -> "Dataset":
    """Return the prompts in the first `SMALL` paraphrases."""
    paraphrases = enumerate(documents["paraphrase"])
    return documents.select([row for row, paraphrase in paraphrases if paraphrase < SMALL])


def all_responses(responses: Iterable[list[str]], _: Any) -> Iterable[list[str]]:
    """Keep every response, as a filter; lm-eval's default keeps the first of the fifty."""
    return responses


def score_quantities(record: Mapping[str, Any], results: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return a prompt's items by metric; each names its metric, as lm-eval passes only items."""
    if isinstance(results[0], str):
        raise InputError(
            f"world_model: one response of {record['question']}, not a list of all to a prompt; "
            "keep the filter all_responses in the task's file"
        )
    item = read_prompt(PromptRecord.model_validate(record), [*map(content_text, results[0])])
    return {f"{name}{end}": (name, item) for name in WORLD_MODEL_METRICS for end in ("", "_stderr")}


@functools.lru_cache(maxsize=1)  # shared by all metrics of a task
def _decomposition(items: tuple[SampledPrompt, ...]) -> Decomposition:
    if all(item.copied for item in items):
        warning_once(
            logger,
            "all responses to a prompt are identical, so MU is not measured: sampling is off "
            "(--gen_kwargs, or the server's default), or the server repeats a cached response",
        )
    return decompose_responses(nest_prompts(items), permutations=0)


def estimate(items: Sequence[tuple[str, SampledPrompt]]) -> float | NotAvailable:
    """Return a metric; N/A if undefined."""
    return shown_value(_estimate(items).value)


def estimate_stderr(items: Sequence[tuple[str, SampledPrompt]]) -> float | NotAvailable:
    """Return the standard error of `estimate`; N/A if there is none."""
    return shown_value(_estimate(items).standard_error)


def _estimate(items: Sequence[tuple[str, SampledPrompt]]) -> Estimate:
    (name, *_), prompts = zip(*items, strict=True)
    if name == "unreadable":  # paraphrases are independent
        flat = [(value is None, prompt.paraphrase) for prompt in prompts for value in prompt.values]
        missing, paraphrases = zip(*flat, strict=True)
        share = tally(missing, np.ones(len(missing)), paraphrases)
        return Estimate(value=share.share, standard_error=share.standard_error)
    estimator = "unbiased" if name.endswith("_unbiased") else "published"
    return _decomposition(prompts).by(estimator)[name.removesuffix("_unbiased")]
