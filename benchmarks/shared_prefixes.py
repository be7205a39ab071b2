"""Measure how much faster lm-eval is with `hf-tree` than with its own `hf`.

    PRAGWORLD_DATA=… python benchmarks/shared_prefixes.py
    PRAGWORLD_DATA=… python benchmarks/shared_prefixes.py --groups 10   # a quick look

The model is that of `sweep.py`, on a CPU. The requests are those that lm-eval makes of each task's
documents. The two take turns, some groups at a time. `hf` runs with the batch size that is fastest
on the first groups.
"""

import argparse
import itertools
import sys
import time
from collections import defaultdict
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from sweep_engines import make_model, train_tokenizer
from tqdm import tqdm

from pragworld_interp.lm_eval_models import TreeLM
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.link import task_folder

LIMITS = {"pragworld_manual_mc": 1.6, "pragworld_entity_tracking_mc": 3.0}
CLOSE = 1e-4  # the largest difference between log-probabilities, relative
BATCH_SIZES = (1, 2, 4, 8)
TURN = 15  # groups


def requests_by_group(task_name: str) -> list[list[Instance]]:
    """Return the requests of each group of a task's documents."""
    manager = TaskManager(include_path=str(task_folder()), include_defaults=False)
    task = manager.load([task_name])["tasks"][task_name]
    task.build_all_requests()
    by_group: dict[Any, list[Instance]] = defaultdict(list)
    for request in task.instances:
        by_group[request.doc["group"]].append(request)
    return list(by_group.values())


def timed(lm: HFLM, requests: list[Instance]) -> tuple[float, list[tuple[float, bool]]]:
    """Return the seconds that requests take, and their likelihoods."""
    start = time.perf_counter()
    likelihoods: list[tuple[float, bool]] = lm.loglikelihood(requests, disable_tqdm=True)
    return time.perf_counter() - start, likelihoods


def fastest_batch_size(lm: HFLM, requests: list[Instance]) -> int:
    """Return the batch size with which `hf` is fastest."""
    seconds = []
    for size in BATCH_SIZES:
        lm.batch_size_per_gpu = size
        seconds.append((timed(lm, requests)[0], size))
    return min(seconds)[1]


def compare(task: str, plain: HFLM, tree: TreeLM, most: int | None) -> bool:
    """Print how the two compare on a task, and return whether they agree and the limit holds."""
    groups = requests_by_group(task)[:most]
    parts = [
        list(itertools.chain.from_iterable(groups[start : start + TURN]))
        for start in range(0, len(groups), TURN)
    ]
    plain.batch_size_per_gpu = fastest_batch_size(plain, groups[0] + groups[1])
    seconds = {"hf": 0.0, "hf-tree": 0.0}
    apart = 0.0
    same = True
    for number, requests in enumerate(tqdm(parts, desc=task, unit="turn", disable=None)):
        turns = [("hf", plain), ("hf-tree", tree)]
        results = {}
        for name, lm in turns if number % 2 else reversed(turns):
            taken, results[name] = timed(lm, requests)
            seconds[name] += taken
        for (value, greedy), (expected, expected_greedy) in zip(
            results["hf-tree"], results["hf"], strict=True
        ):
            apart = max(apart, abs(value - expected) / max(1.0, abs(expected)))
            same = same and greedy == expected_greedy
    ratio = seconds["hf"] / seconds["hf-tree"]
    print(
        f"{task}, {sum(map(len, groups)):,} requests: hf {seconds['hf']:.1f} s with batches of "
        f"{plain.batch_size}, hf-tree {seconds['hf-tree']:.1f} s: {ratio:.2f} times as fast "
        f"(limit {LIMITS[task]:g}); log-probabilities within {apart:.1e}"
    )
    return same and apart <= CLOSE and ratio >= LIMITS[task]


def main() -> None:
    """Run the benchmark, and exit with 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--groups", type=int, metavar="N", help="use the first N groups")
    options = parser.parse_args()
    tokenizer = train_tokenizer(load_split("manual"))
    tokenizer.add_special_tokens({"eos_token": "<|end|>"})
    model = make_model().eval()
    plain, tree = (kind(pretrained=model, tokenizer=tokenizer) for kind in (HFLM, TreeLM))
    held = [compare(task, plain, tree, options.groups) for task in LIMITS]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
