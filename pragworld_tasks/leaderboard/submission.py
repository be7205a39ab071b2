"""What a submission of a run says, wherever it goes, and the files of one to our leaderboard."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pragworld_tasks.data.documents import OWN
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import METRIC_TEXTS
from pragworld_tasks.evaluation.run_record import RunRecord
from pragworld_tasks.evaluation.runs import RECORD
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
    """A run to submit, with the name of its model, DEVELOPER/MODEL, and when it began.

    The source is where it can be read: for a released run, the paper.
    """

    run: BoardRun
    model: str
    date: datetime | None = None
    source_url: str | None = None

    @property
    def record(self) -> RunRecord:
        """The record of the run."""
        return self.run.record

    @property
    def source_name(self) -> str | None:
        """The source of a released run: the paper. None for others."""
        return PAPER_NAME if self.record.source == "published" else None

    @property
    def task(self) -> str:
        """The lm-eval task; for other answers, the one that puts the paper's prompt."""
        return self.record.environment.task or f"pragworld_{self.record.data.split}"

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
        ran = record.environment.date
        began = datetime.fromisoformat(ran) if ran else date
        if began and not began.tzinfo:
            began = began.replace(tzinfo=UTC)
        url = PAPER_URL if record.source == "published" else source_url
        submissions.append(Submission(run, name, began, url))
    tasks = [submission.task for submission in submissions]
    if len(loaded) > 1 or len({*tasks}) < len(tasks):
        raise InputError(
            f"the runs are of {', '.join(sorted(loaded))} on {', '.join(tasks)}; submit one model "
            "at a time, and one run of each task"
        )
    return submissions


def submission_files(runs: Sequence[BoardRun]) -> dict[Path, bytes]:
    """Return the files of a submission to the leaderboard, by their names; `runs` has one run."""
    run, *others = runs
    if others:
        raise InputError(f"{len(runs)} runs, of {run.name} first; pass the samples_*.jsonl of one")
    check_repeatable(run.record)
    if not run.files or run.files[0].suffix != ".jsonl":
        raise InputError(f"{run.name}: no samples of lm-eval; pass the folder that it wrote")
    return {
        Path(RECORD): (json.dumps(run.record.to_json(), indent=2, allow_nan=False) + "\n").encode(),
        **{Path(path.name): path.read_bytes() for path in run.files},
    }


def check_submittable(record: RunRecord) -> None:
    """Refuse a run whose figures are not a model's, or on documents that nobody else has."""
    if record.data.split == OWN:
        raise InputError(
            f"{record.model.name}: a run on documents of your own, which nobody else can be "
            "compared on; submit a run on a released or generated split"
        )
    if record.source == "readings" or record.environment.backend in _CHANGED:
        raise InputError(
            f"{record.model.name}: not what a model answers; submit a run of the model as it is"
        )


def check_repeatable(record: RunRecord) -> None:
    """Refuse a record that is not of a run of lm-eval on a model that others can evaluate."""
    check_submittable(record)
    if record.source != "lm-eval":
        raise InputError(
            f"{record.model.name}: from {record.source}; pass the folder that lm_eval wrote with "
            "--log_samples and --output_path"
        )
    for name in (record.model.name, record.model.adapter or ""):
        if name.startswith("./"):
            raise InputError(
                f"{name}: a folder, which nobody else can evaluate; publish the model, and "
                "evaluate it by its name on the Hub"
            )
