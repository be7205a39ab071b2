"""What the alterations make of a text, over many seeds."""

import random
from collections.abc import Callable

from pragworld_tasks.text_alterations.entities import Conversation, Entities
from pragworld_tasks.text_alterations.inconsistency import inconsistent_data
from pragworld_tasks.text_alterations.negation import negation
from pragworld_tasks.text_alterations.quantifiers import connective_change, quantifier_change
from pragworld_tasks.text_alterations.quantities import quantity_change
from pragworld_tasks.text_alterations.swap import variable_substitution, variable_swap
from pragworld_tasks.text_alterations.tokens import AlteredConversation

Algorithm = Callable[[Conversation, random.Random], AlteredConversation | None]
ALGORITHMS: dict[str, Algorithm] = {
    "Negation": negation,
    "Variable Substitution": variable_substitution,
    "Quantity Change": quantity_change,
    "Variable Swap": variable_swap,
    "Quantifier Change": quantifier_change,
    "Logical Connective Change": connective_change,
    "Injecting Inconsistent Data": inconsistent_data,
}
SEEDS = 150  # so that every possible outcome comes out


def apply(
    algorithm: Algorithm, text: str, entities: Entities, seed: int = 0
) -> AlteredConversation | None:
    return algorithm(Conversation(text, entities), random.Random(seed))


def outcomes(algorithm: Algorithm, text: str, seeds: int = SEEDS, **lists: object) -> set[str]:
    """Return all texts that an algorithm makes of a conversation with the entities in lists."""
    entities = Entities.from_lists({"agents": [], "objects": [], "locations": [], **lists})
    conversation = Conversation(text, entities)
    altered = (algorithm(conversation, random.Random(seed)) for seed in range(seeds))
    return {outcome.text for outcome in altered if outcome}
