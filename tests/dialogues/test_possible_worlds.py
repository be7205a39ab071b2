"""Compare what dialogues establish with all worlds that they allow, listed by brute force."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product

import pytest
from possible_worlds import PossibleWorlds

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.dialogues.alterations import edits
from pragworld_tasks.dialogues.compose import Dialogue, compose
from pragworld_tasks.dialogues.questions import (
    QUESTION_FORMS,
    Question,
    basis,
    evaluate,
    question_text,
)
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import DOMAINS, domain_vocabulary, is_event
from pragworld_tasks.dialogues.world import (
    REPLIER,
    Claim,
    Exchange,
    Unclear,
    interpret,
    resolve,
)

CHUNKS = 8 if os.environ.get("PRAGWORLD_LONG") else 2
DIALOGUES = 2500  # fewest dialogues in a chunk
SEEDS = 620  # seeds in a chunk; each gives a dialogue and altered versions of it
LONGEST = 4  # most exchanges in a dialogue
OF_AGENTS = ("agent knows", "went", "moved", "told")
BASES = 0.2 if os.environ.get("PRAGWORLD_LONG") else 0.05  # share of answers to check the basis of
EDITS = 2  # most versions of a dialogue for each alteration


def versions(seed: str) -> Iterator[tuple[str, Dialogue]]:
    """Yield a dialogue and versions of it, each with its alteration, or "original"."""
    rng = StableRandom(seed)
    domain = rng.choice(DOMAINS)
    vocabulary = domain_vocabulary(domain, "held out")
    dialogue = compose(domain, vocabulary, 1 + rng.below(LONGEST), (), rng)
    yield "original", dialogue
    yield "original", jumbled(dialogue, rng)
    for alteration in ALTERATIONS:
        for edit in islice(edits(alteration, dialogue.exchanges, vocabulary, (), rng), EDITS):
            exchanges = list(dialogue.exchanges)
            for position, exchange in edit.altered.items():
                exchanges[position] = exchange
            version = replace(dialogue, exchanges=tuple(exchanges))
            yield alteration, version
            if rng.happens(0.5):
                yield alteration, jumbled(version, rng)


def jumbled(dialogue: Dialogue, rng: StableRandom) -> Dialogue:
    """Return the exchanges in random order, with only two people and two kinds of things.

    So they say more about the same things than `compose` ever does.
    """
    try:
        exchanges = resolve(dialogue.exchanges)
    except Unclear:
        return dialogue
    people: dict[str | None, str] = {REPLIER: REPLIER}
    things: dict[str | None, str] = {}

    def renamed(exchange: Exchange) -> Exchange:
        reply = exchange.reply
        claim = exchange.claim
        for name in (exchange.agent, *claim.people):
            people.setdefault(name, rng.choice(("Ivy", "Finn")))
        for name in (exchange.thing, *claim.things):
            kinds = ("quiz", "picnic") if name and is_event(name) else ("figs", "vases")
            things.setdefault(name, rng.choice(kinds))
        if isinstance(reply, Claim):
            reply = reply._replace(
                agents=tuple(people[name] for name in reply.agents),
                things=tuple(things[name] for name in reply.things),
                source=reply.source and people[reply.source],
                origin=reply.origin and people[reply.origin],
            )
        return exchange._replace(
            agent=exchange.agent and people[exchange.agent],
            thing=exchange.thing and things[exchange.thing],
            reply=reply,
        )

    return replace(dialogue, exchanges=tuple(rng.shuffled([*map(renamed, exchanges)])))


def questions(dialogue: Dialogue) -> Iterator[Question]:
    """Yield all questions about the people, things, places and numbers that the dialogue mentions."""
    agents: set[str] = set()
    things: set[str] = set()
    places: set[str] = set()
    numbers: set[int] = set()
    for exchange in dialogue.exchanges:
        agents.update(exchange.agents)
        things.update(exchange.things)
        places.update(exchange.places)
        claimed = exchange.claim.amount.numbers
        numbers.update(number - step for number in claimed for step in (0, 1))
    for kind, forms in QUESTION_FORMS.items():
        for form in forms:
            left = form.startswith("left")
            counted = form in ("exactly", "left exactly", "more than")
            for agent, thing, place, number in product(
                sorted(agents) if left or form in OF_AGENTS else [""],
                sorted(things) if form != "went" else [""],
                sorted(places) if form not in ("where", "agent knows", "told") else [""],
                filter(None, sorted(numbers)) if counted else [0],
            ):
                yield Question(form, kind, agent, thing, place, number)


def hears(dialogue: Dialogue, question: Question) -> bool:
    """Return whether the replier passes on what somebody said of the things."""
    return any(
        exchange.claim.source and question.thing in exchange.claimed[1]
        for exchange in dialogue.resolved
    )


def shown(dialogue: Dialogue, question: Question) -> tuple[object, ...]:
    """Return what to read when a question fails."""
    return dialogue.lines, question_text(question, dialogue.cast), question


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_answer_is_yes_if_what_is_asked_holds_in_all_possible_worlds(chunk: int) -> None:
    rng = StableRandom(f"bases of chunk {chunk}")
    done: set[tuple[Exchange, ...]] = set()
    versions_of: Counter[str] = Counter()
    bases: dict[str, Counter[str | None]] = defaultdict(Counter)
    answers: dict[tuple[str, str], Counter[bool | None]] = {
        (kind, form): Counter() for kind, forms in QUESTION_FORMS.items() for form in forms
    }
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        for alteration, dialogue in versions(f"possible worlds {seed}"):
            if dialogue.exchanges in done:
                continue
            try:
                state = interpret(dialogue.resolved)
            except Unclear:
                continue
            done.add(dialogue.exchanges)
            versions_of[alteration] += 1
            worlds = PossibleWorlds(dialogue.exchanges)
            assert worlds, ("a contradiction", dialogue.lines)
            for question in questions(dialogue):
                answer = evaluate(question, state)
                answers[question.kind, question.form][answer] += 1
                if answer is None and (question.form != "how many" or hears(dialogue, question)):
                    continue  # people would disagree
                in_worlds = worlds.answer(question)
                assert answer is in_worlds, shown(dialogue, question)
                # Hardly anything excludes that somebody knows where things are.
                share = 4 * BASES if question.form == "agent knows" else BASES
                if answer is not None and rng.happens(share):
                    rests_on = basis(question, state)
                    bases[question.form][rests_on] += 1
                    assert rests_on == worlds.basis(question), shown(dialogue, question)
    assert len(done) >= DIALOGUES
    for alteration in ("original", *ALTERATIONS):
        assert versions_of[alteration] >= 50, versions_of
    for kind_and_form, counts in answers.items():
        assert counts[True] >= 30, (kind_and_form, counts)
        assert counts[False] >= 50, (kind_and_form, counts)
        assert counts[None] < counts[True] + counts[False], (kind_and_form, counts)
    for form, found in bases.items():
        assert found["undetermined"] >= 20, (form, found)
        assert found["excluded"] >= (0 if form == "told" else 1), (form, found)
