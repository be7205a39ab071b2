"""What an engine computes: the answers of a model with a part of it replaced.

Two engines implement the protocol. `OnePassEngine` (`one_pass.py`) does all layers in one pass
through the model; `PyveneEngine` (`pyvene_engine.py`) does one prompt and one layer at a time with
pyvene's interventions. They share what is replaced by what, which stands here, and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pragworld_interp.engine.decoder import Block
from pragworld_interp.prompts.alignment import PatchingPair
from pragworld_interp.prompts.tokenization import PromptGroup
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import Module, Target


@dataclass(frozen=True)
class Ablation:
    """The module that is ablated, its targets in turn, and the outputs that replace its own.

    The text up to a position decides which of the samples that position gets. The output of a head
    is its part of what goes into the projection of its layer.

    Attributes:
        module: The module.
        targets: Its layers, or sets of them, or heads, in turn.
        outputs: [samples, width] by layer; None stands for zeros.
        positions: The positions at which outputs are replaced; see `layers.settings`.
    """

    module: Module
    targets: tuple[Target, ...]
    outputs: Mapping[int, Tensor] | None = None
    positions: str = "all"

    def replaced(
        self, layer: int, own: Tensor, history: Tensor, chosen: Tensor | None, columns: slice
    ) -> Tensor:
        """Return the tensor that a layer's module has for its own one.

        Args:
            layer: The layer.
            own: The tensor. Mixtures of experts may have all positions of all rows in one row.
            history: [rows, length] the text up to each position, hashed.
            chosen: [rows, length] where it is replaced; None for everywhere.
            columns: The columns that are replaced, those of a head.
        """
        by_row = own.view(*history.shape, -1)
        instead = torch.zeros_like(by_row)
        if self.outputs is not None:
            samples = self.outputs[layer].to(own)
            instead = samples[history.to(own.device) % len(samples)]
        if chosen is not None:
            instead = torch.where(chosen.to(own.device)[..., None], instead, by_row)
        if columns != slice(None):
            whole = by_row.clone()
            whole[..., columns] = instead[..., columns]
            instead = whole
        return instead.view(own.shape)


def ablated_module(block: Block, module: Module) -> torch.nn.Module:
    """Return the module of a block whose output, or for heads whose input, is replaced.

    Raises:
        InputError: The attention of the block has no heads that can be told apart.
    """
    if module == "heads":
        if block.heads is None:
            raise InputError(
                f"{type(block.attention).__name__}: its heads cannot be told apart; leave out the "
                "layers that have such attention, or ablate attention as a whole"
            )
        return block.heads.projection
    return block.mlp if module == "mlp" else block.attention


@dataclass(frozen=True)
class PatchedLogits:
    """The logits of the labels of prompts, and of the original of each pair, patched."""

    plain: Tensor  # [prompts, labels]
    patched: Tensor  # [layers, pairs, labels] patched at the input of each layer


class Engine(Protocol):
    """What runs a model's prompts, plain and with each intervention."""

    @property
    def layout(self) -> str:
        """How prompts go through the model: "trees", "rows" or "alone"; sums round accordingly."""

    def units(self, groups: Sequence[PromptGroup], budget: int) -> list[list[PromptGroup]]:
        """Return the groups divided into those that run together, by a budget in tokens."""

    def ablated_logits(
        self, groups: Sequence[PromptGroup], ablation: Ablation, budget: int
    ) -> Tensor:
        """Return [1 + targets, prompts, labels] logits, the plain run first, in float32.

        Args:
            groups: The prompts, in this order.
            ablation: The ablation of every target in turn.
            budget: Roughly how many tokens go through a block at a time.
        """

    def patched_logits(
        self,
        groups: Sequence[PromptGroup],
        pairs: Sequence[Sequence[PatchingPair]],
        budget: int,
    ) -> list[PatchedLogits]:
        """Return the logits of each group, and of the originals of its pairs patched, in float32.

        Args:
            groups: The prompts.
            pairs: Pairs of the prompts of each group. Without aligned positions, nothing is
                patched.
            budget: Roughly how many tokens go through a block at a time.
        """
