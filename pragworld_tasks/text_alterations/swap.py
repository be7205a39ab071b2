"""Variable swap and substitution: Algorithms 1 and 2 of the PragWorld paper (appendix A.1).

Pronouns stay as they are. Only entities that fit in each other's place are exchanged (see
`exchanges`), so that each pronoun, verb and article still agrees.
"""

import itertools
import random
from collections.abc import Mapping

from pragworld_tasks.text_alterations.entities import ENTITY_KINDS, Conversation
from pragworld_tasks.text_alterations.exchanges import REMEDIES, outsiders, refusal
from pragworld_tasks.text_alterations.tokens import AlteredConversation, EntityKind

_SWAP, _SUBSTITUTION = "Variable Swap", "Variable Substitution"


def variable_swap(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Swap two entities of one kind throughout, as Algorithm 1 does; None if no two fit.

    The kind and the two entities are random: two of the remaining entities if there are that many,
    the remaining one and one in focus if there is one, and two in focus if there is none.
    """
    return _exchange(conversation, rng, swap=True)


def variable_substitution(
    conversation: Conversation, rng: random.Random
) -> AlteredConversation | None:
    """Replace an entity throughout by another of its kind, as Algorithm 2 does; None if none fits.

    The two are chosen as for a swap. If there is one remaining entity, it replaces one in focus.
    Two that a sentence mentions together are not chosen, because it would mention one of them
    twice, and neither are two of which different things are said, such as where they are, nor two
    people. If no two fit, a name or a noun of the same class that the conversation does not mention
    replaces an entity, as the benchmark's authors did.
    """
    altered = _exchange(conversation, rng, swap=False)
    return altered or _replace_by_outsider(conversation, rng)


def exchange_refusals(conversation: Conversation, alteration: str) -> list[tuple[str, str, int]]:
    """Return why a swap or substitution leaves entities alone, the likeliest reasons first.

    Each has a pair to which it applies, and the number of such pairs. The reasons that the lists of
    entities can remedy come first, and then those of most pairs.
    """
    if alteration not in (_SWAP, _SUBSTITUTION):
        return []
    swap = alteration == _SWAP
    refused: dict[str, list[str]] = {}
    for kind in ENTITY_KINDS:
        pairs = _pairs(conversation, kind, swap=swap)
        for place, (old, new) in enumerate(pairs):
            if swap and (new, old) in pairs[:place]:
                continue  # told already
            if reason := refusal(conversation, kind, old, new, swap=swap):
                refused.setdefault(reason, []).append(f"{old} and {new}")
    told = [(reason, pairs[0], len(pairs)) for reason, pairs in refused.items()]
    return sorted(told, key=lambda each: (each[0] not in REMEDIES, -each[2]))


def _exchange(
    conversation: Conversation, rng: random.Random, *, swap: bool
) -> AlteredConversation | None:
    """Replace a random entity by another of its kind throughout, and for a swap the reverse."""
    options: list[tuple[EntityKind, list[tuple[str, str]]]] = []
    for kind in ENTITY_KINDS:
        pairs = _pairs(conversation, kind, swap=swap)
        if pairs := [pair for pair in pairs if not refusal(conversation, kind, *pair, swap=swap)]:
            options.append((kind, pairs))
    if not options:
        return None
    kind, pairs = rng.choice(options)
    old, new = rng.choice(pairs)
    others = {old: new, new: old} if swap else {old: new}
    return _replace_all(conversation, _SWAP if swap else _SUBSTITUTION, kind, others)


def _replace_by_outsider(
    conversation: Conversation, rng: random.Random
) -> AlteredConversation | None:
    """Replace a random entity by a word of its class that the conversation does not mention."""
    entities = conversation.entities
    options = [
        (kind, old, words)
        for kind in ENTITY_KINDS
        for old in conversation.mentioned(entities.remaining(kind))
        or conversation.mentioned(entities.focus(kind))
        if (words := outsiders(conversation, kind, old))
    ]
    if not options:
        return None
    kind, old, words = rng.choice(options)
    others = {old: rng.choice(words)}
    return _replace_all(conversation, _SUBSTITUTION, kind, others)


def _replace_all(
    conversation: Conversation,
    alteration: str,
    kind: EntityKind,
    others: Mapping[str, str],
) -> AlteredConversation:
    """Replace all mentions of entities by others."""
    replacements = [
        mention.replace(others[mention.entity])
        for mention in conversation.mentions
        if mention.kind == kind and mention.entity in others
    ]
    focus = {*conversation.entities.focus(kind)}
    # Without a focus, it is unknown what the questions are about.
    can_change = not focus.isdisjoint(others) if focus else None
    return conversation.replace(alteration, replacements, can_change)


def _pairs(conversation: Conversation, kind: EntityKind, *, swap: bool) -> list[tuple[str, str]]:
    """Return the pairs that both algorithms choose from: an entity and the one to replace it.

    An entity that does not occur can replace another.
    """
    entities = conversation.entities
    remaining, focus = entities.remaining(kind), entities.focus(kind)
    olds = conversation.mentioned(remaining if len(remaining) >= 2 else focus)
    news = conversation.mentioned(remaining or focus) if swap else remaining or focus
    if kind == "agents" and not swap:
        # Of two people in a conversation, something different is said nearly always.
        news = tuple(each for each in news if not conversation.mentioned([each]))
    return [(old, new) for old, new in itertools.product(olds, news) if old != new]
