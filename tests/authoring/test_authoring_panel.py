"""Votes of a panel, what they settle, and the audit: closed forms, plays, and the released split."""

import asyncio
import dataclasses
import functools
import json
import random
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from servers import JsonHandler, LocalServer
from sklearn.metrics import cohen_kappa_score

from pragworld_tasks.authoring.agreement import (
    Ballot,
    MemberRating,
    cohen_kappa,
    fleiss_kappa,
    labelled_groups,
    pair_agreements,
    panel_answer,
    rate_members,
    settle,
    votes_needed,
)
from pragworld_tasks.authoring.audit import audit_records, local_manual_split
from pragworld_tasks.authoring.audit_report import audit_findings, audit_markdown
from pragworld_tasks.authoring.folder import StageRecords
from pragworld_tasks.authoring.panel import Member, poll, quote_problem
from pragworld_tasks.authoring.pipeline import given_records
from pragworld_tasks.authoring.prompts import Prompts
from pragworld_tasks.authoring.records import (
    RULES,
    AuthoredQuestion,
    AuthoredVariant,
    Dropped,
    Origin,
    Vote,
    VoteAnswer,
)
from pragworld_tasks.chat import Endpoint, connect
from pragworld_tasks.data.breakdowns import LENGTH_BUCKETS, length_bucket
from pragworld_tasks.data.documents import ALTERATIONS, Answer, Document
from pragworld_tasks.data.label_readings import label_readings
from pragworld_tasks.data.readers import read_manual
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.dialogues.generate import documents as documents_of
from pragworld_tasks.dialogues.generate import generate
from pragworld_tasks.dialogues.settings import GeneratorSettings

ERROR = Fraction(1, 10)  # of an honest member
Answers = Sequence[Any]  # of a VoteAnswer or None, which `Vote` checks


def cast(answers: Answers) -> tuple[Vote, ...]:
    return tuple(
        Vote(
            member=member,
            answer=answer,
            quote="",
            problem="" if answer else "silent",
            origin=Origin(model=f"model {member}"),
        )
        for member, answer in enumerate(answers)
    )


def trusted(members: int, **repeats: int) -> tuple[MemberRating, ...]:
    """Return ratings of members that all count; `_4=3` says that member 4 repeats member 3."""
    return tuple(
        MemberRating(
            member=member,
            model="",
            documents=0,
            abstentions=0,
            yes=None,
            undetermined=None,
            agreement=None,
            informedness=None,
            repeats=repeats.get(f"_{member}"),
        )
        for member in range(members)
    )


# The arithmetic of the rule ------------------------------------------------------------------------


def chances(
    honest: int, ratings: Sequence[MemberRating], others: Callable[[list[VoteAnswer]], Answers]
) -> tuple[Fraction, Fraction]:
    """Return the exact shares of right labels among the settled ones, and of what goes to review.

    Every pattern of errors of the honest members is weighted by its probability; half of the
    documents are to be answered yes.

    Args:
        honest: the number of honest members, who err independently.
        ratings: the ratings of all members.
        others: returns the votes of the others from those of the honest ones.
    """
    right = wrong = Fraction(0)
    truths: tuple[VoteAnswer, VoteAnswer] = ("yes", "no")
    for truth, wrongs in product(truths, product((False, True), repeat=honest)):
        weight = Fraction(1, 2)
        for errs in wrongs:
            weight *= ERROR if errs else 1 - ERROR
        votes = [truths[(truth == "no") != errs] for errs in wrongs]
        answer = panel_answer(cast([*votes, *others(votes)]), ratings).answer
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
    right, review = chances(members, trusted(members), lambda _: ())
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
def test_labels_hold_with_a_useless_member_even_before_it_is_set_aside(
    answer: VoteAnswer | None,
) -> None:
    right, _ = chances(4, trusted(5), lambda _: [answer])
    assert right >= Fraction(99, 100)


def test_labels_hold_with_a_member_that_repeats_another() -> None:
    def repeat(votes: list[VoteAnswer]) -> Answers:
        return [votes[-1]]

    for ratings in (trusted(5), trusted(5, _4=3)):
        right, review = chances(4, ratings, repeat)
        # The doubled member and two of the other three; or it errs, and two of these do.
        three = binomial(3, 2)[0]  # nothing is left over: two of three always agree
        both = (1 - ERROR) * three, ERROR * (1 - three)
        assert (right, review) == (both[0] / sum(both), 1 - sum(both))
        assert right >= Fraction(99, 100)
        assert review <= Fraction(15, 100)
    # Of four, one of which repeats another, all have to agree, or else two errors were enough.
    assert chances(3, trusted(4), repeat)[0] < Fraction(99, 100)
    assert chances(3, trusted(4, _3=2), repeat) == binomial(3, 3)


# Panels that are played ----------------------------------------------------------------------------

Manner = Literal["honest", "yes", "no", "coin", "silent", "previous", "contrary"]


def play(
    manners: Sequence[Manner], documents: int = 600, seed: int = 0, yes: float = 0.5
) -> tuple[list[Answer], list[tuple[Vote, ...]]]:
    """Return true labels and the votes of a panel on each document."""
    chance = random.Random(seed)
    truths: list[Answer] = ["yes" if chance.random() < yes else "no" for _ in range(documents)]
    ballots = []
    for truth in truths:
        answers: list[VoteAnswer | None] = []
        other: Answer = "no" if truth == "yes" else "yes"
        for manner in manners:
            errs = chance.random() < ERROR
            says: VoteAnswer | None = other if errs else truth
            if says == "no" and chance.random() < 0.3:
                says = "undetermined"
            match manner:
                case "yes" | "no":
                    says = manner
                case "coin":
                    says = chance.choice(["yes", "no"])
                case "silent":
                    says = None
                case "previous":
                    says = answers[-1]
                case "contrary":
                    says = truth if errs else other
            answers.append(None if manner == "honest" and chance.random() < 0.03 else says)
        ballots.append(cast(answers))
    return truths, ballots


def shares(
    truths: Sequence[Answer], ballots: Sequence[tuple[Vote, ...]]
) -> tuple[float, float, tuple[MemberRating, ...]]:
    """Return the right share of the settled labels, the share in review, and the ratings."""
    ratings = rate_members(ballots)
    labels = settle([Ballot(n, 0, votes) for n, votes in enumerate(ballots)], ratings)
    settled = [
        (label.answer, truth) for label, truth in zip(labels, truths, strict=True) if label.answer
    ]
    for label in labels:
        assert (label.answer is None) == bool(label.reason)
        assert label.basis in (("entailed", None) if label.answer == "yes" else _NO_BASES)
    right = sum(answer == truth for answer, truth in settled) / len(settled)
    return right, 1 - len(settled) / len(labels), ratings


_NO_BASES = ("excluded", "undetermined", None)
HONEST: list[Manner] = ["honest"] * 5
USELESS: list[Manner] = ["yes", "no", "coin", "silent", "contrary"]


@pytest.mark.parametrize("yes", [0.5, 0.85])
@pytest.mark.parametrize("seed", range(3))
def test_an_honest_panel_is_trusted(seed: int, yes: float) -> None:
    right, review, ratings = shares(*play(HONEST, seed=seed, yes=yes))
    assert right >= 0.99
    assert review <= 0.15
    assert not any(rating.set_aside for rating in ratings)
    assert {rating.repeats for rating in ratings} == {None}


@pytest.mark.parametrize("place", [0, 4])
@pytest.mark.parametrize("manner", USELESS)
def test_a_useless_member_is_found_and_labels_hold(manner: Manner, place: int) -> None:
    manners = [*HONEST]
    manners[place] = manner
    right, review, ratings = shares(*play(manners))
    assert [rating.member for rating in ratings if rating.set_aside] == [place]
    assert ratings[place].set_aside.startswith(
        "it abstains on 600" if manner == "silent" else "its answers say"
    )
    assert right >= 0.99
    assert review <= 0.15


def test_several_useless_members_are_found_one_after_the_other() -> None:
    right, _, ratings = shares(*play(["honest", "yes", "honest", "yes", "honest"]))
    assert [rating.member for rating in ratings if rating.set_aside] == [1, 3]
    assert right >= 0.99


@pytest.mark.parametrize("manners", [["previous"], ["previous", "yes"], ["previous", "silent"]])
def test_a_member_that_repeats_the_one_before_is_found_and_labels_hold(
    manners: list[Manner],
) -> None:
    honest = 5 - len(manners)
    right, _, ratings = shares(*play([*HONEST[:honest], *manners], documents=1000))
    assert ratings[honest].repeats == honest - 1
    assert right >= 0.99


def test_a_member_is_not_set_aside_on_little_evidence() -> None:
    _, ballots = play(["honest", "honest", "yes"], documents=19)
    assert not any(rating.set_aside for rating in rate_members(ballots))
    _, ballots = play(["honest", "coin"])  # which of the two is at fault?
    assert not any(rating.set_aside for rating in rate_members(ballots))
    assert rate_members([]) == ()


def test_two_members_without_errors_do_not_repeat_each_other() -> None:
    truths, ballots = play(["honest", "honest", "honest"])
    perfect = [
        cast([truth, truth, *(v.answer for v in votes)])
        for truth, votes in zip(truths, ballots, strict=True)
    ]
    assert {rating.repeats for rating in rate_members(perfect)} == {None}
    unanimous = [cast([truth] * 5) for truth in truths]
    assert {rating.repeats for rating in rate_members(unanimous)} == {None}


# Single ballots ------------------------------------------------------------------------------------


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
    assert panel_answer(cast(answers), trusted(len(answers))) == settled


def test_how_many_have_to_agree_may_be_given() -> None:
    three = cast(["yes"] * 3 + ["no"] * 2)
    assert panel_answer(three, trusted(5), agree=3).answer == "yes"
    assert panel_answer(cast(["yes"] * 4 + ["no"]), trusted(5), agree=5).answer is None
    # A member that is set aside cannot be among them, and nobody else stands in for it.
    ratings = [*trusted(4), trusted(5)[4].model_copy(update={"set_aside": "says yes always"})]
    assert panel_answer(cast(["yes"] * 5), ratings, agree=4).answer == "yes"
    assert panel_answer(cast(["yes"] * 5), ratings, agree=5).answer is None


def test_a_panel_of_which_two_remain_settles_nothing() -> None:
    aside = [rating.model_copy(update={"set_aside": "says yes always"}) for rating in trusted(5)]
    ratings = [*trusted(2), *aside[2:]]
    settled = panel_answer(cast(["no"] * 5), ratings)
    assert settled == (None, None, "only 2 of 5 members have a vote")


def test_a_given_label_that_the_panel_contradicts_goes_to_review() -> None:
    ballots = [
        Ballot(0, 0, cast(["yes"] * 5), "yes"),
        Ballot(0, 1, cast(["no"] * 5), "yes"),
        Ballot(1, 0, cast(["no"] * 5)),
        Ballot(2, 0, cast(["no"] * 5)),
        Ballot(2, 3, cast(["undetermined"] * 5)),
    ]
    labels = settle(ballots, trusted(5))
    assert [label.answer for label in labels] == ["yes", None, "no", "no", "no"]
    assert labels[1].reason == "the panel says no, the given label is yes"
    assert labelled_groups(labels) == {2}


# Kappas --------------------------------------------------------------------------------------------


def test_cohens_kappa_is_that_of_the_definition() -> None:
    chance = random.Random(0)
    for _ in range(20):
        first, second = (chance.choices("abc", k=30) for _ in range(2))
        agree = Fraction(sum(map(str.__eq__, first, second)), 30)
        expected = sum(Fraction(first.count(name) * second.count(name), 900) for name in "abc")
        kappa = cohen_kappa(first, second)
        assert kappa == pytest.approx(float((agree - expected) / (1 - expected)))
        assert kappa == pytest.approx(cohen_kappa_score(first, second))
    assert cohen_kappa([], []) is None
    assert cohen_kappa(["a", "a"], ["a", "a"]) is None


def test_fleiss_kappa_is_that_of_the_published_example() -> None:
    """Fourteen raters, ten subjects, five categories: a kappa of 0.210 in textbooks."""
    counts = """0 0 0 0 14, 0 2 6 4 2, 0 0 3 5 6, 0 3 9 2 0, 2 2 8 1 1,
                7 7 0 0 0, 3 2 6 3 0, 2 5 3 2 2, 6 5 2 1 0, 0 2 2 3 7"""
    ratings = [
        [category for category, times in enumerate(row.split()) for _ in range(int(times))]
        for row in counts.split(",")
    ]
    kappa = fleiss_kappa(ratings)
    assert kappa is not None
    assert round(kappa, 3) == 0.210


def test_fleiss_kappa_is_the_agreement_of_pairs_beyond_chance() -> None:
    chance = random.Random(1)
    for _ in range(20):
        ratings = [chance.choices(["a", "b", "c"], k=4) for _ in range(15)]
        pairs = [first == second for row in ratings for first, second in combinations(row, 2)]
        labels = [label for row in ratings for label in row]
        # Two labels that are drawn with replacement from all.
        expected = Fraction(sum(first == second for first in labels for second in labels), 60 * 60)
        agreement = Fraction(sum(pairs), len(pairs))
        kappa = fleiss_kappa([[*row, None] for row in ratings])
        assert kappa == pytest.approx(float((agreement - expected) / (1 - expected)))
    assert fleiss_kappa([["a", None], ["b", None]]) is None
    assert fleiss_kappa([["a", "a"], ["a", "a"]]) is None


def test_pairs_are_compared_where_both_answer() -> None:
    ballots = [
        cast(row)
        for row in (["yes", "yes", None], ["no", "yes", "no"], ["undetermined", "no", "no"])
    ]
    pairs = {(pair.first, pair.second): pair for pair in pair_agreements(ballots, trusted(3))}
    assert {key: pair.documents for key, pair in pairs.items()} == {(0, 1): 3, (0, 2): 2, (1, 2): 2}
    assert pairs[0, 1].agreement == pytest.approx(2 / 3)
    assert pairs[0, 2].agreement == 1
    assert pairs[0, 2].kappa is None
    assert pairs[1, 2].kappa == 0


# Quotes --------------------------------------------------------------------------------------------

CONTEXT = (
    "Alice: Where\u2019s the tea, Bob?\n"
    "Bob: Noah said: \u201cIt is in the hall\u201d\u2026 I think.\n"
    "Alice: Sure?\n"
    "12: Person 1: No."
)


@pytest.mark.parametrize(
    "quote",
    [
        "Where's the tea, Bob?",
        "alice:  WHERE'S   the tea bob",
        "Alice: Sure",
        "sure?",
        '"It is in the hall"',
        "it is in the hall",
        "the hall\u201d... I think.",
        "No.",
        "Person 1: No",
        "12: Person 1: no.",
        "where's the",  # half of it
        "Noah said it",
        "Alice: Sure?\nPerson 1: No.",
        "in the hall - I think",
        "It is in the hall\u2014I think",
    ],
)
def test_a_quote_that_occurs(quote: str) -> None:
    assert not quote_problem("yes", quote, CONTEXT)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_an_accent_may_be_a_character_of_its_own(form: Any) -> None:
    context = unicodedata.normalize("NFD", "Ren\u00e9e: The caf\u00e9\u2014and the ma\u00eetre.")
    quote = unicodedata.normalize(form, "The caf\u00e9 and the ma\u00eetre")
    assert not quote_problem("yes", quote, context)


@pytest.mark.parametrize("quote", ["", '""', " \u2014 "])
def test_a_quote_without_words_is_none(quote: str) -> None:
    assert quote_problem("undetermined", quote, CONTEXT) == ""
    assert quote_problem("no", quote, CONTEXT) == "it answers no and quotes nothing"


@pytest.mark.parametrize(
    "quote",
    [
        "Alice:",
        "It is in the hallway",
        "t is in the hal",
        "It is not in the hall",
        "in hall",
        "Bob: Sure?",  # somebody else said that
        "tea, Bob? Noah said",  # of two utterances in one line
        "Alice: Sure?\nPerson 1: Yes.",
    ],
)
def test_a_quote_that_does_not_occur(quote: str) -> None:
    problem = "the quoted utterance does not occur in the conversation"
    assert quote_problem("no", quote, CONTEXT) == problem


@pytest.mark.parametrize(
    ("quote", "is_enough"),
    [
        ("hall", False),
        ("Bob", False),
        ("Bob: Noah", False),  # the label is no word of it
        ("Noah said", False),  # two words of nine
        ("Noah said it", True),
        ("in the hall", True),
        ("Ann: No", True),  # all that she said
        ("the keys", False),  # who says so?
        ("and the keys are", False),
        ("and the keys are mine", True),
        ("No.\nNoah said", False),
    ],
)
def test_a_quote_tells_which_utterance_it_is_from(quote: str, is_enough: bool) -> None:
    context = (
        f"{CONTEXT}\nAnn: No.\nAnn: Noah has all of my things and the keys are mine, you know."
        "\nBob: Noah has all of your things and the keys are yours, are they not?"
    )
    problem = "" if is_enough else "the quote is too short to tell which utterance it is from"
    assert quote_problem("yes", quote, context) == problem


# Votes over HTTP -----------------------------------------------------------------------------------


class _Panel(JsonHandler):
    """Plays members by the names of models; `requests` are those that came in."""

    requests: ClassVar[list[dict[str, Any]]] = []

    def post(self, body: Any) -> None:
        self.requests.append(body)
        user = body["messages"][-1]["content"]
        replies = {
            "reader": '{"answer": "Yes", "quote": "bob: it is in the hall"}',
            "doubter": '{"answer": "undetermined", "quote": ""}',
            "inventor": '{"answer": "no", "quote": "I sold the tea"}',
            "mute": '{"answer": "no", "quote": " "}',
            "parrot": user,
        }
        if body["model"] == "broken":
            self.reply(400, {"error": {"message": "out of order"}})
        else:
            self.complete(replies[body["model"]], len(user.split()))


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    server = LocalServer(_Panel)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_each_member_votes_or_abstains_with_the_reason(server: LocalServer) -> None:
    names = ["reader", "reader", "doubter", "inventor", "mute", "parrot", "broken"]
    variant = AuthoredVariant(
        conversation=3,
        variant=1,
        alteration="Negation",
        context="Alice: Where is the {tea}?\nBob: It is in the hall.",
        changes=(),
        origin=RULES,
    )
    question = AuthoredQuestion(
        conversation=3, type="location", text="Is the tea in the hall?", origin=RULES
    )
    prompts = Prompts.read()
    prompt = prompts.fill("label", conversation=variant.context, question=question.text)

    async def work() -> tuple[Vote, ...]:
        endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}/v1", "reader")
        async with connect(endpoint, None, {}) as connection:
            panel = [
                Member(connection, name, sample=names[:place].count(name))
                for place, name in enumerate(names)
            ]
            return await poll(panel, prompts, variant, question, 1.0)

    votes = asyncio.run(work())
    assert [vote.member for vote in votes] == [*range(7)]
    assert [vote.answer for vote in votes] == ["yes", "yes", "undetermined", *[None] * 4]
    assert [vote.origin.model for vote in votes] == names
    assert {vote.origin.prompt for vote in votes} == {prompt.id}
    # Two samples are two requests; what was never answered has none.
    keys = [vote.origin.request for vote in votes]
    assert len({*keys}) == 7
    assert [vote.member for vote in votes if vote.origin.request is None] == [6]
    assert votes[3].quote == "I sold the tea"
    problems = [vote.problem for vote in votes[3:]]
    for problem, words in zip(
        problems,
        ["quoted utterance does not occur", "answers no and quotes nothing", "malformed", "400"],
        strict=True,
    ):
        assert words in problem
    sent = [body["model"] for body in _Panel.requests]
    assert {name: sent.count(name) for name in {*names}} == {
        **dict.fromkeys(["doubter", "inventor", "mute", "parrot"], 1),
        "reader": 2,
        "broken": sent.count("broken"),
    }
    told = next(body["messages"] for body in _Panel.requests if body["model"] == "reader")
    conventions = told[0]["content"]
    for words in ("never said is undetermined", "some and not all", "one of the two"):
        assert words in conventions
    assert "the {tea}?" in told[1]["content"]


# The audit -----------------------------------------------------------------------------------------


def records_of(
    documents: Sequence[Document], ballots: Sequence[tuple[Vote, ...]], with_given: bool = False
) -> StageRecords:
    """Return the records of documents that a panel voted on."""
    conversations, variants, questions, asked = given_records(documents)
    by_text = {
        (document.context, document.question): votes
        for document, votes in zip(documents, ballots, strict=True)
    }
    assert len(by_text) == len(documents)
    cast_ballots = [
        Ballot(
            variant.conversation,
            variant.variant,
            by_text[variant.context, question.text],
            given if with_given else None,
        )
        for variant, question, given in asked
    ]
    labels = settle(cast_ballots, rate_members([ballot.votes for ballot in cast_ballots]))
    return StageRecords((), conversations, variants, questions, tuple(labels), ())


def unanimous(documents: Sequence[Document]) -> list[tuple[Vote, ...]]:
    return [cast([document.answer] * 3) for document in documents]


@functools.cache
def generated(groups: int) -> list[Document]:
    return list(documents_of(generate(GeneratorSettings(groups=groups, seed=3))))


def test_the_disputed_labels_of_the_manual_split_come_out(released: Path) -> None:
    """The blind readings play the panel; unknown is undetermined."""
    documents = read_manual(released / FILES["manual"].path)
    readings = label_readings()
    played = [
        cast(["undetermined" if reading == "unknown" else reading for reading in row.readings])
        for row in readings
    ]
    records = records_of(documents, played, with_given=True)
    audit = audit_records(records, documents)

    place_of_row = {
        documents.index(document): label.place
        for label, variant, question in zip(
            records.labels, records.variants, records.questions, strict=True
        )
        for document in documents
        if (document.context, document.question) == (variant.context, question.text)
    }
    disputed = [row.row for row in readings if row.is_disputed]
    differing = [row.row for row in readings if len({*row.answers}) > 1]
    contradictions = {label.place for label in audit.contradictions}
    assert contradictions == {place_of_row[row] for row in disputed}
    assert len(contradictions) == 17
    assert len({conversation for conversation, _ in contradictions}) == 5
    in_review = {label.place for label in audit.in_review}
    assert in_review == {place_of_row[row] for row in (*disputed, *differing)}
    assert sum(count.disputed for count in audit.classes if count.breakdown == "length") == len(
        differing
    )
    # All others keep their label, and those that rest on the convention are told apart.
    labels = {label.place: label for label in records.labels}
    for row, document in enumerate(documents):
        label = labels[place_of_row[row]]
        if row not in (*disputed, *differing):
            assert label.answer == document.answer
            if readings[row].readings.count("unknown") == 3:
                assert label.basis == "undetermined"
    assert not any(member.set_aside for member in audit.members)
    assert audit.overlap is not None
    assert {overlap.shared for overlap in audit.overlap} == {1.0}
    assert len(audit.overlap) == 88
    assert "The panel contradicts 17 given labels." in audit_markdown(audit)


def test_the_audit_counts_what_a_count_by_hand_counts() -> None:
    documents = generated(60)
    ballots = unanimous(documents)
    ballots[0] = cast(["yes", "no", "yes"])  # an original
    records = records_of(documents, ballots)
    audit = audit_records(records)
    assert audit.documents == len(documents)
    assert audit.labelled == len(documents) - 1
    assert audit.groups == 59
    assert [label.reason for label in audit.in_review] == ["2 say yes, 1 no; 3 have to agree"]
    counts = {(count.breakdown, count.name): count for count in audit.classes}
    for name in ALTERATIONS:
        members = [document for document in documents if document.alteration == name]
        count = counts["alteration", name]
        assert (count.documents, count.disputed) == (len(members), 0)
        assert count.yes == sum(document.answer == "yes" for document in members)
    originals = counts["alteration", "Not Altered"]
    assert (originals.documents, originals.labelled, originals.disputed) == (60, 59, 1)
    first = documents[0].group
    for effect in ("flip", "invariant"):
        assert counts["effect", effect].documents == sum(
            document.effect == effect and document.group != first for document in documents
        )
    for length in LENGTH_BUCKETS:
        assert counts["length", length].documents == sum(
            length_bucket(document) == length for document in documents
        )
    assert audit.fleiss == pytest.approx(
        fleiss_kappa([[vote.answer for vote in label.votes] for label in records.labels])
    )


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
    fair, marked = (
        audit_records(records_of(split, unanimous(split))) for split in (documents, planted)
    )
    assert [check.is_shortcut for check in fair.shortcuts] == [False, False]
    assert {check.texts: check.is_shortcut for check in marked.shortcuts} == {
        "question and conversation": True,
        "question": False,
    }
    for check in (*fair.shortcuts, *marked.shortcuts):
        assert check.interval.low <= check.accuracy <= check.interval.high
    assert "The words of the question and conversation alone give" in audit_markdown(marked)


def test_an_uneven_class_is_named() -> None:
    documents = [
        document
        for document in generated(60)
        if document.is_original
        or document.alteration != "Variable Substitution"
        or document.answer == "yes"
    ]
    audit = audit_records(records_of(documents, unanimous(documents)))
    uneven = [(count.breakdown, count.name) for count in audit.classes if count.is_uneven]
    assert ("alteration", "Variable Substitution") in uneven
    assert (
        "100.0 % of the labels are yes where the alteration is Variable Substitution."
        in audit_findings(audit)
    )


def test_copies_and_overlap_are_found() -> None:
    documents = generated(6)
    originals = [document for document in documents if document.is_original]
    lines = originals[0].context.splitlines()
    near = dataclasses.replace(
        originals[1], context="\n".join([*lines[:-1], "Bob: Something else was said here."])
    )
    copy = dataclasses.replace(originals[0], group=2, question=f" {originals[0].question.upper()}")
    far = originals[3]
    split = [originals[0], near, copy, dataclasses.replace(far, group=3)]
    audit = audit_records(records_of(split, unanimous(split)), [originals[0]])
    assert [[place.conversation for place in same] for same in audit.copies] == [[0, 2]]
    assert {(pair.other, pair.conversation) for pair in audit.near_copies} == {
        (0, 1),
        (0, 2),
        (1, 2),
    }
    assert audit.overlap is not None
    assert {overlap.conversation: overlap.row for overlap in audit.overlap} == {0: 0, 1: 0, 2: 0}
    assert audit.overlap[0].shared == 1


def test_conversations_that_share_a_near_copy_are_one_group() -> None:
    """Words alone are not checked with fewer than 30 groups."""
    originals = [document for document in generated(31) if document.is_original]
    lines = [line for document in originals[:2] for line in document.context.splitlines()]
    both = dataclasses.replace(originals[-1], context="\n".join(lines))
    apart = audit_records(records_of(originals[:-1], unanimous(originals[:-1])))
    assert apart.shortcuts
    assert not apart.near_copies
    joining = [*originals[:-1], both]
    audit = audit_records(records_of(joining, unanimous(joining)))
    assert {pair.other for pair in audit.near_copies} == {0, 1}
    assert not audit.shortcuts


def test_a_small_run_says_what_its_audit_cannot_tell() -> None:
    documents = generated(2)
    audit = audit_records(records_of(documents, unanimous(documents)))
    assert audit.shortcuts == ()
    assert audit.overlap is None
    untold = " ".join(audit.untold)
    for words in (
        "labels in at least 30 groups",
        "not on this machine",
        "votes of member 1 (model 0), member 2 (model 1) and member 3 (model 2)",
        "Errors that members share",
    ):
        assert words in untold
    assert all(item in audit_markdown(audit) for item in audit.untold)
    samples = [
        tuple(vote.model_copy(update={"origin": RULES}) for vote in votes)
        for votes in unanimous(documents)
    ]
    alone = [votes[:2] for votes in unanimous(documents)]
    few = " ".join(audit_records(records_of(documents, alone)).untold)
    assert "labels that rest on 2 of 2 members" in few
    assert "labels that rest on" not in untold
    assert "samples of one model" in " ".join(audit_records(records_of(documents, samples)).untold)


def test_the_report_names_useless_members_and_what_was_dropped() -> None:
    documents = generated(60)
    _, ballots = play(["honest", "honest", "honest", "previous", "yes"], len(documents))
    silent = sum(votes[2].answer is None for votes in ballots)
    dropped = [
        Dropped(stage="questions", number=number, reason="it names nobody", text="", origin=RULES)
        for number in range(3)
    ]
    records = dataclasses.replace(records_of(documents, ballots), dropped=tuple(dropped))
    audit = audit_records(records)
    assert any(
        finding.startswith("The votes of member 5 (model 4) do not count: its answers say little")
        for finding in audit_findings(audit)
    )
    named = [member.model_copy(update={"model": "Org/Model-8B"}) for member in audit.members]
    findings = audit_findings(audit.model_copy(update={"members": tuple(named)}))
    assert any(
        finding.startswith("It seems that member 4 (Org/Model-8B) repeats member 3,")
        for finding in findings
    )
    report = audit_markdown(audit)
    assert "| it names nobody | questions |     3 |" in report
    assert f"| silent |      3 | {silent:9} |" in report
    content = json.loads(audit.model_dump_json())
    assert content["dropped"] == [{"stage": "questions", "reason": "it names nobody", "times": 3}]
    assert type(audit).model_validate(content) == audit


def test_an_audit_of_nothing_is_one() -> None:
    audit = audit_records(StageRecords((), (), (), (), (), ()))
    assert audit.documents == 0
    report = audit_markdown(audit)
    assert "0 documents of 0 conversations" in report
    assert "nothing that this audit looks for" not in report
    assert "- no document has a label, so there is nothing to judge" in report
    assert "## Overlap" not in report
    assert "none: no conversation" in audit_markdown(audit.model_copy(update={"overlap": ()}))


def test_the_manual_split_is_read_only_where_it_is(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRAGWORLD_CACHE", str(tmp_path))
    assert local_manual_split() is None
    assert not [*tmp_path.iterdir()]
    monkeypatch.setenv("PRAGWORLD_DATA", str(released))
    assert len(local_manual_split() or []) == 500
