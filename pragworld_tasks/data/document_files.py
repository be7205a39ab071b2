"""Files of documents: a table in the released format, JSON lines, Parquet, or a dataset.

A file appears under its name only when it is complete. `own_documents` reads all four.
"""

import contextlib
import csv
import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import check_output

Records = Iterable[Mapping[str, Any]]


def write_documents(records: Records, target: Path, overwrite: bool = False) -> int:
    """Write documents in the format that the file's name asks for.

    Args:
        records: The fields of each `Document`, and `changes`, what distinguishes it from its
            original: the fields of each `Change`. All formats but the released one keep further
            fields. Each original is followed by its variants.
        target: A file name that ends in `.csv` (the released format), `.jsonl` or `.parquet`, or
            a name without an ending for a folder that `datasets.load_from_disk` reads.
        overwrite: Replace a file or folder of that format if there is one.

    Returns:
        The number of documents.

    Raises:
        InputError: The target has another ending, exists and may not be overwritten, or cannot be
            written.
    """
    writers: dict[str, Callable[[Records, Path], int]] = {
        ".csv": _write_csv,
        ".jsonl": _write_json_lines,
        ".parquet": _write_with_datasets,
        "": _write_with_datasets,
    }
    if not target.name:
        raise InputError(f"{target} is no name of a file; use another, such as train.csv")
    if target.suffix not in writers:
        raise InputError(
            f"{target}: the format {target.suffix!r} is unknown; use .csv, .jsonl or .parquet, or "
            "no ending for a datasets folder"
        )
    partial = target.with_name(f".{target.name}.partial{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        check = check_output if target.suffix else check_dataset_folder
        check(target, overwrite)
        try:
            rows = writers[target.suffix](records, partial)
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


def check_dataset_folder(target: Path, overwrite: bool) -> None:
    """Refuse a folder to write that exists, unless `datasets` saved it: another may hold anything.

    Args:
        target: the folder to write later.
        overwrite: whether it may exist.

    Raises:
        InputError: It may not be replaced.
    """
    if not target.exists():
        return
    if not overwrite:
        raise InputError(f"{target} exists; pass --overwrite, or another name")
    if not target.is_dir() or not all(
        path.name in ("dataset_info.json", "state.json") or path.suffix == ".arrow"
        for path in target.iterdir()
    ):
        raise InputError(f"{target} exists and is not a dataset's folder; pass another name")


def _write_csv(records: Records, path: Path) -> int:
    rows = 0
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for record in records:
            row = _released_row(record)
            if rows == 0:
                writer.writerow(row)
            writer.writerow(row.values())
            rows += 1
    return rows


def _released_row(record: Mapping[str, Any]) -> dict[str, object]:
    """Return a document as a row of the released table. A swap has several changes."""
    changes = record["changes"]
    return {
        "Seed Index": record["group"],
        "Local Context": record["context"],
        "Question": record["question"],
        "Answer": record["answer"],
        "Basis": record["basis"] or "-",
        "Perturbation?": "FALSE" if record["is_original"] else "TRUE",
        "Perturbation Target": "-",
        "Perturbation Category": record["alteration"] or "-",
        "Perturbation Effect": (record["effect"] or "-").capitalize(),
        "Utterance Index": " | ".join(str(change["utterance"]) for change in changes),
        "Old Word": " | ".join(change["old"] for change in changes),
        "New Word": " | ".join(change["new"] for change in changes),
    }


def _write_json_lines(records: Records, path: Path) -> int:
    rows = 0
    with path.open("w", encoding="utf-8") as stream:
        for record in records:
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            rows += 1
    return rows


def _write_with_datasets(records: Records, path: Path) -> int:
    from datasets import Dataset

    rows = [dict(record) for record in records]
    # Without rows, `datasets` before 4.5 writes nothing that has no columns.
    columns = (*(field.name for field in dataclasses.fields(Document)), "changes")
    table = Dataset.from_list(rows) if rows else Dataset.from_dict({name: [] for name in columns})
    # The fingerprint is random otherwise, and the same documents would give other files.
    fingerprint = hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]
    dataset = Dataset(table.data, table.info, fingerprint=fingerprint)
    with _without_progress_bars():
        if path.suffix == ".parquet":
            dataset.to_parquet(path)
        else:
            dataset.save_to_disk(path)
    return len(dataset)


@contextlib.contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Keep `datasets` from showing a bar for a file that is written in no time."""
    import datasets

    if datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
