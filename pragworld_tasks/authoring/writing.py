"""Stages 1 to 4: the requests for entities, conversations, alterations and questions.

Source: arXiv 2511.13021, section 4 and appendix A. The paper has one request for a seed's entities
and a conversation about them (Tables 11 to 13). Here a request lists a seed's entities (task 1),
triplets are drawn at random (task 2), and a request for each two triplets writes a conversation
(task 3). Our rules alter it (`text_alterations`); they refuse what might not stay grammatical, and
that is asked of the model. A question is asked about a conversation and all of its variants.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from pragworld_tasks.authoring import checks
from pragworld_tasks.authoring.checks import speakers_of
from pragworld_tasks.authoring.records import (
    Asker,
    AuthoredConversation,
    AuthoringRecord,
    EntityLists,
    Seed,
    VotedDocument,
)
from pragworld_tasks.data.documents import ALTERATION_COUNTS
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json_lines
from pragworld_tasks.text_alterations.alter import alter
from pragworld_tasks.text_alterations.entities import ENTITY_KINDS, Entities

_LEAST = 2  # entities of each kind, for two triplets
# The paper's types of questions (Table 8), which the prompt explains.
_QUESTION_TYPES = (
    *("location", "possession", "quantity", "universal"),
    *("existential", "only-entity", "sure", "know"),
)
_RULE_TRIES = 4  # random choices of the rules, where some give a text that another variant has


# Entities -----------------------------------------------------------------------------------------


def read_seeds(path: Path) -> list[Seed]:
    """Read seed conversations from a file of JSON lines."""
    seeds = []
    for where, record in read_json_lines(path):
        seed = where.validate(Seed, record)
        if len(speakers := speakers_of(seed.conversation)) != 2:
            where.refuse(
                f"the conversation has {len(speakers)} speakers; write one of two, each utterance "
                "on a line of its own after its speaker's label, such as 'Ann: '"
            )
        seeds.append(seed)
    return seeds


async def list_entities(asker: Asker, number: int, seed: Seed, draw: int = 0) -> Entities | None:
    """Ask for the entities of a seed, and for fitting ones that it doesn't name if it has too few.

    Returns:
        At least two entities of each kind; None if there are fewer.
    """
    text, speakers = seed.conversation, speakers_of(seed.conversation)
    prompt = f"entities_{seed.kind}"
    listed = await asker.ask_or_drop(
        prompt, EntityLists, number, draw, conversation=text, speakers=" and ".join(speakers)
    )
    if not listed:
        return None
    entities, objections = checks.accept_entities(text, listed, speakers)
    for objection in objections:
        asker.drop(prompt, number, objection)
    if short := _short(entities):
        names: Any = {kind: ", ".join(entities.all(kind)) or "none" for kind in ENTITY_KINDS}
        more = await asker.ask_or_drop(
            "entities_new", EntityLists, number, draw, conversation=text, **names
        )
        if more:
            form = asker.settings.prompts["entities_new"].user  # weak models copy its "a person"
            new = {
                kind: [name for name in getattr(more, kind) if f'"{name}"' not in form]
                for kind in short
            }
            wanted = more.model_copy(update=dict.fromkeys(ENTITY_KINDS, ()) | new)
            entities, _ = checks.accept_entities(None, wanted, speakers, entities)
    if short := _short(entities):
        rule = "the seed has fewer than two entities of a kind"
        asker.drop(prompt, number, (rule, ", ".join(short)))
    return None if short else entities


def _short(entities: Entities) -> list[str]:
    return [kind for kind in ENTITY_KINDS if len(entities.all(kind)) < _LEAST]


# Conversations ------------------------------------------------------------------------------------


class ConversationReply(EntityLists):
    """What a model replies when it writes a conversation."""

    turns: tuple[checks.Turn, ...]


async def write_conversation(
    asker: Asker, number: int, seed: Seed, entities: Entities
) -> AuthoredConversation | None:
    """Ask for a conversation around two triplets; None if it does not pass the checks.

    The seed gives the speakers, the topic and the tone; each attempt draws its own triplets.
    """
    triplets = draw_triplets(entities, asker.random(f"triplets {number}"))
    needed = triplets[0] + triplets[1]
    speakers = speakers_of(seed.conversation)
    prompt = f"conversation_{seed.kind}"
    reply = await asker.ask_or_drop(
        prompt,
        ConversationReply,
        number,
        draw=number,
        seed=seed.conversation,
        turns=asker.settings.turns,
        speakers=" and ".join(speakers),
        first=speakers[0],
        triplet_1=", ".join(triplets[0]),
        triplet_2=", ".join(triplets[1]),
        others=", ".join(name for name in checks.all_names(entities) if name not in needed)
        or "nothing",
    )
    if not reply:
        return None
    turns = [*map(_plain, reply.turns)]
    if problem := checks.find_turn_problem(turns, asker.settings.turns, speakers, entities.agents):
        asker.drop(prompt, number, problem)
        return None
    context = "\n".join(f"{turn.speaker}: {turn.text}" for turn in turns)
    agents, objects, locations = zip(*triplets, strict=True)
    in_focus = EntityLists(agents=agents, objects=objects, locations=locations)
    focus, _ = checks.accept_entities(context, in_focus, speakers)
    mentioned, _ = checks.accept_entities(context, reply, speakers, focus)
    if problem := checks.find_conversation_problem(
        context, mentioned, needed, (*checks.all_names(entities), *speakers)
    ):
        asker.drop(prompt, number, problem)
        return None
    lists: Any = {f"focus_{kind}": focus.all(kind) for kind in ENTITY_KINDS}
    return AuthoredConversation(number, replace(mentioned, **lists), context)


def draw_triplets(entities: Entities, random: StableRandom) -> list[tuple[str, ...]]:
    """Draw two triplets of an agent, an object and a location that share nothing."""
    drawn = (random.sample(entities.all(kind), _LEAST) for kind in ENTITY_KINDS)
    return list(zip(*drawn, strict=True))


def _plain(turn: checks.Turn) -> checks.Turn:
    """Return a turn whose text is on one line, without a second label in it."""
    speaker = " ".join(turn.speaker.split()).removesuffix(":")
    text = " ".join(turn.text.split()).removeprefix(f"{speaker}:").strip()
    return checks.Turn(speaker=speaker, text=text)


# Variants -----------------------------------------------------------------------------------------


class EditsReply(AuthoringRecord):
    """What a model replies when it alters a conversation."""

    edits: tuple[checks.LineEdit, ...]


def draw_alterations(number: int, random: StableRandom) -> list[str]:
    """Draw alterations, so that their shares in many draws are those of the manual split.

    An alteration is drawn as often as its share of the number says, rounded down or up at random.
    """
    step = sum(ALTERATION_COUNTS.values()) / number
    place, end = random.below(1_000_000) / 1_000_000 * step, 0.0
    drawn: list[str] = []
    for name in random.shuffled(list(ALTERATION_COUNTS)):
        end += ALTERATION_COUNTS[name]
        while place < end and len(drawn) < number:
            drawn.append(name)
            place += step
    return random.shuffled(drawn)


async def alter_conversation(
    asker: Asker, conversation: AuthoredConversation
) -> list[VotedDocument]:
    """Return a conversation and its altered variants, without question, no two with the same text.

    An alteration that is not possible is replaced by another, so there are fewer variants only if
    nothing else is possible.
    """
    random = asker.random(f"alterations {conversation.number}")
    texts: dict[str, str | None] = {conversation.context: None}
    draws, impossible = Counter[str](), set[str]()
    for planned in draw_alterations(asker.settings.variants, random):
        others = sorted(random.shuffled(list(ALTERATION_COUNTS)), key=draws.__getitem__)
        for name in (planned, *others):
            if name in impossible:
                continue
            text = _by_rules(asker, conversation, name, draws[name], texts)
            text = text or await _by_model(asker, conversation, name, draws[name], texts)
            if text:
                texts[text] = name
                draws[name] += 1
                break
            impossible.add(name)
    return [
        VotedDocument(
            conversation=conversation.number,
            variant=number,
            alteration=alteration,
            context=text,
            question="",
        )
        for number, (text, alteration) in enumerate(texts.items())
    ]


def _by_rules(
    asker: Asker, conversation: AuthoredConversation, name: str, draw: int, known: Collection[str]
) -> str:
    """Return a text that is not known yet, or "" if the rules give none."""
    first = _RULE_TRIES * (asker.settings.random_seed + draw)
    for seed in range(first, first + _RULE_TRIES):
        try:
            text = alter(conversation.context, conversation.entities, name, seed).text
        except InputError:
            return ""
        if text not in known:
            return text
    return ""


async def _by_model(
    asker: Asker, conversation: AuthoredConversation, name: str, draw: int, known: Collection[str]
) -> str:
    """Return a text that is not known yet, or "" if the model gives none that passes the checks."""
    context, number = conversation.context, conversation.number
    if not checks.may_be_altered(context, conversation.entities, name):
        return ""
    lines = enumerate(context.split("\n"), start=1)
    reply = await asker.ask_or_drop(
        "alteration",
        EditsReply,
        number,
        draw=draw,
        conversation="\n".join(f"{place}: {line}" for place, line in lines),
        entities=", ".join(checks.all_names(conversation.entities)),
        alteration=name,
    )
    if not reply:
        return ""
    problem = checks.find_edit_problem(context, conversation.entities, name, reply.edits)
    text = "" if problem else checks.apply_edits(context, reply.edits)
    if text in known:
        problem = "another variant has the same text", reply.edits[0].new
    if problem:
        asker.drop("alteration", number, (f"{name}: {problem[0]}", problem[1]))
        return ""
    return text


# Questions ----------------------------------------------------------------------------------------


class QuestionReply(AuthoringRecord):
    """What a model replies when it writes a question."""

    question: str


async def ask_question(asker: Asker, conversation: AuthoredConversation) -> str:
    """Ask for the question of a conversation; "" if it does not pass the checks.

    Its type, and whether it is to be answered yes, are drawn at random.
    """
    context, number = conversation.context, conversation.number
    random = asker.random(f"question {number}")
    reply = await asker.ask_or_drop(
        "question",
        QuestionReply,
        number,
        conversation=context,
        entities=", ".join((*checks.all_names(conversation.entities), *speakers_of(context))),
        type=random.choice(_QUESTION_TYPES),
        answer=random.choice(("yes", "no")),
    )
    text = " ".join(reply.question.split()) if reply else ""
    if reply and (problem := checks.find_question_problem(context, text)):
        asker.drop("question", number, problem)
        return ""
    return text
