"""Documents of a user's own: a file such as `pragworld-tasks generate` or `author` writes.

A document needs a context, a question and an answer; the other fields are those of `Document`, and
may be left out where they follow from the rest. A document that contradicts itself or another one
is refused with its line or row and the reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pragworld_tasks.data.document_files import read_document_records
from pragworld_tasks.data.documents import ALTERATIONS, Answer, Basis, Document, Effect
from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.files import Where

_GROUPS_END = 2**63  # of the numbers that arrays hold


class DocumentRecord(BaseModel):
    """A document of a user's own; the last six fields tell nothing about one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    context: str = Field(pattern=r"\S")
    question: str = Field(pattern=r"\S")
    answer: Answer
    group: int | None = Field(None, ge=-_GROUPS_END, lt=_GROUPS_END)
    alteration: str | None = None
    basis: Basis | None = None
    is_original: bool | None = None
    effect: Effect | None = None
    row: int | None = None
    split: str | None = None
    released_group: int | None = None
    released_is_original: bool | None = None
    turns_ago: int | None = None
    changes: list[Any] | None = None
    provenance: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.alteration not in (None, *ALTERATIONS):
            raise ValueError(
                f"unknown alteration {self.alteration!r:.60}; must be one of "
                f"{', '.join(ALTERATIONS)}"
            )
        if self.is_original not in (None, self.alteration is None):
            raise ValueError(
                "'is_original' contradicts 'alteration', which a variant needs and an original "
                "lacks; correct one of them"
            )
        if self.effect and self.alteration is None:
            raise ValueError("an original has no 'effect'; leave it out, or add the 'alteration'")
        if self.alteration and self.group is None:
            raise ValueError("an altered variant needs the 'group' of its original")
        if self.basis and (self.basis == "entailed") != (self.answer == "yes"):
            raise ValueError(
                f"basis {self.basis!r} contradicts answer {self.answer!r}; only what is entailed "
                "is answered yes"
            )
        return self


def read_documents(path: str | Path) -> list[Document]:
    r"""Read documents of your own from a file.

    Args:
        path: a file of JSON lines; a table in the released format if its name ends in `.csv`, in
            which the column `Seed Index` is the group, or, without this column, each original is
            followed by its variants; or a Parquet file if it ends in `.parquet`. Except in the
            released format, each document has `context`, `question` and `answer`, and may have
            `group`, a number that an original shares with its altered variants; `alteration`,
            which a variant needs; `basis`; and `is_original` and `effect`, which follow from the
            rest and are checked against it. Fields that only other splits have may be there, as in
            files of `pragworld-tasks generate`, and are ignored.

    Returns:
        The documents, all of the split `own`. Groups keep their numbers; originals without one get
        the next numbers after the largest.

    Raises:
        InputError: The file cannot be read, a document is malformed or contradicts another, or a
            group has no original or several. The message names the line, or the row where there
            are none.

    Examples:
        >>> import json, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "documents.jsonl"
        >>> context, question = "Ann: Where is the tea?\nBen: In the hall.", "Is the tea here?"
        >>> line = {"context": context, "question": question, "answer": "no"}
        >>> _ = path.write_text(json.dumps(line) + "\n")
        >>> [(document.split, document.answer) for document in read_documents(path)]
        [('own', 'no')]
    """
    path = Path(path)
    places, records = [], []
    first: dict[tuple[str, str], Where] = {}
    for where, fields in read_document_records(path):
        record = _validated(fields, where)
        asked = first.setdefault((record.context, record.question), where)
        if asked is not where:  # it would count twice
            where.refuse(f"the same context and question as in {asked.short}; remove one of them")
        places.append(where)
        records.append(record)
    if not records:
        raise InputError(f"{path}: no documents; write at least one")
    return _to_documents(records, places)


def check_documents(place: str | Path, documents: Sequence[Document]) -> None:
    """Check that documents with alterations do not contradict each other.

    Raises:
        InputError: A group has no original or several, or an alteration, an effect or a basis
            contradicts the other fields. The message names the row.
    """
    places = [Where(place, document.row, None) for document in documents]
    records = [
        _validated(asdict(document), where)
        for document, where in zip(documents, places, strict=True)
    ]
    checked = _to_documents(records, places)
    for document, same, where in zip(documents, checked, places, strict=True):
        if document.effect != same.effect:
            where.refuse("an altered variant without its 'effect'; name it")


def _validated(fields: Mapping[str, Any], where: Where) -> DocumentRecord:
    try:
        return DocumentRecord.model_validate(fields)
    except ValidationError as error:
        where.refuse(first_problem(error))


def _to_documents(records: Sequence[DocumentRecord], places: Sequence[Where]) -> list[Document]:
    unused = count(
        max((record.group for record in records if record.group is not None), default=-1) + 1
    )
    groups = [next(unused) if record.group is None else record.group for record in records]
    originals = _originals(records, groups, places)
    documents = []
    for row, (record, group, where) in enumerate(zip(records, groups, places, strict=True)):
        if group not in originals:
            where.refuse(f"group {group} has altered variants but no original; add the original")
        original, its_place = originals[group]
        effect: Effect | None = None
        if record.alteration:
            effect = "invariant" if record.answer == original.answer else "flip"
            if record.effect not in (None, effect):
                where.refuse(
                    f"effect {record.effect!r} contradicts the answers: {record.answer!r}, and "
                    f"{original.answer!r} in its original in {its_place.short}; correct one of "
                    "them, or leave 'effect' out"
                )
        documents.append(
            Document(
                row=row,
                context=record.context,
                question=record.question,
                answer=record.answer,
                group=group,
                is_original=record.alteration is None,
                alteration=record.alteration,
                effect=effect,
                split="own",
                released_group=group,
                released_is_original=record.alteration is None,
                basis=record.basis,
            )
        )
    return documents


def _originals(
    records: Iterable[DocumentRecord], groups: Iterable[int], places: Iterable[Where]
) -> dict[int, tuple[DocumentRecord, Where]]:
    """Return the one original of each group, and its place."""
    originals: dict[int, tuple[DocumentRecord, Where]] = {}
    for record, group, where in zip(records, groups, places, strict=True):
        if record.alteration:
            continue
        if group in originals:
            where.refuse(
                f"group {group} has another original in {originals[group][1].short}; a group is "
                "one original and its altered variants, so give one of them another number"
            )
        originals[group] = record, where
    return originals
