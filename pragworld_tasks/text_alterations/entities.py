"""A conversation and its entities: agents, objects and locations, and where it mentions them.

The lists are those that Algorithms 1 to 5 of the PragWorld paper start from (appendix A.1): all
entities, those in focus, and the remaining ones, which are all without those in focus.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Annotated, Any, Self, get_args

from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.text_alterations.inflection import number_forms, typed
from pragworld_tasks.text_alterations.tokens import (
    AlteredConversation,
    EntityKind,
    EntityMention,
    Sentence,
    TextReplacement,
    entity_forms,
    label_end,
    read_sentences,
)

ENTITY_KINDS: tuple[EntityKind, ...] = get_args(EntityKind)


def _plain_text(text: str) -> str:
    """Return a text in which words that look the same are the same.

    An accent can be part of a letter or a character of its own, and a hyphen or blank in a word can
    be invisible.
    """
    text = unicodedata.normalize("NFC", re.sub(r"\r\n?", "\n", text))
    return re.sub(r"(?<=\w)[\u00ad\u200b\u2060\ufeff](?=\w)", "", text)


def _plain_name(entity: str) -> str:
    if not re.fullmatch(r"\w(?:[^\n]*\w)?", entity):
        raise ValueError(
            f"{entity!r} does not begin and end with a letter or digit; write the entity as the "
            "conversation does, without punctuation"
        )
    return _plain_text(entity)


_Names = tuple[Annotated[str, AfterValidator(_plain_name)], ...]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Entities:
    """The entities of a conversation as it names them, and those that the questions focus on.

    An object stands for its singular and its plural, whichever is listed. A name that is listed
    with a capital letter is found without it only if no other word is written so: "will" is not
    Will. Entities that do not occur are never replaced, but may replace others.

    Attributes:
        agents, objects, locations: All entities of a kind.
        focus_agents, focus_objects, focus_locations: Those that the questions are about.
        female, male: Agents whose gender the lists of names do not know, or know wrongly.
        exchangeable: Groups of entities of one kind that may take each other's place.
    """

    agents: _Names
    objects: _Names
    locations: _Names
    focus_agents: _Names = ()
    focus_objects: _Names = ()
    focus_locations: _Names = ()
    female: _Names = ()
    male: _Names = ()
    exchangeable: tuple[_Names, ...] = ()

    def __post_init__(self) -> None:
        kind_of_form: dict[str, str] = {}
        for kind in ENTITY_KINDS:
            for entity in self.all(kind):
                forms = {form.casefold() for form in entity_forms(entity, kind)}
                for form in forms & kind_of_form.keys():
                    raise ValueError(
                        f"{entity!r} in {kind!r} is the same as one in {kind_of_form[form]!r}; "
                        "list each entity once, as a mention could be either"
                    )
                kind_of_form |= dict.fromkeys(forms, kind)
            for entity in {*self.focus(kind)} - {*self.all(kind)}:
                raise ValueError(f"{entity!r} in 'focus_{kind}' is not in {kind!r}; add it")

    @classmethod
    def from_lists(cls, lists: Any, name: object = "the entities") -> Self:
        """Return the entities in an object of lists with a name, of which three are required."""
        try:
            return TypeAdapter(cls).validate_python(lists)
        except ValidationError as error:
            raise InputError(f"{name}: {first_problem(error)}") from error

    def all(self, kind: EntityKind) -> tuple[str, ...]:
        """Return the list of all entities of a kind."""
        return tuple(getattr(self, kind))

    def focus(self, kind: EntityKind) -> tuple[str, ...]:
        """Return the list of the entities of a kind that the questions are about."""
        return tuple(getattr(self, f"focus_{kind}"))

    def remaining(self, kind: EntityKind) -> tuple[str, ...]:
        """Return all entities of a kind except those in focus."""
        return tuple(entity for entity in self.all(kind) if entity not in self.focus(kind))


class Conversation:
    """A conversation, one utterance per line, with its entities, turns and sentences in order.

    A line without a speaker's label is part of the turn before it if other lines have one.
    """

    def __init__(self, text: str, entities: Entities) -> None:
        self.text = _plain_text(text)
        self.entities = entities
        self.turns: list[str] = []
        self._begins: list[int] = []
        lines, begin = self.text.split("\n"), 0
        labels = [line[: label_end(line)].strip() for line in lines]
        for line, label in zip(lines, labels, strict=True):
            if label or not self.turns or not any(labels):
                self.turns.append(line)
                self._begins.append(begin)
            else:
                self.turns[-1] += f" {line}"
            begin += len(line) + 1
        self.mentions = _find_mentions(self.turns, entities)
        self.sentences: list[Sentence] = list(read_sentences(self.turns, self.mentions))

    def mentioned(self, entities: Sequence[str]) -> tuple[str, ...]:
        """Return those of some entities that the conversation mentions."""
        mentioned = {mention.entity for mention in self.mentions}
        return tuple(entity for entity in entities if entity in mentioned)

    def replace(
        self,
        alteration: str,
        replacements: Sequence[TextReplacement],
        answers_can_change: bool | None = None,
    ) -> AlteredConversation:
        """Make the replacements of turns, all at once. They must not overlap."""
        text, changes = self.text, list[TextReplacement]()
        for change in sorted(replacements, key=lambda each: (each.utterance, each.start))[::-1]:
            begin = self._begins[change.utterance] + change.start
            ahead, behind = self.text[:begin], text[begin + len(change.old) :]
            line, start = ahead.count("\n"), begin - ahead.rfind("\n") - 1
            changes.insert(0, TextReplacement(line, start, change.old, change.new))
            text = ahead + change.new + behind
        return AlteredConversation(text, alteration, tuple(changes), answers_can_change)


# What stands before or after a noun in the singular. The bar is the noun.
_BESIDE_SINGULARS = re.compile(
    r"(?<![\w'\u2019-])(?:an?|one|each|every|this|that|another)\s+\|"
    r"|\|\s+(?:is|was|has|does)(?:n['\u2019]t)?\b",
    re.IGNORECASE,
)


def _find_mentions(turns: Sequence[str], entities: Entities) -> list[EntityMention]:
    """Return where turns mention the entities, in order, but for speakers' labels.

    A mention is of whole words, and of as many as possible: "green peppers" does not mention
    "peppers" if both are listed, and "all-purpose" does not mention "purpose".
    """
    named: dict[str, tuple[EntityKind, str]] = {}
    for kind in ENTITY_KINDS:
        for entity in entities.all(kind):
            for form in entity_forms(entity, kind):
                capital = form[0].upper() + form[1:]
                for variant in (form, form.upper(), capital, typed(form)):
                    named.setdefault(variant, (kind, entity))
    if not named:
        return []
    longest_first = map(re.escape, sorted(named, key=len, reverse=True))
    names = "|".join(longest_first).replace(r"\ ", r"\s+")  # a blank may be a non-breaking one
    pattern = re.compile(
        r"(?<!\w)(?<!\w['\u2019-])"
        rf"(?P<text>{names})"
        r"(?P<ending>['\u2019][sS]?(?!\w))?(?!\w|-\w|['\u2019](?!(?:ll|d|re|ve)\b)\w)"
    )
    mentions = []
    for utterance, line in enumerate(turns):
        begin = label_end(line)
        for match in pattern.finditer(line, begin):
            start, text, ending = match.start(), match["text"], match["ending"] or ""
            if len(ending) == 1 and (text[-1].lower() != "s" or line[start - 1] in "'\u2018"):
                ending = ""  # a closing quotation mark
            kind, entity = named[re.sub(r"\s+", " ", text)]
            before, after = line[begin:start], line[match.end() :]
            article = "".join(re.findall(r"(?<![\w'\u2019-])an?\s+$", before, re.IGNORECASE))
            singular, plural = number_forms(entity)
            if singular == plural:
                is_plural = not _BESIDE_SINGULARS.search(f"{before}|{after}")
            else:
                is_plural = text.lower() == plural.lower()
            is_plural &= kind == "objects"
            mentions.append(
                EntityMention(utterance, start, text, ending, kind, entity, is_plural, article)
            )
    return mentions
