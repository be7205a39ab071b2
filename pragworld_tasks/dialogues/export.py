"""Generated groups into files: the released table, JSON lines, Parquet, or a `datasets` folder.

A file takes its place only when it is whole.
"""

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pragworld_tasks.dialogues.generate import Group, Variant, documents
from pragworld_tasks.errors import InputError

COLUMNS = (
    "Seed Index",
    "Local Context",
    "Question",
    "Answer",
    "Perturbation?",
    "Perturbation Target",
    "Perturbation Category",
    "Perturbation Effect",
    "Utterance Index",
    "Old Word",
    "New Word",
)
_JOINED = " | "  # between the changes of an alteration that makes two


def write_groups(groups: Iterable[Group], target: Path) -> int:
    """Writes the groups' documents, and what was changed in each, and says how many there are.

    Args:
        groups: in order.
        target: ends in .csv (the released format), .jsonl or .parquet; without an ending, a
            folder for `datasets.load_from_disk`.

    Raises:
        InputError: another ending, or the place cannot be written to.
    """
    writers: dict[str, Callable[[Iterable[Group], Path], int]] = {
        ".csv": _write_csv,
        ".jsonl": _write_json_lines,
        ".parquet": _write_with_datasets,
        "": _write_with_datasets,
    }
    if target.suffix not in writers:
        raise InputError(
            f"{target}: cannot write {target.suffix!r}; end it in .csv, .jsonl or .parquet, or in "
            "nothing for a datasets folder"
        )
    if target.is_dir() or (target.suffix == "" and target.exists()):
        raise InputError(f"{target}: exists already; remove it or name another place")
    partial = target.with_name(f".{target.name}.partial{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            count = writers[target.suffix](groups, partial)
            partial.replace(target)
        finally:
            if partial.is_dir():
                shutil.rmtree(partial)
            else:
                partial.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{target}: {error.strerror or error}; name another place") from error
    return count


def group_records(groups: Iterable[Group]) -> Iterator[dict[str, Any]]:
    """Documents as dictionaries, with the changes that made each of its original."""
    row = 0
    for group in groups:
        for document, variant in zip(documents([group]), group.variants, strict=True):
            changes = [asdict(change) for change in variant.changes]
            yield {**asdict(document), "row": row, "changes": changes}
            row += 1


def _write_csv(groups: Iterable[Group], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for group in groups:
            for variant in group.variants:
                writer.writerow(_cells(group, variant))
                count += 1
    return count


def _cells(group: Group, variant: Variant) -> list[str]:
    """One record as the released files have it."""
    return [
        str(group.number),
        "\n".join(variant.lines),
        group.question_text,
        variant.answer,
        "FALSE" if variant.alteration is None else "TRUE",
        "-",
        variant.alteration or "-",
        (variant.effect or "-").capitalize(),
        _JOINED.join(str(change.utterance) for change in variant.changes),
        _JOINED.join(change.old for change in variant.changes),
        _JOINED.join(change.new for change in variant.changes),
    ]


def _write_json_lines(groups: Iterable[Group], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as stream:
        for record in group_records(groups):
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


def _write_with_datasets(groups: Iterable[Group], path: Path) -> int:
    from datasets import Dataset

    data = Dataset.from_list(list(group_records(groups)))
    if path.suffix == ".parquet":
        data.to_parquet(path)
    else:
        data.save_to_disk(path)
    return len(data)
