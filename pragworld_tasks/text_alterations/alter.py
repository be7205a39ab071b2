"""The seven alterations of the PragWorld paper, for any conversation in plain text.

Nothing is known of such a conversation but its text and lists of its entities. What the paper's
algorithms leave open is settled so that the text stays grammatical, and exactly the listed words
are replaced.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.errors import InputError
from pragworld_tasks.text_alterations.entities import Conversation, Entities
from pragworld_tasks.text_alterations.exchanges import REMEDIES
from pragworld_tasks.text_alterations.inconsistency import inconsistent_data
from pragworld_tasks.text_alterations.negation import negation
from pragworld_tasks.text_alterations.quantifiers import connective_change, quantifier_change
from pragworld_tasks.text_alterations.quantities import quantity_change
from pragworld_tasks.text_alterations.swap import (
    exchange_refusals,
    variable_substitution,
    variable_swap,
)
from pragworld_tasks.text_alterations.tokens import AlteredConversation

_Algorithm = Callable[[Conversation, random.Random], AlteredConversation | None]
# Each alteration's algorithm, and the reason if it finds nothing to alter.
_ALGORITHMS: dict[str, tuple[_Algorithm, str]] = {
    "Negation": (negation, "no reply or statement can be negated without a contradiction"),
    "Variable Substitution": (variable_substitution, "no word is known to fit for another"),
    "Quantity Change": (quantity_change, "there is no number that can be changed"),
    "Variable Swap": (variable_swap, "no two entities are known to fit in each other's place"),
    "Quantifier Change": (quantifier_change, "there is no quantifier that can be changed"),
    "Logical Connective Change": (connective_change, "no 'and' or 'or' can be changed"),
    "Injecting Inconsistent Data": (inconsistent_data, "there is no statement to add to"),
}


def alter(
    conversation: str, entities: Entities | Mapping[str, Any], alteration: str, seed: int = 0
) -> AlteredConversation:
    r"""Alter a conversation. The result is the same for the same seed.

    Args:
        conversation: The conversation, one utterance per line.
        entities: The entities in it, or the lists `agents`, `objects` and `locations`, and
            optionally `focus_agents`, `focus_objects` and `focus_locations`, `female` and `male`
            (agents whose gender the lists of names do not tell), and `exchangeable`, groups of
            entities that may take each other's place.
        alteration: One of `pragworld_tasks.data.documents.ALTERATIONS`, in any letter case.
        seed: Seed of the random choices. Each alteration has its own.

    Raises:
        InputError: There is no such alteration, the entities are not as required, or the
            conversation has nothing that can be altered in this way.

    Examples:
        >>> conversation = "A: Where is Noah?\nB: Owen saw Noah in the attic."
        >>> entities = {"agents": ["Noah", "Owen"], "objects": [], "locations": ["attic"]}
        >>> altered = alter(conversation, entities, "Variable Swap")
        >>> print(altered.text)
        A: Where is Owen?
        B: Noah saw Owen in the attic.
    """
    name = alteration_name(alteration)
    if not isinstance(entities, Entities):
        entities = Entities.from_lists(entities)
    parsed = Conversation(conversation, entities)
    algorithm, reason = _ALGORITHMS[name]
    # The text is part of the seed: else all conversations of a set would get the same clause.
    altered = algorithm(parsed, random.Random(f"{seed} {name} {parsed.text}"))
    if altered is None:
        reason += "; choose another alteration"
        for likeliest, pair, _ in exchange_refusals(parsed, name)[:1]:
            reason = f"of {pair}, {likeliest}" if likeliest in REMEDIES else reason
        raise InputError(f"{name} is not possible: {reason}")
    return altered


def alteration_name(alteration: str) -> str:
    """Return the name of an alteration that is given in any letter case."""
    names = {name.lower(): name for name in ALTERATIONS}
    if alteration.lower() not in names:
        raise InputError(f"no alteration {alteration!r}; choose one of {', '.join(ALTERATIONS)}")
    return names[alteration.lower()]
