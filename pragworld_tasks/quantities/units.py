"""Units: the target unit, in which a value is returned, and the units that answers use instead.

pint converts them. It takes a third of a second to import, so it is imported when first needed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.quantities.wording import pattern, source, words

if TYPE_CHECKING:
    import pint

_FILE = read_package_toml(__package__, "units.toml")
_SPELLINGS: dict[str, str] = {
    spelling: unit
    for unit, spellings in _FILE["spellings"].items()
    for spelling in spellings.split()
}
MULTIPLIERS: dict[str, float] = _FILE["multipliers"]
_ADVERBS, _CURRENCY_SIGNS, _NOUNS = _FILE["adverbs"], _FILE["currency_signs"], _FILE["nouns"]
_ARTICLE_RATE, _WHOLE = set(words("article_rate_words")), set(words("whole_target_words"))
_IN_BRACKETS = 12  # characters of a number, or a range, in brackets


@functools.cache
def _registry() -> pint.UnitRegistry[Any]:
    import pint

    registry: pint.UnitRegistry[Any] = pint.UnitRegistry()
    for definition in _FILE["definitions"]:
        registry.define(definition)
    return registry


def _parsed(name: str) -> pint.Unit | None:
    """Return pint's unit of a name, or None. pint would compute any other text."""
    import pint

    try:
        return _registry().parse_units(name) if name.isidentifier() else None
    except (pint.errors.PintError, ValueError):  # no unit, a prefix where none can be, or `nan`
        return None


@functools.cache
def _named(word: str) -> str | None:
    """Return pint's name of the unit that a word in lower case stands for, or None."""
    if word in _SPELLINGS:
        return _SPELLINGS[word]
    if len(word) < 4 and word not in ("ton", "cup"):
        return None  # pint takes `in`, `at` and `as` for units
    name = str(_parsed(word))
    # Only whole names of units: `gas` would be a billion attoseconds.
    return name if name in (word, word.removesuffix("s"), word.removesuffix("es")) else None


@functools.cache
def _factor(unit: str, target: str) -> float | None:
    """Return what one unit is in the other; None if no factor converts it, as for temperatures."""
    if unit == target:
        return 1.0
    units = _registry()
    if units.get_dimensionality(unit) != units.get_dimensionality(target):
        return None
    if units.Quantity(0, unit).to(target).magnitude != 0:
        return None
    return float(units.Quantity(1, unit).to(target).magnitude)


@functools.cache
def _is_time(name: str) -> bool:
    return _named(name) is not None and _factor(name, "second") is not None


@dataclass(frozen=True)
class TargetUnit:
    """The unit in which a value is returned."""

    unit: str  # pint's name, without what the quantity is per; for a count, the noun
    size: float  # how many of `unit` it is, as 1e6 for `million dollar`
    per: str | None
    kind: Literal["money", "measure", "count"]  # pint measures all but money and counts
    noun: str = ""  # for a count, a pattern of what is counted

    def attached(self, text: str, start: int, end: int) -> tuple[int, int, str, str | None] | None:
        """Return where a number begins and ends with its unit, the unit, and what it is per.

        None if the unit cannot become the target unit.
        """
        if text.startswith(")", end) and "(" in text[max(0, start - _IN_BRACKETS) : start]:
            end += 1  # `(4-6) hours`
        find = {"money": self._currency, "measure": self._measure, "count": self._counted}
        begin, end, name = find[self.kind](text, start, end)
        if name is None or _factor(name, self.unit) is None:
            return None
        per, end = per_at(text, end)
        return begin, end, name, per

    def _currency(self, text: str, start: int, end: int) -> tuple[int, int, str | None]:
        """Return an amount of money by a sign before it or a word after it."""
        before = pattern("currency_before").search(text, max(0, start - 6), start)
        after = pattern("currency_after").match(text, end)
        name: str | None = None
        if before:
            sign, start = before["sign"], before.start()
            name = _CURRENCY_SIGNS[sign] if sign else _SPELLINGS[before["code"]]
            if sign == "$" and before["country"] not in (None, "us", "u.s.", "usd"):
                name = "other_dollar"
        elif ranged := pattern("currency_of_range").search(text, max(0, start - 32), start):
            name = _CURRENCY_SIGNS.get(ranged["sign"]) or _SPELLINGS[ranged["sign"]]
        elif pattern("slang").search(text, max(start, end - 6), end):
            name = "dollar"
        elif after:
            name = _CURRENCY_SIGNS.get(after["word"]) or _SPELLINGS.get(
                after["word"], after["word"]
            )
        return start, after.end() if after else end, name

    def _measure(self, text: str, start: int, end: int) -> tuple[int, int, str | None]:
        match = pattern("unit_after").match(text, end)
        if not match:
            return start, end, None
        word, glued = match["word"], match.start("word") == end and _is_time(self.unit)
        name = _FILE["glued_times"].get(word) if glued else None
        return start, match.end(), name or _named(word)

    def _counted(self, text: str, start: int, end: int) -> tuple[int, int, str | None]:
        match = _counted_pattern(self.noun).match(text, end)
        return start, match.end() if match else end, self.unit if match else None

    @property
    def hour(self) -> float | None:
        """The length of an hour in the target unit, or None if that is not a unit of time."""
        return self.sized("hour") if self.kind == "measure" and _is_time(self.unit) else None

    def sized(self, unit: str) -> float:
        """Return the size of another unit in the target unit, whatever either is per."""
        return (1.0 if self.kind == "count" else _factor(unit, self.unit) or 1.0) / self.size

    def rate(self, per: str | None) -> float | None:
        """Return the factor that converts a value per something into the target, or None."""
        if per is None or per == self.per:
            return 1.0
        if self.per is None:  # an amount of money without a period is a year's
            return _factor("year", per) if self.kind == "money" and _is_time(per) else None
        return _factor(self.per, per) if _named(per) and _named(self.per) else None

    def scale_in(self, label: str) -> float | None:
        """Return the factor that a label of amounts of money names: `Cost (millions)`."""
        match = pattern("scale_in_label").search(label) if self.kind == "money" else None
        return MULTIPLIERS[next(filter(None, match.groups()))] if match else None

    def size_in(self, *labels: str) -> float | None:
        """Return the size of the first unit that labels name, as in `Time (min)`, in this one."""
        label = "\n".join(labels)
        names: Iterable[str | None]
        if self.kind == "count":
            names = [self.unit] if re.search(rf"\b(?:{self.noun})\b", label) else []
        elif self.kind == "money":
            names = ["dollar"] if "$" in label or "usd" in label else []
        else:
            names = map(_named, re.findall(r"[a-zµ]{2,20}", label))
        name = next((name for name in names if name and _factor(name, self.unit)), None)
        return self.sized(name) if name else None


def per_at(text: str, end: int) -> tuple[str | None, int]:
    """Return what follows `per` and its like at a place, and where that ends."""
    match = pattern("per").match(text, end)
    if not match:
        return None, end
    if match["adverb"]:
        return _ADVERBS[match["adverb"]], match.end()
    if match["each"]:
        return "each", match.end()
    word = match["word"]
    by_article = match[0].lstrip().startswith(("a ", "an "))
    if word in _WHOLE or (by_article and word not in _ARTICLE_RATE):
        return None, end
    return _named(word) or word, match.end()


def parse_period(word: str) -> str | None:
    """Return the period, or another unit, that a word such as `month` or `monthly` stands for."""
    return _ADVERBS.get(word) or _named(word)


@functools.cache
def _counted_pattern(noun: str) -> re.Pattern[str]:
    end = rf" +(?:(?:{noun})(?!\w|-\w)|(?:of )?(?:them|these|those)\b)"
    return re.compile(source("before_counted_noun") + end)


def _noun_pattern(noun: str) -> str:
    if noun in _FILE["plurals"]:
        return str(_FILE["plurals"][noun])
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{re.escape(noun)}|{re.escape(noun[:-1])}ies"
    return re.escape(noun) + r"(?:es|s)?"


@functools.cache
def parse_unit(name: str) -> TargetUnit:
    """Return the unit of a name such as `kg` or `dollar / month`; of other nouns, a count."""
    above, slash, below = name.strip().partition("/")
    match = re.fullmatch(r"(?:(thousand|million|billion) +)?([^\W\d_][\w .-]*)", above.strip())
    if not match or match[2] in ("thousand", "million", "billion") or (slash and not below.strip()):
        raise InputError(
            f"unit {name!r}: write the name of a unit, such as 'hour', or a noun, such as 'truck', "
            "and what it is per, if anything: 'dollar / month'"
        )
    size = MULTIPLIERS[match[1]] if match[1] else 1.0
    unit, per = match[2].strip().lower(), below.strip().lower() or None
    per = per and (_named(per) or per)
    known = _named(unit)
    if not known and unit not in _NOUNS and (symbol := _parsed(match[2].strip())):  # as written
        known = str(symbol) if match[2].strip() in (str(symbol), f"{symbol:~}") else None
    if known:
        return TargetUnit(known, size, per, "money" if known in _FILE["money"] else "measure")
    return TargetUnit(re.sub(r"\W+", "_", unit), size, per, "count", _noun_pattern(unit))
