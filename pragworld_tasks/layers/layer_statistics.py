"""The statistics of an ablation sweep, in which groups of documents are independent."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from pragworld_tasks.data.documents import OWN, Effect, Split, alteration_names, has_alterations
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.evaluation.statistics import (
    LEAST_GROUPS,
    LEVEL,
    RESAMPLES,
    Bools,
    Floats,
    Interval,
    Ints,
    Tally,
    bootstrap_differences,
    bootstrap_intervals,
    percentile_interval,
    robust_tally,
    sign_flip_test,
    tally,
)
from pragworld_tasks.layers.report import DIGITS, Probability
from pragworld_tasks.layers.settings import Target

Role = Literal["useful", "harmful", "neutral"]
By = Literal["sign", "evidence"]

# A class of documents in fewer groups is left out: its intervals would be far too short.
FEWEST_GROUPS = 30

_ROLES: dict[int, Role] = {-1: "useful", 0: "neutral", 1: "harmful"}  # by the sign of A_l - A_0
_EXTREME = 0.5 * 10.0**-DIGITS  # a probability that is rounded to 0


@dataclass(frozen=True)
class StatisticsSettings:
    """Settings of the statistics; `alpha` is the largest corrected p that counts as evidence."""

    level: Annotated[float, Field(ge=0.5, le=0.999)] = LEVEL
    resamples: Annotated[int, Field(ge=1, le=1_000_000)] = RESAMPLES
    seed: Annotated[int, Field(ge=0)] = 0
    alpha: Probability = 0.05


@dataclass(frozen=True)
class DocumentResult:
    """One document, or prompt of your own, and the probability of its gold answer in every run.

    It is the softmax over that answer and the likeliest other label, and right above one half.

    Attributes:
        gold: That of the plain run, then of each target ablated, by one replacement after another.
        direct: With each target ablated, if layers behind it add what they do in the plain run.
        lens: Read behind each layer of the plain run, as if it were the last.
    """

    row: int
    group: int
    answer: str
    alteration: str | None
    effect: Effect | None
    gold: tuple[Probability, ...]
    direct: tuple[Probability, ...] = ()
    lens: tuple[Probability, ...] = ()


@dataclass(frozen=True)
class PlainRun:
    """The run without intervention: A_0 and its breakdown.

    Attributes:
        robust_accuracy: The accuracy over groups; None for a split without alterations.
        by_class: The accuracy by category of alteration, then by effect on the answer: flip,
            invariant, and original. Classes in fewer than `FEWEST_GROUPS` groups are left out.
    """

    accuracy: Share
    robust_accuracy: Share | None
    by_class: Mapping[str, Share]


@dataclass(frozen=True)
class Outcome:
    """A metric with one layer ablated.

    Attributes:
        points: Its difference from the plain run.
        interval: The interval of this difference alone.
        band: Its interval in a band that holds for all layers at once.
    """

    share: Share
    points: float
    interval: Interval
    band: Interval


@dataclass(frozen=True)
class LayerResult:
    """The effect of ablating one target, such as a layer.

    Accuracy only changes where a probability crosses one half. The log-odds of the gold answer
    change with every probability, so that smaller effects show; they need not change any answer.

    Attributes:
        accuracy: As in `PlainRun`, with the target ablated; so `robust_accuracy` and `by_class`.
        p: The p of an exact test that the accuracy does not change. It treats groups, not
            documents, as independent, and is McNemar's test if each group is one document; see
            `statistics.sign_flip_test`.
        holm: That p, corrected over layers by the method of Holm.
        sign: Useful where A_l < A_0, harmful where A_l > A_0.
        evidence: The sign if `holm` is at most `StatisticsSettings.alpha`, else neutral.
        log_odds: The mean change in the log-odds over documents, in natural logarithms.
        direct: The same without what layers behind the target make of it; NaN if unknown.
        log_odds_holm: The p of a test that it is 0, corrected over layers; see
            `clustered_mean`. NaN for fewer than two groups.
    """

    target: Target
    accuracy: Outcome
    robust_accuracy: Outcome | None
    by_class: Mapping[str, Outcome]
    p: float
    holm: float
    sign: Role
    evidence: Role
    log_odds: float
    log_odds_holm: float
    direct: float = math.nan

    @property
    def is_repaired(self) -> bool:
        """Whether later layers turn the direct effect around."""
        return self.direct * self.log_odds < 0


def compute_statistics(
    documents: Sequence[DocumentResult],
    targets: Sequence[Target],
    split: Split,
    settings: StatisticsSettings,
) -> tuple[PlainRun, tuple[LayerResult, ...]]:
    """Return what the probabilities of documents say about the plain run and about each target."""
    group = np.array([document.group for document in documents])
    gold = np.array([document.gold for document in documents]).T
    correct = gold > 0.5
    everything = np.ones(len(documents), dtype=np.bool_)
    runs = [tally(right, everything, group) for right in correct]
    accuracy, ablated = _compare_runs(runs, settings)
    robust: tuple[Share | None, Sequence[Outcome | None]] = None, [None] * len(targets)
    if len(documents) > len(np.unique(group)) if split == OWN else has_alterations(split):
        robust = _compare_runs([robust_tally(right, group, group) for right in correct], settings)
    by_class = {}
    for name, covered in _classes(documents, group).items():
        of_class = [tally(right, covered, group) for right in correct]
        by_class[name] = _compare_runs(of_class, settings)
    gains = [run.right - runs[0].right for run in runs[1:]]
    p = [sign_flip_test(of_target) for of_target in gains]
    logits = _log_odds(gold)
    direct = _log_odds([document.direct for document in documents]).T - logits[0]
    changes, p_of_changes = zip(
        *(clustered_mean(row - logits[0], group) for row in logits[1:]), strict=True
    )
    corrected, log_odds_holm = holm(p), holm(p_of_changes)
    layers = []
    for number, (target, gain) in enumerate(zip(targets, gains, strict=True)):
        sign = _ROLES[int(np.sign(gain.sum()))]
        result = LayerResult(
            target=target,
            accuracy=ablated[number],
            robust_accuracy=robust[1][number],
            by_class={name: outcomes[number] for name, (_, outcomes) in by_class.items()},
            p=p[number],
            holm=float(corrected[number]),
            sign=sign,
            evidence=sign if corrected[number] <= settings.alpha else "neutral",
            log_odds=changes[number],
            log_odds_holm=float(log_odds_holm[number]),
            direct=float(direct[number].mean()) if len(direct) else math.nan,
        )
        layers.append(result)
    plain = PlainRun(accuracy, robust[0], {name: share for name, (share, _) in by_class.items()})
    return plain, tuple(layers)


def _log_odds(probabilities: ArrayLike) -> Floats:
    clipped = np.asarray(probabilities, dtype=np.float64).clip(_EXTREME, 1 - _EXTREME)
    logits: Floats = np.log(clipped / (1 - clipped))
    return logits


def clustered_mean(values: ArrayLike, group: ArrayLike) -> tuple[float, float]:
    """Return the mean of values whose groups are independent, and the p of a test that it is 0.

    The test is Student's t with the cluster-robust standard error of the mean (Liang and Zeger,
    1986), with one degree of freedom less than there are groups. It needs enough groups for the
    sums over groups to be nearly normal on average. p is NaN for fewer than two groups, and where
    all groups have the same mean, other than 0.

    Examples:
        >>> mean, p = clustered_mean([1, 2, 3, 6], group=[0, 0, 1, 1])
        >>> mean, round(p, 3)
        (3.0, 0.295)
    """
    from scipy.special import stdtr  # scipy.stats takes a second to import

    mean = tally(values, np.ones_like(values, dtype=np.float64), group)
    if mean.standard_error <= 1e-12 * abs(mean.share):  # the same in every group, up to rounding
        return mean.share, math.nan if mean.share else 1.0
    t = -abs(mean.share) / mean.standard_error
    return mean.share, 2 * float(stdtr(mean.groups - 1, t))


def simultaneous_intervals(draws: Floats, level: float, groups: int = 0) -> list[Interval]:
    """Return intervals of several metrics, around the means of their draws, that hold at once.

    Each is as many standard deviations wide as the largest deviation of all metrics in a draw, up
    to a share (`level`) of the draws. `draws` are [metrics, draws]; all metrics have the same ones.
    Where no draw of shares of `groups` differs, it is exact; see `statistics.percentile_interval`.
    """
    mean, spread = np.nanmean(draws, axis=1), np.nanstd(draws, axis=1)
    scale = np.where(spread > 0, spread, 1)[:, None]
    furthest = np.nanmax(np.abs(draws - mean[:, None]) / scale, axis=0)
    reach = np.quantile(furthest, level) * spread
    each = 1 - (1 - level) / len(draws)  # Bonferroni's level
    return [
        percentile_interval(row, each, groups, -1) if (row == row[0]).all() else Interval(*ends)
        for row, *ends in zip(draws, (mean - reach).tolist(), (mean + reach).tolist(), strict=True)
    ]


def holm(p: ArrayLike) -> Floats:
    """Return [tests] p values corrected for their number by the method of Holm (1979).

    NaN stands for a test that was not done, and stays.
    """
    p = np.asarray(p, dtype=np.float64)
    corrected = np.full_like(p, math.nan)
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]  # NaN come last
    steps = p[order] * (len(order) - np.arange(len(order)))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected


def _classes(documents: Sequence[DocumentResult], group: Ints) -> dict[str, Bools]:
    """Return which documents the alterations and effects cover that are in enough groups."""
    alteration = np.array([document.alteration or "" for document in documents])
    if not alteration.any():
        return {}
    effect = np.array([document.effect or "original" for document in documents])
    classes: dict[str, Bools] = {name: alteration == name for name in alteration_names(alteration)}
    classes |= {name: effect == name for name in ("flip", "invariant", "original")}
    return {
        name: covered
        for name, covered in classes.items()
        if len(np.unique(group[covered])) >= FEWEST_GROUPS
    }


def _compare_runs(
    runs: Sequence[Tally], settings: StatisticsSettings
) -> tuple[Share, list[Outcome]]:
    """Return a metric in the plain run, the first, and with each target ablated.

    All metrics have the same bootstrap draws. With a single group they have no intervals.
    """
    level, draws = settings.level, (settings.resamples, settings.seed)
    plain, *ablated = runs
    intervals = differences = bands = [Interval(math.nan, math.nan)] * len(runs)
    if plain.groups >= LEAST_GROUPS:
        intervals = [*bootstrap_intervals(dict(enumerate(runs)), *draws, level).values()]
        numbered = dict(enumerate(ablated))
        drawn = bootstrap_differences(numbered, dict.fromkeys(numbered, plain), *draws).values()
        differences = [percentile_interval(row, level, plain.groups, lowest=-1) for row in drawn]
        bands = simultaneous_intervals(np.array([*drawn]), level, plain.groups)
    total = int(plain.total.sum())
    plain_share, *shares = [
        Share(right=int(run.right.sum()), total=total, low=100 * low, high=100 * high)
        for run, (low, high) in zip(runs, intervals, strict=True)
    ]
    outcomes = []
    for run, share, difference, band in zip(ablated, shares, differences, bands, strict=False):
        ends = (Interval(100 * low, 100 * high) for low, high in (difference, band))
        change = float(100 * (run.right - plain.right).sum() / total)
        outcomes.append(Outcome(share, change, *ends))
    return plain_share, outcomes
