"""The seven alterations of a conversation in plain text, by lists of what it is about.

For conversations of which nothing but the text is known. Variable swap and substitution are the
PragWorld paper's Algorithms 1 and 2 (appendix A.1); Algorithms 3 to 5 and what the authors did by
hand are in the modules beside. What the algorithms leave open is settled so that the text stays
grammatical, and that exactly the listed changes are made. Pronouns stay as they are: whether "he"
is still right, or whom "them" means now, cannot be told from lists.
"""

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_text
from pragworld_tasks.text_alterations.entities import (
    KINDS,
    Entities,
    Kind,
    Mention,
    check_entities,
    find_mentions,
    read_entities,
)
from pragworld_tasks.text_alterations.negation import inconsistent_data, negation
from pragworld_tasks.text_alterations.quantifiers import connective_change, quantifier_change
from pragworld_tasks.text_alterations.quantities import quantity_change
from pragworld_tasks.text_alterations.tokens import Altered, Change, apply

__all__ = [
    "Altered",
    "Change",
    "Entities",
    "alter",
    "altered_text",
    "connective_change",
    "inconsistent_data",
    "negation",
    "quantifier_change",
    "quantity_change",
    "read_entities",
    "variable_substitution",
    "variable_swap",
]


def variable_swap(conversation: str, entities: Entities, rng: random.Random) -> Altered | None:
    """Two entities of a kind in each other's place throughout, as Algorithm 1 says.

    The kind is random, and so are the two: both of the remaining ones where there are two or more,
    the remaining one and one in focus where there is one, both in focus where there is none.

    Returns:
        None where no kind has such two.

    Raises:
        InputError: the conversation does not mention an entity.
    """
    check_entities(conversation, entities)
    mentions = find_mentions(conversation, entities)
    chosen = _choose(entities, rng, apart=[])
    if chosen is None:
        return None
    kind, one, other, can_change = chosen
    instead = {one: other, other: one}
    changes = [
        mention.replaced_by(instead[mention.entity])
        for mention in mentions
        if mention.kind == kind and mention.entity in instead
    ]
    return apply(conversation, "Variable Swap", changes, can_change)


def variable_substitution(
    conversation: str, entities: Entities, rng: random.Random
) -> Altered | None:
    """An entity replaced throughout by another of its kind, as Algorithm 2 says.

    The two are chosen as in a swap; a remaining one takes the place of one in focus where there is
    one remaining. Two that the conversation joins ("Noah and Owen", "from the attic to the den")
    are not chosen, as one of them would be joined with itself.

    Returns:
        None where no kind has such two.

    Raises:
        InputError: the conversation does not mention an entity.
    """
    check_entities(conversation, entities)
    mentions = find_mentions(conversation, entities)
    chosen = _choose(entities, rng, apart=_joined(conversation, mentions))
    if chosen is None:
        return None
    kind, old, new, can_change = chosen
    changes = [
        mention.replaced_by(new)
        for mention in mentions
        if mention.kind == kind and mention.entity == old
    ]
    return apply(conversation, "Variable Substitution", changes, can_change)


_FUNCTIONS: dict[str, Callable[[str, Entities, random.Random], Altered | None]] = {
    "Negation": negation,
    "Variable Substitution": variable_substitution,
    "Quantity Change": quantity_change,
    "Variable Swap": variable_swap,
    "Quantifier Change": quantifier_change,
    "Logical Connective Change": connective_change,
    "Injecting Inconsistent Data": inconsistent_data,
}


def alter(conversation: str, entities: Entities, alteration: str, seed: int = 0) -> Altered | None:
    """A conversation with one alteration, the same for the same seed.

    Args:
        conversation: an utterance a line.
        entities: who and what it is about.
        alteration: one of `pragworld_tasks.data.documents.ALTERATIONS`, in any letter case.
        seed: of the random choices. Each alteration has choices of its own.

    Returns:
        None where the conversation has nothing to alter so.

    Raises:
        InputError: there is no such alteration, or the conversation does not mention an entity.
    """
    name = _name(alteration)
    check_entities(conversation, entities)
    return _FUNCTIONS[name](conversation, entities, random.Random(f"{seed} {name}"))


def altered_text(
    conversation: Path, entities: Path, alterations: Sequence[str] = (), seed: int = 0
) -> str:
    """What `pragworld-tasks alter` prints: the altered conversations, each with its changes.

    Args:
        conversation: a text file, an utterance a line.
        entities: a JSON file as `read_entities` takes it.
        alterations: some of `pragworld_tasks.data.documents.ALTERATIONS`; none stands for all.
        seed: of the random choices.

    Raises:
        InputError: a file or an alteration is not what it should be.
    """
    text = re.sub(r"\r\n?", "\n", read_text(conversation)).strip("\n")
    if not text.strip():
        raise InputError(
            f"{conversation}: nothing in it; there should be an utterance on each line"
        )
    names = [_name(alteration) for alteration in alterations or ALTERATIONS]
    lists = read_entities(entities)
    try:
        check_entities(text, lists)
    except InputError as error:
        raise InputError(f"{entities}: {error}") from error
    return "\n\n".join(_to_text(name, alter(text, lists, name, seed)) for name in names)


def _name(alteration: str) -> str:
    names = {name.lower(): name for name in ALTERATIONS}
    if alteration.lower() not in names:
        raise InputError(f"no alteration {alteration!r}; there are {', '.join(ALTERATIONS)}")
    return names[alteration.lower()]


def _to_text(name: str, altered: Altered | None) -> str:
    if altered is None:
        return f"{name}: nothing in this conversation to alter so"
    effect = {None: "", True: " (answers can change)", False: " (answers cannot change)"}
    lines = [f"{name}{effect[altered.answers_can_change]}"]
    for change in altered.changes:
        lines.append(f'  line {change.utterance + 1}: "{change.old}" -> "{change.new}"')
    return "\n".join([*lines, "", altered.conversation])


def _choose(
    entities: Entities, rng: random.Random, apart: Sequence[frozenset[str]]
) -> tuple[Kind, str, str, bool | None] | None:
    """A random kind, two of its entities that are not to be kept apart; and answers_can_change."""
    pairs = {
        kind: [pair for pair in _pairs(entities, kind) if frozenset(pair) not in apart]
        for kind in KINDS
    }
    kinds = [kind for kind in KINDS if pairs[kind]]
    if not kinds:
        return None
    kind = rng.choice(kinds)
    # Without a focus nothing says what the questions are about, so the paper's answer has no basis.
    can_change = len(entities.remaining(kind)) < 2 if entities.focus(kind) else None
    return (kind, *rng.choice(pairs[kind]), can_change)


def _pairs(entities: Entities, kind: Kind) -> Iterator[tuple[str, str]]:
    """The pairs that Algorithms 1 and 2 choose from: what is replaced, and what by."""
    remaining, focus = entities.remaining(kind), entities.focus(kind)
    if len(remaining) >= 2:
        olds, news = remaining, remaining
    elif len(remaining) == 1:
        olds, news = focus, remaining
    else:
        olds, news = focus, focus
    return ((old, new) for old in olds for new in news if old != new)


_JOINT = re.compile(
    r",?\s+(?:and|or|if not|to|than|but not|not)\s+(?:(?:in|at|to)\s+)?(?:the\s+|an?\s+)?"
    r"|,\s+(?:the\s+|an?\s+)?",
    re.IGNORECASE,
)


def _joined(conversation: str, mentions: Sequence[Mention]) -> list[frozenset[str]]:
    """The twos that the conversation joins, so that one could not be called by the other's name."""
    lines = conversation.split("\n")
    return [
        frozenset((one.entity, other.entity))
        for one, other in itertools.pairwise(mentions)
        if one.utterance == other.utterance
        and _JOINT.fullmatch(lines[one.utterance], one.end, other.start)
    ]
