"""The text of exchanges: a question and a reply for each.

Each form of exchange has several phrases. The exchange records which of them it uses
(`Exchange.wordings`), so an alteration changes only the words that express what it alters.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pragworld_tasks.dialogues.vocabulary import WOMEN, Cast, Domain
from pragworld_tasks.dialogues.world import REPLIER, Amount, Claim, Connective, Exchange

T = TypeVar("T")

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class Style:
    """The phrases that people use in one domain.

    Attributes:
        verbs: Verbs for putting something somewhere, in the base form and in the past tense.
        where: Questions that ask for the place of `{things}`.
        small_talk: Remarks or questions, each with a reply.
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


def verbalize(
    exchanges: Sequence[Exchange], resolved: Sequence[Exchange], domain: Domain, cast: Cast
) -> list[str]:
    """Return two utterances for each exchange, each with its speaker's label.

    >>> from pragworld_tasks.dialogues.vocabulary import CASTS
    >>> exchange = Exchange("where", thing="pears", reply=Claim(places=("hall",)))
    >>> verbalize([exchange], [exchange], "household", CASTS[0])
    ['Alice: Where are the pears?', 'Bob: They are in the hall.']

    Args:
        exchanges: The exchanges, in which None becomes "them" or "there".
        resolved: The same exchanges from `world.resolve`, which determine "he" and "she".
        domain: The domain whose phrases to use.
        cast: The speakers.
    """
    utterances = []
    style = STYLES[domain]
    asker, replier = cast.labels
    for exchange, meant in zip(exchanges, resolved, strict=True):
        phrases = _PHRASES[exchange.form](exchange, meant, style)
        question = next(phrases)
        if exchange.reply == "unknown" and exchange.form != "chat":
            reply = _choose(_UNKNOWN, exchange.wordings[1])
        else:
            reply = next(phrases)
        if exchange.oddity:
            place, wording = exchange.oddity
            _, things, _ = meant.claimed
            phrase = _choose(_ODD_AND_MOVING if place else _ODD_AND_STAYING, wording)
            reply += " " + phrase.format(things=things[0], place=place)
        utterances.append(f"{asker}: {question[0].upper()}{question[1:]}")
        utterances.append(f"{replier}: {reply[0].upper()}{reply[1:]}")
    return utterances


def is_one(amount: Amount) -> bool:
    """Return whether the amount requires the singular."""
    return amount.kind in ("number", "at least") and amount.numbers == (1,)


# Parts of sentences -------------------------------------------------------------------------------


def _choose(phrases: Sequence[T], wording: int) -> T:
    return phrases[wording % len(phrases)]


def _pronoun(agent: str) -> str:
    return "I" if agent == REPLIER else "she" if agent in WOMEN else "he"


def _subjects(exchange: Exchange, meant: Exchange) -> tuple[str, str]:
    """Return the agent of the question as the question and as the reply refer to it."""
    assert meant.agent is not None
    pronoun = _pronoun(meant.agent)
    return exchange.agent or pronoun, pronoun


def _the(thing: str | None) -> str:
    return f"the {thing}" if thing else "them"


def _in(place: str | None) -> str:
    return f"in the {place}" if place else "there"


def _nouns(names: Sequence[str], connective: Connective | None) -> str:
    return "the " + f" {connective} the ".join(names)


def _agents(claim: Claim) -> str:
    names = ["I" if name == REPLIER else name for name in claim.agents]
    return f" {claim.connective} ".join(sorted(names, key="I".__eq__))  # "Noah and I"


def _number(amount: Amount) -> str:
    """Return "three", "two or three", or "at least three"."""
    numbers = " or ".join(NUMBERS[number] for number in amount.numbers)
    return f"at least {numbers}" if amount.kind == "at least" else numbers


def _quantity(amount: Amount, thing: str | None, pronoun: str = "them") -> str:
    """Return "three of the pears", "some of them", or, for all, "the pears" or the pronoun."""
    if amount.kind == "the":
        return f"the {thing}" if thing else pronoun
    quantity = amount.kind if amount.kind in ("all", "some", "any") else _number(amount)
    return f"{quantity} of {_the(thing)}"


def _objects(claim: Claim, pronoun: str = "them") -> str:
    if len(claim.things) > 1:
        return _nouns(claim.things, claim.connective)
    return _quantity(claim.amount, claim.things[0] if claim.things else None, pronoun)


def _places(claim: Claim) -> str:
    if claim.connective == "if not" and len(claim.places) > 1:
        return f"in the {claim.places[0]} if not in the {claim.places[1]}"
    if claim.places:
        return f"in {_nouns(claim.places, claim.connective)}"
    return "there"


def _statement(claim: Claim, meant: Exchange, verb: tuple[str, str]) -> str:
    """Return a claim as a whole sentence."""
    agent = claim.agents[0] if claim.agents else meant.agent
    if agent:
        named = claim.agents and claim.agents != (claim.source,)
        subject = _agents(claim) if named else _pronoun(agent)
        predicate = f"didn't {verb[0]}" if claim.denied else verb[1]
        sentence = f"{subject} {predicate} {_objects(claim)} {_places(claim)}."
    else:
        are = ("is" if is_one(claim.amount) else "are") + ("n't" if claim.denied else "")
        sentence = f"{_objects(claim, 'they')} {are} {_places(claim)}."
    return f"{_attribution(claim, meant)}{sentence}"


def _attribution(claim: Claim, meant: Exchange) -> str:
    if claim.source is None:
        return ""
    return f"{_pronoun(claim.source) if claim.source == meant.agent else claim.source} said "


def _yes_or_no(exchange: Exchange, clause: str, *longer: str) -> str:
    """Return a reply of yes or no. The clause is its subject and verb, as in "she did"."""
    clause += "n't" if exchange.reply == "no" else ""
    phrases = (f"{exchange.reply}.", f"{clause}.", f"{exchange.reply}, {clause}.", *longer)
    return _choose(phrases, exchange.wordings[1])


def _with_amount(claim: Claim, meant: Exchange, style: Style, number_suffices: bool) -> str:
    """Return a claim of an amount, which may leave out what the question has said."""
    wording = meant.wordings[1]
    sentence = _statement(claim, meant, _choose(style.verbs, wording))
    if claim.agents or claim.source:
        return sentence
    are = "is" if is_one(claim.amount) else "are"
    if claim.amount.kind in ("all", "some"):
        return _choose((sentence, f"{claim.amount.kind} of them {are}."), wording)
    amount = _number(claim.amount)
    phrases = (sentence, f"{amount} {are} there.", f"there {are} {amount} there.", f"{amount}.")
    return _choose(phrases if number_suffices else phrases[:2], wording)


# Forms of exchanges: each yields the question and then the reply, unless it is "I don't know" -----


def _did(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    verb = base, past = _choose(style.verbs, exchange.wordings[0])
    who, he = _subjects(exchange, meant)
    yield f"did {who} {base} {_the(exchange.thing)} {_in(exchange.place)}?"
    claim = exchange.reply
    if not isinstance(claim, Claim):
        did = past if claim == "yes" else f"didn't {base}"
        yield _yes_or_no(exchange, f"{he} did", f"{he} {did} them there.")
    elif claim.source and claim.denied and not claim.agents:
        yield f"{_attribution(claim, meant)}{he} didn't."
    elif claim.agents and not (claim.source or claim.places or claim.things):
        names = _agents(claim)
        yield _choose((f"{names} did.", f"{names} {past} them there."), exchange.wordings[1])
    else:
        yield _statement(claim, meant, verb)


def _where(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    ask, answer = exchange.wordings
    if exchange.thing:
        yield _choose(style.where, ask).format(things=f"the {exchange.thing}", they="they")
    else:
        yield "where are they?"
    claim = exchange.claim
    sentence = short = _statement(claim, meant, _choose(style.verbs, answer))
    if not (claim.agents or claim.source) and claim.amount.kind == "the":
        short = f"{'not ' if claim.denied else ''}{_places(claim)}."
    yield _choose((sentence, short), answer)


def _amount(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    asks_any = exchange.amount.kind == "any"
    they = "they"
    if asks_any and exchange.thing:
        they = "there"
        place = _in(exchange.place) if exchange.place else "in there"
        yield f"are there any {exchange.thing} {place}?"
    else:
        yield f"are {_quantity(exchange.amount, exchange.thing)} {_in(exchange.place)}?"
    if isinstance(exchange.reply, Claim):
        yield _with_amount(exchange.reply, meant, style, number_suffices=asks_any)
    else:
        nt = "n't" if exchange.reply == "no" else ""
        phrases = (f"{exchange.reply}.", f"{exchange.reply}, {they} are{nt}.")
        yield _choose(phrases, exchange.wordings[1])


def _count(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    if exchange.thing:
        place = _in(exchange.place) if exchange.place else "in there"
        many = _choose((exchange.thing, f"of the {exchange.thing}"), exchange.wordings[0])
        yield f"how many {many} are {place}?"
    else:
        of_them = _choose(("of them ", ""), exchange.wordings[0])
        yield f"how many {of_them}are {_in(exchange.place)}?"
    yield _with_amount(exchange.claim, meant, style, number_suffices=True)


def _what(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    ask, answer = exchange.wordings
    verb = _choose(style.verbs, ask)
    place = _in(exchange.place) if exchange.place else "in there"
    yield f"what did {exchange.agent} {verb[0]} {place}?" if exchange.agent else f"what is {place}?"
    claim = exchange.claim
    sentence = _statement(claim, meant, verb)
    yield _choose((sentence, sentence if claim.denied else f"{_objects(claim)}."), answer)


def _who(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    ask, answer = exchange.wordings
    _, past = _choose(style.verbs, ask)
    yield f"who {past} {_the(exchange.thing)} {_in(exchange.place)}?"
    claim = exchange.claim
    names, nt = _agents(claim), "n't" if claim.denied else ""
    did = f"{names} did{nt}."
    yield _choose((did, did if names == "I" else f"it was{nt} {names}."), answer)


def _still(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    they = "they" if exchange.thing is None else _the(exchange.thing)
    yield f"are {they} still {_in(exchange.place)}?"
    claim, answer = exchange.reply, exchange.wordings[1]
    if isinstance(claim, Claim):
        has = "have" if claim.agents == (REPLIER,) else "has"
        moved = _choose(("moved", f"{has} taken"), answer)
        yield f"no, {_agents(claim)} {moved} them to the {claim.places[0]}."
    else:
        yield _choose(("yes, they are.", "yes."), answer)


def _knows(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    who, he = _subjects(exchange, meant)
    yield f"does {who} know where {f'the {exchange.thing}' if exchange.thing else 'they'} are?"
    knows = "knows" if exchange.reply == "yes" else "doesn't know"
    yield _yes_or_no(exchange, f"{he} does", f"{he} {knows}.")


def _sure(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    ask, answer = exchange.wordings
    yield _choose(("are you sure?", "are you certain?", "and you are sure?"), ask)
    i_am = "I am" if exchange.reply == "yes" else "I'm not"
    yield _choose((f"{exchange.reply}, {i_am}.", f"{exchange.reply}.", f"{i_am}."), answer)


def _went(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    who, he = _subjects(exchange, meant)
    yield f"did {who} go {f'to the {exchange.place}' if exchange.place else 'there'}?"
    yield _yes_or_no(exchange, f"{he} did")


def _where_to(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    ask, answer = exchange.wordings
    who, he = _subjects(exchange, meant)
    yield _choose((f"where did {who} go?", f"any idea where {who} went?"), ask)
    to = f"to {_nouns(exchange.claim.places, exchange.claim.connective)}"
    yield _choose((f"{he} went {to}.", f"{to}."), answer)


def _chat(exchange: Exchange, meant: Exchange, style: Style) -> Iterator[str]:
    yield from _choose(style.small_talk, exchange.wordings[0])


_PHRASES: dict[str, Callable[[Exchange, Exchange, Style], Iterator[str]]] = {
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
