"""Measure how long lm-eval takes to scan our task files, compared with its own.

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
    """Return how long lm-eval takes to build its task index with the given options."""
    start = time.perf_counter()
    TaskManager(**options)
    return time.perf_counter() - start


def main() -> None:
    """Print the milliseconds for both, and their ratio."""
    linked = Path(lm_eval.tasks.__file__).parent / "pragworld"
    if linked.exists():
        print(f"note: {linked} links our tasks, so both times include them")
    ours = {"include_path": str(task_folder()), "include_defaults": False}
    rounds = [(seconds_to_scan(), seconds_to_scan(**ours)) for _ in range(REPEATS)]
    lm_eval_time, our_time = (
        1000 * statistics.median(times) for times in zip(*rounds, strict=True)
    )
    print(f"lm-eval's own tasks: {lm_eval_time:8.1f} ms")
    print(f"ours:                {our_time:8.1f} ms ({our_time / lm_eval_time:.2%} more)")


if __name__ == "__main__":
    main()
