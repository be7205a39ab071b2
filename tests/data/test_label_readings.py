"""The audit of the manual split's labels: its claims recomputed, and the metrics that follow."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from json_lines import read_lines

from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Document, documents_digest
from pragworld_tasks.data.label_readings import LabelReadings, label_readings, readings_of
from pragworld_tasks.data.sources import FILES, deviation, read_split

OTHER = {"yes": "no", "no": "yes"}
DISPUTED = [*range(125, 135), 366, 450, 453, 454, 455, 480, 481]


@pytest.fixture(scope="module")
def documents(released: Path) -> list[Document]:
    return read_split("manual", released / FILES["manual"].path)


@pytest.fixture(scope="module")
def original_readings(released: Path) -> list[dict[str, Any]]:
    """The readings as their annotators wrote them."""
    return read_lines(released / "label_readings.jsonl")


def test_the_shipped_readings_are_the_original_ones(
    documents: list[Document], original_readings: list[dict[str, Any]]
) -> None:
    shipped = label_readings()
    for document, original, readings in zip(documents, original_readings, shipped, strict=True):
        assert readings == LabelReadings(
            original["row"],
            documents_digest([document]),
            document.answer,
            original["readings"],
            original["sure"],
            original["why"],
            readings.dispute,
        )
        assert bool(readings.dispute) == readings.is_disputed


def test_a_changed_document_was_not_read(documents: list[Document]) -> None:
    turned = dataclasses.replace(documents[125], answer="no")
    reworded = dataclasses.replace(documents[126], question=documents[126].question + " Surely?")
    elsewhere = dataclasses.replace(documents[127], split="generated")
    assert readings_of([turned, reworded, elsewhere]) == [None, None, None]


def test_two_swapped_labels_are_not_the_released_file(documents: list[Document]) -> None:
    """The counts of documents, groups and yeses stay the same; only the digest differs."""
    changed = list(documents)
    for document in {document.answer: document for document in documents}.values():
        changed[document.row] = dataclasses.replace(document, answer=OTHER[document.answer])
    assert deviation(documents) == ""
    assert "gold answers differ" in deviation(changed)


def test_the_labels_are_printed_with_what_the_readers_said(
    released_data: Path, documents: list[Document], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["data", "labels"])
    disputed, undetermined = capsys.readouterr().out.split("21 of 500 documents: undetermined")
    assert re.findall(r"^row (\d+),", disputed, re.MULTILINE) == [str(row) for row in DISPUTED]
    assert disputed.startswith("17 of 500 documents: disputed labels\n")
    assert "Question: Is Dale a monkey?\n  Gold answer: no" in disputed
    shown = " ".join(disputed.split())
    for row in DISPUTED:
        assert " ".join(documents[row].context.split()) in shown
        for reason in (*label_readings()[row].reasons, label_readings()[row].dispute):
            assert reason in disputed
    assert len(re.findall(r"^row \d+,", undetermined, re.MULTILINE)) == 21
