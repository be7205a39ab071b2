"""The runs of a leaderboard: whatever a user names, as checked records with their documents."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import is_released, load_split
from pragworld_tasks.data.splits import GENERATED, generate_documents
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.dialogues.tracking import tracking_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.runs import (
    RunSource,
    common_split,
    documents_in_samples,
    find_runs,
)
from pragworld_tasks.evaluation.scoring import ScoreReport
from pragworld_tasks.leaderboard.record import RunRecord, read_record, record_run


@dataclass(frozen=True)
class BoardRun:
    """A run on a leaderboard.

    Attributes:
        name: a name that no other run on the same documents has.
        record: its record, checked.
        report: its metrics, computed from the record's answers.
    """

    name: str
    record: RunRecord
    report: ScoreReport

    @property
    def documents(self) -> Sequence[Document]:
        """The documents that were answered."""
        return self.report.documents


def load_runs(arguments: Sequence[str], split: str | None = None) -> list[BoardRun]:
    """Return the runs that a user names, each checked against its documents.

    Args:
        arguments: what `score` takes (files of responses, folders of lm-eval's results,
            `published:MODEL`, `readings:majority`), and run records (`.json`).
        split: the split of responses that do not name theirs.

    Raises:
        InputError: A run cannot be read, is not whole, or contradicts itself.
    """
    documents: dict[str, list[Document]] = {}
    runs: list[BoardRun] = []
    for argument in arguments:
        if argument.endswith(".json"):
            records = [read_record(Path(argument))]
            if records[0].source in ("published", "readings"):
                raise InputError(
                    f"{argument}: its answers come with the package; name published:MODEL or "
                    "readings:majority instead"
                )
            sets = [_documents_of_record(records[0], documents)]
        else:
            sources = find_runs([argument], split)
            sets = [_documents_of_source(source, split, documents) for source in sources]
            records = [
                record_run(source, answered, source.read(answered))
                for source, answered in zip(sources, sets, strict=True)
            ]
        for record, answered in zip(records, sets, strict=True):
            runs.append(BoardRun(_name_of(record), record, record.report(answered)))
    return _with_different_names(runs)


def _documents_of_record(record: RunRecord, known: dict[str, list[Document]]) -> Sequence[Document]:
    digest = record.data.digest
    if digest not in known:
        if is_released(record.data.split):
            known[digest] = load_split(record.data.split)
        elif record.data.split == GENERATED and record.data.generator:
            known[digest] = generate_documents(**record.data.generator)
        elif record.data.generator:
            settings = GeneratorSettings.from_metadata(record.data.generator)
            known[digest] = list(tracking_documents(settings))
        else:
            raise InputError(
                f"{record.model.name}: the record does not say how the documents of its split "
                f"{record.data.split} were generated; pass lm-eval's folder instead"
            )
    return known[digest]


def _documents_of_source(
    source: RunSource, split: str | None, known: dict[str, list[Document]]
) -> Sequence[Document]:
    name = source.split or split or common_split([source])
    if not is_released(name):
        return documents_in_samples([source])
    if name not in known:
        known[name] = load_split(name)
    return known[name]


def _name_of(record: RunRecord) -> str:
    name = record.model.name.rstrip("/").rpartition("/")[2]
    adapter = (record.model.adapter or "").rstrip("/").rpartition("/")[2]
    return f"{name} + {adapter}" if adapter else name


def _with_different_names(runs: Sequence[BoardRun]) -> list[BoardRun]:
    """Return the runs with what tells those of one name apart: their task, then a number."""
    named = list(runs)
    for describe in (_with_task, _with_number):
        counts = Counter((run.name, run.record.data.digest) for run in named)
        numbers: Counter[tuple[str, str]] = Counter()
        for place, run in enumerate(named):
            key = (run.name, run.record.data.digest)
            if counts[key] > 1:
                numbers[key] += 1
                named[place] = replace(run, name=describe(run, numbers[key]))
    return named


def _with_number(run: BoardRun, number: int) -> str:
    return f"{run.name} ({number})"


def _with_task(run: BoardRun, _: int) -> str:
    task = run.record.environment.task
    return f"{run.name}, {task.removeprefix('pragworld_')}" if task else run.name
