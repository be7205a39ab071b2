"""Dialogues: random sequences of topics that make sense together."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from zlib import crc32

from pragworld_tasks.dialogues.grammar import is_left_open, verbalize, verbalize_one
from pragworld_tasks.dialogues.household import HOUSEHOLD_TOPICS
from pragworld_tasks.dialogues.sentences import PHRASES
from pragworld_tasks.dialogues.settings import SHARES
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.styles import domain_style, repeated
from pragworld_tasks.dialogues.topics import TOPICS, Scene, Topic
from pragworld_tasks.dialogues.vocabulary import CASTS, Cast, Domain, Names
from pragworld_tasks.dialogues.world import (
    ASKS_AGENT,
    ASKS_THING,
    NOTHING_SAID,
    REPLIER,
    Claim,
    Exchange,
    State,
    Unclear,
    interpret,
    is_possible,
    latest,
    preceding,
    resolve,
    resolve_one,
    subjects,
)
from pragworld_tasks.files import read_package_toml

_HAS_SCENE = 0.85  # how often a dialogue of a domain with scenes has one
_OPENS_WITH_TALK = 0.8
_ATTEMPTS = 10_000  # a few are enough, unless the topics exclude each other


@dataclass(frozen=True)
class Dialogue:
    """A dialogue between two speakers.

    Attributes:
        domain: Where it takes place.
        cast: The speakers.
        exchanges: The questions and their replies.
        closing: The last words of the speaker who asks, or "".
    """

    domain: Domain
    cast: Cast
    exchanges: tuple[Exchange, ...]
    closing: str = ""

    @cached_property
    def resolved(self) -> list[Exchange]:
        """The exchanges with names instead of pronouns. Raises `Unclear`."""
        return resolve(self.exchanges)

    @cached_property
    def state(self) -> State:
        """What the dialogue establishes. Raises `Unclear`."""
        return interpret(self.resolved)

    @cached_property
    def subjects(self) -> list[tuple[tuple[str, ...], bool]]:
        """For each exchange, its things and whether it tells where people went."""
        return list(subjects(self.resolved))

    @property
    def is_clear(self) -> bool:
        """Whether the dialogue has a meaning: it contradicts itself nowhere, for example."""
        try:
            return is_possible(self.state.acts, self.state.not_went)
        except Unclear:
            return False

    def altered(
        self, altered: Mapping[int, Exchange], meanings: Mapping[int, Exchange]
    ) -> "Dialogue":
        """Return the dialogue with altered exchanges.

        Args:
            altered: The altered exchanges, by position.
            meanings: What `world.resolve_altered` makes of them.
        """
        exchanges, resolved, lines = list(self.exchanges), list(self.resolved), list(self.lines)
        for position, exchange in altered.items():
            exchanges[position] = exchange
        for position, meaning in meanings.items():
            resolved[position] = meaning
        for position in _reworded(altered.keys() | meanings, resolved):
            before = preceding(resolved, position)
            said = verbalize_one(
                exchanges[position], resolved[position], before, self.domain, self.cast
            )
            lines[2 * position : 2 * position + 2] = said
        dialogue = Dialogue(self.domain, self.cast, tuple(exchanges), self.closing)
        vars(dialogue).update(resolved=resolved, lines=tuple(lines))
        return dialogue

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The utterances, each with its speaker's label. Raises `Unclear`."""
        lines = verbalize(self.exchanges, self.resolved, self.domain, self.cast)
        if self.closing:
            lines.append(
                f"{self.cast.labels[0]}: {domain_style(self.domain).written(self.closing)}"
            )
        return tuple(lines)


def _reworded(altered: Set[int], resolved: Sequence[Exchange]) -> set[int]:
    """Return the positions of exchanges that may need other words if these are altered."""
    positions = set(altered)
    for position in altered:
        for following in range(position + 1, len(resolved)):
            positions.add(following)
            if resolved[following].form != "sure":
                break
    return positions


def opening_share(exchanges: Sequence[Exchange]) -> int:
    """Return which of the `SHARES` a dialogue belongs to.

    The share depends on the first question that is not small talk, so no dialogue belongs to two.
    """
    opening = next((exchange for exchange in exchanges if exchange.form != "chat"), exchanges[0])
    form, agent, thing, place, *_ = opening
    return crc32(f"{form}/{agent}/{thing}/{place}".encode()) % SHARES


def compose(
    domain: Domain,
    vocabulary: Names,
    length: int,
    topics: Sequence[str],
    rng: StableRandom,
    shares: Sequence[int] = tuple(range(SHARES)),
    first_scene: int | None = None,
    has_scene: float = _HAS_SCENE,
) -> Dialogue:
    """Compose a dialogue.

    Args:
        domain: Where it takes place.
        vocabulary: The people, things and places that it may be about.
        length: Number of exchanges, at least 1.
        topics: Topics (keys of `TOPICS`) that it has to have, as far as there is room.
        rng: Source of randomness.
        shares: The shares of `opening_share` that it may belong to.
        first_scene: Any number, which determines the first scene that people play if there is one.
            Successive numbers give different scenes. By default the scene is random.
        has_scene: How often there is one in domains in which people play scenes.

    Raises:
        ValueError: No dialogue was found that has these topics and makes sense.
    """
    is_household = domain == "household"
    for _ in range(_ATTEMPTS):
        fewest = 4 if domain == "everyday" else 3  # places; a proposal uses up to two times
        scene = Scene(
            rng,
            agents=rng.sample(vocabulary.agents, (2 if is_household else 3) + rng.below(2)),
            things=rng.sample(vocabulary.things, 2 * length + 2),
            places=rng.sample(vocabulary.places, 4 if is_household else fewest + rng.below(2)),
            style=domain_style(domain),
            first_scene=first_scene,
        )
        try:
            mix, all_topics = topics_of(domain)
            opens = "scene" in mix and rng.happens(has_scene)
            named = ("scene", *topics) if opens else topics
            parts = _ordered(_parts(scene, named, mix, all_topics, length), rng)
            parts = _with_opening_in(shares, parts)
            joined = chain(*_linked(parts)) if is_household else _interleaved(parts, rng)
            named_exchanges = list(joined)[:length]
            exchanges, resolved = _with_pronouns(
                named_exchanges, scene.has_rooms, is_household, rng
            )
        except Unclear:
            continue
        closing = ""
        if rng.happens(0.3) and not is_household:
            closing = rng.choice(PHRASES["closing"])
        if exchanges and is_left_open(exchanges[-1]):
            closing = PHRASES["left open"][0]
        dialogue = Dialogue(domain, rng.choice(CASTS), tuple(exchanges), closing)
        vars(dialogue).update(resolved=resolved)
        if exchanges and _is_plausible(dialogue.resolved) and dialogue.is_clear:
            return dialogue
    raise ValueError(f"no dialogue of {length} exchanges in {domain!r} with {', '.join(topics)}")


@cache
def topics_of(domain: Domain) -> tuple[Sequence[str], Mapping[str, Topic]]:
    """Return the topics of a domain: names to choose from, and all by name."""
    mixes = read_package_toml(__package__, "topics.toml")
    mix = repeated(mixes.get(domain) or mixes["shop"])
    return mix, HOUSEHOLD_TOPICS if domain == "household" else TOPICS


def _parts(
    scene: Scene,
    topics: Sequence[str],
    mix: Sequence[str],
    all_topics: Mapping[str, Topic],
    length: int,
) -> list[list[Exchange]]:
    """Return the exchanges of the topics, and of more topics until there are enough."""
    parts: list[list[Exchange]] = []
    room = length
    for name in topics:
        parts.append(all_topics[name](scene)[: max(room, 1)])
        room -= len(parts[-1])
    while room > 0:
        parts.append(all_topics[scene.rng.choice(mix)](scene)[:room])
        room -= len(parts[-1])
    return parts


def _ordered(parts: list[list[Exchange]], rng: StableRandom) -> list[list[Exchange]]:
    """Return the parts in random order. Small talk comes first or between others, never last."""
    parts = rng.shuffled(parts)
    talk = [part for part in parts if part[0].form == "chat"]
    ordered = [part for part in parts if part[0].form != "chat"]
    if not ordered:
        return parts
    opening = [talk.pop()] if talk and rng.happens(_OPENS_WITH_TALK) else []
    for part in talk:
        ordered.insert(rng.below(len(ordered)), part)
    return opening + ordered


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


def _is_plausible(exchanges: Sequence[Exchange]) -> bool:
    """Return whether people remember what was said, given exchanges without pronouns.

    Nobody proposes times at which the replier has said to be free or busy, the replier agrees to no
    time that did not suit before, and nobody asks twice what is in a place or where somebody went.
    """
    proposed: set[str] = set()
    taken: set[str] = set()
    turned_down: set[str | None] = set()
    asked: set[Exchange] = set()
    for exchange in exchanges:
        names = proposed if exchange.form == "shall" else taken
        if exchange.form == "shall" or REPLIER in exchange.agents:
            names.update(exchange.places)
        if exchange.form == "shall":
            if exchange.reply == "yes" and exchange.place in turned_down:
                return False
            if exchange.reply == "no" or isinstance(exchange.reply, Claim):
                turned_down.add(exchange.place)
        if exchange.form in ("what", "where to"):
            question = Exchange(exchange.form, exchange.agent, place=exchange.place)
            if question in asked:
                return False
            asked.add(question)
    return proposed.isdisjoint(taken)


def _interleaved(parts: Sequence[list[Exchange]], rng: StableRandom) -> list[Exchange]:
    """Join the parts. The rest of a part may wait until another one is over."""
    exchanges: list[Exchange] = []
    waiting: list[Exchange] = []
    for part in parts:
        # "Are you sure?" follows what it is about.
        cut = 2 if len(part) > 1 and part[1].form == "sure" else 1
        if part[0].form == "chat":
            cut = len(part)
        if not waiting and len(part) > cut and exchanges and rng.happens(0.25):
            exchanges += part[:cut]
            waiting = part[cut:]
        else:
            exchanges += [*part, *waiting]
            waiting = []
    return exchanges + waiting


def _with_opening_in(shares: Sequence[int], parts: list[list[Exchange]]) -> list[list[Exchange]]:
    """Order the parts so that the opening is in one of the shares. Return [] if none is."""
    small_talk = [part for part in parts if part[0].form == "chat"]
    for position, part in enumerate(parts):
        if part not in small_talk and opening_share(part) in shares:
            start = [*small_talk[:position], part]
            return [*start, *(other for other in parts if other not in start)]
    return parts if len(small_talk) == len(parts) else []


def _with_pronouns(
    exchanges: list[Exchange], has_rooms: bool, is_household: bool, rng: StableRandom
) -> tuple[list[Exchange], list[Exchange]]:
    """Replace some names that the exchange before has mentioned by pronouns or "there".

    Returns:
        The exchanges, and what `resolve` makes of them.
    """
    replaced: list[Exchange] = []
    resolved: list[Exchange] = []
    before = NOTHING_SAID
    for exchange in exchanges:
        if exchange.form not in ("chat", "sure"):
            is_same = exchange.thing is not None and set(before.things) == {exchange.thing}
            share = 0.7
            if is_household:
                share = 0.25 if is_same or exchange.form in ("amount", "count") else 0.85
            if has_rooms and set(before.places) == {exchange.place} and rng.happens(share):
                exchange = exchange._replace(place=None)
            has_agent = exchange.form in ASKS_AGENT and exchange.agent != REPLIER
            if has_agent and set(before.agents) == {exchange.agent} and rng.happens(0.7):
                exchange = exchange._replace(agent=None)
            has_thing = exchange.form in ASKS_THING
            if has_thing and set(before.things) == {exchange.thing} and rng.happens(0.8):
                exchange = exchange._replace(thing=None)
        replaced.append(exchange)
        resolved.append(resolve_one(exchange, before))
        before = latest(resolved[-1], before)
    return replaced, resolved
