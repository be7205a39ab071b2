"""What the losses read of a forward pass: by hooks on the MLPs, while the pass is on its way.

A hook leaves no more than its loss needs: a layer's output at a few positions, or one number. Under
gradient checkpointing these are computed inside the layer's checkpoint, so that no output is kept;
the layer is run again for the gradient, hooks with it, and what that gives is not taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from pragworld_interp.decoder import first_of
from pragworld_train.losses import LabelProbe, Reduction, at_ends, hls_loss


@dataclass(frozen=True)
class Places:
    """Where in a batch the losses look.

    Attributes:
        ends: [examples, 2] row and column of each prompt's last token.
        labels: [examples] 0 for yes and 1 for no.
        mask: [rows, length] true for tokens, false for padding.
    """

    ends: Tensor
    labels: Tensor
    mask: Tensor


def places(batch: Mapping[str, Any], yes: Tensor, no: Tensor) -> Places:
    """Where the labels and the padding of a batch are.

    Args:
        batch: as TRL collates it: `input_ids`, `labels` with -100 for what is not trained on, and
            `attention_mask`, or `position_ids` where sequences follow each other without padding.
        yes: ids of the tokens that say yes.
        no: ids of those that say no.
    """
    targets = batch["labels"]
    is_no = torch.isin(targets, no.to(targets.device))
    rows, columns = (torch.isin(targets, yes.to(targets.device)) | is_no).nonzero(as_tuple=True)
    ends = torch.stack([rows, columns - 1], dim=1)
    return Places(ends, is_no[rows, columns].long(), token_mask(batch))


def token_mask(batch: Mapping[str, Any]) -> Tensor:
    """[rows, length] true for tokens, false for padding."""
    if "attention_mask" in batch:
        mask: Tensor = batch["attention_mask"].bool()
        return mask
    # Padding behind sequences that follow each other has position 0, as the first token of each
    # has too; but behind that comes position 1.
    positions = batch["position_ids"]
    following = nn.functional.pad(positions[:, 1:], (0, 1))
    real: Tensor = (positions > 0) | (following == 1)
    return real


@dataclass(frozen=True)
class Reading:
    """What was read in one forward pass.

    Attributes:
        logits: [useful layers, examples, 2] of the probes; None without useful layers.
        suppressed: [harmful layers] their losses, for the tokens of the whole batch; None without.
    """

    logits: Tensor | None
    suppressed: Tensor | None


class MlpReader:
    """Hooks on a model that read what the losses need, when they are told to."""

    def __init__(
        self,
        model: nn.Module,
        mlps: Sequence[nn.Module],
        probes: Mapping[int, LabelProbe],
        suppressed: Sequence[int],
        reduction: Reduction,
    ) -> None:
        """Puts hooks on some modules.

        Args:
            model: the whole, as it is called.
            mlps: of every layer.
            probes: by the number of their layer.
            suppressed: numbers of layers.
            reduction: of the loss of these.
        """
        self._probes = probes
        self._suppressed = suppressed
        self._reduction = reduction
        self._places: Places | None = None
        self._tokens: Tensor | None = None
        self._listening = False
        self._read: dict[tuple[str, int], Tensor] = {}
        self._logits: Tensor | None = None
        for layer in probes:
            mlps[layer].register_forward_hook(self._at_ends(layer))
        for layer in suppressed:
            mlps[layer].register_forward_hook(self._size(layer))
        if probes:
            model.register_forward_hook(self._ask_probes)

    def listen(self, where: Places, tokens: Tensor) -> None:
        """Has the next forward pass read; `tokens` is how many the whole batch has."""
        self._places, self._tokens = where, tokens
        self._listening = True

    def take(self) -> Reading:
        """What was read since `listen`, which ends here."""
        self._listening = False
        sizes = [self._read["size", layer] for layer in self._suppressed]
        reading = Reading(self._logits, torch.stack(sizes) if sizes else None)
        self._read, self._logits = {}, None
        return reading

    def forget(self) -> None:
        """Ends what `listen` began, behind the gradient: other calls of the model are not read."""
        self._listening, self._places, self._tokens = False, None, None
        self._read, self._logits = {}, None

    # The hooks do the same when a checkpointed layer is run again, or its gradient would not fit.

    def _at_ends(self, layer: int) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            if self._places is not None:
                shaped = self._shaped(output)
                states = at_ends(shaped, self._places.ends.to(shaped.device))
                if self._listening:
                    self._read["ends", layer] = states.to(self._places.ends.device)

        return hook

    def _size(self, layer: int) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            if self._places is not None and self._tokens is not None:
                shaped = self._shaped(output)
                mask = self._places.mask.to(shaped.device)
                tokens = self._tokens.to(shaped.device)
                loss = hls_loss(shaped, mask, self._reduction, tokens)
                if self._listening:
                    self._read["size", layer] = loss.to(self._places.mask.device)

        return hook

    def _shaped(self, output: Any) -> Tensor:
        """[rows, length, width]: some experts give their rows one after the other."""
        assert self._places is not None
        return first_of(output).view(*self._places.mask.shape, -1)

    def _ask_probes(self, _: nn.Module, __: Any, output: Any) -> Any:
        """Probes belong to the model's output: DDP looks there for what a pass has made use of."""
        if not self._listening:
            return output
        self._logits = torch.stack(
            [probe(self._read["ends", layer]) for layer, probe in self._probes.items()]
        )
        kind: Any = type(output)
        return _with_probes(kind)(**output, probe_logits=self._logits)


@cache
def _with_probes(kind: type) -> Any:
    """A kind of output with one field more, as DDP and FSDP make outputs anew from fields."""
    return make_dataclass(f"Probed{kind.__name__}", [("probe_logits", Any, None)], bases=(kind,))
