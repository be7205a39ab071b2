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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pragworld_tasks.evaluation.metrics import Bools, Floats, Ints

Scale = Literal["raw", "log", "rank", "winsorised"]
SCALES: tuple[Scale, ...] = get_args(Scale)

NAMES = ("variance", "ps", "as", "mu", "mvs")
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

    def table(self, of_prompts: NDArray[Any]) -> NDArray[Any]:
        """[..., paraphrases, intents] from [..., prompts]; 0 where there is no prompt."""
        shape = (*of_prompts.shape[:-1], int(self.paraphrase.max(initial=-1)) + 1, self.intents)
        table = np.zeros(shape, dtype=of_prompts.dtype)
        table[..., self.paraphrase, self.intent] = of_prompts
        return table


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
        responses.table(count),
        responses.table(mean),
        responses.table(square / count),
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


def articulation_floor(cells: Cells) -> Floats:
    """What `plug_in` takes for variance between paraphrases where there is none: [...].

    It comes of chance: m means of n responses, which vary by Var(v|p) / n, have a variance of
    (1 - 1 / m) times that.
    """
    there = cells.count > 0
    _, noise = _chance(cells, _weights(there))
    return np.asarray((noise * (1 - 1 / there.sum(axis=-2))).mean(axis=-1))


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


def _weights(there: Bools) -> Floats:
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
