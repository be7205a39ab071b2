"""Documents: the one record type, and the readers that turn the released files into it.

Every quirk of the released files is settled here (stray flags and tally rows, misspelt categories,
missing group ids), so nothing behind this door knows a column name. A file that is not what it
should be is refused with its name, the row and the reason: nothing is guessed. Rows are counted
from 0, as the papers' code does; the line is the one an editor shows.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.prompts import split_prompt
from pragworld_tasks.files import Where, read_json_lines, read_text

Answer = Literal["yes", "no"]
Effect = Literal["flip", "invariant"]
ReleasedSplit = Literal["manual", "synthetic", "entity_tracking"]
Split = Literal[ReleasedSplit, "generated", "generated_entity_tracking"]
Meaning = TypeVar("Meaning")

ALTERATIONS = (
    "Negation",
    "Variable Substitution",
    "Quantity Change",
    "Variable Swap",
    "Quantifier Change",
    "Logical Connective Change",
    "Injecting Inconsistent Data",
)


@dataclass(frozen=True, slots=True)
class Document:
    """One question about one conversation.

    Attributes:
        row: position among the split's documents, from 0.
        context: the conversation, an utterance a line, as the released file has it.
        question: the question, as the released file has it.
        answer: the gold answer.
        group: number of the original that this document is or was altered from, from 0. In the
            entity-tracking split, which has no alterations, number of the conversation that the
            context is the beginning of.
        is_original: whether it is its group's original rather than an altered variant.
        alteration: one of `ALTERATIONS`; None for an original.
        effect: what the alteration does to the answer: as annotated in the manual split (four
            annotations contradict the labels), derived from the labels where the file only says
            whether the answer could change. None for an original.
        split: the split it is from.
        turns_ago: in generated entity tracking, how many exchanges lie between the last one that
            speaks of what is asked about and the question. None elsewhere.
        released_group, released_is_original: `group` and `is_original` as the released scoring has
            them. It takes the flag `"TRUE "` for an original's, so in the manual split it finds 98
            groups where there are 88.
    """

    row: int
    context: str
    question: str
    answer: Answer
    group: int
    is_original: bool
    alteration: str | None
    effect: Effect | None
    split: Split
    released_group: int
    released_is_original: bool
    turns_ago: int | None = None


def has_alterations(split: Split) -> bool:
    """Whether a split has altered variants, and with them robust accuracy and its like."""
    return not split.endswith("entity_tracking")


def to_records(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Return the documents as dictionaries, with two keys more than fields.

    `group_size` and `released_group_size` are the numbers of documents in the whole groups.
    """
    sizes = Counter(document.group for document in documents)
    released_sizes = Counter(document.released_group for document in documents)
    return [
        {
            **asdict(document),
            "group_size": sizes[document.group],
            "released_group_size": released_sizes[document.released_group],
        }
        for document in documents
    ]


def read_manual(path: Path) -> list[Document]:
    """The manual split, from `Manual_Dataset_500_Final.csv` (paper, section 4).

    Raises:
        InputError: the file does not have that file's format.
    """
    rows = []
    tally: Where | None = None
    for where, record in _read_csv(path):
        if _is_tally(record):
            tally = tally or where
        elif tally:
            tally.refuse("no conversation, question and answer, though records follow")
        else:
            rows.append(_row(record, where, "manual"))
    return _by_original(rows, path)


def read_synthetic(path: Path) -> list[Document]:
    """The synthetic split, from `synthetic_final.csv` (paper, section 4).

    `cannot answer` and `notsure` count as no, as in the released scoring; a row without an answer
    is left out. The effect column says whether the answer could change, not whether it did, so the
    effect is derived: a variant flips when its answer is not its original's.

    Raises:
        InputError: the file does not have that file's format.
    """
    rows = (_row(record, where, "synthetic") for where, record in _read_csv(path))
    return _by_original(rows, path)


def read_generated(path: Path) -> list[Document]:
    """Documents that `pragworld-tasks generate` wrote as a released-format table.

    Raises:
        InputError: the file does not have that format.
    """
    return _by_original(
        [_row(record, where, "generated") for where, record in _read_csv(path)], path
    )


def read_entity_tracking(path: Path) -> list[Document]:
    """The entity-tracking set, from a released run file of it (paper, section 5.2).

    It is released in no other form. A run file (`outputs.jsonl`) holds prompts and gold answers as
    JSON lines. The set has no alterations: it asks about growing beginnings of 15 conversations,
    and a document belongs to the group of the one before it where one context is the beginning of
    the other.

    Raises:
        InputError: the file does not have a run file's format.
    """
    documents: list[Document] = []
    group, before = -1, ""
    for where, record in read_json_lines(path):
        for key in ("prompt", "expected_response"):
            if not isinstance(record.get(key), str):
                where.refuse(f"no text {key!r}; is this a run file of the entity-tracking set?")
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


# What the files' words mean -----------------------------------------------------------------------

_COLUMNS = (
    "Local Context",
    "Question",
    "Answer",
    "Perturbation?",
    "Perturbation Category",
    "Perturbation Effect",
)
_IS_ORIGINAL = {"true": False, "false": True}
_YES_NO: dict[str, Answer] = {"yes": "yes", "no": "no"}
_ANSWERS: dict[Split, Mapping[str, Answer | None]] = {
    "manual": _YES_NO,
    "synthetic": {**_YES_NO, "cannot answer": "no", "notsure": "no", "": None},
    "generated": _YES_NO,
}
_EFFECTS: dict[Split, dict[str, Effect | None]] = {
    # The released file spells it "Invarianat" throughout.
    "manual": {"flip": "flip", "invarianat": "invariant", "invariant": "invariant", "-": None},
    "synthetic": dict.fromkeys(("possible", "not possible", "not applicable")),
    "generated": {"flip": "flip", "invariant": "invariant", "-": None},
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
    """One record, its words understood, not yet in a group.

    Attributes:
        where: its place in the file.
        answer: None where it has none.
        effect: None also where the file does not tell.
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


def _read_csv(path: Path) -> Iterator[tuple[Where, dict[str, str]]]:
    """The records of a released table, each with its place; line breaks inside fields made LF."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
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
            header = [name.strip() for name in fields]
            for name in _COLUMNS:
                if name not in header:
                    raise InputError(f"{path}, line 1: no column {name!r}, only {header[:8]}")
            continue
        if len(fields) != len(header):
            where.refuse(f"{len(fields)} fields instead of {len(header)}; is the line cut off?")
        values = (re.sub(r"\r\n?", "\n", field) for field in fields)
        yield where, dict(zip(header, values, strict=True))
        row += 1


def _is_tally(record: Mapping[str, str]) -> bool:
    """Whether a record is one of the sums below the manual split: a number, or nothing at all."""
    filled = [value.strip() for value in record.values() if value.strip()]
    return not filled or (len(filled) == 1 and filled[0].isdigit())


def _row(cells: Mapping[str, str], where: Where, split: Split) -> _Row:
    """One record with its words understood."""
    for column in ("Local Context", "Question"):
        if not cells[column].strip():
            where.refuse(f"no {column.lower()}")
    flag, category = cells["Perturbation?"], cells["Perturbation Category"]
    is_original = _look_up(flag, _IS_ORIGINAL, "flag", where)
    alteration = _look_up(category, _ALTERATIONS, "category", where, fold=_fold_category)
    effect = _look_up(cells["Perturbation Effect"], _EFFECTS[split], "effect", where)
    if is_original != (alteration is None):
        where.refuse(f"category {category!r} contradicts flag {flag!r}")
    if split != "synthetic" and is_original != (effect is None):
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
        released_is_original=flag.lower() != "true",  # not stripped: that is the point
    )


def _fold_word(cell: str) -> str:
    return cell.strip().lower()


def _fold_category(cell: str) -> str:
    """A category without its target (`: agent`, ` add for: object`), in its proper spelling."""
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
    """The meaning of a cell, letter case and stray spaces aside."""
    folded = fold(cell)
    if folded not in meanings:
        where.refuse(f"unknown {what} {cell!r}; known are {', '.join(filter(None, meanings))}")
    return meanings[folded]


def _by_original(rows: Iterable[_Row], path: Path) -> list[Document]:
    """Documents grouped as the tables are: an original, then the variants altered from it."""
    documents: list[Document] = []
    group = released_group = -1
    original: _Row | None = None
    for row in rows:
        if row.is_original:
            original = row
        if row.answer is None:
            continue
        if original is None:
            row.where.refuse("an altered variant before any original: it has no group")
        if original.answer is None:
            row.where.refuse("the original that this was altered from has no answer")
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
            )
        )
    if not documents:
        raise InputError(f"{path}: no documents")
    return documents
