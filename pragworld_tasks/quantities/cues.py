"""What speaks for a quantity being the bottom line of an answer, and what against: the tables.

The weights of all that holds for a quantity are added up, and the sum decides. About 3 is what one
plain statement of a result is worth (`in total …`), and what one plain sign that a quantity is
something else takes away (`… before the flight`). The weights were set by hand and compared with
those that logistic regression finds on answers written by other people.
"""

import re
from typing import NamedTuple

from pragworld_tasks.quantities.adverse import (
    ADDED_BEFORE,
    ADDED_BEHIND,
    ASIDE_HEADINGS,
    ASIDE_INTROS,
    ASIDE_LABELS,
    ASIDE_LEADS,
    COMPONENT,
    CONDITION,
    CONDITION_OPENS,
    DENIED,
    GIVEN,
    IDEAL,
    INPUT_BEFORE,
    INPUT_LABEL,
    INSTRUCTION,
    OTHER_MEANS,
    PART_BEFORE,
    PART_HEADING,
    PART_LABEL,
    PARTIAL_TOTALS,
    RATE_BEHIND,
)
from pragworld_tasks.quantities.favourable import (
    ABOUT,
    BALANCE_BEFORE,
    BALANCE_BEHIND,
    CONCLUDING_HEADINGS,
    CONCLUSIONS,
    HEDGED_BEHIND,
    IMPERATIVE,
    IN_OTHER_WORDS,
    JUDGEMENTS,
    NAMES,
    PREDICTION,
    THEREFORE,
    TOTAL_BEHIND,
    TOTALS,
)
from pragworld_tasks.quantities.tables import any_of, first_of_all, last_of_all


class Cue(NamedTuple):
    """Words that speak for or against.

    Attributes:
        name: of the cue. Of several with one name only the strongest counts.
        where: what is searched: an attribute of `context.Context`.
        weight: what it adds.
        pattern: what is looked for.
    """

    name: str
    where: str
    weight: float
    pattern: re.Pattern[str]


CUES = (
    Cue("total", "label", 4.5, any_of("grand total | total (?:cost|time)")),
    Cue("total", "label", 3.5, any_of(TOTALS)),
    Cue("total", "lead", 3.0, any_of(TOTALS)),
    Cue("total", "tail", 2.5, TOTAL_BEHIND),
    Cue("judgement", "tail", 2.0, HEDGED_BEHIND),
    Cue("total", "lead", 3.0, BALANCE_BEFORE),
    Cue("total", "rest", 2.5, BALANCE_BEHIND),
    Cue("conclusion", "lead", 3.0, any_of(CONCLUSIONS)),
    Cue("conclusion", "heading", 2.0, any_of(CONCLUDING_HEADINGS)),
    Cue("judgement", "lead", 3.5, any_of(JUDGEMENTS)),
    Cue("judgement", "lead", 2.5, IMPERATIVE),
    Cue("prediction", "lead", 2.0, PREDICTION),
    Cue("named", "label", 1.5, any_of(NAMES)),
    Cue("named", "label", 2.0, any_of("""
        (?:you|i)(?:'ll| will| would|'d)? (?:owe|pay|need|save|lose|spend|burn|gain)
    """)),
    Cue("therefore", "lead", 1.5, THEREFORE),
    Cue("therefore", "lead", 1.5, IN_OTHER_WORDS),
    Cue("about", "lead", 1.0, ABOUT),
    Cue("column", "column", 1.5, any_of("""
        total | overall | estimated | duration | savings? | result | how (?:long|many|much)
    """)),
    Cue("partial total", "lead", -4.0, any_of(PARTIAL_TOTALS)),
    Cue("partial total", "label", -4.0, any_of(PARTIAL_TOTALS)),
    Cue("input by name", "lead", -4.0, INPUT_BEFORE),
    Cue("input by name", "label", -4.0, INPUT_LABEL),
    Cue("part by name", "heading", -3.0, PART_HEADING),
    Cue("part by name", "label", -2.0, PART_LABEL),
    Cue("part by name", "lead", -2.5, PART_BEFORE),
    Cue("component", "label", -2.5, first_of_all("(?:in)?direct(?! (?:and|&|plus|or|[+]))")),
    Cue("ideal", "lead", -2.0, any_of(IDEAL)),
    Cue("ideal", "tail", -2.0, any_of(IDEAL)),
    Cue("component", "label", -2.5, any_of(COMPONENT)),
    Cue("component", "lead", -2.5, any_of(COMPONENT)),
    Cue("component", "tail", -4.0, first_of_all("""
        (?:in|of|for) (?:the )?(?:in)?direct (?:\\w+ )?(?:costs?|expenses?)
    """)),
    Cue("component", "lead", -2.0, any_of("""
        (?<!total )(?:flight|flying) (?:time|duration|itself) | time in the air | airborne
    """)),
    Cue("given", "lead", -3.0, GIVEN),
    Cue("aside", "heading", -3.0, any_of(ASIDE_HEADINGS)),
    Cue("aside", "intro", -3.0, first_of_all(ASIDE_INTROS)),
    Cue("aside", "intro", -3.0, any_of("""
        i(?:'d| would)? need | need to know | depends? on | more information | consider | factors
    """)),
    Cue("aside", "label", -2.5, any_of(ASIDE_LABELS)),
    Cue("aside", "lead", -2.5, any_of(ASIDE_LEADS)),
    Cue("instruction", "lead", -3.0, INSTRUCTION),
    Cue("relative clause", "lead", -4.0, re.compile(r"^ (?:which|who|whose|where)\b")),
    Cue("other means", "lead", -3.0, any_of(OTHER_MEANS)),
    Cue("aside", "opening", -2.5, first_of_all("if you (?:also|want|can|could|would like|decide)")),
    Cue("condition", "opening", -1.0, CONDITION_OPENS),
    Cue("condition", "lead", -1.0, CONDITION),
    Cue("added", "lead", -3.0, last_of_all(ADDED_BEFORE)),
    Cue("added", "tail", -3.0, first_of_all(ADDED_BEHIND)),
    Cue("rate", "tail", -4.0, RATE_BEHIND),
    Cue("denied", "rest", -3.0, DENIED),
    Cue("question", "rest", -3.0, re.compile(r"\?\W*$")),
    Cue("other column", "column", -2.5, any_of("""
        per (?!month|year)\\w+ | each | rate | speed | share | % | distance | (?<!body )weight
        capacity | deduction | bracket | income | notes?
    """)),
)  # fmt: skip

# Weights of what is no matter of words.
WEIGHTS = {
    # For. -----------------------------------------------------------------------------------------
    "boxed": 6.0,
    "whole answer": 6.0,  # nothing else is said
    "last row": 3.0,  # of its table, and the only one in bold
    "bold": 2.5,
    "opens": 2.5,  # the answer, with nothing but hedges before it
    "short answer": 2.5,
    "first sentence": 1.5,
    "alone": 2.0,  # in its line or sentence
    "in heading": 1.5,
    "preferred": 6.0,  # by its name elsewhere: `the moderate case seems the most credible`
    "sum": 1.5,  # behind an equals sign and a plus before
    "horizon": 1.5,  # over as many years as were asked for
    "said again": 1.5,
    "later": 1.5,  # at the very end, in proportion
    "terms": 1.0,  # its label repeats a number of the prompt: `30-day loss`
    "statement": 1.0,  # of the right subject, in words of no cue
    "only one": 1.0,  # with the unit asked for
    "topic": 0.6,  # for each word of the prompt, to three
    "result": 1.0,  # behind an equals sign
    # Against. -------------------------------------------------------------------------------------
    "input": -6.0,  # equal to one in the prompt
    "input, computed": -2.0,  # likewise, but the result of a computation
    "rate": -5.0,  # per something that was not asked
    "no unit": -4.5,
    "unit in label": -1.5,  # and not by the number
    "unit left out": -1.0,  # `at least 4 trucks, but I'd go with 5`
    "over a term": -6.0,  # where a rate was asked for
    "added": -3.0,  # as the cue
    "operand": -4.0,
    "fraction": -3.0,  # of what is counted
    "brackets": -2.5,
    "part": -2.0,  # one of several items or rows
    "purpose": -2.0,  # `of interest`, `for parking`
    "foreign subject": -2.5,  # `a pallet costs …`
    "not said": -2.0,  # nothing says that it is the answer, or even a result
    "as large as given": -5.0,  # a tax as an income, a rent as a house
    "trifle": -4.0,  # a few dollars where millions were asked for
    "one": -2.0,  # just one unit, as in `7,700 kcal are 1 kg`
    "enumerated": -1.5,  # one of several in a sentence
    "foreign heading": -1.0,
    "declines": -3.0,  # the answer does
    "declines, concludes": -1.0,  # but this is said to be a result all the same
    "cut off": -2.5,  # the answer is
    "cut off later": -4.0,  # in a further step towards the result
    "asks back": -1.5,
    "hard to say": -1.0,
}
# What says of a quantity that it is the answer.
SAYING = (
    *("total", "conclusion", "judgement", "prediction", "therefore", "sum", "named"),
    *("boxed", "opens", "last row"),
)
