"""What the YAML of the world_model tasks names: documents, responses, aggregations.

A document is a prompt: a question with a value in its slot (the intent), in one wording (the
paraphrase). lm-eval repeats each request and hands all of its responses over at once, since our
filter keeps them all. Their values travel in the items of the metrics to the aggregations, which
`pragworld_tasks.sensitivity.resampling` does.
"""

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from lm_eval.utils import warning_once

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import Tally, tally
from pragworld_tasks.evaluation.task_metrics import shown_error
from pragworld_tasks.log import logger
from pragworld_tasks.sensitivity import paraphrases, resampling
from pragworld_tasks.sensitivity.decomposition import nest_prompts
from pragworld_tasks.sensitivity.questions import Question, questions, slot_of

if TYPE_CHECKING:
    from datasets import Dataset

METRICS = (
    *("ps", "as", "mu", "mvs"),
    *("ps_unbiased", "as_unbiased", "mu_unbiased"),
    *("variance", "unreadable"),
)
SMALL = 10  # paraphrases in world_model_small


# Data sets ----------------------------------------------------------------------------------------


def question_records(name: str, metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The prompts of one of the fifteen questions as the data set `test`.

    Args:
        name: of the question.
        metadata: what `--metadata` says, and whatever else lm-eval passes along. Read is
            `paraphrases`, a file to be taken in place of the paraphrases that come along.

    Raises:
        InputError: the file cannot be used.
    """
    question = questions()[name]
    file = metadata.get("paraphrases")
    if file:
        wordings = paraphrases.checked(_path(file), question.prompt, question.slot)
    else:
        wordings = paraphrases.shipped(question.name)
    return prompts(question, [wording.text for wording in wordings])


def own_question_records(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The prompts of a question of the user's own as the data set `test`.

    Args:
        metadata: what `--metadata` says: `paraphrases`, a file, whose name the question gets;
            `values`, a list for the slot; `unit` (as `hour` or `dollar / month`).

    Raises:
        InputError: one of them is missing or cannot be used.
    """
    for name, example in (("paraphrases", "mine.jsonl"), ("values", ["A", "B"]), ("unit", "hour")):
        if not metadata.get(name):
            raise InputError(
                f"world_model_own: no {name!r}; pass it along, as in --metadata "
                f"'{json.dumps({name: example})}'"
            )
    path, values, unit = _path(metadata["paraphrases"]), metadata["values"], metadata["unit"]
    if not isinstance(values, list) or not all(
        isinstance(one, str | int | float) for one in values
    ):
        raise InputError(
            f"world_model_own: 'values' is {values!r}; give a list of words or numbers"
        )
    shown = tuple(map(str, values))
    if len(set(shown)) < len(shown):
        raise InputError(f"world_model_own: 'values' is {values!r}; a value is there twice")
    if not isinstance(unit, str):
        raise InputError(f"world_model_own: 'unit' is {unit!r}; give a word, as \"hour\"")
    from pragworld_tasks.quantities import read_quantity

    read_quantity("", unit)  # which refuses what is no unit, before anything is asked
    texts = [wording.text for wording in paraphrases.read(path)]
    slot = slot_of(texts[0])
    paraphrases.checked(path, texts[0], slot)
    question = Question(path.stem, texts[0], shown, unit)
    return prompts(question, texts)


def _path(file: Any) -> Path:
    if not isinstance(file, str):
        raise InputError(f"'paraphrases' is {file!r}; give the name of a file")
    return Path(file)


def prompts(question: Question, wordings: Sequence[str]) -> list[dict[str, Any]]:
    """A record for each prompt; all intents of one paraphrase, then all of the next.

    In this order the first few records (`--limit`) hold several of both.
    """
    return [
        {
            "question": question.name,
            "unit": question.unit,
            "intent": intent,
            "value": value,
            "paraphrase": paraphrase,
            "prompt": wording.replace(question.slot, value),
        }
        for paraphrase, wording in enumerate(wordings)
        for intent, value in enumerate(question.values)
    ]


def first_paraphrases(documents: "Dataset") -> "Dataset":
    """The prompts in the first `SMALL` paraphrases."""
    few = [number for number, one in enumerate(documents["paraphrase"]) if one < SMALL]
    return documents.select(few)


# Results of one prompt ----------------------------------------------------------------------------


class Prompted(NamedTuple):
    """A prompt's item under each metric.

    Attributes:
        intent, paraphrase: numbers from 0.
        values: of its responses, in the question's unit; None where there is none to read.
        texts: how many different responses there are.
    """

    intent: int
    paraphrase: int
    values: tuple[float | None, ...]
    texts: int


def all_responses(responses: Iterable[list[str]], _: Any) -> Iterable[list[str]]:
    """The filter that keeps every response; lm-eval's default keeps the first of the fifty."""
    return responses


def score_responses(
    record: Mapping[str, Any], results: Sequence[Sequence[str | None]]
) -> dict[str, Any]:
    """A prompt's items by metric, from all its responses."""
    from pragworld_tasks.quantities import read_quantity

    responses = [response or "" for response in results[0]]  # an API may refuse and send nothing
    values = tuple(
        read_quantity(response, record["unit"], record["prompt"]) for response in responses
    )
    item = Prompted(record["intent"], record["paraphrase"], values, len(set(responses)))
    return {f"{name}{end}": item for name in METRICS for end in ("", "_stderr")}


# Aggregations -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)  # all metrics of a task ask for the same
def _decomposed(items: tuple[Prompted, ...]) -> resampling.Decomposition:
    copied = sum(len(item.values) > 1 and item.texts == 1 for item in items)
    if copied == sum(len(item.values) > 1 for item in items) > 0:
        warning_once(
            logger,
            f"all responses to a prompt are the same, for each of {copied} prompts, so they say "
            "nothing of chance: sampling is off (--gen_kwargs), or a server repeats itself",
        )
    nested = nest_prompts((item.intent, item.paraphrase, item.values) for item in items)
    return resampling.decompose(nested, permutations=0)


def estimate(estimator: str, name: str, items: Sequence[Prompted]) -> float:
    """One number of `published` or `unbiased`; NaN where it is not defined."""
    number: resampling.Number = getattr(_decomposed(tuple(items)), estimator)[name]
    return number.value


def estimate_stderr(estimator: str, name: str, items: Sequence[Prompted]) -> float | str:
    """Its standard error; where there is none, N/A."""
    number: resampling.Number = getattr(_decomposed(tuple(items)), estimator)[name]
    return shown_error(number.standard_error)


def unreadable(items: Sequence[Prompted]) -> float:
    """Share of responses in which there is no value."""
    return _unreadable(items).share


def unreadable_stderr(items: Sequence[Prompted]) -> float | str:
    """Standard error of `unreadable`, paraphrases being independent; where there is none, N/A."""
    return shown_error(_unreadable(items).standard_error)


def _unreadable(items: Sequence[Prompted]) -> Tally:
    flat = [(value is None, item.paraphrase) for item in items for value in item.values]
    missing, paraphrase = zip(*flat, strict=True)
    return tally(missing, np.ones(len(missing)), paraphrase)
