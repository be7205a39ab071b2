"""The runs of a leaderboard: whatever a user names, as records with their metrics."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import is_released, load_split
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.run_record import RunRecord
from pragworld_tasks.evaluation.runs import common_split, find_runs
from pragworld_tasks.evaluation.scoring import ScoreReport


@dataclass(frozen=True)
class BoardRun:
    """A run on a leaderboard.

    Attributes:
        name: a name that no other run on the same documents has.
        record: its record.
        report: its metrics, computed from its answers.
        files: the files that its answers were read from.
    """

    name: str
    record: RunRecord
    report: ScoreReport
    files: Sequence[Path] = ()

    @property
    def documents(self) -> Sequence[Document]:
        """The documents that were answered."""
        return self.report.documents

    @property
    def main_metric(self) -> str:
        """The metric that ranks the run: robust accuracy, or accuracy without alterations."""
        return "robust_acc" if self.report.has_alterations else "acc"


def load_runs(arguments: Sequence[str]) -> list[BoardRun]:
    """Return the runs that a user names, the second of a name and documents as `NAME (2)`.

    Args:
        arguments: what `find_runs` takes.

    Raises:
        InputError: A run cannot be read or is not whole.
    """
    released = cache(load_split)
    times: Counter[tuple[str, str]] = Counter()
    runs = []
    for run in find_runs(arguments):
        on = run.split or common_split([run])
        documents = released(on) if is_released(on) else run.documents()
        if documents is None:
            raise InputError(f"{run.name}: the responses do not hold their documents")
        report = run.score(documents)
        if report.responses_digest != report.documents_digest:
            raise InputError(f"{run.name}: texts or gold answers are not those of the split {on}")
        record = run.to_record(report)
        names = (record.model.name, record.model.adapter)
        name = " + ".join(name.rpartition("/")[2] for name in names if name)
        times[name, record.data.digest] += 1
        number = times[name, record.data.digest]
        name = f"{name} ({number})" if number > 1 else name
        runs.append(BoardRun(name, record, report, run.files))
    return runs
