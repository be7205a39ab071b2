"""Ablation and patching by plain PyTorch hooks, one prompt at a time: what both engines must give."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

import torch
from small_models import LabelsOnly, small_model
from torch import Tensor, nn

from pragworld_interp.engine.decoder import Decoder, from_model
from pragworld_interp.engine.interventions import Ablation, PatchedLogits, ablated_module
from pragworld_interp.engine.modules import first_tensor
from pragworld_interp.engine.packing import pad_prompts
from pragworld_interp.prompts.alignment import PatchingPair, Tokens
from pragworld_interp.prompts.examples import Example
from pragworld_interp.prompts.parts import PromptParts
from pragworld_interp.prompts.tokenization import PromptGroup, group_positions


@cache
def small_decoder(architecture: str) -> Decoder:
    """Return a small random decoder, whose labels are the tokens 5 and 6."""
    return from_model(small_model(architecture), LabelsOnly())


def group_of(prompts: Sequence[Sequence[int]], number: int = 0) -> PromptGroup:
    """Return prompts as a group, an original and its variants, without parts."""
    examples = tuple(
        Example(row, number, row == 0, "yes", "text", (0, 1)) for row in range(len(prompts))
    )
    return PromptGroup(examples, tuple(map(list, prompts)), (PromptParts(),) * len(prompts))


def label_logits(decoder: Decoder, prompt: Tokens) -> Tensor:
    """Compute the [2] logits of the labels behind a prompt."""
    return _logits_of_copies(decoder, prompt, 1)[0]


@torch.inference_mode()
def _logits_of_copies(decoder: Decoder, prompt: Tokens, copies: int) -> Tensor:
    """Compute [copies, 2] logits of a batch in which a prompt is repeated."""
    for module in _dynamic_ropes(decoder):  # remember the prompt before
        module(torch.zeros(1), torch.zeros(1, 1))
    ids = torch.tensor([prompt] * copies)
    logits: Tensor = decoder.model(input_ids=ids, use_cache=False).logits
    return logits[:, -1, list(decoder.labels)]


@cache
def _dynamic_ropes(decoder: Decoder) -> list[nn.Module]:
    modules = decoder.model.modules()
    return [module for module in modules if getattr(module, "rope_type", None) == "dynamic"]


def ablated_by_hooks(decoder: Decoder, groups: Sequence[PromptGroup], ablation: Ablation) -> Tensor:
    """Compute [1 + targets, prompts, 2] logits, with a copy of the prompt for each target."""
    columns = []
    for group in groups:
        chosen = group_positions(group, ablation.positions)
        for prompt, positions in zip(group.prompts, map(sorted, chosen), strict=True):
            with ExitStack() as stack:
                for number in range(len(ablation.targets)):
                    for hook in _hooks(decoder, ablation, number, prompt, positions):
                        stack.enter_context(hook)
                columns.append(_logits_of_copies(decoder, prompt, 1 + len(ablation.targets)))
    return torch.stack(columns, 1)


def _hooks(
    decoder: Decoder, ablation: Ablation, number: int, prompt: Tokens, positions: list[int]
) -> list[Any]:
    """Return the hooks that ablate a target in its copy of a prompt."""
    history = pad_prompts([prompt]).history[0].tolist()
    target, hooks = ablation.targets[number], []
    for layer in target.layers:
        instead = torch.zeros(len(prompt), decoder.model.config.hidden_size)
        if ablation.outputs is not None:
            samples = ablation.outputs[layer]
            instead = torch.stack([samples[each % len(samples)] for each in history])
        block = decoder.blocks[layer]
        if target.head is None:
            hook = _returning(instead, 1 + number, positions)
            hooks.append(ablated_module(block, ablation.module).register_forward_hook(hook))
        else:
            own = slice(8 * target.head, 8 * target.head + 8)
            reading = _reading(instead, 1 + number, positions, own)
            hooks.append(_projection(block.module).register_forward_pre_hook(reading))
    return hooks


def _returning(instead: Tensor, copy_number: int, positions: Sequence[int]) -> Callable[..., Any]:
    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        replaced = first_tensor(output).clone()
        replaced.view(-1, *instead.shape)[copy_number, positions] = instead[positions]
        is_several = isinstance(output, tuple | list)
        return type(output)([replaced, *output[1:]]) if is_several else replaced

    return hook


def _reading(
    instead: Tensor, copy_number: int, positions: Sequence[int], columns: slice
) -> Callable[..., Any]:
    def hook(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        replaced = inputs[0].clone()
        own = replaced.view(-1, *instead.shape)[copy_number]
        own[positions, columns] = instead[positions, columns]
        return (replaced,)

    return hook


def _projection(block: nn.Module) -> nn.Module:
    """Return what the heads of a block go into, by the names that libraries give it."""
    (name,) = (
        name
        for name, _ in block.named_modules()
        if name.endswith((".o_proj", ".out_proj", "attn.c_proj", "attention.dense"))
    )
    return block.get_submodule(name)


def patched_by_hooks(
    decoder: Decoder, prompts: Sequence[Tokens], pairs: Sequence[PatchingPair]
) -> PatchedLogits:
    """Compute the logits of prompts, and of the original of each pair patched at each layer."""
    residuals: list[list[Tensor]] = []  # by prompt, before each layer
    plain = []
    for prompt in prompts:
        residuals.append([])
        record = recording(residuals[-1])
        with ExitStack() as stack:
            for block in decoder.blocks:
                hook = block.module.register_forward_pre_hook(record, with_kwargs=True)
                stack.enter_context(hook)
            plain.append(label_logits(decoder, prompt))
    patched = torch.empty(len(decoder.blocks), len(pairs), 2)
    for column, pair in enumerate(pairs):
        for layer, block in enumerate(decoder.blocks):
            put = _putting(residuals[pair.altered][layer], pair.alignment)
            with block.module.register_forward_pre_hook(put, with_kwargs=True):
                patched[layer, column] = label_logits(decoder, prompts[pair.original])
    return PatchedLogits(torch.stack(plain), patched)


def recording(recorded: list[Tensor]) -> Callable[..., None]:
    """Return a hook that records what a module receives."""

    def hook(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        recorded.append((args[0] if args else kwargs["hidden_states"]).clone())

    return hook


def _putting(residuals: Tensor, alignment: Sequence[tuple[int, int]]) -> Callable[..., Any]:
    def hook(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        hidden = (args[0] if args else kwargs["hidden_states"]).clone()
        for target, source in alignment:
            hidden[0, target] = residuals[0, source]
        if args:
            return (hidden, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": hidden}

    return hook
