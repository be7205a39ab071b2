"""The words for exchanges: from what is asked and replied to what is said.

Each form of exchange has several forms of words. Which of them an exchange takes is part of it
(`Exchange.wordings`), so altering what it says changes the words that say that, and no others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pragworld_tasks.dialogues.vocabulary import WOMEN, Cast, Domain
from pragworld_tasks.dialogues.world import REPLIER, Amount, Claim, Connective, Exchange

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class Style:
    """How people of a domain speak.

    Attributes:
        verbs: of putting something somewhere: as in "did … leave", as in "… left".
        where: questions for the place of {things}, which {are} there.
        small_talk: what is said in passing, with replies.
    """

    verbs: tuple[tuple[str, str], ...]
    where: tuple[str, ...]
    small_talk: tuple[tuple[str, str], ...]


STYLES: dict[Domain, Style] = {
    "household": Style(
        verbs=(("leave", "left"), ("put", "put"), ("place", "placed")),
        where=(
            "Where are {things}?",
            "Where can I find {things}?",
            "Do you know where {things} are?",
            "Any idea where {things} are?",
        ),
        small_talk=(
            ("Did you sleep well?", "Like a log."),
            ("It's cold today.", "It is. I might light the fire."),
            ("I still have to water the plants.", "There's plenty of time."),
            ("The neighbours are mowing the lawn again.", "I can hear it."),
            ("Shall I make some tea?", "That would be lovely."),
            ("What a long week.", "Tell me about it."),
        ),
    ),
    "shop": Style(
        verbs=(("leave", "left"), ("put", "put"), ("store", "stored")),
        where=(
            "Where are {things}?",
            "Where would I find {things}?",
            "Could you tell me where {things} are?",
            "I'm looking for {things}. Where are {they}?",
        ),
        small_talk=(
            ("It's busy today.", "It always is before the holidays."),
            ("Is parking free here?", "For the first hour."),
            ("I like the new sign.", "Thank you. It went up last week."),
            ("How late is the shop open?", "Until eight."),
            ("The music is nice.", "The radio chooses it."),
            ("Is it still raining?", "Only a little."),
        ),
    ),
    "clinic": Style(
        verbs=(("leave", "left"), ("put", "put"), ("store", "stored")),
        where=(
            "Where are {things}?",
            "Do you happen to know where {things} are?",
            "Where might {things} be?",
            "I need {things}. Where are {they}?",
        ),
        small_talk=(
            ("The new plants are nice.", "They like the light here."),
            ("It's warm in here.", "I'll open a window."),
            ("Is the lift working again?", "Since this morning."),
            ("It's a long way from the car park.", "A good walk, though."),
            ("It has been a quiet morning.", "Let's hope it stays that way."),
            ("The coffee here is terrible.", "The tea is better."),
        ),
    ),
}

_ODD_AND_STAYING = (
    "The {things} hum whenever somebody laughs.",
    "At midnight the {things} turn into silver, and at dawn back again.",
    "The {things} glow in the dark and recite poems.",
    "The {things} are older than the moon.",
    "When nobody is looking, the {things} sing.",
)
_ODD_AND_MOVING = (
    "But since then the {things} have walked over to the {place} by themselves.",
    "But the {things} have since grown legs and moved to the {place} on their own.",
    "But since then the {things} have flown to the {place} on tiny wings.",
    "But the {things} have since melted and taken shape again in the {place}.",
)
_UNKNOWN = ("I don't know.", "I couldn't say.", "I have no idea.", "Hard to say.")


def say(
    exchanges: Sequence[Exchange], resolved: Sequence[Exchange], domain: Domain, cast: Cast
) -> list[str]:
    """The utterances, two for each exchange, each with its speaker's label.

    Args:
        exchanges: as they are, since "them" and "there" are said as such.
        resolved: the same from `world.resolve`, since "he" and "she" have to be chosen.
        domain: of the words.
        cast: who speaks.
    """
    utterances = []
    style = STYLES[domain]
    asker, replier = cast.labels
    for exchange, meant in zip(exchanges, resolved, strict=True):
        ask, reply = _SAY[exchange.form](exchange, meant, style)
        if exchange.oddity:
            reply = f"{reply} {_oddity(exchange, meant)}"
        utterances.append(f"{asker}: {ask[0].upper()}{ask[1:]}")
        utterances.append(f"{replier}: {reply[0].upper()}{reply[1:]}")
    return utterances


def _choose(options: Sequence[str], wording: int) -> str:
    return options[wording % len(options)]


# Parts of sentences -------------------------------------------------------------------------------


def pronoun(agent: str) -> str:
    """He, she, or I."""
    return "I" if agent == REPLIER else "she" if agent in WOMEN else "he"


def _asked_agent(exchange: Exchange, meant: Exchange) -> str:
    """The agent that is asked about, as the subject of a question."""
    assert meant.agent is not None
    return exchange.agent or pronoun(meant.agent)


def _the(thing: str | None) -> str:
    return f"the {thing}" if thing else "them"


def _in(place: str | None) -> str:
    return f"in the {place}" if place else "there"


def joined(names: Sequence[str], connective: Connective | None) -> str:
    """One name, or two with the connective between them."""
    return f" {connective} ".join(names)


def _agents(claim: Claim) -> str:
    names = ["I" if name == REPLIER else name for name in claim.agents]
    return joined(sorted(names, key="I".__eq__), claim.connective)  # "Noah and I"


def number(amount: Amount) -> str:
    """Three, two or three, at least three."""
    words = " or ".join(NUMBERS[n] for n in amount.numbers)
    return f"at least {words}" if amount.kind == "at least" else words


def is_one(amount: Amount) -> bool:
    """Whether the amount takes the singular."""
    return amount.kind in ("number", "at least") and amount.numbers == (1,)


def _amount_of(amount: Amount, thing: str | None, pronoun_: str = "them") -> str:
    """So many of the things, or of them; what the definite is, `pronoun_`."""
    if amount.kind == "the":
        return f"the {thing}" if thing else pronoun_
    quantity = amount.kind if amount.kind in ("all", "some", "any") else number(amount)
    return f"{quantity} of {_the(thing)}"


def _objects(claim: Claim) -> str:
    if len(claim.things) > 1:
        return joined([f"the {thing}" for thing in claim.things], claim.connective)
    return _amount_of(claim.amount, claim.things[0] if claim.things else None)


def _places(claim: Claim) -> str:
    if claim.connective == "if not" and len(claim.places) > 1:
        return f"in the {claim.places[0]} if not in the {claim.places[1]}"
    if claim.places:
        return "in " + joined([f"the {place}" for place in claim.places], claim.connective)
    return "there"


def _statement(claim: Claim, meant: Exchange, verb: tuple[str, str]) -> str:
    """A claim as a whole sentence."""
    agents = claim.agents or ((meant.agent,) if meant.agent else ())
    if agents:
        if claim.agents and claim.agents != (claim.source,):
            subject = _agents(claim)
        else:
            subject = pronoun(agents[0])
        does = f"didn't {verb[0]}" if claim.denied else verb[1]
        sentence = f"{subject} {does} {_objects(claim)} {_places(claim)}"
    else:
        subject = _amount_of(claim.amount, None, "they")
        if claim.things:
            subject = _objects(claim)
        are = ("is" if is_one(claim.amount) else "are") + ("n't" if claim.denied else "")
        sentence = f"{subject} {are} {_places(claim)}"
    return f"{_said_by(claim, meant)}{sentence}"


def _said_by(claim: Claim, meant: Exchange) -> str:
    if claim.source is None:
        return ""
    return f"{pronoun(claim.source) if claim.source == meant.agent else claim.source} said "


def _oddity(exchange: Exchange, meant: Exchange) -> str:
    assert exchange.oddity is not None
    place, wording = exchange.oddity
    claim = exchange.claim
    thing = claim.things[0] if claim.things else meant.thing
    phrase = _choose(_ODD_AND_MOVING if place else _ODD_AND_STAYING, wording)
    return phrase.format(things=thing, place=place)


# Forms of exchanges -------------------------------------------------------------------------------


def _did(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    ask, answer = exchange.wordings
    base, past = verb = style.verbs[ask % len(style.verbs)]
    them, there = _the(exchange.thing), _in(exchange.place)
    assert meant.agent is not None
    question = f"did {_asked_agent(exchange, meant)} {base} {them} {there}?"
    he, reply = pronoun(meant.agent), exchange.reply
    if isinstance(reply, Claim):
        if reply.source and reply.denied and not reply.agents:
            return question, f"{_said_by(reply, meant)}{he} didn't."
        if reply.agents and not reply.source and not reply.places and not reply.things:
            who = _agents(reply)
            return question, _choose((f"{who} did.", f"{who} {past} them there."), answer)
        return question, f"{_statement(reply, meant, verb)}."
    options = {
        "yes": ("yes.", f"{he} did.", f"yes, {he} did.", f"{he} {past} them there."),
        "no": ("no.", f"{he} didn't.", f"no, {he} didn't.", f"{he} didn't {base} them there."),
        "unknown": _UNKNOWN,
    }
    return question, _choose(options[reply], answer)


def _where(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    ask, answer = exchange.wordings
    if exchange.thing:
        question = _choose(style.where, ask).format(things=f"the {exchange.thing}", they="they")
    else:
        question = "where are they?"
    reply = exchange.reply
    if not isinstance(reply, Claim):
        return question, _choose(_UNKNOWN, answer)
    sentence = f"{_statement(reply, meant, style.verbs[answer % len(style.verbs)])}."
    if not (reply.agents or reply.source) and reply.amount.kind == "the":
        nowhere = "not " if reply.denied else ""
        return question, _choose((sentence, f"{nowhere}{_places(reply)}."), answer)
    return question, sentence


def _amount(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    answer = exchange.wordings[1]
    there = _in(exchange.place)
    if exchange.amount.kind == "any" and exchange.thing:
        question = f"are there any {exchange.thing} {there if exchange.place else 'in there'}?"
    else:
        question = f"are {_amount_of(exchange.amount, exchange.thing)} {there}?"
    reply = exchange.reply
    if isinstance(reply, Claim):
        return question, _so_many(reply, meant, style, answer, bare=exchange.amount.kind == "any")
    they = "there" if exchange.amount.kind == "any" and exchange.thing else "they"
    options = {
        "yes": ("yes.", f"yes, {they} are."),
        "no": ("no.", f"no, {they} aren't."),
        "unknown": _UNKNOWN,
    }
    return question, _choose(options[reply], answer)


def _so_many(claim: Claim, meant: Exchange, style: Style, wording: int, bare: bool) -> str:
    """A claim of an amount, which may leave out what the question has said; or all but itself."""
    are = "is" if is_one(claim.amount) else "are"
    sentence = f"{_statement(claim, meant, style.verbs[wording % len(style.verbs)])}."
    if claim.agents or claim.source:
        return sentence
    if claim.amount.kind in ("all", "some"):
        return _choose((sentence, f"{claim.amount.kind} of them {are}."), wording)
    amount = number(claim.amount)
    options = (sentence, f"{amount} {are} there.", f"there {are} {amount} there.", f"{amount}.")
    return _choose(options if bare else options[:2], wording)


def _count(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    ask, answer = exchange.wordings
    there = _in(exchange.place)
    if exchange.thing:
        place = there if exchange.place else "in there"
        options = tuple(f"how many {each}{exchange.thing} are {place}?" for each in ("", "of the "))
    else:
        options = (f"how many of them are {there}?", f"how many are {there}?")
    question, reply = _choose(options, ask), exchange.reply
    if isinstance(reply, Claim):
        return question, _so_many(reply, meant, style, answer, bare=True)
    return question, _choose(_UNKNOWN, answer)


def _what(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    ask, answer = exchange.wordings
    verb = style.verbs[ask % len(style.verbs)]
    there = _in(exchange.place) if exchange.place else "in there"
    if exchange.agent:
        question = f"what did {exchange.agent} {verb[0]} {there}?"
    else:
        question = f"what is {there}?"
    reply = exchange.reply
    if not isinstance(reply, Claim):
        return question, _choose(_UNKNOWN, answer)
    sentence = f"{_statement(reply, meant, verb)}."
    return question, sentence if reply.denied else _choose(
        (sentence, f"{_objects(reply)}."), answer
    )


def _who(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    ask, answer = exchange.wordings
    _, past = style.verbs[ask % len(style.verbs)]
    question = f"who {past} {_the(exchange.thing)} {_in(exchange.place)}?"
    reply = exchange.reply
    if not isinstance(reply, Claim):
        return question, _choose(_UNKNOWN, answer)
    who, nt = _agents(reply), "n't" if reply.denied else ""
    if reply.agents == (REPLIER,):
        return question, f"I did{nt}."
    return question, _choose((f"{who} did{nt}.", f"it was{nt} {who}."), answer)


def _still(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    they = "they" if exchange.thing is None else _the(exchange.thing)
    question = f"are {they} still {_in(exchange.place)}?"
    reply, answer = exchange.reply, exchange.wordings[1]
    if isinstance(reply, Claim):
        options = (
            "no, {who} moved them to the {place}.",
            "no, {who} has taken them to the {place}.",
        )
        who = "I" if reply.agents == (REPLIER,) else reply.agents[0]
        text = _choose(options, answer).format(who=who, place=reply.places[0])
        return question, text.replace("I has", "I have")
    return question, _choose(("yes, they are.", "yes."), answer)


def _knows(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    answer = exchange.wordings[1]
    assert meant.agent is not None
    who, he = _asked_agent(exchange, meant), pronoun(meant.agent)
    they = f"the {exchange.thing}" if exchange.thing else "they"
    question = f"does {who} know where {they} are?"
    options = {
        "yes": ("yes.", f"{he} does.", f"yes, {he} does.", f"{he} knows."),
        "no": ("no.", f"{he} doesn't.", f"no, {he} doesn't.", f"{he} doesn't know."),
        "unknown": _UNKNOWN,
    }
    assert not isinstance(exchange.reply, Claim)
    return question, _choose(options[exchange.reply], answer)


def _sure(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    ask, answer = exchange.wordings
    question = _choose(("are you sure?", "are you certain?", "and you are sure?"), ask)
    options = {"yes": ("yes, I am.", "yes.", "I am."), "no": ("no, I'm not.", "no.", "I'm not.")}
    assert exchange.reply in ("yes", "no")
    return question, _choose(options[str(exchange.reply)], answer)


def _went(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    answer = exchange.wordings[1]
    assert meant.agent is not None
    who, he = _asked_agent(exchange, meant), pronoun(meant.agent)
    to = f"to the {exchange.place}" if exchange.place else "there"
    question = f"did {who} go {to}?"
    options = {
        "yes": ("yes.", f"{he} did.", f"yes, {he} did."),
        "no": ("no.", f"{he} didn't.", f"no, {he} didn't."),
        "unknown": _UNKNOWN,
    }
    assert not isinstance(exchange.reply, Claim)
    return question, _choose(options[exchange.reply], answer)


def _where_to(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    ask, answer = exchange.wordings
    assert meant.agent is not None
    who, he = _asked_agent(exchange, meant), pronoun(meant.agent)
    question = _choose((f"where did {who} go?", f"any idea where {who} went?"), ask)
    reply = exchange.reply
    if not isinstance(reply, Claim):
        return question, _choose(_UNKNOWN, answer)
    to = "to " + joined([f"the {place}" for place in reply.places], reply.connective)
    return question, _choose((f"{he} went {to}.", f"{to}."), answer)


def _chat(exchange: Exchange, meant: Exchange, style: Style) -> tuple[str, str]:
    ask, _ = exchange.wordings
    return style.small_talk[ask % len(style.small_talk)]


_SAY: dict[str, Callable[[Exchange, Exchange, Style], tuple[str, str]]] = {
    "did": _did,
    "where": _where,
    "amount": _amount,
    "count": _count,
    "what": _what,
    "who": _who,
    "still": _still,
    "knows": _knows,
    "sure": _sure,
    "went": _went,
    "where to": _where_to,
    "chat": _chat,
}
