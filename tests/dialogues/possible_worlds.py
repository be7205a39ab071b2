"""What a dialogue establishes, by brute force: an independent check of `world.interpret`.

For every kind of things, list all worlds that the dialogue allows: how many of them are where, who
put them there, and where they were before. The answer to a question is yes if what it asks holds in
all of these worlds, so it is no if the dialogue does not mention it. It is excluded if it holds in none of
them, and undetermined otherwise.

A few values stand for everything that the dialogue does not mention: two strangers, two places, and
the numbers 1 and 99. There are two of each, because a single one would be known.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pragworld_tasks.data.documents import Basis
from pragworld_tasks.dialogues.questions import Question
from pragworld_tasks.dialogues.world import (
    ASKS_AGENT,
    ASKS_PLACE,
    ASKS_THING,
    REPLIER,
    Amount,
    Claim,
    Exchange,
)

STRANGERS = (frozenset({"a stranger"}), frozenset({"another stranger"}))
UNNAMED_PLACES = ("some other place", "yet another place")
UNNAMED_NUMBERS = (1, 99)

Topic = tuple[str, str, str]  # "where", "whether", "count" or "who"; thing; place, unless "where"


class Batch(NamedTuple):
    """Things of one kind in one place and who put them there; nobody, if they moved by themselves."""

    number: int
    authors: frozenset[str]


NOBODY: frozenset[str] = frozenset()
NOTHING = Batch(0, NOBODY)
Layout = dict[str, Batch]  # the things of one kind at one moment, by place, without empty batches
History = list[Layout]  # a layout for each moment; only moves change it


class Move(NamedTuple):
    """A move of all things in one place to another, by nobody if they moved by themselves."""

    origin: str
    to: str
    authors: frozenset[str]


class Either(NamedTuple):
    """Two kinds of things, one of which is in the place, each at a moment of its own story."""

    things: tuple[str, str]
    moments: tuple[int, int]
    place: str


@dataclass
class Story:
    """What the dialogue says about one kind of things. A moment is the number of moves before it.

    Attributes:
        places: The mentioned places, each with the groups of people who may have put things there.
        numbers: The mentioned numbers.
        moves: The moves in order.
        of_batches: Conditions on every place and its batch, each with its moment.
        of_layouts: Conditions on the whole layout, each with its moment.
        knowing, ignorant: Moment and person who knows, or does not know, where the things are.
        told: Who said where the things are.
    """

    places: dict[str, set[frozenset[str]]] = field(default_factory=lambda: defaultdict(set))
    numbers: set[int] = field(default_factory=set)
    moves: list[Move] = field(default_factory=list)
    of_batches: list[tuple[int, Callable[[str, Batch], bool]]] = field(default_factory=list)
    of_layouts: list[tuple[int, Callable[[Layout], bool]]] = field(default_factory=list)
    knowing: set[tuple[int, str]] = field(default_factory=set)
    ignorant: set[tuple[int, str]] = field(default_factory=set)
    told: set[str] = field(default_factory=set)

    @property
    def now(self) -> int:
        """The latest moment."""
        return len(self.moves)

    # Facts to add

    def requires(
        self, place: str, fits: Callable[[Batch], bool], moment: int | None = None
    ) -> None:
        """Add a condition on the batch in the place, at the latest moment unless at another."""
        self.places[place]
        when = self.now if moment is None else moment
        self.of_batches.append((when, lambda where, batch: where != place or fits(batch)))

    def counts(self, place: str, fits: Callable[[int], bool]) -> None:
        """Add a condition on the number of things in the place."""
        self.requires(place, lambda batch: fits(batch.number))

    def amounts(self, place: str, amount: Amount) -> None:
        """Add that an amount of the things is in the place."""
        kind, numbers = amount
        self.numbers.update(numbers)
        if kind in ("number", "either"):
            self.counts(place, lambda count: count in numbers)
        elif kind == "at least":
            self.counts(place, lambda count: count >= numbers[0])
        elif kind in ("the", "all"):
            self.all_in_each_of((place,))
        else:
            self.counts(place, bool)
        if kind == "some":
            self.of_layouts.append((self.now, lambda layout: len(layout) > 1))

    def all_in_each_of(self, places: Sequence[str]) -> None:
        """Add that there are things in each of the places, and none elsewhere."""
        for place in places:
            self.counts(place, bool)
        self._none_outside(places)

    def all_in_one_of(self, places: Sequence[str]) -> None:
        """Add that all of the things are in exactly one of the places."""
        for place in places:
            self.all_or_none_in(place)
        self._none_outside(places)
        self.of_layouts.append((self.now, bool))

    def all_or_none_in(self, place: str) -> None:
        """Add that all of the things are in the place, or none of them."""
        self.places[place]
        self.of_layouts.append((self.now, lambda layout: place not in layout or len(layout) == 1))

    def _none_outside(self, places: Sequence[str]) -> None:
        self.of_batches.append((self.now, lambda where, batch: where in places or not batch.number))

    def put_by(self, place: str, groups: Sequence[frozenset[str]]) -> None:
        """Add that one of the groups put the things in the place, if there are any."""
        self.places[place].update(groups)
        self.requires(place, lambda batch: not batch.number or batch.authors in groups)

    def never_put_by(self, place: str, agent: str) -> None:
        """Add that the agent has put none of the things in the place, now or before."""
        for moment in range(self.now + 1):
            self.requires(place, lambda batch: agent not in batch.authors, moment)

    def add_move(self, move: Move) -> None:
        """Add a move, which begins a new moment."""
        self.places[move.to]
        self.moves.append(move)

    # Histories that fit the facts

    def knowers(self, history: History, moment: int) -> set[str]:
        """Return who put the things there, and who is said to know where they are.

        A move ends what people knew before it.
        """
        if moment:
            authors = set(self.moves[moment - 1].authors)
        else:
            authors = {author for batch in history[0].values() for author in batch.authors}
        return authors | {agent for when, agent in self.knowing if when == moment}

    def histories(self) -> Iterator[History]:
        """Yield all histories that fit the facts."""
        places = [*self.places, *UNNAMED_PLACES]
        at_first = [fits for moment, fits in self.of_batches if not moment]
        options = [
            [
                batch
                for batch in self._batches(place)
                if all(fits(place, batch) for fits in at_first)
            ]
            for place in places
        ]
        for batches in itertools.product(*options):
            occupied = zip(places, batches, strict=True)
            layout = {place: batch for place, batch in occupied if batch.number}
            history = self._moved(layout)
            if history and self._fits(history):
                yield history

    def _batches(self, place: str) -> Iterator[Batch]:
        yield NOTHING
        if place in UNNAMED_PLACES:
            yield Batch(1, STRANGERS[0])
            return
        for number in self.numbers.union(UNNAMED_NUMBERS):
            for authors in (*self.places[place], *STRANGERS):
                yield Batch(number, authors)

    def _moved(self, layout: Layout) -> History | None:
        """Return the history that starts with the layout, or None if a move is impossible.

        All things in one place were put there together, so no move leads to an occupied place.
        """
        history = [layout]
        for origin, to, authors in self.moves:
            layout = dict(history[-1])
            if origin not in layout or to in layout:
                return None
            layout[to] = Batch(layout.pop(origin).number, authors)
            history.append(layout)
        return history

    def _fits(self, history: History) -> bool:
        return (
            all(
                fits(place, history[moment].get(place, NOTHING))
                for moment, fits in self.of_batches
                if moment
                for place in (*self.places, *UNNAMED_PLACES)
            )
            and all(fits(history[moment]) for moment, fits in self.of_layouts)
            and not any(agent in self.knowers(history, when) for when, agent in self.ignorant)
        )


class PossibleWorlds:
    """The worlds that a dialogue allows.

    Kinds of things are independent of each other and of where people went, so each has histories of
    its own, and they combine freely. The exception is "the pears or the plums": a history of one
    kind stays if it is compatible with some history of the other. That is enough, because no kind
    of things is in two such pairs.

    Attributes:
        histories: The possible histories by kind of things.
        journeys: The possible sets of places by agent who may have gone there.
        left_open: What the dialogue asks and leaves open.

    Raises:
        ValueError: The dialogue has no meaning, for example because of an ambiguous "them".
    """

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._stories: dict[str, Story] = defaultdict(Story)
        self._eithers: list[Either] = []
        self._trips: dict[str, list[tuple[tuple[str, ...], int]]] = defaultdict(list)
        self._more_histories: dict[tuple[str, str, str, int], list[History]] = {}
        self.left_open: set[Topic] = set()
        resolved = _resolved(exchanges)
        for exchange, after in zip(resolved, [*resolved[1:], None], strict=True):
            is_withdrawn = after is not None and after.form == "sure" and after.reply == "no"
            if after is not None and after.form == "sure" and isinstance(after.reply, Claim):
                exchange = exchange._replace(reply=after.reply)  # the right answer instead
            if exchange.reply in ("unknown", "likely") or is_withdrawn:
                self._leave_open(exchange)
            else:
                self._add_exchange(exchange)
        self.histories = {thing: list(story.histories()) for thing, story in self._stories.items()}
        for either in self._eithers:
            self._exclude(either)
        self.journeys = {agent: list(_journeys(trips)) for agent, trips in self._trips.items()}

    def __bool__(self) -> bool:
        """Return whether there is any world."""
        return all(self.histories.values()) and all(self.journeys.values())

    # Facts

    def _add_exchange(self, exchange: Exchange) -> None:
        form, agent, thing, place = exchange.form, exchange.agent, exchange.thing, exchange.place
        reply = exchange.reply
        if form in ("went", "where to"):
            self._add_journey(exchange)
        elif form == "knows" and agent and thing:
            story = self._stories[thing]
            (story.knowing if reply == "yes" else story.ignorant).add((story.now, agent))
        elif form == "shall" and thing and place:
            if reply == "yes":
                self._stories[thing].amounts(place, Amount("the"))
            else:
                self._stories[thing].counts(place, lambda count: not count)
        elif form == "still" and thing and place:
            self._stories[thing].counts(place, bool)
            if isinstance(reply, Claim):
                move = Move(place, reply.places[0], frozenset(reply.agents))
                self._stories[thing].add_move(move)
        elif isinstance(reply, Claim):
            self._add_claim(exchange, reply)
        elif form == "did" and reply == "yes":
            self._add_claim(exchange, Claim())
        elif form == "did" and thing and place and agent:
            self._stories[thing].never_put_by(place, agent)
        elif form == "amount" and thing and place:
            kind = "any" if exchange.amount.kind == "some" else exchange.amount.kind
            if reply == "yes":
                self._stories[thing].amounts(place, Amount(kind))
            elif kind in ("any", "the"):
                self._stories[thing].counts(place, lambda count: not count)
            else:
                raise ValueError('"no" to "are all": some, or none?')
        if isinstance(reply, Claim) and reply.then:
            (agent,) = reply.agents or (agent,)
            assert agent is not None
            stayed_away = reply.denied and reply.then in (place, *reply.places)
            self._trips[agent].append(((reply.then,), 0 if stayed_away else 1))
        if exchange.oddity and exchange.oddity.place is not None:
            claim = reply if isinstance(reply, Claim) else Claim()
            (thing,), (place,) = claim.things or (thing,), claim.places or (place,)
            assert thing is not None
            assert place is not None
            self._stories[thing].add_move(Move(place, exchange.oddity.place, NOBODY))

    def _leave_open(self, exchange: Exchange) -> None:
        thing, place = exchange.thing or "", exchange.place or ""
        kinds = {
            "where": "where",
            "amount": "whether",
            "count": "count",
            "did": "who",
            "who": "who",
            "shall": "whether",
        }
        if exchange.form in kinds:
            kind = kinds[exchange.form]
            self.left_open.add((kind, thing, "" if kind == "where" else place))

    def _add_claim(self, exchange: Exchange, claim: Claim) -> None:
        agents = claim.agents or ((exchange.agent,) if exchange.agent else ())
        things = claim.things or ((exchange.thing,) if exchange.thing else ())
        places = claim.places or ((exchange.place,) if exchange.place else ())
        stories = [self._stories[thing] for thing in things]
        if claim.denied:
            for story, place in itertools.product(stories, places):
                for agent in agents:
                    story.never_put_by(place, agent)
                if not agents:
                    story.counts(place, lambda count: not count)
            return
        is_choice = claim.connective in ("or", "if not")
        # The people acted together, or one of them did.
        groups = [frozenset({agent}) for agent in agents] if is_choice else [frozenset(agents)]
        if is_choice and len(things) > 1:
            if any(thing in either.things for either in self._eithers for thing in things):
                raise ValueError("an alternative inside an alternative")
            moments = (stories[0].now, stories[1].now)
            self._eithers.append(Either((things[0], things[1]), moments, places[0]))
        if exchange.form == "did" and claim.things and exchange.thing and exchange.place:
            # Other things than those that the question is about.
            assert exchange.agent is not None
            self._stories[exchange.thing].never_put_by(exchange.place, exchange.agent)
        for thing, story in zip(things, stories, strict=True):
            for person in (claim.source, claim.origin):
                if person is not None:
                    story.told.add(person)
                    story.knowing.add((story.now, person))
            if is_choice and len(agents) < 2:
                self.left_open.add(("where", thing, ""))
            if is_choice and len(things) > 1:
                story.all_or_none_in(places[0])
            elif is_choice and len(places) > 1:
                story.all_in_one_of(places)
            elif len(places) > 1:
                story.all_in_each_of(places)
            elif exchange.form == "who":
                story.counts(places[0], bool)
            else:
                story.amounts(places[0], claim.amount)
            if agents:
                for place in places:
                    story.put_by(place, groups)

    def _add_journey(self, exchange: Exchange) -> None:
        """Add that the agent went to all of the places, to one, or to none."""
        assert exchange.agent is not None
        places: tuple[str, ...] = (exchange.place,) if exchange.place else ()
        visited = 0 if exchange.reply == "no" else 1
        if isinstance(exchange.reply, Claim):
            if exchange.place:  # other places than the one that the question is about
                self._trips[exchange.agent].append(((exchange.place,), 0))
            places = exchange.reply.places
            visited = 1 if exchange.reply.connective in ("or", "if not") else len(places)
        self._trips[exchange.agent].append((places, visited))

    def _exclude(self, either: Either) -> None:
        """Keep the histories of either kind that are compatible with some history of the other."""
        sides = list(zip(either.things, either.moments, strict=True))
        there = [
            [either.place in history[moment] for history in self.histories[thing]]
            for thing, moment in sides
        ]
        for (thing, _), own, others in zip(sides, there, reversed(there), strict=True):
            histories = zip(self.histories[thing], own, strict=True)
            self.histories[thing] = [
                history for history, is_there in histories if (not is_there) in others
            ]

    # Questions

    def answer(self, question: Question) -> bool | None:
        """Return whether what the question asks holds in all worlds.

        Return None if it asks who put things in a place, or how many are there, and there are none
        or they moved there by themselves.
        """
        form, _, agent, thing, place, number, *_ = question
        if form == "went":
            return agent in self.journeys and all(place in went for went in self.journeys[agent])
        story = self._stories[thing]
        if form == "told":
            return agent in story.told
        if form == "moved":
            return any(move.to == place and agent in move.authors for move in story.moves)
        histories = self._histories(thing)
        if form == "agent knows":
            return all(agent in story.knowers(history, story.now) for history in histories)
        if form == "where":
            return len({frozenset(history[-1]) for history in histories}) == 1
        if place not in story.places:
            place = UNNAMED_PLACES[0]
        if form in ("who", "how many"):
            batches = {history[-1].get(place, NOTHING) for history in histories}
            settled = {batch.authors if form == "who" else batch.number for batch in batches}
            if batches == {NOTHING} or settled == {NOBODY}:
                return None
            return NOTHING not in batches and len(settled) == 1
        if form.startswith("left"):
            return all(_was_left(form, history, agent, place, number) for history in histories)
        return all(_holds(form, history[-1], place, number) for history in histories)

    def _histories(self, thing: str) -> list[History]:
        if thing not in self.histories:
            self.histories[thing] = list(self._stories[thing].histories())
        return self.histories[thing]

    # What answers rest on

    def basis(self, question: Question) -> Basis:
        """Return what the answer rests on."""
        if self.answer(question):
            return "entailed"
        is_excluded = not self._may_hold(question) or (
            question.kind in ("sure", "know") and self._is_left_open(question)
        )
        return "excluded" if is_excluded else "undetermined"

    def _may_hold(self, question: Question) -> bool:
        """Return whether what the question asks holds in some world."""
        form, _, agent, thing, place, number, *_ = question
        if form == "went":
            journeys = self.journeys.get(agent)
            denied = journeys and place in {
                place for went, _ in self._trips[agent] for place in went
            }
            return not denied or any(place in went for went in journeys or ())
        story = self._stories[thing]
        if form == "agent knows":
            return (story.now, agent) not in story.ignorant
        if form in ("told", "where", "who", "how many"):
            return True
        histories = self._histories_with(thing, place, agent, number)
        if form == "moved":
            return any(agent in history[-1].get(place, NOTHING).authors for history in histories)
        if form.startswith("left"):
            return any(_was_left(form, history, agent, place, number) for history in histories)
        return any(_holds(form, history[-1], place, number) for history in histories)

    def _histories_with(self, thing: str, place: str, agent: str, number: int) -> list[History]:
        """Return the histories in which the agent may have put that many things in the place."""
        key = thing, place, agent, number
        if key not in self._more_histories:
            story = self._stories[thing]
            groups = story.places.get(place, set()) | ({frozenset({agent})} if agent else set())
            story = replace(
                story,
                places=story.places | {place: groups},
                numbers=story.numbers | ({number} if number else set()),
            )
            self._more_histories[key] = list(story.histories())
        return self._more_histories[key]

    def _is_left_open(self, question: Question) -> bool:
        """Return whether the dialogue asks, or speaks of, what the question is about, in vain."""
        form, _, _, thing, place, *_ = question
        histories = self._histories(thing)
        batches = {history[-1].get(place, NOTHING) for history in histories}
        authors = {batch.authors for batch in batches}
        numbers = {batch.number for batch in batches}
        is_counted = not numbers.issuperset(UNNAMED_NUMBERS)
        topics: set[Topic] = set()
        if form != "agent knows" and form not in ("who", "how many"):
            topics.add(("where", thing, ""))
        if form in ("any", "all", "exactly", "left"):
            topics.add(("whether", thing, place))
        if form in ("who", "left"):
            topics.add(("who", thing, place))
        if form in ("how many", "exactly"):
            topics.add(("count", thing, place))
        if topics & self.left_open:
            return True
        if NOTHING in batches or place not in self._stories[thing].places:
            return False
        if form in ("who", "left") and not authors.intersection(STRANGERS):
            return True  # one of two people
        return form in ("how many", "exactly") and is_counted


def _was_left(form: str, history: History, agent: str, place: str, number: int) -> bool:
    """Return whether the agent put the things in the place at some moment of the history."""
    fact = form.removeprefix("left").strip() or "any"
    return any(
        agent in layout.get(place, NOTHING).authors and _holds(fact, layout, place, number)
        for layout in history
    )


def _holds(fact: str, layout: Layout, place: str, number: int) -> bool:
    """Return whether the fact about the things in the place holds in the layout."""
    count = layout.get(place, NOTHING).number
    if fact == "exactly":
        return count == number
    if fact == "more than":
        return count > number
    return count > 0 and (fact != "all" or len(layout) == 1)


def _journeys(trips: list[tuple[tuple[str, ...], int]]) -> Iterator[frozenset[str]]:
    """Yield all sets of places that contain the right number of places of every trip."""
    places = {place for named, _ in trips for place in named}
    for size in range(len(places) + 1):
        for went in map(frozenset, itertools.combinations(places, size)):
            if all(len(went.intersection(named)) == visited for named, visited in trips):
                yield went


def _resolved(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """Replace "she", "them" and "there" by the only name that the exchange before mentions."""
    resolved = []
    mentioned: list[set[str | None]] = [set(), set(), set()]
    for exchange in exchanges:
        if exchange.form == "sure":  # "are you sure?" is about the exchange before it
            resolved.append(exchange)
            if isinstance(exchange.reply, Claim) and len(resolved) > 1:
                mentioned = _names(resolved[-2]._replace(reply=exchange.reply))
            continue
        asked = [exchange.agent, exchange.thing, exchange.place]
        for slot, forms in enumerate((ASKS_AGENT, ASKS_THING, ASKS_PLACE)):
            if exchange.form in forms and asked[slot] is None:
                if len(mentioned[slot]) != 1 or REPLIER in mentioned[slot]:
                    raise ValueError(f"a pronoun with no referent, or several: {mentioned[slot]}")
                (asked[slot],) = mentioned[slot]
        agent, thing, place = asked
        resolved.append(exchange._replace(agent=agent, thing=thing, place=place))
        mentioned = _names(resolved[-1])
    return resolved


def _names(exchange: Exchange) -> list[set[str | None]]:
    """Return the people, the things and the places that an exchange mentions."""
    claim = exchange.reply if isinstance(exchange.reply, Claim) else Claim()
    odd_place = (exchange.oddity.place if exchange.oddity else None) or None
    return [
        {exchange.agent, claim.source, claim.origin, *claim.agents} - {None},
        {exchange.thing, *claim.things} - {None},
        {exchange.place, odd_place, claim.then, *claim.places} - {None},
    ]
