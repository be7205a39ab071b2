"""The statistics of an ablation sweep: from the probabilities of gold answers to a layer report."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from pragworld_tasks.data.documents import ALTERATIONS, Document, Split, has_alterations
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.comparison import Difference
from pragworld_tasks.evaluation.metrics import (
    LEAST_GROUPS,
    Bools,
    Floats,
    Interval,
    Ints,
    Tally,
    bootstrap_differences,
    bootstrap_intervals,
    clustered_mean,
    mcnemar,
    percentile_interval,
    robust_tally,
    sign_flip_test,
    simultaneous_intervals,
    tally,
)
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.layers.identities import DataIdentity, ModelIdentity, OwnPrompt
from pragworld_tasks.layers.layer_report import (
    DocumentResult,
    Intervention,
    LayerReport,
    LayerResult,
    LogOdds,
    Outcome,
    PlainRun,
    Role,
    SweepSettings,
)
from pragworld_tasks.layers.power import smallest_found
from pragworld_tasks.layers.serialization import DIGITS
from pragworld_tasks.layers.targets import Target, every_layer

Report = TypeVar("Report", bound=LayerReport)
Key = tuple[str, str]  # a field of `PlainRun`, and the class of documents if it has classes

_ROLES: dict[int, Role] = {-1: "useful", 0: "neutral", 1: "harmful"}  # by the sign of A_l - A_0
# Percentile intervals of a class of documents in fewer groups are far too short.
FEWEST_GROUPS = 30
_EXTREME = 0.5 * 10.0**-DIGITS  # a probability that is rounded to 0
_EFFECTS = ("flip", "invariant", "original")


def compute_report(
    documents: Sequence[Document | OwnPrompt],
    gold: ArrayLike,
    model: ModelIdentity,
    data: DataIdentity,
    intervention: Intervention,
    settings: SweepSettings | None = None,
    targets: tuple[Target, ...] | None = None,
) -> LayerReport:
    """Compute the report of an ablation sweep.

    Probabilities are rounded first, so that the report follows from its file; see
    `document_results`.

    Args:
        documents: Some or all documents of one split, or prompts.
        gold: [documents, 1 + targets] the probability of the gold answer against the likeliest
            other label, in the plain run, then with each target ablated. Above one half the answer
            is right.
        model: The model that was swept.
        data: The identity of the documents; see `identities.data_identity`.
        intervention: What was done to each target.
        settings: The settings of the statistics; None for the defaults.
        targets: What was ablated in turn; None for every layer.

    Raises:
        ValueError: Shapes or identities contradict each other, or `gold` holds other numbers than
            probabilities.
    """
    gold = np.asarray(gold, dtype=np.float64)
    targets = every_layer(model.layers) if targets is None else targets
    if gold.shape != (len(documents), 1 + len(targets)) or not documents or not targets:
        raise ValueError(
            f"p(gold) has shape {gold.shape}; {len(documents)} documents and {len(targets)} "
            "targets need one row a document and one column more than targets"
        )
    results = document_results(documents, gold)
    return report_from_results(
        results, model, data, intervention, settings or SweepSettings(), targets
    )


def document_results(
    documents: Sequence[Document | OwnPrompt], gold: ArrayLike
) -> tuple[DocumentResult, ...]:
    """Return the results of documents, with probabilities rounded to `DIGITS`.

    Rounding never creates a tie.

    Args:
        documents: The documents, or prompts.
        gold: [documents, runs] the probability of the gold answer; see `compute_report`.

    Raises:
        ValueError: `gold` holds other numbers than probabilities.
    """
    gold = np.asarray(gold, dtype=np.float64)
    if not ((gold >= 0) & (gold <= 1)).all():
        raise ValueError("p(gold) has a value that is not from 0 to 1; it must hold probabilities")
    rounded = np.round(gold, DIGITS)
    new_tie = (rounded == 0.5) & (gold != 0.5)
    rounded[new_tie] = np.round(0.5 + np.sign(gold[new_tie] - 0.5) * 10.0**-DIGITS, DIGITS)
    return tuple(
        DocumentResult(d.row, d.group, d.answer, d.alteration, d.effect, tuple(values))
        for d, values in zip(documents, rounded.tolist(), strict=True)
    )


def recompute_report(report: Report, settings: SweepSettings | None = None) -> Report:
    """Compute a report again from its probabilities.

    Args:
        report: The report.
        settings: Other settings of the statistics; None for the same ones.

    Raises:
        InputError: A setting is out of range.

    Examples:
        >>> from pragworld_interp import EXAMPLES, SweepSettings, read_layers, recompute_report
        >>> report = read_layers(EXAMPLES / "layers.json")
        >>> lenient = recompute_report(report, SweepSettings(alpha=1))
        >>> lenient.selected("useful", by="evidence")
        [0, 1]
    """
    if settings:
        if problem := settings_problem(settings):
            raise InputError(problem)
        # JSON cannot hold numpy's numbers.
        whole = {name: int(getattr(settings, name)) for name in ("resamples", "halvings", "seed")}
        level, alpha = float(settings.level), float(settings.alpha)
        settings = replace(settings, level=level, alpha=alpha, **whole)
    computed = report_from_results(
        report.documents,
        report.model,
        report.data,
        report.intervention,
        settings or report.settings,
        report.targets,
    )
    return replace(report, **vars(computed))


def settings_problem(settings: SweepSettings) -> str | None:
    """Return what is wrong with settings that statistics cannot be computed with, or None."""
    limits: dict[str, tuple[float, float]] = {
        "level": (0.5, 0.999),
        "resamples": (1, 1_000_000),
        "halvings": (1, 1_000_000),
        "seed": (0, 2**32),
        "alpha": (0, 1),
    }
    for name, (least, most) in limits.items():
        value = getattr(settings, name)
        kind = Real if name in ("level", "alpha") else Integral
        if isinstance(value, bool) or not isinstance(value, kind):
            return (
                f"settings.{name} is {value!r}, not {'a number' if kind is Real else 'an integer'}"
            )
        if not least <= float(value) <= most:
            return f"settings.{name} is {value}, not from {least} to {most}"
    return None


# Tests and stability ------------------------------------------------------------------------------


def holm(p: ArrayLike) -> Floats:
    """Return [tests] p values corrected for their number by the method of Holm (1979)."""
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    steps = p[order] * (p.size - np.arange(p.size))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected


def split_half(differences: ArrayLike, halvings: int, seed: int) -> Floats:
    """Return how often signs agree between split halves, [layers].

    If there are no more than `halvings` ways to split the groups, all of them are used. With an odd
    number of groups, the second half is the larger one.

    Args:
        differences: [groups, layers] right answers with the layer ablated minus those without.
        halvings: The number of random splits.
        seed: The seed of the splits.
    """
    differences = np.asarray(differences, dtype=np.float64)
    groups, layers = differences.shape
    if groups < 2:
        return np.full(layers, np.nan)
    size = groups // 2
    if math.comb(groups, size) <= halvings:
        halves = list(itertools.combinations(range(groups), size))
        in_first = np.zeros((len(halves), groups))
        np.put_along_axis(in_first, np.array(halves), 1, axis=1)
    else:
        split = np.arange(groups) < size
        generator = np.random.default_rng(seed)
        in_first = generator.permuted(np.tile(split, (halvings, 1)), axis=1).astype(np.float64)
    sums, whole = in_first @ differences, differences.sum(axis=0)
    agreement: Floats = (np.sign(sums) == np.sign(whole - sums)).mean(axis=0)
    return agreement


# From documents to the report ---------------------------------------------------------------------


def report_from_results(
    results: tuple[DocumentResult, ...],
    model: ModelIdentity,
    data: DataIdentity,
    intervention: Intervention,
    settings: SweepSettings,
    targets: tuple[Target, ...],
) -> LayerReport:
    """Compute the report of an ablation sweep from the results of its documents.

    Args:
        results: The results, in the order of the groups.
        model: The model that was swept.
        data: The identity of the documents.
        intervention: What was done to each target.
        settings: The settings of the statistics.
        targets: What was ablated in turn.

    Raises:
        ValueError: The results are not those of the documents.
    """
    group = np.array([result.group for result in results])
    groups = len(np.unique(group))
    if (data.documents, data.groups) != (len(results), groups):
        raise ValueError(
            f"there are {len(results)} documents in {groups} groups, but their identity says "
            f"{data.documents} in {data.groups}"
        )
    gold = np.array([result.gold for result in results]).T
    correct = gold > 0.5
    runs = _tallies(correct, results, group, data.split)
    plain, *ablated = _metrics(runs, settings)
    right = np.stack([run["accuracy", ""].right for run in runs], axis=1)
    gained = right[:, 1:] - right[:, :1]
    tests = [mcnemar(correct[0], answers) for answers in correct[1:]]
    corrected = holm([test.p for test in tests])
    groups_p = [sign_flip_test(column) for column in gained.T]
    groups_corrected = holm(groups_p)
    both_halves = split_half(gained, settings.halvings, settings.seed)
    log_odds = _log_odds(gold, group, settings.level)
    changed = 100 * (correct[1:] != correct[0]).mean(axis=1)
    layers = []
    for number, test in enumerate(tests):
        net = np.bincount(np.abs(gained[:, number]).astype(np.int64)) / groups
        sign = _ROLES[int(np.sign(gained[:, number].sum()))]
        is_evident = max(corrected[number], groups_corrected[number]) <= settings.alpha
        layers.append(
            LayerResult(
                target=targets[number],
                **ablated[number],
                mcnemar=test,
                holm=float(corrected[number]),
                groups_p=groups_p[number],
                groups_holm=float(groups_corrected[number]),
                sign=sign,
                evidence=sign if is_evident else "neutral",
                detectable=smallest_found(
                    net, groups, len(results), float(changed[number]), len(tests), settings.alpha
                ),
                log_odds=log_odds[number],
                both_halves=float(both_halves[number]),
            )
        )
    return LayerReport(
        model, data, intervention, settings, PlainRun(**plain), tuple(layers), results
    )


def _log_odds(gold: Floats, group: Ints, level: float) -> list[LogOdds]:
    """Return the change in each layer; `gold` is [1 + layers, documents]."""
    gold = gold.clip(_EXTREME, 1 - _EXTREME)
    logits = np.log(gold / (1 - gold))
    means = [clustered_mean(ablated - logits[0], group, level) for ablated in logits[1:]]
    corrected = holm([mean.p for mean in means])
    return [
        LogOdds(mean.value, mean.interval, mean.p, float(p))
        for mean, p in zip(means, corrected, strict=True)
    ]


def _tallies(
    correct: Bools, results: Sequence[DocumentResult], group: Ints, split: Split
) -> list[dict[Key, Tally]]:
    """Return the tallies of each run's metrics, for the classes that have any documents."""
    masks: dict[Key, Bools] = {}
    if split == "own":
        altered = any(result.alteration for result in results)
        has_robust = len(results) > len(np.unique(group))
    else:
        altered = has_robust = has_alterations(split)
    if altered:
        alteration = np.array([result.alteration or "" for result in results])
        effect = np.array([result.effect or "original" for result in results])
        masks |= {("by_alteration", name): alteration == name for name in ALTERATIONS}
        masks |= {("by_effect", name): effect == name for name in _EFFECTS}
    runs = []
    for right in correct:
        run: dict[Key, Tally] = {("accuracy", ""): tally(right, np.ones_like(right), group)}
        if has_robust:
            run["robust_accuracy", ""] = robust_tally(right, group, group)
        runs.append(run | {key: tally(right, m, group) for key, m in masks.items() if m.any()})
    return runs


def _metrics(runs: Sequence[Mapping[Key, Tally]], settings: SweepSettings) -> list[dict[str, Any]]:
    """Return the fields of `PlainRun` for the first run and those of `LayerResult` for others.

    All intervals come from the same bootstrap draws.
    """
    tallies = {(number, key): run[key] for number, run in enumerate(runs) for key in run}
    ablated = {place: count for place, count in tallies.items() if place[0]}
    plain = {place: runs[0][place[1]] for place in ablated}
    bootstrap = (settings.resamples, settings.seed)
    intervals = bootstrap_intervals(tallies, *bootstrap, settings.level)
    drawn = bootstrap_differences(ablated, plain, *bootstrap)
    difference_intervals = {
        place: percentile_interval(differences, settings.level)
        for place, differences in drawn.items()
    }
    bands: dict[tuple[int, Key], Interval] = {}
    for key, count in runs[0].items():
        if count.groups < (FEWEST_GROUPS if key[1] else LEAST_GROUPS):
            undefined = dict.fromkeys(
                [place for place in tallies if place[1] == key], Interval(math.nan, math.nan)
            )
            intervals |= undefined
            difference_intervals |= undefined
            bands |= undefined
        else:
            of_layers = {place: drawn[place] for place in drawn if place[1] == key}
            bands |= simultaneous_intervals(of_layers, settings.level)
    fields: list[dict[str, Any]] = [
        {"robust_accuracy": None, "by_alteration": {}, "by_effect": {}} for _ in runs
    ]
    for place, count in tallies.items():
        number, (field, name) = place
        right, total = count.right.sum(), count.total.sum()
        low, high = _in_percent(intervals[place])
        share = Share(right=int(right), total=int(total), low=low, high=high)
        metric: Share | Outcome = share
        if number:
            points = float(100 * (count.right - plain[place].right).sum() / total)
            difference = Difference(points, _in_percent(difference_intervals[place]))
            metric = Outcome(share, difference, _in_percent(bands[place]))
        if name:
            fields[number][field][name] = metric
        else:
            fields[number][field] = metric
    return fields


def _in_percent(interval: Interval) -> Interval:
    return Interval(100 * interval.low, 100 * interval.high)
