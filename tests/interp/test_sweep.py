"""Sweeps on several devices read little from them, and adapt to their memory."""

import copy
from contextlib import nullcontext

import pytest
import torch
from plain_hooks import group_of
from several_devices import SeveralDevices, on_cpu, spread
from small_models import LabelsOnly, small_model
from torch import Tensor, nn

from pragworld_interp.engine import tree_attention
from pragworld_interp.engine.agreement import rows_agree, tree_obstacle
from pragworld_interp.engine.decoder import Decoder, from_model
from pragworld_interp.engine.interventions import ModuleChange
from pragworld_interp.engine.one_pass import OnePassEngine
from pragworld_interp.prompts.alignment import PatchingPair, align_tokens
from pragworld_interp.run.replacements import build_changes
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import Intervention, Target, every_layer

LAYERS = every_layer(3)
PROMPTS = [[[start, 7, 8, 50 + end, *range(20, 30)] for end in range(4)] for start in (1, 2, 3)]
PAIRS = [PatchingPair(0, other, align_tokens(PROMPTS[0][0], PROMPTS[0][other])) for other in (1, 2)]
GROUPS = [group_of(prompts, number) for number, prompts in enumerate(PROMPTS)]
# Each block is on another device, and so is what comes before and behind them.
PARTS = {
    **{"model.embed_tokens": 1, "model.layers.0": 1, "model.layers.1": 2, "model.layers.2": 3},
    **{"model.norm": 4, "model.rotary_emb": 4, "lm_head": 5},
}


def logits_of_sweeps(decoder: Decoder, trees: bool) -> list[Tensor]:
    heads = tuple(Target((layer,), head) for layer in range(3) for head in (0, 3))
    interventions = (
        (Intervention("mlp", "zero"), LAYERS),
        (Intervention("attention", "mean"), LAYERS),
        (Intervention("heads", "resample", 0), heads),
        (Intervention("attention", "counterfactual"), LAYERS),
    )
    changes = [own for each in interventions for own in build_changes(decoder, GROUPS, *each)]
    changes.append(ModuleChange("residual", LAYERS, pairs=dict.fromkeys(range(3), PAIRS)))
    SeveralDevices.reads.clear()
    engine = OnePassEngine(decoder, trees)
    return [logits for change in changes for logits in engine.logits(GROUPS, change, 60)]


@pytest.mark.parametrize(("architecture", "trees"), [("qwen2", True), ("phi3, longrope", False)])
def test_layers_on_several_devices(
    architecture: str, trees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_attention, "SHORTEST", 2)  # several spans
    decoder = from_model(copy.deepcopy(small_model(architecture)), LabelsOnly())
    if not trees:
        decoder.model.set_attn_implementation("eager")  # the other one reads a mask of rows
    expected = logits_of_sweeps(decoder, trees)
    spread(decoder.model, PARTS)
    with SeveralDevices() as mode:
        found = logits_of_sweeps(decoder, trees)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(on_cpu(one), other)
    # A read waits for the device: one for the pairs, and transformers' own of the mask of a pass.
    assert mode.reads.count("aten::equal") == 1
    assert len(mode.reads) <= 1 + len(found)


@pytest.mark.parametrize("layout", ["trees", "rows"])
@pytest.mark.parametrize(
    ("most", "error"), [(50, None), (8, "out of memory on the longest prompt; use a smaller dtype")]
)
def test_a_probe_takes_as_many_prompts_as_fit(layout: str, most: int, error: str | None) -> None:
    """A lack of memory says nothing about a model."""
    sizes: list[int] = []

    def allocate(_: nn.Module, inputs: tuple[Tensor]) -> None:
        sizes.append(inputs[0].shape[0] * inputs[0].shape[1])
        if sizes[-1] > most:
            raise torch.OutOfMemoryError("full")

    decoder = from_model(small_model("qwen2"), LabelsOnly())
    hook = decoder.blocks[1].mlp.register_forward_pre_hook(allocate)
    with hook, pytest.raises(InputError, match=error) if error else nullcontext():
        if layout == "trees":
            assert tree_obstacle(decoder, PROMPTS, 20) is None
        else:
            assert rows_agree(decoder, PROMPTS)
    assert max(sizes) > most
