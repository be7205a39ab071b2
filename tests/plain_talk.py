"""Conversations in a plain style whose meaning is known, also after they are altered.

Half of the exchanges say who left what where, always in whole sentences and without pronouns for
what they are about. So every line can be read back on its own, as an exchange of the symbolic
generator, and `world.interpret` says what a conversation establishes. The other lines are small
talk, which establishes nothing.
"""

import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Literal, NamedTuple

from pragworld_tasks.dialogues.inconsistencies import inconsistent_sentence
from pragworld_tasks.dialogues.questions import (
    Question,
    QuestionForm,
    QuestionKind,
    basis,
    evaluate,
)
from pragworld_tasks.dialogues.sentences import NUMBERS
from pragworld_tasks.dialogues.styles import STYLES
from pragworld_tasks.dialogues.vocabulary import (
    WOMEN,
    Domain,
    Names,
    domain_vocabulary,
    number_of,
)
from pragworld_tasks.dialogues.world import (
    ALL,
    NOWHERE,
    SOME,
    THE,
    Amount,
    Claim,
    Exchange,
    Oddity,
    State,
    Unclear,
    interpret,
)
from pragworld_tasks.text_alterations.inflection import read_number

Truth = Literal["yes", "no", "undetermined"]
Who = tuple[str, str, str]  # an agent, things and the place where the agent left them

_DOMAINS: tuple[Domain, ...] = ("household", "shop", "clinic")
_ODDITIES = 14  # sentences of each kind
_TRIES = 200
_SEED_NAMES = 12  # of each kind


def names(domain: Domain) -> Names:
    """Return the people, things and places of a domain: things in the plural, as all fit them."""
    vocabulary = domain_vocabulary(domain, "regular")
    plural = tuple(thing for thing in vocabulary.things if number_of(thing) == "plural")
    return vocabulary._replace(things=plural)


@cache
def all_names() -> Names:
    """Return the people, things and places of all domains."""
    by_domain = [names(domain) for domain in _DOMAINS]
    return Names(*(tuple(dict.fromkeys(sum(slot, ()))) for slot in zip(*by_domain, strict=True)))


# Writing ------------------------------------------------------------------------------------------


def write(
    triplets: Sequence[Who], exchanges: int, speakers: tuple[str, str], draw: random.Random
) -> list[tuple[str, str]]:
    """Return a conversation about who left what where, as pairs of a speaker and what they say.

    Args:
        triplets: Two triplets of an agent, things and a place, which the conversation establishes.
        exchanges: The number of exchanges, of two turns each.
        speakers: Who asks and who replies.
        draw: Where the choices come from.
    """
    asker, replier = speakers
    talk = draw.sample(small_talk(), max(1, exchanges // 4))
    for _ in range(_TRIES):
        about: list[tuple[str, str]] = []
        for triplet, other in (triplets, triplets[::-1]):
            told = [_told(triplet, other, draw)]
            more = (exchanges - len(talk) + (triplet is triplets[0])) // 2 - 1
            told += draw.sample(list(_more(triplet, other, draw)), max(0, more))
            about += told
        pairs = [talk[0], *draw.sample([*about, *talk[1:]], len(about) + len(talk) - 1)]
        turns = [turn for ask, reply in pairs for turn in ((asker, ask), (replier, reply))]
        context = "\n".join(f"{speaker}: {text}" for speaker, text in turns)
        if is_consistent(context) and set(triplets) <= set(meaning(context).acts):
            return turns
    raise ValueError(f"no conversation about {triplets}")


@cache
def small_talk() -> list[tuple[str, str]]:
    """Return remarks and replies that name nobody and none of the things and places."""
    known = re.compile(rf"\b({'|'.join(name for slot in all_names() for name in slot)})\b")
    pairs = []
    for domain in (*_DOMAINS, "everyday"):
        for pair in STYLES[domain].chat:
            ask, reply = (text[0].upper() + text[1:] for text in pair)
            both = f"{ask} {reply}"
            names_somebody = re.search(r"(?<![.?!] )(?<!^)\b(?!I\b)[A-Z]", both)
            if "{" not in both and not names_somebody and not known.search(both.lower()):
                pairs.append((ask, reply))
    return pairs


def _told(triplet: Who, other: Who, draw: random.Random) -> tuple[str, str]:
    """Return an exchange that establishes a triplet."""
    agent, things, place = triplet
    number = NUMBERS[draw.randint(2, 6)]
    amount = draw.choice(("", "", "all of ", "some of ", f"{number} of "))
    if draw.random() < 0.2:
        return f"Did {agent} leave the {things} in the {place}?", f"Yes, {_pronoun(agent)} did."
    who = f"{agent} and {other[0]}" if draw.random() < 0.15 else agent
    what = f"{amount}the {things}"
    if not amount and draw.random() < 0.15:
        what += f" and the {other[1]}"
    ask = draw.choice((f"Where are the {things}?", f"Who left something in the {place}?"))
    return ask, f"{who} left {what} in the {place}."


def _more(triplet: Who, other: Who, draw: random.Random) -> Iterator[tuple[str, str]]:
    """Yield further exchanges about the things of a triplet."""
    _, things, place = triplet
    number = NUMBERS[draw.randint(2, 6)]
    yield f"Did {other[0]} leave the {things} in the {place}?", f"No, {_pronoun(other[0])} did not."
    count = f"{_opened(number)} of the {things} are in the {place}."
    yield f"How many of the {things} are in the {place}?", count
    amount = draw.choice(("All of", "Some of"))
    yield (
        f"Are all of the {things} in the {place}?",
        f"{amount} the {things} are in the {place}.",
    )
    yield f"Are the {things} in the {other[2]}?", "No, they are not."
    does = draw.choice(("Yes, {} does.", "No, {} does not."))
    yield f"Does {other[0]} know where the {things} are?", does.format(_pronoun(other[0]))
    yield f"Are the {things} in the {place}?", f"The {things} are in the {place}."


def _pronoun(agent: str) -> str:
    return "she" if agent in WOMEN else "he"


def _opened(text: str) -> str:
    return text[0].upper() + text[1:]


def inconsistent(things: str, place: str, draw: random.Random) -> str:
    """Return a sentence that contradicts common sense: the things move, vanish or do neither."""
    to = draw.choice((None, None, NOWHERE, place))
    oddity = Oddity(to, draw.randrange(_ODDITIES))
    return inconsistent_sentence(oddity, f"the {things}", f"the {place}" if to else "")


def write_seed(domain: Domain, speakers: tuple[str, str], draw: random.Random) -> str:
    """Return a conversation about people, things and places, in other words than `write`."""
    slots = (draw.sample(slot, _SEED_NAMES) for slot in names(domain))
    lines = [
        line
        for agent, things, place in zip(*slots, strict=True)
        for line in (f"Did you see {agent} with the {things}?", f"Yes, near the {place}.")
    ]
    return "\n".join(f"{speakers[number % 2]}: {line}" for number, line in enumerate(lines))


# Reading ------------------------------------------------------------------------------------------

_AMOUNTS = {"": THE, "all of ": ALL, "some of ": SOME, "not all of ": SOME} | {
    f"{word} of ": Amount("number", (number,)) for number, word in enumerate(NUMBERS) if number
}
_AMOUNT = f"(?P<amount>{'|'.join(sorted(_AMOUNTS, reverse=True))})"
_AGENTS = r"(?P<agents>[A-Z]\w+(?: (?:and|or) [A-Z]\w+)?)"
_THINGS = r"the (?P<things>[a-z ]+?)"
_PLACES = r"in the (?P<places>[\w -]+?)"
_NOT = r"(?P<denied>n't| not|)"
_STATEMENTS = (
    re.compile(rf"{_AGENTS} (?:left|did{_NOT} leave) {_AMOUNT}{_THINGS} {_PLACES}\."),
    re.compile(rf"{_AMOUNT}{_THINGS} (?:are|is){_NOT} {_PLACES}\.", re.IGNORECASE),
)
_REPLY = re.compile(r"(?P<reply>Yes|No), (?:she|he|they)\b[^.]*\.")
_ASKED = {
    "did": re.compile(rf"Did {_AGENTS} leave {_THINGS} {_PLACES}\?"),
    "are": re.compile(rf"Are {_THINGS} {_PLACES}\?"),
    "knows": re.compile(rf"Does {_AGENTS} know where {_THINGS} (?:are|is)\?"),
}


def read(context: str) -> Iterator[Exchange]:
    """Yield what the lines of a conversation say, each as an exchange; nothing for small talk."""
    before = ""
    for line in context.split("\n"):
        text = line.partition(": ")[2]
        yield from _read_line(text, before)
        before = text


def _read_line(text: str, before: str) -> Iterator[Exchange]:
    for statement in _STATEMENTS:
        if match := statement.match(text):
            exchange = _statement(**{"agents": "", **match.groupdict()})
            if set(exchange.names) <= _known():
                yield exchange._replace(oddity=_oddity(text[match.end() :], exchange))
            return
    reply = _REPLY.match(text)
    for form, question in _ASKED.items():
        asked = question.fullmatch(before)
        if reply and asked:
            exchange = _replied(form, reply["reply"] == "Yes", **asked.groupdict())
            if set(exchange.names) <= _known():
                yield exchange


@cache
def _known() -> frozenset[str]:
    return frozenset(name for slot in all_names() for name in slot)


def _statement(agents: str, amount: str, things: str, places: str, denied: str | None) -> Exchange:
    """Return what a statement says, as a reply to "what did they leave there?"."""
    connectives = re.findall(r" (and|or) ", f"{agents} {things} {places}")
    claim = Claim(
        agents=tuple(filter(None, re.split(" and | or ", agents))),
        things=tuple(re.split(" and the | or the ", things)),
        places=tuple(re.split(" and the | or the ", places)),
        amount=_AMOUNTS[amount.lower()],
        connective=connectives[0] if connectives else None,
        denied=bool(denied),
    )
    return Exchange("what", place=claim.places[0], reply=claim)


def _replied(form: str, is_yes: bool, things: str, agents: str = "", places: str = "") -> Exchange:
    """Return the exchange of a question and a reply of yes or no."""
    reply: Literal["yes", "no"] = "yes" if is_yes else "no"
    if form == "did":
        return Exchange("did", agents, things, places, reply=reply)
    if form == "knows":
        return Exchange("knows", agents, things, reply=reply)
    claim = Claim(things=(things,), places=(places,), denied=not is_yes)
    return Exchange("what", place=places, reply=claim)


def _oddity(text: str, exchange: Exchange) -> Oddity | None:
    """Return what the sentence after a statement says, if it contradicts common sense."""
    for to, wording, sentence in _odd_sentences() if text else ():
        match = sentence.fullmatch(text)
        if match and match["things"] == exchange.claim.things[0]:
            return Oddity(match["place"] if to == "PLACE" else to, wording)
    return None


@cache
def _odd_sentences() -> list[tuple[str | None, int, re.Pattern[str]]]:
    patterns = []
    for to, wording in product((NOWHERE, "PLACE", None), range(_ODDITIES)):
        sentence = inconsistent_sentence(Oddity(to, wording), "THINGS", "PLACE")
        pattern = re.escape(f" {sentence}").replace("THINGS", "the (?P<things>[a-z ]+)", 1)
        patterns.append(
            (to, wording, re.compile(pattern.replace("PLACE", r"the (?P<place>[\w -]+)")))
        )
    return patterns


@cache
def meaning(context: str) -> State:
    """Return what a conversation establishes. A line that contradicts earlier ones says nothing."""
    kept: list[Exchange] = []
    for exchange in read(context):
        try:
            interpret([*kept, exchange])
        except Unclear:
            continue
        kept.append(exchange)
    return interpret(kept)


def is_consistent(context: str) -> bool:
    """Return whether no line contradicts earlier ones."""
    try:
        interpret(list(read(context)))
    except Unclear:
        return False
    return True


# Questions ----------------------------------------------------------------------------------------


class _Phrase(NamedTuple):
    type: str
    text: str
    form: QuestionForm
    kind: QuestionKind = "other"

    def pattern(self) -> re.Pattern[str]:
        parts = {
            "agent": r"(?P<agent>[A-Z]\w+)",
            "knower": r"(?P<knower>[A-Z]\w+)",
            "things": r"(?P<things>[a-z ]+?)",
            "place": r"(?P<place>[\w -]+?)",
            "number": r"(?P<number>[a-z-]+)",
        }
        escaped = re.escape(self.text).replace(r"\{", "{").replace(r"\}", "}")
        return re.compile(escaped.format(**parts))


_PHRASES = (
    _Phrase("location", "Are the {things} in the {place}?", "any"),
    _Phrase("possession", "Did {agent} bring the {things} to the {place}?", "left"),
    _Phrase("quantity", "Are there exactly {number} {things} in the {place}?", "exactly"),
    _Phrase(
        "quantity", "Did {agent} leave exactly {number} {things} in the {place}?", "left exactly"
    ),
    _Phrase("universal", "Did {agent} leave all of the {things} in the {place}?", "left all"),
    _Phrase("existential", "Did {agent} leave some of the {things} in the {place}?", "left some"),
    _Phrase("only-entity", "Did {agent} leave any {things} in the {place}?", "left"),
    _Phrase("sure", "Is {knower} sure where the {things} are?", "where", "sure"),
    _Phrase("sure", "Is {knower} sure that the {things} are in the {place}?", "any", "sure"),
    _Phrase("sure", "Is {knower} sure that all of the {things} are in the {place}?", "all", "sure"),
    _Phrase("sure", "Is {knower} sure that the {things} are in the {place}?", "any", "sure"),
    _Phrase("know", "Does {knower} know how many {things} are in the {place}?", "how many", "know"),
    _Phrase("know", "Does {agent} know where the {things} are?", "agent knows", "know"),
    _Phrase("other", "Is it true that {agent} put {things} in the {place}?", "left"),
)


# Questions about what no conversation here says; what "went" asks is one of them.
_UNSAID = tuple(
    _Phrase("", text, "went")
    for text in (
        "Did {agent} get the {things}?",
        "Did {agent} ask for the {things}?",
        "Did {agent} go to the {place}?",
        "Did {agent} go to the {place} because of the {things}?",
        "Does {agent} know about the {things}?",
        "Does {knower} know why {agent} went to the {place}?",
        "Is {agent} the one with the {things}?",
        "Is {agent} sure about the {things}?",
        "Are there exactly {number} {things}?",
    )
)


def ask(context: str, kind: str, answer: str, among: Names, draw: random.Random) -> str | None:
    """Return a question of a type with an answer, or None if there is none.

    Args:
        context: The conversation.
        kind: The type of question.
        answer: Yes or no, which stands for undetermined as well.
        among: The people, things and places to ask about.
        draw: Where the choice comes from.
    """
    knowers = sorted({line.partition(":")[0] for line in context.split("\n")})
    slots = product(among.agents, among.things, among.places, NUMBERS[2:7], knowers)
    questions = {
        phrase.text.format(agent=agent, things=things, place=place, number=number, knower=knower)
        for agent, things, place, number, knower in slots
        for phrase in _PHRASES
        if phrase.type == kind
    }
    right = [
        text for text in sorted(questions) if (truth(context, text) == "yes") == (answer == "yes")
    ]
    return draw.choice(right) if right else None


@cache
def truth(context: str, question: str) -> Truth:
    """Return the answer to a question about a conversation.

    It is undetermined, too, where people would disagree.

    Raises:
        ValueError: The question is not in the plain style.
    """
    asked = read_question(question)
    state = meaning(context)
    if asked is None:
        raise ValueError(f"not a question in the plain style: {question}")
    if evaluate(asked, state) is None:
        return "undetermined"
    match basis(asked, state):
        case "entailed":
            return "yes"
        case "excluded":
            return "no"
    return "undetermined"


@cache
def _patterns() -> list[tuple[_Phrase, re.Pattern[str]]]:
    return [(phrase, phrase.pattern()) for phrase in (*_PHRASES, *_UNSAID)]


def read_question(text: str) -> Question | None:
    """Return what a question asks; None if it is not in the plain style."""
    for phrase, pattern in _patterns():
        if match := pattern.fullmatch(text):
            slots = match.groupdict()
            return Question(
                phrase.form,
                phrase.kind,
                slots.get("agent", ""),
                slots.get("things", ""),
                slots.get("place", ""),
                read_number(slots.get("number", "")) or 0,
            )
    return None


def utterance_about(context: str, question: str) -> str:
    """Return the utterance that has most to do with a question."""
    asked = read_question(question) or Question("any", "other")
    names_asked = {asked.agent, asked.thing, asked.place} - {""}
    utterances = [line.partition(": ")[2] for line in context.split("\n")]
    return max(
        utterances, key=lambda text: (sum(name in text for name in names_asked), text[-1] != "?")
    )
