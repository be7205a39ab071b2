"""Three documents of a user's own, as the lines of their file."""

from typing import Any

from pragworld_tasks.data.documents import Document

TEA: dict[str, Any] = {
    "context": "Ann: Where is the tea?\nBen: All of it is in the hall.",
    "question": "Is the tea in the hall?",
    "answer": "yes",
    "group": 40,
}
SOME: dict[str, Any] = {
    **TEA,
    "context": "Ann: Where is the tea?\nBen: Some of it is in the hall.",
    "answer": "no",
    "alteration": "Quantifier Change",
}
MILK: dict[str, Any] = {**TEA, "question": "Is the milk in the hall?", "answer": "no", "group": 7}


def to_document(line: dict[str, Any]) -> Document:
    """Return the document of a line, whether it is right or not."""
    alteration, group, is_original = line.get("alteration"), line["group"], "alteration" not in line
    texts = line["context"], line["question"], line["answer"]
    return Document(0, *texts, group, is_original, alteration, None, "own", group, is_original)
