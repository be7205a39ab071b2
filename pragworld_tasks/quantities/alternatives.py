"""Wording that marks a quantity as one of several alternatives: `50 days at 20 mg, 25 at 40 mg`."""

import re

from pragworld_tasks.quantities.context import Context
from pragworld_tasks.quantities.layout import Place
from pragworld_tasks.quantities.patterns import any_of, ignoring_case

# The beginning of a heading or a label that names an option.
OPTION = ignoring_case(
    r"\W*(?:\d\W+)?(?:option|method|scenario|choice|alternative|plan|with|via|if|when|"
    r"best|worst|low|high|moderate|optimistic|conservative)\b"
)
# In a label: `At 20 mg`, `Scenario B`, `Light traffic`, `150 lb person`.
_IN_LABEL = any_of(r"""
    scenarios? | options? | methods? | cases? | if | when | low(?:er)?(?:[- ]end)? | approach
    high(?:er)?(?:[- ]end)? | mid(?:dle)?(?:[- ]range)? | medium | moderate(?:ly)? | conservative
    optimistic | pessimistic | best | worst | light(?:er)? | heavy | heavier | (?:off-?)?peak
    rush[- ]hour | minim(?:um|al) | maximum | no traffic | non-?stop | direct | one[- ]stop
    two[- ]stops? | layovers? | connect(?:ion|ing) | fast(?:er|est)? | slow(?:er|est)? | express
    cheap(?:er|est)? | economy | basic | premium | budget | typical | average | usual | normal
    ideal | bad | good | easy | small(?:er)? | large(?:r)? | ltl | ftl | freight | parcels?
    (?:full[- ]|less[- ]than[- ])?truckload | ground | air | diy | full[- ]service | rental
    container | rail | intermodal | plan [a-c] | at \d[\d,.]* ?\w+ | only | always
    with (?:\d|one|two|an?|no) | mostly | half | without | every day | assuming | optimal
    favou?rable | early | late | alternat\w+ | weekdays? | weekends? | strict | sedentary
    hybrid | suv | sedan | used | new | upper | lower
    downside | upside | standard | aggressive | partial | version | ups | usps | fedex | days? on
    for \w = \d | \d[\d,.]*[ -]?(?:mg|kg|lbs?|pounds?|mph|stops?)
""")
# In the sentence before it, where many of these words have other meanings.
_BEFORE = ignoring_case(
    r"^\W*(?:and |or |but |so )?(?:if|when|without|with an?|in (?:the|a) (?:best|worst|\w+ case)"
    r"|(?:on|in|during) (?:an? |the )?"
    r"(?:clear|good|bad|light|heavy|normal|rainy|quiet|busy|off-peak|peak|rush|best|worst)"
    r"|with (?:no|light|heavy|one|two|a|only|just) (?:\w+ )?(?:traffic|stops?|layovers?|"
    r"connections?))\b"
    r"|\b(?:if|when|scenario|option|(?:best|worst)(?:-| )case"
    r"|in (?:the )?(?:light|heavy|moderate|off-peak|peak)"
    r"|(?:at|with|on|taking) (?:an? |the )?(?:\w+ )?\d[\d,.]* ?(?:mg|kg|lbs?|pounds)"
    r"|by (?:ltl|ground|truck|air|parcel))\b"
)
_AFTER = ignoring_case(
    r"^\W*(?:(?:if|when|assuming|via|depending)\b|(?:at|with|on|for|in|by|under) (?:the |an? )?"
    r"(?:\d[\d,.]* ?(?:mg|lbs?|kg)|lower|higher|low|high|best|worst|light|heavy|normal|usual|"
    r"optimistic|conservative|ltl|ground|freight|parcel|one stop|two stops))"
)
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
