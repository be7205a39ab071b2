"""Files of documents: a table in the released format (CSV), JSON lines or Parquet.

Users read their own documents from such a file, which we or somebody else's program wrote. One that
contradicts itself or another one is refused with its line or row.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from difflib import get_close_matches
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel, Field

from pragworld_tasks.data.documents import OWN, YES_NO, Basis, Document, Effect
from pragworld_tasks.data.readers import (
    FIELDS,
    alteration_of,
    known_fields,
    read_parquet,
    read_table,
)
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import Where, check_output, read_json_lines, to_csv, write_whole
from pragworld_tasks.text import line_changes

# Reading ------------------------------------------------------------------------------------------


_TEMPLATES = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
_template = cache(_TEMPLATES.from_string)  # a file has one for all documents
_SETTINGS = {"labels", "prompt"}  # of all documents of a file


class DocumentRecord(BaseModel, strict=True, extra="allow"):
    """A document of a user's own, with what else a file says of it."""

    context: str = Field(pattern=r"\S")
    question: str = Field(pattern=r"\S")
    answer: str
    group: int | None = Field(None, strict=False)
    alteration: str | None = None
    basis: Basis | None = None
    labels: Annotated[tuple[str, ...], Field(strict=False, min_length=2)] = YES_NO
    prompt: str | None = None


def read_documents(path: str | Path, metadata: Mapping[str, Any] | None = None) -> list[Document]:
    r"""Read documents of your own from a file.

    Args:
        path: a file of JSON lines, or a table if its name ends in `.csv`, `.tsv` or `.parquet`. A
            document has `context`, `question` and `answer`, and may have `group`, a number that an
            original shares with its altered variants; `alteration`, which a variant needs; and
            `basis`. Their case does not matter, nor what separates the cells of a table. In a table
            without groups, each original is followed by its variants. The first of JSON lines may
            hold, instead of a document, the `labels` that answers are among, where they are not yes
            and no, and a `prompt`: a Jinja template of the fields of a document.
        metadata: `labels` and `prompt` in place of those of the file.

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
    records = _read_records(Path(path), metadata or {})
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
        for _, record in _read_records(Path(metadata["documents"]), metadata)
    ]
    none = dict.fromkeys(chain(*further), "")
    return [none | fields | row for fields, row in zip(further, rows, strict=True)]


def _read_records(path: Path, metadata: Mapping[str, Any]) -> list[tuple[Where, DocumentRecord]]:
    readers = {".csv": read_table, ".tsv": read_table, ".parquet": read_parquet}
    reader = readers.get(path.suffix.lower(), read_json_lines)
    records: list[tuple[Where, DocumentRecord]] = []
    group, settings = -1, {}
    given = {name: metadata[name] for name in _SETTINGS if name in metadata}
    for where, content in reader(path):
        if where.row == 0 and content.keys() <= _SETTINGS:
            settings = content
            continue
        where = where._replace(row=where.row - bool(settings))
        fields = known_fields(settings | content | given, where)
        missing = [name for name in FIELDS if name not in fields]
        for name in fields:  # one that is misspelt would have no effect
            if similar := get_close_matches(name.lower(), missing, n=1, cutoff=0.75):
                where.refuse(f"{name!r} is not read; did you mean {similar[0]!r}? Rename the field")
        fields["alteration"] = alteration_of(where, fields, any_name=True)
        group += fields["alteration"] is None
        if reader is read_table:
            fields.setdefault("group", group)
        for name in {"group", "basis"} & {*fields}:
            if isinstance(value := fields[name], str):
                fields[name] = None if value.strip() in ("", "-") else value.strip().lower()
        record = where.validate(DocumentRecord, fields)
        _settle_labels(where, record)
        if record.prompt is not None:
            try:
                record.prompt = _template(record.prompt).render(record.model_dump())
            except (TemplateError, TypeError) as error:
                where.refuse(f"prompt: {error}; write a Jinja template of the fields of a document")
        if records and record.labels != records[0][1].labels:
            where.refuse("other labels than before; give those of all documents in the first line")
        if record.basis and (record.basis == "entailed") != (record.answer.lower() == "yes"):
            where.refuse(
                f"basis {record.basis!r} contradicts answer {record.answer!r}; only what is "
                "entailed is answered yes"
            )
        records.append((where, record))
    if not records:
        raise InputError(f"{path}: no documents; write at least one")
    return records


def _settle_labels(where: Where, record: DocumentRecord) -> None:
    """Write the answer as the label with its words; refuse labels with the same words."""
    labels = {_words(label): label for label in record.labels}
    if len(labels) < len(record.labels) or "" in labels:
        where.refuse(f"labels {', '.join(record.labels)}: must differ in their letters or digits")
    if _words(record.answer) not in labels:
        named = ", ".join(record.labels)
        where.refuse(f"answer {record.answer!r} is none of the labels {named}; add it in 'labels'")
    record.answer = labels[_words(record.answer)]


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def own_document(row: int, record: DocumentRecord, original: DocumentRecord) -> Document:
    """Return the document of a record, whose group's original is given."""
    fields = record.model_dump(include={*FIELDS, *_SETTINGS})
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
    """Write documents, and what each alteration changed, and return how many they are.

    Each original is followed by its variants. The target's name ends in `.csv`, the released
    format, or in `.jsonl`.
    """
    if target.suffix not in (".csv", ".jsonl"):
        raise InputError(f"{target}: unknown format; end the name in .csv or .jsonl")
    check_output(target, overwrite)
    records = list(_records(documents))
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    text = _released_table(records) if target.suffix == ".csv" else "".join(lines)
    write_whole(target, text.encode())
    return len(records)


def _records(documents: Iterable[Document]) -> Iterator[dict[str, Any]]:
    """Yield the fields of documents, and `changes`: the fields of each change to the original."""
    original: list[str] = []
    for document in documents:
        lines = document.context.split("\n")
        original = lines if document.is_original else original
        changes = [asdict(change) for change in line_changes(original, lines)]
        yield {**document.to_dict(), "changes": changes}


def _released_table(records: list[dict[str, Any]]) -> str:
    """Return the released table, in which a swap has several changes."""
    rows = [
        {
            "Seed Index": record["group"],
            "Local Context": record["context"],
            "Question": record["question"],
            "Answer": record["answer"],
            "Basis": record["basis"] or "-",
            "Perturbation?": "FALSE" if record["is_original"] else "TRUE",
            "Perturbation Target": "-",
            "Perturbation Category": record["alteration"] or "-",
            "Perturbation Effect": (record["effect"] or "-").capitalize(),
            "Utterance Index": " | ".join(str(change["utterance"]) for change in record["changes"]),
            "Old Word": " | ".join(change["old"] for change in record["changes"]),
            "New Word": " | ".join(change["new"] for change in record["changes"]),
        }
        for record in records
    ]
    return to_csv(rows, "\r\n")
