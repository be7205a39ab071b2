"""Parquet files of documents: the form in which the benchmark is a dataset of the Hugging Face Hub.

A file has a column for each field of `Document` but `turns_ago` and `basis`, which released splits
lack. The manual split has further columns: what the three readers of its labels answered.
"""

import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pragworld_tasks.data.documents import Document, Split
from pragworld_tasks.data.label_readings import LabelReadings, readings_of
from pragworld_tasks.errors import InputError

if TYPE_CHECKING:
    from pyarrow import Schema

_COLUMNS = tuple(
    field.name for field in fields(Document) if field.name not in ("turns_ago", "basis")
)


def parquet_path(split: Split) -> str:
    """Return where a dataset repository has the file of a split."""
    return f"{split}/test-00000-of-00001.parquet"


def to_parquet(documents: Sequence[Document]) -> bytes:
    """Return the content of the Parquet file of a split."""
    from pyarrow import BufferOutputStream, Table, parquet

    table = Table.from_pylist(_records(documents), schema=_schema(documents[0].split))
    stream = BufferOutputStream()
    parquet.write_table(table, stream)
    content: bytes = stream.getvalue().to_pybytes()
    return content


def read_parquet(path: Path, split: Split) -> list[Document]:
    """Return the documents in the Parquet file of a split.

    Raises:
        InputError: The file cannot be read or is malformed, or holds another split.
    """
    from pydantic import TypeAdapter, ValidationError

    remedy = "write it again with `scripts/hub_dataset.py`"
    records = read_parquet_records(path, remedy)
    if not records:
        raise InputError(f"{path}: no documents; {remedy}")
    if missing := [name for name in _COLUMNS if name not in records[0]]:
        raise InputError(f"{path}: no column {missing[0]!r}; {remedy}")
    try:
        documents = TypeAdapter(list[Document]).validate_python(
            [{name: record[name] for name in _COLUMNS} for record in records]
        )
    except ValidationError as error:
        problem = error.errors()[0]
        row, *place = problem["loc"]
        what = ": ".join(map(str, [*place, problem["msg"]]))
        raise InputError(f"{path}, row {row}: {what}; {remedy}") from error
    for row, document in enumerate(documents):
        if (document.row, document.split) != (row, split):
            raise InputError(
                f"{path}, row {row}: holds row {document.row} of the split {document.split}, not "
                f"row {row} of {split}; {remedy}"
            )
    return documents


def read_parquet_records(path: Path, remedy: str) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file, by the names of its columns.

    Args:
        path: the file.
        remedy: what to do if it is none, for messages.

    Raises:
        InputError: The file cannot be read or is malformed.
    """
    from pyarrow import ArrowException, parquet

    try:
        records: list[dict[str, Any]] = parquet.read_table(
            io.BytesIO(path.read_bytes())
        ).to_pylist()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; {remedy}") from error
    except ArrowException as error:
        raise InputError(f"{path}: not a Parquet file; download it again, or {remedy}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: holds text that is not UTF-8; {remedy}") from error
    return records


def _records(documents: Sequence[Document]) -> list[dict[str, Any]]:
    return [
        {**asdict(document), **(_label_record(readings) if readings else {})}
        for document, readings in zip(documents, readings_of(documents), strict=True)
    ]


def _label_record(readings: LabelReadings) -> dict[str, Any]:
    return {
        "disputed": readings.is_disputed,
        "undetermined": readings.is_undetermined,
        "readings": readings.readings,
        "readings_sure": readings.sure,
        "reasons": readings.reasons,
    }


def _schema(split: Split) -> "Schema":
    import pyarrow

    integer, text, boolean = pyarrow.int64(), pyarrow.string(), pyarrow.bool_()
    types = {"row": integer, "group": integer, "released_group": integer}
    types |= {"is_original": boolean, "released_is_original": boolean}
    columns = {name: types.get(name, text) for name in _COLUMNS}
    if split == "manual":
        columns |= {"disputed": boolean, "undetermined": boolean}
        columns |= {"readings": pyarrow.list_(text), "readings_sure": pyarrow.list_(boolean)}
        columns |= {"reasons": pyarrow.list_(text)}
    return pyarrow.schema(list(columns.items()))
