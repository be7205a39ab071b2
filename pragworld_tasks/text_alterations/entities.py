"""The agents, objects and locations of a conversation in plain text: the lists, and the mentions.

The lists are those that the PragWorld paper's Algorithms 1 to 5 start from (appendix A.1): all,
focus, and remaining, which is all without focus.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_text
from pragworld_tasks.text_alterations.inflection import article, like_case, number_forms
from pragworld_tasks.text_alterations.tokens import Change, read_sentences, said_from

Kind = Literal["agents", "objects", "locations"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Entities:
    """Who and what a conversation is about, as it names them, and what the questions focus on.

    An object stands for its singular and its plural, whichever is given. A name given with capital
    letters is found only so or in ALL CAPS, so that Will is not taken for a verb.

    Raises:
        InputError: an entity twice, in two lists, or in focus and not in the list of all.
    """

    agents: tuple[str, ...]
    objects: tuple[str, ...]
    locations: tuple[str, ...]
    focus_agents: tuple[str, ...] = ()
    focus_objects: tuple[str, ...] = ()
    focus_locations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for kind in KINDS:
            for entity in self.all(kind):
                for form in {form.casefold() for form in _forms(entity, kind)}:
                    if form in seen:
                        raise InputError(
                            f"{entity!r} in {kind!r} is the same as one in {seen[form]!r}; "
                            "a mention could be either, so give each entity once"
                        )
                for form in _forms(entity, kind):
                    seen[form.casefold()] = kind
            for index, entity in enumerate(focus := self.focus(kind)):
                if entity not in self.all(kind):
                    raise InputError(f"{entity!r} in 'focus_{kind}' is not in {kind!r}")
                if entity in focus[:index]:
                    raise InputError(f"{entity!r} stands twice in 'focus_{kind}'")

    def all(self, kind: Kind) -> tuple[str, ...]:
        """The list of all entities of a kind."""
        return {"agents": self.agents, "objects": self.objects, "locations": self.locations}[kind]

    def focus(self, kind: Kind) -> tuple[str, ...]:
        """The list of the entities of a kind that the questions are about."""
        focus = (self.focus_agents, self.focus_objects, self.focus_locations)
        return focus[KINDS.index(kind)]

    def remaining(self, kind: Kind) -> tuple[str, ...]:
        """All entities of a kind without those in focus."""
        return tuple(entity for entity in self.all(kind) if entity not in self.focus(kind))


def read_entities(path: Path) -> Entities:
    """The entities in a JSON file.

    It holds an object with the lists `agents`, `objects` and `locations`, any of which may be
    empty, and optionally `focus_agents`, `focus_objects` and `focus_locations`.

    Raises:
        InputError: the file cannot be read, or does not hold that.
    """
    try:
        record = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error})") from error
    if not isinstance(record, dict):
        raise InputError(f"{path}: not a JSON object with the lists {', '.join(KINDS)}")
    known = [*KINDS, *(f"focus_{kind}" for kind in KINDS)]
    for key in record:
        if key not in known:
            raise InputError(f"{path}: unknown key {key!r}; known are {', '.join(known)}")
    for key in KINDS:
        if key not in record:
            raise InputError(f"{path}: no list {key!r}; it may be empty")
    for key, values in record.items():
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise InputError(f"{path}: {key!r} is not a list of texts")
        for value in values:
            if not re.fullmatch(r"\w(?:[^\n]*\w)?", value):
                raise InputError(
                    f"{path}: {value!r} in {key!r} does not begin and end with a letter or digit"
                )
    try:
        return Entities(**{key: tuple(values) for key, values in record.items()})
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True)
class Mention:
    """A place where a conversation names an entity.

    Attributes:
        utterance, start: number of the line, and where in it the mention begins, from 0.
        text: the words that stand there, without what makes a possessive of them.
        ending: what makes a possessive of them: "'s", "'" or "".
        kind, entity: what is named, the entity as in its list.
        is_plural: whether that is the plural of an object. Where both forms are one, what stands
            beside it tells.
        opens: whether it is the first of its sentence.
        indefinite: the "a" or "an" right before it with the blank between, as they stand there.
    """

    utterance: int
    start: int
    text: str
    ending: str
    kind: Kind
    entity: str
    is_plural: bool
    opens: bool
    indefinite: str

    @property
    def end(self) -> int:
        """Where in the line the mention is over, its possessive ending included."""
        return self.start + len(self.text) + len(self.ending)

    def form_of(self, entity: str) -> str:
        """An entity of this kind in this mention's number, in letter case as listed."""
        return number_forms(entity)[self.is_plural] if self.kind == "objects" else entity

    def replaced_by(self, entity: str) -> Change:
        """The change that names another entity of the kind here.

        Number, letter case, possessive ending and a preceding article are as the place needs them.
        """
        given, form = self.form_of(self.entity), self.form_of(entity)
        in_capitals = self.text != given and self.text.isupper()
        words = form.upper() if in_capitals else form
        if self.text[0].isupper() and (self.text != given or self.opens):
            words = words[0].upper() + words[1:]
        ending = self.ending
        if self.is_plural and words[-1].lower() == "s":
            ending = ending[:1]  # the apples' colour, after the geese's
        elif len(ending) == 1 and words[-1].lower() != "s":
            ending += "S" if in_capitals else "s"
        old, new = self.text + self.ending, words + ending
        stood = self.indefinite.rstrip()
        if stood.lower() == article(given) != (now := article(form)):
            now = now.upper() if in_capitals and stood.isupper() else like_case(stood, now)
            blank = self.indefinite[len(stood) :]
            start = self.start - len(self.indefinite)
            return Change(self.utterance, start, self.indefinite + old, now + blank + new)
        return Change(self.utterance, self.start, old, new)


def find_mentions(conversation: str, entities: Entities) -> list[Mention]:
    """Where a conversation names the entities, in order; speakers' labels name nobody.

    A mention is of whole words, and of as many as possible: "green peppers" is no mention of
    "peppers" where both are listed, and neither are "all-purpose" and "hands" of "purpose", "hand".
    """
    named: dict[str, tuple[Kind, str, tuple[str, ...]]] = {}
    for kind in KINDS:
        for entity in entities.all(kind):
            forms = _forms(entity, kind)
            for form in forms:
                capital = form[0].upper() + form[1:]
                for variant in (form, form.upper(), *([capital] if form == form.lower() else [])):
                    named.setdefault(variant, (kind, entity, forms))
    if not named:
        return []
    pattern = re.compile(
        r"(?<!\w)(?<!\w['\u2019-])"
        rf"(?P<text>{'|'.join(map(re.escape, sorted(named, key=len, reverse=True)))})"
        r"(?P<ending>['\u2019][sS]?(?!\w))?(?!\w|-\w|['\u2019](?!(?:ll|d|re|ve)\b)\w)"
    )
    firsts = {
        (sentence.utterance, sentence.words[0].start) for sentence in read_sentences(conversation)
    }
    mentions = []
    for utterance, line in enumerate(conversation.split("\n")):
        for match in pattern.finditer(line, said_from(line)):
            text, ending = match["text"], match["ending"] or ""
            before = line[said_from(line) : match.start()]
            if len(ending) == 1 and (
                text[-1].lower() != "s" or line[match.start() - 1] in "'\u2018"
            ):
                ending = ""  # a closing quotation mark
            kind, entity, forms = named[text]
            indefinite = re.search(r"(?<![\w'\u2019-])an?\s+$", before, re.IGNORECASE)
            if kind != "objects":
                is_plural = False
            elif forms[0] != forms[1]:
                is_plural = text.lower() == forms[1].lower()
            else:
                is_plural = not _SINGULAR_BEFORE.search(before) and not _SINGULAR_BEHIND.match(
                    line, match.end()
                )
            mentions.append(
                Mention(
                    utterance=utterance,
                    start=match.start(),
                    text=text,
                    ending=ending,
                    kind=kind,
                    entity=entity,
                    is_plural=is_plural,
                    opens=(utterance, match.start()) in firsts,
                    indefinite=indefinite[0] if indefinite else "",
                )
            )
    return mentions


def check_entities(conversation: str, entities: Entities) -> None:
    """Makes sure that a conversation names every entity, not counting speakers' labels.

    Raises:
        InputError: it does not.
    """
    found = {(mention.kind, mention.entity) for mention in find_mentions(conversation, entities)}
    labels = " ".join(line[: said_from(line)] for line in conversation.split("\n"))
    for kind in KINDS:
        for entity in entities.all(kind):
            if (kind, entity) not in found:
                only = re.search(rf"(?<!\w){re.escape(entity)}(?!\w)", labels, re.IGNORECASE)
                raise InputError(
                    f"{entity!r} in {kind!r} occurs in the conversation only as a speaker's label, "
                    "which is never altered; leave it out"
                    if only
                    else f"{entity!r} in {kind!r} does not occur in the conversation, "
                    "letter case and whole words considered"
                )


# Beside a noun with one form for both numbers.
_SINGULAR_BEFORE = re.compile(
    r"(?<![\w'\u2019-])(?:an?|one|each|every|this|that|another)\s+$", re.IGNORECASE
)
_SINGULAR_BEHIND = re.compile(
    r"\s+(?:is|was|has|does|isn['\u2019]t|wasn['\u2019]t|hasn['\u2019]t|doesn['\u2019]t)\b",
    re.IGNORECASE,
)


def _forms(entity: str, kind: Kind) -> tuple[str, ...]:
    return number_forms(entity) if kind == "objects" else (entity,)
