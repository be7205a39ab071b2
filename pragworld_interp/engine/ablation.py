"""Ablation: the answers of a model with the MLP, the attention or a head of a layer ablated.

Each layer in turn, at all positions (PragWorld paper, section 6.2), unless other targets or
positions are chosen. The output of the module is replaced by zeros, by its mean over the data, or
by its output at a random position of a random prompt ("resample").
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import torch
from torch import Tensor

from pragworld_interp.engine.decoder import Block, Decoder
from pragworld_interp.engine.modules import copied, first_tensor, replaced_forward, with_tensor
from pragworld_interp.engine.packing import Batch
from pragworld_interp.engine.rope import rope_of_each_row
from pragworld_interp.engine.sweep import LiveBlock, sweep_layers
from pragworld_interp.prompts.tokenization import PromptGroup, gold_probabilities
from pragworld_interp.run.units import divide_prompts
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import Intervention, Module, Target

SAMPLES = 256  # the outputs of each layer that "resample" draws from


@dataclass(frozen=True)
class Ablation:
    """The module that is ablated, its targets in turn, and the outputs that replace its own.

    The text up to a position decides which of the samples that position gets. The output of a head
    is its part of what goes into the projection of its layer.
    """

    module: Module
    targets: tuple[Target, ...]
    outputs: Mapping[int, Tensor] | None = None  # [samples, width] by layer; None stands for zeros

    def output(self, layer: int, like: Tensor, history: Tensor) -> Tensor:
        """Return the output of a layer's module for the [rows, length] hashed histories.

        It has the shape, [rows, length, width], the type and the device of `like`.
        """
        if self.outputs is None:
            return torch.zeros_like(like)
        samples = self.outputs[layer].to(like)
        return samples[history.to(like.device) % len(samples)]


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


def ablated_logits(decoder: Decoder, batch: Batch, ablation: Ablation, chunk: int) -> Tensor:
    """Compute the logits of the labels in the plain run and with each target ablated.

    Args:
        decoder: The model.
        batch: The prompts, with the positions at which outputs are replaced.
        ablation: The ablation of every target in turn.
        chunk: Roughly how many tokens go through a block at a time.

    Returns:
        [1 + targets, prompts, labels] logits, the plain run first.
    """
    # As many branches at a time as the model has layers, which bounds the memory.
    most = len(decoder.blocks)
    passes = [
        _Pass(decoder, batch, ablation, ablation.targets[start : start + most]).logits(chunk)
        for start in range(0, len(ablation.targets), most)
    ]
    return torch.cat([passes[0][:1], *(logits[1:] for logits in passes)])


class _Pass:
    """One pass through the model, with a branch for each of some targets."""

    def __init__(
        self, decoder: Decoder, batch: Batch, ablation: Ablation, targets: Sequence[Target]
    ) -> None:
        self._decoder, self._batch, self._ablation = decoder, batch, ablation
        # A branch forks off at its first layer, so that those in the middle of a run come first.
        self._order = sorted(range(len(targets)), key=lambda number: targets[number].layers)
        self._targets = [targets[number] for number in self._order]
        device = decoder.device
        self._history = batch.history.to(device)
        self._chosen = None if batch.chosen.all() else batch.chosen.to(device)[..., None]
        self._plain = self._branches = torch.empty(0, device=device)

    def logits(self, chunk: int) -> Tensor:
        """Return the [1 + targets, prompts, labels] logits."""
        sweep_layers(self._decoder, self._batch, self._at_layer, chunk=chunk)
        rows, columns = self._batch.ends.unbind(1)
        last = torch.cat([self._plain[rows, columns][None], self._branches[:, rows, columns]])
        logits = self._decoder.label_logits(last.flatten(0, 1))
        by_run = logits.view(len(last), len(rows), -1)
        places = torch.tensor([0, *(1 + number for number in self._order)]).argsort()
        return by_run[places.to(by_run.device)]

    def _at_layer(self, live: LiveBlock, hidden: Tensor) -> Tensor:
        self._branches = self._branches.to(hidden.device)  # layers may be on several devices
        here = [n for n, target in enumerate(self._targets) if live.number in target.layers]
        begun = [n for n, target in enumerate(self._targets) if target.layers[0] < live.number]
        for part in _stretches([number for number in begun if number not in here]):
            branches = self._branches[part].flatten(0, 1)
            live.run(branches)
        attention, module = live.block.attention, live.block.mlp
        attention_outputs: list[Any] = []
        outputs: list[Any] = []
        with ExitStack() as stack:
            if here:
                module = ablated_module(live.block, self._ablation.module)
            if here and self._ablation.module != "heads":
                attention_outputs = stack.enter_context(_recorded(attention))
                outputs = stack.enter_context(_recorded(module))
            self._plain = live.rerun(hidden)
        if not live.number:
            shape = (len(self._targets), *hidden.shape)
            self._branches = hidden.new_empty(shape, dtype=self._plain.dtype)
        for number in here:
            head = self._targets[number].head
            with ExitStack() as stack:
                if head is not None:
                    stack.enter_context(self._head_replaced(live, head))
                elif number in begun:
                    stack.enter_context(self._replaced(live, module))
                else:
                    # A fork has the plain run's inputs, so neither part needs to run again.
                    if module is not attention:
                        stack.enter_context(_constant(attention, attention_outputs[0]))
                    replaced = self._replacement(live.number, outputs[0])
                    stack.enter_context(_constant(module, replaced))
                before = self._branches[number] if number in begun else hidden
                self._branches[number] = live.rerun(before)
        return self._plain

    def _replacement(self, layer: int, output: Any) -> Any:
        """Return the output of a module, replaced at the positions of the intervention."""
        own = first_tensor(output)
        # Mixtures of experts may return all positions of all rows as one row.
        by_row = own.view(*self._history.shape, -1)
        instead = self._ablation.output(layer, by_row, self._history)
        return with_tensor(output, self._at_chosen(instead, by_row).view(own.shape))

    def _at_chosen(self, instead: Tensor, own: Tensor) -> Tensor:
        """Return what replaces some outputs, and those themselves at other positions."""
        if self._chosen is None:
            return instead
        return torch.where(self._chosen.to(own.device), instead, own)

    def _replaced(self, live: LiveBlock, module: torch.nn.Module) -> AbstractContextManager[None]:
        own_forward = module.forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            return self._replacement(live.number, own_forward(*args, **kwargs))

        return replaced_forward(module, forward)

    def _head_replaced(self, live: LiveBlock, head: int) -> AbstractContextManager[None]:
        heads = live.block.heads
        assert heads is not None
        columns, own_forward = heads.columns(head), heads.projection.forward

        def forward(inputs: Tensor, *args: Any, **kwargs: Any) -> Any:
            by_row = inputs.view(*self._history.shape, -1).clone()
            instead = self._ablation.output(live.number, by_row, self._history)[..., columns]
            by_row[..., columns] = self._at_chosen(instead, by_row[..., columns])
            return own_forward(by_row.view(inputs.shape), *args, **kwargs)

        return replaced_forward(heads.projection, forward)


def _stretches(numbers: Sequence[int]) -> Iterator[slice]:
    """Yield slices that hold ascending numbers and no others."""
    for _, members in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
        stretch = [number for _, number in members]
        yield slice(stretch[0], stretch[-1] + 1)


@contextmanager
def _recorded(module: torch.nn.Module) -> Iterator[list[Any]]:
    """Record copies of what a module returns within a `with` statement."""
    own_forward = module.forward
    outputs: list[Any] = []

    def record(*args: Any, **kwargs: Any) -> Any:
        output = own_forward(*args, **kwargs)
        outputs.append(copied(output))
        return output

    with replaced_forward(module, record):
        yield outputs


def _constant(module: torch.nn.Module, output: Any) -> AbstractContextManager[Any]:
    """Make a module return copies of an output for any input within a `with` statement."""
    return replaced_forward(module, lambda *_, **__: copied(output))


def gold_by_group(logits: Tensor, groups: Sequence[PromptGroup]) -> list[list[list[float]]]:
    """Return, for each document of each group, p(gold) in the 1 + layers runs of the logits."""
    documents = [document for group in groups for document in group.documents]
    gold = iter(gold_probabilities(logits, documents))
    return [list(islice(gold, len(group.documents))) for group in groups]


# Replacements -------------------------------------------------------------------------------------


@torch.inference_mode()
def build_ablation(
    decoder: Decoder,
    groups: Sequence[PromptGroup],
    intervention: Intervention,
    targets: tuple[Target, ...],
) -> Ablation:
    """Return an ablation, with the outputs that it needs from the data.

    Several processes divide the prompts among them, and all return the same.

    Args:
        decoder: The model.
        groups: The data.
        intervention: What to do to each target. "mean" averages over all tokens of all prompts;
            "resample" draws from `SAMPLES` outputs at random positions of random prompts.
        targets: What is ablated in turn.

    Raises:
        InputError: A target is a head of a layer without heads.
    """
    module, replacement = intervention.module, intervention.replacement
    ablated = sorted({layer for target in targets for layer in target.layers})
    modules = {layer: ablated_module(decoder.blocks[layer], module) for layer in ablated}
    if replacement == "zero":
        return Ablation(module, targets)
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
        """Return the [modules, n, width] outputs at the positions of a prompt, or their sum."""
        number = numbers[place]
        at = torch.tensor(positions[number], device=decoder.device)
        outputs: list[Tensor] = []

        def collect(_: torch.nn.Module, inputs: Any, output: Any) -> None:
            rows = first_tensor(inputs if module == "heads" else output).flatten(0, -2)
            rows = rows.index_select(0, at.to(rows.device)).float()
            outputs.append(rows if replacement == "resample" else rows.sum(0, keepdim=True))

        with ExitStack() as stack:
            for part in modules.values():
                stack.callback(part.register_forward_hook(collect).remove)
            ids = torch.tensor([prompts[number]], device=decoder.device)
            decoder.model.base_model(input_ids=ids, use_cache=False)
        return torch.stack([rows.cpu() for rows in outputs])

    with rope_of_each_row(decoder.model):
        by_prompt = divide_prompts(len(numbers), measure, replacement)
    outputs = torch.cat(by_prompt, 1)
    if replacement == "mean":
        # Some devices have no float64.
        outputs = (outputs.double().sum(1, keepdim=True) / sum(map(len, prompts))).float()
    by_layer = dict(zip(modules, outputs.to(decoder.device), strict=True))
    return Ablation(module, targets, by_layer)
