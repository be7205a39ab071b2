"""Mentions of quantities in a text: numbers with fitting units, as ranges and as compounds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pragworld_tasks.quantities.numerals import AND_A_PART, Numeral, find_numerals, part_of
from pragworld_tasks.quantities.patterns import ignoring_case, pattern
from pragworld_tasks.quantities.units import TargetUnit

_CLOCK = re.compile(r"(?<![\d:.,])(\d{1,3}):([0-5]\d)(?::[0-5]\d)?(?![\d:])")
_OF_DAY = ignoring_case(r" ?(?:[ap]\.?m\b|o'clock)")
_OF_DAY_LATER = ignoring_case(r" ?(?:-|to|and|or) ?\d{1,2}(?::\d\d)? ?(?:[ap]\.?m\b|o'clock)")
_SHARE = ignoring_case(r" ?(?:%|percent\b|per ?cent\b|pct\b|°)")
_RANGE = pattern("range")
_ASIDE = re.compile(r" ?\([^()]{1,25}\)")  # `between $4,000 (freight) and $9,000`
_LONGEST_GAP = 40
_BETWEEN = ignoring_case(r"\bbetween\b[^.;\n]{0,25}$")
_PLUS_OR_MINUS = ignoring_case(r" *(?:±|\+ ?/ ?-|\(±|plus or minus|give or take) *")
_OPERATOR_BEFORE = re.compile(r"[\d)%] ?[+*÷] *[$€£]? ?$|\w [+*÷] [$€£]?$|\d ?[-/] ?[$€£]?$")
_OPERATOR_AFTER = re.compile(r" *[+*÷=]")
_COMPOUND = ignoring_case(r" *,? *(?:and +|& *|\+ *)?")
_AND_MINUTES = ignoring_case(r",? and +")  # `an hour and twenty`
_ON_A_DAY = ignoring_case(r"\bon an? (?:good|long|full|normal|short)\b")  # refers to a date
_ALMOST = 0.9


@dataclass(frozen=True)
class QuantityMention:
    """A quantity in a text.

    Attributes:
        start, end: Its place: the quantity is `text[start:end]`.
        low, high: Its ends in the target unit, whatever either is per. They differ for ranges
            only. A number without a unit is left as it is.
        size: The size of its unit in the target unit, or None if it has no unit.
        per: What it is per, or None if it does not say.
        scale: The factor that `million` and the like stand for, 1 without any.
        unfinished: Whether it is a quantity only as the beginning of a range.
    """

    start: int
    end: int
    low: float
    high: float
    size: float | None
    per: str | None = None
    scale: float = 1.0
    unfinished: bool = False


def find_quantities(text: str, target: TargetUnit) -> list[QuantityMention]:
    """Return the quantities in a text whose unit can become the target unit, or that have no unit.

    Numbers with another unit, percentages, times of day and the like are left out.
    """
    singles: list[QuantityMention] = []
    clocks = {match.start(): match for match in _CLOCK.finditer(text)}
    clock_end = -1
    for number in find_numerals(text, letters=target.kind == "money"):
        if number.start < clock_end:
            continue
        if clock := clocks.get(number.start):
            clock_end = clock.end()
            mention = _duration(text, clock, target)
        else:
            mention = _single(text, number, target)
        if mention:
            singles.append(mention)
    return _ranges(text, _compounds(text, singles, target))


def _single(text: str, number: Numeral, target: TargetUnit) -> QuantityMention | None:
    start, end, value = number.start, number.end, number.value
    if _SHARE.match(text, end) or _OF_DAY.match(text, end) or _OF_DAY_LATER.match(text, end):
        return None
    unit = target.attached(text, start, end)
    if unit is None:
        bare = bool(pattern("bare_after").match(text, end))
        begins = _RANGE.match(text, end) or _PLUS_OR_MINUS.match(text, end)
        if (number.kind in ("part", "article") and number.scale == 1) or not (bare or begins):
            return None
        leads_on = bool(begins and text[begins.end() : begins.end() + 1].isdigit())
        per, end = target.period_at(text, end) if target.kind == "money" else (None, end)
        return QuantityMention(
            start, end, value, value, None, per, number.scale, unfinished=leads_on or not bare
        )
    part = AND_A_PART.match(text, unit.end) if target.kind == "measure" else None
    if number.kind == "article" and (
        target.kind != "measure"
        or _ON_A_DAY.match(text, max(0, start - 3))
        or (not part and pattern("rate_before").search(text, max(0, start - 24), start))
    ):
        return None
    size = target.sized(unit.unit)
    value = (value + (part_of(part) if part else 0)) * size
    end = part.end() if part else unit.end
    return QuantityMention(unit.start, end, value, value, size, unit.per, number.scale)


def _duration(text: str, clock: re.Match[str], target: TargetUnit) -> QuantityMention | None:
    """Return the quantity of `2:30 hours`, or None for a time of day, which has no unit."""
    if target.kind != "measure" or not (unit := target.attached(text, *clock.span())):
        return None
    size = target.sized(unit.unit)
    value = (int(clock[1]) + int(clock[2]) / 60) * size
    return QuantityMention(clock.start(), unit.end, value, value, size, unit.per)


def _compounds(
    text: str, singles: Sequence[QuantityMention], target: TargetUnit
) -> list[QuantityMention]:
    """Return quantities with `1 hour 45 minutes`, `2h30`, `5 lb 8 oz` and the like added up."""
    if target.kind != "measure":
        return list(singles)
    joined: list[QuantityMention] = []
    for mention in singles:
        last = joined[-1] if joined else None
        if last and last.size and last.per is None:
            gap = text[last.end : mention.start]
            rest = mention
            glued = not gap and text[last.end - 1] in "hH"
            spoken = last.size == target.hour and _AND_MINUTES.fullmatch(gap)
            if mention.size is None and (glued or spoken):
                minute = last.size / 60
                rest = replace(
                    mention, low=mention.low * minute, high=mention.high * minute, size=minute
                )
            smaller = rest.size and rest.size < last.size and rest.low < last.size
            if smaller and _COMPOUND.fullmatch(gap):
                value = last.low + rest.low
                joined[-1] = replace(rest, start=last.start, low=value, high=value)
                continue
        joined.append(mention)
    return joined


def _ranges(text: str, singles: Sequence[QuantityMention]) -> list[QuantityMention]:
    """Return quantities with `4-6 hours`, `between $8 and $12`, `5 ± 2 kg` and the like joined."""
    mentions: list[QuantityMention] = []
    last: QuantityMention | None = None
    for mention in singles:
        if last is not None and (both := _joined(text, last, mention)):
            mentions[-1:] = [both]
            last = None  # a range is not the end of another
        else:
            mentions.append(mention)
            last = mention
    return _without_restated(text, [mention for mention in mentions if not mention.unfinished])


def _without_restated(text: str, mentions: Sequence[QuantityMention]) -> list[QuantityMention]:
    """Return quantities without those restated in a smaller unit: `a full day: 24-26 hours`."""
    kept: list[QuantityMention] = []
    for mention in mentions:
        last = kept[-1] if kept else None
        if (
            last is not None
            and last.low == last.high == last.size
            and mention.size not in (None, last.size)
            and _ALMOST * mention.low <= last.low <= mention.high / _ALMOST
            and pattern("restated").fullmatch(text, last.end, mention.start)
        ):
            kept[-1] = replace(mention, start=last.start)
        else:
            kept.append(mention)
    return kept


def _joined(text: str, first: QuantityMention, second: QuantityMention) -> QuantityMention | None:
    """Return the range of which two quantities are the ends, if they are."""
    gap = _ASIDE.sub("", text[first.end : second.start])
    if len(gap) > _LONGEST_GAP or (second.size is None and first.size is not None):
        return None
    low, high = first.low, second.high
    if first.size is None:
        low *= second.size or 1  # `4-6 hours`
    if first.scale == 1 < second.scale and low < high / second.scale:
        low *= second.scale  # `$1.2-1.8 million`
    whole = replace(second, start=first.start, low=low, per=second.per or first.per)
    if _PLUS_OR_MINUS.fullmatch(gap):
        return replace(whole, high=low)
    if not _RANGE.fullmatch(gap) or low > high:
        return None
    before = text[max(0, first.start - 40) : first.start]
    if gap.strip() == "and" and not _BETWEEN.search(before):
        return None
    if _OPERATOR_BEFORE.search(before) or _OPERATOR_AFTER.match(text, second.end):
        return None
    return whole
