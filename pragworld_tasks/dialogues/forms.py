"""The text of exchanges: a question and a reply for each.

Each form of exchange has several phrases. The exchange records which of them it uses
(`Exchange.wordings`), so an alteration changes only the words that express what it alters.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from pragworld_tasks.dialogues.sentences import (
    SpokenExchange,
    amount_phrase,
    attribution,
    him_or_her,
    phrase,
    pick,
    places_of,
    statement,
)
from pragworld_tasks.dialogues.vocabulary import Domain, domain_style
from pragworld_tasks.dialogues.world import NOTHING_SAID, Claim, Exchange
from pragworld_tasks.files import read_package_toml

SPEAKERS = ("Alice", "Bob")  # who asks and who replies, as in the released dialogues


def verbalize(
    exchanges: Sequence[Exchange], resolved: Sequence[Exchange], domain: Domain
) -> list[str]:
    """Return two utterances for each exchange, each with its speaker's label.

    >>> exchange = Exchange("where", thing="pears", reply=Claim(places=("hall",)))
    >>> verbalize([exchange], [exchange], "household")
    ['Alice: where can I get the pears', 'Bob: they are in the hall']

    None in an exchange becomes "them" or "there"; what it resolves to determines "he" and "she".
    """
    triples = zip(exchanges, resolved, (NOTHING_SAID, *resolved[:-1]), strict=True)
    return list(chain(*(verbalize_one(*triple, domain) for triple in triples)))


def verbalize_one(
    exchange: Exchange, meant: Exchange, before: Exchange, domain: Domain
) -> tuple[str, str]:
    """Return the two utterances of one exchange; see `SpokenExchange`."""
    style = domain_style(domain)
    turn = SpokenExchange(exchange, meant, before, style)
    phrases = _FORMS[exchange.form](turn)
    question = next(phrases)
    if exchange.reply == "unknown":
        reply = _unknown(turn, question)
    elif exchange.reply == "likely":
        reply = "it is likely."
    else:
        reply = next(phrases)
    if exchange.oddity is not None:
        reply = _with_oddity(reply, turn)
    asker, replier = SPEAKERS
    return f"{asker}: {style.written(question)}", f"{replier}: {style.written(reply)}"


def _with_oddity(reply: str, turn: SpokenExchange) -> str:
    """Return a reply that goes on with something that contradicts common sense."""
    clauses: list[str] = read_package_toml(__package__, "inconsistencies.toml")["clauses"]
    assert turn.exchange.oddity is not None
    _, (thing, *_), (place, *_) = turn.meant.claimed
    clause = pick(clauses, turn.exchange.oddity).format(things=f"the {thing}", place=f"the {place}")
    return f"{reply.rstrip('.')}, {clause}."


def _unknown(turn: SpokenExchange, question: str) -> str:
    meant = turn.meant
    name = "unknown"
    if question.startswith(("did you see", "have you seen")):
        name = question[: question.index(" the ")]
    elif meant.form in ("where", "amount"):
        name = "unknown of things"
    elif meant.agent is not None:
        name = "unknown of people"
    them = turn.them if meant.thing else ""
    return phrase(name, meant.wordings[1], them=them, him=him_or_her(meant.agent))


# The forms of exchanges: each yields the question and then the reply, of which the latter is taken
# only where the replier knows something. ----------------------------------------------------------


def _did(turn: SpokenExchange) -> Iterator[str]:
    claim = turn.exchange.reply
    base, _ = turn.verb
    who, he = turn.subjects
    yield f"did {who} {base} {turn.things} {turn.place}?"
    if not isinstance(claim, Claim):
        yield _yes_or_no(turn, f"{he} did")
    elif claim.denied and claim.then and not claim.agents:
        was = f"was in the {claim.then}"
        if claim.then == turn.meant.place:
            was = pick(("didn't go there", "never went there"), turn.exchange.wordings[1])
        yield f"{attribution(turn)}{he} {was}."
    else:
        yield statement(turn, turn.verb)


def _yes_or_no(turn: SpokenExchange, clause: str) -> str:
    """Return a reply of yes or no. The clause is its subject and verb, as in "she did"."""
    reply, nt = turn.exchange.reply, "n't" if turn.exchange.reply == "no" else ""
    return pick((f"{reply}.", f"{reply}, {clause}{nt}."), turn.exchange.wordings[1])


def _where(turn: SpokenExchange) -> Iterator[str]:
    (ask, answer), thing, claim = turn.exchange.wordings, turn.exchange.thing, turn.claim
    questions = turn.style.where_again
    if thing:
        questions = turn.style.where
        if turn.before.form == "where":
            questions = [*questions, *turn.style.where_next]
    slots = {"things": turn.things, "they": turn.they, "are": turn.are}
    yield pick(questions, ask).format_map(slots)
    sentence = statement(turn, pick(turn.style.verbs, answer))
    if claim.agents and thing and answer // 3 % 3 == 0:
        sentence = sentence.replace(f" {turn.them} in ", f" the {thing} in ", 1)
    elif claim.amount.kind == "the" and not claim.people and not claim.things and answer % 2:
        sentence = f"the {turn.meant.thing}{sentence.removeprefix(turn.they)}"
    yield sentence


def _amount(turn: SpokenExchange) -> Iterator[str]:
    exchange, (ask, answer), kind = turn.exchange, turn.exchange.wordings, turn.exchange.amount.kind
    question = f"{turn.are} {kind} of {turn.things} {turn.place}?"
    if exchange.thing and ask % 5:
        question = question.replace("all of the", "all the")
    yield question
    if isinstance(exchange.reply, Claim):
        yield _claim_of_amount(turn, is_counted=False)
        return
    phrases = [f"{exchange.reply}."]
    if exchange.reply == "yes" and kind == "all":
        phrases.append(f"yes, {turn.they} {turn.are} all there.")
    elif exchange.reply == "yes":
        some = f"yes, some of {turn.them} {turn.are} there."
        phrases += ["yes.", some, f"yes, there {turn.are} some {turn.place}."]
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
    kind = claim.amount.kind
    if claim.agents or claim.source or kind == "the":
        return statement(turn, pick(turn.style.verbs, wording))
    if kind in ("all", "some") or (is_counted and kind in ("at least", "either")):
        return amount_phrase(kind, turn)
    name = "number suffices" if is_counted else "number"
    return amount_phrase(name if turn.exchange.place else f"{name} there", turn)


def _went(turn: SpokenExchange) -> Iterator[str]:
    exchange, (ask, answer) = turn.exchange, turn.exchange.wordings
    who, he = turn.subjects
    to = f"to the {exchange.place}" if exchange.place else "there"
    were = "were" if who == "you" else "was"
    yield pick((f"did {who} go {to}?", f"{were} {who} {turn.place}?"), ask)
    if isinstance(exchange.reply, Claim):
        yield _journey(turn, he, asks_where=bool(ask % 2))
    elif ask % 2:
        there = f"yes, {he} was there." if exchange.reply == "yes" else f"{he} was not there."
        yield pick((f"{exchange.reply}.", there), answer)
    else:
        yield _yes_or_no(turn, f"{he} did")


def _where_to(turn: SpokenExchange) -> Iterator[str]:
    before, meant, ask = turn.before, turn.meant, turn.exchange.wordings[0]
    who, he = turn.subjects
    where_was = f"where {'were' if who == 'you' else 'was'} {who}?"
    questions = [f"where did {who} go?", where_was]
    if who != "you":
        whom = turn.exchange.agent or him_or_her(meant.agent)
        questions.append(f"how can I find {whom}?")
        if not turn.claim.source:
            questions.append(f"where did you see {whom}?")
        if turn.exchange.agent is None:
            questions = [where_was]
    question = pick(questions, ask)
    if (before.form, before.reply, before.agent) == ("went", "no", meant.agent):
        question = pick((question, "then where?"), ask)
    yield question
    yield _journey(turn, he, asks_where=question == where_was)


def _journey(turn: SpokenExchange, he: str, asks_where: bool) -> str:
    """Return where somebody went or, in reply to where they were, was."""
    claim, answer = turn.claim, turn.exchange.wordings[1]
    there = places_of(claim)
    if claim.connective == "if not":
        was = f"was {there.replace(' if not the ', ' if not in the ')}"
    elif asks_where and len(claim.places) == 1 and answer % 2 == 0:
        was = f"was {'not ' * claim.denied}{there}"
    elif claim.denied:
        was = f"didn't go {there.replace('in the', 'to the')}"
    else:
        verbs = turn.style.went
        if he == "I" and len(claim.places) == 1:
            verbs = [*verbs, "returned"]
        was = f"{pick(verbs, answer)} {there.replace('in the', 'to the')}"
    return f"{attribution(turn)}{he} {was}."


_FORMS: dict[str, Callable[[SpokenExchange], Iterator[str]]] = {
    "did": _did,
    "where": _where,
    "amount": _amount,
    "count": _count,
    "went": _went,
    "where to": _where_to,
}
