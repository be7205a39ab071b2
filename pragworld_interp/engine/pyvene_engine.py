"""The engine of pyvene's interventions: one prompt and one layer at a time, with full logits.

pyvene (Wu et al., 2024, https://github.com/stanfordnlp/pyvene) is what the field uses. The place of
an intervention is the path of a module, such as `model.layers[3].mlp.output`, so architectures that
pyvene has no table for work too.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.interventions import Logits, ModuleChange, Places, columns_of
from pragworld_interp.engine.modules import Side, replaced_forward
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


_ALL = slice(None)


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
        every = range(len(decoder.blocks))
        places = [] if change.pairs is None else [(layer, _ALL) for layer in change.layers]
        observed = _intervenable(decoder, change, [*places, *((layer, None) for layer in every)])
        changed = [(target, _changing(decoder, change, target)) for target in change.targets]
        runs: list[_Run] = []  # of prompts
        plain, logits, ends = [], [], []
        with rope_of_each_row(decoder.model), _logits_in_float32(decoder.model):
            for group in groups:
                own_runs = [_Run() for _ in group.prompts]
                runs += own_runs
                for run, prompt in zip(own_runs, group.prompts, strict=True):
                    plain.append(_label_logits(decoder, observed, prompt, run))
                for number, source, where in _changed_runs(group, change):
                    taken = own_runs[source].tensors if change.pairs is not None else {}
                    own = own_runs[number].ends
                    for target, model in changed:
                        run = _Run(partial(_edited, change, where, taken))
                        with _reverted(decoder, change, target):
                            logits.append(_label_logits(decoder, model, group.prompts[number], run))
                        (layer,) = run.ends
                        ends.append(own[every[-1]] + run.ends[layer] - own[layer])
        lens = decoder.label_logits(torch.stack([run.ends[at] for at in every for run in runs]))
        lens = lens.cpu().view(len(every), len(runs), -1)
        lens[-1] = torch.stack(plain)
        if not ends:
            return Logits(lens, *[lens.new_empty(len(changed), 0, lens.shape[2])] * 2)
        by_run = torch.stack([torch.stack(logits), decoder.label_logits(torch.stack(ends)).cpu()])
        return Logits(lens, *by_run.view(2, -1, len(changed), lens.shape[2]).transpose(1, 2))


class _Run:
    """What pyvene's interventions keep of a run.

    Attributes:
        tensors: Of each layer, what may be taken from the run.
        ends: The residuals of the last token behind layers.
    """

    def __init__(self, edit: Callable[[int, Tensor, slice], Tensor] | None = None) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.ends: dict[int, Tensor] = {}
        self._edit = edit

    def at(self, layer: int, own: Tensor, columns: slice | None) -> Tensor:
        """Return what a tensor becomes: in some columns, or behind a layer what it is."""
        if columns is None:
            self.ends[layer] = own[0, -1].clone()
        elif self._edit is None:
            self.tensors[layer] = own.clone()
        else:
            return self._edit(layer, own, columns)
        return own


def _changing(decoder: Decoder, change: ModuleChange, target: Target) -> "_Intervenable":
    """Return the model with a target changed."""
    places: list[tuple[int, slice | None]] = [(target.layers[-1], None)]
    if change.module != "block":
        blocks = [(layer, decoder.blocks[layer]) for layer in target.layers]
        places += [(layer, columns_of(block, target)) for layer, block in blocks]
    return _intervenable(decoder, change, places)


@contextmanager
def _reverted(decoder: Decoder, change: ModuleChange, target: Target) -> Iterator[None]:
    """Run the blocks of the base model in a target within a `with` statement."""
    with ExitStack() as stack:
        for layer in target.layers if change.module == "block" else ():
            base = change.base[layer].module
            stack.enter_context(replaced_forward(decoder.blocks[layer].module, base.forward))
        yield


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


def _intervenable(
    decoder: Decoder, change: ModuleChange, places: Sequence[tuple[int, slice | None]]
) -> "_Intervenable":
    """Return the model with interventions in columns where layers are changed, or behind layers."""
    interventions = []
    for layer, columns in places:
        block = decoder.blocks[layer]
        place: tuple[nn.Module, Side] = (block.module, "output")
        component = _component(decoder, *(place if columns is None else change.place(block)))
        interventions.append(
            {"component": component, "intervention": _Intervention(layer, columns)}
        )
    return _Intervenable(interventions, decoder.model)


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


def _label_logits(decoder: Decoder, model: "_Intervenable", prompt: Tokens, run: _Run) -> Tensor:
    """Return the [labels] logits after the last token of a prompt."""
    _, output = model(_inputs(decoder, prompt), intervention_additional_kwargs={"run": run})
    logits: Tensor = output.logits[0, -1, list(decoder.labels)].float().cpu()
    return logits


def _component(decoder: Decoder, module: nn.Module, side: Side) -> str:
    """Return pyvene's name for the input or output of a module: its path, numbers in brackets."""
    path = next(name for name, part in decoder.model.named_modules() if part is module)
    return re.sub(r"\.(\d+)", r"[\1]", path) + f".{side}"


class _Intervention(pyvene.ConstantSourceIntervention, pyvene.LocalistRepresentationIntervention):
    """An intervention that keeps or changes a tensor of a layer, or some columns of it."""

    def __init__(self, layer: int, columns: slice | None) -> None:
        super().__init__()
        self._layer, self._columns = layer, columns

    def forward(
        self, base: Tensor, source: None = None, subspaces: None = None, *, run: _Run
    ) -> Tensor:
        """Return what a tensor becomes in a run."""
        return run.at(self._layer, base, self._columns)


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
