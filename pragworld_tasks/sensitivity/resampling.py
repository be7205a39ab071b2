"""How sure a decomposition is: draws of responses and of paraphrases, and what follows from them.

Intervals, standard errors, and the test that wording makes no difference.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pragworld_tasks.evaluation.metrics import LEVEL, Floats, Interval
from pragworld_tasks.sensitivity.decomposition import (
    NAMES,
    Cells,
    Components,
    Responses,
    articulation_floor,
    cells,
    plug_in,
    unbiased,
)

RESAMPLES = 500  # as many as in the paper
PERMUTATIONS = 1_000


class Number(NamedTuple):
    """One of `NAMES`, with its interval and its standard error; NaN where it is not defined."""

    value: float
    interval: Interval
    standard_error: float


NOTHING = Number(math.nan, Interval(math.nan, math.nan), math.nan)


@dataclass(frozen=True)
class Decomposition:
    """All about one task's responses.

    Attributes:
        intents, prompts, responses: how many there are that can be read.
        published: the plug-in estimator by name; intervals from redrawn responses (as in the
            paper).
        unbiased: the unbiased one; intervals from redrawn paraphrases.
        floor: the AS that the published estimator shows on average where there is none.
        as_p: of the permutation test of AS = 0.
        undefined: what is not defined on these responses, and why: by name. (What one estimator
            happens not to find is NaN, too: MVS where neither PS nor AS is above 0, the unbiased
            shares where their parts do not add up to more than 0.)
    """

    intents: int
    prompts: int
    responses: int
    published: dict[str, Number]
    unbiased: dict[str, Number]
    floor: float
    as_p: float
    undefined: dict[str, str]


# Draws --------------------------------------------------------------------------------------------


def redraw_responses(responses: Responses, draws: int = RESAMPLES, seed: int = 0) -> Cells:
    """Responses drawn anew, with replacement, within each prompt: [draws, paraphrases, intents].

    The paper's stratified bootstrap: what is uncertain is chance, the prompts stay.
    """
    generator = np.random.default_rng(seed)
    mean = np.empty((draws, responses.count.size))
    square = np.empty_like(mean)
    # One prompt at a time: its responses and draws stay in the processor's cache.
    for prompt, (first, count) in enumerate(zip(responses.first, responses.count, strict=True)):
        values = responses.values[first : first + count]
        drawn = values[generator.integers(count, size=(draws, count), dtype=np.int32)]
        # Measured from one that was drawn: one absurd value spoils no draw but those it is in.
        start = drawn[:, 0].copy()
        drawn -= start[:, None]
        away = drawn.mean(axis=1)
        mean[:, prompt] = start + away
        square[:, prompt] = np.einsum("di,di->d", drawn, drawn) / count - away**2
    counts = responses.table(responses.count)
    return Cells(
        np.broadcast_to(counts, (draws, *counts.shape)),
        responses.table(mean),
        np.maximum(responses.table(square), 0.0),
    )


def redraw_paraphrases(responses: Responses, draws: int = RESAMPLES, seed: int = 0) -> Cells:
    """Paraphrases drawn anew, each with its responses as they are.

    The paraphrases are a sample of the ways to say it. What chance there is in a prompt's responses
    shows between prompts too, so drawing responses as well would count it twice (Davison and
    Hinkley, Bootstrap Methods, 1997, section 3.8). A paraphrase is drawn for all intents that it
    was put to, among those that were put to the same. No draws come of it where no two were.
    """
    generator = np.random.default_rng(seed)
    all_cells = cells(responses)
    kinds, kind = np.unique(all_cells.count > 0, axis=0, return_inverse=True)
    draws = draws if len(kinds) < len(kind) else 0
    drawn = np.empty((draws, len(kind)), dtype=np.int64)
    for number in range(len(kinds)):
        (alike,) = np.nonzero(kind == number)
        drawn[:, alike] = alike[generator.integers(len(alike), size=(draws, len(alike)))]
    return Cells(all_cells.count[drawn], all_cells.mean[drawn], all_cells.square[drawn])


def articulation_p(responses: Responses, permutations: int = PERMUTATIONS, seed: int = 0) -> float:
    """Permutation test that wording makes no difference (AS = 0): its p.

    Without one, an intent's responses might have come from any of its prompts. They are dealt out
    anew, and the published AS counted again.

    Returns:
        The share of deals, the real one among them, with an AS at least as large. NaN where no
        intent has two prompts and more responses than prompts, all values are the same, or there
        are no permutations.
    """
    prompts = np.bincount(responses.intent)
    several = (prompts > 1) & (np.bincount(responses.intent, responses.count) > prompts)
    if not several.any() or responses.constant or not permutations:
        return math.nan
    generator = np.random.default_rng(seed)
    between = np.zeros(permutations + 1)  # the real deal first
    for intent in np.flatnonzero(several):
        own = responses.intent == intent
        first, count = responses.first[own], responses.count[own]
        values = responses.values[first[0] : first[-1] + count[-1]]
        values = values - values.mean()
        dealt = np.empty((permutations + 1, values.size))
        dealt[0] = values
        dealt[1:] = generator.permuted(np.broadcast_to(values, dealt[1:].shape), axis=1)
        means = np.add.reduceat(dealt, first - first[0], axis=1) / count
        between += means.var(axis=1)
    # Sums of the same numbers in another order differ in their last digits.
    return float((between >= between[0] * (1 - 1e-9)).mean())


# Everything about a task --------------------------------------------------------------------------


def decompose(
    responses: Responses, draws: int = RESAMPLES, permutations: int = PERMUTATIONS, seed: int = 0
) -> Decomposition:
    """Both estimators with their intervals, the floor of AS and the test of AS = 0.

    Args:
        responses: one task's, from `nest`.
        draws: resampled data sets for each kind of interval.
        permutations: of the test.
        seed: of both.
    """
    undefined = _undefined(responses)
    if not responses.values.size:
        nothing = dict.fromkeys(NAMES, NOTHING)
        return Decomposition(0, 0, 0, nothing, nothing, math.nan, math.nan, undefined)
    whole = cells(responses)
    published = _defined(
        numbers(
            plug_in(whole),
            plug_in(redraw_responses(responses, draws, seed)),
            bounded=NAMES[1:],
        ),
        undefined,
    )
    corrected = _defined(
        numbers(
            unbiased(whole),
            unbiased(redraw_paraphrases(responses, draws, seed)),
            small_sample(int((whole.count > 0).sum(axis=-2).max())),
        ),
        undefined,
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        floor = articulation_floor(whole) / published["variance"].value
    return Decomposition(
        intents=responses.intents,
        prompts=responses.count.size,
        responses=responses.values.size,
        published=published,
        unbiased=corrected,
        floor=math.nan if "as" in undefined else float(floor),
        as_p=articulation_p(responses, permutations, seed),
        undefined=undefined,
    )


def numbers(
    found: Components,
    drawn: Components,
    widened: float = 1.0,
    bounded: Sequence[str] = ("mvs",),
) -> dict[str, Number]:
    """Each of `NAMES` with its percentile interval and its standard error.

    Draws are moved to lie about what was found. They lie about what is true of the responses at
    hand, chance and all, in which the published estimator finds the chance of the draws on top
    (its interval would leave out the estimate), and the unbiased one what it takes out itself.

    Args:
        found: from the responses.
        drawn: from draws of them.
        widened: by what intervals and standard errors are multiplied.
        bounded: which lie between 0 and 1 whatever the responses, so that their intervals do, too.
            MVS always does, all shares by the published estimator.
    """
    shown = {}
    for name, value, draws in zip(NAMES, _named(found), _named(drawn), strict=True):
        draws = draws[~np.isnan(draws)]
        if not draws.size or np.isnan(value):
            shown[name] = NOTHING._replace(value=float(value))
            continue
        ends = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - draws.mean()
        low, high = value + widened * ends
        if name in bounded:
            low, high = max(low, 0.0), min(high, 1.0)
        error = widened * float(draws.std())
        shown[name] = Number(float(value), Interval(float(low), float(high)), error)
    return shown


def small_sample(paraphrases: int) -> float:
    """By how much intervals from draws of so few are too narrow.

    Draws of m have (m - 1) / m of the variance, and know nothing of Student's t (Hesterberg, What
    Teachers Should Know About the Bootstrap, 2015, section 4).
    """
    from scipy.special import ndtri, stdtrit

    if paraphrases < 2:
        return 1.0
    tail = (1 - LEVEL) / 2
    ratio = stdtrit(paraphrases - 1, tail) / ndtri(tail)
    return float(ratio * math.sqrt(paraphrases / (paraphrases - 1)))


def _named(components: Components) -> tuple[Floats, ...]:
    """The components in the order of `NAMES`."""
    return (
        components.variance,
        components.ps,
        components.as_,
        components.mu,
        components.mvs,
    )


def _undefined(responses: Responses) -> dict[str, str]:
    """What these responses cannot say, and why: by name."""
    if responses.constant:
        why = (
            "every response has the same value" if responses.values.size else "no response has one"
        )
        return dict.fromkeys(NAMES[1:] if responses.values.size else NAMES, why)
    undefined: dict[str, str] = {}
    if responses.intents < 2:
        undefined |= dict.fromkeys(("ps", "mvs"), "only one intent has a readable response")
    if (np.bincount(responses.intent) < 2).all():
        undefined |= dict.fromkeys(("as", "mvs"), "no intent has two paraphrases")
    if (responses.count < 2).all():
        undefined |= dict.fromkeys(("as", "mu", "mvs"), "no prompt has two readable responses")
    return undefined


def _defined(shown: Mapping[str, Number], undefined: Mapping[str, str]) -> dict[str, Number]:
    return {name: NOTHING if name in undefined else number for name, number in shown.items()}
