"""Parquet files of documents: what is no table of a split is refused in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from places import SAMPLES
from pyarrow import parquet

from pragworld_tasks.data.parquet import parquet_path, to_parquet
from pragworld_tasks.data.sources import FILES, load_split
from pragworld_tasks.errors import InputError

DOCUMENTS = FILES["manual"].read(SAMPLES / FILES["manual"].path)
TABLE = parquet.read_table(pyarrow.BufferReader(to_parquet(DOCUMENTS)))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the table of the manual split is looked for."""
    monkeypatch.setenv("PRAGWORLD_DATA", str(tmp_path))
    path = tmp_path / parquet_path("manual")
    path.parent.mkdir()
    return path


def test_a_changed_question_is_noticed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = TABLE.to_pylist()
    rows[0]["question"] += "?"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    load_split("manual")
    assert "is not the released file: " in caplog.text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda rows: [row | {"answer": "maybe"} for row in rows], r"row 0: answer: Input should"),
        (lambda rows: [row | {"group": None} for row in rows], "row 0: group: Input should"),
        (lambda rows: [row | {"split": "synthetic"} for row in rows], "row 0 of the split synth"),
        (lambda rows: rows[1:], "row 0: holds row 1 of the split manual, not row 0 of manual"),
        (lambda rows: rows[:0], "no documents"),
        (lambda rows: [{"row": row["row"]} for row in rows], "no column 'context'"),
    ],
)
def test_a_malformed_table_is_refused(
    path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], problem: str
) -> None:
    parquet.write_table(pyarrow.Table.from_pylist(change(TABLE.to_pylist())), path)
    with pytest.raises(InputError, match=problem) as refusal:
        load_split("manual")
    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)


def test_text_that_is_not_utf8_is_refused(path: Path) -> None:
    contexts = pyarrow.array([b"caf\xe9"] * len(TABLE), pyarrow.binary())
    unchecked = pyarrow.Array.from_buffers(pyarrow.string(), len(TABLE), contexts.buffers())
    place = TABLE.schema.get_field_index("context")
    parquet.write_table(TABLE.set_column(place, "context", unchecked), path)
    with pytest.raises(InputError, match="holds text that is not UTF-8; write it again with"):
        load_split("manual")


def test_what_is_no_table_is_refused(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError, match="not a Parquet file; download it again"):
        load_split("manual")
