"""Files of documents: a table in the released format (CSV), JSON lines or Parquet.

Users read their own documents from such a file, which `pragworld-tasks generate` or `author` or
somebody else's program wrote. A document that contradicts itself or another one is refused with its
line or row.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from pragworld_tasks.data.documents import ALTERATIONS, OWN, Answer, Basis, Document, Effect
from pragworld_tasks.data.readers import read_parquet, read_table
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import Where, check_output, read_json_lines, write_whole
from pragworld_tasks.text import line_changes

# Reading ------------------------------------------------------------------------------------------


class DocumentRecord(BaseModel, strict=True):
    """A document of a user's own. What else a file says of it is ignored."""

    context: str = Field(pattern=r"\S")
    question: str = Field(pattern=r"\S")
    answer: Answer
    group: int | None = Field(None, strict=False)
    alteration: str | None = Field(None, pattern=f"^({'|'.join(ALTERATIONS)})$")
    basis: Basis | None = None


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


def _read_records(path: Path) -> list[tuple[Where, DocumentRecord]]:
    readers = {".csv": read_table, ".parquet": read_parquet}
    records = []
    for where, fields in readers.get(path.suffix.lower(), read_json_lines)(path):
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
    fields = record.model_dump()
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
    stream = io.StringIO(newline="")
    rows = [_released_row(record) for record in records]
    if rows:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return stream.getvalue().encode()


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
