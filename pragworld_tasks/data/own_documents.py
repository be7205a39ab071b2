"""Documents of a user's own: a file such as `pragworld-tasks generate` or `author` writes.

A document needs a context, a question and an answer, and may have a group, an alteration and a
basis. A document that contradicts itself or another one is refused with its line or row.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pragworld_tasks.data.document_files import read_document_records
from pragworld_tasks.data.documents import ALTERATIONS, Answer, Basis, Document, Effect
from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.files import Where

_GROUPS_END = 2**63  # of the numbers that arrays hold
# What files of `generate` and `author` hold besides, which follows from the rest or is not used.
_IGNORED = {
    *("row", "is_original", "effect", "split", "released_group", "released_is_original"),
    *("turns_ago", "changes", "provenance"),
}


class DocumentRecord(BaseModel):
    """A document of a user's own."""

    model_config = ConfigDict(extra="forbid", strict=True)

    context: str = Field(pattern=r"\S")
    question: str = Field(pattern=r"\S")
    answer: Answer
    group: int | None = Field(None, ge=-_GROUPS_END, lt=_GROUPS_END)
    alteration: str | None = None
    basis: Basis | None = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.alteration not in (None, *ALTERATIONS):
            raise ValueError(
                f"unknown alteration {self.alteration!r:.60}; must be one of "
                f"{', '.join(ALTERATIONS)}"
            )
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
        path: a file of JSON lines; a table in the released format if its name ends in `.csv`; or a
            Parquet file if it ends in `.parquet`. Each document has `context`, `question` and
            `answer`, and may have `group`, a number that an original shares with its altered
            variants; `alteration`, which a variant needs; and `basis`. In a table, the column
            `Seed Index` is the group; without it, each original is followed by its variants.

    Returns:
        The documents, all of the split `own`. Groups keep their numbers; originals without one get
        the next numbers after the largest.

    Raises:
        InputError: The file cannot be read, a document is malformed or occurs twice, or a group has
            no original or several.

    Examples:
        >>> import json, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "documents.jsonl"
        >>> context, question = "Ann: Where is the tea?\nBen: In the hall.", "Is the tea here?"
        >>> line = {"context": context, "question": question, "answer": "no"}
        >>> _ = path.write_text(json.dumps(line) + "\n")
        >>> [(document.split, document.answer) for document in read_documents(path)]
        [('own', 'no')]
    """
    records: list[tuple[Where, DocumentRecord]] = []
    first: dict[tuple[str, str], Where] = {}
    for where, fields in read_document_records(Path(path)):
        record = _validated(fields, where)
        asked = first.setdefault((record.context, record.question), where)
        if asked is not where:  # it would count twice
            where.refuse(f"the same context and question as in {asked.short}; remove one of them")
        records.append((where, record))
    if not records:
        raise InputError(f"{path}: no documents; write at least one")
    return _to_documents(records)


def _validated(fields: Mapping[str, Any], where: Where) -> DocumentRecord:
    known = {name: value for name, value in fields.items() if name not in _IGNORED}
    try:
        return DocumentRecord.model_validate(known)
    except ValidationError as error:
        where.refuse(first_problem(error))


def _to_documents(records: Sequence[tuple[Where, DocumentRecord]]) -> list[Document]:
    numbers = [record.group for _, record in records if record.group is not None]
    unused = count(max(numbers, default=-1) + 1)
    grouped = [
        (where, record, next(unused) if record.group is None else record.group)
        for where, record in records
    ]
    originals: dict[int, DocumentRecord] = {}
    for where, record, group in grouped:
        if not record.alteration and originals.setdefault(group, record) is not record:
            where.refuse(
                f"group {group} has another original; a group is one original and its altered "
                "variants, so give one of them another number"
            )
    documents = []
    for row, (where, record, group) in enumerate(grouped):
        if group not in originals:
            where.refuse(f"group {group} has altered variants but no original; add the original")
        effect: Effect | None = None
        if record.alteration:
            effect = "invariant" if record.answer == originals[group].answer else "flip"
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
