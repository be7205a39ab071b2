"""Sweeps of models that are divided among processes by tensor parallelism.

    torchrun --nproc_per_node 2 tests/divided_models.py FOLDER

`prepare` writes the models to FOLDER. Each process writes there what it found.
"""

import json
import shutil
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from small_models import LabelsOnly, small_model
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PhiConfig,
    PhiForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.distributed import DistributedConfig
from transformers.utils import logging

from pragworld_interp import ablate, runs
from pragworld_interp.ablation import ablated_logits, build_ablation
from pragworld_interp.alignment import align_tokens
from pragworld_interp.attribution import attributed_logits
from pragworld_interp.cli import main
from pragworld_interp.decoder import Decoder, from_model
from pragworld_interp.loading import Model, load_decoder
from pragworld_interp.packing import build_tree, pack_trees, pad_prompts
from pragworld_interp.patching import PatchingPair, patched_logits
from pragworld_interp.positions import PromptParts
from pragworld_interp.runs import process_state
from pragworld_interp.tokenization import PromptGroup
from pragworld_tasks.data.own_documents import read_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.layer_report import Intervention
from pragworld_tasks.layers.targets import Target, every_layer
from pragworld_tasks.tiny import tiny_folder

# Plans differ by norms of heads, packed matrices and experts. Qwen 2 and Mistral have Llama's.
ARCHITECTURES = ("llama", "gemma3_text", "phi", "phi3", "qwen3_moe")
# transformers has no plan for the first; the second has one head of keys, which two cannot share.
REFUSED = ("gpt2", "one head of keys")
PROMPTS = ([1, 7, 8, 50, *range(20, 30)], [1, 7, 8, 51, *range(20, 30)], [1, 9, 8, 7, 6])
PAIRS = [PatchingPair(0, 1, align_tokens(PROMPTS[0], PROMPTS[1])), PatchingPair(1, 2, [(3, 2)])]
GROUP = PromptGroup((), PROMPTS, (PromptParts(),) * 3)
HEADS = tuple(Target((layer,), head) for layer in (0, 2) for head in range(4))
DOCUMENTS = [
    {
        "context": f"Zoe: {name} has the key.\nMax: {thing}.",
        "question": "Does Ann have the key?",
        "answer": "yes" if name == "Ann" else "no",
        "group": group,
        "alteration": None if name == "Ann" else "Variable Swap",
    }
    for group, thing in enumerate(("I see", "That is good to know", "She told me so yesterday"))
    for name in ("Ann", "Bob")
]
COMMANDS = {
    "layers": ("ablate", "--module", "heads", "--layers", "1", "--batch-tokens", "1"),
    "patching": ("patch", "--method", "attribution", "--check-pairs", "1"),
}


@cache
def model_of(architecture: str) -> Any:
    """Return a small model. Phi's unembedding has a bias, and its rows cannot be halved."""
    if architecture != "phi":
        return small_model(architecture)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3}
    config = PhiConfig(vocab_size=97, num_attention_heads=4, initializer_range=0.3, **sizes)
    model = PhiForCausalLM(config).eval()
    torch.nn.init.normal_(model.lm_head.bias)
    return model


def prepare(folder: Path) -> None:
    """Write the models and the documents."""
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DOCUMENTS))
    for architecture in (*ARCHITECTURES, "gpt2"):
        model_of(architecture).save_pretrained(folder / architecture)
    config = Qwen3Config.from_pretrained(tiny_folder(), num_key_value_heads=1)
    Qwen3ForCausalLM(config).save_pretrained(folder / "one head of keys")
    for name in REFUSED:
        for file in tiny_folder().glob("token*"):
            shutil.copy(file, folder / name)


def logits(decoder: Decoder) -> dict[str, Tensor]:
    """Return the logits of sweeps of all kinds."""
    found = {}
    layers, heads = every_layer(3), HEADS
    tree, rows = pack_trees([build_tree(PROMPTS)], decoder.dtype), pad_prompts(PROMPTS)
    for name, intervention, targets, batch in (
        ("mlp", Intervention("mlp", "mean", None), layers, tree),
        ("attention", Intervention("attention", "resample", 0), layers, rows),
        ("heads", Intervention("heads", "zero", None), heads, tree),
        ("sampled heads", Intervention("heads", "resample", 0), heads, rows),
    ):
        ablation = build_ablation(decoder, [GROUP], intervention, targets)
        found[name] = ablated_logits(decoder, batch, ablation, 20)
    (patched,) = patched_logits(decoder, [PROMPTS], [PAIRS], True, 20)
    attributed = attributed_logits(decoder, PROMPTS, PAIRS, [(0, 1)] * len(PROMPTS))
    found |= {"plain": patched.plain, "patched": patched.patched}
    return found | {"attributed": attributed.patched}


def divided(folder: Path) -> Any:
    """Return a model that transformers divides among the processes."""
    settings = DistributedConfig(tp_plan="auto")
    return AutoModelForCausalLM.from_pretrained(folder, distributed_config=settings)


def run_command(name: str, folder: Path, out: Path, *options: str) -> None:
    """Run one of the commands on the small model and the documents in a folder."""
    command, *rest = COMMANDS[name]
    data = ("--model", str(tiny_folder()), "--documents", str(folder / "own.jsonl"))
    main([command, *data, *rest, "--out", str(out), *options])


def refusal(folder: Path) -> str:
    """Return the error with which a model is refused."""
    try:
        load_decoder(Model(str(folder), tensor_parallel=True))
    except InputError as error:
        return str(error)
    return ""


def interrupted(units: int) -> Any:
    """Return a patch that interrupts a run after some units."""
    work = runs.MemoryLimit.work
    done: list[Any] = []

    def work_or_stop(self: Any, items: Any) -> Any:
        if len(done) == units:
            raise KeyboardInterrupt
        done.append(work(self, items))
        return done[-1]

    return mock.patch.object(runs.MemoryLimit, "work", work_or_stop)


def run(folder: Path) -> None:
    """Sweep all models in this process and those that share it, and write what was found."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    state = process_state()
    for architecture in ARCHITECTURES:
        found = logits(from_model(divided(folder / architecture), LabelsOnly()))
        torch.save(found, folder / f"{architecture}.{state.process_index}.pt")
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
    report = ablate(divided(tiny_folder()), tokenizer, read_documents(folder / "own.jsonl"))
    report.write(folder / f"ablated.{state.process_index}.json")
    for name in COMMANDS:
        run_command(name, folder, folder / name, "--tensor-parallel")
    shards = folder / "shards"
    divided_run = ("layers", folder, shards / "layers", "--tensor-parallel", "--shard")
    with interrupted(units=1), suppress(SystemExit):
        run_command(*divided_run, "1/2")
    state.wait_for_everyone()
    left = [path.name for path in shards.iterdir()]
    for shard in ("1/2", "2/2"):
        run_command(*divided_run, shard)
    assert left == [".layers.shard-1-of-2.journal-0"], left
    refusals = {name: refusal(folder / name) for name in REFUSED}
    (folder / f"refusals.{state.process_index}.json").write_text(json.dumps(refusals))


if __name__ == "__main__":
    run(Path(sys.argv[1]))
