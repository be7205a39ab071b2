"""Changes of quantifiers and connectives: Algorithms 4 and 5 of the PragWorld paper.

The released scripts replace such words wherever they stand. Here a word is replaced only where the
sentence stays grammatical, together with the words that have to agree.
"""

import random
from collections.abc import Callable, Sequence

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import ENGLISH, is_plural, word_list
from pragworld_tasks.text_alterations.noun_phrases import (
    PLURAL_VERBS,
    SINGULAR_VERBS,
    is_number,
    noun_at,
)
from pragworld_tasks.text_alterations.tokens import AlteredConversation, Replacement, Sentence


def quantifier_change(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Change an "all" to "some" or a "some" to "all", as Algorithm 4 does (appendix A.1).

    "All the grapes" become "some of the grapes". Phrases ("at all", "all right") and places where
    the other word would be wrong ("there are some", "they are all there") are left alone.

    Returns:
        The altered conversation, or None if it has no quantifier that can be changed.
    """
    return _change_one(conversation, rng, "Quantifier Change", _quantifier)


def connective_change(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Change an "and" to "or" or an "or" to "and", as Algorithm 5 does (appendix A.1).

    "Both A and B" become "either A or B", and the reverse. Numbers ("two or three", "two and a
    half"), phrases ("or so", "nice and warm"), and places where the other word would be wrong are
    left alone.

    Returns:
        The altered conversation, or None if it has no connective that can be changed.
    """
    return _change_one(conversation, rng, "Logical Connective Change", _connective)


def _change_one(
    conversation: Conversation,
    rng: random.Random,
    alteration: str,
    replacements_at: Callable[[Sentence, int], list[Replacement]],
) -> AlteredConversation | None:
    """Alter one place in a random sentence that has any, as the algorithms do."""
    sentences = []
    for sentence in conversation.sentences:
        options = [replacements_at(sentence, place) for place in sentence.unnamed_places()]
        if options := [replacements for replacements in options if replacements]:
            sentences.append(options)
    if not sentences:
        return None
    return conversation.replace(alteration, rng.choice(rng.choice(sentences)))


# Algorithm 4: quantifiers -------------------------------------------------------------------------


def _quantifier(sentence: Sentence, place: int) -> list[Replacement]:
    """Return the replacement of the quantifier at a place, or none if it cannot be changed."""
    word, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    if word not in ("all", "some") or before in word_list("no_quantifier_after"):
        return []
    clause_begins = ("", *word_list("wh_words"), *word_list("openers"))
    if before in word_list("be") and sentence.before(place - 1) not in clause_begins:
        return []  # "there are some", "they are all"
    new = "some" if word == "all" else "all"
    second = sentence.after(place + 1) if after else ""
    if after == "of":
        changeable = second in word_list("parts_of")
    elif word == "all" and after in word_list("determiners"):
        changeable = after in ("these", "those") or second not in (
            *("", "same", "best", "better", "more", "while"),
        )
        new = "some of"
    elif after in ("are", "were", "have"):
        changeable = before in ("", *word_list("openers"))
    else:
        noun = None if before == "of" else noun_at(sentence, place + 1, plural=True)
        # "I had some soups" does not speak of particular soups, of which there could be all.
        changeable = noun is not None and (
            word == "all"
            or sentence.after(noun[0]) in SINGULAR_VERBS
            or (noun[1] is not None and not {"only", "just"} & {*sentence.all_before(place)})
        )
    return [sentence.replace_word(place, new)] if changeable else []


# Algorithm 5: connectives -------------------------------------------------------------------------


def _connective(sentence: Sentence, place: int) -> list[Replacement]:
    """Return the replacements for the connective at a place, or none if it cannot be changed."""
    word, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    if word not in ("and", "or") or not after or after in word_list("fixed_after"):
        return []
    if before == after or before in word_list("fixed_before"):
        return []
    if f"{before} {after}" in ENGLISH["fixed_pairs"]:
        return []
    if is_number(after) or (before and is_number(before)):
        return []
    ahead = sentence.all_before(place)
    if {"between", "whether", "mix", "mixture"} & set(ahead) or _joins_clauses(sentence, place):
        return []
    new = "or" if word == "and" else "and"
    replacements = [sentence.replace_word(place, new)]
    first, other = ("both", "either") if word == "and" else ("either", "both")
    if first in ahead:
        distance = ahead[::-1].index(first)
        between = ahead[len(ahead) - distance :]
        pair = place - distance - 1
        if word == "or" and (not between or between[0] == "of" or _is_clause(between)):
            return []
        if {"and", "or"} & set(between):
            return []
        follows_pronoun = sentence.before(pair) in ("they", "we", "you", "are", "were")
        if between[:1] != ["of"] and not follows_pronoun:
            replacements.insert(0, sentence.replace_word(pair, other))
    agreeing = _verb_of_both(sentence, place, plural=new == "and")
    return [] if agreeing is None else replacements + agreeing


def _joins_clauses(sentence: Sentence, place: int) -> bool:
    """Return whether the connective at a place may join clauses, not only parts of one.

    "Sit down or I can help you" is grammatical, but nobody would say it.
    """
    after = sentence.after(place)
    if place == 0:
        is_noun = after in (*word_list("determiners"), "a", "an") or sentence.mention_at(1)
        return not sentence.is_question and not is_noun
    if "'" in after and not sentence.mention_at(place + 1):
        return True
    if after == "i":  # "Lily and I", "my brother and I"
        is_name = sentence.words[place - 1].text[0].isupper()
        return not is_name and len(sentence.all_before(place)) != 2
    if after in ("there", "now", *word_list("subjects"), *word_list("be"), *word_list("wh_words")):
        return True
    return not sentence.before(place) and place == 1  # after "yes," or "oh,"


def _is_clause(words: Sequence[str]) -> bool:
    """Return whether words after "either" may be a whole clause, which cannot follow "both"."""
    if words[0] in ("there", *word_list("subjects")):
        return True
    determiners = word_list("determiners")
    is_phrase = words[0] in (*word_list("after_nouns"), *determiners)
    return not is_phrase and len([word for word in words if word not in determiners]) > 1


def _verb_of_both(sentence: Sentence, place: int, *, plural: bool) -> list[Replacement] | None:
    """Return the change of the verb whose subject a connective forms, or None if it is unclear."""
    last = place + 1
    if sentence.at(last) in (*word_list("determiners"), "a", "an"):
        last += 1
    if last >= len(sentence.words):
        return None
    last = sentence.mention_end(last)
    noun, mention = sentence.at(last), sentence.mention_at(last)
    ahead = sentence.all_before(place)
    verb_first = 0 < len(ahead) <= 3 and ahead[0] in ("is", "was", "are", "were")
    if verb_first and (plural or not is_plural(sentence.at(place - 1))):
        return None  # "are Alice and Bob there", "is the corn or the cake there"
    several = mention.is_plural if mention else is_plural(noun) or noun in ("you", "they", "we")
    forms = PLURAL_VERBS if plural else SINGULAR_VERBS
    verb = sentence.after(last)
    if verb not in forms or (several and not plural):
        return []
    not_counted = (*word_list("determiners"), "both", "either")
    is_subject = len([word for word in ahead if word not in not_counted]) == 1
    if not is_subject or noun in ("i", "he", "she", "it", "there", "that"):
        return None
    return [sentence.replace_word(last + 1, forms[verb])]
