"""Makes up dialogues: what is asked and replied, topic by topic.

A topic is one or more exchanges about one kind of things, or about where somebody went, or small
talk. People, things and places come from a small circle, so that topics overlap and have to be kept
apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

from pragworld_tasks.dialogues.grammar import say
from pragworld_tasks.dialogues.settings import SHARES
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.topics import MIX, TOPICS, Scene
from pragworld_tasks.dialogues.vocabulary import CASTS, Cast, Domain, Vocabulary
from pragworld_tasks.dialogues.world import (
    ASKS_AGENT,
    NOTHING_SAID,
    REPLIER,
    Exchange,
    Unclear,
    interpret,
    resolve,
    resolve_one,
)

CLOSINGS = ("Thank you.", "All right, thanks.", "I see.")
_TRIES = 10_000  # at a dialogue; a few are enough unless its topics exclude each other


@dataclass(frozen=True)
class Dialogue:
    """Who says what to whom.

    Attributes:
        domain: where it takes place.
        cast: who speaks.
        exchanges: what is asked and replied.
        closing: what the asker says last; empty: nothing.
    """

    domain: Domain
    cast: Cast
    exchanges: tuple[Exchange, ...]
    closing: str = ""

    @cached_property
    def resolved(self) -> list[Exchange]:
        """The exchanges, with what "she", "them" and "there" refer to. Raises `Unclear`."""
        return resolve(self.exchanges)


def utterances(dialogue: Dialogue) -> list[str]:
    """The lines of the dialogue, each with its speaker."""
    lines = say(dialogue.exchanges, dialogue.resolved, dialogue.domain, dialogue.cast)
    if dialogue.closing:
        lines.append(f"{dialogue.cast.labels[0]}: {dialogue.closing}")
    return lines


def opening_share(exchanges: Sequence[Exchange]) -> int:
    """Which of the `SHARES` a dialogue belongs to, by how it begins, small talk aside."""
    opening = next((each for each in exchanges if each.form != "chat"), exchanges[0])
    form, agent, thing, place, *_ = opening
    return crc32(f"{form}/{agent}/{thing}/{place}".encode()) % SHARES


def compose(
    domain: Domain,
    vocabulary: Vocabulary,
    exchanges: int,
    topics: Sequence[str],
    rng: StableRandom,
    shares: Sequence[int] = tuple(range(SHARES)),
) -> Dialogue:
    """A dialogue of so many exchanges.

    Args:
        domain: where it takes place.
        vocabulary: whom and what it may be about.
        exchanges: how many, at least one.
        topics: names of topics (keys of `TOPICS`) that it has to have, as far as there is room.
        chance: what all else is drawn from.
        shares: which of the `SHARES` it may belong to, so that splits have none in common.

    Raises:
        ValueError: no dialogue was found that has these topics and makes sense.
    """
    for _ in range(_TRIES):
        scene = Scene(
            rng,
            agents=rng.sample(vocabulary.agents, 3 + rng.below(2)),
            things=rng.sample(vocabulary.things, 2 * exchanges + 2),
            places=rng.sample(vocabulary.places, 3 + rng.below(2)),
        )
        parts: list[list[Exchange]] = []
        room = exchanges
        for name in topics:
            parts.append(TOPICS[name](scene)[: max(room, 1)])
            room -= len(parts[-1])
        while room > 0:
            parts.append(TOPICS[rng.choice(MIX)](scene)[:room])
            room -= len(parts[-1])
        parts = _opening_with(shares, rng.shuffled(parts))
        made = [exchange for part in parts for exchange in part][:exchanges]
        if not made:
            continue
        try:
            made = _with_anaphora(made, rng)
            interpret(resolve(made))
        except Unclear:
            continue
        closing = rng.choice(CLOSINGS) if rng.happens(0.3) else ""
        return Dialogue(domain, rng.choice(CASTS[domain]), tuple(made), closing)
    raise ValueError(f"no dialogue of {exchanges} exchanges in {domain!r} with {', '.join(topics)}")


def _opening_with(shares: Sequence[int], parts: list[list[Exchange]]) -> list[list[Exchange]]:
    """The parts in an order that opens with one of the shares; none where there is no such."""
    talk = [part for part in parts if part[0].form == "chat"]
    for part in parts:
        if part not in talk and opening_share(part) in shares:
            before = talk[: parts.index(part)]
            return [*before, part, *(other for other in parts if other not in (*before, part))]
    return parts if len(talk) == len(parts) else []


def _with_anaphora(exchanges: list[Exchange], rng: StableRandom) -> list[Exchange]:
    """Some names that the exchange before has just mentioned become "there" or "she"."""
    made: list[Exchange] = []
    before = NOTHING_SAID
    for exchange in exchanges:
        if exchange.form not in ("chat", "sure"):
            if set(before.places) == {exchange.place} and rng.happens(0.7):
                exchange = exchange._replace(place=None)
            she = exchange.form in ASKS_AGENT and exchange.agent != REPLIER
            if she and set(before.agents) == {exchange.agent} and rng.happens(0.7):
                exchange = exchange._replace(agent=None)
        made.append(exchange)
        if exchange.form != "sure":
            before = resolve_one(exchange, before)
    return made
