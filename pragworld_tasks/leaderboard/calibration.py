"""How sure a run is of its answers, and how often it is right when it is that sure."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pragworld_tasks.data.documents import Answer

_EDGES = (50, 60, 70, 80, 90, 100)


class ConfidenceBin(NamedTuple):
    """The answers of which a run is similarly sure; all in percent but the counts.

    Attributes:
        low, high: the probabilities of the answer that was given, from low to below high.
        right, total: how many of the answers are right.
        confidence: mean probability of the answer that was given.
    """

    low: int
    high: int
    right: int
    total: int
    confidence: float


class Calibration(NamedTuple):
    """How the probabilities of a run's answers compare with how often they are right.

    Attributes:
        bins: the answers by the probability of the answer that was given; empty bins are left out.
        error: expected calibration error, in percent: the mean distance between confidence and
            accuracy of a bin, weighted by its answers.
        brier: Brier score: the mean squared distance of the probability of yes to the gold answer.
    """

    bins: list[ConfidenceBin]
    error: float
    brier: float


def calibrate(yes: Sequence[float], gold: Sequence[Answer]) -> Calibration:
    """Return the calibration of a run.

    Args:
        yes: the probability of yes for each document.
        gold: the gold answers. An answer of 50 % is neither yes nor no, and so wrong.

    Examples:
        >>> calibrate([0.75, 0.75, 0.75, 0.75], ["yes", "yes", "yes", "no"]).error
        0.0
    """
    probability = np.asarray(yes, dtype=np.float64)
    is_yes = np.array([answer == "yes" for answer in gold])
    confidence = 100 * np.maximum(probability, 1 - probability)
    right = np.where(is_yes, probability > 0.5, probability < 0.5)
    number = np.searchsorted(_EDGES[1:-1], confidence, side="right")
    bins = []
    for place, (low, high) in enumerate(pairwise(_EDGES)):
        inside = number == place
        if inside.any():
            mean = float(confidence[inside].mean())
            bins.append(ConfidenceBin(low, high, int(right[inside].sum()), int(inside.sum()), mean))
    error = sum(abs(100 * part.right - part.total * part.confidence) for part in bins)
    return Calibration(
        bins, float(error / len(right)), float(np.square(probability - is_yes).mean())
    )
