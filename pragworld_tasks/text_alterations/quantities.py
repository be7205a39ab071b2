"""Numbers in plain text: the PragWorld paper's Algorithm 3.

Nouns and verbs agree with the new number, and where that cannot be told, the place is left alone.
"""

import random
import re
from collections.abc import Sequence

from pragworld_tasks.text_alterations.entities import Entities, Mention, find_mentions
from pragworld_tasks.text_alterations.inflection import (
    article,
    is_plural,
    like_case,
    number_forms,
    number_words,
    read_number,
    words,
)
from pragworld_tasks.text_alterations.noun_phrases import (
    AFTER_NOUNS,
    BE,
    DETERMINERS,
    OPENERS,
    PLURAL_VERBS,
    SINGULAR_VERBS,
    is_number,
    named,
    noun_at,
)
from pragworld_tasks.text_alterations.tokens import (
    WH_WORDS,
    Altered,
    Change,
    Sentence,
    apply,
    read_sentences,
)

_NUMBERED = words(
    "at past room number no size page chapter line bus flight gate platform channel step part "
    "level grade class floor year january february march april may june july august september "
    "october november december person speaker route"
)
_OF_NUMBERS = words(
    "am pm o'clock percent half halves third thirds quarter quarters fifths st nd rd th point"
)
_CLOCK = re.compile(r"\b(?:it['\u2019]s|it is|at)\s+[\w -]+\s(?:to|past)\s", re.IGNORECASE)
_ABOUT = words("about only just exactly at least most still around almost nearly")
_ONE_IS_A_PRONOUN_AFTER = words(
    "this that no which what the each every any some another other a an my your his her our their"
)
_SEVERAL_ONLY = words("these those all any both many last next few every other first")


def quantity_change(conversation: str, entities: Entities, rng: random.Random) -> Altered | None:
    """A number made greater or smaller, as Algorithm 3 says (appendix A.1 of the paper).

    One becomes two; n > 1 grows by 1 to n or shrinks by 1 to n - 1. Words stay words and digits
    digits; nouns and verbs agree with the new number. No quantities, and left alone, are "one" as a
    pronoun ("that one"), times, dates, years, room numbers and the like. The first of "two or
    three" stays the smaller.

    Returns:
        None where there is no number that can be changed.
    """
    mentions = find_mentions(conversation, entities)
    quantities = [
        (sentence, first, last, amounts)
        for sentence in read_sentences(conversation)
        for first, last in _number_places(sentence, mentions)
        if (amounts := _amounts(sentence, first, last, mentions))
    ]
    if not quantities:
        return None
    sentence, first, last, amounts = rng.choice(quantities)
    number = rng.choice(rng.choice(amounts))
    changes = _with_number(sentence, first, last, number, mentions)
    assert changes is not None  # it was among the amounts
    return apply(conversation, "Quantity Change", changes)


def _number_places(sentence: Sentence, mentions: Sequence[Mention]) -> list[tuple[int, int]]:
    """The first and last places of runs of words that are one number, and a quantity."""
    places, place = [], 0
    while place < len(sentence.words):
        first = last = place
        place += 1
        if not is_number(sentence.at(first)) or named(sentence, first, mentions):
            continue
        while True:
            ahead = last + 1
            if sentence.at(last) in ("hundred", "thousand") and sentence.after(last) == "and":
                ahead += 1
            if not sentence.joined(ahead) or not is_number(sentence.at(ahead)):
                break
            last = ahead
        place = last + 1
        if _is_quantity(sentence, first, last):
            places.append((first, last))
    return places


def _text(sentence: Sentence, first: int, last: int) -> str:
    return sentence.line[sentence.words[first].start : sentence.words[last].end]


def _is_quantity(sentence: Sentence, first: int, last: int) -> bool:
    text = _text(sentence, first, last)
    value = read_number(text)
    if not value or value >= 500_000:
        return False
    if _CLOCK.search(sentence.line, sentence.words[0].start, sentence.words[last].end + 4):
        return False
    before, after = sentence.before(first), sentence.after(last)
    if before in _NUMBERED or after in _OF_NUMBERS:
        return False
    if re.match(r"[ap]\.?m\b|%?\s*(?:and|&)\s+(?:a\s+)?(?:half|quarter)\b", _rest(sentence, last)):
        return False
    if text.isdigit():
        is_year = 1000 <= value < 3000 and not is_plural(after)
        capital = first > 1 and before != "i" and sentence.words[first - 1].text[:1].isupper()
        start = sentence.words[first].start
        marked = re.search(r"[#.:/+\-\u2013]$|\b[Nn]o\.\s*$", sentence.line[:start])
        if is_year or text[0] == "0" or marked or (before and capital):
            return False
    if text.lower() != "one":
        return True
    if before in _ONE_IS_A_PRONOUN_AFTER:
        return False
    if after in ("or", "to") and is_number(sentence.at(last + 2)):
        return True
    if after in ("", *AFTER_NOUNS, *PLURAL_VERBS):
        # Bare: the whole reply, "there is one", "at least one", "one is there". Not "I want one",
        # "one can see".
        is_whole = before in ("", "or", "to", *_ABOUT, *BE, "there's")
        return is_whole and after in ("", "there", "in", *BE)
    return True


def _rest(sentence: Sentence, place: int) -> str:
    """What the line has behind a word, from the next word or mark on, in lower case."""
    return sentence.line[sentence.words[place].end :].lstrip().lower()


def _amounts(sentence: Sentence, first: int, last: int, mentions: Sequence[Mention]) -> list[range]:
    """The new numbers that addition and subtraction can give, those of them that can give any."""
    value = read_number(_text(sentence, first, last)) or 0
    low, high = 1, 2 * value
    ranges = ("or", "to", "and")
    if sentence.before(first) in ranges and sentence.joined(first - 1):
        low += read_number(sentence.at(first - 2)) or 0
    if sentence.after(last) in ranges and sentence.joined(last + 2):
        beyond = read_number(sentence.at(last + 2))
        high = min(high, beyond - 1) if beyond else high
    # Whatever agrees has another form beside one, and may not have it here.
    if value > 1 and _with_number(sentence, first, last, 1, mentions) is None:
        low = max(low, 2)
    if value == 1 and _with_number(sentence, first, last, 2, mentions) is None:
        return []
    both = range(max(low, value + 1), high + 1), range(low, min(value, high + 1))
    return [numbers for numbers in both if numbers]


def _with_number(
    sentence: Sentence, first: int, last: int, number: int, mentions: Sequence[Mention]
) -> list[Change] | None:
    """The changes that put a number in the place of another; None where agreement is unclear."""
    text = _text(sentence, first, last)
    if text[0].isdigit():
        new = f"{number:,}" if "," in text else str(number)
    else:
        new = like_case(text, number_words(number))
    start = first
    if sentence.before(first) in ("a", "an"):
        start -= 1
        stood = sentence.words[start].text
        new = f"{like_case(stood, article(new))} {new}"
    changes = [sentence.change(start, last, new)]
    if (number == 1) == (read_number(text) == 1):
        return changes
    if sentence.after(last) in ("or", "to") and is_number(sentence.at(last + 2)):
        return changes  # the noun and the verb agree with the other number
    if number == 1 and sentence.before(first) in _SEVERAL_ONLY:
        return None
    noun = _noun(sentence, last, mentions, plural=number > 1)
    if noun is None:
        return None
    behind = _verb_behind(sentence, noun[0], plural=number > 1)
    before = _verb_before(sentence, first, plural=number > 1)
    if behind is None or before is None:
        return None
    return changes + noun[1] + behind + before


def _noun(
    sentence: Sentence, last: int, mentions: Sequence[Mention], *, plural: bool
) -> tuple[int, list[Change]] | None:
    """Where the phrase ends that begins with a number, and how its noun changes; None if unclear.

    The last place of the number is given, and whether that becomes more than one.
    """
    if sentence.after(last) == "of":  # "two of the pears": the noun stays as it is
        whole = sentence.at(last + 2)
        if whole in DETERMINERS:
            noun = noun_at(sentence, last + 3, mentions, plural=True)
            if noun:
                return noun[0], []
        return (last + 2, []) if whole in ("them", "us", "you", "these", "those") else None
    if sentence.after(last) in ("", *AFTER_NOUNS, *PLURAL_VERBS, *SINGULAR_VERBS):
        return last, []
    noun = noun_at(sentence, last + 1, mentions, plural=not plural)
    if noun is None:
        return None
    place, mention = noun
    stood = mention.text if mention else sentence.words[place].text
    start = mention.start if mention else sentence.words[place].start
    form = like_case(stood, number_forms(mention.entity if mention else stood)[plural])
    changes = [Change(sentence.utterance, start, stood, form)]
    return place, changes if form != stood else []


def _verb_behind(sentence: Sentence, place: int, *, plural: bool) -> list[Change] | None:
    """How the verb behind a phrase that ends at a place changes; None where that is unclear."""
    forms, others = PLURAL_VERBS, SINGULAR_VERBS
    if not plural:
        forms, others = others, forms
    verb = sentence.after(place)
    if verb in forms:
        return [_other_verb(sentence, place + 1, forms[verb])]
    return [] if verb in ("", *AFTER_NOUNS, *others) else None


def _verb_before(sentence: Sentence, place: int, *, plural: bool) -> list[Change] | None:
    """How the verb changes in "there are two", "are there two", "are two of them there"."""
    while sentence.before(place) in _ABOUT:
        place -= 1
    if sentence.before(place) == "there" and sentence.before(place - 1) in BE:
        place -= 1
    verb = sentence.before(place)
    if verb == "there's":
        return [_other_verb(sentence, place - 1, "there are")] if plural else []
    if verb not in BE:
        return []
    if sentence.before(place - 1) not in ("", "there", *WH_WORDS, *OPENERS):
        return None  # "they are two"
    forms = PLURAL_VERBS if plural else SINGULAR_VERBS
    return [_other_verb(sentence, place - 1, forms[verb])] if verb in forms else []


def _other_verb(sentence: Sentence, place: int, verb: str) -> Change:
    return sentence.change(place, place, like_case(sentence.words[place].text, verb))
