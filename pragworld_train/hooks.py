"""Hooks on MLPs that compute what the losses need during the forward pass of training.

A hook keeps no more than its loss needs: a layer's output at a few positions, or one number. With
gradient checkpointing the hooks run inside the checkpointed layer, so no full output is kept. The
layer, hooks included, runs again for the gradient, and the results of that second run are ignored.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pragworld_interp.engine.decoder import Block
from pragworld_interp.engine.modules import copied, first_tensor
from pragworld_train.layer_settings import Reduction
from pragworld_train.losses import LabelProbe, at_ends, hls_loss


@dataclass(frozen=True)
class LossPositions:
    """The positions of a batch that the losses are computed from.

    Attributes:
        ends: [examples, 2] row and column of the token before each label.
        labels: [examples] the class of each label.
        mask: [rows, length] True for tokens, False for padding.
        tokens: Number of tokens in the whole batch, of which this may be a part.
    """

    ends: Tensor
    labels: Tensor
    mask: Tensor
    tokens: Tensor


def find_positions(batch: Mapping[str, Any], tokens: Tensor) -> LossPositions:
    """Find the labels and the padding of a batch.

    Args:
        batch: As `ProbeLabelCollator` returns it, or without labels as TRL collates it: with an
            `attention_mask`, or `position_ids` if sequences are concatenated without padding.
        tokens: Number of tokens in the whole batch.
    """
    if "probe_positions" in batch:
        ends = batch["probe_positions"]
        labels = batch["probe_labels"][ends[:, 0], ends[:, 1]]
    else:
        labels = batch["input_ids"].new_empty(0)
        ends = labels.view(0, 2)
    return LossPositions(ends, labels, token_mask(batch), tokens)


def token_mask(batch: Mapping[str, Any]) -> Tensor:
    """Return [rows, length], True for tokens and False for padding."""
    for name in ("attention_mask", "probe_mask"):  # the latter if TRL concatenates sequences
        if name in batch:
            mask: Tensor = batch[name].bool()
            return mask
    if "position_ids" not in batch:  # no padding that the model would know of
        return torch.ones_like(batch["input_ids"], dtype=torch.bool)
    # Of those that another collator concatenates: padding after them has position 0, and so does
    # the first token of each sequence. But position 1 follows only the latter.
    positions = batch["position_ids"]
    following = nn.functional.pad(positions[:, 1:], (0, 1))
    is_token: Tensor = (positions > 0) | (following == 1)
    return is_token


class MlpReader:
    """Hooks on a model that compute what the losses need, in the forward passes chosen."""

    def __init__(
        self,
        model: nn.Module,
        blocks: Sequence[Block],
        probes: Mapping[int, LabelProbe],
        suppressed: Sequence[int],
        reduction: Reduction,
    ) -> None:
        """Create a reader without hooks; see `attached`. No layer is suppressed and has a probe."""
        self._model = model
        self._blocks = blocks
        self._probes = probes
        self._suppressed = suppressed
        self._reduction = reduction
        self._positions: LossPositions | None = None
        self._reading = False
        self._read: dict[int, Tensor] = {}
        self._logits: Tensor | None = None

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Have hooks on the model, and remove them at the end or after an error."""
        with ExitStack() as hooks:
            for layer in (*self._probes, *self._suppressed):
                hook = self._blocks[layer].mlp.register_forward_hook(self._mlp_hook(layer))
                hooks.callback(hook.remove)
            if self._probes:
                hooks.callback(self._model.register_forward_hook(self._probes_hook).remove)
            hooks.callback(self.stop)
            yield

    def start(self, positions: LossPositions) -> None:
        """Read the next forward pass."""
        self._positions, self._reading = positions, True

    def readings(self) -> tuple[Tensor | None, Tensor | None]:
        """Stop reading, but stay ready for layers to be run again, and return what was read.

        Returns:
            [useful layers, examples, classes] logits of the probes, and [harmful layers] HLS of
            each, as a share of the whole batch. None without such layers.
        """
        suppressed = [self._read[layer] for layer in self._suppressed]
        readings = self._logits, torch.stack(suppressed) if suppressed else None
        self._reading, self._read, self._logits = False, {}, None
        return readings

    def stop(self) -> None:
        """Ignore the model until `start`. Call it when the gradient has been computed."""
        self._positions, self._reading, self._read, self._logits = None, False, {}, None

    def _mlp_hook(self, layer: int) -> Any:
        def hook(_: nn.Module, __: Any, returned: Any) -> Any:
            positions = self._positions
            if positions is None:
                return None
            # Some mixtures of experts flatten rows and length.
            output = first_tensor(returned).view(*positions.mask.shape, -1)
            # This must not depend on `_reading`: a checkpointed layer that is run again for its
            # gradient has to compute the same.
            if layer in self._probes:
                read = at_ends(output, positions.ends.to(output.device))
            else:
                mask, tokens = positions.mask.to(output.device), positions.tokens.to(output.device)
                read = hls_loss(output, mask, self._reduction, tokens)
            if self._reading:
                self._read[layer] = read.to(positions.mask.device)
            # The gradient of HLS needs the output as it is here.
            return copied(returned) if self._blocks[layer].adds_in_place else None

        return hook

    def _probes_hook(self, _: nn.Module, __: Any, output: Any) -> None:
        """Run the probes, and make their weights reachable from the model's output.

        From there DDP and FSDP find out which weights a step uses.
        """
        if not self._reading:
            return
        logits = [probe(self._read[layer]) for layer, probe in self._probes.items()]
        self._logits = torch.stack(logits)
        for name, value in output.items():
            if isinstance(value, Tensor) and value.requires_grad:
                output[name] = _tie(value, self._logits)
                break


class _Tie(torch.autograd.Function):
    """The identity of one tensor, whose graph then reaches another one too, without a gradient."""

    @staticmethod
    def forward(_: Any, tensor: Tensor, __: Tensor) -> Tensor:
        return tensor.detach()  # unlike a view, it may be changed in place

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


_tie: Any = _Tie.apply  # torch gives it no types
