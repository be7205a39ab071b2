"""Changes of quantities: Algorithm 3 of the PragWorld paper (appendix A.1).

Nouns and verbs agree with the new number. Where agreement is unclear, a number is left alone.
"""

import random
import re

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import (
    article,
    is_plural,
    like_case,
    number_forms,
    number_words,
    read_number,
    word_list,
)
from pragworld_tasks.text_alterations.noun_phrases import (
    PLURAL_VERBS,
    SINGULAR_VERBS,
    is_number,
    noun_at,
)
from pragworld_tasks.text_alterations.tokens import AlteredConversation, Replacement, Sentence

_CLOCK = re.compile(r"\b(?:it['\u2019]s|it is|at)\s+[\w -]+\s(?:to|past)\s", re.IGNORECASE)
_TIME_OR_FRACTION = re.compile(
    r"\s*(?:[ap]\.?m\b|%?\s*(?:and|&)\s+(?:a\s+)?(?:half|quarter)\b)", re.IGNORECASE
)
_MARKED = re.compile(r"[#.:/+\-\u2013]$|\b[Nn]o\.\s*$")
_ABOUT = word_list("about")


def quantity_change(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Make a number greater or smaller, as Algorithm 3 does.

    One becomes two. A number n > 1 grows by 1 to n or shrinks by 1 to n - 1. Words stay words and
    digits stay digits. Numbers that are not quantities are left alone: "one" as a pronoun ("that
    one"), times, dates, years, room numbers and the like. The first number of "two or three" stays
    the smaller one.

    Returns:
        The altered conversation, or None if it has no number that can be changed.
    """
    options = [
        (sentence, first, last, ranges)
        for sentence in conversation.sentences
        for first, last in _quantities(sentence)
        if (ranges := _new_numbers(sentence, first, last))
    ]
    if not options:
        return None
    sentence, first, last, ranges = rng.choice(options)
    replacements = _replacements(sentence, first, last, rng.choice(rng.choice(ranges)))
    assert replacements is not None  # `_new_numbers` leaves out what has none
    return conversation.replace("Quantity Change", replacements)


def _quantities(sentence: Sentence) -> list[tuple[int, int]]:
    """Return the first and last places of the words that form a number and are a quantity."""
    quantities = []
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
        if _is_quantity(sentence, first, last):
            quantities.append((first, last))
    return quantities


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


def _new_numbers(sentence: Sentence, first: int, last: int) -> list[range]:
    """Return the numbers that addition can give and those that subtraction can give, if any."""
    value = read_number(sentence.text(first, last)) or 0
    low, high = 1, 2 * value
    between = ("or", "to", "and")
    if sentence.before(first) in between and sentence.joined(first - 1):
        low += read_number(sentence.at(first - 2)) or 0
    if sentence.after(last) in between and sentence.joined(last + 2):
        second = read_number(sentence.at(last + 2))
        high = min(high, second - 1) if second else high
    # Agreement with a number changes between one and two, which is not always possible.
    if value > 1 and _replacements(sentence, first, last, 1) is None:
        low = max(low, 2)
    if value == 1 and _replacements(sentence, first, last, 2) is None:
        return []
    both = range(max(low, value + 1), high + 1), range(low, min(value, high + 1))
    return [numbers for numbers in both if numbers]


def _replacements(
    sentence: Sentence, first: int, last: int, number: int
) -> list[Replacement] | None:
    """Return the replacements that change a number, or None if agreement is unclear."""
    text, plural = sentence.text(first, last), number > 1
    if text[0].isdigit():
        new = f"{number:,}" if "," in text else str(number)
    else:
        new = like_case(text, number_words(number))
    start = first
    if sentence.before(first) in ("a", "an"):
        start -= 1
        new = f"{like_case(sentence.words[start].text, article(new))} {new}"
    replacements = [sentence.replace(start, last, new)]
    if (number == 1) == (read_number(text) == 1):
        return replacements
    if sentence.after(last) in ("or", "to") and is_number(sentence.at(last + 2)):
        return replacements  # the noun and the verb agree with the other number
    if not plural and sentence.before(first) in word_list("several_only"):
        return None
    noun = _noun(sentence, last, plural=plural)
    if noun is None:
        return None
    verb_after = _verb_after(sentence, noun[0], plural=plural)
    verb_before = _verb_before(sentence, first, plural=plural)
    if verb_after is None or verb_before is None:
        return None
    return replacements + noun[1] + verb_after + verb_before


def _noun(sentence: Sentence, last: int, *, plural: bool) -> tuple[int, list[Replacement]] | None:
    """Return where the phrase of a number ends, and what puts its noun in that number, or None."""
    if sentence.after(last) == "of":  # "two of the pears": the noun stays as it is
        whole = sentence.at(last + 2)
        if whole in word_list("determiners") and (noun := noun_at(sentence, last + 3, plural=True)):
            return noun[0], []
        return (last + 2, []) if whole in ("them", "us", "you", "these", "those") else None
    if sentence.after(last) in ("", *word_list("after_nouns"), *PLURAL_VERBS, *SINGULAR_VERBS):
        return last, []
    noun = noun_at(sentence, last + 1, plural=not plural)
    if noun is None:
        return None
    place, mention = noun
    word = mention or sentence.words[place]
    form = like_case(word.text, number_forms(mention.entity if mention else word.text)[plural])
    if form == word.text:
        return place, []
    return place, [Replacement(sentence.utterance, word.start, word.text, form)]


def _verb_after(sentence: Sentence, place: int, *, plural: bool) -> list[Replacement] | None:
    """Return the change of the verb after a phrase that ends at a place, or None if unclear."""
    forms, others = (PLURAL_VERBS, SINGULAR_VERBS) if plural else (SINGULAR_VERBS, PLURAL_VERBS)
    verb = sentence.after(place)
    if verb in forms:
        return [sentence.replace_word(place + 1, forms[verb])]
    return [] if verb in ("", *word_list("after_nouns"), *others) else None


def _verb_before(sentence: Sentence, place: int, *, plural: bool) -> list[Replacement] | None:
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
