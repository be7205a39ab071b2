"""Variable swap and substitution: Algorithms 1 and 2 of the PragWorld paper (appendix A.1).

Pronouns stay as they are. Only entities that fit in each other's place are exchanged (see
`exchanges`), so that each pronoun, verb and article still agrees.
"""

import itertools
import random
from collections.abc import Sequence

from pragworld_tasks.text_alterations.entities import ENTITY_KINDS, Conversation
from pragworld_tasks.text_alterations.exchanges import REMEDIES, outsiders, refusal
from pragworld_tasks.text_alterations.tokens import AlteredConversation, EntityKind

_SWAP, _SUBSTITUTION = "Variable Swap", "Variable Substitution"
# Pairs of a kind: an entity, and the one that replaces it.
_Pairs = tuple[EntityKind, list[tuple[str, str]]]


def variable_swap(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Swap two entities of one kind throughout, as Algorithm 1 does; None if no two fit.

    The kind and the two entities are random: two of the remaining entities if there are that many,
    the remaining one and one in focus if there is one, and two in focus if there is none.
    """
    return _exchange(conversation, rng, _SWAP, _that_fit(conversation, swap=True))


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
    entities = conversation.entities
    choices = _that_fit(conversation, swap=False) or [
        (kind, [(old, word) for word in outsiders(conversation, kind, old)])
        for kind in ENTITY_KINDS
        for old in conversation.mentioned(entities.remaining(kind))
        or conversation.mentioned(entities.focus(kind))
    ]
    return _exchange(conversation, rng, _SUBSTITUTION, choices)


def exchange_refusals(conversation: Conversation, alteration: str) -> list[tuple[str, str, int]]:
    """Return why a swap or substitution leaves entities alone, the likeliest reasons first.

    Each has a pair to which it applies, and the number of such pairs. The reasons that the lists of
    entities can remedy come first, and then those of most pairs.
    """
    if alteration not in (_SWAP, _SUBSTITUTION):
        return []
    swap = alteration == _SWAP
    refused: dict[str, set[str]] = {}
    for kind, pairs in _pairs(conversation, swap=swap):
        for pair in pairs:
            if reason := refusal(conversation, kind, *pair, swap=swap):
                refused.setdefault(reason, set()).add(" and ".join(sorted(pair)))
    told = [(reason, min(names), len(names)) for reason, names in refused.items()]
    return sorted(told, key=lambda each: (each[0] not in REMEDIES, -each[2]))


def _exchange(
    conversation: Conversation, rng: random.Random, alteration: str, choices: Sequence[_Pairs]
) -> AlteredConversation | None:
    """Replace one of a random pair by the other throughout, and for a swap the reverse."""
    choices = [choice for choice in choices if choice[1]]
    if not choices:
        return None
    kind, pairs = rng.choice(choices)
    old, new = rng.choice(pairs)
    others = {old: new, new: old} if alteration == _SWAP else {old: new}
    replacements = [
        mention.replace(others[mention.entity])
        for mention in conversation.mentions
        if mention.entity in others
    ]
    focus = {*conversation.entities.focus(kind)}
    # Without a focus, it is unknown what the questions are about.
    can_change = not focus.isdisjoint(others) if focus else None
    return conversation.replace(alteration, replacements, can_change)


def _that_fit(conversation: Conversation, *, swap: bool) -> list[_Pairs]:
    return [
        (kind, fit)
        for kind, pairs in _pairs(conversation, swap=swap)
        if (fit := [pair for pair in pairs if not refusal(conversation, kind, *pair, swap=swap)])
    ]


def _pairs(conversation: Conversation, *, swap: bool) -> list[_Pairs]:
    """Return the pairs of each kind that both algorithms choose from.

    An entity that does not occur can replace another. Of two people in a conversation, something
    different is said nearly always: a substitution makes no one of them.
    """
    choices: list[_Pairs] = []
    for kind in ENTITY_KINDS:
        remaining, focus = conversation.entities.remaining(kind), conversation.entities.focus(kind)
        olds = conversation.mentioned(remaining if len(remaining) >= 2 else focus)
        news = remaining or focus
        mentioned = conversation.mentioned(news)
        if swap:
            news = mentioned
        elif kind == "agents":
            news = tuple(agent for agent in news if agent not in mentioned)
        pairs = [(old, new) for old, new in itertools.product(olds, news) if old != new]
        choices.append((kind, pairs))
    return choices
