"""Files of generated groups, in each of the formats of `document_files`."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from pragworld_tasks.data.document_files import write_documents
from pragworld_tasks.dialogues.generate import Group, documents


def write_groups(groups: Iterable[Group], target: Path, overwrite: bool = False) -> int:
    """Write the documents of groups, with what each alteration changed, and return their number.

    >>> from tempfile import TemporaryDirectory
    >>> from pragworld_tasks.dialogues.generate import generate
    >>> from pragworld_tasks.dialogues.settings import GeneratorSettings
    >>> groups = list(generate(GeneratorSettings(groups=3)))
    >>> with TemporaryDirectory() as folder:
    ...     rows = write_groups(groups, Path(folder, "train.csv"))
    >>> rows == sum(len(group.variants) for group in groups)
    True

    Args:
        groups: The groups.
        target: A file name whose ending tells the format; see `write_documents`.
        overwrite: Replace the file if there is one.

    Raises:
        InputError: The target has another ending, exists and may not be overwritten, or cannot be
            written.
    """
    return write_documents(_group_records(groups), target, overwrite)


def _group_records(groups: Iterable[Group]) -> Iterator[dict[str, Any]]:
    """Yield the documents as dictionaries, each with the changes from its original."""
    rows = count()
    for group in groups:
        for document, variant in zip(documents([group]), group.variants, strict=True):
            changes = [asdict(change) for change in variant.changes]
            yield {**asdict(document), "row": next(rows), "changes": changes}
