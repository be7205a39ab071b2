"""A conversation in plain text as words in sentences, and changes to it.

An utterance is a line. What stands before its first colon, if that is a speaker's label ("Alice:",
"12: Person 1:"), is no part of what is said. A word is what a reader takes for one: "hands",
"didn't", "all-purpose", "9:00" have no smaller words in them.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pragworld_tasks.text_alterations.inflection import words

_LABEL = re.compile(
    r"\s*[\"\u201c]?(?:\d+[:.]\s+)?(?:[^\W\d_][\w.\u2019'-]*(?:\s+[\w.\u2019'-]+){0,2}:(?!\S))?"
)
_WORD = re.compile(r"(?:\d+(?:[.,:/]\d+)*|[^\W_])(?:\w|['\u2019-](?=\w))*")
_END = re.compile(r"[.?!]+[\"'\u201d\u2019)]*(?=\s|$)|[.?!]*[\"'\u201d\u2019)]*\s*$")
_TITLES = words("mr mrs ms dr st prof")

_AUXILIARIES = frozenset(
    f"{auxiliary}{ending}"
    for auxiliary in words(
        "is are was were do does did have has had could would should might must need"
    )
    for ending in ("", "n't")
) | {"am", "can", "can't", "cannot", "will", "won't", "shall", "shan't", "may"}
WH_WORDS = words(
    "what where who whom whose which why when how what's where's who's why's when's how's"
)
SUBJECTS = words("i you he she it we they")
# What may stand before the word that makes a question of a sentence.
_BEFORE_QUESTIONS = words(
    "and but or so then well oh ok okay now hey yes yeah no please sorry ah er um hm hmm really "
    "first also"
)


@dataclass(frozen=True, slots=True)
class Change:
    """One place where words are replaced.

    Attributes:
        utterance: number of the line, from 0.
        start: where in the original line the old words begin, in characters.
        old: the words that stand there, as they stand there.
        new: what stands there instead.
    """

    utterance: int
    start: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Altered:
    """A conversation with one alteration.

    Attributes:
        conversation: the altered text.
        alteration: one of `pragworld_tasks.data.documents.ALTERATIONS`.
        changes: what was changed, in the order of the text; nothing else was.
        answers_can_change: whether the answers to questions about the entities in focus can change,
            where the paper states it: its Algorithms 1 and 2 do.
    """

    conversation: str
    alteration: str
    changes: tuple[Change, ...]
    answers_can_change: bool | None


@dataclass(frozen=True, slots=True)
class Word:
    """A word of an utterance.

    Attributes:
        text: as it stands there.
        start: where in the line it begins.
    """

    text: str
    start: int

    @property
    def end(self) -> int:
        """Where in the line the word is over."""
        return self.start + len(self.text)

    @property
    def lower(self) -> str:
        """The word in lower case, its apostrophes straight."""
        return self.text.lower().replace("\u2019", "'")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, or what a line has of one.

    Attributes:
        utterance: number of its line, from 0.
        line: the whole line.
        words: its words, at least one.
        opens: whether it is the first of its utterance.
        is_question: whether it ends in a question mark, or begins as a question does, as many
            conversations are written without any marks.
    """

    utterance: int
    line: str
    words: tuple[Word, ...]
    opens: bool
    is_question: bool

    def at(self, place: int) -> str:
        """The word at a place, in lower case; "" beyond either end."""
        return self.words[place].lower if 0 <= place < len(self.words) else ""

    def joined(self, place: int) -> bool:
        """Whether nothing but blanks stands between the word at a place and the one before it."""
        if not 0 < place < len(self.words):
            return False
        return not self.line[self.words[place - 1].end : self.words[place].start].strip()

    def before(self, place: int) -> str:
        """The word before a place, in lower case; "" where there is none or marks intervene."""
        return self.at(place - 1) if self.joined(place) else ""

    def after(self, place: int) -> str:
        """The word after a place, in lower case; "" where there is none or marks intervene."""
        return self.at(place + 1) if self.joined(place + 1) else ""

    def phrase_start(self, place: int) -> int:
        """The first place of the run of words without marks that a place is in."""
        while self.joined(place):
            place -= 1
        return place

    def change(self, first: int, last: int, new: str) -> Change:
        """The change that puts new words for those from the first place to the last."""
        start, end = self.words[first].start, self.words[last].end
        return Change(self.utterance, start, self.line[start:end], new)


def said_from(line: str) -> int:
    """Where in a line the label is over and what is said begins."""
    label = _LABEL.match(line)
    return label.end() if label else 0


def read_sentences(conversation: str) -> Iterator[Sentence]:
    """The sentences of a conversation, in order. Never raises."""
    for utterance, line in enumerate(conversation.split("\n")):
        found: list[Word] = []
        opens = True
        for match in _WORD.finditer(line, said_from(line)):
            found.append(Word(match[0], match.start()))
            end = _END.match(line, match.end())
            if end and not (end[0].startswith(".") and found[-1].lower in _TITLES):
                is_question = "?" in end[0] or _is_question(found)
                yield Sentence(utterance, line, tuple(found), opens, is_question)
                found, opens = [], False
        if found:
            yield Sentence(utterance, line, tuple(found), opens, _is_question(found))


def apply(
    conversation: str,
    alteration: str,
    changes: Iterable[Change],
    answers_can_change: bool | None = None,
) -> Altered:
    """The conversation with the changes made, all at once; they must not overlap."""
    changes = sorted(changes, key=lambda change: (change.utterance, change.start))
    lines = conversation.split("\n")
    for change in reversed(changes):
        line, end = lines[change.utterance], change.start + len(change.old)
        lines[change.utterance] = line[: change.start] + change.new + line[end:]
    return Altered("\n".join(lines), alteration, tuple(changes), answers_can_change)


def _is_question(found: list[Word]) -> bool:
    """Whether words begin as a question does, or end in one ("isn't it")."""
    first = next((word.lower for word in found if word.lower not in _BEFORE_QUESTIONS), "")
    tag = [word.lower for word in found[-2:]]
    ends_in_tag = tag[0] in _AUXILIARIES and tag[-1] in SUBJECTS
    return first in _AUXILIARIES or first in WH_WORDS or ends_in_tag
