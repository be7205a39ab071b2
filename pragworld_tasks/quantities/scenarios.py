"""Alternatives that an answer leaves side by side: `50 days at 20 mg, 25 days at 40 mg`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pragworld_tasks.quantities.context import Context
from pragworld_tasks.quantities.layout import Place
from pragworld_tasks.quantities.tables import any_of

if TYPE_CHECKING:
    from pragworld_tasks.quantities.candidates import Candidate

ENOUGH = 2.0  # the score from which a group of quantities counts as alternatives
ALIKE = 5.0  # by how much their own scores may differ: alternatives are said in like words
CLEARLY_AHEAD = 2.0  # by how much one is ahead of the others that is preferred
# What no alternative is.
_NEVER = (
    "rate",
    "input",
    "operand",
    "added",
    "question",
    "one",
    "no unit",
    "denied",
    "given",
    "trifle",
)
_PLACE = ("opens", "first sentence", "alone", "not said", "only one")
_OPTION = re.compile(
    r"\W*(?:\d\W+)?(?:option|method|scenario|choice|alternative|plan|with|via|if|when|"
    r"best|worst|low|high|moderate|optimistic|conservative)\b",
    re.IGNORECASE,
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
# Before it in a sentence, where many of these words mean other things.
_BEFORE = re.compile(
    r"^\W*(?:and |or |but |so )?(?:if|when|without|with an?|in (?:the|a) (?:best|worst|\w+ case)"
    r"|(?:on|in|during) (?:an? |the )?"
    r"(?:clear|good|bad|light|heavy|normal|rainy|quiet|busy|off-peak|peak|rush|best|worst)"
    r"|with (?:no|light|heavy|one|two|a|only|just) (?:\w+ )?(?:traffic|stops?|layovers?|"
    r"connections?))\b"
    r"|\b(?:if|when|scenario|option|(?:best|worst)(?:-| )case"
    r"|in (?:the )?(?:light|heavy|moderate|off-peak|peak)"
    r"|(?:at|with|on|taking) (?:an? |the )?(?:\w+ )?\d[\d,.]* ?(?:mg|kg|lbs?|pounds)"
    r"|by (?:ltl|ground|truck|air|parcel))\b",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    r"^\W*(?:(?:if|when|assuming|via|depending)\b|(?:at|with|on|for|in|by|under) (?:the |an? )?"
    r"(?:\d[\d,.]* ?(?:mg|lbs?|kg)|lower|higher|low|high|best|worst|light|heavy|normal|usual|"
    r"optimistic|conservative|ltl|ground|freight|parcel|one stop|two stops))",
    re.IGNORECASE,
)
_BRACKET = re.compile(r" ?\(([^()]{1,40})\)")  # `45 minutes (rush hour)`
# What announces alternatives, and what announces parts of a sum that is never said.
_ALTERNATIVES_AHEAD = any_of(r"""
    scenarios | options | methods | alternatives | possibilities | approaches
    ways to (?:ship|send)
""")
_PERHAPS_AHEAD = any_of(r"""
    scenario | option | method | ways | depend(?:s|ing|ent)? | approach | cases | carriers?
    conditions? | vary | varies | varying | either | extremes | guide | both | at each | range of
    by (?:weight|method|carrier|mode|option|scenario|traffic|type|dose|body weight) | routes
    estimates | estimated (?:\w+ )?costs? | for (?:each|different|various)
""")
_PARTS_AHEAD = any_of(r"""
    includ(?:e|es|ing) | components? | parts? | expenses | factors? | account | steps? | items?
    segments? | stages | made up | consists? | following costs | (?:in)?direct costs? | fixed
    variable | tips? | main costs | consider | categories | depends? on: | elements
""")


def is_labelled_alternative(context: Context, place: Place, stands_apart: bool) -> bool:
    """Whether a quantity's label makes it one of several; or its heading, where it stands apart."""
    label = context.label or (context.heading if stands_apart else "")
    if _OPTION.match(context.heading):
        label = f"{context.heading} {label}"
    announced = place.line.intro if place.line.kind == "text" else ""
    return bool(_IN_LABEL.search(label) or _BEFORE.search(announced))


def is_alternative(context: Context) -> bool:
    """Whether the words around a quantity make it one of several."""
    return bool(_BEFORE.search(context.lead)) or says_which(context.rest)


def says_which(tail: str) -> bool:
    """Whether words behind a quantity say for which alternative it is: `at the lower dose`."""
    bracket = _BRACKET.match(tail)
    return bool(_BEHIND.match(tail) or (bracket and _IN_LABEL.search(bracket[1])))


def scenarios(found: Sequence[Candidate]) -> list[Candidate]:
    """The quantities that stand side by side as alternatives; empty where there are none.

    They are items of one list, rows of one table, all that is labelled in the text, or all in one
    paragraph; the best of each item or row.
    """
    listed: dict[tuple[str, int], dict[int, Candidate]] = defaultdict(dict)
    sections = [one.place.line.section for one in found]
    for one in found:
        total = one.has("total") and not one.alternative
        if total or not one.sized or one.has(*_NEVER):
            continue
        line = one.place.line
        if line.group >= 0:
            key, spot = ("list", line.group), line.number
            if _OPTION.match(line.section):  # each under a heading of its own
                key, spot = ("option", 0), sections.index(line.section)
            members = listed[key]
        elif one.alternative:
            key = ("labelled", 0) if one.labelled else ("paragraph", line.number)
            members, spot = listed[key], one.mention.start
        else:
            continue
        if spot not in members or one.score >= members[spot].score:
            members[spot] = one
    best: list[Candidate] = []
    enough = ENOUGH
    for members in listed.values():
        top = max(_alike(one) for one in members.values())
        group = [one for one in members.values() if _alike(one) >= top - ALIKE]
        if len(group) > 1 and (score := _score(group)) >= enough:
            best, enough = group, score
    return best


def is_one_of(best: Candidate, group: Sequence[Candidate]) -> bool:
    """Whether a quantity is just one of several alternatives, and not the preferred one."""
    if not any(best is one or best.same(one) for one in group):
        return False
    others = max((one.score for one in group if not best.same(one)), default=best.score)
    decided = not best.alternative or best.has(
        "judgement", "conclusion", "boxed", "total", "preferred"
    )
    return not (decided and best.score >= others + CLEARLY_AHEAD)


def _alike(one: Candidate) -> float:
    """The score of a quantity without what only the first of several alternatives can have."""
    return one.score - sum(one.weights.get(name, 0) for name in _PLACE)


def _score(group: Sequence[Candidate]) -> float:
    """What speaks for quantities being alternatives, not parts."""
    line = group[0].place.line
    ahead = f"{line.section} {line.intro} {' '.join(line.header)}"
    share = sum(one.alternative for one in group) / len(group)
    topic = sum(one.weights.get("topic", 0) for one in group) / len(group)
    doubts = min(one.weights.get("declines", 0) for one in group)
    doubts += min(one.weights.get("cut off", 0) for one in group)
    doubts += group[0].weights.get("asks back", 0)
    announced = 2 if _ALTERNATIVES_AHEAD.search(ahead) else bool(_PERHAPS_AHEAD.search(ahead))
    announced -= 2 * bool(_PARTS_AHEAD.search(ahead))
    return 2 * share + topic + announced + doubts
