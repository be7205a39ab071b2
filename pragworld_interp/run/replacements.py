"""What the output of an ablated module is replaced by: zeros, its mean, or samples of it."""

import random
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from tqdm import tqdm

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.interventions import Ablation, ablated_module
from pragworld_interp.engine.modules import first_tensor
from pragworld_interp.engine.rope import rope_of_each_row
from pragworld_interp.prompts.tokenization import PromptGroup
from pragworld_interp.run.processes import hides_progress, own_share
from pragworld_tasks.layers.settings import Intervention, Target

SAMPLES = 256  # the outputs of each layer that "resample" draws from


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
        return Ablation(module, targets, None, intervention.positions)
    prompts = [prompt for group in groups for prompt in group.prompts]
    generator = random.Random(f"resample {intervention.seed}")
    positions: dict[int, list[int]] = {}  # by prompt
    if replacement == "resample":
        for _ in range(SAMPLES):
            number = generator.randrange(len(prompts))
            positions.setdefault(number, []).append(generator.randrange(len(prompts[number])))
    else:
        positions = {number: list(range(len(prompt))) for number, prompt in enumerate(prompts)}

    def measure(number: int) -> Tensor:
        """Return the [modules, n, width] outputs at the positions of a prompt, or their sum."""
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

    numbers = sorted(positions)
    with rope_of_each_row(decoder.model):
        mine = [numbers[place] for place in own_share(len(numbers))]
        progress = tqdm(mine, desc=replacement, unit="prompt", disable=hides_progress())
        by_prompt = dict(gather_object([(number, measure(number)) for number in progress]))
    outputs = torch.cat([by_prompt[number] for number in numbers], 1)
    if replacement == "mean":
        # Some devices have no float64.
        outputs = (outputs.double().sum(1, keepdim=True) / sum(map(len, prompts))).float()
    by_layer = dict(zip(modules, outputs.to(decoder.device), strict=True))
    return Ablation(module, targets, by_layer, intervention.positions)
