"""The same interventions with pyvene: one prompt and one layer at a time, with full logits.

This checks the engine of `sweep.py`: pyvene (Wu et al., 2024,
https://github.com/stanfordnlp/pyvene) is what the field uses, and the two share no code except for
the replacements of a module's output. The place of an intervention is the path of a module, such as
`model.layers[3].mlp.output`, so architectures that pyvene has no table for work too.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pragworld_interp.engine.ablation import Ablation, ablated_module
from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.packing import Tokens, pad_prompts
from pragworld_interp.engine.patching import PatchedLogits, PatchingPair
from pragworld_interp.engine.rope import rope_of_each_row
from pragworld_tasks.errors import InputError

try:
    with redirect_stdout(io.StringIO()):  # it prints which of its other backends are missing
        import pyvene
except ImportError as error:
    raise InputError("--engine pyvene needs pyvene: pip install 'pragworld[interp]'") from error


@torch.inference_mode()
def reference_ablated_logits(
    decoder: Decoder, prompts: Sequence[Tokens], ablation: Ablation
) -> Tensor:
    """Compute the logits of the labels in the plain run and with each target ablated.

    Args:
        decoder: The model.
        prompts: The prompts. Each runs alone, 1 + targets times.
        ablation: The ablation of single layers in turn, at all positions.

    Returns:
        [1 + targets, prompts, 2] logits, the plain run first; in float32.
    """
    runs = []
    for target in ablation.targets:
        (layer,) = target.layers
        source = pyvene.ZeroIntervention() if ablation.outputs is None else _Draw(ablation, layer)
        ablated = ablated_module(decoder.blocks[layer], ablation.module)
        component = _component(decoder, ablated, "output")
        runs.append(_intervenable(decoder, component, source))
    logits = torch.empty(1 + len(runs), len(prompts), 2)
    with rope_of_each_row(decoder.model), _logits_in_float32(decoder.model):
        for column, prompt in enumerate(prompts):
            logits[0, column] = _label_logits(decoder, decoder.model(**_inputs(decoder, prompt)))
            history = {"history": pad_prompts([prompt]).history}
            for row, run in enumerate(runs, start=1):
                _, output = run(_inputs(decoder, prompt), intervention_additional_kwargs=history)
                logits[row, column] = _label_logits(decoder, output)
    return logits


def reference_patched_logits(
    decoder: Decoder, prompts: Sequence[Tokens], pairs: Sequence[PatchingPair]
) -> PatchedLogits:
    """Run every prompt, and the original of every pair patched at every layer.

    Args:
        decoder: The model.
        prompts: The prompts of a group. Each runs alone.
        pairs: Pairs of these prompts, of any lengths. Without aligned positions, nothing is
            patched.

    Returns:
        Logits in float32.
    """
    with (
        torch.inference_mode(),
        rope_of_each_row(decoder.model),
        _logits_in_float32(decoder.model),
    ):
        return _patched_logits(decoder, prompts, pairs)


def _patched_logits(
    decoder: Decoder, prompts: Sequence[Tokens], pairs: Sequence[PatchingPair]
) -> PatchedLogits:
    inputs = [_component(decoder, block.module, "input") for block in decoder.blocks]
    collect = _Intervenable(
        [{"component": at, "intervention": pyvene.CollectIntervention()} for at in inputs],
        decoder.model,
    )
    interchanges = [_intervenable(decoder, at, pyvene.VanillaIntervention()) for at in inputs]
    plain = torch.stack(
        [_label_logits(decoder, decoder.model(**_inputs(decoder, prompt))) for prompt in prompts]
    )
    # An alignment without pairs of positions leaves the original as it is.
    patched = plain[[pair.original for pair in pairs]].repeat(len(inputs), 1, 1)
    for column, pair in enumerate(pairs):
        if not pair.alignment:
            continue
        targets, sources = (list(positions) for positions in zip(*pair.alignment, strict=True))
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
    return PatchedLogits(plain, patched)


def _inputs(decoder: Decoder, prompt: Tokens) -> dict[str, Any]:
    ids = torch.tensor([prompt], device=decoder.device)
    # The ids come first: pyvene reads the number of rows from the first input.
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}


@contextmanager
def _logits_in_float32(model: Any) -> Iterator[None]:
    """Multiply a plain unembedding in float32: rounded, yes and no often have equal logits."""
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear:
        yield
        return

    def multiply(_: nn.Module, inputs: tuple[Tensor], __: Tensor) -> Tensor:
        bias = None if head.bias is None else head.bias.float()
        return nn.functional.linear(inputs[0].float(), head.weight.float(), bias)

    handle = head.register_forward_hook(multiply)
    try:
        yield
    finally:
        handle.remove()


def _label_logits(decoder: Decoder, output: Any) -> Tensor:
    """Return the [labels] logits after the last token of a single prompt."""
    logits: Tensor = output.logits[0, -1, list(decoder.labels)].float().cpu()
    return logits


def _component(decoder: Decoder, module: nn.Module, side: Literal["input", "output"]) -> str:
    """Return pyvene's name for the input or output of a module: its path, numbers in brackets."""
    path = next(name for name, part in decoder.model.named_modules() if part is module)
    return re.sub(r"\.(\d+)", r"[\1]", path) + f".{side}"


class _Draw(pyvene.ConstantSourceIntervention, pyvene.LocalistRepresentationIntervention):
    """An intervention that returns samples of an ablation, drawn by the text up to a position."""

    def __init__(self, ablation: Ablation, layer: int) -> None:
        super().__init__()
        self._ablation, self._layer = ablation, layer

    def forward(
        self, base: Tensor, source: None = None, subspaces: None = None, *, history: Tensor
    ) -> Tensor:
        """Return the [1, length, width] samples for an output and the text up to each position."""
        return self._ablation.output(self._layer, base, history)


def _intervenable(decoder: Decoder, component: str, intervention: Any) -> "_Intervenable":
    settings = {"component": component, "intervention": intervention}
    return _Intervenable([settings], decoder.model)


class _Intervenable(pyvene.IntervenableModel):
    """pyvene's model, changed to leave the underlying model as it was.

    pyvene removes all hooks that it finds on a model, whoever set them, and freezes its weights.
    """

    def __init__(self, interventions: list[dict[str, Any]], model: nn.Module) -> None:
        self._handles: list[Any] = []
        super().__init__(interventions, model)

    def disable_model_gradients(self) -> None:
        """Do nothing: no gradients are computed here."""

    def _intervention_setter(self, *args: Any, **kwargs: Any) -> Any:
        handles = super()._intervention_setter(*args, **kwargs)
        self._handles.append(handles)
        return handles

    def _remove_forward_hooks(self) -> None:
        """Remove its own hooks only. pyvene calls this before and after each run, come what may."""
        for handles in self._handles:
            handles.remove()
        self._handles.clear()
