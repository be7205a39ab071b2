"""The phrases of each form of exchange, about things and places.

Each form yields the question and then the reply. Where the reply is "I don't know", only the
question is taken.
"""

from collections.abc import Callable, Iterator

from pragworld_tasks.dialogues.sentences import (
    SpokenExchange,
    agents_of,
    amount_in_words,
    amount_phrase,
    attribution,
    him_or_her,
    number_in_words,
    objects_of,
    phrase,
    pick,
    places_of,
    statement,
    them_or_it,
    yes_or_no,
)
from pragworld_tasks.dialogues.styles import scene_text
from pragworld_tasks.dialogues.world import REPLIER, SOME, Claim


def _did(turn: SpokenExchange) -> Iterator[str]:
    exchange, meant, claim = turn.exchange, turn.meant, turn.exchange.reply
    base, past = turn.verb
    who, he = turn.subjects
    yield f"did {who} {base} {turn.things} {turn.goal}?"
    them, there = them_or_it(meant.thing), turn.style.put_there
    if not isinstance(claim, Claim):
        did = past if claim == "yes" else f"didn't {base}"
        longer = "" if turn.style.is_plain else f"{he} {did} {them} {there}."
        yield yes_or_no(turn, f"{he} did", longer)
    elif claim.denied and claim.then and not claim.agents:
        was = f"was in {turn.style.named(claim.then)}"
        if claim.then == meant.place:
            was = pick(("didn't go there", "never went there"), exchange.wordings[1])
        yield f"{attribution(turn)}{he} {was}."
    elif claim.source and claim.denied and not claim.agents:
        yield f"{attribution(turn)}{he} didn't."
    elif claim.agents and not (claim.source or claim.places or claim.things or claim.then):
        names = agents_of(claim)
        yield pick((f"{names} did.", f"{names} {past} {them} {there}."), exchange.wordings[1])
    else:
        yield statement(turn, turn.verb)


def _where(turn: SpokenExchange) -> Iterator[str]:
    (ask, answer), thing = turn.exchange.wordings, turn.exchange.thing
    if thing:
        phrases = turn.style.where
        if turn.before.form == "where":
            phrases = (*phrases, *turn.style.where_next, *turn.style.where_next)
        phrase = pick(phrases, ask)
        yield phrase.format(things=f"the {thing}", they=turn.they, are=turn.are)
    else:
        yield f"where {turn.are} {turn.they}?"
    claim = turn.claim
    sentence = short = statement(turn, pick(turn.style.verbs, answer))
    if not claim.people and claim.amount.kind == "the" and not claim.container:
        short = f"{'not ' if claim.denied else ''}{places_of(turn, turn.style.at, '')}."
    named = sentence
    if claim.amount.kind == "the" and not claim.people and not claim.things:
        named = f"the {turn.meant.thing}{sentence.removeprefix(turn.they)}"
    if claim.denied and not claim.source:  # what was asked for remains unknown
        named, sentence = f"I only know that {named}", f"all I know is that {sentence}"
        short = sentence
    yield pick((sentence, named, short), answer)


def _amount(turn: SpokenExchange) -> Iterator[str]:
    exchange, amount = turn.exchange, turn.exchange.amount
    they, are = turn.they, turn.are
    if amount.kind == "any" and exchange.thing:
        they = "there"
        yield f"{are} there any {exchange.thing} {turn.inside}?"
    elif amount.kind == "the":
        yield f"{are} {turn.things if exchange.thing else they} {turn.place}?"
    else:
        yield f"{are} {amount_in_words(amount)} of {turn.things} {turn.place}?"
    if isinstance(exchange.reply, Claim):
        yield _with_amount(turn, number_suffices=amount.kind == "any")
    else:
        if amount.kind == "some" and exchange.reply == "yes":
            they = "some"
        nt = "n't" if exchange.reply == "no" else ""
        phrases = (f"{exchange.reply}.", f"{exchange.reply}, {they} {are}{nt}.")
        yield pick(phrases, exchange.wordings[1])


def _count(turn: SpokenExchange) -> Iterator[str]:
    exchange, ask = turn.exchange, turn.exchange.wordings[0]
    if exchange.thing:
        many = pick((exchange.thing, exchange.thing, f"of the {exchange.thing}"), ask)
        yield f"how many {many} are {turn.inside}?"
    else:
        questions = [f"how many of them are {turn.place}?", f"how many are {turn.place}?"]
        if exchange.place is None and not (turn.before.reply == "no" or turn.before.claim.denied):
            questions.append("how many?")
        yield pick(questions, ask)
    if turn.claim == Claim(amount=SOME):
        them, there = them_or_it(turn.meant.thing), turn.style.there
        yield phrase("only some of them", exchange.wordings[1], them=them, there=there)
    else:
        yield _with_amount(turn, number_suffices=True)


def _with_amount(turn: SpokenExchange, number_suffices: bool) -> str:
    """Return a claim of an amount, which may leave out what the question has said."""
    claim, wording = turn.claim, turn.meant.wordings[1]
    sentence = statement(turn, pick(turn.style.verbs, wording))
    if claim.agents or claim.source or claim.amount.kind == "the":
        return sentence
    name = "number suffices" if number_suffices else "number"
    if claim.amount.kind in ("all", "some"):
        name = f"{claim.amount.kind} of them"
    return amount_phrase(name, turn, turn.style.where_it_is(turn.meant.place), sentence)


def _what(turn: SpokenExchange) -> Iterator[str]:
    exchange, answer = turn.exchange, turn.exchange.wordings[1]
    base, _ = turn.verb
    if exchange.agent:
        goal = turn.goal if exchange.place else f"in {turn.goal}"
        yield f"what did {exchange.agent} {base} {goal}?"
    else:
        yield f"what is {turn.inside}?"
    sentence = statement(turn, turn.verb)
    yield pick((sentence, sentence if turn.claim.denied else f"{objects_of(turn)}."), answer)


def _who(turn: SpokenExchange) -> Iterator[str]:
    _, past = turn.verb
    yield f"who {past} {turn.things} {turn.goal}?"
    claim = turn.claim
    names = agents_of(claim)
    was = "wasn't" if claim.denied else "was"
    it_was = f"it {was} {'me' if names == 'I' else names}."
    other = f"all I know is that {it_was}" if claim.denied else f"{names} did."
    yield pick((other, it_was), turn.exchange.wordings[1])


def _still(turn: SpokenExchange) -> Iterator[str]:
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
        moved = pick(("moved", f"{has} moved"), answer)
        to = turn.style.named(claim.places[0])
        no = "yes" if is_of_move else "no"
        yield f"{no}, {agents_of(claim)} {moved} {them_or_it(turn.meant.thing)} to {to}."
    else:
        yes = f"no, {they} {have}n't." if is_of_move else f"yes, {they} {turn.are}."
        yield pick((yes, "no." if is_of_move else "yes."), answer)


def _knows(turn: SpokenExchange) -> Iterator[str]:
    exchange = turn.exchange
    who, he = turn.subjects
    things = turn.things if exchange.thing else turn.they
    yield f"does {who} know {turn.style.wh} {things} {turn.are}?"
    knows = "knows" if exchange.reply == "yes" else "doesn't know"
    yield yes_or_no(turn, f"{he} does", f"{he} {knows}.")


def _sure(turn: SpokenExchange) -> Iterator[str]:
    exchange, (ask, answer) = turn.exchange, turn.exchange.wordings
    yield pick(("are you sure?", "are you certain?", "really?"), ask)
    if isinstance(exchange.reply, Claim):
        yield _correction(turn)
        return
    i_am = "I am" if exchange.reply == "yes" else "I'm not"
    if ask % 3 == 2:  # "really?"
        i_am = "I'm sure" if exchange.reply == "yes" else "I'm not sure"
    yield pick((f"{exchange.reply}, {i_am}.", f"{i_am}."), answer)


def _correction(turn: SpokenExchange) -> str:
    """Return the right answer to the question before, which the last reply got wrong."""
    claim, style = turn.claim, turn.style
    if claim.places:
        correct = style.where_it_is(claim.places[0])
    elif claim.agents:
        correct = f"it was {agents_of(claim)}"
    else:
        correct = number_in_words(claim.amount)
    return phrase("correction", turn.exchange.wordings[1], correct=correct)


def _went(turn: SpokenExchange) -> Iterator[str]:
    exchange, ask = turn.exchange, turn.exchange.wordings[0]
    who, he = turn.subjects
    to = f"to {turn.style.named(exchange.place)}" if exchange.place else "there"
    was = "were" if who == "you" else "was"
    yield pick((f"did {who} go {to}?", f"{was} {who} {turn.place}?"), ask)
    if isinstance(exchange.reply, Claim):
        yield _journey(turn, he, asks_where=bool(ask % 2))
    else:
        clause = (f"{he} did", f"{he} was")[ask % 2]
        if turn.style.is_plain and ask % 2:
            was_there = (
                f"yes, {clause} there." if exchange.reply == "yes" else f"{clause} not there."
            )
            yield pick((f"{exchange.reply}.", was_there), exchange.wordings[1])
        else:
            yield yes_or_no(turn, clause)


def _where_to(turn: SpokenExchange) -> Iterator[str]:
    who, he = turn.subjects
    was = "were" if who == "you" else "was"
    questions = [f"where did {who} go?", f"where {was} {who}?"]
    if who != "you":
        whom = turn.exchange.agent or him_or_her(turn.meant.agent)
        questions.append(f"how can I find {whom}?")
        if turn.style.is_plain:
            questions.append(f"where did you see {whom}?")
        if turn.style.is_plain and turn.exchange.agent is None:
            questions = questions[1:2]
    question = pick(questions, turn.exchange.wordings[0])
    before = turn.before
    if turn.style.is_plain and (before.form, before.reply, before.agent) == (
        "went",
        "no",
        turn.meant.agent,
    ):
        question = pick((question, "then where?"), turn.exchange.wordings[0])
    yield question
    yield _journey(turn, he, asks_where=question == questions[1 % len(questions)])


def _journey(turn: SpokenExchange, he: str, asks_where: bool) -> str:
    """Return where somebody went or, in reply to where they were, was."""
    claim, style, answer = turn.claim, turn.style, turn.exchange.wordings[1]
    names = f" {claim.connective} ".join(map(style.named, claim.places))
    if claim.connective == "if not":
        names = f" if not {style.at} ".join(map(style.named, claim.places))
        return f"{attribution(turn)}{he} was {style.at} {names}."
    verbs = style.went
    if style.is_plain and he == "I" and len(claim.places) == 1:
        verbs = (*verbs, "returned")
    went = [f"{verb} to {names}" for verb in verbs]
    if asks_where and not (style.is_plain and (len(claim.places) > 1 or answer % 2)):
        went = [f"was {style.at} {names}"]
    return f"{attribution(turn)}{he} {pick(went, answer)}."


def _chat(turn: SpokenExchange) -> Iterator[str]:
    number, choice = turn.exchange.wordings
    for text in pick(turn.style.chat, number):
        yield scene_text(text, choice)


FORMS: dict[str, Callable[[SpokenExchange], Iterator[str]]] = {
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
