"""Count how many alterations of conversations read well, as two readers judged them.

python benchmarks/alterations.py [--unread]

Every original of the manual split is altered in the seven ways, with the entities of
`tests/alterations/entities.json`, and so is every chat of `tests/alterations/chats.jsonl`, with
three seeds. The chats are by writers who did not know the rules. Two readers, neither of whom saw
the other's judgements, judged every output: good, odd (grammatical, but nobody would say it, it is
against common sense, or no such alteration) or broken (ungrammatical, or it contradicts itself).
`tests/alterations/readings.jsonl` has their judgements by the output's digest. Exits with status 1
if a limit is broken or an output is unread. `--unread` prints outputs without a judgement, with the
line to complete.

Needs the released files (`PRAGWORLD_DATA`).
"""

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.errors import InputError
from pragworld_tasks.text_alterations.alter import alter
from pragworld_tasks.text_alterations.tokens import AlteredConversation

FOLDER = Path(__file__).parent.parent / "tests" / "alterations"
JUDGEMENTS = ("good", "odd", "broken", "unread")
MOST_BROKEN, MOST_ODD = 1.0, 10.0  # percent of the outputs, for each reader
TOO_MANY = "more than the limits allow"


@dataclass(frozen=True)
class Conversation:
    """A conversation to alter.

    Attributes:
        name: The name of a chat, or the first 8 hexadecimal digits of a text's SHA-256 digest.
        text: The conversation.
        entities: The lists of its entities.
        seeds: The seeds to alter it with.
    """

    name: str
    text: str
    entities: dict[str, Any]
    seeds: Sequence[int]


def originals() -> list[Conversation]:
    """Return the originals of the manual split."""
    entities = json.loads((FOLDER / "entities.json").read_text(encoding="utf-8"))
    texts = {document.context for document in load_split("manual") if document.is_original}
    named = {hashlib.sha256(text.encode()).hexdigest()[:8]: text for text in texts}
    return [Conversation(name, text, entities[name], [0]) for name, text in sorted(named.items())]


def chats() -> list[Conversation]:
    """Return the chats."""
    rows = map(json.loads, (FOLDER / "chats.jsonl").read_text(encoding="utf-8").splitlines())
    return [Conversation(row["name"], row["text"], row["entities"], range(3)) for row in rows]


def outputs(conversation: Conversation, alteration: str) -> dict[str, AlteredConversation]:
    """Return the different outputs of an alteration by their digests, none if it is refused."""
    found = {}
    for seed in conversation.seeds:
        try:
            altered = alter(conversation.text, conversation.entities, alteration, seed)
        except InputError:
            continue
        found[hashlib.sha256(altered.text.encode()).hexdigest()[:12]] = altered
    return found


def read_judgements() -> dict[tuple[str, str], list[str]]:
    """Return both readers' judgements by conversation and digest of the output."""
    lines = (FOLDER / "readings.jsonl").read_text(encoding="utf-8").splitlines()
    return {
        (reading["conversation"], reading["output"]): reading["judgements"]
        for reading in map(json.loads, lines)
    }


def table(title: str, judged: Sequence[tuple[str, list[str]]], refused: Counter[str]) -> str:
    """Return a table of both readers' judgements by alteration.

    Args:
        title: What the table is about.
        judged: The alteration and the judgements of each output.
        refused: How many attempts of each alteration were refused.
    """
    columns = [
        name for name in JUDGEMENTS if name != "unread" or ["unread"] * 2 in dict(judged).values()
    ]
    lines = [f"{title:<28}" + "".join(f"{column:>9}" for column in (*columns, "refused"))]
    for name in (*ALTERATIONS, "all"):
        readings = [judgements for of, judgements in judged if name in (of, "all")]
        counts = [Counter(judgements[reader] for judgements in readings) for reader in (0, 1)]
        cells = [f"{counts[0][column]}, {counts[1][column]}" for column in columns]
        cells.append(str(refused.total() if name == "all" else refused[name]))
        lines.append(f"{name:<28}" + "".join(f"{cell:>9}" for cell in cells))
    return "\n".join(lines)


def to_read(conversation: Conversation, alteration: str, altered: AlteredConversation) -> str:
    """Return an output as it is to be read, and the line of the readings to complete."""
    lines = conversation.text.split("\n")
    for change in reversed(altered.replacements):
        line, end = lines[change.utterance], change.start + len(change.old)
        marked = f"[{change.old} -> {change.new}]"
        lines[change.utterance] = line[: change.start] + marked + line[end:]
    digest = hashlib.sha256(altered.text.encode()).hexdigest()[:12]
    reading = {"conversation": conversation.name, "alteration": alteration, "output": digest}
    return "\n".join([*lines, json.dumps({**reading, "judgements": [], "reasons": []}), ""])


def report(title: str, conversations: Sequence[Conversation], only_unread: bool) -> Iterator[str]:
    """Yield the table of some conversations and what breaks a limit, or what is to be read."""
    known, refused = read_judgements(), Counter[str]()
    judged: list[tuple[str, list[str]]] = []
    for conversation in conversations:
        for alteration in ALTERATIONS:
            found = outputs(conversation, alteration)
            refused[alteration] += not found
            for digest, altered in found.items():
                judgements = known.get((conversation.name, digest), ["unread", "unread"])
                judged.append((alteration, judgements))
                if only_unread and "unread" in judgements:
                    yield to_read(conversation, alteration, altered)
    if only_unread:
        return
    yield table(title, judged, refused)
    agree = sum(first == second for _, (first, second) in judged)
    attempts = len(conversations) * len(ALTERATIONS)
    share = 100 * refused.total() / attempts
    yield f"refused {share:.1f} %; readers agree on {100 * agree / len(judged):.1f} %"
    for reader in (0, 1):
        counts = Counter(judgements[reader] for _, judgements in judged)
        odd, broken = (100 * counts[name] / len(judged) for name in ("odd", "broken"))
        yield f"reader {reader + 1}: {odd:.1f} % odd, {broken:.1f} % broken"
        if odd > MOST_ODD or broken > MOST_BROKEN or counts["unread"]:
            yield TOO_MANY


def main() -> None:
    """Print the tables, or what is to be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--unread", action="store_true", help="print outputs to read")
    options = parser.parse_args()
    lines = [
        *report("manual split", originals(), options.unread),
        *report("chats", chats(), options.unread),
    ]
    print("\n".join(lines))
    if not options.unread:
        print(f"limits: at most {MOST_ODD} % odd, at most {MOST_BROKEN} % broken, none unread")
    if TOO_MANY in lines:
        sys.exit(1)


if __name__ == "__main__":
    main()
