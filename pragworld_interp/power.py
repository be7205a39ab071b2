"""Which changes of accuracy the tests of an ablation sweep find.

A layer counts as useful or harmful by evidence if an exact test over documents and one over groups
both say so (`layer_report.LayerResult`). Given which answers ablating a layer changes, both tests
depend only on their net change, so the probability that they find an effect is exact.

An effect is modelled as the tests see it: the answers that change in a group change together, to
right or to wrong, and independently of other groups. Without an effect, both are equally likely.
Other layers are taken to have no effect, so that p is corrected as the smallest one is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pragworld_tasks.data.documents import Document
from pragworld_tasks.evaluation.metrics import Ints, sums_of_signs
from pragworld_tasks.formatting import format_percent, markdown_table

POWER = 0.8
_DRAWS = 20  # of the answers that change, where they are not known yet
_SHARES = (2, 5, 10, 20, 40)  # of the documents, in percent
_COLUMNS = ["% of answers changed", "points found"]
_STEPS = 12  # halvings of the range in which an effect is searched


@dataclass(frozen=True)
class Detectable:
    """The smallest change that a sweep finds.

    Attributes:
        changed: The share of documents, in percent, whose answer turns from right to wrong or back.
        points: The change of accuracy, in points, that is found with probability `POWER`. NaN if
            too few answers change for that.
    """

    changed: float
    points: float


def detectable_before_sweep(
    documents: Sequence[Document], layers: int, changed: float, alpha: float = 0.05, seed: int = 0
) -> Detectable:
    """Return the smallest change that a sweep will find where a share of the answers changes.

    Args:
        documents: The documents of the sweep.
        layers: The number of layers of the model.
        changed: The share of documents whose answer changes, in percent. They are drawn at random;
            those of a group change together, to right or to wrong, which is the cautious choice.
        alpha: The largest corrected p that counts as evidence.
        seed: The seed of the draws.

    Raises:
        ValueError: There are no documents or no layers, or the share is not above 0 and at most
            100.

    Examples:
        >>> from pragworld_interp import detectable_before_sweep
        >>> from pragworld_tasks import generate
        >>> detectable_before_sweep(generate(groups=100), layers=28, changed=10).points < 10
        True
    """
    if not documents or layers < 1 or not 0 < changed <= 100:
        raise ValueError(
            f"{len(documents)} documents, {layers} layers and {changed} % of the answers; give at "
            "least one document and one layer, and more than 0 and at most 100 %"
        )
    group = np.unique([document.group for document in documents], return_inverse=True)[1]
    sizes = np.bincount(group)
    generator = np.random.default_rng(seed)
    nets = generator.binomial(sizes, changed / 100, size=(_DRAWS, len(sizes)))
    patterns = [(net, int(net.sum())) for net in nets]
    return smallest_found(patterns, len(documents), layers, alpha)


def power_text(documents: Sequence[Document], layers: int) -> str:
    """Return a table of the smallest change that a sweep finds, by how many answers change."""
    found = [detectable_before_sweep(documents, layers, changed) for changed in _SHARES]
    rows = [
        [f"{share:g}", format_percent(smallest.points)]
        for share, smallest in zip(_SHARES, found, strict=True)
    ]
    groups = len({document.group for document in documents})
    title = (
        f"{documents[0].split}, {len(documents)} documents, {groups} groups, {layers} layers; "
        f"changes found in {POWER:.0%} of sweeps"
    )
    return markdown_table(title, _COLUMNS, rows)


def smallest_found(
    patterns: Sequence[tuple[Ints, int]], documents: int, layers: int, alpha: float
) -> Detectable:
    """Return the smallest change found on average over patterns of changed answers.

    Args:
        patterns: For each, the net change in right answers of each group, [groups], whose direction
            is left open, and the number of documents whose answer changes.
        documents: The number of documents.
        layers: The number of layers of the model.
        alpha: The largest corrected p that counts as evidence.
    """
    first_step = alpha / layers  # of Holm's method
    cases = [
        (sizes, max(_needed(sizes, first_step), _needed(np.ones(number), first_step)))
        for sizes, number in ((np.abs(net[net != 0]), number) for net, number in patterns)
    ]
    changed = 100 * float(np.mean([number for _, number in patterns])) / documents
    reach = float(np.mean([sizes.sum() for sizes, _ in cases]))

    def power(tendency: float) -> float:
        return float(np.mean([_found(sizes, needed, tendency) for sizes, needed in cases]))

    low, high = 0.0, 1.0
    if power(high) < POWER:
        return Detectable(changed, math.nan)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return Detectable(changed, 100 * high * reach / documents)


def _needed(sizes: ArrayLike, alpha: float) -> int:
    """Return the smallest net change, in documents, that a test of equal signs rejects."""
    chances = sums_of_signs(sizes)
    reach = len(chances) // 2
    tails = 2 * np.cumsum(chances[::-1])[: reach + 1]  # of reach, reach - 1, and so on
    return reach + 1 - int(np.count_nonzero(tails[:-1] <= alpha)) if reach else 1


def _found(sizes: Ints, needed: int, tendency: float) -> float:
    """Return how often the net change is as large as needed, in the direction of the effect.

    Args:
        sizes: [groups] how many answers of each group change.
        needed: The net change that is needed.
        tendency: 0 if both directions are equally likely, 1 if there is only one.
    """
    chances = sums_of_signs(sizes, positive=(1 + tendency) / 2)
    return float(chances[len(chances) // 2 + needed :].sum())
