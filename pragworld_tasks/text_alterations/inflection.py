"""Forms of English words: singular and plural, "a" and "an", number words, and letter case.

Singulars and plurals are lemminflect's, apart from the exceptions in `english.toml`.
"""

import functools
import re
from calendar import month_name

from pragworld_tasks.files import read_package_toml
from pragworld_tasks.text import NUMBER_VALUES, ONES, TENS, alike

ENGLISH = read_package_toml(__package__, "english.toml")


@functools.cache
def word_list(name: str) -> tuple[str, ...]:
    """Return the list of words in `english.toml` that has a name."""
    return tuple(ENGLISH[name].split())


_PLURALS: dict[str, str] = {noun: noun for noun in word_list("one_form")} | ENGLISH["plurals"]
_SINGULARS = {plural: singular for singular, plural in _PLURALS.items()}


def is_plural(word: str) -> bool:
    """Return whether a word looks like a plural noun: false if singular and plural are one."""
    return word.isalpha() and _singular(word) != word.lower()


@functools.lru_cache(maxsize=4096)
def number_forms(noun: str) -> tuple[str, str]:
    """Return the singular and plural of a noun in either form, also of several words.

    The last word is inflected, or the last before "of", "with" and the like. A noun with one form
    for both ("asparagus", "scissors") gives that form twice.

    Examples:
        >>> number_forms("boxes of green pears")
        ('box of green pears', 'boxes of green pears')
    """
    parts = re.fullmatch(
        r"(.*?[\s_-])??([^\W_]+)((?:[\s-]+(?:of|with|for|from|in|to)[\s-].*)?)", noun
    )
    if not parts:
        return noun, noun
    before, head, after = parts[1] or "", parts[2], parts[3]
    other = (_singular if is_plural(head) else _plural)(head)
    same = alike(head.lower(), other)  # the letters whose case is kept
    other = before + head[:same] + other[same:] + after
    return (other, noun) if is_plural(head) else (noun, other)


def _plural(noun: str) -> str:
    from lemminflect import getAllInflectionsOOV, getInflection  # 0.1 s

    word = noun.lower()
    if word in _PLURALS:
        return _PLURALS[word]
    # The dictionary has no plural of what is rarely counted, such as "furniture".
    guessed = getAllInflectionsOOV(word, "NOUN").get("NNS", ())
    plurals: tuple[str, ...] = (*getInflection(word, "NNS"), *guessed)
    return next((plural for plural in plurals if plural != word), word)


@functools.lru_cache(maxsize=4096)
def _singular(noun: str) -> str:
    from lemminflect import getAllLemmas, getLemma

    word = noun.lower()
    if word in _SINGULARS:
        return _SINGULARS[word]
    if re.fullmatch(r"[A-Z]{2,}s", noun):  # "TVs"
        return word[:-1]
    if len(word) < 4 or word in word_list("no_plurals"):
        return word
    known = getAllLemmas(word)
    if not word.endswith("s"):
        return str(known.get("NOUN", [word])[0])
    # It knows "pans" as a verb only.
    singulars = known.get("NOUN") or known.get("VERB") or ([word] if known else None)
    return str((singulars or getLemma(word, "NOUN"))[0])


# Articles -----------------------------------------------------------------------------------------

_SOUNDS_LIKE_A_VOWEL = re.compile(ENGLISH["sounds_like_a_vowel"], re.IGNORECASE)


def article(word: str) -> str:
    """Return the article, "a" or "an", that belongs before a word or a number in digits."""
    if re.match(r"[A-Z][A-Z0-9]{0,2}(?![A-Za-z])", word):  # read as letters: "an MP3", "a TV"
        return "an" if word[0] in "AEFHILMNORSX" else "a"
    return "an" if _SOUNDS_LIKE_A_VOWEL.match(word) else "a"


# Numbers ------------------------------------------------------------------------------------------

_ORDINALS = word_list("ordinals")
NUMBER_WORDS = frozenset(NUMBER_VALUES) | {"hundred", "thousand"}


def number_words(number: int) -> str:
    """Return a number from 0 to 999,999 in words.

    Examples:
        >>> number_words(2105)
        'two thousand one hundred and five'
    """
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return TENS[tens - 2] + (f"-{ONES[ones]}" if ones else "")
    unit, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    many, rest = divmod(number, unit)
    joint = " and " if rest < 100 else " "
    return f"{number_words(many)} {name}" + (joint + number_words(rest) if rest else "")


def read_number(text: str) -> int | None:
    """Return the number that words or digits stand for: "twenty-one", "one hundred five", "1,200".

    Anything else gives None: words that are not one number ("nineteen eighty"), decimals, times.
    """
    if re.fullmatch(r"\d{1,6}|\d{1,3},\d{3}", text):
        return int(text.replace(",", ""))
    words = re.split(r"(?<=\w)\s+and\s+(?=\w)|[\s-]+", text.lower())
    if not NUMBER_WORDS.issuperset(words):
        return None
    total = group = 0
    for word in words:
        if word == "thousand":
            total, group = group * 1000, 0
        else:
            group = group * 100 if word == "hundred" else group + NUMBER_VALUES[word]
    value = total + group
    # The sum is right only if the words are those of that number.
    is_right = value < 1_000_000 and re.split(r" and |[\s-]", number_words(value)) == words
    return value if is_right else None


def read_ordinal(word: str) -> int | None:
    """Return the number that an ordinal in lower case stands for ("third", "21st"), or None."""
    if digits := re.fullmatch(r"(\d{1,6})(?:st|nd|rd|th)", word):
        return int(digits[1])
    tens, _, ones = word.rpartition("-")  # "forty-second"
    return _ORDINALS.index(ones) + NUMBER_VALUES.get(tens, 0) if ones in _ORDINALS else None


# Letter case --------------------------------------------------------------------------------------


def typed(name: str) -> str:
    """Return a name in lower case, as many type it, unless that is another word.

    Examples:
        >>> typed("Camila"), typed("Mr. Okafor"), typed("Will"), typed("An")
        ('camila', 'mr. okafor', 'Will', 'An')
    """
    from lemminflect import getAllLemmas

    # It has no names and no months.
    parts = [part for part in re.findall(r"\w{3,}", name) if part not in month_name]
    return name if all(getAllLemmas(part.lower()) for part in parts) else name.lower()


def like_case(model: str, words: str) -> str:
    """Return words in the letter case of a model: ALL CAPS, a capital first letter, or as is."""
    letters = [letter for letter in model if letter.isalpha()]
    if len(letters) > 1 and all(letter.isupper() for letter in letters):
        return words.upper()
    if letters and letters[0].isupper():
        return words[:1].upper() + words[1:]
    return words
