"""Topics: exchanges about one kind of things, about where somebody went, or about nothing much.

People, things and places come from a small circle, so that the topics of a dialogue overlap and
have to be kept apart.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from pragworld_tasks.dialogues.stable_random import Chance
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


class Circle:
    """The people, things and places of a dialogue."""

    def __init__(
        self, chance: Chance, agents: list[str], things: list[str], places: list[str]
    ) -> None:
        self.chance = chance
        self.agents = agents
        self.travellers = list(agents)
        self.talk = chance.shuffled(range(SMALL_TALK))
        self.things = things
        self.places = places

    def agent(self) -> str:
        """Somebody; now and then the one who replies."""
        return REPLIER if self.chance.happens(0.12) else self.chance.pick(self.agents)

    def person(self) -> str:
        """Somebody who does not take part in the dialogue."""
        return self.chance.pick(self.agents)

    def traveller(self) -> str:
        """Somebody whose whereabouts nobody has spoken of yet."""
        return self.travellers.pop() if self.travellers else self.person()

    def thing(self) -> str:
        """Things of which nobody has spoken yet, as long as there are any."""
        return self.things.pop() if len(self.things) > 1 else self.chance.pick(self.things)

    def place(self) -> str:
        """One of the places."""
        return self.chance.pick(self.places)

    def two(self, names: Sequence[str]) -> tuple[str, ...]:
        """Two of the names."""
        return tuple(self.chance.sample(names, 2))

    def wordings(self) -> tuple[int, int]:
        """Forms of words for a question and its reply."""
        return self.chance.below(_WORDINGS), self.chance.below(_WORDINGS)

    def number(self) -> Amount:
        """An exact number."""
        return Amount("number", (1 + self.chance.below(MOST_NUMBER),))

    def either(self) -> Amount:
        """One of two numbers that are neighbours."""
        low = 1 + self.chance.below(7)
        return Amount("either", (low, low + 1))

    def amount(self) -> Amount:
        """An amount of which something can be said: all, some, a number, or about so many."""
        which = self.chance.below(8)
        if which < 2:
            return ALL if which else SOME
        if which == 6:
            return self.either()
        if which == 7:
            return Amount("at least", (2 + self.chance.below(6),))
        return self.number()

    def exchange(self, exchange: Exchange) -> Exchange:
        """The exchange in some form of words."""
        return exchange._replace(wordings=self.wordings())


Topic = Callable[[Circle], list[Exchange]]

# Topics -------------------------------------------------------------------------------------------


def _somewhere(circle: Circle) -> list[Exchange]:
    """Where are the things? In the hall."""
    chance, thing = circle.chance, circle.thing()
    which = chance.below(10)
    reply: Reply
    if which < 4:
        agents = (circle.agent(),) if chance.happens(0.5) else ()
        source = circle.person() if chance.happens(0.2) else None
        if source and (not agents or chance.happens(0.5)):
            agents = (source,) if chance.happens(0.5) else ()
        reply = Claim(agents=agents, places=(circle.place(),), source=source)
    elif which < 6:
        reply = _connected_places(circle)
    elif which < 7:
        reply = Claim(places=(circle.place(),), denied=True)
    elif which < 8:
        reply = Claim(places=(circle.place(),), amount=circle.amount())
    else:
        reply = "unknown"
    first = circle.exchange(Exchange("where", thing=thing, reply=reply))
    return [first, *_afterwards(circle, first)]


def _connected_places(circle: Circle) -> Claim:
    connective = circle.chance.pick(_CONNECTIVES)
    agents = (circle.person(),) if circle.chance.happens(0.4) else ()
    return Claim(agents=agents, places=circle.two(circle.places), connective=connective)


def _asked_about(circle: Circle) -> list[Exchange]:
    """Did somebody leave the things in the hall? She did."""
    chance, thing, agent, place = circle.chance, circle.thing(), circle.agent(), circle.place()
    which = chance.below(12)
    reply: Reply
    other = chance.pick([name for name in circle.places if name != place])
    if which < 3:
        reply = "yes"
    elif which < 6:
        reply = "no"
    elif which < 7:
        reply = "unknown" if agent != REPLIER else "yes"
    elif which < 8:
        reply = Claim(things=(circle.thing(),))
    elif which < 9:
        reply = Claim(places=(other,))
    elif which < 10:
        someone = chance.pick([name for name in circle.agents if name != agent])
        reply = Claim(agents=(someone,))
    elif which < 11:
        reply = Claim(amount=circle.amount())
    elif agent != REPLIER:
        reply = Claim(source=agent, denied=chance.happens(0.4))
        if not reply.denied and chance.happens(0.5):
            reply = reply._replace(amount=circle.amount())
    else:
        reply = "no"
    first = circle.exchange(Exchange("did", agent, thing, place, reply=reply))
    return [first, *_afterwards(circle, first)]


def _quantity(circle: Circle) -> list[Exchange]:
    """How many of the things are in the hall? Three."""
    chance, thing, place = circle.chance, circle.thing(), circle.place()
    if chance.happens(0.15):
        return [circle.exchange(Exchange("count", thing=thing, place=place))]
    amount = circle.amount()
    while not amount.numbers:
        amount = circle.amount()
    source = circle.person() if chance.happens(0.2) else None
    agents = (circle.agent(),) if chance.happens(0.3) or source else ()
    if source and chance.happens(0.6):
        agents = (source,)
    form: Form = "count" if chance.happens(0.6) else "amount"
    first = Exchange(
        form,
        thing=thing,
        place=place,
        amount=chance.pick((ANY, SOME, ALL)) if form == "amount" else THE,
        reply=Claim(agents=agents, amount=amount, source=source),
    )
    return [circle.exchange(first), *_afterwards(circle, first)]


def _quantifier(circle: Circle) -> list[Exchange]:
    """Are all of the things in the hall? Some of them are."""
    chance, thing, place = circle.chance, circle.thing(), circle.place()
    which = chance.below(6)
    reply: Reply
    asked = chance.pick((SOME, ALL))
    if which < 2:
        reply = Claim(amount=chance.pick((SOME, ALL)))
    elif which < 3:
        reply = Claim(agents=(circle.agent(),), amount=chance.pick((SOME, ALL)))
    elif which < 5:
        reply = "yes"
    else:
        reply = "unknown"
    first = circle.exchange(Exchange("amount", thing=thing, place=place, amount=asked, reply=reply))
    return [first, *_afterwards(circle, first)]


def _presence(circle: Circle) -> list[Exchange]:
    """Are there any of the things in the hall? Yes, there are."""
    reply = circle.chance.pick(_ANSWERS)
    first = circle.exchange(
        Exchange(
            "amount",
            thing=circle.thing(),
            place=circle.place(),
            amount=ANY,
            reply=reply,
        )
    )
    return [first, *_afterwards(circle, first)]


def _contents(circle: Circle) -> list[Exchange]:
    """What is in the hall? The pears and the plums."""
    chance = circle.chance
    agent = circle.agent() if chance.happens(0.6) else None
    if chance.happens(0.6):
        connective = chance.pick(_AND_OR)
        reply = Claim(things=(circle.thing(), circle.thing()), connective=connective)
    else:
        amount = circle.amount() if chance.happens(0.5) else THE
        reply = Claim(things=(circle.thing(),), amount=amount)
    return [circle.exchange(Exchange("what", agent, place=circle.place(), reply=reply))]


def _done(circle: Circle) -> list[Exchange]:
    """Somebody put the things somewhere."""
    return _act(circle, denied=False)


def _not_done(circle: Circle) -> list[Exchange]:
    """Somebody did not put the things somewhere."""
    return _act(circle, denied=True)


def _act(circle: Circle, denied: bool) -> list[Exchange]:
    agent, thing, place = circle.agent(), circle.thing(), circle.place()
    if circle.chance.happens(0.6):
        asked = Exchange("did", agent, thing, place, reply="no" if denied else "yes")
    else:
        reply = Claim(agents=(agent,), places=(place,), denied=denied)
        asked = Exchange("where", thing=thing, reply=reply)
    return [circle.exchange(asked)]


def _going(denied: bool) -> Topic:
    """Somebody is said to have gone somewhere, or not to have."""

    def topic(circle: Circle) -> list[Exchange]:
        reply: Literal["yes", "no"] = "no" if denied else "yes"
        asked = Exchange("went", circle.traveller(), place=circle.place(), reply=reply)
        return [circle.exchange(asked)]

    return topic


def _going_together(connective: Connective) -> Topic:
    """Somebody is said to have gone to two places, or to one of two."""

    def topic(circle: Circle) -> list[Exchange]:
        claim = Claim(places=circle.two(circle.places), connective=connective)
        return [circle.exchange(Exchange("where to", circle.traveller(), reply=claim))]

    return topic


def _knowing(denied: bool) -> Topic:
    """Somebody is said to know where the things are, or not to know."""

    def topic(circle: Circle) -> list[Exchange]:
        reply: Literal["yes", "no"] = "no" if denied else "yes"
        return [circle.exchange(Exchange("knows", circle.person(), circle.thing(), reply=reply))]

    return topic


def _affirmed(circle: Circle) -> list[Exchange]:
    """Something that a "not" would make otherwise."""
    return _polar(circle, denied=False)


def _denied(circle: Circle) -> list[Exchange]:
    """Something that has a "not", or a "no", in it."""
    return _polar(circle, denied=True)


def _polar(circle: Circle, denied: bool) -> list[Exchange]:
    chance = circle.chance
    which = chance.below(6)
    reply: Reply = "no" if denied else "yes"
    if which < 2:
        asked = Exchange("did", circle.agent(), circle.thing(), circle.place())
    elif which < 4:
        asked = Exchange(
            "amount", None, circle.thing(), circle.place(), chance.pick((ANY, ANY, SOME))
        )
    elif which < 5:
        asked = Exchange("knows", circle.person(), circle.thing())
    else:
        agents = (circle.person(),) if chance.happens(0.5) else ()
        asked = Exchange("where", thing=circle.thing())
        reply = Claim(agents=agents, places=(circle.place(),), denied=denied)
    return [circle.exchange(asked._replace(reply=reply))]


def _quantified(amount: Amount, done: bool) -> Topic:
    """Are all of them there? All of them are. Or, if done, somebody left all of them there."""

    def topic(circle: Circle) -> list[Exchange]:
        chance = circle.chance
        agents = (circle.agent(),) if done or chance.happens(0.2) else ()
        thing, place = circle.thing(), circle.place()
        if not done and chance.happens(0.3):
            asked = Exchange("amount", None, thing, place, amount, reply="yes")
        else:
            about = chance.pick((amount, amount, SOME, ALL))
            reply = Claim(agents=agents, amount=amount)
            asked = Exchange("amount", None, thing, place, about, reply)
        return [circle.exchange(asked)]

    return topic


def _connected(connective: Connective, done: bool) -> Topic:
    """Anything that "and" or "or" joins; if done, what somebody put somewhere."""

    def topic(circle: Circle) -> list[Exchange]:
        chance = circle.chance
        which = chance.below(3) if done else chance.below(4)
        agents: tuple[str, ...] = ()
        if which == 0:
            claim = Claim(things=(circle.thing(), circle.thing()), connective=connective)
            agent = circle.person() if done or chance.happens(0.6) else None
            return [circle.exchange(Exchange("what", agent, place=circle.place(), reply=claim))]
        if which == 3:
            return _going_together(connective)(circle)
        if which == 2:
            places = circle.two(circle.places)
            if done or chance.happens(0.4):
                agents = (circle.person(),)
        else:
            agents = circle.two([*circle.agents, *((REPLIER,) if connective == "and" else ())])
            places = (circle.place(),)
        claim = Claim(agents=agents, places=places, connective=connective)
        return [circle.exchange(Exchange("where", thing=circle.thing(), reply=claim))]

    return topic


def _moved(circle: Circle) -> list[Exchange]:
    """Where are they? In the hall. Are they still there? No, somebody moved them."""
    thing, place = circle.thing(), circle.place()
    if circle.chance.happens(0.5):
        agents = (circle.agent(),) if circle.chance.happens(0.5) else ()
        first = Exchange("where", thing=thing, reply=Claim(agents=agents, places=(place,)))
    else:
        first = Exchange("did", circle.agent(), thing, place, reply="yes")
    to = circle.chance.pick([name for name in circle.places if name != place])
    then = Exchange("still", reply=Claim(agents=(circle.agent(),), places=(to,)))
    return [circle.exchange(first), circle.exchange(then)]


def _report(circle: Circle) -> list[Exchange]:
    """Somebody said where things are."""
    chance, person = circle.chance, circle.person()
    agents: tuple[str, ...] = (person,) if chance.happens(0.5) else ()
    if chance.happens(0.4):
        asked = Exchange("did", person, circle.thing(), circle.place(), reply=Claim(source=person))
    elif chance.happens(0.5):
        claim = Claim(agents=agents, places=(circle.place(),), source=person)
        asked = Exchange("where", thing=circle.thing(), reply=claim)
    else:
        claim = Claim(agents=agents, amount=circle.amount(), source=person)
        asked = Exchange("count", thing=circle.thing(), place=circle.place(), reply=claim)
    return [circle.exchange(asked)]


def _quantity_done(circle: Circle) -> list[Exchange]:
    """Did somebody leave the things in the hall? She left three of them there."""
    asked = Exchange("did", circle.agent(), circle.thing(), circle.place())
    reply = Claim(amount=circle.number())
    return [circle.exchange(asked._replace(reply=reply))]


def _journey(circle: Circle) -> list[Exchange]:
    """Where did somebody go? To the hall."""
    chance = circle.chance
    agent = circle.traveller()
    if chance.happens(0.5):
        reply = chance.pick(_ANSWERS)
        asked = Exchange("went", agent, place=circle.place(), reply=reply)
        return [circle.exchange(asked)]
    if chance.happens(0.4):
        claim = Claim(places=(circle.place(),))
    else:
        connective = chance.pick(_AND_OR)
        claim = Claim(places=circle.two(circle.places), connective=connective)
    return [circle.exchange(Exchange("where to", agent, reply=claim))]


def _knowledge(circle: Circle) -> list[Exchange]:
    """Does somebody know where the things are? He does."""
    reply = circle.chance.pick(_ANSWERS)
    thing = circle.thing()
    asked = Exchange("knows", circle.person(), thing, reply=reply)
    if circle.chance.happens(0.5):
        where = circle.exchange(Exchange("where", thing=thing, reply="unknown"))
        return [where, circle.exchange(asked._replace(thing=None))]
    return [circle.exchange(asked)]


def _small_talk(circle: Circle) -> list[Exchange]:
    """Never the same twice."""
    return [Exchange("chat", wordings=(circle.talk.pop() if circle.talk else 0, 0))]


def _afterwards(circle: Circle, first: Exchange) -> list[Exchange]:
    """Further exchanges about the same things, or none."""
    chance = circle.chance
    made: list[Exchange] = []
    if first.reply != "unknown" and chance.happens(0.12):
        made.append(circle.exchange(Exchange("sure", reply=chance.pick(("yes", "no")))))
        if made[0].reply == "no":
            return made
    if not chance.happens(0.5):
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
    for form in chance.sample(list(dict.fromkeys(chance.shuffled(options))), 1 + chance.below(2)):
        reply: Reply
        if form == "count":
            reply = _how_many_there_are(circle)
        elif form == "who":
            reply = _who_it_was(circle)
        else:
            reply = "yes"
            if chance.happens(0.6):
                to = chance.pick([name for name in circle.places if name != places[0]])
                reply = Claim(agents=(circle.agent(),), places=(to,))
        made.append(circle.exchange(Exchange(form, reply=reply)))
        if form == "still" and reply != "yes":
            break
    return made


def _how_many_there_are(circle: Circle) -> Reply:
    kind = circle.chance.below(4)
    if kind == 0:
        return "unknown"
    several = Amount("number", (2 + circle.chance.below(8),))
    return Claim(amount=circle.either() if kind == 1 else several)


def _who_it_was(circle: Circle) -> Reply:
    return circle.chance.pick(
        (
            "unknown",
            Claim(agents=(circle.agent(),)),
            Claim(agents=(circle.agent(),)),
            Claim(agents=(circle.agent(),), denied=True),
            Claim(agents=circle.two(circle.agents), connective="or"),
            Claim(agents=circle.two([*circle.agents, REPLIER]), connective="and"),
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
