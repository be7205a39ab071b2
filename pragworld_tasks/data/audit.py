"""What a split holds, and what in it contradicts itself: for `pragworld-tasks data check`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import deviations
from pragworld_tasks.evaluation.breakdowns import alteration_category


@dataclass(frozen=True)
class Audit:
    """Counts of a split.

    Attributes:
        documents, groups, released_groups: how many; the last as the released scoring counts them.
        answers, alterations: documents by gold answer, by alteration.
        effects: altered documents by effect.
        contradictions: rows whose effect does not go with their and their original's answers.
        deviations: how the counts differ from those of the released file, in words.
    """

    documents: int
    groups: int
    released_groups: int
    answers: Counter[str]
    alterations: Counter[str]
    effects: Counter[str]
    contradictions: list[int]
    deviations: list[str]


def audit(documents: Sequence[Document]) -> Audit:
    """Counts a split's documents (one at least) and looks for contradictions."""
    original_answers = {one.group: one.answer for one in documents if one.is_original}
    return Audit(
        documents=len(documents),
        groups=len({document.group for document in documents}),
        released_groups=len({document.released_group for document in documents}),
        answers=Counter(document.answer for document in documents),
        alterations=Counter(alteration_category(document) for document in documents),
        effects=Counter(document.effect for document in documents if document.effect),
        contradictions=[
            document.row
            for document in documents
            if document.effect
            and (document.effect == "flip") != (document.answer != original_answers[document.group])
        ],
        deviations=deviations(documents),
    )


def to_text(split: str, found: Audit) -> str:
    """The audit in lines."""

    def counts(counter: Counter[str]) -> str:
        return ", ".join(f"{name} {count}" for name, count in counter.most_common())

    lines = [
        f"{split}: {found.documents} documents in {found.groups} groups"
        + (
            f" ({found.released_groups} as the released scoring counts them)"
            if found.released_groups != found.groups
            else ""
        ),
        f"  answers: {counts(found.answers)}",
    ]
    if found.effects:
        lines.append(f"  alterations: {counts(found.alterations)}")
        lines.append(f"  effects: {counts(found.effects)}")
    if found.contradictions:
        rows = ", ".join(map(str, found.contradictions))
        lines.append(f"  effect contradicts the labels in rows {rows}")
    if found.deviations:
        lines.append(f"  not the released file: {'; '.join(found.deviations)}")
    return "\n".join(lines)
