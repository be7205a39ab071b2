"""The paper's seven alterations, applied to the exchanges of a dialogue (paper, section 4).

An alteration changes one detail of one exchange or swaps two names. Everything else stays, and so
do the phrases, so the text remains grammatical, and "them" and "there" refer to whatever they now
stand for. The meaning of the altered dialogue is computed anew.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

from pragworld_tasks.dialogues.sentences import is_one
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import WOMEN, Names, number_of
from pragworld_tasks.dialogues.world import (
    ALL,
    MOST_NUMBER,
    NOWHERE,
    REPLIER,
    SOME,
    THE,
    Amount,
    Claim,
    Exchange,
    Oddity,
)

_WORDINGS = 1000  # far more than there are sentences with inconsistent data

NameKind = Literal["agents", "things", "places"]


class Edit(NamedTuple):
    """An alteration of a dialogue.

    Attributes:
        altered: The altered exchanges, by position.
        direction: Which of its two directions the alteration took, or "" if it has only one.
    """

    altered: dict[int, Exchange]
    direction: str = ""


class _Original(NamedTuple):
    """A dialogue to alter; the fields are the arguments of `edits`."""

    exchanges: tuple[Exchange, ...]
    vocabulary: Names
    focus: Sequence[str]
    rng: StableRandom

    def shuffled(self) -> list[tuple[int, Exchange]]:
        """Return the exchanges in random order, those with most names of the focus first."""
        numbered = self.rng.shuffled(list(enumerate(self.exchanges)))
        if not self.focus:
            return numbered
        focus = set(self.focus)
        return sorted(numbered, key=lambda item: -len(focus.intersection(item[1].names)))


def edits(
    alteration: str,
    exchanges: Sequence[Exchange],
    vocabulary: Names,
    focus: Sequence[str],
    rng: StableRandom,
) -> Iterator[Edit]:
    """Yield alterations in random order. Some of them may make the dialogue contradictory.

    Args:
        alteration: One of `documents.ALTERATIONS`.
        exchanges: The dialogue.
        vocabulary: Source of new people, things and places.
        focus: Names and numbers to alter first, and to introduce first.
        rng: Source of randomness.
    """
    return _EDITS[alteration](_Original(tuple(exchanges), vocabulary, focus, rng))


def _negation(original: _Original) -> Iterator[Edit]:
    for position, exchange in original.shuffled():
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
            negated = exchange._replace(reply=reply._replace(denied=not reply.denied))
            yield Edit({position: negated}, "remove" if reply.denied else "add")
        elif reply == "yes" and exchange.amount != ALL:
            yield Edit({position: exchange._replace(reply="no")}, "add")
        elif reply == "no":
            yield Edit({position: exchange._replace(reply="yes")}, "remove")


def _quantity_change(original: _Original) -> Iterator[Edit]:
    focus = [int(name) for name in original.focus if name.isdigit()]
    for position, exchange in original.shuffled():
        kind, numbers = exchange.claim.amount
        if not numbers:
            continue
        others: list[tuple[int, ...]]
        if kind == "either":  # "two or three" becomes "one or two" or "three or four"
            others = [tuple(number + step for number in numbers) for step in (-1, 1)]
        else:
            near = [number + step for number in focus for step in (0, 1)]
            others = [(n,) for n in (*near, *original.rng.sample(range(1, MOST_NUMBER + 1), 2))]
        after = [later.form for later in original.exchanges[position + 1 :] if later.form != "sure"]
        lowest = 2 if after[:1] in (["still"], ["who"], ["count"]) else 1  # "they" are several
        for other in others:
            if other != numbers and lowest <= other[0] and other[-1] <= MOST_NUMBER:
                reply = exchange.claim._replace(amount=Amount(kind, other))
                yield Edit({position: exchange._replace(reply=reply)})


def _quantifier_change(original: _Original) -> Iterator[Edit]:
    opposite = {ALL: SOME, SOME: ALL}
    for position, exchange in original.shuffled():
        # After any other reply, a changed question would leave the meaning as it is.
        if exchange.amount in opposite and exchange.reply == "yes":
            amount = opposite[exchange.amount]
            yield Edit({position: exchange._replace(amount=amount)}, amount.kind)
        if exchange.claim.amount in opposite:
            amount = opposite[exchange.claim.amount]
            reply = exchange.claim._replace(amount=amount)
            yield Edit({position: exchange._replace(reply=reply)}, amount.kind)


def _connective_change(original: _Original) -> Iterator[Edit]:
    for position, exchange in original.shuffled():
        claim = exchange.claim
        if claim.connective in ("and", "or"):
            connective: Literal["and", "or"] = "or" if claim.connective == "and" else "and"
            altered = exchange._replace(reply=claim._replace(connective=connective))
            yield Edit({position: altered}, connective)


def _inconsistent_data(original: _Original) -> Iterator[Edit]:
    names = original.rng.shuffled(_names(original.exchanges)["places"])
    places = [*(name for name in names if name in original.focus), *names]
    for position, exchange in original.shuffled():
        _, things, _ = exchange.claimed
        if (
            exchange.form not in ("did", "where", "amount", "count", "what")
            or exchange.oddity
            or len(things) != 1
            or exchange.reply in ("unknown", "likely", "no")
            or exchange.claim.denied
            or is_one(exchange.claim.amount)
        ):
            continue
        after = original.exchanges[position + 1 : position + 2]
        if after and after[0].form == "sure":
            continue  # "are you sure?" would be ambiguous between the reply and the oddity
        directions = {None: "staying", NOWHERE: "vanishing"}
        for place in original.rng.shuffled((*places[:2], NOWHERE, None)):
            oddity = Oddity(place, original.rng.below(_WORDINGS))
            direction = directions.get(place, "moving")
            yield Edit({position: exchange._replace(oddity=oddity)}, direction)


# Variables: people, things, places ----------------------------------------------------------------


class _Variable(NamedTuple):
    """One occurrence of a name.

    Attributes:
        position: Number of the exchange.
        slot: What the name stands for.
        role: Whether the name is in the question, in the claim, its source, or in the oddity.
        number: Which of the names in the slot of the claim it is.
        name: The name.
    """

    position: int
    slot: NameKind
    role: Literal["question", "claim", "source", "oddity"]
    number: int
    name: str


# The field of an exchange for each slot of a claim.
_FIELDS: dict[NameKind, str] = {"agents": "agent", "things": "thing", "places": "place"}


@lru_cache(16)  # whoever alters a dialogue asks for many edits of it
def _variables(exchanges: tuple[Exchange, ...]) -> list[list[_Variable]]:
    """Return the variables of each exchange."""
    return [list(_each_variable(*numbered)) for numbered in enumerate(exchanges)]


@lru_cache(16)
def _names(exchanges: tuple[Exchange, ...]) -> dict[NameKind, list[str]]:
    """Return the names that a dialogue has in each slot, in order."""
    variables = list(chain(*_variables(exchanges)))
    return {
        slot: list(dict.fromkeys(variable.name for variable in variables if variable.slot == slot))
        for slot in _FIELDS
    }


def _each_variable(position: int, exchange: Exchange) -> Iterator[_Variable]:
    agent, thing, place = exchange[1:4]
    asked: tuple[tuple[NameKind, str | None], ...]
    asked = (("agents", agent), ("things", thing), ("places", place))
    for slot, name in asked:
        if name is not None and name != REPLIER:
            yield _Variable(position, slot, "question", 0, name)
    if isinstance(exchange.reply, Claim):
        agents, things, places, _, _, source, *_ = exchange.reply
        claimed: tuple[tuple[NameKind, tuple[str, ...]], ...]
        claimed = (("agents", agents), ("things", things), ("places", places))
        for slot, names in claimed:
            for number, name in enumerate(names):
                # "Lily said she …" has one variable.
                if name != REPLIER and not (slot == "agents" and name == source):
                    yield _Variable(position, slot, "claim", number, name)
        if source is not None and source != agent:
            yield _Variable(position, "agents", "source", 0, source)
    if exchange.oddity and exchange.oddity.place:
        yield _Variable(position, "places", "oddity", 0, exchange.oddity.place)


def _renamed(exchange: Exchange, variable: _Variable, name: str) -> Exchange:
    """Return the exchange with another name for the variable."""
    _, slot, role, number, before = variable
    if role == "oddity":
        assert exchange.oddity is not None
        return exchange._replace(oddity=exchange.oddity._replace(place=name))
    claim = exchange.claim
    changes: dict[str, Any]
    if role == "question":
        changes = {_FIELDS[slot]: name}
        if slot == "agents" and claim.source == before:  # "Did Lily …?" "She said …"
            changes["reply"] = claim._replace(source=name)
        return exchange._replace(**changes)
    if role == "source":
        agents = tuple(name if agent == before else agent for agent in claim.agents)
        changes = {"source": name, "agents": agents}
    else:
        names = getattr(claim, slot)
        changes = {slot: (*names[:number], name, *names[number + 1 :])}
    return exchange._replace(reply=claim._replace(**changes))


def _interchangeable(slot: NameKind, name: str, other: str) -> bool:
    """Return whether one name can replace the other while "she" remains "she"."""
    if slot == "things":
        return name != other and number_of(name) == number_of(other)
    return name != other and (slot != "agents" or (name in WOMEN) == (other in WOMEN))


def _substitution(original: _Original) -> Iterator[Edit]:
    focus, rng = original.focus, original.rng
    variables, names = _variables(original.exchanges), _names(original.exchanges)
    known: dict[NameKind, list[str]] = {}
    outside_focus = []
    for position, exchange in original.shuffled():
        for variable in rng.shuffled(variables[position]):
            slot, name = variable.slot, variable.name
            if slot not in known:
                known[slot] = rng.shuffled(names[slot])
            near = [other for other in known[slot] if other in focus]
            far = [rng.choice(known[slot]), rng.choice(getattr(original.vocabulary, slot))]
            if focus:
                del far[rng.below(2)]  # one is enough to replace a name of the focus
            for other in dict.fromkeys([*near, *far]):
                if not _interchangeable(slot, name, other):
                    continue
                if focus and name not in focus and other not in focus:
                    outside_focus.append((variable, other))
                else:
                    yield Edit({position: _renamed(exchange, variable, other)})
    for variable, other in outside_focus:
        renamed = _renamed(original.exchanges[variable.position], variable, other)
        yield Edit({variable.position: renamed})


def _swap(original: _Original) -> Iterator[Edit]:
    all_variables = _variables(original.exchanges)
    variables = [
        variable
        for position, _ in original.shuffled()
        for variable in original.rng.shuffled(all_variables[position])
    ]
    variables.sort(key=lambda variable: variable.name not in original.focus)
    by_slot: dict[NameKind, list[_Variable]] = {slot: [] for slot in _FIELDS}
    for variable in variables:
        by_slot[variable.slot].append(variable)
    for first in variables:
        # Exchanges with names of the focus come first, in either loop.
        partners = by_slot[first.slot]
        if first.name not in original.focus:
            partners = original.rng.shuffled(partners)
        for second in partners[:4]:
            if not _interchangeable(first.slot, first.name, second.name):
                continue
            if first.position == second.position and first.role == second.role:
                continue  # "the hall and the den" means the same when swapped
            altered: dict[int, Exchange] = {}
            for variable, name in ((first, second.name), (second, first.name)):
                exchange = altered.get(variable.position, original.exchanges[variable.position])
                altered[variable.position] = _renamed(exchange, variable, name)
            yield Edit(altered)


_EDITS: dict[str, Callable[[_Original], Iterator[Edit]]] = {
    "Negation": _negation,
    "Variable Substitution": _substitution,
    "Quantity Change": _quantity_change,
    "Variable Swap": _swap,
    "Quantifier Change": _quantifier_change,
    "Logical Connective Change": _connective_change,
    "Injecting Inconsistent Data": _inconsistent_data,
}
