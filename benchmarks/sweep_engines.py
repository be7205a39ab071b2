"""What `sweep.py`, `sweep_accounts.py` and `gpu_check.py` run: sweeps by three engines.

The engines are ours, pyvene, and a loop that does what the released scripts do: one prompt and one
layer at a time, with the logits of the whole vocabulary at every position. The model is one that is
named, for which documents are generated; or a randomly initialized Qwen2-shaped one with 12 layers,
hidden size 384 and a vocabulary of 32,000, with documents from the manual split if it is available
(PRAGWORLD_DATA, or the cache).
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from pragworld_interp.engine import agreement
from pragworld_interp.engine.decoder import Decoder, from_model
from pragworld_interp.engine.interventions import Engine, ModuleChange
from pragworld_interp.engine.one_pass import OnePassEngine
from pragworld_interp.prompts.alignment import PatchingPair, patching_pairs
from pragworld_interp.prompts.examples import document_examples
from pragworld_interp.prompts.tokenization import PromptGroup, group_prompts, tokenize_prompts
from pragworld_interp.run.loading import Model, load_decoder
from pragworld_interp.run.observations import default_budget
from pragworld_tasks.data import sources
from pragworld_tasks.data.documents import Document, ReleasedSplit
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.layers.settings import every_layer

LAYERS, HIDDEN, VOCABULARY = 12, 384, 32_000


@dataclass(frozen=True)
class Task:
    """A model and the groups of documents to sweep it on."""

    decoder: Decoder
    groups: list[PromptGroup]
    trees: bool

    @property
    def pairs(self) -> list[list[PatchingPair]]:
        """The pairs of each group."""
        return [patching_pairs(group, "all") for group in self.groups]


def make_task(count: int, model: Model | None = None) -> Task:
    """Return a model, or the random one, and at least `count` documents in whole groups."""
    chosen = load_documents(count, None if model else "manual")
    if model:
        decoder, _ = load_decoder(model)
    else:
        decoder = from_model(make_model(), train_tokenizer(chosen))
    examples = document_examples(chosen)
    prompts = tokenize_prompts(decoder.tokenizer, examples, chat_template=False)
    groups = group_prompts(examples, prompts)
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


def load_documents(count: int, split: ReleasedSplit | None = "manual") -> list[Document]:
    """Return documents of a split if it is available, else generated ones."""
    if split and sources.locate(split):
        available = sources.load_split(split)
    else:
        print("using generated documents", file=sys.stderr)
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
            original, altered = group.prompts[pair.target], group.prompts[pair.source]
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


def run_ablation(make_engine: Callable[[Task], Engine], task: Task) -> torch.Tensor:
    """Compute the logits of `loop_ablation` with an engine."""
    engine, budget = make_engine(task), default_budget(task.decoder.device)
    zeros = ModuleChange("mlp", every_layer(len(task.decoder.blocks)))
    results = []
    for unit in engine.units(task.groups, zeros, budget):
        found = engine.logits(unit, zeros, budget)
        results.append(torch.cat([found.plain[None], found.changed]))
    return torch.cat(results, 1).transpose(0, 1)


def run_patching(make_engine: Callable[[Task], Engine], task: Task) -> torch.Tensor:
    """Compute the logits of `loop_patching` with an engine."""
    engine, budget = make_engine(task), default_budget(task.decoder.device)
    pairs = {group.number: own for group, own in zip(task.groups, task.pairs, strict=True)}
    change = ModuleChange("residual", every_layer(len(task.decoder.blocks)), pairs=pairs)
    results = []
    for unit in engine.units(task.groups, change, budget):
        found = engine.logits(unit, change, budget)
        plain, changed = iter(found.plain), iter(found.changed.unbind(1))
        for group in unit:
            own = torch.stack([next(plain) for _ in group.prompts])
            for pair in pairs[group.number]:
                results.append(torch.cat([own[[pair.target, pair.source]], next(changed)]))
    return torch.stack(results)


def sweep_engine(task: Task) -> Engine:
    """Return our engine."""
    return OnePassEngine(task.decoder, task.trees)


def pyvene_engine(task: Task) -> Engine:
    """Return pyvene's engine."""
    from pragworld_interp.engine.pyvene_engine import PyveneEngine

    return PyveneEngine(task.decoder)


SWEEPS: dict[str, dict[str, Callable[[Task], torch.Tensor]]] = {
    "ablation": {
        "loop": loop_ablation,
        "pyvene": partial(run_ablation, pyvene_engine),
        "sweep": partial(run_ablation, sweep_engine),
    },
    "patching": {
        "loop": loop_patching,
        "pyvene": partial(run_patching, pyvene_engine),
        "sweep": partial(run_patching, sweep_engine),
    },
}
