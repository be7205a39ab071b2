"""The paper's metrics as pure functions over arrays, their intervals, and paired comparison.

Every metric is a share: so many right out of so many. A `Tally` holds both numbers for each group
of documents, because groups are what is independent: an original and its variants share almost all
of their text. From tallies follow the share, its standard error and its bootstrap interval, the
same way for every metric and every breakdown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Name = TypeVar("Name")

YES, NO, UNREADABLE = 1, 0, -1
LEVEL = 0.95
RESAMPLES = 10_000
_CHUNK = 500  # resamples drawn at a time: bounds the memory that many groups would take


@dataclass(frozen=True)
class Run:
    """What one model answered on one split: arrays of [documents].

    Attributes:
        gold: YES or NO.
        predicted: YES, NO or UNREADABLE.
        group: number of the document's group, from 0. Groups are independent of each other.
        robust_group: number of the group of which all documents have to be right for robust
            accuracy: `group`, or a part of it (the released grouping cuts some groups in two).
        is_original: whether the document is its group's original.
        flips, keeps: whether its alteration flips the answer, or leaves it; neither for originals.
    """

    gold: Ints
    predicted: Ints
    group: Ints
    robust_group: Ints
    is_original: Bools
    flips: Bools
    keeps: Bools

    @property
    def correct(self) -> Bools:
        """Whether each document is answered right; an unreadable response is wrong."""
        correct: Bools = self.predicted == self.gold
        return correct


@dataclass(frozen=True)
class Tally:
    """Right answers and answers asked for, summed within each group: two arrays of [groups]."""

    right: Floats
    total: Floats

    @property
    def share(self) -> float:
        """Right answers out of all; NaN where none was asked for."""
        total = self.total.sum()
        return float(self.right.sum() / total) if total else float("nan")

    @property
    def standard_error(self) -> float:
        """Of `share`, groups being independent of each other and documents within one not.

        The linearised variance of a ratio of two sums over groups. Where every group is one
        document it is the usual standard error of a mean. NaN where fewer than two groups count.
        """
        counted = self.total > 0
        groups = int(counted.sum())
        if groups < 2:
            return float("nan")
        residual = self.right[counted] - self.share * self.total[counted]
        variance = groups / (groups - 1) * np.square(residual).sum()
        return float(np.sqrt(variance) / self.total.sum())


class Interval(NamedTuple):
    """The two ends of an interval, in the unit of what it is of; NaN where that is not defined."""

    low: float
    high: float


class McNemar(NamedTuple):
    """Exact McNemar test: pairs that only the first or only the second gets right, and p."""

    only_first: int
    only_second: int
    p: float


def tally(values: ArrayLike, covered: ArrayLike, group: ArrayLike) -> Tally:
    """Sums within each group.

    Args:
        values: [documents] 1 or True for each that is right (or is whatever is to be counted).
        covered: [documents] whether the metric asks about it.
        group: [documents] its group, from 0.
    """
    group = np.asarray(group, dtype=np.int64)
    covered = np.asarray(covered, dtype=np.float64)
    right = np.asarray(values, dtype=np.float64) * covered
    groups = int(group.max()) + 1 if group.size else 0
    return Tally(
        np.bincount(group, right, minlength=groups).astype(np.float64),
        np.bincount(group, covered, minlength=groups).astype(np.float64),
    )


def robust_tally(correct: ArrayLike, robust_group: ArrayLike, group: ArrayLike) -> Tally:
    """Groups of which every document is right: the tally of robust accuracy (paper, section 5).

    Args:
        correct: [documents] whether each is right.
        robust_group: [documents] the group of which all have to be right.
        group: [documents] the independent group that this one is or is part of, from 0.
    """
    names, first, number = np.unique(robust_group, return_index=True, return_inverse=True)
    wrong = np.bincount(number, weights=~np.asarray(correct, dtype=np.bool_), minlength=len(names))
    return tally(wrong == 0, np.ones(len(names)), np.asarray(group)[first])


def tallies(run: Run) -> dict[str, Tally]:
    """The metrics by name, in the order in which they are shown (paper, section 5).

    Robust accuracy asks about groups, all others about documents: all of them, those with gold
    answer yes or no, originals, altered variants, variants that flip the answer or keep it.
    `unreadable` counts responses in which no answer can be read.
    """
    correct, everything = run.correct, np.ones_like(run.correct)

    def accuracy(covered: Bools) -> Tally:
        return tally(correct, covered, run.group)

    return {
        "robust_acc": robust_tally(correct, run.robust_group, run.group),
        "acc": accuracy(everything),
        "yes_acc": accuracy(run.gold == YES),
        "no_acc": accuracy(run.gold == NO),
        "original_acc": accuracy(run.is_original),
        "altered_acc": accuracy(~run.is_original),
        "flip_acc": accuracy(run.flips),
        "invariant_acc": accuracy(run.keeps),
        "unreadable": tally(run.predicted == UNREADABLE, everything, run.group),
    }


def bootstrap_intervals(
    tallies: Mapping[Name, Tally], resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> dict[Name, Interval]:
    """Percentile intervals of several metrics of one run, whole groups being drawn.

    All metrics see the same draws. A draw in which a metric is not defined (no document it asks
    about) is left out for that metric.

    Args:
        tallies: metrics by name, over the same groups; there may be none.
        resamples: how many draws.
        seed: of the draws.
        level: how much of the draws the interval holds.
    """
    if not tallies:
        return {}
    right, total = _stack(tallies)
    shares = _resampled_shares(right[None], total, resamples, seed)[0]
    return dict(zip(tallies, _percentiles(shares, level), strict=True))


def bootstrap_difference_intervals(
    first: Mapping[Name, Tally],
    second: Mapping[Name, Tally],
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> dict[Name, Interval]:
    """Percentile intervals of first minus second, two runs on the same documents.

    Both runs see the same draws of groups, so what makes a group hard for both cancels out.
    """
    right, total = _stack(first)
    right_second, _ = _stack(second)
    shares = _resampled_shares(np.stack([right, right_second]), total, resamples, seed)
    return dict(zip(first, _percentiles(shares[0] - shares[1], level), strict=True))


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """Exact two-sided McNemar test of two runs on the same documents (or the same groups).

    The test takes its pairs for independent. Groups are; documents of one group are not, so on
    documents p comes out too small.

    Args:
        first: [documents] whether each is right in the first run.
        second: [documents] whether each is right in the second.

    Raises:
        ValueError: the two are not of the same length.
    """
    from scipy.stats import binomtest  # half a second that only a comparison needs

    first, second = np.asarray(first, dtype=np.bool_), np.asarray(second, dtype=np.bool_)
    if first.shape != second.shape:
        raise ValueError(f"two runs on different documents: {first.shape} and {second.shape}")
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    different = only_first + only_second
    p = binomtest(only_first, different).pvalue if different else 1.0
    return McNemar(only_first, only_second, float(p))


def _stack(tallies: Mapping[Name, Tally]) -> tuple[Floats, Floats]:
    """Right and total of all metrics, each [groups, metrics]."""
    return (
        np.stack([tally.right for tally in tallies.values()], axis=1),
        np.stack([tally.total for tally in tallies.values()], axis=1),
    )


def _resampled_shares(right: Floats, total: Floats, resamples: int, seed: int) -> Floats:
    """Shares in draws of groups: [runs, resamples, metrics] from right [runs, groups, metrics]."""
    generator = np.random.default_rng(seed)
    groups = len(total)
    shares = np.empty((len(right), resamples, total.shape[1]))
    for start in range(0, resamples, _CHUNK):
        draws = min(_CHUNK, resamples - start)
        drawn = generator.integers(groups, size=(draws, groups))
        drawn += groups * np.arange(draws)[:, None]
        times = np.bincount(drawn.ravel(), minlength=draws * groups).reshape(draws, groups)
        times = times.astype(np.float64)
        with np.errstate(invalid="ignore"):
            shares[:, start : start + draws] = times @ right / (times @ total)
    return shares


def _percentiles(shares: Floats, level: float) -> list[Interval]:
    """The middle `level` of each column of [resamples, metrics], undefined draws aside."""
    tail = (1 - level) / 2
    intervals = []
    for column in shares.T:
        defined = column[~np.isnan(column)]
        ends = np.quantile(defined, [tail, 1 - tail]) if defined.size else (np.nan, np.nan)
        intervals.append(Interval(float(ends[0]), float(ends[1])))
    return intervals
