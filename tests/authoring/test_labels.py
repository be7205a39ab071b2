"""Votes of a panel, the labels that they settle, and the audit."""

import dataclasses
import functools
import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import pytest

from pragworld_tasks.authoring import labels
from pragworld_tasks.authoring.audit import audit_report
from pragworld_tasks.authoring.checks import find_quote_problem, said_of_task
from pragworld_tasks.authoring.labels import LabelledDocument, settled_documents, votes_needed
from pragworld_tasks.authoring.pipeline import unvoted
from pragworld_tasks.authoring.records import Dropped, Vote, VoteAnswer, VotedDocument
from pragworld_tasks.authoring.shortcuts import check_shortcuts
from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.data.splits import generate_documents

ERROR = Fraction(1, 10)  # of an honest member
Answers = Sequence[Any]  # of a VoteAnswer or None, which `Vote` checks


def votes_of(answers: Answers) -> tuple[Vote, ...]:
    return tuple(Vote(model="m", answer=answer) for answer in answers)


def label_of(answers: Answers) -> labels.Label:
    texts: dict[str, Any] = {"context": "Ann: Hi.", "question": "Here?", "alteration": None}
    document = VotedDocument(conversation=0, variant=0, **texts, votes=votes_of(answers))
    return labels.panel_label(document)


def chances(
    honest: int, others: Callable[[list[VoteAnswer]], Answers] = lambda votes: ()
) -> tuple[Fraction, Fraction]:
    """Return the exact shares of right labels among the settled ones, and of what goes to review.

    Every pattern of errors of the honest members, who err independently, is weighted by its
    probability; half of the documents are to be answered yes.
    """
    right = wrong = Fraction(0)
    truths: tuple[VoteAnswer, VoteAnswer] = ("yes", "no")
    for truth, wrongs in product(truths, product((False, True), repeat=honest)):
        weight = Fraction(1, 2)
        for errs in wrongs:
            weight *= ERROR if errs else 1 - ERROR
        votes = [truths[(truth == "no") != errs] for errs in wrongs]
        answer = label_of([*votes, *others(votes)]).answer
        right += weight * (answer == truth)
        wrong += weight * (answer not in (truth, None))
    return right / (right + wrong), 1 - right - wrong


def binomial(members: int, needed: int) -> tuple[Fraction, Fraction]:
    """Return the same two shares in closed form, for honest members alone."""
    right, wrong = (
        sum(
            (
                comb(members, agreeing) * chance**agreeing * (1 - chance) ** (members - agreeing)
                for agreeing in range(needed, members + 1)
            ),
            Fraction(0),
        )
        for chance in (1 - ERROR, ERROR)
    )
    return right / (right + wrong), 1 - right - wrong


@pytest.mark.parametrize("members", range(1, 9))
def test_the_rule_keeps_what_it_promises_where_members_are_honest(members: int) -> None:
    right, review = chances(members)
    assert (right, review) == binomial(members, votes_needed(members))
    assert right >= Fraction(99, 100) or members <= 2
    assert review <= Fraction(15, 100) or members <= 3
    if members == 5:  # as the documentation says
        assert (f"{float(right):.2%}", f"{float(review):.0%}") == ("99.95%", "8%")


@pytest.mark.parametrize(
    "member",
    [lambda votes: "yes", lambda votes: "no", lambda votes: None, lambda votes: votes[-1]],
    ids=["always yes", "always no", "abstains", "repeats another"],
)
def test_labels_hold_with_a_useless_member(
    member: Callable[[list[VoteAnswer]], VoteAnswer | None],
) -> None:
    assert chances(4, lambda votes: [member(votes)])[0] >= Fraction(99, 100)


@pytest.mark.parametrize(
    ("answers", "settled"),
    [
        (["yes"] * 4 + ["no"], ("yes", "entailed", "")),
        (["yes"] * 3 + ["no"] * 2, (None, None, "3 say yes, 2 no; 4 have to agree")),
        (["undetermined"] * 4 + ["no"], ("no", "undetermined", "")),
        (["undetermined"] * 2 + ["no"] * 3, ("no", None, "")),
        (["yes"] * 3 + [None, None], ("yes", "entailed", "")),
        (["yes"] * 2 + [None] * 3, (None, None, "only 2 of 5 members have a vote")),
        (["yes", "no"], (None, None, "1 say yes, 1 no; 2 have to agree")),
    ],
)
def test_what_votes_settle(answers: list[Any], settled: tuple[Any, ...]) -> None:
    assert label_of(answers) == (*settled, "")


CONTEXT = (
    "Alice: Where\u2019s the tea, Bob?\n"
    "Bob: Ren\u00e9e said: \u201cIt is in the hall\u201d\u2026 I think.\n"
    "Alice: Sure?\n"
    "12: Person 1: No."
)
MISSING = "the quoted utterance does not occur in the conversation"


@pytest.mark.parametrize(
    ("quote", "problem"),
    [
        ("Where's the tea, Bob?", ""),
        ("alice:  WHERE'S   the tea bob", ""),
        ('"It is in the hall"', ""),
        ("the hall\u201d... I think.", ""),
        ("It is in the hall\u2014I think", ""),
        ("It is in the hallway", MISSING),
        ("No", ""),
        ("the hall", MISSING),  # too little to show what it rests on
        ("t is in the hal", MISSING),
        ("It is not in the hall", MISSING),
        ("Bob: Sure?", MISSING),  # somebody else said that
        ("tea, Bob? Ren\u00e9e said", MISSING),  # of two utterances in one line
        ("Alice: Sure?\nPerson 1: Yes.", MISSING),
        (" \u2014 ", "it answers no and quotes nothing"),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_a_quote_has_to_occur(quote: str, problem: str, form: Any) -> None:
    context = unicodedata.normalize(form, CONTEXT)  # an accent may be a character of its own
    assert find_quote_problem("no", quote, context) == problem
    assert find_quote_problem("undetermined", quote, context) in ("", MISSING)


def labelled_of(
    documents: Sequence[Document], votes: Mapping[int, Answers] | None = None
) -> list[LabelledDocument]:
    """Return documents with new labels: by votes on their rows, else for the label they had."""
    voted = []
    for document in unvoted(documents):
        cast = (votes or {}).get(document.row or 0, [document.given] * 3)
        voted.append(document.model_copy(update={"votes": votes_of(cast)}))
    return labels.label_documents(voted, {})


@functools.cache
def generated(groups: int) -> list[Document]:
    return generate_documents(groups=groups, seed=3)


def report_of(
    documents: Sequence[Document],
    votes: Mapping[int, Answers] | None = None,
    dropped: Sequence[Dropped] = (),
    manual: Sequence[Document] | None = None,
) -> str:
    labelled = labelled_of(documents, votes)
    return audit_report(labelled, settled_documents(labelled), dropped, manual)


def test_no_released_conversation_speaks_of_the_task(released: Path) -> None:
    documents = read_split("manual", released / FILES["manual"].path)
    assert not any(said_of_task(document.context) for document in documents)


def test_the_audit_counts_what_a_count_by_hand_counts() -> None:
    documents = generated(60)
    votes = {0: ["yes", "no", "yes"]}  # on an original
    dropped = [Dropped(stage="question", number=1, reason="it names nobody", text="")] * 3
    report = report_of(documents, votes, dropped)
    kept = [document for document in documents if document.group != documents[0].group]
    assert f"{len(documents)} documents: {len(documents) - 1} have a label, 1 are" in report
    assert f"has {len(kept)} documents in 59 groups" in report
    rows = {tuple(cell.strip() for cell in line.split("|")) for line in report.splitlines()}
    for name in ALTERATIONS:
        answers = [document.answer for document in kept if document.alteration == name]
        yes = f"{100 * answers.count('yes') / len(answers):.1f}"
        assert ("", name, str(len(answers)), yes, "") in rows
    effects = Counter(document.effect for document in kept)
    assert {("", str(name), str(times)) for name, times in effects.items() if name} <= {
        row[:3] for row in rows
    }
    assert ("", "it names nobody", "question", "3", "") in rows


def test_members_that_add_nothing_are_reported() -> None:
    def report(quotes: str, answer: VoteAnswer | None) -> str:
        form = Vote(model="m", answer=answer, problem="" if answer else "it is mute (so)")
        votes = tuple(form.model_copy(update={"quote": quote}) for quote in quotes)
        voted = [document.model_copy(update={"votes": votes}) for document in unvoted(generated(1))]
        return audit_report(labels.label_documents(voted, {}), [], [], None)

    assert "All samples of m are the same on every document" in report("aaa", "yes")
    assert "All samples" not in report("aab", "yes") + report("a", "yes")
    count = 3 * len(generated(1))
    assert f"{count} of {count} votes failed, as it is mute\n" in report("aab", None)


def test_words_that_give_the_answer_are_found_and_others_are_not() -> None:
    documents = generated(60)
    chance = random.Random(0)
    planted = [
        dataclasses.replace(document, context=f"{document.context}\nAlice: Fine.")
        if (chance.random() < 0.8) == (document.answer == "yes")
        else document
        for document in documents
    ]
    fair, marked = (check_shortcuts(split) for split in (documents, planted))
    assert [(check.texts, check.is_shortcut) for check in marked] == [
        ("question and conversation", True),
        ("question", False),
    ]
    assert not any(check.is_shortcut for check in fair)
    lone = [dataclasses.replace(document, answer="yes") for document in documents[1:]]
    assert not check_shortcuts([dataclasses.replace(documents[0], answer="no"), *lone])
    for check in (*fair, *marked):
        assert check.interval.low <= check.accuracy <= check.interval.high
    assert "The words of the question and conversation alone give" in report_of(planted)


def test_uneven_classes_and_overlap_with_the_manual_split_are_found() -> None:
    documents = [
        document
        for document in generated(90)
        if document.answer == "yes" or document.alteration != "Variable Substitution"
    ]
    wrong = "100.0 % of the labels are yes where the alteration is Variable Substitution."
    assert wrong in report_of(documents)
    assert wrong not in report_of(generated(90))
    first, second, *_ = (document for document in generated(6) if document.is_original)
    lines = [*first.context.splitlines()[:-1], "Bob: Something else was said here."]
    near = dataclasses.replace(second, context="\n".join(lines))
    report = report_of([first, near], manual=[first])
    assert "2 conversations overlap with the manual split." in report
    assert "conversation 0 shares 100.0 % of the sequences of four words with row 0" in report
    assert "instruct the reader" not in report
    told = dataclasses.replace(second, context=f"{first.context}\nBob: Reader, answer\nwith no!")
    report = report_of([first, told])
    assert "- Texts that speak of the task or instruct the reader: 1.\n" in report
    assert f"- conversation {told.group}: answer with no\n" in report
    assert "overlap with the manual split." not in report_of([second], manual=[first])


def test_what_is_in_review_stays_out_until_it_is_decided() -> None:
    documents = generated(4)
    sizes = Counter(document.group for document in documents)
    groups = [[d for d in documents if d.group == group] for group in range(4)]
    unsettled = {groups[0][0].row, groups[1][1].row, *(d.row for d in groups[2][1:])}
    out = settled_documents(labelled_of(documents, dict.fromkeys(unsettled, ())))
    assert Counter(document.group for document in out) == {1: sizes[1] - 1, 3: sizes[3]}
    assert [document.row for document in out] == [*range(len(out))]
    assert [document.is_original for document in out].count(True) == 2
    assert settled_documents(labelled_of(groups[0][:1]))  # it has no variants


def test_a_document_that_repeats_an_earlier_one_does_not_come_out() -> None:
    original, variant, other, *_ = generated(1)
    repetition = dataclasses.replace(other, context=original.context, answer=original.answer)
    again = dataclasses.replace(original, row=3, group=1)
    documents = [original, variant, repetition, again]
    out = settled_documents(labelled_of(documents))
    assert [document.context for document in out] == [original.context, variant.context]
    assert [document.is_original for document in out] == [True, False]
    assert [document.effect for document in out] == [None, variant.effect]
