"""Answers of the paper's released runs and of the readers of the labels, and the paper's tables.

The answers were read from the first line (at most 40 characters) of each response in the released
run files (MIT licence), by `examples/ship_published_answers.py`.
"""

import csv
import functools
from pathlib import Path
from typing import NamedTuple

from pragworld_tasks.data.documents import Split
from pragworld_tasks.data.label_readings import label_readings
from pragworld_tasks.data.sources import FILES, is_released
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.responses import AnswerRecord, Predictions
from pragworld_tasks.files import read_json

_LETTERS: dict[str, str | None] = {"y": "yes", "n": "no", "-": None}
_DATA = Path(__file__).parents[1] / "data"


def published_models(split: Split = "manual") -> list[str]:
    """Return the names of the models whose released answers to a split ship with the package.

    Examples:
        >>> len(published_models("manual")), len(published_models("entity_tracking"))
        (14, 10)
    """
    folder = _DATA / "published_answers" / split
    names = [file.stem for file in folder.iterdir()] if folder.is_dir() else []
    return sorted(names, key=str.casefold)


def published_answers(model: str, split: Split = "manual") -> Predictions:
    """Return the released answers of a model to all documents of a split, in their order.

    Args:
        model: one of `published_models(split)`.
        split: `manual` (paper, Tables 1 and 15) or `entity_tracking` (Table 3).

    Examples:
        >>> answers = published_answers("gpt-3.5-turbo")
        >>> len(answers.ours), answers.ours.count("yes")
        (500, 160)
    """
    models = published_models(split)
    if not (is_released(split) and model in models):
        raise InputError(
            f"published:{model}: no published answers of that model to the split {split}; "
            f"choose from {', '.join(models or published_models())}"
        )
    content = read_json(_DATA / "published_answers" / split / f"{model}.json")
    ours, released = (
        [_LETTERS[letter] for letter in content[field]] for field in ("answers", "answers_released")
    )
    digest = content["documents_digest"]
    return Predictions(_records(ours, released), digest, FILES[split].texts_digest)


@functools.cache
def majority_answers() -> Predictions:
    """Return what two of the blind readers of the manual split's labels answered, like a model's.

    Unknown counts as no, by the convention of the split.
    """
    answers: list[str | None] = [row.majority for row in label_readings()]
    file = FILES["manual"]
    return Predictions(_records(answers, answers), file.digest, file.texts_digest)


def _records(ours: list[str | None], released: list[str | None]) -> list[AnswerRecord]:
    return [
        AnswerRecord(row=row, answer=answer, released=by_released)
        for row, (answer, by_released) in enumerate(zip(ours, released, strict=True))
    ]


class PublishedRow(NamedTuple):
    """A row of one of the paper's tables, with the figures by metric as they are printed."""

    table: int
    model: str
    fine_tuned: bool
    percents: dict[str, str]


def published_rows(split: str) -> list[PublishedRow]:
    """Return the rows of Tables 1, 2, 3 and 15 of the paper that are on a split, in their order.

    All figures on the manual split are by the released grouping (98 groups).
    """
    text = (_DATA / "published_results.csv").read_text(encoding="utf-8")
    rows = []
    for line in csv.DictReader(text.splitlines()):
        if line.pop("split") == split:
            row = int(line.pop("table")), line.pop("model"), line.pop("fine_tuned") == "yes"
            figures = {metric: percent for metric, percent in line.items() if percent}
            rows.append(PublishedRow(*row, figures))
    return rows
