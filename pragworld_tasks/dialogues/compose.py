"""Dialogues: random sequences of topics that make sense together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from zlib import crc32

from pragworld_tasks.dialogues.forms import verbalize, verbalize_one
from pragworld_tasks.dialogues.settings import SHARES
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.topics import COMMON_TOPICS, TOPICS, Scene
from pragworld_tasks.dialogues.vocabulary import Domain, Names, domain_style
from pragworld_tasks.dialogues.world import (
    ASKS_AGENT,
    ASKS_THING,
    NOTHING_SAID,
    REPLIER,
    Exchange,
    State,
    Unclear,
    interpret,
    resolve,
    resolve_one,
)

_ATTEMPTS = 10_000  # a few are enough, unless the topics exclude each other


@dataclass(frozen=True)
class Dialogue:
    """A dialogue between two speakers."""

    domain: Domain
    exchanges: tuple[Exchange, ...]

    @cached_property
    def resolved(self) -> list[Exchange]:
        """The exchanges with names instead of pronouns. Raises `Unclear`."""
        return resolve(self.exchanges)

    @cached_property
    def state(self) -> State:
        """What the dialogue establishes. Raises `Unclear`."""
        return interpret(self.resolved)

    @cached_property
    def names(self) -> list[tuple[str, ...]]:
        """For each exchange, its things and people."""
        return [(*exchange.things, *exchange.agents) for exchange in self.resolved]

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The utterances, each with its speaker's label. Raises `Unclear`."""
        return tuple(verbalize(self.exchanges, self.resolved, self.domain))

    def altered(
        self, altered: Mapping[int, Exchange], meanings: Mapping[int, Exchange]
    ) -> "Dialogue":
        """Return the dialogue with altered exchanges, by position, and their resolved meanings."""
        exchanges, resolved, lines = list(self.exchanges), list(self.resolved), list(self.lines)
        for position, exchange in altered.items():
            exchanges[position] = exchange
        for position, meaning in meanings.items():
            resolved[position] = meaning
        reworded = altered.keys() | meanings
        # The exchange after an altered one may need other words, too.
        for position in reworded | {position + 1 for position in reworded}:
            if position < len(exchanges):
                before = resolved[position - 1] if position else NOTHING_SAID
                lines[2 * position : 2 * position + 2] = verbalize_one(
                    exchanges[position], resolved[position], before, self.domain
                )
        dialogue = Dialogue(self.domain, tuple(exchanges))
        vars(dialogue).update(resolved=resolved, lines=tuple(lines))
        return dialogue


def opening_share(exchanges: Sequence[Exchange]) -> int:
    """Return which of the `SHARES` a dialogue belongs to.

    The share depends on the first question, so no dialogue belongs to two.
    """
    form, agent, thing, place, *_ = exchanges[0]
    return crc32(f"{form}/{agent}/{thing}/{place}".encode()) % SHARES


def compose(
    domain: Domain,
    vocabulary: Names,
    length: int,
    topics: Sequence[str],
    rng: StableRandom,
    shares: Sequence[int] = tuple(range(SHARES)),
) -> Dialogue:
    """Compose a dialogue of at least one exchange, with the topics for which there is room.

    It belongs to one of the shares of `opening_share`.

    Raises:
        ValueError: No dialogue was found that has these topics and makes sense.
    """
    for _ in range(_ATTEMPTS):
        scene = Scene(
            rng,
            agents=rng.sample(vocabulary.agents, 2 + rng.below(2)),
            things=rng.sample(vocabulary.things, min(2 * length + 2, len(vocabulary.things))),
            places=rng.sample(vocabulary.places, 4),
            containers=domain_style(domain).containers,
        )
        try:
            parts = rng.shuffled(_parts(scene, topics, length))
            joined = chain(*_linked(_with_opening_in(shares, parts)))
            exchanges, resolved = _with_pronouns(list(joined)[:length], rng)
            dialogue = Dialogue(domain, tuple(exchanges))
            vars(dialogue).update(resolved=resolved)
            if exchanges and dialogue.state:  # it is consistent
                return dialogue
        except Unclear:
            continue
    raise ValueError(f"no dialogue of {length} exchanges in {domain!r} with {', '.join(topics)}")


def _parts(scene: Scene, topics: Sequence[str], length: int) -> list[list[Exchange]]:
    """Return the exchanges of the topics, and of more topics until there are enough."""
    parts: list[list[Exchange]] = []
    room = length
    for name in topics:
        parts.append(TOPICS[name](scene)[: max(room, 1)])
        room -= len(parts[-1])
    while room > 0:
        parts.append(TOPICS[scene.rng.weighted_choice(COMMON_TOPICS)](scene)[:room])
        room -= len(parts[-1])
    return parts


def _with_opening_in(shares: Sequence[int], parts: list[list[Exchange]]) -> list[list[Exchange]]:
    """Order the parts so that the opening is in one of the shares. Return [] if none is."""
    for position, part in enumerate(parts):
        if opening_share(part) in shares:
            return [part, *parts[:position], *parts[position + 1 :]]
    return []


def _linked(parts: list[list[Exchange]]) -> list[list[Exchange]]:
    """Return the parts in an order in which each takes up a name of the one before, if any can."""
    linked, remaining = parts[:1], parts[1:]
    while remaining:
        last = linked[-1][-1]
        part = max(remaining, key=lambda part: _takes_up(part[0], last))
        remaining.remove(part)
        linked.append(part)
    return linked


def _takes_up(exchange: Exchange, last: Exchange) -> int:
    """Return how closely a question follows an exchange: with "there", with "she", or otherwise."""
    is_there = exchange.place is not None and set(last.places) == {exchange.place}
    is_of_agent = exchange.agent is not None and set(last.agents) == {exchange.agent}
    is_alike = exchange.form == last.form == "where"
    return 4 * is_there + 3 * is_of_agent + 2 * is_alike


def _with_pronouns(
    exchanges: list[Exchange], rng: StableRandom
) -> tuple[list[Exchange], list[Exchange]]:
    """Replace some names that the exchange before has mentioned by pronouns or "there".

    Returns:
        The exchanges, and what `resolve` makes of them.
    """
    replaced: list[Exchange] = []
    resolved: list[Exchange] = []
    before = NOTHING_SAID
    for exchange in exchanges:
        is_same = exchange.thing is not None and set(before.things) == {exchange.thing}
        share = 0.4 if is_same or exchange.form in ("amount", "count") else 0.9
        if set(before.places) == {exchange.place} and rng.happens(share):
            exchange = exchange._replace(place=None)
        has_agent = exchange.form in ASKS_AGENT and exchange.agent != REPLIER
        if has_agent and set(before.agents) == {exchange.agent} and rng.happens(0.7):
            exchange = exchange._replace(agent=None)
        has_thing = exchange.form in ASKS_THING
        if has_thing and set(before.things) == {exchange.thing} and rng.happens(0.9):
            exchange = exchange._replace(thing=None)
        replaced.append(exchange)
        before = resolve_one(exchange, before)
        resolved.append(before)
    return replaced, resolved
