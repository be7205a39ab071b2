"""How far to trust a panel's members, and what its votes settle (stage 5).

A document gets the panel's label if at least three quarters of the votes cast agree on it, and at
least three were cast where the panel is that large. Otherwise it goes to review. What is
undetermined counts as no, by the benchmark's convention.

The rule assumes that members err independently of each other. If each of five then errs on 10 % of
the documents, 99.95 % of the settled labels are right and 8.1 % of the documents go to review; of
four, 99.6 % and 4.9 %; of three, who have to agree, 99.9 % and 27 %. Two reach no more than 98.8 %,
and one is right as often as it is. Nothing here can show the errors that members share, as models
of one family and samples of one model do: they look like agreement. Read a sample of the settled
labels yourself.

Members whose votes carry no information are set aside first. The measure is Youden's J (also called
informedness): the share of yes among the documents that the others call yes, minus the share among
those that they call no. It is 1 for a member that always agrees with the others and 0 for one that
answers without looking, be it always the same. Unlike a kappa, it does not depend on how many
documents are to be answered yes.

A member that repeats another adds no vote, yet its votes need not be wrong. So they count, but the
others' have to settle the label without them, too.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import NamedTuple

from pragworld_tasks.authoring.records import AuthoringRecord, Label, Vote
from pragworld_tasks.data.documents import Answer, Basis

LEAST_DOCUMENTS = 20  # fewer say too little of a member to set it aside
LEAST_OF_EACH = 10  # documents that the others call yes, and that they call no
LEAST_INFORMEDNESS = 0.4
LEAST_VOTES = 3
LEAST_MEMBERS = 3  # of two members that disagree, nothing says which is at fault
LEAST_ERRORS = 3  # that two members share, before one counts as repeating the other
REPEATED = 0.8  # of the errors of either
BASES: dict[str, Basis] = {"yes": "entailed", "no": "excluded", "undetermined": "undetermined"}


class Ballot(NamedTuple):
    """The votes on one document.

    Attributes:
        conversation, variant: The document.
        votes: A vote of each member.
        given: The label that the document had before, where it had one.
    """

    conversation: int
    variant: int
    votes: tuple[Vote, ...]
    given: Answer | None = None


class MemberRating(AuthoringRecord):
    """What the votes of one member are worth.

    Attributes:
        member: the member's place in the panel, from 0.
        model: the model's name.
        documents: the number of documents.
        abstentions: how many of them it did not answer.
        yes: the share of yes among its votes; None without votes.
        undetermined: the share of undetermined among its votes; None without votes.
        agreement: how often its label is that of most of the others; None where there are none.
        informedness: Youden's J with the label of most of the others; None where they call too few
            documents yes, or no, to tell.
        repeats: the place of an earlier member that it seems to repeat; None if it repeats none.
        set_aside: why its votes do not count, in words; empty if they do.
    """

    member: int
    model: str
    documents: int
    abstentions: int
    yes: float | None
    undetermined: float | None
    agreement: float | None
    informedness: float | None
    repeats: int | None = None
    set_aside: str = ""

    @property
    def name(self) -> str:
        """The member in the words of a report."""
        return f"member {self.member + 1} ({self.model})"


class PairAgreement(AuthoringRecord):
    """How far two members agree.

    Attributes:
        first, second: their places in the panel, from 0.
        documents: the number of documents that both answered.
        agreement: the share in which they give the same label; None without documents.
        kappa: Cohen's kappa of their labels; None where it is not defined.
        apart: documents in which one of them or both differ from the others, who are at least two
            and all agree.
        apart_together: those among them in which both differ.
    """

    first: int
    second: int
    documents: int
    agreement: float | None
    kappa: float | None
    apart: int
    apart_together: int


class PanelAnswer(NamedTuple):
    """What a panel says of one document.

    Attributes:
        answer: The label; None where the votes settle none.
        basis: What the label rests on, where the votes settle that as well.
        reason: Why the votes settle no label, in words; empty if they do.
    """

    answer: Answer | None
    basis: Basis | None
    reason: str


def vote_label(vote: Vote) -> Answer | None:
    """Return the label that a vote is for; None for an abstention."""
    return "no" if vote.answer == "undetermined" else vote.answer


def votes_needed(cast: int) -> int:
    """Return how many of the votes cast have to be the same: three quarters, rounded up.

    Examples:
        >>> [votes_needed(cast) for cast in range(1, 9)]
        [1, 2, 3, 3, 4, 5, 6, 6]
    """
    return -(-3 * cast // 4)


def rate_members(ballots: Sequence[Sequence[Vote]]) -> tuple[MemberRating, ...]:
    """Return what the votes of each member are worth, over all documents.

    A member is set aside if it abstains on more than half of the documents, or if its informedness
    is below 0.4; one at a time, the worst first, so that it does not spoil the others' figures. Of
    two members that remain, neither is set aside for disagreeing. A member seems to repeat an
    earlier one if it differs from the others who agree where that one does, and nowhere else.

    Args:
        ballots: for each document, the votes of all members, in the same order.

    Returns:
        A rating of each member, in their order.
    """
    rows = _label_rows(ballots)
    members = range(len(rows[0])) if rows else range(0)
    set_aside: dict[int, MemberRating] = {}
    for member in members:
        rating = _rate(ballots, rows, member, members)
        if len(rows) >= LEAST_DOCUMENTS and 2 * rating.abstentions > len(rows):
            reason = f"it abstains on {rating.abstentions} of {len(rows)} documents"
            set_aside[member] = rating.model_copy(update={"set_aside": reason})
    while True:
        kept = [member for member in members if member not in set_aside]
        ratings = {member: _rate(ballots, rows, member, kept) for member in kept}
        worst = min(kept, key=lambda member: _informedness(ratings[member]), default=None)
        if worst is None or len(kept) < LEAST_MEMBERS:
            break
        if (informedness := _informedness(ratings[worst])) >= LEAST_INFORMEDNESS:
            break
        reason = f"its answers say little about the others' (J {informedness:.2f})"
        set_aside[worst] = ratings[worst].model_copy(update={"set_aside": reason})
    for first, second in combinations(kept, 2):
        apart, together = _apart(rows, kept, first, second)
        if ratings[second].repeats is None and together >= max(LEAST_ERRORS, REPEATED * apart):
            ratings[second] = ratings[second].model_copy(update={"repeats": first})
    return tuple((set_aside | ratings)[member] for member in members)


def _label_rows(ballots: Sequence[Sequence[Vote]]) -> list[list[Answer | None]]:
    return [[vote_label(vote) for vote in votes] for votes in ballots]


def _informedness(rating: MemberRating) -> float:
    return 1.0 if rating.informedness is None else rating.informedness


def _rate(
    ballots: Sequence[Sequence[Vote]],
    rows: Sequence[Sequence[Answer | None]],
    member: int,
    kept: Sequence[int],
) -> MemberRating:
    """Return the rating of a member, against those of the kept members that it is not."""
    others = [other for other in kept if other != member]
    votes = [votes[member] for votes in ballots if votes[member].answer]
    # (the others', the member's) labels of the documents that have both.
    labels = Counter(
        (expected, row[member])
        for row in rows
        if row[member] and (expected := _majority([row[other] for other in others]))
    )
    called_yes = labels["yes", "yes"] + labels["yes", "no"]
    called_no = labels["no", "yes"] + labels["no", "no"]
    informedness = None
    if min(called_yes, called_no) >= LEAST_OF_EACH:
        informedness = labels["yes", "yes"] / called_yes - labels["no", "yes"] / called_no
    return MemberRating(
        member=member,
        model=ballots[0][member].origin.model,
        documents=len(ballots),
        abstentions=len(ballots) - len(votes),
        yes=_share(sum(vote.answer == "yes" for vote in votes), len(votes)),
        undetermined=_share(sum(vote.answer == "undetermined" for vote in votes), len(votes)),
        agreement=_share(labels["yes", "yes"] + labels["no", "no"], labels.total()),
        informedness=informedness,
    )


def _apart(
    rows: Sequence[Sequence[Answer | None]], kept: Sequence[int], first: int, second: int
) -> tuple[int, int]:
    """Return in how many documents one of two members differs from all others, and both do.

    Several others who agree are seldom wrong, so that is where the two err.
    """
    apart = together = 0
    others = [member for member in kept if member not in (first, second)]
    for row in rows:
        labels = [label for member in others if (label := row[member])]
        if row[first] and row[second] and len(labels) >= 2 and len({*labels}) == 1:
            differing = (row[first] != labels[0]) + (row[second] != labels[0])
            apart += differing > 0
            together += differing == 2
    return apart, together


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _majority(labels: Sequence[Answer | None]) -> Answer | None:
    """Return the label that more of the votes are for; None for a tie, and without votes."""
    yes, no = labels.count("yes"), labels.count("no")
    return None if yes == no else "yes" if yes > no else "no"


def panel_answer(
    votes: Sequence[Vote], ratings: Sequence[MemberRating], agree: int | None = None
) -> PanelAnswer:
    """Return what the votes on one document settle.

    Args:
        votes: the votes of all members.
        ratings: the members' ratings. The votes of those set aside do not count, and the others
            have to settle a label with and without those that repeat another.
        agree: how many votes have to be the same; None for `votes_needed` of those cast.
    """
    kept = [rating for rating in ratings if not rating.set_aside]
    settled = _settled(votes, [rating.member for rating in kept], agree)
    independent = [rating.member for rating in kept if rating.repeats is None]
    if settled.reason or len(independent) == len(kept):
        return settled
    without = _settled(votes, independent, agree)
    if without.reason:
        reason = f"without members that repeat others, {without.reason}"
        return PanelAnswer(None, None, reason)
    return settled


def _settled(votes: Sequence[Vote], members: Sequence[int], agree: int | None) -> PanelAnswer:
    """Return what the votes of some members settle."""
    cast = [votes[member] for member in members if votes[member].answer]
    if len(cast) < max(1, min(LEAST_VOTES, len(votes))):
        return PanelAnswer(None, None, f"only {len(cast)} of {len(votes)} members have a vote")
    needed = votes_needed(len(cast)) if agree is None else agree
    labels = Counter(map(vote_label, cast))
    answer: Answer = "yes" if labels["yes"] > labels["no"] else "no"
    if labels[answer] < needed or labels["yes"] == labels["no"]:
        reason = f"{labels['yes']} say yes, {labels['no']} no; {needed} have to agree"
        return PanelAnswer(None, None, reason)
    bases = Counter(
        BASES[vote.answer] for vote in cast if vote.answer and vote_label(vote) == answer
    )
    basis, agreeing = bases.most_common(1)[0]
    return PanelAnswer(answer, basis if agreeing >= needed else None, "")


def settle(
    ballots: Sequence[Ballot], ratings: Sequence[MemberRating], agree: int | None = None
) -> list[Label]:
    """Return the label of each document, or why it goes to review.

    A document whose given label the panel contradicts goes to review too: a person decides.

    Args:
        ballots: the votes on each document.
        ratings: the members' ratings, by `rate_members` over all documents.
        agree: as in `panel_answer`.
    """
    labels = []
    for ballot in ballots:
        answer, basis, reason = panel_answer(ballot.votes, ratings, agree)
        if ballot.given and answer and answer != ballot.given:
            reason = f"the panel says {answer}, the given label is {ballot.given}"
            answer = basis = None
        labels.append(
            Label(
                conversation=ballot.conversation,
                variant=ballot.variant,
                votes=ballot.votes,
                answer=answer,
                basis=basis,
                given=ballot.given,
                reason=reason,
            )
        )
    return labels


def pair_agreements(
    ballots: Sequence[Sequence[Vote]], ratings: Sequence[MemberRating]
) -> tuple[PairAgreement, ...]:
    """Return how far each two members of a panel agree.

    Args:
        ballots: for each document, the votes of all members, in the same order.
        ratings: the members' ratings, by `rate_members`.
    """
    rows = _label_rows(ballots)
    kept = [rating.member for rating in ratings if not rating.set_aside]
    pairs = []
    for first, second in combinations(range(len(ratings)), 2):
        both = [(left, right) for row in rows if (left := row[first]) and (right := row[second])]
        apart, together = _apart(rows, kept, first, second)
        pairs.append(
            PairAgreement(
                first=first,
                second=second,
                documents=len(both),
                agreement=_share(sum(left == right for left, right in both), len(both)),
                kappa=cohen_kappa([left for left, _ in both], [right for _, right in both]),
                apart=apart,
                apart_together=together,
            )
        )
    return tuple(pairs)


def cohen_kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Return Cohen's kappa of two annotators' labels (Cohen, 1960).

    Args:
        first: the labels of one annotator.
        second: those of the other, of the same items in the same order.

    Returns:
        The kappa; None where it is not defined: without items, and where both give one and the same
        label to all.

    Examples:
        >>> round(cohen_kappa(["yes", "yes", "no", "no"], ["yes", "no", "no", "no"]), 2)
        0.5
    """
    if len({*first, *second}) < 2:
        return None
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(first, second))


def fleiss_kappa(ratings: Sequence[Sequence[Hashable | None]]) -> float | None:
    """Return the kappa of several annotators' labels (Fleiss, 1971).

    Items with fewer than two labels are left out. If all others have the same number of labels, it
    is Fleiss' kappa; otherwise, the agreement of an item is that of the pairs of its labels.

    Args:
        ratings: for each item, the labels that it got; None for an annotator who gave none.

    Returns:
        The kappa; None where it is not defined: without items that have two labels, and where all
        labels are the same.

    Examples:
        >>> fleiss_kappa([["yes", "yes", "yes"], ["no", "no", "no"]])
        1.0
    """
    counts = [Counter(label for label in labels if label is not None) for labels in ratings]
    counts = [count for count in counts if count.total() >= 2]
    overall = sum(counts, Counter[Hashable]())
    if len(overall) < 2:
        return None
    agreement = sum(
        sum(times * (times - 1) for times in count.values()) / (count.total() * (count.total() - 1))
        for count in counts
    ) / len(counts)
    by_chance = sum((times / overall.total()) ** 2 for times in overall.values())
    return (agreement - by_chance) / (1 - by_chance)


def labelled_groups(labels: Sequence[Label]) -> set[int]:
    """Return the conversations whose original and at least one variant have a label."""
    labelled = {label.place for label in labels if label.answer}
    varied = {conversation for conversation, variant in labelled if variant}
    return {conversation for conversation in varied if (conversation, 0) in labelled}
