"""A quantity in what was asked for: by its own unit, or by what its surroundings say of it."""

import re
from dataclasses import dataclass

from pragworld_tasks.quantities.context import HORIZON, Context, Question
from pragworld_tasks.quantities.mentions import Mention

_SCALES = {
    **{"thousand": 1e3, "k": 1e3, "million": 1e6, "m": 1e6, "mn": 1e6, "billion": 1e9, "bn": 1e9},
}
# `Cost (in millions)`, `($M)`.
_SCALE_IN_LABEL = re.compile(
    r"\b(?:in|US|USD|figures)? ?\$? ?(thousand|million|billion)s?\b|\$ ?(k|m|mn|bn)\b"
    r"|\((m|mn|bn)\$?\)",
    re.IGNORECASE,
)
# A unit that goes without saying.
_LEFT_OUT = re.compile(
    r"\b(?:go with|rent|rounds?(?:ing|ed)?(?: it)?(?: up)? to|call it|make it|need|plan on|"
    r"recommend|suggest|budget|expect|count on|get|book|fine with|do with|closer to|order|"
    r"reserve|hire|round up and (?:order|rent|get|book)|"
    r"manage with|get by with|say)(?: at least| about| around)? $",
    re.IGNORECASE,
)
_IF = re.compile(r" (?:if|when)\b", re.IGNORECASE)  # `fifty days if …, twenty-five if …`
_PEOPLE = re.compile(r"\b(?:populat\w+|people|residents|students|kids|riders?|trips)\b", re.I)
_MUCH = 100  # dollars
_PERIOD = re.compile(
    r"\b(?:(annual|yearly|monthly|weekly|daily|hourly)(?:ly)?"
    r"|(?<![\d%] )(?:per|each|every) (year|month|week|day))\b",
    re.IGNORECASE,
)
_PERIOD_BEHIND = re.compile(
    r"(?: [\w-]+){0,3} (?:(annual|year|month|week|dai)ly"
    r"|(?:per|an?|each|every) (year|month|week|day))\b",
    re.IGNORECASE,
)
_LABEL_PER = re.compile(r"(?:^|[a-z]{4} |[- ]in )per (\w+)", re.IGNORECASE)
_TERM = re.compile(
    r"\b(?:over|in|after|for|during|within|of)(?: \w+){0,3}? "
    r"(?:(?!(?:the|an?|this|each|every|one|per|school) )[\w.]+[- ]years?"
    r"|term|life|lifetime|decade)\b",
    re.IGNORECASE,
)
_NEAR = 60  # characters before and behind a quantity in which a term is looked for


@dataclass(frozen=True)
class Amount:
    """A quantity as asked for.

    Attributes:
        low, high: its ends, without a sign.
        sized: whether it has a unit, be it by its label.
        notes: names of weights for what is doubtful about it.
    """

    low: float
    high: float
    sized: bool
    notes: tuple[str, ...]


def amount(mention: Mention, context: Context, question: Question) -> Amount:
    """A quantity as asked for."""
    wanted = question.wanted
    notes: list[str] = []
    factor, size = 1.0, mention.size
    if size is None:
        left_out = _left_out(mention, context, question)
        size = _size_in_label(context, question) or left_out
        notes.append("unit left out" if left_out else "unit in label" if size else "no unit")
        # 4,000,000 where millions were asked for are no millions of millions.
        units = 1 / wanted.size if mention.high >= wanted.size / 100 else 1.0
        factor = size or units
    per = _per(mention, context, question)
    if per and wanted.per is None and question.spans(per):
        per = None
    rate = wanted.rate(per)
    near = f"{context.lead[-_NEAR:]}|{context.tail[:_NEAR]}"
    periodic = per or (_periods(context) and not HORIZON.search(near))
    if rate is None or (question.horizon and wanted.kind == "money" and periodic):
        notes.append("rate")
    if wanted.per and mention.per is None and _TERM.search(near):
        notes.append("over a term")
    if question.horizon and HORIZON.search(near):
        notes.append("horizon")
    factor *= rate or 1.0
    return Amount(
        abs(mention.low * factor), abs(mention.high * factor), size is not None, tuple(notes)
    )


def _left_out(mention: Mention, context: Context, question: Question) -> float | None:
    """The size of a unit that goes without saying: `so plan on two`, `half a million a year`."""
    wanted = question.wanted
    if wanted.kind == "money":
        dollar = wanted.sized(wanted.unit)
        if mention.scale >= wanted.size > 1 and not _PEOPLE.search(context.lead):
            return dollar
        if wanted.per and mention.per and mention.low >= _MUCH:
            return dollar
    same_again = context.size and (
        _LEFT_OUT.search(context.lead) or (_IF.match(context.tail) and mention.low > 1)
    )
    if same_again:
        return context.size
    return 1.0 if wanted.kind == "count" and _LEFT_OUT.search(context.lead) else None


def _size_in_label(context: Context, question: Question) -> float | None:
    """The size of the unit that a number's column or label names."""
    wanted = question.wanted
    if wanted.kind == "money":
        for text in (context.column, context.label, context.intro):
            if match := _SCALE_IN_LABEL.search(text):
                scale = next(filter(None, match.groups()))
                return _SCALES[scale.lower()] * wanted.sized(wanted.unit)
    unit = wanted.named_in(context.column) or wanted.named_in(context.label)
    return wanted.sized(unit) if unit else None


def _per(mention: Mention, context: Context, question: Question) -> str | None:
    """What a quantity is per: by its unit, its label, or the words around it."""
    wanted = question.wanted
    if mention.per is not None:
        return mention.per
    if wanted.kind == "money" and (match := _PERIOD_BEHIND.match(context.tail)):
        return wanted.period(match[1] or match[2])
    if wanted.per and (periods := _periods(context)):
        return wanted.period(periods[-1])
    if match := _LABEL_PER.search(f"{context.column} {context.label}"):
        return wanted.period(match[1]) or match[1]
    return None


def _periods(context: Context) -> list[str]:
    """The periods that are named before a quantity, the nearest last; of a row, above its table."""
    near = f"{context.column} {context.label} {context.lead}"
    found = _PERIOD.findall(near) or (context.column and _PERIOD.findall(context.heading)) or []
    return [first or second for first, second in found]
