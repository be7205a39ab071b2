"""Conversion of a quantity into the target unit, by its own unit or by the words around it."""

from pragworld_tasks.quantities.context import HORIZON, Context, QuantityTarget
from pragworld_tasks.quantities.mentions import QuantityMention
from pragworld_tasks.quantities.numerals import SCALES
from pragworld_tasks.quantities.patterns import ignoring_case, pattern
from pragworld_tasks.quantities.units import parse_period

_IF = ignoring_case(r" (?:if|when)\b")  # `fifty days if …, twenty-five if …`
_MUCH = 100  # dollars
_PERIOD = pattern("period")
_LABEL_PER = ignoring_case(r"(?:^|[a-z]{4} |[- ]in )per (\w+)")
_NEAR = 60  # characters before and after a quantity that are searched for a term


def convert(
    mention: QuantityMention, context: Context, target: QuantityTarget
) -> tuple[float, float, bool, list[str]]:
    """Convert a quantity into the target unit.

    Returns:
        Its ends, without a sign; whether it has a unit, if only in its label; and the names of the
        weights for what is doubtful about the conversion, or confirms it.
    """
    unit = target.unit
    notes: list[str] = []
    factor, size = 1.0, mention.size
    if size is None:
        left_out = _size_left_out(mention, context, target)
        size = _size_in_label(context, target) or left_out
        notes.append("unit left out" if left_out else "unit in label" if size else "no unit")
        # 4,000,000 where the target is in millions does not mean millions of millions.
        factor = size or (1 / unit.size if mention.high >= unit.size / 100 else 1.0)
    per = _per(mention, context, target)
    if per and unit.per is None and target.spans(per):
        per = None
    rate = unit.rate(per)
    near = f"{context.lead[-_NEAR:]}|{context.tail[:_NEAR]}"
    periodic = per or (_periods(context) and not HORIZON.search(near))
    if rate is None or (target.horizon and unit.kind == "money" and periodic):
        notes.append("rate")
    if unit.per and mention.per is None and pattern("term").search(near):
        notes.append("over a term")
    if target.horizon and HORIZON.search(near):
        notes.append("horizon")
    factor *= rate or 1.0
    return abs(mention.low * factor), abs(mention.high * factor), size is not None, notes


def _size_left_out(
    mention: QuantityMention, context: Context, target: QuantityTarget
) -> float | None:
    """Return the size of a unit that goes without saying: `plan on two`, `a million a year`."""
    unit = target.unit
    if unit.kind == "money" and (
        (mention.scale >= unit.size > 1 and not pattern("people").search(context.lead))
        or (unit.per and mention.per and mention.low >= _MUCH)
    ):
        return unit.sized(unit.unit)
    announced = pattern("unit_left_out").search(context.lead)
    if context.size and (announced or (_IF.match(context.tail) and mention.low > 1)):
        return context.size
    return 1.0 if unit.kind == "count" and announced else None


def _size_in_label(context: Context, target: QuantityTarget) -> float | None:
    unit = target.unit
    if unit.kind == "money":
        for text in (context.column, context.label, context.intro):
            if match := pattern("scale_in_label").search(text):
                scale = next(filter(None, match.groups()))
                return SCALES[scale.lower()] * unit.sized(unit.unit)
    named = unit.named_in(context.column) or unit.named_in(context.label)
    return unit.sized(named) if named else None


def _per(mention: QuantityMention, context: Context, target: QuantityTarget) -> str | None:
    """Return what a quantity is per by its unit, its label, or the words around it, or None."""
    if mention.per is not None:
        return mention.per
    if target.unit.kind == "money" and (match := pattern("period_after").match(context.tail)):
        return parse_period(match[1] or match[2])
    if target.unit.per and (periods := _periods(context)):
        return parse_period(periods[-1])
    if match := _LABEL_PER.search(f"{context.column} {context.label}"):
        return parse_period(match[1]) or match[1]
    return None


def _periods(context: Context) -> list[str]:
    """Return the periods before a quantity, the nearest last; for a row, also above its table."""
    near = f"{context.column} {context.label} {context.lead}"
    periods = _PERIOD.findall(near) or (context.column and _PERIOD.findall(context.heading)) or []
    return [adverb or noun for adverb, noun in periods]
