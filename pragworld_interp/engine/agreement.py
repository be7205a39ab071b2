"""Whether packing or padding prompts changes a model's residuals.

Each prompt should get the residuals that it has alone. Models whose attention does not see all
tokens, or does not support the mask of a tree, give others. So a model is tried on the longest
prompts that are about to run.
"""

import itertools
from collections.abc import Callable, Sequence

import torch
from accelerate.utils.memory import clear_device_cache
from torch import Tensor
from transformers import DynamicCache

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.modules import cache_name, is_out_of_memory
from pragworld_interp.engine.packing import (
    Batch,
    additive_mask,
    build_tree,
    pack_trees,
    pad_prompts,
)
from pragworld_interp.engine.rope import rope_limit, rope_of_each_row
from pragworld_interp.prompts.alignment import Tokens
from pragworld_tasks.errors import InputError


def tree_obstacle(
    decoder: Decoder, groups: Sequence[Sequence[Tokens]], longest_tree: int
) -> str | None:
    """Return why the prompts of groups cannot be packed as trees; None if they can."""
    longest = max(len(prompt) for prompts in groups for prompt in prompts)
    limit = rope_limit(decoder.model)
    if decoder.window is not None and longest > decoder.window:
        return f"its layers see {decoder.window} tokens, and the longest prompt has {longest}"
    if limit is not None and longest > limit:
        return f"its rotary embeddings are those of the longest prompt beyond {limit} tokens"
    if "flash" in decoder.attention:
        # A mask of four dimensions makes it read behind its inputs, so it must not be probed.
        return f"{decoder.attention} does not support the mask of a tree"
    probe = probe_prompts(groups)
    if decoder.window is not None and longest_tree > decoder.window:
        probe = [*_branches(probe[-3], decoder.window), *probe]
    if not _holds(supports_trees, decoder, probe):
        return "its residuals in a tree are not those of each prompt"
    return None


def _branches(prompt: Tokens, window: int) -> list[Tokens]:
    """Return variants of a prompt that fill a window, so that others lie beyond it in a tree.

    Some models apply a window to the columns of a tree (GPT-Neo), others to positions.
    """
    beginning = min(3, len(prompt))
    beginnings = itertools.product(sorted({*prompt}), repeat=beginning)
    most = 1 + window // max(1, len(prompt) - beginning)
    return [[*begun, *prompt[beginning:]] for begun in itertools.islice(beginnings, most)]


def rows_agree(decoder: Decoder, groups: Sequence[Sequence[Tokens]]) -> bool:
    """Return whether padding the prompts of groups to one length leaves their residuals alone."""
    return _holds(supports_rows, decoder, probe_prompts(groups))


def probe_prompts(groups: Sequence[Sequence[Tokens]]) -> list[Tokens]:
    """Return prompts that show whether packing or padding changes a model's residuals.

    These are the prompts of the longest group, the longest of them with another token in its
    middle, so that a tree has a branch, and the shortest prompt of all. The last three are the
    longest prompt, the one with a branch and the shortest one.
    """
    prompts = sorted(max(groups, key=lambda prompts: max(map(len, prompts))), key=len)
    longest = prompts[-1]
    middle = len(longest) // 2
    other = next((token for token in longest if token != longest[middle]), longest[middle])
    branch = [*longest[:middle], other, *longest[middle + 1 :]]
    shortest = min((prompt for prompts in groups for prompt in prompts), key=len)
    return [*prompts, branch, shortest]


def _holds(
    supports: Callable[[Decoder, Sequence[Tokens]], bool], decoder: Decoder, probe: list[Tokens]
) -> bool:
    """Return what a probe says, from its last three prompts if the memory is short."""
    for prompts in (probe, probe[-3:]):
        try:
            return supports(decoder, prompts)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        clear_device_cache(garbage_collection=True)
    raise InputError(
        "out of memory on the longest prompt; use a smaller dtype, a quantized model or a larger "
        "device"
    )


@torch.inference_mode()
def supports_trees(decoder: Decoder, prompts: Sequence[Tokens]) -> bool:
    """Return whether a token tree and a continued cache give a model's residuals of each prompt.

    Models whose attention does not support a mask of four dimensions (linear attention, ALiBi, some
    fused kernels) or does not see all tokens (windows) give others, or fail. A lack of memory says
    nothing about the model and is raised.
    """
    tree = pack_trees([build_tree(prompts)], decoder.dtype)
    longest = max(range(len(prompts)), key=lambda number: len(prompts[number]))
    length, start = len(prompts[longest]), len(prompts[longest]) // 2
    # Two rows with one mask, as branches of a sweep have.
    ids = torch.tensor([[*prompts[longest]]] * 2, device=decoder.device)
    try:
        together = _residuals(decoder, tree)
        model = decoder.model.base_model
        cache = {cache_name(model): DynamicCache()}
        model(input_ids=ids[:, :start], use_cache=True, **cache)
        attends = torch.ones(1, 1, length - start, length, dtype=torch.bool, device=decoder.device)
        continued = model(
            input_ids=ids[:, start:],
            attention_mask=additive_mask(attends.tril(start), decoder.dtype),
            position_ids=torch.arange(start, length, device=decoder.device)[None],
            use_cache=True,
            **cache,
        )[0][:, -1]
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        if is_out_of_memory(error):
            raise
        return False
    alone = _alone(decoder, prompts)
    return _agree(together, alone) and _agree(continued, alone[longest : longest + 1])


@torch.inference_mode()
def supports_rows(decoder: Decoder, prompts: Sequence[Tokens]) -> bool:
    """Return whether prompts padded to one length give a model's residuals of each prompt alone."""
    return _agree(_residuals(decoder, pad_prompts(prompts)), _alone(decoder, prompts))


def _alone(decoder: Decoder, prompts: Sequence[Tokens]) -> Tensor:
    return torch.cat([_residuals(decoder, pad_prompts([prompt])) for prompt in prompts])


def _residuals(decoder: Decoder, batch: Batch) -> Tensor:
    """Return the [prompts, width] residuals at the end of each prompt, after the final norm."""
    device = decoder.device
    with rope_of_each_row(decoder.model):
        residuals: Tensor = decoder.model.base_model(
            input_ids=batch.ids.to(device),
            attention_mask=batch.mask.to(device),
            position_ids=batch.positions.to(device),
            use_cache=False,
        )[0]
    return residuals[batch.ends[:, 0], batch.ends[:, 1]]


def _agree(residuals: Tensor, expected: Tensor) -> bool:
    """Return whether residuals differ by no more than rounding, where the expected are finite."""
    errors = (residuals - expected).float().norm(dim=-1) / expected.float().norm(dim=-1)
    tolerance = 1e-4 if residuals.dtype == torch.float32 else 8 * torch.finfo(residuals.dtype).eps
    overflows = expected.isfinite().all(-1).logical_not()  # which a sweep refuses, with the layer
    return bool((errors.le(tolerance) | overflows).all())
