"""Measure the speed of sweeps over all layers: the engine, pyvene, and a loop over layers.

    python benchmarks/sweep.py                  # ablation and patching; some minutes
    python benchmarks/sweep.py --model FOLDER --dtype bfloat16 --repeats 3
    python benchmarks/sweep.py --accounting     # padding and copies; half a minute

The engines take turns, batch by batch, in one process; see `sweep_engines.py` for them, the model
and the documents. Without `--model`, a process for each measures its memory. With `--accounting`
nothing is timed; see `sweep_accounts.py`.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch
from sweep_accounts import check_accounts
from sweep_engines import SWEEPS, Task, make_task
from torch.utils._python_dispatch import TorchDispatchMode
from tqdm import tqdm

from pragworld_interp.engine.packing import work_units
from pragworld_interp.run.inputs import Dtype
from pragworld_interp.run.loading import Model
from pragworld_interp.run.observations import default_budget

aten = torch.ops.aten
LIMIT = 4.0  # the least speed relative to the loop and to pyvene
BOUND = 0.6  # the least share of the time that matrix products alone take
CLOSE = 1e-4  # the largest difference between probabilities
# For twice as many documents: the largest factor of time a document, and of megabytes more.
FLAT, BOUNDED = 1.15, 64
ENGINES = ("loop", "pyvene", "sweep")


def measure_time(
    task: Task, kind: str, engines: Sequence[str]
) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Return the seconds and p(yes) of every run by engine, and the seconds of "products".

    These are the matrix products of the sweep alone. Engines and products take turns to share the
    noise of the machine.
    """
    seconds = dict.fromkeys((*engines, "products"), 0.0)
    results: dict[str, list[torch.Tensor]] = {engine: [] for engine in engines}
    units = work_units(task.groups, task.trees, default_budget(task.decoder.device))
    for number, unit in enumerate(tqdm(units, desc=kind, unit="batch", disable=None)):
        with Products() as products:
            SWEEPS[kind]["sweep"](replace(task, groups=unit))
        first = number % len(engines)
        for engine in (*engines[first:], *engines[:first]):
            start = time.perf_counter()
            logits = SWEEPS[kind][engine](replace(task, groups=unit))
            seconds[engine] += time.perf_counter() - start
            results[engine].append(logits.softmax(-1)[..., 0])
            if engine == "sweep":
                seconds["products"] += products.seconds()
    return seconds, {engine: torch.cat(parts) for engine, parts in results.items()}


def measure_memory(task: Task, kind: str, engine: str) -> list[float]:
    """Return the peak memory in megabytes: for the largest group, all groups, all groups twice.

    Engines that run prompts one by one need as much for one group as for all.
    """
    run = SWEEPS[kind][engine]
    run(replace(task, groups=[max(task.groups, key=lambda group: sum(map(len, group.prompts)))]))
    peaks = [peak_megabytes()]
    for times in (1, 2) if engine == "sweep" else ():
        run(replace(task, groups=task.groups * times))
        peaks.append(peak_megabytes())
    return peaks


def peak_megabytes() -> float:
    """Return the peak memory of this process. `getrusage` may return that of its parent."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


class Products(TorchDispatchMode):  # type: ignore[misc]
    """A mode that records matrix products, those of attention among them, to run them alone."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self._products: list[tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = []
        self._operands: dict[Any, torch.Tensor] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, and record its products."""
        if function in (aten.mm.default, aten.addmm.default, aten.bmm.default):
            self._record(function, *args)
        elif function is aten._scaled_dot_product_flash_attention_for_cpu.default:
            query, key, value = args[:3]
            scores = query.new_empty(*query.shape[:3], key.shape[2])
            self._record(torch.matmul, query, key.transpose(2, 3))
            self._record(torch.matmul, scores, value)
        elif function.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
            with self:  # inference runs these as a whole
                return function.decompose(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))

    def _record(self, function: Callable[..., Any], *args: torch.Tensor) -> None:
        """Record a product, with operands of the same shape and strides, which are shared."""
        operands = tuple(
            self._operands.setdefault(
                (place, *tensor.shape, *tensor.stride()), torch.ones_like(tensor)
            )
            for place, tensor in enumerate(args)
        )
        self._products.append((function, operands))

    @torch.inference_mode()
    def seconds(self) -> float:
        """Run all products, and return how long that takes."""
        start = time.perf_counter()
        for function, operands in self._products:
            function(*operands)
        return time.perf_counter() - start


def compare_engines(task: Task, kind: str, engines: Sequence[str], repeats: int) -> list[str]:
    """Run engines, print what they take, and return the limits that are broken."""
    for engine in engines:  # setup does not count
        SWEEPS[kind][engine](replace(task, groups=task.groups[:1]))
    runs = [measure_time(task, kind, engines) for _ in range(repeats)]
    broken = []
    documents, layers = sum(len(group.prompts) for group in task.groups), len(task.decoder.blocks)
    print(f"{kind}, {documents} documents, {layers} layers, {torch.get_num_threads()} threads:")
    for engine in engines:
        apart = max(float((found[engine] - found["loop"]).abs().max()) for _, found in runs)
        same = all(torch.equal(found[engine] > 0.5, found["loop"] > 0.5) for _, found in runs)
        relative = [seconds[engine] / seconds["sweep"] for seconds, _ in runs]
        print(
            f"  {engine}: {in_range([seconds[engine] for seconds, _ in runs], '.1f')} s, "
            f"{in_range(relative, '.2f')} times sweep; probabilities within {apart:.1e} of the "
            f"loop's, {'all' if same else 'NOT ALL'} predictions the same"
        )
        if task.decoder.dtype == torch.float32 and (apart > CLOSE or not same):
            broken.append(f"{kind}: {engine} differs from the loop")
        if engine != "sweep" and min(relative) < LIMIT:
            broken.append(f"{kind}: less than {LIMIT:g} times as fast as {engine}")
    shares = [seconds["products"] / seconds["sweep"] for seconds, _ in runs]
    print(
        f"  matrix products of the sweep alone: {in_range(shares, '.0%')} of its time", flush=True
    )
    if min(shares) < BOUND:
        broken.append(f"{kind}: under {BOUND:.0%} of the matrix products' speed")
    return broken


def in_range(values: Sequence[float], form: str) -> str:
    """Return the lowest and the highest of some figures, as text."""
    return " to ".join(dict.fromkeys(format(value, form) for value in (min(values), max(values))))


def compare_memory(task: Task, kind: str, count: int) -> list[str]:
    """Print the memory of the engines, and what more documents take; return broken limits."""
    for engine in ENGINES:
        command = [sys.executable, __file__, "--documents", str(count), "--memory", kind, engine]
        peaks = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        print(f"  {engine}: peak memory {peaks[0]:.0f} MB")
    seconds = []
    for times in (1, 2):
        start = time.perf_counter()
        SWEEPS[kind]["sweep"](replace(task, groups=task.groups * times))
        seconds.append((time.perf_counter() - start) / times)
    grown, more = seconds[1] / seconds[0], peaks[2] - peaks[1]
    print(f"  sweep, twice as many documents: {grown:.2f} times as long for each, {more:+.0f} MB")
    if grown > FLAT or more > BOUNDED:
        return [f"{kind}: time or memory for a document grows with their number"]
    return []


def main() -> None:
    """Print times, ratios and differences, and exit with an error if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--documents", type=int, default=60, help="use at least this many; default: 60")
    add("--model", help="folder or name of a model; default: a random one")
    add("--dtype", default="auto", choices=get_args(Dtype), help="default: the model's own")
    add("--without-pyvene", action="store_true", help="compare the sweep with the loop only")
    add("--repeats", type=int, default=1, help="print figures as the range of as many; default: 1")
    add("--accounting", action="store_true", help="count padding and copies instead of time")
    add("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.accounting:
        finish(check_accounts(make_task(500)))
        return
    task = make_task(options.documents, options.model and Model(options.model, dtype=options.dtype))
    if options.memory:
        print(json.dumps(measure_memory(task, *options.memory)))
        return
    engines = [name for name in ENGINES if name != "pyvene" or not options.without_pyvene]
    broken = []
    for kind in SWEEPS:
        broken += compare_engines(task, kind, engines, options.repeats)
        if options.model is None:
            broken += compare_memory(task, kind, options.documents)
    finish(broken)


def finish(broken: list[str]) -> None:
    """Exit with an error if a limit is broken."""
    if broken:
        sys.exit("; ".join(broken))


if __name__ == "__main__":
    main()
