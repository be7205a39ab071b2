"""Stage 6: a report of what an authoring run has made, and what speaks against it.

It holds the balance of the labels, how far the panel agrees, shortcuts that words alone give,
overlap with the manual split, instructions to the reader, what is in review and what was dropped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pragworld_tasks.authoring.checks import MOST_SHARED, said_of_task, shared_part, word_grams
from pragworld_tasks.authoring.labels import REJECTED, LabelledDocument, vote_label
from pragworld_tasks.authoring.records import NO_REPLY, Dropped, Vote, find_failures
from pragworld_tasks.authoring.shortcuts import LEAST_LABELLED, ShortcutCheck, check_shortcuts
from pragworld_tasks.data.breakdowns import BREAKDOWNS
from pragworld_tasks.data.documents import Document
from pragworld_tasks.text import markdown_table

LEAST_OF_CLASS = 30  # documents of a class below which its share of yes tells nothing
EVEN = (0.35, 0.65)  # shares of yes that pass for balanced
_SHOWN = 20  # items of a list


def audit_report(
    labelled: Sequence[LabelledDocument],
    documents: Sequence[Document],
    dropped: Sequence[Dropped],
    manual: Sequence[Document] | None,
) -> str:
    """Return the audit of a run in Markdown: of what was voted on, and the documents that come out.

    The manual split is None if it is not on this machine, and empty if it is what was labelled.
    """
    shortcuts, classes = check_shortcuts(documents), _classes(documents)
    overlap = list(_overlap(documents, manual or ()))
    told = dict.fromkeys(
        f"conversation {voted.conversation}: {said}"
        for voted, _ in labelled
        if (said := said_of_task(f"{voted.context}\n{voted.question}"))
    )
    findings = list(_findings(labelled, classes, shortcuts, None if manual is None else overlap))
    if told:
        findings.insert(0, f"Texts that speak of the task or instruct the reader: {len(told)}.")
    if failures := find_failures((voted for voted, _ in labelled), dropped)[0]:
        findings.insert(0, failures)
    in_review = [
        f"{voted.place}: {label.reason}" for voted, label in labelled if label.is_in_review
    ]
    problems = [
        (vote.problem.partition(" (")[0], vote.model)
        for voted, _ in labelled
        for vote in voted.votes
        if vote.problem
    ]
    reasons = [(record.reason, record.stage) for record in dropped]
    sections = [
        "# Audit\n",
        _summary(labelled, documents),
        *_list("What speaks against them", findings or ["nothing that this audit looks for"]),
        *_list("In review", in_review),
        *_list("Instructions to the reader", told),
        *_list("Overlap with the manual split", overlap),
        *(_balance(*breakdown) for breakdown in classes.items()),
        *_counts("Why members abstained", problems, "member"),
        *_counts("What was dropped (`dropped.jsonl` has the texts)", reasons, "stage"),
    ]
    return "\n".join(sections).rstrip() + "\n"


def _summary(labelled: Sequence[LabelledDocument], documents: Sequence[Document]) -> str:
    labels = [document.label for document in labelled]
    agreed = sum(
        len({vote_label(vote) for vote in voted.votes if vote.answer}) == 1 for voted, _ in labelled
    )
    yes = sum(document.answer == "yes" for document in documents)
    return (
        f"The panel voted on {len(labels)} documents: "
        f"{sum(label.answer is not None for label in labels)} have a label, "
        f"{sum(label.is_in_review for label in labels)} are in review, and "
        f"{sum(label.reason == REJECTED for label in labels)} were rejected in review. Reviewers "
        f"decided about {sum(bool(label.reviewer) for label in labels)}. All votes cast agree on "
        f"{_percent(agreed, len(labels))} % of the documents. `documents.jsonl` has "
        f"{len(documents)} documents in {len({document.group for document in documents})} groups, "
        f"{_percent(yes, len(documents))} % of them yes: those with a label that repeat no other, "
        "in groups whose original and at least one variant have one.\n"
    )


def _findings(
    labelled: Sequence[LabelledDocument],
    classes: dict[str, dict[str, list[bool]]],
    shortcuts: Sequence[ShortcutCheck],
    overlap: Sequence[str] | None,
) -> Iterator[str]:
    """Yield what speaks against the documents, in words, and what could not be checked."""
    for model in _repeating_members(document.voted.votes for document in labelled):
        yield (
            f"All samples of {model} are the same on every document, so they count as one vote. "
            "Servers may ignore --temperature; name different models in --panel."
        )
    reasons = [document.label.reason for document in labelled]
    if contradicted := sum(reason.startswith("the panel says") for reason in reasons):
        yield f"The panel contradicts {contradicted} given labels."
    for check in shortcuts:
        if check.is_shortcut:
            low, high = (_percent(end, 1) for end in check.interval)
            yield (
                f"The words of the {check.texts} alone give {_percent(check.accuracy, 1)} % of the "
                f"answers (95% interval {low} to {high}); 50 % would be none."
            )
    for breakdown, answers_of in classes.items():
        for name, answers in answers_of.items():
            share = sum(answers) / len(answers)
            if len(answers) >= LEAST_OF_CLASS and not EVEN[0] <= share <= EVEN[1]:
                yield (
                    f"{_percent(share, 1)} % of the labels are yes where the {breakdown} is {name}."
                )
    if overlap:
        yield f"{len(overlap)} conversations overlap with the manual split."
    if not shortcuts:
        yield (
            f"Not checked: whether words alone give the answers. Label at least {LEAST_LABELLED} "
            "groups, some with yes and some with no."
        )
    if overlap is None:
        yield (
            "Not checked: overlap with the manual split, which is not on this machine "
            "(`pragworld-tasks data fetch manual`)."
        )


def _repeating_members(votes: Iterable[Sequence[Vote]]) -> list[str]:
    """Return the members with several samples that reply the same on each document."""
    differ: dict[str, bool] = {}
    for on_document in votes:
        replied = [vote for vote in on_document if not vote.problem.startswith(NO_REPLY)]
        for model, samples in Counter(vote.model for vote in replied).items():
            different = {vote for vote in replied if vote.model == model}
            differ[model] = differ.get(model, samples < 2) or len(different) > 1
    return [model for model in differ if not differ[model]]


def _classes(documents: Sequence[Document]) -> dict[str, dict[str, list[bool]]]:
    """Return by breakdown and class whether each of its documents is yes."""
    effects = (lambda document: document.effect, ("flip", "invariant"))
    classes: dict[str, dict[str, list[bool]]] = {}
    for breakdown, (class_of, names) in {**BREAKDOWNS, "effect": effects}.items():
        for name in names:
            members = [document for document in documents if class_of(document) == name]
            if members:
                answers = [document.answer == "yes" for document in members]
                classes.setdefault(breakdown, {})[name] = answers
    return classes


def _balance(breakdown: str, classes: dict[str, list[bool]]) -> str:
    rows = [
        [name, str(len(answers)), _percent(sum(answers), len(answers))]
        for name, answers in classes.items()
    ]
    return markdown_table(f"## By {breakdown}", [breakdown, "documents", "% yes"], rows)


def _overlap(documents: Iterable[Document], manual: Iterable[Document]) -> Iterator[str]:
    """Yield the conversations that are like an original of the manual split, and the likest."""
    known = {
        document.row: word_grams(document.context) for document in manual if document.is_original
    }
    for document in documents if known else ():
        if document.is_original:
            grams = word_grams(document.context)
            shared, row = max((shared_part(grams, others), row) for row, others in known.items())
            if shared >= MOST_SHARED:
                yield (
                    f"conversation {document.group} shares {_percent(shared, 1)} % of the "
                    f"sequences of four words with row {row}"
                )


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    """Yield a section with a list, the first items of it; nothing without items."""
    items = list(items)
    if items:
        yield f"## {title}\n"
        yield from (f"- {item}" for item in items[:_SHOWN])
        yield f"- … and {len(items) - _SHOWN} more\n" if len(items) > _SHOWN else ""


def _counts(title: str, items: Iterable[tuple[str, str]], header: str) -> Iterator[str]:
    """Yield a table of reasons and how often each occurs, the commonest first; or nothing."""
    counts = Counter(items)
    if counts:
        rows = [[reason, other, str(times)] for (reason, other), times in counts.most_common()]
        yield markdown_table(f"## {title}", ["reason", header, "times"], rows)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"
