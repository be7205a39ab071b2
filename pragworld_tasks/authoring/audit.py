"""Stage 6: what an authoring run has made, and what speaks against it.

The audit is a function of the run's records. It holds the balance of the labels, the panel's
agreement, shortcuts that words alone give, copies, overlap with the manual split, and what was
dropped. Where there are too few documents to tell, it says so.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from pragworld_tasks.authoring.agreement import (
    LEAST_VOTES,
    MemberRating,
    PairAgreement,
    fleiss_kappa,
    labelled_groups,
    pair_agreements,
    panel_answer,
    rate_members,
    vote_label,
)
from pragworld_tasks.authoring.conversations import (
    MOST_SHARED,
    Grams,
    larger_shared_part,
    word_grams,
)
from pragworld_tasks.authoring.decisions import is_in_review
from pragworld_tasks.authoring.folder import StageRecords
from pragworld_tasks.authoring.outputs import DocumentPlace, LeftOutDocument, select_documents
from pragworld_tasks.authoring.panel import lost_votes_text
from pragworld_tasks.authoring.records import (
    AuthoredVariant,
    AuthoringRecord,
    Dropped,
    Label,
    Stage,
    Vote,
)
from pragworld_tasks.authoring.shortcuts import LEAST_GROUPS, ShortcutCheck, check_shortcuts
from pragworld_tasks.data.breakdowns import (
    LENGTH_BUCKETS,
    NOT_ALTERED,
    QUESTION_TYPES,
    context_length,
)
from pragworld_tasks.data.documents import ALTERATIONS, Answer, Document, Effect
from pragworld_tasks.data.sources import locate, read_split
from pragworld_tasks.text import join_names

LEAST_OF_CLASS = 30  # labels of a class below which its share of yes tells nothing
EVEN = (0.35, 0.65)  # shares of yes that pass for balanced

Breakdown = Literal["question type", "alteration", "effect", "length"]


class ClassCount(AuthoringRecord):
    """The documents of one class.

    Attributes:
        breakdown: what they are classed by.
        name: the class.
        documents: the number of documents that the panel voted on.
        labelled: how many of them have a label.
        yes: how many have the label yes.
        disputed: on how many the members that count disagree.
    """

    breakdown: Breakdown
    name: str
    documents: int
    labelled: int
    yes: int
    disputed: int

    @property
    def is_uneven(self) -> bool:
        """Whether one answer is much commoner than the other."""
        return _is_uneven(self.yes, self.labelled)


class OpenDocument(DocumentPlace):
    """A document in review, and why."""

    reason: str


class ContradictedLabel(DocumentPlace):
    """A document whose given label the panel contradicts, whatever reviewers said of it since."""

    given: Answer
    panel: Answer


class NearCopy(AuthoringRecord):
    """Two conversations that share half of the sequences of four words of either, or more."""

    conversation: int
    other: int
    shared: float


class ManualOverlap(AuthoringRecord):
    """A conversation that shares as much with a document of the manual split."""

    conversation: int
    row: int
    shared: float


class AbstentionCount(AuthoringRecord):
    """How often a member abstained for a reason."""

    member: int
    reason: str
    times: int


class DropCount(AuthoringRecord):
    """How often a stage dropped something for a reason."""

    stage: Stage
    reason: str
    times: int


class AuthoringAudit(AuthoringRecord):
    """What an authoring run has made, and what speaks against it.

    Attributes:
        conversations: the number of conversations.
        groups: those whose original and at least one variant have a label.
        documents: the number of documents that the panel voted on.
        labelled: how many have a label.
        written: how many of them come out, in groups that have enough of them.
        left_out: the others that have a label, and why.
        yes: how many have the label yes.
        rejected: how many were rejected in review.
        reviewed: how many reviewers have decided about.
        classes: the documents by class.
        shortcuts: how often words alone give the right answer.
        copies: documents with the same conversation and question.
        near_copies: conversations that are much alike.
        overlap: conversations that are much like one of the manual split; None if that was not
            checked.
        members: what the members' votes are worth.
        abstentions: why members abstained.
        lost_votes: how many votes failed for want of a reply, and why, in words.
        pairs: how far each two members agree.
        fleiss: Fleiss' kappa of the labels of the members that count; None if it is not defined.
        in_review: the documents in review.
        contradictions: the given labels that the panel contradicts.
        dropped: what was dropped.
        untold: what the audit cannot tell, in words.
    """

    conversations: int
    groups: int
    documents: int
    labelled: int
    written: int
    left_out: tuple[LeftOutDocument, ...]
    yes: int
    rejected: int
    reviewed: int
    classes: tuple[ClassCount, ...]
    shortcuts: tuple[ShortcutCheck, ...]
    copies: tuple[tuple[DocumentPlace, ...], ...]
    near_copies: tuple[NearCopy, ...]
    overlap: tuple[ManualOverlap, ...] | None
    members: tuple[MemberRating, ...]
    abstentions: tuple[AbstentionCount, ...]
    lost_votes: str
    pairs: tuple[PairAgreement, ...]
    fleiss: float | None
    in_review: tuple[OpenDocument, ...]
    contradictions: tuple[ContradictedLabel, ...]
    dropped: tuple[DropCount, ...]
    untold: tuple[str, ...]

    @property
    def is_uneven(self) -> bool:
        """Whether one answer is much commoner than the other."""
        return _is_uneven(self.yes, self.labelled)


# The audit ----------------------------------------------------------------------------------------


class _VotedDocument(NamedTuple):
    """A document that the panel voted on."""

    label: Label
    variant: AuthoredVariant
    question: str
    type: str
    effect: Effect | None

    @property
    def place_fields(self) -> dict[str, Any]:
        """The fields of its `DocumentPlace`."""
        variant = self.variant
        return {
            "conversation": variant.conversation,
            "variant": variant.variant,
            "row": variant.row,
        }


def audit_records(
    records: StageRecords, manual: Sequence[Document] | None = None, agree: int | None = None
) -> AuthoringAudit:
    """Return the audit of a run.

    Args:
        records: the records of all stages; the labels as they are after review.
        manual: the documents of the manual split, to look for overlap with; None if they are not
            on this machine, empty if they are what was labelled.
        agree: how many votes have to be the same, as in `agreement.panel_answer`.
    """
    voted = _voted(records)
    labelled = [document for document in voted if document.label.answer]
    ballots = [label.votes for label in records.labels]
    selection = select_documents(records)
    members = rate_members(ballots)
    kept = [member.member for member in members if not member.set_aside]
    originals = {
        variant.conversation: word_grams(variant.context)
        for variant in records.variants
        if variant.variant == 0
    }
    near_copies = tuple(_near_copies(originals))
    group = _joined_groups(originals, near_copies)
    shortcuts = check_shortcuts(
        {
            "question and conversation": [
                (document.question, document.variant.context) for document in labelled
            ],
            "question": [(document.question,) for document in labelled],
        },
        [document.label.answer for document in labelled if document.label.answer],
        [group[document.label.conversation] for document in labelled],
    )
    return AuthoringAudit(
        conversations=len(records.conversations),
        groups=len(labelled_groups(records.labels)),
        documents=len(voted),
        labelled=len(labelled),
        written=selection.documents,
        left_out=selection.left_out,
        yes=sum(document.label.answer == "yes" for document in labelled),
        rejected=sum(label.answer is None and not is_in_review(label) for label in records.labels),
        reviewed=sum(bool(label.reviewers) for label in records.labels),
        classes=tuple(_classes(voted, kept)),
        shortcuts=shortcuts,
        copies=tuple(_copies(voted)),
        near_copies=near_copies,
        overlap=tuple(_overlap(originals, manual)) if manual else None,
        members=members,
        abstentions=tuple(_abstention_counts(ballots)),
        lost_votes=lost_votes_text(records.labels),
        pairs=pair_agreements(ballots, members),
        fleiss=fleiss_kappa([[vote_label(votes[member]) for member in kept] for votes in ballots]),
        in_review=tuple(
            OpenDocument(**document.place_fields, reason=document.label.reason)
            for document in voted
            if is_in_review(document.label)
        ),
        contradictions=tuple(_contradictions(voted, members, agree)),
        dropped=tuple(_drop_counts(records.dropped)),
        untold=tuple(_untold(members, len(ballots), bool(shortcuts), manual is not None)),
    )


def local_manual_split() -> list[Document] | None:
    """Return the documents of the manual split if it is on this machine; nothing is downloaded.

    Raises:
        InputError: Its file is there, but malformed.
    """
    location = locate("manual")
    return read_split("manual", location.path) if location else None


def _voted(records: StageRecords) -> list[_VotedDocument]:
    answers = {label.place: label.answer for label in records.labels}
    voted = []
    for label in records.labels:
        variant, question = records.document_at(label.place)
        original = answers.get((label.conversation, 0))
        effect: Effect | None = None
        if variant.alteration and original and label.answer:
            effect = "invariant" if label.answer == original else "flip"
        voted.append(_VotedDocument(label, variant, question.text, question.type, effect))
    return voted


def _classes(voted: Sequence[_VotedDocument], kept: Sequence[int]) -> Iterable[ClassCount]:
    names: list[tuple[Breakdown, Sequence[str]]] = [
        ("question type", sorted({document.type for document in voted}, key=_type_order)),
        ("alteration", (*ALTERATIONS, NOT_ALTERED)),
        ("effect", ("flip", "invariant")),
        ("length", LENGTH_BUCKETS),
    ]
    for breakdown, classes in names:
        for name in classes:
            members = [document for document in voted if _class(document, breakdown) == name]
            if members:
                yield ClassCount(
                    breakdown=breakdown,
                    name=name,
                    documents=len(members),
                    labelled=sum(document.label.answer is not None for document in members),
                    yes=sum(document.label.answer == "yes" for document in members),
                    disputed=sum(_is_disputed(document.label, kept) for document in members),
                )


def _type_order(name: str) -> tuple[int, str]:
    return QUESTION_TYPES.index(name) if name in QUESTION_TYPES else -1, name


def _class(document: _VotedDocument, breakdown: Breakdown) -> str | None:
    match breakdown:
        case "question type":
            return document.type
        case "alteration":
            return document.variant.alteration or NOT_ALTERED
        case "effect":
            return document.effect
        case "length":
            return context_length(document.variant.context)


def _is_disputed(label: Label, kept: Sequence[int]) -> bool:
    return len({vote_label(label.votes[member]) for member in kept} - {None}) > 1


def _copies(voted: Sequence[_VotedDocument]) -> Iterable[tuple[DocumentPlace, ...]]:
    """Yield the documents that have the same conversation and question, apart from white space."""
    places = defaultdict(list)
    for document in voted:
        texts = (document.variant.context, document.question)
        place = DocumentPlace(**document.place_fields)
        places[tuple(" ".join(text.casefold().split()) for text in texts)].append(place)
    return (tuple(same) for same in places.values() if len(same) > 1)


def _near_copies(conversations: dict[int, Grams]) -> Iterable[NearCopy]:
    having: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, grams in conversations.items():
        alike = {other for gram in grams for other in having[gram]}
        for other in sorted(alike):
            shared = larger_shared_part(grams, conversations[other])
            if shared >= MOST_SHARED:
                yield NearCopy(conversation=number, other=other, shared=shared)
        for gram in grams:
            having[gram].append(number)


def _joined_groups(conversations: Iterable[int], near_copies: Iterable[NearCopy]) -> dict[int, int]:
    """Return a group for each conversation: an answer must not be learned from a copy either."""
    group = {number: number for number in conversations}

    def find_group(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    for pair in near_copies:
        group[find_group(pair.conversation)] = find_group(pair.other)
    return {number: find_group(number) for number in group}


def _overlap(
    conversations: dict[int, Grams], manual: Sequence[Document]
) -> Iterable[ManualOverlap]:
    """Yield the conversations that are like an original of the manual split, and the likest."""
    known = {
        document.row: word_grams(document.context) for document in manual if document.is_original
    }
    for number, grams in conversations.items():
        shared, row = max(
            ((larger_shared_part(grams, others), row) for row, others in known.items()),
            default=(0.0, 0),
        )
        if shared >= MOST_SHARED:
            yield ManualOverlap(conversation=number, row=row, shared=shared)


def _contradictions(
    voted: Sequence[_VotedDocument], members: Sequence[MemberRating], agree: int | None
) -> Iterable[ContradictedLabel]:
    for document in voted:
        label = document.label
        answer = panel_answer(label.votes, members, agree).answer
        if label.given and answer and answer != label.given:
            yield ContradictedLabel(**document.place_fields, given=label.given, panel=answer)


def _abstention_counts(ballots: Iterable[Sequence[Vote]]) -> Iterable[AbstentionCount]:
    counts = Counter(
        (vote.member, vote.problem.partition(" (")[0])  # without the details of this one
        for votes in ballots
        for vote in votes
        if vote.answer is None
    )
    for (member, reason), times in sorted(counts.items()):
        yield AbstentionCount(member=member, reason=reason, times=times)


def _drop_counts(dropped: Iterable[Dropped]) -> Iterable[DropCount]:
    counts = Counter((record.stage, record.reason) for record in dropped)
    for (stage, reason), times in counts.items():
        yield DropCount(stage=stage, reason=reason, times=times)


def _untold(
    members: Sequence[MemberRating], documents: int, has_shortcuts: bool, has_manual: bool
) -> Iterable[str]:
    if not has_shortcuts:
        yield (
            "Whether words alone give the answers: that takes labels in at least "
            f"{LEAST_GROUPS} groups, some of them yes and some no."
        )
    if not has_manual:
        yield (
            "Whether conversations overlap with the manual split: its file is not on this machine "
            "(`pragworld-tasks data fetch manual`)."
        )
    unrated = [
        member.name for member in members if member.informedness is None and not member.set_aside
    ]
    if unrated and documents:
        yield (
            f"Whether the votes of {join_names(unrated)} carry information: that takes two other "
            "members at least, and ten documents that most of them call yes and ten that they "
            "call no."
        )
    kept = len([member for member in members if not member.set_aside])
    if members and kept < LEAST_VOTES:
        yield (
            f"Whether labels that rest on {kept} of {len(members)} members are right: where each "
            "errs on a tenth of the documents, so do more than a hundredth of these labels. Add "
            "members."
        )
    if len({member.model for member in members}) == 1 and len(members) > 1:
        yield (
            "Whether the panel errs: all members are samples of one model, and what it misreads, "
            "they all misread. Read a sample of the labels, or add other models."
        )
    elif members:
        yield (
            "Errors that members share, as models of one family do: they look like agreement. "
            "Read a sample of the labels."
        )


def _is_uneven(yes: int, labels: int) -> bool:
    low, high = EVEN
    return labels >= LEAST_OF_CLASS and not low <= yes / labels <= high
