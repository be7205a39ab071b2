"""What every submission of a run says, wherever it goes: the model, the date and the metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metric_texts import METRIC_TEXTS
from pragworld_tasks.evaluation.run_record import RunRecord, is_folder
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.leaderboard.hub_names import check_repository, is_repository
from pragworld_tasks.leaderboard.runs import BoardRun, check_common_documents

PAPER_URL = "https://arxiv.org/abs/2511.13021"
PAPER_NAME = "PragWorld paper (arXiv 2511.13021), released run"
_PUBLISHED = "_published"
_CHANGED = ("hf-ablated", "steered")  # kinds of models of lm-eval that change what a model computes


@dataclass(frozen=True)
class SubmittedMetric:
    """A metric as submissions report it.

    Attributes:
        name: the metric's name; that of a metric by the released scoring ends in `_published`.
        description: what it counts.
        share: right answers out of all, in percent, with the interval and the standard error.
    """

    name: str
    description: str
    share: Share

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value is better."""
        return self.name.startswith("unreadable")


@dataclass(frozen=True)
class Submission:
    """A run to submit, under the name that its model is known by.

    Attributes:
        run: the run.
        model: name of the model, as DEVELOPER/MODEL.
        date: when the run began, where that is known.
        only: the metrics to submit; None for all.
    """

    run: BoardRun
    model: str
    date: datetime | None
    only: Sequence[str] | None = None

    @property
    def record(self) -> RunRecord:
        """The record of the run."""
        return self.run.record

    @property
    def is_published(self) -> bool:
        """Whether it is a released run of the paper."""
        return self.record.source == "published"

    @property
    def task(self) -> str:
        """The lm-eval task; for other answers, the one that puts the paper's prompt."""
        return self.record.environment.task or f"pragworld_{self.record.data.split}"

    def metrics(self) -> list[SubmittedMetric]:
        """Return the metrics to submit, those by the released scoring last.

        Raises:
            InputError: A metric to submit does not exist or is not defined.
        """
        metrics = {metric.name: metric for metric in self._all_metrics()}
        if unknown := [name for name in self.only or () if name not in metrics]:
            raise InputError(
                f"{self.run.name}: the run has no metric {unknown[0]!r}; choose from "
                f"{', '.join(metrics)}"
            )
        return [metrics[name] for name in self.only or metrics]

    def _all_metrics(self) -> list[SubmittedMetric]:
        report = self.run.report
        shares = [
            *((name, share, "", "") for name, share in report.metrics.items()),
            *(
                (name, share, _PUBLISHED, ", by the released scoring")
                for name, share in report.published.items()
            ),
        ]
        return [
            SubmittedMetric(name + suffix, METRIC_TEXTS[name].meaning + remark, share)
            for name, share, suffix, remark in shares
            if share.total
        ]


def to_submissions(
    runs: Sequence[BoardRun],
    model_name: str | None = None,
    date: str | None = None,
    metrics: Sequence[str] | None = None,
) -> list[Submission]:
    """Return the runs of one model as submissions.

    Args:
        runs: the runs, one for each task.
        model_name: the name of their model, DEVELOPER/MODEL, where the runs do not say it.
        date: when the model answered (ISO 8601), where the runs do not say it.
        metrics: names of the metrics to submit; None for all.

    Raises:
        InputError: The runs are not of one model that has a name, two are of the same task, one is
            on documents of one's own, or the date is none.
    """
    for run in runs:
        check_common_documents(run.record)
        if run.record.source == "readings":
            raise InputError(
                f"{run.name}: readings of the labels are no model's results; submit a model's run"
            )
        if run.record.environment.backend in _CHANGED:
            raise InputError(
                f"{run.name}: --model {run.record.environment.backend} changes what the model "
                "computes, so these are not its results; submit a run of --model hf"
            )
    names = {_own_name(run.record) for run in runs if run.record.source != "responses"}
    if len(names) > 1:
        raise InputError(
            f"the runs are of {len(names)} models ({', '.join(sorted(names))}); submit one model "
            "at a time"
        )
    submissions = [
        Submission(run, _model_name(run, model_name), _date(run, date), metrics) for run in runs
    ]
    tasks = [submission.task for submission in submissions]
    if repeated := sorted({task for task in tasks if tasks.count(task) > 1}):
        raise InputError(f"{tasks.count(repeated[0])} runs of {repeated[0]}; name one of them")
    return submissions


def _own_name(record: RunRecord) -> str:
    """Return the name under which the model ran: the adapter's, where there is one."""
    return record.model.adapter or record.model.name


def _model_name(run: BoardRun, model_name: str | None) -> str:
    if model_name:
        check_repository(model_name, "--model-name")
        return model_name
    own = _own_name(run.record)
    remedy = "pass --model-name DEVELOPER/MODEL"
    if run.record.source == "responses":
        raise InputError(f"{own}: a file of responses does not name its model; {remedy}")
    if is_folder(own) or Path(own).exists():
        raise InputError(f"{own}: a folder of one machine, which nobody else can load; {remedy}")
    if not is_repository(own):
        raise InputError(f"{own}: does not name the model's developer; {remedy}")
    return own


def _date(run: BoardRun, date: str | None) -> datetime | None:
    recorded = run.record.environment.date
    if date and recorded:
        raise InputError(f"--date {date}: {run.name} began at {recorded}; leave out --date")
    if not (date or recorded):
        return None
    try:
        began = datetime.fromisoformat(date or recorded or "")
    except ValueError as error:
        place = f"--date {date}" if date else f"{run.name}, date {recorded}"
        raise InputError(f"{place}: not a date; it must be as in 2026-01-31") from error
    return began if began.tzinfo else began.replace(tzinfo=UTC)
