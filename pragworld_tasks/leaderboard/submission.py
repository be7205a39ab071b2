"""What a submission of a run says, wherever it goes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pragworld_tasks.data.documents import OWN
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import METRIC_TEXTS
from pragworld_tasks.evaluation.run_record import RunRecord
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.leaderboard.boards import BoardRun

PAPER_URL = "https://arxiv.org/abs/2511.13021"
PAPER_NAME = "PragWorld paper (arXiv 2511.13021), released run"
_CHANGED = ("hf-ablated", "steered")  # kinds of models of lm-eval that change what a model computes
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # the name of a model on the Hub


class SubmittedMetric(NamedTuple):
    """A metric as submissions report it, by the released scoring if its name says `_published`."""

    name: str
    description: str
    share: Share


@dataclass(frozen=True)
class Submission:
    """A run to submit: its model, DEVELOPER/MODEL, when it began, and where others can read it."""

    run: BoardRun
    model: str
    date: datetime | None = None
    source_url: str | None = None
    source_name: str | None = None  # the paper, of released runs

    @property
    def task(self) -> str:
        """The lm-eval task; for other answers, the one that puts the paper's prompt."""
        record = self.run.record
        return record.environment.task or f"pragworld_{record.data.split}"

    def metrics(self) -> list[SubmittedMetric]:
        """Return the metrics that are defined, those by the released scoring last."""
        report = self.run.report
        return [
            SubmittedMetric(name + suffix, METRIC_TEXTS[name]["meaning"] + remark, share)
            for shares, suffix, remark in (
                (report.metrics, "", ""),
                (report.released, "_published", ", by the released scoring"),
            )
            for name, share in shares.items()
            if share.total
        ]


def to_submissions(
    runs: Sequence[BoardRun],
    model: str | None = None,
    date: datetime | None = None,
    source_url: str | None = None,
) -> list[Submission]:
    """Return the runs of one model, one for each task, as submissions.

    Its name is the one that it was loaded by unless `model` is another, DEVELOPER/MODEL; `date` is
    when it answered, where the runs do not say it.
    """
    submissions, loaded = [], set()
    for run in runs:
        record, named = run.record, run.record.model
        check_submittable(record)
        name = model or named.adapter or named.name
        if not _REPOSITORY.fullmatch(name) or (record.source == "responses" and not model):
            raise InputError(
                f"{name}: not a name by which others find the model; pass --model DEVELOPER/MODEL"
            )
        if record.source != "responses":
            loaded.add(named.adapter or named.name)
        source = (PAPER_URL, PAPER_NAME) if record.source == "published" else (source_url, None)
        submissions.append(Submission(run, name, _began(record, date), *source))
    tasks = [submission.task for submission in submissions]
    if len(loaded) > 1 or len({*tasks}) < len(tasks):
        raise InputError(
            f"the runs are of {', '.join(sorted(loaded))} on {', '.join(tasks)}; submit one model "
            "at a time, and one run of each task"
        )
    return submissions


def check_submittable(record: RunRecord) -> None:
    """Refuse a run whose figures are not a model's, or on documents that nobody else has."""
    if record.data.split == OWN:
        raise InputError(
            f"{record.model.name}: on documents that nobody else has; submit a run on our splits"
        )
    if record.source == "readings" or record.environment.backend in _CHANGED:
        raise InputError(
            f"{record.model.name}: not what a model answers; submit a run of the model as it is"
        )


def check_repeatable(record: RunRecord) -> None:
    """Refuse a run that is yet to come, or of a model that others cannot evaluate."""
    check_submittable(record)
    _began(record)
    for name in (record.model.name, record.model.adapter or ""):
        if name.startswith("./"):
            raise InputError(
                f"{name}: a folder, which nobody else can evaluate; publish the model on the Hub"
            )


def _began(record: RunRecord, stated: datetime | None = None) -> datetime | None:
    """Return when a run began, `stated` if its record does not say, and refuse what is to come."""
    try:
        ran = record.environment.date
        began = stated if ran is None else datetime.fromisoformat(ran)
    except ValueError as error:
        raise InputError(f"{record.model.name}: environment.date: {error}") from error
    if began and not began.tzinfo:
        began = began.replace(tzinfo=UTC)
    if began and began > datetime.now(UTC) + timedelta(days=1):
        raise InputError(f"{record.model.name}: began on {began:%Y-%m-%d}, which is yet to come")
    return began
