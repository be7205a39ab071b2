"""The folder of an authoring run: the records of all stages, and the files made of them."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from pragworld_tasks.authoring.records import (
    RECORD_FILES,
    AuthoredConversation,
    AuthoredQuestion,
    AuthoredVariant,
    AuthoringRecord,
    Dropped,
    Label,
    Place,
    SeedEntities,
    schemas,
)
from pragworld_tasks.authoring.settings import settings_difference
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import (
    check_new,
    read_json,
    read_json_lines,
    read_text,
    refusing,
)
from pragworld_tasks.journal import exclusive
from pragworld_tasks.text import format_count

RUN_FILE, JOURNAL = "run.json", "replies.jsonl"
LOCK = ".lock"
_RERUN = "rerun `author` with --overwrite"
_RESULT_FILES = (
    *("documents.jsonl", "documents.csv", "audit.json", "report.md", "review.html"),
    *("schema.json", "reviews.jsonl", JOURNAL),
)

_Record = TypeVar("_Record", bound=AuthoringRecord)


@dataclass(frozen=True)
class StageRecords:
    """The records of all stages; each field is a file of `RECORD_FILES`.

    Attributes:
        entities: stage 1.
        conversations: stage 2.
        variants: stage 3, originals included.
        questions: stage 4.
        labels: stage 5, as they are after review.
        dropped: what did not pass a check, in all stages.
    """

    entities: tuple[SeedEntities, ...]
    conversations: tuple[AuthoredConversation, ...]
    variants: tuple[AuthoredVariant, ...]
    questions: tuple[AuthoredQuestion, ...]
    labels: tuple[Label, ...]
    dropped: tuple[Dropped, ...]

    def document_at(self, place: Place) -> tuple[AuthoredVariant, AuthoredQuestion]:
        """Return the text of a document, and its question.

        Raises:
            KeyError: One of them is missing.
        """
        question = self._questions.get(place) or self._questions[place[0], None]
        return self._variants[place], question

    @cached_property
    def _variants(self) -> dict[Place, AuthoredVariant]:
        return {variant.place: variant for variant in self.variants}

    @cached_property
    def _questions(self) -> dict[tuple[int, int | None], AuthoredQuestion]:
        return {(question.conversation, question.variant): question for question in self.questions}


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder, from what is read of it to what is written.

    Raises:
        InputError: Another process is writing to it.
    """
    with exclusive(folder / LOCK, folder):
        yield


def check_labelled(folder: Path) -> None:
    """Refuse what is not the folder of an `author` run that has finished.

    Raises:
        InputError: It has no labels.
    """
    if not (folder / "labels.jsonl").is_file():
        raise InputError(
            f"{folder}: no labels.jsonl in it; pass the --out folder of a finished "
            "`pragworld-tasks author`"
        )


def read_stages(folder: Path) -> StageRecords:
    """Read the records of a folder that `author` has finished.

    Raises:
        InputError: A file is missing, a line of it is not such a record, or a label is of no
            document.
    """
    check_labelled(folder)
    records: dict[str, Any] = {
        name.removesuffix(".jsonl"): tuple(read_records(folder / name, record, _RERUN))
        for name, record in RECORD_FILES.items()
    }
    stages = StageRecords(**records)
    for label in stages.labels:
        try:
            for place in (label.place, (label.conversation, 0)):
                stages.document_at(place)
        except KeyError as error:
            raise InputError(
                f"{folder / 'labels.jsonl'}: variant {label.variant} of conversation "
                f"{label.conversation} has no text or no question; {_RERUN}"
            ) from error
    return stages


def read_records(path: Path, record: type[_Record], remedy: str) -> Iterator[_Record]:
    """Yield the records of one file, which may be empty.

    Args:
        path: the file.
        record: what each line is.
        remedy: what to do about a line that is not such a record.

    Raises:
        InputError: The file cannot be read, or a line of it is not such a record.
    """
    if not read_text(path).strip():
        return  # nothing was dropped, for instance
    for where, value in read_json_lines(path):
        try:
            yield record.model_validate_json(json.dumps(value))
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            place = ".".join(map(str, problem["loc"]))
            where.refuse(f"{place!r}: {problem['msg']}; {remedy}")


class RunState(AuthoringRecord):
    """What `run.json` holds: which run the other files of a folder come from.

    Attributes:
        settings: what the run's requests depend on, as JSON values.
        goal: what the run has reached from their replies: `agree` and, unless the documents were
            given, `groups`.
    """

    settings: dict[str, Any]
    goal: dict[str, Any]


def read_run(folder: Path) -> RunState:
    """Read the `run.json` of a folder.

    Raises:
        InputError: The file is missing, cannot be read, or is not such a file.
    """
    path = folder / RUN_FILE
    if not path.exists():
        raise InputError(
            f"{path}: missing, as a run was interrupted; rerun the `pragworld-tasks author` that "
            "writes the folder"
        )
    try:
        return RunState.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"{path}: not written by `pragworld-tasks author`; choose another folder"
        ) from error


def is_finished(folder: Path, run: RunState, overwrite: bool) -> bool:
    """Return whether a folder holds the files of a run already, and check that it can hold them.

    Args:
        folder: the folder.
        run: the run. A folder of other settings is refused.
        overwrite: whether the files may be computed again, for another goal as well.

    Raises:
        InputError: The folder has files of other settings, of another goal, or of something else,
            or cannot be written.
    """
    _check_writable(folder)
    if not (folder / RUN_FILE).exists():
        journals = sorted(folder.glob("replies*.jsonl"))
        files = {*folder.iterdir()} - {folder / LOCK} if folder.exists() else set()
        if not journals and (foreign := sorted(files)):
            raise InputError(
                f"{folder}: not the folder of an `author` run, for {foreign[0].name} is in it; "
                "choose another folder"
            )
        for journal in journals:
            _check_journal(journal, run)
        return False
    before = read_run(folder)
    _check_settings(folder / RUN_FILE, before.settings, run)
    if overwrite:
        return False
    if changed := settings_difference(before.goal, run.goal):
        remedy = "to go on from its replies"
        if (wanted := run.goal.get("groups", 0)) < before.goal.get("groups", 0):
            remedy = (
                f"to write the files of {format_count(wanted, 'group')} alone; all replies stay"
            )
        raise InputError(
            f"{folder} is finished, with {changed}; pass --overwrite {remedy}, or choose another "
            "folder"
        )
    return True


def _check_writable(folder: Path) -> None:
    """Refuse a folder into which a run's files cannot be written, before they are paid for."""
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not place.is_dir():
        raise InputError(f"--out {folder}: {place} is a file; choose a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"--out {folder}: {place} cannot be written to; choose another folder")
    check_new((folder / name for name in (*RECORD_FILES, *_RESULT_FILES)), overwrite=True)


def _check_journal(path: Path, run: RunState) -> None:
    """Refuse the replies of other settings. An interruption may have left a file without any."""
    with refusing(path):
        header, *replies = path.read_bytes().split(b"\n")[:-1] or [b""]
    try:
        settings = {**json.loads(header)["settings"]} if header else {}
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{path}: corrupt, or not written by `author`; choose another folder"
        ) from error
    if replies:
        _check_settings(path, settings, run)


def _check_settings(path: Path, settings: Mapping[str, Any], run: RunState) -> None:
    if changed := settings_difference(settings, run.settings):
        raise InputError(
            f"{path}: written with {changed}; use the same again, or choose another folder"
        )


def stage_files(records: StageRecords) -> dict[str, bytes]:
    """Return the content of each file of records, and of `schema.json`, by name."""
    lines = {
        f"{field.name}.jsonl": "".join(
            record.model_dump_json() + "\n" for record in getattr(records, field.name)
        )
        for field in fields(records)
    }
    schema = json.dumps(schemas(), indent=2) + "\n"
    return {name: text.encode() for name, text in {**lines, "schema.json": schema}.items()}
