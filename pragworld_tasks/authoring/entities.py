"""Stage 1: the entities of seed conversations, and triplets drawn from them.

The paper has one request for all of its tasks (arXiv 2511.13021, Tables 11 to 13). Here a request
lists a seed's entities (task 1), and the triplets are drawn at random (task 2), as many as wanted.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pragworld_tasks.authoring.prompts import Prompts
from pragworld_tasks.authoring.records import (
    Dropped,
    EntityLists,
    Objection,
    Seed,
    SeedEntities,
    Triplet,
)
from pragworld_tasks.authoring.stage_replies import ask_model
from pragworld_tasks.chat import Connection
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json_lines, read_text
from pragworld_tasks.text import join_names
from pragworld_tasks.text_alterations.entities import ENTITY_KINDS, Conversation, Entities
from pragworld_tasks.text_alterations.tokens import EntityKind, label_end

LEAST = 2  # entities of each kind, for two triplets
MOST = 60  # entities of a reply; sorting them out takes longer than their number
NO_ENTITIES = EntityLists(agents=(), objects=(), locations=())
_EXAMPLE = (
    'a seed is a line such as {"conversation": "Ann: Where is the tea?\\nBen: In the hall.", '
    '"kind": "general"}'
)
_ARTICLE = re.compile(r"(?:an?|the|some)\s+(?=\S)", re.IGNORECASE)


class EntitiesReply(BaseModel):
    """What a model replies when it lists entities."""

    model_config = ConfigDict(extra="forbid")

    agents: list[str]
    objects: list[str]
    locations: list[str]


class NewEntitiesReply(EntitiesReply):
    """What a model replies when it completes the lists of a seed that has too few entities."""


# Seeds --------------------------------------------------------------------------------------------


def read_seeds(path: Path) -> list[Seed]:
    """Read seed conversations from a file of JSON lines.

    Args:
        path: the file. Each line has a `conversation`, with a line for each utterance, which begins
            with its speaker's label, and may have a `kind` (see `records.Seed`).

    Raises:
        InputError: The file cannot be read, or a line is malformed. The message names the line.
    """
    read_text(path)  # what is no text at all needs no example
    try:
        records = list(read_json_lines(path))
    except InputError as error:
        raise InputError(f"{error}; {_EXAMPLE}") from error
    seeds = []
    for where, record in records:
        try:
            seed = Seed.model_validate(record)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            name = ".".join(map(str, problem["loc"]))
            where.refuse(f"{name!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}; {_EXAMPLE}")
        speakers = speakers_of(seed.conversation)
        if len(speakers) < LEAST:
            where.refuse(
                "the conversation has fewer than two speakers; begin each utterance on a line of "
                "its own with its speaker's label, such as 'Ann: '"
            )
        if len(speakers) > LEAST:
            where.refuse(
                f"the conversation has {len(speakers)} speakers ({join_names(speakers):.80}); a "
                "seed has two, who alternate in its conversations; leave the others out"
            )
        seeds.append(seed)
    return seeds


def speakers_of(conversation: str) -> tuple[str, ...]:
    r"""Return the labels of a conversation's speakers, in the order in which they first speak.

    Examples:
        >>> speakers_of("Ann: Where is it?\nBen: In the hall.\nAnn: Thanks!")
        ('Ann', 'Ben')
    """
    labels = (line[: label_end(line)].strip() for line in conversation.splitlines())
    names = (re.sub(r"^\W*(?:\d+[:.]\s+)?|:$", "", label) for label in labels)
    return tuple(dict.fromkeys(name for name in names if name))


# Entities -----------------------------------------------------------------------------------------


async def extract_entities(
    connection: Connection, prompts: Prompts, number: int, seed: Seed, temperature: float
) -> tuple[SeedEntities | None, list[Dropped]]:
    """Ask for the entities of a seed, and for more if it has too few.

    Args:
        connection: the connection to the model.
        prompts: the prompts.
        number: the seed's line, from 0.
        seed: the seed.
        temperature: the sampling temperature.

    Returns:
        The entities, None if there are too few; and what was dropped.

    Raises:
        InputError: The endpoint cannot be used.
    """
    model, label = connection.endpoint.model, f"entities of seed {number}"
    speakers = speakers_of(seed.conversation)
    prompt = prompts.fill(
        f"entities.{seed.kind}", conversation=seed.conversation, speakers=join_names(speakers)
    )
    reply = await ask_model(connection, model, prompt, EntitiesReply, label, temperature)
    if reply.value is None:
        return None, [reply.dropped("entities", number)]
    listed = EntityLists(**reply.value.model_dump())
    entities, objections = accept_entities(seed.conversation, NO_ENTITIES, listed, speakers)
    dropped = [reply.dropped("entities", number, objection) for objection in objections]
    if not (short := _short(entities)):
        record = SeedEntities(
            seed=number, entities=entities, new=NO_ENTITIES, origins=(reply.origin,)
        )
        return record, dropped

    prompt = prompts.fill(
        "new_entities",
        conversation=seed.conversation,
        **{kind: ", ".join(getattr(entities, kind)) or "none" for kind in ENTITY_KINDS},
    )
    more = await ask_model(connection, model, prompt, NewEntitiesReply, label, temperature)
    if more.value is None:
        return None, [*dropped, more.dropped("entities", number)]
    proposed = more.value.model_dump()
    wanted = EntityLists(**{kind: proposed[kind] if kind in short else () for kind in ENTITY_KINDS})
    new, objections = accept_entities(None, entities, wanted, speakers)
    dropped += [more.dropped("entities", number, objection) for objection in objections]
    if short := _short(joined(entities, new)):
        objection = "the seed has fewer than two entities of a kind", ", ".join(short)
        return None, [*dropped, more.dropped("entities", number, objection)]
    origins = (reply.origin, more.origin)
    return SeedEntities(seed=number, entities=entities, new=new, origins=origins), dropped


def _short(entities: EntityLists) -> list[EntityKind]:
    """Return the kinds of which there are too few for two triplets."""
    return [kind for kind in ENTITY_KINDS if len(getattr(entities, kind)) < LEAST]


def accept_entities(
    text: str | None, known: EntityLists, proposed: EntityLists, speakers: tuple[str, ...]
) -> tuple[EntityLists, list[Objection]]:
    r"""Sort out the entities that a conversation does not name, and those that are ambiguous.

    Args:
        text: the conversation that has to name the entities; None if none has to.
        known: entities that are known already.
        proposed: `agents`, `objects` and `locations` as a model lists them.
        speakers: the speakers, who are no entities.

    Returns:
        Those of `proposed` that are accepted, in the letter case of the text; for each other one
        the rule that it breaks, and the entity.

    Examples:
        >>> text = "Ann: Is Noah in the attic?\nBen: No, Apples are in the attic."
        >>> listed = EntityLists(agents=("Noah", "Zoe"), objects=(), locations=("The attic",))
        >>> entities, objections = accept_entities(text, NO_ENTITIES, listed, ("Ann", "Ben"))
        >>> entities.locations, objections
        (('attic',), [('the entity does not occur in the conversation', 'Zoe')])
    """
    proposals = [(kind, entity) for kind in ENTITY_KINDS for entity in getattr(proposed, kind)]
    listed, surplus = proposals[:MOST], proposals[MOST:]
    too_many = [("the reply lists too many entities", entity) for _, entity in surplus]
    likeliest = _lists({(kind, entity): _forms(entity, text)[0] for kind, entity in listed})
    if not _objection(text, joined(known, likeliest), likeliest, speakers):
        return likeliest, too_many
    accepted: dict[tuple[EntityKind, str], str] = {}
    objections: dict[tuple[EntityKind, str], str] = {}
    # The longest first, for "TV" does not occur where only "TV room" does.
    for kind, entity in sorted(listed, key=lambda item: -len(item[1])):
        for form in _forms(entity, text):
            with_form = accepted | {(kind, entity): form}
            new = _lists({(kind, entity): form})
            objection = _objection(text, joined(known, _lists(with_form)), new, speakers)
            if not objection:
                accepted = with_form
                break
            objections[kind, entity] = objection
    return _lists({item: accepted[item] for item in listed if item in accepted}), [
        (objections[kind, entity], entity)
        for kind, entity in dict.fromkeys(listed)
        if (kind, entity) not in accepted
    ] + too_many


def _lists(forms: Mapping[tuple[EntityKind, str], str]) -> EntityLists:
    return EntityLists(
        **{
            kind: tuple(form for (other, _), form in forms.items() if other == kind)
            for kind in ENTITY_KINDS
        }
    )


def _forms(entity: str, text: str | None) -> list[str]:
    """Return how a text may write an entity, the likeliest first: as it does, or as listed."""
    plain = without_article(entity)
    written = re.findall(rf"(?<!\w){re.escape(plain)}(?!\w)", text or "", re.IGNORECASE)
    # As listed before lower case, for a capital letter may be that of a sentence.
    ranked = sorted(written, key=lambda form: (form != plain, form != form.lower()))
    return list(dict.fromkeys([*ranked, plain]))


def without_article(entity: str) -> str:
    """Return an entity without an article before it.

    Examples:
        >>> without_article("the  tea room")
        'tea room'
    """
    return _ARTICLE.sub("", " ".join(entity.split()), count=1)


def _objection(
    text: str | None, entities: EntityLists, new: EntityLists, speakers: tuple[str, ...]
) -> str:
    """Return what speaks against the new ones of these entities; "" if nothing."""
    names = {speaker.casefold() for speaker in speakers}
    if any(entity.casefold() in names for kind in ENTITY_KINDS for entity in getattr(new, kind)):
        return "the entity is a speaker"
    try:
        checked = Entities(**entities.model_dump())
    except InputError:
        return "the entity is listed twice, or is not a word"
    if text is not None:
        try:
            Conversation(text, checked).check_entities()
        except InputError:
            return "the entity does not occur in the conversation"
    return ""


def joined(first: EntityLists, second: EntityLists) -> EntityLists:
    """Return the entities of both, kind by kind."""
    return EntityLists(
        **{kind: getattr(first, kind) + getattr(second, kind) for kind in ENTITY_KINDS}
    )


# Triplets -----------------------------------------------------------------------------------------


def draw_triplets(entities: SeedEntities, random: StableRandom) -> tuple[Triplet, Triplet]:
    """Draw two triplets of an agent, an object and a location that share nothing.

    Source: arXiv 2511.13021, Table 11, task 2.
    """
    every = joined(entities.entities, entities.new)
    agents, objects, locations = (
        random.sample(getattr(every, kind), LEAST) for kind in ENTITY_KINDS
    )
    first, second = (
        Triplet(agent=agent, object=thing, location=location)
        for agent, thing, location in zip(agents, objects, locations, strict=True)
    )
    return first, second
