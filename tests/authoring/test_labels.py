"""Votes of a panel, the labels that they settle, and the audit: closed forms and real readings."""

import asyncio
import dataclasses
import functools
import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import comb
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import BaseModel

from pragworld_tasks.authoring.audit import audit_report
from pragworld_tasks.authoring.checks import find_quote_problem
from pragworld_tasks.authoring.labels import (
    LabelledDocument,
    label_documents,
    labelled_groups,
    panel_label,
    poll,
    votes_needed,
)
from pragworld_tasks.authoring.pipeline import unvoted
from pragworld_tasks.authoring.results import settled_documents
from pragworld_tasks.authoring.shortcuts import check_shortcuts
from pragworld_tasks.authoring.stages import (
    Asker,
    Dropped,
    Vote,
    VoteAnswer,
    VotedDocument,
    read_prompts,
)
from pragworld_tasks.chat import Connection, Request, UnansweredError
from pragworld_tasks.data.documents import ALTERATIONS, Answer, Document
from pragworld_tasks.data.label_readings import label_readings
from pragworld_tasks.data.readers import read_manual
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.data.splits import generate_documents

ERROR = Fraction(1, 10)  # of an honest member
Answers = Sequence[Any]  # of a VoteAnswer or None, which `Vote` checks


def votes_of(answers: Answers) -> tuple[Vote, ...]:
    return tuple(
        Vote(model=f"model {member}", answer=answer, problem="" if answer else "it is silent")
        for member, answer in enumerate(answers)
    )


def voted(answers: Answers, given: Answer | None = None, **place: int) -> VotedDocument:
    """A document with votes."""
    return VotedDocument(
        **{"conversation": 0, "variant": 0, **place},
        alteration=None,
        context=f"Ann: Hi.\nBen: Hello {place}.",
        question="Here?",
        given=given,
        votes=votes_of(answers),
    )


# The arithmetic of the rule ------------------------------------------------------------------------


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
        answer = panel_label(voted([*votes, *others(votes)])).answer
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


def test_the_figures_of_the_documentation_are_those_of_the_closed_form() -> None:
    figures = {
        members: [f"{100 * float(share):.3g}" for share in binomial(members, votes_needed(members))]
        for members in (2, 3, 4)
    }
    assert figures == {2: ["98.8", "18"], 3: ["99.9", "27"], 4: ["99.6", "4.86"]}
    right, review = binomial(5, 4)
    assert (f"{float(right):.2%}", f"{float(review):.1%}") == ("99.95%", "8.1%")


@pytest.mark.parametrize("answer", ["yes", "no", None])
def test_labels_hold_with_a_useless_member(answer: VoteAnswer | None) -> None:
    assert chances(4, lambda votes: [answer])[0] >= Fraction(99, 100)


def test_labels_hold_with_a_member_that_repeats_another() -> None:
    assert chances(4, lambda votes: [votes[-1]])[0] >= Fraction(99, 100)


# Single documents ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "settled"),
    [
        (["yes"] * 4 + ["no"], ("yes", "entailed", "")),
        (["yes"] * 3 + ["no"] * 2, (None, None, "3 say yes, 2 no; 4 have to agree")),
        (["no"] * 4 + ["yes"], ("no", "excluded", "")),
        (["undetermined"] * 4 + ["no"], ("no", "undetermined", "")),
        (["undetermined"] * 2 + ["no"] * 3, ("no", None, "")),
        (["yes"] * 3 + ["no", None], ("yes", "entailed", "")),
        (["yes"] * 3 + [None, None], ("yes", "entailed", "")),
        (["yes"] * 2 + [None] * 3, (None, None, "only 2 of 5 members have a vote")),
        (["yes", "yes"], ("yes", "entailed", "")),
        (["yes", "no"], (None, None, "1 say yes, 1 no; 2 have to agree")),
        ([], (None, None, "only 0 of 0 members have a vote")),
    ],
)
def test_what_votes_settle(answers: list[Any], settled: tuple[Any, ...]) -> None:
    assert panel_label(voted(answers)) == (*settled, "")


def test_a_given_label_that_the_panel_contradicts_goes_to_review() -> None:
    documents = [
        voted(["yes"] * 5, "yes", conversation=0, variant=0),
        voted(["no"] * 5, "yes", conversation=0, variant=1),
        voted(["no"] * 5, conversation=1, variant=0),
        voted(["no"] * 5, conversation=2, variant=0),
        voted(["undetermined"] * 5, conversation=2, variant=3),
    ]
    labelled = label_documents(documents, {})
    assert [label.answer for _, label in labelled] == ["yes", None, "no", "no", "no"]
    assert labelled[1].label.reason == "the panel says no, the given label is yes"
    assert labelled_groups(labelled) == {2}


# Quotes --------------------------------------------------------------------------------------------

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
        ("Ren\u00e9e said", ""),
        ('"It is in the hall"', ""),
        ("the hall\u201d... I think.", ""),
        ("It is in the hall\u2014I think", ""),
        ("12: Person 1: no.", ""),
        ("Alice: Sure?\nPerson 1: No.", ""),
        ("It is in the hallway", MISSING),
        ("t is in the hal", MISSING),
        ("It is not in the hall", MISSING),
        ("Bob: Sure?", MISSING),  # somebody else said that
        ("tea, Bob? Ren\u00e9e said", MISSING),  # of two utterances in one line
        ("Alice: Sure?\nPerson 1: Yes.", MISSING),
        ("", "it answers no and quotes nothing"),
        (" \u2014 ", "it answers no and quotes nothing"),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_a_quote_has_to_occur(quote: str, problem: str, form: Any) -> None:
    context = unicodedata.normalize(form, CONTEXT)  # an accent may be a character of its own
    assert find_quote_problem("no", quote, context) == problem
    assert find_quote_problem("undetermined", quote, context) in ("", MISSING)


def test_each_member_votes_or_abstains_with_the_reason() -> None:
    replies = {
        "reader": {"answer": " Yes", "quote": "bob: it is in the hall"},
        "doubter": {"answer": "undetermined", "quote": ""},
        "inventor": {"answer": "no", "quote": "I sold the tea"},
        "mute": {"answer": "no", "quote": " "},
    }
    asked: list[Request] = []

    async def ask_structured(request: Request, form: type[BaseModel]) -> BaseModel:
        asked.append(request)
        if request.model == "broken":
            raise UnansweredError("the server answered 400")
        return form.model_validate(replies[request.model])

    names = ["reader", "reader", "doubter", "inventor", "mute", "broken"]
    connection = cast(Connection, SimpleNamespace(ask_structured=ask_structured))
    document = voted([]).model_copy(
        update={"context": "Alice: Where is the {tea}?\nBob: It is in the hall."}
    )
    votes = asyncio.run(poll(Asker(connection, read_prompts()), names, document)).votes
    assert [vote.model for vote in votes] == names
    assert [vote.answer for vote in votes] == ["yes", "yes", "undetermined", None, None, None]
    assert [vote.problem for vote in votes[3:]] == [
        MISSING,
        "it answers no and quotes nothing",
        "there is no reply (the server answered 400)",
    ]
    assert len({request.key for request in asked}) == len(names)  # two samples are two requests
    for words in ("never said is undetermined", "some and not all", "one of the two"):
        assert words in asked[0].system
    assert "the {tea}?" in asked[0].user


# The audit -----------------------------------------------------------------------------------------


def labelled_of(
    documents: Sequence[Document], votes: Sequence[Answers], with_given: bool = False
) -> list[LabelledDocument]:
    """Return documents that a panel voted on, with labels."""
    by_row = {document.row: cast for document, cast in zip(documents, votes, strict=True)}
    asked = [
        document.model_copy(
            update={
                "votes": votes_of(by_row[document.row or 0]),
                "given": document.given if with_given else None,
            }
        )
        for document in unvoted(documents)
    ]
    return label_documents(asked, {})


def unanimous(documents: Sequence[Document]) -> list[Answers]:
    return [[document.answer] * 3 for document in documents]


@functools.cache
def generated(groups: int) -> list[Document]:
    return generate_documents(groups=groups, seed=3)


def report_of(
    documents: Sequence[Document],
    votes: Sequence[Answers] | None = None,
    manual: Sequence[Document] | None = None,
    dropped: Sequence[Dropped] = (),
) -> str:
    labelled = labelled_of(documents, votes or unanimous(documents))
    return audit_report(labelled, settled_documents(labelled), dropped, manual)


def test_the_disputed_labels_of_the_manual_split_come_out(released: Path) -> None:
    """The blind readings play the panel; unknown is undetermined."""
    documents = read_manual(released / FILES["manual"].path)
    readings = label_readings()
    played = [
        ["undetermined" if reading == "unknown" else reading for reading in row.readings]
        for row in readings
    ]
    labelled = {
        document.voted.row: document for document in labelled_of(documents, played, with_given=True)
    }
    disputed = {row.row for row in readings if row.is_disputed}
    differing = {row.row for row in readings if len({*row.answers}) > 1}
    contradicted = {
        row for row, (_, label) in labelled.items() if label.reason.startswith("the panel says")
    }
    assert contradicted == disputed
    assert len(disputed) == 17
    assert len({documents[row].group for row in disputed}) == 5
    assert {row for row, (_, label) in labelled.items() if label.is_in_review} == (
        disputed | differing
    )
    # All others keep their label, and those that rest on the convention are told apart.
    for row, document in enumerate(documents):
        label = labelled[row].label
        if row not in disputed | differing:
            assert label.answer == document.answer
            if readings[row].readings.count("unknown") == 3:
                assert label.basis == "undetermined"
    everything = list(labelled.values())
    report = audit_report(everything, settled_documents(everything), (), documents)
    assert "The panel contradicts 17 given labels." in report
    assert "shares 100.0 % of the sequences of four words with row" in report


def test_the_audit_counts_what_a_count_by_hand_counts() -> None:
    documents = generated(60)
    votes = unanimous(documents)
    votes[0] = ["yes", "no", "yes"]  # an original
    dropped = Dropped(stage="question", number=1, reason="it names nobody", text="")
    report = report_of(documents, votes, dropped=[dropped] * 3)
    first = [document for document in documents if document.group == documents[0].group]
    kept = documents[len(first) :]
    assert (
        f"voted on {len(documents)} documents: {len(documents) - 1} have a label, 1 are" in report
    )
    assert f"has {len(kept)} documents in 59 groups" in report
    assert "- conversation 0, variant 0 (row 0): 2 say yes, 1 no; 3 have to agree" in report
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


def test_words_that_give_the_answer_are_found_and_others_are_not() -> None:
    documents = generated(60)
    chance = random.Random(0)
    planted = [
        dataclasses.replace(
            document,
            context=document.context
            + "\nAlice: Fine."[
                : 13 if (chance.random() < 0.8) == (document.answer == "yes") else 0
            ],
        )
        for document in documents
    ]
    fair, marked = (check_shortcuts(split) for split in (documents, planted))
    assert [check.is_shortcut for check in fair] == [False, False]
    assert {check.texts: check.is_shortcut for check in marked} == {
        "question and conversation": True,
        "question": False,
    }
    for check in (*fair, *marked):
        assert check.interval.low <= check.accuracy <= check.interval.high
    assert "The words of the question and conversation alone give" in report_of(planted)


def test_an_uneven_class_is_named() -> None:
    documents = [
        document
        for document in generated(60)
        if document.is_original
        or document.alteration != "Variable Substitution"
        or document.answer == "yes"
    ]
    wrong = "100.0 % of the labels are yes where the alteration is Variable Substitution."
    assert wrong in report_of(documents)
    assert wrong not in report_of(generated(60))


def test_overlap_with_the_manual_split_is_found() -> None:
    first, second, *_ = (document for document in generated(6) if document.is_original)
    lines = first.context.splitlines()
    near = dataclasses.replace(
        second, context="\n".join([*lines[:-1], "Bob: Something else was said here."])
    )
    report = report_of([first, near], manual=[first])
    assert "2 conversations overlap with the manual split." in report
    assert "conversation 0 shares 100.0 % of the sequences of four words with row 0" in report
    assert "overlap with the manual split." not in report_of([second], manual=[first])


def test_a_small_run_says_what_its_audit_cannot_tell() -> None:
    report = report_of(generated(2))
    for words in ("labels in at least 30 groups", "not on this machine", "members of the panel"):
        assert words in report
    assert "on this machine" not in report_of(generated(2), manual=[])
    assert "voted on 0 documents" in report_of([])


# The documents that come out -----------------------------------------------------------------------


def test_what_is_in_review_stays_out_until_it_is_decided() -> None:
    documents = generated(4)
    sizes = Counter(document.group for document in documents)
    groups = [[d for d in documents if d.group == group] for group in range(4)]
    unsettled = {groups[0][0].row, groups[1][1].row, *(d.row for d in groups[2][1:])}
    votes = [[] if document.row in unsettled else [document.answer] * 3 for document in documents]
    out = settled_documents(labelled_of(documents, votes))
    assert Counter(document.group for document in out) == {1: sizes[1] - 1, 3: sizes[3]}
    assert [document.row for document in out] == [*range(len(out))]
    assert [document.is_original for document in out].count(True) == 2
    # Alone in its group, an original comes out.
    assert [document.group for document in settled_documents(labelled_of(groups[0][:1], [["no"]]))]


def test_a_document_that_repeats_an_earlier_one_does_not_come_out() -> None:
    original, variant, other, *_ = generated(1)
    repetition = dataclasses.replace(other, context=original.context, answer=original.answer)
    again = dataclasses.replace(original, row=3, group=1)
    documents = [original, variant, repetition, again]
    out = settled_documents(labelled_of(documents, unanimous(documents)))
    assert [document.context for document in out] == [original.context, variant.context]
    assert [document.is_original for document in out] == [True, False]
    assert [document.effect for document in out] == [None, variant.effect]
