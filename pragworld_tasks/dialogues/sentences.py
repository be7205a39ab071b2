"""One exchange to put into words, and the parts of sentences that its phrases are made of."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from pragworld_tasks.dialogues.vocabulary import WOMEN, Style, number_of, singular
from pragworld_tasks.dialogues.world import REPLIER, Amount, Claim, Exchange
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.text import ONES

_Phrase = TypeVar("_Phrase")

PHRASES: Mapping[str, list[str]] = read_package_toml(__package__, "phrases.toml")


class SpokenExchange(NamedTuple):
    """An exchange to put into words.

    Attributes:
        exchange: The exchange, in which None becomes "them" or "there".
        meant: The same exchange with names.
        before: The exchange before it, with names.
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
        return f"the {thing}" if thing else self.them

    @property
    def they(self) -> str:
        """The things of the question as the subject of a reply: "they" or "it"."""
        return "they" if self._is_plural else "it"

    @property
    def them(self) -> str:
        """The things of the question as an object of a reply: "them" or "it"."""
        return "them" if self._is_plural else "it"

    @property
    def are(self) -> str:
        """The form of "to be" that agrees with the things of the question."""
        return "are" if self._is_plural else "is"

    @property
    def _is_plural(self) -> bool:
        assert self.meant.thing is not None
        return number_of(self.meant.thing) == "plural"

    @property
    def place(self) -> str:
        """The place of the question: "in the hall", or "there"."""
        return f"in the {self.exchange.place}" if self.exchange.place else "there"

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

    >>> phrase("unknown of people", 3, him="her")
    "I didn't see her."
    """
    return pick(PHRASES[name], wording).format_map(slots)


def is_one(amount: Amount) -> bool:
    """Return whether the amount requires the singular."""
    return amount.kind in ("number", "at least") and amount.numbers == (1,)


def _pronoun(agent: str) -> str:
    return "I" if agent == REPLIER else "she" if agent in WOMEN else "he"


def him_or_her(agent: str | None) -> str:
    """Return the pronoun of a person as an object."""
    return "her" if agent in WOMEN else "him"


def amount_in_words(amount: Amount) -> str:
    """Return "all", "some", "three", "two or three", or "at least three"."""
    numbers = " or ".join(ONES[number] for number in amount.numbers)
    return f"at least {numbers}" if amount.kind == "at least" else numbers or amount.kind


def amount_phrase(name: str, turn: SpokenExchange) -> str:
    """Return the phrase of an amount that the reply tells of the things in question."""
    thing, amount = turn.meant.thing, turn.claim.amount
    assert thing is not None
    return phrase(
        name,
        turn.meant.wordings[1],
        amount=amount_in_words(amount),
        things=singular(thing) if is_one(amount) else thing,
        them=turn.them,
        are=is_or_are(turn),
        place=turn.place,
    )


def objects_of(turn: SpokenExchange, is_subject: bool = False) -> str:
    """Return what a claim is about: "the pears", "three of the pears", or "some of them"."""
    claim, answer = turn.claim, turn.exchange.wordings[1]
    kind, amount = claim.amount.kind, amount_in_words(claim.amount)
    if len(claim.things) > 1:
        return "the " + f" {claim.connective} the ".join(claim.things)
    if kind == "the" and claim.things:
        return f"the {claim.things[0]}"
    if kind == "the":
        return turn.they if is_subject else turn.them
    of = f"{amount} of the {claim.things[0]}" if claim.things else f"{amount} of {turn.them}"
    if kind == "all" or claim.things:
        return of
    if kind == "some":
        return pick((amount, amount, f"some {turn.meant.thing}"), answer)
    named = f"{amount} of the {turn.meant.thing}" if turn.exchange.thing else amount
    return pick((amount, of, named), answer // 3)  # a third of the numbers pick each of the verbs


def is_or_are(turn: SpokenExchange) -> str:
    """Return the form of "to be" that agrees with what a claim is about."""
    claim = turn.claim
    thing = claim.things[0] if claim.things else turn.meant.thing
    assert thing is not None
    is_single = is_one(claim.amount) or number_of(thing) != "plural"
    return "is" if is_single and (len(claim.things) < 2 or claim.connective != "and") else "are"


def places_of(claim: Claim) -> str:
    """Return the places of the claim: "in the hall or the den", or "there" if it names none."""
    if not claim.places:
        return "there"
    if claim.denied and len(claim.places) > 1:
        return "neither in the " + " nor the ".join(claim.places)
    return "in the " + f" {claim.connective} the ".join(claim.places)


def statement(turn: SpokenExchange, verb: tuple[str, str]) -> str:
    """Return a claim as a whole sentence."""
    claim, meant = turn.claim, turn.meant
    agent = claim.agents[0] if claim.agents else meant.agent if meant.form != "amount" else None
    nt = "n't" if claim.denied and len(claim.places) < 2 else ""  # "neither … nor" denies, too
    if agent and not claim.container:
        subject = _pronoun(agent)
        if claim.agents and claim.agents != (claim.source,):
            names = ["I" if name == REPLIER else name for name in claim.agents]
            subject = f" {claim.connective} ".join(sorted(names, key="I".__eq__))
        predicate = f"didn't {verb[0]}" if nt else verb[1]
        sentence = f"{subject} {predicate} {objects_of(turn)} {places_of(claim)}"
    else:
        are = is_or_are(turn) + nt
        subject = objects_of(turn, is_subject=True)
        if claim.container:
            subject, are = "there", f"is a {claim.container}"
        elif claim.source and claim.amount.kind in ("some", "all"):  # "she saw some of them"
            subject, are = f"{_pronoun(claim.source)} saw", objects_of(turn)
        sentence = f"{subject} {are} {places_of(claim)}"
    if claim.then:
        sentence += f" and {pick(turn.style.went, meant.wordings[0])} to the {claim.then}"
    return f"{attribution(turn)}{sentence}."


def attribution(turn: SpokenExchange) -> str:
    """Return who said what the claim says: "she said ", or "" for the speaker."""
    source = turn.claim.source
    if source is None:
        return ""
    return f"{_pronoun(source) if source == turn.meant.agent else source} said "
