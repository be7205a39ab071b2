"""Measure the speed of sweeps over all layers: the engine, pyvene, and a loop over layers.

    python benchmarks/sweep.py                  # ablation and patching; some minutes
    python benchmarks/sweep.py --documents 120
    python benchmarks/sweep.py --accounting     # padding and copies; half a minute

The three engines take turns, group by group, in one process; see `sweep_engines.py` for them, the
model and the documents. Their memory is measured in a process for each. With `--accounting` nothing
is timed; see `sweep_accounts.py`.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sweep_accounts import check_accounts
from sweep_engines import LAYERS, SWEEPS, Task, make_task
from torch.utils._python_dispatch import TorchDispatchMode
from tqdm import tqdm

aten = torch.ops.aten
LIMIT = 4.0  # the least speed relative to the loop and to pyvene
BOUND = 0.6  # the least share of the time that matrix products alone take
CLOSE = 1e-4  # the largest difference between probabilities
# For twice as many documents: the largest factor of time a document, and of megabytes more.
FLAT, BOUNDED = 1.15, 64
ENGINES = ("loop", "pyvene", "sweep")


def measure_time(task: Task, kind: str) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Return the seconds and p(yes) of every run by engine, and the seconds of "products".

    These are the matrix products of the sweep alone. Engines and products take turns to share the
    noise of the machine.
    """
    seconds = dict.fromkeys((*ENGINES, "products"), 0.0)
    results: dict[str, list[torch.Tensor]] = {engine: [] for engine in ENGINES}
    for engine in ENGINES:  # setup does not count
        SWEEPS[kind][engine](replace(task, groups=task.groups[:1]))
    for number, group in enumerate(tqdm(task.groups, desc=kind, unit="group", disable=None)):
        with Products() as products:
            SWEEPS[kind]["sweep"](replace(task, groups=[group]))
        for engine in (*ENGINES[number % 3 :], *ENGINES[: number % 3]):
            start = time.perf_counter()
            logits = SWEEPS[kind][engine](replace(task, groups=[group]))
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


def tokens_through_blocks(task: Task, run: Callable[[Task], torch.Tensor]) -> int:
    """Count the positions that go through a block, summed over blocks."""
    counted = [0]

    def count(_: Any, args: Any, kwargs: Any) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        counted[0] += hidden.shape[0] * hidden.shape[1]

    with ExitStack() as stack:
        for block in task.decoder.blocks:
            handle = block.module.input_layernorm.register_forward_pre_hook(  # type: ignore[union-attr]
                count, with_kwargs=True
            )
            stack.callback(handle.remove)
        run(task)
    return counted[0]


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


def compare_engines(task: Task, kind: str, count: int) -> list[str]:
    """Run all engines, print what they take, and return the limits that are broken."""
    seconds, values = measure_time(task, kind)
    documents = sum(len(group.examples) for group in task.groups)
    broken = []
    print(f"{kind}, {documents} documents, {LAYERS} layers:")
    for engine in ENGINES:
        command = [sys.executable, __file__, "--documents", str(count), "--memory", kind, engine]
        peaks = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        apart = float((values[engine] - values["loop"]).abs().max())
        same = torch.equal(values[engine] > 0.5, values["loop"] > 0.5)
        relative = seconds[engine] / seconds["sweep"]
        print(
            f"  {engine}: {seconds[engine]:.1f} s, {relative:.2f} times sweep; peak memory "
            f"{peaks[0]:.0f} MB; probabilities within {apart:.1e} of the loop's, "
            f"{'all' if same else 'NOT ALL'} predictions the same"
        )
        if apart > CLOSE or not same:
            broken.append(f"{kind}: {engine} differs from the loop")
    run = SWEEPS[kind]["sweep"]
    share = seconds["products"] / seconds["sweep"]
    print(
        f"  sweep: {tokens_through_blocks(task, run):,} tokens through blocks; its matrix products "
        f"alone take {share:.0%} of the time"
    )
    start = time.perf_counter()
    run(replace(task, groups=task.groups * 2))
    grown = (time.perf_counter() - start) / 2 / seconds["sweep"]
    more = peaks[2] - peaks[1]
    print(f"  sweep, twice as many documents: {grown:.2f} times as long for each, {more:+.0f} MB")
    if grown > FLAT or more > BOUNDED:
        broken.append(f"{kind}: time or memory for a document grows with their number")
    for engine in ("loop", "pyvene"):
        if seconds[engine] < LIMIT * seconds["sweep"]:
            broken.append(f"{kind}: less than {LIMIT:g} times as fast as {engine}")
    if share < BOUND:
        broken.append(f"{kind}: under {BOUND:.0%} of the matrix products' speed")
    return broken


def main() -> None:
    """Print times, ratios and differences, and exit with an error if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--documents", type=int, default=60, help="use at least this many; default: 60"
    )
    parser.add_argument(
        "--accounting", action="store_true", help="count padding and copies instead of time"
    )
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.accounting:
        finish(check_accounts(make_task(500)))
        return
    torch.set_num_threads(2)
    task = make_task(options.documents)
    if options.memory:
        print(json.dumps(measure_memory(task, *options.memory)))
        return
    finish([line for kind in SWEEPS for line in compare_engines(task, kind, options.documents)])


def finish(broken: list[str]) -> None:
    """Exit with an error if a limit is broken."""
    if broken:
        sys.exit("; ".join(broken))


if __name__ == "__main__":
    main()
