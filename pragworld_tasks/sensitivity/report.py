"""The report of `pragworld-tasks decompose`: decompositions by question and domain.

Its JSON file is the report, written and read by the same types. Means over the questions of a
domain are in the file, but computed anew on reading.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, computed_field

from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.evaluation.metrics import LEVEL
from pragworld_tasks.files import read_json
from pragworld_tasks.sensitivity.components import NAMES, Scale, rescale
from pragworld_tasks.sensitivity.decomposition import (
    REDRAWS,
    UNDEFINED,
    Decomposition,
    Estimate,
    Shares,
    decompose_responses,
)
from pragworld_tasks.sensitivity.open_questions import QUESTION_DOMAINS, domain_of, questions
from pragworld_tasks.sensitivity.samples import ModelSamples
from pragworld_tasks.text import format_number, markdown_table

SHARE_NAMES = NAMES[1:]
PARTS_OF_VARIANCE = SHARE_NAMES[:3]  # they add up to 1
_ESTIMATORS = {  # with what is resampled
    "published": ("plug-in estimator (as published)", "responses"),
    "unbiased": ("unbiased estimator", "paraphrases"),
}


class ReaderAgreement(BaseModel, frozen=True):
    """How far an LLM, `extractor`, and our rules read the same values in the same responses.

    Attributes:
        same: Responses in which both read the same value to one percent, or none.
        only_extractor, only_rules: Responses in which only one of the two reads a value.
    """

    extractor: str
    responses: int
    same: int
    only_extractor: int
    only_rules: int

    @classmethod
    def of(
        cls, extractor: str, extracted: Sequence[float | None], by_rules: Sequence[float | None]
    ) -> "ReaderAgreement":
        """Compare the values that an LLM and our rules read."""
        pairs = list(zip(extracted, by_rules, strict=True))
        both = [(one, other) for one, other in pairs if one is not None and other is not None]
        only_extractor = sum(other is None is not value for value, other in pairs)
        only_rules = sum(value is None is not other for value, other in pairs)
        neither = len(pairs) - len(both) - only_extractor - only_rules
        return cls(
            extractor=extractor,
            responses=len(pairs),
            same=neither + sum(math.isclose(*values, rel_tol=0.01) for values in both),
            only_extractor=only_extractor,
            only_rules=only_rules,
        )

    def __str__(self) -> str:
        return (
            f"{self.extractor} and the rules agree on {self.same / self.responses:.1%} of "
            f"{self.responses} responses; only the former reads a value in {self.only_extractor}, "
            f"only the latter in {self.only_rules}"
        )


class TaskReport(Decomposition, frozen=True):
    """One model on one question.

    Attributes:
        responses: The number of all responses; `unreadable` of them have no value.
        notes: What a reader of the numbers must know.
        agreement: If an LLM read the values: its agreement with our rules.
    """

    model: str
    question: str
    unit: str
    unreadable: int
    notes: list[str]
    agreement: ReaderAgreement | None

    @property
    def domain(self) -> str:
        """The domain of the question."""
        return domain_of(self.question)

    def has(self, estimator: str, names: Sequence[str]) -> bool:
        """Return whether estimates are defined."""
        return not any(math.isnan(self.by(estimator)[name].value) for name in names)


class DomainReport(Shares, frozen=True):
    """One model on the questions of a domain: means over questions of equal weight.

    Each mean is over the questions in which it is defined. PS, AS and MU are means over the same
    questions, so they add up to 1. The floor is over the questions of the published AS.

    Attributes:
        domain: The domain; `own` for own questions.
        questions: The number of questions.
        left_out: By estimator and name, the questions that are not in a mean; names without any
            are absent.
    """

    model: str
    domain: str
    questions: int
    left_out: dict[str, dict[str, tuple[str, ...]]]

    def notes(self) -> Iterator[str]:
        """Yield which questions are not in which means."""
        for estimator, by_name in self.left_out.items():
            for out in dict.fromkeys(by_name.values()):
                names = [name for name in by_name if by_name[name] == out]
                yield (
                    f"{', '.join(names)} ({estimator}) without {', '.join(out)}, where "
                    f"{'it is' if len(names) == 1 else 'they are'} undefined"
                )


class SensitivityReport(BaseModel):
    """The decompositions of any models' responses to any questions, in the order of models."""

    format: Literal["pragworld-decomposition"] = Field(alias="schema")
    version: Literal[1] = 1
    scale: Scale
    intervals: str = f"{LEVEL:.0%}, bootstrap percentiles, moved to the estimate"
    tasks: list[TaskReport]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def domains(self) -> list[DomainReport]:
        """The means by model and domain."""
        both = itertools.product(self.models, (*QUESTION_DOMAINS, "own"))
        return [_domain_report(tasks) for key in both if (tasks := self.tasks_of(*key))]

    @property
    def models(self) -> list[str]:
        """The names of the models, in order."""
        return list(dict.fromkeys(task.model for task in self.tasks))

    def tasks_of(self, model: str, domain: str) -> list[TaskReport]:
        """Return a model's questions of a domain."""
        return [task for task in self.tasks if (task.model, task.domain) == (model, domain)]

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values; null for what is undefined."""
        return self.model_dump(mode="json", by_alias=True)

    def to_text(self) -> str:
        """Return Markdown tables of each model by either estimator, and the notes."""
        parts = [f"{model}\n\n{_model_text(self, model)}" for model in self.models]
        for task in self.tasks:
            parts += [f"{task.model} on {task.question}: {note}" for note in task.notes]
        for domain in self.domains:
            means = f"{domain.model}, means of {domain.domain}"
            parts += [f"{means}: {note}" for note in domain.notes()]
        return "\n".join(parts)


# From samples and from files ----------------------------------------------------------------------


def decompose_samples(
    samples: Sequence[ModelSamples],
    scale: Scale = "raw",
    draws: int = REDRAWS,
    seed: int = 0,
    agreements: Mapping[Path, ReaderAgreement] | None = None,
) -> SensitivityReport:
    """Decompose the responses of any models to any questions, one file for each of both.

    Where tails are heavy, use another `scale` of the values; see `components.rescale`. By file,
    `agreements` are those of samples that an LLM has read.

    Raises:
        InputError: There are no samples.
    """
    if not samples:
        raise InputError("there are no samples to decompose; give at least one file")
    order, models = list(questions()), list(dict.fromkeys(one.model for one in samples))

    def place(one: ModelSamples) -> tuple[int, int]:
        known = order.index(one.question) if one.question in order else len(order)
        return models.index(one.model), known

    tasks = []
    for of_model in sorted(samples, key=place):
        found = decompose_responses(rescale(of_model.nested(), scale), draws, seed=seed)
        agreement = (agreements or {}).get(of_model.path)
        fields = vars(found) | {
            "model": of_model.model,
            "question": of_model.question,
            "unit": of_model.unit,
            "responses": len(of_model.values),
            "unreadable": of_model.values.count(None),
            "notes": [*([str(agreement)] if agreement else ()), *_notes(of_model, found)],
            "agreement": agreement,
        }
        tasks.append(TaskReport(**fields))
    return SensitivityReport(schema="pragworld-decomposition", scale=scale, tasks=tasks)


def read_decompositions(paths: Sequence[Path]) -> list[SensitivityReport]:
    """Read files that `pragworld-tasks decompose --json` wrote, and join those of a scale.

    Raises:
        InputError: A file cannot be read or is of another version, or a model and a question are in
            two of them.
    """
    reports: dict[Scale, SensitivityReport] = {}
    first: dict[tuple[Scale, str, str], Path] = {}
    for path in paths:
        try:
            read = SensitivityReport.model_validate(read_json(path))
        except ValidationError as error:
            raise InputError(
                f"{path}: not a decomposition of version 1: {first_problem(error)}; give a file "
                "that `pragworld-tasks decompose --json` wrote"
            ) from error
        for task in read.tasks:
            key = (read.scale, task.model, task.question)
            if key in first:
                raise InputError(
                    f"{path}: {task.model} on {task.question} is also in {first[key]}; give one of "
                    "them"
                )
            first[key] = path
        joined = reports.setdefault(read.scale, read.model_copy(update={"tasks": []}))
        joined.tasks.extend(read.tasks)
    return list(reports.values())


def _notes(samples: ModelSamples, found: Decomposition) -> Iterator[str]:
    for reason in dict.fromkeys(found.undefined.values()):
        names = [name for name in found.undefined if found.undefined[name] == reason]
        yield f"{', '.join(names)} undefined: {reason}"
    for estimator in _ESTIMATORS:
        missing = [name for name in SHARE_NAMES if math.isnan(found.by(estimator)[name].value)]
        if by_chance := [name for name in missing if name not in found.undefined]:
            reason = "the parts of the variance add up to 0 or less"
            if by_chance == ["mvs"]:
                reason = "neither PS nor AS is above 0"
            yield f"{', '.join(by_chance)} ({estimator}) undefined: {reason}"
    prompts = samples.prompts
    if without := sum(all(value is None for value in prompt.values) for prompt in prompts):
        yield f"{without} of {len(prompts)} prompts have no readable response"
    distinct = [len(set(prompt.responses)) for prompt in prompts]
    if set(distinct) == {1} and len(samples.responses) > len(prompts):
        yield (
            "all responses to a prompt are identical: sampling was off, or the server repeats a "
            "cached response"
        )


# Means --------------------------------------------------------------------------------------------


def _domain_report(tasks: Sequence[TaskReport]) -> DomainReport:
    """Return the means of one model over the questions of one domain."""
    means: dict[str, dict[str, Estimate]] = {"published": {}, "unbiased": {}}
    left_out: dict[str, dict[str, tuple[str, ...]]] = {"published": {}, "unbiased": {}}
    floor = math.nan
    for estimator, name in itertools.product(_ESTIMATORS, SHARE_NAMES):
        needed = PARTS_OF_VARIANCE if name in PARTS_OF_VARIANCE else (name,)
        counted = [task for task in tasks if task.has(estimator, needed)]
        means[estimator][name] = _mean(
            [task.by(estimator)[name] for task in counted],
            bounded=estimator == "published" or name == "mvs",
        )
        if len(counted) < len(tasks):
            left_out[estimator][name] = tuple(
                task.question for task in tasks if not task.has(estimator, needed)
            )
        if (estimator, name) == ("published", "as") and counted:
            floor = math.fsum(task.floor for task in counted) / len(counted)
    of_domain = {"model": tasks[0].model, "domain": tasks[0].domain, "questions": len(tasks)}
    return DomainReport.model_validate(of_domain | means | {"left_out": left_out, "floor": floor})


def _mean(of_tasks: Sequence[Estimate], bounded: bool) -> Estimate:
    """Return the mean over tasks, with the interval of normal and independent errors.

    If the estimate always lies from 0 to 1, it is `bounded`, and the interval is cut there.
    """
    from scipy.special import ndtri

    if not of_tasks:
        return UNDEFINED
    value = math.fsum(estimate.value for estimate in of_tasks) / len(of_tasks)
    error = math.hypot(*(estimate.standard_error for estimate in of_tasks)) / len(of_tasks)
    half = float(ndtri((1 + LEVEL) / 2)) * error
    low, high = value - half, value + half
    if bounded:
        low, high = max(low, 0.0), min(high, 1.0)
    return Estimate(value=value, low=low, high=high, standard_error=error)


# Text ---------------------------------------------------------------------------------------------


def _model_text(report: SensitivityReport, model: str) -> str:
    tasks = [task for task in report.tasks if task.model == model]
    domains = [domain for domain in report.domains if domain.model == model]
    on_scale = "" if report.scale == "raw" else f", {report.scale} values"
    shares = [name.upper() for name in SHARE_NAMES]
    tables = []
    for estimator, (title, resampled) in _ESTIMATORS.items():
        rows = []
        for task in tasks:
            estimates = task.by(estimator)
            variance = format_number(estimates["variance"].value, ".3g")
            rows.append([task.question, variance, *(share_text(estimates[n]) for n in SHARE_NAMES)])
        title = f"{title}; intervals: {resampled} resampled{on_scale}"
        tables.append(markdown_table(title, ["question", "variance", *shares], rows))
    rows = [
        [
            *(task.question, str(task.responses), str(task.unreadable)),
            *(format_number(task.floor), format_number(task.as_p)),
        ]
        for task in tasks
    ]
    title = "effect of wording: AS expected from chance alone, permutation test of AS = 0"
    headers = ["question", "responses", "unreadable", "floor of AS", "p"]
    wording = markdown_table(title, headers, rows)
    columns = [*itertools.product(_ESTIMATORS, SHARE_NAMES)]
    rows = [
        [domain.domain, str(domain.questions), *(_mean_text(domain, *one) for one in columns)]
        for domain in domains
    ]
    headers = ["domain", "questions", *shares, *(f"{name}, unbiased" for name in shares)]
    by_domain = markdown_table("means by domain, with standard errors" + on_scale, headers, rows)
    return "\n".join([*tables, wording, by_domain])


def share_text(estimate: Estimate) -> str:
    """Return an estimate with its interval, or a dash where it is undefined."""
    if math.isnan(estimate.value):
        return "-"
    unsure = math.isnan(estimate.standard_error)
    ends = "-" if unsure else ", ".join(map(format_number, estimate.interval))
    return f"{format_number(estimate.value)} [{ends}]"


def _mean_text(domain: DomainReport, estimator: str, name: str) -> str:
    """Return a mean with its standard error and, if not all questions are in it, their number."""
    estimate = domain.by(estimator)[name]
    if math.isnan(estimate.value):
        return "-"
    text = f"{format_number(estimate.value)} ± {format_number(estimate.standard_error)}"
    if left_out := domain.left_out[estimator].get(name):
        text += f" ({domain.questions - len(left_out)} of {domain.questions})"
    return text
