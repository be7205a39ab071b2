"""Journals: whatever ends a run, what it has done is kept, and nothing else is taken for it."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pragworld_tasks.errors import InputError
from pragworld_tasks.journal import open_journal, read_journal


def write(path: Path, *values: Any, **settings: Any) -> list[Any]:
    """Append values; return what was there."""
    with open_journal(path, **{"identity": {"model": "m"}, **settings}) as journal:
        for value in values:
            journal.append(value)
        return journal.records


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


@given(
    st.lists(st.text() | st.lists(st.floats(allow_nan=False)), max_size=5),
    st.integers(min_value=0),
)
def test_a_journal_cut_off_anywhere_keeps_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], cut: int
) -> None:
    path = tmp_path_factory.mktemp("journals") / "journal"
    for value in values:
        write(path, value)
    content = path.read_bytes() if path.exists() else b""
    kept = content[: cut % (len(content) + 1)]
    path.write_bytes(kept)
    whole = max(0, kept.count(b"\n") - 1)
    assert write(path, "further") == values[:whole]
    assert write(path) == [*values[:whole], "further"]
    assert path.read_bytes().startswith(kept[: kept.rfind(b"\n") + 1])
    assert [one.name for one in path.parent.iterdir()] == [path.name]  # no lock, no part of a file


def test_half_a_character_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "journal", "\ud83d", "é")
    assert write(tmp_path / "journal") == ["\ud83d", "é"]


def test_records_of_another_identity_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    before = {"model": {"name": "m", "layers": 2}, "budget": 3}
    write(path, identity=before)
    # There is no record yet, so nothing to be mixed with.
    before["budget"] = 4
    write(path, [0.1, 0.2], identity=before)
    content = path.read_bytes()
    for now, changed in (
        ({**before, "budget": 3}, "budget 4, not 3"),
        ({**before, "model": {"name": "m"}}, "model.layers 2, not None"),
        ({**before, "seed": 1}, "seed None, not 1"),
    ):
        message = f"^{path}: written with {changed}; use that again, remove the file to start over"
        for read in (read_journal, lambda path, now: write(path, identity=now)):
            with pytest.raises(InputError, match=message):
                read(path, now)
    assert path.read_bytes() == content


def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    settings: dict[str, Any] = {"identity": {"a": 1}}
    kept = [f"result {number}" for number in range(5)]
    write(path, *kept, **settings)
    too_large = pytest.raises(InputError, match=f"^{path}: File too large; make room")
    with full_disk(path.stat().st_size + 9), too_large as error:
        write(path, "a result that is cut off", **settings)
    assert "\n" not in str(error.value)
    assert write(path, "after", **settings) == kept
    assert write(path, **settings) == [*kept, "after"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "journal", tmp_path, Path("/proc/journal")):
        with pytest.raises(InputError, match=f"^{path}: .*; choose "):
            write(path)


def test_a_journal_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with open_journal(path, {"model": "m"}) as journal:
        journal.append(1)
        message = f"^{path}: another process is writing to it; wait for its end$"
        with pytest.raises(InputError, match=message):
            write(path)
        assert read_journal(path, {"model": "m"}) == [1]
    assert write(path, 2) == [1]


def test_what_release_0_1_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text('{"data": {"rows": [1, 2]}, "model": "m"}\n[0, [[0.5]]]\n[1, [[0.25]]]\n[2, [')
    identity = {"model": "m", "data": {"rows": (1, 2)}}
    assert read_journal(path, identity) == [[0, [[0.5]]], [1, [[0.25]]]]
