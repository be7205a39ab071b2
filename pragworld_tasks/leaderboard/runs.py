"""The runs of a leaderboard: whatever a user names, as records with their documents."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import OWN
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.run_record import RunRecord, is_folder
from pragworld_tasks.evaluation.runs import NamedRun, common_split, find_runs
from pragworld_tasks.evaluation.scoring import ScoreReport


@dataclass(frozen=True)
class BoardRun:
    """A run on a leaderboard.

    Attributes:
        name: a name that no other run on the same documents has.
        record: its record.
        report: its metrics, computed from its answers.
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
    """Return the runs that a user names, scored on their documents.

    Args:
        arguments: what `find_runs` takes.
        split: the split of responses that do not name theirs.

    Raises:
        InputError: A run cannot be read, is not whole, or is on documents that are not known.
    """
    known: dict[tuple[str, str], list[Document]] = {}
    return _with_different_names(
        [
            board_run(run, split, known)
            for argument in arguments
            for run in find_runs([argument], split if Path(argument).is_dir() else None)
        ]
    )


def board_run(
    run: NamedRun, split: str | None, known: dict[tuple[str, str], list[Document]]
) -> BoardRun:
    """Return a run with its record.

    Args:
        run: the run.
        split: its split, where it does not name that.
        known: documents by split and digest, where these are known; those of the run are added.
    """
    if run.record and run.source in ("published", "readings"):
        raise InputError(
            f"{run.name}: its answers come with the package; name published:MODEL or "
            "readings:majority instead"
        )
    key = (run.split or split or common_split([run]), run.record.data.digest if run.record else "")
    if run.responses and run.responses[0].document:
        key = (key[0], run.responses[0].digest or "")
    if key not in known:
        documents = (run if run.split else replace(run, split=key[0])).documents()  # type: ignore[arg-type]
        if documents is None:
            raise InputError(f"{run.name}: the responses do not hold their documents")
        known[key] = documents
    report = run.record.report(known[key]) if run.record else run.score(known[key])
    record = run.to_record(report)
    if record.data.responses_digest != record.data.digest:
        raise InputError(
            f"{run.name}: given to other documents (digest {record.data.responses_digest:.12}) "
            f"than the split {record.data.split} here ({record.data.digest:.12})"
        )
    return BoardRun(_name_of(record), record, report, run.files[0].parent if run.files else None)


def check_common_documents(record: RunRecord) -> None:
    """Refuse a run on documents of one's own, which others do not have.

    Raises:
        InputError: The run is on the split `own`.
    """
    if record.data.split == OWN:
        raise InputError(
            f"{record.model.name}: a run on documents of your own, which nobody else can be "
            "compared on; submit a run on a released or generated split"
        )


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
