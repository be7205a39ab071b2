"""How large the gradient of each loss is on the trained weights, next to that of cross-entropy.

With the paper's weights a loss may have thousandths of the gradient of cross-entropy, and then it
changes nothing. Measuring costs a backward pass for each loss.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_CROSS_ENTROPY = "cross-entropy"


class GradientShares:
    """The gradients of one step, summed over its micro-batches."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        """Start a step.

        Args:
            weights: The trained weights, without those of probes.
        """
        self._weights = weights
        self._sums: dict[str, list[Tensor]] = {}

    def add(self, cross_entropy: Tensor, losses: Mapping[str, Tensor]) -> None:
        """Add a micro-batch.

        Args:
            cross_entropy: Its loss in plain SFT.
            losses: What is added to it, by name, each with its weight. Graphs are kept.
        """
        for name, loss in {_CROSS_ENTROPY: cross_entropy, **losses}.items():
            gradients = torch.autograd.grad(
                loss, self._weights, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            sums = self._sums.setdefault(name, [torch.zeros_like(part) for part in gradients])
            for total, part in zip(sums, gradients, strict=True):
                total += part

    def shares(self, accelerator: Any) -> dict[str, float]:
        """Return the norm of each loss's gradient, as a share of that of cross-entropy.

        Args:
            accelerator: The accelerator, which sums up the gradients of all processes.
        """
        norms = {}
        for name, sums in self._sums.items():
            whole = [accelerator.reduce(part, "sum") for part in sums]
            squares = torch.stack([part.double().square().sum().cpu() for part in whole])
            norms[name] = squares.sum().sqrt().item()
        reference = norms.pop(_CROSS_ENTROPY)
        return {name: norm / reference for name, norm in norms.items() if reference}
