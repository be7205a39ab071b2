"""Test what indirect answers, hedges, corrections and the like say and establish, case by case.

The expectations are what a reader would say. `test_possible_worlds` compares the same meanings with
all worlds that thousands of dialogues allow.
"""

import dataclasses
import re
from itertools import islice

import pytest

from pragworld_tasks.data.documents import ALTERATIONS, Basis
from pragworld_tasks.dialogues.alterations import edits
from pragworld_tasks.dialogues.compose import Dialogue, compose
from pragworld_tasks.dialogues.grammar import verbalize
from pragworld_tasks.dialogues.questions import Question, basis, question_text
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import (
    CASTS,
    DOMAINS,
    Domain,
    domain_vocabulary,
    is_event,
    is_time,
    number_of,
)
from pragworld_tasks.dialogues.world import (
    ANY,
    NOWHERE,
    REPLIER,
    SOME,
    Claim,
    Exchange,
    Oddity,
    Reply,
    Unclear,
    interpret,
    resolve,
    resolve_altered,
)


def did(reply: Reply) -> Exchange:
    """Return "Did Mia leave the pears in the hall?" with a reply."""
    return Exchange("did", "Mia", "pears", "hall", reply=reply)


def where(reply: Reply) -> Exchange:
    """Return "Where are the pears?" with a reply."""
    return Exchange("where", thing="pears", reply=reply)


def shall(reply: Reply, when: str = "Monday morning") -> Exchange:
    """Return "Shall we say Monday morning for the picnic?" with a reply."""
    return Exchange("shall", thing="picnic", place=when, reply=reply)


def odd(to: str | None) -> Exchange:
    """Return that Mia left the pears in the hall, and an odd thing that happened to them."""
    return where(Claim(agents=("Mia",), places=("hall",)))._replace(oddity=Oddity(to, 0))


LEFT = Question("left", "only-entity", "Mia", "pears", "hall")
ANY_IN_HALL = Question("any", "only-entity", thing="pears", place="hall")
SURE_OF_ANY = ANY_IN_HALL._replace(kind="sure")
ALL_IN_HALL = Question("all", "universal", thing="pears", place="hall")
SURE_WHERE = Question("where", "sure", thing="pears")
KNOW_WHERE = SURE_WHERE._replace(kind="know")
PICNIC = Question("any", "other", thing="picnic", place="Monday morning")
CASES: list[tuple[list[Exchange], Question, Basis | None]] = [
    # Contrast: she left the plums there, so not the pears.
    ([did(Claim(things=("plums",)))], LEFT, "excluded"),
    ([did(Claim(things=("plums",)))], LEFT._replace(thing="plums"), "entailed"),
    ([did(Claim(places=("den",)))], LEFT, "excluded"),
    ([did(Claim(places=("den",)))], LEFT._replace(place="den"), "entailed"),
    # An alibi: she was in the den instead.
    ([did(Claim(denied=True, then="den", source="Mia"))], LEFT, "excluded"),
    ([did(Claim(denied=True, then="den"))], Question("went", "other", "Mia", place="den"), "entailed"),
    ([did(Claim(denied=True, then="hall"))], Question("went", "other", "Mia", place="hall"), "excluded"),
    # She left them there and walked to the den.
    ([did(Claim(then="den"))], LEFT, "entailed"),
    ([did(Claim(then="den"))], Question("went", "other", "Mia", place="den"), "entailed"),
    # A container has some of them in it; whether it has all is disputable.
    ([where(Claim(places=("hall",), amount=ANY, container="red box"))], ANY_IN_HALL, "entailed"),
    ([where(Claim(places=("hall",), amount=ANY, container="red box"))], ALL_IN_HALL, None),
    ([where(Claim(places=("hall",), amount=ANY, container="red box"))], SURE_WHERE, None),
    # Hedges and what is taken back: nobody is sure, and whether it is so is not asked.
    ([did("likely")], LEFT, None),
    ([did("likely")], LEFT._replace(kind="know"), "excluded"),
    ([where(Claim(places=("hall",))), Exchange("sure", reply="no")], ANY_IN_HALL, None),
    ([where(Claim(places=("hall",))), Exchange("sure", reply="no")], SURE_OF_ANY, "excluded"),
    # A correction takes the place of what it corrects.
    ([where(Claim(places=("den",))), Exchange("sure", reply=Claim(places=("hall",)))], ANY_IN_HALL, "entailed"),
    ([where(Claim(places=("hall",))), Exchange("sure", reply=Claim(places=("den",)))], ANY_IN_HALL, "excluded"),
    # Odd things: they change nothing, move the things, or make them vanish; then nobody can say
    # whether people know where they are.
    ([odd(None)], ALL_IN_HALL, "entailed"),
    ([odd(None)], KNOW_WHERE, "entailed"),
    ([odd("den")], ALL_IN_HALL, "excluded"),
    ([odd("den")], ALL_IN_HALL._replace(place="den"), "entailed"),
    ([odd("den")], KNOW_WHERE, "entailed"),
    ([odd("den")], LEFT, "entailed"),
    ([odd(NOWHERE)], ALL_IN_HALL, "excluded"),
    ([odd(NOWHERE)], KNOW_WHERE, None),
    ([odd(NOWHERE)], LEFT, "entailed"),
    # Hearsay at second hand: both know.
    ([where(Claim(places=("hall",), source="Mia", origin="Noah"))], Question("agent knows", "know", "Noah", "pears"), "entailed"),
    # "Are some of the pears there?" "Yes." All of them? That is disputable.
    ([Exchange("amount", None, "pears", "hall", SOME, "yes")], ALL_IN_HALL, None),
    # What is agreed on is settled, what is proposed is not.
    ([shall("yes")], PICNIC, "entailed"),
    ([shall("yes")], PICNIC._replace(place="Friday morning"), "excluded"),
    ([shall("no")], PICNIC, "excluded"),
    ([shall("unknown")], PICNIC, None),
    ([shall("unknown")], PICNIC._replace(kind="sure"), "excluded"),
    ([shall(Claim(places=("Friday morning",)))], PICNIC, "excluded"),
    ([shall(Claim(places=("Friday morning",)))], PICNIC._replace(place="Friday morning"), None),
    ([shall("no", "Friday morning"), shall("yes")], PICNIC, "entailed"),
]  # fmt: skip


@pytest.mark.parametrize(("exchanges", "question", "expected"), CASES)
def test_what_a_reader_concludes(
    exchanges: list[Exchange], question: Question, expected: Basis | None
) -> None:
    assert basis(question, interpret(resolve(exchanges))) == expected, (
        verbalize(exchanges, resolve(exchanges), "shop", CASTS[0]),
        question_text(question, CASTS[0]),
    )


@pytest.mark.parametrize(
    ("exchange", "domain", "expected"),
    [
        (did(Claim(things=("plums",))), "shop", "She left the plums there."),
        (did(Claim(then="den")), "shop", "She left them there and went to the den."),
        (did(Claim(denied=True, then="den", source="Mia")), "shop", "She said she was in the den."),
        (did("likely"), "household", "it is likely"),
        (where(Claim(places=("den",), amount=ANY, container="red box", source="Mia")), "shop", "Mia said there is a red box in the den."),
        (where(Claim(("Noah",), places=("den",), source="Mia", origin="Noah")), "household", "Mia said Noah told her he left the pears in the den"),
        (Exchange("where", thing="corn", reply=Claim(places=("den",))), "shop", "It is in the den."),
        (shall("yes"), "everyday", "Good idea."),
    ],
)  # fmt: skip
def test_replies_are_put_like_this(exchange: Exchange, domain: Domain, expected: str) -> None:
    _, reply = verbalize([exchange], [exchange], domain, CASTS[0])
    assert reply == f"Bob: {expected}"


@pytest.mark.parametrize("domain", DOMAINS)
def test_people_count_only_what_can_be_counted_and_meet_only_at_times(domain: Domain) -> None:
    vocabulary = domain_vocabulary(domain, "regular")
    assert all(map(is_event, vocabulary.things)) == (domain == "everyday")
    assert all(map(is_time, vocabulary.places)) == (domain == "everyday")
    for seed in range(40):
        for exchange in compose(domain, vocabulary, 8, (), StableRandom(f"{seed}")).resolved:
            kind, numbers = exchange.claim.amount
            for thing in exchange.things:
                if number_of(thing) != "plural":
                    assert exchange.form != "count"
                    assert not numbers
                if number_of(thing) == "singular":
                    assert kind in ("the", "any")
            assert (exchange.form != "shall") or domain == "everyday"


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_altered_dialogue_is_resolved_and_put_into_words_like_any_other(domain: Domain) -> None:
    vocabulary = domain_vocabulary(domain, "regular")
    compared = 0
    for seed in range(12):
        rng = StableRandom(f"altered {seed}")
        original = compose(domain, vocabulary, 9, (), rng)
        for alteration in ALTERATIONS:
            found = edits(alteration, original.exchanges, vocabulary, (), rng)
            for edit in islice(found, 6):
                exchanges = tuple(
                    edit.altered.get(position, exchange)
                    for position, exchange in enumerate(original.exchanges)
                )
                try:
                    expected = resolve(exchanges)
                except Unclear:
                    with pytest.raises(Unclear):
                        resolve_altered(edit.altered, original.exchanges, original.resolved)
                    continue
                meanings = resolve_altered(edit.altered, original.exchanges, original.resolved)
                altered = original.altered(edit.altered, meanings)
                assert altered.resolved == expected
                afresh = dataclasses.replace(original, exchanges=exchanges)
                assert (altered.exchanges, altered.lines) == (exchanges, afresh.lines)
                compared += 1
    assert compared > 100


@pytest.fixture(scope="module")
def everyday() -> list[Dialogue]:
    """Dialogues about plans."""
    vocabulary = domain_vocabulary("everyday", "regular")
    return [
        compose("everyday", vocabulary, 7, ("proposal",), StableRandom(f"{seed}"))
        for seed in range(150)
    ]


def test_small_talk_is_never_the_last_thing_said(everyday: list[Dialogue]) -> None:
    assert all(dialogue.resolved[-1].form != "chat" for dialogue in everyday)


def test_whoever_proposes_another_time_gets_a_reaction_and_accepts_it(
    everyday: list[Dialogue],
) -> None:
    reactions = 0
    for dialogue in everyday:
        closing = dialogue.lines[2 * len(dialogue.exchanges) :]
        questions = [*dialogue.lines[2 : 2 * len(dialogue.exchanges) : 2], *closing]
        for position, exchange in enumerate(dialogue.resolved):
            if exchange.form != "shall" or not isinstance(exchange.reply, Claim):
                continue
            reactions += 1
            assert exchange.claim.places[0] in questions[position] or re.search(
                "let you know|think about it", questions[position]
            )
            for later in dialogue.resolved[position + 1 :]:
                if later.thing == exchange.thing and exchange.claim.places[0] == later.place:
                    assert later.form != "shall" or later.reply == "yes"
    assert reactions > 20


def test_nobody_proposes_times_at_which_the_replier_is_said_to_be_free_or_busy(
    everyday: list[Dialogue],
) -> None:
    for dialogue in everyday:
        proposals = [exchange for exchange in dialogue.resolved if exchange.form == "shall"]
        proposed = {place for exchange in proposals for place in exchange.places}
        for exchange in dialogue.resolved:
            if REPLIER in exchange.agents:
                assert proposed.isdisjoint(exchange.places)


@pytest.mark.parametrize("domain", ["shop", "clinic", "everyday"])
def test_only_what_somebody_put_somewhere_was_moved_since(domain: Domain) -> None:
    vocabulary = domain_vocabulary(domain, "regular")
    for seed in range(40):
        resolved = compose(domain, vocabulary, 9, ("moved",), StableRandom(f"{seed}")).resolved
        for position, exchange in enumerate(resolved):
            if exchange.form == "still" and isinstance(exchange.reply, Claim):
                before = [earlier for earlier in resolved[:position] if earlier.form != "sure"]
                said = [earlier for earlier in before if exchange.thing in earlier.things]
                assert any(earlier.agents for earlier in said)
