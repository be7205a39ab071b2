"""The phrases of each form of exchange in a household.

People speak there like those of the released dialogues about things and places.
"""

from collections.abc import Iterator

from pragworld_tasks.dialogues.forms import FORMS
from pragworld_tasks.dialogues.sentences import (
    SpokenExchange,
    amount_phrase,
    pick,
    statement,
    them_or_it,
)
from pragworld_tasks.dialogues.world import Claim


def _where(turn: SpokenExchange) -> Iterator[str]:
    (ask, answer), thing = turn.exchange.wordings, turn.exchange.thing
    question = next(FORMS["where"](turn))
    if not thing:
        asked = (question, question, f"where can I get {turn.things}?")
        question = pick((*asked, f"where did you see {turn.things}?"), ask)
    yield question
    sentence = statement(turn, pick(turn.style.verbs, answer))
    claim, them = turn.claim, them_or_it(turn.meant.thing)
    if claim.agents and thing and not claim.denied and answer // 3 % 3 == 0:
        sentence = sentence.replace(f" {them} in ", f" the {thing} in ", 1)
    if claim.denied and not claim.source:
        sentence = f"I only know that {sentence}"
    elif claim.amount.kind == "the" and not claim.people and not claim.things and answer % 2:
        sentence = f"the {turn.meant.thing}{sentence.removeprefix(turn.they)}"
    yield sentence


def _amount(turn: SpokenExchange) -> Iterator[str]:
    exchange, (ask, answer) = turn.exchange, turn.exchange.wordings
    question = next(FORMS["amount"](turn))
    if exchange.thing and ask % 5:
        question = question.replace("all of the", "all the")
    yield question
    if isinstance(exchange.reply, Claim):
        yield _claim_of_amount(turn, is_counted=False)
        return
    kind, are, there = exchange.amount.kind, turn.are, turn.style.there
    phrases = [f"{exchange.reply}."]
    if exchange.reply == "yes" and kind == "all":
        phrases.append(f"yes, {turn.they} {are} all {there}.")
    elif exchange.reply == "yes":
        some = f"yes, some of {them_or_it(turn.meant.thing)} {are} {there}."
        phrases += ["yes.", some, f"yes, there {are} some {turn.place}."]
    yield pick(phrases, answer)


def _count(turn: SpokenExchange) -> Iterator[str]:
    exchange = turn.exchange
    was_denied = turn.before.reply == "no" or turn.before.claim.denied
    if exchange.thing:
        yield f"how many {exchange.thing} are {turn.place}?"
    elif exchange.place is None and not was_denied:
        yield "how many?"
    else:
        yield f"how many are {turn.place}?"
    yield _claim_of_amount(turn, is_counted=True)


def _claim_of_amount(turn: SpokenExchange, is_counted: bool) -> str:
    """Return a claim of an amount, which may leave out what the question has said."""
    claim, wording = turn.claim, turn.meant.wordings[1]
    if claim.agents or claim.source or claim.amount.kind == "the":
        return statement(turn, pick(turn.style.verbs, wording))
    kind = claim.amount.kind
    if kind in ("all", "some") or (is_counted and kind in ("at least", "either")):
        name = f"household {kind}"
    else:
        name = "household number suffices" if is_counted else "household number"
        if turn.exchange.place is None:
            name += " there"
    return amount_phrase(name, turn, turn.place)


FORMS_OF_HOUSEHOLD = {
    **FORMS,
    "where": _where,
    "amount": _amount,
    "count": _count,
}
