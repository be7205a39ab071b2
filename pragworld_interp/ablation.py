"""Ablation: the answers of a model with the MLP or the attention of one layer ablated.

Each layer in turn, at all positions (PragWorld paper, section 6.2). The output of the module is
replaced by zeros, by its mean over the data, or by its output at a random position of a random
prompt ("resample").
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from pragworld_interp.decoder import Block, Decoder
from pragworld_interp.layer_report import Intervention, Module
from pragworld_interp.modules import first_tensor, replaced_forward, with_tensor
from pragworld_interp.packing import Batch
from pragworld_interp.rope import rope_of_each_row
from pragworld_interp.runs import divide_prompts
from pragworld_interp.sweep import LiveBlock, sweep_layers
from pragworld_interp.tokenization import PromptGroup, gold_probabilities

SAMPLES = 256  # the outputs of each layer that "resample" draws from


@dataclass(frozen=True)
class Ablation:
    """The module that is ablated in each layer, and the outputs that replace its own.

    The text up to a position decides which of the samples that position gets.
    """

    module: Module
    outputs: Tensor | None = None  # [layers, samples, width]; None stands for zeros

    def output(self, layer: int, like: Tensor, history: Tensor) -> Tensor:
        """Return the output of a layer's module for the [rows, length] hashed histories.

        It has the shape, [rows, length, width], the type and the device of `like`.
        """
        if self.outputs is None:
            return torch.zeros_like(like)
        samples = self.outputs[layer].to(like)
        return samples[history.to(like.device) % len(samples)]


def ablated_module(block: Block, module: Module) -> torch.nn.Module:
    """Return the MLP or the attention of a block."""
    return block.mlp if module == "mlp" else block.attention


def ablated_logits(decoder: Decoder, batch: Batch, ablation: Ablation, chunk: int) -> Tensor:
    """Compute the logits of the labels in the plain run and with each layer ablated.

    Args:
        decoder: The model.
        batch: The prompts.
        ablation: The ablation of every layer in turn.
        chunk: Roughly how many tokens go through a block at a time.

    Returns:
        [1 + layers, prompts, labels] logits, the plain run first.
    """
    layers = len(decoder.blocks)
    rows = torch.arange(len(batch.ids), device=decoder.device).repeat(layers)
    history = batch.history.to(decoder.device)
    plain = branches = torch.empty(0, device=decoder.device)

    def at_layer(live: LiveBlock, hidden: Tensor) -> Tensor:
        nonlocal plain, branches
        branches = branches.to(hidden.device)  # layers may be on several devices
        if live.number:
            earlier = branches[: live.number].flatten(0, 1)
            live.run(earlier, rows[: len(earlier)])
        attention, module = live.block.attention, ablated_module(live.block, ablation.module)
        with _recorded(attention) as attention_outputs, _recorded(module) as outputs:
            plain = live.rerun(hidden)
        if not live.number:
            branches = hidden.new_empty(layers, *hidden.shape, dtype=plain.dtype)
        with ExitStack() as stack:
            if module is not attention:
                # The output of attention does not depend on the MLP after it.
                stack.enter_context(_constant(attention, attention_outputs[0]))
            # Mixtures of experts may return all positions of all rows as one row.
            like = first_tensor(outputs[0])
            ablated = ablation.output(live.number, like.view(hidden.shape), history)
            ablated_output = with_tensor(outputs[0], ablated.view(like.shape))
            stack.enter_context(_constant(module, ablated_output))
            branches[live.number] = live.rerun(hidden)
        return plain

    sweep_layers(decoder, batch, at_layer, chunk=chunk)
    last_rows, columns = batch.ends.unbind(1)
    last = torch.cat([plain[last_rows, columns][None], branches[:, last_rows, columns]])
    return decoder.label_logits(last.flatten(0, 1)).view(1 + layers, len(batch.ends), -1)


@contextmanager
def _recorded(module: torch.nn.Module) -> Iterator[list[Any]]:
    """Record what a module returns within a `with` statement."""
    own_forward = module.forward
    outputs: list[Any] = []

    def record(*args: Any, **kwargs: Any) -> Any:
        outputs.append(own_forward(*args, **kwargs))
        return outputs[-1]

    with replaced_forward(module, record):
        yield outputs


def _constant(module: torch.nn.Module, output: Any) -> AbstractContextManager[Any]:
    """Make a module return an output for any input within a `with` statement."""
    return replaced_forward(module, lambda *_, **__: output)


def gold_by_group(logits: Tensor, groups: Sequence[PromptGroup]) -> list[list[list[float]]]:
    """Return, for each document of each group, p(gold) in the 1 + layers runs of the logits."""
    documents = [document for group in groups for document in group.documents]
    gold = iter(gold_probabilities(logits, documents))
    return [list(islice(gold, len(group.documents))) for group in groups]


# Replacements -------------------------------------------------------------------------------------


@torch.inference_mode()
def build_ablation(
    decoder: Decoder, groups: Sequence[PromptGroup], intervention: Intervention
) -> Ablation:
    """Return an ablation, with the outputs that it needs from the data.

    Several processes divide the prompts among them, and all return the same.

    Args:
        decoder: The model.
        groups: The data.
        intervention: What to do to each layer. "mean" averages over all tokens of all prompts;
            "resample" draws from `SAMPLES` outputs at random positions of random prompts.
    """
    module, replacement = intervention.module, intervention.replacement
    if replacement == "zero":
        return Ablation(module)
    prompts = [prompt for group in groups for prompt in group.prompts]
    generator = random.Random(f"resample {intervention.seed}")
    positions: dict[int, list[int]] = {}  # by prompt
    if replacement == "resample":
        for _ in range(SAMPLES):
            number = generator.randrange(len(prompts))
            positions.setdefault(number, []).append(generator.randrange(len(prompts[number])))
    else:
        positions = {number: list(range(len(prompt))) for number, prompt in enumerate(prompts)}
    numbers = sorted(positions)

    def measure(place: int) -> Tensor:
        """Return the [layers, n, width] outputs at the positions of a prompt, or their sum."""
        number = numbers[place]
        at = torch.tensor(positions[number], device=decoder.device)
        outputs: list[Tensor] = []

        def collect(_: torch.nn.Module, __: Any, output: Any) -> None:
            rows = first_tensor(output).flatten(0, -2)
            rows = rows.index_select(0, at.to(rows.device)).float()
            outputs.append(rows if replacement == "resample" else rows.sum(0, keepdim=True))

        with ExitStack() as stack:
            for block in decoder.blocks:
                hook = ablated_module(block, module).register_forward_hook(collect)
                stack.callback(hook.remove)
            ids = torch.tensor([prompts[number]], device=decoder.device)
            decoder.model.base_model(input_ids=ids, use_cache=False)
        return torch.stack([rows.cpu() for rows in outputs])

    with rope_of_each_row(decoder.model):
        outputs = torch.cat(divide_prompts(len(numbers), measure, replacement), 1)
    if replacement == "mean":
        # Some devices have no float64.
        outputs = (outputs.double().sum(1, keepdim=True) / sum(map(len, prompts))).float()
    return Ablation(module, outputs.to(decoder.device))
