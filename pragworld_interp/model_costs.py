"""What a model costs by its configuration alone: FLOPs of its blocks, weights and activations.

The model is made on PyTorch's meta device, where tensors have shapes and no values, and its own
code runs there while PyTorch counts. FLOPs are those of matrix products, two for each
multiplication and addition, the scores of attention among them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from pragworld_interp.decoder import Decoder, find_blocks, sliding_window
from pragworld_interp.loading import check_folder, check_revision, first_line
from pragworld_interp.modules import cache_name
from pragworld_tasks.errors import InputError

# Multiples of the chunks of linear attention, which are padded to whole ones.
_LENGTHS = (64, 128)


@dataclass(frozen=True)
class Cost:
    """The FLOPs of a part of a model.

    Attributes:
        token: For each position that goes through it.
        score: For each query and key whose score is computed.
    """

    token: int
    score: int

    def flops(self, tokens: int, scores: int) -> int:
        """Return the FLOPs of some positions and scores."""
        return self.token * tokens + self.score * scores

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.token - other.token, self.score - other.score)


@dataclass(frozen=True)
class BlockCost:
    """The FLOPs of a block, and those of its parts whose outputs are added to the residuals.

    Attributes:
        whole: Of the block.
        attention: Of its attention.
        projection: Of what the outputs of heads go into, a part of attention; 0 if it is not known.
        mlp: Of its MLP.
    """

    whole: Cost
    attention: Cost
    projection: Cost
    mlp: Cost


@dataclass(frozen=True)
class ModelCosts:
    """What a model costs.

    Attributes:
        blocks: The FLOPs of each block.
        unembedding: The FLOPs of a token's logits.
        parameters: The number of weights.
        weight_bytes: The bytes of all weights.
        adapter_width: The weights of LoRA of rank 1 on all linear layers of the blocks.
        width: The width of the residuals.
        vocabulary: The number of logits.
        item_bytes: The bytes of an element of the residuals.
        cache_bytes: The bytes of keys and values of a token, in all layers.
        activation_bytes: The most bytes that the activations of a token take within a block.
    """

    blocks: tuple[BlockCost, ...]
    unembedding: int
    parameters: int
    weight_bytes: int
    adapter_width: int
    width: int
    vocabulary: int
    item_bytes: int
    cache_bytes: int
    activation_bytes: int

    def flops(self, tokens: int, scores: int) -> int:
        """Return the FLOPs of all blocks."""
        return sum(block.whole.flops(tokens, scores) for block in self.blocks)


def load_config(name: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Return the configuration of a model on the Hugging Face hub or in a folder.

    Raises:
        InputError: The model does not exist, its configuration cannot be read, or a revision of a
            folder is named.
    """
    check_folder("model", name, "config.json")
    check_revision(name, revision)
    try:
        return AutoConfig.from_pretrained(
            name, revision=revision, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise InputError(f"model {name}: {first_line(error)}") from error


def model_costs(
    config: Any, dtype: torch.dtype, tokenizer: Any = None, trust_remote_code: bool = False
) -> tuple[Decoder, ModelCosts]:
    """Return a decoder whose weights have no values, and what it costs.

    Args:
        config: The configuration.
        dtype: The type of the weights.
        tokenizer: The tokenizer of the decoder.
        trust_remote_code: Whether code that comes with the configuration may run.

    Raises:
        InputError: The model is not a decoder whose layers can be swept, or its code needs values.
    """
    own = type(config).from_dict(config.to_dict())  # transformers writes into it
    options = {"trust_remote_code": True} if trust_remote_code else {}
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(own, dtype=dtype, **options).eval()
        attention = model.config.get_text_config()._attn_implementation
        with _AnyValues():
            # Their products are all counted, and need no values.
            config = model.config.get_text_config()
            config._attn_implementation = "eager"
            config._experts_implementation = "batched_mm"
            decoder = Decoder(model, tokenizer, find_blocks(model), (), sliding_window(model))
            blocks = _block_costs(decoder)
            cache, activations = _bytes_of_a_token(decoder)
        config._attn_implementation = attention
    except InputError:
        raise
    except (ValueError, RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
        reason = first_line(error)
        raise InputError(f"model of type {config.model_type}: {reason}; it has no plan") from error
    weights = list(model.parameters())
    linear = [
        module
        for block in decoder.blocks
        for module in block.module.modules()
        if isinstance(module, nn.Linear | Conv1D)
    ]
    unembedding = model.get_output_embeddings().weight
    return decoder, ModelCosts(
        blocks=blocks,
        unembedding=2 * unembedding.numel(),
        parameters=sum(weight.numel() for weight in weights),
        weight_bytes=sum(weight.nbytes for weight in weights),
        adapter_width=sum(sum(module.weight.shape) for module in linear),
        width=model.config.get_text_config().hidden_size,
        vocabulary=len(unembedding),
        item_bytes=dtype.itemsize,
        cache_bytes=cache,
        activation_bytes=activations,
    )


class _AnyValues(TorchFunctionMode):
    """A mode in which code that asks for the value of a tensor without values is told True.

    transformers asks whether a mask leaves out anything, and whether positions begin at 0.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run any function as it is, except those that return a value."""
        if function in (Tensor.item, Tensor.__bool__) and args[0].is_meta:
            return True
        return function(*args, **(kwargs or {}))


def _block_costs(decoder: Decoder) -> tuple[BlockCost, ...]:
    """Count the FLOPs of blocks and their parts at two lengths, and solve for their terms."""
    short, long = _LENGTHS
    shorter, longer = _flops_by_part(decoder, short), _flops_by_part(decoder, long)

    def cost(part: nn.Module) -> Cost:
        few, many = shorter[part], longer[part]
        score = round((many * short - few * long) / (short * long * (long - short)))
        return Cost(round(few / short) - score * short, score)

    return tuple(
        BlockCost(
            cost(block.module),
            cost(block.attention),
            cost(block.heads.projection) if block.heads else Cost(0, 0),
            cost(block.mlp),
        )
        for block in decoder.blocks
    )


def _flops_by_part(decoder: Decoder, length: int) -> dict[nn.Module, int]:
    """Return the FLOPs of each block and each of its parts in a run without a cache."""
    flops: dict[nn.Module, int] = {}
    with ExitStack() as stack, FlopCounterMode(display=False) as counter:

        def begin(part: nn.Module, _: Any) -> None:
            flops[part] = -counter.get_total_flops()

        def end(part: nn.Module, _: Any, __: Any) -> None:
            flops[part] += counter.get_total_flops()

        for block in decoder.blocks:
            heads = [block.heads.projection] if block.heads else []
            for part in (block.module, block.attention, *heads, block.mlp):
                stack.callback(part.register_forward_pre_hook(begin).remove)
                stack.callback(part.register_forward_hook(end).remove)
        _run(decoder, length)
    return flops


def _bytes_of_a_token(decoder: Decoder) -> tuple[int, int]:
    """Return the bytes of a token's keys and values, and the most that it takes in a block."""
    live = LiveBytes()
    most = 0

    def begin(_: nn.Module, __: Any) -> None:
        live.restart()

    def end(_: nn.Module, __: Any, ___: Any) -> None:
        nonlocal most
        most = max(most, live.peak)

    with ExitStack() as stack, live:
        for block in decoder.blocks:
            stack.callback(block.module.register_forward_pre_hook(begin).remove)
            stack.callback(block.module.register_forward_hook(end).remove)
        _run(decoder, 1)
    cache = getattr(_run(decoder, 1, use_cache=True), cache_name(decoder.model.base_model))
    # Linear attention has none.
    layers = [layer for layer in cache.layers if hasattr(layer, "keys")]
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in layers), most


def _run(decoder: Decoder, length: int, use_cache: bool = False) -> Any:
    ids = torch.zeros(1, length, dtype=torch.long, device=decoder.device)
    with torch.no_grad():
        return decoder.model.base_model(
            input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=use_cache
        )


class LiveBytes(TorchDispatchMode):
    """A mode that counts the bytes of the tensors that are made and alive at a time."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self.restart()

    def restart(self) -> None:
        """Forget all tensors so far."""
        self._live = WeakKeyDictionary[Any, int]()
        self.peak = 0

    def __torch_dispatch__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run a function, and count the storages that it makes."""
        before = {
            tensor.untyped_storage()._cdata
            for tensor in tree_leaves((args, kwargs))
            if isinstance(tensor, Tensor)
        }
        output = function(*args, **(kwargs or {}))
        # The weights that batched experts gather; other implementations do not.
        is_gathered = function is torch.ops.aten.index.Tensor and isinstance(args[0], nn.Parameter)
        for tensor in tree_leaves(output):
            if isinstance(tensor, Tensor) and not is_gathered:
                storage = tensor.untyped_storage()
                if storage._cdata not in before:
                    self._live[storage] = storage.nbytes()
        self.peak = max(self.peak, sum(self._live.values()))
        return output
