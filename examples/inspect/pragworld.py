"""PragWorld as a task of Inspect: the paper's prompts, our reader of answers, robust accuracy.

    inspect eval examples/inspect/pragworld.py --model openai/gpt-4o-mini
    inspect eval examples/inspect/pragworld.py -T split=entity_tracking --model hf/Qwen/Qwen2.5-0.5B

Needs inspect_ai and pragworld. All figures are those of `pragworld-tasks score` on the same
responses, with standard errors clustered by group.
"""

import math
from collections import Counter
from dataclasses import asdict, fields
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    Value,
    metric,
    scorer,
)
from inspect_ai.solver import TaskState, generate

from pragworld_tasks import Document, evaluation_prompt, label_prompt, load, read_answer
from pragworld_tasks.data.documents import Answer, Split, documents_digest
from pragworld_tasks.evaluation.metrics import shown_tallies, to_arrays
from pragworld_tasks.evaluation.statistics import Tally

_ANSWERS: dict[str | None, Answer | None] = {"yes": "yes", "no": "no", None: None}


@task
def pragworld(split: str = "manual") -> Task:
    """Return the task on a released split, with greedy decoding (paper, Table 9 and appendix C).

    Args:
        split: `manual`, `synthetic` or `entity_tracking`.
    """
    documents = load(split)
    sizes = Counter(document.group for document in documents)
    prompt = label_prompt if split == "entity_tracking" else evaluation_prompt
    samples = [
        Sample(
            id=document.row,
            input=prompt(document),
            target=document.answer,
            metadata={**asdict(document), "group_size": sizes[document.group]},
        )
        for document in documents
    ]
    return Task(
        dataset=MemoryDataset(samples, name=f"pragworld_{split}"),
        solver=generate(),
        scorer=yes_or_no(),
        config=GenerateConfig(temperature=0.0, max_tokens=200),
        metadata={"documents_digest": documents_digest(documents)},
    )


@metric
def figures() -> Metric:
    """Return the metrics of the split and their standard errors, clustered by group.

    Robust accuracy counts complete groups only. A metric that is not defined is left out, for
    example one that covers no document of a limited run.
    """

    def compute(scores: list[SampleScore]) -> Value:
        split = _document(scores[0]).split
        present = Counter(_document(score).group for score in scores)
        complete = [
            score
            for score in scores
            if present[_document(score).group] == _metadata(score)["group_size"]
        ]
        tallies = _tallies(scores, split)
        robust = _tallies(complete, split)
        tallies |= {name: robust[name] for name in robust if name.startswith("robust")}
        values = {name: tally.share for name, tally in tallies.items()}
        values |= {f"{name}_stderr": tally.standard_error for name, tally in tallies.items()}
        return {name: value for name, value in values.items() if not math.isnan(value)}

    return compute


@scorer(metrics=[figures()])
def yes_or_no() -> Scorer:
    """Return a scorer that reads a yes or no as a careful person does; unreadable is wrong."""

    async def score(state: TaskState, target: Target) -> Score:
        answer = read_answer(state.output.completion)
        value = CORRECT if answer == target.text else INCORRECT
        return Score(value=value, answer=answer, explanation=state.output.completion)

    return score


def _tallies(scores: list[SampleScore], split: Split) -> dict[str, Tally]:
    documents = [_document(score) for score in scores]
    return shown_tallies(
        to_arrays(documents, [_ANSWERS[score.score.answer] for score in scores]), split
    )


def _document(score: SampleScore) -> Document:
    metadata = _metadata(score)
    return Document(**{field.name: metadata[field.name] for field in fields(Document)})


def _metadata(score: SampleScore) -> dict[str, Any]:
    return score.sample_metadata or {}
