"""The phrases of each form of exchange, about events and times."""

from collections.abc import Iterator

from pragworld_tasks.dialogues.forms import FORMS
from pragworld_tasks.dialogues.sentences import (
    SpokenExchange,
    attribution,
    phrase,
    pick,
    places_of,
    yes_or_no,
)
from pragworld_tasks.dialogues.world import Claim


def _shall(turn: SpokenExchange) -> Iterator[str]:
    exchange, (ask, answer), style = turn.exchange, turn.exchange.wordings, turn.style
    meant, before = turn.meant, turn.before
    time, asked_before = meant.place, (before.form, before.thing, before.claim.places)
    name = "proposal" if exchange.thing else "proposal of another time"
    if asked_before == ("shall", meant.thing, (time,)):  # the replier has proposed it
        name = "proposal accepted"
    assert time is not None
    yield phrase(name, ask, time=time, things=turn.things, place=turn.place)
    if exchange.reply == "yes":
        yield phrase("agreed", answer)
    elif exchange.reply == "no":
        yield phrase("turned down", answer)
    else:
        other = style.named(turn.claim.places[0])
        yield phrase("countered", answer, no=phrase("turned down", ask), other=other)


def _free(turn: SpokenExchange) -> Iterator[str]:
    who, he = turn.subjects
    are, am = ("are", "I'm") if who == "you" else ("is", f"{he} is")
    ask = turn.exchange.wordings[0]
    yield pick((f"{are} {who} free {turn.place}?", f"{are} {who} available {turn.place}?"), ask)
    if isinstance(turn.exchange.reply, Claim):
        yield _free_when(turn, am)
    elif he == "I":
        yield pick(("yes, I am.", "I am."), ask) if turn.exchange.reply == "yes" else "I'm not."
    else:
        yield yes_or_no(turn, f"{he} is")


def _when_free(turn: SpokenExchange) -> Iterator[str]:
    who, he = turn.subjects
    are, am = ("are", "I'm") if who == "you" else ("is", f"{he} is")
    ask = turn.exchange.wordings[0]
    yield pick((f"when {are} {who} free?", f"when {are} {who} available?"), ask)
    yield _free_when(turn, am)


def _free_when(turn: SpokenExchange, am: str) -> str:
    when = places_of(turn, turn.style.at, "")
    return f"{attribution(turn)}{am} free {when}."


FORMS_OF_TIMES = {**FORMS, "shall": _shall, "went": _free, "where to": _when_free}
