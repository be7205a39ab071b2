"""Whether sweeps agree more than by chance: of half the dialogues, seeds, models, after training.

Agreement is the Spearman correlation of the layers' mean changes. Its p is how often it is at least
as large if the layers of one sweep are shifted in a circle, as `pragworld-interp compare` has it.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pragworld_interp import LayerReport
from pragworld_tasks.evaluation.statistics import Floats
from pragworld_tasks.layers.comparison import correlate, nearest_layers
from pragworld_tasks.layers.layer_statistics import DocumentResult, StatisticsSettings
from pragworld_tasks.text import format_number, format_p, markdown_table

HALVINGS = 100
ZERO = "zero"  # the replacement of sweeps after training
ONE_DRAW = StatisticsSettings(resamples=1)  # intervals are not used


class Changes(NamedTuple):
    """The mean changes that ablating each layer makes, [layers]."""

    points: Floats
    log_odds: Floats


def changes(report: LayerReport) -> dict[str, Changes]:
    """Return the changes in a sweep, by replacement."""
    found = {}
    for null, layers in replace(report, settings=ONE_DRAW).by_replacement.items():
        points = np.array([layer.accuracy.points for layer in layers])
        found[null] = Changes(points, np.array([layer.log_odds for layer in layers]))
    return found


def halves(report: LayerReport) -> list[list[dict[str, Changes]]]:
    """Return the changes in both halves of the groups, drawn at random again and again."""
    generator = np.random.default_rng(0)
    groups = np.unique([document.group for document in report.documents])
    pairs = []
    for _ in range(HALVINGS):
        first = {*generator.permutation(groups)[: len(groups) // 2].tolist()}
        parts: tuple[list[DocumentResult], list[DocumentResult]] = ([], [])
        for document in report.documents:
            parts[document.group in first].append(document)
        pairs.append([changes(replace(report, documents=tuple(part))) for part in parts])
    return pairs


def correlate_all(pairs: list[tuple[Floats, Floats]]) -> tuple[float, float]:
    """Return the mean correlation of pairs, [layers] each, and its p.

    Layers of models that differ in depth are matched by relative depth. Pairs in which a sweep has
    the same change everywhere are left out; without any other, the figures are NaN.
    """
    pairs = [pair for pair in pairs if all(np.ptp(one) for one in pair)]
    if not pairs:
        return math.nan, math.nan
    depths = min(len(one) for pair in pairs for one in pair)
    matched = [[one[nearest_layers(len(one), depths)] for one in pair] for pair in pairs]
    means = np.array(
        [
            np.mean([correlate(first, np.roll(second, shift))[0] for first, second in matched])
            for shift in range(depths)
        ]
    )
    return float(means[0]), float((means >= means[0] - 1e-9).mean())


def agreements(sweeps: Mapping[str, LayerReport], others: Mapping[str, LayerReport]) -> str:
    """Return the table of all agreements.

    Args:
        sweeps: First that before the arms, under several replacements; then those with zeros after
            training, by arm and seed ("sft-seed1").
        others: Those of other models before their arms, under the same replacements.
    """
    (_, before), *after = sweeps.items()
    first, halved = changes(before), halves(before)
    zeros = {run: changes(report)[ZERO] for run, report in after}
    compared = {
        f"halves of the dialogues, {null}": [(one[null], other[null]) for one, other in halved]
        for null in first
    }
    compared |= {f"before and after {run}": [(first[ZERO], zeros[run])] for run in zeros}
    for run, report in after:
        pairs = zip(halved, halves(report), strict=True)
        compared[f"before and after {run}, on other dialogues"] = [
            (one[ZERO], other[ZERO]) for (one, _), (_, other) in pairs
        ]
    for one, other in itertools.combinations(zeros, 2):
        if one.partition("-seed")[0] == other.partition("-seed")[0]:
            compared[f"{one} and {other}"] = [(zeros[one], zeros[other])]
    for name, report in others.items():
        for null, theirs in changes(report).items():
            compared[f"this model and {name}, {null}"] = [(first[null], theirs)]
    rows = []
    for title, changed in compared.items():
        cells = [title]
        for kind in range(2):
            value, p = correlate_all([(one[kind], other[kind]) for one, other in changed])
            cells += [format_number(value, ".2f"), format_p(p)]
        rows.append(cells)
    return markdown_table(
        f"Agreement of the changes that layers make; no p is below 1 / {len(before.layers)}",
        ["sweeps", *("accuracy", "p"), *("log-odds", "p")],
        rows,
    )
