"""Responses that exist already: files of them, read into answers.

They come as JSON lines: the released `outputs.jsonl`, or `{"row": n, "response": "..."}`, or
lm-eval's `samples_*.jsonl` (with generated responses or with log-likelihoods of yes and no).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pragworld_tasks.answers import likelier_answer, read_answer, read_answer_released
from pragworld_tasks.documents import Answer, Document, Where, read_json_lines
from pragworld_tasks.errors import InputError


@dataclass(frozen=True)
class Predictions:
    """What a file of responses answers, a place for each document.

    Attributes:
        ours: answers by `read_answer`.
        released: answers by `read_answer_released`, which the paper's tables rest on.
    """

    ours: list[Answer | None]
    released: list[Answer | None]


def read_predictions(path: Path, documents: Sequence[Document]) -> Predictions:
    """The answers in a file of responses, in the order of `documents`.

    Raises:
        InputError: a line has no response, a row is missing, out of range or there twice, or the
            responses are to other prompts than these documents'.
    """
    by_row: dict[int, tuple[Answer | None, Answer | None]] = {}
    has_rows: bool | None = None
    for where, record in read_json_lines(path):
        row = _row_of(record, where)
        if has_rows is None:
            has_rows = row is not None
        elif has_rows != (row is not None):
            where.refuse("some lines have a 'row' and some have none; give all of them one")
        row = where.row if row is None else row
        if not 0 <= row < len(documents):
            where.refuse(f"row {row} is out of range: the split has rows 0 to {len(documents) - 1}")
        if row in by_row:
            where.refuse(f"row {row} is there twice")
        _check_same_document(record, documents[row], where)
        by_row[row] = _answers_of(record, where)
    missing = [row for row in range(len(documents)) if row not in by_row]
    if missing:
        raise InputError(
            f"{path}: {len(by_row)} responses for {len(documents)} documents; "
            f"row {missing[0]} is the first without one"
        )
    answers = [by_row[row] for row in range(len(documents))]
    return Predictions([ours for ours, _ in answers], [released for _, released in answers])


def _row_of(record: Mapping[str, Any], where: Where) -> int | None:
    """The row that a record says it is about; None where it does not say."""
    row = record["doc"].get("row") if isinstance(record.get("doc"), dict) else record.get("row")
    if row is not None and (not isinstance(row, int) or isinstance(row, bool)):
        where.refuse(f"'row' is {row!r}, not a whole number")
    return row


def _check_same_document(record: Mapping[str, Any], document: Document, where: Where) -> None:
    """Refuses a response whose record shows that it is to another document."""
    asked = record.get("doc") or {}
    prompt = record.get("prompt", document.question)
    if asked.get("question", document.question) != document.question or (
        document.question not in str(prompt)
    ):
        where.refuse(
            f"the response is to another question than row {document.row} of the "
            f"{document.split} split; is it a file of another split?"
        )


def _answers_of(record: Mapping[str, Any], where: Where) -> tuple[Answer | None, Answer | None]:
    """The answer in our reading and in the released one."""
    if "filtered_resps" in record:
        responses = record["filtered_resps"]
        if len(responses) == 2 and all(isinstance(one, list) for one in responses):
            yes, no = (float(one[0]) for one in responses)
            answer = likelier_answer(yes, no)
            return answer, answer
        response = responses[0] if responses else None
    elif "response" in record:
        response = record["response"]
    else:
        where.refuse("no 'response' (nor lm-eval's 'filtered_resps')")
    if response is None:  # an API that refused to answer
        return None, None
    if not isinstance(response, str):
        where.refuse(f"the response is {type(response).__name__}, not text")
    return read_answer(response), read_answer_released(response)
