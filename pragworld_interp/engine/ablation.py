"""Ablation in one pass: the MLP, the attention or a head of each layer, in turn.

A branch forks off the plain run at the first layer of its target (PragWorld paper, section 6.2).
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.interventions import Ablation, ablated_module
from pragworld_interp.engine.modules import copied, first_tensor, replaced_forward, with_tensor
from pragworld_interp.engine.packing import Batch
from pragworld_interp.engine.sweep import LiveBlock, sweep_layers
from pragworld_tasks.layers.settings import Target


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
        self._chosen = None if batch.chosen.all() else batch.chosen.to(device)
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
        return with_tensor(output, self._instead(layer, first_tensor(output), slice(None)))

    def _instead(self, layer: int, own: Tensor, columns: slice) -> Tensor:
        return self._ablation.replaced(layer, own, self._history, self._chosen, columns)

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
            return own_forward(self._instead(live.number, inputs, columns), *args, **kwargs)

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
