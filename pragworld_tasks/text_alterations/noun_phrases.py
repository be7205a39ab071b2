"""Noun phrases and agreement, as far as the alterations of plain text need them."""

from pragworld_tasks.text_alterations.inflection import ENGLISH, NUMBER_WORDS, is_plural, word_list
from pragworld_tasks.text_alterations.tokens import EntityMention, Sentence

PLURAL_VERBS: dict[str, str] = ENGLISH["plural_verbs"]
SINGULAR_VERBS = {plural: singular for singular, plural in PLURAL_VERBS.items()}


def is_number(word: str) -> bool:
    """Return whether a word is a number or part of one: "five", "twenty-one", "9:00", "13th"."""
    return word[:1].isdigit() or all(part in NUMBER_WORDS for part in word.split("-"))


_NO_ADJECTIVES = (
    *(*word_list("after_nouns"), *word_list("determiners"), "of", "more", "a"),
    *(*PLURAL_VERBS, *SINGULAR_VERBS),
)


def noun_at(
    sentence: Sentence, place: int, *, plural: bool
) -> tuple[int, EntityMention | None] | None:
    """Find the noun, in singular or plural, that begins at a place or one word later.

    Nouns that are not listed as objects are recognized by their plural only.

    Returns:
        The place where the noun ends and the mention that it is, if any; None without such a noun.
    """
    for start in (place, place + 1):
        if start >= len(sentence.words) or not sentence.joined(start):
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
