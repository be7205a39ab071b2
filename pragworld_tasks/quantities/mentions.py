"""Numbers and quantities in a text, and the quantity that a prompt asks for."""

import functools
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pragworld_tasks.quantities.plain_text import PlainText, to_plain_text
from pragworld_tasks.quantities.units import MULTIPLIERS, TargetUnit, parse_unit, per_at
from pragworld_tasks.quantities.wording import STEM, pattern, words

_LONGEST_GAP = 40
_MOST_OF_IT = 0.75  # of an hour
_SHORTEST = 3  # letters of the words that say what a prompt is about
_ONES = {word: value for value, word in enumerate(words("ones_words"))}
_TENS = {word: 10 * index for index, word in enumerate(words("tens_words"), start=2)}
_PARTS = {"half": 0.5, "quarter": 0.25, "third": 1 / 3}
_COUNTS = {"a": 1.0, "one": 1.0, "two": 2.0, "three": 3.0}
# What a number may begin with. Such places are found much faster than numbers are.
_FIRST_WORDS = {*_ONES, *_TENS, *_COUNTS, *_PARTS, "an", "couple", "quarters", "thirds"}
_WHOLE = ("digits", "words")  # kinds of numbers to which a part may be added
_GREATEST = 1e18  # above that, a row of digits is not a quantity


class Numeral(NamedTuple):
    """A number in a text: `text[start:end]`."""

    start: int
    end: int
    value: float  # multiplied by its scale
    scale: float  # the factor that `k`, `million` and the like stand for, 1 without any
    kind: str  # `digits`, `words`, `article` (the `an` of `an hour`), `part` (`half an`) or `clock`


def find_numerals(answer: PlainText, letters: bool = True) -> Iterator[Numeral]:
    """Yield the numbers in a text. With `letters`, `m` and `b` may mean millions and billions."""
    position, text = 0, answer.text
    starts = [(match.start(), pattern("digits")) for match in pattern("first_digit").finditer(text)]
    starts += [
        (start, pattern("spelled_number"))
        for start, word in zip(answer.starts, answer.words, strict=True)
        if word in _FIRST_WORDS
    ]
    for start, written in sorted(starts, key=operator.itemgetter(0)):
        match = written.match(text, start) if start >= position else None
        if not match:
            continue
        kind = match.lastgroup or "digits"
        value, scale, end = _value(match[0], kind), 1.0, match.end()
        while scaled := _scale_at(text, end, kind, letters):
            scale, end = scale * scaled[0], scaled[1]
        goes_on = text.startswith((" and ", " point "), end) and (kind in _WHOLE or scale > 1)
        if goes_on and (tail := pattern("addition").match(text, end)):
            value += _ONES[tail["tenths"]] / 10 if tail["tenths"] else _part_of(tail)
            end = tail.end()
            if scale == 1 and (scaled := _scale_at(text, end, kind, letters)):
                scale, end = scaled
        position = end
        if kind == "couple" or (kind == "article" and scale > 1):
            kind = "words"
        if value * scale < _GREATEST:
            yield Numeral(start, end, value * scale, scale, kind)


def _scale_at(text: str, end: int, kind: str, letters: bool) -> tuple[float, int] | None:
    match = pattern("scale").match(text, end)
    if not match or (match["letter"] and (kind != "digits" or not (letters or match[0] == "k"))):
        return None
    return MULTIPLIERS[match["word"] or match["letter"]], match.end()


def _part_of(match: re.Match[str]) -> float:
    """Return what a match of the pattern `and_a_part` adds: `and three quarters` adds 0.75."""
    return _COUNTS.get(match["count"] or "a", 1.0) * _PARTS[match["part"]]


def _value(written: str, kind: str) -> float:
    if kind == "digits":
        if "/" in written:
            above, below = written.split("/")
            *whole, above = above.replace("-", " ").split()
            return sum(map(float, whole)) + int(above) / int(below)
        if written.count(".") > 1:  # `1.234.567`
            written = written.replace(".", "")
        return float(written.replace(",", ""))
    in_words = pattern("word").findall(written)
    if kind == "part":
        part = next(word.rstrip("s") for word in in_words if word.rstrip("s") in _PARTS)
        return _COUNTS.get(in_words[0], 1.0) * _PARTS[part]
    if kind in ("article", "couple"):
        return 1.0 if kind == "article" else 2.0
    total = current = 0.0  # `two thousand five hundred and twenty one`
    for word in in_words:
        if word == "hundred":
            current = (current or 1) * 100
        elif word == "thousand":
            total, current = total + (current or 1) * 1000, 0
        else:
            current += _ONES.get(word, _TENS.get(word, 1 if word in ("a", "an") else 0))
    return total + current


class QuantityMention(NamedTuple):
    """A quantity in a text: `text[start:end]`."""

    start: int
    end: int
    low: float  # in the target unit, whatever either is per; without a unit, the number as it is
    high: float  # greater than `low` for ranges only
    size: float | None  # of its unit in the target unit
    per: str | None = None  # what it is per, if it says so
    scale: float = 1.0  # the factor that `million` and the like stand for
    unfinished: bool = False  # whether it is a quantity only as the beginning of a range


def find_quantities(
    answer: PlainText, target: TargetUnit, numerals: Iterable[Numeral] | None = None
) -> list[QuantityMention]:
    """Return the quantities in a text whose unit can become the target unit, or that have none.

    Percentages, times of day and the like are left out.
    """
    singles: list[QuantityMention] = []
    text, clock_end = answer.text, -1
    for number in find_numerals(answer, target.kind == "money") if numerals is None else numerals:
        if number.start < clock_end:
            continue
        if number.kind == "article" and number.scale == 1 and target.kind != "measure":
            continue  # `a truck` is no quantity, but `an hour` is
        clock = text.startswith(":", number.end) and pattern("clock").match(text, number.start)
        if clock:
            clock_end = clock.end()
            hours = int(clock[1]) + int(clock[2]) / 60
            number = Numeral(number.start, clock_end, hours, 1.0, "clock")
        if mention := _single(text, number, target):
            singles.append(mention)
    if target.kind == "measure":
        singles = _compounds(text, singles, target)
    mentions = _ranges(text, singles)
    found = pattern("zero").finditer(text) if target.kind != "count" else ()
    zeros = [QuantityMention(*zero.span(), 0.0, 0.0, 1.0) for zero in found]
    return sorted([*mentions, *_sums(text, mentions), *zeros], key=lambda mention: mention.start)


def _single(text: str, number: Numeral, target: TargetUnit) -> QuantityMention | None:
    start, end, value = number.start, number.end, number.value
    is_time = number.kind == "clock" and target.kind != "measure"
    if is_time or pattern("no_quantity").match(text, end):
        return None
    unit = target.attached(text, start, end)
    if number.kind == "clock" and unit is None:
        is_sum = pattern("duration_sum").search(text, max(0, start - 6), start)
        if target.hour is None or not (is_sum or pattern("duration_cell").match(text, end)):
            return None  # a time of day
        unit = start, end, "hour", None
    if unit is None:
        if number.kind in ("part", "article") and number.scale == 1:
            return None
        bare = bool(pattern("bare_after").match(text, end))
        begins = pattern("goes_on").match(text, end)
        if not (bare or begins or pattern("but_less").search(text, max(0, start - 20), start)):
            return None
        leads_on = begins and text[begins.end() : begins.end() + 1].isdigit()
        unfinished = bool(leads_on or not bare)
        per, end = per_at(text, end) if target.kind == "money" else (None, end)
        return QuantityMention(start, end, value, value, None, per, number.scale, unfinished)
    begin, end, name, per = unit
    part = pattern("and_a_part").match(text, end) if target.kind == "measure" else None
    if number.kind == "article" and (
        pattern("on_a_day").match(text, max(0, start - 3))
        or (not part and pattern("rate_before").search(text, max(0, start - 24), start))
    ):
        return None
    size = target.sized(name)
    value = (value + (_part_of(part) if part else 0)) * size
    end = part.end() if part else end
    return QuantityMention(begin, end, value, value, size, per, number.scale)


def _compounds(
    text: str, singles: Sequence[QuantityMention], target: TargetUnit
) -> list[QuantityMention]:
    """Return quantities with `1 hour 45 minutes`, `2h30`, `5 lb 8 oz` and the like added up."""
    joined: list[QuantityMention] = []
    for mention in singles:
        last = joined[-1] if joined else None
        if last and last.size and last.per is None:
            gap = text[last.end : mention.start]
            rest = mention
            two_digits = mention.end - mention.start == 2  # `2h30`, `2 h 30`
            glued = text[last.end - 1] == "h" and (not gap or (gap == " " and two_digits))
            is_rest = mention.size is None and last.size == target.hour
            if is_rest and (glued or pattern("and_minutes").fullmatch(gap)):
                minutes = mention.low * last.size / 60
                rest = mention._replace(low=minutes, high=minutes, size=last.size / 60)
            smaller = rest.size and rest.size < last.size and rest.low < last.size
            again = gap.strip() == "," and rest.low > _MOST_OF_IT * last.low
            aside = again and text.startswith(("a ", "an "), last.start)  # `an hour, 55 minutes`
            if smaller and not aside and pattern("compound").fullmatch(gap):
                value = last.low + rest.low
                joined[-1] = rest._replace(start=last.start, low=value, high=value)
                continue
        joined.append(mention)
    return joined


def _ranges(text: str, singles: Sequence[QuantityMention]) -> list[QuantityMention]:
    """Return quantities with `4-6 hours`, `between $8 and $12`, `5 ± 2 kg` and the like joined."""
    mentions: list[QuantityMention] = []
    last: QuantityMention | None = None
    for mention in singles:
        if last and last.size and not mention.size:
            alike = pattern("alike").match(text, last.end)
            if alike and alike.start("number") == mention.start:
                mention = _like(mention, last)  # `22 hours via Oslo, 24 via Rome`
        if last is not None and (both := _joined(text, last, mention)):
            least, gap = mentions[-2:][0], text[last.end : mention.start]
            if text[least.end : both.start] == ", " and " or " in gap and least.low < last.low:
                both = both._replace(start=least.start, high=both.low)  # `22, 24 or 26 hours`
                del mentions[-2]
            mentions[-1:] = [both]
            last = None  # a range is not the end of another
        else:
            mentions.append(mention)
            last = mention
    return [mention for mention in mentions if not mention.unfinished]


def _joined(text: str, first: QuantityMention, second: QuantityMention) -> QuantityMention | None:
    """Return the range of which two quantities are the ends, if they are."""
    gap = text[first.end : second.start]
    gap = pattern("aside").sub("", gap) if len(gap) <= 2 * _LONGEST_GAP and "(" in gap else gap
    if len(gap) > _LONGEST_GAP:
        return None
    if second.size is None and first.size is not None:
        if not pattern("but").match(gap):
            return None
        second = _like(second, first)  # `6 hours but less than 8`
    low, high = _like(first, second).low, second.high
    if pattern("plus_or_minus").fullmatch(gap):
        high = low
    elif low > high or not pattern("range").fullmatch(gap) or pattern("apart").match(gap):
        return None
    else:
        before = text[max(0, first.start - 40) : first.start]
        if gap.strip() == "and" and not pattern("between").search(before):
            return None
        after = pattern("operator_after").match(text, second.end)
        if after or pattern("operator_before").search(before):
            return None
    return second._replace(start=first.start, low=low, high=high, per=second.per or first.per)


def _like(part: QuantityMention, other: QuantityMention) -> QuantityMention:
    """Return a quantity with the unit and the scale that only another one beside it names."""
    factor = 1.0 if part.size else other.size or 1.0  # `4-6 hours`
    if part.scale == 1 < other.scale and part.low * factor < other.high / other.scale:
        factor *= other.scale  # `$1.2-1.8 million`
    low, high, size = part.low * factor, part.high * factor, part.size or other.size
    return part._replace(low=low, high=high, size=size, unfinished=False)


def _sums(text: str, mentions: Sequence[QuantityMention]) -> Iterator[QuantityMention]:
    """Yield the sums of quantities that only plus signs join: `13 h + 1 h 45 min`."""
    chain: list[QuantityMention] = []
    for mention in [*mentions, None]:
        if mention and chain and pattern("plus").fullmatch(text, chain[-1].end, mention.start):
            chain.append(mention)
            continue
        if len(chain) > 1 and not pattern("sum_goes_on").match(text, chain[-1].end):
            low, high = (sum(getattr(part, end) for part in chain) for end in ("low", "high"))
            yield chain[-1]._replace(start=chain[0].start, low=low, high=high)
        chain = [mention] if mention and mention.size else []


@dataclass(frozen=True)
class QuantityTarget:
    """The quantity that a prompt asks for."""

    unit: TargetUnit  # in which the value is returned
    inputs: Collection[tuple[float, float]]  # the ends of the prompt's quantities in that unit
    numbers: frozenset[float]  # all in the prompt
    topic: frozenset[str]  # the stems of the words that say what the prompt is about
    sums_years: bool  # whether it asks for a sum over several years, not for a rate
    largest: float  # amount of money in the prompt, or 0

    def repeats(self, mention: QuantityMention) -> bool:
        """Return whether a quantity only repeats one of the prompt."""
        if mention.size is None:
            return mention.low == mention.high and mention.low in self.numbers
        return (mention.low, mention.high) in self.inputs


@functools.lru_cache(maxsize=1024)
def read_target(unit: str, prompt: str) -> QuantityTarget:
    """Return the target of a prompt and a unit, cached because prompts are answered many times."""
    text, target_unit = to_plain_text(prompt), parse_unit(unit)
    inputs = {(found.low, found.high) for found in find_quantities(text, target_unit) if found.size}
    return QuantityTarget(
        unit=target_unit,
        inputs=inputs,
        numbers=frozenset(number.value for number in find_numerals(text) if number.kind in _WHOLE),
        topic=frozenset(word[:STEM] for word in text.words if len(word) >= _SHORTEST)
        - {word[:STEM] for word in words("no_topic_words")},
        sums_years=target_unit.per is None and bool(pattern("horizon").search(text.text)),
        largest=max((high for _, high in inputs if target_unit.kind == "money"), default=0.0),
    )
