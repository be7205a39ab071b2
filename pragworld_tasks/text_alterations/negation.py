"""Negation, which the PragWorld paper's authors made by hand (section 4)."""

import random
from collections.abc import Sequence
from dataclasses import replace

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import ENGLISH, like_case, word_list
from pragworld_tasks.text_alterations.noun_phrases import is_number
from pragworld_tasks.text_alterations.tokens import AlteredConversation, Sentence, TextReplacement
from pragworld_tasks.text_alterations.turns import TurnSentence, turn_sentences

_NEGATIVES: dict[str, str] = ENGLISH["negatives"]
_POSITIVES = {negative: positive for positive, negative in _NEGATIVES.items()} | {"cannot": "can"}
_CONTRACTED = word_list("contracted")
_THINGS = {"it", "them", "they"}
_YES, _NO = word_list("yes"), word_list("no")
_OF_SUBJECTS = (*word_list("subjects"), *word_list("determiners"), *word_list("of_subjects"))


def negation(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Negate a reply or a statement, or remove its negation; None if there is nothing to negate.

    "He did" becomes "he didn't", "no, he didn't" becomes "yes, he did", and a whole "no" becomes
    "yes". "All of them are" becomes "not all of them are", and after a "yes", "some of them are"
    becomes "none of them are". If no reply can be negated, a statement of the first turn may be.
    Questions, formulas ("I'm afraid", "thank you"), what other sentences take up or tell more of,
    and what would not stay grammatical are left alone.
    """
    spots = turn_sentences(conversation.sentences)
    found = [(spot, option) for spot in spots if (option := _option(spot))]
    options = [option for spot, option in found if not _is_told_again(spot, conversation.sentences)]
    if not options:
        return None
    best = min(rank for rank, _ in options)
    replacements = rng.choice([changes for rank, changes in options if rank == best])
    if "\u2019" in conversation.text and "'" not in conversation.text:
        replacements = [replace(each, new=each.new.replace("'", "\u2019")) for each in replacements]
    return conversation.replace("Negation", replacements)


def _is_told_again(spot: TurnSentence, sentences: Sequence[Sentence]) -> bool:
    """Return whether the conversation tells more of the same things, which may then contradict."""
    asked = [spot.previous] if spot.previous and spot.answers == "yes or no" else []
    here = [*asked, spot.sentence]
    things = _things(here)
    if not things and asked and _THINGS & {*asked[0].lower}:  # "Did you leave them there?"
        earlier = [each for each in sentences if each.utterance < spot.sentence.utterance - 1]
        told = [each for each in earlier if _things([each])][-1:]
        things = _things(told)
        here += [] if "some" in asked[0].lower else told  # some of what is there
    if spot.next and _THINGS & {*spot.next.lower} and not _things([spot.next]):
        return True
    return not things.isdisjoint(_things([each for each in sentences if each not in here]))


def _things(sentences: Sequence[Sentence]) -> set[str]:
    mentions = [mention for sentence in sentences for mention in sentence.mentions]
    return {mention.entity for mention in mentions if mention.kind == "objects"}


def _option(spot: TurnSentence) -> tuple[int, list[TextReplacement]] | None:
    """Return the negation of a sentence and its rank, of which 0 is best."""
    sentence, words = spot.sentence, {*spot.sentence.lower}
    if sentence.is_question or spot.earlier or spot.is_taken_up:
        return None
    if not spot.later and spot.next is not None and not spot.next.is_question:
        return None  # a statement may take up anything
    if spot.turn_words & {*word_list("formulas")} or words & {"right", "true"}:
        return None
    if words <= {*_YES, *_NO}:
        new = "no" if sentence.at(0) in _YES else "yes"
        is_reply = not spot.later and len(sentence.words) == 1 and spot.answers == "yes or no"
        return (0, [sentence.replace_word(0, new)]) if is_reply else None
    if words & {*word_list("opinions"), *word_list("clause_links")} or any(map(is_number, words)):
        return None
    for place in sentence.unnamed_places():
        if changes := _negate(sentence, place):
            rank = _rank(spot, place, replied=len(changes) > 1)
            return None if rank is None else (rank, changes)
    return None


def _rank(spot: TurnSentence, place: int, *, replied: bool) -> int | None:
    """Return 0 for negating a reply, 1 for a statement, None if it must not be negated."""
    if spot.answers == "yes or no":
        verb, after = spot.sentence.at(place), spot.sentence.after(place)
        if replied or verb in _POSITIVES or after in ("", "not", "there"):
            return 0
        # "He wasn't in the attic" would be evasive.
        return 1 if spot.is_left_behind and "all" in spot.sentence.all_before(place) else None
    return 1 if spot.previous is None and spot.is_left_behind else None


def _negate(sentence: Sentence, place: int) -> list[TextReplacement]:
    """Return the replacements that negate the auxiliary at a place, or undo that, if possible."""
    word, before = sentence.at(place), sentence.before(place)
    if word not in _CONTRACTED and (word not in {*_NEGATIVES, *_POSITIVES, "am"} or not before):
        return []
    is_statement = sentence.after(place) not in word_list("subjects")
    if before in word_list("no_subject") or not is_statement or not _is_main_verb(sentence, place):
        return []
    if word in _POSITIVES or sentence.after(place) == "not":
        return _with_reply(sentence, place, _without_not(sentence, place), _NO)
    return _with_reply(sentence, place, _with_not(sentence, place), _YES)


def _is_main_verb(sentence: Sentence, place: int) -> bool:
    """Return whether little stands before a verb, and no other verb: "tell him you can't come"."""
    ahead = sentence.all_before(place)
    verbs = {*word_list("auxiliaries"), *_CONTRACTED, *word_list("past"), *word_list("opinions")}
    verbs = (verbs | {*word_list("no_main_verb_after")}) - {*word_list("saying")}
    is_short = any("'" in word and not word.endswith("'s") for word in ahead)  # "I'll"
    earlier = sentence.lower[:place]  # "Ann has a car, she's coming"
    return len(ahead) <= 6 and not is_short and not verbs & {*earlier}


def _without_not(sentence: Sentence, place: int) -> list[TextReplacement]:
    word, text = sentence.at(place), sentence.words[place].text
    last = place + (sentence.after(place) == "not")
    following = sentence.lower[last + 1 :]
    if (word in _POSITIVES and last > place) or "or" in sentence.all_after(last):
        return []  # "I can't find the pen or the key"
    polarity = _other_polarity(sentence, last, "any", "some", word_list("negative_only"))
    if polarity is None or following[:1] == ["went"]:  # "didn't went" is no better without "not"
        return []
    if word.startswith(("have", "has", "had")) and {"for", "since", "in"} & {*following}:
        return []  # "I haven't seen you for a long time"
    return [sentence.replace(place, last, like_case(text, _POSITIVES.get(word, text))), *polarity]


def _with_not(sentence: Sentence, place: int) -> list[TextReplacement]:
    verb, ahead = sentence.at(place), sentence.all_before(place)
    if sentence.is_negative or (sentence.at(0) in _NO and not _is_reply(sentence, 0)):
        return []
    if "both" in ahead or not _can_be_negated(sentence, place):
        return []  # "neither of them does" changes more than a word
    if "all" in ahead:
        return [sentence.replace_word(place - len(ahead) + ahead.index("all"), "not all")]
    if "some" in ahead:
        subject = place - len(ahead) + ahead.index("some")
        new = "none" if sentence.at(subject + 1) in ("of", verb) else "no"
        # Without a "yes", that some are not there is said already.
        return [sentence.replace_word(subject, new)] if {*_YES} & {*sentence.lower} else []
    polarity = _other_polarity(sentence, place, "some", "any", word_list("positive_only"))
    if polarity is None:
        return []
    new = "there isn't" if verb == "there's" else _NEGATIVES.get(verb, f"{verb} not")
    return [sentence.replace_word(place, new), *polarity]


def _can_be_negated(sentence: Sentence, place: int) -> bool:
    """Return whether the word at a place is an auxiliary there that "not" can follow."""
    word, after = sentence.at(place), sentence.after(place)
    if word in _CONTRACTED:
        return bool(after)
    if not after:  # a short reply: "he did", "Noah was, but …"
        ends = sentence.at(place + 1) in ("", "and", "but") and word != "am"
        return ends and {*word_list("wh_words")}.isdisjoint(sentence.all_before(place))
    if word in ("have", "has", "had"):
        return after in word_list("participles") or (after.endswith("ed") and after != "need")
    return word not in ("do", "does", "did")  # "he did the dishes"


def _other_polarity(
    sentence: Sentence, place: int, old: str, new: str, unfit: Sequence[str]
) -> list[TextReplacement] | None:
    """Return the change of "some" to "any" after a verb, or back; None if another word is unfit."""
    words = sentence.lower[place + 1 :]
    if {*unfit} & {*words} or words.count(old) > 1:
        return None
    return [sentence.replace_word(place + 1 + words.index(old), new)] if old in words else []


def _is_reply(sentence: Sentence, place: int) -> bool:
    """Return whether a yes or no is a reply, and does not belong to a noun ("no problem")."""
    follows = sentence.after(place) in ("", "there", *word_list("subjects"))
    return sentence.at(place) in _YES + _NO and follows


def _with_reply(
    sentence: Sentence, place: int, replacements: list[TextReplacement], contrary: Sequence[str]
) -> list[TextReplacement]:
    """Return replacements with that of a yes or no which would contradict the altered clause."""
    replies = [index for index in range(place) if _is_reply(sentence, index)]
    if not replacements or not replies or sentence.at(replies[0]) not in contrary:
        return replacements
    subject = range(replies[0] + 1, place)
    is_known = all(
        sentence.at(each) in _OF_SUBJECTS or sentence.mention_at(each) for each in subject
    )
    if not is_known or not all(map(sentence.joined, subject[1:])):
        return []  # "Yes, I left them and he is there"
    new = "no" if contrary == _YES else "yes"
    return [sentence.replace_word(replies[0], new), *replacements]
