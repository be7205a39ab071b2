"""What differs between a line and its altered version, as far as a program can tell.

Each check compares the words of two lines without their speakers' labels. Words that merely agree
with what changed ("is" and "are", "apple" and "apples") may change with it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import is_plural, number_forms, word_list
from pragworld_tasks.text_alterations.noun_phrases import PLURAL_VERBS, is_number
from pragworld_tasks.text_alterations.nouns import is_known_noun
from pragworld_tasks.text_alterations.tokens import EntityMention, label_end

_WORD = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_]+(?:['\u2019-][^\W_]+)*")
_FREE = {"a", "an", "the", "of"}
# Words of one group agree with different numbers.
_OF_NUMBERS = [
    *({"it", "they"}, {"it", "them"}, {"its", "their"}, {"its", "theirs"}, {"it's", "they're"}),
    *({"this", "these"}, {"that", "those"}, {"that's", "those"}, {"that's", "those're"}),
    *({"there's", "there"}, {"itself", "themselves"}),
    *({singular, plural} for singular, plural in PLURAL_VERBS.items()),
]
# Words of one group agree with different nouns or people.
_OF_NOUNS = [
    {"he", "she", "it", "they", "him", "her", "them"},
    {"his", "her", "hers", "its", "their", "theirs"},
    {"he's", "she's", "it's", "they're"},
    {"himself", "herself", "itself", "themselves"},
]
_QUANTIFIERS = {
    *("all", "some", "every", "each", "most", "many", "much", "several", "few", "little", "any"),
    *("both", "half", "lot", "lots", "everyone", "someone", "anyone", "everybody", "somebody"),
    *("anybody", "everything", "something", "anything"),
}
_CONNECTIVES = {"and", "or", "both", "either"}
_TIMES = {"once", "twice", "thrice", "dozen"}
_NEGATIONS = {*word_list("negative_words"), "no-one", "nor"}
_WITH_NEGATION = {
    *("yes", "yeah", "yep", "nope", "nah", "do", "does", "did", "one", "some", "any"),
    *("something", "anything", "someone", "anyone", "somewhere", "anywhere", "somebody"),
    *("anybody", "already", "yet", "still", "anymore", "more", "too", "either", "ever", "is"),
    *("are", "was", "were", "have", "has", "had", "can", "could", "will", "would"),
}
# Auxiliaries that say when, or whether it is certain: a negation leaves them as they are.
_TENSES = {
    **{"is": "is", "are": "is", "was": "was", "were": "was", "do": "do", "does": "do"},
    **{"did": "did", "can": "can", "ca": "can", "could": "could", "will": "will", "wo": "will"},
    "would": "would",
}
# With these, a verb has another form than by itself.
_BEFORE_VERBS = {"do", "does", "did", "have", "has", "had"}
# Words of which no other form follows an auxiliary; "left" is a verb as well.
_NO_VERBS = {
    *word_list("after_nouns"),
    *word_list("prepositions"),
    *word_list("before_times"),
    *("above", "across", "along", "around", "below", "beneath", "between", "through", "ever"),
    *word_list("subjects"),
    *word_list("determiners"),
    *("never", "him", "me", "us", "them"),
} - {"left"}
# Forms of a verb that share less than two first letters.
_FORMS = [
    {"be", "is", "are", "was", "were"},
    *({"go", "goes", "went"}, {"eat", "ate"}, {"take", "took", "taken"}, {"give", "gave", "given"}),
    *({"see", "saw", "seen"}, {"come", "came"}, {"buy", "bought"}, {"find", "found"}),
    *({"get", "got"}, {"tell", "told"}, {"run", "ran"}, {"sell", "sold"}, {"wear", "wore"}),
    *({"hold", "held"}, {"sit", "sat"}, {"win", "won"}, {"fall", "fell"}, {"hang", "hung"}),
]
_FEWEST_INJECTED, _MOST_INJECTED = 3, 30  # words


def _words(text: str) -> list[str]:
    return [match[0].lower().replace("\u2019", "'") for match in _WORD.finditer(text)]


def numbers(text: str) -> list[str]:
    """Return the words of a text that are numbers, or "once" and the like.

    >>> numbers("Two of the five were seen twice on 3 May.")
    ['two', 'five', 'twice', '3']
    """
    return [word for word in _words(text) if is_number(word) or word in _TIMES]


def quantifiers(text: str) -> list[str]:
    """Return the quantifiers of a text."""
    return [word for word in _words(text) if word in _QUANTIFIERS]


def connectives(text: str) -> list[str]:
    """Return the "and" and "or" of a text."""
    return [word for word in _words(text) if word in ("and", "or")]


def _negations(words: Iterable[str]) -> list[str]:
    return [word for word in words if word in _NEGATIONS or word.endswith("n't")]


def _without_negation(words: Iterable[str]) -> list[str]:
    return [word.removesuffix("n't") for word in words]


# The checks ---------------------------------------------------------------------------------------


def changes_negation(old: str, new: str) -> bool:
    """Return whether a negation is added or removed, with the words that have to change with it.

    >>> changes_negation("He took the plums.", "He did not take the plums.")
    True
    >>> changes_negation("He took the plums.", "He did not take the pears.")
    False
    """
    before, after = _words(old), _words(new)
    if len(_negations(before)) == len(_negations(after)):
        return False
    bare_before, bare_after = _without_negation(before), _without_negation(after)
    tenses, other_tenses = (
        {_TENSES[word] for word in words if word in _TENSES} for words in (bare_before, bare_after)
    )
    if tenses - other_tenses and other_tenses - tenses:
        return False
    neutral = {*_NEGATIONS, *_WITH_NEGATION}
    # "took" becomes "did not take", and "has taken" "never took"; else verbs stay as they are.
    is_verb_formed = sum(word in _BEFORE_VERBS for word in bare_before) != sum(
        word in _BEFORE_VERBS for word in bare_after
    )
    return _rest_agrees(
        before,
        after,
        lambda word: word in neutral or word.endswith("n't"),
        _are_forms if is_verb_formed else _agree,
    )


def changes_quantity(old: str, new: str) -> bool:
    """Return whether a number changes, and nothing but what agrees with it.

    >>> changes_quantity("There is one plum.", "There are two plums.")
    True
    """
    before, after = numbers(old), numbers(new)
    if before == after or not after or (not before and not {"a", "an"} & {*_words(old)}):
        return False
    return _rest_agrees(_words(old), _words(new), lambda word: bool(numbers(word)), _agree)


def changes_quantifier(old: str, new: str) -> bool:
    """Return whether a quantifier becomes another, and nothing but what agrees with it changes."""
    before, after = quantifiers(old), quantifiers(new)
    if sorted(before) == sorted(after) or not before or not after:
        return False
    return _rest_agrees(_words(old), _words(new), _QUANTIFIERS.__contains__, _agree)


def changes_connective(old: str, new: str) -> bool:
    """Return whether an "and" becomes an "or" or the reverse, and nothing else changes."""
    before, after = connectives(old), connectives(new)
    if before == after or len(before) != len(after):
        return False
    return _rest_agrees(_words(old), _words(new), _CONNECTIVES.__contains__, _agree)


def injects_data(old: str, new: str) -> bool:
    """Return whether a line is only extended, by words in one place.

    >>> injects_data("The cake is big.", "The cake, which hums on Sundays, is big.")
    True
    >>> injects_data("The cake is big.", "The cake, which hums on Sundays, is not big.")
    False
    """
    before, after = _words(old), _words(new)
    added = len(after) - len(before)
    return _FEWEST_INJECTED <= added <= _MOST_INJECTED and any(
        before == after[:place] + after[place + added :] for place in range(len(before) + 1)
    )


def exchanged_entities(before: Conversation, after: Conversation) -> set[tuple[str, str]] | None:
    """Return which entities became which others of their kind, if nothing else changed.

    Not all mentions of an entity need change: in the manual split some often stay.

    Args:
        before: the conversation.
        after: its variant, with the same entities.

    Returns:
        The pairs of an old and a new entity; None if other words changed as well.
    """
    pairs = set()
    for old, new in zip_longest(_marked(before), _marked(after)):
        if isinstance(old, EntityMention) and isinstance(new, EntityMention):
            if old.kind != new.kind:
                return None
            if old.entity != new.entity:
                pairs.add((old.entity, new.entity))
        elif not (isinstance(old, str) and isinstance(new, str) and _agree_with_nouns(old, new)):
            return None
    return pairs


def _marked(conversation: Conversation) -> Iterator[str | EntityMention]:
    """Yield the words of a conversation but for articles, and a mention in place of its words."""
    for utterance, line in enumerate(conversation.text.split("\n")):
        end = label_end(line)
        for mention in conversation.mentions:
            if mention.utterance == utterance:
                yield from _unmarked(line[end : mention.start])
                yield mention
                end = mention.end
        yield from _unmarked(line[end:])


def _unmarked(text: str) -> list[str]:
    return [word for word in _words(text) if word not in ("a", "an")]


# Agreement ----------------------------------------------------------------------------------------


def _rest_agrees(
    before: Sequence[str],
    after: Sequence[str],
    is_changing: Callable[[str], bool],
    agree: Callable[[str, str], bool],
) -> bool:
    """Return whether words other than those that may change are the same, or agree."""

    def rest(words: Sequence[str]) -> list[str]:
        return [word for word in words if word not in _FREE and not is_changing(word)]

    old, new = rest(before), rest(after)
    return len(old) == len(new) and all(map(agree, old, new))


def _agree(old: str, new: str) -> bool:
    """Return whether two words are the same, or agree with different numbers."""
    if old == new or any({old, new} <= group for group in _OF_NUMBERS):
        return True
    return number_forms(old)[0] == number_forms(new)[0]


def _agree_with_nouns(old: str, new: str) -> bool:
    """Return whether two words are the same, or agree with different nouns or people."""
    return _agree(old, new) or any({old, new} <= group for group in _OF_NOUNS)


def _are_forms(old: str, new: str) -> bool:
    """Return whether two words may be forms of one verb, as far as their first letters tell."""
    if _agree(old, new) or any({old, new} <= forms for forms in _FORMS):
        return True
    if {old, new} & _NO_VERBS or is_number(old) or is_number(new):
        return False
    are_nouns = is_known_noun(old) or is_known_noun(new) or (is_plural(old) and is_plural(new))
    return old[:2] == new[:2] and not are_nouns
