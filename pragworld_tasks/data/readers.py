"""Readers of the released files, which settle every quirk of theirs.

Stray flags and tally rows, misspelt categories and missing group ids stop here, so nothing else
knows a column name. A malformed file is refused with an `InputError` that names the row, counted
from 0 as in the paper's code, and the line that an editor shows.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pragworld_tasks.data.documents import ALTERATIONS, Answer, Document, Effect
from pragworld_tasks.data.prompts import split_prompt
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import Where, read_json_lines, read_text

Table = Literal["manual", "synthetic"]
_Meaning = TypeVar("_Meaning")


def read_manual(path: Path) -> list[Document]:
    """Read the manual split from `Manual_Dataset_500_Final.csv` (paper, section 4)."""
    return _read_released(path, "manual")


def read_synthetic(path: Path) -> list[Document]:
    """Read the synthetic split from `synthetic_final.csv` (paper, section 4).

    `cannot answer` and `notsure` count as no, as in the released scoring; a row without an answer
    is left out. The effect column says whether the answer could change, not whether it did, so the
    effect is derived: a variant flips when its answer differs from its original's.
    """
    return _read_released(path, "synthetic")


def read_entity_tracking(path: Path) -> list[Document]:
    """Read the entity-tracking split from a released run file (paper, section 5.2).

    The split is released in no other form. A run file (`outputs.jsonl`) holds prompts and gold
    answers as JSON lines. The split has no alterations: its questions are about growing beginnings
    of 15 conversations. A document belongs to the group of the previous one where one context is
    the beginning of the other.
    """
    documents: list[Document] = []
    group, before = -1, ""
    for where, record in read_json_lines(path):
        try:
            context, question = split_prompt(str(record.get("prompt")))
        except InputError as error:
            where.refuse(f"{error}; pass a run file of the entity-tracking split")
        if not documents or not (context.startswith(before) or before.startswith(context)):
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
    """Yield the documents of a user's table in the released format, for `own_documents`.

    `pragworld-tasks generate` and `author` write such tables, with the columns `Seed Index`, which
    numbers the groups within the file, and `Basis`. Without the first, originals are counted.
    """
    group: str | int = -1
    for where, cells, alteration in _read_rows(path):
        if "Seed Index" in cells:
            index = cells["Seed Index"].strip()
            group = int(index) if re.fullmatch(r"-?\d{1,19}", index) else index
        else:
            group = int(group) + (alteration is None)
        fields = {
            "context": cells["Local Context"],
            "question": cells["Question"],
            "answer": _fold(cells["Answer"]),
            "group": group,
            "alteration": alteration,
            "basis": _fold(cells.get("Basis", "").replace("-", "")) or None,
        }
        yield where, fields


# What the cells of the files mean -----------------------------------------------------------------

_COLUMNS = (
    *("Local Context", "Question", "Answer"),
    *("Perturbation?", "Perturbation Category", "Perturbation Effect"),
)
_IS_ORIGINAL = {"true": False, "false": True}
_YES_NO: dict[str, Answer] = {"yes": "yes", "no": "no"}
_ANSWERS: dict[Table, Mapping[str, Answer | None]] = {
    "manual": _YES_NO,
    "synthetic": {**_YES_NO, "cannot answer": "no", "notsure": "no", "": None},
}
_EFFECTS: dict[Table, dict[str, Effect | None]] = {
    # The released file spells it "Invarianat" throughout.
    "manual": {"flip": "flip", "invarianat": "invariant", "invariant": "invariant", "-": None},
    "synthetic": dict.fromkeys(("possible", "not possible", "not applicable")),
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


def _read_released(path: Path, split: Table) -> list[Document]:
    """Group the rows as the tables do: an original, then the variants altered from it."""
    documents: list[Document] = []
    group = released_group = -1
    original: Answer | None = None  # the answer of the group's original; None where it has none
    for where, cells, alteration in _read_rows(path):
        answer = _meaning(cells["Answer"], _ANSWERS[split], "answer", where)
        effect = _meaning(cells["Perturbation Effect"], _EFFECTS[split], "effect", where)
        if alteration is None:
            original = answer
        if answer is None:
            continue
        if original is None:
            where.refuse("an altered variant without an answered original; put that before it")
        group += alteration is None
        # Not stripped, as in the released scoring.
        released_is_original = cells["Perturbation?"].lower() != "true"
        released_group += released_is_original
        if effect is None and alteration:
            effect = "invariant" if answer == original else "flip"
        documents.append(
            Document(
                row=len(documents),
                context=cells["Local Context"],
                question=cells["Question"],
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


def _read_rows(path: Path) -> Iterator[tuple[Where, dict[str, str], str | None]]:
    """Yield the rows of a table with their places and alterations, which originals lack."""
    for where, cells in _read_csv(path):
        flag, category = cells["Perturbation?"], cells["Perturbation Category"]
        is_original = _meaning(flag, _IS_ORIGINAL, "flag", where)
        alteration = _meaning(category, _ALTERATIONS, "alteration", where, _fold_category)
        if is_original != (alteration is None):
            where.refuse(f"alteration {category!r} contradicts flag {flag!r}")
        yield where, cells, alteration


def _read_csv(path: Path) -> Iterator[tuple[Where, dict[str, str]]]:
    """Yield the records of a table, with LF for line breaks in cells, and without tallies."""
    text = read_text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    table = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    row, line = 0, 1
    try:
        for cells in table:
            where, line = Where(path, row, line), table.line_num + 1
            if not header:
                header = [name.strip() for name in cells]
                if missing := [name for name in _COLUMNS if name not in header]:
                    raise InputError(
                        f"{path}, line 1: no column {missing[0]!r} in {header[:8]}; pass a table "
                        "in the released format"
                    )
                continue
            if cells and len(cells) != len(header):
                where.refuse(f"{len(cells)} fields instead of {len(header)}; is the line cut off?")
            if not _is_tally(cells):
                values = (re.sub(r"\r\n?", "\n", cell) for cell in cells)
                yield where, dict(zip(header, values, strict=True))
            row += 1
    except csv.Error as error:
        Where(path, row, line).refuse(f"{error}; is the file cut off here?")


def _is_tally(cells: Sequence[str]) -> bool:
    """Return whether a record is a tally below the manual split: a number, or nothing at all."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    return not filled or (len(filled) == 1 and filled[0].isdigit())


def _fold(cell: str) -> str:
    return cell.strip().lower()


def _fold_category(cell: str) -> str:
    """Return a category without its target (`: agent`, ` add for: object`), spelled correctly."""
    words = cell.partition(":")[0].lower().split()
    if words[-1:] == ["for"]:
        words = words[:-2]
    return " ".join(_MISSPELT.get(word, word) for word in words)


def _meaning(
    cell: str,
    meanings: Mapping[str, _Meaning],
    what: str,
    where: Where,
    fold: Callable[[str], str] = _fold,
) -> _Meaning:
    """Return the meaning of a cell, ignoring case and stray spaces."""
    folded = fold(cell)
    if folded not in meanings:
        where.refuse(f"unknown {what} {cell!r}; must be one of {', '.join(filter(None, meanings))}")
    return meanings[folded]
