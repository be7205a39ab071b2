"""Item analysis: what each document and each alteration tells about several runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pragworld_tasks.data.breakdowns import alteration_category, question_type
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.comparison import check_same_documents
from pragworld_tasks.evaluation.scoring import ScoreReport
from pragworld_tasks.files import to_csv

_YES_NO = {True: "yes", False: "no"}


@dataclass(frozen=True)
class Item:
    """A document, and how several runs answer it."""

    document: Document
    right: int  # runs whose answer is the gold one
    only_wrong: int  # runs that answer this document wrong and the rest of its group right
    # Whether no document of its group is answered right by fewer runs, and some run errs on it.
    breaks_group: bool
    is_disputed: bool  # whether all blind readings contradict the gold answer
    is_undetermined: bool  # whether the gold answer rests on a convention, not on what was said
    answers: Mapping[str, str | None]  # of each run, by name; None where it could not be read


def analyze_items(reports: Mapping[str, ScoreReport]) -> list[Item]:
    """Return how several runs answer each document.

    Args:
        reports: the reports of the runs by name, all on the same documents.

    Raises:
        InputError: There is no run, or the runs are on different documents.

    Examples:
        >>> import pragworld_tasks as pt
        >>> documents = pt.generate(groups=2)
        >>> runs = {word: pt.score(documents, [word] * len(documents)) for word in ("yes", "no")}
        >>> {item.right for item in analyze_items(runs)}
        {1}
    """
    if not reports:
        raise InputError("there are no runs; pass one or more")
    first = next(iter(reports.values()))
    check_same_documents(*reports.values())
    correct = np.stack([report.arrays.correct for report in reports.values()])  # [runs, documents]
    group, right = first.arrays.group, correct.sum(axis=0)
    items = []
    for place, document in enumerate(first.documents):
        in_group = group == document.group
        wrong_in_group = (~correct[:, in_group]).sum(axis=1)
        items.append(
            Item(
                document=document,
                right=int(right[place]),
                only_wrong=int((~correct[:, place] & (wrong_in_group == 1)).sum()),
                breaks_group=bool(right[place] == right[in_group].min() < len(reports)),
                is_disputed=bool(first.arrays.disputed[place]),
                is_undetermined=bool(first.arrays.undetermined[place]),
                answers={name: report.predictions.ours[place] for name, report in reports.items()},
            )
        )
    return items


def items_csv(items: Sequence[Item]) -> str:
    """Return an item analysis as CSV: a line for each document, a last column for each run."""
    rows = [
        {
            "row": item.document.row,
            "group": item.document.group,
            "alteration": alteration_category(item.document),
            "effect": item.document.effect or "",
            "question_type": question_type(item.document),
            "gold": item.document.answer,
            "runs": len(item.answers),
            "right": item.right,
            "only_wrong": item.only_wrong,
            "breaks_group": _YES_NO[item.breaks_group],
            "disputed": _YES_NO[item.is_disputed],
            "undetermined": _YES_NO[item.is_undetermined],
            "question": " ".join(item.document.question.split()),
            **{name: answer or "unreadable" for name, answer in item.answers.items()},
        }
        for item in items
    ]
    return to_csv(rows)
