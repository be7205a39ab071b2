"""Negation, which the PragWorld paper's authors made by hand (section 4)."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import ENGLISH, like_case, word_list
from pragworld_tasks.text_alterations.noun_phrases import is_number
from pragworld_tasks.text_alterations.tokens import (
    AllowedChange,
    AlteredConversation,
    Sentence,
    TextReplacement,
)
from pragworld_tasks.text_alterations.turns import TurnSentence, turn_sentences

_NEGATIVES: dict[str, str] = ENGLISH["negatives"]
_POSITIVES = {negative: positive for positive, negative in _NEGATIVES.items()} | {"cannot": "can"}
_CONTRACTED = word_list("contracted")
_YES, _NO = word_list("yes"), word_list("no")
_OF_SUBJECTS = (*word_list("subjects"), *word_list("determiners"), *word_list("of_subjects"))


def negation(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Negate a reply or a statement, or remove its negation (section 4 of the paper).

    "He did" becomes "he didn't", "no, he didn't" becomes "yes, he did", and a whole "no" becomes
    "yes". "All of them are" becomes "not all of them are", and after a "yes", "some of them are"
    becomes "none of them are". Replies to yes/no questions come first: other statements are negated
    only if no reply can be, and those of where something is come last. Questions, formulas ("I'm
    afraid", "thank you"), what the next sentences take up, and what would not stay grammatical are
    left alone.

    Returns:
        The altered conversation, or None if nothing in it can be negated.
    """
    ranks: dict[int, list[AllowedChange]] = {}
    for spot in turn_sentences(conversation.text, conversation.sentences):
        for rank, change in _options(spot):
            ranks.setdefault(rank, []).append(change)
    if not ranks:
        return None
    change = rng.choice(ranks[min(ranks)])
    replacements = change.replacements
    if "\u2019" in conversation.text and "'" not in conversation.text:
        replacements = tuple(
            replace(replacement, new=replacement.new.replace("'", "\u2019"))
            for replacement in replacements
        )
    return conversation.replace("Negation", replacements, change.reason)


def _options(spot: TurnSentence) -> list[tuple[int, AllowedChange]]:
    """Return the negations of a sentence with their ranks: 0 is best."""
    sentence = spot.sentence
    if sentence.is_question or not spot.is_whole or spot.is_taken_up:
        return []
    if spot.turn_words & {*word_list("formulas")}:
        return []
    if _is_bare_reply(sentence):
        if spot.earlier or spot.later or spot.answers != "yes or no":
            return []
        if spot.next and not spot.next.is_question:
            return []  # a statement may take up anything
        word = sentence.at(0)
        new = "no" if word in _YES else "yes"
        reason = f'"{word}" is the whole reply to a yes/no question'
        return [(0, AllowedChange((sentence.replace_word(0, new),), reason))]
    lead = None
    if spot.earlier:
        if len(spot.earlier) == 1 and _is_bare_reply(spot.earlier[0]):
            lead = spot.earlier[0]
        elif not _is_remark(sentence):
            return []
    options = []
    if lead and len(sentence.words) > 3:
        return []  # the "yes" may answer something else
    for place in sentence.unnamed_places():
        replacements = _negate(sentence, place, lead)
        rank = _rank(spot, place, replied=len(replacements) > 1)
        if replacements and rank is not None:
            reason = _REASONS[rank].format(verb=sentence.words[place].text)
            options.append((rank, AllowedChange(tuple(replacements), reason)))
    return options


_REASONS = (
    '"{verb}" is in a reply to a yes/no question, and nothing after it takes it up',
    '"{verb}" is in a statement of one clause, and nothing after it takes it up',
    '"{verb}" is in a statement of where something is, and nothing after it takes it up',
    '"{verb}" is in a statement of where somebody was, and nothing after it takes it up',
)


def _rank(spot: TurnSentence, place: int, *, replied: bool) -> int | None:
    """Return the rank of negating the auxiliary at a place, or None if it must not be negated."""
    sentence = spot.sentence
    words = {word.lower for word in sentence.words}
    if words & {*word_list("opinions")} or any(is_number(word) for word in words):
        return None
    is_reply = spot.answers == "yes or no"
    if spot.next and not spot.later and not spot.next.is_question:
        return None  # a statement may take up anything
    begins = [word for word in sentence.all_before(place) if word not in _OF_SUBJECTS]
    if words & {*word_list("clause_links")} or ":" in sentence.line[sentence.words[place].end :]:
        return None
    is_short = sentence.after(place) in ("", "not", "there") or replied
    if is_reply and (is_short or sentence.at(place) in _POSITIVES):
        return 0
    if {"there", "there's"} & words and spot.answers:
        return None
    if spot.answers == "other" and not ({"that's", "that"} & words and {"right", "true"} & words):
        return None
    if spot.answers == "wh":
        follows = sentence.at(place + 1)
        where = spot.previous is not None and _asks_where(spot.previous)
        is_place = (
            follows in ("in", "at", "on", "near", "not") and sentence.at(place) not in _POSITIVES
        )
        return 2 if where and is_place and not {"said", "says"} & {*begins} else None
    if {"right", "true"} & words and {"that's", "that"} & words:
        return 1
    is_evasive = is_reply and sentence.at(place) in ("was", "were")
    if is_evasive and spot.is_left_behind:
        return 3  # "did he go there / he wasn't in the attic"
    return 1 if spot.is_left_behind else None


def _asks_where(sentence: Sentence) -> bool:
    words = [word.lower for word in sentence.words]
    return "where" in words[:2]


def _is_bare_reply(sentence: Sentence) -> bool:
    """Return whether a sentence is nothing but a yes or no."""
    return len(sentence.words) == 1 and sentence.at(0) in _YES + _NO and sentence.opens


def _is_remark(sentence: Sentence) -> bool:
    """Return whether a sentence only says how something is: "It was very interesting"."""
    words = [word.lower for word in sentence.words]
    pattern = r"(?:it|that|they) (?:is|are|was|were) (?:very |so |quite |really )\w+"
    return bool(re.fullmatch(pattern, " ".join(words)))


def _negate(sentence: Sentence, place: int, lead: Sentence | None) -> list[TextReplacement]:
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
    if not _is_main_verb(sentence, place):
        return []
    is_negative = word in _POSITIVES or sentence.after(place) == "not"
    if is_negative:
        replacements = _without_not(sentence, place)
    else:
        replacements = _with_not(sentence, place, lead)
    return _with_reply(sentence, place, lead, replacements, _NO if is_negative else _YES)


def _is_main_verb(sentence: Sentence, place: int) -> bool:
    """Return whether little stands before a verb, and nothing that may be another verb.

    "You'll have to tell him you can't come" is not about what one can do.
    """
    ahead = sentence.all_before(place)
    verbs = {*word_list("auxiliaries"), *word_list("contracted"), *word_list("past")}
    verbs |= {*word_list("opinions"), "to", "tell", "told", "ask", "asked", "want", "wanted"}
    verbs -= {*word_list("saying")}
    if {*ahead} & verbs or any("'" in word and not word.endswith("'s") for word in ahead):
        return False
    if any(sentence.at(index) in verbs for index in range(place - len(ahead))):
        return False  # "Ann has a car, she's coming"
    return len(ahead) <= 6


def _without_not(sentence: Sentence, place: int) -> list[TextReplacement]:
    """Return the replacements that remove the negation of the auxiliary at a place, if possible."""
    word, text = sentence.at(place), sentence.words[place].text
    last = place + (sentence.after(place) == "not")
    if (word in _POSITIVES and last > place) or "or" in sentence.all_after(last):
        return []  # "I can't find the pen or the key"
    polarity = _other_polarity(sentence, last, "any", "some", word_list("negative_only"))
    # The released conversations have "didn't went", which is no better without the negation.
    if polarity is None or sentence.after(last) == "went":
        return []
    if _is_perfect(sentence, place) and {"for", "since", "in"} & {
        word.lower for word in sentence.words[last:]
    }:
        return []  # "I haven't seen you for a long time"
    return [sentence.replace(place, last, like_case(text, _POSITIVES.get(word, text))), *polarity]


def _is_perfect(sentence: Sentence, place: int) -> bool:
    return sentence.at(place).startswith(("have", "has", "had")) or "'ve" in sentence.at(place)


def _with_not(sentence: Sentence, place: int, lead: Sentence | None) -> list[TextReplacement]:
    """Return the replacements that negate the auxiliary at a place, if possible."""
    for index, word in enumerate(sentence.words):
        is_negative = word.lower in word_list("negative_words") or word.lower.endswith("n't")
        if is_negative and not _is_reply(sentence, index):
            return []
    if (quantified := _with_quantifier(sentence, place, lead)) is not None:
        return quantified
    polarity = _other_polarity(sentence, place, "some", "any", word_list("positive_only"))
    if polarity is None or not _can_be_negated(sentence, place):
        return []
    verb = sentence.at(place)
    new = "there isn't" if verb == "there's" else _NEGATIVES.get(verb, f"{verb} not")
    return [sentence.replace_word(place, new), *polarity]


def _with_quantifier(
    sentence: Sentence, place: int, lead: Sentence | None
) -> list[TextReplacement] | None:
    """Return the negation of a subject with "all", "some" or "both", or None if it has none."""
    ahead = sentence.all_before(place)
    if "both" in ahead:
        return []  # "neither of them does" changes more than a word
    for word in ("all", "some"):
        if word not in ahead:
            continue
        subject = place - len(ahead) + ahead.index(word)
        if sentence.before(subject) not in ("", "that", "said", *_YES, *_NO) or not _can_be_negated(
            sentence, place
        ):
            return []
        if word == "all":
            return [sentence.replace_word(subject, "not all")]
        is_confirmed = lead is not None or bool(
            {*_YES} & {*(word.lower for word in sentence.words)}
        )
        if not is_confirmed:
            return [sentence.replace_word(place, f"{sentence.at(place)} not")]
        return [
            sentence.replace_word(
                subject, "none" if sentence.at(subject + 1) in ("of", sentence.at(place)) else "no"
            )
        ]
    return None


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
) -> list[TextReplacement] | None:
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
    replacements: list[TextReplacement],
    contrary: Sequence[str],
) -> list[TextReplacement]:
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
    if sentence.at(begin) == "and":
        return replacements  # "yes, and it's free"
    for index in range(begin, place):
        if sentence.at(index) not in _OF_SUBJECTS and not sentence.mention_at(index):
            return []
        if index > begin and not sentence.joined(index):
            return []
    return [source.replace_word(reply, "no" if contrary == _YES else "yes"), *replacements]
