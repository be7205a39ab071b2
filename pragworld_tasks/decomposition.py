"""What answers vary with: what was asked, how it was worded, and chance (arXiv 2506.16584).

Responses are nested: each is one to a prompt, and a prompt is an intent in a paraphrase. Purpose
sensitivity (PS) is the share of their variance that lies between intents, articulation sensitivity
(AS) the one between paraphrases of an intent, model uncertainty (MU) the rest (section 3). For
outcomes without an order the same is done with entropy (appendix A).

Everything is computed from `Cells`: a table of paraphrases by intents, with leading axes for
draws, so that thousands of resampled data sets go through the same few array operations as one.
Intents count alike, and paraphrases of an intent count alike, however many of their responses can
be read: the expectations of the definitions are over intents and prompts, not over responses.

Two estimators stand side by side. `plug_in` is the published one. The mean of n responses carries
Var(v|p) / n of chance, which it counts as AS (about MU / n, the floor) and, less, as PS.
`unbiased` takes both out, by analysis of variance; where there is nothing, it is as often
below 0 as above.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pragworld_tasks.metrics import LEVEL, Interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Scale = Literal["raw", "log", "rank", "winsorised"]
SCALES: tuple[Scale, ...] = get_args(Scale)

NAMES = ("variance", "ps", "as", "mu", "mvs")
RESAMPLES = 500  # as many as in the paper
PERMUTATIONS = 1_000
WINSORISED = 100  # at either end, one value in so many


@dataclass(frozen=True)
class Responses:
    """Values of readable responses, sorted by prompt.

    Attributes:
        values: [responses] in the unit of the task.
        first, count: [prompts] where a prompt's responses begin, and how many there are (1 at
            least).
        paraphrase, intent: [prompts] numbers from 0. A paraphrase that is put to several intents
            has one number.
    """

    values: Floats
    first: Ints
    count: Ints
    paraphrase: Ints
    intent: Ints

    @property
    def intents(self) -> int:
        """How many there are."""
        return int(self.intent.max()) + 1 if self.intent.size else 0

    @property
    def constant(self) -> bool:
        """Whether all values are the same, or there is none."""
        return bool((self.values == self.values[:1]).all())


@dataclass(frozen=True)
class Cells:
    """Each prompt's responses in three numbers: arrays of [..., paraphrases, intents].

    Attributes:
        count: of responses; 0 where there is none, with 0 for the other two.
        mean: of the values.
        square: mean squared distance of the values from `mean`.
    """

    count: Ints
    mean: Floats
    square: Floats


@dataclass(frozen=True)
class Components:
    """A decomposition, or one of each draw: numbers or arrays of [draws]. NaN: not defined.

    Attributes:
        variance: of the values (for entropies: the entropy, in nats).
        ps, as_, mu: the shares of it that are due to purpose, articulation and chance. They add
            up to 1 where all are defined.
    """

    variance: Floats
    ps: Floats
    as_: Floats
    mu: Floats

    @property
    def mvs(self) -> Floats:
        """Meaningful variability share, PS / (PS + AS); a share below 0 counts as 0."""
        ps, as_ = np.clip(self.ps, 0, None), np.clip(self.as_, 0, None)
        with np.errstate(invalid="ignore"):
            return np.asarray(ps / (ps + as_))


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


# From values to cells -----------------------------------------------------------------------------


def nest(values: ArrayLike, paraphrase: ArrayLike, intent: ArrayLike) -> Responses:
    """Sorts responses by prompt; those without a value (NaN) are left out.

    Args:
        values: [responses].
        paraphrase: [responses] number; any, for they are numbered anew.
        intent: [responses] number, likewise.

    Raises:
        ValueError: the three are not of one length, or a value is infinite.
    """
    given = np.asarray(values, dtype=np.float64)
    numbers = np.stack([np.asarray(one, dtype=np.int64) for one in (intent, paraphrase)])
    if given.ndim != 1 or numbers.shape != (2, given.size):
        raise ValueError(f"{given.shape} values, {numbers.shape} numbers of intents, paraphrases")
    if np.isinf(given).any():
        raise ValueError("an infinite value")
    readable = ~np.isnan(given)
    given, numbers = given[readable], numbers[:, readable]
    numbers = np.stack([np.unique(one, return_inverse=True)[1] for one in numbers])
    order = np.lexsort((numbers[1], numbers[0]))
    prompts, first, count = np.unique(
        numbers[:, order], axis=1, return_index=True, return_counts=True
    )
    return Responses(given[order], first, count, paraphrase=prompts[1], intent=prompts[0])


def nest_prompts(prompts: Iterable[tuple[int, int, Sequence[float | None]]]) -> Responses:
    """The same from prompts: intent, paraphrase and values, None where a response has none."""
    flat = [
        (value, paraphrase, intent)
        for intent, paraphrase, values in prompts
        for value in values
        if value is not None
    ]
    return nest(*zip(*flat, strict=True)) if flat else nest((), (), ())


def cells(responses: Responses) -> Cells:
    """Each prompt's responses in three numbers: arrays of [paraphrases, intents]."""
    values, first, count = responses.values, responses.first, responses.count
    # Measured from the first of them, so that the mean of equal values is that value to the digit.
    start = values[first]
    away = values - np.repeat(start, count)
    mean = start + (np.add.reduceat(away, first) / count if values.size else values)
    away = values - np.repeat(mean, count)
    square = np.add.reduceat(away**2, first) if values.size else values
    return Cells(
        _table(responses, count),
        _table(responses, mean),
        _table(responses, square / count),
    )


def rescale(responses: Responses, scale: Scale) -> Responses:
    """The same responses on a scale on which single absurd values weigh less.

    Args:
        responses: one task's.
        scale: `raw`, as they are; `log`, sign(v) log(1 + |v|); `rank`, from 0 to 1 among all
            values of the task; `winsorised`, the hundredth of the values at either end (rounded
            up) moved in to the next.
    """
    values = responses.values
    if scale == "log":
        values = np.sign(values) * np.log1p(np.abs(values))
    elif scale == "rank" and values.size:
        from scipy.stats import rankdata

        values = (rankdata(values) - 0.5) / values.size
    elif scale == "winsorised" and values.size:
        moved = min(math.ceil(values.size / WINSORISED), (values.size - 1) // 2)
        values = np.clip(values, *np.sort(values)[[moved, -1 - moved]])
    return dataclasses.replace(responses, values=values)


# Estimators ---------------------------------------------------------------------------------------


def plug_in(cells: Cells) -> Components:
    """The published estimator: the law of total variance on the responses as they are.

    PS = Var_I(E[v|I]), AS = E_I Var_p(E[v|p]), MU = E_I E_p Var(v|p), each divided by their sum.
    """
    cells = _shifted(cells)
    weight = _weights(cells.count > 0)
    of_intent = (weight * cells.mean).sum(axis=-2)
    return _shares(
        of_intent.var(axis=-1),
        _spread_of_prompts(cells, weight).mean(axis=-1),
        (weight * cells.square).sum(axis=-2).mean(axis=-1),
    )


def unbiased(cells: Cells) -> Components:
    """The same by analysis of variance, without the chance that means of few responses carry.

    The three parts (not their quotients) are unbiased estimates: of the variance of the means of
    these intents; of the variance between paraphrases, of which these are a sample; of the variance
    of responses. Paraphrases need not be the same for all intents. Where they are, what they have
    in common moves all intents alike and is no part of the noise of PS.
    """
    cells = _shifted(cells)
    weight = _weights(cells.count > 0)
    prompts = (cells.count > 0).sum(axis=-2)  # [..., intents]
    chance, noise = _chance(cells, weight)
    with np.errstate(invalid="ignore", divide="ignore"):
        articulation = _spread_of_prompts(cells, weight) * (prompts / (prompts - 1)) - noise
    # Where all intents have a single prompt, wording cannot be told from purpose, and all of it
    # goes to the latter.
    articulation = _filled(articulation)
    of_intent = (weight * cells.mean).sum(axis=-2)
    purpose = of_intent.var(axis=-1) - _noise_of_purpose(
        cells, of_intent, own=(articulation + noise) / prompts
    )
    return _shares(purpose, articulation.mean(axis=-1), chance.mean(axis=-1))


def entropy_components(distribution: ArrayLike, there: ArrayLike) -> Components:
    """The decomposition for outcomes without an order, by entropy (appendix A).

    PS = I(I;v) / H(v), AS = E_I I(p;v|I) / H(v), MU = E H(v|p) / H(v). With a model's own
    probabilities there is no chance of sampling in it; with counts of n responses there is, of
    about (outcomes - 1) / 2n nats a prompt, as AS.

    Args:
        distribution: [..., paraphrases, intents, outcomes] probabilities, or counts of responses.
        there: [..., paraphrases, intents] whether that prompt was asked.
    """
    there = np.asarray(there, dtype=np.bool_)
    weight = _weights(there)
    distribution = np.asarray(distribution, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        distribution = distribution / distribution.sum(axis=-1, keepdims=True)
    distribution = np.where(there[..., None], distribution, 0.0)
    of_intent = (weight[..., None] * distribution).sum(axis=-3)
    overall = _entropy(of_intent.mean(axis=-2))
    given_intent = _entropy(of_intent).mean(axis=-1)
    given_prompt = (weight * _entropy(distribution)).sum(axis=-2).mean(axis=-1)
    return _shares(overall - given_intent, given_intent - given_prompt, given_prompt)


def _shifted(cells: Cells) -> Cells:
    """Means measured from the largest: equal ones are 0, and no rounding passes for variance."""
    there = cells.count > 0
    largest = cells.mean.max(axis=(-2, -1), keepdims=True, where=there, initial=-np.inf)
    return dataclasses.replace(cells, mean=np.where(there, cells.mean - largest, 0.0))


def _weights(there: NDArray[np.bool_]) -> Floats:
    """[..., paraphrases, intents] that add up to 1 over the prompts of an intent."""
    with np.errstate(invalid="ignore"):
        return np.asarray(there / there.sum(axis=-2, keepdims=True))


def _spread_of_prompts(cells: Cells, weight: Floats) -> Floats:
    """Var_p(E[v|p]) of each intent: [..., intents]."""
    of_intent = (weight * cells.mean).sum(axis=-2, keepdims=True)
    return np.asarray((weight * (cells.mean - of_intent) ** 2).sum(axis=-2))


def _chance(cells: Cells, weight: Floats) -> tuple[Floats, Floats]:
    """Var(v|p), and the mean over prompts of Var(v|p) / n: [..., intents] both.

    A single response says nothing of its prompt's spread; the intent's others do. Where all
    prompts have a single one, chance cannot be told from wording, and all of it goes to the latter.
    """
    count = cells.count
    spread = cells.square * count / np.maximum(count - 1, 1)
    with np.errstate(invalid="ignore"):
        usual = _filled(spread.sum(axis=-2) / (count > 1).sum(axis=-2))
    spread = np.where(count > 1, spread, usual[..., None, :])
    return usual, np.asarray((weight * spread / np.maximum(count, 1)).sum(axis=-2))


def _filled(of_intents: Floats) -> Floats:
    """[..., intents], NaN replaced by the mean of the other intents, or by 0 where all are NaN."""
    known = ~np.isnan(of_intents)
    total = np.where(known, of_intents, 0.0).sum(axis=-1, keepdims=True)
    return np.where(known, of_intents, total / np.maximum(known.sum(axis=-1, keepdims=True), 1))


def _noise_of_purpose(cells: Cells, of_intent: Floats, own: Floats) -> Floats:
    """How much the variance of the intents' means owes to which paraphrases were taken: [...].

    Paraphrases are independent of each other, so the covariance of two intents' means is estimated
    from those that both have. The divisor makes that unbiased: with m_i and m_j paraphrases, m_ij
    of them in common, the products of what is left beside the means add up to
    m_ij (1 - 1 / m_i - 1 / m_j + m_ij / (m_i m_j)) times the covariance. Beside the mean of a
    single paraphrase nothing is left, and its covariances count as 0.

    Args:
        cells: with their means measured from anything.
        of_intent: [..., intents] means.
        own: [..., intents] their variances.
    """
    there = (cells.count > 0).astype(np.float64)
    left = there * (cells.mean - of_intent[..., None, :])
    products = np.einsum("...pi,...pj->...ij", left, left)
    common = np.einsum("...pi,...pj->...ij", there, there)
    each = there.sum(axis=-2)
    pairs = each[..., :, None] * each[..., None, :]
    unbiasing = pairs - each[..., :, None] - each[..., None, :] + common
    usable = (common > 0) & (unbiasing > 0)
    covariance = np.where(usable, products / np.where(usable, unbiasing, 1.0), 0.0)
    between = covariance.sum(axis=(-2, -1)) - np.einsum("...ii->...", covariance)
    intents = own.shape[-1]
    return np.asarray(own.mean(axis=-1) * (1 - 1 / intents) - between / intents**2)


def _shares(purpose: Floats, articulation: Floats, chance: Floats) -> Components:
    """Parts of a variance as shares of it; NaN where there is none."""
    total = np.asarray(purpose + articulation + chance)
    whole = np.where(total > 0, total, np.nan)
    return Components(total, purpose / whole, articulation / whole, chance / whole)


def _entropy(distribution: Floats) -> Floats:
    """In nats, over the last axis."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # What is certain is 1 to the digit, or its rounding would pass for uncertainty.
        distribution = distribution / distribution.sum(axis=-1, keepdims=True)
        terms = np.where(distribution > 0, distribution * np.log(distribution), 0.0)
    return np.asarray(-terms.sum(axis=-1))


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
    return Cells(
        np.broadcast_to(_table(responses, responses.count), (draws, *_shape(responses))),
        _table(responses, mean),
        np.maximum(_table(responses, square), 0.0),
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
    return Decomposition(
        intents=responses.intents,
        prompts=responses.count.size,
        responses=responses.values.size,
        published=published,
        unbiased=corrected,
        floor=_floor(whole, published),
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


def _floor(whole: Cells, published: Mapping[str, Number]) -> float:
    """The AS that comes of chance alone. Of m means, the variance is 1 - 1 / m of each one's."""
    if math.isnan(published["as"].value):
        return math.nan
    there = whole.count > 0
    _, noise = _chance(whole, _weights(there))
    floor = (noise * (1 - 1 / there.sum(axis=-2))).mean()
    return float(floor) / published["variance"].value


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


def _shape(responses: Responses) -> tuple[int, int]:
    return int(responses.paraphrase.max(initial=-1)) + 1, responses.intents


def _table(responses: Responses, of_prompts: NDArray[Any]) -> NDArray[Any]:
    """[..., paraphrases, intents] from [..., prompts]; 0 where there is no prompt."""
    table = np.zeros((*of_prompts.shape[:-1], *_shape(responses)), dtype=of_prompts.dtype)
    table[..., responses.paraphrase, responses.intent] = of_prompts
    return table
