"""A decoder-only Hugging Face model, and where its blocks, attention and MLPs are.

They are found by structure, not by class names. The blocks are the longest list of modules that the
model calls one after the other on the residual stream. Within a block, the MLP is the part with
weights that receives one tensor and nothing else; attention is the part that also receives
positions and a mask. Architectures without such parts raise an error that names them.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import transformers
from packaging.version import Version
from torch import Tensor, nn

from pragworld_interp.engine.modules import first_tensor, replaced_forward
from pragworld_interp.prompts.labels import label_tokens
from pragworld_tasks.errors import InputError

OLDEST_TRANSFORMERS = "5.13.0"  # as in pyproject.toml
_TOKENS = 6  # that a model is tried on, two rows of three


@dataclass(frozen=True)
class Heads:
    """The heads of a layer's attention."""

    projection: nn.Module  # into which the outputs of all heads go, side by side
    count: int
    width: int  # of each

    def columns(self, head: int) -> slice:
        """Return the columns of a head among those that go into the projection."""
        return slice(head * self.width, (head + 1) * self.width)


@dataclass(frozen=True)
class Block:
    """One layer of a decoder, and the two parts whose outputs are added to the residuals."""

    module: nn.Module
    attention: nn.Module
    mlp: nn.Module
    heads: Heads | None  # None if they cannot be told apart
    returned: int  # how many things it returns in a tuple; 0 for the residuals alone
    folded: bool  # whether it receives a bias of [rows times heads, 1, length] (ALiBi of BLOOM)
    head_bias: bool  # whether it receives a bias of [heads, 1, length] for all rows (ALiBi of MPT)
    adds_in_place: bool  # whether it adds something to the output of the MLP in place (Falcon)

    def as_returned(self, hidden: Tensor) -> Any:
        """Return residuals in the form in which the block returns them."""
        return (hidden, *[None] * (self.returned - 1)) if self.returned else hidden


@dataclass(frozen=True)
class Decoder:
    """A causal language model, in evaluation mode, whose blocks can be swept."""

    model: Any
    tokenizer: Any
    blocks: tuple[Block, ...]  # from the first layer to the last
    labels: tuple[int, ...]  # the tokens whose logits count, such as yes and no
    window: int | None  # the longest prompt that layers with a sliding window see as a whole

    @property
    def device(self) -> torch.device:
        """The device of the embeddings, where token ids go."""
        device: torch.device = self.model.get_input_embeddings().weight.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the residual stream."""
        dtype: torch.dtype = self.model.get_input_embeddings().weight.dtype
        return dtype

    @property
    def attention(self) -> str:
        """The implementation of attention, as transformers names it."""
        return str(self.model.config.get_text_config()._attn_implementation)

    @torch.inference_mode()
    def label_logits(self, hidden: Tensor) -> Tensor:
        """Compute the logits of the labels from residuals after the last block.

        Final norm, unembedding and any other operation on logits are the model's own: it runs with
        its blocks bypassed. If the unembedding is a plain matrix, only the rows of the labels
        are multiplied.

        Returns:
            [n, labels] logits, in float32.
        """
        last = self.blocks[-1].module
        with ExitStack() as stack:
            for block in self.blocks:
                result = hidden[:, None] if block.module is last else None
                stack.enter_context(_bypassed(block, result))
            columns = stack.enter_context(label_rows_only(self.model, self.labels))
            ids = torch.zeros(len(hidden), 1, dtype=torch.long, device=self.device)
            logits: Tensor = self.model(
                input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False
            ).logits
        return logits[:, -1, columns].float()


def from_model(
    model: Any, tokenizer: Any, chat_template: bool = False, labels: Sequence[int] | None = None
) -> Decoder:
    """Return the decoder of a causal language model."""
    labels = label_tokens(tokenizer, chat_template) if labels is None else labels
    adapter = ", ".join(getattr(model, "peft_config", None) or ())
    model = with_adapter_inside(model, adapter)
    if any(parameter.is_meta for parameter in model.parameters()):
        raise InputError(
            f"{_architecture(model)}: some weights do not fit into memory; use a smaller dtype, "
            "quantize the model, or use more devices"
        )
    if model.config.get_text_config()._attn_implementation == "flex_attention":
        raise InputError(
            f"{_architecture(model)}: flex_attention has masks of blocks, which cannot be divided "
            "among branches; use sdpa as the implementation of attention"
        )
    model.eval()
    return Decoder(model, tokenizer, find_blocks(model), tuple(labels), sliding_window(model))


def with_adapter_inside(model: Any, adapter: str) -> Any:
    """Return the model in a PeftModel, whose modules include the adapter; any other model as it is.

    The wrapper runs the unembedding at every position even where residuals are wanted only.
    """
    if not hasattr(model, "get_base_model"):
        return model
    if model.active_peft_config.is_prompt_learning:
        raise InputError(
            f"adapter {adapter}: it adds tokens before the prompt; only adapters within the "
            "model's modules, such as LoRA, can be swept"
        )
    return model.get_base_model()


# Structure ----------------------------------------------------------------------------------------


@dataclass
class _Call:
    """The first call of a module in a forward pass."""

    first: Tensor  # that the module received
    tensors: int  # how many it received
    adds_residual: bool  # whether it received two tensors of the shape of the residuals
    folded: bool  # whether it received something for each row and head, in one dimension
    head_bias: bool  # whether it received something for each head, in the place of rows
    order: int  # how many modules were called before
    times: int = 1  # that it was called
    returned: int = 0  # how many things it returned in a tuple
    output: Tensor | None = None
    copy: Tensor | None = None  # of the output, as it was returned

    @property
    def output_width(self) -> int:
        """The width of the output; 0 without one."""
        return 0 if self.output is None else self.output.shape[-1]

    @property
    def changed_later(self) -> bool:
        """Whether something changed the output in place; False without values."""
        if self.output is None or self.copy is None or self.output.is_meta:
            return False
        return not torch.equal(self.output, self.copy)


def find_blocks(model: nn.Module) -> tuple[Block, ...]:
    """Find the layers of a causal language model in evaluation mode, and their parts."""
    name = _architecture(model)
    # Below, some numbers are wrong: sweeps with transformers 4, which keeps the settings of rope
    # elsewhere, gradients up to 5.9, and pyvene up to 5.12, where dynamic rope remembers prompts.
    if Version(transformers.__version__) < Version(OLDEST_TRANSFORMERS):
        raise InputError(
            f"transformers {transformers.__version__} is too old for layers; needed is "
            f"{OLDEST_TRANSFORMERS} or newer: pip install -U 'pragworld[interp]'"
        )
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise InputError(f"{name}: the model has an encoder, but layers are swept in decoders only")
    stacks = [
        modules
        for modules in model.modules()
        if isinstance(modules, nn.ModuleList) and len(modules) and all(map(_has_matrix, modules))
    ]
    calls, logits = _record_calls(model)
    if not (logits.is_meta or _is_causal(logits)):
        raise InputError(
            f"{name}: its attention is not causal: tokens see later ones; use a causal language "
            "model"
        )
    for stack in sorted(stacks, key=len, reverse=True):
        recorded = [calls[block] for block in stack if block in calls]
        shapes = {call.first.shape for call in recorded}
        orders = [call.order for call in recorded]
        if len(recorded) == len(stack) and len(shapes) == 1 and orders == sorted(orders):
            return tuple(
                _find_parts(block, calls, _head_count(model, number), f"{name}, block {number}")
                for number, block in enumerate(stack)
            )
    raise InputError(f"{name}: the model has no list of blocks, so it cannot be swept")


def _has_matrix(module: nn.Module) -> bool:
    return any(parameter.ndim > 1 for parameter in module.parameters())


def _find_parts(
    block: nn.Module, calls: dict[nn.Module, _Call], heads: int | None, name: str
) -> Block:
    """Find the attention and the MLP of a block. Norms have no matrices."""
    if calls[block].times > 1:
        raise InputError(
            f"{name}: it is called {calls[block].times} times in a pass; this architecture cannot "
            "be swept"
        )
    if calls[block].returned > 2:  # more than residuals and attention weights
        raise InputError(f"{name}: it returns a state; this architecture cannot be swept")
    parts = [
        part
        for part in block.children()
        # Where weights are sharded between processes, those of others are empty here.
        if part in calls and any(p.ndim > 1 or p.numel() == 0 for p in part.parameters())
    ]
    parts.sort(key=lambda part: calls[part].order)
    if len(parts) == 3 and _are_chained(calls[parts[1]], calls[parts[2]]):
        del parts[1]  # the two matrices of an MLP stand in the block itself (OPT)
    # Attention also receives positions and a mask; linear attention may receive one tensor only.
    others = [calls[part].tensors > 1 and not calls[part].adds_residual for part in parts]
    if len(parts) != 2 or others[1]:
        found = f"{sum(others)} attention and {len(parts) - sum(others)} MLP modules"
        wrong = "the MLP before attention" if others == [False, True] else "instead of one each"
        raise InputError(f"{name}: {found}, {wrong}; this architecture cannot be swept")
    projections = [_projection(part, calls) for part in parts]
    attention, mlp = (
        _added_to_residuals(part, projection, calls, name)
        for part, projection in zip(parts, projections, strict=True)
    )
    found_heads = _find_heads(projections[0], calls, heads) if heads and projections[0] else None
    call = calls[block]
    return Block(
        block,
        attention,
        mlp,
        found_heads,
        returned=call.returned,
        folded=call.folded,
        head_bias=call.head_bias,
        adds_in_place=calls[mlp].changed_later,
    )


def _find_heads(projection: nn.Module, calls: dict[nn.Module, _Call], count: int) -> Heads | None:
    """Return the heads whose outputs go into a projection; None if they don't go there alike."""
    received = calls[projection].first
    columns = received.shape[-1]
    if received.numel() != _TOKENS * columns:  # experts, each of which gets some tokens
        return None
    return Heads(projection, count, columns // count) if columns % count == 0 else None


def _head_count(model: Any, layer: int) -> int | None:
    """Return the heads of a layer as the model's configuration tells them."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None) or ()
    if layer < len(kinds) and ("attention" not in kinds[layer] or "linear" in kinds[layer]):
        return None
    count = getattr(config, "num_attention_heads", None)
    return count if isinstance(count, int) else None


def _are_chained(first: _Call, second: _Call) -> bool:
    """Return whether one part widens the residuals, and the next one narrows them again."""
    width = first.first.shape[-1]
    return (first.tensors, second.tensors) == (1, 1) and (
        first.output_width == second.first.shape[-1] != width == second.output_width
    )


def _projection(part: nn.Module, calls: dict[nn.Module, _Call]) -> nn.Module | None:
    """Return the module that holds the last matrix of a part, with what an adapter adds to it."""
    matrices = [
        module
        for module in part.modules()
        if module in calls and any(p.ndim > 1 for p in module.parameters(recurse=False))
    ]
    matrices.sort(key=lambda module: calls[module].order)
    if len(matrices) < 2:
        return None
    around_last = [
        module
        for module in part.modules()
        if module in calls
        and calls[module].order > calls[matrices[0]].order
        and any(inner is matrices[-1] for inner in module.modules())
    ]
    return min(around_last, key=lambda module: calls[module].order)


def _added_to_residuals(
    part: nn.Module, projection: nn.Module | None, calls: dict[nn.Module, _Call], name: str
) -> nn.Module:
    """Return the module within a part whose output is added to the residuals.

    It is the part, unless that adds the residuals itself (BLOOM, MPT).
    """
    if not calls[part].adds_residual:
        return part
    if projection is None or calls[projection].output_width != calls[part].first.shape[-1]:
        raise InputError(
            f"{name}: a part adds the residuals itself, in an unknown way; this architecture "
            "cannot be swept"
        )
    return projection


def _record_calls(model: nn.Module) -> tuple[dict[nn.Module, _Call], Tensor]:
    """Run two rows of three tokens through the model and record the first call of every module.

    Returns:
        The calls, and the [2, 3, vocabulary] logits of the rows, which differ in their last token.
    """
    calls: dict[nn.Module, _Call] = {}

    def record(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if module in calls:
            calls[module].times += 1
        elif tensors:
            shape = tensors[0].shape
            adds_residual = len(shape) == 3 and any(other.shape == shape for other in tensors[1:])
            biases = [_rows_of_bias(tensor) for tensor in tensors]
            calls[module] = _Call(
                tensors[0],
                len(tensors),
                adds_residual,
                folded="folded" in biases,
                head_bias="heads" in biases,
                order=len(calls),
            )

    def record_output(module: nn.Module, _: Any, output: Any) -> None:
        if module in calls:
            call = calls[module]
            call.returned = len(output) if isinstance(output, tuple | list) else 0
            if isinstance(first := first_tensor(output), Tensor) and first.ndim:
                call.output, call.copy = first, first.clone()

    with ExitStack() as stack:
        for module in model.modules():
            handle = module.register_forward_pre_hook(record, with_kwargs=True)
            stack.callback(handle.remove)
            stack.callback(module.register_forward_hook(record_output).remove)
        device = model.get_input_embeddings().weight.device  # type: ignore[operator]
        ids = torch.tensor([[1, 2, 3], [1, 2, 0]], device=device)
        with torch.no_grad():  # inference mode would leave tensors that training cannot use
            output = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
    return calls, output.logits


def _is_causal(logits: Tensor) -> bool:
    """Return whether the logits of two rows agree before the last token, which alone differs."""
    first, second = logits[:, :-1].float()
    change = (first - second).norm() / first.norm()
    return not change > max(1e-3, 2 * torch.finfo(logits.dtype).eps)  # so that NaN is for others


def _rows_of_bias(tensor: Tensor) -> Literal["folded", "heads"] | None:
    """Return what the first dimension of a bias of [n, 1, length] counts; None for no such bias.

    The two rows of the batch differ in one token only, so that a tensor of positions or masks with
    different halves is not one of rows.
    """
    if tensor.ndim != 3 or tensor.shape[1] != 1 or len(tensor) < 2:
        return None
    if len(tensor) % 2 or not (tensor[: len(tensor) // 2] == tensor[len(tensor) // 2 :]).all():
        return "heads"
    return "folded" if len(tensor) > 2 else None


def _leaves(nested: Any) -> Iterator[Any]:
    if isinstance(nested, list | tuple):
        for item in nested:
            yield from _leaves(item)
    elif isinstance(nested, dict):
        yield from _leaves(list(nested.values()))
    else:
        yield nested


def _architecture(model: nn.Module) -> str:
    config = getattr(model, "config", None)
    return getattr(config, "model_type", None) or type(model).__name__


def sliding_window(model: Any) -> int | None:
    """Return how many tokens the layers with a sliding window see; None if all see all."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ()
    window = getattr(config, "sliding_window", None)
    if isinstance(window, int) and getattr(config, "use_sliding_window", True) is not False:
        return window if not kinds or any("sliding" in kind for kind in kinds) else None
    if "local" in (getattr(config, "attention_layers", None) or ()):  # GPT-Neo
        return int(config.window_size)
    # In Llama 4, tokens see only those of their own chunk.
    return getattr(config, "attention_chunk_size", None)


# Replacing what a module computes -----------------------------------------------------------------


@contextmanager
def _bypassed(block: Block, result: Tensor | None) -> Iterator[None]:
    """Make a block return `result`, or its input if that is None."""

    def forward(hidden_states: Tensor, *_: Any, **__: Any) -> Any:
        return block.as_returned(hidden_states if result is None else result)

    with replaced_forward(block.module, forward):
        yield


@contextmanager
def label_rows_only(model: Any, labels: tuple[int, ...]) -> Iterator[list[int] | slice]:
    """Reduce the unembedding to the rows of the labels, and yield the columns of their logits.

    An unembedding that is more than a matrix (quantized, or with an adapter) stays as it is.
    """
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear:
        yield list(labels)
        return
    rows = torch.tensor(labels, device=head.weight.device)

    def forward(hidden: Tensor) -> Tensor:
        # In float32: rounded to a shorter type, the logits of labels would often be equal.
        bias = None if head.bias is None else head.bias[rows].float()
        weight = head.weight[rows].float()
        return nn.functional.linear(hidden.to(rows.device).float(), weight, bias)

    with replaced_forward(head, forward):
        yield slice(None)
