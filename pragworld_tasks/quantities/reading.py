"""The one final number of an answer: its bottom line, or the middle of what it leaves open."""

import functools
from collections.abc import Sequence

from pragworld_tasks.quantities.candidates import Candidate, candidates
from pragworld_tasks.quantities.context import Question
from pragworld_tasks.quantities.cues import SAYING
from pragworld_tasks.quantities.plain import plain
from pragworld_tasks.quantities.scenarios import is_one_of, scenarios
from pragworld_tasks.quantities.units import asked

# The score below which a quantity is no answer: a number where an answer gives none is worse than
# none where it gives one. Where something plain speaks against it, or nothing says that it is the
# answer, one plain cue is not enough.
ENOUGH, ENOUGH_IN_DOUBT = 2.5, 3.0
DOUBT = -1.5  # the weight from which on something speaks plainly against
APART = ("alone", "in heading", "bold", "result")  # what sets it apart where no word says so


def read_quantity(response: str, unit: str, prompt: str = "") -> float | None:
    """The final number that an answer gives, in a unit; None where it gives none.

    It is what the answer concludes with or recommends, its total and not its parts; of a range the
    middle; of alternatives that it leaves side by side the middle of the least and the greatest.
    Quantities in other units are converted, signs left out.

    Args:
        response: what a model wrote.
        unit: of the number: one of pint's (`kg`, `hour`), of money (`dollar`, `million dollar`), a
            noun for what is counted (`truck`), or any of these per something (`dollar / month`).
        prompt: what was asked. What only repeats its numbers is no answer.

    Raises:
        InputError: `unit` is no unit. No response raises anything.
    """
    return choose(candidates(plain(response), _question(unit, prompt)))


@functools.lru_cache(maxsize=1024)
def _question(unit: str, prompt: str) -> Question:
    """What was asked; each prompt is answered many times."""
    return Question.of(asked(unit), prompt)


def choose(found: Sequence[Candidate]) -> float | None:
    """The value of the best candidate, or the middle of alternatives none of which is preferred."""
    best = max(found, key=lambda one: one.score, default=None)
    if best is not None and best.score < _enough(best):
        best = None
    group = scenarios(found)
    if group and (best is None or is_one_of(best, group)):
        return (min(one.low for one in group) + max(one.high for one in group)) / 2
    return None if best is None else best.value


def _enough(one: Candidate) -> float:
    """The score that a quantity needs."""
    in_doubt = min(one.weights.values()) < DOUBT or not one.has(*SAYING, *APART)
    return ENOUGH_IN_DOUBT if in_doubt else ENOUGH
