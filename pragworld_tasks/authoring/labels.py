"""Stage 5: a panel of models answers each question; votes, and reviewers' decisions, make labels.

Members are models, or samples of one. Each is told the benchmark's conventions (arXiv 2511.13021,
section 4 and appendix A), answers yes, no or undetermined, and quotes what its answer rests on. A
member abstains where it has no usable reply, and where what it quotes is not in the conversation.

A document gets the panel's label if at least three quarters of the votes cast agree on it, and at
least three were cast where the panel is that large. Otherwise it goes to review. What is
undetermined counts as no, by the benchmark's convention. Nothing here can show the errors that
members share, as models of one family and samples of one model do.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field, ValidationError, field_validator

from pragworld_tasks.authoring.checks import find_quote_problem
from pragworld_tasks.authoring.records import (
    Asker,
    AuthoringRecord,
    Vote,
    VoteAnswer,
    VotedDocument,
    read_records,
    unanswered,
    write_records,
)
from pragworld_tasks.chat import UnansweredError
from pragworld_tasks.data.document_files import DocumentRecord, own_document
from pragworld_tasks.data.documents import Answer, Basis, Document
from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.files import read_json

LEAST_VOTES = 3
BASES: dict[str | None, Basis] = {
    "yes": "entailed",
    "no": "excluded",
    "undetermined": "undetermined",
}
DECISIONS = "decisions.jsonl"
REJECTED = "rejected in review"

Verdict = Literal["yes", "no", "undetermined", "reject"]


# Votes --------------------------------------------------------------------------------------------


class VoteReply(AuthoringRecord):
    """What a member replies."""

    answer: VoteAnswer
    quote: str

    @field_validator("answer", mode="before")
    @classmethod
    def _in_lower_case(cls, answer: object) -> object:
        return answer.strip().lower() if isinstance(answer, str) else answer


async def poll(asker: Asker, document: VotedDocument) -> VotedDocument:
    """Return a document with the votes of all members; a model named twice is sampled twice."""
    panel = asker.settings.panel
    votes = (
        _vote(asker, model, panel[:place].count(model), document)
        for place, model in enumerate(panel)
    )
    return document.model_copy(update={"votes": tuple(await asyncio.gather(*votes))})


async def _vote(asker: Asker, model: str, sample: int, document: VotedDocument) -> Vote:
    try:
        reply = await asker.ask(
            "label",
            VoteReply,
            document.conversation,
            model=model,
            draw=sample,
            conversation=document.context,
            question=document.question,
        )
    except UnansweredError as error:
        rule, text = unanswered(error)
        return Vote(model=model, answer=None, problem=f"{rule} ({text})")
    quote = reply.quote.strip()
    problem = find_quote_problem(reply.answer, quote, document.context)
    return Vote(model=model, answer=None if problem else reply.answer, quote=quote, problem=problem)


# Labels of the panel ------------------------------------------------------------------------------


class Label(NamedTuple):
    """What the panel, or a reviewer, says of one document.

    While it is in review, or where a reviewer rejects it, the answer is None and `reason` says why.
    Where the votes do not settle what the answer rests on, the basis is None.
    """

    answer: Answer | None
    basis: Basis | None = None
    reason: str = ""
    reviewer: str = ""

    @property
    def is_in_review(self) -> bool:
        """Whether a reviewer has to decide."""
        return self.answer is None and not self.reviewer


def vote_label(vote: Vote) -> Answer | None:
    """Return the label that a vote is for; None for an abstention."""
    return "no" if vote.answer == "undetermined" else vote.answer


def votes_needed(cast: int) -> int:
    """Return how many of the votes cast have to be the same: three quarters, rounded up."""
    return -(-3 * cast // 4)


def panel_label(document: VotedDocument) -> Label:
    """Return the label that a document's votes settle, or why it goes to review.

    A document whose given label the panel contradicts goes to review too: a person decides.
    """
    votes = document.votes
    cast = [vote for vote in votes if vote.answer]
    if len(cast) < max(1, min(LEAST_VOTES, len(votes))):
        return Label(None, reason=f"only {len(cast)} of {len(votes)} members have a vote")
    needed, labels = votes_needed(len(cast)), Counter(map(vote_label, cast))
    answer: Answer = "yes" if labels["yes"] > labels["no"] else "no"
    if labels[answer] < needed:
        reason = f"{labels['yes']} say yes, {labels['no']} no; {needed} have to agree"
        return Label(None, reason=reason)
    if document.given and answer != document.given:
        return Label(None, reason=f"the panel says {answer}, the given label is {document.given}")
    agreeing = Counter(vote.answer for vote in cast if vote_label(vote) == answer)
    commonest, times = agreeing.most_common(1)[0]
    return Label(answer, BASES[commonest] if times >= needed else None)


def proposal(document: VotedDocument) -> VoteAnswer | None:
    """Return what most of the votes on a document say; None if no answer has a majority."""
    answers = Counter(vote.answer for vote in document.votes if vote.answer)
    return next((answer for answer, votes in answers.items() if 2 * votes > answers.total()), None)


# Decisions of reviewers ---------------------------------------------------------------------------


class Decision(AuthoringRecord):
    """What a reviewer decides: a line of `decisions.jsonl`, which has the last of each document.

    The digest says which document it is; `conversation` and `variant` are for people.
    """

    conversation: int
    variant: int
    digest: str
    decision: Verdict
    note: str = ""
    reviewer: str = ""

    @property
    def label(self) -> Label:
        """What the reviewer says of the document."""
        if self.decision == "reject":
            return Label(None, reason=REJECTED, reviewer=self.reviewer)
        answer: Answer = "yes" if self.decision == "yes" else "no"
        return Label(answer, BASES[self.decision], reviewer=self.reviewer)


class DecisionFile(AuthoringRecord):
    """The file that the review page saves."""

    version: Literal[1]
    reviewer: str = Field(pattern=r"\S")
    decisions: tuple[Decision, ...]


class LabelledDocument(NamedTuple):
    """A document with its label by the panel, or by a reviewer."""

    voted: VotedDocument
    label: Label


def read_decisions(folder: Path) -> dict[str, Decision]:
    """Return the decisions in a folder by the digests of their documents; none without a file."""
    path = folder / DECISIONS
    decisions = read_records(path, Decision) if path.exists() else ()
    return {decision.digest: decision for decision in decisions}


def add_decisions(folder: Path, paths: Sequence[Path]) -> dict[str, Decision]:
    """Add files that the review page saved to a folder's decisions, and return them all."""
    decisions = read_decisions(folder)
    for path in paths:
        try:
            saved = DecisionFile.model_validate(read_json(path))
        except ValidationError as error:
            raise InputError(
                f"{path}: {first_problem(error)}; pass a file that review.html saved"
            ) from error
        for decision in saved.decisions:
            update = {"reviewer": " ".join(saved.reviewer.split())}
            decisions[decision.digest] = decision.model_copy(update=update)
    write_records(folder / DECISIONS, decisions.values())
    return decisions


def label_documents(
    documents: Iterable[VotedDocument], decisions: Mapping[str, Decision]
) -> list[LabelledDocument]:
    """Return documents with their labels: a reviewer's, or the panel's where nobody has decided."""
    decided = ((document, decisions.get(document.digest)) for document in documents)
    return [
        LabelledDocument(document, decision.label if decision else panel_label(document))
        for document, decision in decided
    ]


def settled_documents(documents: Iterable[LabelledDocument]) -> list[Document]:
    """Return the documents that come out, each group's original first.

    A group comes out if its original has a label, and so has one of its variants if there are any.
    A document with the conversation and the question of an earlier one would count twice. The
    `group` of a document is the number of its conversation in all other files.
    """
    conversations: dict[int, list[LabelledDocument]] = {}
    for document in documents:
        conversations.setdefault(document.voted.conversation, []).append(document)
    settled: list[tuple[DocumentRecord, DocumentRecord]] = []
    seen: set[str] = set()
    for members in conversations.values():
        group = {
            member.voted.digest: member
            for member in reversed(members)
            if member.label.answer and member.voted.digest not in seen
        }
        kept = [member for member in members if group.get(member.voted.digest) is member]
        if kept and kept[0] is members[0] and len(kept) >= min(2, len(members)):
            original, *_ = records = [*map(_record, kept)]
            settled += ((record, original) for record in records)
            seen |= group.keys()
    return [own_document(row, *records) for row, records in enumerate(settled)]


def _record(member: LabelledDocument) -> DocumentRecord:
    voted, (answer, basis, *_) = member
    assert answer  # else it is not settled
    return DocumentRecord(
        context=voted.context,
        question=voted.question,
        answer=answer,
        group=voted.conversation,
        alteration=voted.alteration,
        basis=basis if (basis == "entailed") == (answer == "yes") else None,
    )
