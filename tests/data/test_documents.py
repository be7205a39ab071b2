"""Documents from the released formats: the quirks, on our samples and the released files; `data check`."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from places import SAMPLES

from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import ALTERATION_COUNTS
from pragworld_tasks.data.sources import FILES, read_split

MANUAL = SAMPLES / FILES["manual"].path
SYNTHETIC = SAMPLES / FILES["synthetic"].path
ENTITY_TRACKING = SAMPLES / FILES["entity_tracking"].path


def test_the_manual_sample_is_read_with_its_quirks() -> None:
    """Tally rows are dropped, stray spaces and line breaks in flags and categories settled."""
    documents = read_split("manual", MANUAL)
    assert [document.row for document in documents] == list(range(10))
    assert [document.group for document in documents] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert [document.row for document in documents if document.is_original] == [0, 4, 8]
    # The released grouping takes a flag with a space for an original.
    assert [document.released_group for document in documents] == [0, 0, 0, 1, 2, 2, 2, 2, 3, 3]
    assert [one.row for one in documents if one.released_is_original] == [0, 3, 4, 8]
    assert [document.alteration for document in documents] == [
        *(None, "Negation", "Variable Substitution", "Quantifier Change"),
        *(None, "Quantity Change", "Variable Swap", "Injecting Inconsistent Data"),
        *(None, "Logical Connective Change"),
    ]
    # Annotated effects are kept even where they contradict the labels.
    assert (documents[5].effect, documents[5].answer) == ("flip", documents[4].answer)
    assert Counter(one.effect for one in documents) == {"flip": 3, "invariant": 4, None: 3}


def test_text_is_kept_as_it_is() -> None:
    document = read_split("manual", MANUAL)[4]
    assert document.question == "Did B post \nonly two letters? "
    assert document.context.startswith('"A: Did you')
    assert document.context.endswith('Thanks!"')
    assert "I’ve posted two, and\na parcel." in document.context
    synthetic = read_split("synthetic", SYNTHETIC)
    assert synthetic[0].context.startswith("1: Alice: ")
    assert synthetic[5].question == "1. Did the doctor sleep?"


def test_neither_line_breaks_nor_a_byte_order_mark_matter(tmp_path: Path) -> None:
    path = tmp_path / "manual.csv"
    for content in (
        b"\xef\xbb\xbf" + MANUAL.read_bytes(),
        MANUAL.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    ):
        path.write_bytes(content)
        assert read_split("manual", path) == read_split("manual", MANUAL)


def test_the_synthetic_sample_is_read_with_its_quirks() -> None:
    """What is no answer counts as no, a row without an answer is left out, targets are cut off."""
    documents = read_split("synthetic", SYNTHETIC)
    assert [document.row for document in documents] == list(range(7))
    answers = [document.answer for document in documents]
    assert answers == ["yes", "no", "no", "yes", "no", "yes", "no"]
    assert [document.alteration for document in documents] == [
        *(None, "Variable Substitution", "Quantity Change", "Quantifier Change"),
        *(None, None, "Logical Connective Change"),
    ]
    # By the flags, though seed indices repeat.
    assert [document.group for document in documents] == [0, 0, 0, 0, 1, 2, 2]
    # From the labels, not from what was possible.
    effects = [document.effect for document in documents]
    assert effects == [None, "flip", "flip", "invariant", None, None, "flip"]


def test_the_run_file_gives_back_context_and_question() -> None:
    documents = read_split("entity_tracking", ENTITY_TRACKING)
    assert documents[2].context.endswith("Alice: who did\nBob: Zoe")
    assert documents[2].question == "Did Zoe put the beets in the cellar?"
    assert documents[2].answer == "yes"
    assert [document.group for document in documents] == [0, 0, 0, 1, 1]
    assert all(document.is_original and document.effect is None for document in documents)


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


def test_released_manual_split_counts(released: Path) -> None:
    documents = read_split("manual", released / FILES["manual"].path)
    assert len(documents) == 500
    assert (documents[-1].group + 1, documents[-1].released_group + 1) == (88, 98)
    assert sum(document.released_is_original for document in documents) == 98
    assert Counter(document.answer for document in documents) == {"yes": 277, "no": 223}
    alterations = Counter(document.alteration for document in documents)
    assert (alterations.pop(None), alterations) == (88, ALTERATION_COUNTS)
    assert Counter(d.effect for d in documents) == {"flip": 139, "invariant": 273, None: 88}
