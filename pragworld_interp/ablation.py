"""Ablation: what a model answers when the MLP or the attention of one layer is put out of action.

Every layer in turn, all positions (SPEC: MLP zero-out ablation; PragWorld paper, section 6.2). The
output of the module is replaced by zeros, by its mean over the data, or by what it was at a random
position of some prompt ("resample").
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from pragworld_interp.decoder import Block, Decoder, first_of, replaced, with_first
from pragworld_interp.layer_report import Module, Replacement
from pragworld_interp.packing import Batch, batches, grow, packed, padded
from pragworld_interp.runs import Group
from pragworld_interp.sweep import Layer, climb

SAMPLES = 256  # outputs of each layer that "resample" draws from


@dataclass(frozen=True)
class Ablation:
    """What is put out of action, and what takes its place.

    Attributes:
        module: of each layer.
        outputs: [layers, samples, width] what takes the place of its output: at every position one
            of the samples, drawn by the text up to there. None: zeros.
    """

    module: Module
    outputs: Tensor | None = None

    def output(self, layer: int, like: Tensor, history: Tensor) -> Tensor:
        """What the module of the layer is made to return.

        Args:
            layer: from 0.
            like: [rows, length, width] a tensor of the shape, type and device wanted.
            history: [rows, length] the text up to each position, as a number.
        """
        if self.outputs is None:
            return torch.zeros_like(like)
        samples = self.outputs[layer].to(like)
        return samples[history.to(like.device) % len(samples)]


def module_of(block: Block, module: Module) -> torch.nn.Module:
    """The block's MLP or attention."""
    return block.mlp if module == "mlp" else block.attention


def ablated_logits(decoder: Decoder, batch: Batch, ablation: Ablation, chunk: int) -> Tensor:
    """Logits of yes and no of every prompt, in the plain run and with each layer ablated.

    Args:
        decoder: the model.
        batch: the prompts.
        ablation: of every layer in turn.
        chunk: tokens that go through a block in one go, about.

    Returns:
        [1 + layers, prompts, 2], the plain run first.
    """
    rows = torch.arange(len(batch.ids))
    branches: list[Tensor] = []
    plain = torch.empty(0)

    def at_layer(layer: Layer, hidden: Tensor) -> Tensor:
        nonlocal plain
        attention, mlp = layer.block.attention, layer.block.mlp
        with _heard(attention) as by_attention, _heard(mlp) as by_mlp:
            plain = layer.rerun(hidden)
        if branches:
            together = torch.cat(branches)
            behind = layer.run(together, rows.repeat(len(branches)))
            branches[:] = torch.split(behind, len(rows))
        with ExitStack() as stack:
            if ablation.module == "mlp":
                # What attention makes of its input does not depend on the MLP behind it.
                stack.enter_context(_returning(attention, by_attention[0]))
            ablated, heard = (
                (mlp, by_mlp) if ablation.module == "mlp" else (attention, by_attention)
            )
            # Mixtures of experts may return all positions of all rows as one row.
            like = first_of(heard[0])
            instead = ablation.output(layer.number, like.view(hidden.shape), batch.history)
            stack.enter_context(_returning(ablated, with_first(heard[0], instead.view(like.shape))))
            branches.append(layer.rerun(hidden))
        return plain

    climb(decoder, batch, at_layer, chunk=chunk)
    rows, columns = batch.ends.unbind(1)
    last = [hidden[rows, columns] for hidden in (plain, *branches)]
    return decoder.label_logits(torch.cat(last)).view(len(last), len(batch.ends), 2)


@contextmanager
def _heard(module: torch.nn.Module) -> Iterator[list[Any]]:
    """Collects what the module returns, for a while."""
    before = module.forward
    heard: list[Any] = []

    def hear(*args: Any, **kwargs: Any) -> Any:
        heard.append(before(*args, **kwargs))
        return heard[-1]

    with replaced(module, hear):
        yield heard


def _returning(module: torch.nn.Module, output: Any) -> AbstractContextManager[Any]:
    """Has the module return this whatever it is given, for a while."""
    return replaced(module, lambda *_, **__: output)


def batch_of(groups: Sequence[Group], trees: bool, dtype: torch.dtype) -> Batch:
    """The groups' prompts in order: a tree for each group (`packing.takes_trees`), or rows."""
    if trees:
        return packed([grow(group.prompts) for group in groups], dtype)
    return padded([prompt for group in groups for prompt in group.prompts])


def yes_by_group(logits: Tensor, groups: Sequence[Group]) -> list[list[list[float]]]:
    """p(yes) for each group, for each of its documents: 1 + layers numbers.

    Args:
        logits: as `ablated_logits` returns them for all prompts of the groups.
        groups: in the order of the prompts.
    """
    yes = iter(logits.double().softmax(-1)[:, :, 0].T.tolist())
    return [list(islice(yes, len(group.documents))) for group in groups]


def units(groups: Sequence[Group], trees: bool, budget: int) -> list[list[Group]]:
    """Groups that are run in one go, as many as the token budget has room for."""
    sizes = [
        (1, len(grow(group.prompts).ids))
        if trees
        else (len(group.prompts), max(map(len, group.prompts)))
        for group in groups
    ]
    return [[groups[position] for position in batch] for batch in batches(sizes, budget)]


# What takes the place of an output ----------------------------------------------------------------


@torch.inference_mode()
def measured(
    decoder: Decoder,
    groups: Sequence[Group],
    module: Module,
    replacement: Replacement,
    seed: int,
) -> Ablation:
    """The ablation, with what it takes from the data.

    Args:
        decoder: the model.
        groups: the data.
        module: of each layer.
        replacement: "mean" is over all tokens of all prompts; "resample" draws from `SAMPLES`
            outputs at random positions of random prompts.
        seed: of these draws.
    """
    if replacement == "zero":
        return Ablation(module)
    prompts = [prompt for group in groups for prompt in group.prompts]
    generator = random.Random(f"resample {seed}")
    wanted: dict[int, list[int]] = {}
    if replacement == "resample":
        for _ in range(SAMPLES):
            number = generator.randrange(len(prompts))
            wanted.setdefault(number, []).append(generator.randrange(len(prompts[number])))
    else:
        wanted = {number: list(range(len(prompt))) for number, prompt in enumerate(prompts)}
    taken: list[list[Tensor]] = [[] for _ in decoder.blocks]
    positions: list[int] = []

    def take(layer: int, output: Any) -> None:
        rows = first_of(output).flatten(0, -2)[positions].double()
        taken[layer].append(rows if replacement == "resample" else rows.sum(0, keepdim=True))

    with ExitStack() as stack:
        for layer, block in enumerate(decoder.blocks):
            hook = module_of(block, module).register_forward_hook(
                lambda _, __, output, layer=layer: take(layer, output)
            )
            stack.callback(hook.remove)
        for number in tqdm(sorted(wanted), desc=replacement, unit="prompt", disable=None):
            positions = wanted[number]
            ids = torch.tensor([prompts[number]], device=decoder.device)
            decoder.model.base_model(input_ids=ids, use_cache=False)
    outputs = torch.stack([torch.cat(each).cpu() for each in taken])
    if replacement == "mean":
        outputs = outputs.sum(1, keepdim=True) / sum(map(len, prompts))
    return Ablation(module, outputs)
