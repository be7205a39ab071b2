"""What the page of dialogues shows: every document, what changed in it, and all answers."""

from typing import Any, NamedTuple

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.label_readings import LabelReadings, readings_of
from pragworld_tasks.grouped.item_analysis import Item
from pragworld_tasks.leaderboard.boards import Board, BoardRun
from pragworld_tasks.text import Piece, diff_lines

LONGEST_RESPONSE = 500  # bytes that are shown; of a longer one, both ends, where answers stand
_HEAD, _TAIL = 300, 150
_LETTERS: dict[str | None, str] = {"yes": "y", "no": "n", None: "-"}


class DocumentView(NamedTuple):
    """How the runs answer a document, and its lines with the words that were altered."""

    item: Item
    context: list[list[Piece]]
    question: list[list[Piece]]
    readings: LabelReadings | None


def dialogues_content(board: Board) -> dict[str, Any]:
    """Return what the template of the dialogues needs."""
    return {
        "groups": _group_views(board).items(),
        "data": {
            "gold": "".join(_LETTERS[document.answer] for document in board.report.documents),
            "groups": [document.group for document in board.report.documents],
            "runs": [_answers(run) for run in board.runs],
        },
    }


def _group_views(board: Board) -> dict[int, list[DocumentView]]:
    """Return the documents of each group, the original first, whatever their order in a file.

    Variants are compared with the last original; without one, with their group's first document.
    """
    documents = board.report.documents
    groups: dict[int, list[DocumentView]] = {document.group: [] for document in documents}
    originals: dict[int, Document] = {}
    answered = zip(board.items, readings_of(documents), strict=True)
    for item, readings in sorted(answered, key=lambda each: not each[0].document.is_original):
        document = item.document
        if document.is_original or document.group not in originals:
            originals[document.group] = document
        original = originals[document.group]
        context = diff_lines(original.context.strip(), document.context.strip())
        question = diff_lines(*(" ".join(one.question.split()) for one in (original, document)))
        groups[document.group].append(DocumentView(item, context, question, readings))
    return groups


def _answers(run: BoardRun) -> dict[str, Any]:
    answers = run.record.answers
    cut = [answer.response and _cut(answer.response) for answer in answers]
    yes = [answer.yes if answer.yes is None else round(answer.yes, 4) for answer in answers]
    return {
        "name": run.name,
        "answers": "".join(_LETTERS[answer.answer] for answer in answers),
        "responses": cut if any(cut) else None,
        "yes": yes if yes.count(None) < len(yes) else None,
    }


def _cut(response: str) -> str:
    text = response.strip().encode()
    if len(text) <= LONGEST_RESPONSE:
        return text.decode()
    head, tail = (part.decode(errors="ignore") for part in (text[:_HEAD], text[-_TAIL:]))
    return f"{head} … ({len(response)} characters) … {tail}"
