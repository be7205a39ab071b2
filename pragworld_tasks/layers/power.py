"""Which changes of accuracy the tests of an ablation sweep find.

A layer counts as useful or harmful by evidence if an exact test over documents and one over groups
both say so (`layer_report.LayerResult`). Given which answers ablating a layer changes, both tests
depend on their net change only.

An effect is modelled as the tests see it. A sweep draws groups like those that were seen; in each,
the answers that change turn together, to right or to wrong. Without an effect, both are equally
likely. Other layers are taken to have no effect, so that p is corrected as the smallest one is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pragworld_tasks.data.documents import Document
from pragworld_tasks.evaluation.metrics import Floats, sums_of_signs
from pragworld_tasks.text import format_percent, format_size, markdown_table

POWER = 0.8
_SHARES = (2, 5, 10, 20, 40)  # of the documents, in percent
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
    documents: Sequence[Document], layers: int, changed: float, alpha: float = 0.05
) -> Detectable:
    """Return the smallest change that a sweep will find where a share of the answers changes.

    Args:
        documents: The documents of the sweep.
        layers: The number of layers of the model.
        changed: The share of documents whose answer changes, in percent. That those of a group turn
            the same way is the cautious choice.
        alpha: The largest corrected p that counts as evidence.

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
    from scipy.special import binom

    sizes = np.unique([document.group for document in documents], return_counts=True)[1]
    share = changed / 100
    sizes = sizes[:, None]
    changes = np.arange(sizes.max() + 1)  # of a group's answers
    others = (sizes - changes).clip(0)
    net = (binom(sizes, changes) * share**changes * (1 - share) ** others).mean(axis=0)
    return smallest_found(net, len(sizes), len(documents), changed, layers, alpha)


def power_text(documents: Sequence[Document], layers: int) -> str:
    """Return a table of the smallest change that a sweep finds, by how many answers change.

    A line below it says what dashes mean.
    """
    found = [detectable_before_sweep(documents, layers, changed) for changed in _SHARES]
    rows = [
        [f"{share:g}", format_percent(smallest.points)]
        for share, smallest in zip(_SHARES, found, strict=True)
    ]
    groups = len({document.group for document in documents})
    title = (
        f"{documents[0].split}, {format_size(len(documents), groups)}, {layers} layers; "
        f"changes found in {POWER:.0%} of sweeps"
    )
    table = markdown_table(title, ["% of answers changed", "points found"], rows)
    if not any(math.isnan(smallest.points) for smallest in found):
        return table
    return (
        f"{table}\n-: even if all of these answers turn the same way, fewer than {POWER:.0%} of "
        "sweeps find it; more groups are needed."
    )


def smallest_found(
    net: ArrayLike, groups: int, documents: int, changed: float, layers: int, alpha: float
) -> Detectable:
    """Return the smallest change that is found.

    Args:
        net: The probability that the right answers of a group change by 0, 1, 2 and so on, [sizes],
            without the direction.
        groups: The number of groups.
        documents: The number of documents.
        changed: The share of documents whose answer changes, in percent.
        layers: The number of layers of the model.
        alpha: The largest corrected p that counts as evidence.
    """
    net = np.asarray(net, dtype=np.float64)
    reach = 100 * groups * float(net @ np.arange(len(net))) / documents  # if all turn the same way
    of_documents = sums_of_signs(np.ones(round(changed * documents / 100)))
    needed = max(_needed(chances, alpha / layers) for chances in (_sums(net, groups), of_documents))

    def power(tendency: float) -> float:
        chances = _sums(net, groups, tendency)
        return float(chances[len(chances) // 2 + needed :].sum())

    low, high = 0.0, 1.0
    if power(high) < POWER:
        return Detectable(changed, math.nan)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return Detectable(changed, reach * high)


def _sums(net: Floats, groups: int, tendency: float = 0.0) -> Floats:
    """Return the probability of each net change of all groups, from the lowest to the highest.

    Args:
        net: As for `smallest_found`.
        groups: The number of groups.
        tendency: 0 if both directions are equally likely, 1 if there is only one.
    """
    lost, gained = (1 - tendency) / 2 * net[:0:-1], (1 + tendency) / 2 * net[1:]
    of_groups = np.concatenate([lost, net[:1], gained])  # of 1, 2, 4 and so on
    chances = np.ones(1)
    while groups > 1:
        if groups % 2:
            chances = np.convolve(chances, of_groups)
        of_groups, groups = np.convolve(of_groups, of_groups), groups // 2
    return np.convolve(chances, of_groups)


def _needed(chances: Floats, alpha: float) -> int:
    """Return the smallest net change, in documents, that a two-sided test rejects."""
    tails = 2 * np.cumsum(chances[::-1])[: len(chances) // 2]  # of the largest, and so on
    return len(chances) // 2 + 1 - int(np.count_nonzero(tails <= alpha))
