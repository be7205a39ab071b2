"""The world_model tasks of lm-eval: data sets, items and aggregations.

A document is a prompt: a paraphrase of a question (the wording) with a value in its slot (the
intent). lm-eval repeats each request and passes all of its responses at once, since our filter
keeps them all. Their values are in the items of the metrics, which the aggregations decompose.
"""

import difflib
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from lm_eval.utils import warning_once

from pragworld_tasks.errors import InputError, logger, warn_of_misspelt
from pragworld_tasks.evaluation.metrics import Tally, tally
from pragworld_tasks.evaluation.task_metrics import NotAvailable, shown_value
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.sensitivity.components import nest_prompts
from pragworld_tasks.sensitivity.decomposition import Decomposition, Estimate, decompose_responses
from pragworld_tasks.sensitivity.open_questions import OpenQuestion, fill_slot, questions
from pragworld_tasks.sensitivity.paraphrases import (
    read_paraphrases,
    read_paraphrases_of,
    shipped_paraphrases,
)

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
    """Return the prompts of one of the fifteen questions.

    Args:
        name: The question's name.
        metadata: `--metadata` and what else lm-eval passes along. `paraphrases` names a file to use
            instead of the paraphrases that are part of this package.

    Raises:
        InputError: The file cannot be used.
    """
    warn_of_misspelt(metadata, ["paraphrases"])
    question = questions()[name]
    file = metadata.get("paraphrases")
    if file:
        wordings = read_paraphrases_of(question.prompt, _path(file))
    else:
        wordings = shipped_paraphrases(question.name)
    return prompt_records(question, [wording.text for wording in wordings])


def own_question_records(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the prompts of a user's own question.

    Args:
        metadata: `--metadata`: `paraphrases`, a file, after which the question is named; `values`,
            a list for the slot; `unit`, such as `hour` or `dollar / month`.

    Raises:
        InputError: One of them is missing or cannot be used.
    """
    examples = {"paraphrases": "mine.jsonl", "values": ["A", "B"], "unit": "hour"}
    warn_of_misspelt(metadata, examples)
    for name, example in examples.items():
        if not metadata.get(name):
            raise InputError(
                f"world_model_own: needs {name!r}; add it, as in --metadata "
                f"'{json.dumps({name: example})}'"
            )
    path, values, unit = _path(metadata["paraphrases"]), metadata["values"], metadata["unit"]
    if not isinstance(values, list) or not all(
        isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip()
        for value in values
    ):
        raise InputError(
            f"world_model_own: 'values' is {values!r}; it must be a list of words or numbers"
        )
    slot_values = tuple(map(str, values))
    if len(set(slot_values)) < len(slot_values):
        raise InputError(f"world_model_own: 'values' is {values!r}; its values must differ")
    if not isinstance(unit, str):
        raise InputError(
            f"world_model_own: 'unit' is {unit!r}; it must be a word, such as \"hour\""
        )
    _warn_of_misspelt_unit(unit)
    base = read_paraphrases(path)[0].text
    texts = [wording.text for wording in read_paraphrases_of(base, path)]
    return prompt_records(OpenQuestion(path.stem, base, slot_values, unit), texts)


def _warn_of_misspelt_unit(unit: str) -> None:
    """Warn, once in a process, of a noun that is spelt almost like a unit.

    Raises:
        InputError: It is no unit, and no noun either.
    """
    from pragworld_tasks.quantities.units import parse_period, parse_unit

    target = parse_unit(unit)
    nouns = [target.unit] if target.kind == "count" else []
    if target.per and not parse_period(target.per):
        nouns.append(target.per)
    for noun in nouns:
        if similar := _similar_unit(noun):
            warning_once(
                logger,
                f"world_model_own: 'unit' has {noun!r}, which is no unit, so it is taken "
                f"for things to count; did you mean {similar!r}?",
            )


def _similar_unit(noun: str) -> str | None:
    """Return the unit of which a noun is a misspelling, or None.

    Letters in another order are one (`huor`), and so are other letters in a longer word with the
    same first one (`houres`); `tour`, `mouth`, `client` and `smile` are nouns.
    """
    spellings = read_package_toml("pragworld_tasks.quantities", "units.toml")["spellings"]
    singular = noun.removesuffix("s")
    for unit in difflib.get_close_matches(singular, spellings, cutoff=0.75):
        closeness = difflib.SequenceMatcher(None, unit, singular).ratio()
        has_other_letters = closeness > 0.82 and len(singular) >= 5 and noun[0] == unit[0]
        if sorted(singular) == sorted(unit) or has_other_letters:
            return str(unit)
    return None


def _path(file: Any) -> Path:
    if not isinstance(file, str):
        raise InputError(f"'paraphrases' is {file!r}; it must be the name of a file")
    return Path(file)


def prompt_records(question: OpenQuestion, wordings: Sequence[str]) -> list[dict[str, Any]]:
    """Return a record for each prompt: all intents of one paraphrase, then all of the next.

    In this order the first few records (`--limit`) hold several of both.
    """
    return [
        {
            "question": question.name,
            "unit": question.unit,
            "intent": intent,
            "value": value,
            "paraphrase": paraphrase,
            "prompt": fill_slot(wording, question.slot, value),
        }
        for paraphrase, wording in enumerate(wordings)
        for intent, value in enumerate(question.values)
    ]


def first_paraphrases(documents: "Dataset") -> "Dataset":
    """Return the prompts in the first `SMALL` paraphrases."""
    paraphrases = enumerate(documents["paraphrase"])
    return documents.select([row for row, paraphrase in paraphrases if paraphrase < SMALL])


# Items --------------------------------------------------------------------------------------------


class PromptItem(NamedTuple):
    """What every metric needs to know about a prompt.

    Attributes:
        intent, paraphrase: Numbers from 0.
        values: The value of each response, in the question's unit; None if there is none to read.
        texts: The number of different responses.
    """

    intent: int
    paraphrase: int
    values: tuple[float | None, ...]
    texts: int


def all_responses(responses: Iterable[list[str]], _: Any) -> Iterable[list[str]]:
    """Keep every response, as a filter; lm-eval's default keeps the first of the fifty."""
    return responses


def score_responses(
    record: Mapping[str, Any], results: Sequence[Sequence[str | None]]
) -> dict[str, Any]:
    """Return a prompt's items by metric, from all its responses.

    lm-eval passes an aggregation nothing but items, so each item names its metric.
    """
    from pragworld_tasks.quantities import read_quantity

    responses = [response or "" for response in results[0]]  # an API may refuse and send nothing
    values = tuple(
        read_quantity(response, record["unit"], record["prompt"]) for response in responses
    )
    item = PromptItem(record["intent"], record["paraphrase"], values, len(set(responses)))
    return {f"{name}{end}": (name, item) for name in METRICS for end in ("", "_stderr")}


# Aggregations -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)  # shared by all metrics of a task
def _decomposition(items: tuple[PromptItem, ...]) -> Decomposition:
    copied = sum(len(item.values) > 1 and item.texts == 1 for item in items)
    if copied == sum(len(item.values) > 1 for item in items) > 0:
        warning_once(
            logger,
            f"all responses to a prompt are identical, for each of {copied} prompts, so MU is not "
            "measured: sampling is off (--gen_kwargs), or the server repeats a cached response",
        )
    nested = nest_prompts((item.intent, item.paraphrase, item.values) for item in items)
    return decompose_responses(nested, permutations=0)


def estimate(items: Sequence[tuple[str, PromptItem]]) -> float | NotAvailable:
    """Return one of `METRICS`, by the estimator that its name ends in; N/A if undefined."""
    return shown_value(_estimate(items).value)


def estimate_stderr(items: Sequence[tuple[str, PromptItem]]) -> float | NotAvailable:
    """Return the standard error of `estimate`; N/A if there is none."""
    return shown_value(_estimate(items).standard_error)


def _estimate(items: Sequence[tuple[str, PromptItem]]) -> Estimate:
    names, prompts = zip(*items, strict=True)
    name, decomposition = names[0], _decomposition(prompts)
    if name.endswith("_unbiased"):
        return decomposition.unbiased[name.removesuffix("_unbiased")]
    return decomposition.published[name]


def unreadable(items: Sequence[tuple[str, PromptItem]]) -> float:
    """Return the share of responses without a value."""
    return _unreadable(items).share


def unreadable_stderr(items: Sequence[tuple[str, PromptItem]]) -> float | NotAvailable:
    """Return the standard error of `unreadable`, for independent paraphrases; N/A if none."""
    return shown_value(_unreadable(items).standard_error)


def _unreadable(items: Sequence[tuple[str, PromptItem]]) -> Tally:
    flat = [(value is None, item.paraphrase) for _, item in items for value in item.values]
    missing, paraphrase = zip(*flat, strict=True)
    return tally(missing, np.ones(len(missing)), paraphrase)
