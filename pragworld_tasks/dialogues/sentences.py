"""One exchange to put into words, and the parts of sentences that its phrases are made of."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from pragworld_tasks.dialogues.styles import Style
from pragworld_tasks.dialogues.vocabulary import WOMEN, number_of, singular
from pragworld_tasks.dialogues.world import REPLIER, Amount, Claim, Exchange
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.text import ONES

_Phrase = TypeVar("_Phrase")

NUMBERS = ("no", *ONES[1:11])
PHRASES: Mapping[str, list[str]] = read_package_toml(__package__, "phrases.toml")


class SpokenExchange(NamedTuple):
    """An exchange to put into words.

    Attributes:
        exchange: The exchange, in which None becomes "them" or "there".
        meant: The same exchange with names.
        before: The last exchange before it that it may leave out words because of.
        style: The phrases of the domain.
    """

    exchange: Exchange
    meant: Exchange
    before: Exchange
    style: Style

    @property
    def claim(self) -> Claim:
        """The reply if it is a claim, or else an empty claim."""
        return self.exchange.claim

    @property
    def verb(self) -> tuple[str, str]:
        """The verb for putting something somewhere that the question uses."""
        return pick(self.style.verbs, self.exchange.wordings[0])

    @property
    def things(self) -> str:
        """The things of the question: "the pears", or "them"."""
        thing = self.exchange.thing
        return f"the {thing}" if thing else them_or_it(self.meant.thing)

    @property
    def they(self) -> str:
        """The things of the question as the reply refers to them: "they" or "it"."""
        return "they" if _is_plural(self.meant.thing) else "it"

    @property
    def are(self) -> str:
        """The form of "to be" that agrees with the things of the question."""
        return "are" if _is_plural(self.meant.thing) else "is"

    @property
    def place(self) -> str:
        """The place of the question: "in the hall", or "there"."""
        return self.style.where_it_is(self.exchange.place)

    @property
    def inside(self) -> str:
        """The same after "are there", where "there" would be repeated."""
        place, style = self.exchange.place, self.style
        return style.where_it_is(place) if place else f"in {style.there}"

    @property
    def goal(self) -> str:
        """The place of the question as the goal of putting something."""
        return self.style.where_it_was_put(self.exchange.place)

    @property
    def subjects(self) -> tuple[str, str]:
        """The agent of the question as the question and as the reply refer to the agent."""
        assert self.meant.agent is not None
        pronoun = _pronoun(self.meant.agent)
        asked = "you" if pronoun == "I" else pronoun
        named = self.exchange.agent
        return asked if named is None or named == REPLIER else named, pronoun


def pick(phrases: Sequence[_Phrase], wording: int) -> _Phrase:
    """Return the phrase of a number, which may be any."""
    return phrases[wording % len(phrases)]


def phrase(name: str, wording: int, **slots: str) -> str:
    """Return the phrase of a number, of those of a name in `phrases.toml`, with its slots filled.

    >>> phrase("correction", 4, correct="in the den")
    'no, wait, in the den.'
    """
    return pick(PHRASES[name], wording).format_map(slots)


def is_one(amount: Amount) -> bool:
    """Return whether the amount requires the singular."""
    return amount.kind in ("number", "at least") and amount.numbers == (1,)


def _is_plural(thing: str | None) -> bool:
    assert thing is not None
    return number_of(thing) == "plural"


def them_or_it(thing: str | None) -> str:
    """Return the pronoun of things as an object."""
    return "them" if _is_plural(thing) else "it"


def _pronoun(agent: str) -> str:
    return "I" if agent == REPLIER else "she" if agent in WOMEN else "he"


def him_or_her(agent: str | None) -> str:
    """Return the pronoun of a person as an object."""
    return "her" if agent in WOMEN else "him"


def agents_of(claim: Claim) -> str:
    """Return the people of a claim: "Mia", or "Noah and I"."""
    names = ["I" if name == REPLIER else name for name in claim.agents]
    return f" {claim.connective} ".join(sorted(names, key="I".__eq__))


def number_in_words(amount: Amount) -> str:
    """Return "three", "two or three", or "at least three"."""
    numbers = " or ".join(NUMBERS[number] for number in amount.numbers)
    return f"at least {numbers}" if amount.kind == "at least" else numbers


def amount_in_words(amount: Amount) -> str:
    """Return "all", or "three" and the like."""
    return amount.kind if amount.kind in ("all", "some", "any") else number_in_words(amount)


def amount_phrase(name: str, turn: SpokenExchange, place: str, sentence: str = "") -> str:
    """Return the phrase of an amount that the reply tells of the things in question."""
    thing, amount = turn.meant.thing, turn.claim.amount
    assert thing is not None
    return phrase(
        name,
        turn.meant.wordings[1],
        sentence=sentence,
        amount=number_in_words(amount),
        things=singular(thing) if is_one(amount) else thing,
        them=them_or_it(thing),
        are=is_or_are(turn),
        place=place,
        there=turn.style.there,
    )


def objects_of(turn: SpokenExchange, is_subject: bool = False) -> str:
    """Return what a claim is about: "the pears", "three of the pears", or "some of them"."""
    claim = turn.claim
    if len(claim.things) > 1:
        return "the " + f" {claim.connective} the ".join(claim.things)
    if claim.amount.kind != "the":
        of = f"the {claim.things[0]}" if claim.things else them_or_it(turn.meant.thing)
        if turn.style.is_plain:
            return _plain_objects(turn, of)
        return f"{amount_in_words(claim.amount)} of {of}"
    if claim.things:
        return f"the {claim.things[0]}"
    return turn.they if is_subject else them_or_it(turn.meant.thing)


def _plain_objects(turn: SpokenExchange, of: str) -> str:
    """Return an amount of things: "three", "three of them", or "three of the pears"."""
    amount = amount_in_words(turn.claim.amount)
    if turn.claim.amount.kind == "all" or turn.claim.things:
        return f"{amount} of {of}"
    if turn.claim.amount.kind == "some":
        return pick((amount, amount, f"some {turn.meant.thing}"), turn.exchange.wordings[1])
    named = f"{amount} of the {turn.meant.thing}" if turn.exchange.thing else amount
    answer = turn.exchange.wordings[1] // 3  # a third of the numbers pick each of the verbs
    return pick((amount, f"{amount} of {of}", named), answer)


def is_or_are(turn: SpokenExchange) -> str:
    """Return the form of "to be" that agrees with what a claim is about."""
    claim = turn.claim
    thing = claim.things[0] if claim.things else turn.meant.thing
    is_single = is_one(claim.amount) or not _is_plural(thing)
    return "is" if is_single and (len(claim.things) < 2 or claim.connective != "and") else "are"


def places_of(turn: SpokenExchange, preposition: str, there: str) -> str:
    """Return the places of the claim: "in the hall or the den", or `there` if it names none."""
    claim, style = turn.claim, turn.style
    if claim.connective == "if not" and len(claim.places) > 1 and not style.is_plain:
        return " if not ".join(f"{preposition} {style.named(place)}" for place in claim.places)
    if claim.places:
        names = f" {claim.connective} ".join(map(style.named, claim.places))
        return f"{preposition} {names}"
    return there


def statement(turn: SpokenExchange, verb: tuple[str, str]) -> str:
    """Return a claim as a whole sentence."""
    claim, meant, style = turn.claim, turn.meant, turn.style
    agent = claim.agents[0] if claim.agents else meant.agent if meant.form != "amount" else None
    if agent and not claim.container:
        reporter = claim.origin or claim.source
        named = claim.agents and claim.agents != (reporter,)
        subject = agents_of(claim) if named else _pronoun(agent)
        predicate = f"didn't {verb[0]}" if claim.denied else verb[1]
        sentence = f"{subject} {predicate} {objects_of(turn)} "
        sentence += places_of(turn, style.put_at, style.put_there)
    else:
        are = is_or_are(turn) + ("n't" if claim.denied else "")
        subject = objects_of(turn, is_subject=True)
        if claim.container:
            subject, are = "there", f"is a {claim.container}"
        elif claim.source and claim.amount.kind in ("some", "all") and not claim.origin:
            # "she saw some of them"
            subject, are = f"{_pronoun(claim.source)} saw", objects_of(turn)
        sentence = f"{subject} {are} {places_of(turn, style.at, style.there)}"
    if claim.then:
        who = f" {_pronoun(agent)}" if claim.denied and agent else ""  # only the first is denied
        went = pick(style.went, meant.wordings[0])
        sentence += f" and{who} {went} to {style.named(claim.then)}"
    return f"{attribution(turn)}{sentence}."


def attribution(turn: SpokenExchange) -> str:
    """Return who said what the claim says: "she said ", or "" for the speaker."""
    claim, meant = turn.claim, turn.meant
    if claim.source is None:
        return ""
    said = f"{_pronoun(claim.source) if claim.source == meant.agent else claim.source} said "
    if claim.origin is None:
        return said
    return f"{said}{claim.origin} told {him_or_her(claim.source)} "


def yes_or_no(turn: SpokenExchange, clause: str, longer: str = "") -> str:
    """Return a reply of yes or no. The clause is its subject and verb, as in "she did"."""
    reply = turn.exchange.reply
    clause += "n't" if reply == "no" else ""
    phrases = [f"{reply}.", f"{reply}, {clause}."]
    if not turn.style.is_plain:
        phrases.append(f"{clause}.")
    if longer:
        phrases.append(longer)
    return pick(phrases, turn.exchange.wordings[1])
