"""Sweeps: a model and documents in, observations, and reports of them."""

import os


def round_repeatably() -> None:
    """Let matrix products on CPUs round in one way. Call it before torch multiplies anything.

    MKL, which torch multiplies with, otherwise rounds differently with the place of a matrix in
    memory. A run that is resumed or divided among processes would then differ in the last bits.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
