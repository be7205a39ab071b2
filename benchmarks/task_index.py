"""What our task files add to lm-eval's start: scanning them, beside scanning lm-eval's own.

python benchmarks/task_index.py
"""

import statistics
import time
from pathlib import Path

import lm_eval.tasks
from lm_eval.tasks import TaskManager

from pragworld_tasks.link import task_folder

REPEATS = 5


def seconds_to_scan(**options: object) -> float:
    """How long lm-eval takes to build its task index."""
    start = time.perf_counter()
    TaskManager(**options)
    return time.perf_counter() - start


def main() -> None:
    """Prints the milliseconds that either takes and their ratio."""
    own = Path(lm_eval.tasks.__file__).parent
    linked = own / "pragworld"
    if linked.exists():
        print(f"note: our tasks are linked in {linked} and count on both sides")
    rounds = [
        (
            seconds_to_scan(),
            seconds_to_scan(include_path=str(task_folder()), include_defaults=False),
        )
        for _ in range(REPEATS)
    ]
    theirs, ours = (1000 * statistics.median(times) for times in zip(*rounds, strict=True))
    print(f"lm-eval's own tasks: {theirs:8.1f} ms")
    print(f"ours:                {ours:8.1f} ms ({ours / theirs:.2%} more)")


if __name__ == "__main__":
    main()
