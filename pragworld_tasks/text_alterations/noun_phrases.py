"""Noun phrases and agreement, as far as the alterations of plain text need them."""

from pragworld_tasks.text_alterations.inflection import NUMBER_WORDS, is_plural, word_list
from pragworld_tasks.text_alterations.tokens import EntityMention, Sentence

# Forms of verbs that distinguish singular and plural.
PLURAL_VERBS = {
    **{"is": "are", "was": "were", "has": "have", "does": "do"},
    **{"isn't": "aren't", "wasn't": "weren't", "hasn't": "haven't", "doesn't": "don't"},
}
SINGULAR_VERBS = {plural: singular for singular, plural in PLURAL_VERBS.items()}
BE = word_list("is are was were isn't aren't wasn't weren't")
DETERMINERS = word_list("the this these those my your his her our their its")
PARTS_OF = (*DETERMINERS, *word_list("them us you it which whom"))
# Words that end a noun phrase and do not have to agree with it.
AFTER_NOUNS = word_list(
    "can can't could couldn't will won't would wouldn't should shouldn't may might must cannot "
    "in on at to into onto from by near under over inside outside behind beside with without for "
    "there here too now today tonight yesterday tomorrow already left altogether please each "
    "and or but because if when while before after so then as than"
)
# Words that a clause may follow within its sentence.
OPENERS = word_list("and but or so then well yes no that said says because if think know")


def is_number(word: str) -> bool:
    """Return whether a word is a number or part of one: "five", "twenty-one", "9:00", "13th"."""
    return word[:1].isdigit() or all(part in NUMBER_WORDS for part in word.split("-"))


_NO_ADJECTIVES = (*AFTER_NOUNS, *DETERMINERS, *PLURAL_VERBS, *SINGULAR_VERBS, "of", "more", "a")


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
