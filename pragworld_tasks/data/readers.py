"""Readers of the released files: every quirk of theirs is settled here.

Stray flags and tally rows, misspelt categories and missing group ids stop at this door, so nothing
behind it knows a column name. A malformed file is refused with its name, the row and the reason:
nothing is guessed. Rows are counted from 0, as the paper's code does; the line is the one that an
editor shows.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pragworld_tasks.data.documents import ALTERATIONS, Answer, Basis, Document, Effect, Split
from pragworld_tasks.data.prompts import split_prompt
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import Where, read_json_lines, read_text

Meaning = TypeVar("Meaning")


def read_manual(path: Path) -> list[Document]:
    """Read the manual split from `Manual_Dataset_500_Final.csv` (paper, section 4).

    Raises:
        InputError: The file is malformed.
    """
    rows = []
    tally: Where | None = None
    for where, record in _read_csv(path):
        if _is_tally(record):
            tally = tally or where
        elif tally:
            tally.refuse("a tally without a conversation, but records follow; remove this row")
        else:
            rows.append(_row(record, where, "manual"))
    return _by_original(rows, path)


def read_synthetic(path: Path) -> list[Document]:
    """Read the synthetic split from `synthetic_final.csv` (paper, section 4).

    `cannot answer` and `notsure` count as no, as in the released scoring; a row without an answer
    is left out. The effect column says whether the answer could change, not whether it did, so the
    effect is derived: a variant flips when its answer differs from its original's.

    Raises:
        InputError: The file is malformed.
    """
    rows = (_row(record, where, "synthetic") for where, record in _read_csv(path))
    return _by_original(rows, path)


def read_table(path: Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Yield the documents of a table in the released format that is not a released one.

    `pragworld-tasks generate` and `author` write such tables. An effect may be left out ("-").

    Yields:
        The place of each document, and its fields as in a file of JSON lines (`own_documents`).
        The group is the number in the column `Seed Index`. In a table without this column,
        originals are counted.

    Raises:
        InputError: The file is malformed.
    """
    originals = 0
    for where, record in _read_csv(path):
        row = _row(record, where, "own")
        originals += row.is_original
        if _GROUP in record:
            group = _group_number(record[_GROUP], where)
        elif originals:
            group = originals - 1
        else:
            where.refuse("an altered variant comes first; a group must begin with an original")
        yield (
            where,
            {
                "context": row.context,
                "question": row.question,
                "answer": row.answer,
                "group": group,
                "alteration": row.alteration,
                "effect": row.effect,
                "basis": row.basis,
            },
        )


def read_entity_tracking(path: Path) -> list[Document]:
    """Read the entity-tracking split from a released run file (paper, section 5.2).

    The split is released in no other form. A run file (`outputs.jsonl`) holds prompts and gold
    answers as JSON lines. The split has no alterations: its questions are about growing beginnings
    of 15 conversations. A document belongs to the group of the previous one where one context is
    the beginning of the other.

    Raises:
        InputError: The file is malformed.
    """
    documents: list[Document] = []
    group, before = -1, ""
    for where, record in read_json_lines(path):
        for key in ("prompt", "expected_response"):
            if not isinstance(record.get(key), str):
                where.refuse(f"no text {key!r}; pass a run file of the entity-tracking split")
        try:
            context, question = split_prompt(record["prompt"])
        except InputError as error:
            where.refuse(str(error))
        if not documents or not (context.startswith(before) or before.startswith(context)):
            group += 1
        before = context
        documents.append(
            Document(
                row=len(documents),
                context=context,
                question=question,
                answer=_look_up(record["expected_response"], _YES_NO, "answer", where),
                group=group,
                is_original=True,
                alteration=None,
                effect=None,
                split="entity_tracking",
                released_group=group,
                released_is_original=True,
            )
        )
    return documents


# What the cells of the files mean -----------------------------------------------------------------

_COLUMNS = (
    "Local Context",
    "Question",
    "Answer",
    "Perturbation?",
    "Perturbation Category",
    "Perturbation Effect",
)
_GROUP = "Seed Index"  # in tables that are not released; there it starts again within the file
_BASIS = "Basis"  # likewise
_NAMES = {name.lower(): name for name in (*_COLUMNS, _GROUP, _BASIS)}
_IS_ORIGINAL = {"true": False, "false": True}
_YES_NO: dict[str, Answer] = {"yes": "yes", "no": "no"}
_ANSWERS: dict[Split, Mapping[str, Answer | None]] = {
    "manual": _YES_NO,
    "synthetic": {**_YES_NO, "cannot answer": "no", "notsure": "no", "": None},
    "own": _YES_NO,
}
_EFFECTS: dict[Split, dict[str, Effect | None]] = {
    # The released file spells it "Invarianat" throughout.
    "manual": {"flip": "flip", "invarianat": "invariant", "invariant": "invariant", "-": None},
    "synthetic": dict.fromkeys(("possible", "not possible", "not applicable")),
    "own": {"flip": "flip", "invariant": "invariant", "-": None},
}
_BASES: dict[str, Basis | None] = {
    "entailed": "entailed",
    "excluded": "excluded",
    "undetermined": "undetermined",
    "-": None,
}
_ALTERATIONS: dict[str, str | None] = {
    **{name.lower(): name for name in ALTERATIONS},
    **dict.fromkeys(("-", "not applicable")),
}
_MISSPELT = {
    "quanity": "quantity",
    "quanifier": "quantifier",
    "substituion": "substitution",
    "variablle": "variable",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """One record with its cells interpreted, not yet in a group.

    Attributes:
        where: the record's place in the file.
        answer: None where the cell is blank.
        effect: None for an original, and where the file does not say.
        basis: None where the file does not say, as in released ones.
    """

    where: Where
    context: str
    question: str
    answer: Answer | None
    is_original: bool
    alteration: str | None
    effect: Effect | None
    split: Split
    released_is_original: bool
    basis: Basis | None


def _read_csv(path: Path) -> Iterator[tuple[Where, dict[str, str]]]:
    """Yield the records of a released table with their places; line breaks in fields become LF."""
    text = read_text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    row = 0
    while True:
        where = Where(path, row, reader.line_num + 1)
        try:
            fields = next(reader, None)
        except csv.Error as error:
            where.refuse(f"{error}; is the file cut off here?")
        if fields is None:
            break
        if not fields:
            continue
        if header is None:
            names = [name.strip() for name in fields]
            header = [
                known if (known := _NAMES.get(name.lower())) and known not in names else name
                for name in names
            ]
            for name in _NAMES.values():
                if name in _COLUMNS and name not in header:
                    raise InputError(
                        f"{path}, line 1: no column {name!r}, only {header[:8]}; pass a table in "
                        "the released format"
                    )
                if header.count(name) > 1:
                    raise InputError(f"{path}, line 1: two columns {name!r}; remove one")
            continue
        if len(fields) != len(header):
            where.refuse(f"{len(fields)} fields instead of {len(header)}; is the line cut off?")
        values = (re.sub(r"\r\n?", "\n", field) for field in fields)
        yield where, dict(zip(header, values, strict=True))
        row += 1


def _is_tally(record: Mapping[str, str]) -> bool:
    """Return whether a record is a tally below the manual split: a number, or nothing at all."""
    filled = [value.strip() for value in record.values() if value.strip()]
    return not filled or (len(filled) == 1 and filled[0].isdigit())


def _row(cells: Mapping[str, str], where: Where, split: Split) -> _Row:
    """Interpret the cells of one record."""
    for column in ("Local Context", "Question"):
        if not cells[column].strip():
            where.refuse(f"no {column.lower()}; write it out")
    flag, category = cells["Perturbation?"], cells["Perturbation Category"]
    is_original = _look_up(flag, _IS_ORIGINAL, "flag", where)
    alteration = _look_up(category, _ALTERATIONS, "category", where, fold=_fold_category)
    effect = _look_up(cells["Perturbation Effect"], _EFFECTS[split], "effect", where)
    if is_original != (alteration is None):
        where.refuse(f"category {category!r} contradicts flag {flag!r}")
    if split == "manual" and is_original != (effect is None):
        where.refuse(f"effect {cells['Perturbation Effect']!r} contradicts flag {flag!r}")
    return _Row(
        where=where,
        context=cells["Local Context"],
        question=cells["Question"],
        answer=_look_up(cells["Answer"], _ANSWERS[split], "answer", where),
        is_original=is_original,
        alteration=alteration,
        effect=effect,
        split=split,
        released_is_original=flag.lower() != "true",  # not stripped, as in the released scoring
        basis=_look_up(cells.get(_BASIS, "-"), _BASES, "basis", where),
    )


def _group_number(cell: str, where: Where) -> int:
    try:
        return int(cell)
    except ValueError:
        where.refuse(
            f"{_GROUP!r} is {cell!r:.60}; it must be the number that an original shares with its "
            "altered variants"
        )


def _fold_word(cell: str) -> str:
    return cell.strip().lower()


def _fold_category(cell: str) -> str:
    """Return a category without its target (`: agent`, ` add for: object`), spelled correctly."""
    words = cell.partition(":")[0].lower().split()
    if words[-1:] == ["for"]:
        words = words[:-2]
    return " ".join(_MISSPELT.get(word, word) for word in words)


def _look_up(
    cell: str,
    meanings: Mapping[str, Meaning],
    what: str,
    where: Where,
    fold: Callable[[str], str] = _fold_word,
) -> Meaning:
    """Return the meaning of a cell, ignoring case and stray spaces."""
    folded = fold(cell)
    if folded not in meanings:
        where.refuse(f"unknown {what} {cell!r}; must be one of {', '.join(filter(None, meanings))}")
    return meanings[folded]


def _by_original(rows: Iterable[_Row], path: Path) -> list[Document]:
    """Group the rows as the tables do: an original, then the variants altered from it."""
    documents: list[Document] = []
    group = released_group = -1
    original: _Row | None = None
    for row in rows:
        if row.is_original:
            original = row
        if row.answer is None:
            continue
        if original is None:
            row.where.refuse("an altered variant comes first; a group must begin with an original")
        if original.answer is None:
            row.where.refuse("its group's original has no answer; fill in the original's answer")
        group += row.is_original
        released_group += row.released_is_original
        effect = row.effect
        if effect is None and not row.is_original:
            effect = "invariant" if row.answer == original.answer else "flip"
        documents.append(
            Document(
                row=len(documents),
                context=row.context,
                question=row.question,
                answer=row.answer,
                group=group,
                is_original=row.is_original,
                alteration=row.alteration,
                effect=effect,
                split=row.split,
                released_group=released_group,
                released_is_original=row.released_is_original,
                basis=row.basis,
            )
        )
    if not documents:
        raise InputError(f"{path}: no documents")
    return documents
