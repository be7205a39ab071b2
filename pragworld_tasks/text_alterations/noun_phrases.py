"""Noun phrases and agreement in plain text, as far as its alterations have to know them."""

from collections.abc import Sequence

from pragworld_tasks.text_alterations.entities import Mention
from pragworld_tasks.text_alterations.inflection import NUMBER_WORDS, is_plural, words
from pragworld_tasks.text_alterations.tokens import Sentence

# Forms of verbs that tell one from several.
PLURAL_VERBS = {
    **{"is": "are", "was": "were", "has": "have", "does": "do"},
    **{"isn't": "aren't", "wasn't": "weren't", "hasn't": "haven't", "doesn't": "don't"},
}
SINGULAR_VERBS = {plural: singular for singular, plural in PLURAL_VERBS.items()}
BE = words("is are was were isn't aren't wasn't weren't")
DETERMINERS = words("the this these those my your his her our their its")
PARTS_OF = words("them us you it this these those which whom") + DETERMINERS
# Words that a noun phrase is over before, and that do not have to agree with it.
AFTER_NOUNS = words(
    "can can't could couldn't will won't would wouldn't should shouldn't may might must cannot "
    "in on at to into onto from by near under over inside outside behind beside with without for "
    "there here too now today tonight yesterday tomorrow already left altogether please each "
    "and or but because if when while before after so then as than"
)
# What a clause may come after within its sentence.
OPENERS = words("and but or so then well yes no that said says because if think know")


def is_number(word: str) -> bool:
    """Whether a word is a number, or begins or ends one: "five", "twenty-one", "9:00", "13th"."""
    parts = word.split("-")
    return word[:1].isdigit() or all(part in NUMBER_WORDS for part in parts)


def named(sentence: Sentence, place: int, mentions: Sequence[Mention]) -> Mention | None:
    """The mention that a word is part of."""
    start = sentence.words[place].start
    for mention in mentions:
        if mention.utterance == sentence.utterance and mention.start <= start < mention.end:
            return mention
    return None


def mention_end(sentence: Sentence, place: int, mentions: Sequence[Mention]) -> int:
    """The last place of the mention that a word is part of, or that word's own."""
    mention = named(sentence, place, mentions)
    while mention and place + 1 < len(sentence.words):
        if sentence.words[place + 1].start >= mention.end:
            break
        place += 1
    return place


def noun_at(
    sentence: Sentence, place: int, mentions: Sequence[Mention], *, plural: bool
) -> tuple[int, Mention | None] | None:
    """Where the noun that begins at a place, or one word further on, ends, and what it mentions.

    Nouns that are no objects are known by their plural only; None where there is none.
    """
    for start in (place, place + 1):
        if start >= len(sentence.words) or not sentence.joined(start):
            return None
        mention = named(sentence, start, mentions)
        if mention:
            if mention.kind != "objects" or mention.ending or mention.is_plural != plural:
                return None
            return mention_end(sentence, start, mentions), mention
        word = sentence.at(start)
        if plural and is_plural(word):
            return start, None
        if word in (*AFTER_NOUNS, *DETERMINERS, *PLURAL_VERBS, *SINGULAR_VERBS, "of", "more", "a"):
            return None
        if is_number(word):
            return None
    return None
