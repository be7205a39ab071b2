"""From documents and answers to metrics: arrays, shares with intervals, comparison of two runs."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pragworld_tasks.data.documents import Answer, Document, Split, has_alterations
from pragworld_tasks.evaluation.breakdowns import BREAKDOWNS
from pragworld_tasks.evaluation.metrics import (
    NO,
    UNREADABLE,
    YES,
    Bools,
    Interval,
    Ints,
    McNemar,
    Name,
    Run,
    Tally,
    bootstrap_difference_intervals,
    bootstrap_intervals,
    mcnemar,
    tallies,
    tally,
)
from pragworld_tasks.evaluation.responses import Predictions

_SIGNS: dict[Answer | None, int] = {"yes": YES, "no": NO, None: UNREADABLE}
_GOLD: tuple[Answer, ...] = ("yes", "no")
# What a split without alterations is measured by.
_PLAIN = ("acc", "yes_acc", "no_acc", "unreadable")


@dataclass(frozen=True)
class Share:
    """A metric as it is shown: right answers, answers asked for, an interval in percent."""

    right: int
    total: int
    interval: Interval

    @property
    def percent(self) -> float:
        """NaN where no answer was asked for."""
        return 100 * self.right / self.total if self.total else math.nan


@dataclass(frozen=True)
class Report:
    """Everything about one run on one split.

    Attributes:
        metrics: by name, as `metrics.tallies` has them.
        published: the same by the released code's grouping and its reading of responses. Empty for
            the synthetic split: how the paper counts `cannot answer` is not in the released code.
        breakdowns: of accuracy: by name of the breakdown, class, and gold answer.
    """

    split: Split
    documents: int
    groups: int
    metrics: dict[str, Share]
    published: dict[str, Share]
    breakdowns: dict[str, dict[str, dict[Answer, Share]]]


@dataclass(frozen=True)
class Difference:
    """First run minus second in one metric, in points of percent, with an interval."""

    points: float
    interval: Interval


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same documents.

    Attributes:
        differences: by metric.
        on_documents: exact McNemar test over documents, right or wrong.
        on_groups: the same over groups, right where all their documents are; None without groups.
    """

    differences: dict[str, Difference]
    on_documents: McNemar
    on_groups: McNemar | None


def to_run(documents: Sequence[Document], answers: Sequence[Answer | None]) -> Run:
    """The arrays that the metrics are computed from.

    Args:
        documents: a split, or some documents of one.
        answers: what was answered to each; None where it could not be read.

    Raises:
        ValueError: as many answers as documents were not given.
    """
    if len(answers) != len(documents):
        raise ValueError(f"{len(answers)} answers to {len(documents)} documents")
    group = _integers(document.group for document in documents)
    return Run(
        gold=_integers(_SIGNS[document.answer] for document in documents),
        predicted=_integers(_SIGNS[answer] for answer in answers),
        group=group,
        robust_group=group,
        is_original=_booleans(document.is_original for document in documents),
        flips=_booleans(document.effect == "flip" for document in documents),
        keeps=_booleans(document.effect == "invariant" for document in documents),
    )


def to_released_run(documents: Sequence[Document], answers: Sequence[Answer | None]) -> Run:
    """The same as `to_run`, with originals and robust groups as the released scoring has them."""
    return dataclasses.replace(
        to_run(documents, answers),
        robust_group=_integers(document.released_group for document in documents),
        is_original=_booleans(document.released_is_original for document in documents),
    )


def shown_tallies(run: Run, split: Split) -> dict[str, Tally]:
    """The metrics of a run that make sense for its split: without alterations, only some do."""
    shown = tallies(run)
    return {name: shown[name] for name in shown if has_alterations(split) or name in _PLAIN}


def score(documents: Sequence[Document], predictions: Predictions) -> Report:
    """Metrics, metrics as published, and breakdowns of a run, all with intervals.

    Args:
        documents: all documents of one split.
        predictions: what was answered to them, in their order.
    """
    split = documents[0].split
    run = to_run(documents, predictions.ours)
    released = to_released_run(documents, predictions.released)
    classes = {
        (breakdown, name, gold): tally(run.correct, mask & (run.gold == _SIGNS[gold]), run.group)
        for breakdown, (classify, names) in BREAKDOWNS.items()
        if breakdown != "alteration" or has_alterations(split)
        for name, mask in _masks(documents, classify, names).items()
        for gold in _GOLD
    }
    breakdowns: dict[str, dict[str, dict[Answer, Share]]] = {}
    for (breakdown, name, gold), share in _shares(classes).items():
        breakdowns.setdefault(breakdown, {}).setdefault(name, {})[gold] = share
    return Report(
        split=split,
        documents=len(documents),
        groups=len(np.unique(run.group)),
        metrics=_shares(shown_tallies(run, split)),
        published=_shares(shown_tallies(released, split)) if split != "synthetic" else {},
        breakdowns=breakdowns,
    )


def compare(documents: Sequence[Document], first: Predictions, second: Predictions) -> Comparison:
    """The differences between two runs on the same documents, and whether they may be chance.

    Args:
        documents: all documents of one split.
        first: what one model answered to them, in their order.
        second: what the other did.
    """
    split = documents[0].split
    runs = [to_run(documents, predictions.ours) for predictions in (first, second)]
    ours, theirs = (shown_tallies(run, split) for run in runs)
    intervals = bootstrap_difference_intervals(ours, theirs)
    return Comparison(
        differences={
            name: Difference(100 * (one.share - theirs[name].share), _in_percent(intervals[name]))
            for name, one in ours.items()
        },
        on_documents=mcnemar(runs[0].correct, runs[1].correct),
        on_groups=mcnemar(ours["robust_acc"].right > 0, theirs["robust_acc"].right > 0)
        if has_alterations(split)
        else None,
    )


def _masks(
    documents: Sequence[Document], classify: Callable[[Document], str], names: Sequence[str]
) -> dict[str, Bools]:
    """Which documents are in each class, for the classes that have any."""
    classes = np.array([classify(document) for document in documents])
    return {name: classes == name for name in names if (classes == name).any()}


def _shares(tallies: Mapping[Name, Tally]) -> dict[Name, Share]:
    intervals = bootstrap_intervals(tallies)
    return {
        name: Share(int(one.right.sum()), int(one.total.sum()), _in_percent(intervals[name]))
        for name, one in tallies.items()
    }


def _in_percent(interval: Interval) -> Interval:
    return Interval(100 * interval.low, 100 * interval.high)


def _integers(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _booleans(values: Iterable[bool]) -> Bools:
    return np.fromiter(values, dtype=np.bool_)
