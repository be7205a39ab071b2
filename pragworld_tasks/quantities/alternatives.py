"""Wording that marks a quantity as one of several alternatives: `50 days at 20 mg, 25 at 40 mg`."""

import re

from pragworld_tasks.quantities.context import Context
from pragworld_tasks.quantities.layout import Place
from pragworld_tasks.quantities.patterns import pattern

OPTION = pattern("option")
_IN_LABEL = pattern("alternative_label")
_BEFORE = pattern("alternative_before")
_AFTER = pattern("alternative_after")
_BRACKET = re.compile(r" ?\(([^()]{1,40})\)")  # `45 minutes (rush hour)`


def is_labelled_alternative(context: Context, place: Place, stands_apart: bool) -> bool:
    """Return whether the label of a quantity marks it as an alternative.

    Args:
        context: The quantity's context.
        place: The quantity's place.
        stands_apart: Whether the heading counts as its label if it has no other.
    """
    label = context.label or (context.heading if stands_apart else "")
    if OPTION.match(context.heading):
        label = f"{context.heading} {label}"
    announced = place.line.intro if place.line.kind == "text" else ""
    return bool(_IN_LABEL.search(label) or _BEFORE.search(announced))


def is_alternative(context: Context) -> bool:
    """Return whether the words around a quantity mark it as an alternative."""
    return bool(_BEFORE.search(context.lead)) or says_which(context.rest)


def says_which(rest: str) -> bool:
    """Return whether words after a quantity name its alternative: `at the lower dose`."""
    bracket = _BRACKET.match(rest)
    return bool(_AFTER.match(rest) or (bracket and _IN_LABEL.search(bracket[1])))
