"""Reading the JSON file that `pragworld-tasks decompose --json` writes, and checking its sums."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json
from pragworld_tasks.sensitivity.components import Scale
from pragworld_tasks.sensitivity.open_questions import domain_of
from pragworld_tasks.sensitivity.report import PARTS_OF_VARIANCE, SHARES

_TOLERANCE = 1e-6
_ESTIMATORS = ("published", "unbiased")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class EstimateRecord(_Part):
    """An estimate, its 95 % interval and standard error; None where undefined."""

    value: float | None
    low: float | None
    high: float | None
    standard_error: float | None = Field(ge=0)


class TaskDecomposition(_Part):
    """One model on one question, with the fields of `TaskReport.to_json`."""

    model: str
    question: str
    unit: str
    intents: int = Field(ge=0)
    prompts: int = Field(ge=0)
    responses: int = Field(ge=0)
    unreadable: int = Field(ge=0)
    published: dict[str, EstimateRecord]
    unbiased: dict[str, EstimateRecord]
    floor: float | None = Field(ge=0)
    as_p: float | None = Field(ge=0, le=1)
    undefined: dict[str, str]
    notes: list[str]
    agreement: dict[str, Any] | None


class DomainDecomposition(_Part):
    """The means of one model over the questions of a domain, as in `DomainReport.to_json`."""

    model: str
    domain: str
    questions: int
    published: dict[str, EstimateRecord]
    unbiased: dict[str, EstimateRecord]
    left_out: dict[str, dict[str, list[str]]]


class DecompositionFile(_Part):
    """What `pragworld-tasks decompose --json` writes."""

    format: Literal["pragworld-decomposition"] = Field(alias="schema")
    version: Literal[1]
    scale: Scale
    intervals: str
    tasks: list[TaskDecomposition]
    domains: list[DomainDecomposition]

    def questions(self, means: DomainDecomposition) -> list[TaskDecomposition]:
        """Return the model's questions of the domain that the means are over."""
        return [
            task
            for task in self.tasks
            if (task.model, domain_of(task.question) or "own") == (means.model, means.domain)
        ]


def read_decomposition(path: Path) -> DecompositionFile:
    """Read the file that `pragworld-tasks decompose --json` wrote.

    Its responses are not in it, so that estimates cannot be computed again; what must follow from
    them is checked: PS, AS and MU add up to 1, and means are those of their questions.

    Raises:
        InputError: The file cannot be read, is of another version, or contradicts itself.
    """
    try:
        content = DecompositionFile.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(
            f"{path}: not a decomposition of version 1: {place}: {first['msg']}; give a file that "
            "`pragworld-tasks decompose --json` wrote"
        ) from error
    for problem in _contradictions(content):
        raise InputError(f"{path}: {problem}; write the file again")
    return content


def _contradictions(content: DecompositionFile) -> Sequence[str]:
    problems = []
    for task in content.tasks:
        place = f"{task.model} on {task.question}"
        if task.unreadable > task.responses:
            problems.append(f"{place}: {task.unreadable} of {task.responses} responses unreadable")
        problems += _wrong_shares(place, task)
    for domain in content.domains:
        place = f"{domain.model}, means of {domain.domain}"
        problems += _wrong_shares(place, domain) + _wrong_means(
            place, domain, content.questions(domain)
        )
    return problems


def _wrong_shares(place: str, estimates: TaskDecomposition | DomainDecomposition) -> list[str]:
    problems = []
    for estimator in _ESTIMATORS:
        by_name: dict[str, EstimateRecord] = getattr(estimates, estimator)
        if missing := set(SHARES) - set(by_name):
            problems.append(f"{place}, {estimator}: {min(missing)} is missing")
            continue
        for name in SHARES:
            share = by_name[name]
            ends = [end for end in (share.low, share.high) if end is not None]
            inside = estimator == "unbiased" or all(
                -_TOLERANCE <= value <= 1 + _TOLERANCE
                for value in (share.value, *ends)
                if value is not None
            )
            if not inside or ends != sorted(ends):
                problems.append(
                    f"{place}, {estimator}: {name} is {share.value} [{share.low}, {share.high}], "
                    "not a share with its interval"
                )
        parts = [by_name[name].value for name in PARTS_OF_VARIANCE]
        defined = [part for part in parts if part is not None]
        if defined and (len(defined) < len(parts) or abs(math.fsum(defined) - 1) > _TOLERANCE):
            shown = ", ".join(f"{name} {by_name[name].value}" for name in PARTS_OF_VARIANCE)
            problems.append(f"{place}, {estimator}: {shown} do not add up to 1")
    return problems


def _wrong_means(
    place: str, domain: DomainDecomposition, own: Sequence[TaskDecomposition]
) -> list[str]:
    if len(own) != domain.questions:
        return [f"{place}: {domain.questions} questions, but the file has {len(own)}"]
    problems = []
    for estimator in _ESTIMATORS:
        means: dict[str, EstimateRecord] = getattr(domain, estimator)
        for name in SHARES:
            left_out = domain.left_out.get(estimator, {}).get(name, [])
            needed = PARTS_OF_VARIANCE if name in PARTS_OF_VARIANCE else (name,)
            undefined = [
                task.question
                for task in own
                if any(getattr(task, estimator)[part].value is None for part in needed)
            ]
            if left_out != undefined:
                problems.append(
                    f"{place}: {name} ({estimator}) leaves out other questions than those in which "
                    "it is undefined"
                )
            values = [
                getattr(task, estimator)[name].value
                for task in own
                if task.question not in left_out
            ]
            mean = means[name].value
            if not values and mean is None:
                continue
            if (
                mean is None
                or None in values
                or not math.isclose(mean, math.fsum(values) / len(values), abs_tol=_TOLERANCE)
            ):
                problems.append(f"{place}: {name} ({estimator}) is not the mean of its questions")
    return problems
