"""Negation and inconsistent data in plain text: what the PragWorld paper's authors did by hand."""

import random
from collections.abc import Sequence

from pragworld_tasks.text_alterations.entities import Entities, Mention, find_mentions
from pragworld_tasks.text_alterations.inflection import like_case, words
from pragworld_tasks.text_alterations.noun_phrases import (
    AFTER_NOUNS,
    BE,
    DETERMINERS,
    PLURAL_VERBS,
    SINGULAR_VERBS,
    is_number,
    named,
)
from pragworld_tasks.text_alterations.tokens import (
    SUBJECTS,
    WH_WORDS,
    Altered,
    Change,
    Sentence,
    apply,
    read_sentences,
)

_NEGATIVES = {
    **{auxiliary: f"{auxiliary}n't" for auxiliary in words("is are was were do does did")},
    **{auxiliary: f"{auxiliary}n't" for auxiliary in words("have has had could would should")},
    **{"can": "can't", "will": "won't"},
}
_POSITIVES = {negative: positive for positive, negative in _NEGATIVES.items()} | {"cannot": "can"}
_CONTRACTED = (
    *(f"{subject}'s" for subject in words("he she it that there")),
    *(f"{subject}'re" for subject in words("you we they")),
    *(f"{subject}'ve" for subject in words("i you we they")),
    "i'm",
)
_PARTICIPLES = words("been seen gone put left done got had taken given found made brought")
# Before an auxiliary: no subject, so the words are not in the order of a statement.
_NO_SUBJECT = words(
    "so neither nor and or but than as to not here never a an my your his our their "
    "may might must shall need i'll you'll he'll she'll it'll we'll they'll"
)
# Negative already, or as good as.
_NEGATIVE_WORDS = words(
    "not no never nobody nothing none nowhere neither nor without hardly barely scarcely seldom "
    "rarely cannot won't shan't"
)
# Words that a negation does not go with, and words that do not go without one.
_POSITIVE_ONLY = words(
    "someone something somewhere somebody already too also still just only almost quite rather "
    "even both well least pretty better"
)
_NEGATIVE_ONLY = words(
    "anyone anything anywhere anybody ever yet either neither nor anymore longer until till but "
    "only just merely even much"
)
_CLAUSE_ENDS = words("and or but because that if when while so who which since until")
_YES, _NO = words("yes yeah yep"), words("no nope nah")
_INTERJECTIONS = words("oh well er um hm hmm ah sorry ok okay")
_OF_SUBJECTS = (
    *SUBJECTS,
    *DETERMINERS,
    *words("that there all some of them us one both a an"),
)

# Clauses about things that no such thing does, of one and of several.
_ABSURDITIES = (
    ("changes colour every time someone claps", "change colour every time someone claps"),
    ("hums whenever someone laughs", "hum whenever someone laughs"),
    ("floats an inch above the ground", "float an inch above the ground"),
    ("whispers old sailing songs at night", "whisper old sailing songs at night"),
    ("doubles in size whenever it rains", "double in size whenever it rains"),
    ("remembers everyone's birthday", "remember everyone's birthday"),
)


def negation(conversation: str, entities: Entities, rng: random.Random) -> Altered | None:
    """An auxiliary verb of a statement negated, or its negation taken away (paper, section 4).

    "He did" becomes "he didn't", "no, he didn't" becomes "yes, he did"; "some" behind it becomes
    "any", and back. Questions and clauses with another negation are left alone, and so is what
    would not stay grammatical.

    Returns:
        None where there is nothing that can be negated.
    """
    mentions = find_mentions(conversation, entities)
    curly = "\u2019" in conversation and "'" not in conversation
    lead: Sentence | None = None  # a "Yes." on its own, which belongs to the sentence behind it
    places = []
    for sentence in read_sentences(conversation):
        if not sentence.is_question:
            places += [
                _negated(sentence, place, None if sentence.opens else lead, mentions)
                for place in range(len(sentence.words))
                if not named(sentence, place, mentions)
            ]
        is_reply = sentence.opens and all(word.lower in _YES + _NO for word in sentence.words)
        lead = sentence if is_reply else None
    places = [changes for changes in places if changes]
    if not places:
        return None
    changes = rng.choice(places)
    if curly:
        changes = [
            Change(change.utterance, change.start, change.old, change.new.replace("'", "\u2019"))
            for change in changes
        ]
    return apply(conversation, "Negation", changes)


def inconsistent_data(conversation: str, entities: Entities, rng: random.Random) -> Altered | None:
    """A clause that defies common sense, put behind a mention of an object in a statement.

    As "the grapes, which hum whenever someone laughs," (paper, section 4: "a birthday cake that
    changes color every time someone claps").

    Returns:
        None where no object is mentioned in a place for it.
    """
    mentions = find_mentions(conversation, entities)
    places = [
        (mention, comma)
        for sentence in read_sentences(conversation)
        if not sentence.is_question
        for mention in mentions
        for comma in [_room_for_clause(sentence, mention)]
        if comma is not None
    ]
    if not places:
        return None
    mention, comma = rng.choice(places)
    clause = rng.choice(_ABSURDITIES)[mention.is_plural]
    old = mention.text
    new = f"{old}, which {clause}{comma}"
    if mention.text.isupper() and mention.text != mention.entity:
        new = new.upper()
    change = Change(mention.utterance, mention.start, old, new)
    return apply(conversation, "Injecting Inconsistent Data", [change])


# Negation -----------------------------------------------------------------------------------------


def _negated(
    sentence: Sentence, place: int, lead: Sentence | None, mentions: Sequence[Mention]
) -> list[Change]:
    """The changes that negate the auxiliary at a place, or undo it; none where that cannot be."""
    stood, before = sentence.at(place), sentence.before(place)
    if stood not in _CONTRACTED and (stood not in {*_NEGATIVES, *_POSITIVES, "am"} or not before):
        return []
    if before in (*_NO_SUBJECT, *_NEGATIVES, *_POSITIVES) or sentence.after(place) in SUBJECTS:
        return []
    if {"how", "why", "as", "than", "here"} & _ahead(sentence, place):
        return []
    is_negative = stood in _POSITIVES or sentence.after(place) == "not"
    changes = (_without_not if is_negative else _with_not)(sentence, place)
    return _with_reply(sentence, place, lead, mentions, changes, _NO if is_negative else _YES)


def _without_not(sentence: Sentence, place: int) -> list[Change]:
    stood, text = sentence.at(place), sentence.words[place].text
    last = place + (sentence.after(place) == "not")
    if stood in _POSITIVES and last > place:
        return []
    new = like_case(text, _POSITIVES.get(stood, text))
    mended = _other_polarity(sentence, last, "any", "some", _NEGATIVE_ONLY)
    # The released conversations have "didn't went", which is no better without the negation.
    if mended is None or sentence.after(last) == "went":
        return []
    return [sentence.change(place, last, new), *mended]


def _with_not(sentence: Sentence, place: int) -> list[Change]:
    stood, text = sentence.at(place), sentence.words[place].text
    for index, word in enumerate(sentence.words):
        is_negative = word.lower in _NEGATIVE_WORDS or word.lower.endswith("n't")
        if is_negative and not _is_reply(sentence, index):
            return []
    mended = _other_polarity(sentence, place, "some", "any", _POSITIVE_ONLY)
    if mended is None or not _can_be_negated(sentence, place):
        return []
    new = _NEGATIVES.get(stood, f"{text} not")
    return [sentence.change(place, place, like_case(text, new)), *mended]


def _ahead(sentence: Sentence, place: int) -> set[str]:
    """The words before a place, without marks between."""
    return {sentence.at(index) for index in range(sentence.phrase_start(place), place)}


def _can_be_negated(sentence: Sentence, place: int) -> bool:
    """Whether the auxiliary at a place is one there, and takes a "not"."""
    stood, after = sentence.at(place), sentence.after(place)
    if stood in _CONTRACTED:
        return bool(after) and (not stood.endswith("'ve") or _is_participle(after))
    beyond = sentence.at(place + 1)
    if not after:  # a short reply: "he did", "Noah was, but …"
        is_over = beyond in ("", "and", "but")
        return is_over and not _ahead(sentence, place) & {*WH_WORDS} and stood != "am"
    if stood in ("do", "does", "did"):
        return False  # "he did the dishes"
    if stood in ("have", "has", "had"):
        return _is_participle(after)
    return True


def _is_participle(word: str) -> bool:
    return word in _PARTICIPLES or (word.endswith("ed") and word != "need")


def _other_polarity(
    sentence: Sentence, place: int, old: str, new: str, unfit: Sequence[str]
) -> list[Change] | None:
    """The change of some to any, or back, behind a verb; None where other words would not fit."""
    found = [sentence.at(index) for index in range(place + 1, len(sentence.words))]
    clause = next((i for i, word in enumerate(found) if word in _CLAUSE_ENDS), len(found))
    # What the negation allows further on, too, must not be left without it.
    if old == "any" and ({*unfit, old} & {*found[clause:]} or "at all" in sentence.line.lower()):
        return None
    if set(unfit) & set(found[:clause]) or found[:clause].count(old) > 1:
        return None
    if old not in found[:clause]:
        return []
    index = place + 1 + found.index(old)
    return [sentence.change(index, index, like_case(sentence.words[index].text, new))]


def _is_reply(sentence: Sentence, place: int) -> bool:
    """Whether a yes or no answers, and does not belong to a noun ("no problem")."""
    if not sentence.opens or sentence.at(place) not in _YES + _NO:
        return False
    if any(sentence.at(index) not in _INTERJECTIONS for index in range(place)):
        return False
    return not sentence.joined(place + 1) or sentence.at(place + 1) in (*SUBJECTS, "there")


def _with_reply(
    sentence: Sentence,
    place: int,
    lead: Sentence | None,
    mentions: Sequence[Mention],
    changes: list[Change],
    contrary: Sequence[str],
) -> list[Change]:
    """The changes, with that of a yes or no before the clause that now contradicts it.

    None of them where it may belong to another clause ("Yes, I left them and he is there").
    """
    replies = [index for index in range(place) if _is_reply(sentence, index)]
    if replies:
        reply, source, begin = replies[0], sentence, replies[0] + 1
    elif lead:
        reply, source, begin = 0, lead, 0
    else:
        return changes
    if source.at(reply) not in contrary or not changes:
        return changes
    for index in range(begin, place):
        if sentence.at(index) not in _OF_SUBJECTS and not named(sentence, index, mentions):
            return []
        if index > begin and not sentence.joined(index):
            return []
    text = source.words[reply].text
    new = like_case(text, "no" if contrary == _YES else "yes")
    return [source.change(reply, reply, new), *changes]


# Inconsistent data --------------------------------------------------------------------------------

_BEHIND_OBJECTS = {*AFTER_NOUNS, *PLURAL_VERBS, *SINGULAR_VERBS} - set(
    words("with without for of as than please each left")
)
# Before a noun, these leave open which or whether there is one, so nothing can be said of it.
_INDEFINITE = words(
    "no any every each either neither which what whose many much few fewer less more"
)


def _room_for_clause(sentence: Sentence, mention: Mention) -> str | None:
    """What ends a clause behind a mention, "," or ""; None where there is no room for one."""
    if mention.kind != "objects" or mention.utterance != sentence.utterance or mention.ending:
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
    if set(ahead) & set(_INDEFINITE) or (ahead[0] == "of" and not mention.is_plural):
        return None
    if not mention.is_plural and not (
        {"a", "an", "one", *DETERMINERS} & set(ahead) or is_number(ahead[0])
    ):
        return None  # half of a compound ("apple juice"), or a mass
    if sentence.joined(last + 1):
        behind = sentence.at(last + 1)
        return "," if behind in _BEHIND_OBJECTS or behind in BE else None
    end = sentence.words[last].end
    return "" if sentence.line[end : end + 1] in ("", ",", ".", "!", ";", " ", "\r") else None
