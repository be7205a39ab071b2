"""Compare the time and memory of fine-tuning by plain TRL, by our trainer, and by two passes.

    python benchmarks/train.py             # LoRA; takes some minutes
    python benchmarks/train.py --full      # all weights

A randomly initialized Qwen2 model of 12 layers trains on generated prompts, 8 a step, without and
with gradient checkpointing, in 1 and in 4 accumulation steps, and in three ways:

- plain: TRL's `SFTTrainer`
- ours: `LayerRegularizedSFTTrainer`, with ULA on 2 layers and HLS on 2
- released: the approach of the released code in TRL's trainer: a second forward pass each step, in
  which hooks keep the MLP outputs of the 4 layers to sum up their mean squares, padding included

The three take turns in one process, some steps at a time. On a CPU the time is the processor's, to
which other work on the machine adds little; on a GPU it is the clock's. Ratios are of steps of the
same round, and the median over rounds is printed. Memory is measured in a fresh process for each
way, as the most that training uses beyond what the process used before. If there is a GPU, the
benchmark runs on it in bfloat16 and measures its memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import permutations, product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from datasets import disable_progress_bars
from peft import LoraConfig
from tqdm import tqdm
from transformers import (
    AutoTokenizer,
    PrinterCallback,
    Qwen2Config,
    Qwen2ForCausalLM,
    TrainerCallback,
    logging,
)
from trl import SFTConfig, SFTTrainer

from pragworld_tasks.data.splits import generate_documents
from pragworld_train import LayerRegularizedSFTConfig, LayerRegularizedSFTTrainer
from pragworld_train.data import to_dataset

TINY = Path(__file__).parents[1] / "pragworld_tasks" / "tiny"
LAYERS, VOCABULARY, BATCH = 12, 4096, 8
USEFUL, HARMFUL, WEIGHT = [2, 8], [5, 10], 1e-3
LIMITS = {"time": 1.02, "memory": 1.01}  # relative to plain SFT
WAYS = ("plain", "ours", "released")
# Return freed memory at once: peaks are then of memory in use, not of what the allocator keeps.
EXACT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


@dataclass(frozen=True)
class Setup:
    """A model and how it is trained.

    Attributes:
        width: Width of the model.
        full: Whether to train all weights instead of LoRA adapters.
        steps: Steps that a way trains in its turn.
        checkpointing: Whether to use gradient checkpointing.
        accumulation: Number of parts that a step's batch is divided into.
        folder: Where trainers may write.
    """

    width: int
    full: bool
    steps: int
    checkpointing: bool
    accumulation: int
    folder: str


class TwoPassTrainer(SFTTrainer):  # type: ignore[misc]
    """A trainer that computes the losses from a second forward pass, as the released code does."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *others: Any, **options: Any) -> Any:
        """Return TRL's loss plus that of a second forward pass."""
        loss = super().compute_loss(model, inputs, *others, **options)
        kept: list[torch.Tensor] = []
        names = tuple(f"layers.{layer}.mlp" for layer in (*USEFUL, *HARMFUL))
        with ExitStack() as stack:
            for name, module in model.named_modules():
                if name.endswith(names):
                    keep = module.register_forward_hook(lambda _, __, output: kept.append(output))
                    stack.callback(keep.remove)
            model(**inputs, fused_lm_head=True)  # no logits of the prompt, which favours it
        return loss + WEIGHT * torch.stack([output.square().mean() for output in kept]).sum()


class Clock(TrainerCallback):  # type: ignore[misc]
    """A callback that measures the time of each step, including the loading of its data."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = 0.0

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Start measuring before the first batch is loaded."""
        self._last = _now()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Keep the time since the last step."""
        now = _now()
        self.seconds.append(now - self._last)
        self._last = now


def _now() -> float:
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def make_trainer(setup: Setup, way: str) -> Any:
    """Return a trainer with a model of its own. Each call of its `train` repeats the same steps."""
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=setup.width,
            intermediate_size=4 * setup.width,
            num_hidden_layers=LAYERS,
            num_attention_heads=setup.width // 64,
            num_key_value_heads=setup.width // 64,
        )
    )
    options: dict[str, Any] = {
        "output_dir": setup.folder,
        "per_device_train_batch_size": BATCH // setup.accumulation,
        "gradient_accumulation_steps": setup.accumulation,
        "max_steps": setup.steps,
        "gradient_checkpointing": setup.checkpointing,
        "bf16": torch.cuda.is_available(),
        "train_sampling_strategy": "sequential",
        "logging_steps": 1000,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    args = SFTConfig(**options)
    if way == "ours":
        args = LayerRegularizedSFTConfig(
            **options,
            useful_layers=USEFUL,
            harmful_layers=HARMFUL,
            ula_weight=WEIGHT,
            hls_weight=WEIGHT,
        )
    kinds = {"plain": SFTTrainer, "ours": LayerRegularizedSFTTrainer, "released": TwoPassTrainer}
    rows = generate_documents(groups=BATCH * setup.steps, split="train")
    trainer = kinds[way](
        model,
        args,
        train_dataset=to_dataset(rows[: BATCH * setup.steps]),
        processing_class=AutoTokenizer.from_pretrained(TINY),
        peft_config=None if setup.full else LoraConfig(r=8, target_modules="all-linear"),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def measure_time(setup: Setup, rounds: int) -> dict[str, list[float]]:
    """Return the seconds that a step takes, by way and round, after a round to warm up."""
    trainers, clocks = {}, {}
    for way in WAYS:
        trainers[way], clocks[way] = make_trainer(setup, way), Clock()
        trainers[way].add_callback(clocks[way])
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    orders = list(permutations(WAYS))  # so that no way always follows the same one
    for number in tqdm(range(rounds + 1), unit="round", disable=None):
        for way in orders[number % len(orders)]:
            clocks[way].seconds.clear()
            trainers[way].train()
            seconds[way].append(sum(clocks[way].seconds) / setup.steps)
    return {way: times[1:] for way, times in seconds.items()}


def measure_memory(setup: Setup, way: str) -> float:
    """Return the most megabytes that training uses beyond what was used before it."""
    make_trainer(replace(setup, width=64), way).train()  # to load what is loaded once
    trainer = make_trainer(setup, way)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        trainer.train()
        return float(torch.cuda.max_memory_allocated() - before) / 1e6
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # reset the peak
    used = resident("VmRSS")
    trainer.train()
    return resident("VmHWM") - used


def resident(name: str) -> float:
    """Return the megabytes that this process uses (VmRSS) or has used at most (VmHWM)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024 / 1e6


def memory_in_new_process(setup: Setup, way: str) -> float:
    """Run `measure_memory` in a process of its own."""
    command = [sys.executable, __file__, "--threads", str(torch.get_num_threads())]
    command += ["--memory", way, json.dumps(asdict(setup))]
    done = subprocess.run(command, env=os.environ | EXACT, stdout=subprocess.PIPE, check=True)
    return float(done.stdout.split()[-1])


def compare_ways(setup: Setup, rounds: int) -> list[str]:
    """Measure all ways, print times and memory, and return what exceeds a limit."""
    seconds = measure_time(setup, rounds)
    peaks = {way: memory_in_new_process(setup, way) for way in WAYS}
    title = f"{'all weights' if setup.full else 'LoRA'}, gradient checkpointing "
    title += "on" if setup.checkpointing else "off"
    title += f", accumulation {setup.accumulation}"
    print(f"{title}:")
    exceeded = []
    for way in WAYS:
        pairs = zip(seconds[way], seconds["plain"], strict=True)
        ratios = [step / plain for step, plain in pairs]
        measured = {"time": median(ratios), "memory": peaks[way] / peaks["plain"]}
        print(
            f"  {way:8}  {median(seconds[way]):6.2f} s a step, {measured['time']:.3f} times plain "
            f"({min(ratios):.3f} to {max(ratios):.3f});  {peaks[way]:5.0f} MB, "
            f"{measured['memory']:.3f} times plain",
            flush=True,
        )
        if way == "ours":
            exceeded += [f"{title}: {name}" for name in LIMITS if measured[name] > LIMITS[name]]
    return exceeded


def main() -> None:
    """Print times, memory and ratios, and fail if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="train all weights, not LoRA adapters")
    parser.add_argument("--width", type=int, default=384, help="width of the model; default: 384")
    parser.add_argument(
        "--steps", type=int, default=2, help="steps of a way in its turn; default: 2"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds in which all take turns; default: 5"
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of torch; default: 2")
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore")
    logging.set_verbosity_error()
    disable_progress_bars()
    if options.memory:
        way, setup = options.memory
        print(measure_memory(Setup(**json.loads(setup)), way))
        return
    exceeded = []
    with tempfile.TemporaryDirectory() as folder:
        for checkpointing, accumulation in product((False, True), (1, 4)):
            setup = Setup(
                options.width, options.full, options.steps, checkpointing, accumulation, folder
            )
            exceeded += compare_ways(setup, options.rounds)
    limits = ", ".join(f"{name} {limit:g}" for name, limit in LIMITS.items())
    print(f"limits of ours, relative to plain: {limits}")
    if exceeded:
        sys.exit(f"limits exceeded: {'; '.join(exceeded)}")


if __name__ == "__main__":
    main()
