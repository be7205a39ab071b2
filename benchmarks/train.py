"""What the losses of layers cost: fine-tuning by plain TRL, by ours, and by two forward passes.

    python benchmarks/train.py             # LoRA; some minutes
    python benchmarks/train.py --full      # all weights

A randomly initialised Qwen2-shaped model of 12 layers learns generated prompts, 8 a step, without
and with gradient checkpointing, in three ways:

- plain: TRL's `SFTTrainer`
- ours: `LayerRegularizedSFTTrainer`, ULA on 2 layers and HLS on 2
- released: what the released code does, in the same trainer: a second forward pass each step, in
  which hooks keep the MLP outputs of the 4 layers, whose mean squares are added up, padding and all

The ways take turns, some steps at a time, in one process; ratios are of the steps of one round, and
what is printed is the median over rounds. Memory is measured in a fresh process for each way: the
most that training takes beyond what the process had before. Where there is a GPU it is used, in
bfloat16, and its memory is measured.
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
from itertools import permutations
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

from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_train import LayerRegularizedSFTConfig, LayerRegularizedSFTTrainer
from pragworld_train.data import to_dataset

TINY = Path(__file__).parents[1] / "pragworld_tasks" / "tiny"
LAYERS, VOCABULARY, BATCH = 12, 4096, 8
USEFUL, HARMFUL, WEIGHT = [2, 8], [5, 10], 1e-3
LIMIT = 1.10  # of plain SFT's time and memory, at most
WAYS = ("plain", "ours", "released")
# Freed memory goes back at once, so that a peak is what is held, not what the allocator keeps.
EXACT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


@dataclass(frozen=True)
class Task:
    """What is trained, and how."""

    width: int
    full: bool  # all weights, else LoRA adapters of rank 8 on all linear layers
    steps: int  # that a way takes in its turn, each on a batch of its own
    checkpointing: bool  # of gradients
    folder: str  # where trainers may write


class Released(SFTTrainer):  # type: ignore[misc]
    """The released scheme."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *others: Any, **options: Any) -> Any:
        """TRL's loss, and that of a second pass."""
        loss = super().compute_loss(model, inputs, *others, **options)
        kept: list[torch.Tensor] = []
        names = tuple(f"layers.{layer}.mlp" for layer in (*USEFUL, *HARMFUL))
        with ExitStack() as stack:
            for name, module in model.named_modules():
                if name.endswith(names):
                    keep = module.register_forward_hook(lambda _, __, output: kept.append(output))
                    stack.callback(keep.remove)
            model(**inputs, fused_lm_head=True)  # without logits of the whole prompt: in its favour
        return loss + WEIGHT * torch.stack([output.square().mean() for output in kept]).sum()


class Clock(TrainerCallback):  # type: ignore[misc]
    """Takes the time from one step's end to the next one's, loading of data included."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = 0.0

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Before the first batch is loaded."""
        self._last = _now()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """After the weights were changed."""
        now = _now()
        self.seconds.append(now - self._last)
        self._last = now


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def make_trainer(task: Task, way: str) -> Any:
    """A trainer, with a model of its own; every call of its `train` takes the same steps more."""
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=task.width,
            intermediate_size=4 * task.width,
            num_hidden_layers=LAYERS,
            num_attention_heads=task.width // 64,
            num_key_value_heads=task.width // 64,
        )
    )
    options: dict[str, Any] = {
        "output_dir": task.folder,
        "per_device_train_batch_size": BATCH,
        "max_steps": task.steps,
        "gradient_checkpointing": task.checkpointing,
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
    kinds = {"plain": SFTTrainer, "ours": LayerRegularizedSFTTrainer, "released": Released}
    rows = list(documents(generate(GeneratorSettings(groups=BATCH * task.steps, split="train"))))
    trainer = kinds[way](
        model,
        args,
        train_dataset=to_dataset(rows[: BATCH * task.steps]),
        processing_class=AutoTokenizer.from_pretrained(TINY),
        peft_config=None if task.full else LoraConfig(r=8, target_modules="all-linear"),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def measure_time(task: Task, rounds: int) -> dict[str, list[float]]:
    """Seconds a step of each way in each round, after one that does not count."""
    trainers, clocks = {}, {}
    for way in WAYS:
        trainers[way], clocks[way] = make_trainer(task, way), Clock()
        trainers[way].add_callback(clocks[way])
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    orders = list(permutations(WAYS))  # so that none always comes behind the same
    for number in tqdm(range(rounds + 1), unit="round", disable=None):
        for way in orders[number % len(orders)]:
            clocks[way].seconds.clear()
            trainers[way].train()
            seconds[way].append(sum(clocks[way].seconds) / task.steps)
    return {way: each[1:] for way, each in seconds.items()}


def measure_memory(task: Task, way: str) -> float:
    """The most megabytes that training takes beyond what there was before it."""
    make_trainer(replace(task, width=64), way).train()  # what is loaded once does not count
    trainer = make_trainer(task, way)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        trainer.train()
        return float(torch.cuda.max_memory_allocated() - before) / 1e6
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts anew
    held = resident("VmRSS")
    trainer.train()
    return resident("VmHWM") - held


def resident(name: str) -> float:
    """Megabytes that this process has (VmRSS) or has had at most (VmHWM)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024 / 1e6


def memory_of(task: Task, way: str) -> float:
    """What `measure_memory` finds in a process of its own."""
    command = [sys.executable, __file__, "--threads", str(torch.get_num_threads())]
    command += ["--memory", way, json.dumps(asdict(task))]
    done = subprocess.run(command, env=os.environ | EXACT, stdout=subprocess.PIPE, check=True)
    return float(done.stdout.split()[-1])


def compare(task: Task, rounds: int) -> list[str]:
    """Measures all ways, prints what they took, and says which limits do not hold."""
    seconds = measure_time(task, rounds)
    peaks = {way: memory_of(task, way) for way in WAYS}
    title = f"{'all weights' if task.full else 'LoRA'}, gradient checkpointing "
    title += "on" if task.checkpointing else "off"
    print(f"{title}:")
    broken = []
    for way in WAYS:
        ratios = [one / plain for one, plain in zip(seconds[way], seconds["plain"], strict=True)]
        found = {"time": median(ratios), "memory": peaks[way] / peaks["plain"]}
        print(
            f"  {way:8}  {median(seconds[way]):6.2f} s a step, {found['time']:.3f} times plain "
            f"({min(ratios):.3f} to {max(ratios):.3f});  {peaks[way]:5.0f} MB, "
            f"{found['memory']:.3f} times plain"
        )
        if way == "ours":
            broken += [f"{title}: {name}" for name, ratio in found.items() if ratio > LIMIT]
    return broken


def main() -> None:
    """Prints times, memory and ratios; ends with an error where a limit does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="train all weights, not LoRA adapters")
    parser.add_argument("--width", type=int, default=384, help="of the model; default: 384")
    parser.add_argument("--steps", type=int, default=2, help="of a way in its turn; default: 2")
    parser.add_argument("--rounds", type=int, default=5, help="of turns; default: 5")
    parser.add_argument("--threads", type=int, default=2, help="of torch; default: 2")
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore")
    logging.set_verbosity_error()
    disable_progress_bars()
    if options.memory:
        way, task = options.memory
        print(measure_memory(Task(**json.loads(task)), way))
        return
    broken = []
    with tempfile.TemporaryDirectory() as folder:
        for checkpointing in (False, True):
            task = Task(options.width, options.full, options.steps, checkpointing, folder)
            broken += compare(task, options.rounds)
    print(f"limits: ours at most {LIMIT:g} times plain, in time and in memory")
    if broken:
        sys.exit(f"over the limit: {'; '.join(broken)}")


if __name__ == "__main__":
    main()
