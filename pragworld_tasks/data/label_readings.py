"""Three blind readings of the manual split: which gold labels they dispute, and which they miss.

Three language-model annotators of one family read all 500 questions, blind to the gold labels and
to each other, and answered yes, no or unknown with a reason. Nothing here changes a label.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pragworld_tasks.data.documents import Answer, Document, documents_digest
from pragworld_tasks.files import read_json_lines

Reading = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class LabelReadings:
    """What the three annotators answered to one document of the manual split.

    Attributes:
        row: the document's row in the released file, from 0.
        document: the digest of the document that was read, with its gold answer.
        readings, sure, reasons: what each annotator answered, whether it was sure, and why.
        dispute: why all three contradict the gold answer, in our words; empty where they don't.
    """

    row: int
    document: str
    gold: str
    readings: Sequence[Reading]
    sure: Sequence[bool]
    reasons: Sequence[str]
    dispute: str

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The three answers by the split's convention that what was never said is no."""
        return tuple("no" if reading == "unknown" else reading for reading in self.readings)

    @property
    def majority(self) -> Answer:
        """The answer of at least two annotators, unknown counted as no."""
        return "yes" if self.readings.count("yes") >= 2 else "no"

    @property
    def is_disputed(self) -> bool:
        """Whether all three annotators contradict the gold answer."""
        return self.gold not in self.answers

    @property
    def is_undetermined(self) -> bool:
        """Whether the label rests on a convention: gold is no, and at least two read unknown."""
        return self.gold == "no" and self.readings.count("unknown") >= 2


@functools.cache
def label_readings() -> tuple[LabelReadings, ...]:
    """Return the readings of all rows of the released manual split, in their order.

    Examples:
        >>> sum(readings.is_disputed for readings in label_readings())
        17
        >>> sum(readings.is_undetermined for readings in label_readings())
        21
    """
    return tuple(
        LabelReadings(reasons=record.pop("why"), **record)
        for _, record in read_json_lines(Path(__file__).with_name("label_readings.jsonl"))
    )


def readings_of(documents: Sequence[Document]) -> list[LabelReadings | None]:
    """Return the readings of each document; None for one that was not read.

    A document of the manual split whose text or gold answer is not the released one was not read.
    """
    read = {readings.document: readings for readings in label_readings()}
    return [
        read.get(documents_digest([document])) if document.split == "manual" else None
        for document in documents
    ]
