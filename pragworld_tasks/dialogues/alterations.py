"""The seven alterations, on what a dialogue says rather than on its letters (paper, section 4).

An alteration changes one thing in one exchange, or exchanges two of a kind. All the rest, and the
forms of words, stay; so the text stays grammatical, and "them" and "there" come to mean what they
now refer to. What the altered dialogue means is computed anew.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from pragworld_tasks.dialogues.grammar import is_one
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import WOMEN, Vocabulary
from pragworld_tasks.dialogues.world import (
    ALL,
    MOST_NUMBER,
    REPLIER,
    SOME,
    THE,
    Amount,
    Claim,
    Exchange,
    Oddity,
)

Slot = Literal["agents", "things", "places"]


class Edit(NamedTuple):
    """An altered dialogue.

    Attributes:
        exchanges: all of them, altered.
        direction: which of two ways an alteration goes that can go two ways; else empty.
    """

    exchanges: tuple[Exchange, ...]
    direction: str = ""


def edits(
    alteration: str,
    exchanges: Sequence[Exchange],
    vocabulary: Vocabulary,
    focus: Sequence[str],
    rng: StableRandom,
) -> Iterator[Edit]:
    """Ways to alter the dialogue, in random order; not all of them mean something.

    Args:
        alteration: one of `documents.ALTERATIONS`.
        exchanges: the dialogue.
        vocabulary: where new people, things and places are taken from.
        focus: names that come first, both to be replaced and to replace others.
        chance: what "random" is drawn from.
    """
    return _EDITS[alteration](tuple(exchanges), vocabulary, focus, rng)


def _with(
    exchanges: tuple[Exchange, ...], changed: dict[int, Exchange], direction: str = ""
) -> Edit:
    return Edit(
        tuple(changed.get(position, exchange) for position, exchange in enumerate(exchanges)),
        direction,
    )


def _in_order(
    exchanges: tuple[Exchange, ...], focus: Sequence[str], rng: StableRandom
) -> list[tuple[int, Exchange]]:
    """The exchanges in random order, those first that name most of the focus."""
    numbered = rng.shuffled(list(enumerate(exchanges)))
    if not focus:
        return numbered
    wanted = set(focus)
    return sorted(numbered, key=lambda item: -len(wanted.intersection(item[1].names)))


def _negation(
    exchanges: tuple[Exchange, ...], vocabulary: Vocabulary, focus: Sequence[str], rng: StableRandom
) -> Iterator[Edit]:
    for position, exchange in _in_order(exchanges, focus, rng):
        reply = exchange.reply
        if exchange.oddity or exchange.form in ("still", "chat"):
            continue
        if isinstance(reply, Claim):
            if exchange.form not in ("did", "where", "who"):
                continue
            if exchange.form == "did" and (reply.things or reply.places):
                continue  # "Did she leave them here?" "She didn't leave them there."
            if reply.connective or reply.amount != THE:
                continue
            altered = exchange._replace(reply=reply._replace(denied=not reply.denied))
            yield _with(exchanges, {position: altered}, "remove" if reply.denied else "add")
        elif reply == "yes" and exchange.amount != ALL:
            yield _with(exchanges, {position: exchange._replace(reply="no")}, "add")
        elif reply == "no":
            yield _with(exchanges, {position: exchange._replace(reply="yes")}, "remove")


def _quantity_change(
    exchanges: tuple[Exchange, ...], vocabulary: Vocabulary, focus: Sequence[str], rng: StableRandom
) -> Iterator[Edit]:
    asked = [int(name) for name in focus if name.isdigit()]
    for position, exchange in _in_order(exchanges, focus, rng):
        if not isinstance(exchange.reply, Claim):
            continue
        kind, numbers = exchange.reply.amount
        others: list[tuple[int, ...]]
        if not numbers:
            continue
        if kind == "either":  # "two or three" has neighbours only
            others = [tuple(n + step for n in numbers) for step in (-1, 1)]
        else:
            near = [n + step for n in asked for step in (0, 1)]
            any_two = rng.sample(range(1, MOST_NUMBER + 1), 2)
            others = [(n,) for n in (*near, *any_two)]
        after = [later.form for later in exchanges[position + 1 :] if later.form != "sure"]
        lowest = 2 if after[:1] in (["still"], ["who"], ["count"]) else 1  # "They" are several.
        for other in others:
            if other != numbers and lowest <= other[0] and other[-1] <= MOST_NUMBER:
                reply = exchange.reply._replace(amount=Amount(kind, other))
                yield _with(exchanges, {position: exchange._replace(reply=reply)})


def _quantifier_change(
    exchanges: tuple[Exchange, ...], vocabulary: Vocabulary, focus: Sequence[str], rng: StableRandom
) -> Iterator[Edit]:
    opposite = {ALL: SOME, SOME: ALL}
    for position, exchange in _in_order(exchanges, focus, rng):
        if exchange.amount in opposite and exchange.reply == "yes":  # else it says the same
            to = opposite[exchange.amount]
            yield _with(exchanges, {position: exchange._replace(amount=to)}, to.kind)
        if isinstance(exchange.reply, Claim) and exchange.reply.amount in opposite:
            to = opposite[exchange.reply.amount]
            reply = exchange.reply._replace(amount=to)
            yield _with(exchanges, {position: exchange._replace(reply=reply)}, to.kind)


def _connective_change(
    exchanges: tuple[Exchange, ...], vocabulary: Vocabulary, focus: Sequence[str], rng: StableRandom
) -> Iterator[Edit]:
    for position, exchange in _in_order(exchanges, focus, rng):
        reply = exchange.reply
        if isinstance(reply, Claim) and reply.connective in ("and", "or"):
            to: Literal["and", "or"] = "or" if reply.connective == "and" else "and"
            changed = exchange._replace(reply=reply._replace(connective=to))
            yield _with(exchanges, {position: changed}, to)


def _inconsistent_data(
    exchanges: tuple[Exchange, ...], vocabulary: Vocabulary, focus: Sequence[str], rng: StableRandom
) -> Iterator[Edit]:
    mentioned = rng.shuffled(_mentioned(exchanges, "places"))
    places = [*(name for name in mentioned if name in focus), *mentioned]
    for position, exchange in _in_order(exchanges, focus, rng):
        claim = exchange.claim
        things = claim.things or ((exchange.thing,) if exchange.thing else ())
        speaks_of_things = exchange.form in ("did", "where", "amount", "count", "what")
        if not speaks_of_things or exchange.oddity or len(things) != 1:
            continue
        if exchange.reply in ("unknown", "no") or claim.denied or is_one(claim.amount):
            continue
        if position + 1 < len(exchanges) and exchanges[position + 1].form == "sure":
            continue  # sure of what was asked, or of what is odd?
        for place in (*places[:2], None):
            oddity = Oddity(place, rng.below(20))
            direction = "moving" if place else "staying"
            yield _with(exchanges, {position: exchange._replace(oddity=oddity)}, direction)


# Variables: people, things, places ----------------------------------------------------------------


class _Variable(NamedTuple):
    """Where in an exchange a name stands.

    Attributes:
        role: "asked", "claimed", "source" or "odd".
        which: of the names that are claimed.
    """

    position: int
    slot: Slot
    role: str
    which: int
    name: str


def _variables(position: int, exchange: Exchange) -> Iterator[_Variable]:
    asked: tuple[tuple[Slot, str | None], ...] = (
        ("agents", exchange.agent),
        ("things", exchange.thing),
        ("places", exchange.place),
    )
    for slot, name in asked:
        if name is not None and name != REPLIER:
            yield _Variable(position, slot, "asked", 0, name)
    claim = exchange.reply
    if isinstance(claim, Claim):
        claimed: tuple[tuple[Slot, tuple[str, ...]], ...] = (
            ("agents", claim.agents),
            ("things", claim.things),
            ("places", claim.places),
        )
        for slot, names in claimed:
            for which, name in enumerate(names):
                # "Lily said she …": the two are one.
                if name != REPLIER and not (slot == "agents" and name == claim.source):
                    yield _Variable(position, slot, "claimed", which, name)
        if claim.source is not None and claim.source != exchange.agent:
            yield _Variable(position, "agents", "source", 0, claim.source)
    if exchange.oddity and exchange.oddity.place:
        yield _Variable(position, "places", "odd", 0, exchange.oddity.place)


def _renamed(exchange: Exchange, variable: _Variable, name: str) -> Exchange:
    """The exchange with another name in one place."""
    _, slot, role, which, before = variable
    claim = exchange.reply if isinstance(exchange.reply, Claim) else None
    if role == "asked":
        # "Did Lily …?" and "She said …": the two are one.
        if slot == "agents" and claim and claim.source == before:
            exchange = exchange._replace(reply=claim._replace(source=name))
        if slot == "agents":
            return exchange._replace(agent=name)
        return exchange._replace(thing=name) if slot == "things" else exchange._replace(place=name)
    if role == "odd":
        assert exchange.oddity is not None
        return exchange._replace(oddity=exchange.oddity._replace(place=name))
    assert claim is not None
    if role == "source":
        agents = tuple(name if agent == before else agent for agent in claim.agents)
        return exchange._replace(reply=claim._replace(source=name, agents=agents))
    names = getattr(claim, slot)
    names = (*names[:which], name, *names[which + 1 :])
    if slot == "agents":
        return exchange._replace(reply=claim._replace(agents=names))
    if slot == "things":
        return exchange._replace(reply=claim._replace(things=names))
    return exchange._replace(reply=claim._replace(places=names))


def _alike(slot: Slot, one: str, other: str) -> bool:
    """Whether one can stand for the other with no other word changed: "she" stays "she"."""
    return one != other and (slot != "agents" or (one in WOMEN) == (other in WOMEN))


def _mentioned(exchanges: tuple[Exchange, ...], slot: Slot) -> list[str]:
    return list(
        dict.fromkeys(
            variable.name
            for position, exchange in enumerate(exchanges)
            for variable in _variables(position, exchange)
            if variable.slot == slot
        )
    )


def _substitution(
    exchanges: tuple[Exchange, ...], vocabulary: Vocabulary, focus: Sequence[str], rng: StableRandom
) -> Iterator[Edit]:
    known: dict[Slot, list[str]] = {}
    later = []
    for position, exchange in _in_order(exchanges, focus, rng):
        for variable in rng.shuffled(list(_variables(position, exchange))):
            slot, name = variable.slot, variable.name
            if slot not in known:
                known[slot] = rng.shuffled(_mentioned(exchanges, slot))
            near = [other for other in known[slot] if other in focus]
            far = [rng.choice(known[slot]), rng.choice(getattr(vocabulary, slot))]
            for other in dict.fromkeys([*near, *far]):
                if _alike(slot, name, other):
                    if focus and name not in focus and other not in focus:
                        later.append((variable, other))
                        continue
                    yield _with(exchanges, {position: _renamed(exchange, variable, other)})
    for variable, other in later:
        changed = _renamed(exchanges[variable.position], variable, other)
        yield _with(exchanges, {variable.position: changed})


def _swap(
    exchanges: tuple[Exchange, ...], vocabulary: Vocabulary, focus: Sequence[str], rng: StableRandom
) -> Iterator[Edit]:
    ordered = _in_order(exchanges, focus, rng)
    variables = [
        variable
        for position, exchange in ordered
        for variable in rng.shuffled(list(_variables(position, exchange)))
    ]
    variables.sort(key=lambda variable: variable.name not in focus)
    for first in variables:
        # Those in exchanges that name something of the focus come first, in either loop.
        partners = [v for v in variables if v.slot == first.slot]
        for second in (partners if first.name in focus else rng.shuffled(partners))[:4]:
            if not _alike(first.slot, first.name, second.name):
                continue
            if first.position == second.position:
                if first.role == second.role:  # "the hall and the den" say the same swapped
                    continue
                one = _renamed(exchanges[first.position], first, second.name)
                yield _with(exchanges, {first.position: _renamed(one, second, first.name)})
            else:
                yield _with(
                    exchanges,
                    {
                        first.position: _renamed(exchanges[first.position], first, second.name),
                        second.position: _renamed(exchanges[second.position], second, first.name),
                    },
                )


_EDITS: dict[
    str, Callable[[tuple[Exchange, ...], Vocabulary, Sequence[str], StableRandom], Iterator[Edit]]
] = {
    "Negation": _negation,
    "Variable Substitution": _substitution,
    "Quantity Change": _quantity_change,
    "Variable Swap": _swap,
    "Quantifier Change": _quantifier_change,
    "Logical Connective Change": _connective_change,
    "Injecting Inconsistent Data": _inconsistent_data,
}
