"""A small leaderboard for tests, with names and responses that try to be more than text."""

from functools import cache
from pathlib import Path
from random import Random

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.evaluation.responses import Predictions
from pragworld_tasks.evaluation.runs import RunSource
from pragworld_tasks.leaderboard.boards import Board, make_boards
from pragworld_tasks.leaderboard.pages import render_site
from pragworld_tasks.leaderboard.record import record_run
from pragworld_tasks.leaderboard.runs import BoardRun
from pragworld_tasks.leaderboard.site_folder import write_site

HOSTILE = (
    'no\n<img src="http://example.invalid/x.png" onerror="document.title=1">',
    "no\n</script><script>document.title = 'broken out'</script><!-- <script>",
    'no\n<a href="javascript:document.title=2">me</a>',
    "no\n\u202edlrow\u2066 \u2028.",
)
HOSTILE_NAME = "<b onclick=alert(1)>bold</b></script><!--"
NAMES = ("good", "middling", "sure", HOSTILE_NAME)


@cache
def small_board(groups: int = 8) -> Board:
    """Return a board of four runs on generated dialogues, of which one says how sure it is."""
    documents = generate_documents(groups=groups, seed=3)
    random = Random(0)
    shares = dict(zip(NAMES, (0.95, 0.7, 0.6, 0), strict=True))
    runs = []
    for name, share in shares.items():
        gold = [document.answer for document in documents]
        answers = [answer if random.random() < share else "no" for answer in gold]
        predictions = Predictions.from_responses(
            [HOSTILE[row % len(HOSTILE)] for row in range(len(gold))]
            if name == HOSTILE_NAME
            else answers
        )
        if name == "sure":
            yes = [0.5 + (random.random() / 2) * (1 if said == "yes" else -1) for said in answers]
            predictions = Predictions(list(answers), list(answers), yes=list(yes))
        runs.append(_run(name, documents, predictions))
    (board,) = make_boards(runs)
    return board


def _run(name: str, documents: list[Document], predictions: Predictions) -> BoardRun:
    record = record_run(RunSource(name, "generated"), documents, predictions)
    return BoardRun(name, record, record.report(documents))


def write_board(board: Board, folder: Path) -> Path:
    """Write the site of a board and return its folder."""
    write_site(render_site([board]), folder)
    return folder
