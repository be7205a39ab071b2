"""The text of exchanges: a question and a reply for each.

Each form of exchange has several phrases. The exchange records which of them it uses
(`Exchange.wordings`), so an alteration changes only the words that express what it alters.
"""

from collections.abc import Callable, Iterator, Sequence

from pragworld_tasks.dialogues.forms import FORMS
from pragworld_tasks.dialogues.forms_of_household import FORMS_OF_HOUSEHOLD
from pragworld_tasks.dialogues.forms_of_times import FORMS_OF_TIMES
from pragworld_tasks.dialogues.sentences import (
    SpokenExchange,
    him_or_her,
    phrase,
    pick,
    them_or_it,
)
from pragworld_tasks.dialogues.styles import Style, domain_style
from pragworld_tasks.dialogues.vocabulary import Cast, Domain
from pragworld_tasks.dialogues.world import (
    NOTHING_SAID,
    NOWHERE,
    REPLIER,
    Claim,
    Exchange,
    Oddity,
    latest,
)
from pragworld_tasks.files import read_package_toml

_MOST_PHRASES = 60  # more than any sentence has
_FOLLOWED = frozenset(("did", "where", "amount", "still"))  # by afterthoughts


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
    style = domain_style(domain)
    asker, replier = cast.labels
    question, reply = _utterances(exchange, meant, before, domain)
    return f"{asker}: {style.written(question)}", f"{replier}: {style.written(reply)}"


def _utterances(
    exchange: Exchange, meant: Exchange, before: Exchange, domain: Domain
) -> tuple[str, str]:
    """Return the question and the reply."""
    turn = SpokenExchange(exchange, meant, before, domain_style(domain))
    phrases = _phrases_in(turn.style)[exchange.form](turn)
    question = next(phrases)
    if exchange.form == "chat":
        if is_left_open(before):
            question = f"{phrase('left open', 0)} {turn.style.written(question)}"
        return question, next(phrases)
    is_chatty = turn.style.is_of_times  # only there do people say more than they have to
    if is_chatty:
        # What people say around a sentence does not depend on the phrase that they pick for it.
        ask = exchange.wordings[0] // _MOST_PHRASES
        if exchange.form != "sure" and not question.startswith(("and ", "what about")):
            question = pick(_openers(turn), ask) + question
        if is_left_open(before) and (exchange.form, meant.thing) != ("shall", before.thing):
            question = f"{phrase('left open', ask)} {turn.style.written(question)}"
    if exchange.reply == "unknown":
        reply = _unknown(turn, question)
    elif exchange.reply == "likely":
        name = "likely in a household" if turn.style.is_plain else "likely"
        reply = phrase(name, exchange.wordings[1])
    else:
        reply = next(phrases)
        if is_chatty and _may_be_followed(turn):
            reply += pick(turn.style.afterthoughts, exchange.wordings[1] // _MOST_PHRASES)
    if exchange.oddity:
        _, things, _ = turn.meant.claimed
        to = exchange.oddity.place
        named = turn.style.named(to) if to else ""
        reply += " " + _inconsistent_sentence(exchange.oddity, f"the {things[0]}", named)
    return question, reply


def is_left_open(exchange: Exchange) -> bool:
    """Return whether the reply proposes another time, so the speaker who asks has to react."""
    return exchange.form == "shall" and isinstance(exchange.reply, Claim)


def _openers(turn: SpokenExchange) -> Sequence[str]:
    """Return what the question may begin with: nothing at first, and nothing if it goes on."""
    before, meant, style = turn.before, turn.meant, turn.style
    if before is NOTHING_SAID or meant.thing in before.things or meant.agent in before.agents:
        return ("",)
    return style.changes_of_subject if before.form == "chat" else style.openers


def _may_be_followed(turn: SpokenExchange) -> bool:
    """Return whether the replier may tell how they know what they say."""
    meant, claim = turn.meant, turn.claim
    return (
        meant.form in _FOLLOWED
        and REPLIER not in (meant.agent, *claim.agents)
        and meant.reply != "no"
        and claim.connective is None
    )


def _unknown(turn: SpokenExchange, question: str) -> str:
    form, meant, style = turn.exchange.form, turn.meant, turn.style
    name = "unknown"
    if "have they told you" in question.lower():
        name = "have they told you"
    elif question.startswith("did you see"):
        name = "did you see"
    elif question.startswith("have you seen"):
        name = "have you seen"
    elif style.is_of_times:
        name = "not settled" if form == "shall" else "unknown time"
    elif form == "count" and not style.is_plain:
        name = "unknown number"
    elif form in ("where", "amount"):
        name = "unknown of things"
    elif meant.agent is not None and (
        form in ("went", "where to") or (form == "did" and style.is_plain)
    ):
        name = "unknown of people"
    them = them_or_it(meant.thing) if meant.thing else ""
    return phrase(name, meant.wordings[1], them=them, him=him_or_her(meant.agent))


def _inconsistent_sentence(oddity: Oddity, things: str, place: str) -> str:
    """Return a sentence that contradicts common sense.

    >>> _inconsistent_sentence(Oddity("hall", 0), "the pears", "the hall")
    'But later the pears walked over to the hall without any help.'

    Args:
        oddity: What the sentence says has become of the things.
        things: The things, with their article.
        place: The place of the oddity with its article, or "" if it has none.
    """
    kind = "staying"
    if oddity.place is not None:
        kind = "vanishing" if oddity.place == NOWHERE else "moving"
    sentences: list[str] = read_package_toml(__package__, "inconsistencies.toml")[kind]
    return pick(sentences, oddity.wording).format(things=things, place=place)


def _phrases_in(style: Style) -> dict[str, Callable[[SpokenExchange], Iterator[str]]]:
    """Return how each form of exchange is put into words."""
    return FORMS_OF_TIMES if style.is_of_times else FORMS_OF_HOUSEHOLD if style.is_plain else FORMS
