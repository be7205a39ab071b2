"""What the page of one run shows besides its metrics: conventions, calibration, broken groups."""

from collections import Counter
from typing import Any

from pragworld_tasks.evaluation.scoring import ScoreReport
from pragworld_tasks.leaderboard.calibration import Calibration, calibrate
from pragworld_tasks.leaderboard.runs import BoardRun


def run_content(run: BoardRun) -> dict[str, Any]:
    """Return what the template of a run needs, besides its row of the leaderboard."""
    return {
        "undetermined": _undetermined_answers(run.report),
        "calibration": _calibration(run),
        "broken": _broken_groups(run.report) if run.report.has_alterations else [],
    }


def _undetermined_answers(report: ScoreReport) -> dict[str, int]:
    """Return how often each answer is given to the documents whose label rests on a convention."""
    answers = zip(report.predictions.ours, report.run.undetermined, strict=True)
    counts = Counter(answer or "unreadable" for answer, undetermined in answers if undetermined)
    return dict(counts.most_common())


def _calibration(run: BoardRun) -> Calibration | None:
    """Return the calibration of the answers that have a probability; None without any."""
    sure = [
        (answer.yes, document.answer)
        for answer, document in zip(run.record.answers, run.documents, strict=True)
        if answer.yes is not None
    ]
    return calibrate(*zip(*sure, strict=True)) if sure else None


def _broken_groups(report: ScoreReport) -> list[tuple[int, int, int]]:
    """Return number, wrong answers and documents of each group that is not answered right."""
    sizes = Counter(document.group for document in report.documents)
    wrong = Counter(
        document.group
        for document, right in zip(report.documents, report.run.correct, strict=True)
        if not right
    )
    return [(group, wrong[group], sizes[group]) for group in sorted(wrong)]
