"""The engine of pyvene's interventions: one prompt and one layer at a time, with full logits.

pyvene (Wu et al., 2024, https://github.com/stanfordnlp/pyvene) is what the field uses. The place of
an intervention is the path of a module, such as `model.layers[3].mlp.output`, so architectures that
pyvene has no table for work too.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.interventions import Ablation, PatchedLogits, ablated_module
from pragworld_interp.engine.packing import pad_prompts
from pragworld_interp.engine.rope import rope_of_each_row
from pragworld_interp.prompts.alignment import PatchingPair, Tokens
from pragworld_interp.prompts.tokenization import PromptGroup, group_positions
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

    def units(self, groups: Sequence[PromptGroup], budget: int) -> list[list[PromptGroup]]:
        """Return each group alone."""
        return [[group] for group in groups]

    @torch.inference_mode()
    def ablated_logits(
        self, groups: Sequence[PromptGroup], ablation: Ablation, budget: int
    ) -> Tensor:
        """Return [1 + targets, prompts, labels] logits. Each prompt runs 1 + targets times."""
        decoder = self.decoder
        runs = [_ablating(decoder, ablation, target) for target in ablation.targets]
        prompts = [
            (prompt, chosen)
            for group in groups
            for prompt, chosen in zip(
                group.prompts, group_positions(group, ablation.positions), strict=True
            )
        ]
        logits = torch.empty(1 + len(runs), len(prompts), len(decoder.labels))
        with rope_of_each_row(decoder.model), _logits_in_float32(decoder.model):
            for column, (prompt, chosen) in enumerate(prompts):
                inputs = _inputs(decoder, prompt)
                logits[0, column] = _label_logits(decoder, decoder.model(**inputs))
                row = pad_prompts([prompt], chosen=[chosen])
                where = {"history": row.history, "chosen": row.chosen}
                for number, run in enumerate(runs, start=1):
                    _, output = run(inputs, intervention_additional_kwargs=where)
                    logits[number, column] = _label_logits(decoder, output)
        return logits

    @torch.inference_mode()
    def patched_logits(
        self,
        groups: Sequence[PromptGroup],
        pairs: Sequence[Sequence[PatchingPair]],
        budget: int,
    ) -> list[PatchedLogits]:
        """Return the logits of each group and its pairs. Each prompt runs alone."""
        decoder = self.decoder
        with rope_of_each_row(decoder.model), _logits_in_float32(decoder.model):
            return [
                _patched_logits(decoder, group.prompts, own)
                for group, own in zip(groups, pairs, strict=True)
            ]


def _ablating(decoder: Decoder, ablation: Ablation, target: Target) -> "_Intervenable":
    """Return the model with a target ablated."""
    side: Literal["input", "output"] = "output" if target.head is None else "input"
    interventions = []
    for layer in target.layers:
        block = decoder.blocks[layer]
        module = ablated_module(block, ablation.module)
        columns = slice(None)
        if target.head is not None and block.heads is not None:
            columns = block.heads.columns(target.head)
        component = _component(decoder, module, side)
        intervention = _Replacement(ablation, layer, columns)
        interventions.append({"component": component, "intervention": intervention})
    return _Intervenable(interventions, decoder.model)


def _patched_logits(
    decoder: Decoder, prompts: Sequence[Tokens], pairs: Sequence[PatchingPair]
) -> PatchedLogits:
    inputs = [_component(decoder, block.module, "input") for block in decoder.blocks]
    collecting = [{"component": at, "intervention": pyvene.CollectIntervention()} for at in inputs]
    collect = _Intervenable(collecting, decoder.model)
    patching = ({"component": at, "intervention": pyvene.VanillaIntervention()} for at in inputs)
    interchanges = [_Intervenable([each], decoder.model) for each in patching]
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


class _Replacement(pyvene.ConstantSourceIntervention, pyvene.LocalistRepresentationIntervention):
    """An intervention that replaces the output of a layer's module, or some columns of it."""

    def __init__(self, ablation: Ablation, layer: int, columns: slice) -> None:
        super().__init__()
        self._ablation, self._layer, self._columns = ablation, layer, columns

    def forward(
        self, base: Tensor, source: None = None, subspaces: None = None, **where: Tensor
    ) -> Tensor:
        """Return what a tensor becomes, given `history` and `chosen` as `Ablation.replaced`."""
        return self._ablation.replaced(self._layer, base, columns=self._columns, **where)


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
