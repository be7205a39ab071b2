"""The two losses of layer-regularized fine-tuning, as functions of MLP outputs.

    L = L_CE + alpha * L_amplify + beta * L_suppress    (PragWorld paper, appendix H)

- Useful layer amplification (ULA): a small probe predicts the label from the MLP output of each
  useful layer. L_amplify is its cross-entropy.
- Harmful layer suppression (HLS): L_suppress is the mean square of the MLP outputs of each harmful
  layer.

A batch may arrive in parts, from several accumulation steps or processes. Given the number of
examples or tokens in the whole batch, the losses of the parts add up to the loss of the whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pragworld_tasks.errors import InputError
from pragworld_train.layer_settings import Reduction


class LabelProbe(nn.Module):
    """A two-layer network that maps an MLP output to the logits of the classes of labels."""

    def __init__(self, width: int, hidden: int, classes: int = 2) -> None:
        """Create a probe for a residual stream of `width`, with `hidden` units between."""
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, classes)

    def forward(self, outputs: Tensor) -> Tensor:
        """Return logits [..., classes] for outputs [..., width], in the precision of the probe."""
        with torch.autocast(outputs.device.type, enabled=False):
            hidden = torch.relu(self.inner(outputs.to(self.inner.weight.dtype)))
            logits: Tensor = self.outer(hidden)
        return logits


def at_ends(output: Tensor, ends: Tensor) -> Tensor:
    """Return an MLP's output at the token before each label, where its probe reads it.

    Args:
        output: [rows, length, width].
        ends: [examples, 2] row and column of the token before each label. A row may hold any
            number of labels.

    Returns:
        [examples, width].
    """
    rows, columns = ends.unbind(1)
    if torch.compiler.is_compiling():
        # Inductor (torch 2.13, on CPUs) may read the gradient of an indexed tensor before it is
        # computed, and then drops it silently. The gradient of a product is not affected.
        flat = output.flatten(0, 1)
        positions = rows * output.shape[1] + columns
        picked = torch.arange(flat.shape[0], device=flat.device) == positions[:, None]
        return picked.to(flat.dtype) @ flat
    return output[rows, columns]


def ula_loss(logits: Tensor, labels: Tensor, examples: Tensor | int | None = None) -> Tensor:
    """Return L_amplify: the mean cross-entropy of the probes, over useful layers and examples.

    Args:
        logits: [layers, examples, classes] from the probes.
        labels: [examples] the class of each.
        examples: Number of examples in the whole batch, if these are a part of it.

    Returns:
        A scalar in float32; 0 if there are no examples.

    Examples:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 0.0]]])  # one probe, at chance
        >>> ula_loss(logits, torch.tensor([0, 1]))
        tensor(0.6931)
        >>> ula_loss(logits, torch.tensor([0, 1]), examples=4)  # half of a batch
        tensor(0.3466)
    """
    layers, here, _ = logits.shape
    losses = nn.functional.cross_entropy(
        logits.float().flatten(0, 1), labels.repeat(layers), reduction="sum"
    )
    count = torch.as_tensor(here if examples is None else examples)
    return losses / layers / count.clamp(min=1)


def hls_loss(
    output: Tensor,
    mask: Tensor,
    reduction: Reduction = "mean",
    tokens: Tensor | int | None = None,
) -> Tensor:
    """Return L_suppress of one harmful layer: the mean over tokens of the squared MLP output.

    The loss of several layers is the mean of their losses.

    Args:
        output: [rows, length, width].
        mask: [rows, length] True for tokens, False for padding.
        reduction: "mean" over features, as in the paper's text and released code, or their sum
            ("norm"), the squared norm of the paper's equation.
        tokens: Number of tokens in the whole batch, if these are a part of it.

    Returns:
        A scalar in float32, or in float64 if `output` is.

    Raises:
        InputError: There is no such reduction, or the mask has another shape.

    Examples:
        >>> import torch
        >>> output = torch.tensor([[[1.0, 3.0], [9.0, 9.0]]])  # a token and padding
        >>> mask = torch.tensor([[True, False]])
        >>> print(f"{hls_loss(output, mask):.1f} {hls_loss(output, mask, 'norm'):.1f}")
        5.0 10.0
    """
    if reduction not in get_args(Reduction) or mask.shape != output.shape[:-1]:
        raise InputError(
            f"reduction {reduction!r}, mask {list(mask.shape)}, output {list(output.shape)}; use "
            f"{' or '.join(get_args(Reduction))}, and a mask of {list(output.shape[:-1])}"
        )
    total: Tensor = _square_sum(output, mask)
    features = output.shape[-1] if reduction == "mean" else 1
    return total / features / (mask.sum() if tokens is None else tokens)


class _SquareSum(torch.autograd.Function):
    """The sum of squares of an output over tokens, in float32 at least.

    It keeps the output itself for its gradient and nothing else that large. On a GPU, neither makes
    a copy of the output in that precision.
    """

    @staticmethod
    def forward(ctx: Any, output: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(output, mask)
        precision = torch.promote_types(output.dtype, torch.float32)
        norms = torch.linalg.vector_norm(output, dim=-1, dtype=precision)
        return torch.where(mask, norms, 0.0).square().sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        output, mask = ctx.saved_tensors
        factors = (2 * gradient).expand(mask.shape)[..., None]
        product = torch.mul(output, factors, out=torch.empty_like(output))
        return product.masked_fill_(~mask[..., None], 0.0), None


_square_sum: Any = _SquareSum.apply  # torch gives it no types


def gradient_shares(
    cross_entropy: Tensor, losses: Mapping[str, Tensor], weights: Sequence[Tensor], accelerator: Any
) -> dict[str, float]:
    """Return the norm of each loss's gradient, as a share of that of cross-entropy.

    With the paper's weights a loss may have thousandths of the gradient of cross-entropy, and then
    it changes nothing. Measuring costs a backward pass for each loss.

    Args:
        cross_entropy: The loss of a batch in plain SFT.
        losses: What is added to it, by name, each with its weight. Graphs are kept.
        weights: The trained weights, without those of probes.
        accelerator: The accelerator, which sums up the gradients of all processes.
    """

    def norm(loss: Tensor) -> float:
        gradients = torch.autograd.grad(
            loss, weights, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        whole = [accelerator.reduce(part, "sum") for part in gradients]
        squares = torch.stack([part.double().square().sum().cpu() for part in whole])
        return squares.sum().sqrt().item()

    reference = norm(cross_entropy)
    return {name: norm(loss) / reference for name, loss in losses.items() if reference}
