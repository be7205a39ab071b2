"""Files of documents: a table in the released format (CSV), JSON lines or Parquet.

Users read their own documents from such a file, which we or somebody else's program wrote. One that
contradicts itself or another one is refused with its line or row.
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from difflib import get_close_matches
from itertools import chain, count
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from pragworld_tasks.data.documents import OWN, Answer, Basis, Document, Effect
from pragworld_tasks.data.readers import (
    FIELDS,
    alteration_of,
    known_fields,
    read_parquet,
    read_table,
)
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import Where, check_output, read_json_lines, write_whole
from pragworld_tasks.text import line_changes

# Reading ------------------------------------------------------------------------------------------


class DocumentRecord(BaseModel, strict=True, extra="allow"):
    """A document of a user's own, with what else a file says of it."""

    context: str = Field(pattern=r"\S")
    question: str = Field(pattern=r"\S")
    answer: Answer
    group: int | None = Field(None, strict=False)
    alteration: str | None = None
    basis: Basis | None = None


def read_documents(path: str | Path) -> list[Document]:
    r"""Read documents of your own from a file.

    Args:
        path: a file of JSON lines, or a table if its name ends in `.csv`, `.tsv` or `.parquet`. A
            document has `context`, `question` and `answer`, and may have `group`, a number that an
            original shares with its altered variants; `alteration`, which a variant needs; and
            `basis`. Their case does not matter, nor what separates the cells of a table. In a table
            without groups, each original is followed by its variants.

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
    records = _read_records(Path(path))
    numbers = [record.group for _, record in records if record.group is not None]
    unused = count(max(numbers, default=-1) + 1)
    asked: dict[tuple[str, str], Where] = {}
    originals: dict[int | None, DocumentRecord] = {}
    for where, record in records:
        if record.group is None:
            record.group = next(unused)
        first = asked.setdefault((record.context, record.question), where)
        if first is not where:  # it would count twice
            where.refuse(f"the same context and question as in row {first.row}; remove one of them")
        if not record.alteration and originals.setdefault(record.group, record) is not record:
            where.refuse(
                f"group {record.group} has another original; a group is one original and its "
                "altered variants, so give one of them another number"
            )
    documents = []
    for row, (where, record) in enumerate(records):
        if not (original := originals.get(record.group)):
            where.refuse(
                "an altered variant needs an original with the same 'group'; add the original"
            )
        documents.append(own_document(row, record, original))
    return documents


def with_further_fields(
    rows: list[dict[str, Any]], metadata: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return rows of a data set; those of own documents with all that their file says, as text."""
    if not rows or rows[0]["split"] != OWN:
        return rows
    further = [
        {
            name: value if isinstance(value, str) else json.dumps(value, default=str)
            for name, value in (record.model_extra or {}).items()
        }
        for _, record in _read_records(Path(metadata["documents"]))
    ]
    none = dict.fromkeys(chain(*further), "")
    return [none | fields | row for fields, row in zip(further, rows, strict=True)]


def _read_records(path: Path) -> list[tuple[Where, DocumentRecord]]:
    readers = {".csv": read_table, ".tsv": read_table, ".parquet": read_parquet}
    reader = readers.get(path.suffix.lower(), read_json_lines)
    records, group = [], -1
    for where, content in reader(path):
        fields = known_fields(content, where)
        missing = [name for name in FIELDS if name not in fields]
        for name in fields:  # one that is misspelt would have no effect
            if similar := get_close_matches(name.lower(), missing, n=1, cutoff=0.75):
                where.refuse(f"{name!r} is not read; did you mean {similar[0]!r}? Rename the field")
        fields["alteration"] = alteration_of(where, fields)
        group += fields["alteration"] is None
        if reader is read_table:
            fields.setdefault("group", group)
        for name in {"answer", "group", "basis"} & {*fields}:
            if isinstance(value := fields[name], str):
                fields[name] = None if value.strip() in ("", "-") else value.strip().lower()
        record = where.validate(DocumentRecord, fields)
        if record.basis and (record.basis == "entailed") != (record.answer == "yes"):
            where.refuse(
                f"basis {record.basis!r} contradicts answer {record.answer!r}; only what is "
                "entailed is answered yes"
            )
        records.append((where, record))
    if not records:
        raise InputError(f"{path}: no documents; write at least one")
    return records


def own_document(row: int, record: DocumentRecord, original: DocumentRecord) -> Document:
    """Return a document of a user's own, whose group's original is given."""
    fields = record.model_dump(include={*FIELDS})
    effect: Effect = "invariant" if record.answer == original.answer else "flip"
    return Document(
        row=row,
        is_original=record is original,
        effect=None if record is original else effect,
        split=OWN,
        released_group=fields["group"],
        released_is_original=record is original,
        **fields,
    )


# Writing ------------------------------------------------------------------------------------------


def write_documents(documents: Iterable[Document], target: Path, overwrite: bool = False) -> int:
    """Write documents, and what each alteration changed, in the format of the file's name.

    Args:
        documents: each original followed by its variants.
        target: a file name that ends in `.csv` (the released format), `.jsonl` or `.parquet`.
        overwrite: replace the file if there is one.

    Returns:
        The number of documents.

    Raises:
        InputError: The target has another ending, exists, or cannot be written.
    """
    writers = {".csv": _to_csv, ".jsonl": _to_json_lines, ".parquet": _to_parquet}
    if target.suffix not in writers:
        raise InputError(f"{target}: unknown format; end the name in .csv, .jsonl or .parquet")
    check_output(target, overwrite)
    records = list(_records(documents))
    write_whole(target, writers[target.suffix](records))
    return len(records)


def _records(documents: Iterable[Document]) -> Iterator[dict[str, Any]]:
    """Yield the fields of documents, and `changes`: the fields of each change to the original."""
    original: list[str] = []
    for document in documents:
        lines = document.context.split("\n")
        original = lines if document.is_original else original
        changes = [asdict(change) for change in line_changes(original, lines)]
        yield {**asdict(document), "changes": changes}


def _to_csv(records: list[dict[str, Any]]) -> bytes:
    from pandas import DataFrame

    table = DataFrame(map(_released_row, records))
    return bytes(table.to_csv(index=False, lineterminator="\r\n").encode())


def _released_row(record: Mapping[str, Any]) -> dict[str, object]:
    """Return a document as a row of the released table. A swap has several changes."""
    changes = record["changes"]
    return {
        "Seed Index": record["group"],
        "Local Context": record["context"],
        "Question": record["question"],
        "Answer": record["answer"],
        "Basis": record["basis"] or "-",
        "Perturbation?": "FALSE" if record["is_original"] else "TRUE",
        "Perturbation Target": "-",
        "Perturbation Category": record["alteration"] or "-",
        "Perturbation Effect": (record["effect"] or "-").capitalize(),
        "Utterance Index": " | ".join(str(change["utterance"]) for change in changes),
        "Old Word": " | ".join(change["old"] for change in changes),
        "New Word": " | ".join(change["new"] for change in changes),
    }


def _to_json_lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def _to_parquet(records: list[dict[str, Any]]) -> bytes:
    from pyarrow import Table, parquet

    stream = io.BytesIO()
    parquet.write_table(Table.from_pylist(records), stream)
    return stream.getvalue()
