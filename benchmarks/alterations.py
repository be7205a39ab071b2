"""Count how many alterations of the manual split's originals read well, as a reader judged them.

python benchmarks/alterations.py [--unread]

Every original is altered in the seven ways, with the entities of `tests/alterations/entities.json`.
`tests/alterations/readings.jsonl` has a judgement of each output by its digest: good, odd
(grammatical, but nobody would say it, or it is against common sense) or broken (ungrammatical, or
it contradicts itself). A third of the originals was kept aside until the rules were written; what
they gave on first reading is in `tests/alterations/first_reading.jsonl`. Exits with status 1 if a
limit is broken or an output is unread. `--unread` prints outputs without a judgement, with the line
to complete.

Needs the released files (`PRAGWORLD_DATA`).
"""

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.errors import InputError
from pragworld_tasks.text_alterations.alter import alter
from pragworld_tasks.text_alterations.tokens import AlteredConversation

FOLDER = Path(__file__).parent.parent / "tests" / "alterations"
JUDGEMENTS = ("good", "odd", "broken", "refused")
# Limits in percent: broken of all outputs, refused of all attempts.
MOST_BROKEN, MOST_REFUSED = 1.0, 35.0


@dataclass(frozen=True)
class Attempt:
    """An alteration of a conversation.

    Attributes:
        conversation: The first 8 hexadecimal digits of the conversation's SHA-256 digest.
        alteration: The alteration's name.
        altered: The altered conversation, or None if the alteration is not possible.
    """

    conversation: str
    alteration: str
    altered: AlteredConversation | None

    @property
    def digest(self) -> str:
        """The first 12 hexadecimal digits of the output's SHA-256 digest, "" without output."""
        text = self.altered.text if self.altered else ""
        return hashlib.sha256(text.encode()).hexdigest()[:12] if text else ""

    @property
    def is_kept_aside(self) -> bool:
        """Whether the conversation was read only when the rules had been written."""
        return int(self.conversation, 16) % 3 == 0


def originals() -> dict[str, str]:
    """Return the originals of the manual split by their digests."""
    texts = [document.context for document in load_split("manual") if document.is_original]
    return {hashlib.sha256(text.encode()).hexdigest()[:8]: text for text in texts}


def attempts(conversations: Mapping[str, str]) -> Iterator[Attempt]:
    """Yield every alteration of every conversation."""
    entities = json.loads((FOLDER / "entities.json").read_text(encoding="utf-8"))
    for digest, text in conversations.items():
        for name in ALTERATIONS:
            try:
                altered = alter(text, entities[digest], name)
            except InputError:  # the alteration is not possible
                yield Attempt(digest, name, None)
            else:
                yield Attempt(digest, name, altered)


def read_judgements(name: str) -> dict[tuple[str, str, str], str]:
    """Return judgements by conversation, alteration and digest of the output."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    readings = [json.loads(line) for line in lines]
    return {
        (reading["conversation"], reading["alteration"], reading["output"]): reading["judgement"]
        for reading in readings
    }


def judge(attempt: Attempt, judgements: Mapping[tuple[str, str, str], str]) -> str:
    """Return the judgement of an attempt, or "unread"."""
    if attempt.altered is None:
        return "refused"
    key = (attempt.conversation, attempt.alteration, attempt.digest)
    return judgements.get(key, "unread")


def table(title: str, judged: Sequence[tuple[str, str]]) -> str:
    """Return a table of judgements by alteration.

    Args:
        title: What the table is about.
        judged: The alteration and the judgement of each attempt.
    """
    columns = (
        (*JUDGEMENTS, "unread")
        if any(judgement == "unread" for _, judgement in judged)
        else JUDGEMENTS
    )
    lines = [f"{title:<42}" + "".join(f"{column:>9}" for column in columns)]
    for name in (*ALTERATIONS, "all"):
        counts = Counter(judgement for of, judgement in judged if name in (of, "all"))
        lines.append(f"{name:<42}" + "".join(f"{counts[column]:>9}" for column in columns))
    return "\n".join(lines)


def shares(judged: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Return the percentages of broken among outputs and of refused among attempts."""
    counts = Counter(judgement for _, judgement in judged)
    outputs = len(judged) - counts["refused"]
    return 100 * counts["broken"] / outputs, 100 * counts["refused"] / len(judged)


def to_read(attempt: Attempt, original: str) -> str:
    """Return an output as it is to be read, and the line of the readings to complete."""
    assert attempt.altered is not None
    lines = original.split("\n")
    for change in reversed(attempt.altered.replacements):
        line, end = lines[change.utterance], change.start + len(change.old)
        marked = f"[{change.old} -> {change.new}]"
        lines[change.utterance] = line[: change.start] + marked + line[end:]
    reading = {
        "conversation": attempt.conversation,
        "alteration": attempt.alteration,
        "output": attempt.digest,
        "judgement": "",
        "reason": "",
    }
    return "\n".join([*lines, json.dumps(reading), ""])


def main() -> None:
    """Print the tables, or what is to be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--unread", action="store_true", help="print outputs to read")
    options = parser.parse_args()
    conversations = originals()
    judgements = read_judgements("readings.jsonl")
    judged = [(attempt, judge(attempt, judgements)) for attempt in attempts(conversations)]
    unread = [attempt for attempt, judgement in judged if judgement == "unread"]
    if options.unread:
        for attempt in unread:
            print(to_read(attempt, conversations[attempt.conversation]))
        return
    first = [
        (key[1], judgement) for key, judgement in read_judgements("first_reading.jsonl").items()
    ]
    parts = {
        "development": [(a.alteration, j) for a, j in judged if not a.is_kept_aside],
        "kept aside": [(a.alteration, j) for a, j in judged if a.is_kept_aside],
        "kept aside, on first reading": first,
        "all": [(a.alteration, j) for a, j in judged],
    }
    for title, part in parts.items():
        print(table(title, part))
        broken, refused = shares(part)
        print(f"broken {broken:.1f} % of outputs, refused {refused:.1f} % of attempts\n")
    is_everyday = {
        digest: text.lstrip('"').startswith("A:") for digest, text in conversations.items()
    }
    for title, kind in (("dialogues of where things are", False), ("everyday conversations", True)):
        counts = Counter(j for a, j in judged if is_everyday[a.conversation] is kind)
        print(f"{title}: " + ", ".join(f"{counts[name]} {name}" for name in JUDGEMENTS))
    broken, refused = shares(parts["all"])
    print(f"limits: at most {MOST_BROKEN} % broken, at most {MOST_REFUSED} % refused, none unread")
    if broken > MOST_BROKEN or refused > MOST_REFUSED or unread:
        sys.exit(1)


if __name__ == "__main__":
    main()
