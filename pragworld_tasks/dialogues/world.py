"""Exchanges, and the state of the world and of people's knowledge that they leave behind.

A dialogue is a sequence of exchanges: one person asks, the other replies. This module says what
such a sequence means, without any words. The conventions are those of the PragWorld data:

- What was never said does not hold: a question asks whether the dialogue establishes something.
- Scalar implicature: "some of the pears" are not all of them; "three pears" are exactly three.
- "The pears" are all of the pears that the dialogue is about.
- "A or B" and "A if not B" mean one of the two and leave open which.
- What somebody is reported to have said is taken as said truly, and whoever said it knows it.
- Whoever puts things somewhere knows where they are, until somebody else moves them. All of one
  kind that lie in one place were put there together.
- "I don't know", or "no" to "are you sure?", leaves open what was asked.

A dialogue that contradicts itself, or that takes an inference to make sense of (an alternative of
which one half is denied elsewhere, say), has no meaning here: `Unclear` is raised.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

Form = Literal[
    "did",  # did the agent leave the things in the place?
    "where",  # where are the things?
    "amount",  # are any, some or all of the things in the place?
    "count",  # how many of the things are in the place?
    "what",  # what did the agent leave in the place? or: what is in the place?
    "who",  # who left them there?
    "still",  # are they still there?
    "knows",  # does the agent know where the things are?
    "sure",  # are you sure?
    "went",  # did the agent go to the place?
    "where to",  # where did the agent go?
    "chat",  # nothing that matters
]
Connective = Literal["and", "or", "if not"]
MOST_NUMBER = 9
REPLIER = "you"  # the one who replies, where an agent is named


class Unclear(Exception):  # noqa: N818
    """The exchanges contradict each other, or a "them" or "there" has nothing to refer to."""


class Amount(NamedTuple):
    """How many of the things.

    Attributes:
        kind: "the" and "all" are all of them, "some" is not all, "any" is one or more.
        numbers: of "number" the one; of "either" the two that it may be; of "at least" the one.
    """

    kind: Literal["the", "all", "some", "any", "number", "either", "at least"]
    numbers: tuple[int, ...] = ()


THE = Amount("the")
ALL = Amount("all")
SOME = Amount("some")
ANY = Amount("any")


class Claim(NamedTuple):
    """What a reply says beyond yes, no and "I don't know". An empty slot is what was asked about.

    At most one of agents, things and places has two members, which the connective joins.

    Attributes:
        agents: who put the things there; empty also where nobody was asked about.
        source: who is reported to have said so.
        denied: the claim is said not to hold. Then it has no amount but "the".
    """

    agents: tuple[str, ...] = ()
    things: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    amount: Amount = THE
    connective: Connective | None = None
    source: str | None = None
    denied: bool = False


class Oddity(NamedTuple):
    """Something that common sense contradicts, said of the things in a reply.

    Attributes:
        place: where the things went by themselves; None where nothing in the world changes.
        wording: which of the phrases, counted through.
    """

    place: str | None
    wording: int


class Exchange(NamedTuple):
    """A question and its reply.

    Attributes:
        agent, thing, place: what is asked about, as far as the form has it. None, where the form
            has it: the one of the exchange before ("she", "them", "there").
        amount: asked about, of the form "amount".
        reply: yes, no, "unknown", or a claim.
        wordings: which of the forms of words question and reply take, counted through.
    """

    form: Form
    agent: str | None = None
    thing: str | None = None
    place: str | None = None
    amount: Amount = THE
    reply: Literal["yes", "no", "unknown"] | Claim = "unknown"
    oddity: Oddity | None = None
    wordings: tuple[int, int] = (0, 0)

    @property
    def claim(self) -> Claim:
        """The reply if it is a claim; otherwise one with nothing in it."""
        reply = self.reply
        return reply if isinstance(reply, Claim) else _NO_CLAIM

    @property
    def agents(self) -> tuple[str, ...]:
        """The people that it names, in question and reply."""
        claim = self.claim
        named = claim.agents if claim.source is None else (*claim.agents, claim.source)
        return named if self.agent is None else (self.agent, *named)

    @property
    def things(self) -> tuple[str, ...]:
        """The things that it names."""
        named = self.claim.things
        return named if self.thing is None else (self.thing, *named)

    @property
    def places(self) -> tuple[str, ...]:
        """The places that it names."""
        named = self.claim.places
        if self.oddity and self.oddity.place:
            named = (*named, self.oddity.place)
        return named if self.place is None else (self.place, *named)

    @property
    def names(self) -> tuple[str, ...]:
        """Everybody and everything that it names."""
        return self.agents + self.things + self.places


_NO_CLAIM = Claim()
NOTHING_SAID = Exchange("chat")


ASKS_AGENT: frozenset[Form] = frozenset(("did", "knows", "went", "where to"))
ASKS_THING: frozenset[Form] = frozenset(
    ("did", "where", "amount", "count", "who", "still", "knows")
)
ASKS_PLACE: frozenset[Form] = frozenset(("did", "amount", "count", "what", "who", "still", "went"))


def resolve(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """The exchanges with every "she", "them" and "there" replaced by what it refers to.

    It refers to the only one that the exchange before mentions.

    Raises:
        Unclear: the exchange before mentions none, or several.
    """
    resolved: list[Exchange] = []
    before = NOTHING_SAID  # the last one that names anybody or anything
    for exchange in exchanges:
        exchange = resolve_one(exchange, before)
        resolved.append(exchange)
        if exchange.form != "sure":  # which is about the one before it, and so is what follows
            before = exchange
    return resolved


def resolve_one(exchange: Exchange, before: Exchange) -> Exchange:
    """The exchange as `resolve` returns it, from the one before it that is not "sure"."""
    form, agent, thing, place, amount, reply, oddity, wordings = exchange
    asked = agent, thing, place
    if agent is None and form in ASKS_AGENT:
        agent = _only(before.agents)
    if thing is None and form in ASKS_THING:
        thing = _only(before.things)
    if place is None and form in ASKS_PLACE:
        place = _only(before.places)
    if (agent, thing, place) == asked:
        return exchange
    return Exchange(form, agent, thing, place, amount, reply, oddity, wordings)


def _only(mentioned: Sequence[str]) -> str:
    names = set(mentioned)
    if len(names) != 1 or REPLIER in names:
        raise Unclear("nothing, or several things, to refer to")
    return names.pop()


def about(things: set[str], exchanges: Sequence[Exchange]) -> Iterator[Exchange]:
    """Those of the resolved exchanges that speak of the things, and of where people went."""
    taken = False
    for exchange in exchanges:
        form = exchange.form
        if form != "sure":  # which goes with the one before
            taken = form in ("went", "where to") or not things.isdisjoint(exchange.things)
        if taken:
            yield exchange


class Mentioned(NamedTuple):
    """All that a dialogue mentions, in order."""

    agents: tuple[str, ...]
    things: tuple[str, ...]
    places: tuple[str, ...]


def mentioned(exchanges: Sequence[Exchange]) -> Mentioned:
    """All that the exchanges, as `resolve` returns them, mention."""
    return Mentioned(
        tuple(dict.fromkeys(name for each in exchanges for name in each.agents)),
        tuple(dict.fromkeys(name for each in exchanges for name in each.things)),
        tuple(dict.fromkeys(name for each in exchanges for name in each.places)),
    )


@dataclass(slots=True)
class Cell:
    """What is known of the things of one kind in one place, where there are some.

    Attributes:
        whole: whether all of that kind are there; None: not known.
        counts: the numbers that it may be; empty: any.
        least: the smallest number that it may be.
        agents: who put them there; empty: not known.
        one_agent_of: two people of whom one put them there.
        by_itself: nobody put them there.
        moved_from: the cell of where they were before, which what is learned now is true of too.
    """

    whole: bool | None = None
    counts: tuple[int, ...] = ()
    least: int = 1
    agents: frozenset[str] = frozenset()
    one_agent_of: frozenset[str] = frozenset()
    by_itself: bool = False
    moved_from: "Cell | None" = None

    def refine(self, amount: Amount) -> None:
        """Adds what is said of the amount. Raises `Unclear` where it does not fit."""
        if self.moved_from is not None:
            self.moved_from.refine(amount)
        kind, numbers = amount
        if kind in ("the", "all", "some"):
            whole = kind != "some"
            if self.whole is not None and self.whole != whole:
                raise Unclear("all, and not all")
            self.whole = whole
        elif kind != "any":
            counts = () if kind == "at least" else numbers
            known = bool(self.counts) or self.least > 1
            if known and (counts, min(numbers)) != (self.counts, self.least):
                raise Unclear("one number, and another")
            self.counts, self.least = counts, min(numbers)


Open = tuple[Literal["where", "whether", "count", "who", "where to"], str, str]


@dataclass(slots=True)
class State:
    """What the exchanges have established. "Thing" is short for a kind of things, all of them.

    Attributes:
        cells: by thing and place, what is known of the things that lie there now.
        acts: by agent, thing and place, what was put there by whom, wherever it is now.
        absent: thing and place where there are none.
        not_acts: agent, thing and place of what was not done.
        alternatives: things of which it is open whether they are here or there, or whether it is
            they or others that are here; with the places that come into question.
        spread: things that are known to lie in several places, and in which.
        moved: agent, thing and place of things that were moved there.
        left: thing and place that things were moved away from.
        was_at: agent and place of who took things away from there.
        asked_where: things whose place has been asked for.
        went, not_went, maybe_went: agent and place; the last of several of which one is true.
        knowers, not_knowers: thing and agent: who knows, or does not, where the things are.
        maybe_knowers: thing and agent: who knows if it is they, or these, and not the others.
        said: thing and agent: who is reported to have said where the things are.
        open: what was asked and got no answer that could be relied on.
    """

    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    acts: dict[tuple[str, str, str], Cell] = field(default_factory=dict)
    absent: set[tuple[str, str]] = field(default_factory=set)
    not_acts: set[tuple[str, str, str]] = field(default_factory=set)
    alternatives: dict[str, tuple[str, ...]] = field(default_factory=dict)
    spread: set[str] = field(default_factory=set)
    moved: set[tuple[str, str, str]] = field(default_factory=set)
    left: set[tuple[str, str]] = field(default_factory=set)
    was_at: set[tuple[str, str]] = field(default_factory=set)
    asked_where: set[str] = field(default_factory=set)
    went: set[tuple[str, str]] = field(default_factory=set)
    not_went: set[tuple[str, str]] = field(default_factory=set)
    maybe_went: set[tuple[str, str]] = field(default_factory=set)
    knowers: set[tuple[str, str]] = field(default_factory=set)
    not_knowers: set[tuple[str, str]] = field(default_factory=set)
    maybe_knowers: set[tuple[str, str]] = field(default_factory=set)
    said: set[tuple[str, str]] = field(default_factory=set)
    open: set[Open] = field(default_factory=set)

    def cell(self, thing: str, place: str) -> Cell | None:
        """What is known of the things in the place; None where it is not known that any are."""
        cells = self.cells.get(thing)
        return cells.get(place) if cells else None

    def put(self, thing: str, place: str, amount: Amount, spread: bool = False) -> None:
        """So many of the things are in the place."""
        if (
            thing in self.alternatives
            or (thing, place) in self.absent
            or (thing, place) in self.left
            or ("whether", thing, place) in self.open
        ):
            raise Unclear("there, and perhaps not there")
        cells = self.cells.setdefault(thing, {})
        cell = cells.get(place)
        if cell is None:
            if ("where", thing, "") in self.open or (thing in self.spread and not spread):
                raise Unclear("there, and nobody knows where")
            cell = cells[place] = Cell()
        cell.refine(amount)
        if (cell.counts or cell.least > 1) and ("count", thing, place) in self.open:
            raise Unclear("so many, and nobody knows how many")
        if len(cells) > 1 and any(other.whole for other in cells.values()):
            raise Unclear("all of them here, and some there")

    def put_by(self, thing: str, place: str, agents: Sequence[str], one: bool = False) -> None:
        """The agents together, or one of them, put there what is there of the things."""
        cell, names = self.cells[thing][place], frozenset(agents)
        before = cell.one_agent_of if one else cell.agents
        after = cell.agents if one else cell.one_agent_of
        if cell.by_itself or after or before not in (frozenset(), names):
            raise Unclear("put there by one, and by another")
        if ("who", thing, place) in self.open or any(
            (agent, thing, place) in self.not_acts for agent in agents
        ):
            raise Unclear("put there by one who did not")
        if one:
            cell.one_agent_of = names
            for agent in agents:
                self.maybe_know(thing, agent)
            return
        cell.agents = names
        for agent in agents:
            self.acts[agent, thing, place] = cell
            self.know(thing, agent)

    def deny_act(self, agent: str, thing: str, place: str) -> None:
        """The agent did not put any of the things there."""
        cell = self.cell(thing, place)
        if (agent, thing, place) in self.acts or (cell and agent in cell.one_agent_of):
            raise Unclear("did, and did not")
        if place in self.alternatives.get(thing, ()) or (thing, place) in self.left:
            raise Unclear("of two places, one that it was not put in")
        self.not_acts.add((agent, thing, place))

    def deny_place(self, thing: str, place: str) -> None:
        """None of the things are in the place."""
        if (
            self.cell(thing, place)
            or thing in self.alternatives
            or (thing, place) in self.left
            or ("whether", thing, place) in self.open
            or ("count", thing, place) in self.open
        ):
            raise Unclear("not there, and perhaps there")
        self.absent.add((thing, place))

    def leave_alternatives(self, thing: str, places: Sequence[str]) -> None:
        """It is open whether the things are here or there, or whether it is they that are here."""
        if (
            self.cells.get(thing)
            or thing in self.alternatives
            or any(thing == name for name, _ in self.absent)
            or any(thing == name for _, name, _ in self.not_acts)
            or any(thing == name for _, name, _ in self.open)
        ):
            raise Unclear("one of several, and more is known of it")
        self.alternatives[thing] = tuple(places)

    def leave_open(self, what: Open) -> None:
        """What was asked got no answer, or none to be relied on."""
        kind, thing, place = what
        cell = self.cell(thing, place)
        if (
            thing in self.alternatives
            or (kind == "where" and self.cells.get(thing))
            or (kind == "whether" and (cell or (thing, place) in self.absent))
            or (kind == "count" and cell and (cell.counts or cell.least > 1))
            or (kind == "count" and (thing, place) in self.absent)
            or (kind == "who" and cell and (cell.agents or cell.one_agent_of or cell.by_itself))
        ):
            raise Unclear("known, and not known")
        self.open.add(what)

    def maybe_know(self, thing: str, agent: str) -> None:
        """The agent knows where the things are, or it is others that put them there."""
        if (thing, agent) in self.not_knowers:
            raise Unclear("may know, and does not know")
        self.maybe_knowers.add((thing, agent))

    def know(self, thing: str, agent: str) -> None:
        """The agent knows where the things are."""
        if (thing, agent) in self.not_knowers:
            raise Unclear("knows, and does not know")
        self.knowers.add((thing, agent))

    def move(self, thing: str, place: str, to: str, agent: str | None) -> None:
        """What was in the place is in another now: by itself, if by no agent."""
        cells = self.cells.get(thing, {})
        if place not in cells or len(cells) > 1 or (thing, place) in self.left:
            raise Unclear("moved from where they are not, or not only")
        if (
            to == place
            or (thing, to) in self.absent
            or (thing, to) in self.left
            or any((thing, to) == each[1:] for each in self.open)
            or any((thing, to) == each[1:] for each in self.not_acts)
        ):
            raise Unclear("moved to where they were, or may be, or are not")
        cell = cells.pop(place)
        self.left.add((thing, place))
        self.knowers = {known for known in self.knowers if known[0] != thing}
        cells[to] = replace(
            cell,
            agents=frozenset(),
            one_agent_of=frozenset(),
            by_itself=agent is None,
            moved_from=cell,
        )
        self.maybe_knowers = {known for known in self.maybe_knowers if known[0] != thing}
        if agent is not None:
            self.put_by(thing, to, (agent,))
            self.moved.add((agent, thing, to))
            self.was_at.add((agent, place))


def interpret(exchanges: Sequence[Exchange]) -> State:
    """What the exchanges establish, one after the other.

    Args:
        exchanges: as `resolve` returns them.

    Raises:
        Unclear: they contradict each other.
    """
    state = State()
    last = len(exchanges) - 1
    for position, exchange in enumerate(exchanges):
        reply = exchange.reply
        if isinstance(reply, Claim) and reply.connective and _same_twice(reply):
            raise Unclear("the same twice")
        if _forgets(exchange):
            raise Unclear("whoever replies does not know what he did himself")
        if position < last:
            after = exchanges[position + 1]
            if after.form == "sure" and exchange.oddity:
                raise Unclear("sure of the reply, or of what is odd")
            if after.form == "sure" and after.reply == "no":
                exchange = exchange._replace(reply="unknown", oddity=None)
        _UPDATES[exchange.form](state, exchange)
        if exchange.oddity and exchange.oddity.place:
            _move_by_itself(state, exchange, exchange.oddity.place)
    return state


def _same_twice(claim: Claim) -> bool:
    return any(len(names) == 2 and names[0] == names[1] for names in claim[:3])


def _forgets(exchange: Exchange) -> bool:
    """Whether the reply leaves open what whoever gives it has done."""
    reply = exchange.reply
    if reply == "unknown":
        return exchange.agent == REPLIER
    if isinstance(reply, Claim) and reply.connective in ("or", "if not"):
        return REPLIER in reply.agents or (exchange.agent == REPLIER and not reply.agents)
    return False


def _asked(exchange: Exchange) -> tuple[str, str]:
    """The thing and the place that are asked about, both of which the form has."""
    assert exchange.thing is not None
    assert exchange.place is not None
    return exchange.thing, exchange.place


def _claim(state: State, exchange: Exchange, claim: Claim) -> None:
    """Adds what a claim says."""
    agents = claim.agents
    if not agents and exchange.agent is not None:
        agents = (exchange.agent,)
    things = claim.things or ((exchange.thing,) if exchange.thing else ())
    places = claim.places or ((exchange.place,) if exchange.place else ())
    if claim.source is not None and not claim.denied:
        for thing in things:
            state.said.add((thing, claim.source))
            state.know(thing, claim.source)
    if claim.denied:
        for thing, place in ((thing, place) for thing in things for place in places):
            if agents:
                for agent in agents:
                    state.deny_act(agent, thing, place)
            else:
                state.deny_place(thing, place)
    elif claim.connective in ("or", "if not") and len(agents) < 2:
        for thing in things:
            state.leave_alternatives(thing, places)
            for agent in agents:
                if len(things) == 1:
                    state.know(thing, agent)
                else:
                    state.maybe_know(thing, agent)
    else:
        spread = len(places) > 1
        if spread and any(set(state.cells.get(thing, ())) - set(places) for thing in things):
            raise Unclear("spread over two places, and in a third")
        for thing, place in ((thing, place) for thing in things for place in places):
            state.put(thing, place, SOME if spread else claim.amount, spread)
            if agents:
                state.put_by(thing, place, agents, one=claim.connective == "or")
        if spread:
            state.spread.update(things)


def _did(state: State, exchange: Exchange) -> None:
    thing, place = _asked(exchange)
    assert exchange.agent is not None
    if isinstance(exchange.reply, Claim):
        agents, things, places, *_ = exchange.reply
        if agents == (exchange.agent,) or things == (thing,) or places == (place,):
            raise Unclear("what was asked is said again, as if it were something else")
        _claim(state, exchange, exchange.reply)
    elif exchange.reply == "yes":
        _claim(state, exchange, _NO_CLAIM)
    elif exchange.reply == "no":
        state.deny_act(exchange.agent, thing, place)
    else:
        state.leave_open(("who", thing, place))


def _where(state: State, exchange: Exchange) -> None:
    assert exchange.thing is not None
    if exchange.thing in state.asked_where:
        raise Unclear("asked for twice")
    state.asked_where.add(exchange.thing)
    if isinstance(exchange.reply, Claim):
        _claim(state, exchange, exchange.reply)
    else:
        state.leave_open(("where", exchange.thing, ""))


def _amount(state: State, exchange: Exchange) -> None:
    thing, place = _asked(exchange)
    if isinstance(exchange.reply, Claim):
        _claim(state, exchange, exchange.reply)
    elif exchange.reply == "yes":
        # "Some" has its "not all" only where it is said, not where it is asked.
        state.put(thing, place, ANY if exchange.amount == SOME else exchange.amount)
    elif exchange.reply == "no":
        if exchange.amount == ALL:
            raise Unclear("not all: some, or none")
        state.deny_place(thing, place)
    else:
        state.leave_open(("whether", thing, place))


def _count(state: State, exchange: Exchange) -> None:
    thing, place = _asked(exchange)
    if state.cell(thing, place) is None and any(
        each[1:] == (thing, place) for each in state.not_acts
    ):
        raise Unclear("how many of what was not put there")
    if isinstance(exchange.reply, Claim):
        _claim(state, exchange, exchange.reply)
    else:
        state.leave_open(("count", thing, place))


def _what(state: State, exchange: Exchange) -> None:
    if isinstance(exchange.reply, Claim):
        _claim(state, exchange, exchange.reply)


def _who(state: State, exchange: Exchange) -> None:
    thing, place = _asked(exchange)
    cell = state.cell(thing, place)
    if cell is None:
        raise Unclear("who put them where they are not")
    if isinstance(exchange.reply, Claim):
        kept = ANY if not cell.whole else ALL  # what is known of the amount stays
        _claim(state, exchange, exchange.reply._replace(amount=kept))
    else:
        state.leave_open(("who", thing, place))


def _still(state: State, exchange: Exchange) -> None:
    thing, place = _asked(exchange)
    if isinstance(exchange.reply, Claim):
        state.move(thing, place, exchange.reply.places[0], exchange.reply.agents[0])
    elif exchange.reply != "yes" or state.cell(thing, place) is None:
        raise Unclear("still there, and perhaps never there")


def _knows(state: State, exchange: Exchange) -> None:
    assert exchange.agent is not None
    assert exchange.thing is not None
    if exchange.reply == "yes":
        state.know(exchange.thing, exchange.agent)
    elif exchange.reply == "no":
        if (exchange.thing, exchange.agent) in state.knowers | state.maybe_knowers:
            raise Unclear("does not know, and knows")
        state.not_knowers.add((exchange.thing, exchange.agent))


def _went(state: State, exchange: Exchange) -> None:
    assert exchange.agent is not None
    agent, reply = exchange.agent, exchange.reply
    if isinstance(reply, Claim):
        visits = {(agent, place) for place in reply.places}
        doubtful = reply.connective == "or"
    else:
        visits = {(agent, exchange.place)} if exchange.place else set()
        doubtful = False
    known = state.went | state.not_went | state.maybe_went
    if ("where to", agent, "") in state.open or any(agent == other for other, _ in known):
        raise Unclear("went there, and more is known of where they went")
    if reply == "unknown":
        state.open.add(("where to", agent, ""))
    elif doubtful:
        state.maybe_went |= visits
    elif reply == "no":
        state.not_went |= visits
    else:
        state.went |= visits


def _nothing(state: State, exchange: Exchange) -> None:
    """Small talk; and whether somebody is sure, which the exchange before has to do with."""


def _move_by_itself(state: State, exchange: Exchange, to: str) -> None:
    claim = exchange.claim
    things = claim.things or (exchange.thing,)
    places = claim.places or (exchange.place,)
    if len(things) > 1 or len(places) > 1 or things[0] is None or places[0] is None:
        raise Unclear("which of them moved, and from where")
    state.move(things[0], places[0], to, None)


_UPDATES = {
    "did": _did,
    "where": _where,
    "amount": _amount,
    "count": _count,
    "what": _what,
    "who": _who,
    "still": _still,
    "knows": _knows,
    "sure": _nothing,
    "went": _went,
    "where to": _went,
    "chat": _nothing,
}
