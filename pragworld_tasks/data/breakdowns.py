"""Breakdowns of results: by alteration, length of the conversation, and type of question."""

import re

from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.text import ONES

NOT_ALTERED = "Not Altered"
# By the number of exchanges since the question's subject, in generated entity tracking.
TURNS_AGO = {
    "0": range(1),
    "1 to 2": range(1, 3),
    "3 to 5": range(3, 6),
    "6 or more": range(6, 1000),
}

# Tried in this order; the first pattern found in the question names its type.
_TYPE_PATTERNS = {
    "sure": r"\bsure\b",
    "know": r"\bknows?\b",
    "quantity": rf"\b(\d+|{'|'.join(ONES[1:13])})\b",
    "universal": r"\b(all|every|each)\b",
    "existential": r"\bsome\b",
    # Something is somewhere, or somebody put it there.
    "only-entity": r"\b(is|are|was|were)\b.*\b(in|at) the\b"
    r"|\bdid (the )?\w+ (put|place|leave)\b",
}
QUESTION_TYPES = (*_TYPE_PATTERNS, "other")


def alteration_category(document: Document) -> str:
    """Return the alteration, or "Not Altered" (paper, Table 5)."""
    return document.alteration or NOT_ALTERED


def length_bucket(document: Document) -> str:
    """Return short, medium or long, by lines of context: < 11, 11 to 15, > 15 (Table 6)."""
    lines = document.context.strip().count("\n") + 1
    return "short" if lines < 11 else "medium" if lines <= 15 else "long"


def question_type(document: Document) -> str:
    """Return one of `QUESTION_TYPES` (Table 8), by the words of the question.

    The paper gives no rule. This one reproduces its counts on the manual split for sure, know,
    quantity and existential; "all of the" is universal here, where the paper seems to put some of
    these with the questions that only name an entity.
    """
    question = " ".join(document.question.lower().split())
    for name, pattern in _TYPE_PATTERNS.items():
        if re.search(pattern, question):
            return name
    return "other"


def turns_ago(document: Document) -> str:
    """Return one of `TURNS_AGO`; "" where it is not known."""
    return next((name for name, turns in TURNS_AGO.items() if document.turns_ago in turns), "")


BREAKDOWNS = {
    "alteration": (alteration_category, (*ALTERATIONS, NOT_ALTERED)),
    "length": (length_bucket, ("short", "medium", "long")),
    "question type": (question_type, QUESTION_TYPES),
    "turns ago": (turns_ago, (*TURNS_AGO,)),
}
