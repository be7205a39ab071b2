"""The phrases of each form of exchange, about events and times."""

from collections.abc import Iterator

from pragworld_tasks.dialogues.forms import FORMS
from pragworld_tasks.dialogues.sentences import (
    SpokenExchange,
    attribution,
    pick,
    places_of,
    yes_or_no,
)
from pragworld_tasks.dialogues.world import Claim


def _shall(turn: SpokenExchange) -> Iterator[str]:
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
    yield pick(asked, ask)
    if exchange.reply == "yes":
        yield pick(_AGREED, answer)
    elif exchange.reply == "no":
        yield pick(_TURNED_DOWN, answer)
    else:
        other = style.named(turn.claim.places[0])
        yield pick(_COUNTERED, answer).format(no=pick(_TURNED_DOWN, ask), other=other)


NOT_SETTLED = ("let me check first.", "I'll have to ask at home.", "I can't say yet.")
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
