"""The command `pragworld-tasks data`."""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.data.breakdowns import alteration_category
from pragworld_tasks.data.document_files import read_documents
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import (
    FILES,
    cache_folder,
    deviation,
    fetch,
    is_released,
    locate,
    read_split,
)
from pragworld_tasks.errors import InputError, printable
from pragworld_tasks.text import format_count


def add_data(commands: Commands) -> None:
    """Add the command `data`."""
    command = add_command(
        commands,
        "data",
        _data,
        "download or check the released data",
        description="A split's file is looked for in the folder that PRAGWORLD_DATA names, then in "
        "the cache (PRAGWORLD_CACHE, or the user's), and is otherwise downloaded at the pinned "
        "commit (PRAGWORLD_URL names a mirror).",
        example="pragworld-tasks data check\npragworld-tasks data fetch manual",
    )
    command.add_argument(
        "action",
        choices=("fetch", "check"),
        help="download what is not in the cache; or read every split that is on this machine, or "
        "your FILE, and print an audit",
    )
    names = ", ".join(FILES)
    command.add_argument("splits", nargs="*", metavar="SPLIT", help=f"any of {names}; default: all")


def _data(options: argparse.Namespace) -> None:
    splits = [name for name in FILES if is_released(name) and name in (options.splits or FILES)]
    if others := [name for name in options.splits if not is_released(name)]:
        if options.action != "check" or not Path(others[0]).exists():
            raise InputError(f"split {others[0]!r} does not exist; choose from {', '.join(FILES)}")
        for path in others:
            print(f"{_audit(read_documents(path))}\n  from {path}")
    for split in splits:
        if options.action == "fetch":
            print(f"{split}: {fetch(split)}")
        elif options.action == "check" and (path := locate(split)):
            print(f"{_audit(read_split(split, path))}\n  from {path}")
        elif options.action == "check":
            print(f"{split}: neither in PRAGWORLD_DATA nor in the cache, {cache_folder()}")


def _audit(documents: Sequence[Document]) -> str:
    """Return the counts and contradictions of a split (at least one document), as lines of text."""
    split = documents[0].split
    groups = len({document.group for document in documents})
    released_groups = len({document.released_group for document in documents})
    head = f"{split}: {format_count(len(documents), 'document')} in {format_count(groups, 'group')}"
    if released_groups != groups:
        head += f" ({released_groups} as the released scoring counts them)"
    lines = [head, f"  answers: {_counts(document.answer for document in documents)}"]
    if effects := [document.effect for document in documents if document.effect]:
        lines.append(f"  alterations: {_counts(map(alteration_category, documents))}")
        lines.append(f"  effects: {_counts(effects)}")
    originals = {document.group: document.answer for document in documents if document.is_original}
    contradictory = [
        str(document.row)
        for document in documents
        if document.effect
        and (document.effect == "flip") != (document.answer != originals[document.group])
    ]
    if contradictory:
        lines.append(f"  effect contradicts the labels in rows {', '.join(contradictory)}")
    if is_released(split) and (difference := deviation(documents)):
        lines.append(f"  not the released file: {difference}")
    return "\n".join(lines)


def _counts(values: Iterable[str]) -> str:
    return ", ".join(f"{value} {n}" for value, n in Counter(map(printable, values)).most_common())
