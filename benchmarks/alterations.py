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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.errors import InputError
from pragworld_tasks.text_alterations.alter import alter
from pragworld_tasks.text_alterations.tokens import AlteredConversation

FOLDER = Path(__file__).parent.parent / "tests" / "alterations"
JUDGEMENTS = ("good", "odd", "broken")
UNREAD = ["unread", "unread"]
MOST_BROKEN, MOST_ODD = 1.0, 10.0  # percent of the outputs, for each reader


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


class Output(NamedTuple):
    """An output with its digest and both readers' judgements."""

    conversation: Conversation
    alteration: str
    digest: str
    altered: AlteredConversation
    judgements: list[str]


@dataclass(frozen=True)
class Judged:
    """The outputs for some conversations.

    Attributes:
        attempts: How many alterations were attempted.
        outputs: The outputs of those that were not refused.
        refused: How many attempts of each alteration were refused.
    """

    attempts: int
    outputs: list[Output]
    refused: Counter[str]

    @property
    def judgements(self) -> list[list[str]]:
        """Both judgements of each output."""
        return [output.judgements for output in self.outputs]

    def percent(self, reader: int, judgement: str) -> float:
        """Return the share of a reader's judgements that are this one."""
        return 100 * [each[reader] for each in self.judgements].count(judgement) / len(self.outputs)

    @property
    def keeps_limits(self) -> bool:
        """Whether all is read, and no reader found too much odd or broken."""
        return UNREAD not in self.judgements and all(
            self.percent(reader, "odd") <= MOST_ODD
            and self.percent(reader, "broken") <= MOST_BROKEN
            for reader in (0, 1)
        )


def judge(conversations: Sequence[Conversation]) -> Judged:
    """Return the outputs for conversations with their judgements."""
    known = read_judgements()
    judged = Judged(len(conversations) * len(ALTERATIONS), [], Counter())
    for conversation in conversations:
        for alteration in ALTERATIONS:
            found = outputs(conversation, alteration)
            judged.refused[alteration] += not found
            for digest, altered in found.items():
                both = known.get((conversation.name, digest), UNREAD)
                judged.outputs.append(Output(conversation, alteration, digest, altered, both))
    return judged


def table(title: str, judged: Judged) -> str:
    """Return a table of both readers' judgements by alteration."""
    refused = judged.refused
    columns = [*JUDGEMENTS, *(["unread"] if UNREAD in judged.judgements else [])]
    lines = [f"{title:<28}" + "".join(f"{column:>9}" for column in (*columns, "refused"))]
    for name in (*ALTERATIONS, "all"):
        readings = [
            output.judgements for output in judged.outputs if name in (output.alteration, "all")
        ]
        counts = [Counter(judgements[reader] for judgements in readings) for reader in (0, 1)]
        cells = [f"{counts[0][column]}, {counts[1][column]}" for column in columns]
        cells.append(str(refused.total() if name == "all" else refused[name]))
        lines.append(f"{name:<28}" + "".join(f"{cell:>9}" for cell in cells))
    return "\n".join(lines)


def to_read(output: Output) -> str:
    """Return an output as it is to be read, and the line of the readings to complete."""
    lines = output.conversation.text.split("\n")
    for change in reversed(output.altered.replacements):
        line, end = lines[change.utterance], change.start + len(change.old)
        marked = f"[{change.old} -> {change.new}]"
        lines[change.utterance] = line[: change.start] + marked + line[end:]
    reading = {
        "conversation": output.conversation.name,
        "alteration": output.alteration,
        "output": output.digest,
        "judgements": [],
        "reasons": [],
    }
    return "\n".join([*lines, json.dumps(reading), ""])


def main() -> None:
    """Print the tables, or what is to be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--unread", action="store_true", help="print outputs to read")
    options = parser.parse_args()
    parts = {"manual split": judge(originals()), "chats": judge(chats())}
    for title, judged in parts.items():
        if options.unread:
            unread = [output for output in judged.outputs if output.judgements == UNREAD]
            print("".join(f"{to_read(output)}\n" for output in unread), end="")
            continue
        print(table(title, judged))
        agree = sum(first == second for first, second in judged.judgements)
        refused, agreed = judged.refused.total() / judged.attempts, agree / len(judged.outputs)
        print(f"refused {100 * refused:.1f} %; readers agree on {100 * agreed:.1f} %")
        for reader in (0, 1):
            odd, broken = (judged.percent(reader, name) for name in ("odd", "broken"))
            print(f"reader {reader + 1}: {odd:.1f} % odd, {broken:.1f} % broken")
    if not options.unread:
        print(f"limits: at most {MOST_ODD} % odd, at most {MOST_BROKEN} % broken, none unread")
        if not all(judged.keeps_limits for judged in parts.values()):
            sys.exit(1)


if __name__ == "__main__":
    main()
