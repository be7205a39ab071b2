"""The text of exchanges: a question and a reply for each.

Each form of exchange has several phrases. The exchange records which of them it uses
(`Exchange.wordings`), so an alteration changes only the words that express what it alters.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from pragworld_tasks.dialogues.inconsistencies import inconsistent_sentence
from pragworld_tasks.dialogues.scenes import scene_text
from pragworld_tasks.dialogues.styles import STYLES, Style
from pragworld_tasks.dialogues.vocabulary import WOMEN, Cast, Domain, number_of, singular
from pragworld_tasks.dialogues.world import (
    NOTHING_SAID,
    REPLIER,
    SOME,
    Amount,
    Claim,
    Exchange,
    latest,
)

T = TypeVar("T")

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def verbalize(
    exchanges: Sequence[Exchange], resolved: Sequence[Exchange], domain: Domain, cast: Cast
) -> list[str]:
    """Return two utterances for each exchange, each with its speaker's label.

    >>> from pragworld_tasks.dialogues.vocabulary import CASTS
    >>> exchange = Exchange("where", thing="pears", reply=Claim(places=("hall",)))
    >>> verbalize([exchange], [exchange], "shop", CASTS[0])
    ['Alice: Where are the pears?', 'Bob: They are in the hall.']

    Args:
        exchanges: The exchanges, in which None becomes "them" or "there".
        resolved: The same exchanges from `world.resolve`, which determine "he" and "she".
        domain: The domain whose phrases to use.
        cast: The speakers.
    """
    utterances: list[str] = []
    before = NOTHING_SAID
    for exchange, meant in zip(exchanges, resolved, strict=True):
        utterances += verbalize_one(exchange, meant, before, domain, cast)
        before = latest(meant, before)
    return utterances


def verbalize_one(
    exchange: Exchange, meant: Exchange, before: Exchange, domain: Domain, cast: Cast
) -> tuple[str, str]:
    """Return the two utterances of one exchange, each with its speaker's label.

    Args:
        exchange: The exchange, in which None becomes "them" or "there".
        meant: The same exchange with names.
        before: The exchange before it from `world.latest`, without pronouns.
        domain: The domain whose phrases to use.
        cast: The speakers.
    """
    style = STYLES[domain]
    asker, replier = cast.labels
    question, reply = _utterances(exchange, meant, before, domain)
    return f"{asker}: {style.written(question)}", f"{replier}: {style.written(reply)}"


def _utterances(
    exchange: Exchange, meant: Exchange, before: Exchange, domain: Domain
) -> tuple[str, str]:
    """Return the question and the reply."""
    turn = _Turn(exchange, meant, before, STYLES[domain])
    phrases = _phrases_in(turn.style)[exchange.form](turn)
    question = next(phrases)
    if exchange.form == "chat":
        if is_left_open(before):
            question = f"{_choose(_LEFT_OPEN, 0)} {turn.style.written(question)}"
        return question, next(phrases)
    is_chatty = turn.style.is_of_times  # only there do people say more than they have to
    if is_chatty:
        # What people say around a sentence does not depend on the phrase that they choose for it.
        ask = exchange.wordings[0] // _MOST_PHRASES
        if exchange.form != "sure" and not question.startswith(("and ", "what about")):
            question = _choose(_openers(turn), ask) + question
        if is_left_open(before) and (exchange.form, meant.thing) != ("shall", before.thing):
            question = f"{_choose(_LEFT_OPEN, ask)} {turn.style.written(question)}"
    if exchange.reply == "unknown":
        reply = _unknown(turn, question)
    elif exchange.reply == "likely":
        likely = ("it is likely.",) if turn.style.is_plain else _LIKELY
        reply = _choose(likely, exchange.wordings[1])
    else:
        reply = next(phrases)
        if is_chatty and _may_be_followed(turn):
            reply += _choose(turn.style.afterthoughts, exchange.wordings[1] // _MOST_PHRASES)
    if exchange.oddity:
        _, things, _ = turn.meant.claimed
        to = exchange.oddity.place
        named = turn.style.named(to) if to else ""
        reply += " " + inconsistent_sentence(exchange.oddity, f"the {things[0]}", named)
    return question, reply


def is_left_open(exchange: Exchange) -> bool:
    """Return whether the reply proposes another time, so the speaker who asks has to react."""
    return exchange.form == "shall" and isinstance(exchange.reply, Claim)


def is_one(amount: Amount) -> bool:
    """Return whether the amount requires the singular."""
    return amount.kind in ("number", "at least") and amount.numbers == (1,)


# Parts of sentences -------------------------------------------------------------------------------


class _Turn(NamedTuple):
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
        return _choose(self.style.verbs, self.exchange.wordings[0])

    @property
    def things(self) -> str:
        """The things of the question: "the pears", or "them"."""
        thing = self.exchange.thing
        return f"the {thing}" if thing else _them(self.meant.thing)

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


def _choose(phrases: Sequence[T], wording: int) -> T:
    return phrases[wording % len(phrases)]


def _is_plural(thing: str | None) -> bool:
    assert thing is not None
    return number_of(thing) == "plural"


def _them(thing: str | None) -> str:
    return "them" if _is_plural(thing) else "it"


def _pronoun(agent: str) -> str:
    return "I" if agent == REPLIER else "she" if agent in WOMEN else "he"


def _agents(claim: Claim) -> str:
    names = ["I" if name == REPLIER else name for name in claim.agents]
    return f" {claim.connective} ".join(sorted(names, key="I".__eq__))  # "Noah and I"


def _number(amount: Amount) -> str:
    """Return "three", "two or three", or "at least three"."""
    numbers = " or ".join(NUMBERS[number] for number in amount.numbers)
    return f"at least {numbers}" if amount.kind == "at least" else numbers


def _quantity(amount: Amount) -> str:
    return amount.kind if amount.kind in ("all", "some", "any") else _number(amount)


def _objects(turn: _Turn, is_subject: bool = False) -> str:
    """Return what a claim is about: "the pears", "three of the pears", or "some of them"."""
    claim = turn.claim
    if len(claim.things) > 1:
        return "the " + f" {claim.connective} the ".join(claim.things)
    if claim.amount.kind != "the":
        of = f"the {claim.things[0]}" if claim.things else _them(turn.meant.thing)
        if turn.style.is_plain:
            return _plain_objects(turn, of)
        return f"{_quantity(claim.amount)} of {of}"
    if claim.things:
        return f"the {claim.things[0]}"
    return turn.they if is_subject else _them(turn.meant.thing)


def _agreement(turn: _Turn) -> str:
    """Return the form of "to be" that agrees with what a claim is about."""
    claim = turn.claim
    thing = claim.things[0] if claim.things else turn.meant.thing
    is_single = is_one(claim.amount) or not _is_plural(thing)
    return "is" if is_single and (len(claim.things) < 2 or claim.connective != "and") else "are"


def _places(turn: _Turn, preposition: str, there: str) -> str:
    claim, style = turn.claim, turn.style
    if claim.connective == "if not" and len(claim.places) > 1 and not style.is_plain:
        return " if not ".join(f"{preposition} {style.named(place)}" for place in claim.places)
    if claim.places:
        names = f" {claim.connective} ".join(map(style.named, claim.places))
        return f"{preposition} {names}"
    return there


def _statement(turn: _Turn, verb: tuple[str, str]) -> str:
    """Return a claim as a whole sentence."""
    claim, meant, style = turn.claim, turn.meant, turn.style
    agent = claim.agents[0] if claim.agents else meant.agent if meant.form != "amount" else None
    if agent and not claim.container:
        reporter = claim.origin or claim.source
        named = claim.agents and claim.agents != (reporter,)
        subject = _agents(claim) if named else _pronoun(agent)
        predicate = f"didn't {verb[0]}" if claim.denied else verb[1]
        sentence = f"{subject} {predicate} {_objects(turn)} "
        sentence += _places(turn, style.put_at, style.put_there)
    else:
        are = _agreement(turn) + ("n't" if claim.denied else "")
        subject = _objects(turn, is_subject=True)
        if claim.container:
            subject, are = "there", f"is a {claim.container}"
        elif claim.source and claim.amount.kind in ("some", "all") and not claim.origin:
            subject, are = f"{_pronoun(claim.source)} saw", _objects(turn)  # "she saw some of them"
        sentence = f"{subject} {are} {_places(turn, style.at, style.there)}"
    if claim.then:
        who = f" {_pronoun(agent)}" if claim.denied and agent else ""  # only the first is denied
        went = _choose(style.went, meant.wordings[0])
        sentence += f" and{who} {went} to {style.named(claim.then)}"
    return f"{_attribution(turn)}{sentence}."


def _attribution(turn: _Turn) -> str:
    claim, meant = turn.claim, turn.meant
    if claim.source is None:
        return ""
    said = f"{_pronoun(claim.source) if claim.source == meant.agent else claim.source} said "
    if claim.origin is None:
        return said
    return f"{said}{claim.origin} told {_him(claim.source)} "


def _yes_or_no(turn: _Turn, clause: str, longer: str = "") -> str:
    """Return a reply of yes or no. The clause is its subject and verb, as in "she did"."""
    reply = turn.exchange.reply
    clause += "n't" if reply == "no" else ""
    phrases = [f"{reply}.", f"{reply}, {clause}."]
    if not turn.style.is_plain:
        phrases.append(f"{clause}.")
    if longer:
        phrases.append(longer)
    return _choose(phrases, turn.exchange.wordings[1])


def _with_amount(turn: _Turn, number_suffices: bool) -> str:
    """Return a claim of an amount, which may leave out what the question has said."""
    claim, wording = turn.claim, turn.meant.wordings[1]
    sentence = _statement(turn, _choose(turn.style.verbs, wording))
    if claim.agents or claim.source or claim.amount.kind == "the":
        return sentence
    thing, place = turn.meant.thing, turn.style.where_it_is(turn.meant.place)
    assert thing is not None
    there, are = turn.style.there, _agreement(turn)
    noun = singular(thing) if is_one(claim.amount) else thing
    if claim.amount.kind in ("all", "some"):
        what = f"all of the {thing}" if claim.amount.kind == "all" else f"some {thing}"
        phrases = (
            sentence,
            f"{claim.amount.kind} of {_them(thing)} {are}.",
            f"{what} {are} {place}.",
            f"{claim.amount.kind} of the {thing} {are} {there}.",
            f"I saw {claim.amount.kind} of {_them(thing)} {there}.",
        )
        return _choose(phrases, wording)
    amount = _number(claim.amount)
    phrases = (
        sentence,
        f"{amount} {are} {there}.",
        f"{amount} {noun} {are} {place}.",
        f"there {are} {amount}.",
        f"{amount}.",
    )
    return _choose(phrases if number_suffices else phrases[:3], wording)


_MOST_PHRASES = 60  # more than any sentence has
_FOLLOWED = frozenset(("did", "where", "amount", "still"))  # by afterthoughts
_LEFT_OPEN = ("I'll let you know.", "I'll think about it.", "Let me think about it.")
_LIKELY = ("quite likely.", "probably.", "I think so.", "most likely.")
_UNKNOWN = ("I don't know.", "I have no idea.", "I'm not sure.")


def _openers(turn: _Turn) -> Sequence[str]:
    """Return what the question may begin with: nothing at first, and nothing if it goes on."""
    before, meant, style = turn.before, turn.meant, turn.style
    if before is NOTHING_SAID or meant.thing in before.things or meant.agent in before.agents:
        return ("",)
    return style.changes_of_subject if before.form == "chat" else style.openers


def _may_be_followed(turn: _Turn) -> bool:
    """Return whether the replier may tell how they know what they say."""
    meant, claim = turn.meant, turn.claim
    return (
        meant.form in _FOLLOWED
        and REPLIER not in (meant.agent, *claim.agents)
        and meant.reply != "no"
        and claim.connective is None
    )


def _unknown(turn: _Turn, question: str) -> str:
    form, answer = turn.exchange.form, turn.meant.wordings[1]
    phrases: tuple[str, ...] = _UNKNOWN
    if "have they told you" in question.lower():
        phrases = ("no, not yet.", "nobody has told me yet.", "no, they haven't.")
    elif question.startswith("did you see"):
        phrases = ("no.", "no, I didn't.", f"I didn't see {_them(turn.meant.thing)}.")
    elif question.startswith("have you seen"):
        phrases = ("no.", "no, I haven't.", f"I haven't seen {_them(turn.meant.thing)}.")
    elif turn.style.is_of_times:
        phrases = _NOT_SETTLED if form == "shall" else (*_UNKNOWN, "nobody has told me yet.")
    elif form == "count" and not turn.style.is_plain:
        phrases = (*_UNKNOWN, "I can't say.", "you'd have to look for yourself.")
    elif form in ("where", "amount"):
        phrases = (*_UNKNOWN, f"I didn't see {_them(turn.meant.thing)}.")
    elif turn.meant.agent is not None and (
        form in ("went", "where to") or (form == "did" and turn.style.is_plain)
    ):
        phrases = (*_UNKNOWN, f"I didn't see {_him(turn.meant.agent)}.")
    return _choose(phrases, answer)


# Forms of exchanges: each yields the question and then the reply, unless it is "I don't know" -----


def _did(turn: _Turn) -> Iterator[str]:
    exchange, meant, claim = turn.exchange, turn.meant, turn.exchange.reply
    base, past = turn.verb
    who, he = turn.subjects
    yield f"did {who} {base} {turn.things} {turn.goal}?"
    them, there = _them(meant.thing), turn.style.put_there
    if not isinstance(claim, Claim):
        did = past if claim == "yes" else f"didn't {base}"
        longer = "" if turn.style.is_plain else f"{he} {did} {them} {there}."
        yield _yes_or_no(turn, f"{he} did", longer)
    elif claim.denied and claim.then and not claim.agents:
        was = f"was in {turn.style.named(claim.then)}"
        if claim.then == meant.place:
            was = _choose(("didn't go there", "never went there"), exchange.wordings[1])
        yield f"{_attribution(turn)}{he} {was}."
    elif claim.source and claim.denied and not claim.agents:
        yield f"{_attribution(turn)}{he} didn't."
    elif claim.agents and not (claim.source or claim.places or claim.things or claim.then):
        names = _agents(claim)
        yield _choose((f"{names} did.", f"{names} {past} {them} {there}."), exchange.wordings[1])
    else:
        yield _statement(turn, turn.verb)


def _where(turn: _Turn) -> Iterator[str]:
    (ask, answer), thing = turn.exchange.wordings, turn.exchange.thing
    if thing:
        phrases = turn.style.where
        if turn.before.form == "where":
            phrases = (*phrases, *turn.style.where_next, *turn.style.where_next)
        phrase = _choose(phrases, ask)
        yield phrase.format(things=f"the {thing}", they=turn.they, are=turn.are)
    else:
        yield f"where {turn.are} {turn.they}?"
    claim = turn.claim
    sentence = short = _statement(turn, _choose(turn.style.verbs, answer))
    if not claim.people and claim.amount.kind == "the" and not claim.container:
        short = f"{'not ' if claim.denied else ''}{_places(turn, turn.style.at, '')}."
    named = sentence
    if claim.amount.kind == "the" and not claim.people and not claim.things:
        named = f"the {turn.meant.thing}{sentence.removeprefix(turn.they)}"
    if claim.denied and not claim.source:  # what was asked for remains unknown
        named, sentence = f"I only know that {named}", f"all I know is that {sentence}"
        short = sentence
    yield _choose((sentence, named, short), answer)


def _amount(turn: _Turn) -> Iterator[str]:
    exchange, amount = turn.exchange, turn.exchange.amount
    they, are = turn.they, turn.are
    if amount.kind == "any" and exchange.thing:
        they = "there"
        yield f"{are} there any {exchange.thing} {turn.inside}?"
    elif amount.kind == "the":
        yield f"{are} {turn.things if exchange.thing else they} {turn.place}?"
    else:
        yield f"{are} {_quantity(amount)} of {turn.things} {turn.place}?"
    if isinstance(exchange.reply, Claim):
        yield _with_amount(turn, number_suffices=amount.kind == "any")
    else:
        if amount.kind == "some" and exchange.reply == "yes":
            they = "some"
        nt = "n't" if exchange.reply == "no" else ""
        phrases = (f"{exchange.reply}.", f"{exchange.reply}, {they} {are}{nt}.")
        yield _choose(phrases, exchange.wordings[1])


def _count(turn: _Turn) -> Iterator[str]:
    exchange, ask = turn.exchange, turn.exchange.wordings[0]
    if exchange.thing:
        many = _choose((exchange.thing, exchange.thing, f"of the {exchange.thing}"), ask)
        yield f"how many {many} are {turn.inside}?"
    else:
        questions = [f"how many of them are {turn.place}?", f"how many are {turn.place}?"]
        if exchange.place is None and not (turn.before.reply == "no" or turn.before.claim.denied):
            questions.append("how many?")
        yield _choose(questions, ask)
    if turn.claim == Claim(amount=SOME):
        them, there = _them(turn.meant.thing), turn.style.there
        only = (f"only some of {them}.", f"only some of {them} are {there}.", "only some.")
        yield _choose(only, exchange.wordings[1])
    else:
        yield _with_amount(turn, number_suffices=True)


def _what(turn: _Turn) -> Iterator[str]:
    exchange, answer = turn.exchange, turn.exchange.wordings[1]
    base, _ = turn.verb
    if exchange.agent:
        goal = turn.goal if exchange.place else f"in {turn.goal}"
        yield f"what did {exchange.agent} {base} {goal}?"
    else:
        yield f"what is {turn.inside}?"
    sentence = _statement(turn, turn.verb)
    yield _choose((sentence, sentence if turn.claim.denied else f"{_objects(turn)}."), answer)


def _who(turn: _Turn) -> Iterator[str]:
    _, past = turn.verb
    yield f"who {past} {turn.things} {turn.goal}?"
    claim = turn.claim
    names = _agents(claim)
    was = "wasn't" if claim.denied else "was"
    it_was = f"it {was} {'me' if names == 'I' else names}."
    other = f"all I know is that {it_was}" if claim.denied else f"{names} did."
    yield _choose((other, it_was), turn.exchange.wordings[1])


def _still(turn: _Turn) -> Iterator[str]:
    exchange, they = turn.exchange, turn.they
    things = turn.things if exchange.thing else they
    claim, (ask, answer) = exchange.reply, exchange.wordings
    have = "have" if turn.are == "are" else "has"
    if exchange.place is None:
        moved_away = f"{have} {things} been moved?"
    else:
        moved_away = f"{have} {things} been moved from {turn.style.named(exchange.place)}?"
    # "Are they still there?" would expect a yes of whoever has just said who put them there.
    has_just_told = isinstance(claim, Claim) and turn.meant.thing in turn.before.things
    is_of_move = has_just_told or bool(ask % 3)
    yield moved_away if is_of_move else f"{turn.are} {things} still {turn.place}?"
    if isinstance(claim, Claim):
        has = "have" if claim.agents == (REPLIER,) else "has"
        moved = _choose(("moved", f"{has} moved"), answer)
        to = turn.style.named(claim.places[0])
        no = "yes" if is_of_move else "no"
        yield f"{no}, {_agents(claim)} {moved} {_them(turn.meant.thing)} to {to}."
    else:
        yes = f"no, {they} {have}n't." if is_of_move else f"yes, {they} {turn.are}."
        yield _choose((yes, "no." if is_of_move else "yes."), answer)


def _knows(turn: _Turn) -> Iterator[str]:
    exchange = turn.exchange
    who, he = turn.subjects
    things = turn.things if exchange.thing else turn.they
    yield f"does {who} know {turn.style.wh} {things} {turn.are}?"
    knows = "knows" if exchange.reply == "yes" else "doesn't know"
    yield _yes_or_no(turn, f"{he} does", f"{he} {knows}.")


def _sure(turn: _Turn) -> Iterator[str]:
    exchange, (ask, answer) = turn.exchange, turn.exchange.wordings
    yield _choose(("are you sure?", "are you certain?", "really?"), ask)
    if isinstance(exchange.reply, Claim):
        yield _correction(turn)
        return
    i_am = "I am" if exchange.reply == "yes" else "I'm not"
    if ask % 3 == 2:  # "really?"
        i_am = "I'm sure" if exchange.reply == "yes" else "I'm not sure"
    yield _choose((f"{exchange.reply}, {i_am}.", f"{i_am}."), answer)


def _correction(turn: _Turn) -> str:
    """Return the right answer to the question before, which the last reply got wrong."""
    claim, style = turn.claim, turn.style
    if claim.places:
        correct = style.where_it_is(claim.places[0])
    elif claim.agents:
        correct = f"it was {_agents(claim)}"
    else:
        correct = _number(claim.amount)
    sorry = _choose(("no, sorry,", "no, wait,", "no, I mean"), turn.exchange.wordings[1])
    return f"{sorry} {correct}."


def _went(turn: _Turn) -> Iterator[str]:
    exchange, ask = turn.exchange, turn.exchange.wordings[0]
    who, he = turn.subjects
    to = f"to {turn.style.named(exchange.place)}" if exchange.place else "there"
    was = "were" if who == "you" else "was"
    yield _choose((f"did {who} go {to}?", f"{was} {who} {turn.place}?"), ask)
    if isinstance(exchange.reply, Claim):
        yield _journey(turn, he, asks_where=bool(ask % 2))
    else:
        clause = (f"{he} did", f"{he} was")[ask % 2]
        if turn.style.is_plain and ask % 2:
            was_there = (
                f"yes, {clause} there." if exchange.reply == "yes" else f"{clause} not there."
            )
            yield _choose((f"{exchange.reply}.", was_there), exchange.wordings[1])
        else:
            yield _yes_or_no(turn, clause)


def _where_to(turn: _Turn) -> Iterator[str]:
    who, he = turn.subjects
    was = "were" if who == "you" else "was"
    questions = [f"where did {who} go?", f"where {was} {who}?"]
    if who != "you":
        whom = turn.exchange.agent or _him(turn.meant.agent)
        questions.append(f"how can I find {whom}?")
        if turn.style.is_plain:
            questions.append(f"where did you see {whom}?")
        if turn.style.is_plain and turn.exchange.agent is None:
            questions = questions[1:2]
    question = _choose(questions, turn.exchange.wordings[0])
    before = turn.before
    if turn.style.is_plain and (before.form, before.reply, before.agent) == (
        "went",
        "no",
        turn.meant.agent,
    ):
        question = _choose((question, "then where?"), turn.exchange.wordings[0])
    yield question
    yield _journey(turn, he, asks_where=question == questions[1 % len(questions)])


def _him(agent: str | None) -> str:
    return "her" if agent in WOMEN else "him"


def _journey(turn: _Turn, he: str, asks_where: bool) -> str:
    """Return where somebody went or, in reply to where they were, was."""
    claim, style, answer = turn.claim, turn.style, turn.exchange.wordings[1]
    names = f" {claim.connective} ".join(map(style.named, claim.places))
    if claim.connective == "if not":
        names = f" if not {style.at} ".join(map(style.named, claim.places))
        return f"{_attribution(turn)}{he} was {style.at} {names}."
    verbs = style.went
    if style.is_plain and he == "I" and len(claim.places) == 1:
        verbs = (*verbs, "returned")
    went = [f"{verb} to {names}" for verb in verbs]
    if asks_where and not (style.is_plain and (len(claim.places) > 1 or answer % 2)):
        went = [f"was {style.at} {names}"]
    return f"{_attribution(turn)}{he} {_choose(went, answer)}."


def _chat(turn: _Turn) -> Iterator[str]:
    number, choice = turn.exchange.wordings
    for text in _choose(turn.style.chat, number):
        yield scene_text(text, choice)


# The same about events and times ------------------------------------------------------------------


def _shall(turn: _Turn) -> Iterator[str]:
    exchange, (ask, answer), style = turn.exchange, turn.exchange.wordings, turn.style
    meant, before = turn.meant, turn.before
    time, asked_before = meant.place, (before.form, before.thing, before.claim.places)
    asked: tuple[str, ...]
    if asked_before == ("shall", meant.thing, (time,)):  # the replier has proposed it
        asked = (
            f"{time} is fine with me. Shall we agree on that for {turn.things}?",
            f"yes, {time} is possible. Shall we do {turn.things} then?",
            f"{time} suits me, too. Shall I write {turn.things} down for then?",
        )
    elif exchange.thing:
        asked = (
            f"shall we say {time} for {turn.things}?",
            f"how about {time} for {turn.things}?",
            f"why don't we plan {turn.things} for {time}?",
            f"is {time} all right with you for {turn.things}?",
            f"could we do {turn.things} {turn.place}?",
        )
    else:
        asked = (f"shall we say {time} then?", f"then how about {time}?")
    yield _choose(asked, ask)
    if exchange.reply == "yes":
        yield _choose(_AGREED, answer)
    elif exchange.reply == "no":
        yield _choose(_TURNED_DOWN, answer)
    else:
        other = style.named(turn.claim.places[0])
        yield _choose(_COUNTERED, answer).format(no=_choose(_TURNED_DOWN, ask), other=other)


_NOT_SETTLED = ("let me check first.", "I'll have to ask at home.", "I can't say yet.")
_AGREED = (
    "good idea.",
    "yes, let's do that.",
    "that suits me well.",
    "fine with me.",
    "sure, why not?",
    "all right, it's a deal.",
)
_TURNED_DOWN = (
    "I'm afraid I can't, my parents are visiting.",
    "no, that won't work.",
    "sorry, I have to work.",
    "no, I'd rather not.",
    "that's a bad time for me.",
)
_COUNTERED = ("{no} Could we do {other}?", "{no} Would {other} be possible?")


def _free(turn: _Turn) -> Iterator[str]:
    who, he = turn.subjects
    are, am = ("are", "I'm") if who == "you" else ("is", f"{he} is")
    ask = turn.exchange.wordings[0]
    yield _choose((f"{are} {who} free {turn.place}?", f"{are} {who} available {turn.place}?"), ask)
    if isinstance(turn.exchange.reply, Claim):
        yield _free_when(turn, am)
    elif he == "I":
        yield _choose(("yes, I am.", "I am."), ask) if turn.exchange.reply == "yes" else "I'm not."
    else:
        yield _yes_or_no(turn, f"{he} is")


def _when_free(turn: _Turn) -> Iterator[str]:
    who, he = turn.subjects
    are, am = ("are", "I'm") if who == "you" else ("is", f"{he} is")
    ask = turn.exchange.wordings[0]
    yield _choose((f"when {are} {who} free?", f"when {are} {who} available?"), ask)
    yield _free_when(turn, am)


def _free_when(turn: _Turn, am: str) -> str:
    when = _places(turn, turn.style.at, "")
    return f"{_attribution(turn)}{am} free {when}."


_PHRASES: dict[str, Callable[[_Turn], Iterator[str]]] = {
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
_OF_TIMES = {**_PHRASES, "shall": _shall, "went": _free, "where to": _when_free}

# The same in a household, where people speak like those of the released dialogues -----------------


def _plain_objects(turn: _Turn, of: str) -> str:
    """Return an amount of things: "three", "three of them", or "three of the pears"."""
    amount = _quantity(turn.claim.amount)
    if turn.claim.amount.kind == "all" or turn.claim.things:
        return f"{amount} of {of}"
    if turn.claim.amount.kind == "some":
        return _choose((amount, amount, f"some {turn.meant.thing}"), turn.exchange.wordings[1])
    named = f"{amount} of the {turn.meant.thing}" if turn.exchange.thing else amount
    answer = turn.exchange.wordings[1] // 3  # a third of the numbers choose each of the verbs
    return _choose((amount, f"{amount} of {of}", named), answer)


def _plain_where(turn: _Turn) -> Iterator[str]:
    (ask, answer), thing = turn.exchange.wordings, turn.exchange.thing
    question = next(_where(turn))
    if not thing:
        asked = (question, question, f"where can I get {turn.things}?")
        question = _choose((*asked, f"where did you see {turn.things}?"), ask)
    yield question
    sentence = _statement(turn, _choose(turn.style.verbs, answer))
    claim, them = turn.claim, _them(turn.meant.thing)
    if claim.agents and thing and not claim.denied and answer // 3 % 3 == 0:
        sentence = sentence.replace(f" {them} in ", f" the {thing} in ", 1)
    if claim.denied and not claim.source:
        sentence = f"I only know that {sentence}"
    elif claim.amount.kind == "the" and not claim.people and not claim.things and answer % 2:
        sentence = f"the {turn.meant.thing}{sentence.removeprefix(turn.they)}"
    yield sentence


def _plain_amount(turn: _Turn) -> Iterator[str]:
    exchange, (ask, answer) = turn.exchange, turn.exchange.wordings
    question = next(_amount(turn))
    if exchange.thing and ask % 5:
        question = question.replace("all of the", "all the")
    yield question
    if isinstance(exchange.reply, Claim):
        yield _plain_claim_of_amount(turn, is_counted=False)
        return
    kind, are, there = exchange.amount.kind, turn.are, turn.style.there
    phrases = [f"{exchange.reply}."]
    if exchange.reply == "yes" and kind == "all":
        phrases.append(f"yes, {turn.they} {are} all {there}.")
    elif exchange.reply == "yes":
        some = f"yes, some of {_them(turn.meant.thing)} {are} {there}."
        phrases += ["yes.", some, f"yes, there {are} some {turn.place}."]
    yield _choose(phrases, answer)


def _plain_count(turn: _Turn) -> Iterator[str]:
    exchange = turn.exchange
    was_denied = turn.before.reply == "no" or turn.before.claim.denied
    if exchange.thing:
        yield f"how many {exchange.thing} are {turn.place}?"
    elif exchange.place is None and not was_denied:
        yield "how many?"
    else:
        yield f"how many are {turn.place}?"
    yield _plain_claim_of_amount(turn, is_counted=True)


def _plain_claim_of_amount(turn: _Turn, is_counted: bool) -> str:
    """Return a claim of an amount, which may leave out what the question has said."""
    claim, wording = turn.claim, turn.meant.wordings[1]
    if claim.agents or claim.source or claim.amount.kind == "the":
        return _statement(turn, _choose(turn.style.verbs, wording))
    thing, place, there = turn.meant.thing, turn.place, turn.style.there
    assert thing is not None
    are, them = _agreement(turn), _them(thing)
    phrases: tuple[str, ...]
    if claim.amount.kind == "all":
        phrases = (f"all of {them} {are} {place}.", f"all of the {thing} {are} {place}.")
    elif claim.amount.kind == "some":
        phrases = (f"some {are} {place}.", f"some {thing} {are} {place}.")
    else:
        amount = _number(claim.amount)
        noun = singular(thing) if is_one(claim.amount) else thing
        if is_counted:
            phrases = (f"there {are} {amount}.", f"{amount}.", f"{amount} {noun} {are} {place}.")
            if turn.exchange.place is None:
                phrases = (f"there {are} {amount}.", f"{amount} {are} {there}.")
            if claim.amount.kind == "at least":
                phrases = (f"there {are} {amount} {there}.",)
            elif claim.amount.kind == "either":
                phrases = (f"there {are} {amount}.", f"{amount}.")
        else:
            phrases = (f"{amount} {are} {there}.",)
            if turn.exchange.place is not None:
                phrases += (f"{amount} {noun} {are} {place}.", f"{amount} {are} {place}.")
    return _choose(phrases, wording)


_PLAIN = {**_PHRASES, "where": _plain_where, "amount": _plain_amount, "count": _plain_count}


def _phrases_in(style: Style) -> dict[str, Callable[[_Turn], Iterator[str]]]:
    """Return how each form of exchange is put into words."""
    return _OF_TIMES if style.is_of_times else _PLAIN if style.is_plain else _PHRASES
