"""What the page of dialogues shows: every document, what changed in it, and all answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pragworld_tasks.data.documents import Answer, Document
from pragworld_tasks.data.label_readings import LabelReadings, readings_of
from pragworld_tasks.evaluation.items import Item
from pragworld_tasks.leaderboard.boards import Board
from pragworld_tasks.leaderboard.runs import BoardRun
from pragworld_tasks.text import Piece, diff_lines

# Bytes of a response that are shown: its beginning and its end, where answers stand.
LONGEST_RESPONSE = 500
_HEAD, _TAIL = 300, 150
_LETTERS: dict[Answer | None, str] = {"yes": "y", "no": "n", None: "-"}


@dataclass(frozen=True)
class DocumentView:
    """A document as the page of dialogues shows it.

    Attributes:
        item: the document, and how the runs answer it.
        context, question: its lines, with the words that differ from the original's.
        readings: what the readers of the labels answered, where they read it.
    """

    item: Item
    context: list[list[Piece]]
    question: list[list[Piece]]
    readings: LabelReadings | None

    @property
    def document(self) -> Document:
        """The document."""
        return self.item.document


def dialogues_content(board: Board) -> dict[str, Any]:
    """Return what the template of the dialogues needs.

    Args:
        board: the leaderboard whose documents and runs are shown.
    """
    return {
        "groups": _group_views(board),
        "data": {
            "gold": "".join(_LETTERS[document.answer] for document in board.documents),
            "groups": [document.group for document in board.documents],
            "runs": [_answers(run) for run in board.runs],
        },
        "models": len(board.models),
    }


def _group_views(board: Board) -> list[tuple[int, list[DocumentView]]]:
    """Return the documents of each group, the original first, whatever their order in a file."""
    readings = readings_of(board.documents)
    groups: dict[int, list[int]] = {}
    for row, document in enumerate(board.documents):
        groups.setdefault(document.group, []).append(row)
    for rows in groups.values():
        rows.sort(key=lambda row: not board.documents[row].is_original)
    return [
        (number, _views([board.items[row] for row in rows], [readings[row] for row in rows]))
        for number, rows in groups.items()
    ]


def _views(items: Sequence[Item], readings: Sequence[LabelReadings | None]) -> list[DocumentView]:
    """Return a group's documents, each but originals compared with the original before it."""
    views: list[DocumentView] = []
    original = items[0].document
    for item, read in zip(items, readings, strict=True):
        document = item.document
        if document.is_original:
            original = document
        views.append(
            DocumentView(
                item,
                diff_lines(original.context.strip(), document.context.strip()),
                diff_lines(_one_line(original.question), _one_line(document.question)),
                read,
            )
        )
    return views


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _answers(run: BoardRun) -> dict[str, Any]:
    answers = run.record.answers
    cut = [answer.response and _cut(answer.response) for answer in answers]
    return {
        "name": run.name,
        "answers": "".join(_LETTERS[answer.answer] for answer in answers),
        "responses": cut if any(cut) else None,
        "yes": [answer.yes if answer.yes is None else round(answer.yes, 4) for answer in answers]
        if any(answer.yes is not None for answer in answers)
        else None,
    }


def _cut(response: str) -> str:
    text = response.strip().encode()
    if len(text) <= LONGEST_RESPONSE:
        return text.decode()
    head, tail = (part.decode(errors="ignore") for part in (text[:_HEAD], text[-_TAIL:]))
    return f"{head} … ({len(response)} characters) … {tail}"
