"""Readers of the released files, which settle every quirk of theirs.

Stray flags and tally rows, misspelt categories and missing group ids stop here, so nothing else
reads a column by its name. A malformed file is refused with an `InputError` that names the row,
counted from 0 as in the paper's code, and the line that an editor shows.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pragworld_tasks.data.documents import ALTERATIONS, Answer, Document, Effect, ReleasedSplit
from pragworld_tasks.data.prompts import split_prompt
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import Where, read_json_lines, read_text

_Meaning = TypeVar("_Meaning")


def read_released_table(path: Path, split: ReleasedSplit) -> list[Document]:
    """Read the manual or the synthetic split (paper, section 4), where variants follow originals.

    `cannot answer` and `notsure` count as no, as in the released scoring; a row without an answer
    is left out. The synthetic split's effects say whether the answer could change, not whether it
    did, so they are derived: a variant flips when its answer differs from its original's.
    """
    documents: list[Document] = []
    group = released_group = -1
    original: Answer | None = None  # the answer of the group's original; None where it has none
    for where, fields in read_table(path):
        answer = _meaning(fields["Answer"], _ANSWERS, "answer", where)
        effect = _meaning(fields["Perturbation Effect"], _EFFECTS, "effect", where)
        alteration = fields["alteration"]
        if alteration is None:
            original = answer
        if answer is None:
            continue
        if original is None:
            where.refuse("an altered variant without an answered original; put that before it")
        group += alteration is None
        # Not stripped, as in the released scoring.
        released_is_original = fields["Perturbation?"].lower() != "true"
        released_group += released_is_original
        if effect is None and alteration:
            effect = "invariant" if answer == original else "flip"
        documents.append(
            Document(
                row=len(documents),
                context=fields["context"],
                question=fields["question"],
                answer=answer,
                group=group,
                is_original=alteration is None,
                alteration=alteration,
                effect=effect,
                split=split,
                released_group=released_group,
                released_is_original=released_is_original,
            )
        )
    if not documents:
        raise InputError(f"{path}: no documents")
    return documents


def read_entity_tracking(path: Path) -> list[Document]:
    """Read the entity-tracking split from a released run file (paper, section 5.2).

    The split is released in no other form. A run file (`outputs.jsonl`) holds prompts and gold
    answers as JSON lines. The split has no alterations: its questions are about growing beginnings
    of 15 conversations. A document belongs to the group of the previous one where one context is
    the beginning of the other.
    """
    documents: list[Document] = []
    group, before = 0, ""
    for where, record in read_json_lines(path):
        try:
            context, question = split_prompt(str(record.get("prompt")))
        except InputError as error:
            where.refuse(f"{error}; pass a run file of the entity-tracking split")
        if not (context.startswith(before) or before.startswith(context)):
            group += 1
        before = context
        documents.append(
            Document(
                row=len(documents),
                context=context,
                question=question,
                answer=_meaning(str(record.get("expected_response")), _YES_NO, "answer", where),
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


def read_table(path: Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Yield the documents of a table in the released format, with its columns and their places.

    `pragworld-tasks generate` writes such tables with the columns `Seed Index`, which numbers the
    groups within the file, and `Basis`. Without the first, originals are counted.
    """
    group = -1
    for where, cells in _read_csv(path):
        flag, category = cells["Perturbation?"], cells["Perturbation Category"]
        is_original = _meaning(flag, _IS_ORIGINAL, "flag", where)
        alteration = _meaning(category, _ALTERATIONS, "alteration", where)
        if is_original != (alteration is None):
            where.refuse(f"alteration {category!r} contradicts flag {flag!r}")
        group += is_original
        fields = {
            "context": cells["Local Context"],
            "question": cells["Question"],
            "answer": cells["Answer"].strip().lower(),
            "group": cells.get("Seed Index", group),
            "alteration": alteration,
            "basis": cells.get("Basis", "").strip(" -").lower() or None,
        }
        yield where, {**cells, **fields}


def read_parquet(path: Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Yield the rows of a Parquet file, each with its place."""
    from pyarrow import ArrowException, parquet

    try:
        records = parquet.ParquetFile(path).read().to_pylist()
    except (OSError, ArrowException) as error:
        raise InputError(f"{path}: {error}; pass a Parquet file") from error
    for row, record in enumerate(records):
        yield Where(path, row, None), record


# What the cells of the files mean -----------------------------------------------------------------

_COLUMNS = (
    *("Local Context", "Question", "Answer"),
    *("Perturbation?", "Perturbation Category", "Perturbation Effect"),
)
_IS_ORIGINAL = {"true": False, "false": True}
_YES_NO: dict[str, Answer] = {"yes": "yes", "no": "no"}
_ANSWERS: dict[str, Answer | None] = {**_YES_NO, "cannot answer": "no", "notsure": "no", "": None}
_EFFECTS: dict[str, Effect | None] = {
    **{"flip": "flip", "invariant": "invariant"},
    **dict.fromkeys(("-", "possible", "not possible", "not applicable")),
}
_ALTERATIONS: dict[str, str | None] = {
    **{name.lower(): name for name in ALTERATIONS},
    **dict.fromkeys(("-", "not applicable")),
}
_MISSPELT = {
    "invarianat": "invariant",
    "quanity": "quantity",
    "quanifier": "quantifier",
    "substituion": "substitution",
    "variablle": "variable",
}


def _read_csv(path: Path) -> Iterator[tuple[Where, dict[str, str]]]:
    """Yield the records of a table, with LF for line breaks in cells, and without tallies."""
    text = re.sub(r"\r\n?", "\n", read_text(path))
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    table = csv.reader(io.StringIO(text), strict=True)
    where = Where(path, 0, 1)
    try:
        header = [name.strip() for name in next(table, ())]
        if missing := [name for name in _COLUMNS if name not in header]:
            raise InputError(
                f"{path}, line 1: no column {missing[0]!r} in {header[:8]}; pass a table in the "
                "released format"
            )
        where = Where(path, 0, table.line_num + 1)
        for cells in table:
            if cells and len(cells) != len(header):
                where.refuse(f"{len(cells)} fields instead of {len(header)}; is the line cut off?")
            content = "".join(cells).strip()
            if content and not content.isdigit():  # else nothing, or a tally below the manual split
                yield where, dict(zip(header, cells, strict=True))
            where = Where(path, where.row + 1, table.line_num + 1)
    except csv.Error as error:
        where.refuse(f"{error}; is the file cut off here?")


def _meaning(cell: str, meanings: Mapping[str, _Meaning], what: str, where: Where) -> _Meaning:
    """Return the meaning of a cell, ignoring case, stray spaces, misspellings and targets.

    The target of a category stands behind it: `: agent`, ` add for: object`.
    """
    words = cell.partition(":")[0].lower().split()
    if words[-1:] == ["for"]:
        words = words[:-2]
    folded = " ".join(_MISSPELT.get(word, word) for word in words)
    if folded not in meanings:
        where.refuse(f"unknown {what} {cell!r}; must be one of {', '.join(filter(None, meanings))}")
    return meanings[folded]
