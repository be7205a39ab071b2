"""Where a conversation says that its things and people are, as far as its words tell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import word_list
from pragworld_tasks.text_alterations.noun_phrases import is_number
from pragworld_tasks.text_alterations.tokens import EntityKind, Sentence

_PARTS = {*word_list("shares"), "any", "a", "an"} - {"all", "both"}
_ARTICLES = (*word_list("determiners"), "a", "an")
_PRONOUNS: dict[EntityKind, set[str]] = {
    "agents": {"he", "he's", "she", "she's"},
    "objects": {"it", "it's", "they", "they're", "them"},
}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a statement, or a question with its reply, says that an entity is.

    Attributes:
        places: The places, in one of which it is. None if nothing tells.
        denied: The places where it is not.
        is_part: Whether only some things of the kind are meant.
    """

    places: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    is_part: bool = False

    def contradicts(self, other: "Placement") -> bool:
        """Return whether the two cannot both be true of the same entity at the same time."""
        if self.denied & other.places or other.denied & self.places:
            return True
        is_apart = bool(self.places and other.places) and not self.places & other.places
        return is_apart and not (self.is_part and other.is_part)


def placement(
    conversation: Conversation, sentence: Sentence, first: int, last: int, kind: EntityKind
) -> Placement:
    """Return where a sentence, or a question with its reply, says that an entity is.

    If a reply does not tell, the reply to a question that goes on about the entity may: "I don't
    know. / Did you see them in the den?".

    Args:
        conversation: The conversation.
        sentence: The sentence that mentions the entity.
        first: The place of the first word of the mention.
        last: The place of its last word.
        kind: The kind of the entity.
    """
    if kind == "locations":
        return Placement()
    asked = Placement(
        frozenset(_places(conversation, sentence, last + 1, kind)),
        is_part=_is_part(sentence.all_before(first)[-4:]),
    )
    if not sentence.is_question:
        if sentence.is_negative:
            return replace(asked, places=frozenset(), denied=asked.places)
        return asked
    while True:
        told = _answered(conversation, sentence, asked, kind)
        following = [
            other
            for other in _sentences(conversation, sentence.utterance + 2, kind)
            if other.is_question and _PRONOUNS[kind] & {word.lower for word in other.words}
        ]
        if told.places or not following:
            return told
        sentence = following[0]
        asked = replace(told, places=frozenset(_places(conversation, sentence, 0, kind)))


def _answered(
    conversation: Conversation, question: Sentence, asked: Placement, kind: EntityKind
) -> Placement:
    """Return where the reply to a question says that an entity is.

    Args:
        conversation: The conversation.
        question: The question.
        asked: The places that it asks about, and what is known before.
        kind: The kind of the entity.
    """
    unknown = replace(asked, places=frozenset())
    reply = _sentences(conversation, question.utterance + 1, kind)
    words = [word.lower for sentence in reply for word in sentence.words]
    if not words or not {*word_list("opinions")}.isdisjoint(words):
        return unknown
    is_no = words[0] in word_list("no") or any(sentence.is_negative for sentence in reply)
    is_yes = words[0] in word_list("yes") or words[:2] == ["there", "are"]
    if not (is_no or is_yes or _is_about(words, kind)):
        return unknown
    said, denied = set[str](), {*asked.denied}
    for sentence in reply:
        found = denied if sentence.is_negative else said
        found.update(_places(conversation, sentence, 0, kind))
    if is_no and not {*word_list("be")}.isdisjoint(word.lower for word in question.words):
        denied |= asked.places
    elif is_yes:
        said |= asked.places
    is_part = (asked.is_part or _is_part(words)) and {"all", "both"}.isdisjoint(words)
    return Placement(frozenset(said), frozenset(denied - said), is_part)


def _sentences(conversation: Conversation, utterance: int, kind: EntityKind) -> list[Sentence]:
    """Return the sentences of an utterance, none if it mentions entities of a kind."""
    return [
        sentence
        for sentence in conversation.sentences
        if sentence.utterance == utterance
        and not any(mention.kind == kind for mention in sentence.mentions)
    ]


def _is_about(words: Sequence[str], kind: EntityKind) -> bool:
    """Return whether a reply is about the entity that was asked for: "They are …", "In …"."""
    counts = not {*word_list("shares")}.isdisjoint(words) or any(map(is_number, words))
    begins = words[0] in word_list("place_prepositions")
    return counts or begins or not _PRONOUNS[kind].isdisjoint(words)


def _is_part(words: Sequence[str]) -> bool:
    return not _PARTS.isdisjoint(words) or any(map(is_number, words))


def _places(
    conversation: Conversation, sentence: Sentence, start: int, kind: EntityKind | None
) -> Iterator[str]:
    """Yield the places that a sentence names from a word on, up to the next mention of a kind.

    Without a kind, "there" names none.
    """
    names_any = False
    for place in range(start, len(sentence.words)):
        word, mention = sentence.at(place), sentence.mention_at(place)
        link = place - 1
        while sentence.at(link) in _ARTICLES:
            link -= 1
        before = sentence.at(link)
        if mention and mention.start != sentence.words[place].start:
            continue
        names = set[str]()
        if mention and mention.kind == "locations":
            names = {mention.entity} if before not in ("to", "from") else names
        elif word == "there" and kind and not _is_existential(sentence, place):
            names = {*_places_before(conversation, sentence.utterance)}
        elif word == "here" or (
            before in ("or", *word_list("place_prepositions")) and word not in _ARTICLES
        ):
            names = {word}
        elif mention and mention.kind == kind and (names_any or before not in ("and", "or")):
            return
        names_any = names_any or bool(names)
        yield from names


def _is_existential(sentence: Sentence, place: int) -> bool:
    """Return whether a "there" names no place: "there are two", "are there two"."""
    after, before = sentence.after(place), sentence.before(place)
    return bool(after) and not {after, before}.isdisjoint(word_list("be"))


def _places_before(conversation: Conversation, utterance: int) -> Iterator[str]:
    """Yield the places that the utterance before names, for which "there" stands."""
    for sentence in conversation.sentences:
        if sentence.utterance == utterance - 1:
            yield from _places(conversation, sentence, 0, None)
