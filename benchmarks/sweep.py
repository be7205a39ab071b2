"""How long sweeps over all layers take: ours, pyvene, and a loop over prompts and layers.

    python benchmarks/sweep.py                  # ablation and patching; some minutes
    python benchmarks/sweep.py --documents 120

On documents of the manual split where it is there (PRAGWORLD_DATA, or the cache), else generated
ones, and a randomly initialised Qwen2-shaped model of 12 layers, hidden 384, vocabulary 32,000. The
loop is what the released scripts do: one prompt at a time, one layer at a time, logits of the whole
vocabulary at every position. The three ways take turns, group by group, in one process; their
memory is measured in processes of their own.
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

import torch
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm
from transformers import Qwen2Config, Qwen2ForCausalLM

from pragworld_interp import ablation, packing, patching, runs
from pragworld_interp.ablation import Ablation
from pragworld_interp.decoder import Decoder, from_model
from pragworld_interp.patching import PatchedLogits, PatchingPair
from pragworld_interp.tokenization import PromptGroup, group_prompts, tokenize_prompts
from pragworld_tasks.data import sources
from pragworld_tasks.data.documents import Document
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings

LAYERS, HIDDEN, VOCABULARY = 12, 384, 32_000
LIMIT = 4.0  # times as fast as the loop and pyvene, at least
BOUND = 0.6  # of the matrix products' speed, at least
CLOSE = 1e-4  # probabilities, at most apart
FLAT, BOUNDED = 1.15, 64  # times as long for a document, and megabytes more, with twice as many
WAYS = ("loop", "pyvene", "ours")


@dataclass(frozen=True)
class Task:
    """What is swept."""

    decoder: Decoder
    groups: list[PromptGroup]
    trees: bool

    @property
    def pairs(self) -> list[list[PatchingPair]]:
        """Of each group."""
        return [patching.patching_pairs(group, "all") for group in self.groups]


def the_task(count: int) -> Task:
    """The model, and at least so many documents in whole groups."""
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            intermediate_size=4 * HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=6,
            num_key_value_heads=6,
            initializer_range=0.05,
        )
    )
    found = some_documents(count)
    decoder = from_model(model, words_tokenizer(found))
    groups = group_prompts(found, tokenize_prompts(decoder, found, chat_template=False))
    return Task(decoder, groups, packing.supports_trees(decoder))


def some_documents(count: int) -> list[Document]:
    """Of the manual split if it is there."""
    if sources.locate("manual"):
        every = sources.load_split("manual")
    else:
        print("no manual split here: generated documents", file=sys.stderr)
        every = list(documents(generate(GeneratorSettings(groups=count))))
    last = every[count - 1].group
    return [document for document in every if document.group <= last]


def words_tokenizer(found: list[Document]) -> Any:
    """Byte-level BPE trained on the documents, as long on words as tokenizers of large models."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = ByteLevelBPETokenizer()
    texts = [f"{one.context} {one.question} yes no yes no" for one in found]
    tokenizer.train_from_iterator(texts, vocab_size=4000, show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer)


# The three ways -----------------------------------------------------------------------------------


@torch.inference_mode()
def loop_ablation(task: Task) -> torch.Tensor:
    """[documents, 1 + layers, 2] logits, by a loop."""
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
    """Logits of all words at all positions, of which two are read."""
    logits: torch.Tensor = decoder.model(input_ids=torch.tensor([prompt]), use_cache=False).logits
    return logits[0, -1, list(decoder.labels)].clone()


@torch.inference_mode()
def loop_patching(task: Task) -> torch.Tensor:
    """[pairs, 2 + layers, 2] logits: original, altered, patched at each layer; by a loop."""
    results = []
    for group, pairs in zip(task.groups, task.pairs, strict=True):
        for pair in pairs:
            original, altered = group.prompts[pair.original], group.prompts[pair.altered]
            altered_run, kept = run_and_residuals(task.decoder, altered)
            row = [full_run(task.decoder, original), altered_run]
            targets, from_ = (list(each) for each in zip(*pair.alignment, strict=True))
            for block, residuals in zip(task.decoder.blocks, kept, strict=True):
                patch = partial(patched_input, targets=targets, residuals=residuals[0, from_])
                handle = block.module.register_forward_pre_hook(patch)
                row.append(full_run(task.decoder, original))
                handle.remove()
            results.append(torch.stack(row))
    return torch.stack(results)


def run_and_residuals(
    decoder: Decoder, prompt: list[int]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The logits, and what goes into each block."""
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
    """What a block is called with, other residuals at some positions."""
    hidden = args[0].clone()
    hidden[0, targets] = residuals
    return (hidden, *args[1:])


def our_ablation(task: Task) -> torch.Tensor:
    """The same as `loop_ablation`, by the engine."""
    found = []
    for unit in ablation.work_units(task.groups, task.trees, runs.CPU_TOKENS):
        batch = ablation.group_batch(unit, task.trees, task.decoder.dtype)
        found.append(ablation.ablated_logits(task.decoder, batch, Ablation("mlp"), runs.CPU_TOKENS))
    return torch.cat(found, 1).transpose(0, 1)


def our_patching(task: Task) -> torch.Tensor:
    """The same as `loop_patching`, by the engine."""
    found = []
    for group, pairs in zip(task.groups, task.pairs, strict=True):
        logits = patching.patched_logits(
            task.decoder, group.prompts, pairs, task.trees, runs.CPU_TOKENS
        )
        found.append(pair_rows(pairs, logits))
    return torch.cat(found)


def pyvene_ablation(task: Task) -> torch.Tensor:
    """The same as `loop_ablation`, by pyvene."""
    from pragworld_interp import reference

    prompts = [prompt for group in task.groups for prompt in group.prompts]
    return reference.reference_ablated_logits(task.decoder, prompts, Ablation("mlp")).transpose(
        0, 1
    )


def pyvene_patching(task: Task) -> torch.Tensor:
    """The same as `loop_patching`, by pyvene."""
    from pragworld_interp import reference

    found = []
    for group, pairs in zip(task.groups, task.pairs, strict=True):
        found.append(
            pair_rows(pairs, reference.reference_patched_logits(task.decoder, group.prompts, pairs))
        )
    return torch.cat(found)


def pair_rows(pairs: list[PatchingPair], logits: PatchedLogits) -> torch.Tensor:
    """[pairs, 2 + layers, 2]."""
    rows = [
        torch.cat([logits.plain[[pair.original, pair.altered]], logits.patched[:, number]])
        for number, pair in enumerate(pairs)
    ]
    return torch.stack(rows)


SWEEPS: dict[str, dict[str, Callable[[Task], torch.Tensor]]] = {
    "ablation": {"loop": loop_ablation, "pyvene": pyvene_ablation, "ours": our_ablation},
    "patching": {"loop": loop_patching, "pyvene": pyvene_patching, "ours": our_patching},
}


# Measuring ----------------------------------------------------------------------------------------


def measure_time(task: Task, sweep: str) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Seconds, and p(yes) of every run, of each way; they take turns, so that noise is shared."""
    seconds = dict.fromkeys(WAYS, 0.0)
    found: dict[str, list[torch.Tensor]] = {way: [] for way in WAYS}
    for way in WAYS:  # what is set up once does not count
        SWEEPS[sweep][way](replace(task, groups=task.groups[:1]))
    for number, group in enumerate(tqdm(task.groups, desc=sweep, unit="group", disable=None)):
        for way in (*WAYS[number % 3 :], *WAYS[: number % 3]):
            start = time.perf_counter()
            logits = SWEEPS[sweep][way](replace(task, groups=[group]))
            seconds[way] += time.perf_counter() - start
            found[way].append(logits.softmax(-1)[..., 0])
    return seconds, {way: torch.cat(each) for way, each in found.items()}


def measure_memory(task: Task, sweep: str, way: str) -> list[float]:
    """The most megabytes that this process has had: with the largest group, all, all twice.

    Ways that run prompts one by one need as much for one group as for all.
    """
    run = SWEEPS[sweep][way]
    run(replace(task, groups=[max(task.groups, key=lambda group: sum(map(len, group.prompts)))]))
    peaks = [peak_megabytes()]
    for times in (1, 2) if way == "ours" else ():
        run(replace(task, groups=task.groups * times))
        peaks.append(peak_megabytes())
    return peaks


def peak_megabytes() -> float:
    """The most memory that this process has had; what `getrusage` says may be its parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def tokens_through_blocks(task: Task, run: Callable[[Task], torch.Tensor]) -> int:
    """How many positions go through a block, all blocks summed."""
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


def matrix_product_speed() -> float:
    """Floating-point operations a second, in products of the model's shape."""
    rows = torch.randn(runs.CPU_TOKENS, HIDDEN)
    wide = torch.randn(HIDDEN, 4 * HIDDEN)
    best = 0.0
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(5):
            rows @ wide
        seconds = (time.perf_counter() - start) / 5
        best = max(best, 2 * rows.numel() * wide.shape[1] / seconds)
    return best


def compare(task: Task, sweep: str, count: int) -> list[str]:
    """Runs all ways, prints what they took, and says which limits are broken."""
    seconds, values = measure_time(task, sweep)
    documents = sum(len(group.documents) for group in task.groups)
    broken = []
    print(f"{sweep}, {documents} documents, {LAYERS} layers:")
    for way in WAYS:
        command = [sys.executable, __file__, "--documents", str(count), "--memory", sweep, way]
        peaks = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        apart = float((values[way] - values["loop"]).abs().max())
        same = torch.equal(values[way] > 0.5, values["loop"] > 0.5)
        print(
            f"  {way}: {seconds[way]:.1f} s, {seconds[way] / seconds['ours']:.2f} times ours; peak "
            f"memory {peaks[0]:.0f} MB; probabilities within {apart:.1e} of the loop's, "
            f"{'all' if same else 'NOT ALL'} predictions the same"
        )
        if apart > CLOSE or not same:
            broken.append(f"{sweep}: {way} differs from the loop")
    ours = SWEEPS[sweep]["ours"]
    with FlopCounterMode(display=False) as counter:
        tokens = tokens_through_blocks(task, ours)
    speed = matrix_product_speed()
    share = counter.get_total_flops() / speed / seconds["ours"]
    print(
        f"  ours: {tokens:,} tokens through blocks; matrix products alone would take {share:.0%} "
        f"of the time at {speed / 1e9:.0f} GFLOP/s"
    )
    start = time.perf_counter()
    ours(replace(task, groups=task.groups * 2))
    grown = (time.perf_counter() - start) / 2 / seconds["ours"]
    more = peaks[2] - peaks[1]
    print(f"  ours, twice as many documents: {grown:.2f} times as long for each, {more:+.0f} MB")
    if grown > FLAT or more > BOUNDED:
        broken.append(f"{sweep}: time or memory for a document grows with their number")
    for way in ("loop", "pyvene"):
        if seconds[way] < LIMIT * seconds["ours"]:
            broken.append(f"{sweep}: less than {LIMIT:g} times as fast as {way}")
    if share < BOUND:
        broken.append(f"{sweep}: under {BOUND:.0%} of the matrix products' speed")
    return broken


def main() -> None:
    """Prints times, ratios, differences; ends with an error where a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=60, help="at least so many; default: 60")
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(2)
    task = the_task(options.documents)
    if options.memory:
        print(json.dumps(measure_memory(task, *options.memory)))
        return
    broken = [line for sweep in SWEEPS for line in compare(task, sweep, options.documents)]
    if broken:
        sys.exit("; ".join(broken))


if __name__ == "__main__":
    main()
