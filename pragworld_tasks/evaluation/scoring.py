"""Score a run: the metrics of its answers as shares with intervals, and breakdowns of accuracy.

Everything that people read here is in percent, as in the paper's tables; differences are in points.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, computed_field

from pragworld_tasks.data.breakdowns import BREAKDOWNS
from pragworld_tasks.data.documents import Document, Split, documents_digest, has_alterations
from pragworld_tasks.data.sources import is_released
from pragworld_tasks.errors import InputError, logger
from pragworld_tasks.evaluation.metrics import (
    OF_READINGS,
    AnswerArrays,
    released_applies,
    shown_tallies,
    to_arrays,
    unreadable_warning,
)
from pragworld_tasks.evaluation.responses import Predictions
from pragworld_tasks.evaluation.statistics import (
    LEVEL,
    Bools,
    Interval,
    Name,
    Tally,
    bootstrap_intervals,
    detectable_difference,
    tally,
)
from pragworld_tasks.text import (
    format_interval,
    format_number,
    format_percent,
    format_size,
    markdown_table,
    null_if_nan,
)

# A number of percent, which JSON has as null where it is NaN.
Percent = Annotated[
    float,
    # One object for every NaN: two shares are then equal if their figures are.
    BeforeValidator(lambda value: math.nan if value is None or value != value else value),
    PlainSerializer(null_if_nan, return_type=float | None, when_used="json"),
]
NOT_APPLICABLE, NOT_KNOWN = "not applicable", "not known"


class Share(BaseModel):
    """A metric: how many are right, out of how many.

    The interval and the standard error are clustered by group, and in percent.
    """

    model_config = ConfigDict(frozen=True)

    right: int | float
    total: int
    low: Percent = math.nan
    high: Percent = math.nan
    stderr: Percent = math.nan

    @computed_field  # type: ignore[prop-decorator]
    @property
    def percent(self) -> Percent:
        """The share in percent; NaN where the metric covers no document."""
        return 100 * self.right / self.total if self.total else math.nan

    @property
    def interval(self) -> Interval:
        """The two ends of the interval."""
        return Interval(self.low, self.high)


class Printed:
    """What prints as a table, and is one in notebooks."""

    table: Callable[[], tuple[str, list[str], list[list[str]]]]

    def __repr__(self) -> str:
        return markdown_table(*self.table())

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        title, headers, rows = self.table()
        return f"<p>{escape(title)}</p>{DataFrame(rows, columns=headers).to_html(index=False)}"


@dataclass(frozen=True, repr=False)
class ScoreReport(Printed):
    """One run on one split: its metrics, with intervals, and breakdowns of its accuracy.

    Every metric is an attribute, in percent: `report.robust_acc`. Intervals come from a bootstrap
    over groups and are computed when they are first needed. It prints as a table of its metrics.
    """

    documents: Sequence[Document]
    predictions: Predictions
    name: str = field(default="", compare=False)

    @property
    def split(self) -> Split:
        """The split that the documents are from."""
        return self.documents[0].split

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.group_names)

    @cached_property
    def group_names(self) -> Sequence[Any]:
        """The numbers of the groups, in the order of the tallies."""
        return [*np.unique(self.arrays.group).tolist()]

    @cached_property
    def documents_digest(self) -> str:
        """The digest of the documents."""
        return documents_digest(self.documents)

    @property
    def responses_digest(self) -> str:
        """The digest of the documents that were answered, whose gold answers may be others."""
        return self.predictions.documents_digest or self.documents_digest

    @cached_property
    def arrays(self) -> AnswerArrays:
        """The answers as arrays, with the documents' own groups."""
        return to_arrays(self.documents, self.predictions.ours)

    @property
    def correct(self) -> Bools:
        """Whether each document is answered right."""
        return self.arrays.correct

    @cached_property
    def tallies(self) -> dict[str, Tally]:
        """Right answers and documents in each group, by metric."""
        return shown_tallies(self.arrays, self.split)

    @cached_property
    def metrics(self) -> dict[str, Share]:
        """The metrics by name, as `metrics.tallies` lists them."""
        return shares_of(self.tallies)

    @property
    def main_metric(self) -> str:
        """The metric that ranks runs: robust accuracy, or accuracy where there is none."""
        return "robust_acc" if "robust_acc" in self.tallies else "acc"

    @property
    def detectable(self) -> str:
        """The differences that `detectable_difference` finds, as a line of text."""
        found = [
            f"{format_number(100 * detectable_difference(self.tallies[name]), '.1f')} in {name}"
            for name in ("robust_acc", "acc")
            if name in self.tallies
        ]
        return f"detectable difference, in points: {', '.join(found)}"

    @cached_property
    def unreadable_reasons(self) -> dict[str, int]:
        """How many responses are unreadable by reason, the most frequent first."""
        answers = self.predictions.answers
        reasons = (answer.reason or NOT_KNOWN for answer in answers if answer.answer is None)
        return dict(Counter(reasons).most_common())

    @property
    def unreadable_text(self) -> str:
        """How many responses are unreadable and why, such as `4 (3 empty, 1 cut off)`."""
        reasons = self.unreadable_reasons
        known = [f"{count} {reason}" for reason, count in reasons.items() if reason != NOT_KNOWN]
        return f"{sum(reasons.values())}" + (f" ({', '.join(known)})" if known else "")

    @property
    def warning(self) -> str:
        """What to do about unreadable responses; "" if they are few."""
        reasons = self.unreadable_reasons
        return unreadable_warning(sum(reasons.values()), len(self.documents), reasons)

    @cached_property
    def released(self) -> dict[str, Share]:
        """The metrics by the released code's grouping and its reading of responses.

        Empty where it reads less than half of the answers that we do, and so does not apply, and
        for the synthetic split: how the paper counts `cannot answer` is not in the released code.
        """
        ours, theirs = (
            sum(answer is not None for answer in answers)
            for answers in (self.predictions.ours, self.predictions.released)
        )
        if self.split == "synthetic" or not released_applies(theirs, ours):
            return {}
        arrays = to_arrays(self.documents, self.predictions.released, released_grouping=True)
        shown = shown_tallies(arrays, self.split)
        if self.split == "manual":  # the readings of its labels are not in the released code
            shown = {name: shown[name] for name in shown if name not in OF_READINGS}
        return shares_of(shown)

    @property
    def shows_released(self) -> bool:
        """Whether tables show `released`, as those of the paper do."""
        return is_released(self.split) and self.split != "synthetic"

    @cached_property
    def breakdowns(self) -> dict[str, dict[str, dict[str, Share]]]:
        """Accuracy by name of the breakdown, class, and gold answer.

        They are `alteration` (paper, Table 5), `length` (Table 6) and `question type` (Table 8).
        """
        arrays, counted = self.arrays, {}
        for breakdown, (classify, names) in BREAKDOWNS.items():
            if breakdown == "alteration" and self.main_metric == "acc":
                continue
            classes = np.array([classify(document) for document in self.documents])
            for name in dict.fromkeys([*names, *filter(None, classes.tolist())]):
                for place, gold in enumerate(arrays.labels if name in classes else ()):
                    covered = (classes == name) & (arrays.gold == place)
                    counted[breakdown, name, gold] = tally(arrays.correct, covered, arrays.group)
        nested: dict[str, dict[str, dict[str, Share]]] = {}
        for (breakdown, name, gold), share in shares_of(counted).items():
            nested.setdefault(breakdown, {}).setdefault(name, {})[gold] = share
        return nested

    def __getattr__(self, name: str) -> float:
        if "documents" not in self.__dict__ or name.startswith("_"):  # as while it is unpickled
            raise AttributeError(name)
        if name in self.metrics:
            return self.metrics[name].percent
        raise AttributeError(f"{type(self).__name__} of the split {self.split} has no {name!r}")

    def table(self) -> tuple[str, list[str], list[list[str]]]:
        """Return the metrics, and beside them the figures by the released scoring."""
        title = f"{self.split}: {format_size(len(self.documents), self.groups)}"
        if self.unreadable_reasons:
            title += f"; unreadable: {self.unreadable_text}"
        headers = ["metric", "right", "%", f"{LEVEL:.0%} interval"]
        rows = [
            [name, *share_cells(share), format_interval(share.interval)]
            for name, share in self.metrics.items()
        ]
        if self.shows_released:
            headers += ["released scoring", "%"]
            released = self.released
            for row in rows:
                row += share_cells(released.get(row[0])) if released else [NOT_APPLICABLE, "-"]
        return title, headers, rows

    def to_text(self) -> str:
        """Return metrics and breakdowns as Markdown tables, and what differences are detectable."""
        breakdowns = [
            markdown_table(
                f"accuracy by {breakdown}",
                [breakdown, *(of for label in self.arrays.labels for of in (f"gold {label}", "%"))],
                [
                    [name, *(cell for share in by_gold.values() for cell in share_cells(share))]
                    for name, by_gold in classes.items()
                ],
            )
            for breakdown, classes in self.breakdowns.items()
        ]
        return "\n".join(filter(None, [repr(self), *breakdowns, self.detectable]))


def score(
    documents: Iterable[Document],
    responses: Predictions | Iterable[str | None],
    name: str = "",
) -> ScoreReport:
    """Score what a model answered to the documents of a split.

    Args:
        documents: the documents of one split, all of them or some whole groups.
        responses: a response to each document, in the same order (None where an API refused to
            answer), or what `read_predictions` read from a file.
        name: what messages and comparisons call the run.

    Returns:
        The metrics of section 5 of the paper with intervals, and breakdowns. If many responses are
        unreadable, a warning says what to do.

    Raises:
        InputError: The documents are none or of several splits, one is there twice, a group has
            several originals, or the responses are not as many or are to other texts.

    Examples:
        >>> import pragworld_tasks as pt
        >>> documents = pt.generate(groups=10, seed=7)
        >>> answers = [document.answer for document in documents]
        >>> report = pt.score(documents, answers)
        >>> report.robust_acc
        100.0
        >>> report.metrics["yes_acc"].right == answers.count("yes")
        True
    """
    documents = tuple(documents)
    check_documents(documents)
    if not isinstance(responses, Predictions):
        responses = Predictions.from_responses(responses)
    responses = responses.read_against(documents[0].labels)
    responses.check_documents(documents, name or "the run")
    report = ScoreReport(documents, responses, name)
    if report.warning:
        logger.warning("%s", ": ".join(filter(None, (name, report.warning))))
    return report


def check_documents(documents: Sequence[Document]) -> None:
    """Refuse documents of several splits, one that occurs twice, and groups with two originals."""
    splits = sorted({document.split for document in documents})
    if len(splits) != 1:
        held = f"of the splits {', '.join(splits)}" if splits else "missing"
        raise InputError(f"the documents are {held}; pass those of one split")
    alike = Counter(f"have row {document.row}" for document in documents)
    if has_alterations(splits[0]):
        originals = [document for document in documents if document.is_original]
        alike.update(f"are the original of group {document.group}" for document in originals)
    what, times = alike.most_common(1)[0]
    if times > 1:
        raise InputError(
            f"{times} documents {what}; pass each once, and sets that number their documents alike "
            "by themselves"
        )


def shares_of(tallies: Mapping[Name, Tally]) -> dict[Name, Share]:
    """Return the share that each tally comes to, with its interval."""
    intervals = bootstrap_intervals(tallies)
    return {
        name: Share(
            right=int(right) if (right := float(counted.right.sum())).is_integer() else right,
            total=int(counted.total.sum()),
            low=100 * intervals[name].low,
            high=100 * intervals[name].high,
            stderr=100 * counted.standard_error,
        )
        for name, counted in tallies.items()
    }


def share_cells(share: Share | None) -> list[str]:
    """Return what tables show of a share: how many are right out of how many, and in percent."""
    if share is None:
        return ["-", "-"]
    return [f"{share.right:.7g}/{share.total}", format_percent(share.percent)]
