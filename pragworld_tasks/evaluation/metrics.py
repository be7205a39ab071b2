"""The metrics of a run (paper, section 5): which documents each covers, and what splits have it.

Every metric is a share: so many right out of so many, counted within each group of documents.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pragworld_tasks.data.documents import GENERATED, OWN, YES_NO, Document, Split, has_alterations
from pragworld_tasks.data.label_readings import readings_of
from pragworld_tasks.evaluation.statistics import Bools, Ints, Tally, robust_tally, tally
from pragworld_tasks.files import read_package_toml

UNREADABLE = -1  # in place of the place of an answer among the labels
# Metrics of any task of which less is better.
LOWER_IS_BETTER = {"unreadable", "as", "mu", "as_unbiased", "mu_unbiased", "variance"}
# The label of each metric, its meaning, and what documents need to have it.
METRIC_TEXTS = read_package_toml(__package__, "metric_texts.toml")
OF_READINGS = {name for name in METRIC_TEXTS if "readings" in METRIC_TEXTS[name]["needs"]}
MANY_UNREADABLE = 0.05  # of the responses; with more, figures say little about the model


@dataclass(frozen=True)
class AnswerArrays:
    """The answers of one model on one split: arrays of [documents].

    Attributes:
        gold, predicted: the place among the labels; `predicted` also UNREADABLE.
        group: number of the document's group. Groups are independent of each other.
        robust_group: number of the group of which all documents have to be right for robust
            accuracy: `group`, or a part of it (the released grouping cuts some groups in two).
        is_original: whether the document is its group's original.
        flips, keeps: whether the alteration flips or keeps the answer; neither for originals.
        disputed: whether all blind readings contradict the gold answer.
        entailed, excluded: whether what was said entails what the question asks, or excludes it.
            Known of generated documents only.
        undetermined: whether the gold answer, no, rests on a convention, not on what was said.
        labels: the labels of the documents.
    """

    gold: Ints
    predicted: Ints
    group: Ints
    robust_group: Ints
    is_original: Bools
    flips: Bools
    keeps: Bools
    disputed: Bools
    entailed: Bools
    excluded: Bools
    undetermined: Bools
    labels: tuple[str, ...] = YES_NO

    @property
    def correct(self) -> Bools:
        """Whether each document is answered right; an unreadable response is wrong."""
        return np.equal(self.predicted, self.gold)


def to_arrays(
    documents: Sequence[Document],
    answers: Sequence[str | None],
    released_grouping: bool = False,
) -> AnswerArrays:
    """Return the arrays that the metrics are computed from.

    Args:
        documents: a split, or some documents of one.
        answers: the answer to each document; None where the response could not be read.
        released_grouping: take originals and robust groups as the released scoring has them.
    """
    labels = documents[0].labels if documents else YES_NO
    places: dict[str | None, int] = {label: place for place, label in enumerate(labels)}
    places[None] = UNREADABLE
    rows = [  # in the order of the attributes
        (
            places[document.answer],
            places[answer],
            document.group,
            document.released_group if released_grouping else document.group,
            document.released_is_original if released_grouping else document.is_original,
            document.effect == "flip",
            document.effect == "invariant",
            bool(read and read.is_disputed),
            document.basis == "entailed",
            document.basis == "excluded",
            read.is_undetermined if read else document.basis == "undetermined",
        )
        for document, answer, read in zip(documents, answers, readings_of(documents), strict=True)
    ]
    types = [np.int64] * 4 + [np.bool_] * 7
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    arrays: list[Any] = [*map(np.array, columns, types), labels]
    return AnswerArrays(*arrays)


def tallies(arrays: AnswerArrays) -> dict[str, Tally]:
    """Return the metrics by name, in the order in which they are shown (paper, section 5)."""
    correct, everything = arrays.correct, np.ones_like(arrays.correct)

    def accuracy(covered: Bools) -> Tally:
        return tally(correct, covered, arrays.group)

    return {
        "robust_acc": robust_tally(correct, arrays.robust_group, arrays.group),
        "acc": accuracy(everything),
        **{
            label_metric(label): accuracy(arrays.gold == place)
            for place, label in enumerate(arrays.labels)
        },
        "original_acc": accuracy(arrays.is_original),
        "altered_acc": accuracy(~arrays.is_original),
        "flip_acc": accuracy(arrays.flips),
        "invariant_acc": accuracy(arrays.keeps),
        "unreadable": tally(arrays.predicted == UNREADABLE, everything, arrays.group),
        "robust_acc_undisputed": robust_tally(
            correct, arrays.robust_group, arrays.group, ~arrays.disputed
        ),
        "acc_undisputed": accuracy(~arrays.disputed),
        "determined_acc": accuracy(~arrays.undetermined),
        "entailed_acc": accuracy(arrays.entailed),
        "excluded_acc": accuracy(arrays.excluded),
        "undetermined_acc": accuracy(arrays.undetermined),
    }


def label_metric(label: str) -> str:
    """Return the name of the accuracy on documents whose gold answer is a label.

    Examples:
        >>> label_metric("no"), label_metric("Don't know")
        ('no_acc', 'acc_don_t_know')
    """
    words = "_".join(re.findall(r"\w+", label.lower()))
    return f"{words}_acc" if words in YES_NO else f"acc_{words}"


def shown_tallies(arrays: AnswerArrays, split: Split) -> dict[str, Tally]:
    """Return the metrics that the split has; documents of a user's own, those that they allow."""
    has = {
        "answers": True,
        "variants": has_alterations(split),
        "readings": split == "manual",
        "bases": split.startswith(GENERATED),
    }
    if split == OWN:
        has["variants"] = not arrays.is_original.all()
        has["bases"] = bool((arrays.entailed | arrays.excluded | arrays.undetermined).any())
    return {
        name: counted
        for name, counted in tallies(arrays).items()
        if any(has[need] for need in METRIC_TEXTS.get(name, METRIC_TEXTS["acc"])["needs"])
    }


def released_applies(released: int, ours: int) -> bool:
    """Return whether the released scoring reads enough answers: half of those that we read."""
    return 2 * released >= ours


def unreadable_warning(unreadable: int, responses: int, reasons: Iterable[str]) -> str:
    """Return what to do about unreadable responses, by the reasons; "" if they are few."""
    if unreadable <= MANY_UNREADABLE * responses:
        return ""
    remedies = METRIC_TEXTS["unreadable"]["remedies"]
    to_do = dict.fromkeys(remedy for reason in reasons for remedy in remedies[reason])
    return (
        f"{unreadable} of {responses} responses ({unreadable / responses:.1%}) have no readable "
        f"answer and count as wrong: {'; '.join(to_do)}"
    )
