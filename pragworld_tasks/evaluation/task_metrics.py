"""Items of single documents and their aggregation: the metrics as lm-eval computes them.

lm-eval hands `process_results` one document at a time and gives each metric's aggregation the list
of what it returned, in no particular order, and with `--limit` without some documents. So an item
carries everything that an aggregation needs to know about a document.

Each metric comes with a `<metric>_stderr`, clustered by group, where lm-eval looks for a standard
error. A metric that covers no document, or with `--limit` no complete group, is N/A: JSON has no
NaN.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lm_eval.utils import warning_once

from pragworld_tasks.chat import content_text
from pragworld_tasks.data.breakdowns import TURNS_AGO
from pragworld_tasks.data.documents import OWN, YES_NO, Document, Split, documents_digest
from pragworld_tasks.errors import logger
from pragworld_tasks.evaluation.answers import likelier_answer, read_answer, read_answer_released
from pragworld_tasks.evaluation.metrics import (
    released_applies,
    shown_tallies,
    tallies,
    to_arrays,
    unreadable_warning,
)
from pragworld_tasks.evaluation.statistics import Tally, robust_tally, tally

RELEASED_SCORING = ("robust_acc", "original_acc", "altered_acc")  # by the released grouping, too

# Accuracy in generated entity tracking, by the number of turns since the question's subject.
TURNS_METRICS = {
    f"acc_{name.replace(' ', '_')}_turns_ago": turns for name, turns in TURNS_AGO.items()
}


# Results of one document --------------------------------------------------------------------------


class Clustered(NamedTuple):
    """A document's item under `<metric>_stderr`; `right` is None where it is not covered."""

    group: int
    right: float | None


class InGroup(NamedTuple):
    """A document's item under robust accuracy and its standard error.

    `size` is the number of documents that `robust_group` has in the whole split and the metric
    covers; `right` is None where it does not cover the document.
    """

    group: int
    robust_group: int
    size: int
    right: float | None


class ReadTwice(float):
    """1.0 if a response is unreadable, else 0.0; and whether the released scoring reads it."""

    by_released = True


def data_set_rows(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Return all documents of a split as dictionaries, with what their items need to know.

    The sizes are those of complete groups, the last one without documents whose label is disputed.
    `documents_digest` is the split's, so that every sample says what it was measured on. `metrics`
    names those that documents of one's own have.
    """
    arrays = to_arrays(documents, [None] * len(documents))
    of_all: dict[str, Any] = {"documents_digest": documents_digest(documents)}
    if documents and documents[0].split == OWN:
        of_all["metrics"] = [*shown_tallies(arrays, OWN)]
    sizes = Counter(arrays.group.tolist())
    undisputed_sizes = Counter(arrays.group[~arrays.disputed].tolist())
    released_sizes = Counter(document.released_group for document in documents)
    return [
        {
            **document.to_dict(),
            "group_size": sizes[document.group],
            "released_group_size": released_sizes[document.released_group],
            "undisputed_group_size": undisputed_sizes[document.group],
            **of_all,
        }
        for document in documents
    ]


def task_metric_names(split: Split, documents: Sequence[Document] = ()) -> list[str]:
    """Return the metrics of a task on a split, which depend on documents if they are one's own."""
    names = [*shown_tallies(to_arrays(documents, [None] * len(documents)), split)]
    if split == "manual":
        names += [f"{name}_published" for name in RELEASED_SCORING]
    return [*names, *TURNS_METRICS] if split == "generated_entity_tracking" else names


def score_response(record: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Return a document's items by metric, from the generated response."""
    response, labels = content_text(results[0]), document_labels(record)
    answers = read_answer(response, labels), read_answer_released(response, labels)
    return _items(record, *answers)


def score_likelihoods(
    record: Mapping[str, Any], results: Sequence[tuple[float, bool]]
) -> dict[str, Any]:
    """Return a document's items by metric, from the log-likelihoods of the labels."""
    answer = likelier_answer([own for own, _ in results], document_labels(record))
    return _items(record, answer, answer)


def document_labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels that a document may be answered with."""
    return tuple(record.get("labels", YES_NO))


def _items(
    record: Mapping[str, Any], answer: str | None, released_answer: str | None
) -> dict[str, Any]:
    """Return what a document contributes to each metric: each is scored as a run of its own."""
    document = Document.from_dict(record)
    arrays = to_arrays([document], [answer])
    shown = shown_tallies(arrays, document.split)
    if document.split == OWN:  # whose metrics depend on all documents
        shown = {name: tallies(arrays)[name] for name in record["metrics"]}
    sizes = {
        "robust_acc": (document.group, record["group_size"]),
        "robust_acc_undisputed": (document.group, record["undisputed_group_size"]),
    }
    if document.split == "manual":
        released = tallies(to_arrays([document], [released_answer], released_grouping=True))
        shown |= {f"{name}_published": released[name] for name in RELEASED_SCORING}
        sizes["robust_acc_published"] = (document.released_group, record["released_group_size"])
    if document.turns_ago is not None:
        for name, turns in TURNS_METRICS.items():
            asked = [document.turns_ago in turns]
            shown[name] = tally([answer == document.answer], asked, [document.group])
    items: dict[str, Any] = {}
    for name, counted in shown.items():
        right = float(counted.right.sum()) if counted.total.any() else None
        if name in sizes:
            in_group = InGroup(document.group, *sizes[name], right)
            items |= {name: in_group, f"{name}_stderr": in_group}
        else:
            items |= {name: right, f"{name}_stderr": Clustered(document.group, right)}
    items["unreadable"] = ReadTwice(items["unreadable"])
    items["unreadable"].by_released = released_answer is not None or document.split != "manual"
    return items


# Aggregations -------------------------------------------------------------------------------------


class NotAvailable(str):
    """The value of an undefined metric: lm-eval shows it as N/A and saves the string "N/A".

    lm-eval computes the metrics of a group of tasks with `+`, `*` and `/`, which leave it as it is.
    """

    __slots__ = ()
    __array_ufunc__ = None  # leaves the arithmetic with numbers of numpy to this class

    def _absorb(self, _: object) -> "NotAvailable":
        return self

    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = _absorb


def shown_value(value: float) -> float | NotAvailable:
    """Return a value as lm-eval shows and saves it; N/A where it is NaN."""
    return NotAvailable("N/A") if math.isnan(value) else value


def share(items: Sequence[float | None]) -> float | NotAvailable:
    """Return the mean over the documents that the metric covers; N/A where there are none."""
    covered = [item for item in items if item is not None]
    return shown_value(math.fsum(covered) / len(covered) if covered else math.nan)


def unreadable_share(items: Sequence[ReadTwice], written: bool) -> float | NotAvailable:
    """Return the share of unreadable responses, and warn of many, here or by the released code."""
    unreadable, released = int(sum(items)), sum(item.by_released for item in items)
    reasons = ("cut off", "no answer") if written else ("not known",)
    if warning := unreadable_warning(unreadable, len(items), reasons):
        logger.warning("%s; `pragworld-tasks score` counts the reasons", warning)
    if not released_applies(released, len(items) - unreadable):
        logger.warning(
            "the released scoring reads %d answers of the %d that are read here: the metrics "
            "…_published are not applicable",
            *(released, len(items) - unreadable),
        )
    return share(items)


def share_stderr(items: Sequence[Clustered]) -> float | NotAvailable:
    """Return the standard error of `share`, clustered by group; N/A where it is not defined."""
    covered = [item.right is not None for item in items]
    right = [item.right or 0.0 for item in items]
    return shown_value(tally(right, covered, [item.group for item in items]).standard_error)


def robust_share(items: Sequence[InGroup]) -> float | NotAvailable:
    """Return the share of complete groups with every document right; N/A where there are none."""
    complete, lacking = _complete_groups(items)
    if lacking:
        warning_once(
            logger,
            f"robust accuracy: {lacking} of {lacking + complete.total.sum():.0f} groups lack "
            "documents (--limit or --samples) and do not count",
        )
    return shown_value(complete.share)


def robust_share_stderr(items: Sequence[InGroup]) -> float | NotAvailable:
    """Return the standard error of `robust_share`; N/A where it is not defined."""
    return shown_value(_complete_groups(items)[0].standard_error)


def _complete_groups(items: Sequence[InGroup]) -> tuple[Tally, int]:
    """Return the tally of complete groups, and how many others there are."""
    covered = [item for item in items if item.right is not None]
    present = Counter(item.robust_group for item in covered)
    complete = [item for item in covered if present[item.robust_group] == item.size]
    counted = robust_tally(
        [item.right == 1.0 for item in complete],
        [item.robust_group for item in complete],
        [item.group for item in complete],
    )
    return counted, len(present) - len({item.robust_group for item in complete})
