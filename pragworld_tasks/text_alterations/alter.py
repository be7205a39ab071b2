"""The seven alterations of the PragWorld paper, for any conversation in plain text.

Nothing is known of such a conversation but its text and lists of its entities. What the paper's
algorithms leave open is settled so that the text stays grammatical, and exactly the listed words
are replaced.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_text
from pragworld_tasks.text_alterations.entities import Conversation, Entities, read_entities
from pragworld_tasks.text_alterations.inconsistency import inconsistent_data
from pragworld_tasks.text_alterations.negation import negation
from pragworld_tasks.text_alterations.quantifiers import connective_change, quantifier_change
from pragworld_tasks.text_alterations.quantities import quantity_change
from pragworld_tasks.text_alterations.swap import (
    exchange_objections,
    variable_substitution,
    variable_swap,
)
from pragworld_tasks.text_alterations.tokens import AlteredConversation

_Algorithm = Callable[[Conversation, random.Random], AlteredConversation | None]
# Each alteration's algorithm, and the reason if it finds nothing to alter.
_ALGORITHMS: dict[str, tuple[_Algorithm, str]] = {
    "Negation": (negation, "no reply or statement can be negated without a contradiction"),
    "Variable Substitution": (
        variable_substitution,
        "no entity, and no other word, is known to fit in another's place",
    ),
    "Quantity Change": (quantity_change, "there is no number that can be changed"),
    "Variable Swap": (variable_swap, "no two entities are known to fit in each other's place"),
    "Quantifier Change": (quantifier_change, "there is no quantifier that can be changed"),
    "Logical Connective Change": (
        connective_change,
        "there is no 'and' or 'or' that can be changed",
    ),
    "Injecting Inconsistent Data": (inconsistent_data, "there is no statement to add to"),
}
_EXCHANGES = ("Variable Swap", "Variable Substitution")


def alter(
    conversation: str,
    entities: Entities | Mapping[str, Any],
    alteration: str,
    seed: int = 0,
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
        InputError: There is no such alteration, the entities are not those of the conversation, or
            the conversation has nothing that can be altered in this way, or has characters that
            only look like others.

    Examples:
        >>> conversation = "A: Where is Noah?\nB: Owen saw Noah in the attic."
        >>> entities = {"agents": ["Noah", "Owen"], "objects": [], "locations": ["attic"]}
        >>> altered = alter(conversation, entities, "Variable Swap")
        >>> print(altered.text)
        A: Where is Owen?
        B: Noah saw Owen in the attic.
    """
    name = _alteration_name(alteration)
    if not isinstance(entities, Entities):
        entities = Entities.from_lists(entities)
    parsed = Conversation(conversation, entities)
    parsed.check_characters()
    parsed.check_entities()
    altered = _apply(parsed, name, seed)
    if altered is None:
        reason = _ALGORITHMS[name][1]
        raise InputError(f"{name} is not possible: {reason}; choose another alteration")
    return altered


def altered_text(
    conversation: Path,
    entities: Path,
    alterations: Sequence[str] = (),
    seed: int = 0,
    *,
    explain: bool = False,
) -> str:
    """Return what `pragworld-tasks alter` prints: altered conversations and their replacements.

    Args:
        conversation: A text file with one utterance per line.
        entities: A JSON file of lists of entities (see `alter`).
        alterations: Some of `pragworld_tasks.data.documents.ALTERATIONS`. None stands for all.
        seed: Seed of the random choices.
        explain: Whether to tell why each change was allowed, or which exchanges were not.

    Raises:
        InputError: A file or an alteration is not as required.
    """
    text = re.sub(r"\r\n?", "\n", read_text(conversation)).strip("\n")
    if not text.strip():
        raise InputError(f"{conversation}: the file is empty; write one utterance per line")
    names = [_alteration_name(alteration) for alteration in alterations or ALTERATIONS]
    parsed = Conversation(text, read_entities(entities))
    try:
        parsed.check_characters()
    except InputError as error:
        raise InputError(f"{conversation}: {error}") from error
    try:
        parsed.check_entities()
    except InputError as error:
        raise InputError(f"{entities}: {error}") from error
    return "\n\n".join(
        _to_text(parsed, name, _apply(parsed, name, seed), explain=explain) for name in names
    )


def _apply(conversation: Conversation, name: str, seed: int) -> AlteredConversation | None:
    # The text is part of the seed: else all conversations of a set would get the same clause.
    return _ALGORITHMS[name][0](conversation, random.Random(f"{seed} {name} {conversation.text}"))


def _alteration_name(alteration: str) -> str:
    names = {name.lower(): name for name in ALTERATIONS}
    if alteration.lower() not in names:
        raise InputError(f"no alteration {alteration!r}; choose one of {', '.join(ALTERATIONS)}")
    return names[alteration.lower()]


def _to_text(
    conversation: Conversation, name: str, altered: AlteredConversation | None, *, explain: bool
) -> str:
    """Return an altered conversation below its replacements, or why the alteration failed."""
    if altered is None:
        lines = [f"{name}: not possible, as {_ALGORITHMS[name][1]}"]
        if explain and name in _EXCHANGES:
            lines += [f"  {reason}" for reason in exchange_objections(conversation, name)]
        return "\n".join(lines)
    effects = {None: "", True: " (answers can change)", False: " (answers cannot change)"}
    lines = [f"{name}{effects[altered.answers_can_change]}"]
    for replacement in altered.replacements:
        old, new = replacement.old, replacement.new
        lines.append(f'  line {replacement.utterance + 1}: "{old}" -> "{new}"')
    if explain:
        lines.append(f"  allowed, as {altered.reason}")
    return "\n".join([*lines, "", altered.text])
