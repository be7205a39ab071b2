"""The meaning of a dialogue: what its exchanges establish about things, places and people.

A dialogue is a sequence of exchanges. In each, one person asks and the other replies. This module
interprets such a sequence, and `forms` puts it into words. The interpretation follows the
conventions of the PragWorld data:

- Only what the dialogue establishes holds: a question asks whether the dialogue establishes
  something.
- Scalar implicature: "some of the pears" are not all of them, and "three pears" are exactly three.
- "The pears" are all of the pears that the dialogue is about.
- An answer that names something else than the question ("Did she leave the pears there?" "She left
  the plums there.") means no, and so does one that tells where the person was instead.
- A container that is named when things are looked for ("There is a green box in the hall.") has
  some of them in it.
- "A or B" and "A if not B" mean exactly one of the two and leave open which.
- A reported statement is true.
- All things of one kind that are in one place were put there together.
- Nobody puts things in a place, certainly or perhaps, where they did not go.
- "I don't know" and "it is likely" leave the question open.

A dialogue that contradicts itself raises `Unclear`. So does one that only an inference could make
sense of, such as an alternative of which one half is denied elsewhere, and one in which somebody
asks what was told, or about another place than the one where the things are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, NamedTuple

from pragworld_tasks.dialogues.vocabulary import Names, number_of

ExchangeForm = Literal[
    "did",  # did the agent leave the things in the place?
    "where",  # where are the things?
    "amount",  # are some or all of the things in the place?
    "count",  # how many of the things are in the place?
    "went",  # did the agent go to the place?
    "where to",  # where did the agent go?
]
ASKS_AGENT: frozenset[ExchangeForm] = frozenset(("did", "went", "where to"))
ASKS_THING: frozenset[ExchangeForm] = frozenset(("did", "where", "amount", "count"))
ASKS_PLACE: frozenset[ExchangeForm] = frozenset(("did", "amount", "count", "went"))
Connective = Literal["and", "or", "if not"]
MOST_NUMBER = 6
REPLIER = "you"  # the agent who is the speaker that replies


class Unclear(Exception):  # noqa: N818
    """The exchanges contradict each other, or a pronoun has no referent."""


class Amount(NamedTuple):
    """How many of the things.

    Attributes:
        kind: "the" and "all" mean all of them, "some" means not all, "any" means one or more.
        numbers: One number for "number" and "at least", the two possible numbers for "either".
    """

    kind: Literal["the", "all", "some", "any", "number", "either", "at least"]
    numbers: tuple[int, ...] = ()


THE = Amount("the")
ALL = Amount("all")
SOME = Amount("some")
ANY = Amount("any")


class Claim(NamedTuple):
    """What a reply says beyond yes, no and "I don't know".

    An empty slot stands for what the question asks about. At most one of agents, things and places
    has two members, which the connective joins.

    Attributes:
        agents: Who put the things there.
        source: The person who is reported to have said so.
        denied: Whether the claim is negated. A negated claim has the amount "the", and denies both
            of two places.
        then: Where the agent of the claim went afterwards, or, if it is denied, was instead. A
            denied claim with the place of the question says that the agent did not go there.
        container: What is in the place, instead of the things themselves.
    """

    agents: tuple[str, ...] = ()
    things: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    amount: Amount = THE
    connective: Connective | None = None
    source: str | None = None
    denied: bool = False
    then: str | None = None
    container: str | None = None

    @property
    def people(self) -> tuple[str, ...]:
        """The people that the claim names."""
        return self.agents if self.source is None else (*self.agents, self.source)


Reply = Literal["yes", "no", "unknown", "likely"] | Claim
_NO_CLAIM = Claim()


class Exchange(NamedTuple):
    """A question and its reply.

    Attributes:
        agent, thing, place: What the question asks about. If its form asks about such a thing,
            None stands for a pronoun ("she", "them", "there").
        amount: The amount that the form "amount" asks about.
        reply: Yes, no, "unknown", "likely", or a claim.
        oddity: Number of a phrase that the reply ends with, which contradicts common sense and
            leaves everything as it is.
        wordings: Numbers of the phrases for the question and for the reply.
    """

    form: ExchangeForm
    agent: str | None = None
    thing: str | None = None
    place: str | None = None
    amount: Amount = THE
    reply: Reply = "unknown"
    oddity: int | None = None
    wordings: tuple[int, int] = (0, 0)

    @property
    def claim(self) -> Claim:
        """The reply if it is a claim, or else an empty claim."""
        reply = self.reply
        return reply if isinstance(reply, Claim) else _NO_CLAIM

    @property
    def claimed(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """The agents, things and places of the claim, which default to those of the question."""
        claim = self.claim
        return (
            claim.agents or ((self.agent,) if self.agent else ()),
            claim.things or ((self.thing,) if self.thing else ()),
            claim.places or ((self.place,) if self.place else ()),
        )

    @property
    def agents(self) -> tuple[str, ...]:
        """The people that question and reply name."""
        named = self.claim.people
        return named if self.agent is None else (self.agent, *named)

    @property
    def things(self) -> tuple[str, ...]:
        """The things that question and reply name."""
        named = self.claim.things
        return named if self.thing is None else (self.thing, *named)

    @property
    def places(self) -> tuple[str, ...]:
        """The places that question and reply name."""
        claim = self.claim
        named = claim.places if self.place is None else (self.place, *claim.places)
        return named if claim.then is None else (*named, claim.then)


NOTHING_SAID = Exchange("where to")


def resolve(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """Replace every "she", "them" and "there" by the only name that the exchange before has.

    >>> first = Exchange("where", thing="pears", reply=Claim(places=("hall",)))
    >>> resolve([first, Exchange("amount", amount=ALL, reply="yes")])[1].place
    'hall'

    Raises:
        Unclear: The exchange before names none, or several.
    """
    resolved: list[Exchange] = []
    before = NOTHING_SAID
    for exchange in exchanges:
        before = resolve_one(exchange, before)
        resolved.append(before)
    return resolved


def resolve_altered(
    altered: Mapping[int, Exchange], original: Sequence[Exchange], resolved: Sequence[Exchange]
) -> dict[int, Exchange]:
    """Return the exchanges that `altered` ones give another meaning, resolved, by position.

    Raises:
        Unclear: The exchange before a pronoun names nothing that it stands for, or several.
    """
    meant = list(resolved)
    changed: dict[int, Exchange] = {}
    for start in sorted(altered):
        before = meant[start - 1] if start else NOTHING_SAID
        for position in range(start, len(meant)):
            before = resolve_one(altered.get(position, original[position]), before)
            if before == meant[position]:  # nothing that follows refers to what is altered
                break
            meant[position] = changed[position] = before
    return changed


def resolve_one(exchange: Exchange, before: Exchange) -> Exchange:
    """Resolve one exchange, given the one before it."""
    form, agent, thing, place, amount, reply, oddity, wordings = exchange
    if agent is None and form in ASKS_AGENT:
        agent = _only(before.agents)
    if thing is None and form in ASKS_THING:
        thing = _only(before.things)
    if place is None and form in ASKS_PLACE:
        place = _only(before.places)
    if (agent, thing, place) == exchange[1:4]:
        return exchange
    return Exchange(form, agent, thing, place, amount, reply, oddity, wordings)


def _only(names: Sequence[str]) -> str:
    different = set(names)
    if len(different) != 1 or REPLIER in different:
        raise Unclear("a pronoun with no referent, or several")
    return different.pop()


def mentioned(exchanges: Sequence[Exchange]) -> Names:
    """Return the names that resolved exchanges mention, in order."""
    return Names(
        tuple(dict.fromkeys([name for exchange in exchanges for name in exchange.agents])),
        tuple(dict.fromkeys([name for exchange in exchanges for name in exchange.things])),
        tuple(dict.fromkeys([name for exchange in exchanges for name in exchange.places])),
    )


@dataclass(slots=True)
class Cell:
    """What is known of the things of one kind in one place, where there are any.

    Attributes:
        whole: Whether all things of the kind are there, or None if that is unknown.
        counts: The possible numbers of things. Empty if any number is possible.
        least: The smallest possible number.
        agents: Who put them there. Empty if that is unknown.
        one_agent_of: Two people, one of whom put them there.
    """

    whole: bool | None = None
    counts: tuple[int, ...] = ()
    least: int = 1
    agents: frozenset[str] = frozenset()
    one_agent_of: frozenset[str] = frozenset()

    @property
    def counted(self) -> bool:
        """Whether something is known of the number of things."""
        return bool(self.counts) or self.least > 1

    def refine(self, amount: Amount) -> None:
        """Add what an amount tells. Raise `Unclear` if it contradicts what is known."""
        kind, numbers = amount
        if kind in ("the", "all", "some"):
            whole = kind != "some"
            if self.whole is not None and self.whole != whole:
                raise Unclear("all, and not all")
            self.whole = whole
        elif kind != "any":
            counts = () if kind == "at least" else numbers
            if self.counted and (counts, min(numbers)) != (self.counts, self.least):
                raise Unclear("one number, and another")
            self.counts, self.least = counts, min(numbers)
        if self.whole and self.counts == (1,):
            raise Unclear("they are there, and only one is")


Unanswered = tuple[Literal["where", "whether", "count", "who", "where to"], str, str]


@dataclass(slots=True)
class State:
    """What the exchanges have established. A "thing" is a kind of things, all of them.

    The methods that add a fact raise `Unclear` if it contradicts the state.

    Attributes:
        cells: By thing and place, what is known of the things that are there.
        absent: Thing and place where there are none.
        denied_acts: Agent, thing and place of what the agent did not do.
        alternatives: By thing, the places in question, if it is open which of two places the
            things are in, or whether these or other things are in the place.
        alternative_agents: By such a thing, who put the things there.
        spread: Things that are in several places, all of which are known.
        asked_where: Things whose place has been asked for.
        went, not_went, maybe_went: Agent and place. Of the places in `maybe_went`, the agent went
            to one.
        active: Agent and place in which the agent put things, certainly or perhaps.
        reported: Things of which somebody said where they are.
        unanswered: What was asked and got no reliable answer.
        doubted: Things, and people whose journeys, the dialogue speaks of with a hedge.
    """

    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    absent: set[tuple[str, str]] = field(default_factory=set)
    denied_acts: set[tuple[str, str, str]] = field(default_factory=set)
    alternatives: dict[str, tuple[str, ...]] = field(default_factory=dict)
    alternative_agents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    spread: set[str] = field(default_factory=set)
    asked_where: set[str] = field(default_factory=set)
    went: set[tuple[str, str]] = field(default_factory=set)
    not_went: set[tuple[str, str]] = field(default_factory=set)
    maybe_went: set[tuple[str, str]] = field(default_factory=set)
    active: set[tuple[str, str]] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    unanswered: set[Unanswered] = field(default_factory=set)
    doubted: set[str] = field(default_factory=set)

    def cell(self, thing: str, place: str) -> Cell | None:
        """Return what is known of the things in the place, or None if perhaps none are there."""
        cells = self.cells.get(thing)
        return cells.get(place) if cells else None

    def put(self, thing: str, place: str, amount: Amount, spread: bool = False) -> None:
        """Add that an amount of the things is in the place."""
        if (
            thing in self.alternatives
            or (thing, place) in self.absent
            or (self.unanswered and any(it[:2] == ("whether", thing) for it in self.unanswered))
        ):
            raise Unclear("in the place, and perhaps not in it")
        cells = self.cells.setdefault(thing, {})
        cell = cells.get(place)
        if cell is None:
            if ("where", thing, "") in self.unanswered or (thing in self.spread and not spread):
                raise Unclear("in the place, and their place is unknown")
            cell = cells[place] = Cell()
        cell.refine(amount)
        if ("count", thing, place) in self.unanswered and cell.counted:
            raise Unclear("counted, and their number is unknown")
        if len(cells) > 1 and any(other.whole for other in cells.values()):
            raise Unclear("all of them in one place, and some in another")

    def put_by(
        self, thing: str, place: str, agents: Sequence[str], one_of_them: bool = False
    ) -> None:
        """Add that the agents together, or one of them, put the things in the place."""
        cell, names = self.cells[thing][place], frozenset(agents)
        same, other = cell.agents, cell.one_agent_of
        if one_of_them:
            same, other = other, same
        if other or same not in (frozenset(), names):
            raise Unclear("put there by one agent, and by another")
        if ("who", thing, place) in self.unanswered or any(
            (agent, thing, place) in self.denied_acts for agent in agents
        ):
            raise Unclear("put there by an agent who did not do it")
        if one_of_them:
            cell.one_agent_of = names
        else:
            cell.agents = names
        self.active.update((agent, place) for agent in agents)

    def deny_act(self, agent: str, thing: str, place: str) -> None:
        """Add that the agent did not put any of the things in the place."""
        cell = self.cell(thing, place)
        if cell and (agent in cell.agents or agent in cell.one_agent_of):
            raise Unclear("the agent did it, and did not")
        if place in self.alternatives.get(thing, ()):
            raise Unclear("an alternative of which one half is denied")
        self.denied_acts.add((agent, thing, place))

    def deny_place(self, thing: str, place: str) -> None:
        """Add that none of the things are in the place."""
        if (
            self.cell(thing, place)
            or thing in self.alternatives
            or ("whether", thing, place) in self.unanswered
            or ("count", thing, place) in self.unanswered
        ):
            raise Unclear("not in the place, and perhaps in it")
        self.absent.add((thing, place))

    def leave_alternatives(
        self, thing: str, places: Sequence[str], agents: tuple[str, ...]
    ) -> None:
        """Add that the things are in one of two places, or that these or others are in one."""
        if (
            self.cells.get(thing)
            or thing in self.alternatives
            or any(thing == name for name, _ in self.absent)
            or any(thing == name for _, name, _ in (*self.denied_acts, *self.unanswered))
        ):
            raise Unclear("an alternative, and more is known of the things")
        self.alternatives[thing] = tuple(places)
        if agents:
            self.alternative_agents[thing] = agents
        self.active.update(product(agents, places))

    def leave_unanswered(self, question: Unanswered) -> None:
        """Add that the question got no reliable answer."""
        kind, thing, place = question
        cell = self.cell(thing, place)
        if (
            thing in self.alternatives
            or (kind == "where" and self.cells.get(thing))
            or (kind == "whether" and (cell or (thing, place) in self.absent))
            or (kind == "count" and ((cell and cell.counted) or (thing, place) in self.absent))
            or (kind == "who" and cell and (cell.agents or cell.one_agent_of))
        ):
            raise Unclear("answered, and unanswered")
        self.unanswered.add(question)

    def visit(self, agent: str, places: Sequence[str]) -> None:
        """Add that the agent went to the places."""
        visits = {(agent, place) for place in places}
        if not self.not_went.isdisjoint(visits):
            raise Unclear("the agent went there, and did not")
        self._check_journey(agent)
        self.went |= visits

    def deny_visit(self, agent: str, place: str) -> None:
        """Add that the agent did not go to the place."""
        if (agent, place) in self.went:
            raise Unclear("the agent did not go there, and did")
        self._check_journey(agent)
        self.not_went.add((agent, place))

    def leave_journey_open(self, agent: str, places: Sequence[str]) -> None:
        """Add that the agent went to one of the places, or to unknown ones if there are none."""
        self._check_journey(agent)
        if any(agent == name for name, _ in self.went | self.not_went):
            raise Unclear("more is known of where the agent went")
        self.maybe_went |= {(agent, place) for place in places}
        if not places:
            self.unanswered.add(("where to", agent, ""))

    def _check_journey(self, agent: str) -> None:
        if ("where to", agent, "") in self.unanswered or any(
            agent == name for name, _ in self.maybe_went
        ):
            raise Unclear("more is known of where the agent went")


def interpret(exchanges: Iterable[Exchange]) -> State:
    """Return what resolved exchanges establish.

    >>> state = interpret([Exchange("did", "Mia", "pears", "hall", reply="yes")])
    >>> state.cell("pears", "hall").whole
    True

    Raises:
        Unclear: The exchanges contradict each other.
    """
    state = State()
    for exchange in exchanges:
        reply = exchange.reply
        if isinstance(reply, Claim):
            _check_claim(exchange, reply)
        elif reply in ("unknown", "likely") and exchange.agent == REPLIER:
            raise Unclear("the replier does not know what he did himself")
        elif reply == "likely":
            state.doubted.update(exchange.things or exchange.agents)
        _UPDATES[exchange.form](state, exchange)
        if isinstance(reply, Claim) and reply.then is not None:
            _go_on(state, exchange, reply.then)
    if not state.active.isdisjoint(state.not_went):
        raise Unclear("an agent put things in a place where the agent did not go")
    return state


def _check_claim(exchange: Exchange, claim: Claim) -> None:
    """Raise `Unclear` if the claim makes no sense whatever the state is."""
    if claim.connective is None:
        return
    agents, things, places = exchange.claimed
    if any(len(names) > 1 and len(set(names)) < len(names) for names in claim[:3]):
        raise Unclear("the same name twice")
    if claim.connective != "and":
        if REPLIER in agents or claim.source in agents:
            raise Unclear("somebody does not know what he did himself")
    elif len(places) > 1 and "singular" in map(number_of, things):
        raise Unclear("a single thing in two places")


def _go_on(state: State, exchange: Exchange, then: str) -> None:
    """Add where the agent of a claim went afterwards, or was instead."""
    agents, _, places = exchange.claimed
    if len(agents) != 1:
        raise Unclear("several people went to a place, or nobody")
    if exchange.claim.denied:
        for place in places:
            state.deny_visit(agents[0], place)
    elif then in places:
        raise Unclear("the agent went to where the agent was")
    if then not in places:
        state.visit(agents[0], (then,))


def _question_slots(state: State, exchange: Exchange) -> tuple[str, str, Cell | None]:
    """Return the thing and the place of a question, and what was told of the things there.

    Raises:
        Unclear: Another place was told, so nobody would ask about this one.
    """
    thing, place = exchange.thing, exchange.place
    assert thing is not None
    assert place is not None
    cells = state.cells.get(thing)
    if cells and place not in cells:
        raise Unclear("asked about another place than the one that was told")
    return thing, place, cells[place] if cells else None


def _add_claim(state: State, exchange: Exchange) -> None:
    """Add what the claim says, or what a yes affirms."""
    claim = exchange.claim
    agents, things, places = exchange.claimed
    if claim.source and not claim.denied:
        state.reported.update(things)
        state.active.update((claim.source, place) for place in places)  # "Mia saw some there."
    if claim.denied:
        for thing, place in product(things, places):
            for agent in agents:
                state.deny_act(agent, thing, place)
            if not agents:
                state.deny_place(thing, place)
    elif claim.connective in ("or", "if not") and len(agents) < 2:
        for thing in things:
            state.leave_alternatives(thing, places, agents)
    else:
        spread = len(places) > 1
        if spread and any(set(state.cells.get(thing, ())) - set(places) for thing in things):
            raise Unclear("spread over two places, and in a third")
        for thing, place in product(things, places):
            state.put(thing, place, SOME if spread else claim.amount, spread)
            if agents:
                state.put_by(thing, place, agents, one_of_them=claim.connective == "or")
        if spread:
            state.spread.update(things)


def _add_reply(state: State, exchange: Exchange, question: Unanswered) -> None:
    """Add a claim, or else that the question got no answer."""
    if isinstance(exchange.reply, Claim):
        _add_claim(state, exchange)
    else:
        state.leave_unanswered(question)


def _did(state: State, exchange: Exchange) -> None:
    thing, place, cell = _question_slots(state, exchange)
    assert exchange.agent is not None
    if (cell and cell.agents) or (exchange.agent, thing, place) in state.denied_acts:
        raise Unclear("asked who did it after that was told")
    if isinstance(exchange.reply, Claim):
        agents, things, places, *_ = exchange.reply
        if agents == (exchange.agent,) or things == (thing,) or places == (place,):
            raise Unclear("the reply repeats the question as if it said something else")
        if things and thing not in things:
            state.deny_act(exchange.agent, thing, place)
    if exchange.reply == "no":
        state.deny_act(exchange.agent, thing, place)
    elif exchange.reply in ("unknown", "likely"):
        state.leave_unanswered(("who", thing, place))
    else:
        _add_claim(state, exchange)


def _where(state: State, exchange: Exchange) -> None:
    assert exchange.thing is not None
    if exchange.thing in state.asked_where or state.cells.get(exchange.thing):
        raise Unclear("their place is asked for twice, or after it was told")
    state.asked_where.add(exchange.thing)
    _add_reply(state, exchange, ("where", exchange.thing, ""))


def _amount(state: State, exchange: Exchange) -> None:
    thing, place, cell = _question_slots(state, exchange)
    if cell and (cell.whole is False or (exchange.amount == SOME and (cell.whole or cell.counted))):
        raise Unclear("asked how many after that was told, or whether some after all")
    if exchange.reply == "yes":
        # "Some" implies "not all" only in a statement, not in a question.
        state.put(thing, place, ANY if exchange.amount == SOME else exchange.amount)
    elif exchange.reply == "no":
        if exchange.amount == ALL:
            raise Unclear("not all of them: some, or none")
        state.deny_place(thing, place)
    else:
        _add_reply(state, exchange, ("whether", thing, place))


def _count(state: State, exchange: Exchange) -> None:
    thing, place, cell = _question_slots(state, exchange)
    if cell is None and any(act[1:] == (thing, place) for act in state.denied_acts):
        raise Unclear("how many of things that an agent did not put there")
    if cell and cell.counted:
        raise Unclear("asked how many after that was told")
    _add_reply(state, exchange, ("count", thing, place))


def _went(state: State, exchange: Exchange) -> None:
    agent, place, reply = exchange.agent, exchange.place, exchange.reply
    assert agent is not None
    if (agent, place) in state.went or (place is None and agent in (who for who, _ in state.went)):
        raise Unclear("asked where somebody went after that was told")
    if reply in ("unknown", "likely"):
        state.leave_journey_open(agent, ())
    elif not isinstance(reply, Claim):
        assert place is not None
        if reply == "yes":
            state.visit(agent, (place,))
        else:
            state.deny_visit(agent, place)
    elif reply.denied:
        for other in reply.places:
            state.deny_visit(agent, other)
    elif reply.connective in ("or", "if not"):
        if place is not None:
            raise Unclear("an alternative in reply to a question of yes or no")
        state.leave_journey_open(agent, reply.places)
    else:
        if place in reply.places:
            raise Unclear("the reply repeats the question as if it said something else")
        if place is not None:
            state.deny_visit(agent, place)
        state.visit(agent, reply.places)


_UPDATES = {
    "did": _did,
    "where": _where,
    "amount": _amount,
    "count": _count,
    "went": _went,
    "where to": _went,
}
