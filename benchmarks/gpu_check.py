"""Check that sweeps and training are right on a GPU, and measure time and memory.

    make gpu-check                                        # about ten minutes
    python benchmarks/gpu_check.py --device cpu --quick   # what a CPU can check; two minutes

- **Sweeps** of a randomly initialized model, in float32 and bfloat16, beside a loop of plain hooks
  over prompts and layers (`sweep_engines.py`). In float32 the probabilities have to agree. In
  bfloat16 both round, so the sweep may be off the loop in float32 by twice as much as the loop is.
- **Training** beside plain SFT, as in `train.py`, and whether a step of ours makes the CPU wait for
  the GPU (`torch.cuda.set_sync_debug_mode`).

All that is measured goes into a JSON file. The script exits with an error if a limit is broken.
"""

import argparse
import copy
import json
import platform
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import sweep_engines
import torch
import train
from tqdm import tqdm

from pragworld_interp.engine.agreement import supports_trees
from pragworld_interp.engine.decoder import from_model
from pragworld_interp.engine.packing import work_units
from pragworld_interp.prompts.examples import document_examples
from pragworld_interp.prompts.tokenization import group_prompts, tokenize_prompts
from pragworld_interp.run.observations import default_budget
from pragworld_tasks.files import write_json

SIZES = {"gpu": (24, 2048), "quick": (3, 128)}  # layers and width: 1.6 billion weights, and few
DOCUMENTS = {"gpu": 60, "quick": 12}
CLOSE = 1e-4  # the largest difference between probabilities in float32
WORSE = 2.0  # how much further off the float32 loop a bfloat16 sweep may be than a bfloat16 loop
PACKAGES = ("pragworld", "torch", "transformers", "trl", "peft", "lm-eval", "accelerate")


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Return what the measurements depend on."""
    machine: dict[str, Any] = {"device": platform.processor() or platform.machine(), "memory": None}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        machine = {"device": properties.name, "memory": properties.total_memory}
    return machine | {name: version(name) for name in PACKAGES}


def measure(device: torch.device, run: Callable[[], Any]) -> tuple[Any, float, int]:
    """Return the result of a function, its seconds, and the most bytes that it had on a GPU."""
    before = 0
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    result = run()
    if device.type != "cuda":
        return result, time.perf_counter() - start, 0
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return result, seconds, torch.cuda.max_memory_allocated() - before


def check_sweeps(model: Any, tokenizer: Any, documents: list[Any]) -> list[dict[str, Any]]:
    """Compare sweeps with the loop in both types; the loop in float32 is what counts as right."""
    checks = []
    right: dict[str, torch.Tensor] = {}
    for dtype in (torch.float32, torch.bfloat16):
        decoder = from_model(copy.deepcopy(model).to(dtype), tokenizer)
        examples = document_examples(documents)
        groups = group_prompts(
            examples, tokenize_prompts(decoder.tokenizer, examples, chat_template=False)
        )
        trees = supports_trees(decoder, groups[0].prompts)
        units = work_units(groups, trees, default_budget(decoder.device))
        groups = list(chain.from_iterable(units))  # the order in which a sweep returns them
        task = sweep_engines.Task(decoder, groups, trees)
        for kind, engines in sweep_engines.SWEEPS.items():
            found = {}
            for engine in ("loop", "sweep"):
                engines[engine](sweep_engines.Task(decoder, groups[:1], trees))  # to warm up
                logits, seconds, memory = measure(decoder.device, partial(engines[engine], task))
                found[engine] = (logits.float().cpu().softmax(-1)[..., 0], seconds, memory)
            right.setdefault(kind, found["loop"][0])
            off = {name: float((each[0] - right[kind]).abs().max()) for name, each in found.items()}
            limit = CLOSE if dtype == torch.float32 else max(CLOSE, WORSE * off["loop"])
            checks.append(
                {
                    "sweep": kind,
                    "dtype": str(dtype).removeprefix("torch."),
                    "token trees": trees,
                    "largest difference": off["sweep"],
                    "largest difference of the loop": off["loop"],
                    "times as fast as the loop": found["loop"][1] / found["sweep"][1],
                    "seconds": found["sweep"][1],
                    "bytes": found["sweep"][2],
                    "bytes of the loop": found["loop"][2],
                    "holds": off["sweep"] <= limit,
                }
            )
    return checks


def check_training(quick: bool) -> list[dict[str, Any]]:
    """Compare steps of ours with plain SFT's, and count the places where ours wait for the GPU."""
    checks = []
    with tempfile.TemporaryDirectory() as folder:
        for checkpointing in (False, True):
            setup = train.Setup(128 if quick else 1536, False, 2, checkpointing, 1, folder)
            times = train.measure_time(setup, 2 if quick else 6)
            pairs = zip(times["ours"], times["plain"], strict=True)
            time_ratio = statistics.median(ours / plain for ours, plain in pairs)
            peaks = {way: train.memory_in_new_process(setup, way) for way in ("plain", "ours")}
            memory_ratio = peaks["ours"] / peaks["plain"]
            waits = places_that_wait(setup)
            checks.append(
                {
                    "gradient checkpointing": checkpointing,
                    "time of a step, times plain SFT's": time_ratio,
                    "memory, times plain SFT's": memory_ratio,
                    "megabytes": peaks["ours"],
                    "places that wait for the GPU": waits,
                    "holds": not waits
                    and (quick or time_ratio <= train.LIMITS["time"])
                    and (quick or memory_ratio <= train.LIMITS["memory"]),
                }
            )
    return checks


def places_that_wait(setup: train.Setup) -> list[str] | None:
    """Return the lines of ours that make the CPU wait for the GPU; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    trainer = train.make_trainer(setup, "ours")
    trainer.train()  # to warm up
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            trainer.train()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    ours = [each for each in caught if "synchroniz" in str(each.message)]
    return sorted({f"{w.filename}:{w.lineno}" for w in ours if "pragworld_train" in w.filename})


def main() -> None:
    """Check everything, write it, and exit with an error if something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="default: cuda")
    parser.add_argument("--quick", action="store_true", help="use small models, and time nothing")
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"))
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("no GPU: run on a machine with one, or pass --device cpu --quick")
    size = "quick" if options.quick else "gpu"
    documents = sweep_engines.load_documents(DOCUMENTS[size])
    tokenizer = sweep_engines.train_tokenizer(documents)
    tokenizer.add_special_tokens({"eos_token": "<|end|>"})
    model = sweep_engines.make_model(*SIZES[size]).eval().to(device)
    steps: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "sweeps": lambda: check_sweeps(model, tokenizer, documents),
        "training": lambda: check_training(options.quick),
    }
    report: dict[str, Any] = {"machine": describe_machine(device)}
    for name, step in tqdm(steps.items(), unit="check", disable=None):
        report[name] = step()
    write_json(options.out, report)
    print(json.dumps(report, indent=2))
    broken = [f"{name}: {check}" for name in steps for check in report[name] if not check["holds"]]
    if broken:
        sys.exit("\n".join(["does not hold:", *broken]))


if __name__ == "__main__":
    main()
