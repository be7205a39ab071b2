"""Test what indirect answers, hedges, negations and the like say and establish, case by case.

The expectations are what a reader would say. `test_possible_worlds` compares the same meanings with
all worlds that thousands of dialogues allow.
"""

import dataclasses
from itertools import islice

import pytest

from pragworld_tasks.data.documents import ALTERATIONS, Basis
from pragworld_tasks.dialogues.alterations import edits
from pragworld_tasks.dialogues.compose import compose
from pragworld_tasks.dialogues.forms import verbalize
from pragworld_tasks.dialogues.questions import Question, basis, question_text
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import DOMAINS, Domain, domain_vocabulary, number_of
from pragworld_tasks.dialogues.world import (
    ALL,
    ANY,
    SOME,
    Amount,
    Claim,
    Exchange,
    Reply,
    Unclear,
    interpret,
    resolve,
    resolve_altered,
)


def did(reply: Reply) -> Exchange:
    """Return "Did Mia leave the pears in the hall?" with a reply."""
    return Exchange("did", "Mia", "pears", "hall", reply=reply)


def where(reply: Reply, thing: str = "pears") -> Exchange:
    """Return "Where are the pears?" with a reply."""
    return Exchange("where", thing=thing, reply=reply)


def went(reply: Reply) -> Exchange:
    """Return "Did Mia go to the hall?" with a reply."""
    return Exchange("went", "Mia", place="hall", reply=reply)


def some(reply: Reply) -> Exchange:
    """Return "Are some of the pears in the hall?" with a reply."""
    return Exchange("amount", None, "pears", "hall", SOME, reply)


LEFT = Question("left", "Mia", "pears", "hall")
THE = Question("the", thing="pears", place="hall")
ANY_IN_HALL = Question("any", thing="pears", place="hall")
ALL_IN_HALL = Question("all", thing="pears", place="hall")
SURE_WHERE = Question("sure where", thing="pears")
KNOW_WHO = Question("know who", thing="pears", place="hall")
HOW_MANY = Question("know how many", thing="pears")
HALL, DEN = Claim(places=("hall",)), Claim(places=("den",))
HALL_OR_DEN = Claim(places=("hall", "den"), connective="or")
THREE = Amount("number", (3,))
CASES: list[tuple[list[Exchange], Question, Basis | None]] = [
    # Contrast: she left the plums there, so not the pears.
    ([did(Claim(things=("plums",)))], LEFT, "excluded"),
    ([did(Claim(things=("plums",)))], LEFT._replace(thing="plums"), "entailed"),
    ([did(DEN)], LEFT, "excluded"),
    ([did(DEN)], LEFT._replace(place="den"), "entailed"),
    # An alibi: she was in the den instead, or did not go to the hall.
    ([did(Claim(denied=True, then="den", source="Mia"))], LEFT, "excluded"),
    ([did(Claim(denied=True, then="hall"))], LEFT, "excluded"),
    ([went("no")], LEFT, "excluded"),
    # She left them there and walked to the den.
    ([did(Claim(then="den"))], LEFT, "entailed"),
    # She left three of them there: whether she left "the pears" is disputable.
    ([did(Claim(amount=THREE))], LEFT, None),
    ([did(Claim(amount=THREE))], ANY_IN_HALL, "entailed"),
    ([did(Claim(amount=THREE))], HOW_MANY, None),
    ([where(HALL), Exchange("count", None, "pears", "hall", reply=Claim(amount=THREE))], HOW_MANY, "entailed"),
    ([did(Claim(amount=Amount("either", (3, 4))))], HOW_MANY, "excluded"),
    # A container has some of them in it; whether it has all is disputable.
    ([where(Claim(places=("hall",), amount=ANY, container="red box"))], ANY_IN_HALL, "entailed"),
    ([where(Claim(places=("hall",), amount=ANY, container="red box"))], ALL_IN_HALL, None),
    ([where(Claim(places=("hall",), amount=ANY, container="red box"))], SURE_WHERE, None),
    # Alternatives, and their negation.
    ([where(HALL_OR_DEN)], SURE_WHERE, "excluded"),
    ([where(HALL_OR_DEN)], THE, "undetermined"),
    ([where(HALL_OR_DEN)], THE._replace(place="attic"), "excluded"),
    ([where(HALL_OR_DEN._replace(denied=True))], THE, "excluded"),
    ([where(HALL_OR_DEN._replace(denied=True))], SURE_WHERE, "undetermined"),
    ([where(HALL_OR_DEN._replace(connective="and"))], ANY_IN_HALL, "entailed"),
    ([where(Claim(("Mia", "Noah"), places=("hall",), connective="or"))], KNOW_WHO, "excluded"),
    ([where(Claim(("Mia", "Noah"), places=("hall",), connective="and"))], KNOW_WHO, "entailed"),
    # Hedges: nobody is sure, and whether it is so is not asked.
    ([did("likely")], LEFT, None),
    ([did("likely"), where(HALL)], KNOW_WHO, "excluded"),
    ([where("unknown")], SURE_WHERE, "excluded"),
    # Odd things change nothing. What somebody said is so, but who knows it then is disputable.
    ([where(HALL)._replace(oddity=0)], ALL_IN_HALL, "entailed"),
    ([where(HALL._replace(source="Mia"))], THE, "entailed"),
    ([where(HALL._replace(source="Mia"))], SURE_WHERE, None),
    # "Are some of the pears there?" "Yes." All of them? That is disputable.
    ([some("yes")], ALL_IN_HALL, None),
    ([some(Claim(amount=SOME))], ALL_IN_HALL, "excluded"),
    ([Exchange("amount", None, "pears", "hall", ALL, "yes")], SURE_WHERE, "entailed"),
]  # fmt: skip


@pytest.mark.parametrize(("exchanges", "question", "expected"), CASES)
def test_what_a_reader_concludes(
    exchanges: list[Exchange], question: Question, expected: Basis | None
) -> None:
    assert basis(question, interpret(resolve(exchanges))) == expected, (
        verbalize(exchanges, resolve(exchanges), "shop"),
        question_text(question, "shop"),
    )


@pytest.mark.parametrize(
    "exchanges",
    [
        # He left them in the van, where he never went: certainly, or one of two kinds of things,
        # to one of two places, or one of two people.
        [went("no"), did("yes")],
        [went("no"), did(Claim(things=("plums", "figs"), connective="or"))],
        [went("no"), where(HALL_OR_DEN._replace(agents=("Mia",)))],
        [went("no"), where(Claim(("Mia", "Noah"), places=("hall",), connective="or"))],
        [did(Claim(denied=True, then="den")), where(Claim(("Mia",), places=("hall",)), "plums")],
        # She saw some of them where she never went.
        [went("no"), some(Claim(amount=SOME, source="Mia"))],
        # All of them are there, and only one is.
        [where(HALL), did(Claim(amount=Amount("number", (1,))))],
        # What was told is asked, or another place than the one that was told.
        [where(HALL), where(HALL)],
        [did("no"), did("yes")],
        [where(DEN), did("no")],
        [where(HALL), some("yes")],
        [where(Claim(("Noah",), places=("hall",))), did("no")],
        # Nobody knows whether they are there, and where they are is told.
        [some("unknown"), where(DEN)],
    ],
)
def test_a_contradiction_or_an_idle_question_is_found(exchanges: list[Exchange]) -> None:
    with pytest.raises(Unclear):
        interpret(resolve(exchanges))


@pytest.mark.parametrize(
    ("exchange", "domain", "expected"),
    [
        (did(Claim(things=("plums",))), "shop", "She left the plums there."),
        (did(Claim(then="den")), "shop", "She left them there and went to the den."),
        (did(Claim(denied=True, then="den", source="Mia")), "shop", "She said she was in the den."),
        (did("likely"), "household", "it is likely"),
        (where(Claim(places=("den",), amount=ANY, container="red box", source="Mia")), "shop", "Mia said there is a red box in the den."),
        (where(DEN, "corn"), "shop", "It is in the den."),
        (where(DEN._replace(denied=True)), "shop", "They aren't in the den."),
        (where(HALL_OR_DEN._replace(denied=True)), "household", "they are neither in the hall nor the den"),
        (Exchange("where to", "Mia", reply=DEN._replace(denied=True)), "household", "she didn't go to the den"),
        (where(DEN)._replace(oddity=0), "household", "they are in the den, and the pears sang a lullaby when nobody looked"),
    ],
)  # fmt: skip
def test_replies_are_put_like_this(exchange: Exchange, domain: Domain, expected: str) -> None:
    _, reply = verbalize([exchange], [exchange], domain)
    assert reply == f"Bob: {expected}"


@pytest.mark.parametrize("domain", DOMAINS)
def test_people_count_only_what_can_be_counted(domain: Domain) -> None:
    vocabulary = domain_vocabulary(domain, "regular")
    for seed in range(40):
        for exchange in compose(domain, vocabulary, 8, (), StableRandom(f"{seed}")).resolved:
            kind, numbers = exchange.claim.amount
            for thing in exchange.things:
                if number_of(thing) != "plural":
                    assert exchange.form != "count"
                    assert not numbers
                if number_of(thing) == "singular":
                    assert kind in ("the", "any")


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_altered_dialogue_is_resolved_and_put_into_words_like_any_other(domain: Domain) -> None:
    vocabulary = domain_vocabulary(domain, "regular")
    compared = 0
    for seed in range(12):
        rng = StableRandom(f"altered {seed}")
        original = compose(domain, vocabulary, 9, (), rng)
        for alteration in ALTERATIONS:
            found = edits(alteration, original.exchanges, vocabulary, rng)
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
