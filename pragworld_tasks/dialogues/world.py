"""The meaning of a dialogue: the state of the world, and of people's knowledge, after it.

A dialogue is a sequence of exchanges. In each, one person asks and the other replies. This module
interprets such a sequence, and `grammar` puts it into words. The interpretation follows the
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
- A reported statement is true, and the person who made it knows that it is.
- A proposal that is accepted is settled. One that is turned down is not, and whether the one made
  instead is accepted remains open.
- Whoever puts things somewhere knows where they are until somebody else moves them. All things of
  one kind that are in one place were put there together.
- "I don't know", "probably", or "no" to "are you sure?", leaves the question open. A correction
  ("No, in the den.") takes the place of the reply before.

A dialogue that contradicts itself raises `Unclear`. So does one that only an inference could make
sense of, such as an alternative of which one half is denied elsewhere.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Literal, NamedTuple

from pragworld_tasks.dialogues.vocabulary import Names, is_event, is_time, number_of

ExchangeForm = Literal[
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
    "shall",  # shall we have the event at the time?
    "chat",  # small talk
]
ASKS_AGENT: frozenset[ExchangeForm] = frozenset(("did", "knows", "went", "where to"))
ASKS_THING: frozenset[ExchangeForm] = frozenset(
    ("did", "where", "amount", "count", "who", "still", "knows", "shall")
)
ASKS_PLACE: frozenset[ExchangeForm] = frozenset(
    ("did", "amount", "count", "what", "who", "still", "went", "shall")
)
Connective = Literal["and", "or", "if not"]
MOST_NUMBER = 6
NOWHERE = ""  # where things are that no longer exist
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
        denied: Whether the claim is negated. A negated claim has the amount "the".
        then: Where the agent of the claim went afterwards, or, if it is denied, was instead. A
            denied claim with the place of the question says that the agent did not go there.
        origin: The person who told the source.
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
    origin: str | None = None
    container: str | None = None

    @property
    def people(self) -> tuple[str, ...]:
        """The people that the claim names."""
        if self.source is None:
            return self.agents
        sources = (self.source,) if self.origin is None else (self.source, self.origin)
        return (*self.agents, *sources)


Reply = Literal["yes", "no", "unknown", "likely"] | Claim
_NO_CLAIM = Claim()


class Oddity(NamedTuple):
    """An addition to a reply that contradicts common sense.

    Attributes:
        place: The place that the things moved to by themselves, `NOWHERE` if they no longer exist,
            or None if the oddity leaves the world unchanged.
        wording: Number of the phrase.
    """

    place: str | None
    wording: int


class Exchange(NamedTuple):
    """A question and its reply.

    Attributes:
        agent, thing, place: What the question asks about. If its form asks about such a thing,
            None stands for a pronoun ("she", "them", "there").
        amount: The amount that the form "amount" asks about.
        reply: Yes, no, "unknown", "likely", or a claim.
        wordings: Numbers of the phrases for the question and for the reply.
    """

    form: ExchangeForm
    agent: str | None = None
    thing: str | None = None
    place: str | None = None
    amount: Amount = THE
    reply: Reply = "unknown"
    oddity: Oddity | None = None
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
        reply = self.reply
        named = reply.people if isinstance(reply, Claim) else ()
        return named if self.agent is None else (self.agent, *named)

    @property
    def things(self) -> tuple[str, ...]:
        """The things that question and reply name."""
        reply, thing = self.reply, self.thing
        named = reply.things if isinstance(reply, Claim) else ()
        return named if thing is None else (thing, *named)

    @property
    def places(self) -> tuple[str, ...]:
        """The places that question and reply name."""
        reply, oddity = self.reply, self.oddity
        named: tuple[str, ...] = () if self.place is None else (self.place,)
        if isinstance(reply, Claim):
            named += reply.places if reply.then is None else (*reply.places, reply.then)
        return (*named, oddity.place) if oddity and oddity.place else named

    @property
    def names(self) -> tuple[str, ...]:
        """The people, things and places that question and reply name."""
        return self.agents + self.things + self.places


NOTHING_SAID = Exchange("chat")


def resolve(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """Replace every "she", "them" and "there" by the only name that the exchange before has.

    >>> first = Exchange("where", thing="pears", reply=Claim(places=("hall",)))
    >>> resolve([first, Exchange("still", reply="yes")])[1].place
    'hall'

    Raises:
        Unclear: The exchange before names none, or several.
    """
    resolved: list[Exchange] = []
    before = NOTHING_SAID
    for exchange in exchanges:
        exchange = resolve_one(exchange, before)
        resolved.append(exchange)
        before = latest(exchange, before)
    return resolved


def resolve_altered(
    altered: Mapping[int, Exchange], original: Sequence[Exchange], resolved: Sequence[Exchange]
) -> dict[int, Exchange]:
    """Return the exchanges that an alteration gives another meaning, resolved, by position.

    Args:
        altered: The altered exchanges, by position.
        original: The dialogue that they are from.
        resolved: What `resolve` makes of the original.

    Raises:
        Unclear: The exchange before a pronoun names nothing that it stands for, or several.
    """
    meant = list(resolved)
    changed: dict[int, Exchange] = {}
    for start in sorted(altered):
        before = preceding(meant, start)
        for position in range(start, len(meant)):
            meaning = resolve_one(altered.get(position, original[position]), before)
            if meaning != meant[position]:
                meant[position] = changed[position] = meaning
            elif meaning.form != "sure":  # nothing that follows refers to what is altered
                break
            before = latest(meaning, before)
    return changed


def preceding(resolved: Sequence[Exchange], position: int) -> Exchange:
    """Return the exchange that pronouns refer to in the exchange at a position."""
    if not position:
        return NOTHING_SAID
    last = resolved[position - 1]
    return last if last.form != "sure" else latest(last, preceding(resolved, position - 1))


def latest(exchange: Exchange, before: Exchange) -> Exchange:
    """Return the exchange that pronouns refer to after a resolved exchange.

    "Are you sure?" is about the exchange before it.
    """
    if exchange.form != "sure":
        return exchange
    return before._replace(reply=exchange.reply) if isinstance(exchange.reply, Claim) else before


def resolve_one(exchange: Exchange, before: Exchange) -> Exchange:
    """Resolve one exchange, given the last one before it whose form is not "sure"."""
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


def subjects(exchanges: Iterable[Exchange]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield for each resolved exchange its things, and whether it tells where people went.

    "Are you sure?" has the subjects of the exchange before it.
    """
    things: tuple[str, ...] = ()
    is_of_journey = False
    for exchange in exchanges:
        if exchange.form != "sure":
            things, is_of_journey = exchange.things, is_about_journey(exchange)
        yield things, is_of_journey


def is_about_journey(exchange: Exchange) -> bool:
    """Return whether an exchange tells where people went."""
    return exchange.form in ("went", "where to") or exchange.claim.then is not None


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
        by_itself: Whether nobody put them there.
        moved_from: What was known of them in the place they were in before. Whatever the dialogue
            tells of their number now was true of them there.
    """

    whole: bool | None = None
    counts: tuple[int, ...] = ()
    least: int = 1
    agents: frozenset[str] = frozenset()
    one_agent_of: frozenset[str] = frozenset()
    by_itself: bool = False
    moved_from: "Cell | None" = None

    @property
    def counted(self) -> bool:
        """Whether something is known of the number of things."""
        return bool(self.counts) or self.least > 1

    def refine(self, amount: Amount) -> None:
        """Add what an amount tells. Raise `Unclear` if it contradicts what is known."""
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
            if self.counted and (counts, min(numbers)) != (self.counts, self.least):
                raise Unclear("one number, and another")
            self.counts, self.least = counts, min(numbers)


Unanswered = tuple[Literal["where", "whether", "count", "who", "where to"], str, str]


@dataclass(slots=True)
class State:
    """What the exchanges have established. A "thing" is a kind of things, all of them.

    The methods that add a fact raise `Unclear` if it contradicts the state.

    Attributes:
        cells: By thing and place, what is known of the things that are there now.
        acts: By agent, thing and place, what the agent put there, wherever it is now.
        absent: Thing and place where there are none.
        denied_acts: Agent, thing and place of what the agent did not do.
        alternatives: By thing, the places in question, if it is open which of two places the
            things are in, or whether these or other things are in the place.
        alternative_agents: By such a thing, who put the things there.
        spread: Things that are in several places, all of which are known.
        moved: Agent, thing and place that the agent moved the things to.
        vacated: By thing and place that the things were moved away from, what is known of them
            there.
        was_at: Agent and place where the agent took things away.
        asked_where: Things whose place has been asked for.
        went, not_went, maybe_went: Agent and place. Of the places in `maybe_went`, the agent went
            to one.
        knowers, not_knowers: Thing and agent who knows, or does not know, where the things are.
        maybe_knowers: Thing and agent who knows where they are unless the other alternative holds.
        reported: By thing, the people who said where the things are.
        passed_on: Things of which somebody said what somebody else had told them.
        unanswered: What was asked and got no reliable answer.
        agreed: Things whose place the speakers agreed on.
        offered: Thing and place that the replier proposed.
        doubted: Things, and people whose journeys, the dialogue speaks of with a hedge or takes
            something back of.
    """

    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    acts: dict[tuple[str, str, str], Cell] = field(default_factory=dict)
    absent: set[tuple[str, str]] = field(default_factory=set)
    denied_acts: set[tuple[str, str, str]] = field(default_factory=set)
    alternatives: dict[str, tuple[str, ...]] = field(default_factory=dict)
    alternative_agents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    spread: set[str] = field(default_factory=set)
    moved: set[tuple[str, str, str]] = field(default_factory=set)
    vacated: dict[tuple[str, str], Cell] = field(default_factory=dict)
    was_at: set[tuple[str, str]] = field(default_factory=set)
    asked_where: set[str] = field(default_factory=set)
    went: set[tuple[str, str]] = field(default_factory=set)
    not_went: set[tuple[str, str]] = field(default_factory=set)
    maybe_went: set[tuple[str, str]] = field(default_factory=set)
    knowers: set[tuple[str, str]] = field(default_factory=set)
    not_knowers: set[tuple[str, str]] = field(default_factory=set)
    maybe_knowers: set[tuple[str, str]] = field(default_factory=set)
    reported: dict[str, set[str]] = field(default_factory=dict)
    passed_on: set[str] = field(default_factory=set)
    unanswered: set[Unanswered] = field(default_factory=set)
    agreed: set[str] = field(default_factory=set)
    offered: set[tuple[str, str]] = field(default_factory=set)
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
            or (thing, place) in self.vacated
            or ("whether", thing, place) in self.unanswered
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
        if cell.by_itself or other or same not in (frozenset(), names):
            raise Unclear("put there by one agent, and by another")
        if ("who", thing, place) in self.unanswered or any(
            (agent, thing, place) in self.denied_acts for agent in agents
        ):
            raise Unclear("put there by an agent who did not do it")
        if one_of_them:
            cell.one_agent_of = names
        else:
            cell.agents = names
        for agent in agents:
            self.know(thing, agent, perhaps=one_of_them)
            if not one_of_them:
                self.acts[agent, thing, place] = cell

    def deny_act(self, agent: str, thing: str, place: str) -> None:
        """Add that the agent did not put any of the things in the place."""
        cell = self.cell(thing, place)
        if (agent, thing, place) in self.acts or (cell and agent in cell.one_agent_of):
            raise Unclear("the agent did it, and did not")
        if place in self.alternatives.get(thing, ()) or (thing, place) in self.vacated:
            raise Unclear("an alternative of which one half is denied")
        self.denied_acts.add((agent, thing, place))

    def deny_place(self, thing: str, place: str) -> None:
        """Add that none of the things are in the place."""
        if (
            self.cell(thing, place)
            or thing in self.alternatives
            or (thing, place) in self.vacated
            or ("whether", thing, place) in self.unanswered
            or ("count", thing, place) in self.unanswered
        ):
            raise Unclear("not in the place, and perhaps in it")
        self.absent.add((thing, place))

    def leave_alternatives(self, thing: str, places: Sequence[str]) -> None:
        """Add that the things are in one of two places, or that these or others are in one."""
        if (
            self.cells.get(thing)
            or thing in self.alternatives
            or any(thing == name for name, _ in self.absent)
            or any(thing == name for _, name, _ in (*self.denied_acts, *self.unanswered))
        ):
            raise Unclear("an alternative, and more is known of the things")
        self.alternatives[thing] = tuple(places)

    def leave_unanswered(self, question: Unanswered) -> None:
        """Add that the question got no reliable answer."""
        kind, thing, place = question
        cell = self.cell(thing, place)
        if (
            thing in self.alternatives
            or (kind == "where" and self.cells.get(thing))
            or (kind == "whether" and (cell or (thing, place) in self.absent))
            or (kind == "count" and ((cell and cell.counted) or (thing, place) in self.absent))
            or (kind == "who" and cell and (cell.agents or cell.one_agent_of or cell.by_itself))
        ):
            raise Unclear("answered, and unanswered")
        self.unanswered.add(question)

    def know(self, thing: str, agent: str, perhaps: bool = False) -> None:
        """Add that the agent knows where the things are, or knows if an alternative holds."""
        if (thing, agent) in self.not_knowers:
            raise Unclear("the agent knows, and does not know")
        (self.maybe_knowers if perhaps else self.knowers).add((thing, agent))

    def move(self, thing: str, place: str, to: str, agent: str | None) -> None:
        """Add that an agent moved the things in a place to another, or that they moved there."""
        cells = self.cells.get(thing, {})
        if place not in cells or len(cells) > 1 or (thing, place) in self.vacated:
            raise Unclear("moved from a place where not all of them are")
        if (
            to == place
            or (thing, to) in self.absent
            or (thing, to) in self.vacated
            or any((thing, to) == fact[1:] for fact in (*self.unanswered, *self.denied_acts))
        ):
            raise Unclear("moved to a place where they were, may be or are not")
        cell = cells.pop(place)
        self.vacated[thing, place] = cell
        cells[to] = replace(
            cell,
            agents=frozenset(),
            one_agent_of=frozenset(),
            by_itself=agent is None,
            moved_from=cell,
        )
        ignorant = {pair for pair in self.not_knowers if pair[0] == thing}
        self.denied_acts |= {(name, thing, place) for _, name in ignorant}
        self.not_knowers -= ignorant
        self.knowers = {pair for pair in self.knowers if pair[0] != thing}
        self.maybe_knowers = {pair for pair in self.maybe_knowers if pair[0] != thing}
        if agent is not None:
            self.put_by(thing, to, (agent,))
            self.moved.add((agent, thing, to))
            self.was_at.add((agent, place))

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


def interpret(exchanges: Sequence[Exchange]) -> State:
    """Return what resolved exchanges establish.

    >>> state = interpret([Exchange("did", "Mia", "pears", "hall", reply="yes")])
    >>> state.cell("pears", "hall").whole
    True

    Raises:
        Unclear: The exchanges contradict each other.
    """
    state = State()
    if exchanges and exchanges[0].form == "sure" and isinstance(exchanges[0].reply, Claim):
        raise Unclear("a correction of nothing")
    for exchange, after in pairwise((*exchanges, NOTHING_SAID)):
        if after.form == "sure":
            exchange = _confirmed(exchange, after.reply)
            if after.reply == "no":
                state.doubted.update(exchange.things or exchange.agents)
        elif exchange.reply == "likely":
            state.doubted.update(exchange.things or exchange.agents)
        _check(exchange)
        _UPDATES[exchange.form](state, exchange)
        _add_surroundings(state, exchange)
    return state


def is_possible(acts: Iterable[tuple[str, str, str]], not_went: Set[tuple[str, str]]) -> bool:
    """Return whether nobody put things in a place where they did not go."""
    return not not_went or all((agent, place) not in not_went for agent, _, place in acts)


def _confirmed(exchange: Exchange, confirmation: Reply) -> Exchange:
    """Return an exchange as it counts after the reply to "are you sure?"."""
    if exchange.oddity:
        raise Unclear("sure of the reply, or of the oddity")
    if confirmation == "no":
        return exchange._replace(reply="unknown")
    if isinstance(confirmation, Claim):
        before = exchange.claim
        if before.people or before.connective or before.then or before.container or before.denied:
            raise Unclear("a correction of one part of what was said")
        amount = confirmation.amount.kind != "the"
        corrected = bool(confirmation.agents), bool(confirmation.places), amount
        if corrected != (
            exchange.form == "did",
            exchange.form == "where",
            exchange.form == "count",
        ):
            raise Unclear("a correction of something else than what was said")
        if before == confirmation or exchange.reply in ("unknown", "likely"):
            raise Unclear("a correction that corrects nothing")
        return exchange._replace(reply=confirmation)
    return exchange


def _check(exchange: Exchange) -> None:
    """Raise `Unclear` if the exchange makes no sense whatever the state is."""
    form, agent, thing, _, amount, reply, *_ = exchange
    if isinstance(reply, Claim):
        _check_claim(exchange, reply)
    elif agent == REPLIER and reply in ("unknown", "likely"):
        raise Unclear("the replier does not know what he did himself")
    if thing is not None and (amount is not THE or form in ("amount", "count")):
        number = number_of(thing)
        if number == "plural":
            if form == "amount" and amount == THE:
                raise Unclear("are all of them there, or are any?")
        elif form == "count" or amount.numbers:
            raise Unclear("a number of what cannot be counted")
        elif number == "singular" and amount != THE:
            raise Unclear("an amount of a single thing")


def _check_claim(exchange: Exchange, claim: Claim) -> None:
    """Raise `Unclear` if the claim makes no sense whatever the state is."""
    connective, amount, places = claim.connective, claim.amount, claim.places
    if connective:
        if exchange.form == "where to" and connective != "and" and is_time(places[0]):
            raise Unclear("free at one time or another: at both?")
        if any(len(names) > 1 and len(set(names)) < len(names) for names in claim[:3]):
            raise Unclear("the same name twice")
        if connective != "and" and REPLIER in (claim.agents or (exchange.agent,)):
            raise Unclear("the replier does not know what he did himself")
    if amount != THE or (connective == "and" and len(places) > 1):
        for thing in exchange.things:
            number = number_of(thing)
            if number != "plural" and amount.numbers:
                raise Unclear("a number of what cannot be counted")
            if number == "singular" and (amount.kind in ("all", "some") or len(places) > 1):
                raise Unclear("an amount of a single thing")


def _add_surroundings(state: State, exchange: Exchange) -> None:
    """Add where people went besides, and where things went by themselves."""
    reply, oddity = exchange.reply, exchange.oddity
    if isinstance(reply, Claim) and reply.then is not None:
        then = reply.then
        agents, _, places = exchange.claimed
        if len(agents) != 1:
            raise Unclear("several people went to a place, or nobody")
        if reply.denied and then in places:
            state.deny_visit(agents[0], then)
        elif then in places:
            raise Unclear("the agent went to where the agent was")
        else:
            state.visit(agents[0], (then,))
    if oddity and oddity.place is not None:
        _, things, places = exchange.claimed
        if len(things) != 1 or len(places) != 1:
            raise Unclear("several things or places for an oddity to move")
        state.move(things[0], places[0], oddity.place, None)


def _question_slots(exchange: Exchange) -> tuple[str, str]:
    """Return the thing and the place of a question whose form has both."""
    assert exchange.thing is not None
    assert exchange.place is not None
    return exchange.thing, exchange.place


def _add_reply(state: State, exchange: Exchange, question: Unanswered | None = None) -> None:
    """Add a claim, or else that the question, if given, got no answer."""
    if isinstance(exchange.reply, Claim):
        _add_claim(state, exchange)
    elif question:
        state.leave_unanswered(question)


def _add_claim(state: State, exchange: Exchange) -> None:
    """Add what the claim says, or what a yes affirms."""
    claim = exchange.claim
    agents, things, places = exchange.claimed
    if claim.source and not claim.denied:
        for thing, person in product(things, filter(None, (claim.source, claim.origin))):
            state.reported.setdefault(thing, set()).add(person)
            state.know(thing, person)
            if claim.origin:
                state.passed_on.add(thing)
    if claim.denied:
        for thing, place in product(things, places):
            if agents:
                for agent in agents:
                    state.deny_act(agent, thing, place)
            else:
                state.deny_place(thing, place)
    elif claim.connective in ("or", "if not") and len(agents) < 2:
        for thing in things:
            state.leave_alternatives(thing, places)
            if agents:
                state.alternative_agents[thing] = agents
            for agent in agents:
                state.know(thing, agent, perhaps=len(things) > 1)
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


def _did(state: State, exchange: Exchange) -> None:
    thing, place = _question_slots(exchange)
    assert exchange.agent is not None
    if isinstance(exchange.reply, Claim):
        agents, things, places, *_ = exchange.reply
        if agents == (exchange.agent,) or things == (thing,) or places == (place,):
            raise Unclear("the reply repeats the question as if it said something else")
        if things:
            state.deny_act(exchange.agent, thing, place)
    if exchange.reply == "no":
        state.deny_act(exchange.agent, thing, place)
    elif exchange.reply in ("unknown", "likely"):
        state.leave_unanswered(("who", thing, place))
    else:
        _add_claim(state, exchange)


def _where(state: State, exchange: Exchange) -> None:
    assert exchange.thing is not None
    if exchange.thing in state.asked_where:
        raise Unclear("their place is asked for twice")
    if exchange.thing in state.agreed:
        raise Unclear("asked after the speakers agreed on it")
    if exchange.claim.denied and state.cells.get(exchange.thing):
        raise Unclear("the replier has said more than where they are not")
    state.asked_where.add(exchange.thing)
    _add_reply(state, exchange, ("where", exchange.thing, ""))


def _amount(state: State, exchange: Exchange) -> None:
    thing, place = _question_slots(exchange)
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
    thing, place = _question_slots(exchange)
    if state.cell(thing, place) is None and any(
        act[1:] == (thing, place) for act in state.denied_acts
    ):
        raise Unclear("how many of things that an agent did not put there")
    _add_reply(state, exchange, ("count", thing, place))


def _who(state: State, exchange: Exchange) -> None:
    thing, place = _question_slots(exchange)
    cell = state.cell(thing, place)
    if cell is None:
        raise Unclear("who put things in a place where they are not")
    if isinstance(exchange.reply, Claim):
        known = ALL if cell.whole else ANY  # the reply tells nothing new of the amount
        exchange = exchange._replace(reply=exchange.reply._replace(amount=known))
    _add_reply(state, exchange, ("who", thing, place))


def _still(state: State, exchange: Exchange) -> None:
    thing, place = _question_slots(exchange)
    if isinstance(exchange.reply, Claim):
        state.move(thing, place, exchange.reply.places[0], exchange.reply.agents[0])
    elif exchange.reply != "yes" or state.cell(thing, place) is None:
        raise Unclear("still in a place where they perhaps never were")


def _knows(state: State, exchange: Exchange) -> None:
    assert exchange.agent is not None
    assert exchange.thing is not None
    if exchange.reply == "yes":
        state.know(exchange.thing, exchange.agent)
    elif exchange.reply == "no":
        if (exchange.thing, exchange.agent) in state.knowers | state.maybe_knowers:
            raise Unclear("the agent does not know, and knows")
        state.not_knowers.add((exchange.thing, exchange.agent))


def _went(state: State, exchange: Exchange) -> None:
    agent, place, reply = exchange.agent, exchange.place, exchange.reply
    assert agent is not None
    if reply in ("unknown", "likely"):
        state.leave_journey_open(agent, ())
    elif not isinstance(reply, Claim):
        assert place is not None
        if reply == "yes":
            state.visit(agent, (place,))
        else:
            state.deny_visit(agent, place)
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


def _shall(state: State, exchange: Exchange) -> None:
    thing, place = _question_slots(exchange)
    if not is_event(thing):
        raise Unclear("a proposal of where things are")
    if state.cells.get(thing) or thing in state.alternatives or thing in state.asked_where:
        raise Unclear("a proposal of what is settled")
    if (thing, place) in state.offered and exchange.reply != "yes":
        raise Unclear("the replier turns down what the replier proposed")
    state.offered.update((thing, other) for other in exchange.claim.places)
    if exchange.reply == "yes":
        state.put(thing, place, THE)
        state.agreed.add(thing)
        return
    if exchange.reply == "no" or isinstance(exchange.reply, Claim):
        state.deny_place(thing, place)
        if place in exchange.claim.places:
            raise Unclear("a proposal of what is turned down")
    else:
        state.leave_unanswered(("whether", thing, place))
    if exchange.reply != "no":
        state.doubted.add(thing)


def _nothing(state: State, exchange: Exchange) -> None:
    """Leave the state as it is: small talk; "are you sure?" counts with the exchange before."""


_UPDATES = {
    "did": _did,
    "where": _where,
    "amount": _amount,
    "count": _count,
    "what": _add_reply,
    "who": _who,
    "still": _still,
    "knows": _knows,
    "sure": _nothing,
    "went": _went,
    "where to": _went,
    "shall": _shall,
    "chat": _nothing,
}
