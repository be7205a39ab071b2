"""The report of `pragworld-tasks decompose`: decompositions by question and domain."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import LEVEL, Interval
from pragworld_tasks.sensitivity.components import NAMES, Scale, rescale
from pragworld_tasks.sensitivity.decomposition import (
    RESAMPLES,
    UNDEFINED,
    Decomposition,
    Estimate,
    decompose_responses,
)
from pragworld_tasks.sensitivity.open_questions import DOMAINS, domain_of, questions
from pragworld_tasks.sensitivity.samples import ModelSamples
from pragworld_tasks.text import (
    format_number,
    interval_json,
    markdown_table,
    null_if_nan,
)

SCHEMA = {"schema": "pragworld-decomposition", "version": 1}
SHARES = NAMES[1:]
PARTS_OF_VARIANCE = SHARES[:3]  # they add up to 1
_ESTIMATORS = {
    "published": "plug-in estimator (as published); intervals: responses resampled",
    "unbiased": "unbiased estimator; intervals: paraphrases resampled",
}


@dataclass(frozen=True)
class ReaderAgreement:
    """How far an LLM and our rules read the same values in the same responses.

    Attributes:
        extractor: The name of the LLM.
        responses: The number of responses.
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
        return cls(
            extractor,
            responses=len(pairs),
            same=sum(
                math.isclose(value, other, rel_tol=0.01)
                if value is not None and other is not None
                else value is other
                for value, other in pairs
            ),
            only_extractor=sum(other is None is not value for value, other in pairs),
            only_rules=sum(value is None is not other for value, other in pairs),
        )

    def __str__(self) -> str:
        return (
            f"{self.extractor} and the rules agree on {self.same / self.responses:.1%} of "
            f"{self.responses} responses; only the former reads a value in {self.only_extractor}, "
            f"only the latter in {self.only_rules}"
        )


@dataclass(frozen=True)
class TaskReport:
    """One model on one question.

    Attributes:
        samples: The responses.
        decomposition: Their decomposition.
        agreement: If an LLM read the values: its agreement with our rules.
    """

    samples: ModelSamples
    decomposition: Decomposition
    agreement: ReaderAgreement | None

    def undefined(self, estimator: str) -> set[str]:
        """Return the shares that are undefined by an estimator, `published` or `unbiased`."""
        estimates: dict[str, Estimate] = getattr(self.decomposition, estimator)
        return {name for name in SHARES if math.isnan(estimates[name].value)}

    def notes(self) -> Iterator[str]:
        """Yield what a reader of the numbers must know, a line each."""
        if self.agreement:
            yield str(self.agreement)
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.decomposition.undefined.items():
            by_reason.setdefault(reason, []).append(name)
        for reason, names in by_reason.items():
            yield f"{', '.join(names)} undefined: {reason}"
        for estimator in _ESTIMATORS:
            by_chance = self.undefined(estimator) - set(self.decomposition.undefined)
            if by_chance:
                reason = (
                    "neither PS nor AS is above 0"
                    if by_chance == {"mvs"}
                    else "the parts of the variance add up to 0 or less"
                )
                names = [name for name in SHARES if name in by_chance]
                yield f"{', '.join(names)} ({estimator}) undefined: {reason}"
            estimates = getattr(self.decomposition, estimator)
            if unsure := [name for name in SHARES if _lacks_error(estimates[name])]:
                yield (
                    f"{', '.join(unsure)} ({estimator}) without interval: "
                    f"{self._same_draws(estimator)}"
                )
        prompts = self.samples.prompts
        without = sum(all(value is None for value in prompt.values) for prompt in prompts)
        if without:
            yield f"{without} of {len(prompts)} prompts have no readable response"
        lengths = {len(prompt.responses) for prompt in prompts}
        if lengths != {1} and all(len(set(prompt.responses)) == 1 for prompt in prompts):
            yield (
                "all responses to a prompt are identical: sampling was off, or the server repeats "
                "a cached response"
            )

    def _same_draws(self, estimator: str) -> str:
        """Return why the draws of some shares do not differ, or there are none."""
        all_same = "all resampled data have the same values"
        if estimator == "published":
            if any(len({*prompt.values} - {None}) > 1 for prompt in self.samples.prompts):
                return all_same
            return "no prompt has two responses with different values"
        readable: dict[int, set[int]] = {}
        for prompt in self.samples.prompts:
            if any(value is not None for value in prompt.values):
                readable.setdefault(prompt.paraphrase, set()).add(prompt.intent)
        if len({*map(frozenset, readable.values())}) == len(readable):
            return "no two paraphrases have readable responses to the same intents"
        return all_same

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values; null for what is undefined."""
        decomposition = self.decomposition
        return {
            "model": self.samples.model,
            "question": self.samples.question,
            "unit": self.samples.unit,
            "intents": decomposition.intents,
            "prompts": decomposition.prompts,
            "responses": len(self.samples.values),
            "unreadable": self.samples.unreadable,
            "published": _estimates_json(decomposition.published),
            "unbiased": _estimates_json(decomposition.unbiased),
            "floor": null_if_nan(decomposition.floor),
            "as_p": null_if_nan(decomposition.as_p),
            "undefined": decomposition.undefined,
            "notes": list(self.notes()),
            "agreement": dataclasses.asdict(self.agreement) if self.agreement else None,
        }


@dataclass(frozen=True)
class DomainReport:
    """One model on the questions of a domain: means over questions of equal weight.

    Attributes:
        model: The model's name.
        domain: The domain; empty for own questions.
        questions: The number of questions.
        published, unbiased: The means by name, each over the questions in which it is defined. PS,
            AS and MU are means over the same questions, so they add up to 1.
        left_out: By estimator and name, the questions that are not in a mean; names without any
            are absent.
    """

    model: str
    domain: str
    questions: int
    published: dict[str, Estimate]
    unbiased: dict[str, Estimate]
    left_out: dict[str, dict[str, tuple[str, ...]]]

    def notes(self) -> Iterator[str]:
        """Yield which questions are not in which means, and which means have no standard error."""
        yield from left_out_notes(self.left_out)
        for estimator in _ESTIMATORS:
            means = getattr(self, estimator)
            if unsure := [name for name in SHARES if _lacks_error(means[name])]:
                yield (
                    f"{', '.join(unsure)} ({estimator}) without standard error: some questions "
                    "have none"
                )

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values; null for what is undefined."""
        return {
            "model": self.model,
            "domain": self.domain or "own",
            "questions": self.questions,
            "published": _estimates_json(self.published),
            "unbiased": _estimates_json(self.unbiased),
            "left_out": self.left_out,
        }


@dataclass(frozen=True)
class SensitivityReport:
    """The decompositions of any models' responses to any questions.

    Attributes:
        scale: The scale of the values.
        tasks: In the order of models and questions.
        domains: In the order of models and domains.
    """

    scale: Scale
    tasks: tuple[TaskReport, ...]
    domains: tuple[DomainReport, ...]

    @property
    def models(self) -> list[str]:
        """The names of the models, in order."""
        return list(dict.fromkeys(task.samples.model for task in self.tasks))

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values; null for what is undefined."""
        return {
            **SCHEMA,
            "scale": self.scale,
            "intervals": f"{LEVEL:.0%}, bootstrap percentiles, moved to the estimate",
            "tasks": [task.to_json() for task in self.tasks],
            "domains": [domain.to_json() for domain in self.domains],
        }

    def to_text(self) -> str:
        """Return Markdown tables of each model by either estimator, and the notes."""
        parts = [f"{model}\n\n{self._model_text(model)}" for model in self.models]
        parts += [
            f"{task.samples.model} on {task.samples.question}: {note}"
            for task in self.tasks
            for note in task.notes()
        ]
        parts += [
            f"{domain.model}, means of {domain.domain or 'own'}: {note}"
            for domain in self.domains
            for note in domain.notes()
        ]
        return "\n".join(parts)

    def _model_text(self, model: str) -> str:
        tasks = [task for task in self.tasks if task.samples.model == model]
        domains = [domain for domain in self.domains if domain.model == model]
        on_scale = "" if self.scale == "raw" else f", {self.scale} values"
        shares = [name.upper() for name in SHARES]
        tables = []
        for estimator, title in _ESTIMATORS.items():
            rows = []
            for task in tasks:
                estimates = getattr(task.decomposition, estimator)
                variance = format_number(estimates["variance"].value, ".3g")
                shares_text = [_with_interval(estimates[name]) for name in SHARES]
                rows.append([task.samples.question, variance, *shares_text])
            tables.append(markdown_table(title + on_scale, ["question", "variance", *shares], rows))
        wording = markdown_table(
            "effect of wording: AS expected from chance alone, permutation test of AS = 0",
            ["question", "responses", "unreadable", "floor of AS", "p"],
            [
                [
                    task.samples.question,
                    str(len(task.samples.values)),
                    str(task.samples.unreadable),
                    format_number(task.decomposition.floor),
                    format_number(task.decomposition.as_p),
                ]
                for task in tasks
            ],
        )
        by_domain = markdown_table(
            "means by domain, with standard errors" + on_scale,
            ["domain", "questions", *shares, *(f"{name}, unbiased" for name in shares)],
            [
                [
                    domain.domain or "own",
                    str(domain.questions),
                    *(
                        _mean_text(domain, estimator, name)
                        for estimator in _ESTIMATORS
                        for name in SHARES
                    ),
                ]
                for domain in domains
            ],
        )
        return "\n".join([*tables, wording, by_domain])


def decompose_samples(
    samples: Sequence[ModelSamples],
    scale: Scale = "raw",
    draws: int = RESAMPLES,
    seed: int = 0,
    agreements: Mapping[Path, ReaderAgreement] | None = None,
) -> SensitivityReport:
    """Decompose the responses of any models to any questions.

    Args:
        samples: The responses, one file for each model and question.
        scale: The scale of the values, where tails are heavy; see `components.rescale`.
        draws: Resampled data sets for each kind of interval.
        seed: The seed of all draws.
        agreements: By file, those of samples that an LLM has read.

    Raises:
        InputError: There are no samples, or a setting is wrong.
    """
    if not samples:
        raise InputError("there are no samples to decompose; give at least one file")
    order = {name: number for number, name in enumerate(questions())}
    models = list(dict.fromkeys(of_model.model for of_model in samples))
    ordered = sorted(
        samples,
        key=lambda of_model: (
            models.index(of_model.model),
            order.get(of_model.question, len(order)),
        ),
    )
    tasks = [
        TaskReport(
            of_model,
            decompose_responses(rescale(of_model.nested(), scale), draws, seed=seed),
            (agreements or {}).get(of_model.path),
        )
        for of_model in ordered
    ]
    domains = []
    for model in models:
        for domain in (*DOMAINS, ""):
            of_domain = [
                task
                for task in tasks
                if (task.samples.model, domain_of(task.samples.question)) == (model, domain)
            ]
            if of_domain:
                domains.append(_domain_report(model, domain, of_domain))
    return SensitivityReport(scale, tuple(tasks), tuple(domains))


def left_out_notes(left_out: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[str]:
    """Yield a line for each set of questions that are not in some means of a domain.

    Args:
        left_out: The questions by estimator and name; see `DomainReport`.
    """
    for estimator, by_name in left_out.items():
        names_of: dict[tuple[str, ...], list[str]] = {}
        for name, questions_left_out in by_name.items():
            names_of.setdefault(tuple(questions_left_out), []).append(name)
        for questions_left_out, names in names_of.items():
            yield (
                f"{', '.join(names)} ({estimator}) without {', '.join(questions_left_out)}, where "
                f"{'it is' if len(names) == 1 else 'they are'} undefined"
            )


def _domain_report(model: str, domain: str, tasks: Sequence[TaskReport]) -> DomainReport:
    means: dict[str, dict[str, Estimate]] = {}
    left_out: dict[str, dict[str, tuple[str, ...]]] = {}
    for estimator in _ESTIMATORS:
        means[estimator], left_out[estimator] = {}, {}
        for name in SHARES:
            needed = PARTS_OF_VARIANCE if name in PARTS_OF_VARIANCE else (name,)
            defined = [task.undefined(estimator).isdisjoint(needed) for task in tasks]
            counted = itertools.compress(tasks, defined)
            means[estimator][name] = _mean(
                [getattr(task.decomposition, estimator)[name] for task in counted],
                bounded=estimator == "published" or name == "mvs",
            )
            if not all(defined):
                left_out[estimator][name] = tuple(
                    task.samples.question
                    for task, is_defined in zip(tasks, defined, strict=True)
                    if not is_defined
                )
    return DomainReport(model, domain, len(tasks), **means, left_out=left_out)


def _mean(of_tasks: Sequence[Estimate], bounded: bool) -> Estimate:
    """Return the mean over tasks, with the interval of normal and independent errors.

    Args:
        of_tasks: An estimate of each task.
        bounded: Whether the estimate always lies from 0 to 1; the interval is cut there.
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
    return Estimate(value, Interval(low, high), error)


def _estimates_json(estimates: dict[str, Estimate]) -> dict[str, Any]:
    return {
        name: {
            "value": null_if_nan(estimate.value),
            **interval_json(estimate.interval),
            "standard_error": null_if_nan(estimate.standard_error),
        }
        for name, estimate in estimates.items()
    }


def _lacks_error(estimate: Estimate) -> bool:
    """Return whether an estimate has a value, but neither an interval nor a standard error."""
    return math.isnan(estimate.standard_error) and not math.isnan(estimate.value)


def _with_interval(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return "-"
    ends = "-" if _lacks_error(estimate) else ", ".join(map(format_number, estimate.interval))
    return f"{format_number(estimate.value)} [{ends}]"


def _mean_text(domain: DomainReport, estimator: str, name: str) -> str:
    """Return a mean with its standard error and, if not all questions are in it, their number."""
    estimate: Estimate = getattr(domain, estimator)[name]
    if math.isnan(estimate.value):
        return "-"
    text = f"{format_number(estimate.value)} ± {format_number(estimate.standard_error)}"
    left_out = domain.left_out[estimator].get(name)
    if left_out:
        text += f" ({domain.questions - len(left_out)} of {domain.questions})"
    return text
