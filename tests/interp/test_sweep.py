"""The sweep engine stays on the device, and adapts to its memory."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any
from unittest import mock

import pytest
import torch
from plain_hooks import group_of
from several_devices import SeveralDevices, on_cpu, spread
from small_models import LabelsOnly, small_model
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from pragworld_interp.engine import tree_attention
from pragworld_interp.engine.ablation import ablated_logits
from pragworld_interp.engine.agreement import _holds, probe_prompts, supports_rows, supports_trees
from pragworld_interp.engine.decoder import Decoder, from_model
from pragworld_interp.engine.interventions import Ablation
from pragworld_interp.engine.modules import replaced_forward
from pragworld_interp.engine.one_pass import OnePassEngine
from pragworld_interp.engine.packing import group_batch
from pragworld_interp.engine.patching import patched_logits
from pragworld_interp.prompts.alignment import PatchingPair, align_tokens
from pragworld_interp.prompts.tokenization import PromptGroup
from pragworld_interp.run.observations import SweepPlan, observe
from pragworld_interp.run.replacements import build_ablation
from pragworld_interp.run.sweeps import gold_by_group
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import Intervention, Target, every_layer

LAYERS = every_layer(3)
PROMPTS = [[[start, 7, 8, 50 + end, *range(20, 30)] for end in range(4)] for start in (1, 2, 3)]
PAIRS = [PatchingPair(0, other, align_tokens(PROMPTS[0][0], PROMPTS[0][other])) for other in (1, 2)]


class OffDevice(TorchFunctionMode):
    """A mode that records functions of tensors on the host, and in a type not all devices have."""

    def __init__(self) -> None:
        super().__init__()
        self.compared = 0
        self.on_host: list[str] = []
        self.in_float64: list[str] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.equal:  # which "meta" cannot tell
            self.compared += 1
            return False
        output = function(*args, **(kwargs or {}))
        if function.__name__ in ("__len__", "__get__"):  # of the shape, not of the data
            return output
        if function is torch.tensor and output.numel():  # empty ones begin a cache
            self.on_host.append("tensor")
        for tensor in tree_leaves((args, kwargs, output)):
            if isinstance(tensor, Tensor) and tensor.ndim:
                if tensor.device.type == "cpu":
                    self.on_host.append(function.__name__)
                if tensor.dtype == torch.float64:
                    self.in_float64.append(function.__name__)
        return output


@pytest.fixture
def on_meta(monkeypatch: pytest.MonkeyPatch) -> Decoder:
    """Return a decoder on a device whose data cannot be read, and that is not the host."""
    decoder = from_model(copy.deepcopy(small_model("qwen2")), LabelsOnly())
    decoder.model.to("meta")
    # Behind the layers, transformers reads its mask.
    monkeypatch.setattr(Decoder, "label_logits", lambda _, hidden: hidden[:, :2])
    return decoder


@contextmanager
def watched(decoder: Decoder) -> Iterator[OffDevice]:
    """Record what happens during forward passes of the decoder's layers."""
    mode = OffDevice()
    own_forward = decoder.model.base_model.forward

    @wraps(own_forward)
    def forward(**kwargs: Any) -> Any:
        with mode:
            return own_forward(**kwargs)

    with replaced_forward(decoder.model.base_model, forward):
        yield mode


def groups() -> list[PromptGroup]:
    return [group_of(prompts, number) for number, prompts in enumerate(PROMPTS)]


@pytest.mark.parametrize("trees", [True, False])
def test_layers_run_without_the_host(
    on_meta: Decoder, trees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_attention, "SHORTEST", 2)  # several spans
    if not trees:
        on_meta.model.set_attn_implementation("eager")  # the other one reads a mask of rows
    samples = dict(enumerate(torch.randn(3, 5, 32, device="meta")))
    batch = group_batch(groups(), trees, on_meta.dtype)
    with watched(on_meta) as mode:
        for ablation in (Ablation("mlp", LAYERS), Ablation("attention", LAYERS, samples)):
            ablated_logits(on_meta, batch, ablation, chunk=60)
        patched_logits(on_meta, PROMPTS[:2], [PAIRS, PAIRS], trees, chunk=60)
    assert mode.compared == 1  # for the pairs, not for each layer
    assert mode.on_host == []
    assert mode.in_float64 == []


@pytest.mark.parametrize("replacement", ["mean", "resample"])
def test_outputs_are_collected_on_any_device(replacement: Any) -> None:
    decoder = from_model(small_model("qwen2"), LabelsOnly())
    with watched(decoder) as mode:
        build_ablation(decoder, groups(), Intervention("mlp", replacement), LAYERS)
    assert mode.on_host != []
    assert mode.in_float64 == []


# Each block is on another device, and so is what comes before and behind them.
PARTS = {
    **{"model.embed_tokens": 1, "model.layers.0": 1, "model.layers.1": 2, "model.layers.2": 3},
    **{"model.norm": 4, "model.rotary_emb": 4, "lm_head": 5},
}


def logits_of_sweeps(decoder: Decoder, trees: bool) -> list[Tensor]:
    """Return the logits of one sweep of each kind."""
    batch = group_batch(groups(), trees, decoder.dtype)
    heads = tuple(Target((layer,), head) for layer in range(3) for head in (0, 3))
    interventions = (
        (Intervention("mlp", "zero"), LAYERS),
        (Intervention("attention", "mean"), LAYERS),
        (Intervention("heads", "resample", 0), heads),
    )
    found = [
        ablated_logits(decoder, batch, build_ablation(decoder, groups(), *each), 60)
        for each in interventions
    ]
    for patched in patched_logits(decoder, PROMPTS[:2], [PAIRS, PAIRS], trees, 60):
        found += [patched.plain, patched.patched]
    return found


@pytest.mark.parametrize(("architecture", "trees"), [("qwen2", True), ("phi3, longrope", False)])
def test_layers_on_several_devices(architecture: str, trees: bool) -> None:
    decoder = from_model(copy.deepcopy(small_model(architecture)), LabelsOnly())
    if not trees:
        decoder.model.set_attn_implementation("eager")  # the other one reads a mask of rows
    expected = logits_of_sweeps(decoder, trees)
    spread(decoder.model, PARTS)
    with SeveralDevices():
        found = logits_of_sweeps(decoder, trees)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(on_cpu(one), other)


def test_out_of_memory_less_runs_at_a_time() -> None:
    decoder = from_model(small_model("qwen2"), LabelsOnly())
    engine, ablation = OnePassEngine(decoder, True), Ablation("mlp", LAYERS)
    sizes = []

    def work(groups: Sequence[PromptGroup], budget: int) -> list[Any]:
        return gold_by_group(decoder, engine, groups, ablation, budget)

    def allocate(_: nn.Module, inputs: tuple[Tensor]) -> None:
        sizes.append(inputs[0].shape[0] * inputs[0].shape[1])
        if sizes[-1] > 60:
            raise torch.OutOfMemoryError("full")

    def run() -> Any:
        plan = SweepPlan([groups()], work, 400, lambda group: str(group.number), "a test")
        return [found for _, found in observe(plan)]

    expected = run()
    with decoder.blocks[1].mlp.register_forward_pre_hook(allocate):
        found = run()
    assert max(sizes) > 60
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("most", "error"), [(45, None), (8, "out of memory on the longest prompt")]
)
def test_a_probe_takes_as_many_prompts_as_fit(most: int, error: str | None) -> None:
    tried = []

    def supports(_: Decoder, prompts: Sequence[Sequence[int]]) -> bool:
        tried.append(len(prompts))
        if sum(map(len, prompts)) > most:
            raise torch.OutOfMemoryError("full")
        return True

    decoder = from_model(small_model("qwen2"), LabelsOnly())
    probe = probe_prompts([group.prompts for group in groups()])
    with pytest.raises(InputError, match=error) if error else nullcontext():
        assert _holds(supports, decoder, probe)
    assert tried == [6, 3]


@pytest.mark.parametrize("supports", [supports_trees, supports_rows])
def test_a_lack_of_memory_says_nothing_about_a_model(supports: Any) -> None:
    decoder = from_model(small_model("qwen2"), LabelsOnly())
    full = mock.Mock(side_effect=torch.OutOfMemoryError("full"))
    hook = decoder.blocks[1].mlp.register_forward_pre_hook(full)
    with hook, pytest.raises(torch.OutOfMemoryError):
        supports(decoder, PROMPTS[0])
