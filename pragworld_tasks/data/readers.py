"""Readers of the released files, which settle every quirk of theirs.

Stray flags and tally rows, misspelt categories and missing group ids stop here, so nothing else
reads a column by its name.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pragworld_tasks.data.documents import Answer, Document, ReleasedSplit
from pragworld_tasks.data.prompts import split_prompt
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import Where, from_cell, read_json_lines, read_package_toml, read_text

# The released tables' words, and the fields and columns that are read; "" is none.
_WORDS = read_package_toml(__package__, "table_words.toml")
FIELDS: list[str] = _WORDS["fields"]
Records = Iterator[tuple[Where, dict[str, Any]]]


def read_released_table(path: Path, split: ReleasedSplit) -> list[Document]:
    """Read the manual or the synthetic split (paper, section 4), where variants follow originals.

    `cannot answer` and `notsure` count as no, as in the released scoring; a row without an answer
    is left out. The synthetic split's effects say whether the answer could change, not whether it
    did, so they are derived: a variant flips when its answer differs from its original's.
    """
    documents: list[Document] = []
    group = released_group = -1
    original: Answer | None = None  # the answer of the group's original; None where it has none
    for where, fields in read_table(path, _WORDS["released_columns"]):
        answer = _meaning(fields["answer"], "answer", where)
        effect = _meaning(fields["perturbation effect"], "effect", where)
        alteration = alteration_of(where, fields)
        if alteration is None:
            original = answer
        if answer is None:
            continue
        if original is None:
            where.refuse("an altered variant without an answered original; put that before it")
        group += alteration is None
        # Not stripped, as in the released scoring.
        released_is_original = fields["perturbation?"].lower() != "true"
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

    It holds prompts and gold answers as JSON lines. The split has no alterations: its questions are
    about growing beginnings of 15 conversations. A document belongs to the group of the previous
    one where one context is the beginning of the other.
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
                answer=_meaning(str(record.get("expected_response")), "yes or no", where),
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


def read_parquet(path: Path) -> Records:
    """Yield the rows of a Parquet file, each with its place."""
    from pyarrow import ArrowException, parquet

    try:
        records = parquet.ParquetFile(path).read().to_pylist()
    except (OSError, ArrowException) as error:
        raise InputError(f"{path}: {error}; pass a Parquet file") from error
    for row, record in enumerate(records):
        yield Where(path, row, None), record


# What the cells of the files mean -----------------------------------------------------------------


def known_fields(record: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """Return a record with what is read, in any case, by our names; other fields keep theirs."""
    named: dict[str, Any] = {}
    for name, value in record.items():
        field = _WORDS["names"].get(name.strip().lower().replace("_", " "), name)
        if field in named:
            where.refuse(f"{name!r} is a second {field!r}; rename one of them")
        named[field] = value
    return named


def alteration_of(where: Where, fields: Mapping[str, Any], any_name: bool = False) -> str | None:
    """Return the alteration that a record names; the flag of a released table has to agree."""
    flag, category = fields.get("perturbation?"), fields.get("alteration")
    alteration: str | None = _meaning(str(category or ""), "alteration", where, any_name)
    if flag is not None and (_meaning(str(flag), "flag", where) == "true") != bool(alteration):
        where.refuse(f"alteration {category!r} contradicts flag {flag!r}")
    return alteration


def read_table(path: Path, columns: Sequence[str] = FIELDS[:3]) -> Records:
    """Yield the `known_fields` of a table with their places, without tallies, and LF for breaks."""
    read = read_text(path)
    text = re.sub(r"\r\n?", "\n", read)
    ends_in_cr = "\r" in read and "\r\n" not in read
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    separator = max(",;\t|", key=text.partition("\n")[0].count)  # in its first line
    table = csv.reader(io.StringIO(text), strict=True, delimiter=separator)
    where = Where(path, 0, 1)
    try:
        names = [name.strip() for name in next(table, ())]
        header = [*known_fields(dict.fromkeys(names), where)]
        if missing := [name for name in columns if name not in header]:
            index = " ('' is the index of pandas; write without it)" if "" in header else ""
            raise InputError(
                f"{path}, line 1: no column {missing[0]!r} in {names[:8]}{index}; add or rename it"
            )
        where = Where(path, 0, table.line_num + 1)
        for cells in table:
            if cells and len(cells) != len(header):
                cause = (
                    "its lines end in CR: save with LF" if ends_in_cr else "is the line cut off?"
                )
                where.refuse(
                    f"{len(cells)} fields by {separator!r} instead of {len(header)}; {cause}"
                )
            content = "".join(cells).strip()
            if content and not content.isdigit():  # else nothing, or a tally below the manual split
                yield where, dict(zip(header, map(from_cell, cells), strict=True))
            where = Where(path, where.row + 1, table.line_num + 1)
    except csv.Error as error:
        where.refuse(f"{error}; is the file cut off here?")


def _meaning(cell: str, what: str, where: Where, any_other: bool = False) -> Any:
    """Return the meaning of a cell, ignoring case, stray spaces, misspellings and targets.

    The target of a category stands behind it: `: agent`, ` add for: object`.
    """
    words = cell.partition(":")[0].lower().split()
    if words[-1:] == ["for"]:
        words = words[:-2]
    folded = " ".join(_WORDS["misspelt"].get(word, word) for word in words)
    meanings = _WORDS[what]
    if folded not in meanings:
        if any_other:
            return cell.strip()
        where.refuse(f"unknown {what} {cell!r}; must be one of {', '.join(filter(None, meanings))}")
    return meanings[folded] or None
