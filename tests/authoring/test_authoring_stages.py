"""Test stages 3 and 4 of authoring, alterations and questions, and the documents that come out."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, floor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import plain_talk
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from pragworld_tasks.authoring.alterations import (
    LineEdit,
    alter_conversation,
    draw_alterations,
    find_edit_problem,
    focused_entities,
)
from pragworld_tasks.authoring.audit import audit_records
from pragworld_tasks.authoring.audit_report import audit_markdown
from pragworld_tasks.authoring.folder import StageRecords
from pragworld_tasks.authoring.line_checks import (
    changes_connective,
    changes_negation,
    changes_quantifier,
    changes_quantity,
    injects_data,
)
from pragworld_tasks.authoring.outputs import (
    FILES,
    document_records,
    select_documents,
    write_document_files,
)
from pragworld_tasks.authoring.prompts import Prompts
from pragworld_tasks.authoring.questions import (
    TYPES,
    ask_question,
    find_question_problem,
    plan_question,
    template_question,
)
from pragworld_tasks.authoring.records import (
    GIVEN,
    RULES,
    AuthoredConversation,
    AuthoredQuestion,
    AuthoredVariant,
    EntityLists,
    Kind,
    Label,
    Origin,
    QuestionType,
    Triplet,
    Vote,
)
from pragworld_tasks.chat import Connection, Request, UnansweredError
from pragworld_tasks.data.documents import ALTERATIONS, Document, documents_digest
from pragworld_tasks.data.own_documents import read_documents
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.text_alterations.tokens import label_end

MANUAL_SHARES = {
    "Variable Substitution": 106,
    "Variable Swap": 79,
    "Negation": 71,
    "Quantifier Change": 65,
    "Quantity Change": 57,
    "Injecting Inconsistent Data": 21,
    "Logical Connective Change": 13,
}
Reply = Callable[[Request], dict[str, Any] | None]


def conversation(
    context: str,
    agents: Sequence[str] = (),
    objects: Sequence[str] = (),
    locations: Sequence[str] = (),
    number: int = 0,
) -> AuthoredConversation:
    """A conversation around two triplets, of the first two entities of each kind."""
    return AuthoredConversation(
        number=number,
        seed=0,
        triplets=tuple(
            Triplet(agent=agent, object=thing, location=place)
            for agent, thing, place in list(zip(agents, objects, locations, strict=False))[:2]
        ),
        entities=EntityLists(
            agents=tuple(agents), objects=tuple(objects), locations=tuple(locations)
        ),
        context=context,
        origin=Origin(model="writer", prompt="conversation.general@0", request="c0"),
    )


def plain_conversation(seed: int) -> AuthoredConversation:
    """A conversation of which `plain_talk` knows the truth."""
    draw = random.Random(seed)
    names = plain_talk.names(draw.choice(("household", "shop", "clinic")))
    agents, things, places = (draw.sample(slot, 2) for slot in names)
    triplets = list(zip(agents, things, places, strict=True))
    turns = plain_talk.write(triplets, 8, ("Ann", "Ben"), draw)
    text = "\n".join(f"{speaker}: {said}" for speaker, said in turns)
    return conversation(text, agents, things, places, seed)


def connection(reply: Reply) -> tuple[Connection, list[Request]]:
    """A connection whose model replies as told (None: malformed), and what it is asked."""
    asked: list[Request] = []

    async def ask_structured(request: Request, form: type[BaseModel]) -> BaseModel:
        asked.append(request)
        content = reply(request)
        if content is None:
            raise UnansweredError("the reply is malformed (no JSON)", "what?")
        return form.model_validate(content)

    stub = SimpleNamespace(endpoint=SimpleNamespace(model="writer"), ask_structured=ask_structured)
    return cast(Connection, stub), asked


def altered(
    reply: Reply, of: AuthoredConversation, variants: int = 5, seed: int = 0
) -> tuple[list[AuthoredVariant], list[str], list[Request]]:
    """The variants of a conversation, why replies were dropped, and what the model was asked."""
    to_model, asked = connection(reply)
    work = alter_conversation(to_model, Prompts.read(), of, variants, seed, 1.0)
    records, dropped = asyncio.run(work)
    return records, [record.reason for record in dropped], asked


# Which alterations --------------------------------------------------------------------------------


@given(st.integers(1, 30), st.integers(0, 10**6))
def test_an_alteration_is_drawn_as_often_as_its_share_says(number: int, seed: int) -> None:
    drawn = Counter(draw_alterations(number, StableRandom(f"{seed}")))
    assert drawn.total() == number
    for name, count in MANUAL_SHARES.items():
        expected = number * count / sum(MANUAL_SHARES.values())
        assert floor(expected) <= drawn[name] <= ceil(expected)


def test_many_draws_have_the_shares_of_the_manual_split() -> None:
    draws = [draw_alterations(5, StableRandom(f"{number}")) for number in range(2000)]
    drawn = Counter(name for names in draws for name in names)
    for name, count in MANUAL_SHARES.items():
        expected = count / sum(MANUAL_SHARES.values())
        assert drawn[name] / drawn.total() == pytest.approx(expected, abs=0.01)


# Variants -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_variants_without_a_model_are_different_and_told_line_by_line(seed: int) -> None:
    original = plain_conversation(seed)
    variants, dropped, asked = altered(lambda request: None, original, seed=seed)
    first, *others = variants
    assert (first.variant, first.alteration, first.context) == (0, None, original.context)
    assert (first.origin, first.changes) == (original.origin, ())
    assert len(others) == 5
    assert len({variant.context for variant in variants}) == len(variants)
    assert {*dropped} == {"the reply is malformed, and so is its repair"} if asked else not dropped
    lines = original.context.split("\n")
    for number, variant in enumerate(others, start=1):
        assert (variant.variant, variant.origin) == (number, RULES)
        assert variant.alteration in ALTERATIONS
        changed = list(lines)
        for change in variant.changes:
            assert changed[change.line] == change.old != change.new
            assert change.old[: label_end(change.old)] == change.new[: label_end(change.new)]
            changed[change.line] = change.new
        assert "\n".join(changed) == variant.context
    again, *_ = altered(lambda request: None, original, seed=seed)
    assert again == variants


def edits(*changes: tuple[int, str, str]) -> dict[str, Any]:
    return {"edits": [{"line": line, "old": old, "new": new} for line, old, new in changes]}


TEA = conversation(
    "Ann: Where are the cups?\nBen: Noah left two of them in the attic.", ["Noah"], ["cups"]
)


def test_inconsistent_data_is_asked_of_the_model_and_replaced_by_a_rule() -> None:
    line = "Ben: Noah left two of them in the attic."
    absurd = line.replace(" in the attic.", " in the attic, where they hum on Sundays.")
    for new, origin in ((absurd, "writer"), (line.replace("two", "three"), "rules")):

        def reply(request: Request, new: str = new) -> dict[str, Any]:
            assert f"2: {line}" in request.user.split("\n")
            return edits((2, line, new))

        to_model, asked = connection(reply)
        records, dropped = asyncio.run(alter_conversation(to_model, Prompts.read(), TEA, 7, 0, 1.0))
        (injected,) = (
            variant for variant in records if variant.alteration == "Injecting Inconsistent Data"
        )
        assert injected.origin.model == origin
        requests = {request.key for request in asked}
        if origin == "writer":
            assert injected.context.endswith(absurd)
            assert injected.origin.request in requests
            assert (injected.origin.prompt or "").startswith("alteration@")
        else:
            assert any(record.reason.startswith("Injecting") for record in dropped)
        assert {record.stage for record in dropped} <= {"alterations"}


def test_the_model_is_not_asked_for_what_cannot_be() -> None:
    """Neither numbers, quantifiers and connectives, nor two entities, are there to change."""
    plain = conversation("Ann: Where is Noah?\nBen: I never saw him.", ["Noah"])
    _, _, asked = altered(lambda request: edits(), plain, variants=7)
    labels = " ".join(request.label for request in asked)
    for name in ("Quanti", "Logical", "Variable Swap"):
        assert name not in labels


HALL = conversation(
    "Ann: Are the cups in the hall?\n"
    "Ben: Noah took two of the cups and the plates, and he left them in the hall.\n"
    "Ann: Is Zoe's lamp in the attic?\n"
    "Ben: All of the lamps are there. Zoe was not in the hall.",
    ["Noah", "Zoe"],
    ["cups", "lamps", "plates"],
    ["hall", "attic"],
)


def edit_of(line: int, old: str, new: str) -> LineEdit:
    text = HALL.context.split("\n")[line - 1]
    assert old in text
    return LineEdit(line=line, old=text, new=text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("Negation", [(4, "was not", "was")]),
        ("Negation", [(2, "he left", "he did not leave")]),
        ("Quantity Change", [(2, "two", "five")]),
        ("Quantifier Change", [(4, "All", "Some")]),
        ("Logical Connective Change", [(2, "cups and", "cups or")]),
        ("Variable Substitution", [(2, "in the hall", "in the attic")]),
        ("Variable Swap", [(2, "Noah", "Zoe"), (3, "Zoe's", "Noah's"), (4, "Zoe was", "Noah was")]),
        ("Variable Swap", [(1, "hall", "attic"), (3, "attic", "hall")]),
        (
            "Injecting Inconsistent Data",
            [(4, "lamps are", "lamps, which hum when someone laughs, are")],
        ),
        (
            "Injecting Inconsistent Data",
            [(2, "them in the hall.", "them in the hall. At dawn they flew to the moon.")],
        ),
    ],
)
def test_edits_that_make_their_alteration_are_accepted(
    name: str, changes: list[tuple[int, str, str]]
) -> None:
    made = [edit_of(*change) for change in changes]
    assert find_edit_problem(HALL.context, focused_entities(HALL), name, made) is None


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("Negation", [], "the model alters nothing"),
        ("Negation", [(4, "was not", "was"), (1, "Are", "Aren't")], "more than one line"),
        ("Negation", [(4, "was not", "was"), (4, "Zoe", "Noah")], "a line is edited twice"),
        ("Negation", [(4, "was", "was")], "the edited line is the same"),
        ("Negation", [(4, "was not in", "was not really in")], "more changes than a negation"),
        ("Negation", [(4, "Zoe was not", "Noah was")], "more changes than a negation"),
        ("Negation", [(2, "Noah took", "Noel did not take")], "an entity appears, disappears"),
        ("Negation", [(2, "he left", "Zebulon did not leave")], "more changes than a negation"),
        ("Negation", [(4, "Ben: ", "Ann: ")], "the speaker's label changes"),
        ("Negation", [(4, "was not in the hall.", "was\nthere.")], "the edited line is not one line"),
        ("Quantity Change", [(2, "two", "\x08five")], "or holds control characters"),
        ("Quantity Change", [(2, "two of", "some of")], "more changes than a number"),
        ("Quantity Change", [(2, "two of the cups", "five of the bowls")], "more changes than a num"),
        ("Quantifier Change", [(4, "All of the", "The")], "more changes than a quantifier"),
        ("Quantifier Change", [(4, "All of the lamps", "Some of the cups")], "more changes than a q"),
        ("Logical Connective Change", [(2, "cups and", "cups, not")], "more changes than an 'and'"),
        ("Variable Substitution", [(2, "in the hall", "in the planetarium")], "not just two entities"),
        ("Variable Substitution", [(2, "Noah", "Zoe"), (4, "Zoe", "Noah")], "not just two entities"),
        ("Variable Swap", [(2, "Noah", "Zoe")], "not just two entities"),
        ("Variable Swap", [(2, "Noah", "cups"), (1, "cups", "Noah")], "not just two entities"),
        ("Variable Substitution", [(2, "Noah took", "Zoe and I took")], "not just two entities"),
        ("Injecting Inconsistent Data", [(4, "All", "None")], "a statement is not only extended"),
        (
            "Injecting Inconsistent Data",
            [(4, "in the hall.", "in the hall. Then they flew to the planetarium.")],
            "a statement is not only extended, or names something invented",
        ),
        (
            "Injecting Inconsistent Data",
            [(4, "in the hall.", "in the hall, as the cat of Xanthippe said.")],
            "a statement is not only extended, or names something invented",
        ),
        ("Injecting Inconsistent Data", [(4, "hall.", "hall" + " and hums" * 40)], "far longer"),
    ],
)  # fmt: skip
def test_edits_that_do_not_are_refused(
    name: str, changes: list[tuple[int, str, str]], reason: str
) -> None:
    made = [edit_of(*change) for change in changes]
    problem = find_edit_problem(HALL.context, focused_entities(HALL), name, made)
    assert problem
    assert reason in problem[0]


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (changes_quantity, "He has two plums.", "She has three plums."),
        (changes_quantity, "Her two plums are in their bag.", "His three plums are in her bag."),
        (changes_quantifier, "He has some plums.", "She has all plums."),
        (changes_connective, "He and she came.", "She or he came."),
        (changes_negation, "He took two plums.", "She did not take two plums."),
        (changes_negation, "He took two plums.", "He did not take twenty plums."),
        (changes_negation, "He took some plums.", "He did not take all plums."),
        (changes_negation, "He stood before the door.", "He did not stand behind the door."),
        (changes_negation, "He will go.", "He did not go."),
        (changes_negation, "It is ready.", "It was not ready."),
        (changes_negation, "It is ready.", "It is not red."),
        (injects_data, "The cake is big.", "The cake is not big, which hums on Sundays."),
    ],
)
def test_who_where_when_and_how_many_stay(
    check: Callable[[str, str], bool], old: str, new: str
) -> None:
    assert not check(old, new)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (changes_quantity, "There is one plum; it is ripe.", "There are two plums; they are ripe."),
        (changes_negation, "He left them there.", "He didn't leave them there."),
        (changes_negation, "I will take some.", "I won't take any."),
        (changes_negation, "He did not say that all are ripe.", "He said that all are ripe."),
    ],
)
def test_what_agrees_with_a_number_or_an_auxiliary_may_change(
    check: Callable[[str, str], bool], old: str, new: str
) -> None:
    assert check(old, new)


@given(st.integers(-3, 9), st.text(max_size=30))
def test_an_edit_of_a_line_that_is_not_there_is_refused(line: int, old: str) -> None:
    edit = LineEdit(line=line, old=old, new=f"{old} not")
    problem = find_edit_problem(HALL.context, focused_entities(HALL), "Negation", [edit])
    assert problem
    assert problem[0] == "the edited line is not as in the conversation"


# Questions ----------------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_plans_of_questions_are_balanced(block: int, seed: int) -> None:
    plans = [plan_question(32 * block + place, seed) for place in range(32)]
    assert len({*plans}) == 32
    for begin in range(0, 32, 8):
        batch = plans[begin : begin + 8]
        assert {plan.type for plan in batch} == {*TYPES}
        assert {*Counter((plan.source, plan.holds) for plan in batch).values()} == {2}


SHED = conversation(
    "Ann: Did Noah put the lamp on the shelf?\n"
    "Ben: Yes, the lamp is on the shelf. Zoe put three pears in the shed.\n"
    "Ann: And the rice?\n"
    "Ben: Zoe put the rice in Berlin, and the pear trees stay.",
    ["Noah", "Zoe"],
    ["lamp", "pears", "rice"],
    ["shelf", "shed", "Berlin"],
)
COAT = conversation(
    "B: Do you have a coat for Mia?\n"
    "A: Yes, the coat is blue. The two scarves come with a warranty, and Tom wants them.",
    ["Mia", "Tom"],
    ["coat", "scarves"],
    ["blue", "warranty"],
)
FEVER = conversation(
    "A: Why did nurse Joy go to the clinic?\nB: She had a fever. The boy went to the ward with a cough.",
    ["nurse", "boy"],
    ["fever", "cough"],
    ["clinic", "ward"],
)


def questions_of(
    kind: Kind, of: AuthoredConversation, question_type: QuestionType, *, holds: bool
) -> set[str]:
    return {
        template_question(kind, of, question_type, holds=holds, random=StableRandom(f"{seed}"))
        for seed in range(20)
    }


@pytest.mark.parametrize(
    ("kind", "of", "question_type", "true", "crossed"),
    [
        ("general", SHED, "location",
         {"Is the lamp on the shelf?", "Are the pears in the shed?"},
         {"Are the pears on the shelf?", "Is the lamp in the shed?"}),
        ("location", SHED, "possession",
         {"Did Noah bring the lamp to the shelf?", "Did Zoe bring the pears to the shed?"},
         {"Did Noah bring the pears to the shelf?", "Did Zoe bring the lamp to the shed?"}),
        ("general", SHED, "universal", {"", "Did Zoe put all of the pears in the shed?"},
         {"", "Did Noah put all of the pears on the shelf?"}),
        ("general", SHED, "only-entity",
         {"Did Noah put the lamp on the shelf?", "Did Zoe put any pears in the shed?"},
         {"Did Noah put any pears on the shelf?", "Did Zoe put the lamp in the shed?"}),
        ("general", SHED, "quantity",
         {"", "Did Zoe put exactly three pears in the shed?", "Are there exactly three pears in the shed?"},
         {"", "Did Noah put exactly three pears on the shelf?", "Are there exactly three pears on the shelf?"}),
        ("general", SHED, "sure",
         {"Is Ben sure that the lamp is on the shelf?", "Is Ben sure that the pears are in the shed?"},
         {"Is Ben sure that the pears are on the shelf?", "Is Ben sure that the lamp is in the shed?"}),
        ("general", SHED, "know",
         {"Does Noah know where the lamp is?", "Does Zoe know where the pears are?"},
         {"Does Noah know where the pears are?", "Does Zoe know where the lamp is?"}),
        ("seller_buyer", COAT, "location",
         {"Is the coat blue?", "Do the scarves come with a warranty?"},
         {"Are the scarves blue?", "Does the coat come with a warranty?"}),
        ("seller_buyer", COAT, "quantity", {"", "Are there exactly two scarves?"},
         {"", "Are there exactly two scarves?"}),
        ("seller_buyer", COAT, "universal", {""}, {"", "Are all of the scarves blue?"}),
        ("doctor_patient", FEVER, "location",
         {"Did the nurse go to the clinic?", "Did the boy go to the ward?"},
         {"Did the nurse go to the ward?", "Did the boy go to the clinic?"}),
        ("doctor_patient", FEVER, "only-entity",
         {"Did the nurse go to the clinic because of the fever?",
          "Did the boy go to the ward because of the cough?"},
         {"Did the nurse go to the clinic because of the cough?",
          "Did the boy go to the ward because of the fever?"}),
        ("doctor_patient", FEVER, "quantity", {""}, {""}),
        ("general", TEA, "location", {""}, {""}),
    ],
)  # fmt: skip
def test_templates_are_grammatical_and_cross_triplets(
    kind: Kind,
    of: AuthoredConversation,
    question_type: QuestionType,
    true: set[str],
    crossed: set[str],
) -> None:
    assert questions_of(kind, of, question_type, holds=True) == true
    assert questions_of(kind, of, question_type, holds=False) == crossed


def test_a_place_and_a_mass_noun_are_named_as_the_conversation_does() -> None:
    rice = SHED.model_copy(
        update={
            "triplets": (
                Triplet(agent="Zoe", object="rice", location="Berlin"),
                Triplet(agent="Noah", object="lamp", location="shelf"),
            )
        }
    )
    assert "Did Zoe put all of the rice in Berlin?" in questions_of(
        "general", rice, "universal", holds=True
    )
    assert "Is the rice in Berlin?" in questions_of("general", rice, "location", holds=True)


def test_what_templates_ask_is_so_and_what_they_cross_is_not() -> None:
    answers: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for seed in range(7):
        of = plain_conversation(seed)
        for kind in TYPES:
            for holds, counts in answers.items():
                draw = StableRandom(f"{seed}")
                text = template_question("general", of, kind, holds=holds, random=draw)
                if text:
                    assert not find_question_problem("Ann: Hi.\n" + of.context, kind, text) or (
                        text in of.context
                    )
                    counts[plain_talk.truth(of.context, text)] += 1
    assert answers[True]["yes"] > 0.6 * answers[True].total() > 20
    assert answers[False]["yes"] < 0.05 * answers[False].total()


@pytest.mark.parametrize(
    ("question_type", "question"),
    [
        ("location", "Was Zoe in the hall?"),
        ("possession", "Did he take any cups?"),
        ("quantity", "Did Noah leave exactly two cups in the hall?"),
        ("sure", "Is the second speaker sure that the lamp is in the attic?"),
        ("know", "Does Ann know who took the plates?"),
        ("other", "Isn't anyone else than Noah to blame for it?"),
        ("other", "Did Noah's cups leave the attic on Monday?"),
    ],
)
def test_questions_that_can_be_asked_are_accepted(
    question_type: QuestionType, question: str
) -> None:
    assert find_question_problem(HALL.context, question_type, question) is None


@pytest.mark.parametrize(
    ("question_type", "question", "reason"),
    [
        ("location", "Where is Zoe?", "it does not begin as a question of yes or no"),
        ("location", "Zoe was in the hall?", "it does not begin as a question of yes or no"),
        ("location", "Was Zoe in the hall", "it is not one short question"),
        ("location", "Was Zoe in the hall? Was Noah?", "it is not one short question"),
        ("location", "Was Zoe in the\x1b[2J hall?", "it holds control characters"),
        ("location", "Was Zoe in the hall or in the attic?", "it offers an alternative"),
        ("location", "are  the cups in the hall ?", "the conversation asks it already"),
        ("sure", "Does Ben know where Noah is?", "it is not of its type"),
        ("quantity", "Did Noah leave cups in the hall?", "it is not of its type"),
        ("universal", "Are some of the cups in the hall?", "it is not of its type"),
        ("location", "Was Zebulon in the hall?", "it names somebody or something"),
        ("location", "Are the zithers in the hall?", "it names somebody or something"),
        ("location", "Did Zoe leave zithers there?", "it names somebody or something"),
        ("location", "Was Zoe in the planetarium?", "it names somebody or something"),
        ("location", "Is there rice in the hall?", "it names somebody or something"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(
    question_type: QuestionType, question: str, reason: str
) -> None:
    problem = find_question_problem(HALL.context, question_type, question)
    assert problem
    assert problem[0].startswith(reason)


@pytest.mark.parametrize(
    "written", ["Does Ann know about the pears?", "Did Xerxes put the pears away?", None]
)
def test_a_question_comes_from_the_model_or_a_template_and_one_replaces_the_other(
    written: str | None,
) -> None:
    sources: Counter[str] = Counter()
    for number in range(32):
        of = SHED.model_copy(update={"number": number})
        plan = plan_question(number, 5)

        def reply(request: Request) -> dict[str, Any] | None:
            return {"type": "know", "question": written} if written else None

        to_model, asked = connection(reply)
        work = ask_question(to_model, Prompts.read(), "general", of, 5, 0.7)
        question, dropped = asyncio.run(work)
        fails = written is None or "Xerxes" in written
        assert len(dropped) == (len(asked) if fails else 0)
        assert len(asked) <= 1
        if plan.source == "model":
            assert f'type "{plan.type}" whose answer is "{"yes" if plan.holds else "no"}"' in (
                asked[0].user
            )
        if question is None:
            assert fails
            continue
        sources[question.origin.model] += 1
        if question.origin == RULES:
            assert question.type == plan.type
            assert plan.source == "template" or fails
        else:
            assert (question.type, question.text) == ("know", written)
            assert question.origin.request == asked[0].key
    assert sources["rules"] >= 10
    assert (sources["writer"] == 0) == (written is None or "Xerxes" in written)


# The documents that come out ----------------------------------------------------------------------


def records_of(documents: Sequence[Document]) -> StageRecords:
    """The records that lead to documents."""
    vote = Vote(member=0, answer="yes", quote="", problem="", origin=Origin(model="a", request="y"))
    votes = (vote, vote.model_copy(update={"answer": "undetermined", "origin": Origin(model="b")}))
    first = {document.group: document for document in documents if document.is_original}
    conversations = [conversation(first[group].context, number=10 + group) for group in first]
    numbers: Counter[int] = Counter()
    variants, labels, questions = [], [], {}
    for document in documents:
        group, number = 10 + document.group, numbers[document.group]
        numbers[document.group] += 1
        variants.append(
            AuthoredVariant(
                conversation=group,
                variant=number,
                alteration=document.alteration,
                context=document.context,
                changes=(),
                origin=RULES if number else GIVEN,
            )
        )
        labels.append(
            Label(
                conversation=group,
                variant=number,
                votes=votes,
                answer=document.answer,
                basis=document.basis,
                reviewers=("eva",) if number == 1 else (),
            )
        )
        questions[group] = AuthoredQuestion(
            conversation=group, type="other", text=document.question, origin=RULES
        )
    return StageRecords(
        (), tuple(conversations), tuple(variants), tuple(questions.values()), tuple(labels), ()
    )


def relabelled(records: StageRecords, unsettled: set[tuple[int, int]]) -> StageRecords:
    labels = tuple(
        label.model_copy(update={"answer": None, "basis": None})
        if label.place in unsettled
        else label
        for label in records.labels
    )
    return StageRecords((), records.conversations, records.variants, records.questions, labels, ())


def test_documents_are_the_same_in_all_three_formats(tmp_path: Path) -> None:
    documents = generate_documents(groups=4, seed=3)
    assert write_document_files(records_of(documents), tmp_path) == len(documents)
    numbered = [
        replace(one, group=10 + one.group, released_group=10 + one.group, split="own")
        for one in documents
    ]
    for name in FILES:
        written = read_documents(tmp_path / name)
        assert written == numbered
        assert documents_digest(written) == documents_digest(numbered)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    write_document_files(records_of(documents), tmp_path)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_what_is_in_review_stays_out_until_it_is_decided() -> None:
    documents = generate_documents(groups=4, seed=3)
    sizes = Counter(document.group for document in documents)
    records = records_of(documents)
    without = relabelled(
        records,
        {(10, 0), (11, 1)} | {(12, number) for number in range(1, sizes[2])},
    )
    out = list(document_records(without))
    assert Counter(record["group"] for record in out) == {11: sizes[1] - 1, 13: sizes[3]}
    assert [record["row"] for record in out] == [*range(len(out))]
    assert [record["is_original"] for record in out].count(True) == 2
    selection = select_documents(without)
    assert selection.documents == len(out)
    assert len(selection.left_out) + len(out) == sum(
        label.answer is not None for label in without.labels
    )
    assert Counter((document.conversation, document.reason) for document in selection.left_out) == {
        (10, "the original has no label"): sizes[0] - 1,
        (12, "no labelled variant goes with it"): 1,
    }
    audit = audit_records(without)
    assert (audit.written, audit.left_out) == (len(out), selection.left_out)
    report = audit_markdown(audit)
    left_out = f"{sizes[0]} more have a label, but are left out"
    assert f"`documents.jsonl` has {len(out)} documents; {left_out}" in report
    assert "- conversation 12, variant 0: no labelled variant goes with it\n" in report
    text = selection.to_text()
    assert text == (
        f"{len(out)} documents with labels in 2 groups, {sizes[0]} more left out (the original has "
        f"no label: {sizes[0] - 1}, no labelled variant goes with it: 1)"
    )
    alone = StageRecords(
        (), records.conversations, records.variants[:1], records.questions, records.labels, ()
    )
    assert [record["group"] for record in document_records(alone)] == [10]


def test_a_variant_that_repeats_its_original_does_not_take_its_place() -> None:
    records = records_of(generate_documents(groups=1, seed=3))
    original, variant = records.variants[:2]
    repetition = records.variants[2].model_copy(update={"context": original.context})
    variants = (original, variant, repetition)
    out = list(document_records(replace(records, variants=variants)))
    assert [record["context"] for record in out] == [original.context, variant.context]
    assert [record["alteration"] for record in out] == [None, variant.alteration]
    assert [record["is_original"] for record in out] == [True, False]
    selection = select_documents(replace(records, variants=variants))
    (repeating,) = selection.left_out
    assert (repeating.variant, repeating.reason) == (2, "it repeats an earlier document")


def test_each_value_names_what_it_comes_from() -> None:
    original, variant, *_ = document_records(records_of(generate_documents(groups=2, seed=3)))
    assert [record["provenance"]["variant"] for record in (original, variant)] == [0, 1]
    assert "row" not in original["provenance"]
    assert [origin["model"] for origin in original["provenance"]["context"]] == ["given"]
    assert [origin["model"] for origin in variant["provenance"]["context"]] == ["given", "rules"]
    assert [origin["model"] for origin in original["provenance"]["question"]] == ["rules"]
    voters = {"yes": "a", "no": "b"}
    assert [origin["model"] for origin in original["provenance"]["answer"]] == [
        voters[original["answer"]]
    ]
    assert [origin["model"] for origin in variant["provenance"]["answer"]] == [
        "reviewer eva",
        voters[variant["answer"]],
    ]
    assert {*original["provenance"]["answer"][0]} == {"model", "prompt", "request"}
    for change in variant["changes"]:
        line = variant["context"].split("\n")[change["utterance"]]
        assert re.sub(r"\W", "", change["new"]) in re.sub(r"\W", "", line)
