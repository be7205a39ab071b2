"""Topics: short runs of exchanges about one kind of things, or about where somebody went.

People ask several questions in a row about the same things, and where somebody was instead, and
replies often tell more or less than was asked, as in the released dialogues about things and
places. Everybody has been in two places. People, things and places come from a small scene, so the
topics of a dialogue overlap, and a reader has to keep them apart.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import COLORS, NounNumber, number_of
from pragworld_tasks.dialogues.world import (
    ALL,
    ANY,
    REPLIER,
    SOME,
    THE,
    Amount,
    Claim,
    Connective,
    Exchange,
    ExchangeForm,
    Reply,
    Unclear,
)
from pragworld_tasks.files import read_package_toml

_WORDINGS = 5040  # large enough for all numbers of phrases to be equally likely
_LARGEST = 5  # the largest number that dialogues start from


class Scene:
    """The people, things and places of a dialogue, to draw exchanges from."""

    def __init__(
        self,
        rng: StableRandom,
        agents: list[str],
        things: list[str],
        places: list[str],
        containers: Sequence[str],
    ) -> None:
        self.rng = rng
        self.agents = agents
        self.things = things
        self.places = places
        self.containers = containers
        self.haunts = {name: self.two(places) for name in (*agents, REPLIER)}
        others = rng.shuffled(agents)
        self._travellers = [REPLIER, *others] if rng.happens(0.6) else [*others, REPLIER]

    def exchange(
        self,
        form: ExchangeForm,
        agent: str | None = None,
        thing: str | None = None,
        place: str | None = None,
        amount: Amount = THE,
        *,
        reply: Reply,
    ) -> Exchange:
        """Return an exchange in random phrases."""
        wordings = self.rng.below(_WORDINGS), self.rng.below(_WORDINGS)
        return Exchange(form, agent, thing, place, amount, reply, wordings=wordings)

    def person(self) -> str:
        """Return a person who is not a speaker."""
        return self.rng.choice(self.agents)

    def agent(self) -> str:
        """Return a person who may put things somewhere, often the replier."""
        return REPLIER if self.rng.happens(0.38) else self.person()

    def traveller(self, *others: str) -> str | None:
        """Return a person of whose journey nobody has asked, but none of the others, or None."""
        free = [name for name in self._travellers if name not in others]
        if free:
            self._travellers.remove(free[0])
        return free[0] if free else None

    def thing(self, singles: float = 0.12) -> str:
        """Return things that were not mentioned, if there are any; so often no plural."""
        numbers: tuple[NounNumber, ...] = ("plural",)
        if self.rng.happens(singles) and any(number_of(name) != "plural" for name in self.things):
            numbers = ("singular", "mass")
        for position in range(len(self.things) - 1, -1, -1):
            if number_of(self.things[position]) in numbers:
                return self.things.pop(position) if len(self.things) > 2 else self.things[position]
        raise Unclear("no things of which the topic can speak")

    def place(self) -> str:
        """Return a place."""
        return self.rng.choice(self.places)

    def place_of(self, agent: str) -> str:
        """Return one of the two places where the agent has been."""
        return self.rng.choice(self.haunts[agent])

    def place_seen(self) -> str:
        """Return a place that the replier speaks of without a source, mostly where they were."""
        return self.place_of(REPLIER) if self.rng.happens(0.9) else self.place()

    def next_place(self, agent: str, place: str) -> str:
        """Return another place where the agent has been."""
        return self.rng.choice([other for other in self.haunts[agent] if other != place])

    def two(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return two of the names."""
        return tuple(self.rng.sample(names, 2))

    def source(self, agent: str, share: float) -> str | None:
        """Return the agent as the one who said so, that often, unless it is the replier."""
        return agent if agent != REPLIER and self.rng.happens(share) else None

    def number(self, least: int = 1) -> Amount:
        """Return an exact number."""
        return Amount("number", (least + self.rng.below(_LARGEST + 1 - least),))

    def either(self) -> Amount:
        """Return a choice between two consecutive numbers."""
        low = 1 + self.rng.below(_LARGEST - 1)
        return Amount("either", (low, low + 1))

    def elsewhere(self, agent: str, place: str) -> Claim:
        """Return the reply that the agent was somewhere else, or did not go to the place."""
        if place in self.haunts[agent] or self.rng.happens(0.7):
            place = self.next_place(agent, place)
        return Claim(denied=True, then=place, source=self.source(agent, 0.5))


Topic = Callable[[Scene], list[Exchange]]

# Questions that follow others ---------------------------------------------------------------------


def _more(scene: Scene, thing: str, place: str, known: Amount, is_open: bool) -> list[Exchange]:
    """Return perhaps more questions about things, of which an amount is known to be in a place.

    `is_open` says whether it is open who put them there.
    """
    rng, exchanges = scene.rng, []
    if number_of(thing) == "plural" and rng.happens(0.3 if known == THE else 0.7):
        if known == THE or rng.happens(0.15):
            counted: dict[Reply, float] = {
                Claim(amount=scene.either()): 3,
                Claim(amount=scene.number(least=2)): 2,
                "unknown": 1,
            }
            reply = rng.weighted_choice(counted)
            exchanges.append(scene.exchange("count", None, thing, place, reply=reply))
        else:
            amounts: dict[Reply, float] = {
                Claim(amount=scene.number(least=2)): 5,
                Claim(amount=ALL): 1,
                Claim(amount=SOME): 1,
                "unknown": 2,
                "yes": 1,
            }
            asked = ALL if rng.happens(0.25) else SOME
            reply = rng.weighted_choice(amounts)
            exchanges.append(scene.exchange("amount", None, thing, place, asked, reply=reply))
    if is_open and rng.happens(0.8):
        exchanges += _asked(scene, thing, place)
    return exchanges


def _asked(scene: Scene, thing: str, place: str) -> list[Exchange]:
    """Return a question whether somebody left things in the place where they are."""
    agent = scene.agent()
    replies: dict[Reply, float] = {"no": 3, Claim(things=(scene.thing(),)): 1}
    if place in scene.haunts[agent]:
        replies |= {Claim(then=scene.next_place(agent, place)): 6, "yes": 1}
    else:
        replies[scene.elsewhere(agent, place)] = 1 if agent == REPLIER else 2
    return [scene.exchange("did", agent, thing, place, reply=scene.rng.weighted_choice(replies))]


def _after_denial(scene: Scene, thing: str, place: str, agent: str) -> list[Exchange]:
    """Return perhaps a question where the agent was, who did not leave the things, or they are."""
    rng = scene.rng
    if agent != REPLIER and rng.happens(0.45) and scene.traveller(*({*scene.haunts} - {agent})):
        return [_trip(scene, agent)]
    if rng.happens(0.25):
        other = rng.choice([name for name in (*scene.agents, REPLIER) if name != agent])
        reply: Reply = "no" if rng.happens(0.7) else "yes"
        return [scene.exchange("did", other, thing, place, reply=reply)]
    if rng.happens(0.35):
        return _found(scene, thing)
    return []


def _found(scene: Scene, thing: str) -> list[Exchange]:
    """Return a question where things are."""
    if number_of(thing) == "plural" and scene.rng.happens(0.4):
        return _in_container(scene, thing, scene.place())
    place = scene.place_seen()
    first = scene.exchange("where", thing=thing, reply=Claim(places=(place,)))
    return [first, *_more(scene, thing, place, THE, True)]


def _located(scene: Scene, thing: str) -> Exchange:
    """Return a question where things are, which all are in the place that the reply names."""
    agent = scene.agent()
    place = scene.place_of(agent)
    then = scene.next_place(agent, place) if scene.rng.happens(0.6) else None
    replies: dict[Reply, float] = {
        Claim(places=(scene.place_seen(),)): 4,
        Claim(agents=(agent,), places=(place,), then=then): 5,
        Claim(agents=(agent,), places=(place,), source=scene.source(agent, 1)): 1,
    }
    return scene.exchange("where", thing=thing, reply=scene.rng.weighted_choice(replies))


def _trip(scene: Scene, agent: str) -> Exchange:
    """Return a question where somebody went."""
    source = scene.source(agent, 0.5)
    connectives: tuple[Connective, ...] = ("and",) if agent == REPLIER else ("and", "and", "or")
    claim = Claim(places=(scene.place_of(agent),), source=source)
    if scene.rng.happens(0.35):
        connective = scene.rng.choice(connectives)
        claim = Claim(places=scene.two(scene.haunts[agent]), connective=connective)
    return scene.exchange("where to", agent, reply=claim)


def _in_container(scene: Scene, thing: str, place: str) -> list[Exchange]:
    """Return a question where things are, of which some are in a container in the place."""
    container = f"{scene.rng.choice(COLORS)} {scene.rng.choice(scene.containers)}"
    source = None
    if place not in scene.haunts[REPLIER] or scene.rng.happens(0.3):
        source = scene.person()
    claim = Claim(places=(place,), amount=ANY, source=source, container=container)
    first = scene.exchange("where", thing=thing, reply=claim)
    return [first, *_more(scene, thing, place, ANY, True)]


# Topics: the docstring of each is an example ------------------------------------------------------


def _somewhere(scene: Scene, ends: bool = False) -> list[Exchange]:
    """Where are the things? They are in the hall or the den. How about others? I don't know."""
    thing, person = scene.thing(0.4), scene.person()
    place, mine = scene.place_of(person), scene.place_of(REPLIER)
    other = scene.next_place(person, place)
    then, my_next = (
        goal if scene.rng.happens(0.7) else None
        for goal in (other, scene.next_place(REPLIER, mine))
    )
    together = [name for name in scene.haunts[person] if name in scene.haunts[REPLIER]] or [place]
    replies: dict[Reply, float] = {
        Claim(places=(scene.place_seen(),)): 3,
        Claim(places=scene.two(scene.places), connective="or"): 12,
        Claim(agents=(person, REPLIER), places=(together[0],), connective="and"): 2,
        Claim(agents=(person,), places=(place,), then=other): 4,
        Claim(agents=(person,), places=(place,), then=then, source=person): 1,
        Claim(agents=(REPLIER,), places=(mine,), then=my_next): 3,
        "unknown": 3,
    }
    reply = scene.rng.weighted_choice(replies)
    exchanges = [scene.exchange("where", thing=thing, reply=reply)]
    if isinstance(reply, Claim) and reply.connective != "or":
        exchanges += _more(scene, thing, reply.places[0], THE, not reply.agents)
    if len(exchanges) == 1 and not ends and scene.rng.happens(0.5):
        exchanges += _somewhere(scene, ends=True)
    return exchanges


def _asked_about(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? She left them in the den if not the hall."""
    thing, agent = scene.thing(), scene.agent()
    place = scene.place_of(agent)
    other = scene.next_place(agent, place)
    replies: dict[Reply, float] = {
        Claim(then=other): 4,
        Claim(things=(scene.thing(),)): 2,
        Claim(places=(other,)): 4,
        "no": 1.5,
        "yes": 0.5,
    }
    if number_of(thing) == "plural":
        replies[Claim(amount=scene.number(least=2))] = 2
    if agent != REPLIER:
        replies |= {
            Claim(places=(place, other), connective="or"): 2,
            Claim(places=(place, other), connective="if not"): 3,
            "unknown": 2,
            "likely": 0.5,
        }
    reply = scene.rng.weighted_choice(replies)
    first = scene.exchange("did", agent, thing, place, reply=reply)
    is_denied = reply == "no" or (isinstance(reply, Claim) and bool(reply.things))
    return [first, *(_after_denial(scene, thing, place, agent) if is_denied else [])]


def _quantity(scene: Scene) -> list[Exchange]:
    """How many of the things are in the hall? There are two or three."""
    rng, thing, place = scene.rng, scene.thing(0), scene.place_seen()
    amount = scene.number()
    source = scene.person() if rng.happens(0.3) else None
    before = _found_before(scene, thing, place, True)
    is_counted = bool(before) or rng.happens(0.3)
    if is_counted and rng.happens(0.6) and not source:
        amount = scene.either()
    elif is_counted and rng.happens(0.5):
        amount = Amount("at least", (2 + rng.below(_LARGEST - 2),))
    agents = (source,) if source else ()
    if not is_counted and not source and place in scene.haunts[REPLIER] and rng.happens(0.3):
        agents = (REPLIER,)
    reply = Claim(agents=agents, amount=amount, source=source)
    if is_counted:
        return [*before, scene.exchange("count", None, thing, place, reply=reply)]
    return [*before, scene.exchange("amount", None, thing, place, SOME, reply=reply)]


def _quantifier(scene: Scene) -> list[Exchange]:
    """Are some of the things in the hall? Somebody said she saw some there."""
    thing, place = scene.thing(0), scene.place_seen()
    replies: dict[Reply, float] = {
        Claim(amount=SOME): 2,
        Claim(amount=SOME, source=scene.person()): 4,
        Claim(amount=scene.number(least=2)): 3,
        Claim(amount=ALL): 1,
        "unknown": 4,
    }
    reply = scene.rng.weighted_choice(replies)
    asked = ALL if scene.rng.happens(0.3) else SOME
    amounts = scene.exchange("amount", None, thing, place, asked, reply=reply)
    exchanges = [*_found_before(scene, thing, place, False), amounts]
    if reply != "unknown" and scene.rng.happens(0.5):
        exchanges += _asked(scene, thing, place)
    return exchanges


def _journey(scene: Scene) -> list[Exchange]:
    """Did somebody go to the hall? She went to the den."""
    agent = scene.traveller()
    if agent is None:
        return _somewhere(scene)
    known, place = scene.haunts[agent], scene.place()
    if scene.rng.happens(0.85):
        place = scene.rng.choice([other for other in scene.places if other not in known])
    if scene.rng.happens(0.65):
        return [_trip(scene, agent)]
    if place in scene.haunts[agent]:
        return [scene.exchange("went", agent, place=place, reply="yes")]
    replies: dict[Reply, float] = {
        Claim(places=(scene.place_of(agent),), source=scene.source(agent, 0.3)): 4,
        "no": 3,
    }
    if agent != REPLIER:
        replies["likely"] = 0.5
    reply = scene.rng.weighted_choice(replies)
    first = scene.exchange("went", agent, place=place, reply=reply)
    return [first, *([_trip(scene, agent)] if reply == "no" and scene.rng.happens(0.4) else [])]


# Topics that alterations apply to -----------------------------------------------------------------


def _done(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? She did."""
    thing, agent = scene.thing(), scene.agent()
    place = scene.place_of(agent)
    if scene.rng.happens(0.5):
        return [scene.exchange("did", agent, thing, place, reply="yes")]
    claim = Claim(agents=(agent,), places=(place,))
    return [scene.exchange("where", thing=thing, reply=claim)]


def _not_done(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? He did not."""
    agent = scene.agent()
    place = scene.place_of(agent)
    return [scene.exchange("did", agent, scene.thing(), place, reply="no")]


def _number(scene: Scene) -> list[Exchange]:
    """Where are the things? In the hall. How many are there? Three."""
    where = _located(scene, scene.thing(0))
    reply = Claim(amount=scene.number(least=2))
    return [where, scene.exchange("count", None, where.thing, where.claim.places[0], reply=reply)]


def _side_by_side(scene: Scene) -> list[Exchange]:
    """Where are the things? In the hall. Did somebody leave others there? She did."""
    agent = scene.agent()
    place = scene.place_of(agent)
    claim = Claim(places=(place,))
    where = scene.exchange("where", thing=scene.thing(0), reply=claim)
    reply: Reply = Claim(then=scene.next_place(agent, place)) if scene.rng.happens(0.8) else "yes"
    return [where, scene.exchange("did", agent, scene.thing(), place, reply=reply)]


def _missing(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? She left others there."""
    agent, place = scene.agent(), scene.place()
    replies: dict[Reply, float] = {"no": 2}
    if place in scene.haunts[agent]:
        replies[Claim(things=(scene.thing(),))] = 3
    else:
        replies[scene.elsewhere(agent, place)] = 3
    reply = scene.rng.weighted_choice(replies)
    return [scene.exchange("did", agent, scene.thing(), place, reply=reply)]


def _affirmed(scene: Scene) -> list[Exchange]:
    """Are some of the things in the hall? Yes, some of them are there."""
    kind = scene.rng.below(6)
    if kind == 0:
        return [_presence(scene, "yes")]
    if kind < 4:
        return [_located(scene, scene.thing())]
    return _done(scene)


def _denied(scene: Scene) -> list[Exchange]:
    """Are some of the things in the hall? No."""
    return [_presence(scene, "no")] if scene.rng.happens(0.2) else _not_done(scene)


def _presence(scene: Scene, reply: Reply) -> Exchange:
    return scene.exchange("amount", None, scene.thing(0), scene.place_seen(), SOME, reply=reply)


def _quantified(scene: Scene, amount: Amount) -> list[Exchange]:
    """Are some of the things in the hall? All of them are."""
    rng, thing, place = scene.rng, scene.thing(0), scene.place_seen()
    if rng.happens(0.15):
        return [scene.exchange("amount", None, thing, place, amount, reply="yes")]
    before = _found_before(scene, thing, place, amount == ALL)
    asked = ALL if before or rng.happens(0.35) else SOME
    amounts = scene.exchange("amount", None, thing, place, asked, reply=Claim(amount=amount))
    return [*before, amounts]


def _found_before(scene: Scene, thing: str, place: str, is_of_all: bool) -> list[Exchange]:
    """Return perhaps where things are, all of them if so told, before their amount is asked."""
    kind = scene.rng.below(10)
    if kind < 1:
        return _in_container(scene, thing, place)[:1]
    if kind < 3 and is_of_all:
        return [scene.exchange("where", thing=thing, reply=Claim(places=(place,)))]
    return []


def _joined(scene: Scene, connective: Connective, by_agent: bool) -> list[Exchange]:
    """Where are the things? They are in the hall or the den. Or: Two people left them there."""
    agent = scene.traveller(REPLIER) if not by_agent and scene.rng.happens(0.4) else None
    if agent:  # Where did somebody go? To the hall or the den.
        claim = Claim(places=scene.two(scene.haunts[agent]), connective=connective)
        return [scene.exchange("where to", agent, reply=claim)]
    if by_agent and (connective == "and" or scene.rng.happens(0.5)):
        agents = scene.two(scene.agents)
        place = scene.place_of(agents[0])
        claim = Claim(agents=agents, places=(place,), connective=connective)
    else:
        agents = (scene.person(),) if by_agent else ()
        places = scene.haunts[agents[0]] if agents else scene.places
        claim = Claim(agents=agents, places=scene.two(places), connective=connective)
    return [scene.exchange("where", thing=scene.thing(0), reply=claim)]


COMMON_TOPICS: Mapping[str, float] = read_package_toml(__package__, "plans.toml")["common_topics"]
TOPICS: dict[str, Topic] = {
    "somewhere": _somewhere,
    "asked about": _asked_about,
    "container": lambda scene: _in_container(scene, scene.thing(0), scene.place()),
    "quantity": _quantity,
    "quantifier": _quantifier,
    "journey": _journey,
    "done": _done,
    "not done": _not_done,
    "number": _number,
    "side by side": _side_by_side,
    "missing": _missing,
    "affirmed": _affirmed,
    "denied": _denied,
    "all": partial(_quantified, amount=ALL),
    "some": partial(_quantified, amount=SOME),
    "and": partial(_joined, connective="and", by_agent=False),
    "or": partial(_joined, connective="or", by_agent=False),
    "done and": partial(_joined, connective="and", by_agent=True),
    "done or": partial(_joined, connective="or", by_agent=True),
}
