"""Measure how many documents the generator makes per second of CPU time, for every split.

python benchmarks/generate.py
"""

import sys
import time

from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import (
    GENERATED_SPLITS,
    GeneratedSplit,
    GeneratorSettings,
)

GROUPS = 500
LIMIT = 1000  # documents per second


def documents_per_second(split: GeneratedSplit) -> float:
    """Return the documents per second of CPU time, which does not depend on other processes."""
    settings = GeneratorSettings(groups=GROUPS, seed=1, split=split)
    start = time.process_time()
    generated = sum(1 for _ in documents(generate(settings)))
    return generated / (time.process_time() - start)


def main() -> None:
    """Print the documents per second of each split. Fail if one is below the limit."""
    for _ in documents(generate(GeneratorSettings(groups=20))):
        pass  # warm up
    print(f"documents per second for {GROUPS} groups of each split, at least {LIMIT}:")
    slow = []
    for split in GENERATED_SPLITS:
        speed = documents_per_second(split)
        slow += [split] if speed < LIMIT else []
        print(f"{split:16} {speed:7.0f} {'' if speed >= LIMIT else '  too slow'}".rstrip())
    if slow:
        sys.exit(f"too slow: {', '.join(slow)}")


if __name__ == "__main__":
    main()
