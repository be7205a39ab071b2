"""From documents and answers to metrics: shares with intervals, breakdowns, comparison of two runs.

Everything that people read here is in percent, as in the paper's tables; differences are in points.
"""

import copy
import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, TypeVar

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, computed_field

from pragworld_tasks.data.breakdowns import BREAKDOWNS
from pragworld_tasks.data.documents import (
    Answer,
    Document,
    Split,
    documents_digest,
    has_alterations,
)
from pragworld_tasks.data.label_readings import readings_of
from pragworld_tasks.data.sources import is_released
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import (
    LEVEL,
    NO,
    UNREADABLE,
    YES,
    Bools,
    Interval,
    Ints,
    Name,
    Run,
    Tally,
    bootstrap_intervals,
    tallies,
    tally,
)
from pragworld_tasks.evaluation.responses import Predictions
from pragworld_tasks.text import (
    format_interval,
    format_percent,
    format_size,
    markdown_table,
    null_if_nan,
)

if TYPE_CHECKING:
    from pandas import DataFrame

Value = TypeVar("Value")

# A number of percent, which JSON has as null where it is NaN.
Percent = Annotated[
    float,
    # One object for every NaN: two shares are then equal if their figures are.
    BeforeValidator(lambda value: math.nan if value is None or value != value else value),
    PlainSerializer(null_if_nan, return_type=float | None, when_used="json"),
]
_SIGNS: dict[Answer | None, int] = {"yes": YES, "no": NO, None: UNREADABLE}
_GOLD: tuple[Answer, ...] = ("yes", "no")
_WITHOUT_ALTERATIONS = ("acc", "yes_acc", "no_acc", "unreadable")
_OF_READ_LABELS = ("robust_acc_undisputed", "acc_undisputed", "determined_acc", "undetermined_acc")
_OF_BASES = ("entailed_acc", "excluded_acc", "undetermined_acc")
_ABOUT_LABELS: dict[Split, Sequence[str]] = {
    "manual": _OF_READ_LABELS,
    "generated": _OF_BASES,
    "generated_entity_tracking": _OF_BASES,
}


class Share(BaseModel):
    """A metric: how many are right, out of how many.

    Attributes:
        right, total: the two numbers.
        low, high: the ends of the interval of their share, in percent.
        stderr: the standard error of their share, with documents clustered by group, in percent.
    """

    model_config = ConfigDict(frozen=True)

    right: int
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
        """The interval in percent."""
        return Interval(self.low, self.high)


@dataclass(frozen=True)
class ScoreReport:
    """One run on one split: its metrics, with intervals, and breakdowns of its accuracy.

    Every metric is an attribute, in percent: `report.robust_acc`. Intervals come from a bootstrap
    over groups and are computed when they are first needed.

    Attributes:
        documents: the documents of one split.
        predictions: the answers, in the order of the documents.
    """

    documents: Sequence[Document]
    predictions: Predictions = dataclasses.field(repr=False)

    @property
    def split(self) -> Split:
        """The split that the documents are from."""
        return self.documents[0].split

    @cached_property
    def documents_digest(self) -> str:
        """The digest of the documents that are scored."""
        return documents_digest(self.documents)

    @property
    def responses_digest(self) -> str:
        """The digest of the documents that the responses were given to.

        It differs from that of the documents that are scored where some gold answers differ.
        """
        return self.predictions.documents_digest or self.documents_digest

    @cached_property
    def run(self) -> Run:
        """The answers as arrays, with the documents' own groups."""
        return to_run(self.documents, self.predictions.ours)

    @cached_property
    def metrics(self) -> dict[str, Share]:
        """The metrics by name, as `metrics.tallies` lists them."""
        return _shares(shown_tallies(self.run, self.split))

    @cached_property
    def has_alterations(self) -> bool:
        """Whether the documents have altered variants, and so metrics such as robust accuracy."""
        return "robust_acc" in shown_tallies(self.run, self.split)

    @cached_property
    def published(self) -> dict[str, Share]:
        """The metrics by the released code's grouping and its reading of responses.

        Empty for the synthetic split: how the paper counts `cannot answer` is not in the released
        code.
        """
        if self.split == "synthetic":
            return {}
        released = to_released_run(self.documents, self.predictions.released)
        shown = shown_tallies(released, self.split)
        left_out = _OF_READ_LABELS if self.split == "manual" else ()
        return _shares({name: shown[name] for name in shown if name not in left_out})

    @property
    def shown_published(self) -> dict[str, Share]:
        """What tables show of `published`: nothing for a split that the paper has no tables of."""
        return self.published if is_released(self.split) else {}

    @cached_property
    def breakdowns(self) -> dict[str, dict[str, dict[Answer, Share]]]:
        """Accuracy by name of the breakdown, class, and gold answer (paper, Tables 5, 6 and 8)."""
        run = self.run
        classes = {
            (breakdown, name, gold): tally(
                run.correct, mask & (run.gold == _SIGNS[gold]), run.group
            )
            for breakdown in BREAKDOWNS
            if breakdown != "alteration" or self.has_alterations
            for name, mask in _masks(self.documents, breakdown).items()
            for gold in _GOLD
        }
        nested: dict[str, dict[str, dict[Answer, Share]]] = {}
        for (breakdown, name, gold), share in _shares(classes).items():
            nested.setdefault(breakdown, {}).setdefault(name, {})[gold] = share
        return nested

    def __getattr__(self, name: str) -> float:
        if "documents" not in self.__dict__ or name.startswith("_"):  # as while it is unpickled
            raise AttributeError(name)
        if name in self.metrics:
            return self.metrics[name].percent
        raise AttributeError(f"{type(self).__name__} of the split {self.split} has no {name!r}")

    def interval(self, metric: str) -> Interval:
        """Return the 95 % interval of a metric, in percent.

        Raises:
            InputError: The split is not measured by that metric.
        """
        return _named(self.metrics, metric, "metric").interval

    def by(self, breakdown: str) -> dict[str, dict[Answer, Share]]:
        """Return accuracy by class and gold answer.

        Args:
            breakdown: `alteration` (paper, Table 5), `length` (Table 6) or `question type`
                (Table 8).

        Raises:
            InputError: There is no such breakdown for this split.
        """
        return _named(self.breakdowns, breakdown, "breakdown")

    def to_frame(self) -> "DataFrame":
        """Return the metrics as a data frame, one in each row."""
        from pandas import DataFrame

        rows = {name: share.model_dump() for name, share in self.metrics.items()}
        columns = ["right", "total", "percent", "low", "high", "stderr"]
        return DataFrame.from_dict(rows, orient="index")[columns]

    def to_text(self) -> str:
        """Return the metrics and the breakdowns as Markdown tables."""
        metrics = markdown_table(
            f"{self.split}: {format_size(len(self.documents), self.groups)}",
            ["metric", "right", "%", f"{LEVEL:.0%} interval"]
            + (["released scoring", "%"] if self.shown_published else []),
            [
                [name, *_cells(share), format_interval(share.interval)]
                + (_cells(self.published.get(name)) if self.shown_published else [])
                for name, share in self.metrics.items()
            ],
        )
        breakdowns = [
            markdown_table(
                f"accuracy by {breakdown}",
                [breakdown, "gold yes", "%", "gold no", "%"],
                [
                    [name, *(cell for share in by_gold.values() for cell in _cells(share))]
                    for name, by_gold in classes.items()
                ],
            )
            for breakdown, classes in self.breakdowns.items()
        ]
        return "\n".join([metrics, *breakdowns])

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(np.unique(self.run.group))


def score(
    documents: Iterable[Document], responses: Predictions | Iterable[str | None]
) -> ScoreReport:
    """Score what a model answered to the documents of a split.

    Args:
        documents: the documents of one split, all of them or some whole groups.
        responses: a response to each document, in the same order (None where an API refused to
            answer), or what `read_predictions` read from a file.

    Returns:
        The metrics of section 5 of the paper with intervals, and breakdowns.

    Raises:
        InputError: There are no documents, one of them is there twice, a group has several
            originals, they are from several splits, an answer is neither yes nor no, or the
            responses are not as many, or were read for documents with other texts.

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
    splits = sorted({document.split for document in documents})
    if len(splits) != 1:
        held = f"are of the splits {', '.join(splits)}" if splits else "are missing"
        raise InputError(f"the documents to score {held}; pass those of one split")
    row, times = Counter(document.row for document in documents).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"{times} of the documents to score have row {row}; pass each once, and score sets "
            "that number their rows alike by themselves"
        )
    if has_alterations(splits[0]):
        _check_originals(documents)
    if not isinstance(responses, Predictions):
        responses = Predictions.from_responses(responses)
    responses.check_documents(documents)
    _check_answers(documents, responses)
    return ScoreReport(documents, copy.deepcopy(responses))  # the caller may change the lists


def _check_answers(documents: Sequence[Document], responses: Predictions) -> None:
    """Refuse answers that are spelt differently: they would be neither right nor wrong."""
    for document, *answers in zip(documents, responses.ours, responses.released, strict=True):
        if document.answer not in _GOLD or any(answer not in _SIGNS for answer in answers):
            raise InputError(
                f"row {document.row}: the gold answer is {document.answer!r}, and the answers are "
                f"{answers[0]!r} and {answers[1]!r}; each must be 'yes' or 'no', or None for a "
                "response that cannot be read"
            )


def _check_originals(documents: Sequence[Document]) -> None:
    """Refuse sets of documents that number their groups alike: each would count as one group."""
    originals: dict[int, int] = {}
    for document in documents:
        if (
            document.is_original
            and originals.setdefault(document.group, document.row) != document.row
        ):
            raise InputError(
                f"group {document.group} has two originals, rows {originals[document.group]} and "
                f"{document.row}; score sets that number their groups alike by themselves"
            )


def to_run(documents: Sequence[Document], answers: Sequence[Answer | None]) -> Run:
    """Return the arrays that the metrics are computed from.

    Args:
        documents: a split, or some documents of one.
        answers: the answer to each document; None where the response could not be read.

    Raises:
        ValueError: There are not as many answers as documents.
    """
    if len(answers) != len(documents):
        raise ValueError(f"{len(answers)} answers to {len(documents)} documents")
    group = _integers(document.group for document in documents)
    readings = readings_of(documents)
    return Run(
        gold=_integers(_SIGNS[document.answer] for document in documents),
        predicted=_integers(_SIGNS[answer] for answer in answers),
        group=group,
        robust_group=group,
        is_original=_booleans(document.is_original for document in documents),
        flips=_booleans(document.effect == "flip" for document in documents),
        keeps=_booleans(document.effect == "invariant" for document in documents),
        disputed=_booleans(bool(read and read.is_disputed) for read in readings),
        entailed=_booleans(document.basis == "entailed" for document in documents),
        excluded=_booleans(document.basis == "excluded" for document in documents),
        undetermined=_booleans(
            read.is_undetermined if read else document.basis == "undetermined"
            for document, read in zip(documents, readings, strict=True)
        ),
    )


def to_released_run(documents: Sequence[Document], answers: Sequence[Answer | None]) -> Run:
    """Return what `to_run` does, with originals and robust groups as the released scoring has."""
    return dataclasses.replace(
        to_run(documents, answers),
        robust_group=_integers(document.released_group for document in documents),
        is_original=_booleans(document.released_is_original for document in documents),
    )


def shown_tallies(run: Run, split: Split) -> dict[str, Tally]:
    """Return the metrics that the split has.

    Only some make sense without alterations. Only the manual split has read labels, and only of
    generated documents is it known what the answer rests on. What documents of a user's own have is
    up to them.
    """
    about_labels, altered = _ABOUT_LABELS.get(split, ()), has_alterations(split)
    if split == "own":
        altered = not run.is_original.all()
        about_labels = _OF_BASES if (run.entailed | run.excluded | run.undetermined).any() else ()
    others = {*_OF_READ_LABELS, *_OF_BASES}.difference(about_labels)
    return {
        name: shown
        for name, shown in tallies(run).items()
        if name in about_labels
        or (name not in others and (altered or name in _WITHOUT_ALTERATIONS))
    }


def _named(mapping: Mapping[str, Value], name: str, what: str) -> Value:
    if name not in mapping:
        raise InputError(f"{what} {name!r} does not exist; choose from {', '.join(mapping)}")
    return mapping[name]


def _masks(documents: Sequence[Document], breakdown: str) -> dict[str, Bools]:
    """Return which documents are in each class, for the classes that have any."""
    classify, names = BREAKDOWNS[breakdown]
    classes = np.array([classify(document) for document in documents])
    return {name: classes == name for name in names if (classes == name).any()}


def _shares(tallies: Mapping[Name, Tally]) -> dict[Name, Share]:
    intervals = bootstrap_intervals(tallies)
    return {
        name: Share(
            right=int(counted.right.sum()),
            total=int(counted.total.sum()),
            low=100 * intervals[name].low,
            high=100 * intervals[name].high,
            stderr=100 * counted.standard_error,
        )
        for name, counted in tallies.items()
    }


def _cells(share: Share | None) -> list[str]:
    if share is None:
        return ["-", "-"]
    return [f"{share.right}/{share.total}", format_percent(share.percent)]


def _integers(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _booleans(values: Iterable[bool]) -> Bools:
    return np.fromiter(values, dtype=np.bool_)
