"""Topics of a household, where people talk like those of the released dialogues.

They ask several questions in a row about the same things, and where somebody was instead, and their
replies often tell more or less than was asked. Everybody has been in two places. `topics` has the
topics of the other domains.
"""

from functools import partial

from pragworld_tasks.dialogues.topics import Scene, Topic
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
    Reply,
)


def _thing(scene: Scene, singles: float = 0.06) -> str:
    """Return things that people ask about, with the given probability no plural if there is one."""
    numbers: tuple[NounNumber, ...] = ("singular", "mass")
    is_single = scene.rng.happens(singles)
    if is_single and any(number_of(thing) in numbers for thing in scene.things):
        return scene.thing(*numbers)
    return scene.thing("plural")


def _agent(scene: Scene) -> str:
    """Return a person who may put things somewhere, often the replier."""
    return REPLIER if scene.rng.happens(0.42) else scene.person()


def _traveller(scene: Scene) -> str:
    """Return a person who may have gone somewhere, often the replier."""
    return REPLIER if scene.rng.happens(0.4) else scene.traveller()


def _place(scene: Scene, agent: str) -> str:
    """Return one of the two places where the agent has been."""
    return scene.rng.choice(scene.haunts[agent])


def _seen(scene: Scene) -> str:
    """Return a place of which the replier speaks without a source: mostly one where they were."""
    return _place(scene, REPLIER) if scene.rng.happens(0.9) else scene.place()


def _next(scene: Scene, agent: str, place: str) -> str:
    """Return another place where the agent has been."""
    return scene.rng.choice([other for other in scene.haunts[agent] if other != place])


def _elsewhere(scene: Scene, agent: str, place: str) -> Claim:
    """Return the reply that the agent was somewhere else, or did not go to the place."""
    source = _source(scene, agent, 0.5)
    if place in scene.haunts[agent] or scene.rng.happens(0.7):
        place = _next(scene, agent, place)
    return Claim(denied=True, then=place, source=source)


def _source(scene: Scene, agent: str, share: float) -> str | None:
    """Return the agent, as the one who said so, with the given probability, unless it is you."""
    return agent if agent != REPLIER and scene.rng.happens(share) else None


# Questions that follow others ---------------------------------------------------------------------


def _more(scene: Scene, thing: str, place: str, known: Amount, is_open: bool) -> list[Exchange]:
    """Return perhaps more questions about things in a place.

    Args:
        scene: The scene.
        thing: The things.
        place: The place.
        known: The amount of them that is known to be in the place.
        is_open: Whether it is open who put them there.
    """
    rng, exchanges = scene.rng, []
    if number_of(thing) == "plural" and rng.happens(0.55):
        if rng.happens(0.4):
            counted: dict[Reply, float] = {
                Claim(amount=scene.either()): 3,
                Claim(amount=scene.several()): 2,
                "unknown": 1,
            }
            reply = scene.rng.weighted_choice(counted)
            exchanges.append(scene.exchange("count", None, thing, place, reply=reply))
        else:
            amounts: dict[Reply, float] = {
                Claim(amount=scene.several()): 5,
                Claim(amount=ALL): 1,
                "unknown": 1,
            }
            if known != THE:
                amounts |= {Claim(amount=SOME): 1, "yes": 1}
            asked = ALL if rng.happens(0.25) and known != THE else SOME
            reply = rng.weighted_choice(amounts)
            exchanges.append(scene.exchange("amount", None, thing, place, asked, reply=reply))
    if is_open and rng.happens(0.5):
        exchanges += _asked(scene, thing, _agent(scene), place)
    return exchanges


def _asked(scene: Scene, thing: str, agent: str, place: str) -> list[Exchange]:
    """Return a question whether somebody left things in the place where they are."""
    replies: dict[Reply, float] = {
        "no": 4,
        Claim(things=(_thing(scene),)): 1,
        _elsewhere(scene, agent, place): 1 if agent == REPLIER else 2,
    }
    if place in scene.haunts[agent]:
        replies |= {Claim(then=_next(scene, agent, place)): 6, "yes": 2}
    return [scene.exchange("did", agent, thing, place, reply=scene.rng.weighted_choice(replies))]


def _after_denial(scene: Scene, thing: str, place: str, agent: str) -> list[Exchange]:
    """Return perhaps a question where the agent was, who did not leave the things, or they are."""
    rng = scene.rng
    if agent != REPLIER and rng.happens(0.45):
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
    place = scene.place()
    if number_of(thing) == "singular" or scene.rng.happens(0.6):
        place = _seen(scene)
        claim = Claim(places=(place,))
        first = scene.exchange("where", thing=thing, reply=claim)
        return [first, *_more(scene, thing, place, THE, True)]
    return _in_container(scene, thing, place)


def _trip(scene: Scene, agent: str) -> Exchange:
    """Return a question where somebody went."""
    source = _source(scene, agent, 0.5)
    connectives: tuple[Connective, ...] = ("and",) if agent == REPLIER else ("and", "and", "or")
    claim = Claim(places=(_place(scene, agent),), source=source)
    if scene.rng.happens(0.35):
        connective = scene.rng.choice(connectives)
        claim = Claim(places=scene.two(scene.haunts[agent]), connective=connective, source=source)
    return scene.exchange("where to", agent, reply=claim)


def _in_container(scene: Scene, thing: str, place: str) -> list[Exchange]:
    container = f"{scene.rng.choice(COLORS)} {scene.rng.choice(scene.containers)}"
    source = None
    if place not in scene.haunts[REPLIER] or scene.rng.happens(0.15):
        source = scene.person()
    claim = Claim(places=(place,), amount=ANY, source=source, container=container)
    first = scene.exchange("where", thing=thing, reply=claim)
    return [first, *_more(scene, thing, place, ANY, True)]


# Topics: the docstring of each is an example ------------------------------------------------------


def _somewhere(scene: Scene, ends: bool = False) -> list[Exchange]:
    """Where are the things? They are in the hall or the den. How about others? I don't know."""
    thing, person = _thing(scene, singles=0.4), scene.person()
    place, mine = _place(scene, person), _place(scene, REPLIER)
    other = _next(scene, person, place)
    then, my_next = (
        goal if scene.rng.happens(0.7) else None for goal in (other, _next(scene, REPLIER, mine))
    )
    together = [name for name in scene.haunts[person] if name in scene.haunts[REPLIER]] or [place]
    replies: dict[Reply, float] = {
        Claim(places=(_seen(scene),)): 4,
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
    thing, agent = _thing(scene), _agent(scene)
    place = _place(scene, agent)
    other = _next(scene, agent, place)
    replies: dict[Reply, float] = {
        Claim(then=other): 4,
        Claim(things=(_thing(scene),)): 2,
        Claim(places=(other,)): 4,
        "no": 3,
        _elsewhere(scene, agent, place): 1 if agent == REPLIER else 4,
        "yes": 1,
    }
    if number_of(thing) == "plural":
        replies[Claim(amount=scene.several())] = 2
    if agent != REPLIER:
        replies |= {
            Claim(places=(place, other), connective="or"): 2,
            Claim(places=(place, other), connective="if not"): 3,
            "unknown": 2,
            "likely": 0.5,
        }
    reply = scene.rng.weighted_choice(replies)
    first = scene.exchange("did", agent, thing, place, reply=reply)
    is_denied = reply == "no" or (isinstance(reply, Claim) and (reply.denied or reply.things))
    return [first, *(_after_denial(scene, thing, place, agent) if is_denied else [])]


def _container(scene: Scene) -> list[Exchange]:
    """Where are the things? There is a green box in the hall."""
    return _in_container(scene, scene.thing("plural"), scene.place())


def _quantity(scene: Scene) -> list[Exchange]:
    """How many of the things are in the hall? There are two or three."""
    rng, thing, place = scene.rng, scene.thing("plural"), _seen(scene)
    amount = scene.number()
    source = scene.person() if rng.happens(0.3) else None
    before = _found_before(scene, thing, place, True)
    is_counted = rng.happens(0.5)
    if is_counted:
        if rng.happens(0.6) and not source:
            amount = scene.either()
        elif rng.happens(0.5):
            amount = scene.at_least()
    reply = Claim(agents=(source,) if source else (), amount=amount, source=source)
    if is_counted:
        return [*before, scene.exchange("count", None, thing, place, reply=reply)]
    return [*before, scene.exchange("amount", None, thing, place, SOME, reply=reply)]


def _quantifier(scene: Scene) -> list[Exchange]:
    """Are some of the things in the hall? Somebody said she saw some there."""
    thing, place = scene.thing("plural"), _seen(scene)
    replies: dict[Reply, float] = {
        Claim(amount=SOME): 4,
        Claim(amount=SOME, source=scene.person()): 3,
        Claim(amount=ALL): 1,
        "unknown": 2,
    }
    reply = scene.rng.weighted_choice(replies)
    asked = ALL if scene.rng.happens(0.3) else SOME
    amounts = scene.exchange("amount", None, thing, place, asked, reply=reply)
    exchanges = [*_found_before(scene, thing, place, False), amounts]
    if reply != "unknown" and scene.rng.happens(0.3):
        exchanges += _asked(scene, thing, _agent(scene), place)
    return exchanges


def _journey(scene: Scene) -> list[Exchange]:
    """Did somebody go to the hall? She went to the den."""
    agent, place = _traveller(scene), scene.place()
    if scene.rng.happens(0.5):
        return [_trip(scene, agent)]
    source = _source(scene, agent, 0.3)
    if place in scene.haunts[agent]:
        return [scene.exchange("went", agent, place=place, reply="yes")]
    replies: dict[Reply, float] = {
        Claim(places=(_place(scene, agent),), source=source): 4,
        "no": 3,
    }
    if agent != REPLIER:
        replies["likely"] = 0.5
    reply = scene.rng.weighted_choice(replies)
    first = scene.exchange("went", agent, place=place, reply=reply)
    return [first, *([_trip(scene, agent)] if reply == "no" and scene.rng.happens(0.4) else [])]


def _done(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? She left them there and went to the den."""
    rng, thing, agent = scene.rng, _thing(scene), _agent(scene)
    place = _place(scene, agent)
    then = Claim(then=_next(scene, agent, place))
    kind = rng.below(10)
    if kind < 4:
        claim = then._replace(agents=(agent,), places=(place,))
        return [scene.exchange("where", thing=thing, reply=claim)]
    did = scene.exchange("did", agent, thing, place, reply="yes" if rng.happens(0.1) else then)
    if kind < 7:
        return [did]
    if kind < 8 and number_of(thing) == "plural":
        return [_in_container(scene, thing, place)[0], did]
    return [scene.exchange("where", thing=thing, reply=Claim(places=(place,))), did]


def _not_done(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? He said he was in the den."""
    thing, agent, place = _thing(scene), _agent(scene), scene.place()
    alibis = 1 if agent == REPLIER else 4
    replies: dict[Reply, float] = {"no": 4, _elsewhere(scene, agent, place): alibis}
    return [scene.exchange("did", agent, thing, place, reply=scene.rng.weighted_choice(replies))]


def _affirmed(scene: Scene) -> list[Exchange]:
    """Are some of the things in the hall? Yes, some of them are there."""
    kind = scene.rng.below(6)
    if kind == 0:
        return [_presence_of(scene, "yes")]
    if kind < 3:
        claim = Claim(places=(_seen(scene),))
        return [scene.exchange("where", thing=scene.thing(), reply=claim)]
    return _done(scene)


def _denied(scene: Scene) -> list[Exchange]:
    """Are some of the things in the hall? No."""
    return [_presence_of(scene, "no")] if scene.rng.happens(0.2) else _not_done(scene)


def _presence(scene: Scene) -> list[Exchange]:
    """Are some of the things in the hall? Yes."""
    return [_presence_of(scene, scene.rng.choice(("yes", "no")))]


def _presence_of(scene: Scene, reply: Reply) -> Exchange:
    return scene.exchange("amount", None, scene.thing("plural"), _seen(scene), SOME, reply=reply)


def _quantified(scene: Scene, amount: Amount, by_agent: bool) -> list[Exchange]:
    """Are some of them there? All of them are. Or, by an agent: Somebody said she left all."""
    rng, thing, place = scene.rng, scene.thing("plural"), _seen(scene)
    if by_agent:
        person = scene.person()
        reply = Claim(amount=amount, source=person)
        return [scene.exchange("did", person, thing, _place(scene, person), reply=reply)]
    if rng.happens(0.15):
        return [scene.exchange("amount", None, thing, place, amount, reply="yes")]
    asked = ALL if rng.happens(0.35) else SOME
    amounts = scene.exchange("amount", None, thing, place, asked, reply=Claim(amount=amount))
    return [*_found_before(scene, thing, place, amount == ALL), amounts]


def _found_before(scene: Scene, thing: str, place: str, is_of_all: bool) -> list[Exchange]:
    """Return perhaps where the things are of which an amount is asked next.

    Args:
        scene: The scene.
        thing: The things.
        place: The place.
        is_of_all: Whether all of them may be there.
    """
    kind = scene.rng.below(10)
    if kind < 1:
        return _in_container(scene, thing, place)[:1]
    if kind < 3 and is_of_all:
        return [scene.exchange("where", thing=thing, reply=Claim(places=(place,)))]
    return []


def _joined(scene: Scene, connective: Connective, by_agent: bool) -> list[Exchange]:
    """Where are the things? They are in the hall or the den. Or: Two people left them there."""
    if not by_agent and scene.rng.happens(0.4):
        return _went_to_two(scene, connective)
    if by_agent and connective == "and":
        claim = Claim(agents=scene.two(scene.agents), places=(scene.place(),), connective="and")
    else:
        agents = (scene.person(),) if by_agent else ()
        places = scene.haunts[agents[0]] if agents else scene.places
        claim = Claim(agents=agents, places=scene.two(places), connective=connective)
    return [scene.exchange("where", thing=_thing(scene, singles=0), reply=claim)]


def _went_to_two(scene: Scene, connective: Connective) -> list[Exchange]:
    """Where did somebody go? To the hall and the den, or to one of the two."""
    agent = _traveller(scene) if connective == "and" else scene.person()
    claim = Claim(places=scene.two(scene.haunts[agent]), connective=connective)
    return [scene.exchange("where to", agent, reply=claim)]


def _went(scene: Scene, reply: Reply) -> list[Exchange]:
    """Did somebody go to the hall? He did. Or: He went to the den."""
    agent = _traveller(scene)
    place = _place(scene, agent)
    if reply == "no":
        place = scene.rng.choice([name for name in scene.places if name not in scene.haunts[agent]])
        if scene.rng.happens(0.5):
            reply = Claim(places=(_place(scene, agent),))
    return [scene.exchange("went", agent, place=place, reply=reply)]


def _quantity_done(scene: Scene) -> list[Exchange]:
    """Did somebody leave the things in the hall? She left three of them there."""
    agent, thing = _agent(scene), scene.thing("plural")
    claim = Claim(amount=scene.number())
    return [scene.exchange("did", agent, thing, _place(scene, agent), reply=claim)]


def _report(scene: Scene) -> list[Exchange]:
    """Where are the things? Somebody said she left them in the hall and went to the den."""
    rng, person = scene.rng, scene.person()
    place = _place(scene, person)
    if rng.happens(0.4):
        return _in_container(scene, scene.thing("plural"), place)[:1]
    if rng.happens(0.3):
        reply = Claim(source=person)
        return [scene.exchange("did", person, _thing(scene), place, reply=reply)]
    then = _next(scene, person, place) if rng.happens(0.7) else None
    claim = Claim(agents=(person,), places=(place,), source=person, then=then)
    return [scene.exchange("where", thing=_thing(scene), reply=claim)]


HOUSEHOLD_TOPICS: dict[str, Topic] = {
    "somewhere": _somewhere,
    "asked about": _asked_about,
    "container": _container,
    "quantity": _quantity,
    "quantifier": _quantifier,
    "presence": _presence,
    "journey": _journey,
    "done": _done,
    "not done": _not_done,
    "affirmed": _affirmed,
    "denied": _denied,
    "quantity done": _quantity_done,
    "report": _report,
    "all": partial(_quantified, amount=ALL, by_agent=False),
    "some": partial(_quantified, amount=SOME, by_agent=False),
    "all done": partial(_quantified, amount=ALL, by_agent=True),
    "some done": partial(_quantified, amount=SOME, by_agent=True),
    "and": partial(_joined, connective="and", by_agent=False),
    "or": partial(_joined, connective="or", by_agent=False),
    "done and": partial(_joined, connective="and", by_agent=True),
    "done or": partial(_joined, connective="or", by_agent=True),
    "gone": partial(_went, reply="yes"),
    "not gone": partial(_went, reply="no"),
    "gone and": partial(_went_to_two, connective="and"),
    "gone or": partial(_went_to_two, connective="or"),
}
