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
    REPLIER,
    SOME,
    THE,
    Amount,
    Claim,
    Exchange,
)

_WORDINGS = 1000  # far more than there are clauses with inconsistent data
_MOST_PARTNERS = 4  # variables to try to swap with each

NameKind = Literal["agents", "things", "places"]


class Edit(NamedTuple):
    """The altered exchanges, by position, and which of two directions the alteration took."""

    altered: dict[int, Exchange]
    direction: str = ""


class Focus(NamedTuple):
    """What alterations have to bear on."""

    thing: str  # that every altered exchange is about, before or after the alteration
    names: tuple[str, ...]  # to introduce first
    positions: frozenset[int]  # where the exchanges are about the thing
    is_new: bool  # whether the thing may be introduced elsewhere, too


class _Original(NamedTuple):
    """A dialogue to alter; the fields are the arguments of `edits`."""

    exchanges: tuple[Exchange, ...]
    vocabulary: Names
    rng: StableRandom
    focus: Focus | None

    def shuffled(self) -> list[tuple[int, Exchange]]:
        """Return the exchanges in the focus, or all if there is none, in random order."""
        numbered = self.rng.shuffled(list(enumerate(self.exchanges)))
        if self.focus is None:
            return numbered
        return [item for item in numbered if item[0] in self.focus.positions]

    def form_after(self, position: int) -> str:
        """Return the form of the next question, or "" if there is none."""
        after = self.exchanges[position + 1 : position + 2]
        return after[0].form if after else ""


def edits(
    alteration: str,
    exchanges: Sequence[Exchange],
    vocabulary: Names,
    rng: StableRandom,
    focus: Focus | None = None,
) -> Iterator[Edit]:
    """Yield alterations in random order. Some of them may make the dialogue contradictory.

    New people, things and places come from the vocabulary.
    """
    return _EDITS[alteration](_Original(tuple(exchanges), vocabulary, rng, focus))


def _negation(original: _Original) -> Iterator[Edit]:
    # Yes and no first: "Where are they?" "They aren't in the hall." leaves more to wish for.
    candidates = sorted(original.shuffled(), key=lambda item: bool(item[1].claim.places))
    for position, exchange in candidates:
        reply = exchange.reply
        if isinstance(reply, Claim):
            if (
                exchange.form not in ("where", "where to")
                or reply.amount != THE
                or reply.agents  # "Where are they?" "She did not leave them there."
                or len(reply.places) > (2 if exchange.form == "where" else 1)
                or reply.connective not in (None, "or")
            ):
                continue
            negated = exchange._replace(reply=reply._replace(denied=not reply.denied))
            yield Edit({position: negated}, "remove" if reply.denied else "add")
        elif reply == "yes" and exchange.amount != ALL:
            yield Edit({position: exchange._replace(reply="no")}, "add")
        elif reply == "no":
            after = original.form_after(position)
            if exchange.form != "did" or after not in ("went", "where to"):  # "Where was she then?"
                yield Edit({position: exchange._replace(reply="yes")}, "remove")


def _quantity_change(original: _Original) -> Iterator[Edit]:
    for position, exchange in original.shuffled():
        kind, numbers = exchange.claim.amount
        if not numbers:
            continue
        others: list[tuple[int, ...]]
        if kind == "either":  # "two or three" becomes "one or two" or "three or four"
            others = [tuple(number + step for number in numbers) for step in (-1, 1)]
        else:
            others = [(n,) for n in original.rng.sample(range(1, MOST_NUMBER + 1), 2)]
        lowest = 2 if original.form_after(position) == "count" else 1  # "they" are several
        for other in others:
            if other != numbers and lowest <= other[0] and other[-1] <= MOST_NUMBER:
                reply = exchange.claim._replace(amount=Amount(kind, other))
                yield Edit({position: exchange._replace(reply=reply)})


def _quantifier_change(original: _Original) -> Iterator[Edit]:
    opposite = {ALL: SOME, SOME: ALL}
    for position, exchange in original.shuffled():
        if exchange.amount in opposite and exchange.reply != "no":
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
    for position, exchange in original.shuffled():
        _, things, _ = exchange.claimed
        if (
            exchange.form not in ("did", "where", "amount", "count")
            or len(things) != 1
            or exchange.reply in ("unknown", "likely", "no")
            or exchange.claim.denied
            or is_one(exchange.claim.amount)
        ):
            continue
        yield Edit({position: exchange._replace(oddity=original.rng.below(_WORDINGS))})


# Variables: people, things, places ----------------------------------------------------------------


class _Variable(NamedTuple):
    """One occurrence of a name.

    Attributes:
        position: Number of the exchange.
        number: Which of the names in the slot of the claim it is.
    """

    position: int
    slot: NameKind
    role: Literal["question", "claim", "source"]
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
    for slot, name in zip(_FIELDS, (agent, thing, place), strict=True):
        if name is not None and name != REPLIER:
            yield _Variable(position, slot, "question", 0, name)
    if isinstance(exchange.reply, Claim):
        agents, things, places, _, _, source, *_ = exchange.reply
        for slot, names in zip(_FIELDS, (agents, things, places), strict=True):
            for number, name in enumerate(names):
                # "Lily said she …" has one variable.
                if name != REPLIER and not (slot == "agents" and name == source):
                    yield _Variable(position, slot, "claim", number, name)
        if source is not None and source != agent:
            yield _Variable(position, "agents", "source", 0, source)


def _renamed(exchange: Exchange, variable: _Variable, name: str) -> Exchange:
    """Return the exchange with another name for the variable."""
    _, slot, role, number, before = variable
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


def _may_replace(variable: _Variable, other: str) -> bool:
    """Return whether another name of the slot can replace a name while "she" remains "she"."""
    slot, name = variable.slot, variable.name
    if slot == "things":
        return name != other and number_of(name) == number_of(other)
    return name != other and (slot != "agents" or (name in WOMEN) == (other in WOMEN))


def _substitution(original: _Original) -> Iterator[Edit]:
    focus, rng = original.focus, original.rng
    variables, names = _variables(original.exchanges), _names(original.exchanges)
    only = focus.positions if focus and not focus.is_new else range(len(variables))
    for position in rng.shuffled(sorted(only)):
        for variable in rng.shuffled(variables[position]):
            slot = variable.slot
            others = [focus.thing] if focus and slot == "things" else []
            if not focus or position in focus.positions:
                near = [name for name in focus.names if name in names[slot]] if focus else []
                far = rng.choice(names[slot]), rng.choice(getattr(original.vocabulary, slot))
                others = [*near, *far]
            for other in dict.fromkeys(others):
                if _may_replace(variable, other):
                    renamed = _renamed(original.exchanges[position], variable, other)
                    yield Edit({position: renamed})


def _swap(original: _Original) -> Iterator[Edit]:
    rng = original.rng
    all_variables = _variables(original.exchanges)
    by_slot: dict[NameKind, list[_Variable]] = {slot: [] for slot in _FIELDS}
    for variable in rng.shuffled(list(chain(*all_variables))):
        by_slot[variable.slot].append(variable)
    for position, _ in original.shuffled():
        for first in rng.shuffled(all_variables[position]):
            for second in rng.sample(by_slot[first.slot], _MOST_PARTNERS):
                if not _may_replace(first, second.name):
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
