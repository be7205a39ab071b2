"""Quantifiers and connectives in plain text: the PragWorld paper's Algorithms 4 and 5.

The released scripts replace such words wherever they stand. Here a word is replaced only where the
sentence stays grammatical, with what has to agree.
"""

import random
from collections.abc import Callable, Sequence

from pragworld_tasks.text_alterations.entities import Entities, Mention, find_mentions
from pragworld_tasks.text_alterations.inflection import is_plural, like_case, words
from pragworld_tasks.text_alterations.noun_phrases import (
    AFTER_NOUNS,
    BE,
    DETERMINERS,
    OPENERS,
    PARTS_OF,
    PLURAL_VERBS,
    SINGULAR_VERBS,
    is_number,
    mention_end,
    named,
    noun_at,
)
from pragworld_tasks.text_alterations.tokens import (
    WH_WORDS,
    Altered,
    Change,
    Sentence,
    apply,
    read_sentences,
)


def quantifier_change(conversation: str, entities: Entities, rng: random.Random) -> Altered | None:
    """All made some, or some all, as Algorithm 4 says (appendix A.1 of the paper).

    "All the grapes" become "some of the grapes". Left alone are phrases ("at all", "all right") and
    places where the other word would not do ("there are some", "they are all there").

    Returns:
        None where there is no quantifier that can be changed.
    """
    return _one_place(conversation, entities, rng, "Quantifier Change", _quantifier)


def connective_change(conversation: str, entities: Entities, rng: random.Random) -> Altered | None:
    """And made or, or or and, as Algorithm 5 says (appendix A.1 of the paper).

    "Both A and B" become "either A or B", and back. Left alone are numbers ("two or three", "two
    and a half"), phrases ("or so", "nice and warm"), and what would not stay grammatical.

    Returns:
        None where there is no connective that can be changed.
    """
    return _one_place(conversation, entities, rng, "Logical Connective Change", _connective)


def _one_place(
    conversation: str,
    entities: Entities,
    rng: random.Random,
    alteration: str,
    changes_at: Callable[[Sentence, int, Sequence[Mention]], list[Change]],
) -> Altered | None:
    """The alteration at one place: of a random sentence that has any, as the algorithms say."""
    mentions = find_mentions(conversation, entities)
    sentences = []
    for sentence in read_sentences(conversation):
        found = [
            changes_at(sentence, place, mentions)
            for place in range(len(sentence.words))
            if not named(sentence, place, mentions)
        ]
        if places := [changes for changes in found if changes]:
            sentences.append(places)
    if not sentences:
        return None
    return apply(conversation, alteration, rng.choice(rng.choice(sentences)))


# Algorithm 4: quantifiers -------------------------------------------------------------------------

_NO_QUANTIFIER_AFTER = words(
    "not almost nearly practically virtually absolutely only just least quite hardly at after above"
)


def _quantifier(sentence: Sentence, place: int, mentions: Sequence[Mention]) -> list[Change]:
    """The change of the quantifier at a place; none where there is none that can be changed."""
    stood, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    if stood not in ("all", "some") or before in _NO_QUANTIFIER_AFTER:
        return []
    if before in BE and sentence.before(place - 1) not in ("", *WH_WORDS, *OPENERS):
        return []  # "there are some", "they are all"
    if before in ("there", "there's"):
        return []
    new = "some" if stood == "all" else "all"
    beyond = sentence.after(place + 1) if after else ""
    if after == "of":
        is_one = beyond in PARTS_OF
    elif stood == "all" and after in DETERMINERS:
        is_one = beyond not in ("", "same", "best", "better", "more", "while")
        is_one = is_one or after in ("these", "those")
        new = "some of"
    elif after in ("are", "were", "have"):
        is_one = before in ("", *OPENERS)
    else:
        noun = None if before == "of" else noun_at(sentence, place + 1, mentions, plural=True)
        # "I had some soups" is no statement about soups, of which there could be all.
        is_one = noun is not None and (
            stood == "all"
            or sentence.after(noun[0]) in SINGULAR_VERBS
            or (noun[1] is not None and not {"only", "just"} & set(_ahead(sentence, place)))
        )
    if not is_one:
        return []
    return [sentence.change(place, place, like_case(sentence.words[place].text, new))]


# Algorithm 5: connectives -------------------------------------------------------------------------

_FIXED_AFTER = words(
    "so then yet also else not something anything whatever more less counting forth on again if "
    "maybe perhaps rather"
)
_FIXED_BEFORE = words("go come try wait nice good and/or more again over")
_FIXED_PAIRS = (
    *("up down", "back forth", "now then", "here there", "by large", "sooner later", "once twice"),
    *("once for", "first foremost", "ladies gentlemen", "rock roll", "black white", "yes no"),
    *("out about", "peace quiet", "far wide", "safe sound", "trial error", "day night"),
)


def _connective(sentence: Sentence, place: int, mentions: Sequence[Mention]) -> list[Change]:
    """The changes of the connective at a place; none where there is none that can be changed."""
    stood, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    if stood not in ("and", "or") or not after or after in _FIXED_AFTER:
        return []
    if before == after or before in _FIXED_BEFORE or f"{before} {after}" in _FIXED_PAIRS:
        return []
    if is_number(after) or (before and is_number(before)):
        return []
    start = sentence.phrase_start(place)
    ahead = _ahead(sentence, place)
    if {"between", "whether", "mix", "mixture"} & set(ahead):
        return []
    if _joins_clauses(sentence, place, mentions):
        return []
    new = "or" if stood == "and" else "and"
    changes = [sentence.change(place, place, like_case(sentence.words[place].text, new))]
    first, other = ("both", "either") if stood == "and" else ("either", "both")
    if first in ahead:
        pair = start + len(ahead) - 1 - ahead[::-1].index(first)
        between = ahead[pair + 1 - start :]
        follows_pronoun = sentence.before(pair) in ("they", "we", "you", "are", "were")
        if stood == "or" and (not between or between[0] == "of" or _is_clause(sentence, between)):
            return []
        if {"and", "or"} & set(between):
            return []
        if between[:1] != ["of"] and not follows_pronoun:
            word = sentence.words[pair].text
            changes.insert(0, sentence.change(pair, pair, like_case(word, other)))
    agreeing = _verb_of_both(sentence, place, mentions, plural=new == "and")
    return [] if agreeing is None else changes + agreeing


def _ahead(sentence: Sentence, place: int) -> list[str]:
    """The words before a place, without marks between."""
    return [sentence.at(index) for index in range(sentence.phrase_start(place), place)]


def _joins_clauses(sentence: Sentence, place: int, mentions: Sequence[Mention]) -> bool:
    """Whether what follows the connective at a place may be a statement or order of its own.

    "Sit down or I can help you" is grammatical and not what anybody would say.
    """
    after = sentence.after(place)
    if place == 0:
        is_noun = after in (*DETERMINERS, "a", "an") or named(sentence, 1, mentions)
        return not sentence.is_question and not is_noun
    if "'" in after and not named(sentence, place + 1, mentions):
        return True
    if after == "i":  # "Lily and I", "my brother and I"
        return not sentence.words[place - 1].text[0].isupper() and len(_ahead(sentence, place)) != 2
    if after in ("he", "she", "it", "we", "they", "you", "there", "now", *BE, *WH_WORDS):
        return True
    return not sentence.before(place) and place == 1  # behind "yes," or "oh,"


def _is_clause(sentence: Sentence, between: Sequence[str]) -> bool:
    """Whether what "either" introduces may be a whole clause, which "both" cannot introduce."""
    if between[0] in ("i", "he", "she", "we", "they", "you", "it", "there"):
        return True
    return len([word for word in between if word not in DETERMINERS]) > 1 and not (
        between[0] in AFTER_NOUNS or between[0] in DETERMINERS
    )


def _verb_of_both(
    sentence: Sentence, place: int, mentions: Sequence[Mention], *, plural: bool
) -> list[Change] | None:
    """How the verb changes whose subject are the two that a connective joins; None if unclear."""
    last = place + 1
    if sentence.at(last) in (*DETERMINERS, "a", "an"):
        last += 1
    if last >= len(sentence.words):
        return None
    last = mention_end(sentence, last, mentions)
    noun, mention = sentence.at(last), named(sentence, last, mentions)
    ahead = _ahead(sentence, place)
    verb_first = len(ahead) <= 3 and bool(ahead) and ahead[0] in ("is", "was", "are", "were")
    if verb_first and (plural or not is_plural(sentence.at(place - 1))):
        return None  # "are Alice and Bob there", "is the corn or the cake there"
    several = mention.is_plural if mention else is_plural(noun) or noun in ("you", "they", "we")
    forms = PLURAL_VERBS if plural else SINGULAR_VERBS
    verb = sentence.after(last)
    if verb not in forms or (several and not plural):
        return []
    is_subject = len([word for word in ahead if word not in (*DETERMINERS, "both", "either")]) == 1
    if not is_subject or noun in ("i", "he", "she", "it", "there", "that"):
        return None
    word = sentence.words[last + 1].text
    return [sentence.change(last + 1, last + 1, like_case(word, forms[verb]))]
