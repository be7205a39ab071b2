"""Stage 5: a panel of models answers each question, and quotes what its answer rests on.

Members are models, or samples of one. Each is told the benchmark's conventions (arXiv 2511.13021,
section 4 and appendix A) and answers yes, no or undetermined. A member abstains where it has no
usable reply, and where what it quotes is not in the conversation: whoever makes up an utterance has
not answered from it. What the votes settle is in `agreement`.
"""

import asyncio
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, field_validator

from pragworld_tasks.authoring.prompts import Prompts
from pragworld_tasks.authoring.records import (
    AuthoredQuestion,
    AuthoredVariant,
    Label,
    Vote,
    VoteAnswer,
)
from pragworld_tasks.authoring.stage_replies import ask_model
from pragworld_tasks.chat import Connection
from pragworld_tasks.text import format_count
from pragworld_tasks.text_alterations.tokens import label_end

_WORD = re.compile(r"[^\W_]+(?:['\u2018\u2019][^\W_]+)*")
_LEAST_WORDS = 3  # that tell from which utterance they are, unless they are half of one


@dataclass(frozen=True)
class Member:
    """A member of a panel.

    Attributes:
        connection: the connection to its endpoint.
        model: the model's name there.
        sample: tells apart members that are samples of one model.
    """

    connection: Connection
    model: str
    sample: int = 0


class VoteReply(BaseModel):
    """What a member replies."""

    model_config = ConfigDict(extra="forbid")

    answer: VoteAnswer
    quote: str

    @field_validator("answer", mode="before")
    @classmethod
    def _in_lower_case(cls, answer: object) -> object:
        return answer.strip().lower() if isinstance(answer, str) else answer


async def poll(
    panel: Sequence[Member],
    prompts: Prompts,
    variant: AuthoredVariant,
    question: AuthoredQuestion,
    temperature: float,
) -> tuple[Vote, ...]:
    """Return the votes of all members on one document.

    Args:
        panel: the members.
        prompts: the prompts.
        variant: the conversation.
        question: the question about it.
        temperature: the sampling temperature.

    Raises:
        InputError: An endpoint cannot be used.
    """
    votes = (
        vote(panel, number, prompts, variant, question, temperature) for number in range(len(panel))
    )
    return tuple(await asyncio.gather(*votes))


async def vote(
    panel: Sequence[Member],
    number: int,
    prompts: Prompts,
    variant: AuthoredVariant,
    question: AuthoredQuestion,
    temperature: float,
) -> Vote:
    """Return the vote of one member on one document.

    Args:
        panel: the members.
        number: the member's place in the panel, from 0.
        prompts: the prompts.
        variant: the conversation.
        question: the question about it.
        temperature: the sampling temperature.

    Raises:
        InputError: The endpoint cannot be used.
    """
    member = panel[number]
    prompt = prompts.fill("label", conversation=variant.context, question=question.text)
    label = f"label of variant {variant.variant} of conversation {variant.conversation}"
    reply = await ask_model(
        member.connection, member.model, prompt, VoteReply, label, temperature, member.sample
    )
    if reply.value is None:
        cause = "" if reply.origin.request else f" ({reply.text})"
        problem = reply.problem + cause
        return Vote(member=number, answer=None, quote="", problem=problem, origin=reply.origin)
    answer, quote = reply.value.answer, reply.value.quote.strip()
    problem = quote_problem(answer, quote, variant.context)
    return Vote(
        member=number,
        answer=None if problem else answer,
        quote=quote,
        problem=problem,
        origin=reply.origin,
    )


def lost_votes_text(labels: Iterable[Label]) -> str:
    """Return how many votes failed for want of a reply, and why most of them did; "" if none did.

    Args:
        labels: the labels, with all votes.
    """
    causes = [
        vote.problem.partition(" (")[2].removesuffix(")")
        for label in labels
        for vote in label.votes
        if vote.answer is None and vote.origin.request is None
    ]
    if not causes:
        return ""
    ((commonest, times),) = Counter(causes).most_common(1)
    return (
        f"{format_count(len(causes), 'vote')} failed, "
        f"{'most often ' if times < len(causes) else ''}because {commonest}; rerun the command "
        "with --overwrite to send these requests again"
    )


def quote_problem(answer: VoteAnswer, quote: str, context: str) -> str:
    r"""Return why an answer does not count, in words; "" if it does.

    A quote is an utterance, or consecutive words of one that tell which one: at least half of it,
    or three words that no other utterance has. It may begin with the speaker's label. A quote of
    several utterances has a line for each. White space, letter case, and the punctuation between
    words do not count.

    Examples:
        >>> context = "Ann: Where is it?\nBen: It\u2019s in the hall."
        >>> quote_problem("yes", "ben: it's in the hall", context)
        ''
        >>> quote_problem("no", "I sold it", context)
        'the quoted utterance does not occur in the conversation'
        >>> quote_problem("no", "hall", context)
        'the quote is too short to tell which utterance it is from'
    """
    quoted = [words for line in quote.splitlines() if (words := _words(line))]
    if not quoted:  # such as '""'
        return "" if answer == "undetermined" else f"it answers {answer} and quotes nothing"
    utterances = [
        (_words(line), len(_words(line[label_end(line) :]))) for line in context.splitlines()
    ]
    for words in quoted:
        shares = [(_count_spoken(line, spoken, words), spoken) for line, spoken in utterances]
        shares = [(count, spoken) for count, spoken in shares if count]
        if not shares:
            return "the quoted utterance does not occur in the conversation"
        is_half = any(count == spoken or 1 < count >= spoken / 2 for count, spoken in shares)
        if not is_half and (len(shares) > 1 or shares[0][0] < _LEAST_WORDS):
            return "the quote is too short to tell which utterance it is from"
    return ""


def _words(text: str) -> list[str]:
    """Return the words of a text in one letter case, without the marks between them."""
    # NFKC, for an accent may be a character of its own in one text and not in the other.
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return [re.sub("[\u2018\u2019]", "'", word) for word in words]


def _count_spoken(line: list[str], spoken: int, quoted: list[str]) -> int:
    """Return how many of the quoted words are spoken in a line, whose last words are; 0 if not."""
    label = len(line) - spoken
    counts = [
        start + len(quoted) - max(start, label)
        for start in range(len(line) - len(quoted) + 1)
        if line[start : start + len(quoted)] == quoted
    ]
    return max([0, *counts])
