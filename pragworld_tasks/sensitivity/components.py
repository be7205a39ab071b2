"""Components of the variance of responses: purpose, articulation, chance (arXiv 2506.16584).

Responses are nested: each answers a prompt, and a prompt is a paraphrase of an intent. Purpose
sensitivity (PS) is the share of their variance between intents, articulation sensitivity (AS) the
share between paraphrases of an intent, model uncertainty (MU) the rest (section 3). For outcomes
without an order, entropy takes the place of variance (appendix A).

Everything is computed from `Cells`: a table of paraphrases by intents, with leading axes for
draws, so thousands of resampled data sets need the same few array operations as one. Intents
have equal weight, and so have the paraphrases of an intent, however many of their responses are
readable: the expectations in the definitions are over intents and prompts, not over responses.

There are two estimators. `plug_in` is the published one. The mean of n responses varies by
Var(v|p) / n through chance, which `plug_in` counts as AS (about MU / n, the floor) and, to a lesser
extent, as PS. `unbiased` corrects both by analysis of variance; where there is no effect, it is
below 0 as often as above.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.statistics import Bools, Floats, Ints, average_ranks

Scale = Literal["raw", "log", "rank", "winsorised"]
NAMES = ("variance", "ps", "as", "mu", "mvs")
LARGEST_VALUE = 1e70  # value: the variance of draws of variances holds fourth powers


@dataclass(frozen=True)
class Responses:
    """Values of readable responses, sorted by prompt.

    Attributes:
        values: [responses], in the unit of the task.
        first: [prompts] index of a prompt's first response.
        count: [prompts] number of its responses, at least 1.
        paraphrase, intent: [prompts] numbers from 0. A paraphrase of several intents has one
            number.
    """

    values: Floats
    first: Ints
    count: Ints
    paraphrase: Ints
    intent: Ints

    @property
    def intents(self) -> int:
        """The number of intents."""
        return int(self.intent.max()) + 1 if self.intent.size else 0

    @property
    def constant(self) -> bool:
        """Whether all values are equal, or there is none."""
        return bool((self.values == self.values[:1]).all())

    def table(self, of_prompts: NDArray[Any]) -> NDArray[Any]:
        """Return [..., paraphrases, intents] from [..., prompts]; 0 where there is no prompt."""
        shape = (*of_prompts.shape[:-1], int(self.paraphrase.max(initial=-1)) + 1, self.intents)
        table = np.zeros(shape, dtype=of_prompts.dtype)
        table[..., self.paraphrase, self.intent] = of_prompts
        return table


@dataclass(frozen=True)
class Cells:
    """Each prompt's responses in three numbers: arrays of [..., paraphrases, intents]."""

    count: Ints  # where it is 0, so are the other two
    mean: Floats
    square: Floats  # mean squared distance of the values from `mean`


@dataclass(frozen=True)
class Components:
    """A decomposition, or one for each draw: numbers or arrays of [draws]. NaN: undefined.

    Attributes:
        variance: The variance of the values (for `entropy_components`, the entropy in nats).
        ps, as_, mu: Its shares due to purpose, articulation and chance. They add up to 1 where all
            are defined.
    """

    variance: Floats
    ps: Floats
    as_: Floats
    mu: Floats

    @property
    def mvs(self) -> Floats:
        """The meaningful variability share, PS / (PS + AS); a share below 0 counts as 0."""
        ps, as_ = np.clip(self.ps, 0, None), np.clip(self.as_, 0, None)
        with np.errstate(invalid="ignore"):
            return np.asarray(ps / (ps + as_))

    def by_name(self) -> tuple[Floats, ...]:
        """Return the numbers in the order of `NAMES`."""
        return self.variance, self.ps, self.as_, self.mu, self.mvs


# From values to cells -----------------------------------------------------------------------------


def nest(
    values: ArrayLike | Sequence[float | None], paraphrase: ArrayLike, intent: ArrayLike
) -> Responses:
    """Sort responses by prompt, without those that have no value (None or NaN).

    All three are [responses]; labels are numbers or words.
    """
    numbers = np.asarray(values, dtype=np.float64)
    labels = [_numbered("intent", intent), _numbered("paraphrase", paraphrase)]
    if numbers.ndim != 1 or any(label.shape != numbers.shape for label in labels):
        raise InputError(
            "values, intents and paraphrases: must be sequences of one length, with an entry for "
            "each response"
        )
    if (large := np.abs(numbers) > LARGEST_VALUE).any():
        raise InputError(
            f"values[{large.argmax()}]: {numbers[large.argmax()]:g} is too large; "
            f"values must be from {-LARGEST_VALUE:g} to {LARGEST_VALUE:g}"
        )
    readable = ~np.isnan(numbers)
    numbers = numbers[readable]
    prompts = np.stack([np.unique(label[readable], return_inverse=True)[1] for label in labels])
    order = np.lexsort((prompts[1], prompts[0]))
    prompts, first, count = np.unique(
        prompts[:, order], axis=1, return_index=True, return_counts=True
    )
    return Responses(numbers[order], first, count, paraphrase=prompts[1], intent=prompts[0])


def _numbered(name: str, labels: ArrayLike) -> np.ndarray:
    """Return the numbers of labels in their order, so that 1 and "1" differ."""
    array = np.asarray(labels, dtype=object)
    if any(label is None or label != label for label in array.flat):
        raise InputError(f"{name}: a label is None or not a number; name each")
    known = sorted({*array.flat}, key=lambda label: (isinstance(label, str), label))
    places = {label: place for place, label in enumerate(known)}
    return np.array([places[label] for label in array.flat], dtype=int).reshape(array.shape)


def cells(responses: Responses) -> Cells:
    """Summarize each prompt's responses in three numbers: arrays of [paraphrases, intents]."""
    values, first, count = responses.values, responses.first, responses.count
    # Relative to the first one, so that the mean of equal values is that value to the digit.
    start = values[first]
    offset = values - np.repeat(start, count)
    mean = start + (np.add.reduceat(offset, first) / count if values.size else values)
    offset = values - np.repeat(mean, count)
    square = np.add.reduceat(offset**2, first) if values.size else values
    return Cells(responses.table(count), responses.table(mean), responses.table(square / count))


def rescale(responses: Responses, scale: Scale) -> Responses:
    """Return the responses of a task on a scale that limits the weight of single absurd values.

    `raw` changes nothing, `log` is sign(v) log(1 + |v|), `rank` ranks all values from 0 to 1, and
    `winsorised` moves the hundredth at either end (rounded up) in to the next value.
    """
    values = responses.values
    if scale == "log":
        values = np.sign(values) * np.log1p(np.abs(values))
    elif scale == "rank" and values.size:
        values = (average_ranks(values) - 0.5) / values.size
    elif scale == "winsorised" and values.size:
        moved = min(math.ceil(values.size / 100), (values.size - 1) // 2)
        values = np.clip(values, *np.sort(values)[[moved, -1 - moved]])
    return dataclasses.replace(responses, values=values)


# Estimators ---------------------------------------------------------------------------------------


def plug_in(cells: Cells) -> Components:
    """Estimate the components as published: the law of total variance, without a correction.

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
    """Estimate the components by analysis of variance, corrected for the chance in the means.

    The three parts (not their quotients) are unbiased estimates: of the variance of the means of
    these intents; of the variance between paraphrases, of which these are a sample; of the variance
    of responses. Intents may have different paraphrases. Where they share them, what these have in
    common shifts all intents alike and adds no noise to PS.
    """
    cells = _shifted(cells)
    weight = _weights(cells.count > 0)
    prompts = (cells.count > 0).sum(axis=-2)  # [..., intents]
    chance, noise = _chance(cells, weight)
    with np.errstate(invalid="ignore", divide="ignore"):
        articulation = _spread_of_prompts(cells, weight) * (prompts / (prompts - 1)) - noise
    # Where all intents have a single prompt, articulation cannot be told from purpose, and all of
    # it counts as purpose.
    articulation = _filled(articulation)
    of_intent = (weight * cells.mean).sum(axis=-2)
    purpose = of_intent.var(axis=-1) - _noise_of_purpose(
        cells, of_intent, own=(articulation + noise) / prompts
    )
    return _shares(purpose, articulation.mean(axis=-1), chance.mean(axis=-1))


def articulation_floor(cells: Cells) -> Floats:
    """Return what `plug_in` counts as variance between paraphrases where there is none: [...].

    It is due to chance: m means of n responses, which vary by Var(v|p) / n, have a variance of
    (1 - 1 / m) times that.
    """
    there = cells.count > 0
    _, noise = _chance(cells, _weights(there))
    return np.asarray((noise * (1 - 1 / there.sum(axis=-2))).mean(axis=-1))


def entropy_components(distribution: ArrayLike) -> Components:
    """Decompose the entropy of outcomes without an order (appendix A).

    PS = I(I;v) / H(v), AS = E_I I(p;v|I) / H(v), MU = E H(v|p) / H(v). With a model's own
    probabilities these are exact.

    Args:
        distribution: [..., paraphrases, intents, outcomes] probabilities.
    """
    distribution = np.asarray(distribution, dtype=np.float64)
    of_intent = distribution.mean(axis=-3)
    overall = _entropy(of_intent.mean(axis=-2))
    given_intent = _entropy(of_intent).mean(axis=-1)
    given_prompt = _entropy(distribution).mean(axis=(-2, -1))
    return _shares(overall - given_intent, given_intent - given_prompt, given_prompt)


def _shifted(cells: Cells) -> Cells:
    """Return means relative to the largest: equal ones are 0, so rounding adds no variance."""
    there = cells.count > 0
    largest = cells.mean.max(axis=(-2, -1), keepdims=True, where=there, initial=-np.inf)
    return dataclasses.replace(cells, mean=np.where(there, cells.mean - largest, 0.0))


def _weights(there: Bools) -> Floats:
    """Return [..., paraphrases, intents] that add up to 1 over the prompts of an intent."""
    with np.errstate(invalid="ignore"):
        return np.asarray(there / there.sum(axis=-2, keepdims=True))


def _spread_of_prompts(cells: Cells, weight: Floats) -> Floats:
    """Return Var_p(E[v|p]) of each intent: [..., intents]."""
    of_intent = (weight * cells.mean).sum(axis=-2, keepdims=True)
    return np.asarray((weight * (cells.mean - of_intent) ** 2).sum(axis=-2))


def _chance(cells: Cells, weight: Floats) -> tuple[Floats, Floats]:
    """Return Var(v|p), and the mean over prompts of Var(v|p) / n: [..., intents] both.

    The variance of a prompt with a single response is estimated from the intent's other prompts.
    Where all prompts have a single one, chance cannot be told from articulation, and all of it
    counts as articulation.
    """
    count = cells.count
    spread = cells.square * count / np.maximum(count - 1, 1)
    with np.errstate(invalid="ignore"):
        usual = _filled(spread.sum(axis=-2) / (count > 1).sum(axis=-2))
    spread = np.where(count > 1, spread, usual[..., None, :])
    return usual, np.asarray((weight * spread / np.maximum(count, 1)).sum(axis=-2))


def _filled(of_intents: Floats) -> Floats:
    """Replace NaN in [..., intents] by the mean of the other intents, or by 0 if all are NaN."""
    known = ~np.isnan(of_intents)
    total = np.where(known, of_intents, 0.0).sum(axis=-1, keepdims=True)
    return np.where(known, of_intents, total / np.maximum(known.sum(axis=-1, keepdims=True), 1))


def _noise_of_purpose(cells: Cells, of_intent: Floats, own: Floats) -> Floats:
    """Return the part of the variance of intents that is due to sampling paraphrases: [...].

    Paraphrases are independent of each other, so the covariance of two intents' means is estimated
    from those that both have. The divisor makes that unbiased: with m_i and m_j paraphrases, m_ij
    of them in common, the products of the residuals add up to
    m_ij (1 - 1 / m_i - 1 / m_j + m_ij / (m_i m_j)) times the covariance. A single paraphrase has a
    residual of 0, and its covariances count as 0. `own` are the variances of the means `of_intent`,
    both [..., intents].
    """
    there = (cells.count > 0).astype(np.float64)
    residual = there * (cells.mean - of_intent[..., None, :])
    products = np.einsum("...pi,...pj->...ij", residual, residual)
    common = np.einsum("...pi,...pj->...ij", there, there)
    prompts = there.sum(axis=-2)
    pairs = prompts[..., :, None] * prompts[..., None, :]
    unbiasing = pairs - prompts[..., :, None] - prompts[..., None, :] + common
    usable = (common > 0) & (unbiasing > 0)
    covariance = np.where(usable, products / np.where(usable, unbiasing, 1.0), 0.0)
    between = covariance.sum(axis=(-2, -1)) - np.einsum("...ii->...", covariance)
    intents = own.shape[-1]
    return np.asarray(own.mean(axis=-1) * (1 - 1 / intents) - between / intents**2)


def _shares(purpose: Floats, articulation: Floats, chance: Floats) -> Components:
    """Return the parts of a variance as shares of it; NaN where it is 0."""
    total = np.asarray(purpose + articulation + chance)
    whole = np.where(total > 0, total, np.nan)
    return Components(total, purpose / whole, articulation / whole, chance / whole)


def _entropy(distribution: Floats) -> Floats:
    """Return the entropy over the last axis, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # A certain outcome is 1 to the digit; otherwise its rounding would count as uncertainty.
        distribution = distribution / distribution.sum(axis=-1, keepdims=True)
        terms = np.where(distribution > 0, distribution * np.log(distribution), 0.0)
    return np.asarray(-terms.sum(axis=-1))
