"""Documents of a user's own: a file such as `pragworld-tasks generate` or `author` writes.

The file has JSON lines, a table in the released format or Parquet; a folder is one that
`datasets.load_from_disk` reads. A line or row is a document. It needs a context, a question and an
answer; the other fields are those of `Document`, and may be left out where they follow from the
rest. A file that contradicts itself is refused with the line or row and the reason.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pragworld_tasks.data.documents import ALTERATIONS, Answer, Basis, Document, Effect
from pragworld_tasks.data.parquet import read_parquet_records
from pragworld_tasks.data.readers import read_table
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import Where, read_json_lines


def read_documents(path: str | Path) -> list[Document]:
    r"""Read documents of your own from a file or a folder of `datasets`.

    Args:
        path: a file of JSON lines; a table in the released format if its name ends in `.csv`, in
            which the column `Seed Index` is the group, or, without this column, each original is
            followed by its variants; a Parquet file if it ends in `.parquet`; or a folder that
            `datasets.load_from_disk` reads. Except in the released format, each document has
            `context`, `question` and `answer`, and may have `group`, a number that an original
            shares with its altered variants; `alteration`, which a variant needs; `basis`; and
            `is_original`, `effect` and `row`, which follow from the rest and are checked against
            it. Fields that only other splits have may be there, as in files of `pragworld-tasks
            generate`, and are ignored.

    Returns:
        The documents, all of the split `own`. Groups keep their numbers; originals without one get
        the next numbers after the largest.

    Raises:
        InputError: The file cannot be read, a line is malformed or contradicts another, or a group
            has no original or several. The message names the line, or the row where there are none.

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
    lines = [_read_line(where, record) for where, record in _records(path)]
    if not lines:
        raise InputError(f"{path}: no documents; write at least one")
    _refuse_repetitions(lines)
    originals = _originals(lines)
    numbered = [group for group in originals if isinstance(group, int)]
    unused = itertools.count(max(numbered, default=-1) + 1)
    numbers = {group: group if isinstance(group, int) else next(unused) for group in originals}
    if max(numbers.values()) >= _GROUPS_END:
        raise InputError(
            f"{path}: no number after group {max(numbered)} is left for documents without a group; "
            "use smaller numbers"
        )
    return [_to_document(line, numbers[line.group], originals[line.group]) for line in lines]


def check_documents(place: str | Path, documents: Iterable[Document]) -> None:
    """Check that documents with alterations do not contradict each other.

    Raises:
        InputError: A group has no original or several, or an alteration, an effect or a basis
            contradicts the other fields. The message names the row.
    """
    lines = [
        _read_line(Where(place, document.row, None), asdict(document)) for document in documents
    ]
    originals = _originals(lines)
    for line, document in zip(lines, documents, strict=True):
        if _to_document(line, document.group, originals[line.group]).effect != document.effect:
            line.where.refuse("an altered variant without its 'effect'")


def _records(path: Path) -> Iterable[tuple[Where, dict[str, Any]]]:
    """Return the fields of the documents of a file in any format, with their places."""
    if path.is_dir():
        return _numbered(path, _dataset_records(path))
    match path.suffix.lower():
        case ".csv":
            return read_table(path)
        case ".parquet":
            return _numbered(path, read_parquet_records(path, _REMEDY))
        case _:
            return read_json_lines(path)


_REMEDY = "write it again, or pass JSON lines"


def _dataset_records(folder: Path) -> Iterable[dict[str, Any]]:
    """Return the rows of a dataset that `datasets` saved, by the names of its columns."""
    if (folder / "dataset_dict.json").is_file():
        raise InputError(f"{folder}: a dataset of several splits; pass the folder of one of them")
    if not (folder / "state.json").is_file():
        name = folder / "documents.jsonl"
        file = name if name.is_file() else "a file such as documents.jsonl"
        raise InputError(f"{folder}: not the folder of a dataset of `datasets`; pass {file}")
    from datasets import load_from_disk

    try:
        if not json.loads((folder / "state.json").read_bytes())["_data_files"]:
            return []  # `datasets` 4.5 and later write no file without rows, and do not read that
        records: list[dict[str, Any]] = load_from_disk(folder).to_list()
    except (OSError, ValueError, LookupError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{folder}: not a dataset of `datasets` ({reason:.80}); {_REMEDY}"
        ) from error
    return records


def _numbered(
    path: Path, records: Iterable[dict[str, Any]]
) -> Iterator[tuple[Where, dict[str, Any]]]:
    for row, record in enumerate(records):
        yield Where(path, row, None), record


_GROUPS_END = 2**63  # of the numbers that arrays hold


class _Fields(BaseModel):
    """What a line may hold; the last six fields tell nothing about a document of one's own."""

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


@dataclass(frozen=True, slots=True)
class _Line:
    """A line whose fields are possible by themselves.

    Attributes:
        where: its place in the file.
        group: the number of its group; the line's own place for an original without a number.
        fields: its fields.
    """

    where: Where
    group: int | Where
    fields: _Fields

    @property
    def is_original(self) -> bool:
        return self.fields.alteration is None


def _read_line(where: Where, record: dict[str, Any]) -> _Line:
    try:
        fields = _Fields.model_validate(record)
    except ValidationError as error:
        where.refuse(_problem(error))
    if fields.row not in (None, where.row):
        where.refuse(
            f"'row' is {fields.row}; rows number the documents from 0, each once; correct it, or "
            "leave 'row' out"
        )
    if fields.alteration is None:
        if fields.is_original is False:
            where.refuse(
                f"an altered variant without its 'alteration'; name one of {', '.join(ALTERATIONS)}"
            )
        if fields.effect:
            where.refuse(
                f"'effect' is {fields.effect!r}, but without an 'alteration' the document is an "
                "original; add the one, or leave out the other"
            )
    else:
        if fields.alteration not in ALTERATIONS:
            where.refuse(
                f"unknown alteration {fields.alteration!r:.60}; must be one of "
                f"{', '.join(ALTERATIONS)}"
            )
        if fields.is_original:
            where.refuse("'is_original' contradicts the 'alteration'; correct one of them")
        if fields.group is None:
            where.refuse("an altered variant without a 'group'; give it that of its original")
    if fields.basis and (fields.basis == "entailed") != (fields.answer == "yes"):
        where.refuse(
            f"basis {fields.basis!r} contradicts answer {fields.answer!r}; only what is entailed "
            "is answered yes"
        )
    return _Line(where, where if fields.group is None else fields.group, fields)


def _problem(error: ValidationError) -> str:
    """Return what is wrong with the first field that is."""
    problem = error.errors(include_url=False)[0]
    name = problem["loc"][0]
    if problem["type"] == "missing":
        return f"no {name!r}; a document needs 'context', 'question' and 'answer'"
    if problem["type"] == "extra_forbidden":
        return f"unknown field {name!r:.60}; must be one of {', '.join(_Fields.model_fields)}"
    if problem["type"] == "string_pattern_mismatch":
        return f"{name!r} is blank; write it out"
    return f"{name!r} is {problem['input']!r:.60}: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _refuse_repetitions(lines: Iterable[_Line]) -> None:
    """Refuse a question that is asked about the same conversation again: it would count twice."""
    first: dict[tuple[str, str], _Line] = {}
    for line in lines:
        asked = first.setdefault((line.fields.context, line.fields.question), line)
        if asked is not line:
            line.where.refuse(
                f"the same context and question as in {asked.where.short}; remove one of them"
            )


def _originals(lines: Iterable[_Line]) -> dict[int | Where, _Line]:
    """Return the original of each group, in the order of the groups' first lines."""
    groups: dict[int | Where, list[_Line]] = {}
    for line in lines:
        groups.setdefault(line.group, []).append(line)
    originals = {}
    for group, members in groups.items():
        in_group = [line for line in members if line.is_original]
        if not in_group:
            members[0].where.refuse(
                f"group {group} has altered variants but no original; add the original"
            )
        if len(in_group) > 1:
            in_group[1].where.refuse(
                f"group {group} has another original in {in_group[0].where.short}; a group is "
                "one original and its altered variants, so give one of them another number"
            )
        originals[group] = in_group[0]
    return originals


def _to_document(line: _Line, group: int, original: _Line) -> Document:
    fields = line.fields
    effect: Effect | None = None
    if not line.is_original:
        effect = "invariant" if fields.answer == original.fields.answer else "flip"
        if fields.effect not in (None, effect):
            line.where.refuse(
                f"effect {fields.effect!r} contradicts the answers: {fields.answer!r}, and "
                f"{original.fields.answer!r} in its original in {original.where.short}; "
                "correct one of them, or leave 'effect' out"
            )
    return Document(
        row=line.where.row,
        context=fields.context,
        question=fields.question,
        answer=fields.answer,
        group=group,
        is_original=line.is_original,
        alteration=fields.alteration,
        effect=effect,
        split="own",
        released_group=group,
        released_is_original=line.is_original,
        basis=fields.basis,
    )
