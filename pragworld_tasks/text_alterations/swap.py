"""Variable swap and substitution: Algorithms 1 and 2 of the PragWorld paper (appendix A.1).

Pronouns stay as they are: lists of entities cannot tell whether "he" is still right, or whom "them"
refers to now.
"""

import itertools
import random
import re
from collections.abc import Collection

from pragworld_tasks.text_alterations.entities import ENTITY_KINDS, Conversation, Entities
from pragworld_tasks.text_alterations.inflection import ENGLISH
from pragworld_tasks.text_alterations.tokens import AlteredConversation, EntityKind


def variable_swap(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Swap two entities of one kind throughout, as Algorithm 1 does.

    The kind and the two entities are random: two of the remaining entities if there are that many,
    the remaining one and one in focus if there is one, and two in focus if there is none.

    Returns:
        The altered conversation, or None if no kind has two entities.
    """
    return _exchange(conversation, rng, "Variable Swap")


def variable_substitution(
    conversation: Conversation, rng: random.Random
) -> AlteredConversation | None:
    """Replace an entity throughout by another of its kind, as Algorithm 2 does.

    The two are chosen as for a swap. If there is one remaining entity, it replaces one in focus.
    Two that the conversation joins ("Noah and Owen", "from the attic to the den") are not chosen,
    because one of them would be joined with itself.

    Returns:
        The altered conversation, or None if no kind has two such entities.
    """
    return _exchange(conversation, rng, "Variable Substitution", apart=_joined(conversation))


def _exchange(
    conversation: Conversation,
    rng: random.Random,
    alteration: str,
    apart: Collection[frozenset[str]] = (),
) -> AlteredConversation | None:
    """Replace a random entity by another of its kind throughout, and for a swap the reverse."""
    entities = conversation.entities
    pairs = {kind: _pairs(entities, kind, apart) for kind in ENTITY_KINDS}
    kinds = [kind for kind in ENTITY_KINDS if pairs[kind]]
    if not kinds:
        return None
    kind = rng.choice(kinds)
    old, new = rng.choice(pairs[kind])
    others = {old: new, new: old} if alteration == "Variable Swap" else {old: new}
    replacements = [
        mention.replace(others[mention.entity])
        for mention in conversation.mentions
        if mention.kind == kind and mention.entity in others
    ]
    # Without a focus, it is unknown what the questions are about.
    can_change = len(entities.remaining(kind)) < 2 if entities.focus(kind) else None
    return conversation.replace(alteration, replacements, can_change)


def _pairs(
    entities: Entities, kind: EntityKind, apart: Collection[frozenset[str]]
) -> list[tuple[str, str]]:
    """Return the pairs that both algorithms choose from: an entity and the one to replace it."""
    remaining, focus = entities.remaining(kind), entities.focus(kind)
    olds = remaining if len(remaining) >= 2 else focus
    news = remaining or focus
    return [
        (old, new)
        for old, new in itertools.product(olds, news)
        if old != new and frozenset((old, new)) not in apart
    ]


_JOINT = re.compile(ENGLISH["between_joined"], re.IGNORECASE)


def _joined(conversation: Conversation) -> set[frozenset[str]]:
    """Return the pairs of entities that a conversation joins ("Noah and Owen")."""
    lines = conversation.text.split("\n")
    return {
        frozenset((first.entity, second.entity))
        for first, second in itertools.pairwise(conversation.mentions)
        if first.utterance == second.utterance
        and _JOINT.fullmatch(lines[first.utterance], first.end, second.start)
    }
