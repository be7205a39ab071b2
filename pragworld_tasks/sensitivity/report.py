"""The report of `pragworld-tasks decompose`: decompositions by question and domain.

Its JSON file is the report, written and read by the same types. Means over the questions of a
domain are in the file, but computed anew on reading.
"""

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, computed_field

from pragworld_tasks.errors import InputError, Printable, first_problem
from pragworld_tasks.evaluation.statistics import LEVEL
from pragworld_tasks.files import read_json
from pragworld_tasks.sensitivity.components import NAMES, Scale, rescale
from pragworld_tasks.sensitivity.decomposition import (
    REDRAWS,
    Decomposition,
    Estimate,
    Shares,
    decompose_responses,
)
from pragworld_tasks.sensitivity.open_questions import QUESTION_DOMAINS, domain_of
from pragworld_tasks.sensitivity.samples import ModelSamples, nest_prompts
from pragworld_tasks.text import format_number, markdown_table

SHARE_NAMES = NAMES[1:]
_PARTS = SHARE_NAMES[:3]  # they add up to 1
_TITLES = {
    "published": "as published (plug-in estimator); intervals from resampled responses",
    "unbiased": "unbiased estimator; intervals from resampled paraphrases",
}


class TaskReport(Decomposition, frozen=True):
    """One model on one question.

    Attributes:
        responses: The number of all responses; `unreadable` of them have no value.
        notes: What a reader of the numbers must know.
    """

    model: Printable
    question: str
    unit: str
    unreadable: int
    notes: list[str]


class DomainReport(Shares, frozen=True):
    """One model on the questions of a domain: means over questions of equal weight.

    Each mean is over the questions in which it is defined. PS, AS and MU are means over the same
    questions, so they add up to 1. The floor is over the questions of the published AS.

    Attributes:
        domain: The domain; `own` for own questions.
        notes: Which questions are not in which means.
    """

    model: str
    domain: str
    questions: int
    notes: list[str]


class SensitivityReport(BaseModel):
    """The decompositions of any models' responses to any questions."""

    format: Literal["pragworld-decomposition"] = Field(alias="schema")
    version: Literal[1] = 1
    scale: Scale
    intervals: str = f"{LEVEL:.0%}, bootstrap percentiles, moved to the estimate"
    tasks: list[TaskReport]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def domains(self) -> list[DomainReport]:
        """The means by model and domain."""
        keys = itertools.product(self.models, (*QUESTION_DOMAINS, "own"))
        return [_domain_report(*key, tasks) for key in keys if (tasks := self.tasks_of(*key))]

    @property
    def models(self) -> list[str]:
        """The names of the models, in order."""
        return list(dict.fromkeys(task.model for task in self.tasks))

    def tasks_of(self, model: str, domain: str) -> list[TaskReport]:
        """Return a model's questions of a domain."""
        wanted = (model, domain)
        return [task for task in self.tasks if (task.model, domain_of(task.question)) == wanted]

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values; null for what is undefined."""
        return dict(json.loads(self.model_dump_json(by_alias=True)))

    def to_text(self) -> str:
        """Return Markdown tables of each model, and the notes."""
        parts = [_model_text(self, model) for model in self.models]
        for task in self.tasks:
            parts += [f"{task.model} on {task.question}: {note}" for note in task.notes]
        for domain in self.domains:
            parts += [f"{domain.model}, mean of {domain.domain}: {note}" for note in domain.notes]
        return "\n".join(parts)


# From samples and from files ----------------------------------------------------------------------


def decompose_samples(
    samples: Sequence[ModelSamples], scale: Scale = "raw", draws: int = REDRAWS, seed: int = 0
) -> SensitivityReport:
    """Decompose the responses of any models to any questions.

    Where tails are heavy, use another `scale` of the values; see `components.rescale`.
    """
    tasks = []
    for of_model in samples:
        responses = rescale(nest_prompts(of_model.prompts), scale)
        found = decompose_responses(responses, draws, seed=seed)
        about = {
            "model": of_model.model,
            "question": of_model.question,
            "unit": of_model.unit,
            "responses": len(of_model.values),
            "unreadable": of_model.values.count(None),
            "notes": list(_notes(of_model, found)),
        }
        tasks.append(TaskReport(**vars(found) | about))
    return SensitivityReport(schema="pragworld-decomposition", scale=scale, tasks=tasks)


def read_decompositions(paths: Sequence[Path]) -> list[SensitivityReport]:
    """Read files that `pragworld-tasks decompose --json` wrote, and join those of a scale."""
    reports: dict[Scale, SensitivityReport] = {}
    for path in paths:
        try:
            read = SensitivityReport.model_validate(read_json(path))
        except ValidationError as error:
            raise InputError(
                f"{path}: not a decomposition of version 1: {first_problem(error)}; give a file "
                "that `pragworld-tasks decompose --json` wrote"
            ) from error
        joined = reports.setdefault(read.scale, read.model_copy(update={"tasks": []}))
        known = {(task.model, task.question) for task in joined.tasks}
        for task in read.tasks:
            if (task.model, task.question) in known:
                raise InputError(
                    f"{path}: {task.model} on {task.question} is also in another file; give one of "
                    "them"
                )
        joined.tasks.extend(read.tasks)
    return list(reports.values())


def _notes(samples: ModelSamples, found: Decomposition) -> Iterator[str]:
    """Yield what the figures do not show, and which are undefined."""
    if without := sum(all(value is None for value in prompt.values) for prompt in samples.prompts):
        yield f"{without} of {len(samples.prompts)} prompts have no readable response"
    if all(prompt.copied for prompt in samples.prompts):
        yield (
            "all responses to a prompt are identical, so MU is not measured: sampling was off (in "
            "--gen_kwargs, or by the server's default), or the server repeats a cached response"
        )
    for reason in dict.fromkeys(found.undefined.values()):
        names = [name for name in found.undefined if found.undefined[name] == reason]
        yield f"{', '.join(names)} undefined: {reason}"


# Means --------------------------------------------------------------------------------------------


def _domain_report(model: str, domain: str, tasks: Sequence[TaskReport]) -> DomainReport:
    """Return the means of one model over the questions of one domain."""
    means: dict[str, dict[str, Estimate]] = {"published": {}, "unbiased": {}}
    left_out: dict[tuple[str, str], list[str]] = defaultdict(list)
    floor = math.nan
    for estimator, names in itertools.product(means, (_PARTS, ("mvs",))):
        counted = [
            task
            for task in tasks
            if not any(math.isnan(task.by(estimator)[name].value) for name in names)
        ]
        for name in names:
            means[estimator][name] = _mean(
                [task.by(estimator)[name] for task in counted],
                bounded=estimator == "published" or name == "mvs",
            )
        if counted and (estimator, names) == ("published", _PARTS):
            floor = fmean(task.floor for task in counted)
        out = ", ".join(task.question for task in tasks if task not in counted)
        left_out[estimator, out] += names
    notes = [
        f"{', '.join(names)} ({estimator}) without {out}"
        for (estimator, out), names in left_out.items()
        if out
    ]
    return DomainReport(
        model=model, domain=domain, questions=len(tasks), notes=notes, floor=floor, **means
    )


def _mean(of_tasks: Sequence[Estimate], bounded: bool) -> Estimate:
    """Return the mean over tasks, with the interval of normal and independent errors.

    If the estimate always lies from 0 to 1, it is `bounded`, and the interval is cut there.
    """
    from scipy.special import ndtri

    if not of_tasks:
        return Estimate()
    value = fmean(estimate.value for estimate in of_tasks)
    error = math.hypot(*(estimate.standard_error for estimate in of_tasks)) / len(of_tasks)
    half = float(ndtri((1 + LEVEL) / 2)) * error
    low, high = value - half, value + half
    if bounded:
        low, high = max(low, 0.0), min(high, 1.0)
    return Estimate(value=value, low=low, high=high, standard_error=error)


# Text ---------------------------------------------------------------------------------------------


def _model_text(report: SensitivityReport, model: str) -> str:
    """Return a model's tables: the responses, and the shares by either estimator."""
    tasks = [task for task in report.tasks if task.model == model]
    domains = [domain for domain in report.domains if domain.model == model]
    rows = [
        [
            task.question,
            *(str(task.responses), str(task.unreadable)),
            format_number(task.published["variance"].value, ".3g"),
            *(format_number(task.floor), format_number(task.as_p)),
        ]
        for task in tasks
    ]
    headers = ["question", "responses", "unreadable", "variance", "floor of AS", "p of AS = 0"]
    title = model if report.scale == "raw" else f"{model}, {report.scale} values"
    tables = [markdown_table(title, headers, rows)]
    for estimator, title in _TITLES.items():
        shares: list[tuple[str, Shares]] = [(task.question, task) for task in tasks]
        shares += [(f"mean of {domain.domain}", domain) for domain in domains]
        rows = [
            [name, *(share_text(one.by(estimator)[share]) for share in SHARE_NAMES)]
            for name, one in shares
        ]
        headers = ["question", *(name.upper() for name in SHARE_NAMES)]
        tables.append(markdown_table(title, headers, rows))
    return "\n".join(tables)


def share_text(estimate: Estimate) -> str:
    """Return an estimate with its interval, or a dash where it is undefined."""
    if math.isnan(estimate.value):
        return "-"
    value, low, high = map(format_number, (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"
