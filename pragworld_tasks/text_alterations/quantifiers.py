"""Changes of quantifiers and connectives: Algorithms 4 and 5 of the PragWorld paper.

The released scripts replace such words wherever they stand. Here a word is replaced only where the
sentence stays grammatical, together with the words that have to agree.
"""

import random
import re
from collections.abc import Callable, Sequence

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import ENGLISH, is_plural, like_case, word_list
from pragworld_tasks.text_alterations.noun_phrases import (
    NEARBY,
    PLURAL_VERBS,
    SINGULAR_VERBS,
    counted_noun,
    is_number,
    noun_at,
)
from pragworld_tasks.text_alterations.nouns import is_first_name, is_known_noun
from pragworld_tasks.text_alterations.tokens import (
    AllowedChange,
    AlteredConversation,
    Sentence,
    TextReplacement,
    label_end,
)
from pragworld_tasks.text_alterations.turns import question_form


def quantifier_change(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Change an "all" to "some" or a "some" to "all", as Algorithm 4 does (appendix A.1).

    "All the grapes" become "some of the grapes". Phrases ("at all", "all right") and places where
    the other word would be wrong ("there are some", "they are all there") are left alone, and so
    are parts of things which other words near them divide ("some are here, the rest there"). Where
    nothing else can be changed, other quantifiers change as the benchmark's authors changed them:
    "many people" to "some people", "a few days" to "several days", "all my life" to "most of my
    life", "some famous paintings" to "many famous paintings".

    Returns:
        The altered conversation, or None if it has no quantifier that can be changed.
    """
    return _change_one(conversation, rng, "Quantifier Change", (_quantifier, _other_quantifier))


def connective_change(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Change an "and" to "or" or an "or" to "and", as Algorithm 5 does (appendix A.1).

    "Both A and B" become "either A or B", and the reverse. What joins clauses or verbs ("put them
    there and left"), numbers ("two or three"), phrases ("or so", "nice and warm"), questions that
    offer alternatives, and places where the other word would be wrong are left alone.

    Returns:
        The altered conversation, or None if it has no connective that can be changed.
    """
    rules = (_others_connective, _connective, _verb_connective)
    return _change_one(conversation, rng, "Logical Connective Change", rules)


def _change_one(
    conversation: Conversation,
    rng: random.Random,
    alteration: str,
    rules: Sequence[Callable[[Conversation, Sentence, int], AllowedChange | None]],
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
            return conversation.replace(alteration, change.replacements, change.reason)
    return None


# Algorithm 4: quantifiers -------------------------------------------------------------------------


def _quantifier(conversation: Conversation, sentence: Sentence, place: int) -> AllowedChange | None:
    """Return the change of the "all" or "some" at a place, or None if it cannot be changed."""
    word, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    if word not in ("all", "some") or before in word_list("no_quantifier_after"):
        return None
    clause_begins = ("", *word_list("wh_words"), *word_list("openers"))
    if before in word_list("be") and sentence.before(place - 1) not in clause_begins:
        return None  # "there are some", "they are all"
    new = "some" if word == "all" else "all"
    second = sentence.after(place + 1) if after else ""
    if after == "of":
        is_spoken_to = second == "you" and not before and not sentence.after(place + 2)
        changeable = second in word_list("parts_of") and not is_spoken_to
        reason = f'"{word} of" has particular things after it'
    elif word == "all" and after in word_list("determiners"):
        changeable = bool(noun_at(sentence, place + 2, plural=True)) or is_plural(second)
        new = "some of"
        reason = f'"all {after}" has a noun in the plural after it'
    elif after in ("are", "were", "have"):
        changeable = before in ("", *word_list("openers"))
        reason = f'"{word}" is the subject on its own'
    else:
        noun = None if before == "of" else noun_at(sentence, place + 1, plural=True)
        # "I had some soups" does not speak of particular soups, of which there could be all.
        changeable = noun is not None and (
            word == "all"
            or sentence.after(noun[0]) in SINGULAR_VERBS
            or (noun[1] is not None and before in word_list("placed"))
        )
        reason = f'"{word}" has a noun in the plural after it, which stands for particular things'
    if not changeable or _is_share(conversation, sentence, place):
        return None
    return AllowedChange((sentence.replace_word(place, new),), reason)


def _is_share(conversation: Conversation, sentence: Sentence, place: int) -> bool:
    """Return whether other words near an "all" or "some" may divide the same things.

    "Some pears are here, some are there" would contradict itself with "all pears".
    """
    word, noun = sentence.at(place), counted_noun(conversation, sentence, place)
    if word == "all" and "but" in sentence.all_after(place):
        return True  # "all of us but Noah"
    for other in conversation.sentences:
        if abs(other.utterance - sentence.utterance) > NEARBY:
            continue
        for spot, share in enumerate(word.lower for word in other.words):
            if (other is sentence and spot == place) or not is_share_word(other, spot):
                continue
            if share in word_list("exceptions"):
                return True
            shared = counted_noun(conversation, other, spot)
            if noun and shared and noun != shared:
                continue
            is_rest = share in word_list("rests") or (share in ("other", "another") and shared)
            if other is sentence or is_rest:
                return True
            if _contradicts(sentence, other, word, share):
                return True
    return False


_AFTER_SHARES = (
    *("of", *word_list("auxiliaries"), *word_list("past"), *word_list("prepositions")),
    *(*PLURAL_VERBS, *SINGULAR_VERBS),
)


def is_share_word(sentence: Sentence, place: int) -> bool:
    """Return whether the word at a place stands for a part, or for what is left of the whole."""
    word, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    if word in ("rest", "remainder") and before != "the":
        return False  # "I need some rest"
    if word in (*word_list("rests"), *word_list("exceptions")):
        return True
    if is_number(word):
        begins = not before or before in word_list("before_shares")
        return begins and (after in _AFTER_SHARES or _plural_follows(sentence, place))
    if word == "ones":
        return "of" not in sentence.all_before(place)[-4:]  # "the older ones"
    if word in ("other", "another"):
        ends = after in ("", "one", "ones", *PLURAL_VERBS, *SINGULAR_VERBS)
        is_thing = sentence.joined(place + 1) and (
            sentence.mention_at(place + 1) or is_plural(after)
        )
        return bool(ends or is_thing) and before not in word_list("before_other")
    return word in word_list("shares") and before not in ("at", "after", "how")


def _contradicts(sentence: Sentence, other: Sentence, word: str, share: str) -> bool:
    """Return whether another sentence about the same things may contradict a changed one.

    "Some are there" does with "all", and "no, some are" with the question whether some are. "Most
    are" is no reply to it either.
    """
    first, second = sorted((sentence, other), key=lambda each: each.utterance)
    reply = _first_word(second) if second.utterance == first.utterance + 1 else ""
    if reply in word_list("no"):
        return True
    forms = question_form(first), question_form(second)
    if "other" in forms:
        return True  # "All of them?"
    if not any(forms):
        return word == "some"
    if sentence is first and share in ("most", "many", "half"):
        return True
    return reply in word_list("yes") and (word == "some") == (sentence is first)


def _first_word(sentence: Sentence) -> str:
    """Return the first word of the utterance with a sentence, in lower case."""
    return next(iter(re.findall(r"\w+", sentence.line[label_end(sentence.line) :].lower())), "")


_OTHER_QUANTIFIERS = {"many": "some", "several": "many", "most": "some"}


def _other_quantifier(
    conversation: Conversation, sentence: Sentence, place: int
) -> AllowedChange | None:
    """Return the change of another quantifier at a place, or of an "all" or "some" to another."""
    word, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    if before in word_list("no_quantifier_after"):
        return None
    words = {word.lower for word in sentence.words}
    if words & {"thank", "thanks", "happy"}:
        return None
    if {*word_list("before_quantified_requests")} & {after, *sentence.all_before(place)}:
        return None
    if word == "all" and after in word_list("determiners"):
        if sentence.after(place + 1) in word_list("spans"):
            new = sentence.replace_word(place, "most of")
            return AllowedChange((new,), f'"all {after} {sentence.at(place + 2)}" has parts')
        return None
    if word == "a" and after == "few" and _plural_follows(sentence, place + 1):
        return AllowedChange(
            (sentence.replace(place, place + 1, like_case(sentence.words[place].text, "several")),),
            '"a few" counts things, as "several" does',
        )
    if word == "a" and after == "lot":
        if sentence.after(place + 1) == "of" and _plural_follows(sentence, place + 2):
            new = sentence.replace(place, place + 2, like_case(sentence.words[place].text, "a few"))
            return AllowedChange((new,), '"a lot of" counts things, as "a few" does')
        if not sentence.after(place + 1) and before.isalpha():
            return AllowedChange(
                (sentence.replace_word(place + 1, "little"),), '"a lot" says how much'
            )
        return None
    asks = sentence.is_question and bool(
        {*sentence.all_before(place)} & {*word_list("auxiliaries")}
    )
    asks = asks and not any(word.endswith("n't") for word in words)
    if word == "any" and asks and _plural_follows(sentence, place, more=True):
        return AllowedChange((sentence.replace_word(place, "some"),), '"any" asks for things')
    if word == "anyone" and asks:
        return AllowedChange(
            (sentence.replace_word(place, "someone"),), '"anyone" asks for a person'
        )
    ahead = sentence.all_before(place)
    if word == "much" and not sentence.is_question and ahead[-2:-1] and ahead[-2].endswith("n't"):
        return AllowedChange(
            (sentence.replace_word(place, "any"),), '"much" is in a negated clause'
        )
    # "I'd like some apples" is not "I'd like many apples".
    is_subject = before in ("", "with") and {*word_list("auxiliaries")} & words
    if word == "some" and is_subject and _plural_follows(sentence, place):
        return AllowedChange(
            (sentence.replace_word(place, "many"),), '"some" counts things that are not particular'
        )
    if word in _OTHER_QUANTIFIERS and _plural_follows(sentence, place):
        new_word = _OTHER_QUANTIFIERS[word]
        return AllowedChange((sentence.replace_word(place, new_word),), f'"{word}" counts things')
    return None


def _plural_follows(sentence: Sentence, place: int, *, more: bool = False) -> bool:
    """Return whether a noun in the plural comes after a place, at most two adjectives away."""
    for start in (place + 1, place + 2, place + 3):
        if start >= len(sentence.words) or not sentence.joined(start):
            return False
        mention, word = sentence.mention_at(start), sentence.at(start)
        if mention and mention.kind == "objects":
            return mention.is_plural and not mention.ending
        if word == "people" or is_plural(word):
            return sentence.words[start].text[0].islower()
        if word == "more" and more:
            continue
        if is_number(word) or word in (*word_list("after_nouns"), "of", "more", "time", "kind"):
            return False
    return False


# Algorithm 5: connectives -------------------------------------------------------------------------


def _connective(conversation: Conversation, sentence: Sentence, place: int) -> AllowedChange | None:
    """Return the change of the connective at a place, or None if it cannot be changed."""
    word, before, after = sentence.at(place), sentence.before(place), sentence.after(place)
    if word not in ("and", "or") or not after or after in word_list("fixed_after"):
        return None
    if before == after or before in word_list("fixed_before"):
        return None
    if f"{before} {after}" in ENGLISH["fixed_pairs"]:
        return None
    if is_number(after) or (before and is_number(before)):
        return None
    if place == 0 and not _can_offer(conversation, sentence):
        return None
    if word == "and" and any(map(is_number, sentence.all_before(place)[-3:])):
        return None  # "two brothers and a sister"
    ahead = sentence.all_before(place)
    if {"between", "whether", "mix", "mixture", "neither", "not"} & {*ahead}:
        return None
    joined = _joined_parts(sentence, place)
    if joined is None:
        return None
    if word == "or" and (sentence.is_question or {*word_list("singular_marks")} & {*ahead}):
        return None  # alternatives; "it is in A and B"
    if word == "or" and _is_one_of_both(conversation, sentence, place):
        return None
    if _is_apposition(sentence, place):
        return None
    if word == "and" and joined == "names" and _meant_together(conversation, sentence, place):
        return None
    new = "or" if word == "and" else "and"
    replacements = [sentence.replace_word(place, new)]
    first, other = ("both", "either") if word == "and" else ("either", "both")
    if first in ahead:
        distance = ahead[::-1].index(first)
        between = ahead[len(ahead) - distance :]
        pair = place - distance - 1
        if word == "or" and (not between or between[0] == "of" or _is_clause(between)):
            return None
        if {"and", "or"} & set(between):
            return None
        follows_pronoun = sentence.before(pair) in ("they", "we", "you", "are", "were")
        if between[:1] != ["of"] and not follows_pronoun:
            replacements.insert(0, sentence.replace_word(pair, other))
    agreeing = _verb_of_both(sentence, place, plural=new == "and")
    if agreeing is None:
        return None
    return AllowedChange((*replacements, *agreeing), f'"{word}" joins {joined}, not clauses')


def _others_connective(
    conversation: Conversation, sentence: Sentence, place: int
) -> AllowedChange | None:
    """Return the change of a connective that leaves no speaker unsure of their own doings.

    "I went to the hall or the den" is grammatical, but somebody else's ways are better in doubt.
    """
    words = (*sentence.all_before(place), sentence.after(place))
    if sentence.at(place) == "and" and not sentence.is_question and {"i", "my"} & {*words}:
        return None
    return _connective(conversation, sentence, place)


def _verb_connective(
    conversation: Conversation, sentence: Sentence, place: int
) -> AllowedChange | None:
    """Return the change of an "and" that joins what another person did, or None."""
    if not _is_second_verb(sentence, place):
        return None
    new = sentence.replace_word(place, "or")
    return AllowedChange((new,), '"and" joins two things that somebody else did')


def _joined_parts(sentence: Sentence, place: int) -> str | None:
    """Return what the connective at a place joins, or None if it may join clauses or verbs.

    "Sit down or I can help you" is grammatical, but nobody would say it.
    """
    before, after = sentence.before(place), sentence.after(place)
    start = place + 1
    if place == 0:
        is_noun = after in (*word_list("determiners"), "a", "an") or sentence.mention_at(1)
        alone = not {*word_list("auxiliaries")} & {word.lower for word in sentence.words}
        return (
            "a noun to what was said before" if is_noun and alone and sentence.is_question else None
        )
    if not before:
        return None
    if after == "i":  # "Lily and I", "my brother and I"
        is_name = sentence.words[place - 1].text[0].isupper()
        return "names" if is_name or len(sentence.all_before(place)) == 2 else None
    if after in word_list("prepositions"):
        return "phrases" if _follows_alike(sentence, place, after) else None
    if after in word_list("colours") and before in word_list("colours"):
        return "adjectives" if not sentence.after(start) else None
    if before.isalpha() and after.isalpha() and not sentence.after(start):
        verb = sentence.before(place - 1)
        verb = sentence.before(place - 2) if verb in ("so", "very", "both", "either") else verb
        known = sentence.mention_at(start) or is_plural(after)
        known = known or "born" in (before, after)
        if (
            verb in (*word_list("be"), *word_list("contracted"), "am")
            and not known
            and not after.endswith("ing")
        ):
            return "adjectives"
    if after in (*word_list("determiners"), "a", "an"):
        start += 1
        start += _adjectives(sentence, start)
    if start >= len(sentence.words) or not sentence.joined(start):
        return None
    return _joined_nouns(sentence, place, start)


def _joined_nouns(sentence: Sentence, place: int, start: int) -> str | None:
    """Return "names" or "nouns" if a connective joins those, the second of which is at `start`."""
    first, second = sentence.words[place - 1].text, sentence.words[start].text
    if first.lower() in word_list("titles"):
        return None  # "Mr. and Mrs. Smith"
    mention = sentence.mention_at(start)
    if all(
        word[0].isupper() and (len(word) == 1 or not word.isupper()) for word in (first, second)
    ):
        is_listed = mention or sentence.mention_at(place - 1)
        if is_listed or (is_first_name(first) and is_first_name(second)):
            return "names"
        return None  # "Romeo and Juliet"
    is_noun = start > place + 1 or is_plural(second.lower()) or is_known_noun(second.lower())
    if not (mention or is_noun):
        return None
    # A modal after the second noun makes a clause of it: "hurry, or the bus will leave".
    fits = {"", "of", *word_list("after_nouns")} - {*word_list("auxiliaries")}
    following = sentence.after(sentence.mention_end(start))
    verbs = {*PLURAL_VERBS, *SINGULAR_VERBS}
    if following in verbs and verbs & {*sentence.all_before(place)}:
        return None  # "my boss is friendly and my office is big"
    return "nouns" if following in {*fits, *verbs} else None


def _can_offer(conversation: Conversation, sentence: Sentence) -> bool:
    """Return whether "Or the dog?" may follow what is before it: not after "Yes." or "Where …?"."""
    place = conversation.sentences.index(sentence)
    if place == 0:
        return True
    before = conversation.sentences[place - 1]
    return question_form(before) in ("yes or no", "other") or _first_word(before) in word_list("no")


def _adjectives(sentence: Sentence, place: int) -> int:
    """Return how many words, at most two, stand between a place and a mention after it."""
    for number in range(3):
        if place + number >= len(sentence.words) or not sentence.joined(place + number):
            return 0
        if sentence.mention_at(place + number):
            return number
    return 0


def _is_second_verb(sentence: Sentence, place: int) -> bool:
    """Return whether a connective joins what another person did: "he left them and walked away"."""
    ahead = sentence.all_before(place)
    verb = sentence.after(place)
    if sentence.at(place) != "and" or {"between", "both"} & {*ahead}:
        return False
    if verb not in ("went", "left") and not re.fullmatch(r"(?!need)\w{3,}ed", verb):
        return False
    if {"i", "we", "you"} & {*ahead} or sentence.is_question:
        return False
    return len(ahead) > 3 and bool({*word_list("past")} & {*ahead[:4]})


def _follows_alike(sentence: Sentence, place: int, preposition: str) -> bool:
    """Return whether the same preposition stands shortly before a connective: "in A and in B"."""
    return preposition in sentence.all_before(place)[-4:]


def _is_one_of_both(conversation: Conversation, sentence: Sentence, place: int) -> bool:
    """Return whether words around an "or" require it: "I can't see A or B", "A or B, not both"."""
    following = conversation.sentences.index(sentence) + 1
    words = [
        word.lower
        for near in (sentence, *conversation.sentences[following : following + 1])
        for word in near.words
    ]
    is_negative = any(
        word in word_list("negative_words") or word.endswith("n't") for word in words[:place]
    )
    return is_negative or bool({"one", "both", "which", "whichever", "whoever"} & {*words[place:]})


def _is_apposition(sentence: Sentence, place: int) -> bool:
    """Return whether a pair after a comma is what stands before it: "my sisters, Ann and Mary"."""
    first, last = place - len(sentence.all_before(place)), place + 1
    last += sentence.at(last) in (*word_list("determiners"), "a", "an")
    if first == 0 or place - first > 3 or sentence.after(sentence.mention_end(last)):
        return False
    before = sentence.words[first - 1].text
    if sentence.mention_at(first - 1) or is_first_name(before):
        return False  # "Tom, Ann and Mary"
    return sentence.words[place - 1].text[0].isupper() or is_plural(before)


def _meant_together(conversation: Conversation, sentence: Sentence, place: int) -> bool:
    """Return whether a word soon after shows that the names around an "and" are meant together."""
    if sentence.after(place) == "i":
        return "both" in (word.lower for word in sentence.words[place:])
    first = conversation.sentences.index(sentence)
    near = [word.lower for word in sentence.words[place:]]
    for later in conversation.sentences[first + 1 :]:
        if later.utterance > sentence.utterance + 2:
            break
        near += [word.lower for word in later.words]
    return bool({*word_list("together")} & {*near})


def _is_clause(words: Sequence[str]) -> bool:
    """Return whether words after "either" may be a whole clause, which cannot follow "both"."""
    if words[0] in ("there", *word_list("subjects")):
        return True
    determiners = word_list("determiners")
    is_phrase = words[0] in (*word_list("after_nouns"), *determiners)
    return not is_phrase and len([word for word in words if word not in determiners]) > 1


def _verb_of_both(sentence: Sentence, place: int, *, plural: bool) -> list[TextReplacement] | None:
    """Return the change of the verb whose subject a connective forms, or None if it is unclear."""
    last = place + 1
    if sentence.at(last) in (*word_list("determiners"), "a", "an"):
        last += 1
    last += _adjectives(sentence, last)
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
    not_counted = (*word_list("determiners"), *word_list("colours"), "both", "either")
    is_subject = len([word for word in ahead if word not in not_counted]) == 1
    if not is_subject or noun in ("i", "he", "she", "it", "there", "that"):
        return None
    return [sentence.replace_word(last + 1, forms[verb])]
