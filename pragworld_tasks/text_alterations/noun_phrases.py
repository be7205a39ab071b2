"""Noun phrases and agreement, as far as the alterations of plain text need them."""

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import (
    ENGLISH,
    NUMBER_WORDS,
    is_plural,
    number_forms,
    word_list,
)
from pragworld_tasks.text_alterations.tokens import EntityMention, Sentence

PLURAL_VERBS: dict[str, str] = ENGLISH["plural_verbs"]
SINGULAR_VERBS = {plural: singular for singular, plural in PLURAL_VERBS.items()}
# The number of utterances before and after one that may speak of the same things.
NEARBY = 2


def nearby_words(conversation: Conversation, sentence: Sentence, before: int = 0) -> list[str]:
    """Return the words in lower case of the other sentences near one, at most so far before it."""
    words = list[str]()
    for other in conversation.sentences:
        if other is not sentence and -before <= other.utterance - sentence.utterance <= NEARBY:
            words += other.lower
    return words


def is_number(word: str) -> bool:
    """Return whether a word is a number or part of one: "five", "twenty-one", "9:00", "13th"."""
    return word[:1].isdigit() or all(part in NUMBER_WORDS for part in word.split("-"))


_NO_ADJECTIVES = {
    *(*word_list("after_nouns"), *word_list("determiners"), *word_list("past"), "of", "more", "a"),
    *(*PLURAL_VERBS, *SINGULAR_VERBS, *word_list("shares"), *word_list("subjects")),
} - {"other"}


def noun_at(
    sentence: Sentence, place: int, *, plural: bool
) -> tuple[int, EntityMention | None] | None:
    """Return where the noun that begins at a place or up to two words later ends, and its mention.

    Nouns that are not listed as objects are recognized by their plural only.
    """
    for start in (place, place + 1, place + 2):
        if not sentence.joined(start):
            return None
        if mention := sentence.mention_at(start):
            if mention.kind != "objects" or mention.ending or mention.is_plural != plural:
                return None
            return sentence.mention_end(start), mention
        word = sentence.at(start)
        if plural and is_plural(word):
            return start, None
        if is_number(word) or word in _NO_ADJECTIVES:
            return None
    return None


_NO_NOUNS = (
    *(*word_list("after_nouns"), *word_list("auxiliaries"), *word_list("subjects")),
    *(*word_list("parts_of"), *word_list("past"), *word_list("prepositions"), "a", "an"),
)


def counted_noun(conversation: Conversation, sentence: Sentence, place: int) -> str:
    """Return the noun of what the number or quantifier at a place counts, in the singular.

    In "some of the blue cups" that is "cup". "Some are" and "two of them" count what the question
    before asks for, if it names one sort of things, and else give "".
    """
    noun, is_definite = "", False
    for start in range(place + 1, place + 5):
        if not sentence.joined(start):
            break
        word, mention = sentence.at(start), sentence.mention_at(start)
        if mention:
            return number_forms(mention.entity)[0].lower()
        if is_plural(word) and word != "ones":
            return number_forms(word)[0]
        if word in word_list("determiners") and sentence.after(start) not in ("", *_NO_NOUNS):
            is_definite = True  # "all of the work"
        elif word in _NO_NOUNS:
            break
        elif is_definite and word != "other" and not is_number(word):
            noun = word
    return noun or _noun_asked_for(conversation, sentence)


def _noun_asked_for(conversation: Conversation, sentence: Sentence) -> str:
    """Return the noun of the things that a question in the utterance before names, if one sort."""
    before = sentence.utterance - 1
    asks = any(other.is_question for other in conversation.sentences if other.utterance == before)
    nouns = {
        number_forms(mention.entity)[0].lower()
        for mention in conversation.mentions
        if mention.utterance == before and mention.is_plural
    }
    return nouns.pop() if asks and len(nouns) == 1 else ""
