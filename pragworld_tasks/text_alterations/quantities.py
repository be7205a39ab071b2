"""Changes of quantities: Algorithm 3 of the PragWorld paper (appendix A.1).

Nouns and verbs agree with the new number. Where agreement is unclear, a number is left alone.
"""

import itertools
import random
import re
import sys

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import (
    ENGLISH,
    article,
    is_plural,
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
    noun_at,
)
from pragworld_tasks.text_alterations.quantifiers import is_share_word
from pragworld_tasks.text_alterations.tokens import (
    AllowedChange,
    AlteredConversation,
    Sentence,
    TextReplacement,
)

_CLOCK = re.compile(r"\b(?:it['\u2019]s|it is|at)\s+[\w -]+\s(?:to|past)\s", re.IGNORECASE)
_TIME_OR_FRACTION = re.compile(
    r"\s*(?:[ap]\.?m\b|%?\s*(?:and|&)\s+(?:a\s+)?(?:half|quarter)\b)", re.IGNORECASE
)
_MARKED = re.compile(r"[#.:/+\-\u2013]$|\b[Nn]o\.\s*$")
_LISTED_AFTER = re.compile(r"\s*(?:,\s*(?:(?:and|or)\s+)?[$£€]?|(?:and|or)\s+[$£€])\d")
_LISTED_BEFORE = re.compile(r"\d\s*(?:,\s*(?:(?:and|or)\s+)?[$£€]?|(?:and|or)\s+[$£€])$")
_ABOUT = word_list("about")
_AFTER_BARE_NUMBERS = ("", *word_list("after_nouns"), *PLURAL_VERBS, *SINGULAR_VERBS)


_ENUMERATION = re.compile(ENGLISH["enumeration"], re.IGNORECASE)
# What everyone knows the number of.
_CONSTANTS = {(24, "hours"), (7, "days"), (12, "months"), (60, "minutes"), (60, "seconds"),
              (52, "weeks"), (365, "days")}  # fmt: skip


def quantity_change(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Make a number greater or smaller, as Algorithm 3 does.

    One becomes two. A number n > 1 grows by 1 to n or shrinks by 1 to n - 1. Words stay words and
    digits stay digits. "A" before a measure ("about a mile") is one, and "twice a day" is two
    times. Both numbers of "two or three" change by as much. Numbers that are not quantities are
    left alone: "one" as a pronoun ("that one"), times, dates, years, room numbers and the like; and
    so are those of particular things ("the two", "two flights: one …, the other …"), and those that
    depend on another number ("two files or three", "two of the three").

    Returns:
        The altered conversation, or None if it has no number that can be changed.
    """
    options = [
        (sentence, first, last, ranges)
        for sentence in conversation.sentences
        if not _is_enumerated(conversation, sentence)
        for first, last in _numbers(sentence)
        if _is_quantity(sentence, first, last)
        if (ranges := _fresh_numbers(conversation, sentence, first, last))
    ]
    measures = [change for sentence in conversation.sentences for change in _measures(sentence)]
    if not options and not measures:
        return None
    choice = rng.randrange(len(options) + len(measures))
    if choice >= len(options):
        change = measures[choice - len(options)]
        return conversation.replace("Quantity Change", change.replacements, change.reason)
    sentence, first, last, ranges = options[choice]
    replacements = _replacements(sentence, first, last, rng.choice(rng.choice(ranges)))
    assert replacements is not None  # `_new_numbers` leaves out what has none
    reason = (
        f'"{sentence.text(first, last)}" counts something, and all that agrees with it is known'
    )
    return conversation.replace("Quantity Change", replacements, reason)


def _is_enumerated(conversation: Conversation, sentence: Sentence) -> bool:
    """Return whether a sentence or the text soon after tells "one" from "the other"."""
    lines = conversation.text.split("\n")[sentence.utterance : sentence.utterance + 2]
    begin = sentence.words[0].start
    return bool(_ENUMERATION.search("\n".join([lines[0][begin:], *lines[1:]])))


def _measures(sentence: Sentence) -> list[AllowedChange]:
    """Return the changes of "a mile" to two miles, and of "twice a day" to three times a day."""
    changes: list[AllowedChange] = []
    replacements: tuple[TextReplacement, ...]
    for place in sentence.unnamed_places():
        word, after = sentence.at(place), sentence.after(place)
        times = ("once", "twice")
        if sentence.before(place) in _BETWEEN or any(
            later in times or is_number(later) for later in sentence.all_after(place)
        ):
            continue  # "once or twice a day", "a cup of tea or two"
        if word in times and after in ("a", "per", "every"):
            new = "three times" if word == "twice" else "twice"
            replacements = (sentence.replace_word(place, new),)
            changes.append(AllowedChange(replacements, f'"{word}" says how often'))
        if word not in ("a", "an"):
            continue
        if after in word_list("portions") and sentence.after(place + 1) == "of":
            if sentence.before(place) not in word_list("be"):
                portion = sentence.replace_word(place + 1, number_forms(after)[1])
                replacements = (sentence.replace_word(place, "two"), portion)
                changes.append(AllowedChange(replacements, f'"a {after} of" is one {after}'))
            continue
        if after not in word_list("units"):
            continue
        beyond = sentence.after(place + 1)
        if beyond not in ("", "away", "ago", "later", *word_list("after_nouns")):
            continue
        if sentence.before(place) in ("", *word_list("before_units")) and beyond not in (
            "and",
            "or",
        ):
            unit = sentence.replace_word(place + 1, number_forms(after)[1])
            replacements = (sentence.replace_word(place, "two"), unit)
            changes.append(AllowedChange(replacements, f'"{word} {after}" is one {after}'))
    return changes


def _numbers(sentence: Sentence) -> list[tuple[int, int]]:
    """Return the first and last places of the words that form a number."""
    numbers = []
    last = -1
    for first in sentence.unnamed_places():
        if first <= last or not is_number(sentence.at(first)):
            continue
        last = first
        while True:
            ahead = last + 1
            if sentence.at(last) in ("hundred", "thousand") and sentence.after(last) == "and":
                ahead += 1
            if not sentence.joined(ahead) or not is_number(sentence.at(ahead)):
                break
            last = ahead
        numbers.append((first, last))
    return numbers


def _is_quantity(sentence: Sentence, first: int, last: int) -> bool:
    """Return whether a number is a quantity, and not a time, a date, a pronoun or the like."""
    text, line = sentence.text(first, last), sentence.line
    start, end = sentence.words[first].start, sentence.words[last].end
    value = read_number(text)
    if not value or value >= 500_000 or _CLOCK.search(line, sentence.words[0].start, end + 4):
        return False
    before, after = sentence.before(first), sentence.after(last)
    if before in word_list("numbered") or after in word_list("of_numbers"):
        return False
    place = first
    while sentence.before(place) in _ABOUT:
        place -= 1
    ahead = line[: sentence.words[place].start].rstrip(" $£€")
    if ahead.lower().endswith(sentence.at(place - 1)) and sentence.at(place - 1) in word_list(
        "definite_before"
    ):
        return False  # "another $ 50", "the only two"
    if re.search(r":\s", line[end:]):
        return False  # what follows may list as many
    is_single = after in ("", *word_list("after_nouns"))
    ahead_word = sentence.before(place)
    if ahead_word == "or" and read_number(sentence.at(place - 2)) is None:
        return False  # "a day or two"
    if is_single and (ahead_word in word_list("before_times") or _tells_time(sentence, place)):
        return False
    if (value, after) in _CONSTANTS or line[end : end + 1] == "%":
        return False
    if _LISTED_AFTER.match(line, end) or _LISTED_BEFORE.search(line[:start]):
        return False  # "$1, $2 and $5"
    capital = sentence.words[first].text[0].isupper() and first and not text.isupper()
    if capital or (after and text[0].isdigit() and sentence.words[last + 1].text[0].isupper()):
        return False  # "World War Two", "25 Elm Street"
    if not is_single and _list_follows(sentence, last):
        return False
    noun = sentence.mention_at(last + 1) if sentence.joined(last + 1) else None
    if noun and value > 1 and not noun.is_plural:
        return False
    if _TIME_OR_FRACTION.match(line, end):
        return False
    if text.isdigit():
        is_year = 1000 <= value < 3000 and not is_plural(after)
        is_name = (
            first > 1 and before not in ("", "i") and sentence.words[first - 1].text[0].isupper()
        )
        if is_year or is_name or text[0] == "0" or _MARKED.search(line[:start]):
            return False
    if text.lower() != "one":
        return True
    if after in word_list("after_vague_one"):
        return False
    if before in word_list("one_is_a_pronoun_after"):
        return False
    if after in ("or", "to") and is_number(sentence.at(last + 2)):
        return True
    if after in ("", *word_list("after_nouns"), *PLURAL_VERBS):
        # Without a noun: the whole reply, "there is one", "at least one", "one is there", but not
        # "I want one", "one can see".
        is_whole = before in ("", "or", "to", *_ABOUT, *word_list("be"), "there's")
        return is_whole and after in ("", "there", "in", *word_list("be"))
    return True


def _tells_time(sentence: Sentence, place: int) -> bool:
    """Return whether "it is" or "it was" stands before a number without a noun."""
    return sentence.before(place) in ("is", "was") and sentence.before(place - 1) == "it"


def _list_follows(sentence: Sentence, last: int) -> bool:
    """Return whether a comma follows the noun of a number: "two sisters, Ann and Mary"."""
    place = last + 1
    while sentence.joined(place + 1):
        place += 1
    is_near = place <= last + 3
    return (
        is_near
        and sentence.line[sentence.words[place].end :].lstrip().startswith(",")
        and ("and" in [word.lower for word in sentence.words[place:]])
    )


_BETWEEN = ("or", "to", "and")


def _second_number(sentence: Sentence, last: int) -> int:
    """Return the second number of "two or three", whose first ends at a place, or 0."""
    if sentence.after(last) in _BETWEEN and sentence.joined(last + 2):
        return read_number(sentence.at(last + 2)) or 0
    return 0


def _new_numbers(sentence: Sentence, first: int, last: int) -> list[range]:
    """Return the numbers that addition can give and those that subtraction can give, if any."""
    value = read_number(sentence.text(first, last)) or 0
    follows = sentence.before(first) in _BETWEEN and sentence.joined(first - 1)
    if follows and read_number(sentence.at(first - 2)):
        return []  # the first number takes the second with it
    low, high = 1, 2 * value
    if second := _second_number(sentence, last):
        if second <= value or (sentence.joined(last + 3) and is_number(sentence.at(last + 3))):
            return []
        low = 1 if value > 1 else 2
    # Agreement with a number changes between one and two, which is not always possible.
    if value > 1 and _replacements(sentence, first, last, 1) is None:
        low = max(low, 2)
    if value == 1 and _replacements(sentence, first, last, 2) is None:
        return []
    if sentence.before(first) == "all":
        low = max(low, 3)  # not "all two"
    both = range(max(low, value + 1), high + 1), range(low, min(value, high + 1))
    return [numbers for numbers in both if numbers]


def _fresh_numbers(
    conversation: Conversation, sentence: Sentence, first: int, last: int
) -> list[list[int]]:
    """Return the new numbers that contradict no other number of the same things.

    "Three portions … make that two portions" would say nothing with two portions at first, and
    "two files or three" and "two of the three" nothing with any other number.
    """
    value, noun = _number(sentence, first, last), counted_noun(conversation, sentence, last)
    second = last + 2 if _second_number(sentence, last) else first  # of "two or three"
    taken, near = set(), []
    for other in conversation.sentences:
        distance = abs(other.utterance - sentence.utterance)
        for begin, end in _numbers(other):
            number = _number(other, begin, end)
            if not number or (other is sentence and begin in (first, second)):
                continue
            shared = counted_noun(conversation, other, end)
            if noun and noun == shared:
                taken.add(number)
            elif distance > NEARBY or (noun and shared) or not _may_count(other, begin, end):
                continue
            if other is sentence or (number == value and distance < NEARBY):
                return []
            near += [number] * (distance <= NEARBY)
    sums = {one + other for one, other in itertools.combinations(near, 2)}
    if value in sums or any(value + number in near for number in near):
        return []  # "We have four. Two are here. Two are there."
    low = max((number for number in near if number < value), default=0)
    high = min((number for number in near if number > value), default=sys.maxsize)
    if ordinal := _greatest_ordinal(conversation, sentence, last):
        if ordinal > value:
            return []  # "We have two. We want a third."
        low = max(low, value)  # with "but not the third", "four cards" may only be more
    if _is_taken_up(conversation, sentence, last, plural=value > 1):
        if value == 1:
            return []
        low = max(low, 1)
    fresh = [
        [number for number in numbers if low < number < high and number not in taken]
        for numbers in _new_numbers(sentence, first, last)
    ]
    return [numbers for numbers in fresh if numbers]


def _is_taken_up(
    conversation: Conversation, sentence: Sentence, last: int, *, plural: bool
) -> bool:
    """Return whether something goes on about the things, or the thing, that a number introduces.

    For several things that is "they", "the roses", or "some of them", for one "it" or "the rose".
    """
    noun = number_forms(counted_noun(conversation, sentence, last))[plural]
    is_bare = sentence.after(last) in _AFTER_BARE_NUMBERS
    if sentence.after(last) == "of" or not (is_bare or noun in sentence.all_after(last)):
        return False
    pronouns = word_list("together" if plural else "single")
    first = conversation.sentences.index(sentence)
    for number, other in enumerate(conversation.sentences):
        is_near = other.utterance <= sentence.utterance + NEARBY if plural else number <= first + 1
        for place, word in enumerate(word.lower for word in other.words):
            is_later = (number, place) > (first, last)
            if word == noun and other.before(place) in word_list("definite_before"):
                return is_later
            if not is_later or not is_near:
                continue
            if word in pronouns:
                return True
            if plural and is_share_word(other, place):
                return counted_noun(conversation, other, place) in ("", number_forms(noun)[0])
    return False


def _greatest_ordinal(conversation: Conversation, sentence: Sentence, last: int) -> int:
    """Return the greatest ordinal near a number that may be of the same things, or 0.

    "The third", "the third one" and "the third card" are of four cards, "the third floor" is not.
    "The last" is at least the second.
    """
    noun = number_forms(counted_noun(conversation, sentence, last))[0]
    alone = ("one", *_AFTER_BARE_NUMBERS)
    return max(
        (
            2 if word.lower == "last" else read_ordinal(word.lower) or 0
            for other in conversation.sentences
            if abs(other.utterance - sentence.utterance) <= NEARBY
            for place, word in enumerate(other.words)
            if other.before(place) in ("a", *word_list("definite_before"))
            and other.before(place - 1) != "on"  # a date
            and (other.after(place) in alone or noun in other.all_after(place)[:2])
        ),
        default=0,
    )


def _number(sentence: Sentence, first: int, last: int) -> int:
    """Return the number in words from one place to another, or 0."""
    return read_number(sentence.text(first, last)) or 0


def _may_count(sentence: Sentence, first: int, last: int) -> bool:
    """Return whether a number without a noun may count things, and is no time, name or pronoun."""
    if sentence.before(first) in word_list("before_names_and_times"):
        return False
    if sentence.after(last) in word_list("of_numbers"):
        return False
    return sentence.at(first) != "one" or _is_quantity(sentence, first, last)


def _replacements(
    sentence: Sentence, first: int, last: int, number: int
) -> list[TextReplacement] | None:
    """Return the replacements that change a number, or None if agreement is unclear."""
    text, plural = sentence.text(first, last), number > 1
    new = _written_like(text, number)
    start = first
    if sentence.before(first) in ("a", "an"):
        start -= 1
        new = f"{like_case(sentence.words[start].text, article(new))} {new}"
    replacements = [sentence.replace(start, last, new)]
    if second := _second_number(sentence, last):
        # The noun and the verb agree with the second number, which stays greater than one.
        other = sentence.text(last + 2, last + 2)
        increased = _written_like(other, second + number - (read_number(text) or 0))
        return [*replacements, sentence.replace(last + 2, last + 2, increased)]
    if (number == 1) == (read_number(text) == 1):
        return replacements
    if not plural and sentence.before(first) in word_list("several_only"):
        return None
    following = sentence.all_after(last)
    if {*following[:1]} & {*word_list("magnitudes")} or ("or", "so") in itertools.pairwise(
        following
    ):
        return None  # "two dozen eggs", "two days or so"
    noun = _noun(sentence, last, plural=plural)
    if noun is None:
        return None
    verb_after = _verb_after(sentence, noun[0], plural=plural)
    verb_before = _verb_before(sentence, first, plural=plural)
    if verb_after is None or verb_before is None:
        return None
    return replacements + noun[1] + verb_after + verb_before


def _written_like(text: str, number: int) -> str:
    """Return a number in words or digits, as a text has one."""
    if text[0].isdigit():
        return f"{number:,}" if "," in text else str(number)
    return like_case(text, number_words(number))


def _noun(
    sentence: Sentence, last: int, *, plural: bool
) -> tuple[int, list[TextReplacement]] | None:
    """Return where the phrase of a number ends, and what puts its noun in that number, or None."""
    if sentence.after(last) == "of":  # "two of the pears": the noun stays as it is
        whole = sentence.at(last + 2)
        if whole in word_list("determiners") and (noun := noun_at(sentence, last + 3, plural=True)):
            return noun[0], []
        return (last + 2, []) if whole in ("them", "us", "you", "these", "those") else None
    if sentence.after(last) in _AFTER_BARE_NUMBERS:
        return last, []
    noun = noun_at(sentence, last + 1, plural=not plural)
    if noun is None:
        return None
    place, mention = noun
    word = mention or sentence.words[place]
    form = like_case(word.text, number_forms(mention.entity if mention else word.text)[plural])
    if form == word.text:
        return place, []
    return place, [TextReplacement(sentence.utterance, word.start, word.text, form)]


def _verb_after(sentence: Sentence, place: int, *, plural: bool) -> list[TextReplacement] | None:
    """Return the change of the verb after a phrase that ends at a place, or None if unclear."""
    forms, others = (PLURAL_VERBS, SINGULAR_VERBS) if plural else (SINGULAR_VERBS, PLURAL_VERBS)
    verb = sentence.after(place)
    if verb in forms:
        return [sentence.replace_word(place + 1, forms[verb])]
    return [] if verb in ("", *word_list("after_nouns"), *others) else None


def _verb_before(sentence: Sentence, place: int, *, plural: bool) -> list[TextReplacement] | None:
    """Return the change of the verb in "there are two", "are there two"; None if unclear."""
    while sentence.before(place) in _ABOUT:
        place -= 1
    if sentence.before(place) == "there" and sentence.before(place - 1) in word_list("be"):
        place -= 1
    verb = sentence.before(place)
    if verb == "there's":
        return [sentence.replace_word(place - 1, "there are")] if plural else []
    if verb not in word_list("be"):
        return []
    clause_begins = ("", "there", *word_list("wh_words"), *word_list("openers"))
    if sentence.before(place - 1) not in clause_begins:
        return None  # "they are two"
    forms = PLURAL_VERBS if plural else SINGULAR_VERBS
    return [sentence.replace_word(place - 1, forms[verb])] if verb in forms else []
