"""Changes of a model by plain PyTorch hooks, one prompt at a time: what both engines must give."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache, partial
from inspect import signature
from typing import Any

import torch
from small_models import LabelsOnly, small_model
from torch import Tensor, nn

from pragworld_interp.engine.decoder import Decoder, from_model
from pragworld_interp.engine.interventions import SAMPLES, Logits, ModuleChange, ablated_module
from pragworld_interp.engine.modules import first_tensor
from pragworld_interp.prompts.alignment import Tokens
from pragworld_interp.prompts.examples import Example
from pragworld_interp.prompts.parts import PromptParts
from pragworld_interp.prompts.tokenization import PromptGroup


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


@torch.inference_mode()
def label_logits(decoder: Decoder, prompt: Tokens) -> Tensor:
    """Compute the [2] logits of the labels behind a prompt."""
    for module in _dynamic_ropes(decoder):  # remember the prompt before
        module(torch.zeros(1), torch.zeros(1, 1))
    keep = {"logits_to_keep"} & {*signature(decoder.model.forward).parameters}  # if it can
    last = dict.fromkeys(keep, 1)
    logits: Tensor = decoder.model(input_ids=torch.tensor([prompt]), use_cache=False, **last).logits
    return logits[0, -1, list(decoder.labels)].float()


@cache
def _dynamic_ropes(decoder: Decoder) -> list[nn.Module]:
    modules = decoder.model.modules()
    return [module for module in modules if getattr(module, "rope_type", None) == "dynamic"]


def by_hooks(decoder: Decoder, groups: Sequence[PromptGroup], change: ModuleChange) -> Logits:
    """Compute the logits of prompts, and of each run with each target changed, one at a time."""
    blocks, heads = decoder.blocks, decoder.model.config.num_attention_heads
    lens, changed, direct = [], [], []
    for group in groups:
        values: list[list[Tensor]] = []  # by prompt and layer, what may be taken from its run
        behind: list[list[Tensor]] = []  # by prompt, the residuals behind each layer
        for prompt in group.prompts:
            values.append([])
            behind.append([])
            with ExitStack() as stack:
                for layer, block in enumerate(blocks):
                    if change.module != "block":
                        stack.enter_context(_hook(decoder, change, layer, _keeping(values[-1])))
                    stack.enter_context(_at_output(block.module, _keeping(behind[-1])))
                plain = label_logits(decoder, prompt)
            read = [_read(decoder, prompt, residuals[-1]) for residuals in behind[-1][:-1]]
            lens.append(torch.stack([*read, plain]))
        for number, instead in _runs(group, change, values):
            prompt, own = group.prompts[number], behind[number]
            for target in change.targets:
                last, kept = target.layers[-1], list[Tensor]()
                with ExitStack() as stack:
                    for layer in target.layers:
                        put = partial(_put, instead=instead[layer], head=target.head, heads=heads)
                        stack.enter_context(_hook(decoder, change, layer, put))
                    stack.enter_context(_at_output(blocks[last].module, _keeping(kept)))
                    changed.append(label_logits(decoder, prompt))
                added = kept[0][-1] - own[last][-1]
                direct.append(_read(decoder, prompt, own[-1][-1] + added))
    shape = (-1 if changed else 0, len(change.targets), 2)
    both = [torch.stack([*each, torch.empty(2)])[:-1] for each in (changed, direct)]
    return Logits(torch.stack(lens, 1), *(each.view(shape).transpose(0, 1) for each in both))


def _read(decoder: Decoder, prompt: Tokens, residuals: Tensor) -> Tensor:
    """Return the logits if residuals were those of the last token behind the last layer."""

    def put(own: Tensor) -> None:
        own[-1] = residuals

    with _at_output(decoder.blocks[-1].module, put):
        return label_logits(decoder, prompt[-1:])  # of which nothing else is left


# What each position of a prompt gets instead of its own, by layer.
Instead = Sequence[dict[int, Tensor]]


def _runs(
    group: PromptGroup, change: ModuleChange, values: Sequence[Sequence[Tensor]]
) -> Iterator[tuple[int, Instead]]:
    """Yield the prompts that are changed, and what by."""
    if change.pairs is not None:
        for pair in change.pairs[group.number]:
            source = values[pair.source]
            yield pair.target, [{at: own[to] for at, to in pair.alignment} for own in source]
        return
    for number, marks in enumerate(change.marks(group)):
        chosen = [(at, mark) for at, mark in enumerate(marks) if mark >= 0]
        outputs = change.outputs or {}
        if change.module == "block":
            yield number, [{} for _ in change.base]
            continue
        zeros = [torch.zeros(SAMPLES, own.shape[1]) for own in values[number]]
        samples = [outputs.get(layer, own) for layer, own in enumerate(zeros)]
        yield number, [{at: own[mark] for at, mark in chosen} for own in samples]


def _hook(
    decoder: Decoder, change: ModuleChange, layer: int, use: Callable[[Tensor], object]
) -> Any:
    """Let a function change in place, or keep, the [length, width] tensor of a layer."""
    block = decoder.blocks[layer]

    def on_input(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        tensor = (args[0] if args else kwargs["hidden_states"]).clone()
        use(tensor.view(-1, tensor.shape[-1]))
        return ((tensor, *args[1:]), kwargs) if args else ((), {**kwargs, "hidden_states": tensor})

    if change.module == "block":
        return block.module.register_forward_hook(
            lambda _, args, kwargs, __: change.base[layer].module(*args, **kwargs), with_kwargs=True
        )
    if change.module in ("residual", "heads"):
        module = block.module if change.module == "residual" else _projection(block.module)
        return module.register_forward_pre_hook(on_input, with_kwargs=True)
    return _at_output(ablated_module(block, change.module), use)


def _at_output(module: nn.Module, use: Callable[[Tensor], object]) -> Any:
    """Let a function change in place, or keep, the [length, width] tensor that a module returns."""

    def on_output(_: nn.Module, __: Any, output: Any) -> Any:
        tensor = first_tensor(output).clone()
        use(tensor.view(-1, tensor.shape[-1]))
        return type(output)([tensor, *output[1:]]) if isinstance(output, tuple | list) else tensor

    return module.register_forward_hook(on_output)


def _keeping(kept: list[Tensor]) -> Callable[[Tensor], None]:
    return lambda tensor: kept.append(tensor.clone())


def _put(own: Tensor, instead: dict[int, Tensor], head: int | None, heads: int) -> None:
    width = own.shape[1] // heads
    columns = slice(None) if head is None else slice(width * head, width * (head + 1))
    for position, value in instead.items():
        own[position, columns] = value[columns]


def _projection(block: nn.Module) -> nn.Module:
    """Return what the heads of a block go into, by the names that libraries give it."""
    (name,) = (
        name
        for name, _ in block.named_modules()
        if name.endswith((".o_proj", ".out_proj", "attn.c_proj", "attention.dense"))
    )
    return block.get_submodule(name)
