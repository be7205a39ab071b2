"""The engine of pyvene's interventions: one prompt and one layer at a time, with full logits.

pyvene (Wu et al., 2024, https://github.com/stanfordnlp/pyvene) is what the field uses. The place of
an intervention is the path of a module, such as `model.layers[3].mlp.output`, so architectures that
pyvene has no table for work too.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.interventions import Logits, ModuleChange, Places, columns_of
from pragworld_interp.engine.modules import Side
from pragworld_interp.engine.rope import rope_of_each_row
from pragworld_interp.prompts.alignment import Tokens
from pragworld_interp.prompts.tokenization import PromptGroup
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import Target

try:
    with redirect_stdout(io.StringIO()):  # it prints which of its other backends are missing
        import pyvene
except ImportError as error:
    raise InputError("the engine pyvene needs pyvene: pip install 'pragworld[interp]'") from error


@dataclass(frozen=True)
class PyveneEngine:
    """One prompt and one layer at a time; see `Engine` for the methods. Budgets change nothing."""

    decoder: Decoder

    @property
    def layout(self) -> str:
        """How prompts go through the model."""
        return "alone"

    def units(
        self, groups: Sequence[PromptGroup], change: ModuleChange, budget: int
    ) -> list[list[PromptGroup]]:
        """Return each group alone."""
        return [[group] for group in groups]

    @torch.inference_mode()
    def logits(self, groups: Sequence[PromptGroup], change: ModuleChange, budget: int) -> Logits:
        """Return the logits. Each prompt runs alone, once for each target and plain."""
        decoder = self.decoder
        layers = sorted({layer for target in change.targets for layer in target.layers})
        observed = _Intervenable(
            [_at_place(decoder, change, layer) for layer in layers], decoder.model
        )
        changed = [
            _Intervenable(
                [_at_place(decoder, change, layer, target) for layer in target.layers],
                decoder.model,
            )
            for target in change.targets
        ]
        plain, by_target = [], []
        with rope_of_each_row(decoder.model), _logits_in_float32(decoder.model):
            for group in groups:
                kept: list[dict[int, Tensor]] = []  # by prompt, the tensor of each layer
                for prompt in group.prompts:
                    kept.append({})
                    keep = partial(_kept, kept[-1])
                    plain.append(_label_logits(decoder, observed, prompt, keep))
                for target, source, places in _changed_runs(group, change):
                    tensors = kept[source] if change.pairs is not None else {}
                    edit = partial(_edited, change, places, tensors)
                    prompt = group.prompts[target]
                    runs = [_label_logits(decoder, model, prompt, edit) for model in changed]
                    by_target.append(torch.stack(runs))
        shape = (len(changed), 0, len(decoder.labels))
        every = torch.stack(by_target, 1) if by_target else torch.empty(shape)
        return Logits(torch.stack(plain), every)


def _changed_runs(group: PromptGroup, change: ModuleChange) -> Iterator[tuple[int, int, Places]]:
    """Yield each changed prompt of a group, the prompt that it is patched from, and the places."""

    def places(prompt: int, other: int, runs: Sequence[tuple[int, ...]]) -> Places:
        indices = torch.tensor(runs, dtype=torch.long).view(-1, 4 if change.pairs else 3).T
        shapes = [(1, len(group.prompts[number])) for number in (prompt, other)]
        return Places(tuple(indices), *shapes)

    if change.pairs is not None:
        for pair in change.pairs[group.number]:
            own = [(0, target, 0, source) for target, source in pair.alignment]
            yield pair.target, pair.source, places(pair.target, pair.source, own)
        return
    for number, marks in enumerate(change.marks(group)):
        chosen = [(0, position, mark) for position, mark in enumerate(marks) if mark >= 0]
        yield number, number, places(number, number, chosen)


def _kept(tensors: dict[int, Tensor], layer: int, own: Tensor, columns: slice) -> Tensor:
    """Keep a tensor of the plain run."""
    tensors[layer] = own.clone()
    return own


def _edited(
    change: ModuleChange,
    places: Places,
    plain: Mapping[int, Tensor],
    layer: int,
    own: Tensor,
    columns: slice,
) -> Tensor:
    """Return what a tensor becomes."""
    return change.replaced(layer, own, places, columns, plain.get(layer))


def _at_place(
    decoder: Decoder, change: ModuleChange, layer: int, target: Target | None = None
) -> dict[str, Any]:
    """Return what pyvene needs for an intervention where a layer is changed."""
    block = decoder.blocks[layer]
    module, side = change.place(block)
    columns = columns_of(block, target) if target else slice(None)
    component = _component(decoder, module, side)
    return {"component": component, "intervention": _Intervention(layer, columns)}


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


def _label_logits(
    decoder: Decoder, model: "_Intervenable", prompt: Tokens, edit: Callable[..., Tensor]
) -> Tensor:
    """Return the [labels] logits after the last token of a prompt; see `_Intervention`."""
    _, output = model(_inputs(decoder, prompt), intervention_additional_kwargs={"edit": edit})
    logits: Tensor = output.logits[0, -1, list(decoder.labels)].float().cpu()
    return logits


def _component(decoder: Decoder, module: nn.Module, side: Side) -> str:
    """Return pyvene's name for the input or output of a module: its path, numbers in brackets."""
    path = next(name for name, part in decoder.model.named_modules() if part is module)
    return re.sub(r"\.(\d+)", r"[\1]", path) + f".{side}"


class _Intervention(pyvene.ConstantSourceIntervention, pyvene.LocalistRepresentationIntervention):
    """An intervention that keeps or changes a tensor of a layer, or some columns of it."""

    def __init__(self, layer: int, columns: slice) -> None:
        super().__init__()
        self._layer, self._columns = layer, columns

    def forward(
        self,
        base: Tensor,
        source: None = None,
        subspaces: None = None,
        *,
        edit: Callable[[int, Tensor, slice], Tensor],
    ) -> Tensor:
        """Return what a tensor becomes, by a function of the layer, the tensor and the columns."""
        return edit(self._layer, base, self._columns)


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

    def _gather_intervention_output(self, output: Any, *args: Any) -> Any:
        return super()._gather_intervention_output(_without_list(output), *args)

    def _scatter_intervention_output(self, output: Any, *args: Any) -> Any:
        return super()._scatter_intervention_output(_without_list(output), *args)

    def _remove_forward_hooks(self) -> None:
        """Remove its own hooks only. pyvene calls this before and after each run, come what may."""
        for handles in self._handles:
            handles.remove()
        self._handles.clear()


def _without_list(output: Any) -> Any:
    """Return the output of a module as pyvene expects several tensors: as a tuple."""
    return tuple(output) if isinstance(output, list) else output
