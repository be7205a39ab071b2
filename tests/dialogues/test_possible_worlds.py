"""Compare what dialogues establish with all worlds that they allow, listed by brute force."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

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
    possible_questions,
    question_text,
)
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import DOMAINS, Names, domain_vocabulary
from pragworld_tasks.dialogues.world import (
    REPLIER,
    Claim,
    Exchange,
    Unclear,
    interpret,
    mentioned,
    resolve,
)

CHUNKS = 8 if os.environ.get("PRAGWORLD_LONG") else 2
DIALOGUES = 2500  # fewest dialogues in a chunk
SEEDS = 420  # seeds in a chunk; each gives a dialogue and altered versions of it
LONGEST = 18  # most exchanges in a dialogue, as in `test_long`
QUESTIONS = 40  # most questions about a dialogue
BASES = 0.2  # share of answers to check the basis of
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
        for edit in islice(edits(alteration, dialogue.exchanges, vocabulary, rng), EDITS):
            exchanges = list(dialogue.exchanges)
            for position, exchange in edit.altered.items():
                exchanges[position] = exchange
            version = replace(dialogue, exchanges=tuple(exchanges))
            yield alteration, version
            if rng.happens(0.5):
                yield alteration, jumbled(version, rng)


def jumbled(dialogue: Dialogue, rng: StableRandom) -> Dialogue:
    """Return up to four exchanges in random order, with only two people and two kinds of things.

    So they say more about the same things than `compose` ever does.
    """
    try:
        exchanges = rng.sample(resolve(dialogue.exchanges), 1 + rng.below(4))
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
            things.setdefault(name, rng.choice(("figs", "olives")))
        if isinstance(reply, Claim):
            reply = reply._replace(
                agents=tuple(people[name] for name in reply.agents),
                things=tuple(things[name] for name in reply.things),
                source=reply.source and people[reply.source],
            )
        return exchange._replace(
            agent=exchange.agent and people[exchange.agent],
            thing=exchange.thing and things[exchange.thing],
            reply=reply,
        )

    return replace(dialogue, exchanges=tuple(map(renamed, exchanges)))


def questions(names: Names, rng: StableRandom) -> Iterator[Question]:
    for form in QUESTION_FORMS:
        yield from rng.sample(
            [*possible_questions(form, names)], 1 + QUESTIONS // len(QUESTION_FORMS)
        )


def shown(dialogue: Dialogue, question: Question) -> tuple[object, ...]:
    return "\n".join(dialogue.lines), question_text(question, dialogue.domain), question


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_answer_is_yes_if_what_is_asked_holds_in_all_possible_worlds(chunk: int) -> None:
    rng = StableRandom(f"questions of chunk {chunk}")
    done: set[tuple[Exchange, ...]] = set()
    versions_of: Counter[str] = Counter()
    bases: dict[str, Counter[str | None]] = defaultdict(Counter)
    answers: dict[str, Counter[bool | None]] = {form: Counter() for form in QUESTION_FORMS}
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
            for question in [*questions(mentioned(dialogue.resolved), rng)]:
                answer = evaluate(question, state)
                answers[question.form][answer] += 1
                if answer is None:
                    continue  # people would disagree
                assert answer is worlds.answer(question), shown(dialogue, question)
                if rng.happens(BASES):
                    rests_on = basis(question, state)
                    bases[question.form][rests_on] += 1
                    assert rests_on == worlds.basis(question), shown(dialogue, question)
    assert len(done) >= DIALOGUES
    for alteration in ("original", *ALTERATIONS):
        assert versions_of[alteration] >= 50, versions_of
    for form, counts in answers.items():
        assert counts[True] >= 30, (form, counts)
        assert counts[False] >= 50, (form, counts)
    for form, found in bases.items():
        assert found["undetermined"] >= 20, (form, found)
        assert found["excluded"] >= 1, (form, found)
