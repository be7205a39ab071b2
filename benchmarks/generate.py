"""How fast dialogues are generated: documents per second on one core, for every split.

python benchmarks/generate.py
"""

import sys
import time

from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GENERATED_SPLITS, GeneratedSplit, GeneratorSettings

GROUPS = 500
LIMIT = 2000  # documents per second


def documents_per_second(split: GeneratedSplit) -> float:
    """Of processor time, so that a busy machine does not count."""
    start = time.process_time()
    made = sum(
        1 for _ in documents(generate(GeneratorSettings(groups=GROUPS, seed=1, split=split)))
    )
    return made / (time.process_time() - start)


def main() -> None:
    """Prints the documents per second of each split, beside the limit."""
    for _ in documents(generate(GeneratorSettings(groups=20))):
        pass  # imports, and words that are looked up once
    print(f"{GROUPS} groups of each split; documents per second, at least {LIMIT}:")
    slow = []
    for split in GENERATED_SPLITS:
        speed = documents_per_second(split)
        slow += [split] if speed < LIMIT else []
        print(f"{split:16} {speed:7.0f} {'' if speed >= LIMIT else '  too slow'}".rstrip())

    if slow:
        sys.exit(f"too slow: {', '.join(slow)}")


if __name__ == "__main__":
    main()
