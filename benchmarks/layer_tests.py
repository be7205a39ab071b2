"""Measure what the tests of an ablation sweep find, in simulated sweeps like the manual split's.

    python benchmarks/layer_tests.py  # some minutes

Every document has a margin by which its gold answer wins. Every run adds noise to it, some of which
the documents of a group share. A layer without effect adds as much noise as the plain run, under
every replacement. The replacements of one layer have noise in common, or none.
"""

import sys
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from pragworld_tasks.evaluation.statistics import Floats
from pragworld_tasks.layers.ablation_report import LayerReport
from pragworld_tasks.layers.layer_statistics import DocumentResult, StatisticsSettings
from pragworld_tasks.layers.settings import (
    NULLS,
    DataIdentity,
    Intervention,
    ModelIdentity,
    Replacement,
    every_layer,
)

LAYERS, SWEEPS = 28, 400
WITH_EFFECT = 100  # sweeps
SIZES = (6,) * 60 + (5,) * 28  # 500 documents in 88 groups
GROUP = np.repeat(np.arange(len(SIZES)), SIZES)
NOISES = {"quiet": 0.15, "noisy": 0.5, "very noisy": 1.2}  # standard deviations
# The shares of the noise's variance that the documents of a group have in common, more where they
# get the same outputs, and that a run has in common with the plain run, more where less changes.
PLAIN = 0.5
SHARED = {
    "zero": (0.5, 0.0),
    "mean": (0.5, 0.5),
    "resample": (0.7, 0.0),
    "counterfactual": (0.9, 0.5),
}
# Replacements, and what those of one layer have in common, of the noise's variance.
SWEPT: list[tuple[Replacement, float]] = [
    *((null, 0) for null in NULLS),
    *(("all", alike) for alike in (0, 0.8)),
]
ALPHA = 0.05
LOST = 5.0  # points of accuracy
MARGIN, SPREAD = 1.0, 1.5  # mean and standard deviation over documents
MODEL = ModelIdentity("simulated", None, None, "float32", LAYERS, (" yes", " no"), False)
DATA = DataIdentity("own", len(GROUP), len(SIZES), "simulated")
QUICK = StatisticsSettings(resamples=2)  # intervals are not looked at


def draw(generator: np.random.Generator, runs: int, shared: float) -> Floats:
    """Return the [documents, runs] noise of runs, in standard deviations."""
    own = generator.normal(size=(len(GROUP), runs))
    of_groups = generator.normal(size=(len(SIZES), runs))[GROUP]
    noise: Floats = np.sqrt(1 - shared) * own + np.sqrt(shared) * of_groups
    return noise


def sweep(
    replacement: Replacement, alike: float, noise: float, lost: float, seed: int
) -> LayerReport:
    """Simulate a sweep in which layer 0 loses a part of the margin, and no other layer does."""
    generator = np.random.default_rng(seed)
    intervention = Intervention("mlp", replacement)
    plain, common = draw(generator, 1, PLAIN), draw(generator, LAYERS, PLAIN)
    runs = [plain]
    for null in intervention.nulls:
        by_group, as_plain = SHARED[null]
        own = np.sqrt(alike) * common + np.sqrt(1 - alike) * draw(generator, LAYERS, by_group)
        runs.append(np.sqrt(as_plain) * plain + np.sqrt(1 - as_plain) * own)
    margin = generator.normal(MARGIN, SPREAD, size=(len(GROUP), 1)) + noise * np.hstack(runs)
    margin[:, 1::LAYERS] -= lost
    gold = 1 / (1 + np.exp(-margin))
    results = tuple(
        DocumentResult(row, int(group), "yes", None, None, tuple(gold[row].tolist()))
        for row, group in enumerate(GROUP)
    )
    return LayerReport(MODEL, DATA, intervention, every_layer(LAYERS), results, QUICK)


def sweeps(
    replacement: Replacement, alike: float, noise: float, lost: float = 0
) -> Iterator[LayerReport]:
    """Simulate sweeps with different seeds."""
    count = WITH_EFFECT if lost else SWEEPS
    return (sweep(replacement, alike, noise, lost, seed) for seed in range(count))


def lost_margin(noise: float, points: float) -> float:
    """Return the loss of margin that lowers the expected accuracy by so many points."""
    margins = NormalDist(0, float(np.hypot(SPREAD, noise)))
    accuracy = margins.cdf(MARGIN)
    return MARGIN - margins.inv_cdf(accuracy - points / 100)


def false_findings(report: LayerReport) -> list[bool]:
    """Return whether a layer has a role, under some replacement too, or a change of log-odds."""
    tested = [layer for layers in report.by_replacement.values() for layer in layers]
    return [
        any(layer.evidence != "neutral" for layer in report.layers),
        any(layer.evidence != "neutral" for layer in tested),
        any(layer.log_odds_holm <= ALPHA for layer in tested),
    ]


def main() -> None:
    """Print how often layers are found, without an effect and with one. Fail beyond the limit."""
    limit = ALPHA + 3 * float(np.sqrt(ALPHA * (1 - ALPHA) / SWEEPS))  # three standard errors more
    broken = False
    print(f"{SWEEPS} sweeps of {LAYERS} layers, {len(GROUP)} documents in {len(SIZES)} groups")
    for name, noise in NOISES.items():
        changed = np.mean([_changed_percent(report) for report in sweeps("zero", 0, noise)])
        print(f"{name}: {changed:.1f} % of the answers change")
        lost = lost_margin(noise, LOST)
        for replacement, alike in SWEPT:
            null = [false_findings(report) for report in sweeps(replacement, alike, noise)]
            role, tested, log_odds = np.mean(null, 0)
            broken |= bool(max(tested, log_odds) > limit)
            first = [report.layers[0] for report in sweeps(replacement, alike, noise, lost)]
            found = np.mean([layer.evidence == "useful" for layer in first])
            moved = np.mean([layer.log_odds_holm <= ALPHA for layer in first])
            print(
                f"  {replacement}, {alike:.0%} in common: no effect, found: a role {role:.1%}, an "
                f"accuracy {tested:.1%}, log-odds {log_odds:.1%} (at most {ALPHA:.0%}, but for "
                f"chance); {LOST:g} points less: useful {found:.0%}, log-odds {moved:.0%}",
                flush=True,
            )
    if broken:
        sys.exit("layers without an effect are found too often")


def _changed_percent(report: LayerReport) -> float:
    """Return how many answers change in a layer on average, in percent."""
    right = np.array([document.gold for document in report.documents]) > 0.5
    return 100 * float((right[:, 1:] != right[:, :1]).mean())


if __name__ == "__main__":
    main()
