"""Files of generated groups: a table in the released format, JSON lines, Parquet, or a dataset.

A file appears under its name only when it is complete.
"""

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from pragworld_tasks.dialogues.generate import Group, Variant, documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import check_output


def write_groups(groups: Iterable[Group], target: Path, overwrite: bool = False) -> int:
    """Write the documents of the groups, with what each alteration changed.

    >>> from tempfile import TemporaryDirectory
    >>> from pragworld_tasks.dialogues.generate import generate
    >>> from pragworld_tasks.dialogues.settings import GeneratorSettings
    >>> groups = list(generate(GeneratorSettings(groups=3)))
    >>> with TemporaryDirectory() as folder:
    ...     rows = write_groups(groups, Path(folder, "train.csv"))
    >>> rows == sum(len(group.variants) for group in groups)
    True

    Args:
        groups: The groups, in order.
        target: A file name that ends in `.csv` (the released format), `.jsonl` or `.parquet`, or
            a name without an ending for a folder that `datasets.load_from_disk` reads.
        overwrite: Replace a file or folder of that format if there is one.

    Returns:
        The number of documents.

    Raises:
        InputError: The target has another ending, exists and may not be overwritten, or cannot be
            written.
    """
    writers: dict[str, Callable[[Iterable[Group], Path], int]] = {
        ".csv": _write_csv,
        ".jsonl": _write_json_lines,
        ".parquet": _write_with_datasets,
        "": _write_with_datasets,
    }
    if target.suffix not in writers:
        raise InputError(
            f"{target}: the format {target.suffix!r} is unknown; use .csv, .jsonl or .parquet, or "
            "no ending for a datasets folder"
        )
    partial = target.with_name(f".{target.name}.partial{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        check = check_output if target.suffix else _check_folder
        check(target, overwrite)
        try:
            rows = writers[target.suffix](groups, partial)
            if target.is_dir():
                shutil.rmtree(target)
            partial.replace(target)
        finally:
            if partial.is_dir():
                shutil.rmtree(partial)
            else:
                partial.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{target} cannot be written ({error.strerror or error}); use another name"
        ) from error
    return rows


def _check_folder(target: Path, overwrite: bool) -> None:
    """Refuse a target that exists, unless `datasets` saved it: another folder may hold anything."""
    if not target.exists():
        return
    if not overwrite:
        raise InputError(f"{target} exists; pass --overwrite, or another name")
    if not target.is_dir() or not all(
        path.name in ("dataset_info.json", "state.json") or path.suffix == ".arrow"
        for path in target.iterdir()
    ):
        raise InputError(f"{target} exists and is not a dataset's folder; pass another name")


def group_records(groups: Iterable[Group]) -> Iterator[dict[str, Any]]:
    """Yield the documents as dictionaries, each with the changes from its original."""
    rows = count()
    for group in groups:
        for document, variant in zip(documents([group]), group.variants, strict=True):
            changes = [asdict(change) for change in variant.changes]
            yield {**asdict(document), "row": next(rows), "changes": changes}


def _write_csv(groups: Iterable[Group], path: Path) -> int:
    rows = 0
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for group in groups:
            for variant in group.variants:
                row = _released_row(group, variant)
                if rows == 0:
                    writer.writerow(row)
                writer.writerow(row.values())
                rows += 1
    return rows


def _released_row(group: Group, variant: Variant) -> dict[str, object]:
    """Return a variant as a row of the released table. A swap has two changes."""
    changes = variant.changes
    return {
        "Seed Index": group.number,
        "Local Context": "\n".join(variant.dialogue.lines),
        "Question": group.question_text,
        "Answer": variant.answer,
        "Basis": variant.basis,
        "Perturbation?": "FALSE" if variant.alteration is None else "TRUE",
        "Perturbation Target": "-",
        "Perturbation Category": variant.alteration or "-",
        "Perturbation Effect": (variant.effect or "-").capitalize(),
        "Utterance Index": " | ".join(str(change.utterance) for change in changes),
        "Old Word": " | ".join(change.old for change in changes),
        "New Word": " | ".join(change.new for change in changes),
    }


def _write_json_lines(groups: Iterable[Group], path: Path) -> int:
    rows = 0
    with path.open("w", encoding="utf-8") as stream:
        for record in group_records(groups):
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            rows += 1
    return rows


def _write_with_datasets(groups: Iterable[Group], path: Path) -> int:
    from datasets import Dataset

    dataset = Dataset.from_list(list(group_records(groups)))
    if path.suffix == ".parquet":
        dataset.to_parquet(path)
    else:
        dataset.save_to_disk(path)
    return len(dataset)
