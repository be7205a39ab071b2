"""Measure what the tests of an ablation sweep find, in simulated sweeps like the manual split's.

    python benchmarks/layer_tests.py

Every document has a margin by which its gold answer wins. Every run adds noise to it, some of which
the documents of a group share. A layer without effect adds as much noise as the plain run.
"""

import sys
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from pragworld_interp.prompts.examples import document_examples
from pragworld_interp.run.inputs import data_identity, document_results
from pragworld_tasks.data.documents import Document
from pragworld_tasks.layers.ablation_report import LayerReport
from pragworld_tasks.layers.layer_statistics import StatisticsSettings
from pragworld_tasks.layers.settings import Intervention, ModelIdentity, every_layer

LAYERS, SWEEPS = 28, 100
SIZES = (6,) * 60 + (5,) * 28  # 500 documents in 88 groups
NOISES = {"quiet": 0.15, "noisy": 0.5, "very noisy": 1.2}  # standard deviations
SHARED = 0.5  # of the noise's variance, by the documents of a group
ALPHA = 0.05
LOST = 5.0  # points of accuracy
MARGIN, SPREAD = 1.0, 1.5  # mean and standard deviation over documents
QUICK = StatisticsSettings(resamples=2)  # intervals are not looked at


def documents_of_sizes(sizes: Sequence[int]) -> list[Document]:
    """Return groups of these sizes, with half of the answers yes."""
    documents: list[Document] = []
    for group, size in enumerate(sizes):
        for number in range(size):
            documents.append(
                Document(
                    row=len(documents),
                    context="",
                    question="",
                    answer="yes" if len(documents) % 2 else "no",
                    group=group,
                    is_original=number == 0,
                    alteration="Negation" if number else None,
                    effect="invariant" if number else None,
                    split="manual",
                    released_group=group,
                    released_is_original=number == 0,
                )
            )
    return documents


def sweep(documents: Sequence[Document], noise: float, lost: float, seed: int) -> LayerReport:
    """Simulate a sweep in which layer 0 loses a part of the margin, and no other layer does."""
    generator = np.random.default_rng(seed)
    group = np.array([document.group for document in documents])
    shape = len(documents), 1 + LAYERS
    own = generator.normal(size=shape) * np.sqrt(1 - SHARED)
    shared = generator.normal(size=(group.max() + 1, 1 + LAYERS))[group] * np.sqrt(SHARED)
    margin = generator.normal(MARGIN, SPREAD, size=(len(documents), 1)) + noise * (own + shared)
    margin[:, 1] -= lost
    gold = 1 / (1 + np.exp(-margin))
    model = ModelIdentity("simulated", None, None, "float32", LAYERS, (" yes", " no"), False)
    examples = document_examples(documents)
    data = data_identity(examples)
    results = document_results(examples, gold)
    intervention = Intervention("mlp", "zero")
    return LayerReport(model, data, intervention, every_layer(LAYERS), results, QUICK)


def lost_margin(noise: float, points: float) -> float:
    """Return the loss of margin that lowers the expected accuracy by so many points."""
    margins = NormalDist(0, float(np.hypot(SPREAD, noise)))
    accuracy = margins.cdf(MARGIN)
    return MARGIN - margins.inv_cdf(accuracy - points / 100)


def main() -> None:
    """Print how often layers are found, without an effect and with one. Fail beyond the limit."""
    documents = documents_of_sizes(SIZES)
    limit = ALPHA + 3 * float(np.sqrt(ALPHA * (1 - ALPHA) / SWEEPS))  # three standard errors more
    broken = False
    print(f"{SWEEPS} sweeps of {LAYERS} layers, {len(documents)} documents in {len(SIZES)} groups")
    for name, noise in NOISES.items():
        reports = [sweep(documents, noise, 0, seed) for seed in range(SWEEPS)]
        changed = np.mean([_changed_percent(report) for report in reports])
        print(f"{name}: {changed:.1f} % of the answers change")
        by_accuracy = np.mean([_finds_any(report) for report in reports])
        by_log_odds = np.mean([min(of.log_odds_holm for of in r.layers) <= ALPHA for r in reports])
        broken |= bool(max(by_accuracy, by_log_odds) > limit)
        print(f"  no effect: some layer found in {by_accuracy:.1%} of sweeps by accuracy,")
        print(f"    in {by_log_odds:.1%} by log-odds (at most {ALPHA:.0%}, but for chance)")
        lost = lost_margin(noise, LOST)
        first = [sweep(documents, noise, lost, seed).layers[0] for seed in range(SWEEPS)]
        found = np.mean([layer.evidence == "useful" for layer in first])
        log_odds = np.mean([layer.log_odds_holm <= ALPHA for layer in first])
        print(f"  {LOST:g} points less in one layer: found in {found:.0%} of sweeps by accuracy,")
        print(f"    in {log_odds:.0%} by log-odds")
    if broken:
        sys.exit("layers without an effect are found too often")


def _changed_percent(report: LayerReport) -> float:
    """Return how many answers change in a layer on average, in percent."""
    right = np.array([document.gold for document in report.documents]) > 0.5
    return 100 * float((right[:, 1:] != right[:, :1]).mean())


def _finds_any(report: LayerReport) -> bool:
    return any(layer.evidence != "neutral" for layer in report.layers)


if __name__ == "__main__":
    main()
