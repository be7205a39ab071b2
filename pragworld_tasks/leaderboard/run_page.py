"""What the page of one run shows besides its metrics: breakdowns, calibration, broken groups."""

from collections import Counter
from typing import Any

import numpy as np

from pragworld_tasks.data.documents import Answer
from pragworld_tasks.evaluation.metrics import NO, YES, bootstrap_intervals, tally
from pragworld_tasks.evaluation.scoring import ScoreReport, Share
from pragworld_tasks.leaderboard.calibration import Calibration, calibrate
from pragworld_tasks.leaderboard.runs import BoardRun

_TURNS = {"0": (0, 0), "1 to 2": (1, 2), "3 to 5": (3, 5), "6 or more": (6, 10**6)}
_GOLD: dict[Answer, int] = {"yes": YES, "no": NO}


def run_content(run: BoardRun) -> dict[str, Any]:
    """Return what the template of a run needs, besides its row of the leaderboard.

    Args:
        run: the run.
    """
    report = run.report
    breakdowns = dict(report.breakdowns)
    if any(document.turns_ago is not None for document in report.documents):
        breakdowns["turns ago"] = accuracy_by_turns_ago(report)
    return {
        "breakdowns": breakdowns,
        "undetermined": _undetermined_answers(report),
        "calibration": _calibration(run),
        "broken": _broken_groups(report) if report.has_alterations else [],
    }


def accuracy_by_turns_ago(report: ScoreReport) -> dict[str, dict[Answer, Share]]:
    """Return accuracy by the number of exchanges since the question's subject, and gold answer.

    Args:
        report: a run on generated entity tracking.
    """
    turns = np.array([document.turns_ago for document in report.documents], dtype=np.float64)
    run = report.run
    counted = {
        (name, gold): tally(
            run.correct, (turns >= low) & (turns <= high) & (run.gold == sign), run.group
        )
        for name, (low, high) in _TURNS.items()
        for gold, sign in _GOLD.items()
    }
    nested: dict[str, dict[Answer, Share]] = {}
    for (name, gold), interval in bootstrap_intervals(counted).items():
        part = counted[name, gold]
        nested.setdefault(name, {})[gold] = Share(
            right=int(part.right.sum()),
            total=int(part.total.sum()),
            low=100 * interval.low,
            high=100 * interval.high,
        )
    return nested


def _undetermined_answers(report: ScoreReport) -> dict[str, int]:
    """Return how often each answer is given to the documents whose label rests on a convention."""
    return dict(
        Counter(
            answer or "unreadable"
            for answer, undetermined in zip(
                report.predictions.ours, report.run.undetermined, strict=True
            )
            if undetermined
        ).most_common()
    )


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
