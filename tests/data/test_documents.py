"""Documents from the released formats: the quirks, on our samples and on the released files."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from places import SAMPLES

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.readers import read_entity_tracking, read_manual, read_synthetic
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.errors import InputError

MANUAL = SAMPLES / FILES["manual"].path
SYNTHETIC = SAMPLES / FILES["synthetic"].path
ENTITY_TRACKING = SAMPLES / FILES["entity_tracking"].path
READERS = {
    MANUAL: read_manual,
    SYNTHETIC: read_synthetic,
    ENTITY_TRACKING: read_entity_tracking,
}


# Quirks, on our own files -------------------------------------------------------------------------


def test_the_manual_sample_is_read_with_its_quirks() -> None:
    """Tally rows are dropped, stray spaces and line breaks in flags and categories settled."""
    documents = read_manual(MANUAL)
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
    document = read_manual(MANUAL)[4]
    assert document.question == "Did B post \nonly two letters? "
    assert document.context.startswith('"A: Did you')
    assert document.context.endswith('Thanks!"')
    assert "I’ve posted two, and\na parcel." in document.context
    synthetic = read_synthetic(SYNTHETIC)
    assert synthetic[0].context.startswith("1: Alice: ")
    assert synthetic[5].question == "1. Did the doctor sleep?"


def test_neither_line_breaks_nor_a_byte_order_mark_matter(tmp_path: Path) -> None:
    path = tmp_path / "manual.csv"
    for content in (
        b"\xef\xbb\xbf" + MANUAL.read_bytes(),
        MANUAL.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    ):
        path.write_bytes(content)
        assert read_manual(path) == read_manual(MANUAL)


def test_the_synthetic_sample_is_read_with_its_quirks() -> None:
    """What is no answer counts as no, a row without an answer is left out, targets are cut off."""
    documents = read_synthetic(SYNTHETIC)
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
    documents = read_entity_tracking(ENTITY_TRACKING)
    assert documents[2].context.endswith("Alice: who did\nBob: Zoe")
    assert documents[2].question == "Did Zoe put the beets in the cellar?"
    assert documents[2].answer == "yes"
    assert [document.group for document in documents] == [0, 0, 0, 1, 1]
    assert all(document.is_original and document.effect is None for document in documents)


# The released files -------------------------------------------------------------------------------


def test_released_manual_split_counts(released: Path) -> None:
    documents = read_manual(released / FILES["manual"].path)
    assert len(documents) == 500
    assert documents[-1].group + 1 == 88
    assert documents[-1].released_group + 1 == 98
    assert sum(document.released_is_original for document in documents) == 98
    assert Counter(document.answer for document in documents) == {"yes": 277, "no": 223}
    assert Counter(document.alteration for document in documents) == {
        "Variable Substitution": 106,
        "Variable Swap": 79,
        "Negation": 71,
        "Quantifier Change": 65,
        "Quantity Change": 57,
        "Injecting Inconsistent Data": 21,
        "Logical Connective Change": 13,
        None: 88,
    }
    assert Counter(d.effect for d in documents) == {"flip": 139, "invariant": 273, None: 88}


def test_released_entity_tracking_counts(released: Path) -> None:
    documents = read_entity_tracking(released / FILES["entity_tracking"].path)
    assert len(documents) == 364
    assert documents[-1].group + 1 == 15  # paper, section 5.2
    assert Counter(document.answer for document in documents) == {"yes": 182, "no": 182}


def test_sample_of_the_released_synthetic_split(released: Path) -> None:
    documents = read_synthetic(released / "synthetic_sample.csv")
    assert len(documents) == 52
    assert documents[-1].group + 1 == 12
    sizes = Counter(document.group for document in documents)
    assert 1 in sizes.values()  # an original that nothing was altered from
    by_group = {document.group: document for document in documents if document.is_original}
    assert all(
        (document.effect == "flip") == (document.answer != by_group[document.group].answer)
        for document in documents
        if not document.is_original
    )


# Files that are not what they should be -----------------------------------------------------------

# What of a sample is replaced by what, and the line that the reader prints.
REFUSALS = {
    MANUAL: [
        ("Answer,", "Anwser,", "line 1: no column 'Answer' in"),
        ("Yes,FALSE,None", "Yes,TRUE,None", "row 0 (line 2): alteration '-' contradicts flag 'TR"),
        ("Yes,FALSE,None,-,-", "Yes,TRUE,None,Negation,Flip", "row 0 (line 2): an altered variant"),
        ("Negation", "Negotiation", "row 1 (line 6): unknown alteration 'Negotiation'; must be "),
        ("?,No,TRUE", "?,Perhaps,TRUE", "row 1 (line 6): unknown answer 'Perhaps'; must be one of"),
        ("No,TRUE", "No,TRUTH", "row 1 (line 6): unknown flag 'TRUTH'; must be one of true, false"),
        ("shed?,Yes,FALSE", "shed?,notsure,FALSE", "row 0 (line 2): unknown answer 'notsure'"),
        ("shed?,Yes,FALSE", "shed?,,FALSE", "row 0 (line 2): unknown answer ''"),
        ("Negation,Flip", "Negation,Flop", "row 1 (line 6): unknown effect 'Flop'; must be one of"),
        ("Context,Negation,Flip", "Context", "row 1 (line 6): 5 fields instead of 7; is the line"),
    ],
    SYNTHETIC: [
        ("attic?,yes,FALSE", "attic?,,FALSE", "row 1 (line 6): an altered variant without")
    ],
    ENTITY_TRACKING: [
        ('{"prompt": "', '{"prompt": ', "row 0 (line 1): not JSON"),
        (
            "answer the question below",
            "reply",
            "row 0 (line 1): the prompt is neither Prompt 1 nor",
        ),
    ],
}


@pytest.mark.parametrize(
    ("sample", "old", "new", "line"),
    [(sample, *refusal) for sample, refusals in REFUSALS.items() for refusal in refusals],
)
def test_a_malformed_record_is_refused_by_row(
    tmp_path: Path, sample: Path, old: str, new: str, line: str
) -> None:
    content = sample.read_bytes().decode()
    assert old in content
    path = tmp_path / "file"
    path.write_bytes(content.replace(old, new, 1).encode())
    assert refused(READERS[sample], path).startswith(f"{path}, {line}")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", ": no documents"),
        (MANUAL.read_bytes().partition(b"\r\n")[0] + b"\r\n,,,77,,,", ": no documents"),
        (
            MANUAL.read_bytes().partition(b"Person 2: he was")[0],
            ", row 8 (line 39): unexpected end",
        ),
        (MANUAL.read_text(encoding="utf-8").encode("cp1252"), ": not UTF-8; save the file in that"),
        (None, ": No such file or directory"),
    ],
)
def test_what_is_no_whole_table_is_refused(
    tmp_path: Path, content: bytes | None, line: str
) -> None:
    path = tmp_path / "manual.csv"
    if content is not None:
        path.write_bytes(content)
    assert refused(read_manual, path).startswith(f"{path}{line}")


def refused(read: Callable[[Path], list[Document]], path: Path) -> str:
    """Return the line with which a reader refuses a file."""
    with pytest.raises(InputError) as refusal:
        read(path)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)
