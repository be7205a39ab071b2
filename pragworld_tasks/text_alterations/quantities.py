"""Changes of quantities: Algorithm 3 of the PragWorld paper (appendix A.1).

A number changes only if it certainly counts something, all that agrees with it is known, and
nothing else in the conversation may depend on it: no sum, part, price, correction or agreement.
"""

import itertools
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import (
    ENGLISH,
    like_case,
    number_forms,
    number_words,
    read_number,
    read_ordinal,
    word_list,
)
from pragworld_tasks.text_alterations.noun_phrases import (
    NEARBY,
    PLURAL_VERBS,
    SINGULAR_VERBS,
    counted_noun,
    is_number,
    nearby_words,
    noun_at,
)
from pragworld_tasks.text_alterations.tokens import (
    AlteredConversation,
    Sentence,
    TextReplacement,
    label_end,
)

_Change = list[TextReplacement] | None
_UNITS = word_list("units")
_LISTED, _RELIED_ON, _RELATIONS = (
    re.compile(ENGLISH[name], re.IGNORECASE)
    for name in ("list_follows", "number_relied_on", "relations")
)
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_AFTER_PHRASES = ("", *word_list("after_nouns"), *PLURAL_VERBS, *SINGULAR_VERBS)


@dataclass(frozen=True, slots=True)
class _Number:
    """A number, the "a" of a measure ("about a mile"), or both numbers of "two or three"."""

    sentence: Sentence
    # The places of first and last word, and the value: 0 for no number ("9:00", "one fifty").
    parts: tuple[tuple[int, int, int], ...]
    noun: str  # what it counts, in the singular, or "" if that is unknown
    begin: int  # the place of the first word of "about two" or "exactly two"

    @property
    def first(self) -> int:
        return self.parts[0][0]

    @property
    def last(self) -> int:
        return self.parts[-1][1]

    @property
    def values(self) -> tuple[int, ...]:
        return tuple(value for _, _, value in self.parts)


def quantity_change(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Make a number greater or smaller, as Algorithm 3 does; None if none can be changed.

    One becomes two. A number n > 1 grows by 1 to n or shrinks by 1 to n - 1; round numbers from 20
    on stay round. Words stay words and digits stay digits. "A" before a measure ("about a mile") is
    one. Both numbers of "two or three" change by as much, and so do equal numbers of the same
    things. Times, dates, ages and names with a number are left alone, and so is every number that
    another one or a later turn may depend on ("Ten kids came: six girls and four boys", "In two
    hours. / That's right.").
    """
    numbers = [number for each in conversation.sentences for number in _numbers(conversation, each)]
    options = []
    for number in numbers:
        same = [other for other in numbers if other.noun == number.noun != ""] or [number]
        if not _is_free(conversation, same, numbers):
            continue
        ways = [
            [change for new in values if (change := _changed(conversation, same, new))]
            for values in _new_values(number.values[0])
        ]
        if any(ways):
            options.append([changes for changes in ways if changes])
    if not options:
        return None
    replacements = rng.choice(rng.choice(rng.choice(options)))
    return conversation.replace("Quantity Change", replacements)


def _numbers(conversation: Conversation, sentence: Sentence) -> list[_Number]:
    """Return the numbers of a sentence, whatever they stand for."""
    numbers: list[_Number] = []
    for place in sentence.unnamed_places():
        if numbers and place <= numbers[-1].last:
            continue
        if not (is_number(sentence.at(place)) or _is_measure(sentence, place)):
            continue
        parts = [_read(sentence, place)]
        _, last, value = parts[0]
        if sentence.after(last) in ("or", "to") and is_number(sentence.after(last + 1)):
            other = _read(sentence, last + 2)
            parts += [other] if 0 < value < other[2] else []
        begin = place
        while sentence.before(begin) in word_list("about"):
            begin -= 1
        begin -= sentence.at(begin) in ("least", "most") and sentence.before(begin) == "at"
        noun = _noun(conversation, sentence, *parts[-1][:2])
        numbers.append(_Number(sentence, tuple(parts), noun, begin))
    return numbers


def _read(sentence: Sentence, first: int) -> tuple[int, int, int]:
    """Return the first and last place of the number that begins at a place, and the number."""
    last = first
    while is_number(sentence.after(last)):
        last += 1
    text = sentence.text(first, last).lower()
    if text in ("a", "an"):
        return first, last, 1
    return first, last, read_number(text) or read_number(f"one {text}") or 0  # "a hundred"


def _is_measure(sentence: Sentence, place: int) -> bool:
    """Return whether an "a" stands before a measure, of which it is one: "for an hour"."""
    return (
        sentence.at(place) in ("a", "an")
        and sentence.after(place) in _UNITS
        and sentence.before(place) in ("", *word_list("before_units"))
        and sentence.after(place + 1) in ("", *word_list("after_nouns"))
    )


def _noun(conversation: Conversation, sentence: Sentence, first: int, last: int) -> str:
    """Return what a number counts, in the singular, or ""."""
    after = sentence.after(last)
    noun = after if after in _UNITS else counted_noun(conversation, sentence, last)
    line = sentence.line[: sentence.words[first].start].rstrip()
    if line.endswith(("$", "£", "€")) or noun in word_list("money"):
        return "money"
    # "Two years ago" is a point in time.
    return f"{noun} ago" if sentence.after(last + 1) == "ago" else noun


def _is_free(
    conversation: Conversation, same: Sequence[_Number], numbers: Sequence[_Number]
) -> bool:
    """Return whether nothing depends on all numbers of the same things but one another."""
    before = {number.sentence.before(number.begin) for number in same}
    if before <= {*word_list("definite_before")} or len({number.values for number in same}) > 1:
        return False  # "the two cups", "all three" are told of before
    others = [each for each in numbers if each not in same and (each.noun or _is_quantity(each))]
    for number in same:
        if not _is_quantity(number) or _is_relied_on(conversation, number):
            return False
        values = list[int]()
        for other in others:
            distance = abs(number.sentence.utterance - other.sentence.utterance)
            # What is asked, offered and paid may be far apart.
            if distance > NEARBY and number.noun != "money":
                continue
            may_be_of_same = other.sentence is number.sentence or not (other.noun and number.noun)
            if may_be_of_same or (other.values == number.values and distance < NEARBY):
                return False
            values += other.values
        if _adds_up(number.values[0], values):
            return False
    return True


def _is_quantity(number: _Number) -> bool:
    """Return whether nothing beside a number makes a name, a time or a constant of it."""
    sentence, text = number.sentence, number.sentence.text(number.first, number.last)
    first, line = sentence.words[number.first], sentence.line
    before, after = sentence.before(number.first), sentence.after(number.last)
    if not 0 < number.values[0] < 500_000 or text[0] == "0":
        return False
    if {before, sentence.before(number.begin)} & {*word_list("no_count_after")}:
        return False  # "room 12", "at two", "you two"
    if f"{number.values[0]} {after}" in ENGLISH["constants"] or after in word_list("of_numbers"):
        return False
    if _YEAR.fullmatch(text) and before in word_list("prepositions"):
        return False
    is_title = bool(before) and text[0].isupper() and not text.isupper()  # "World War Two"
    return not is_title and not re.search(r"[#.:/+\-\u2013]$", line[: first.start])


def _adds_up(value: int, others: Sequence[int]) -> bool:
    """Return whether a number is the sum or the product of others, or has a part in one."""
    for size in (2, 3):
        for parts in itertools.combinations((value, *others), size):
            results = {sum(parts)} | ({math.prod(parts)} if min(parts) > 1 else set())
            if value in results or (value in parts and results & {*others}):
                return True
    return False


def _is_relied_on(conversation: Conversation, number: _Number) -> bool:
    """Return whether words near a number may depend on it: "each", "the third", "That's right"."""
    sentence = number.sentence
    listed = sentence.line[sentence.words[number.last].end :]
    lines = conversation.turns[sentence.utterance + 1 :]
    reply = lines[0][label_end(lines[0]) :] if lines else ""
    later = " ".join(sentence.lower + nearby_words(conversation, sentence))
    near = sentence.lower + nearby_words(conversation, sentence, before=NEARBY)
    ordinals = [2 if word.endswith("tieth") else read_ordinal(word) or 0 for word in near]
    return bool(
        _LISTED.match(listed)
        or _RELIED_ON.match(reply)
        or _RELATIONS.search(later)
        or (number.noun.endswith(" ago") and any(map(_YEAR.fullmatch, near)))
        or any(1 < ordinal <= number.values[0] + 1 for ordinal in ordinals)
    )


def _new_values(value: int) -> list[list[int]]:
    """Return the numbers that addition can give, and those that subtraction can give."""
    fits = [step for step in (100, 10, 5) if value % step == 0 and value >= max(2 * step, 20)]
    step = fits[0] if fits else 1
    both = range(value + 1, 2 * value + 1), range(1, value)
    return [[new for new in values if new % step == 0] for values in both]


def _changed(conversation: Conversation, same: Sequence[_Number], new: int) -> _Change:
    """Return the replacements of equal numbers and what agrees with them, None if unclear."""
    replacements = []
    for number in same:
        sentence = number.sentence
        was_plural, plural = number.values[-1] > 1, new + number.values[-1] - number.values[0] > 1
        phrase = _phrase(conversation, number, plural=plural)
        if phrase is None:
            return None
        for first, last, value in number.parts:
            text, other = sentence.text(first, last), value + new - number.values[0]
            digits = f"{other:,}" if "," in text else str(other)
            written = digits if text[0].isdigit() else like_case(text, number_words(other))
            replacements.append(sentence.replace(first, last, written))
        if was_plural != plural:
            verbs = _agreeing_verbs(sentence, number.begin, phrase[0], plural=plural)
            if verbs is None or _is_taken_up(conversation, number):
                return None
            replacements += [*phrase[1], *verbs]
    return replacements


def _phrase(
    conversation: Conversation, number: _Number, *, plural: bool
) -> tuple[int, list[TextReplacement]] | None:
    """Return where the phrase of a number ends, and its noun's new form; None for "at two"."""
    sentence, last = number.sentence, number.last
    after, was_plural = sentence.after(last), number.values[-1] > 1
    before = sentence.before(number.first)
    if before in ("a", "an") or (after == "of" and before in word_list("prepositions")):
        return None  # "a hundred pears", "I live in one of those flats"
    if after == "of":  # "two of the pears": the noun stays as it is
        whole = sentence.at(last + 2)
        if whole in word_list("determiners") and (noun := noun_at(sentence, last + 3, plural=True)):
            return noun[0], []
        return (last + 2, []) if whole in ("them", "us", "you", "these", "those") else None
    if after in _AFTER_PHRASES:
        is_counted = number.noun == "money" or _counts_alone(conversation, number)
        return (last, []) if is_counted else None
    noun = noun_at(sentence, last + 1, plural=was_plural)
    if noun is None and not was_plural and after in _UNITS:
        noun = last + 1, None
    if noun is None:
        return None
    place, mention = noun
    word = mention or sentence.words[place]
    form = like_case(word.text, number_forms(mention.entity if mention else word.text)[plural])
    return place, [TextReplacement(sentence.utterance, word.start, word.text, form)]


def _counts_alone(conversation: Conversation, number: _Number) -> bool:
    """Return whether a number without a noun counts something: "two are here", "there are two"."""
    sentence, last, after = number.sentence, number.last, number.sentence.after(number.last)
    before, ahead = sentence.before(number.begin), sentence.before(number.begin - 1)
    if before == "there's" or (before in word_list("be") and ahead == "there"):
        return True
    if before:
        return before in word_list("past") and after == "there"
    earlier = [each for each in conversation.sentences if each.utterance < sentence.utterance]
    asks = bool(earlier) and "how many" in " ".join(earlier[-1].lower)
    if asks and number.begin == 0 and last == len(sentence.words) - 1:
        return True
    agrees = after in (SINGULAR_VERBS if number.values[-1] > 1 else PLURAL_VERBS)
    return agrees and sentence.after(last + 1) in word_list("after_nouns")  # not "two is fine"


def _is_taken_up(conversation: Conversation, number: _Number) -> bool:
    """Return whether words go on about what a number counts: "they", "the roses", or "it"."""
    sentence, plural = number.sentence, number.values[0] > 1
    ahead = sentence.all_after(number.last)
    if ahead[:1] == ["of"] or number.noun in _UNITS:
        return ("or", "so") in itertools.pairwise(ahead)
    later = sentence.lower[number.last + len(ahead) + 1 :] + nearby_words(conversation, sentence)
    noun = number_forms(number.noun)[plural]
    pronouns = word_list("several" if plural else "single")
    return bool({noun, *pronouns} & {*ahead[2:], *later})


def _agreeing_verbs(sentence: Sentence, begin: int, end: int, *, plural: bool) -> _Change:
    """Return the changes of the verbs around a phrase ("there is one"), or None if unclear."""
    forms = {**PLURAL_VERBS, "there's": "there are"} if plural else SINGULAR_VERBS
    be = word_list("be")
    if sentence.before(begin) == "there" and sentence.before(begin - 1) in be:
        begin -= 1  # "are there two"
    before, after = sentence.before(begin), sentence.after(end)
    openers = ("", "there", *word_list("openers"))
    if after not in _AFTER_PHRASES or (before in be and sentence.before(begin - 1) not in openers):
        return None  # "they are two"
    verbs = {end + 1: after} | ({begin - 1: before} if before in (*be, "there's") else {})
    return [
        sentence.replace_word(spot, forms[verb]) for spot, verb in verbs.items() if verb in forms
    ]
