"""Measure the speed of sweeps over all layers: the engine, pyvene, and a loop over layers.

    python benchmarks/sweep.py                  # ablation and patching; some minutes
    python benchmarks/sweep.py --documents 120
    python benchmarks/sweep.py --accounting     # padding and copies; half a minute

The documents are from the manual split if it is available (PRAGWORLD_DATA, or the cache), else
generated. The model is a randomly initialized Qwen2-shaped one with 12 layers, hidden size 384 and
a vocabulary of 32,000. The loop does what the released scripts do: one prompt and one layer at a
time, with the logits of the whole vocabulary at every position. The three engines take turns, group
by group, in one process. Their memory is measured in a process for each.

With `--accounting` nothing is timed. It counts the tokens that go through the model for each token
of the trees, and the bytes of residuals that are alive between calls of blocks for each byte of the
branches of a sweep.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from tqdm import tqdm
from transformers import Qwen2Config, Qwen2ForCausalLM

from pragworld_interp import ablation, agreement, packing, patching, runs
from pragworld_interp.ablation import Ablation
from pragworld_interp.decoder import Decoder, from_model
from pragworld_interp.modules import replaced_forward
from pragworld_interp.patching import PatchedLogits, PatchingPair
from pragworld_interp.targets import every_layer
from pragworld_interp.tokenization import PromptGroup, group_prompts, tokenize_prompts
from pragworld_tasks.data import sources
from pragworld_tasks.data.documents import Document
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings

aten = torch.ops.aten
LAYERS, HIDDEN, VOCABULARY = 12, 384, 32_000
LIMIT = 4.0  # the least speed relative to the loop and to pyvene
BOUND = 0.6  # the least share of the time that matrix products alone take
CLOSE = 1e-4  # the largest difference between probabilities
# For twice as many documents: the largest factor of time a document, and of megabytes more.
FLAT, BOUNDED = 1.15, 64
# The most tokens for each token of the trees, at these batch sizes, and copies of the branches.
PADDING, COPIES = 1.05, 1.5
BUDGETS = (512, 2048, 8192, 32_768)
ENGINES = ("loop", "pyvene", "sweep")


@dataclass(frozen=True)
class Task:
    """A model and the groups of documents to sweep it on."""

    decoder: Decoder
    groups: list[PromptGroup]
    trees: bool

    @property
    def pairs(self) -> list[list[PatchingPair]]:
        """The pairs of each group."""
        return [patching.patching_pairs(group, "all") for group in self.groups]


def make_task(count: int) -> Task:
    """Return the model, and at least `count` documents in whole groups."""
    chosen = load_documents(count)
    decoder = from_model(make_model(), train_tokenizer(chosen))
    groups = group_prompts(chosen, tokenize_prompts(decoder, chosen, chat_template=False))
    return Task(decoder, groups, agreement.supports_trees(decoder, groups[0].prompts))


def make_model(layers: int = LAYERS, hidden: int = HIDDEN) -> Qwen2ForCausalLM:
    """Return a randomly initialized model."""
    torch.manual_seed(0)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            intermediate_size=4 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=hidden // 64,
            num_key_value_heads=hidden // 64,
            initializer_range=0.05,
        )
    )


def load_documents(count: int) -> list[Document]:
    """Return documents of the manual split if it is available, else generated ones."""
    if sources.locate("manual"):
        available = sources.load_split("manual")
    else:
        print("the manual split is not available: using generated documents", file=sys.stderr)
        available = list(documents(generate(GeneratorSettings(groups=count))))
    last = available[count - 1].group
    return [document for document in available if document.group <= last]


def train_tokenizer(documents: list[Document]) -> Any:
    """Train byte-level BPE on documents, with tokens as long as those of large models."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = ByteLevelBPETokenizer()
    texts = [f"{d.context} {d.question} yes no yes no" for d in documents]
    tokenizer.train_from_iterator(texts, vocab_size=min(4000, VOCABULARY), show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer)


# The three engines --------------------------------------------------------------------------------


@torch.inference_mode()
def loop_ablation(task: Task) -> torch.Tensor:
    """Compute [documents, 1 + layers, 2] logits with a loop."""
    results = []
    for prompt in (prompt for group in task.groups for prompt in group.prompts):
        row = [full_run(task.decoder, prompt)]
        for block in task.decoder.blocks:
            handle = block.mlp.register_forward_hook(lambda _, __, out: torch.zeros_like(out))
            row.append(full_run(task.decoder, prompt))
            handle.remove()
        results.append(torch.stack(row))
    return torch.stack(results)


def full_run(decoder: Decoder, prompt: list[int]) -> torch.Tensor:
    """Compute the logits of all tokens at all positions, and return two of them."""
    ids = torch.tensor([prompt], device=decoder.device)
    logits: torch.Tensor = decoder.model(input_ids=ids, use_cache=False).logits
    return logits[0, -1, list(decoder.labels)].float()


@torch.inference_mode()
def loop_patching(task: Task) -> torch.Tensor:
    """Compute [pairs, 2 + layers, 2] logits with a loop: original, altered, then patched."""
    results = []
    for group, pairs in zip(task.groups, task.pairs, strict=True):
        for pair in pairs:
            original, altered = group.prompts[pair.original], group.prompts[pair.altered]
            altered_run, kept = run_and_residuals(task.decoder, altered)
            row = [full_run(task.decoder, original), altered_run]
            targets, sources = (list(columns) for columns in zip(*pair.alignment, strict=True))
            for block, residuals in zip(task.decoder.blocks, kept, strict=True):
                patch = partial(patched_input, targets=targets, residuals=residuals[0, sources])
                handle = block.module.register_forward_pre_hook(patch)
                row.append(full_run(task.decoder, original))
                handle.remove()
            results.append(torch.stack(row))
    return torch.stack(results)


def run_and_residuals(
    decoder: Decoder, prompt: list[int]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the logits, and the input of each block."""
    kept: list[torch.Tensor] = []
    with ExitStack() as stack:
        for block in decoder.blocks:
            handle = block.module.register_forward_pre_hook(
                lambda _, args: kept.append(args[0].clone())
            )
            stack.callback(handle.remove)
        return full_run(decoder, prompt), kept


def patched_input(
    _: Any, args: tuple[Any, ...], targets: list[int], residuals: torch.Tensor
) -> tuple[Any, ...]:
    """Return the arguments of a block with other residuals at some positions."""
    hidden = args[0].clone()
    hidden[0, targets] = residuals
    return (hidden, *args[1:])


def sweep_ablation(task: Task) -> torch.Tensor:
    """Compute the logits of `loop_ablation` with the sweep engine."""
    results = []
    budget = runs.default_budget(task.decoder.device)
    for unit in packing.work_units(task.groups, task.trees, budget):
        batch = packing.group_batch(unit, task.trees, task.decoder.dtype)
        results.append(
            ablation.ablated_logits(
                task.decoder,
                batch,
                Ablation("mlp", every_layer(len(task.decoder.blocks))),
                budget,
            )
        )
    return torch.cat(results, 1).transpose(0, 1)


def sweep_patching(task: Task) -> torch.Tensor:
    """Compute the logits of `loop_patching` with the sweep engine."""
    results: list[torch.Tensor] = []
    budget = runs.default_budget(task.decoder.device)
    for unit in packing.work_units(task.groups, task.trees, budget):
        pairs = replace(task, groups=unit).pairs
        prompts = [group.prompts for group in unit]
        logits = patching.patched_logits(task.decoder, prompts, pairs, task.trees, budget)
        results += map(pair_rows, pairs, logits)
    return torch.cat(results)


def pyvene_ablation(task: Task) -> torch.Tensor:
    """Compute the logits of `loop_ablation` with pyvene."""
    from pragworld_interp import reference

    prompts = [prompt for group in task.groups for prompt in group.prompts]
    logits = reference.reference_ablated_logits(
        task.decoder, prompts, Ablation("mlp", every_layer(len(task.decoder.blocks)))
    )
    return logits.transpose(0, 1)


def pyvene_patching(task: Task) -> torch.Tensor:
    """Compute the logits of `loop_patching` with pyvene."""
    from pragworld_interp import reference

    results = []
    for group, pairs in zip(task.groups, task.pairs, strict=True):
        logits = reference.reference_patched_logits(task.decoder, group.prompts, pairs)
        results.append(pair_rows(pairs, logits))
    return torch.cat(results)


def pair_rows(pairs: list[PatchingPair], logits: PatchedLogits) -> torch.Tensor:
    """Return the logits of pairs as [pairs, 2 + layers, 2]."""
    rows = [
        torch.cat([logits.plain[[pair.original, pair.altered]], logits.patched[:, number]])
        for number, pair in enumerate(pairs)
    ]
    return torch.stack(rows)


SWEEPS: dict[str, dict[str, Callable[[Task], torch.Tensor]]] = {
    "ablation": {"loop": loop_ablation, "pyvene": pyvene_ablation, "sweep": sweep_ablation},
    "patching": {"loop": loop_patching, "pyvene": pyvene_patching, "sweep": sweep_patching},
}


# Measuring ----------------------------------------------------------------------------------------


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
    documents = sum(len(group.documents) for group in task.groups)
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


# Accounting ---------------------------------------------------------------------------------------


class ResidualBytes(TorchFunctionMode):
    """A mode that counts the bytes of all tensors with the width of residuals.

    What lives within a call of a block only, such as norms and queries, does not count.

    Attributes:
        peak: The most bytes at a time.
        tokens: The positions that went through the last block.
    """

    def __init__(self, decoder: Decoder) -> None:
        """Set the model, whose own parameters do not count."""
        super().__init__()
        self.peak = self.tokens = 0
        self._within = False
        self._parameters = {
            parameter.untyped_storage().data_ptr() for parameter in decoder.model.parameters()
        }
        self._alive: WeakValueDictionary[int, torch.UntypedStorage] = WeakValueDictionary()

    def watch(self, forward: Callable[..., Any], is_last: bool) -> Callable[..., Any]:
        """Return the forward function of a block, watched."""

        def run(*args: Any, **kwargs: Any) -> Any:
            hidden = args[0] if args else kwargs["hidden_states"]
            self.tokens += is_last * hidden.shape[0] * hidden.shape[1]
            self._within = True
            output = forward(*args, **kwargs)
            self._within = False
            self._measure()
            return output

        return run

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run a function, and count what it returns."""
        output = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and tensor.ndim and tensor.shape[-1] == HIDDEN:
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self._parameters:
                    self._alive[storage.data_ptr()] = storage
        if not self._within:
            self._measure()
        return output

    def _measure(self) -> None:
        self.peak = max(self.peak, sum(storage.nbytes() for storage in self._alive.values()))


def check_accounts(task: Task) -> list[str]:
    """Print the padding at several batch sizes and the copies, and return broken limits."""
    broken = []
    trees = sum(len(packing.build_tree(group.prompts).ids) for group in task.groups)
    print(f"{len(task.groups)} trees of {trees:,} tokens")
    for budget in BUDGETS:
        units = packing.work_units(task.groups, True, budget)
        tokens = sum(packing.group_batch(unit, True, torch.float32).ids.numel() for unit in units)
        print(
            f"  --batch-tokens {budget}: {tokens:,} tokens in {len(units)} batches, "
            f"{tokens / trees:.3f} times the trees' (at most {PADDING:g})"
        )
        if tokens > PADDING * trees:
            broken.append(f"--batch-tokens {budget}: too much padding")
    unit = max(packing.work_units(task.groups, True, runs.CPU_TOKENS), key=len)
    longest = max(task.groups, key=lambda group: max(map(len, group.prompts)))
    for kind, groups in (("ablation", unit), ("patching", [longest])):
        batch = packing.group_batch(groups, True, torch.float32)
        residuals = ResidualBytes(task.decoder)
        with ExitStack() as stack:
            for block in task.decoder.blocks:
                is_last = block is task.decoder.blocks[-1]
                forward = residuals.watch(block.module.forward, is_last)
                stack.enter_context(replaced_forward(block.module, forward))
            stack.enter_context(residuals)
            SWEEPS[kind]["sweep"](replace(task, groups=groups))
        branches = 4 * HIDDEN * (residuals.tokens - batch.ids.numel())
        # The plain run has its embeddings, and the residuals before and after a block.
        peak = residuals.peak - 3 * 4 * HIDDEN * batch.ids.numel()
        copies = peak / branches
        print(
            f"  {kind}: {peak:,} bytes of residuals besides the plain run's, {copies:.2f} times "
            f"the branches' (at most {COPIES:g})"
        )
        if copies > COPIES:
            broken.append(f"{kind}: too many copies")
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
