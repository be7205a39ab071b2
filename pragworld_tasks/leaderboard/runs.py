"""The runs of a leaderboard: whatever a user names, as checked records with their documents."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import is_released, load_split
from pragworld_tasks.data.splits import GENERATED, OWN, generate_documents
from pragworld_tasks.dialogues.tracking import tracking_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.runs import (
    RunSource,
    common_split,
    documents_in_samples,
    find_runs,
    refuse_results,
)
from pragworld_tasks.evaluation.scoring import ScoreReport, score
from pragworld_tasks.leaderboard.private_values import is_folder
from pragworld_tasks.leaderboard.record import (
    RECORD,
    RunRecord,
    generator_settings,
    read_record,
    to_record,
)


@dataclass(frozen=True)
class BoardRun:
    """A run on a leaderboard.

    Attributes:
        name: a name that no other run on the same documents has.
        record: its record, checked.
        report: its metrics, computed from the record's answers.
        place: the record's file, or the folder of the responses; None for shipped answers.
    """

    name: str
    record: RunRecord
    report: ScoreReport
    place: Path | None = None

    @property
    def documents(self) -> Sequence[Document]:
        """The documents that were answered."""
        return self.report.documents


def load_runs(arguments: Sequence[str], split: str | None = None) -> list[BoardRun]:
    """Return the runs that a user names, each checked against its documents.

    Args:
        arguments: what `score` takes (files of responses, folders of lm-eval's results,
            `published:MODEL`, `readings:majority`), and run records (`.json`, or their folders).
        split: the split of responses that do not name theirs.

    Raises:
        InputError: A run cannot be read, is not whole, or contradicts itself.
    """
    known: dict[str, list[Document]] = {}
    runs: list[BoardRun] = []
    for argument in arguments:
        if (Path(argument) / RECORD).is_file():  # a submission, whose samples don't name the model
            argument = str(Path(argument) / RECORD)
        if argument.endswith(".json"):
            refuse_results(Path(argument))
            record = read_record(Path(argument))
            if record.source in ("published", "readings"):
                raise InputError(
                    f"{argument}: its answers come with the package; name published:MODEL or "
                    "readings:majority instead"
                )
            report = record.report(_documents_of_record(record, known))
            runs.append(BoardRun(_name_of(record), record, report, Path(argument)))
            continue
        for source in find_runs([argument], split):
            documents = _documents_of_source(source, split, known)
            report = score(documents, source.read(documents))
            record = to_record(source, report)
            place = source.files[0].parent if source.files else None
            runs.append(BoardRun(_name_of(record), record, report, place))
    return _with_different_names(runs)


def _documents_of_record(record: RunRecord, known: dict[str, list[Document]]) -> Sequence[Document]:
    digest = record.data.digest
    if digest not in known:
        if record.data.split == OWN:
            raise InputError(
                f"{record.model.name}: the record does not hold its documents, which are a user's "
                "own; pass lm-eval's folder instead"
            )
        if is_released(record.data.split):
            known[digest] = load_split(record.data.split)
        elif record.data.split == GENERATED and record.data.generator:
            known[digest] = generate_documents(**record.data.generator)
        elif record.data.generator:
            settings = generator_settings(record.data.split, record.data.generator)
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
    """Return the name of the model, and of its adapter, without their developers."""
    return " + ".join(name.rstrip("/").rpartition("/")[2] for name in _whole_names(record))


def _whole_names(record: RunRecord) -> list[str]:
    return [name for name in (record.model.name, record.model.adapter) if name]


def _with_different_names(runs: Sequence[BoardRun]) -> list[BoardRun]:
    """Return the runs with what tells those of one name apart.

    That is the developers of their models, if these differ, then where models without a developer
    were, then their tasks, then a number.
    """
    named = list(runs)
    for describe in (_with_developer, _with_place, _with_task, _with_number):
        alike: dict[tuple[str, str], list[int]] = {}
        for place, run in enumerate(named):
            alike.setdefault((run.name, run.record.data.digest), []).append(place)
        for places in alike.values():
            if len(places) > 1:
                names = describe([named[place] for place in places])
                for place, name in zip(places, names, strict=True):
                    named[place] = replace(named[place], name=name)
    return named


def _with_developer(runs: Sequence[BoardRun]) -> list[str]:
    whole = [" + ".join(_whole_names(run.record)) for run in runs]
    return whole if len({*whole}) > 1 else [run.name for run in runs]


def _with_place(runs: Sequence[BoardRun]) -> list[str]:
    """Name those parts of the paths in which runs differ, and no others: they may be private."""
    places = [_parts_from_end(run) for run in runs]
    distinct = {*places}
    if () in distinct or len(distinct) == 1:
        return [run.name for run in runs]
    names = []
    for run, place in zip(runs, places, strict=True):
        shared = [
            next(number for number, part in enumerate(place) if part != other[number])
            for other in distinct - {place}
        ]
        ending = place[min(shared) : max(shared) + 1]
        names.append(f"{run.name} ({'/'.join(reversed(ending))})")
    return names


def _parts_from_end(run: BoardRun) -> tuple[str, ...]:
    """Return the parts of a run's path; none for a model with a name that others can load.

    lm-eval names the folder of a run's results after the path of the model.
    """
    if run.place is None or not (
        run.record.source == "responses" or any(map(is_folder, _whole_names(run.record)))
    ):
        return ()
    parts = str(run.place.resolve()).replace("__", "/").split("/")
    return (*(part for part in reversed(parts) if part not in ("", ".")), "/")


def _with_task(runs: Sequence[BoardRun]) -> list[str]:
    tasks = [run.record.environment.task for run in runs]
    return [
        f"{run.name}, {task.removeprefix('pragworld_')}" if task else run.name
        for run, task in zip(runs, tasks, strict=True)
    ]


def _with_number(runs: Sequence[BoardRun]) -> list[str]:
    return [f"{run.name} ({number})" for number, run in enumerate(runs, start=1)]
