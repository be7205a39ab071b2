"""Ablation: what a model answers when the MLP or the attention of one layer is put out of action.

Every layer in turn, all positions (SPEC: MLP zero-out ablation; PragWorld paper, section 6.2). The
output of the module is replaced by zeros, by its mean over the data, or by what it was at a random
position of another prompt ("resample").
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from pragworld_interp.decoder import Block, Decoder, replaced, with_first
from pragworld_interp.packing import Batch
from pragworld_interp.sweep import Layer, climb

Module = Literal["mlp", "attention"]
Replacement = Literal["zero", "mean", "resample"]
MODULES: tuple[Module, ...] = get_args(Module)
REPLACEMENTS: tuple[Replacement, ...] = get_args(Replacement)
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
        attention = layer.block.attention
        before = attention.forward
        heard: list[Any] = []

        def hear(*args: Any, **kwargs: Any) -> Any:
            heard.append(before(*args, **kwargs))
            return heard[-1]

        with replaced(attention, hear):
            plain = layer.rerun(hidden)
        if branches:
            together = torch.cat(branches)
            behind = layer.run(together, rows.repeat(len(branches)))
            branches[:] = torch.split(behind, len(rows))
        instead = ablation.output(layer.number, hidden, batch.history)
        with ExitStack() as stack:
            if ablation.module == "mlp":
                # What attention makes of its input does not depend on the MLP behind it.
                stack.enter_context(replaced(attention, lambda *_, **__: heard[0]))
                stack.enter_context(replaced(layer.block.mlp, lambda *_, **__: instead))
            else:
                returned = with_first(heard[0], instead)
                stack.enter_context(replaced(attention, lambda *_, **__: returned))
            branches.append(layer.rerun(hidden))
        return plain

    climb(decoder, batch, at_layer, chunk=chunk)
    rows, columns = batch.ends.unbind(1)
    last = [hidden[rows, columns] for hidden in (plain, *branches)]
    return decoder.label_logits(torch.cat(last)).view(len(last), len(batch.ends), 2)
