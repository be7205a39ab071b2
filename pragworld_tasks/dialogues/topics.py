"""Topics: exchanges about one kind of things, about where somebody went, or about nothing much.

People, things and places come from a small circle, so that the topics of a dialogue overlap and
have to be kept apart.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.world import (
    ALL,
    ANY,
    MOST_NUMBER,
    REPLIER,
    SOME,
    THE,
    Amount,
    Claim,
    Connective,
    Exchange,
    Form,
)

SMALL_TALK = 6  # how many there are of each domain
_WORDINGS = 12  # a multiple of the numbers of forms of words that there are

Reply = Literal["yes", "no", "unknown"] | Claim
_AND_OR: tuple[Connective, Connective] = ("and", "or")
_CONNECTIVES: tuple[Connective, ...] = ("and", "and", "or", "or", "if not")
_ANSWERS: tuple[Reply, ...] = ("yes", "yes", "no", "no", "unknown")


class Scene:
    """The people, things and places of a dialogue."""

    def __init__(
        self, rng: StableRandom, agents: list[str], things: list[str], places: list[str]
    ) -> None:
        self.rng = rng
        self.agents = agents
        self.travellers = list(agents)
        self.talk = rng.shuffled(range(SMALL_TALK))
        self.things = things
        self.places = places

    def agent(self) -> str:
        """Somebody; now and then the one who replies."""
        return REPLIER if self.rng.happens(0.12) else self.rng.choice(self.agents)

    def person(self) -> str:
        """Somebody who does not take part in the dialogue."""
        return self.rng.choice(self.agents)

    def traveller(self) -> str:
        """Somebody whose whereabouts nobody has spoken of yet."""
        return self.travellers.pop() if self.travellers else self.person()

    def thing(self) -> str:
        """Things of which nobody has spoken yet, as long as there are any."""
        return self.things.pop() if len(self.things) > 1 else self.rng.choice(self.things)

    def place(self) -> str:
        """One of the places."""
        return self.rng.choice(self.places)

    def two(self, names: Sequence[str]) -> tuple[str, ...]:
        """Two of the names."""
        return tuple(self.rng.sample(names, 2))

    def wordings(self) -> tuple[int, int]:
        """Forms of words for a question and its reply."""
        return self.rng.below(_WORDINGS), self.rng.below(_WORDINGS)

    def number(self) -> Amount:
        """An exact number."""
        return Amount("number", (1 + self.rng.below(MOST_NUMBER),))

    def either(self) -> Amount:
        """One of two numbers that are neighbours."""
        low = 1 + self.rng.below(7)
        return Amount("either", (low, low + 1))

    def amount(self) -> Amount:
        """An amount of which something can be said: all, some, a number, or about so many."""
        which = self.rng.below(8)
        if which < 2:
            return ALL if which else SOME
        if which == 6:
            return self.either()
        if which == 7:
            return Amount("at least", (2 + self.rng.below(6),))
        return self.number()

    def exchange(self, exchange: Exchange) -> Exchange:
        """The exchange in some form of words."""
        return exchange._replace(wordings=self.wordings())


Topic = Callable[[Scene], list[Exchange]]

# Topics -------------------------------------------------------------------------------------------


def _somewhere(scene: Scene) -> list[Exchange]:
    """Where are the things? In the hall."""
    rng, thing = scene.rng, scene.thing()
    which = rng.below(10)
    reply: Reply
    if which < 4:
        agents = (scene.agent(),) if rng.happens(0.5) else ()
        source = scene.person() if rng.happens(0.2) else None
        if source and (not agents or rng.happens(0.5)):
            agents = (source,) if rng.happens(0.5) else ()
        reply = Claim(agents=agents, places=(scene.place(),), source=source)
    elif which < 6:
        reply = _connected_places(scene)
    elif which < 7:
        reply = Claim(places=(scene.place(),), denied=True)
    elif which < 8:
        reply = Claim(places=(scene.place(),), amount=scene.amount())
    else:
        reply = "unknown"
    first = scene.exchange(Exchange("where", thing=thing, reply=reply))
    return [first, *_afterwards(scene, first)]


def _connected_places(scene: Scene) -> Claim:
    connective = scene.rng.choice(_CONNECTIVES)
    agents = (scene.person(),) if scene.rng.happens(0.4) else ()
    return Claim(agents=agents, places=scene.two(scene.places), connective=connective)


def _asked_about(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? She did."""
    rng, thing, agent, place = scene.rng, scene.thing(), scene.agent(), scene.place()
    which = rng.below(12)
    reply: Reply
    other = rng.choice([name for name in scene.places if name != place])
    if which < 3:
        reply = "yes"
    elif which < 6:
        reply = "no"
    elif which < 7:
        reply = "unknown" if agent != REPLIER else "yes"
    elif which < 8:
        reply = Claim(things=(scene.thing(),))
    elif which < 9:
        reply = Claim(places=(other,))
    elif which < 10:
        someone = rng.choice([name for name in scene.agents if name != agent])
        reply = Claim(agents=(someone,))
    elif which < 11:
        reply = Claim(amount=scene.amount())
    elif agent != REPLIER:
        reply = Claim(source=agent, denied=rng.happens(0.4))
        if not reply.denied and rng.happens(0.5):
            reply = reply._replace(amount=scene.amount())
    else:
        reply = "no"
    first = scene.exchange(Exchange("did", agent, thing, place, reply=reply))
    return [first, *_afterwards(scene, first)]


def _quantity(scene: Scene) -> list[Exchange]:
    """How many of the things are in the hall? Three."""
    rng, thing, place = scene.rng, scene.thing(), scene.place()
    if rng.happens(0.15):
        return [scene.exchange(Exchange("count", thing=thing, place=place))]
    amount = scene.amount()
    while not amount.numbers:
        amount = scene.amount()
    source = scene.person() if rng.happens(0.2) else None
    agents = (scene.agent(),) if rng.happens(0.3) or source else ()
    if source and rng.happens(0.6):
        agents = (source,)
    form: Form = "count" if rng.happens(0.6) else "amount"
    first = Exchange(
        form,
        thing=thing,
        place=place,
        amount=rng.choice((ANY, SOME, ALL)) if form == "amount" else THE,
        reply=Claim(agents=agents, amount=amount, source=source),
    )
    return [scene.exchange(first), *_afterwards(scene, first)]


def _quantifier(scene: Scene) -> list[Exchange]:
    """Are all of the things in the hall? Some of them are."""
    rng, thing, place = scene.rng, scene.thing(), scene.place()
    which = rng.below(6)
    reply: Reply
    asked = rng.choice((SOME, ALL))
    if which < 2:
        reply = Claim(amount=rng.choice((SOME, ALL)))
    elif which < 3:
        reply = Claim(agents=(scene.agent(),), amount=rng.choice((SOME, ALL)))
    elif which < 5:
        reply = "yes"
    else:
        reply = "unknown"
    first = scene.exchange(Exchange("amount", thing=thing, place=place, amount=asked, reply=reply))
    return [first, *_afterwards(scene, first)]


def _presence(scene: Scene) -> list[Exchange]:
    """Are there any of the things in the hall? Yes, there are."""
    reply = scene.rng.choice(_ANSWERS)
    first = scene.exchange(
        Exchange(
            "amount",
            thing=scene.thing(),
            place=scene.place(),
            amount=ANY,
            reply=reply,
        )
    )
    return [first, *_afterwards(scene, first)]


def _contents(scene: Scene) -> list[Exchange]:
    """What is in the hall? The pears and the plums."""
    rng = scene.rng
    agent = scene.agent() if rng.happens(0.6) else None
    if rng.happens(0.6):
        connective = rng.choice(_AND_OR)
        reply = Claim(things=(scene.thing(), scene.thing()), connective=connective)
    else:
        amount = scene.amount() if rng.happens(0.5) else THE
        reply = Claim(things=(scene.thing(),), amount=amount)
    return [scene.exchange(Exchange("what", agent, place=scene.place(), reply=reply))]


def _done(scene: Scene) -> list[Exchange]:
    """Somebody put the things somewhere."""
    return _act(scene, denied=False)


def _not_done(scene: Scene) -> list[Exchange]:
    """Somebody did not put the things somewhere."""
    return _act(scene, denied=True)


def _act(scene: Scene, denied: bool) -> list[Exchange]:
    agent, thing, place = scene.agent(), scene.thing(), scene.place()
    if scene.rng.happens(0.6):
        asked = Exchange("did", agent, thing, place, reply="no" if denied else "yes")
    else:
        reply = Claim(agents=(agent,), places=(place,), denied=denied)
        asked = Exchange("where", thing=thing, reply=reply)
    return [scene.exchange(asked)]


def _going(denied: bool) -> Topic:
    """Somebody is said to have gone somewhere, or not to have."""

    def topic(scene: Scene) -> list[Exchange]:
        reply: Literal["yes", "no"] = "no" if denied else "yes"
        asked = Exchange("went", scene.traveller(), place=scene.place(), reply=reply)
        return [scene.exchange(asked)]

    return topic


def _going_together(connective: Connective) -> Topic:
    """Somebody is said to have gone to two places, or to one of two."""

    def topic(scene: Scene) -> list[Exchange]:
        claim = Claim(places=scene.two(scene.places), connective=connective)
        return [scene.exchange(Exchange("where to", scene.traveller(), reply=claim))]

    return topic


def _knowing(denied: bool) -> Topic:
    """Somebody is said to know where the things are, or not to know."""

    def topic(scene: Scene) -> list[Exchange]:
        reply: Literal["yes", "no"] = "no" if denied else "yes"
        return [scene.exchange(Exchange("knows", scene.person(), scene.thing(), reply=reply))]

    return topic


def _affirmed(scene: Scene) -> list[Exchange]:
    """Something that a "not" would make otherwise."""
    return _polar(scene, denied=False)


def _denied(scene: Scene) -> list[Exchange]:
    """Something that has a "not", or a "no", in it."""
    return _polar(scene, denied=True)


def _polar(scene: Scene, denied: bool) -> list[Exchange]:
    rng = scene.rng
    which = rng.below(6)
    reply: Reply = "no" if denied else "yes"
    if which < 2:
        asked = Exchange("did", scene.agent(), scene.thing(), scene.place())
    elif which < 4:
        asked = Exchange("amount", None, scene.thing(), scene.place(), rng.choice((ANY, ANY, SOME)))
    elif which < 5:
        asked = Exchange("knows", scene.person(), scene.thing())
    else:
        agents = (scene.person(),) if rng.happens(0.5) else ()
        asked = Exchange("where", thing=scene.thing())
        reply = Claim(agents=agents, places=(scene.place(),), denied=denied)
    return [scene.exchange(asked._replace(reply=reply))]


def _quantified(amount: Amount, done: bool) -> Topic:
    """Are all of them there? All of them are. Or, if done, somebody left all of them there."""

    def topic(scene: Scene) -> list[Exchange]:
        rng = scene.rng
        agents = (scene.agent(),) if done or rng.happens(0.2) else ()
        thing, place = scene.thing(), scene.place()
        if not done and rng.happens(0.3):
            asked = Exchange("amount", None, thing, place, amount, reply="yes")
        else:
            about = rng.choice((amount, amount, SOME, ALL))
            reply = Claim(agents=agents, amount=amount)
            asked = Exchange("amount", None, thing, place, about, reply)
        return [scene.exchange(asked)]

    return topic


def _connected(connective: Connective, done: bool) -> Topic:
    """Anything that "and" or "or" joins; if done, what somebody put somewhere."""

    def topic(scene: Scene) -> list[Exchange]:
        rng = scene.rng
        which = rng.below(3) if done else rng.below(4)
        agents: tuple[str, ...] = ()
        if which == 0:
            claim = Claim(things=(scene.thing(), scene.thing()), connective=connective)
            agent = scene.person() if done or rng.happens(0.6) else None
            return [scene.exchange(Exchange("what", agent, place=scene.place(), reply=claim))]
        if which == 3:
            return _going_together(connective)(scene)
        if which == 2:
            places = scene.two(scene.places)
            if done or rng.happens(0.4):
                agents = (scene.person(),)
        else:
            agents = scene.two([*scene.agents, *((REPLIER,) if connective == "and" else ())])
            places = (scene.place(),)
        claim = Claim(agents=agents, places=places, connective=connective)
        return [scene.exchange(Exchange("where", thing=scene.thing(), reply=claim))]

    return topic


def _moved(scene: Scene) -> list[Exchange]:
    """Where are they? In the hall. Are they still there? No, somebody moved them."""
    thing, place = scene.thing(), scene.place()
    if scene.rng.happens(0.5):
        agents = (scene.agent(),) if scene.rng.happens(0.5) else ()
        first = Exchange("where", thing=thing, reply=Claim(agents=agents, places=(place,)))
    else:
        first = Exchange("did", scene.agent(), thing, place, reply="yes")
    to = scene.rng.choice([name for name in scene.places if name != place])
    then = Exchange("still", reply=Claim(agents=(scene.agent(),), places=(to,)))
    return [scene.exchange(first), scene.exchange(then)]


def _report(scene: Scene) -> list[Exchange]:
    """Somebody said where things are."""
    rng, person = scene.rng, scene.person()
    agents: tuple[str, ...] = (person,) if rng.happens(0.5) else ()
    if rng.happens(0.4):
        asked = Exchange("did", person, scene.thing(), scene.place(), reply=Claim(source=person))
    elif rng.happens(0.5):
        claim = Claim(agents=agents, places=(scene.place(),), source=person)
        asked = Exchange("where", thing=scene.thing(), reply=claim)
    else:
        claim = Claim(agents=agents, amount=scene.amount(), source=person)
        asked = Exchange("count", thing=scene.thing(), place=scene.place(), reply=claim)
    return [scene.exchange(asked)]


def _quantity_done(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? She left three of them there."""
    asked = Exchange("did", scene.agent(), scene.thing(), scene.place())
    reply = Claim(amount=scene.number())
    return [scene.exchange(asked._replace(reply=reply))]


def _journey(scene: Scene) -> list[Exchange]:
    """Where did somebody go? To the hall."""
    rng = scene.rng
    agent = scene.traveller()
    if rng.happens(0.5):
        reply = rng.choice(_ANSWERS)
        asked = Exchange("went", agent, place=scene.place(), reply=reply)
        return [scene.exchange(asked)]
    if rng.happens(0.4):
        claim = Claim(places=(scene.place(),))
    else:
        connective = rng.choice(_AND_OR)
        claim = Claim(places=scene.two(scene.places), connective=connective)
    return [scene.exchange(Exchange("where to", agent, reply=claim))]


def _knowledge(scene: Scene) -> list[Exchange]:
    """Does somebody know where the things are? He does."""
    reply = scene.rng.choice(_ANSWERS)
    thing = scene.thing()
    asked = Exchange("knows", scene.person(), thing, reply=reply)
    if scene.rng.happens(0.5):
        where = scene.exchange(Exchange("where", thing=thing, reply="unknown"))
        return [where, scene.exchange(asked._replace(thing=None))]
    return [scene.exchange(asked)]


def _small_talk(scene: Scene) -> list[Exchange]:
    """Never the same twice."""
    return [Exchange("chat", wordings=(scene.talk.pop() if scene.talk else 0, 0))]


def _afterwards(scene: Scene, first: Exchange) -> list[Exchange]:
    """Further exchanges about the same things, or none."""
    rng = scene.rng
    made: list[Exchange] = []
    if first.reply != "unknown" and rng.happens(0.12):
        made.append(scene.exchange(Exchange("sure", reply=rng.choice(("yes", "no")))))
        if made[0].reply == "no":
            return made
    if not rng.happens(0.5):
        return made
    claim = first.claim
    places = claim.places or ((first.place,) if first.place else ())
    things = claim.things or ((first.thing,) if first.thing else ())
    settled = (
        first.reply == "yes"
        or (isinstance(first.reply, Claim) and not claim.denied and claim.connective != "or")
    ) and len(places) == len(things) == 1
    if not settled or (claim.things and first.thing) or (claim.places and first.place):
        return made
    agents = claim.agents or ((first.agent,) if first.agent else ())
    counted = bool(claim.amount.numbers)
    if claim.amount.numbers == (1,):  # "Are they still there?" is not asked of one
        return made
    options: list[Form] = ["still", "still"]
    if not agents:
        options += ["who"] * 3
    if not counted:
        options += ["count"] * 2
    for form in rng.sample(list(dict.fromkeys(rng.shuffled(options))), 1 + rng.below(2)):
        reply: Reply
        if form == "count":
            reply = _how_many_there_are(scene)
        elif form == "who":
            reply = _who_it_was(scene)
        else:
            reply = "yes"
            if rng.happens(0.6):
                to = rng.choice([name for name in scene.places if name != places[0]])
                reply = Claim(agents=(scene.agent(),), places=(to,))
        made.append(scene.exchange(Exchange(form, reply=reply)))
        if form == "still" and reply != "yes":
            break
    return made


def _how_many_there_are(scene: Scene) -> Reply:
    kind = scene.rng.below(4)
    if kind == 0:
        return "unknown"
    several = Amount("number", (2 + scene.rng.below(8),))
    return Claim(amount=scene.either() if kind == 1 else several)


def _who_it_was(scene: Scene) -> Reply:
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


TOPICS: dict[str, Topic] = {
    "somewhere": _somewhere,
    "asked about": _asked_about,
    "quantity": _quantity,
    "quantifier": _quantifier,
    "presence": _presence,
    "contents": _contents,
    "journey": _journey,
    "knowledge": _knowledge,
    "small talk": _small_talk,
    "moved": _moved,
    "report": _report,
    "affirmed": _affirmed,
    "denied": _denied,
    "done": _done,
    "not done": _not_done,
    "gone": _going(denied=False),
    "not gone": _going(denied=True),
    "gone and": _going_together("and"),
    "gone or": _going_together("or"),
    "known": _knowing(denied=False),
    "not known": _knowing(denied=True),
    "quantity done": _quantity_done,
    "all": _quantified(ALL, done=False),
    "some": _quantified(SOME, done=False),
    "all done": _quantified(ALL, done=True),
    "some done": _quantified(SOME, done=True),
    "and": _connected("and", done=False),
    "or": _connected("or", done=False),
    "done and": _connected("and", done=True),
    "done or": _connected("or", done=True),
}
MIX = (
    *("somewhere",) * 4,
    *("asked about",) * 4,
    *("quantity",) * 3,
    *("quantifier",) * 2,
    *("presence",) * 2,
    *("contents",) * 2,
    "and",
    "or",
    "moved",
    *("journey",) * 2,
    *("knowledge",) * 2,
    *("small talk",) * 2,
)
