"""Replacing what a module or the attention of a model computes, and reading what it returns."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import signature
from typing import Any, Literal

import torch
from accelerate.utils.memory import should_reduce_batch_size
from torch import Tensor, nn

Side = Literal["input", "output"]


@contextmanager
def replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Replace the forward function of a module within a `with` statement.

    A library may have replaced `forward` before (accelerate does, to move tensors between devices);
    its function is restored.
    """
    own = module.__dict__.get("forward")
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        if own is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = own


def with_tensor(output: Any, first: Tensor) -> Any:
    """Return the output of a module with its tensor, alone or first of several, replaced."""
    if isinstance(output, list):
        return [first, *output[1:]]
    return (first, *output[1:]) if isinstance(output, tuple) else first


def first_tensor(output: Any) -> Tensor:
    """Return the tensor in the output of a module, alone or first of several."""
    tensor: Tensor = output[0] if isinstance(output, tuple | list) else output
    return tensor


def copied(output: Any) -> Any:
    """Return a copy of the output of a module, to which a block may add in place (Falcon)."""
    return with_tensor(output, first_tensor(output).clone())


@contextmanager
def recorded_tensors(module: nn.Module, side: Side) -> Iterator[list[Any]]:
    """Record copies of what a module receives or returns within a `with` statement."""
    own_forward = module.forward
    found: list[Any] = []

    def record(*args: Any, **kwargs: Any) -> Any:
        if side == "input":
            found.append(args[0].clone())
        output = own_forward(*args, **kwargs)
        if side == "output":
            found.append(copied(output))
        return output

    with replaced_forward(module, record):
        yield found


def edited(
    module: nn.Module, side: Side, edit: Callable[[Tensor], Tensor]
) -> AbstractContextManager[None]:
    """ModuleChange the tensor that a module receives or returns within a `with` statement."""
    own_forward = module.forward

    def run(*args: Any, **kwargs: Any) -> Any:
        if side == "input":
            return own_forward(edit(args[0]), *args[1:], **kwargs)
        output = own_forward(*args, **kwargs)
        return with_tensor(output, edit(first_tensor(output)))

    return replaced_forward(module, run)


def constant(module: nn.Module, output: Any) -> AbstractContextManager[None]:
    """Make a module return copies of an output for any input within a `with` statement."""
    return replaced_forward(module, lambda *_, **__: copied(output))


def cache_name(module: nn.Module) -> str:
    """Return what a model calls its keys and values: `cache` with transformers 5.24 and later."""
    named = signature(module.forward).parameters
    return "cache" if "cache" in named else "past_key_values"


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error says that the memory, of any device, is short."""
    is_known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return is_known or should_reduce_batch_size(error)
