"""The subject of a clause: what the prompt asks about, or something else with a quantity."""

import re

from pragworld_tasks.quantities.context import Context, QuantityTarget, stems
from pragworld_tasks.quantities.numerals import find_numerals
from pragworld_tasks.quantities.patterns import pattern, vocabulary

_PREDICTION = pattern("prediction")
_CLAUSE_BEGINS = pattern("clause_begins")
_LETTERS = re.compile(r"[a-z]+")
_FIRST_WORDS = 4  # words that identify a subject
_ARTICLES = {"the", "a", "an", "so", "our"}
_SUBJECTS = vocabulary("subjects")
_HEADINGS = vocabulary("result_headings")


def has_foreign_subject(lead: str, target: QuantityTarget) -> bool:
    """Return whether words up to a quantity, with a prediction, are about another subject."""
    clause = _clause(lead, [match.start() for match in _PREDICTION.finditer(lead)][-1])
    verb = _PREDICTION.search(clause)
    subject = clause[: verb.start()] if verb else ""
    if verb and (verb[0].endswith(" of") or _LETTERS.findall(verb[0].lower())[0] in _SUBJECTS):
        subject += verb[0]  # `the true cost of …`, `you'd easily …`
    has_subject = bool(set(_LETTERS.findall(subject.lower())) - _ARTICLES)
    return has_subject and not _is_about(subject, target)


def states(lead: str, target: QuantityTarget) -> bool:
    """Return whether a clause on the target leads up to a quantity: `you land at about …`."""
    clause = _clause(lead, len(lead.rstrip()))
    return (len(clause.split()) > 1 or "'" in clause) and _is_about(clause, target)


def has_foreign_purpose(tail: str, target: QuantityTarget) -> bool:
    """Return whether a quantity is of, in or for something that the prompt does not ask about."""
    purpose = pattern("purpose").match(tail)
    if not purpose or not target.topic:
        return False
    words = purpose["words"]
    return not (vocabulary("wholes") & set(words.lower().split()) or stems(words) & target.topic)


def has_foreign_heading(context: Context, target: QuantityTarget) -> bool:
    """Return whether the heading above a quantity is about something else than the prompt."""
    words = stems(context.heading)
    return bool(target.topic and words) and not words & (target.topic | _HEADINGS)


def _clause(lead: str, end: int) -> str:
    begins = [match.end() for match in _CLAUSE_BEGINS.finditer(lead) if match.end() <= end]
    if begins and lead[: begins[-1]].endswith("and") and not lead[begins[-1] : end].strip():
        begins.pop()  # `a pallet holds … and costs …`
    return lead[begins[-1] if begins else 0 :]


def _is_about(words: str, target: QuantityTarget) -> bool:
    """Return whether words begin with what the prompt asks about, or a word that may mean it."""
    first = [word for word in words.lower().split() if word not in _ARTICLES][:_FIRST_WORDS]
    text = " ".join(first)
    return bool(
        _SUBJECTS & {word.strip(" ,*\"'") for word in first}
        or stems(text) & target.topic
        or any(number.value in target.numbers for number in find_numerals(text))
    )
