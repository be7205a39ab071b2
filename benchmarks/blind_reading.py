"""Write dialogues of the manual split and generated ones on a sheet, and score who told them apart.

    python benchmarks/blind_reading.py sheet FOLDER [--seed 1] [--dialogues 40]
    python benchmarks/blind_reading.py score FOLDER ANSWERS.json

`sheet` writes `sheet.txt`, with as many originals of the manual split as generated ones of the two
kinds that it has (domains "household" and "conversation"), each with its question, and `key.json`,
which the reader must not see. Speaker labels, line breaks and underscores are written alike. Of
dialogues that the manual split has twice, one is on the sheet. `score` compares answers, "real" or
"generated", with the key.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.errors import InputError

# One label in the manual split is followed by a second one, "an:", and one by a second colon.
_LABEL = re.compile(r"(A|B|Alice|Bob|Person [12]):\s*(?:an:|:)?\s*")
_LABELS = {"Person 1": "Alice", "Person 2": "Bob"}
_SHARED = 6  # lines that two dialogues on one sheet may have in common


def utterances(document: Document) -> Iterator[str]:
    """Yield the utterances of a document, each on a line, with labels that are written alike."""
    said = ""
    for line in document.context.replace("\u2019", "'").replace("_", " ").strip('"').split("\n"):
        label = _LABEL.match(line)
        if label and said:
            yield " ".join(said.split())
        if label:
            said = f"{_LABELS.get(label[1], label[1])}: {line[label.end() :]}"
        else:
            said += f" {line}"
    yield " ".join(said.split())


def _with_question(document: Document) -> list[str]:
    question = document.question.replace("\u2019", "'").replace("_", " ")
    return [*utterances(document), f"Question: {' '.join(question.split())}"]


def sampled(manual: Sequence[Document], size: int, rng: StableRandom) -> list[list[str]]:
    """Return originals that are no copies of each other, as lines."""
    chosen: list[list[str]] = []
    seen: set[str] = set()
    for document in rng.shuffled([document for document in manual if document.is_original]):
        lines = _with_question(document)
        if len(chosen) < size and len(seen.intersection(lines[1:])) <= _SHARED:
            chosen.append(lines)
            seen.update(lines[1:])
    if len(chosen) < size:
        raise InputError(f"the manual split has only {len(chosen)} originals that differ")
    return chosen


def write_sheet(folder: Path, seed: int, size: int) -> None:
    """Write the sheet and its key."""
    folder.mkdir(parents=True)
    rng = StableRandom(f"blind reading {seed}")
    real = sampled(load_split("manual"), size, rng)
    settings = GeneratorSettings(groups=size, seed=seed, domains=("household", "conversation"))
    made = [_with_question(d) for d in documents(generate(settings)) if d.is_original]
    items = rng.shuffled([*(("real", lines) for lines in real), *(("generated", m) for m in made)])
    texts = ("\n".join((f"=== {number}", *lines)) for number, (_, lines) in enumerate(items))
    (folder / "sheet.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    key = json.dumps([source for source, _ in items])
    (folder / "key.json").write_text(key + "\n", encoding="utf-8")


def print_score(folder: Path, answers: Path) -> None:
    """Print how many dialogues were told apart, all and by kind."""
    key = json.loads((folder / "key.json").read_text(encoding="utf-8"))
    given = json.loads(answers.read_text(encoding="utf-8"))
    is_list = isinstance(given, list) and len(given) == len(key)
    if not is_list or any(source not in ("real", "generated") for source in given):
        raise InputError(f'{answers}: not {len(key)} answers, each "real" or "generated"')
    texts = (folder / "sheet.txt").read_text(encoding="utf-8").split("=== ")[1:]
    is_chat = [text.split("\n")[1].startswith(("A:", "B:")) for text in texts]
    kinds = {
        "all": [True] * len(key),
        "A and B": is_chat,
        "Alice and Bob": [not c for c in is_chat],
    }
    for name, is_in in kinds.items():
        right = [k == g for k, g, wanted in zip(key, given, is_in, strict=True) if wanted]
        share = sum(right) / max(1, len(right))
        error = 196 * math.sqrt(share * (1 - share) / max(1, len(right)))
        percent = f"{100 * share:.0f} % (± {error:.0f})"
        print(f"{name:14} {sum(right)} of {len(right)} told apart: {percent}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=["sheet", "score"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("answers", type=Path, nargs="?", help='a JSON list of "real", "generated"')
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dialogues", type=int, default=40, help="of each source")
    options = parser.parse_args()
    try:
        if options.command == "sheet":
            write_sheet(options.folder, options.seed, options.dialogues)
        elif options.answers is None:
            parser.error("score needs the answers")
        else:
            print_score(options.folder, options.answers)
    except (InputError, OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
