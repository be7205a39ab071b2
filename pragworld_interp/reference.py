"""The same interventions by pyvene: one prompt at a time, one layer at a time, with full logits.

What the engine of `sweep.py` gives is to be trusted because something that shares none of its code,
but for what is put in a module's place, gives the same. pyvene (Wu et al., 2024,
https://github.com/stanfordnlp/pyvene) is what the field uses. Where to intervene is told as a
module's path, `model.layers[3].mlp.output`, so that architectures of which pyvene has no table work
too.
"""

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pragworld_interp.ablation import Ablation, module_of
from pragworld_interp.decoder import Decoder
from pragworld_interp.packing import Tokens, padded
from pragworld_interp.patching import Pair, Patched
from pragworld_tasks.errors import InputError

try:
    with redirect_stdout(io.StringIO()):  # it prints which of its other backends are missing
        import pyvene
except ImportError as error:
    raise InputError("--engine pyvene needs pyvene: pip install pragworld[interp]") from error


@torch.inference_mode()
def ablated_logits(decoder: Decoder, prompts: Sequence[Tokens], ablation: Ablation) -> Tensor:
    """Logits of yes and no of every prompt, in the plain run and with each layer ablated.

    Args:
        decoder: the model.
        prompts: each is run alone, 1 + layers times.
        ablation: of every layer in turn, at all positions.

    Returns:
        [1 + layers, prompts, 2], the plain run first; in float32.
    """
    runs = []
    for layer, block in enumerate(decoder.blocks):
        instead = pyvene.ZeroIntervention() if ablation.outputs is None else _Draw(ablation, layer)
        at = _component(decoder, module_of(block, ablation.module), "output")
        runs.append(_Intervenable([{"component": at, "intervention": instead}], decoder.model))
    logits = torch.empty(1 + len(runs), len(prompts), 2)
    for column, prompt in enumerate(prompts):
        logits[0, column] = _label_logits(decoder, decoder.model(**_inputs(decoder, prompt)))
        history = {"history": padded([prompt]).history}
        for row, run in enumerate(runs, start=1):
            _, output = run(_inputs(decoder, prompt), intervention_additional_kwargs=history)
            logits[row, column] = _label_logits(decoder, output)
    return logits


@torch.inference_mode()
def patched_logits(decoder: Decoder, prompts: Sequence[Tokens], pairs: Sequence[Pair]) -> Patched:
    """Runs every prompt, and every pair's original patched at every layer.

    Args:
        decoder: the model.
        prompts: of a group; each is run alone.
        pairs: of them. The two prompts need not be of one length. Where nothing is aligned nothing
            is patched.

    Returns:
        Logits in float32.
    """
    inputs = [_component(decoder, block.module, "input") for block in decoder.blocks]
    collect = _Intervenable(
        [{"component": at, "intervention": pyvene.CollectIntervention()} for at in inputs],
        decoder.model,
    )
    interchanges = [
        _Intervenable(
            [{"component": at, "intervention": pyvene.VanillaIntervention()}], decoder.model
        )
        for at in inputs
    ]
    plain = torch.stack(
        [_label_logits(decoder, decoder.model(**_inputs(decoder, each))) for each in prompts]
    )
    # An alignment without pairs of positions leaves the original as it is.
    patched = plain[[pair.original for pair in pairs]].repeat(len(inputs), 1, 1)
    for column, pair in enumerate(pairs):
        if not pair.alignment:
            continue
        targets, sources = (list(each) for each in zip(*pair.alignment, strict=True))
        (_, collected), _ = collect(
            _inputs(decoder, prompts[pair.altered]),
            unit_locations={"base": [[sources]] * len(inputs)},
        )
        for layer, (interchange, residuals) in enumerate(zip(interchanges, collected, strict=True)):
            _, output = interchange(
                _inputs(decoder, prompts[pair.original]),
                unit_locations={"base": [[targets]]},
                source_representations=residuals,
            )
            patched[layer, column] = _label_logits(decoder, output)
    return Patched(plain, patched)


def _inputs(decoder: Decoder, prompt: Tokens) -> dict[str, Any]:
    ids = torch.tensor([prompt], device=decoder.device)
    # The ids come first: pyvene takes the number of rows from what does.
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}


def _label_logits(decoder: Decoder, output: Any) -> Tensor:
    """[2] logits of yes and no behind the last token of the one prompt."""
    logits: Tensor = output.logits[0, -1, list(decoder.labels)].float().cpu()
    return logits


def _component(decoder: Decoder, module: nn.Module, side: Literal["input", "output"]) -> str:
    """What pyvene calls the input or the output of a module: its path, with numbers in brackets."""
    path = next(name for name, each in decoder.model.named_modules() if each is module)
    return re.sub(r"\.(\d+)", r"[\1]", path) + f".{side}"


class _Draw(pyvene.ConstantSourceIntervention, pyvene.LocalistRepresentationIntervention):
    """Puts the samples of an ablation, drawn by the text up to each position, in place."""

    def __init__(self, ablation: Ablation, layer: int) -> None:
        super().__init__()
        self._ablation, self._layer = ablation, layer

    def forward(
        self, base: Tensor, source: None = None, subspaces: None = None, *, history: Tensor
    ) -> Tensor:
        """The samples, [1, length, width], for an output and the text up to each position of it."""
        return self._ablation.output(self._layer, base, history)


class _Intervenable(pyvene.IntervenableModel):
    """pyvene's model, except that it leaves the model itself as it was.

    pyvene removes all hooks that it finds on a model, anybody's, and freezes its weights.
    """

    def __init__(self, interventions: list[dict[str, Any]], model: nn.Module) -> None:
        self._handles: list[Any] = []
        super().__init__(interventions, model)

    def disable_model_gradients(self) -> None:
        """Nothing: no gradients are made here anyway."""

    def _intervention_setter(self, *args: Any, **kwargs: Any) -> Any:
        handles = super()._intervention_setter(*args, **kwargs)
        self._handles.append(handles)
        return handles

    def _remove_forward_hooks(self) -> None:
        """Its own hooks alone. pyvene calls this before and, whatever happens, after each run."""
        for handles in self._handles:
            handles.remove()
        self._handles.clear()
