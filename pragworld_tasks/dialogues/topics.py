"""Topics: short runs of exchanges about one kind of things, or about where somebody went.

People, things and places come from a small scene, so the topics of a dialogue overlap, and a reader
has to keep them apart.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial

from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.styles import Style
from pragworld_tasks.dialogues.vocabulary import COLORS, WOMEN, NounNumber, is_time, number_of
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

_WORDINGS = 5040  # large enough for all numbers of phrases to be equally likely
LARGEST = 5  # the largest number that dialogues start from

_AND_OR: tuple[Connective, Connective] = ("and", "or")
_CONNECTIVES: tuple[Connective, ...] = ("and", "and", "and", "or", "or", "or", "if not")
_ANSWERS: tuple[Reply, ...] = (*("yes",) * 4, *("no",) * 4, "unknown", "likely")


class Scene:
    """The people, things and places of a dialogue, to draw exchanges from."""

    def __init__(
        self,
        rng: StableRandom,
        agents: list[str],
        things: list[str],
        places: list[str],
        style: Style,
        first_scene: int | None = None,
    ) -> None:
        self.rng = rng
        self.agents = agents
        self.things = things
        self.places = places
        self.containers = style.containers
        self._first_scene = first_scene
        self._slots = rng.shuffled(places)
        self._travellers = rng.shuffled([*agents, REPLIER])
        self._small_talk = rng.shuffled(range(len(style.small_talk)))
        self._scenes = list(style.scene_numbers)

    @cached_property
    def haunts(self) -> dict[str, tuple[str, ...]]:
        """For each person, the two places where they have been in a household."""
        return {name: self.two(self.places) for name in (*self.agents, REPLIER)}

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

    def agent(self) -> str:
        """Return a person who may put things somewhere, now and then the replier."""
        return REPLIER if self.rng.happens(0.12) else self.rng.choice(self.agents)

    def person(self) -> str:
        """Return a person who is not a speaker."""
        return self.rng.choice(self.agents)

    def traveller(self) -> str:
        """Return a person whose journey the dialogue has not mentioned, as long as there is one."""
        return self._travellers.pop() if self._travellers else self.person()

    def thing(self, *numbers: NounNumber) -> str:
        """Return things that the dialogue has not mentioned, as long as there are any.

        Args:
            numbers: The numbers that the noun may have. Any by default.
        """
        things = self.things
        for position in range(len(things) - 1, -1, -1):
            if not numbers or number_of(things[position]) in numbers:
                return things[position] if len(things) < 3 else things.pop(position)
        raise Unclear("no things of which the topic can speak")

    def place(self, other_than: str | None = None) -> str:
        """Return a place, other than the given one."""
        return self.rng.choice([place for place in self.places if place != other_than])

    def slot(self) -> str:
        """Return a time that nobody has proposed, as long as there is one."""
        return self._slots.pop() if self._slots else self.place()

    def two(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return two of the names."""
        return tuple(self.rng.sample(names, 2))

    def small_talk(self) -> int:
        """Return the number of a phrase that the dialogue has not used, as long as there is one."""
        return self._small_talk.pop() if self._small_talk else 0

    def scene(self) -> Sequence[int]:
        """Return the numbers of the phrases of a scene that the dialogue has not played.

        Raises:
            Unclear: There is none.
        """
        if not self._scenes:
            raise Unclear("no scene that has not been played")
        number = self.rng.below(len(self._scenes))
        if self._first_scene is not None:
            number, self._first_scene = self._first_scene % len(self._scenes), None
        return self._scenes.pop(number)

    @property
    def has_rooms(self) -> bool:
        """Whether the places are such that people go there."""
        return not is_time(self.places[0])

    def number(self) -> Amount:
        """Return an exact number."""
        return Amount("number", (1 + self.rng.below(LARGEST),))

    def at_least(self) -> Amount:
        """Return a smallest number, above one."""
        return Amount("at least", (2 + self.rng.below(LARGEST - 2),))

    def several(self) -> Amount:
        """Return an exact number above one."""
        return Amount("number", (2 + self.rng.below(LARGEST - 1),))

    def either(self) -> Amount:
        """Return a choice between two consecutive numbers."""
        low = 1 + self.rng.below(LARGEST - 1)
        return Amount("either", (low, low + 1))

    def two_of_other_gender(self) -> tuple[str, str]:
        """Return a woman and a man, or a man and a woman.

        Raises:
            Unclear: The dialogue has no such two people.
        """
        first = self.person()
        others = [name for name in self.agents if (name in WOMEN) != (first in WOMEN)]
        if not others:
            raise Unclear("nobody else who would be he or she")
        return first, self.rng.choice(others)

    def amount(self, thing: str) -> Amount:
        """Return a quantifier, a number or a range of numbers; of a single thing, "the"."""
        number = number_of(thing)
        if number == "singular":
            return THE
        kind = self.rng.below(8 if number == "plural" else 2)
        if kind < 2:
            return ALL if kind else SOME
        if kind == 6:
            return self.either()
        if kind == 7:
            return self.at_least()
        return self.number()


Topic = Callable[[Scene], list[Exchange]]

# Topics: the docstring of each is an example ------------------------------------------------------


def _somewhere(scene: Scene) -> list[Exchange]:
    """Where are the things? In the hall."""
    rng, thing = scene.rng, scene.thing()
    kind = rng.below(10)
    reply: Reply
    if kind < 4:
        agents = (scene.agent(),) if rng.happens(0.5) else ()
        source = scene.person() if rng.happens(0.2) else None
        if source and (not agents or rng.happens(0.5)):
            agents = (source,) if rng.happens(0.5) else ()
        place = scene.place()
        goes_on = agents and scene.has_rooms and rng.happens(0.4)
        then = scene.place(other_than=place) if goes_on else None
        reply = Claim(agents=agents, places=(place,), source=source, then=then)
    elif kind < 6:
        connective = rng.choice(_CONNECTIVES)
        if number_of(thing) == "singular":
            connective = "or"
        agents = (scene.person(),) if rng.happens(0.4) else ()
        reply = Claim(agents=agents, places=scene.two(scene.places), connective=connective)
    elif kind < 7:
        reply = Claim(places=(scene.place(),), denied=True)
    elif kind < 8:
        reply = Claim(places=(scene.place(),), amount=scene.amount(thing))
    else:
        reply = "unknown"
    return _continued(scene, scene.exchange("where", thing=thing, reply=reply))


def _did(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? She did."""
    rng, thing, agent, place = scene.rng, scene.thing(), scene.agent(), scene.place()
    kind = rng.below(12)
    reply: Reply
    other_place = scene.place(other_than=place)
    if kind < 2:
        reply = "yes"
    elif kind < 3:
        reply = Claim(then=scene.place(other_than=place)) if scene.has_rooms else "yes"
    elif kind < 5:
        reply = "no"
    elif kind < 6:
        reply = _was_elsewhere(scene, agent, place) if scene.has_rooms else "no"
    elif kind < 7:
        reply = rng.choice(("unknown", "likely")) if agent != REPLIER else "yes"
    elif kind < 8:
        reply = Claim(things=(scene.thing(),))
    elif kind < 9:
        reply = Claim(places=(other_place,))
        if agent != REPLIER and rng.happens(0.4):
            either: Connective = "or" if rng.happens(0.8) else "if not"
            reply = Claim(places=scene.two(scene.places), connective=either)
    elif kind < 10:
        reply = Claim(agents=(rng.choice([name for name in scene.agents if name != agent]),))
    elif kind < 11:
        amount = scene.amount(thing)
        reply = Claim(amount=amount) if amount != THE else "yes"
    elif agent != REPLIER:
        reply = Claim(source=agent, denied=rng.happens(0.4))
        if not reply.denied and rng.happens(0.5):
            reply = reply._replace(amount=scene.amount(thing))
    else:
        reply = "no"
    return _continued(scene, scene.exchange("did", agent, thing, place, reply=reply))


def _quantity(scene: Scene) -> list[Exchange]:
    """How many of the things are in the hall? Three."""
    rng, thing, place = scene.rng, scene.thing("plural"), scene.place()
    if rng.happens(0.15):
        return [scene.exchange("count", thing=thing, place=place, reply="unknown")]
    amount = scene.amount(thing)
    while not amount.numbers:
        amount = scene.amount(thing)
    source = scene.person() if rng.happens(0.2) else None
    agents = (scene.person(),) if rng.happens(0.3) or source else ()
    if source and rng.happens(0.6):
        agents = (source,)
    form: ExchangeForm = "count" if rng.happens(0.6) else "amount"
    asked_amount = rng.choice((ANY, SOME, ALL)) if form == "amount" else THE
    reply = Claim(agents=agents, amount=amount, source=source)
    return _continued(scene, scene.exchange(form, None, thing, place, asked_amount, reply=reply))


def _quantifier(scene: Scene) -> list[Exchange]:
    """Are all of the things in the hall? Some of them are."""
    rng, thing, place = scene.rng, scene.thing("plural", "mass"), scene.place()
    kind = rng.below(6)
    reply: Reply
    amount = rng.choice((SOME, ALL))
    if kind < 2:
        reply = Claim(amount=rng.choice((SOME, ALL)))
    elif kind < 3:
        reply = Claim(agents=(scene.agent(),), amount=rng.choice((SOME, ALL)))
    elif kind < 5:
        reply = "yes"
    else:
        reply = "unknown"
    return _continued(scene, scene.exchange("amount", None, thing, place, amount, reply=reply))


def _presence(scene: Scene) -> list[Exchange]:
    """Are there any of the things in the hall? Yes, there are."""
    reply = scene.rng.choice(_ANSWERS)
    thing, place = scene.thing(), scene.place()
    amount = THE if number_of(thing) == "singular" else ANY
    return _continued(scene, scene.exchange("amount", None, thing, place, amount, reply=reply))


def _contents(scene: Scene) -> list[Exchange]:
    """What is in the hall? The pears and the plums."""
    rng = scene.rng
    agent = scene.agent() if rng.happens(0.6) else None
    if rng.happens(0.6):
        connective = rng.choice(_AND_OR)
        reply = Claim(things=(scene.thing(), scene.thing()), connective=connective)
    else:
        thing = scene.thing()
        amount = scene.amount(thing) if rng.happens(0.5) else THE
        reply = Claim(things=(thing,), amount=amount)
    return [scene.exchange("what", agent, place=scene.place(), reply=reply)]


def _act(scene: Scene, denied: bool) -> list[Exchange]:
    """Did somebody leave the things in the hall? She did. Or, if denied: She did not."""
    agent, thing, place = scene.agent(), scene.thing(), scene.place()
    if scene.has_rooms and scene.rng.happens(0.3):
        then = Claim(then=scene.place(other_than=place))
        reply = _was_elsewhere(scene, agent, place) if denied else then
        return [scene.exchange("did", agent, thing, place, reply=reply)]
    if scene.rng.happens(0.5):
        return [scene.exchange("did", agent, thing, place, reply="no" if denied else "yes")]
    reply = Claim(agents=(agent,), places=(place,), denied=denied)
    return [scene.exchange("where", thing=thing, reply=reply)]


def _went(scene: Scene, reply: Reply) -> list[Exchange]:
    """Did somebody go to the hall? He did, or did not."""
    if reply == "no" and scene.rng.happens(0.4):
        place = scene.place()
        reply = Claim(places=(scene.place(other_than=place),))
        return [scene.exchange("went", scene.traveller(), place=place, reply=reply)]
    return [scene.exchange("went", scene.traveller(), place=scene.place(), reply=reply)]


def _went_to_two(scene: Scene, connective: Connective) -> list[Exchange]:
    """Where did somebody go? To the hall and the den, or to one of the two."""
    claim = Claim(places=scene.two(scene.places), connective=connective)
    return [scene.exchange("where to", scene.traveller(), reply=claim)]


def _knows(scene: Scene, reply: Reply) -> list[Exchange]:
    """Does somebody know where the things are? She does, or does not."""
    return [scene.exchange("knows", scene.person(), scene.thing(), reply=reply)]


def _polar(scene: Scene, denied: bool) -> list[Exchange]:
    """Are there any of the things in the hall? Yes. Or, if denied: No."""
    rng = scene.rng
    kind = rng.below(6)
    reply: Reply = "no" if denied else "yes"
    if not scene.has_rooms and rng.happens(0.5):
        return _accepted(scene, reply)
    if kind < 2:
        return [scene.exchange("did", scene.agent(), scene.thing(), scene.place(), reply=reply)]
    if kind < 4:
        thing, place, amount = scene.thing(), scene.place(), rng.choice((ANY, ANY, SOME))
        if number_of(thing) == "singular":
            amount = THE
        return [scene.exchange("amount", None, thing, place, amount, reply=reply)]
    if kind < 5:
        return _knows(scene, reply)
    agents = (scene.person(),) if rng.happens(0.5) else ()
    thing = scene.thing()
    claim = Claim(agents=agents, places=(scene.place(),), denied=denied)
    return [scene.exchange("where", thing=thing, reply=claim)]


def _quantified(scene: Scene, amount: Amount, by_agent: bool) -> list[Exchange]:
    """Are all of them there? All of them are. Or, by an agent: Somebody left all of them there."""
    rng = scene.rng
    agents = (scene.agent(),) if by_agent or rng.happens(0.2) else ()
    thing, place = scene.thing("plural", "mass"), scene.place()
    if not by_agent and rng.happens(0.3):
        return [scene.exchange("amount", None, thing, place, amount, reply="yes")]
    asked_amount = rng.choice((amount, amount, SOME, ALL))
    reply = Claim(agents=agents, amount=amount)
    return [scene.exchange("amount", None, thing, place, asked_amount, reply=reply)]


def _connected(scene: Scene, connective: Connective, by_agent: bool) -> list[Exchange]:
    """Where are the things? In the hall and the den. Or, by an agent: Somebody left them there."""
    rng = scene.rng
    slot = rng.below(3) if by_agent else rng.below(4)
    agents: tuple[str, ...] = ()
    if slot == 0:
        claim = Claim(things=(scene.thing(), scene.thing()), connective=connective)
        agent = scene.person() if by_agent or rng.happens(0.6) else None
        return [scene.exchange("what", agent, place=scene.place(), reply=claim)]
    if slot == 3:
        return _went_to_two(scene, connective)
    thing = scene.thing() if slot == 1 or connective == "or" else scene.thing("plural", "mass")
    if slot == 2:
        places = scene.two(scene.places)
        if by_agent or rng.happens(0.4):
            agents = (scene.person(),)
    else:
        agents = scene.two([*scene.agents, *((REPLIER,) if connective == "and" else ())])
        places = (scene.place(),)
    claim = Claim(agents=agents, places=places, connective=connective)
    return [scene.exchange("where", thing=thing, reply=claim)]


def _moved(scene: Scene) -> list[Exchange]:
    """Where are they? Somebody left them in the hall. Are they still there? No, she moved them."""
    rng, thing, place, agent = scene.rng, scene.thing(), scene.place(), scene.agent()
    move = Claim(places=(scene.place(other_than=place),), agents=(scene.agent(),))
    if rng.happens(0.5):
        claim = Claim(agents=(agent,), places=(place,))
        first = scene.exchange("where", thing=thing, reply=claim)
    else:
        first = scene.exchange("did", agent, thing, place, reply="yes")
    return [first, scene.exchange("still", None, thing, place, reply=move)]


def _report(scene: Scene) -> list[Exchange]:
    """Where are the things? Somebody said they are in the hall."""
    rng, person = scene.rng, scene.person()
    agents: tuple[str, ...] = (person,) if rng.happens(0.5) else ()
    if rng.happens(0.4):
        thing, place = scene.thing(), scene.place()
        return [scene.exchange("did", person, thing, place, reply=Claim(source=person))]
    if rng.happens(0.5):
        claim = Claim(agents=agents, places=(scene.place(),), source=person)
        return [scene.exchange("where", thing=scene.thing(), reply=claim)]
    thing = scene.thing("plural")
    claim = Claim(agents=agents, amount=scene.amount(thing), source=person)
    return [scene.exchange("count", None, thing, scene.place(), reply=claim)]


def _quantity_left(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? She left three of them there."""
    agent, thing, place = scene.agent(), scene.thing("plural"), scene.place()
    return [scene.exchange("did", agent, thing, place, reply=Claim(amount=scene.number()))]


def _journey(scene: Scene) -> list[Exchange]:
    """Where did somebody go? To the hall."""
    rng, agent = scene.rng, scene.traveller()
    is_replier = agent == REPLIER
    source = agent if not is_replier and rng.happens(0.3) else None
    if rng.happens(0.5):
        place = scene.place()
        reply = rng.choice(_ANSWERS[: 8 if is_replier else 10])
        if rng.happens(0.4):
            reply = Claim(places=(scene.place(other_than=place),), source=source)
        return [scene.exchange("went", agent, place=place, reply=reply)]
    if rng.happens(0.6):
        claim = Claim(places=(scene.place(),), source=source)
    else:
        is_settled = is_replier or not scene.has_rooms
        connective = "and" if is_settled else rng.choice(_CONNECTIVES)
        claim = Claim(places=scene.two(scene.places), connective=connective, source=source)
    return [scene.exchange("where to", agent, reply=claim)]


def _knowledge(scene: Scene) -> list[Exchange]:
    """Does somebody know where the things are? He does."""
    reply = scene.rng.choice(_ANSWERS)
    thing, person = scene.thing(), scene.person()
    if scene.rng.happens(0.5):
        where = scene.exchange("where", thing=thing, reply="unknown")
        return [where, scene.exchange("knows", person, thing, reply=reply)]
    return [scene.exchange("knows", person, thing, reply=reply)]


def _was_elsewhere(scene: Scene, agent: str, place: str) -> Claim:
    """Return the reply that the agent was somewhere else, or did not go to the place."""
    source = agent if agent != REPLIER and scene.rng.happens(0.5) else None
    instead = place if scene.rng.happens(0.4) else scene.place(other_than=place)
    return Claim(denied=True, then=instead, source=source)


def _alibi(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? He said he was in the den."""
    agent, thing, place = scene.agent(), scene.thing(), scene.place()
    reply = _was_elsewhere(scene, agent, place)
    first = scene.exchange("did", agent, thing, place, reply=reply)
    return [first, *_others(scene, thing, place, agent)]


def _contrast(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? She left other things there."""
    agent, thing, place = scene.agent(), scene.thing(), scene.place()
    reply = Claim(things=(scene.thing(),))
    first = scene.exchange("did", agent, thing, place, reply=reply)
    return [first, *_others(scene, thing, place, agent)]


def _others(scene: Scene, thing: str, place: str, agent: str) -> list[Exchange]:
    """Return perhaps another question about things that somebody did not leave in the place."""
    rng = scene.rng
    if not rng.happens(0.5):
        return []
    other = rng.choice([name for name in scene.agents if name != agent])
    if rng.happens(0.5):
        return [scene.exchange("did", other, thing, place, reply=rng.choice(("yes", "no")))]
    return [_found(scene, thing)]


def _found(scene: Scene, thing: str) -> Exchange:
    """Return a question where the things are, and a statement that they are somewhere."""
    source = scene.person() if scene.rng.happens(0.4) else None
    claim = Claim(places=(scene.place(),), source=source)
    return scene.exchange("where", thing=thing, reply=claim)


def _container(scene: Scene) -> list[Exchange]:
    """Where are the things? There is a green box in the hall."""
    rng, thing = scene.rng, scene.thing("plural", "mass")
    place = scene.place()
    container = f"{rng.choice(COLORS)} {rng.choice(scene.containers)}"
    source = scene.person() if rng.happens(0.4) else None
    claim = Claim(places=(place,), amount=ANY, source=source, container=container)
    exchanges = [scene.exchange("where", thing=thing, reply=claim)]
    if rng.happens(0.5):
        reply: Reply = rng.choice(("yes", "no"))
        if rng.happens(0.3):
            reply = Claim(then=scene.place(other_than=place))
        exchanges.append(scene.exchange("did", scene.agent(), thing, place, reply=reply))
    if rng.happens(0.5) and number_of(thing) == "plural":
        amount = rng.choice((scene.several(), scene.either(), SOME, ALL))
        exchanges.append(scene.exchange("count", None, thing, place, reply=Claim(amount=amount)))
    return exchanges


def _second_hand(scene: Scene) -> list[Exchange]:
    """Where are the things? She said he told her they are in the hall."""
    source, origin = scene.two_of_other_gender()
    agents = (origin,) if scene.rng.happens(0.5) else ()
    claim = Claim(agents=agents, places=(scene.place(),), source=source, origin=origin)
    first = scene.exchange("where", thing=scene.thing(), reply=claim)
    return _continued(scene, first)


def _hedge(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? Probably."""
    rng, thing, place = scene.rng, scene.thing(), scene.place()
    amount = THE if number_of(thing) == "singular" else ANY
    kind = rng.below(3)
    if kind == 0:
        return [scene.exchange("did", scene.person(), thing, place, reply="likely")]
    if kind == 1:
        return [scene.exchange("amount", None, thing, place, amount, reply="likely")]
    return [scene.exchange("went", scene.traveller(), place=place, reply="likely")]


def _correction(scene: Scene) -> list[Exchange]:
    """Where are the things? In the hall. Are you sure? No, sorry, in the den."""
    rng = scene.rng
    kind = rng.below(3)
    if kind == 0:
        thing, (wrong, right) = scene.thing("plural"), rng.sample(range(1, LARGEST + 1), 2)
        first = Claim(amount=Amount("number", (wrong,)))
        second = Claim(amount=Amount("number", (right,)))
        question = scene.exchange("count", None, thing, scene.place(), reply=first)
    elif kind == 1:
        places = scene.two(scene.places)
        first, second = (Claim(places=(place,)) for place in places)
        question = scene.exchange("where", thing=scene.thing(), reply=first)
    else:
        agent, other = rng.sample(scene.agents, 2)
        second = Claim(agents=(other,))
        question = scene.exchange("did", agent, scene.thing(), scene.place(), reply="yes")
    return [question, scene.exchange("sure", reply=second)]


def _chain(scene: Scene) -> list[Exchange]:
    """Did somebody leave them there? No. Where are they? In the den. How many? Four."""
    rng, thing = scene.rng, scene.thing("plural")
    agent, place, other = scene.person(), *rng.sample(scene.places, 2)
    exchanges = [scene.exchange("did", agent, thing, other, reply="no")]
    source = scene.person() if rng.happens(0.3) else None
    exchanges.append(
        scene.exchange("where", thing=thing, reply=Claim(places=(place,), source=source))
    )
    steps: list[tuple[ExchangeForm, Reply]] = [
        ("who", _who_reply(scene)),
        ("count", _count_reply(scene)),
        ("did", rng.choice((*_ANSWERS, Claim(then=scene.place(other_than=place))))),
    ]
    for form, reply in rng.sample(steps, 1 + rng.below(2)):
        asked = scene.person() if form == "did" else None
        exchanges.append(scene.exchange(form, asked, thing, place, reply=reply))
    return exchanges


def _small_talk(scene: Scene) -> list[Exchange]:
    """It's cold today. It is. I might light the fire."""
    return [Exchange("chat", wordings=(scene.small_talk(), 0))]


def _scene(scene: Scene) -> list[Exchange]:
    """You look tired. I hardly slept. Why is that? My neighbours are noisy."""
    choice = scene.rng.below(_WORDINGS)
    return [Exchange("chat", wordings=(number, choice)) for number in scene.scene()]


def _continued(scene: Scene, first: Exchange) -> list[Exchange]:
    """Return the exchange, and perhaps more exchanges about the same things."""
    rng = scene.rng
    exchanges = [first]
    if first.reply not in ("unknown", "likely") and rng.happens(0.08):
        reply: Reply = rng.choice(("yes", "no"))
        exchanges.append(scene.exchange("sure", reply=reply))
        if reply == "no":
            return exchanges
    if not rng.happens(0.5):
        return exchanges
    claim = first.claim
    agents, things, places = first.claimed
    is_settled = first.reply == "yes" or (
        isinstance(first.reply, Claim) and not claim.denied and claim.connective != "or"
    )
    if (
        not (is_settled and len(places) == len(things) == 1)
        or (claim.things and first.thing)
        or (claim.places and first.place)
        or claim.amount.numbers == (1,)  # "Are they still there?" needs several
        or claim.then
    ):
        return exchanges
    # Whoever says that they are there does not say next that somebody has moved them.
    forms: list[ExchangeForm] = ["still"] if agents and rng.happens(0.5) else []
    if not agents:
        forms += ["who"]
    if not claim.amount.numbers and number_of(things[0]) == "plural":
        forms += ["count"] * 2
    for form in rng.sample(list(dict.fromkeys(rng.shuffled(forms))), 1 + rng.below(2)):
        if form == "count":
            reply = _count_reply(scene)
        elif form == "who":
            reply = _who_reply(scene)
        else:
            reply = "yes"
            if rng.happens(0.6):
                to = scene.place(other_than=places[0])
                reply = Claim(agents=(scene.agent(),), places=(to,))
        exchanges.append(scene.exchange(form, None, things[0], places[0], reply=reply))
        if form == "still" and reply != "yes":
            break
    return exchanges


def _count_reply(scene: Scene) -> Reply:
    kind = scene.rng.below(4)
    if kind == 0:
        return "unknown"
    return Claim(amount=scene.either() if kind == 1 else scene.several())


def _who_reply(scene: Scene) -> Reply:
    return scene.rng.choice(
        (
            "unknown",
            Claim(agents=(scene.agent(),)),
            Claim(agents=(scene.agent(),)),
            Claim(agents=(scene.agent(),), denied=True),
            Claim(agents=scene.two(scene.agents), connective="or"),
            Claim(agents=scene.two([*scene.agents, REPLIER]), connective="and"),
        )
    )


# Topics about events and times --------------------------------------------------------------------


def _proposal(scene: Scene) -> list[Exchange]:
    """Shall we have the event then? I can't. Would another time be possible? Yes."""
    rng, thing, place = scene.rng, scene.thing(), scene.slot()
    kind = rng.below(10)
    if kind < 4:
        settled: Reply = "yes" if kind < 3 else "unknown"
        return [scene.exchange("shall", None, thing, place, reply=settled)]
    other = scene.slot()
    if other == place:
        raise Unclear("no other time to propose")
    replies: tuple[Reply, Reply] = ("no", Claim(places=(other,)))
    first = scene.exchange("shall", None, thing, place, reply=rng.choice(replies))
    if rng.happens(0.3):
        return [first]
    # Nobody turns down what they have just proposed.
    reply: Reply = "yes" if first.reply != "no" or rng.happens(0.6) else "no"
    return [first, scene.exchange("shall", None, thing, other, reply=reply)]


def _accepted(scene: Scene, reply: Reply) -> list[Exchange]:
    """Shall we have the event then? Good idea. Or: I'd rather not."""
    return [scene.exchange("shall", None, scene.thing(), scene.slot(), reply=reply)]


TOPICS: dict[str, Topic] = {
    "proposal": _proposal,
    "somewhere": _somewhere,
    "asked about": _did,
    "quantity": _quantity,
    "quantifier": _quantifier,
    "presence": _presence,
    "contents": _contents,
    "journey": _journey,
    "knowledge": _knowledge,
    "small talk": _small_talk,
    "scene": _scene,
    "alibi": _alibi,
    "contrast": _contrast,
    "container": _container,
    "second hand": _second_hand,
    "hedge": _hedge,
    "correction": _correction,
    "chain": _chain,
    "moved": _moved,
    "report": _report,
    "affirmed": partial(_polar, denied=False),
    "denied": partial(_polar, denied=True),
    "done": partial(_act, denied=False),
    "not done": partial(_act, denied=True),
    "gone": partial(_went, reply="yes"),
    "not gone": partial(_went, reply="no"),
    "gone and": partial(_went_to_two, connective="and"),
    "gone or": partial(_went_to_two, connective="or"),
    "known": partial(_knows, reply="yes"),
    "not known": partial(_knows, reply="no"),
    "quantity done": _quantity_left,
    "all": partial(_quantified, amount=ALL, by_agent=False),
    "some": partial(_quantified, amount=SOME, by_agent=False),
    "all done": partial(_quantified, amount=ALL, by_agent=True),
    "some done": partial(_quantified, amount=SOME, by_agent=True),
    "and": partial(_connected, connective="and", by_agent=False),
    "or": partial(_connected, connective="or", by_agent=False),
    "done and": partial(_connected, connective="and", by_agent=True),
    "done or": partial(_connected, connective="or", by_agent=True),
}
