"""Shares of documents in independent groups: standard errors, intervals, exact tests and ranks.

A `Tally` holds how many are right out of how many for each group of documents, because only groups
are independent: an original and its variants share almost all of their text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Name = TypeVar("Name")

LEVEL = 0.95
RESAMPLES = 10_000
LEAST_GROUPS = 2  # with fewer, nothing says how much groups differ
_CHUNK = 500  # resamples drawn at a time: bounds the memory that many groups would take


@dataclass(frozen=True)
class Tally:
    """Right answers and documents covered, summed within each group: two arrays of [groups]."""

    right: Floats
    total: Floats

    @property
    def share(self) -> float:
        """Right answers out of all documents covered; NaN where none is."""
        total = self.total.sum()
        return float(self.right.sum() / total) if total else float("nan")

    @property
    def groups(self) -> int:
        """The number of groups with documents that are covered."""
        return int(np.count_nonzero(self.total))

    @property
    def standard_error(self) -> float:
        """The standard error of `share`, with documents clustered by group.

        The linearized variance of a ratio of two sums over groups. Where every group is one
        document it is the usual standard error of a mean. NaN with fewer than two groups.
        """
        groups = self.groups
        if groups < LEAST_GROUPS:
            return float("nan")
        counted = self.total > 0
        residual = self.right[counted] - self.share * self.total[counted]
        variance = groups / (groups - 1) * np.square(residual).sum()
        return float(np.sqrt(variance) / self.total.sum())


class Interval(NamedTuple):
    """The two ends of an interval, in the unit of its metric; NaN where that is not defined."""

    low: float
    high: float


class McNemar(NamedTuple):
    """An exact McNemar test: pairs that only the first or only the second gets right, and p."""

    only_first: int
    only_second: int
    p: float


class SignFlip(NamedTuple):
    """A sign-flip test: groups in which the first or the second has more right, and p."""

    first_ahead: int
    second_ahead: int
    p: float


class Rank(NamedTuple):
    """The place of a run among others, 1 for the best, and the ends of its interval."""

    place: int
    low: int
    high: int


def tally(values: ArrayLike, covered: ArrayLike, group: ArrayLike) -> Tally:
    """Return right answers and documents covered within each group.

    All are arrays of [documents]: 1 where the answer is right, or whatever else is counted; whether
    the metric covers the document; and the number of its group.

    Examples:
        >>> counted = tally([1, 0, 1], covered=[1, 1, 1], group=[5, 5, 8])
        >>> counted.right.tolist(), counted.total.tolist(), round(counted.share, 3)
        ([1.0, 1.0], [2.0, 1.0], 0.667)
    """
    names, number = np.unique(np.asarray(group, dtype=np.int64), return_inverse=True)
    covered = np.asarray(covered, dtype=np.float64)
    right = np.asarray(values, dtype=np.float64) * covered
    return Tally(
        np.bincount(number, right, minlength=len(names)).astype(np.float64),
        np.bincount(number, covered, minlength=len(names)).astype(np.float64),
    )


def robust_tally(
    correct: ArrayLike,
    robust_group: ArrayLike,
    group: ArrayLike,
    covered: ArrayLike | None = None,
) -> Tally:
    """Return the tally of robust accuracy: groups with every document right (paper, section 5).

    All of a `robust_group` have to be right; it is a `group`, or a part of one. All are arrays of
    [documents], of which those that are `covered` count, or all.

    Examples:
        >>> robust_tally([1, 1, 0, 1], robust_group=[0, 0, 1, 1], group=[0, 0, 1, 1]).share
        0.5
    """
    names, first, number = np.unique(robust_group, return_index=True, return_inverse=True)
    wrong = ~np.asarray(correct, dtype=np.bool_)
    counts = np.ones_like(wrong) if covered is None else np.asarray(covered, dtype=np.bool_)
    wrong_in_group = np.bincount(number, weights=wrong & counts, minlength=len(names))
    covered_in_group = np.bincount(number, weights=counts, minlength=len(names))
    return tally(wrong_in_group == 0, covered_in_group > 0, np.asarray(group)[first])


def bootstrap_intervals(
    tallies: Mapping[Name, Tally], resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> dict[Name, Interval]:
    """Return percentile bootstrap intervals of several metrics of one run, drawing whole groups.

    All metrics use the same draws. A draw in which a metric covers no document is left out for that
    metric. A metric that covers fewer than two groups has no interval: NaN.
    """
    shares = _resampled_shares(tallies, resamples=resamples, seed=seed)[0]
    return {
        name: percentile_interval(drawn, level, counted.groups)
        for (name, counted), drawn in zip(tallies.items(), shares.T, strict=True)
    }


def percentile_interval(
    drawn: ArrayLike, level: float = LEVEL, groups: int = 0, lowest: float = 0.0
) -> Interval:
    """Return the middle `level` of the draws that are not NaN; NaN if all are.

    Where no draw differs, as all of the `groups` have the same share, it is exact: groups with
    another share, from `lowest` to 1, may exist, but if they were more than `rare`, so many groups
    would include one of them in all but 2.5 % of samples (at a `level` of 95 %). At 0 and at 1,
    this is the interval of Clopper and Pearson.

    Examples:
        >>> print(percentile_interval([0, 0], groups=88).high)
        0.041...
    """
    draws = np.asarray(drawn, dtype=np.float64)
    defined = draws[~np.isnan(draws)]
    tail = (1 - level) / 2
    low, high = np.quantile(defined, [tail, 1 - tail]) if defined.size else (np.nan, np.nan)
    if groups and low == high:
        rare = 1 - tail ** (1 / groups)
        low, high = low - rare * (low - lowest), high + rare * (1 - high)
    return Interval(float(low), float(high))


def bootstrap_differences(
    first: Mapping[Name, Tally],
    second: Mapping[Name, Tally],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[Name, Floats]:
    """Return first minus second in each draw of groups, [resamples] for each metric.

    Both runs are on the same documents. Draws in which a metric has no documents are NaN, and all
    draws of fewer than two groups.
    """
    shares = _resampled_shares(first, second, resamples=resamples, seed=seed)
    return dict(zip(first, (shares[0] - shares[1]).T, strict=True))


def rank_runs(tallies: Mapping[Name, Tally], resamples: int = RESAMPLES) -> dict[Name, Rank]:
    """Rank runs on the same documents by one metric, with percentile bootstrap intervals.

    Equal runs share the better place. Every draw of groups ranks all runs anew, so groups that are
    hard for all runs widen no interval. With fewer than two groups, the interval holds every place.
    """
    (drawn,) = _resampled_shares(tallies, resamples=resamples, seed=0)
    shares = np.concatenate([[[counted.share for counted in tallies.values()]], drawn])
    tail = (1 - LEVEL) / 2
    ranks = {}
    for column, name in enumerate(tallies):
        places = 1 + (shares > shares[:, [column]]).sum(axis=1)
        low, high = np.quantile(places[1:], [tail, 1 - tail], method="inverted_cdf")
        if np.isnan(drawn).all():
            low, high = 1, len(tallies)
        ranks[name] = Rank(int(places[0]), int(low), int(high))
    return ranks


def sign_flip_test(differences: ArrayLike) -> float:
    """Return the exact two-sided p of a sum whose terms could equally have the other sign.

    The terms are differences in right answers between two runs, summed within groups: integers. If
    each group is one document, it is McNemar's test.
    """
    whole = np.asarray(differences, dtype=np.int64)
    chances = sums_of_signs(np.abs(whole))
    reach = len(chances) // 2
    as_far = np.abs(np.arange(-reach, reach + 1)) >= abs(whole.sum())
    return min(1.0, float(chances[as_far].sum()))


def sums_of_signs(sizes: ArrayLike) -> Floats:
    """Return the probability of each sum, from the lowest to highest, of terms of random sign."""
    chances = np.ones(1)
    for size, count in zip(*np.unique(np.asarray(sizes), return_counts=True), strict=True):
        if size:
            spread = np.zeros(2 * int(size) * count + 1)
            spread[:: 2 * int(size)] = coin_tosses(int(count))
            chances = np.convolve(chances, spread)
    return chances


def coin_tosses(count: int) -> Floats:
    """Return the probability of each number of heads in tosses of a fair coin, from none to all."""
    from scipy.special import betaln

    heads = np.arange(count + 1)
    # A binomial coefficient of thousands is too large for a float, its logarithm is not.
    ways = -betaln(heads + 1, count - heads + 1) - np.log(count + 1)
    chances: Floats = np.exp(ways - count * np.log(2))
    return chances


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """Test two runs on the same documents or groups (exact, two-sided McNemar test).

    The test assumes independent pairs. Groups are independent; documents of one group are not, so
    over documents p is too small.
    """
    first, second = np.asarray(first, dtype=np.bool_), np.asarray(second, dtype=np.bool_)
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    from scipy.special import bdtr

    p = 2 * float(bdtr(min(only_first, only_second), only_first + only_second, 0.5))
    return McNemar(only_first, only_second, min(p, 1.0))


def detectable_difference(first: Tally, second: Tally | None = None, power: float = 0.8) -> float:
    """Return the difference that an exact paired test over groups finds with a given power.

    It is the d of `d = 1.96 sqrt(v + d² / G) + z sqrt(v) + 1 / N`, for G groups, N documents, the
    normal quantile z of the power, and the variance v of the difference of two shares, clustered by
    group. Connor (1987, Biometrics 43, 207-211) has this sum for McNemar's test; Miller (2024,
    arXiv:2411.00640, section 5) has v twice. The last term corrects for continuity.

    Args:
        first: a run's tally of robust accuracy (McNemar's test) or accuracy (sign-flip test).
        second: another run's on the same documents, whose differences give v. Without it, v is that
            of a run which errs independently and is better or worse, whichever is harder to find.
        power: in how many cases the test finds the difference.

    Returns:
        The difference of two shares; NaN if these groups are too few for any.

    Examples:
        >>> half = Tally(np.arange(100) % 2, np.ones(100))  # half of 100 groups are right
        >>> print(f"{detectable_difference(half):.3f}")
        0.206
    """
    from scipy.special import ndtri

    groups, documents, share = first.groups, first.total.sum(), first.share
    if 2 * 0.5**groups > 1 - LEVEL:  # not even if one run is ahead in every group
        return float("nan")
    # A share of p has p (1 - p) times this variance: at least that of independent documents, and if
    # all are right or wrong, that of groups whose documents are alike.
    spread, alike = share * (1 - share), np.square(first.total / documents).sum()
    unit = max(first.standard_error**2 / spread, 1 / documents) if spread else alike
    difference, most = 0.0, max(share, 1 - share)
    for _ in range(200):
        other = share + np.copysign(min(difference, most), 0.5 - share)
        error = np.sqrt(unit * (spread + other * (1 - other)))
        if second:
            error = Tally(first.right - second.right, first.total).standard_error
        without = np.hypot(error, difference / np.sqrt(groups))
        difference = float(ndtri(0.5 + LEVEL / 2) * without + ndtri(power) * error + 1 / documents)
    return difference if difference <= most else float("nan")


def average_ranks(values: ArrayLike) -> Floats:
    """Return the rank of each value, from 1; equal values share the average of theirs."""
    _, place, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    ranks: Floats = np.cumsum(counts) - (counts - 1) / 2
    return ranks[place]


def _resampled_shares(*runs: Mapping[Name, Tally], resamples: int, seed: int) -> Floats:
    """Draw groups with replacement and return the shares in each draw, [runs, resamples, metrics].

    They are NaN where a draw has no document of a metric, and for metrics of fewer than two groups.
    All runs are on the same documents.
    """
    if not runs[0]:
        return np.empty((len(runs), resamples, 0))
    right = np.stack([[run[name].right for name in runs[0]] for run in runs]).swapaxes(1, 2)
    total = np.stack([counted.total for counted in runs[0].values()], axis=1)
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
    shares[..., np.count_nonzero(total, axis=0) < LEAST_GROUPS] = np.nan
    return shares


# Calibration --------------------------------------------------------------------------------------

_EDGES = (50, 60, 70, 80, 90, 100)  # of bins of confidence, in percent


class ConfidenceBin(NamedTuple):
    """The answers whose probability, in percent, is from `low` to below `high`, and their mean."""

    low: int
    high: int
    right: int
    total: int
    confidence: float


class Calibration(NamedTuple):
    """How the probabilities of a run's answers compare with how often they are right.

    The expected calibration error, in percent, is the mean distance between confidence and accuracy
    of a bin, weighted by its answers. The Brier score is the mean squared distance of the
    probability of yes to the gold answer. Empty bins are left out.
    """

    bins: list[ConfidenceBin]
    error: float
    brier: float


def calibrate(yes: Sequence[float], gold: Sequence[str]) -> Calibration:
    """Return the calibration of probabilities of yes. One of 50 % is neither answer: wrong."""
    probability = np.asarray(yes, dtype=np.float64)
    is_yes = np.array([answer == "yes" for answer in gold])
    confidence = 100 * np.maximum(probability, 1 - probability)
    right = np.where(is_yes, probability > 0.5, probability < 0.5).astype(int)
    answered, correct, confident = (
        np.histogram(confidence, _EDGES, weights=weights)[0].tolist()
        for weights in (None, right, confidence)
    )
    bins = [
        ConfidenceBin(low, high, int(correct[place]), total, confident[place] / total)
        for place, (low, high) in enumerate(pairwise(_EDGES))
        if (total := answered[place])
    ]
    error = sum(abs(100 * part.right - part.total * part.confidence) for part in bins)
    brier = float(np.square(probability - is_yes).mean())
    return Calibration(bins, float(error / len(right)), brier)
