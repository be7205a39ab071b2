"""Changes of quantifiers and connectives: Algorithms 4 and 5 of the PragWorld paper.

The released scripts replace such words wherever they stand. Here a word is replaced only where the
sentence stays grammatical, together with the words that have to agree.
"""

import random
import re
from collections.abc import Callable

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import ENGLISH, is_plural, like_case, word_list
from pragworld_tasks.text_alterations.noun_phrases import (
    NEARBY,
    PLURAL_VERBS,
    SINGULAR_VERBS,
    counted_noun,
    is_number,
    nearby_words,
    noun_at,
)
from pragworld_tasks.text_alterations.nouns import is_first_name, noun_classes
from pragworld_tasks.text_alterations.tokens import (
    AlteredConversation,
    Sentence,
    TextReplacement,
    label_end,
)
from pragworld_tasks.text_alterations.turns import question_form

_Change = list[TextReplacement] | None
_Rule = Callable[[Conversation, Sentence, int], _Change]
_VERBS = {*PLURAL_VERBS, *SINGULAR_VERBS}
_ARTICLES, _COLOURS = (*word_list("determiners"), "a", "an"), word_list("colours")


def quantifier_change(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Change an "all" to "some" or a "some" to "all", as Algorithm 4 does; None if there is none.

    "All the grapes" become "some of the grapes". Phrases ("at all", "all right") and places where
    the other word would be wrong ("there are some", "they are all there") are left alone, and so
    are parts of things which other words near them divide ("some are here, the rest there"). Where
    nothing else can be changed, other quantifiers change as the benchmark's authors changed them:
    "many people" to "some people", "a few days" to "several days", "some emails" to "a few emails".
    """
    return _change_one(conversation, rng, "Quantifier Change", _quantifier, _other_quantifier)


def connective_change(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Change an "and" to "or" or an "or" to "and", as Algorithm 5 does; None if there is none.

    What joins clauses, numbers ("two or three"), phrases ("or so", "nice and warm"), what the
    speaker did, questions that offer alternatives, and places where the other word would be wrong
    are left alone.
    """
    return _change_one(conversation, rng, "Logical Connective Change", _connective)


def _change_one(
    conversation: Conversation, rng: random.Random, alteration: str, *rules: _Rule
) -> AlteredConversation | None:
    """Alter one place in a random sentence, as the algorithms do, by the first rule that fits."""
    for rule in rules:
        sentences = []
        for sentence in conversation.sentences:
            changes = [rule(conversation, sentence, place) for place in sentence.unnamed_places()]
            if options := [change for change in changes if change]:
                sentences.append(options)
        if sentences:
            change = rng.choice(rng.choice(sentences))
            return conversation.replace(alteration, change)
    return None


def _quantifier(conversation: Conversation, sentence: Sentence, place: int) -> _Change:
    word, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    if word not in ("all", "some") or before in word_list("no_quantifier_after"):
        return None
    new = "some" if word == "all" else "all"
    second = sentence.after(place + 1) if after else ""
    if after == "of":
        is_spoken_to = second == "you" and not before and not sentence.after(place + 2)
        changeable = second in word_list("parts_of") and not is_spoken_to
    elif word == "all" and after in word_list("determiners"):
        changeable = bool(noun_at(sentence, place + 2, plural=True)) or is_plural(second)
        new = "some of"
    elif after in ("are", "were", "have"):
        changeable = before in ("", *word_list("openers"))
    else:
        noun = None if before == "of" else noun_at(sentence, place + 1, plural=True)
        # "I had some soups" does not speak of particular soups, of which there could be all.
        changeable = noun is not None and (
            word == "all"
            or sentence.after(noun[0]) in SINGULAR_VERBS
            or (noun[1] is not None and before in word_list("placed"))
        )
    if not changeable or _is_share(conversation, sentence, place):
        return None
    return [sentence.replace_word(place, new)]


def _is_share(conversation: Conversation, sentence: Sentence, place: int) -> bool:
    """Return whether words near an "all" or "some" divide the things: "some pears …, some …"."""
    word, noun = sentence.at(place), counted_noun(conversation, sentence, place)
    near = {*sentence.lower, *nearby_words(conversation, sentence, before=NEARBY)}
    if {*word_list("exceptions")} & near or (word == "all" and "but" in sentence.all_after(place)):
        return True  # "all of us but Noah"
    for other in conversation.sentences:
        if abs(other.utterance - sentence.utterance) > NEARBY:
            continue
        for spot, share in enumerate(other.lower):
            if (other is sentence and spot == place) or not _is_share_word(other, spot):
                continue
            shared = counted_noun(conversation, other, spot)
            if noun and shared and noun != shared:
                continue
            is_rest = share in word_list("rests") or (share in ("other", "another") and shared)
            if other is sentence or is_rest or _contradicts(sentence, other, word, share):
                return True
    return False


def _is_share_word(sentence: Sentence, place: int) -> bool:
    """Return whether the word at a place stands for a part, or for what is left of the whole."""
    word, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    if is_number(word):
        is_alone = after in ("of", *word_list("after_nouns"), *_VERBS)
        is_whole = is_alone or noun_at(sentence, place + 1, plural=True) is not None
        return is_whole and before in ("", *word_list("before_shares"))
    if word in ("other", "another"):
        fits = after in ("", "one", "ones", *_VERBS) or is_plural(after)
        return fits and before not in word_list("before_other")
    shares = (*word_list("shares"), *word_list("rests"))
    return word in shares and before not in ("at", "after", "how")


def _contradicts(sentence: Sentence, other: Sentence, word: str, share: str) -> bool:
    """Return whether another sentence on the same things contradicts a changed quantifier."""
    first, second = sorted((sentence, other), key=lambda each: each.utterance)
    begins = re.findall(r"\w+", second.line[label_end(second.line) :].lower())
    reply = begins[0] if second.utterance == first.utterance + 1 else ""
    forms = question_form(first), question_form(second)
    if reply in word_list("no") or "other" in forms:
        return True  # "Are some there? / No, some are here.", "All of them?"
    if not any(forms):
        return word == "some"
    if sentence is first and share in ("most", "many", "half"):
        return True  # "Are some there? / Most are."
    return reply in word_list("yes") and (word == "some") == (sentence is first)


def _other_quantifier(conversation: Conversation, sentence: Sentence, place: int) -> _Change:
    """Return the change of another quantifier at a place, or of a "some" to "a few"."""
    words = sentence.lower
    if {"thank", "thanks", "happy", "more"} & {*words}:
        return None
    if sentence.before(place) in (*word_list("no_quantifier_after"), *word_list("determiners")):
        return None
    is_negative = any(word.endswith("n't") for word in words)
    for old, new, required in ENGLISH["other_quantifiers"]:
        last = place + old.count(" ")
        after = sentence.after(last)
        holds = {
            "plural": noun_at(sentence, last + 1, plural=True) is not None,
            "noun": after not in ("", "of", *word_list("after_nouns")),
            "end": not after,
            "negative": is_negative,
            "question": sentence.is_question and not is_negative,
        }
        if words[place : last + 1] == old.split() and all(map(holds.get, required.split())):
            return [sentence.replace(place, last, like_case(sentence.words[place].text, new))]
    return None


def _connective(conversation: Conversation, sentence: Sentence, place: int) -> _Change:
    word, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    ahead = sentence.all_before(place)
    if word not in ("and", "or") or not before or not after:
        return None
    if {*word_list("pair_words")} & {*ahead} or any(map(is_number, [after, *ahead[-3:]])):
        return None  # "between A and B", "two brothers and a sister"
    is_phrase = before in word_list("fixed_before") or after in word_list("fixed_after")
    is_again = after in {*ahead} - {*_ARTICLES}  # "pills for colds and pills for headaches"
    if is_phrase or is_again or f"{before} {after}" in ENGLISH["fixed_pairs"]:
        return None
    last = _joined_to(sentence, place)
    if last is None or _is_required(conversation, sentence, place):
        return None
    agreeing = _verb_of_both(sentence, place, last, plural=word == "or")
    new = sentence.replace_word(place, "or" if word == "and" else "and")
    return None if agreeing is None else [new, *agreeing]


def _joined_to(sentence: Sentence, place: int) -> int | None:
    """Return where a connective's second part ends, None if it may join clauses or verbs."""
    before, after, start = sentence.before(place), sentence.after(place), place + 1
    ahead, first = sentence.all_before(place), sentence.words[place - 1].text
    if after in _ARTICLES:
        places = range(start + 1, min(start + 4, len(sentence.words)))
        start = next((later for later in places if sentence.mention_at(later)), start + 1)
    if not sentence.joined(start):
        return None  # "Mr. and Mrs. Smith"
    second, mention = sentence.words[start].text, sentence.mention_at(start)
    last = sentence.mention_end(start)
    following = sentence.after(last)
    if following in _VERBS and _VERBS & {*ahead}:
        return None  # "my boss is friendly and my office is big"
    fits = {"", "of", *word_list("after_nouns")}
    if first[0].isupper() and second[0].isupper() and not (first.isupper() and len(first) > 1):
        is_listed = mention or sentence.mention_at(place - 1)
        are_names = is_listed or (is_first_name(first) and is_first_name(second))
        is_apposition = not following and len(ahead) < place  # "my sisters, Ann and Mary"
        # "Ann or Bob live" would not agree, and "Romeo or Juliet" be nobody's play.
        agrees = following in {*fits, *_VERBS, *word_list("past")} or following.endswith("ed")
        return last if are_names and agrees and not is_apposition else None
    is_pair = after == "me" or {before, after} <= {*_COLOURS} or start > place + 1
    classes = noun_classes("objects", second) | noun_classes("locations", second)
    is_noun = is_pair or is_plural(second.lower()) or bool(classes)
    # A modal after the second noun makes a clause of it: "hurry, or the bus will leave".
    fits = (fits - {*word_list("auxiliaries")}) | _VERBS
    return last if (mention or is_noun) and following in fits else None


def _is_required(conversation: Conversation, sentence: Sentence, place: int) -> bool:
    """Return whether a sentence, or the next ones, would be wrong with the other connective."""
    ahead, is_question = sentence.all_before(place), sentence.is_question
    later = {*sentence.lower[place:], *nearby_words(conversation, sentence)}
    if sentence.at(place) == "or":  # alternatives; "it is in A and B"; "A or B, not both"
        is_one = bool({*word_list("singular_marks")} & {*ahead} or {*word_list("choices")} & later)
        return is_question or sentence.is_negative or is_one
    # Nobody is unsure of what they did themselves, or chooses from what there is.
    is_known = not is_question and bool({*word_list("known")} & {*ahead, sentence.after(place)})
    ends_list = not is_question and len(ahead) < place and len(ahead) <= 3  # "A, B and C"
    if is_known or ends_list or "and" in sentence.all_after(place):
        return True
    if sentence.at(place - 1).endswith("self"):  # "bring yourself and the pills"
        return True
    are_names = sentence.words[place - 1].text[0].isupper()
    return are_names and bool({*word_list("together")} & later)


def _verb_of_both(sentence: Sentence, place: int, last: int, *, plural: bool) -> _Change:
    """Return the change of the verb whose subject a connective forms, or None if it is unclear."""
    mention, verb = sentence.mention_at(last), sentence.after(last)
    ahead = sentence.all_before(place)
    if 0 < len(ahead) <= 3 and ahead[0] in _VERBS:
        return None  # "are Alice and Bob there"
    several = mention.is_plural if mention else is_plural(sentence.at(last))
    forms = PLURAL_VERBS if plural else SINGULAR_VERBS
    if verb not in forms or (several and not plural):
        return []
    is_subject = len([word for word in ahead if word not in (*_ARTICLES, *_COLOURS)]) == 1
    return [sentence.replace_word(last + 1, forms[verb])] if is_subject else None
