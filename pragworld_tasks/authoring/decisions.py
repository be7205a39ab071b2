"""What reviewers decide about documents, and the labels that follow from it.

A reviewer's page saves decisions as a file. Applying files adds to `reviews.jsonl`, the history of
a folder: for each document that somebody has decided about, the panel's label and every reviewer's
last decision. The labels are a function of these two alone, so neither the order in which files are
applied nor how often matters.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import Field, ValidationError

from pragworld_tasks.authoring.agreement import (
    BASES,
    Ballot,
    cohen_kappa,
    fleiss_kappa,
    rate_members,
    settle,
)
from pragworld_tasks.authoring.folder import StageRecords, read_records
from pragworld_tasks.authoring.records import AuthoringRecord, Label, Place, PlacedRecord
from pragworld_tasks.data.documents import Answer, Basis
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json, read_text

Verdict = Literal["yes", "no", "undetermined", "reject"]
Value = TypeVar("Value", bound=str)

REVIEWS = "reviews.jsonl"
REJECTED = "rejected in review"
_NAMED = 5  # entries of a file that a message names
_ANSWERS: dict[Verdict, str] = {
    "yes": "yes",
    "no": "no",
    "undetermined": "no",
    "reject": REJECTED,
}


class Decision(PlacedRecord):
    """What a reviewer decides about one document.

    Attributes:
        conversation, variant: the document.
        digest: the document's digest, by `document_digests`.
        decision: its answer, or that it is not fit to be asked.
        note: a remark of the reviewer's.
    """

    digest: str
    decision: Verdict
    note: str = ""


class DecisionFile(AuthoringRecord):
    """The file that the review page saves.

    Attributes:
        version: the version of this format.
        reviewer: the reviewer's name.
        decisions: the decisions, at most one about each document.
    """

    version: Literal[1]
    reviewer: str = Field(pattern=r"\S")
    decisions: tuple[Decision, ...]


class Review(AuthoringRecord):
    """The history of one document: a line of `reviews.jsonl`.

    Attributes:
        panel: the panel's label, as it was before any review.
        decisions: the last decision of each reviewer, by the reviewer's name.
    """

    panel: Label
    decisions: dict[str, Decision]

    @property
    def place(self) -> Place:
        """Which document it is about."""
        return self.panel.place


def document_digests(records: StageRecords) -> dict[Place, str]:
    """Return what tells the documents that the panel voted on from those of other folders.

    Returns:
        The SHA-256 digest, in hexadecimal, of each document's conversation and question: what
        reviewers read. The votes may change, as one without a reply is asked for again.
    """
    digests = {}
    for label in records.labels:
        variant, question = records.document_at(label.place)
        content = json.dumps([variant.context, question.text])
        digests[label.place] = hashlib.sha256(content.encode()).hexdigest()
    return digests


def read_decisions(path: Path) -> DecisionFile:
    """Read a file that the review page saved.

    Raises:
        InputError: The file cannot be read, an entry of it is malformed, or two are about the same
            document.
    """
    read_text(path)  # what cannot be read is none of the files below
    try:
        content = read_json(path)
    except InputError:
        content = None
    if not isinstance(content, dict) or "decisions" not in content:
        raise InputError(f"{path}: not a decisions file, or cut off; pass what review.html saved")
    try:
        decided = DecisionFile.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{path}: {_problem(error)}; save it again from review.html") from error
    first: dict[Place, int] = {}
    for number, decision in enumerate(decided.decisions):
        before = first.setdefault(decision.place, number)
        if before != number:
            raise InputError(
                f"{path}, decisions[{number}]: about the same document as decisions[{before}]; "
                "keep one of them"
            )
    return decided


def _problem(error: ValidationError) -> str:
    """Return the place of the first thing that is wrong, and what is."""
    first = error.errors(include_url=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    wrong = "" if first["type"] == "missing" else f" is {first['input']!r:.60}"
    subject = f"{place[1:]:.120}{wrong}" if place else "not a file of decisions"
    return f"{subject}: {first['msg'][0].lower()}{first['msg'][1:]}"


def read_reviews(folder: Path) -> list[Review]:
    """Read the history of a folder, empty if nobody has reviewed it.

    Raises:
        InputError: The file cannot be read, or a line of it is not a document's history.
    """
    path = folder / REVIEWS
    if not path.exists():
        return []
    return list(read_records(path, Review, "remove the line, and apply its decisions again"))


def panel_labels(labels: Iterable[Label], reviews: Iterable[Review]) -> list[Label]:
    """Return the labels as they were before any review."""
    before = {review.place: review.panel for review in reviews}
    return [before.get(label.place, label) for label in labels]


def check_unedited(
    path: Path, labels: Iterable[Label], reviews: Iterable[Review], agree: int | None
) -> None:
    """Refuse labels that are not what the panel's votes and the reviews make of the documents.

    Args:
        path: the file of the labels, for the message.
        labels: the labels, as they are after review.
        reviews: the history of their folder.
        agree: as in `panel_answer`.

    Raises:
        InputError: A label was edited.
    """
    labels, reviews = list(labels), list(reviews)
    panel = panel_labels(labels, reviews)
    members = max((len(label.votes) for label in panel), default=0)
    settled = panel
    if all(len(label.votes) == members for label in panel):
        ballots = [
            Ballot(label.conversation, label.variant, label.votes, label.given) for label in panel
        ]
        settled = settle(ballots, rate_members([ballot.votes for ballot in ballots]), agree)
    for label, before, by_votes, after in zip(
        labels, panel, settled, reviewed_labels(panel, reviews), strict=True
    ):
        settled_as, was = (
            (of_panel.answer, of_panel.basis, of_panel.reason == REJECTED)
            for of_panel in (by_votes, before)
        )
        if len(before.votes) != members or was != settled_as or label != after:
            raise InputError(
                f"{path}: the label of conversation {label.conversation}, variant {label.variant} "
                "was edited: it is not what votes and reviews make it; rerun `author` with "
                "--overwrite, and decide about it in review.html"
            )


def add_decisions(
    panel_records: StageRecords, reviews: Iterable[Review], files: Mapping[Path, DecisionFile]
) -> list[Review]:
    """Return the history with the decisions of more files; a reviewer's later decision counts.

    Args:
        panel_records: the records, with the panel's labels.
        reviews: the history so far.
        files: the files to add, by their paths.

    Raises:
        InputError: A file decides about documents that are not there, or is by the same reviewer
            as another.
    """
    decided = {review.place: dict(review.decisions) for review in reviews}
    digests = document_digests(panel_records)
    paths: dict[str, Path] = {}
    for path, file in files.items():
        reviewer = " ".join(file.reviewer.split())
        others = [
            f"decisions[{number}] (conversation {decision.conversation}, variant "
            f"{decision.variant})"
            for number, decision in enumerate(file.decisions)
            if digests.get(decision.place) != decision.digest
        ]
        if others:
            more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
            raise InputError(
                f"{path}: {', '.join(others[:_NAMED])}{more} decide about other documents than "
                "this folder has there; apply the file to the folder that its page was written "
                "from, or decide about these again in this folder's review.html"
            )
        if paths.setdefault(reviewer, path) is not path:
            raise InputError(
                f"{path}: by {reviewer!r:.60}, as is {paths[reviewer]}; apply the older one first, "
                "on its own, or correct a name"
            )
        for decision in file.decisions:
            decided.setdefault(decision.place, {})[reviewer] = decision
    return [
        Review(panel=label, decisions=dict(sorted(decided[place].items())))
        for label in panel_records.labels
        if decided.get(place := label.place)
    ]


def current_reviews(panel_records: StageRecords, reviews: Iterable[Review]) -> list[Review]:
    """Return the history of the documents that are there, with the panel's labels as they are now.

    The panel's labels can change: votes on further documents tell more about its members.
    """
    history = {review.place: review.decisions for review in reviews}
    digests = document_digests(panel_records)
    current = []
    for label in panel_records.labels:
        decisions = {
            reviewer: decision
            for reviewer, decision in history.get(label.place, {}).items()
            if decision.digest == digests[label.place]
        }
        if decisions:
            current.append(Review(panel=label, decisions=decisions))
    return current


def reviewed_labels(panel: Iterable[Label], reviews: Iterable[Review]) -> list[Label]:
    """Return the labels after review: the panel's where nobody has decided."""
    decided = {review.place: review.decisions for review in reviews}
    return [
        decided_label(label, decided[label.place]) if label.place in decided else label
        for label in panel
    ]


def decided_label(panel: Label, decisions: Mapping[str, Decision]) -> Label:
    """Return the label that more than half of the reviewers give, or one that stays in review.

    Undetermined counts as no. The basis is the one that more than half of those who agree name.

    Args:
        panel: the panel's label.
        decisions: a decision of at least one reviewer, by the reviewer's name.

    Examples:
        >>> panel = Label(conversation=0, variant=0, votes=(), answer=None, basis=None, reason="…")
        >>> def decide(*verdicts):
        ...     return decided_label(panel, {
        ...         str(number): Decision(
        ...             conversation=0, variant=0, digest="", decision=verdict
        ...         )
        ...         for number, verdict in enumerate(verdicts)
        ...     })
        >>> decide("undetermined").answer, decide("undetermined").basis
        ('no', 'undetermined')
        >>> decide("yes", "no").reason
        'the reviewers disagree (1 yes, 1 no)'
        >>> decide("yes", "reject", "reject").reason
        'rejected in review'
    """
    verdicts = [decision.decision for decision in decisions.values()]
    settled = _majority([_ANSWERS[verdict] for verdict in verdicts])
    answer: Answer | None = None
    basis: Basis | None = None
    reason = ""
    if settled == REJECTED:
        reason = REJECTED
    elif settled is None:
        counts = ", ".join(
            f"{verdicts.count(verdict)} {verdict}"
            for verdict in get_args(Verdict)
            if verdict in verdicts
        )
        reason = f"the reviewers disagree ({counts})"
    else:
        answer = "yes" if settled == "yes" else "no"
        basis = _majority([BASES[verdict] for verdict in verdicts if _ANSWERS[verdict] == answer])
    return panel.model_copy(
        update={
            "answer": answer,
            "basis": basis,
            "reason": reason,
            "reviewers": tuple(sorted(decisions)),
        }
    )


def _majority(values: Sequence[Value]) -> Value | None:
    """Return the value that more than half are; None if there is none."""
    return next(
        (value for value, count in Counter(values).items() if 2 * count > len(values)), None
    )


def is_in_review(label: Label) -> bool:
    """Return whether a document has no label and has not been rejected."""
    return label.answer is None and label.reason != REJECTED


def proposal(panel: Label) -> Verdict | None:
    """Return what the panel proposes: its label, or what most of its votes say; None in a tie."""
    if panel.answer is not None:
        return "undetermined" if panel.basis == "undetermined" else panel.answer
    votes = [vote.answer for vote in panel.votes if vote.answer]
    if _majority([_ANSWERS[vote] for vote in votes]) == "no":
        return _majority([vote for vote in votes if vote != "yes"]) or "no"
    return _majority(votes)


def change_texts(before: Iterable[Label], after: Iterable[Label]) -> list[str]:
    """Return a line for each document whose label is another one, in words."""
    return [
        f"conversation {new.conversation}, variant {new.variant}: "
        f"{_label_text(old)} -> {_label_text(new)}"
        for old, new in zip(before, after, strict=True)
        if (old.answer, old.basis, old.reason) != (new.answer, new.basis, new.reason)
    ]


def _label_text(label: Label) -> str:
    if label.answer:
        return f"{label.answer} ({label.basis})" if label.basis else label.answer
    if label.reason == REJECTED:
        return REJECTED
    return f"in review: {' '.join(label.reason.split())}"


def agreement_text(reviews: Iterable[Review]) -> str:
    """Return how far reviewers agree, in words; "" if no document has decisions of two.

    The kappa of two is Cohen's, on the documents that both decided. The kappa of more is Fleiss',
    on the documents that at least two decided.
    """
    shared = [review.decisions for review in reviews if len(review.decisions) > 1]
    reviewers = sorted({reviewer for decisions in shared for reviewer in decisions})
    if not reviewers:
        return ""
    verdicts = [
        [decisions[name].decision if name in decisions else None for name in reviewers]
        for decisions in shared
    ]
    answers = [
        ["no" if verdict == "undetermined" else verdict for verdict in row] for row in verdicts
    ]
    kappas = [
        "not defined" if kappa is None else f"{kappa:z.2f}"
        for kappa in (_kappa(answers), _kappa(verdicts))
    ]
    name = "Cohen's" if len(reviewers) == 2 else "Fleiss'"
    return (
        f"{name} kappa of {', '.join(reviewers)} on {len(shared)} documents: {kappas[0]}; "
        f"{kappas[1]} with undetermined apart from no"
    )


def _kappa(ratings: Sequence[Sequence[str | None]]) -> float | None:
    """Return the kappa of what each reviewer says of each document: Cohen's of two."""
    if all(len(row) == 2 for row in ratings):
        first, second = ([row[number] or "" for row in ratings] for number in (0, 1))
        return cohen_kappa(first, second)
    return fleiss_kappa(ratings)
