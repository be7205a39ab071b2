"""Stage 3: altered variants of a conversation, by rules where they can, else by the model.

Source: arXiv 2511.13021, section 4 and appendix A.1. Our rules (`text_alterations`) refuse what
might not stay grammatical. What they refuse is asked of the model, and so is inconsistent data,
which the rules only choose from a list. Of what a model replies, a program checks that exactly the
intended lines changed, and in them nothing but what the alteration is about.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

from pragworld_tasks.authoring.conversations import CONTROLS, NO_NAMES
from pragworld_tasks.authoring.line_checks import (
    changes_connective,
    changes_negation,
    changes_quantifier,
    changes_quantity,
    connectives,
    exchanged_entities,
    injects_data,
    numbers,
    quantifiers,
)
from pragworld_tasks.authoring.prompts import Prompts
from pragworld_tasks.authoring.records import (
    RULES,
    AuthoredConversation,
    AuthoredVariant,
    Dropped,
    LineChange,
    Objection,
    Origin,
)
from pragworld_tasks.authoring.stage_replies import ask_model
from pragworld_tasks.chat import Connection
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.errors import InputError
from pragworld_tasks.text_alterations.alter import alter
from pragworld_tasks.text_alterations.entities import ENTITY_KINDS, Conversation, Entities
from pragworld_tasks.text_alterations.tokens import label_end

# How many variants of each alteration the manual split has.
_SHARES = {
    "Variable Substitution": 106,
    "Variable Swap": 79,
    "Negation": 71,
    "Quantifier Change": 65,
    "Quantity Change": 57,
    "Injecting Inconsistent Data": 21,
    "Logical Connective Change": 13,
}
_INJECTION = "Injecting Inconsistent Data"
_EXCHANGES = {"Variable Substitution": 1, "Variable Swap": 2}  # and how many entities it replaces
_RULE_TRIES = 4  # random choices of the rules, where some give a text that another variant has
_LONGEST = 200  # characters that an edit may add to a line

Text: TypeAlias = tuple[str, Origin]  # of an altered conversation, and where it comes from


class LineEdit(BaseModel):
    """A line that a model changes.

    Attributes:
        line: its number in the prompt, from 1.
        old, new: the whole line, with its speaker's label, before and after.
    """

    model_config = ConfigDict(extra="forbid")

    line: int
    old: str
    new: str


class EditsReply(BaseModel):
    """What a model replies when it alters a conversation."""

    model_config = ConfigDict(extra="forbid")

    edits: list[LineEdit]


# Which alterations --------------------------------------------------------------------------------


def draw_alterations(number: int, random: StableRandom) -> list[str]:
    """Draw alterations, so that their shares in many draws are those of the manual split.

    An alteration is drawn as often as its share of the number says, rounded down or up at random.
    So a few are hardly ever the same.

    Args:
        number: how many to draw.
        random: where the choices come from.

    Examples:
        >>> len(set(draw_alterations(3, StableRandom("seed"))))
        3
    """
    names = random.shuffled(list(_SHARES))
    step = sum(_SHARES.values()) / number
    place, end = random.below(1_000_000) / 1_000_000 * step, 0.0
    drawn: list[str] = []
    for name in names:
        end += _SHARES[name]
        while place < end and len(drawn) < number:
            drawn.append(name)
            place += step
    return random.shuffled(drawn)


def _replacements(random: StableRandom) -> list[str]:
    """Return all alterations in the order in which they replace impossible ones."""
    left, order = dict(_SHARES), list[str]()
    while left:
        order.append(random.weighted_choice(left))
        del left[order[-1]]
    return order


# A conversation's variants ------------------------------------------------------------------------


async def alter_conversation(
    connection: Connection,
    prompts: Prompts,
    conversation: AuthoredConversation,
    variants: int,
    random_seed: int,
    temperature: float,
) -> tuple[list[AuthoredVariant], list[Dropped]]:
    """Return a conversation and its altered variants.

    An alteration that is not possible is replaced by another, so there are fewer variants only if
    nothing else is possible. No two of them have the same text.

    Args:
        connection: the connection to the model.
        prompts: the prompts.
        conversation: the conversation.
        variants: the number of altered variants.
        random_seed: the seed of the random choices.
        temperature: the sampling temperature.

    Returns:
        The variants: the original, numbered 0, then the altered ones; and what was dropped.

    Raises:
        InputError: The endpoint cannot be used.
    """
    random = StableRandom(f"{random_seed} alterations {conversation.number}")
    planned, spare = draw_alterations(variants, random), _replacements(random)
    workshop = _Workshop(connection, prompts, conversation, random_seed, temperature)
    altered = [_original(conversation)]
    for name in planned:
        for candidate in (name, *sorted(spare, key=lambda other: workshop.draws[other])):
            if text := await workshop.alter(candidate):
                altered.append(_variant(conversation, len(altered), candidate, *text))
                break
        else:
            break
    return altered, workshop.dropped


class _Workshop:
    """The alterations of one conversation so far.

    Attributes:
        draws: how many variants each alteration has.
        dropped: the replies that did not pass a check.
    """

    def __init__(
        self,
        connection: Connection,
        prompts: Prompts,
        conversation: AuthoredConversation,
        random_seed: int,
        temperature: float,
    ) -> None:
        self.draws: Counter[str] = Counter()
        self.dropped: list[Dropped] = []
        self._connection = connection
        self._prompts = prompts
        self._conversation = conversation
        self._entities = focused_entities(conversation)
        self._random_seed = random_seed
        self._temperature = temperature
        self._texts = {conversation.context}
        self._impossible: set[str] = set()

    async def alter(self, name: str) -> Text | None:
        """Return a new altered text, None if the alteration gives none any more."""
        if name in self._impossible:
            return None
        by_rules = None if name == _INJECTION else self._by_rules(name)
        altered = by_rules or await self._by_model(name)
        if name == _INJECTION:
            altered = altered or self._by_rules(name)
        if altered is None:
            self._impossible.add(name)
            return None
        self._texts.add(altered[0])
        self.draws[name] += 1
        return altered

    def _by_rules(self, name: str) -> Text | None:
        first = _RULE_TRIES * (self._random_seed + self.draws[name])
        for seed in range(first, first + _RULE_TRIES):
            try:
                text = alter(self._conversation.context, self._entities, name, seed).text
            except InputError:
                return None
            if text not in self._texts:
                return text, RULES
        return None

    async def _by_model(self, name: str) -> Text | None:
        conversation = self._conversation
        if not _may_be_possible(conversation, name):
            return None
        lines = conversation.context.split("\n")
        named = [name for kind in ENTITY_KINDS for name in getattr(conversation.entities, kind)]
        prompt = self._prompts.fill(
            "alteration",
            conversation="\n".join(f"{number}: {line}" for number, line in enumerate(lines, 1)),
            entities=", ".join(named) or "nothing in particular",
            alteration=name,
        )
        reply = await ask_model(
            self._connection,
            self._connection.endpoint.model,
            prompt,
            EditsReply,
            f"alteration of conversation {conversation.number}: {name}",
            self._temperature,
            self.draws[name],
        )
        if reply.value is None:
            self.dropped.append(reply.dropped("alterations", conversation.number))
            return None
        edits = reply.value.edits
        objection = find_edit_problem(conversation.context, self._entities, name, edits)
        text = "" if objection else _with_edits(lines, edits)
        if text in self._texts:
            objection = "another variant has the same text", edits[0].new
        if objection:
            reason, shown = objection
            objection = f"{name}: {reason}", shown
            self.dropped.append(reply.dropped("alterations", conversation.number, objection))
            return None
        return text, reply.origin


def focused_entities(conversation: AuthoredConversation) -> Entities:
    """Return a conversation's entities; those of its triplets are in focus."""
    lists = conversation.entities.model_dump()
    named = {
        name.casefold()
        for triplet in conversation.triplets
        for name in (triplet.agent, triplet.object, triplet.location)
    }
    focus = {
        f"focus_{kind}": tuple(entity for entity in entities if entity.casefold() in named)
        for kind, entities in lists.items()
    }
    return Entities(**lists, **focus)


def _may_be_possible(conversation: AuthoredConversation, name: str) -> bool:
    """Return whether a conversation has what an alteration changes."""
    words_of: dict[str, Callable[[str], Sequence[str]]] = {
        "Quantity Change": numbers,
        "Quantifier Change": quantifiers,
        "Logical Connective Change": connectives,
    }
    if name in _EXCHANGES:
        return any(len(getattr(conversation.entities, kind)) > 1 for kind in ENTITY_KINDS)
    return name not in words_of or bool(words_of[name](conversation.context))


def _original(conversation: AuthoredConversation) -> AuthoredVariant:
    return AuthoredVariant(
        conversation=conversation.number,
        variant=0,
        alteration=None,
        context=conversation.context,
        changes=(),
        origin=conversation.origin,
    )


def _variant(
    conversation: AuthoredConversation, number: int, name: str, text: str, origin: Origin
) -> AuthoredVariant:
    return AuthoredVariant(
        conversation=conversation.number,
        variant=number,
        alteration=name,
        context=text,
        changes=changed_lines(conversation.context, text),
        origin=origin,
    )


def changed_lines(original: str, text: str) -> tuple[LineChange, ...]:
    """Return the lines of a variant that differ from its original's; one may have more lines."""
    pairs = zip_longest(original.split("\n"), text.split("\n"), fillvalue="")
    return tuple(
        LineChange(line=line, old=old, new=new)
        for line, (old, new) in enumerate(pairs)
        if old != new
    )


# Checks of a model's edits ------------------------------------------------------------------------

_CHECKS: dict[str, tuple[Callable[[str, str], bool], str]] = {
    "Negation": (changes_negation, "more changes than a negation, or none is added or removed"),
    "Quantity Change": (changes_quantity, "more changes than a number, or none does"),
    "Quantifier Change": (changes_quantifier, "more changes than a quantifier, or none does"),
    "Logical Connective Change": (
        changes_connective,
        "more changes than an 'and' or 'or', or none does",
    ),
    _INJECTION: (injects_data, "a statement is not only extended, or names something invented"),
}


def find_edit_problem(
    context: str, entities: Entities, name: str, edits: Sequence[LineEdit]
) -> Objection | None:
    """Return the first rule that a model's edits of a conversation break, and where; None if none.

    Args:
        context: the conversation.
        entities: its entities.
        name: the alteration that they are to make.
        edits: the edits.
    """
    lines = context.split("\n")
    if not edits:
        return "the model alters nothing", ""
    if len({edit.line for edit in edits}) < len(edits):
        return "a line is edited twice", edits[-1].new
    if len(edits) > 1 and name not in _EXCHANGES:
        return "more than one line is edited", edits[1].new
    for edit in edits:
        if not 1 <= edit.line <= len(lines) or edit.old != lines[edit.line - 1]:
            return "the edited line is not as in the conversation", edit.old
        if problem := _line_problem(edit.old, edit.new):
            return problem, edit.new
    after = _with_edits(lines, edits)
    if name in _EXCHANGES:
        both = Conversation(context, entities), Conversation(after, entities)
        pairs = exchanged_entities(*both) or set()
        if len(pairs) != _EXCHANGES[name] or len({frozenset(pair) for pair in pairs}) != 1:
            return "not just two entities of one kind are exchanged", edits[0].new
        return None
    (edit,) = edits
    old, new = edit.old[label_end(edit.old) :], edit.new[label_end(edit.new) :]
    check, rule = _CHECKS[name]
    if not check(old, new):
        return rule, edit.new
    if name == _INJECTION and (word := _unnamed(context, new)):
        return "a statement is not only extended, or names something invented", word
    if name != _INJECTION and _mentioned(context, entities) != _mentioned(after, entities):
        return "an entity appears, disappears or changes", edit.new
    return None


def _line_problem(old: str, new: str) -> str:
    """Return what is wrong with a line as such, or ""."""
    if new == old:
        return "the edited line is the same"
    if CONTROLS.search(new) or new != new.strip():
        return "the edited line is not one line, or holds control characters"
    if old[: label_end(old)] != new[: label_end(new)]:
        return "the speaker's label changes"
    if not new[label_end(new) :].strip() or len(new) > len(old) + _LONGEST:
        return "the edited line is empty or far longer"
    return ""


def _mentioned(text: str, entities: Entities) -> list[tuple[str, str]]:
    return [(mention.kind, mention.entity) for mention in Conversation(text, entities).mentions]


_PLACE = re.compile(
    r"\b(?:to|into|onto|in|inside|at|behind|from|through)\s+the\s+([^\W\d_]+)", re.IGNORECASE
)
# Places of everyone's world, where things may go or happen against common sense.
_EVERYWHERE = """
air beginning ceiling clouds corner dark darkness day end evening floor future garden ground horizon
light middle mirror moment moon moonlight morning night ocean past rain roof sea shadows sky sound
stars street sun sunlight time universe wall walls wind window world year"""


def _unnamed(context: str, new: str) -> str:
    """Return a name or a place in a line that the conversation does not have, or ""."""
    known = {*re.findall(r"[^\W\d_]+", context.casefold())}
    names = {*known, *NO_NAMES.split()}
    for sentence in re.split(r"(?<=[.?!])\s+", new.strip()):
        for name in re.finditer(r"(?<!^)\b[A-Z][a-z]\w+", sentence):
            if not {name[0].casefold(), name[0].casefold().removesuffix("s")} & names:
                return name[0]
    for place in _PLACE.finditer(new):
        if place[1].casefold() not in {*known, *_EVERYWHERE.split()}:
            return place[1]
    return ""


def _with_edits(lines: Sequence[str], edits: Sequence[LineEdit]) -> str:
    new = {edit.line: edit.new for edit in edits}
    return "\n".join(new.get(number, line) for number, line in enumerate(lines, 1))
