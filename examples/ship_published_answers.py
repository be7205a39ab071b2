"""Write the answers of the released runs as the package ships them.

Reads a folder with a file for each split and model, `<split>_<model>.jsonl`, whose lines hold the
row and the response, and writes `pragworld_tasks/data/published_answers/<split>/<model>.json`. Run
it again whenever `read_answer` changes:

    python examples/ship_published_answers.py FOLDER
"""

import sys
from pathlib import Path
from typing import get_args

from pragworld_tasks.data.documents import ReleasedSplit, documents_digest
from pragworld_tasks.data.sources import COMMIT, REPOSITORY, load_split
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.files import write_json

SHIPPED = Path(__file__).parents[1] / "pragworld_tasks" / "data" / "published_answers"
LETTERS: dict[str | None, str] = {"yes": "y", "no": "n", None: "-"}


def ship(folder: Path, out: Path = SHIPPED) -> list[Path]:
    """Write the answers in all files of a folder, and return the files written."""
    written = []
    for split in get_args(ReleasedSplit):
        paths = sorted(folder.glob(f"{split}_*.jsonl"))
        documents = load_split(split) if paths else []
        for path in paths:
            model = path.stem.removeprefix(f"{split}_")
            answers = read_predictions(path)
            answers.check_documents(documents, str(path))
            target = out / split / f"{model}.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            write_json(
                target,
                {
                    "model": model,
                    "split": split,
                    "documents_digest": documents_digest(documents),
                    "source": f"https://github.com/{REPOSITORY}/tree/{COMMIT}/runs",
                    "licence": "MIT, Copyright (c) 2025 Sachin Vashistha",
                    "read_from": "the first line of each response, at most 40 characters",
                    "letters": "y: yes, n: no, -: unreadable; in the order of the rows",
                    "answers": "".join(LETTERS[answer] for answer in answers.ours),
                    "answers_released": "".join(LETTERS[answer] for answer in answers.released),
                },
            )
            written.append(target)
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (written := ship(Path(sys.argv[1]))):
        sys.exit(f"{sys.argv[0]}: name a folder that holds files such as manual_MODEL.jsonl")
    print(*written, sep="\n")
