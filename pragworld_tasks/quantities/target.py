"""The target of a prompt: the quantity that it asks for, and what it says about it."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pragworld_tasks.quantities.mentions import QuantityMention, find_quantities
from pragworld_tasks.quantities.numerals import find_numerals
from pragworld_tasks.quantities.patterns import pattern, source
from pragworld_tasks.quantities.plain_text import to_plain_text
from pragworld_tasks.quantities.units import TargetUnit, parse_unit, period_in_days

HORIZON = pattern("horizon")
_SPAN = 0.05  # relative difference of equal spans of time: a month and 30 days
# The letters by which related words are compared: `estimate` and `estimating`.
STEM = re.compile(r"(?<![a-z])[a-z]{3,5}")
_NO_TOPIC = frozenset(STEM.findall(source("no_topic_words")))


@dataclass(frozen=True)
class QuantityTarget:
    """The quantity that a prompt asks for.

    Attributes:
        unit: The unit in which the value is returned.
        inputs: The quantities in the prompt that can be converted into that unit.
        numbers: All numbers in the prompt.
        topic: The stems of the words that say what the prompt is about.
        days: The lengths in days of the spans of time in the prompt.
        horizon: Whether the prompt asks for a sum over several years, not for a rate.
    """

    unit: TargetUnit
    inputs: Sequence[QuantityMention]
    numbers: frozenset[float]
    topic: frozenset[str]
    days: Sequence[float]
    horizon: bool

    def spans(self, per: str) -> bool:
        """Return whether a quantity per some time is the whole target, being per its whole span."""
        length = period_in_days(per)
        return length is not None and any(abs(length - days) <= _SPAN * days for days in self.days)

    def repeats(self, mention: QuantityMention) -> bool:
        """Return whether a quantity only repeats one of the prompt."""
        if mention.size is None:
            return mention.low == mention.high and mention.low in self.numbers
        return any(
            given.size and given.low == mention.low and given.high == mention.high
            for given in self.inputs
        )


@functools.lru_cache(maxsize=1024)
def read_target(unit: str, prompt: str) -> QuantityTarget:
    """Return the target of a prompt and a unit, cached because prompts are answered many times.

    Raises:
        InputError: `unit` is not a unit.
    """
    text, target_unit = to_plain_text(prompt).text, parse_unit(unit)
    return QuantityTarget(
        unit=target_unit,
        inputs=find_quantities(text, target_unit),
        numbers=frozenset(
            number.value for number in find_numerals(text) if number.kind in ("digits", "words")
        ),
        topic=frozenset(STEM.findall(text)) - _NO_TOPIC,
        days=[span.low for span in find_quantities(text, parse_unit("day")) if span.size],
        horizon=target_unit.per is None and bool(HORIZON.search(text)),
    )
