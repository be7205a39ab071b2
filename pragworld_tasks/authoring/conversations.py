"""Stage 2: a conversation around two triplets, and what is checked of it.

Source: task 3 of the paper's prompts (arXiv 2511.13021, Tables 11 to 13).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

from pragworld_tasks.authoring.entities import (
    LEAST,
    NO_ENTITIES,
    accept_entities,
    draw_triplets,
    joined,
    speakers_of,
    without_article,
)
from pragworld_tasks.authoring.prompts import Prompts
from pragworld_tasks.authoring.records import (
    AuthoredConversation,
    Dropped,
    EntityLists,
    Objection,
    Origin,
    Seed,
    SeedEntities,
    Triplet,
    Turn,
)
from pragworld_tasks.authoring.stage_replies import ask_model
from pragworld_tasks.chat import Connection
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.text import join_names
from pragworld_tasks.text_alterations.entities import ENTITY_KINDS
from pragworld_tasks.text_alterations.inflection import word_list
from pragworld_tasks.text_alterations.nouns import is_first_name
from pragworld_tasks.text_alterations.tokens import label_end, read_sentences

MOST_SHARED = 0.5  # of a conversation's word sequences, with its seed or another conversation
_GRAM = 4  # words
_LONGEST_TURN = 500  # characters
# What no line of a conversation holds: control characters, line breaks, and marks of direction.
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_LABEL_WORDS = re.compile(
    r"\b(?:correct|right|final|gold|expected)\s+answer\b"
    r"|\b(?:answer|label)\s*(?:is|should be|would be|:|=)"
    r"|\b(?:triplet|seed conversation|world model)s?\b",
    re.IGNORECASE,
)
# Words with a capital letter that name nobody and no place.
NO_NAMES = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june july
august september october november december christmas easter god ok internet american arabic british
chinese dutch english european french german greek indian irish italian japanese korean latin
mexican polish portuguese russian scottish spanish swedish turkish"""
# First names that also open sentences as other words ("Mark the box", "Will you …").
_ALSO_WORDS = """
april bill dawn dean faith florence frank georgia grace grant guy hazel heather holly hunter iris
ivy jack jasmine june lance lily mark mason may melody miles penny rob rose ruby scarlett serenity
sue violet virginia will"""
# After these a word may have a capital letter, as at the beginning of a sentence.
_OPENING = re.compile("(?:[\"'\u201c\u2018(]|[:;\u2026\u2014\u2013-]\\s*)$")
_ENDING = re.compile(r"['\u2019](?:s|ll|d|ve|re|m)?$")  # of "Noah's" and "I'm", but not of "Don't"

Grams: TypeAlias = frozenset[tuple[str, ...]]


class ConversationReply(BaseModel):
    """What a model replies when it writes a conversation."""

    model_config = ConfigDict(extra="forbid")

    turns: list[Turn]
    agents: list[str]
    objects: list[str]
    locations: list[str]


@dataclass(frozen=True)
class ConversationPlan:
    """What a conversation is to be like.

    Attributes:
        number: the number of the attempt, from 0.
        line: the seed's line, from 0.
        seed: the seed.
        speakers: the two speakers, who are the seed's.
        triplets: what it revolves around.
        others: entities of the seed that it may also name.
        turns: the number of turns.
    """

    number: int
    line: int
    seed: Seed
    speakers: tuple[str, str]
    triplets: tuple[Triplet, Triplet]
    others: EntityLists
    turns: int


def plan_conversation(
    number: int, seed: Seed, entities: SeedEntities, turns: int, random_seed: int
) -> ConversationPlan:
    """Return the plan of an attempt: triplets are drawn anew for each.

    Args:
        number: the number of the attempt.
        seed: the seed.
        entities: its entities.
        turns: the number of turns.
        random_seed: the seed of the random draws.
    """
    triplets = draw_triplets(entities, StableRandom(f"{random_seed} triplets {number}"))
    focus = _entities_of(triplets)
    every = joined(entities.entities, entities.new)
    others: dict[str, Any] = {
        kind: [entity for entity in getattr(every, kind) if entity not in getattr(focus, kind)]
        for kind in ENTITY_KINDS
    }
    first, second = speakers_of(seed.conversation)[:LEAST]
    return ConversationPlan(
        number, entities.seed, seed, (first, second), triplets, EntityLists(**others), turns
    )


async def write_conversation(
    connection: Connection, prompts: Prompts, plan: ConversationPlan, temperature: float
) -> tuple[AuthoredConversation | None, list[Dropped]]:
    """Ask for a conversation, and check it by itself.

    Returns:
        The conversation, None if it does not pass; and what was dropped.

    Raises:
        InputError: The endpoint cannot be used.
    """
    others = [entity for kind in ENTITY_KINDS for entity in getattr(plan.others, kind)]
    prompt = prompts.fill(
        f"conversation.{plan.seed.kind}",
        seed=plan.seed.conversation,
        turns=str(plan.turns),
        speakers=join_names(plan.speakers),
        first=plan.speakers[0],
        triplet_1=_to_text(plan.triplets[0]),
        triplet_2=_to_text(plan.triplets[1]),
        others=", ".join(others) or "nothing",
    )
    reply = await ask_model(
        connection,
        connection.endpoint.model,
        prompt,
        ConversationReply,
        f"conversation {plan.number}",
        temperature,
        plan.number,
    )
    if reply.value is None:
        return None, [reply.dropped("conversations", plan.number)]
    conversation, invented = read_conversation(reply.value, plan, reply.origin)
    objections = invented
    if problem := find_problem(conversation, plan):
        objections = [*invented, problem]
    dropped = [reply.dropped("conversations", plan.number, objection) for objection in objections]
    return None if problem else conversation, dropped


def _to_text(triplet: Triplet) -> str:
    return f"{triplet.agent}, {triplet.object}, {triplet.location}"


def _entities_of(triplets: Sequence[Triplet]) -> EntityLists:
    return EntityLists(
        agents=tuple(triplet.agent for triplet in triplets),
        objects=tuple(triplet.object for triplet in triplets),
        locations=tuple(triplet.location for triplet in triplets),
    )


# Reading ------------------------------------------------------------------------------------------


def read_conversation(
    reply: ConversationReply, plan: ConversationPlan, origin: Origin
) -> tuple[AuthoredConversation, list[Objection]]:
    """Return the conversation of a reply, with the entities that occur in it.

    Returns:
        The conversation; and an objection for each entity that the reply lists but does not use.
    """
    context = "\n".join(_line(turn) for turn in reply.turns)
    speakers = (*plan.speakers, *speakers_of(context))
    focus, _ = accept_entities(context, NO_ENTITIES, _entities_of(plan.triplets), speakers)
    known = {entity.casefold() for kind in ENTITY_KINDS for entity in getattr(focus, kind)}
    further: dict[str, Any] = {
        kind: [
            entity
            for entity in getattr(reply, kind)
            if without_article(entity).casefold() not in known
        ]
        for kind in ENTITY_KINDS
    }
    others, objections = accept_entities(context, focus, EntityLists(**further), speakers)
    conversation = AuthoredConversation(
        number=plan.number,
        seed=plan.line,
        triplets=plan.triplets,
        entities=joined(focus, others),
        context=context,
        origin=origin,
    )
    return conversation, objections


def _line(turn: Turn) -> str:
    """Return a turn as a line, without a second label in the text."""
    speaker = " ".join(turn.speaker.split()).removesuffix(":")
    return f"{speaker}: {' '.join(turn.text.split()).removeprefix(f'{speaker}:').strip()}"


# Checks -------------------------------------------------------------------------------------------


def find_problem(conversation: AuthoredConversation, plan: ConversationPlan) -> Objection | None:
    """Return the first rule that a conversation by itself breaks, and where; None if none.

    Args:
        conversation: the conversation.
        plan: what it was to be like.
    """
    context = conversation.context
    lines = context.split("\n")
    if problem := _wrong_turns(lines, plan):
        return problem
    focus = _entities_of(plan.triplets)
    for kind in ENTITY_KINDS:
        mentioned = {entity.casefold() for entity in getattr(conversation.entities, kind)}
        for entity in getattr(focus, kind):
            if entity.casefold() not in mentioned:
                return "an entity of its triplets does not occur", entity
    if leak := _LABEL_WORDS.search(context):
        return "it speaks of answers or of the task", leak[0]
    if name := _unknown_name(context, plan):
        return "it names somebody or something that it was not given", name
    return None


def _wrong_turns(lines: Sequence[str], plan: ConversationPlan) -> Objection | None:
    for number, line in enumerate(lines):
        speaker = plan.speakers[number % len(plan.speakers)]
        label, _, text = line.partition(":")
        if label.casefold() != speaker.casefold():
            return "the two speakers do not alternate", line
        if not text.strip():
            return "a turn is empty", line
        if len(text) > _LONGEST_TURN:
            return "a turn is far too long", f"{text[:_LONGEST_TURN]}…"
        if CONTROLS.search(line):
            return "a turn holds control characters", line
    if abs(len(lines) - plan.turns) > plan.turns / 3:
        return "its length is not within a third of --turns", f"{len(lines)} turns"
    return None


def _unknown_name(context: str, plan: ConversationPlan) -> str:
    """Return a capitalized word that names neither a speaker nor an entity of the plan, or "".

    A word that opens a sentence counts if it is a first name.
    """
    given = joined(_entities_of(plan.triplets), plan.others)
    named = " ".join((*given.agents, *given.objects, *given.locations, *plan.speakers))
    known = {*_words(named), *NO_NAMES.split(), *word_list("titles")}
    for sentence in read_sentences(context):
        for place, word in enumerate(sentence.words):
            name = _ENDING.sub("", word.text)
            if not name[0].isupper() or re.fullmatch(r"[A-Z]+s?", name) or _words(name) <= known:
                continue  # a word in capitals is "I" or an abbreviation
            opens = place == 0 or _OPENING.search(sentence.line[: word.start])
            if not opens or (is_first_name(name) and name.lower() not in _ALSO_WORDS.split()):
                return name
    return ""


def _words(text: str) -> set[str]:
    return {*re.findall(r"\w+", text.casefold())}


def word_grams(conversation: str) -> Grams:
    r"""Return the sequences of four words of a conversation, without the speakers' labels.

    Examples:
        >>> sorted(word_grams("Ann: Is the tea\nBen: in the hall?"))[0]
        ('is', 'the', 'tea', 'in')
    """
    spoken = " ".join(line[label_end(line) :] for line in conversation.splitlines())
    words = re.findall(r"\w+(?:['\u2019]\w+)*", spoken.casefold())
    return frozenset(zip(*(words[start:] for start in range(_GRAM)), strict=False))


def shared_part(grams: Grams, others: Grams) -> float:
    """Return the share of a conversation's sequences of words that another has as well."""
    return len(grams & others) / len(grams) if grams else 0.0


def larger_shared_part(first: Grams, second: Grams) -> float:
    """Return the share of the sequences of words of either that the other has, the larger one."""
    return max(shared_part(first, second), shared_part(second, first))
