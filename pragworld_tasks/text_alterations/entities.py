"""A conversation and its entities: agents, objects and locations, and where it mentions them.

The lists are those that Algorithms 1 to 5 of the PragWorld paper start from (appendix A.1): all
entities, those in focus, and the remaining ones, which are all without those in focus.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self, get_args

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json
from pragworld_tasks.text_alterations.inflection import number_forms
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


@dataclass(frozen=True, slots=True)
class Entities:
    """The entities of a conversation as it names them, and those that the questions focus on.

    An object stands for its singular and its plural, whichever is listed. A name that is listed
    with a capital letter is found only with it or in ALL CAPS, so that "will" is not Will.

    Attributes:
        agents, objects, locations: All entities of a kind.
        focus_agents, focus_objects, focus_locations: Those that the questions are about.
        female, male: Agents whose gender the lists of names do not know, or know wrongly.
        exchangeable: Groups of entities of one kind that may take each other's place.

    Raises:
        InputError: An entity does not begin and end with a letter or digit, has characters that
            look like others, is listed twice, or is in focus, or in another list, without being
            listed.
    """

    agents: tuple[str, ...]
    objects: tuple[str, ...]
    locations: tuple[str, ...]
    focus_agents: tuple[str, ...] = ()
    focus_objects: tuple[str, ...] = ()
    focus_locations: tuple[str, ...] = ()
    female: tuple[str, ...] = ()
    male: tuple[str, ...] = ()
    exchangeable: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        kind_of_form: dict[str, str] = {}
        for kind in ENTITY_KINDS:
            for entity in self.all(kind):
                if not re.fullmatch(r"\w(?:[^\n]*\w)?", entity):
                    raise InputError(
                        f"{entity!r} in {kind!r} does not begin and end with a letter or digit; "
                        "write the entity as the conversation does, without punctuation"
                    )
                _check_characters(f"{entity!r} in {kind!r}", entity)
                forms = {form.casefold() for form in entity_forms(entity, kind)}
                for form in forms & kind_of_form.keys():
                    raise InputError(
                        f"{entity!r} in {kind!r} is the same as one in {kind_of_form[form]!r}; "
                        "list each entity once, as a mention could be either"
                    )
                kind_of_form |= dict.fromkeys(forms, kind)
            focus = self.focus(kind)
            for entity in focus:
                if entity not in self.all(kind):
                    raise InputError(f"{entity!r} in 'focus_{kind}' is not in {kind!r}; add it")
                if focus.count(entity) > 1:
                    raise InputError(f"{entity!r} is twice in 'focus_{kind}'; list it once")
        for entity in (*self.female, *self.male):
            if entity not in self.agents:
                raise InputError(f"{entity!r} in 'female' or 'male' is not in 'agents'; add it")
            if entity in self.female and entity in self.male:
                raise InputError(f"{entity!r} is in 'female' and in 'male'; choose one")
        for group in self.exchangeable:
            if not any({*group} <= {*self.all(kind)} for kind in ENTITY_KINDS):
                raise InputError(
                    f"the entities {', '.join(group)} in 'exchangeable' are not in one list; "
                    "put entities of one kind into a group"
                )

    @classmethod
    def from_lists(cls, lists: Mapping[str, Any]) -> Self:
        """Return the entities in lists by name.

        Args:
            lists: The lists `agents`, `objects` and `locations`, any of which may be empty, and
                optionally `focus_agents`, `focus_objects` and `focus_locations`, `female` and
                `male` (agents), and `exchangeable`, a list of lists.

        Raises:
            InputError: A list is missing, unknown, or not a list of strings, or an entity is wrong.
        """
        known = [field.name for field in fields(cls)]
        for name, entities in lists.items():
            if name not in known:
                raise InputError(f"unknown list {name!r}; the lists are {', '.join(known)}")
            if name != "exchangeable":
                _check_strings(repr(name), entities)
            elif not isinstance(entities, Sequence) or isinstance(entities, str):
                raise InputError(
                    '\'exchangeable\' is not a list; write one such as [["pen", "cup"]]'
                )
            else:
                for group in entities:
                    _check_strings("a group in 'exchangeable'", group)
        for kind in ENTITY_KINDS:
            if kind not in lists:
                raise InputError(f"the list {kind!r} is missing; add it, if only an empty one")
        groups = tuple(tuple(group) for group in lists.get("exchangeable", ()))
        plain = {name: tuple(each) for name, each in lists.items() if name != "exchangeable"}
        return cls(**plain, exchangeable=groups)

    def all(self, kind: EntityKind) -> tuple[str, ...]:
        """Return the list of all entities of a kind."""
        return (self.agents, self.objects, self.locations)[ENTITY_KINDS.index(kind)]

    def focus(self, kind: EntityKind) -> tuple[str, ...]:
        """Return the list of the entities of a kind that the questions are about."""
        focus = (self.focus_agents, self.focus_objects, self.focus_locations)
        return focus[ENTITY_KINDS.index(kind)]

    def remaining(self, kind: EntityKind) -> tuple[str, ...]:
        """Return all entities of a kind except those in focus."""
        return tuple(entity for entity in self.all(kind) if entity not in self.focus(kind))


_HIDDEN = re.compile(r"(?<=\w)[\u00ad\u200b-\u200d\u2060\ufeff](?=\w)")


def _check_characters(name: str, text: str) -> None:
    """Check that words which look the same are the same, or only some mentions would be altered.

    An accent can be part of a letter or a character of its own, and a hyphen or blank can be
    invisible.
    """
    if text != unicodedata.normalize("NFC", text):
        raise InputError(
            f"{name} is not in Unicode's form NFC, so words which look the same may differ; use "
            "Python's unicodedata.normalize('NFC', text) on the conversation and the entities"
        )
    if hidden := _HIDDEN.search(text):
        raise InputError(
            f"{name} has an invisible character, U+{ord(hidden[0]):04X}, in a word; remove it"
        )


def _check_strings(name: str, value: Any) -> None:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_list or not all(isinstance(entity, str) for entity in value):
        raise InputError(f'{name} is not a list of strings; write one such as ["Noah"]')


def read_entities(path: Path) -> Entities:
    """Read entities from a JSON file that holds an object of lists (see `Entities.from_lists`).

    Raises:
        InputError: The file cannot be read, or does not hold such lists.
    """
    lists = read_json(path)
    if not isinstance(lists, dict):
        raise InputError(f"{path}: not a JSON object; write {{ }} with {', '.join(ENTITY_KINDS)}")
    try:
        return Entities.from_lists(lists)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


class Conversation:
    """A conversation in plain text together with its entities.

    Attributes:
        text: The text, one utterance per line.
        entities: The entities.
        mentions: The mentions of the entities, in order.
        sentences: The sentences with the mentions in them, in order.
    """

    def __init__(self, text: str, entities: Entities) -> None:
        self.text = text
        self.entities = entities
        self.mentions = _find_mentions(text, entities)
        self.sentences: list[Sentence] = list(read_sentences(text, self.mentions))

    def check_characters(self) -> None:
        """Check that words which look the same are the same.

        Raises:
            InputError: The text is not in Unicode's form NFC, or has an invisible character in a
                word.
        """
        for number, line in enumerate(self.text.split("\n"), start=1):
            _check_characters(f"line {number}", line)

    def check_entities(self) -> None:
        """Check that the conversation mentions every entity.

        Raises:
            InputError: It does not, or only as a speaker's label.
        """
        mentioned = {(mention.kind, mention.entity) for mention in self.mentions}
        labels = " ".join(line[: label_end(line)] for line in self.text.split("\n"))
        for kind in ENTITY_KINDS:
            for entity in self.entities.all(kind):
                if (kind, entity) in mentioned:
                    continue
                if re.search(rf"(?<!\w){re.escape(entity)}(?!\w)", labels, re.IGNORECASE):
                    raise InputError(
                        f"{entity!r} in {kind!r} occurs in the conversation only as a speaker's "
                        "label, which is never altered; remove it from the list"
                    )
                raise InputError(
                    f"{entity!r} in {kind!r} does not occur in the conversation; list whole "
                    "words in the conversation's letter case; alterations are of English text"
                )

    def replace(
        self,
        alteration: str,
        replacements: Sequence[TextReplacement],
        reason: str,
        answers_can_change: bool | None = None,
    ) -> AlteredConversation:
        """Make the replacements of an alteration, all at once. They must not overlap."""
        changes = sorted(replacements, key=lambda change: (change.utterance, change.start))
        lines = self.text.split("\n")
        for change in reversed(changes):
            line, end = lines[change.utterance], change.start + len(change.old)
            lines[change.utterance] = line[: change.start] + change.new + line[end:]
        text = "\n".join(lines)
        return AlteredConversation(text, alteration, tuple(changes), reason, answers_can_change)


def _find_mentions(conversation: str, entities: Entities) -> list[EntityMention]:
    """Return where a conversation mentions the entities, in order, but for speakers' labels.

    A mention is of whole words, and of as many as possible: "green peppers" does not mention
    "peppers" if both are listed, and "all-purpose" does not mention "purpose".
    """
    named: dict[str, tuple[EntityKind, str]] = {}
    for kind in ENTITY_KINDS:
        for entity in entities.all(kind):
            for form in entity_forms(entity, kind):
                capital = form[0].upper() + form[1:]
                for variant in (form, form.upper(), *([capital] if form == form.lower() else [])):
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
    first_words = {
        (sentence.utterance, sentence.words[0].start) for sentence in read_sentences(conversation)
    }
    mentions = []
    for utterance, line in enumerate(conversation.split("\n")):
        begin = label_end(line)
        for match in pattern.finditer(line, begin):
            start, text, ending = match.start(), match["text"], match["ending"] or ""
            if len(ending) == 1 and (text[-1].lower() != "s" or line[start - 1] in "'\u2018"):
                ending = ""  # a closing quotation mark
            kind, entity = named[re.sub(r"\s+", " ", text)]
            before, after = line[begin:start], line[match.end() :]
            indefinite = re.search(r"(?<![\w'\u2019-])an?\s+$", before, re.IGNORECASE)
            mentions.append(
                EntityMention(
                    utterance=utterance,
                    start=start,
                    text=text,
                    ending=ending,
                    kind=kind,
                    entity=entity,
                    is_plural=kind == "objects" and _is_plural(text, entity, before, after),
                    opens=(utterance, start) in first_words,
                    indefinite=indefinite[0] if indefinite else "",
                )
            )
    return mentions


_SINGULAR_BEFORE = re.compile(
    r"(?<![\w'\u2019-])(?:an?|one|each|every|this|that|another)\s+$", re.IGNORECASE
)
_SINGULAR_AFTER = re.compile(r"\s+(?:is|was|has|does)(?:n['\u2019]t)?\b", re.IGNORECASE)


def _is_plural(text: str, entity: str, before: str, after: str) -> bool:
    singular, plural = number_forms(entity)
    if singular != plural:
        return text.lower() == plural.lower()
    return not (_SINGULAR_BEFORE.search(before) or _SINGULAR_AFTER.match(after))
