"""Compare the memory that a plan states for training with the most that a run uses.

    python benchmarks/plan_memory.py  # some minutes

A randomly initialized Qwen2 model of 12 layers trains for two steps on 8 generated prompts each,
LoRA or all weights, with ULA and HLS as in `train.py` and otherwise with `pragworld-train`'s
defaults. Memory is the most that training uses in a fresh process, beyond what the process used
before, such as for the model's weights. On a CPU, training is in float32. Logits are of labels
only, as on a GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict

import torch
from train import BATCH, EXACT, Setup, make_trainer, measure_memory
from transformers import logging
from trl.trainer import utils

from pragworld_interp.model_costs import model_costs
from pragworld_interp.workload import plan_inputs, plan_training
from pragworld_tasks.data.splits import generate_documents

STEPS = 2


def planned(setup: Setup) -> float:
    """Return the megabytes that a plan states beside those of the model's weights."""
    trainer = make_trainer(setup, "ours")
    tokenizer = trainer.processing_class
    decoder, costs = model_costs(trainer.model.config, torch.float32, tokenizer)
    documents = generate_documents(groups=BATCH * STEPS, split="train")[: BATCH * STEPS]
    work = plan_training(plan_inputs(decoder, costs, documents, budget=2048), not setup.full)
    return (work.held_bytes + work.working_bytes - costs.weight_bytes) / 1e6


def measured(setup: Setup) -> float:
    """Return the megabytes that training uses in a process of its own."""
    command = [sys.executable, __file__, "--measure", json.dumps(asdict(setup))]
    done = subprocess.run(command, env=os.environ | EXACT, stdout=subprocess.PIPE, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print both for LoRA and for all weights."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=int, default=384, help="width of the model; default: 384")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.set_verbosity_error()
    if options.measure:
        utils._use_triton = lambda device: True  # for logits of labels only
        print(measure_memory(Setup(**json.loads(options.measure)), "ours"))
        return
    with tempfile.TemporaryDirectory() as folder:
        for full in (False, True):
            setup = Setup(options.width, full, STEPS, True, 1, folder)
            plan, run = planned(setup), measured(setup)
            name = "all weights" if full else "LoRA"
            print(f"{name}: planned {plan:.0f} MB, measured {run:.0f} MB, {plan / run:.2f} times")


if __name__ == "__main__":
    main()
