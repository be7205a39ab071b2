"""The documents of an authoring run: its settled groups, with where each value comes from.

A document in review stays out until a person has decided. A group comes out if its original has a
label, and so has one of its variants if there are any.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pragworld_tasks.authoring.agreement import vote_label
from pragworld_tasks.authoring.folder import StageRecords
from pragworld_tasks.authoring.records import (
    AuthoredQuestion,
    AuthoredVariant,
    Label,
    Origin,
    PlacedRecord,
)
from pragworld_tasks.data.document_files import write_documents
from pragworld_tasks.data.documents import Answer, Document, Effect
from pragworld_tasks.text import format_count, line_changes

FILES = ("documents.jsonl", "documents.csv")


def write_document_files(records: StageRecords, folder: Path) -> int:
    """Write the documents as JSON lines and in the released CSV format.

    Args:
        records: the records of all stages.
        folder: where to write `documents.jsonl` and `documents.csv`, which are replaced.

    Returns:
        The number of documents.

    Raises:
        InputError: A file cannot be written.
    """
    documents = list(document_records(records))
    for name in FILES:
        write_documents(documents, folder / name, overwrite=True)
    return len(documents)


def document_records(records: StageRecords) -> Iterator[dict[str, Any]]:
    """Yield the documents that come out, each group's original first.

    Yields:
        The fields of a `Document`, its `group` being the number of its conversation; `changes`, the
        words that differ from the original's; and `provenance`, which lists for `context`,
        `question` and `answer` what they come from: the names of models, with the prompts and the
        requests. It also has the `variant` and, for a document that the user provided, its `row`.
    """
    groups = select_documents(records).groups
    documents = ((member, members[0]) for members in groups for member in members)
    for row, (member, original) in enumerate(documents):
        yield _to_record(member, original, row)


@dataclass(frozen=True)
class SettledDocument:
    """A document with a label."""

    variant: AuthoredVariant
    question: AuthoredQuestion
    label: Label
    answer: Answer

    @property
    def asked(self) -> tuple[str, str]:
        """Its conversation and its question."""
        return self.variant.context, self.question.text


class DocumentPlace(PlacedRecord):
    """The place of a document in a run.

    Attributes:
        row: its place, from 0, in the file that the user provided; None for others.
    """

    row: int | None = None

    @property
    def place_text(self) -> str:
        """The place in words."""
        text = f"conversation {self.conversation}, variant {self.variant}"
        return text if self.row is None else f"{text} (row {self.row})"


class LeftOutDocument(DocumentPlace):
    """A document with a label that does not come out, and why."""

    reason: str


@dataclass(frozen=True)
class Selection:
    """The documents with labels that come out, and those that do not.

    Attributes:
        groups: the documents of each group that comes out, its original first.
        left_out: the others.
    """

    groups: tuple[tuple[SettledDocument, ...], ...]
    left_out: tuple[LeftOutDocument, ...]

    @property
    def documents(self) -> int:
        """How many documents come out."""
        return sum(map(len, self.groups))

    def to_text(self) -> str:
        """Return the numbers of documents and the reasons, in words."""
        reasons = Counter(document.reason for document in self.left_out)
        why = ", ".join(f"{reason}: {times}" for reason, times in reasons.items())
        return (
            f"{format_count(self.documents, 'document')} with labels in "
            + format_count(len(self.groups), "group")
            + (f", {len(self.left_out)} more left out ({why})" if why else "")
        )


def select_documents(records: StageRecords) -> Selection:
    """Return the documents that come out: those with labels, in groups that have enough of them.

    A document with the conversation and the question of an earlier one is left out, because it
    would count twice; without its original, so is its group.
    """
    conversations: dict[int, list[SettledDocument | None]] = {}
    for member, number in _members(records):
        conversations.setdefault(number, []).append(member)
    groups: list[tuple[SettledDocument, ...]] = []
    left_out: list[LeftOutDocument] = []
    asked: set[tuple[str, str]] = set()
    for members in conversations.values():
        labelled = [member for member in members if member]
        first = {member.asked: member for member in reversed(labelled)}
        settled = [
            member
            for member in labelled
            if first[member.asked] is member and member.asked not in asked
        ]
        missing = ""
        if members[0] not in settled:
            missing = "the original has no label"
            if members[0]:
                missing = "the original repeats an earlier document"
        elif len(settled) < min(2, len(members)):
            missing = "no labelled variant goes with it"
        else:
            groups.append(tuple(settled))
            asked |= first.keys()
        left_out += [
            LeftOutDocument(
                conversation=member.label.conversation,
                variant=member.label.variant,
                row=member.variant.row,
                reason=missing or "it repeats an earlier document",
            )
            for member in labelled
            if missing or member not in settled
        ]
    return Selection(tuple(groups), tuple(left_out))


def _members(records: StageRecords) -> Iterator[tuple[SettledDocument | None, int]]:
    """Yield each variant, None if it is not settled, with the number of its conversation."""
    labels = {label.place: label for label in records.labels}
    for place in sorted(variant.place for variant in records.variants):
        label = labels.get(place)
        if label and label.answer:
            yield SettledDocument(*records.document_at(place), label, label.answer), place[0]
        else:
            yield None, place[0]


def _to_record(member: SettledDocument, original: SettledDocument, row: int) -> dict[str, Any]:
    variant, label = member.variant, member.label
    group = variant.conversation
    is_original = member is original
    effect: Effect = "invariant" if member.answer == original.answer else "flip"
    fits = (label.basis == "entailed") == (member.answer == "yes")
    document = Document(
        row=row,
        context=variant.context,
        question=member.question.text,
        answer=member.answer,
        group=group,
        is_original=is_original,
        alteration=variant.alteration,
        effect=None if is_original else effect,
        split="own",
        released_group=group,
        released_is_original=is_original,
        basis=label.basis if fits else None,
    )
    changes = line_changes(original.variant.context.split("\n"), variant.context.split("\n"))
    of_context = [original.variant.origin, *([] if is_original else [variant.origin])]
    return {
        **asdict(document),
        "changes": [asdict(change) for change in changes],
        "provenance": {
            "variant": variant.variant,
            **({} if variant.row is None else {"row": variant.row}),
            "context": [origin.model_dump() for origin in of_context],
            "question": [member.question.origin.model_dump()],
            "answer": [origin.model_dump() for origin in _of_label(label)],
        },
    }


def _of_label(label: Label) -> list[Origin]:
    """Return who gave a label: the reviewers, and the members of the panel who voted for it."""
    return [
        *(Origin(model=f"reviewer {name}") for name in label.reviewers),
        *(vote.origin for vote in label.votes if vote_label(vote) == label.answer),
    ]
