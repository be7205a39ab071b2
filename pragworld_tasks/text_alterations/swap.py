"""Variable swap and substitution: Algorithms 1 and 2 of the PragWorld paper (appendix A.1).

Pronouns stay as they are. Only entities that fit in each other's place are exchanged (see
`exchanges`), so that each pronoun, verb and article still agrees.
"""

import itertools
import random
from collections.abc import Mapping

from pragworld_tasks.text_alterations.entities import ENTITY_KINDS, Conversation, Entities
from pragworld_tasks.text_alterations.exchanges import grounds, objection, outsiders
from pragworld_tasks.text_alterations.tokens import AlteredConversation, EntityKind


def variable_swap(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Swap two entities of one kind throughout, as Algorithm 1 does.

    The kind and the two entities are random: two of the remaining entities if there are that many,
    the remaining one and one in focus if there is one, and two in focus if there is none.

    Returns:
        The altered conversation, or None if no kind has two entities that fit.
    """
    return _exchange(conversation, rng, "Variable Swap")


def variable_substitution(
    conversation: Conversation, rng: random.Random
) -> AlteredConversation | None:
    """Replace an entity throughout by another of its kind, as Algorithm 2 does.

    The two are chosen as for a swap. If there is one remaining entity, it replaces one in focus.
    Two that a sentence mentions together are not chosen, because it would mention one of them
    twice, and neither are two of which different things are said, such as where they are. If no
    two fit, a name or a noun of the same class that the conversation does not mention replaces an
    entity, as the benchmark's authors did.

    Returns:
        The altered conversation, or None if no word is known to fit.
    """
    altered = _exchange(conversation, rng, "Variable Substitution")
    return altered or _replace_by_outsider(conversation, rng)


def exchange_objections(conversation: Conversation, alteration: str) -> list[str]:
    """Return why each pair of entities that a swap or substitution considers is left alone."""
    swap = alteration == "Variable Swap"
    objections = []
    for kind in ENTITY_KINDS:
        pairs = _pairs(conversation.entities, kind)
        for old, new in pairs:
            if swap and (new, old) in pairs[: pairs.index((old, new))]:
                continue  # told already
            reason = objection(conversation, kind, old, new, swap=swap)
            joint = "and" if swap else "by"
            if reason:
                objections.append(f"{old} {joint} {new}: {reason}")
    return objections


def _exchange(
    conversation: Conversation, rng: random.Random, alteration: str
) -> AlteredConversation | None:
    """Replace a random entity by another of its kind throughout, and for a swap the reverse."""
    entities = conversation.entities
    swap = alteration == "Variable Swap"
    pairs = {
        kind: [
            (old, new)
            for old, new in _pairs(entities, kind)
            if objection(conversation, kind, old, new, swap=swap) is None
        ]
        for kind in ENTITY_KINDS
    }
    kinds = [kind for kind in ENTITY_KINDS if pairs[kind]]
    if not kinds:
        return None
    kind = rng.choice(kinds)
    old, new = rng.choice(pairs[kind])
    others = {old: new, new: old} if swap else {old: new}
    # Without a focus, it is unknown what the questions are about.
    can_change = len(entities.remaining(kind)) < 2 if entities.focus(kind) else None
    reason = grounds(conversation, kind, old, new)
    return _replace_all(conversation, alteration, kind, others, reason, can_change)


def _replace_by_outsider(
    conversation: Conversation, rng: random.Random
) -> AlteredConversation | None:
    """Replace a random entity by a word of its class that the conversation does not mention."""
    entities = conversation.entities
    options = []
    for kind in ENTITY_KINDS:
        for old in entities.remaining(kind) or entities.focus(kind):
            words, reason = outsiders(conversation, kind, old)
            if words:
                options.append((kind, old, words, reason))
    if not options:
        return None
    kind, old, words, reason = rng.choice(options)
    can_change = old in entities.focus(kind) if entities.focus(kind) else None
    others = {old: rng.choice(words)}
    return _replace_all(conversation, "Variable Substitution", kind, others, reason, can_change)


def _replace_all(
    conversation: Conversation,
    alteration: str,
    kind: EntityKind,
    others: Mapping[str, str],
    reason: str,
    can_change: bool | None,
) -> AlteredConversation:
    """Replace all mentions of entities by others."""
    replacements = [
        mention.replace(others[mention.entity])
        for mention in conversation.mentions
        if mention.kind == kind and mention.entity in others
    ]
    return conversation.replace(alteration, replacements, reason, can_change)


def _pairs(entities: Entities, kind: EntityKind) -> list[tuple[str, str]]:
    """Return the pairs that both algorithms choose from: an entity and the one to replace it."""
    remaining, focus = entities.remaining(kind), entities.focus(kind)
    olds = remaining if len(remaining) >= 2 else focus
    news = remaining or focus
    return [(old, new) for old, new in itertools.product(olds, news) if old != new]
