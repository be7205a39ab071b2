"""Rotary embeddings that depend on the longest prompt of a batch, computed for each prompt alone.

Phi-3's longrope has one set of frequencies for short prompts and one for long prompts, and dynamic
NTK scaling has one for every length beyond the trained one. transformers chooses by the largest
position in the whole batch, and dynamic NTK keeps the frequencies of the longest prompt so far.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pragworld_interp.engine.modules import replaced_forward

_DEPENDENT = ("longrope", "dynamic")


def rope_limit(model: Any) -> int | None:
    """Return the length up to which rotary embeddings do not depend on the batch; None for any."""
    limits = [
        int(parameters.get("original_max_position_embeddings") or module.original_max_seq_len)
        for module in model.modules()
        for parameters in _dependent_parameters(module)
    ]
    return min(limits, default=None)


def longest_prompt(model: nn.Module) -> int | None:
    """Return how many tokens a model supports; None if its config does not say."""
    config = model.config.get_text_config()  # type: ignore[operator, union-attr]
    # Most configs map names of their own to the first one.
    names = ("max_position_embeddings", "max_seq_len", "max_seq_length", "n_positions", "n_ctx")
    most: int | None = next(filter(None, (getattr(config, name, None) for name in names)), None)
    scales = [
        parameters.get("factor", 1.0)
        for module in model.modules()
        for parameters in _dependent_parameters(module)
        if "dynamic" in parameters["rope_type"]  # whose maximum is that of the trained frequencies
    ]
    return most and int(most * max(scales, default=1.0))


@contextmanager
def rope_of_each_row(model: nn.Module) -> Iterator[None]:
    """Compute rotary embeddings as if each row of a batch ran alone, within a `with` statement."""
    with ExitStack() as stack:
        for module in model.modules():
            if any(_dependent_parameters(module)):
                by_row = _by_row(module.forward)
                stack.enter_context(replaced_forward(module, by_row))
        yield


def _by_row(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Tensor, position_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
        lengths = position_ids.amax(-1)
        parts: list[tuple[Tensor, Any]] = []
        for length in sorted(set(lengths.tolist())):
            (rows,) = (lengths == length).nonzero(as_tuple=True)
            # A short prompt first: it resets frequencies that an earlier long prompt has left.
            forward(x[:1], torch.zeros_like(position_ids[:1, :1]), *args, **kwargs)
            parts.append((rows, forward(x, position_ids[rows], *args, **kwargs)))
        if len(parts) == 1:
            return parts[0][1]
        order = torch.cat([rows for rows, _ in parts]).argsort()
        return tuple(
            torch.cat([output[number] for _, output in parts])[order.to(parts[0][1][number].device)]
            for number in range(len(parts[0][1]))
        )

    return run


def _dependent_parameters(module: nn.Module) -> list[dict[str, Any]]:
    """Return the parameters by which a module's frequencies depend on the batch, if they do."""
    if not isinstance(getattr(module, "rope_type", None), str | dict):
        return []
    parameters = getattr(module.config, "rope_parameters", None) or {}
    kinds = [parameters, *parameters.values()]  # one for all layers, or one for each type
    return [
        kind
        for kind in kinds
        if isinstance(kind, dict) and any(d in str(kind.get("rope_type")) for d in _DEPENDENT)
    ]
