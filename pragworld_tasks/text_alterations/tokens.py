"""The words, sentences and mentions of entities of a conversation, and replacements in it.

Each line is a turn, or goes on with one if only others have labels. A speaker's label before its
first colon ("Alice:", "12: Person 1:") is not part of its sentences. A word is what a reader takes
for one: "hands", "didn't", "all-purpose" and "9:00" contain no smaller words.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Literal

from pragworld_tasks.text_alterations.inflection import (
    article,
    like_case,
    number_forms,
    typed,
    word_list,
)

_LABEL = re.compile(
    r"\s*[\"\u201c]?(?:\d+[:.]\s+)?(?:[^\W\d_][\w.\u2019'-]*(?:\s+[\w.\u2019'-]+){0,2}:(?!\S))?"
)
_WORD = re.compile(r"(?:\d+(?:[.,:/]\d+)*|[^\W_])(?:\w|['\u2019-](?=\w))*")
_END = re.compile(r"[.?!]+[\"'\u201d\u2019)]*(?=\s|$)|[.?!]*[\"'\u201d\u2019)]*\s*$")


@dataclass(frozen=True, slots=True)
class TextReplacement:
    """A place in a conversation where words are replaced."""

    utterance: int  # the number of the line, from 0
    start: int  # where the old words begin in the original line, in characters
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class AlteredConversation:
    """A conversation with one alteration.

    Attributes:
        text: The altered conversation.
        alteration: The name of the alteration, one of `pragworld_tasks.data.documents.ALTERATIONS`.
        replacements: All that was changed, in the order of the text.
        answers_can_change: Whether the answers to questions about the entities in focus can change,
            or None if that is not known. The paper's Algorithms 1 and 2 tell, and so do clauses of
            inconsistent data that move, change or destroy something.
    """

    text: str
    alteration: str
    replacements: tuple[TextReplacement, ...]
    answers_can_change: bool | None = None


EntityKind = Literal["agents", "objects", "locations"]


def entity_forms(entity: str, kind: EntityKind) -> tuple[str, ...]:
    """Return the forms of an entity: singular and plural of an object, else only the entity."""
    return number_forms(entity) if kind == "objects" else (entity,)


@dataclass(frozen=True, slots=True)
class EntityMention:
    """A place where a conversation names an entity."""

    utterance: int  # the number of the turn, from 0
    start: int  # where the mention begins in the turn
    text: str
    ending: str  # of a possessive: "'s", "'" or ""
    kind: EntityKind
    entity: str  # as listed
    is_plural: bool  # of an object; the words beside it tell if singular and plural are one
    indefinite: str  # the "a" or "an" before it, with the blank between them, or ""

    @property
    def end(self) -> int:
        """Where the mention ends in the turn, with its possessive ending."""
        return self.start + len(self.text) + len(self.ending)

    def form_of(self, entity: str) -> str:
        """Return an entity of the kind in the mention's number, in letter case as listed."""
        return entity_forms(entity, self.kind)[self.is_plural]

    def replace(self, entity: str) -> TextReplacement:
        """Return the replacement of the mention by another entity of the kind.

        Number, letter case, possessive ending and a preceding article are kept or adjusted.
        """
        old_form, new_form = self.form_of(self.entity), self.form_of(entity)
        model = self.text[0] if self.text == old_form else self.text  # "UK" is in no capitals
        is_typed = self.text == typed(old_form) != old_form
        new = typed(new_form) if is_typed else like_case(model, new_form)
        ending = self.ending
        if self.is_plural and new[-1].lower() == "s":
            ending = ending[:1]  # the apples' colour, for the geese's
        elif len(ending) == 1 and new[-1].lower() != "s":
            ending += "S" if model[1:].isupper() else "s"
        before, new_article = "", article(new_form)
        if self.indefinite.rstrip().lower() == article(old_form) != new_article:
            before = self.indefinite
            new = f"{like_case(model if model[1:].isupper() else before, new_article)} {new}"
        old = before + self.text + self.ending
        return TextReplacement(self.utterance, self.start - len(before), old, new + ending)


@dataclass(frozen=True, slots=True)
class Word:
    """A word, where it begins and ends in its turn, and in lower case with straight apostrophes."""

    text: str
    start: int
    end: int
    lower: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of one or more words in a turn, which is `line` and has a number from 0.

    The methods take a place, which is the index of a word in `words`.
    """

    utterance: int
    line: str
    words: tuple[Word, ...]
    mentions: tuple[EntityMention, ...]

    @property
    def lower(self) -> list[str]:
        """The words in lower case."""
        return [word.lower for word in self.words]

    @property
    def is_question(self) -> bool:
        """Whether it ends with "?" or, as many have no punctuation, begins as a question does."""
        end = _END.match(self.line, self.words[-1].end)
        fillers = word_list("before_questions")
        first = next((word for word in self.lower if word not in fillers), "")
        begins = first in (*word_list("auxiliaries"), *word_list("wh_words"))
        return begins or bool(end and "?" in end[0])

    @property
    def mention_places(self) -> list[tuple[int, EntityMention]]:
        """The places where mentions begin in the sentence, with the mentions."""
        places = {word.start: place for place, word in enumerate(self.words)}
        return [(places[each.start], each) for each in self.mentions if each.start in places]

    @property
    def is_negative(self) -> bool:
        """Whether it denies something, apart from a "no" that it begins with."""
        first = self.at(0) in word_list("no")
        return any(
            word.lower.endswith("n't")
            or (word.lower in word_list("negative_words") and self.before(place) != "if")
            for place, word in enumerate(self.words[first:], start=first)
        )

    def at(self, place: int) -> str:
        """Return the word at a place in lower case, or "" beyond either end."""
        return self.words[place].lower if 0 <= place < len(self.words) else ""

    def joined(self, place: int) -> bool:
        """Return whether only blanks separate the word at a place from the one before it."""
        if not 0 < place < len(self.words):
            return False
        return not self.line[self.words[place - 1].end : self.words[place].start].strip()

    def before(self, place: int) -> str:
        """Return the word before a place in lower case, or "" if punctuation intervenes."""
        return self.at(place - 1) if self.joined(place) else ""

    def after(self, place: int) -> str:
        """Return the word after a place in lower case, or "" if punctuation intervenes."""
        return self.at(place + 1) if self.joined(place + 1) else ""

    def all_before(self, place: int) -> list[str]:
        """Return the words before a place in lower case, up to the nearest punctuation."""
        joined = [*takewhile(self.joined, count(place, -1))]
        return self.lower[place - len(joined) : place]

    def all_after(self, place: int) -> list[str]:
        """Return the words after a place in lower case, up to the nearest punctuation."""
        return [self.at(after) for after in takewhile(self.joined, count(place + 1))]

    def mention_at(self, place: int) -> EntityMention | None:
        """Return the mention that the word at a place is part of."""
        start = self.words[place].start
        return next((each for each in self.mentions if each.start <= start < each.end), None)

    def mention_end(self, place: int) -> int:
        """Return the last place of the mention that a word is part of, or the word's own place."""
        mention = self.mention_at(place)
        return sum(word.start < mention.end for word in self.words) - 1 if mention else place

    def unnamed_places(self) -> list[int]:
        """Return the places of the words that are not part of a mention."""
        return [place for place in range(len(self.words)) if not self.mention_at(place)]

    def text(self, first: int, last: int) -> str:
        """Return the text from the word at one place to the word at another."""
        return self.line[self.words[first].start : self.words[last].end]

    def replace(self, first: int, last: int, new: str) -> TextReplacement:
        """Return the replacement of the words from one place to another."""
        return TextReplacement(self.utterance, self.words[first].start, self.text(first, last), new)

    def replace_word(self, place: int, new: str) -> TextReplacement:
        """Return the replacement of the word at a place, in its letter case."""
        return self.replace(place, place, like_case(self.words[place].text, new))


def label_end(line: str) -> int:
    """Return where the speaker's label of a line ends."""
    label = _LABEL.match(line)
    return label.end() if label else 0


def read_sentences(turns: Sequence[str], mentions: Sequence[EntityMention]) -> Iterator[Sentence]:
    """Yield the sentences of turns in order, with the mentions in them."""
    for utterance, line in enumerate(turns):
        here = [mention for mention in mentions if mention.utterance == utterance]
        words: list[Word] = []
        matches = [*_WORD.finditer(line, label_end(line))]
        for match in matches:
            lower = match[0].lower().replace("\u2019", "'")
            words.append(Word(match[0], match.start(), match.end(), lower))
            end = _END.match(line, match.end())
            is_title = end and end[0].startswith(".") and lower in word_list("titles")
            if match is matches[-1] or (end and not is_title):
                first, last = words[0].start, words[-1].start
                own = tuple(mention for mention in here if first <= mention.start <= last)
                yield Sentence(utterance, line, tuple(words), own)
                words = []
