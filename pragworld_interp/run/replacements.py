"""The outputs that replace those of an ablated module: zeros, means, samples, or counterparts."""

import random
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor

from pragworld_interp.engine.decoder import Block, Decoder
from pragworld_interp.engine.interventions import SAMPLES, ModuleChange
from pragworld_interp.engine.modules import first_tensor
from pragworld_interp.engine.rope import rope_of_each_row
from pragworld_interp.prompts.alignment import KINDS, Tokens, counterpart_pairs, position_kinds
from pragworld_interp.prompts.tokenization import PromptGroup
from pragworld_interp.run.processes import own_share, progress_bar
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import Intervention, Target


def build_changes(
    decoder: Decoder,
    groups: Sequence[PromptGroup],
    intervention: Intervention,
    targets: tuple[Target, ...],
    base: Sequence[Block] | None = None,
) -> list[ModuleChange]:
    """Return what an ablation does, by each replacement, with the outputs that it needs."""
    if base is not None:
        return [ModuleChange("block", targets, base=_same_blocks(decoder, base))]
    changes = []
    for null in intervention.nulls:
        change = ModuleChange(intervention.module, targets, null, intervention.positions)
        if null == "counterfactual":
            own = {group.number: counterpart_pairs(group, change.positions) for group in groups}
            change = replace(change, pairs=own)
        for group in groups:
            change.marks(group)  # refuses positions that a prompt does not have
        if null in ("mean", "resample"):
            change = replace(change, outputs=_outputs(decoder, groups, change, intervention.seed))
        changes.append(change)
    return changes


def _same_blocks(decoder: Decoder, base: Sequence[Block]) -> Sequence[Block]:
    """Return the blocks of a base model if they can take the place of a model's."""
    for own, other in zip_longest(decoder.blocks, base):
        if own is None or other is None or type(own.module) is not type(other.module):
            raise InputError("the base model has other layers; name the one that was fine-tuned")
        if own.module is other.module:
            raise InputError("the base model shares its layers with the model; load it once more")
    return base


@torch.inference_mode()
def _outputs(
    decoder: Decoder, groups: Sequence[PromptGroup], change: ModuleChange, seed: int | None
) -> dict[int, Tensor]:
    """Return the samples of each layer: means over positions of a kind, or random outputs.

    Several processes divide the prompts among them, and all return the same.
    """
    module, replacement = change.module, change.replacement
    modules = {layer: change.place(decoder.blocks[layer])[0] for layer in change.layers}
    prompts = [prompt for group in groups for prompt in group.prompts]
    kinds = [own for group in groups for own in position_kinds(group)]
    positions = {number: list(range(len(prompt))) for number, prompt in enumerate(prompts)}
    if replacement == "resample":
        positions = _random_positions(prompts, f"resample {seed}")

    def measure(number: int) -> Tensor:
        """Return the outputs at the positions of a prompt, or their sums by kind, in modules."""
        at = torch.tensor(positions[number], device=decoder.device)
        kind = torch.tensor(kinds[number], device=decoder.device)
        outputs: list[Tensor] = []

        def collect(_: torch.nn.Module, inputs: Any, output: Any) -> None:
            rows = first_tensor(inputs if module == "heads" else output).flatten(0, -2)
            rows = rows.index_select(0, at.to(rows.device)).float()
            if replacement == "mean":
                sums = rows.new_zeros(len(KINDS), rows.shape[1])
                rows = sums.index_add_(0, kind.to(rows.device), rows)
            outputs.append(rows)

        with ExitStack() as stack:
            for part in modules.values():
                stack.callback(part.register_forward_hook(collect).remove)
            ids = torch.tensor([prompts[number]], device=decoder.device)
            decoder.model.base_model(input_ids=ids, use_cache=False)
        return torch.stack([rows.cpu() for rows in outputs])

    numbers = sorted(positions)
    with rope_of_each_row(decoder.model):
        mine = [numbers[place] for place in own_share(len(numbers))]
        progress = progress_bar(iterable=mine, desc=replacement, unit="prompt")
        by_prompt = dict(gather_object([(number, measure(number)) for number in progress]))
    measured = [by_prompt[number] for number in numbers]
    if replacement == "mean":
        counts = torch.tensor([sum(own.count(kind) for own in kinds) for kind in range(len(KINDS))])
        # Some devices have no float64.
        outputs = (torch.stack(measured).double().sum(0) / counts.clamp(min=1)[:, None]).float()
    else:
        outputs = torch.cat(measured, 1)
    return dict(zip(modules, outputs.to(decoder.device), strict=True))


def _random_positions(prompts: Sequence[Tokens], seed: str) -> dict[int, list[int]]:
    """Return random positions of random prompts, by prompt."""
    generator = random.Random(seed)
    positions: dict[int, list[int]] = {}
    for _ in range(SAMPLES):
        number = generator.randrange(len(prompts))
        positions.setdefault(number, []).append(generator.randrange(len(prompts[number])))
    return positions
