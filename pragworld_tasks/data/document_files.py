"""Files of documents: a table in the released format (CSV), JSON lines or Parquet."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pragworld_tasks.data.readers import read_table
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import Where, check_output, read_json_lines, write_whole

Records = Iterable[Mapping[str, Any]]


def write_documents(records: Records, target: Path, overwrite: bool = False) -> int:
    """Write documents in the format that the file's name asks for.

    Args:
        records: the fields of each `Document`, and `changes`, what distinguishes it from its
            original: the fields of each `Change`. Each original is followed by its variants.
        target: a file name that ends in `.csv` (the released format), `.jsonl` or `.parquet`.
        overwrite: replace the file if there is one.

    Returns:
        The number of documents.

    Raises:
        InputError: The target has another ending, exists, or cannot be written.
    """
    writers = {".csv": _to_csv, ".jsonl": _to_json_lines, ".parquet": _to_parquet}
    if target.suffix not in writers:
        raise InputError(f"{target}: unknown format; end the name in .csv, .jsonl or .parquet")
    check_output(target, overwrite)
    rows = list(records)
    write_whole(target, writers[target.suffix](rows))
    return len(rows)


def _to_csv(records: Records) -> bytes:
    stream = io.StringIO(newline="")
    rows = [_released_row(record) for record in records]
    if rows:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return stream.getvalue().encode()


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


def _to_json_lines(records: Records) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def _to_parquet(records: Records) -> bytes:
    from pyarrow import BufferOutputStream, Table, parquet

    stream = BufferOutputStream()
    parquet.write_table(Table.from_pylist(list(records)), stream)
    content: bytes = stream.getvalue().to_pybytes()
    return content


def read_document_records(path: Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Yield the fields of each document in a file of any format, with its place.

    Raises:
        InputError: The file cannot be read or is malformed.
    """
    readers = {".csv": read_table, ".parquet": _read_parquet}
    return readers.get(path.suffix.lower(), read_json_lines)(path)


def _read_parquet(path: Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    from pyarrow import ArrowException, parquet

    try:
        records = parquet.read_table(io.BytesIO(path.read_bytes())).to_pylist()
    except (OSError, ArrowException) as error:
        reason = getattr(error, "strerror", None) or "not a Parquet file"
        raise InputError(f"{path}: {reason}") from error
    for row, record in enumerate(records):
        yield Where(path, row, None), record
