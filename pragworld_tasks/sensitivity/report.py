"""What responses vary with, task by task and domain by domain: tables and JSON."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pragworld_tasks.evaluation.metrics import LEVEL, Interval
from pragworld_tasks.evaluation.reports import defined, interval_json, table
from pragworld_tasks.sensitivity.decomposition import NAMES, Scale, rescale
from pragworld_tasks.sensitivity.questions import DOMAINS, domain_of, questions
from pragworld_tasks.sensitivity.resampling import (
    NOTHING,
    RESAMPLES,
    Decomposition,
    Number,
    decompose,
)
from pragworld_tasks.sensitivity.samples import Sampled

SCHEMA = {"schema": "pragworld-decomposition", "version": 1}
SHARES = NAMES[1:]
_ESTIMATORS = {
    "published": "plug-in estimator (as published); intervals: responses redrawn",
    "unbiased": "unbiased estimator; intervals: paraphrases redrawn",
}


@dataclass(frozen=True)
class Agreement:
    """The same responses read by an LLM and by our rules.

    Attributes:
        extractor: the name of the LLM.
        responses: how many were read.
        same: in how many both find the same value to one percent, or none.
        only_extractor, only_rules: in how many only one of the two finds a value.
    """

    extractor: str
    responses: int
    same: int
    only_extractor: int
    only_rules: int

    def __str__(self) -> str:
        return (
            f"{self.extractor} reads what the rules read in {self.same / self.responses:.1%} of "
            f"{self.responses} responses; only it finds a value in {self.only_extractor}, only "
            f"the rules do in {self.only_rules}"
        )


@dataclass(frozen=True)
class TaskReport:
    """One model on one question.

    Attributes:
        sampled: what it wrote.
        found: what that varies with.
        notes: what a reader of the numbers should know; a line each.
        agreement: of the LLM that read the values with our rules; None where those read them.
    """

    sampled: Sampled
    found: Decomposition
    notes: tuple[str, ...]
    agreement: Agreement | None


@dataclass(frozen=True)
class DomainReport:
    """One model on the questions of a domain: means over them, each counting the same.

    Attributes:
        questions: how many were asked.
        counted: of how many the means are: those of which all shares are defined.
        published, unbiased: the means by name.
    """

    model: str
    domain: str
    questions: int
    counted: int
    published: dict[str, Number]
    unbiased: dict[str, Number]


@dataclass(frozen=True)
class Report:
    """Everything that `pragworld-tasks decompose` finds.

    Attributes:
        scale: of the values.
        tasks: in the order of models and questions.
        domains: in the order of models and domains.
    """

    scale: Scale
    tasks: tuple[TaskReport, ...]
    domains: tuple[DomainReport, ...]

    @property
    def models(self) -> list[str]:
        """Their names, in order."""
        return list(dict.fromkeys(task.sampled.model for task in self.tasks))


def agreement(
    extractor: str, extracted: Sequence[float | None], by_rules: Sequence[float | None]
) -> Agreement:
    """How far an LLM reads the same responses as our rules do."""
    pairs = list(zip(extracted, by_rules, strict=True))
    return Agreement(
        extractor,
        responses=len(pairs),
        same=sum(
            one is other is None
            or (one is not None and other is not None and math.isclose(one, other, rel_tol=0.01))
            for one, other in pairs
        ),
        only_extractor=sum(one is not None and other is None for one, other in pairs),
        only_rules=sum(one is None and other is not None for one, other in pairs),
    )


def report(
    samples: Sequence[Sampled],
    scale: Scale = "raw",
    draws: int = RESAMPLES,
    seed: int = 0,
    agreements: Mapping[Path, Agreement] | None = None,
) -> Report:
    """Decomposes what was sampled.

    Args:
        samples: of any models and questions, one each.
        scale: of the values, where tails are heavy; see `decomposition.rescale`.
        draws: for the intervals.
        seed: of all draws.
        agreements: of samples that an LLM has read, by their file.
    """
    order = {name: number for number, name in enumerate(questions())}
    models = list(dict.fromkeys(one.model for one in samples))
    ordered = sorted(
        samples, key=lambda one: (models.index(one.model), order.get(one.question, len(order)))
    )
    tasks = []
    for one in ordered:
        found = decompose(rescale(one.nested(), scale), draws, seed=seed)
        agreed = (agreements or {}).get(one.path)
        tasks.append(TaskReport(one, found, tuple(_notes(one, found, agreed)), agreed))
    domains = [
        _domain_report(model, domain, [task for task in tasks if _is(task, model, domain)])
        for model in models
        for domain in (*DOMAINS, "")
        if any(_is(task, model, domain) for task in tasks)
    ]
    return Report(scale, tuple(tasks), tuple(domains))


def to_json(report: Report) -> dict[str, Any]:
    """Everything in a report; null for what is not defined."""
    return {
        **SCHEMA,
        "scale": report.scale,
        "intervals": f"{LEVEL:.0%}, bootstrap percentiles, moved to the estimate",
        "tasks": [
            {
                "model": task.sampled.model,
                "question": task.sampled.question,
                "unit": task.sampled.unit,
                "intents": task.found.intents,
                "prompts": task.found.prompts,
                "responses": len(task.sampled.values),
                "unreadable": task.sampled.unreadable,
                "published": _numbers_json(task.found.published),
                "unbiased": _numbers_json(task.found.unbiased),
                "floor": defined(task.found.floor),
                "as_p": defined(task.found.as_p),
                "undefined": task.found.undefined,
                "notes": task.notes,
                "agreement": dataclasses.asdict(task.agreement) if task.agreement else None,
            }
            for task in report.tasks
        ],
        "domains": [
            {
                "model": domain.model,
                "domain": domain.domain or "own",
                "questions": domain.questions,
                "counted": domain.counted,
                "published": _numbers_json(domain.published),
                "unbiased": _numbers_json(domain.unbiased),
            }
            for domain in report.domains
        ],
    }


def to_text(report: Report) -> str:
    """Markdown tables, of each model by either estimator, and the notes."""
    parts = [f"{model}\n\n{_model_text(report, model)}" for model in report.models]
    parts += [
        f"{task.sampled.model} on {task.sampled.question}: {note}"
        for task in report.tasks
        for note in task.notes
    ]
    return "\n".join(parts)


def _model_text(report: Report, model: str) -> str:
    tasks = [task for task in report.tasks if task.sampled.model == model]
    domains = [domain for domain in report.domains if domain.model == model]
    on_scale = "" if report.scale == "raw" else f", {report.scale} values"
    shares = [name.upper() for name in SHARES]
    questions_tables = [
        table(
            title + on_scale,
            ["question", "variance", *shares],
            [
                [
                    task.sampled.question,
                    _figure(getattr(task.found, estimator)["variance"].value),
                    *(_with_interval(getattr(task.found, estimator)[name]) for name in SHARES),
                ]
                for task in tasks
            ],
        )
        for estimator, title in _ESTIMATORS.items()
    ]
    wording = table(
        "whether wording matters: AS that chance alone would give, permutation test of AS = 0",
        ["question", "responses", "unreadable", "floor of AS", "p"],
        [
            [
                task.sampled.question,
                str(len(task.sampled.values)),
                str(task.sampled.unreadable),
                _share(task.found.floor),
                _share(task.found.as_p),
            ]
            for task in tasks
        ],
    )
    domains_table = table(
        "means by domain, with standard errors" + on_scale,
        ["domain", "questions", *shares, *(f"{name}, unbiased" for name in shares)],
        [
            [
                domain.domain or "own",
                f"{domain.counted} of {domain.questions}",
                *(_with_error(domain.published[name]) for name in SHARES),
                *(_with_error(domain.unbiased[name]) for name in SHARES),
            ]
            for domain in domains
        ],
    )
    return "\n".join([*questions_tables, wording, domains_table])


def _notes(sampled: Sampled, found: Decomposition, agreed: Agreement | None) -> Iterable[str]:
    """What the numbers rest on, where that is not what one would think."""
    if agreed:
        yield str(agreed)
    by_reason: dict[str, list[str]] = {}
    for name, reason in found.undefined.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        yield f"{', '.join(names)} not defined: {reason}"
    without = sum(all(value is None for value in prompt.values) for prompt in sampled.prompts)
    if without:
        yield f"{without} of {len(sampled.prompts)} prompts have no readable response"
    lengths = {len(prompt.responses) for prompt in sampled.prompts}
    if lengths != {1} and all(len(set(prompt.responses)) == 1 for prompt in sampled.prompts):
        yield "all responses to a prompt are the same: nothing was sampled, or a server copies"


def _is(task: TaskReport, model: str, domain: str) -> bool:
    return task.sampled.model == model and domain_of(task.sampled.question) == domain


def _domain_report(model: str, domain: str, tasks: Sequence[TaskReport]) -> DomainReport:
    whole = [
        task.found
        for task in tasks
        if not any(
            math.isnan(numbers[name].value)
            for numbers in (task.found.published, task.found.unbiased)
            for name in SHARES
        )
    ]
    return DomainReport(
        model,
        domain,
        len(tasks),
        len(whole),
        _means([found.published for found in whole]),
        _means([found.unbiased for found in whole]),
    )


def _means(of_tasks: Sequence[dict[str, Number]]) -> dict[str, Number]:
    """Means over tasks, whose draws are independent, with the interval of a normal distribution."""
    from scipy.special import ndtri

    if not of_tasks:
        return dict.fromkeys(SHARES, NOTHING)
    means = {}
    for name in SHARES:
        value = math.fsum(one[name].value for one in of_tasks) / len(of_tasks)
        errors = (one[name].standard_error ** 2 for one in of_tasks)
        error = math.sqrt(math.fsum(errors)) / len(of_tasks)
        half = float(ndtri((1 + LEVEL) / 2)) * error
        means[name] = Number(value, Interval(value - half, value + half), error)
    return means


def _numbers_json(numbers: dict[str, Number]) -> dict[str, Any]:
    return {
        name: {
            "value": defined(number.value),
            **interval_json(number.interval),
            "standard_error": defined(number.standard_error),
        }
        for name, number in numbers.items()
    }


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _with_interval(number: Number) -> str:
    if math.isnan(number.value):
        return "-"
    return f"{number.value:.3f} [{number.interval.low:.3f}, {number.interval.high:.3f}]"


def _with_error(number: Number) -> str:
    if math.isnan(number.value):
        return "-"
    return f"{number.value:.3f} ± {number.standard_error:.3f}"
