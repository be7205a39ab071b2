"""An audit of a split: what it holds, and where it contradicts itself."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pragworld_tasks.data.breakdowns import alteration_category
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import deviations
from pragworld_tasks.text import format_count


@dataclass(frozen=True)
class Audit:
    """The counts and contradictions of a split.

    Attributes:
        split: the split's name.
        documents, groups, released_groups: number of each; the last by the released scoring.
        answers, alterations: number of documents by gold answer and by alteration.
        effects: number of altered documents by effect.
        contradictions: rows whose effect contradicts their and their original's answers.
        deviations: how the counts differ from those of the released file, in words.
    """

    split: str
    documents: int
    groups: int
    released_groups: int
    answers: Counter[str]
    alterations: Counter[str]
    effects: Counter[str]
    contradictions: list[int]
    deviations: list[str]

    def to_text(self) -> str:
        """Return the audit as lines of text."""

        def counts(counter: Counter[str]) -> str:
            return ", ".join(f"{name} {count}" for name, count in counter.most_common())

        lines = [
            f"{self.split}: {format_count(self.documents, 'document')} in "
            f"{format_count(self.groups, 'group')}"
            + (
                f" ({self.released_groups} as the released scoring counts them)"
                if self.released_groups != self.groups
                else ""
            ),
            f"  answers: {counts(self.answers)}",
        ]
        if self.effects:
            lines.append(f"  alterations: {counts(self.alterations)}")
            lines.append(f"  effects: {counts(self.effects)}")
        if self.contradictions:
            rows = ", ".join(map(str, self.contradictions))
            lines.append(f"  effect contradicts the labels in rows {rows}")
        if self.deviations:
            lines.append(f"  not the released file: {'; '.join(self.deviations)}")
        return "\n".join(lines)


def audit(documents: Sequence[Document]) -> Audit:
    """Count a split's documents (at least one) and look for contradictions."""
    original_answers = {
        document.group: document.answer for document in documents if document.is_original
    }
    return Audit(
        split=documents[0].split,
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
