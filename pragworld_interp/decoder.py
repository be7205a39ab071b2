"""Any decoder-only Hugging Face model, and where in it blocks, attention and MLP are.

They are found by structure, not by the names of classes: the blocks are the longest list of modules
that are called one after the other on the residual stream; in a block the MLP is the part with
weights that takes one tensor and nothing else, and attention the part that is told positions and a
mask. What cannot be found so is refused by name.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pragworld_tasks.errors import InputError


@dataclass(frozen=True)
class Block:
    """One layer of a decoder, and its two parts.

    Attributes:
        module: the layer itself.
        attention, mlp: its parts.
        in_tuple: whether it returns the residuals first in a tuple, rather than alone.
    """

    module: nn.Module
    attention: nn.Module
    mlp: nn.Module
    in_tuple: bool

    def returned(self, hidden: Tensor) -> Any:
        """The residuals as the block returns them."""
        return (hidden,) if self.in_tuple else hidden


@dataclass(frozen=True)
class Decoder:
    """A causal language model, ready to be taken apart.

    Attributes:
        model: in evaluation mode.
        tokenizer: its own.
        blocks: from the first layer on.
        labels: ids of the tokens for yes and for no, in this order.
        window: the longest prompt that layers with a sliding window (or in chunks) see whole; None:
            there are no such layers.
    """

    model: Any
    tokenizer: Any
    blocks: tuple[Block, ...]
    labels: tuple[int, int]
    window: int | None

    @property
    def device(self) -> torch.device:
        """Where token ids are fed in."""
        device: torch.device = self.model.get_input_embeddings().weight.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """Of the residual stream."""
        dtype: torch.dtype = self.model.get_input_embeddings().weight.dtype
        return dtype

    @torch.inference_mode()
    def label_logits(self, hidden: Tensor) -> Tensor:
        """What the model makes of residuals behind its last block.

        Args:
            hidden: [n, width].

        Returns:
            [n, 2] logits of yes and of no, in float32. Final norm, unembedding and whatever else
            an architecture does to logits are the model's own, with its blocks passed over; where
            the unembedding is a plain matrix, only two of its rows are multiplied.
        """
        last = self.blocks[-1].module
        with ExitStack() as stack:
            for block in self.blocks:
                result = hidden[:, None] if block.module is last else None
                stack.enter_context(_passed_over(block, result))
            columns = stack.enter_context(_label_rows_only(self.model, self.labels))
            ids = torch.zeros(len(hidden), 1, dtype=torch.long, device=self.device)
            logits: Tensor = self.model(
                input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False
            ).logits
        return logits[:, -1, columns].float()


def from_model(model: Any, tokenizer: Any) -> Decoder:
    """The decoder of a causal language model.

    Raises:
        InputError: an architecture in which blocks, attention or MLP cannot be found, a tokenizer
            without single tokens for the labels, or weights that are not in memory.
    """
    if any(parameter.is_meta for parameter in model.parameters()):
        raise InputError(
            f"{_architecture(model)}: some weights do not fit and stay out of memory; take a "
            "smaller dtype, --quantization, or more devices"
        )
    model.eval()
    return Decoder(model, tokenizer, find_blocks(model), label_tokens(tokenizer), _window(model))


def label_tokens(tokenizer: Any) -> tuple[int, int]:
    """The ids of " yes" and " no" if either is one token, else of "yes" and "no".

    Raises:
        InputError: neither pair is; names the tokenizer.
    """
    for words in ((" yes", " no"), ("yes", "no")):
        ids = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
        if all(len(each) == 1 for each in ids) and ids[0] != ids[1]:
            unknown = getattr(tokenizer, "unk_token_id", None)
            if unknown is None or unknown not in (ids[0][0], ids[1][0]):
                return ids[0][0], ids[1][0]
    name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    raise InputError(f"tokenizer {name}: neither ' yes' and ' no' nor 'yes' and 'no' are one token")


# Structure ----------------------------------------------------------------------------------------


@dataclass
class _Call:
    """A module's first call in a forward pass: its input, how many tensors, when, what came."""

    first: Tensor
    tensors: int
    order: int
    in_tuple: bool = False


def find_blocks(model: nn.Module) -> tuple[Block, ...]:
    """The layers of a causal language model in evaluation mode, and the parts of each.

    Raises:
        InputError: an architecture in which they cannot be found.
    """
    name = _architecture(model)
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m)]
    stacks = sorted(
        (m for m in lists if all(any(p.ndim > 1 for p in each.parameters()) for each in m)),
        key=len,
        reverse=True,
    )
    calls = _record_calls(model)
    for stack in stacks:
        called = [each for each in stack if each in calls]
        shapes = {calls[each].first.shape for each in called}
        if len(called) == len(stack) and len(shapes) == 1 and _in_order(called, calls):
            return tuple(
                _take_apart(each, calls, f"{name}, block {k}") for k, each in enumerate(stack)
            )
    raise InputError(f"{name}: no stack of blocks was found in it; it cannot be swept")


def _in_order(modules: Sequence[nn.Module], calls: dict[nn.Module, _Call]) -> bool:
    orders = [calls[each].order for each in modules]
    return orders == sorted(orders)


def _take_apart(block: nn.Module, calls: dict[nn.Module, _Call], name: str) -> Block:
    """The block's attention and MLP. Norms have no matrices; experts may be lists of them."""
    parts = [
        each
        for each in block.children()
        if each in calls and any(p.ndim > 1 or p.numel() == 0 for p in each.parameters())
    ]
    mixing = [each for each in parts if calls[each].tensors > 1]
    alone = [each for each in parts if calls[each].tensors == 1]
    if len(mixing) != 1 or len(alone) != 1:
        raise InputError(
            f"{name}: {len(mixing)} attention and {len(alone)} MLP modules found, not one of each; "
            "this architecture cannot be swept"
        )
    if calls[mixing[0]].order > calls[alone[0]].order:
        raise InputError(f"{name}: the MLP comes before attention; it cannot be swept")
    return Block(block, mixing[0], alone[0], calls[block].in_tuple)


def _record_calls(model: nn.Module) -> dict[nn.Module, _Call]:
    """Runs three tokens through the model and records what every module is called with."""
    calls: dict[nn.Module, _Call] = {}

    def record(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [each for each in _flat((args, kwargs)) if isinstance(each, Tensor)]
        if tensors and module not in calls:
            calls[module] = _Call(tensors[0], len(tensors), len(calls))

    def record_output(module: nn.Module, _: Any, output: Any) -> None:
        if module in calls:
            calls[module].in_tuple = isinstance(output, tuple)

    with ExitStack() as stack:
        for module in model.modules():
            handle = module.register_forward_pre_hook(record, with_kwargs=True)
            stack.callback(handle.remove)
            stack.callback(module.register_forward_hook(record_output).remove)
        ids = torch.tensor([[1, 2, 3]], device=model.get_input_embeddings().weight.device)  # type: ignore[operator]
        with torch.no_grad():  # what a model keeps of this pass may be trained with
            model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
    return calls


def _flat(nested: Any) -> Iterator[Any]:
    if isinstance(nested, list | tuple):
        for each in nested:
            yield from _flat(each)
    elif isinstance(nested, dict):
        yield from _flat(list(nested.values()))
    else:
        yield nested


def _architecture(model: nn.Module) -> str:
    config = getattr(model, "config", None)
    return getattr(config, "model_type", None) or type(model).__name__


def _window(model: nn.Module) -> int | None:
    config = model.config.get_text_config()  # type: ignore[operator, union-attr]
    kinds = getattr(config, "layer_types", None) or ()
    window = getattr(config, "sliding_window", None)
    if isinstance(window, int) and getattr(config, "use_sliding_window", True) is not False:
        return window if not kinds or any("sliding" in kind for kind in kinds) else None
    # Llama 4 has tokens see those of their own chunk only.
    return getattr(config, "attention_chunk_size", None)


# Replacing what a module does ---------------------------------------------------------------------


@contextmanager
def replaced(module: nn.Module, forward: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Has the module do something else for a while; gives what it does otherwise.

    What a library has put in the place of `forward` (accelerate, to move tensors between devices)
    is kept and put back.
    """
    own = module.__dict__.get("forward")
    before: Callable[..., Any] = module.forward
    module.__dict__["forward"] = forward
    try:
        yield before
    finally:
        if own is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = own


def with_first(output: Any, first: Tensor) -> Any:
    """The output of a module with another tensor where it has one, or first in a tuple."""
    return (first, *output[1:]) if isinstance(output, tuple) else first


def first_of(output: Any) -> Tensor:
    """The tensor that a module returns, alone or first in a tuple."""
    tensor: Tensor = output[0] if isinstance(output, tuple) else output
    return tensor


@contextmanager
def _passed_over(block: Block, result: Tensor | None) -> Iterator[None]:
    """Has the block return `result`, or what it was given."""

    def forward(hidden_states: Tensor, *_: Any, **__: Any) -> Any:
        return block.returned(hidden_states if result is None else result)

    with replaced(block.module, forward):
        yield


@contextmanager
def _label_rows_only(model: Any, labels: tuple[int, int]) -> Iterator[list[int]]:
    """Leaves the unembedding no rows but those of the labels; gives the columns they are in.

    An unembedding that is more than a matrix (with an adapter on it, quantised) stays as it is.
    """
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear:
        yield list(labels)
        return
    rows = torch.tensor(labels, device=head.weight.device)

    def forward(hidden: Tensor) -> Tensor:
        bias = None if head.bias is None else head.bias[rows]
        return nn.functional.linear(hidden.to(rows.device), head.weight[rows], bias)

    with replaced(head, forward):
        yield [0, 1]
