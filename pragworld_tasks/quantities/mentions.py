"""Quantities in a text that may be what was asked for: with a unit, as ranges, as compounds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pragworld_tasks.quantities.numerals import AND_A_PART, Numeral, numerals, part_of
from pragworld_tasks.quantities.units import Asked

_CLOCK = re.compile(r"(?<![\d:.,])(\d{1,3}):([0-5]\d)(?::[0-5]\d)?(?![\d:])")
_OF_DAY = re.compile(r" ?(?:[ap]\.?m\b|o'clock)", re.IGNORECASE)
_OF_DAY_LATER = re.compile(
    r" ?(?:-|to|and|or) ?\d{1,2}(?::\d\d)? ?(?:[ap]\.?m\b|o'clock)", re.IGNORECASE
)
_SHARE = re.compile(r" ?(?:%|percent\b|per ?cent\b|pct\b|°)", re.IGNORECASE)
# Between the two ends of a range.
_APPROXIMATELY = (
    r"(?:(?:about|around|roughly|approximately|nearly|almost|perhaps|maybe|even|over|under|"
    r"more than|upwards of|as (?:much|many|long) as|~|≈) *)?"
)
_RANGE = re.compile(
    r" *,? *(?:and|to|but) (?:at (?:the )?most|no more than|a maximum of|as (?:much|many) as) *"
    rf"| *(?:-{{1,2}}|—|\b(?:to|or|up +to|through|and)\b) *(?:up +to +)?{_APPROXIMATELY}[+-]?",
    re.IGNORECASE,
)
_ASIDE = re.compile(r" ?\([^()]{1,25}\)")  # `between $4,000 (freight) and $9,000`
_LONGEST_GAP = 40
_BETWEEN = re.compile(r"\bbetween\b[^.;\n]{0,25}$", re.IGNORECASE)
_PLUS_OR_MINUS = re.compile(r" *(?:±|\+ ?/ ?-|\(±|plus or minus|give or take) *", re.IGNORECASE)
_OPERATOR_BEFORE = re.compile(r"[\d)%] ?[+*÷] *[$€£]? ?$|\w [+*÷] [$€£]?$|\d ?[-/] ?[$€£]?$")
_OPERATOR_AFTER = re.compile(r" *[+*÷=]")
_COMPOUND = re.compile(r" *,? *(?:and +|& *|\+ *)?", re.IGNORECASE)
_AND_MINUTES = re.compile(r",? and +", re.IGNORECASE)  # `an hour and twenty`
_ON_A_DAY = re.compile(r"\bon an? (?:good|long|full|normal|short)\b", re.IGNORECASE)  # is a date
_ALMOST = 0.9
# Between a quantity and the same in other words: `a full day, basically: 24 to 26 hours`.
_RESTATED = re.compile(
    r"[ ,:;(=-]*(?:(?:basically|roughly|about|around|so|or|i\.e\.|that is|meaning)[ ,:]*)*"
    r"(?<! or )(?<=[,:;(=-] |[a-z.,:] |.[(])",
    re.IGNORECASE,
)
# `an hour` is a quantity, but a rate behind one of these (`$5 an hour`, `8 gallons a week`).
_RATE_BEFORE = re.compile(
    r"(?:[\d%$]|\d[ -]?[a-z]{1,20}|\b(?:once|twice|half|quarter|per|much|many|money|time"
    r"|(?!(?:takes|lasts|needs|is|was|plus|perhaps|spends|it's|that's|this|as|costs|means|less|"
    r"adds)\b)"
    r"[a-z]{2,20}s)) ?$",
    re.IGNORECASE,
)
# What may stand behind a number without a unit.
_BARE_AFTER = re.compile(
    r" *(?:$|[.,;:!?)\]\n|=≈→]|\((?!\d*\))|- |(?:and|or|so|because|but|which|in +total|rounded|"
    r"after|to be safe|just in case|for safety|if|when|should|would|will|ought|give or take|"
    r"annually|yearly|monthly|all (?:in|told)|over (?:the|ten|10)|(?:an?|per|every|each) "
    r"(?:school |full )?(?:year|month)|it is)\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Mention:
    """A quantity in a text, at text[start:end].

    Attributes:
        low, high: its ends, equal but for ranges: in what is asked for, whatever that and this are
            per; a number without a unit as it stands.
        size: of its unit, in what is asked for; None without a unit.
        per: what it is per, None if it does not say.
        scale: what `million` and the like multiplied it by.
        unfinished: whether it is nothing unless it begins a range.
    """

    start: int
    end: int
    low: float
    high: float
    size: float | None
    per: str | None = None
    scale: float = 1.0
    unfinished: bool = False


def mentions(text: str, wanted: Asked) -> list[Mention]:
    """The quantities in a text that have a unit of what is asked for, or none at all.

    Numbers with another unit, shares, times of day and the like are left out.
    """
    singles: list[Mention] = []
    clocks = {match.start(): match for match in _CLOCK.finditer(text)}
    inside = -1
    for number in numerals(text, letters=wanted.kind == "money"):
        if number.start < inside:
            continue
        clock = clocks.get(number.start)
        if clock:
            inside = clock.end()
        found = _duration(text, clock, wanted) if clock else _single(text, number, wanted)
        if found:
            singles.append(found)
    return _ranges(text, _compounds(text, singles, wanted))


def _single(text: str, number: Numeral, wanted: Asked) -> Mention | None:
    """A number with its unit."""
    start, end, value = number.start, number.end, number.value
    if _SHARE.match(text, end) or _OF_DAY.match(text, end) or _OF_DAY_LATER.match(text, end):
        return None
    unit = wanted.attached(text, start, end)
    if unit is None:
        bare = bool(_BARE_AFTER.match(text, end))
        begins = _RANGE.match(text, end) or _PLUS_OR_MINUS.match(text, end)
        if (number.kind in ("part", "article") and number.scale == 1) or not (bare or begins):
            return None
        goes_on = begins and text[begins.end() : begins.end() + 1].isdigit()
        unfinished = bool(goes_on) or not bare
        per, end = wanted.period_at(text, end) if wanted.kind == "money" else (None, end)
        return Mention(start, end, value, value, None, per, number.scale, unfinished)
    part = AND_A_PART.match(text, unit.end) if wanted.kind == "measure" else None
    if number.kind == "article" and (
        wanted.kind != "measure"
        or _ON_A_DAY.match(text, max(0, start - 3))
        or (not part and _RATE_BEFORE.search(text, max(0, start - 24), start))
    ):
        return None
    value += part_of(part) if part else 0
    end = part.end() if part else unit.end
    size = wanted.sized(unit.unit)
    return Mention(unit.start, end, value * size, value * size, size, unit.per, number.scale)


def _duration(text: str, clock: re.Match[str], wanted: Asked) -> Mention | None:
    """`2:30 hours`; without a unit it is a time of day."""
    unit = wanted.attached(text, clock.start(), clock.end()) if wanted.kind == "measure" else None
    if unit is None:
        return None
    size = wanted.sized(unit.unit)
    value = (int(clock[1]) + int(clock[2]) / 60) * size
    return Mention(clock.start(), unit.end, value, value, size, unit.per)


def _compounds(text: str, singles: Sequence[Mention], wanted: Asked) -> list[Mention]:
    """`1 hour 45 minutes`, `2h30` and `5 lb 8 oz` as one: the smaller unit follows the larger."""
    if wanted.kind != "measure":
        return list(singles)
    joined: list[Mention] = []
    for one in singles:
        last = joined[-1] if joined else None
        if last and last.size and last.per is None:
            gap = text[last.end : one.start]
            rest = one
            glued = not gap and text[last.end - 1] in "hH"
            spoken = last.size == wanted.hour and _AND_MINUTES.fullmatch(gap)
            if one.size is None and (glued or spoken):
                minute = last.size / 60
                rest = replace(one, low=one.low * minute, high=one.high * minute, size=minute)
            smaller = rest.size and rest.size < last.size and rest.low < last.size
            if smaller and _COMPOUND.fullmatch(gap):
                value = last.low + rest.low
                joined[-1] = replace(rest, start=last.start, low=value, high=value)
                continue
        joined.append(one)
    return joined


def _ranges(text: str, singles: Sequence[Mention]) -> list[Mention]:
    """Two ends as one: `4-6 hours`, `between $8,000 and $12,000`, `1,650 ± 200 kcal`."""
    found: list[Mention] = []
    last: Mention | None = None
    for one in singles:
        if last is not None and (both := _joined(text, last, one)):
            found[-1:] = [both]
            last = None  # a range is no end of another
        else:
            found.append(one)
            last = one
    return _without_restated(text, [one for one in found if not one.unfinished])


def _without_restated(text: str, found: Sequence[Mention]) -> list[Mention]:
    """Quantities without such as are said again in a smaller unit: `a full day: 24-26 hours`."""
    kept: list[Mention] = []
    for one in found:
        last = kept[-1] if kept else None
        if (
            last is not None
            and last.low == last.high == last.size
            and one.size not in (None, last.size)
            and _ALMOST * one.low <= last.low <= one.high / _ALMOST
            and _RESTATED.fullmatch(text, last.end, one.start)
        ):
            kept[-1] = replace(one, start=last.start)
        else:
            kept.append(one)
    return kept


def _joined(text: str, first: Mention, second: Mention) -> Mention | None:
    """The range of two quantities, if they are its ends."""
    gap = _ASIDE.sub("", text[first.end : second.start])
    if len(gap) > _LONGEST_GAP or (second.size is None and first.size is not None):
        return None
    size = second.size
    low, high = first.low, second.high
    if first.size is None:
        low *= size or 1  # `4-6 hours`
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
