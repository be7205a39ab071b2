"""The ways of training that a study compares, and the runs that it consists of."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARMS = {
    "sft": "plain SFT",
    "ula": "SFT with amplification of useful layers",
    "hls": "SFT with suppression of harmful layers",
    "ula_hls": "SFT with both",
    "random_layers": "SFT with both, on as many layers drawn at random",
    "originals_only": "plain SFT on as many documents, none of them altered",
}
BASE = "base"  # the model before training
REFERENCE = "sft"  # what the others are compared with


@dataclass(frozen=True)
class StudyRun:
    """One way of training with one seed.

    Attributes:
        arm: One of `ARMS`, or `BASE`.
        seed: The seed of training; 0 for `BASE`, which is not trained.
        folder: The run's own folder.
        settings: What `pragworld-train --config` reads for this run. For `BASE`, what evaluations
            depend on.
    """

    arm: str
    seed: int
    folder: Path
    settings: dict[str, Any]


def draw_layers(
    count: int, useful: list[int], harmful: list[int], seed: int
) -> tuple[list[int], list[int]]:
    """Draw as many layers of each kind at random, but not those given."""
    generator = random.Random(seed)
    while True:
        layers = generator.sample(range(count), len(useful) + len(harmful))
        drawn = sorted(layers[: len(useful)]), sorted(layers[len(useful) :])
        if drawn != (sorted(useful), sorted(harmful)):
            return drawn
