"""An audit of a split: what it holds, and where it contradicts itself."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pragworld_tasks.data.breakdowns import alteration_category
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import deviation
from pragworld_tasks.text import format_count


def audit_text(documents: Sequence[Document]) -> str:
    """Return the counts and contradictions of a split (at least one document), as lines of text."""
    split = documents[0].split
    groups = len({document.group for document in documents})
    released_groups = len({document.released_group for document in documents})
    head = f"{split}: {format_count(len(documents), 'document')} in {format_count(groups, 'group')}"
    if released_groups != groups:
        head += f" ({released_groups} as the released scoring counts them)"
    lines = [head, f"  answers: {_counts(document.answer for document in documents)}"]
    if effects := [document.effect for document in documents if document.effect]:
        lines.append(f"  alterations: {_counts(map(alteration_category, documents))}")
        lines.append(f"  effects: {_counts(effects)}")
    if rows := _contradictions(documents):
        lines.append(f"  effect contradicts the labels in rows {', '.join(map(str, rows))}")
    if difference := deviation(documents):
        lines.append(f"  not the released file: {difference}")
    return "\n".join(lines)


def _counts(values: Iterable[str]) -> str:
    return ", ".join(f"{value} {count}" for value, count in Counter(values).most_common())


def _contradictions(documents: Sequence[Document]) -> list[int]:
    """Return the rows whose effect contradicts their and their original's answers."""
    originals = {document.group: document.answer for document in documents if document.is_original}
    return [
        document.row
        for document in documents
        if document.effect
        and (document.effect == "flip") != (document.answer != originals[document.group])
    ]
