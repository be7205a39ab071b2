"""The command `pragworld-tasks data`."""

import shutil
from pathlib import Path

import pytest
from places import SAMPLES

from pragworld_tasks.cli import main
from pragworld_tasks.data.sources import FILES


def test_check_prints_an_audit_and_says_where_each_split_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(SAMPLES, folder)
    monkeypatch.setenv("PRAGWORLD_DATA", str(folder))
    monkeypatch.setenv("PRAGWORLD_CACHE", str(tmp_path / "cache"))
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
    absent = f"synthetic: neither in PRAGWORLD_DATA nor in the cache, {tmp_path / 'cache'}"
    assert capsys.readouterr().out.startswith(absent)
