"""What a dialogue establishes, by brute force: an independent check of `world.interpret`.

For every kind of things, list all worlds that the dialogue allows: how many of them are where, and
who put them there. Nobody puts things in a place where they did not go. The answer to a question is
yes if what it asks holds in all of these worlds, so it is no if the dialogue does not mention it. It
is excluded if it holds in none of them, and undetermined otherwise.

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
    """Things of one kind in one place and who put them there."""

    number: int
    authors: frozenset[str]


NOTHING = Batch(0, frozenset())
Layout = dict[str, Batch]  # the things of one kind by place, without empty batches


class Either(NamedTuple):
    """Two kinds of things, one of which is in the place."""

    things: tuple[str, str]
    place: str


@dataclass
class Story:
    """What the dialogue says about one kind of things: conditions on each batch and on the layout.

    Each mentioned place has the groups of people who may have put things there.
    """

    places: dict[str, set[frozenset[str]]] = field(default_factory=lambda: defaultdict(set))
    numbers: set[int] = field(default_factory=set)
    of_batches: list[Callable[[str, Batch], bool]] = field(default_factory=list)
    of_layouts: list[Callable[[Layout], bool]] = field(default_factory=list)

    def requires(self, place: str, fits: Callable[[Batch], bool]) -> None:
        self.places[place]
        self.of_batches.append(lambda where, batch: where != place or fits(batch))

    def counts(self, place: str, fits: Callable[[int], bool]) -> None:
        self.requires(place, lambda batch: fits(batch.number))

    def amounts(self, place: str, amount: Amount) -> None:
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
            self.of_layouts.append(lambda layout: len(layout) > 1)

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
        self.of_layouts.append(bool)

    def all_or_none_in(self, place: str) -> None:
        """Add that all of the things are in the place, or none of them."""
        self.places[place]
        self.of_layouts.append(lambda layout: place not in layout or len(layout) == 1)

    def _none_outside(self, places: Sequence[str]) -> None:
        self.of_batches.append(lambda where, batch: where in places or not batch.number)

    def put_by(self, place: str, groups: Sequence[frozenset[str]]) -> None:
        self.places[place].update(groups)
        self.requires(place, lambda batch: not batch.number or batch.authors in groups)

    def never_put_by(self, place: str, agent: str) -> None:
        self.requires(place, lambda batch: agent not in batch.authors)

    def layouts(self) -> Iterator[Layout]:
        places = [*self.places, *UNNAMED_PLACES]
        options = [
            [batch for batch in self._batches(place) if self._fits(place, batch)]
            for place in places
        ]
        for batches in itertools.product(*options):
            occupied = zip(places, batches, strict=True)
            layout = {place: batch for place, batch in occupied if batch.number}
            if all(fits(layout) for fits in self.of_layouts):
                yield layout

    def _fits(self, place: str, batch: Batch) -> bool:
        return all(fits(place, batch) for fits in self.of_batches)

    def _batches(self, place: str) -> Iterator[Batch]:
        yield NOTHING
        if place in UNNAMED_PLACES:
            yield Batch(1, STRANGERS[0])
            return
        for number in self.numbers.union(UNNAMED_NUMBERS):
            for authors in (*self.places[place], *STRANGERS):
                yield Batch(number, authors)


class PossibleWorlds:
    """The worlds that a dialogue allows.

    Kinds of things are independent of each other, so each has layouts of its own, and they combine
    freely. The exception is "the pears or the plums": a layout of one kind stays if it is compatible
    with some layout of the other. That is enough, because no kind of things is in two such pairs.

    A dialogue without a meaning, for example because of an ambiguous "them", raises a ValueError.
    """

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._stories: dict[str, Story] = defaultdict(Story)
        self._eithers: list[Either] = []
        self._trips: dict[str, list[tuple[tuple[str, ...], int]]] = defaultdict(list)
        self._more_layouts: dict[tuple[str, str, str], list[Layout]] = {}
        self.left_open: set[Topic] = set()
        for exchange in _resolved(exchanges):
            if exchange.reply in ("unknown", "likely"):
                self._leave_open(exchange)
            else:
                self._add_exchange(exchange)
        self.journeys = {agent: list(_journeys(trips)) for agent, trips in self._trips.items()}
        self._shunned = {
            (agent, place)
            for agent, trips in self._trips.items()
            for places, visited in trips
            for place in places
            if not visited
        }
        for story in self._stories.values():
            self._keep_away(story)
        self.layouts = {thing: list(story.layouts()) for thing, story in self._stories.items()}
        for either in self._eithers:
            self._exclude(either)

    def __bool__(self) -> bool:
        return all(self.layouts.values()) and all(self.journeys.values())

    def _keep_away(self, story: Story) -> None:
        """Add that nobody put the things in a place where they did not go."""
        for agent, place in self._shunned:
            story.never_put_by(place, agent)

    def _add_exchange(self, exchange: Exchange) -> None:
        form, agent, thing, place = exchange.form, exchange.agent, exchange.thing, exchange.place
        reply = exchange.reply
        if form in ("went", "where to"):
            self._add_journey(exchange)
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
            was_at = () if reply.denied and reply.then == place else (reply.then,)
            self._trips[agent].append((was_at, len(was_at)))
            if reply.denied and place:  # an alibi: the agent was not there
                self._trips[agent].append(((place,), 0))

    def _leave_open(self, exchange: Exchange) -> None:
        thing, place = exchange.thing or "", exchange.place or ""
        kinds = {"where": "where", "amount": "whether", "count": "count", "did": "who"}
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
            self._eithers.append(Either((things[0], things[1]), places[0]))
        if exchange.form == "did" and claim.things and exchange.thing not in claim.things:
            # Other things than those that the question is about.
            assert exchange.agent is not None
            assert exchange.thing is not None
            assert exchange.place is not None
            self._stories[exchange.thing].never_put_by(exchange.place, exchange.agent)
        for thing, story in zip(things, stories, strict=True):
            if is_choice and len(agents) < 2:
                self.left_open.add(("where", thing, ""))
            if is_choice and len(things) > 1:
                story.all_or_none_in(places[0])
            elif is_choice and len(places) > 1:
                story.all_in_one_of(places)
            elif len(places) > 1:
                story.all_in_each_of(places)
            else:
                story.amounts(places[0], claim.amount)
            if agents:
                for place in places:
                    story.put_by(place, groups)

    def _add_journey(self, exchange: Exchange) -> None:
        """Add that the agent went to all of the places, to one, or to none."""
        assert exchange.agent is not None
        trips = self._trips[exchange.agent]
        places: tuple[str, ...] = (exchange.place,) if exchange.place else ()
        visited = 0 if exchange.reply == "no" else 1
        if isinstance(exchange.reply, Claim):
            if exchange.place:  # other places than the one that the question is about
                trips.append(((exchange.place,), 0))
            places = exchange.reply.places
            visited = 1 if exchange.reply.connective in ("or", "if not") else len(places)
            if exchange.reply.denied:
                visited = 0
        trips.append((places, visited))

    def _exclude(self, either: Either) -> None:
        """Keep the layouts of either kind that are compatible with some layout of the other."""
        there = [
            [either.place in layout for layout in self.layouts[name]] for name in either.things
        ]
        for thing, own, others in zip(either.things, there, reversed(there), strict=True):
            layouts = zip(self.layouts[thing], own, strict=True)
            self.layouts[thing] = [
                layout for layout, is_there in layouts if (not is_there) in others
            ]

    def answer(self, question: Question) -> bool | None:
        """Return whether the answer is yes, or None if the question presupposes what is not so."""
        form, _, thing, place, _ = question
        layouts = self._layouts(thing)
        if form.endswith("where"):
            return len({frozenset(layout) for layout in layouts}) == 1
        if form.endswith("how many"):
            numbers = self._numbers_by_place(thing).values()
            return any(len(counts) == 1 and counts != {0} for counts in numbers)
        if form.endswith("who"):
            batches = {layout.get(place, NOTHING) for layout in layouts}
            if batches == {NOTHING} and place in self._stories[thing].places:
                return None
            return NOTHING not in batches and len({batch.authors for batch in batches}) == 1
        return all(_holds(question, layout) for layout in layouts)

    def _layouts(self, thing: str) -> list[Layout]:
        if thing not in self.layouts:
            self._keep_away(self._stories[thing])
            self.layouts[thing] = list(self._stories[thing].layouts())
        return self.layouts[thing]

    def _numbers_by_place(self, thing: str) -> dict[str, set[int]]:
        layouts = self._layouts(thing)
        return {
            place: {layout.get(place, NOTHING).number for layout in layouts}
            for place in self._stories[thing].places
        }

    def basis(self, question: Question) -> Basis:
        if self.answer(question):
            return "entailed"
        if question.is_about_speaker:
            return "excluded" if self._is_left_open(question) else "undetermined"
        layouts = self._layouts_with(question.thing, question.place, question.agent)
        may_hold = any(_holds(question, layout, or_part=True) for layout in layouts)
        return "undetermined" if may_hold else "excluded"

    def _layouts_with(self, thing: str, place: str, agent: str) -> list[Layout]:
        """Return the layouts in which the agent may have put things in the place."""
        key = thing, place, agent
        if key not in self._more_layouts:
            self._layouts(thing)
            story = self._stories[thing]
            groups = story.places.get(place, set()) | ({frozenset({agent})} if agent else set())
            story = replace(story, places=story.places | {place: groups})
            self._more_layouts[key] = list(story.layouts())
        return self._more_layouts[key]

    def _is_left_open(self, question: Question) -> bool:
        """Return whether the dialogue asks, or speaks of, what the question is about, in vain."""
        form, _, thing, place, _ = question
        if form.endswith("where"):
            return ("where", thing, "") in self.left_open
        if form.endswith("how many"):
            if any(kind == "count" and name == thing for kind, name, _ in self.left_open):
                return True
            numbers = self._numbers_by_place(thing).values()
            return any(
                0 not in counts and not counts.issuperset(UNNAMED_NUMBERS) for counts in numbers
            )
        if ("who", thing, place) in self.left_open:
            return True
        batches = {layout.get(place, NOTHING) for layout in self._layouts(thing)}
        authors = {batch.authors for batch in batches}
        return NOTHING not in batches and not authors.intersection(STRANGERS)  # one of two people


def _holds(question: Question, layout: Layout, or_part: bool = False) -> bool:
    """Return whether what a question asks holds, `or_part`: for some of "the" things."""
    form, agent, _, place, _ = question
    batch = layout.get(place, NOTHING)
    if form == "left" and agent not in batch.authors:
        return False
    is_of_all = form == "all" or (form in ("the", "left") and not or_part)
    return batch.number > 0 and (len(layout) == 1 or not is_of_all)


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
        asked = [exchange.agent, exchange.thing, exchange.place]
        for slot, forms in enumerate((ASKS_AGENT, ASKS_THING, ASKS_PLACE)):
            if exchange.form in forms and asked[slot] is None:
                if len(mentioned[slot]) != 1 or REPLIER in mentioned[slot]:
                    raise ValueError(f"a pronoun with no referent, or several: {mentioned[slot]}")
                (asked[slot],) = mentioned[slot]
        agent, thing, place = asked
        resolved.append(exchange._replace(agent=agent, thing=thing, place=place))
        claim = exchange.reply if isinstance(exchange.reply, Claim) else Claim()
        mentioned = [
            {agent, claim.source, *claim.agents} - {None},
            {thing, *claim.things} - {None},
            {place, claim.then, *claim.places} - {None},
        ]
    return resolved
