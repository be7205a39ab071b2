"""Units: the one that is asked for, and those that an answer may use instead.

pint knows and converts them. It takes a third of a second to start, so it starts when it is first
needed and not when this is imported.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pragworld_tasks.errors import InputError
from pragworld_tasks.quantities.tables import vocabulary

if TYPE_CHECKING:
    import pint

# Currencies are dimensions of their own: none is converted into another.
_DEFINED = (
    *("dollar = [dollar] = usd", "cent = 0.01 * dollar", "euro = [euro]", "sterling = [sterling]"),
    *("yen = [yen]", "rupee = [rupee]", "other_dollar = [other_dollar]"),
)
_MONEY = {"dollar", "cent", "usd", "euro", "sterling", "yen", "rupee"}
# What pint does not know, or knows as something else: `calories` of food are kilocalories.
_ALIASES = {
    **dict.fromkeys(("kg", "kgs", "kilo", "kilos"), "kilogram"),
    **dict.fromkeys(("lbs", "lb", "pound", "pounds"), "pound"),
    **dict.fromkeys(("cal", "cals", "calorie", "calories", "kcals", "kcal", "cals."), "kcal"),
    **dict.fromkeys(("h", "hr", "hrs", "hours"), "hour"),
    **dict.fromkeys(("min", "mins", "minutes"), "minute"),
    **dict.fromkeys(("sec", "secs"), "second"),
    **dict.fromkeys(("day", "days"), "day"),
    **dict.fromkeys(("wk", "wks", "weeks"), "week"),
    **dict.fromkeys(("mo", "mos", "mth", "mths", "months"), "month"),
    **dict.fromkeys(("yr", "yrs", "years", "annum"), "year"),
    **dict.fromkeys(("dollars", "bucks", "usd", "buck"), "dollar"),
    **{"cents": "cent", "euros": "euro", "eur": "euro", "gbp": "sterling", "miles": "mile"},
    **{"km": "kilometer", "kms": "kilometer", "mi": "mile", "ft": "foot", "feet": "foot"},
    **{"mph": "mile / hour", "kph": "kilometer / hour", "kmh": "kilometer / hour"},
    **{
        "nights": "day",
        "night": "day",
        "mg": "milligram",
        "g": "gram",
        "kj": "kilojoule",
        "oz": "ounce",
    },
}
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_GLUED_TIMES = {"m": "minute", "s": "second", "d": "day"}  # `45m`, not `45 m`
# `monthly` and its like, for `per month`.
_ADVERBS = {
    **{"annually": "year", "annual": "year", "yearly": "year", "monthly": "month"},
    **{"weekly": "week", "daily": "day", "nightly": "day", "hourly": "hour", "p.a.": "year"},
}
_CURRENCY_SIGNS = {"$": "dollar", "€": "euro", "£": "sterling", "¥": "yen", "₹": "rupee"}
_CURRENCY_BEFORE = re.compile(
    r"(?:(?<![A-Za-z])(?P<country>AU?|AUD|CA?|CAD|CAN|NZD?|HKD?|SG?|MX|US|USD|U\.S\.|R) ?)?"
    r"(?P<sign>[$€£¥₹]) ?$|(?P<code>USD|EUR|GBP) ?$"
)
# The second end of `$1.2-1.8 million` has its sign before the first.
_CURRENCY_OF_RANGE = re.compile(
    r"(?P<sign>[$€£¥₹]) ?[\d.,]+ ?(?:k|m|bn?|thousand|million|billion)?(?: ?[-—] ?| to )$",
    re.IGNORECASE,
)
_SLANG = re.compile(r"(?:\d ?k|grand)$", re.IGNORECASE)  # dollars, where money was asked for
_CURRENCY_AFTER = re.compile(
    r"[ -]?(?:(?:US|U\.S\.)[ -]?)?(?P<word>dollars?|USD|bucks|cents?|euros?|EUR|GBP|€|\$(?! ?\d))"
    r"(?!\w)",
    re.IGNORECASE,
)
# What may stand between a number and its unit without changing what it means.
_BETWEEN = (
    r"(?:(?:more|extra|additional|full|whole|total|calendar|solid|good|long|straight|consecutive|"
    r"actual|real|short|food|dietary|metric|US|short|driving|working|travel|whole|flight|net|gross|"
    r"active)[ -]+)?"
)
_WORD_AFTER = re.compile(
    rf"\+?[ -]?{_BETWEEN}(?P<word>[a-zA-Zµ]{{1,20}})(?![a-zA-Zµ_'])", re.IGNORECASE
)
# A noun that is counted may have words before it (`4 of the ten-foot rental trucks`), but none that
# measures, relates or counts something else (`402 cubic feet per truck`, `8 boxes in a truck`).
_NO_ADJECTIVE = (
    r"(?:per|in|for|to|and|or|an?|each|every|by|with|of|on|at|from|than|is|are|into|as|the|that|"
    r"which|will|would|can|could|if|cubic|cu|feet|foot|ft|inch(?:es)?|miles?|lbs?|pounds?|kg|tons?|"
    r"boxes|box|people|times|hours?|days?|minutes?|trips?|percent|loads?)\b"
)
_COUNTED = (
    r"(?: +\(\d{{1,6}}\))?(?: [*x](?= ))?(?: +of +(?:the|these|those|them|our|your))?"
    r"(?: +(?:\d{{1,3}}[ -]?(?:foot|feet|ft\b|'|-)|(?!{no})[a-zA-Z][\w'\"./-]{{0,20}})){{0,3}}"
    r" +(?:(?:{noun})(?!\w|-\w)|(?:of )?(?:them|these|those)\b)"
)
_PER = re.compile(
    r" ?(?:/|\b(?:per|an?|each|every|for +each|for +every|a +single) ) ?"
    r"(?:(?:school|calendar|fiscal|academic|full|tax) )?(?P<word>[a-zA-Z]{1,20})"
    r"| (?P<adverb>annually|yearly|monthly|weekly|daily|nightly|hourly|p\.a\.)"
    r"| (?P<each>each(?! +way)|apiece)\b",
    re.IGNORECASE,
)
# `$5 a gallon` is a rate; `8 hours a day` too; `$500 a bit more` is none.
_ARTICLE_RATE = vocabulary(
    "year month week day hour night mile gallon box stop person piece pound pallet delivery truck "
    "student meal ride trip head minute kilo lb yr mo package bag ton pop unit item kid rider "
    "senior resident participant claim injury case foot"
)
_ALSO_CALLED = {"truck": r"vans?|vehicles?|rentals?|\d{1,2}-footers?|truckloads?"}
# `per trip` and the like: the whole of what was asked for.
_WHOLE = vocabulary(
    "trip way hike journey commute route direction outing total itself time flight morning "
    "weekday evening"
)


@functools.cache
def _registry() -> pint.UnitRegistry[Any]:
    """The units of pint with ours."""
    import pint

    registry: pint.UnitRegistry[Any] = pint.UnitRegistry()
    for definition in _DEFINED:
        registry.define(definition)
    return registry


@functools.cache
def _named(word: str) -> str | None:
    """The name in pint of the unit that a word of a text means; None where it means none."""
    lower = word.lower()
    if lower in _ALIASES and (len(word) > 1 or word == lower):
        return _ALIASES[lower]
    if len(word) < 4 and lower not in ("ton", "cup"):
        return None  # pint takes `in`, `at` and `as` for units
    try:
        name = str(_registry().parse_units(lower))
    except Exception:  # pint's errors, and those of the parser below it
        return None
    # Only a unit's whole name: `gas` would be a billion attoseconds.
    return name if name in (lower, lower.removesuffix("s"), lower.removesuffix("es")) else None


@functools.cache
def _dimension(unit: str) -> Any:
    """What a unit measures."""
    return _registry().get_dimensionality(unit)


@functools.cache
def _convertible(unit: str, asked: str) -> bool:
    """Whether a factor turns one unit into the other, as none does with degrees of temperature."""
    if unit == asked or _dimension(unit) != _dimension(asked):
        return unit == asked
    nothing = _registry().Quantity(0, unit).to(asked)
    return bool(nothing.magnitude == 0)


@functools.cache
def _factor(unit: str, asked: str) -> float:
    """How many of the unit asked for one of another unit is."""
    return 1.0 if unit == asked else float(_registry().Quantity(1, unit).to(asked).magnitude)


@dataclass(frozen=True)
class Attached:
    """The unit of a number in a text.

    Attributes:
        start, end: of the number with its unit and what it is per.
        unit: pint's name.
        per: pint's name or the noun that it is per, as the `month` of `$5 a month`.
    """

    start: int
    end: int
    unit: str
    per: str | None = None


@dataclass(frozen=True)
class Asked:
    """A unit that is asked for.

    Attributes:
        unit: pint's name of it, without what it is per.
        size: of it in `unit`, as 1e6 of `million dollar`.
        per: what it is per, None if nothing.
        kind: what it is of.
        noun: of a count, the pattern of what is counted.
    """

    unit: str
    size: float
    per: str | None
    kind: Literal["money", "measure", "count"]
    noun: str = ""

    def attached(self, text: str, start: int, end: int) -> Attached | None:
        """The unit of the number at text[start:end], if one of what is asked for stands by it."""
        found = {"money": self._currency, "measure": self._measure, "count": self._count}[self.kind]
        unit = found(text, start, end)
        if unit is None:
            return None
        per = self._per_at(text, unit.end)
        return Attached(unit.start, per[1], unit.unit, per[0]) if per else unit

    def _currency(self, text: str, start: int, end: int) -> Attached | None:
        """Of money, by a sign before it or a word behind it."""
        before = _CURRENCY_BEFORE.search(text, max(0, start - 6), start)
        after = _CURRENCY_AFTER.match(text, end)
        if before:
            sign = before["sign"]
            name = _CURRENCY_SIGNS[sign] if sign else _ALIASES[before["code"].lower()]
            if sign == "$" and before["country"] not in (None, "US", "U.S.", "USD"):
                name = "other_dollar"
            begin = before.start()
        elif ranged := _CURRENCY_OF_RANGE.search(text, max(0, start - 32), start):
            name, begin = _CURRENCY_SIGNS[ranged["sign"]], start
        elif _SLANG.search(text, max(start, end - 6), end):
            name, begin = "dollar", start
        elif after:
            word = after["word"].lower()
            name, begin = _CURRENCY_SIGNS.get(word) or _ALIASES.get(word, word), start
        else:
            return None
        if _dimension(name) != _dimension(self.unit):
            return None
        return Attached(begin, after.end() if after else end, name)

    def _measure(self, text: str, start: int, end: int) -> Attached | None:
        """Of what pint measures, by a word behind it."""
        match = _WORD_AFTER.match(text, end)
        if not match:
            return None
        word = match["word"]
        name = _named(word)
        if word in _GLUED_TIMES and match.start("word") == end and _is_time(self.unit):
            name = _GLUED_TIMES[word]
        if name is None or not _convertible(name, self.unit):
            return None
        return Attached(start, match.end(), name)

    def _count(self, text: str, start: int, end: int) -> Attached | None:
        """Of what is counted, by its noun behind it."""
        match = _counted(self.noun).match(text, end)
        return Attached(start, match.end(), self.unit) if match else None

    def _per_at(self, text: str, end: int) -> tuple[str, int] | None:
        """What is behind `per` at a place, and where that ends."""
        match = _PER.match(text, end)
        if not match:
            return None
        if match["adverb"]:
            return _ADVERBS[match["adverb"].lower()], match.end()
        if match["each"]:
            return "each", match.end()
        word = match["word"].lower()
        if match[0].lower().lstrip().startswith(("a ", "an ")) and word not in _ARTICLE_RATE:
            return None
        if word in _WHOLE:
            return None
        return _named(word) or word, match.end()

    def period_at(self, text: str, end: int) -> tuple[str | None, int]:
        """The period behind `per` at a place, and where that ends; the place itself if none."""
        per = self._per_at(text, end)
        return per if per and _is_time(per[0]) else (None, end)

    @property
    def hour(self) -> float | None:
        """How many of what is asked for an hour is; None where no time is asked for."""
        return self.sized("hour") if self.kind == "measure" and _is_time(self.unit) else None

    def days(self, per: str) -> float | None:
        """How many days a period has; None if it is none."""
        return _factor(per, "day") if _is_time(per) else None

    def period(self, word: str) -> str | None:
        """The period that `monthly` and its like, or `month`, mean; None if none."""
        return _ADVERBS.get(word.lower()) or _named(word)

    def named_in(self, label: str) -> str | None:
        """The unit of what is asked for that a label or a heading names, as in `Time (min)`."""
        if self.kind == "count":
            return self.unit if re.search(rf"\b(?:{self.noun})\b", label, re.IGNORECASE) else None
        if self.kind == "money":
            return "dollar" if "$" in label or "USD" in label else None
        for word in re.findall(r"[a-zA-Zµ]{1,20}", label):
            name = _named(word) if len(word) > 1 else None
            if name and _convertible(name, self.unit):
                return name
        return None

    def sized(self, unit: str) -> float:
        """How many of what is asked for one of a unit is, whatever either is per."""
        return 1 / self.size if self.kind == "count" else _factor(unit, self.unit) / self.size

    def rate(self, per: str | None) -> float | None:
        """What turns a value per something into one as asked for; None if nothing does."""
        if per is None or per == self.per:
            return 1.0
        if self.per is None:  # a sum of money without a period is a year's
            return _factor("year", per) if self.kind == "money" and _is_time(per) else None
        if not _known(per) or _dimension(per) != _dimension(self.per):
            return None
        return _factor(self.per, per)


def _known(name: str) -> bool:
    """Whether it is a name of a unit."""
    return _named(name) is not None


def _is_time(name: str) -> bool:
    """Whether it is a name of a period."""
    return _known(name) and _dimension(name) == _dimension("second")


@functools.cache
def _counted(noun: str) -> re.Pattern[str]:
    """A counted noun behind its number."""
    return re.compile(_COUNTED.format(no=_NO_ADJECTIVE, noun=noun), re.IGNORECASE)


def _plural(noun: str) -> str:
    """A pattern of a noun in both numbers, and of what else it is called."""
    if noun in _ALSO_CALLED:
        return f"{re.escape(noun)}s?|{_ALSO_CALLED[noun]}"
    irregular = {"person": "people|persons", "child": "children", "man": "men", "woman": "women"}
    if noun in irregular:
        return f"{noun}|{irregular[noun]}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{re.escape(noun)}|{re.escape(noun[:-1])}ies"
    return re.escape(noun) + r"(?:es|s)?"


@functools.cache
def asked(unit: str) -> Asked:
    """A unit out of its name: `kg`, `truck`, `million dollar`, `dollar / month`.

    What neither pint nor we know is a noun, and counted.

    Raises:
        InputError: it is no name of a unit.
    """
    above, slash, below = unit.strip().partition("/")
    match = re.fullmatch(r"(?:(thousand|million|billion) +)?([^\W\d_][\w .-]*)", above.strip())
    if not match or match[2] in _SCALES or (slash and not below.strip()):
        raise InputError(f"unit {unit!r}: write a unit or a noun, as 'hour' or 'dollar / month'")
    size = _SCALES.get(match[1], 1.0)
    name, per = match[2].strip().lower(), below.strip().lower() or None
    per = per and (_named(per) or per)
    known = _ALIASES.get(name) or _named(name) or _symbol(match[2].strip())
    if known in _MONEY:
        return Asked(known, size, per, "money")
    if known:
        return Asked(known, size, per, "measure")
    noun = re.sub(r"\W+", "_", name)
    return Asked(noun, size, per, "count", _plural(name))


@functools.cache
def _symbol(name: str) -> str | None:
    """The name in pint of a unit by its name or symbol, as written."""
    try:
        found = _registry().parse_units(name)
    except Exception:  # as in `_named`
        return None
    return str(found) if name in (str(found), f"{found:~}") else None
