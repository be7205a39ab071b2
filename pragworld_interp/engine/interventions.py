"""What an engine computes: the answers of a model with a part of it replaced.

Two engines implement the protocol. `OnePassEngine` (`one_pass.py`) does all layers in one pass
through the model; `PyveneEngine` (`pyvene_engine.py`) does one prompt and one layer at a time with
pyvene's interventions. They share what is replaced by what, which stands here, and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple, Protocol

from torch import Tensor, nn

from pragworld_interp.engine.decoder import Block
from pragworld_interp.engine.modules import Side
from pragworld_interp.prompts.alignment import PatchingPair, Tokens, position_kinds
from pragworld_interp.prompts.tokenization import PromptGroup, group_positions
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import PatchedModule, Target

SAMPLES = 256  # the outputs of each layer that "resample" draws from


@dataclass(frozen=True)
class ModuleChange:
    """What is replaced by what, in one run after another.

    Replaced is the residual stream at the input of a layer; what a part of the layer returns; of a
    head, its part of what the projection of the layer receives; or the whole block.
    """

    module: PatchedModule | Literal["block"]
    targets: tuple[Target, ...]  # in turn
    replacement: str = "zero"
    positions: str = "all"  # at which samples replace it
    outputs: Mapping[int, Tensor] | None = None  # [samples, width] by layer; None for zeros
    pairs: Mapping[int, Sequence[PatchingPair]] | None = None  # of groups, instead of samples
    base: Sequence[Block] = ()  # which replace blocks

    @property
    def layers(self) -> list[int]:
        """The layers of the targets, in order."""
        return sorted({layer for target in self.targets for layer in target.layers})

    def marks(self, group: PromptGroup) -> list[list[int]]:
        """Return which sample each position of each prompt gets; -1 for none."""
        match self.replacement:
            case "mean":
                samples = position_kinds(group)
            case "resample":  # the text up to a position decides
                samples = [_text_hashes(prompt) for prompt in group.prompts]
            case _:
                samples = [[0] * len(prompt) for prompt in group.prompts]
        if self.positions == "all" or self.pairs is not None:
            return samples
        return [
            [sample if position in chosen else -1 for position, sample in enumerate(own)]
            for own, chosen in zip(samples, group_positions(group, self.positions), strict=True)
        ]

    def place(self, block: Block) -> tuple[nn.Module, Side]:
        """Return the module of a block at which a tensor is replaced, and on which side of it."""
        if self.module == "residual":
            return block.module, "input"
        return ablated_module(block, self.module), "input" if self.module == "heads" else "output"

    def replaced(
        self, layer: int, own: Tensor, places: "Places", columns: slice, plain: Tensor | None = None
    ) -> Tensor:
        """Return the tensor that runs have for their own one.

        Args:
            layer: The layer.
            own: The tensor. Mixtures of experts may have all positions of all runs in one row.
            places: Where it is replaced.
            columns: The columns that are replaced, those of a head.
            plain: The tensor in the plain run of a batch, if it is replaced from there.
        """
        runs, positions, *sources = (index.to(own.device) for index in places.indices)
        by_run = own.reshape(*places.shape, -1).clone()
        if plain is not None:
            instead = plain.view(*places.plain_shape, -1)[tuple(sources)]
        elif self.outputs is not None:
            instead = self.outputs[layer].to(own)[sources[0]]
        else:
            instead = by_run.new_zeros(len(runs), by_run.shape[2])
        by_run[runs, positions, columns] = instead[:, columns]
        return by_run.view(own.shape)


class Places(NamedTuple):
    """Where a tensor of runs is replaced, and what by."""

    # [k] runs, their positions, and samples; or instead of samples, rows and columns of the batch.
    indices: tuple[Tensor, ...]
    shape: tuple[int, int]  # the number of runs, and their length
    plain_shape: tuple[int, int]  # those of the batch


def _text_hashes(prompt: Tokens) -> list[int]:
    """Return a sample for the text up to each token, by a linear congruential generator."""
    hashes = accumulate(prompt, _extend, initial=0)
    return [text % SAMPLES for text in hashes][1:]


def _extend(text: int, token: int) -> int:
    return (text * 1_103_515_245 + token + 12_345) % 2**31


def columns_of(block: Block, target: Target) -> slice:
    """Return the columns of a target: those of a head, or all."""
    if target.head is None or block.heads is None:
        return slice(None)
    return block.heads.columns(target.head)


def ablated_module(block: Block, module: str) -> nn.Module:
    """Return the module of a block whose output, or for heads whose input, is replaced."""
    if module == "heads":
        if block.heads is None:
            raise InputError(
                f"{type(block.attention).__name__}: its heads cannot be told apart; leave out the "
                "layers that have such attention, or ablate attention as a whole"
            )
        return block.heads.projection
    return block.mlp if module == "mlp" else block.attention


class Logits(NamedTuple):
    """Logits of the labels, in float32. The runs are the prompts, or the pairs of a change."""

    lens: Tensor  # [layers, prompts, labels] of the plain run, read behind each layer
    changed: Tensor  # [targets, runs, labels]
    direct: Tensor  # the same if layers behind the target add what they do in the plain run

    @property
    def plain(self) -> Tensor:
        """The logits of the plain run, [prompts, labels]."""
        return self.lens[-1]


class Engine(Protocol):
    """What runs a model's prompts, plain and with each change."""

    @property
    def layout(self) -> str:
        """How prompts go through the model: "trees", "rows" or "alone"; sums round accordingly."""

    def units(
        self, groups: Sequence[PromptGroup], change: ModuleChange, budget: int
    ) -> list[list[PromptGroup]]:
        """Return the groups divided into those that run together, by a budget in tokens."""

    def logits(self, groups: Sequence[PromptGroup], change: ModuleChange, budget: int) -> Logits:
        """Return the logits of the plain run and of all changed runs.

        Args:
            groups: The prompts, in this order.
            change: What to do to them. Pairs without aligned positions are left as they are.
            budget: Roughly how many tokens go through a block at a time.
        """
