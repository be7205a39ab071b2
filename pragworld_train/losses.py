"""The two losses that layer-regularised fine-tuning adds: plain functions of MLP outputs.

L = L_CE + alpha * L_amplify + beta * L_suppress (PragWorld paper, appendix H). Useful layer
amplification (ULA) asks a small probe on the MLP output of each useful layer for the label; harmful
layer suppression (HLS) penalises the size of the MLP outputs of each harmful one.

A batch may come in parts: several steps of accumulation, several processes. Told how many examples
or tokens the whole batch has, the losses of the parts add up to that of the whole.
"""

from typing import Literal

import torch
from torch import Tensor, nn

# Of HLS: the mean over features, as the paper's text and released code have it, or their sum, the
# squared norm of its equation.
Reduction = Literal["mean", "norm"]


class LabelProbe(nn.Module):
    """Two layers, R^D to R^2: logits of yes and of no from an MLP's output."""

    def __init__(self, width: int, hidden: int) -> None:
        """Takes the width D of the residual stream and that of the layer between."""
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, 2)

    def forward(self, outputs: Tensor) -> Tensor:
        """[..., width] to [..., 2], in the probe's own precision."""
        logits: Tensor = self.outer(torch.relu(self.inner(outputs.to(self.inner.weight.dtype))))
        return logits


def at_ends(output: Tensor, ends: Tensor) -> Tensor:
    """An MLP's output at the last token of each prompt: what its probe reads.

    Args:
        output: [rows, length, width].
        ends: [examples, 2] row and column of each prompt's last token, whose successor is the
            label. A row may hold several examples, or none.

    Returns:
        [examples, width].
    """
    rows, columns = ends.unbind(1)
    if torch.compiler.is_compiling():
        # Inductor (of torch 2.13, on CPUs) may read the gradient of what is indexed before it is
        # there, and then leaves it out without a word. A product has no such gradient.
        flat = output.flatten(0, 1)
        places = rows * output.shape[1] + columns
        picked = torch.arange(flat.shape[0], device=flat.device) == places[:, None]
        return picked.to(flat.dtype) @ flat
    return output[rows, columns]


def ula_loss(logits: Tensor, labels: Tensor, examples: Tensor | int | None = None) -> Tensor:
    """L_amplify: the mean, over useful layers and examples, of the probes' cross-entropy.

    Args:
        logits: [layers, examples, 2] of yes and no, from the probes.
        labels: [examples] 0 for yes and 1 for no.
        examples: how many the whole batch has, where these are a part of it.

    Returns:
        A scalar in float32; 0 where there are no examples.
    """
    layers, here, _ = logits.shape
    losses = nn.functional.cross_entropy(
        logits.float().flatten(0, 1), labels.repeat(layers), reduction="sum"
    )
    return losses / layers / (max(here, 1) if examples is None else examples)


def hls_loss(
    output: Tensor,
    mask: Tensor,
    reduction: Reduction = "mean",
    tokens: Tensor | int | None = None,
) -> Tensor:
    """L_suppress of one harmful layer: the mean over tokens of the squared MLP output.

    The loss of several layers is the mean of theirs.

    Args:
        output: [rows, length, width].
        mask: [rows, length] true for tokens, false for padding.
        reduction: over features.
        tokens: how many the whole batch has, where these are a part of it.

    Returns:
        A scalar in float32.
    """
    # Summed up in float32 (at least) without a copy of the output in it.
    precision = torch.promote_types(output.dtype, torch.float32)
    norms = torch.linalg.vector_norm(output, dim=-1, dtype=precision)
    total = torch.where(mask, norms, 0.0).square().sum()
    features = output.shape[-1] if reduction == "mean" else 1
    return total / features / (mask.sum() if tokens is None else tokens)
