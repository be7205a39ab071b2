"""The decomposition of the variance of responses, with intervals and a test (arXiv 2506.16584).

`decompose` applies the two estimators of `components` and resamples responses and paraphrases for
their intervals and standard errors.
"""

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import BaseModel, BeforeValidator

from pragworld_tasks.evaluation.statistics import LEVEL
from pragworld_tasks.sensitivity.components import (
    NAMES,
    Cells,
    Components,
    Responses,
    articulation_floor,
    cells,
    nest,
    plug_in,
    unbiased,
)

REDRAWS = 500  # as many as in the paper
PERMUTATIONS = 1_000

# JSON has no NaN: undefined numbers are null in files, which pydantic writes but does not read.
Number = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]


class Estimate(BaseModel, frozen=True):
    """An estimate of one of `NAMES`, its interval and standard error; NaN where undefined."""

    value: Number = math.nan
    low: Number = math.nan
    high: Number = math.nan
    standard_error: Number = math.nan


class Shares(BaseModel, frozen=True):
    """Estimates of `NAMES`, by both estimators.

    Attributes:
        published: The published (plug-in) estimates by name: `variance`, `ps`, `as`, `mu`, `mvs`.
            Their intervals are from resampled responses, as in the paper.
        unbiased: The unbiased estimates by name. Their intervals are from resampled paraphrases.
        floor: The AS that the published estimator shows on average where wording has no effect.
    """

    published: dict[str, Estimate]
    unbiased: dict[str, Estimate]
    floor: Number

    def by(self, estimator: str) -> dict[str, Estimate]:
        """Return the estimates by an estimator, `published` or `unbiased`."""
        return self.published if estimator == "published" else self.unbiased


class Decomposition(Shares, frozen=True):
    """The decomposition of a task's responses.

    Attributes:
        intents: How many have readable responses; `prompts` likewise. `responses` counts these.
        as_p: The p-value of the permutation test of AS = 0.
        undefined: By name, why an estimate is undefined on these responses. (Estimates can also be
            NaN by chance: MVS if neither PS nor AS is above 0, the unbiased shares if their parts
            add up to 0 or less.)
    """

    intents: int
    prompts: int
    responses: int
    as_p: Number
    undefined: dict[str, str]


# Draws --------------------------------------------------------------------------------------------


def redraw_responses(responses: Responses, draws: int = REDRAWS, seed: int = 0) -> Cells:
    """Resample the responses to each prompt, as in the paper: [draws, paraphrases, intents]."""
    generator = np.random.default_rng(seed)
    mean = np.empty((draws, responses.count.size))
    square = np.empty_like(mean)
    # One prompt at a time: its responses and draws stay in the processor's cache.
    for prompt, (first, count) in enumerate(zip(responses.first, responses.count, strict=True)):
        values = responses.values[first : first + count]
        drawn = values[generator.integers(count, size=(draws, count), dtype=np.int32)]
        # Relative to a drawn value, so that an absurd one affects only the draws it is in.
        start = drawn[:, 0].copy()
        drawn -= start[:, None]
        offset = drawn.mean(axis=1)
        mean[:, prompt] = start + offset
        square[:, prompt] = np.einsum("di,di->d", drawn, drawn) / count - offset**2
    counts = responses.table(responses.count)
    return Cells(
        np.broadcast_to(counts, (draws, *counts.shape)),
        responses.table(mean),
        np.maximum(responses.table(square), 0.0),
    )


def redraw_paraphrases(responses: Responses, draws: int = REDRAWS, seed: int = 0) -> Cells:
    """Resample the paraphrases, each with all its responses: [draws, paraphrases, intents].

    The paraphrases are a sample of possible wordings. The chance in a prompt's responses shows
    between prompts too, so resampling responses as well would count it twice (Davison and Hinkley,
    Bootstrap Methods, 1997, section 3.8). A paraphrase is drawn for all its intents at once, among
    the paraphrases of the same intents. If no two paraphrases have the same, there are no draws.
    """
    generator = np.random.default_rng(seed)
    all_cells = cells(responses)
    kinds, kind = np.unique(all_cells.count > 0, axis=0, return_inverse=True)
    draws = draws if len(kinds) < len(kind) else 0
    drawn = np.empty((draws, len(kind)), dtype=np.int64)
    for number in range(len(kinds)):
        (members,) = np.nonzero(kind == number)
        drawn[:, members] = members[generator.integers(len(members), size=(draws, len(members)))]
    return Cells(all_cells.count[drawn], all_cells.mean[drawn], all_cells.square[drawn])


def articulation_p(responses: Responses, permutations: int = PERMUTATIONS, seed: int = 0) -> float:
    """Return the p-value of a permutation test of AS = 0; NaN where nothing can be permuted.

    An intent's responses are permuted among its prompts. The p-value is the share of permutations,
    with the identity among them, whose published AS is at least as large.
    """
    prompts = np.bincount(responses.intent)
    several = (prompts > 1) & (np.bincount(responses.intent, responses.count) > prompts)
    if not several.any() or responses.constant or not permutations:
        return math.nan
    generator = np.random.default_rng(seed)
    between = np.zeros(permutations + 1)  # the identity first
    for intent in np.flatnonzero(several):
        own = responses.intent == intent
        first, count = responses.first[own], responses.count[own]
        values = responses.values[first[0] : first[-1] + count[-1]]
        values = values - values.mean()
        permuted = np.empty((permutations + 1, values.size))
        permuted[0] = values
        permuted[1:] = generator.permuted(np.broadcast_to(values, permuted[1:].shape), axis=1)
        means = np.add.reduceat(permuted, first - first[0], axis=1) / count
        between += means.var(axis=1)
    # Sums of the same numbers in another order differ in their last digits.
    return float((between >= between[0] * (1 - 1e-9)).mean())


def decompose(
    values: Sequence[float | None],
    intents: Sequence[int | str],
    paraphrases: Sequence[int | str],
    draws: int = REDRAWS,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Decomposition:
    """Decompose the variance of responses into purpose, articulation and model uncertainty.

    Give each prompt (a paraphrase of an intent) to a model several times, read a number from each
    response, and pass all numbers with the labels of their prompts.

    Examples:
        >>> result = decompose(
        ...     values=[10, 12, 14, 16, 30, 32, 34, None],
        ...     intents=["Oslo", "Oslo", "Oslo", "Oslo", "Lima", "Lima", "Lima", "Lima"],
        ...     paraphrases=[0, 0, 1, 1, 0, 0, 1, 1],
        ... )
        >>> {name: round(estimate.value, 3) for name, estimate in result.published.items()}
        {'variance': 98.938, 'ps': 0.961, 'as': 0.032, 'mu': 0.008, 'mvs': 0.968}
        >>> result.responses
        7

    Args:
        values: [responses] The number in each response; None or NaN if there is none to read.
        intents: [responses] Label of what was asked.
        paraphrases: [responses] Label of how it was worded; the same for all intents where the
            wording is the same.
        draws: Resampled data sets for each kind of interval; 0 for no intervals.
        permutations: Permutations of the test of AS = 0; 0 for no test.
        seed: Seed of draws and permutations.

    Returns:
        Both estimators of PS, AS, MU and MVS (arXiv 2506.16584, section 3) with intervals.

    Raises:
        InputError: The three sequences differ in length, a value is infinite or too large.
    """
    return decompose_responses(nest(values, paraphrases, intents), draws, permutations, seed)


def decompose_responses(
    responses: Responses, draws: int = REDRAWS, permutations: int = PERMUTATIONS, seed: int = 0
) -> Decomposition:
    """Decompose the responses of a task that `nest` has sorted; see `decompose`."""
    undefined = _undefined(responses)
    published = corrected = dict.fromkeys(undefined, Estimate())
    floor = math.nan
    if responses.values.size:
        observed, drawn = cells(responses), redraw_responses(responses, draws, seed)
        published = estimates(plug_in(observed), plug_in(drawn), bounded=NAMES[1:]) | published
        drawn = redraw_paraphrases(responses, draws, seed)
        widened = small_sample(int((observed.count > 0).sum(axis=-2).max()))
        corrected = estimates(unbiased(observed), unbiased(drawn), widened) | corrected
        if "as" not in undefined:
            floor = float(articulation_floor(observed) / published["variance"].value)
    return Decomposition(
        published=published,
        unbiased=corrected,
        floor=floor,
        intents=responses.intents,
        prompts=responses.count.size,
        responses=responses.values.size,
        as_p=articulation_p(responses, permutations, seed),
        undefined=undefined,
    )


def estimates(
    observed: Components, drawn: Components, widened: float = 1.0, bounded: Sequence[str] = ("mvs",)
) -> dict[str, Estimate]:
    """Return each of `NAMES` with its percentile interval and its standard error.

    The draws are shifted so that their mean is the estimate: draws of the published estimator add
    chance, and draws of the unbiased one subtract what it corrects for. Draws that differ by no
    more than rounding do not show how sure an estimate is, so it has no interval. Intervals and
    standard errors are `widened` by a factor. Estimates in `bounded` always lie from 0 to 1, so
    their intervals end there.
    """
    by_name = {}
    for name, value, draws in zip(NAMES, observed.by_name(), drawn.by_name(), strict=True):
        draws = draws[~np.isnan(draws)]
        low = high = error = math.nan
        whole = 0.0 if name == "variance" else 1.0  # of which the others are shares
        varies = draws.size and np.ptp(draws) > 1e-12 * np.abs(draws).max(initial=whole)
        if varies and not np.isnan(value):
            ends = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - draws.mean()
            low, high = value + widened * ends
            if name in bounded:
                low, high = max(low, 0.0), min(high, 1.0)
            error = widened * draws.std()
        by_name[name] = Estimate(value=float(value), low=low, high=high, standard_error=error)
    return by_name


def small_sample(paraphrases: int) -> float:
    """Return the factor by which intervals from draws of few paraphrases are too narrow.

    Draws of m have (m - 1) / m of the variance, and a normal distribution instead of Student's t
    (Hesterberg, What Teachers Should Know About the Bootstrap, 2015, section 4).
    """
    from scipy.special import ndtri, stdtrit

    if paraphrases < 2:
        return 1.0
    tail = (1 - LEVEL) / 2
    ratio = stdtrit(paraphrases - 1, tail) / ndtri(tail)
    return float(ratio * math.sqrt(paraphrases / (paraphrases - 1)))


def _undefined(responses: Responses) -> dict[str, str]:
    """Return which of `NAMES` are undefined on these responses, and why."""
    if not responses.values.size:
        return dict.fromkeys(NAMES, "no response has a value")
    if responses.constant:
        return dict.fromkeys(NAMES[1:], "all responses have the same value")
    undefined: dict[str, str] = {}
    if responses.intents < 2:
        undefined |= dict.fromkeys(("ps", "mvs"), "only one intent has a readable response")
    if (np.bincount(responses.intent) < 2).all():
        undefined |= dict.fromkeys(("as", "mvs"), "no intent has two paraphrases")
    if (responses.count < 2).all():
        undefined |= dict.fromkeys(("as", "mu", "mvs"), "no prompt has two readable responses")
    return undefined
