"""Negation and inconsistent data, which the PragWorld paper's authors made by hand."""

import random
from collections.abc import Sequence
from dataclasses import replace

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import ENGLISH, like_case, word_list
from pragworld_tasks.text_alterations.noun_phrases import PLURAL_VERBS, SINGULAR_VERBS, is_number
from pragworld_tasks.text_alterations.tokens import (
    AlteredConversation,
    EntityMention,
    Replacement,
    Sentence,
)

_NEGATIVES: dict[str, str] = ENGLISH["negatives"]
_POSITIVES = {negative: positive for positive, negative in _NEGATIVES.items()} | {"cannot": "can"}
_CONTRACTED = word_list("contracted")
_YES, _NO = word_list("yes"), word_list("no")
_OF_SUBJECTS = (*word_list("subjects"), *word_list("determiners"), *word_list("of_subjects"))


def negation(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Negate an auxiliary verb of a statement, or remove its negation (section 4 of the paper).

    "He did" becomes "he didn't", and "no, he didn't" becomes "yes, he did". A "some" after the verb
    becomes "any", and the reverse. Questions, clauses with another negation, and what would not
    stay grammatical are left alone.

    Returns:
        The altered conversation, or None if nothing in it can be negated.
    """
    lead: Sentence | None = None  # a "Yes." on its own, which the next sentence explains
    options = []
    for sentence in conversation.sentences:
        if not sentence.is_question:
            options += [
                _negate(sentence, place, None if sentence.opens else lead)
                for place in sentence.unnamed_places()
            ]
        is_reply = sentence.opens and all(word.lower in _YES + _NO for word in sentence.words)
        lead = sentence if is_reply else None
    options = [replacements for replacements in options if replacements]
    if not options:
        return None
    replacements = rng.choice(options)
    if "\u2019" in conversation.text and "'" not in conversation.text:
        replacements = [
            replace(replacement, new=replacement.new.replace("'", "\u2019"))
            for replacement in replacements
        ]
    return conversation.replace("Negation", replacements)


def inconsistent_data(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Add a clause that defies common sense after a mention of an object in a statement.

    "The grapes" become "the grapes, which hum whenever someone laughs,". An example of the paper
    (section 4) is "a birthday cake that changes color every time someone claps".

    Returns:
        The altered conversation, or None if a clause can follow no mention of an object.
    """
    places = [
        (mention, end)
        for sentence in conversation.sentences
        if not sentence.is_question
        for mention in sentence.mentions
        if (end := _clause_end(sentence, mention)) is not None
    ]
    if not places:
        return None
    mention, end = rng.choice(places)
    clause = rng.choice(ENGLISH["absurdities"])[mention.is_plural]
    new = f"{mention.text}, which {clause}{end}"
    if mention.text.isupper() and mention.text != mention.entity:
        new = new.upper()
    replacement = Replacement(mention.utterance, mention.start, mention.text, new)
    return conversation.replace("Injecting Inconsistent Data", [replacement])


# Negation -----------------------------------------------------------------------------------------


def _negate(sentence: Sentence, place: int, lead: Sentence | None) -> list[Replacement]:
    """Return the replacements that negate the auxiliary at a place, or undo that, if possible."""
    word, before = sentence.at(place), sentence.before(place)
    if word not in _CONTRACTED and (word not in {*_NEGATIVES, *_POSITIVES, "am"} or not before):
        return []
    if before in (*word_list("no_subject"), *_NEGATIVES, *_POSITIVES):
        return []
    if sentence.after(place) in word_list("subjects"):
        return []
    if {"how", "why", "as", "than", "here"} & {*sentence.all_before(place)}:
        return []
    is_negative = word in _POSITIVES or sentence.after(place) == "not"
    replacements = (_without_not if is_negative else _with_not)(sentence, place)
    return _with_reply(sentence, place, lead, replacements, _NO if is_negative else _YES)


def _without_not(sentence: Sentence, place: int) -> list[Replacement]:
    """Return the replacements that remove the negation of the auxiliary at a place, if possible."""
    word, text = sentence.at(place), sentence.words[place].text
    last = place + (sentence.after(place) == "not")
    if word in _POSITIVES and last > place:
        return []
    polarity = _other_polarity(sentence, last, "any", "some", word_list("negative_only"))
    # The released conversations have "didn't went", which is no better without the negation.
    if polarity is None or sentence.after(last) == "went":
        return []
    return [sentence.replace(place, last, like_case(text, _POSITIVES.get(word, text))), *polarity]


def _with_not(sentence: Sentence, place: int) -> list[Replacement]:
    """Return the replacements that negate the auxiliary at a place, if possible."""
    for index, word in enumerate(sentence.words):
        is_negative = word.lower in word_list("negative_words") or word.lower.endswith("n't")
        if is_negative and not _is_reply(sentence, index):
            return []
    polarity = _other_polarity(sentence, place, "some", "any", word_list("positive_only"))
    if polarity is None or not _can_be_negated(sentence, place):
        return []
    new = _NEGATIVES.get(sentence.at(place), f"{sentence.words[place].text} not")
    return [sentence.replace_word(place, new), *polarity]


def _can_be_negated(sentence: Sentence, place: int) -> bool:
    """Return whether the word at a place is an auxiliary there that "not" can follow."""
    word, after = sentence.at(place), sentence.after(place)
    if word in _CONTRACTED:
        return bool(after) and (not word.endswith("'ve") or _is_participle(after))
    if not after:  # a short reply: "he did", "Noah was, but …"
        if sentence.at(place + 1) not in ("", "and", "but") or word == "am":
            return False
        return not {*word_list("wh_words")} & {*sentence.all_before(place)}
    if word in ("do", "does", "did"):
        return False  # "he did the dishes"
    return word not in ("have", "has", "had") or _is_participle(after)


def _is_participle(word: str) -> bool:
    return word in word_list("participles") or (word.endswith("ed") and word != "need")


def _other_polarity(
    sentence: Sentence, place: int, old: str, new: str, unfit: Sequence[str]
) -> list[Replacement] | None:
    """Return the change of "some" to "any" after a verb, or back; None if another word is unfit."""
    words = [word.lower for word in sentence.words[place + 1 :]]
    ends = word_list("clause_ends")
    end = next((index for index, word in enumerate(words) if word in ends), len(words))
    clause, rest = words[:end], words[end:]
    # Words in the rest of the sentence may depend on the negation, too.
    if old == "any" and ({*unfit, old} & {*rest} or "at all" in sentence.line.lower()):
        return None
    if {*unfit} & {*clause} or clause.count(old) > 1:
        return None
    if old not in clause:
        return []
    return [sentence.replace_word(place + 1 + clause.index(old), new)]


def _is_reply(sentence: Sentence, place: int) -> bool:
    """Return whether a yes or no is a reply, and does not belong to a noun ("no problem")."""
    if not sentence.opens or sentence.at(place) not in _YES + _NO:
        return False
    if any(sentence.at(index) not in word_list("interjections") for index in range(place)):
        return False
    return sentence.after(place) in ("", "there", *word_list("subjects"))


def _with_reply(
    sentence: Sentence,
    place: int,
    lead: Sentence | None,
    replacements: list[Replacement],
    contrary: Sequence[str],
) -> list[Replacement]:
    """Return replacements with that of a yes or no that would contradict the altered clause.

    Returns [] if the yes or no may belong to another clause ("Yes, I left them and he is there").
    """
    replies = [index for index in range(place) if _is_reply(sentence, index)]
    if replies:
        reply, source, begin = replies[0], sentence, replies[0] + 1
    elif lead:
        reply, source, begin = 0, lead, 0
    else:
        return replacements
    if source.at(reply) not in contrary or not replacements:
        return replacements
    for index in range(begin, place):
        if sentence.at(index) not in _OF_SUBJECTS and not sentence.mention_at(index):
            return []
        if index > begin and not sentence.joined(index):
            return []
    return [source.replace_word(reply, "no" if contrary == _YES else "yes"), *replacements]


# Inconsistent data --------------------------------------------------------------------------------

_AFTER_OBJECTS = {*word_list("after_objects"), *PLURAL_VERBS, *SINGULAR_VERBS}


def _clause_end(sentence: Sentence, mention: EntityMention) -> str | None:
    """Return what ends a clause after a mention, "," or ""; None if a clause cannot follow it."""
    if mention.kind != "objects" or mention.ending:
        return None
    places = [
        place
        for place, word in enumerate(sentence.words)
        if mention.start <= word.start < mention.end
    ]
    if not places:
        return None
    first, last = places[0], places[-1]
    ahead = [sentence.before(first), sentence.before(first - 1) if sentence.joined(first) else ""]
    if {*ahead} & {*word_list("indefinite")} or (ahead[0] == "of" and not mention.is_plural):
        return None
    if not mention.is_plural and not (
        {"a", "an", "one", *word_list("determiners")} & {*ahead} or is_number(ahead[0])
    ):
        return None  # half of a compound ("apple juice"), or a mass
    if sentence.joined(last + 1):
        return "," if sentence.at(last + 1) in _AFTER_OBJECTS else None
    end = sentence.words[last].end
    return "" if sentence.line[end : end + 1] in ("", ",", ".", "!", ";", " ", "\r") else None
