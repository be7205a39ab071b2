"""The audit of the manual split's labels: its claims recomputed, and the metrics that follow."""

import dataclasses
from pathlib import Path

import pytest
from json_lines import read_lines

from pragworld_tasks.data.documents import Document, documents_digest
from pragworld_tasks.data.label_readings import LabelReadings, label_readings, readings_of
from pragworld_tasks.data.sources import FILES, deviation, read_split

OTHER = {"yes": "no", "no": "yes"}


@pytest.fixture(scope="module")
def documents(released: Path) -> list[Document]:
    return read_split("manual", released / FILES["manual"].path)


def test_the_shipped_readings_are_the_original_ones(
    documents: list[Document], released: Path
) -> None:
    written, shipped = read_lines(released / "label_readings.jsonl"), label_readings()
    for document, original, readings in zip(documents, written, shipped, strict=True):
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
