"""Where things are in the checkout."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "tests" / "samples"  # small files of our own in the released formats
