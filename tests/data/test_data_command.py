"""The command `pragworld-tasks data`."""

import shutil
from pathlib import Path

import pytest
from places import SAMPLES

from pragworld_tasks.cli import main
from pragworld_tasks.data.sources import FILES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sample files, which PRAGWORLD_DATA names, and an empty cache."""
    folder = tmp_path / "data"
    shutil.copytree(SAMPLES, folder)
    monkeypatch.setenv("PRAGWORLD_DATA", str(folder))
    monkeypatch.setenv("PRAGWORLD_CACHE", str(tmp_path / "cache"))
    return folder


def test_check_prints_an_audit_and_says_where_each_split_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["data", "check"])
    parts = capsys.readouterr().out.split("\n  from ")
    manual, synthetic, entity_tracking = parts[:3]
    assert synthetic.startswith(f"{folder / FILES['manual'].path}\n")
    assert "manual: 10 documents in 3 groups (4 as the released scoring counts them)" in manual
    assert "answers: no 6, yes 4" in manual
    assert "Not Altered 3" in manual
    assert "effects: invariant 4, flip 3" in manual
    assert "effect contradicts the labels in rows 5\n" in manual
    assert "documents, groups and yes answers: (10, 3, 4) instead of (500, 88, 277)" in manual
    assert "synthetic: 7 documents in 3 groups\n" in synthetic
    assert "entity_tracking: 5 documents in 2 groups\n" in entity_tracking
    (folder / FILES["synthetic"].path).unlink()
    main(["data", "check", "synthetic"])
    absent = f"synthetic: neither in PRAGWORLD_DATA nor in the cache, {folder.parent / 'cache'}"
    assert capsys.readouterr().out.startswith(absent)


def test_check_of_the_released_files_finds_what_is_known(
    released_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["data", "check", "manual", "entity_tracking"])
    output = capsys.readouterr().out
    assert "manual: 500 documents in 88 groups (98 as the released scoring counts them)" in output
    assert "effect contradicts the labels in rows 40, 125, 344, 433\n" in output
    assert "not the released file" not in output
