"""Both engines and plain loops with hooks agree on every architecture; properties of patching."""

import copy
import importlib
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from itertools import cycle
from typing import Any, get_args

import peft
import pytest
import torch
from small_models import ARCHITECTURES, UNUSUAL, WITHOUT_TREES, LabelsOnly, small_model
from torch import Tensor, nn

import pragworld_interp.engine.ablation
import pragworld_interp.engine.patching
from pragworld_interp.engine import pyvene_engine as reference
from pragworld_interp.engine import tree_attention
from pragworld_interp.engine.ablation import Ablation, ablated_module, build_ablation
from pragworld_interp.engine.agreement import supports_rows, supports_trees
from pragworld_interp.engine.decoder import Decoder, from_model
from pragworld_interp.engine.modules import first_tensor
from pragworld_interp.engine.packing import (
    Batch,
    Tokens,
    build_tree,
    pack_trees,
    pad_prompts,
)
from pragworld_interp.engine.patching import PatchedLogits, PatchingPair, patching_pairs
from pragworld_interp.engine.rope import longest_prompt, rope_limit
from pragworld_interp.prompts.alignment import align_tokens
from pragworld_interp.prompts.parts import PromptParts
from pragworld_interp.prompts.tokenization import PromptGroup
from pragworld_tasks import generate
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import (
    PARTS_OF_PAIRS,
    Intervention,
    Module,
    Replacement,
    Target,
    every_layer,
)

MODULES: tuple[Module, ...] = ("mlp", "attention")
REPLACEMENTS: tuple[Replacement, ...] = get_args(Replacement)
LAYERS, WIDTH = 3, 32
TARGETS = every_layer(LAYERS)
BOS, TURNS, QUESTION = 1, [40, 8, 23, 61, 9, 77, 34, 18, 52, 90], [14, 66, 31]
ORIGINAL = [BOS, *TURNS, *QUESTION]
PROMPTS = [  # the first five are of one group
    ORIGINAL,
    [BOS, *TURNS[:5], 33, 44, *TURNS[5:], *QUESTION],  # inserted
    [BOS, *TURNS[:4], *TURNS[6:], *QUESTION],  # deleted
    [BOS, *TURNS[:3], 50, *TURNS[4:], *QUESTION, 12, 13],  # replaced, and other last tokens
    [BOS, *TURNS[:2], 88, *TURNS[1:], *QUESTION],  # the shared beginning continues after 88
    [BOS, 70, 71, *TURNS[:2]],
]
PAIRS = [
    PatchingPair(0, other, align_tokens(ORIGINAL, PROMPTS[other])) for other in (1, 2, 3, 4)
] + [
    PatchingPair(
        2, 1, align_tokens(PROMPTS[2], PROMPTS[1])
    ),  # an original need not be the first prompt
    PatchingPair(0, 1, [(2, 9), (13, 1), (5, 0)]),  # nor do positions have to be in order
    PatchingPair(0, 2, []),
]
OTHERS = [[BOS, *range(30, 60)], [BOS, *range(30, 41), *range(40, 60)]]
OTHER_PAIRS = [PatchingPair(0, 1, align_tokens(OTHERS[0], OTHERS[1]))]
SAME = PatchingPair(0, 0, align_tokens(ORIGINAL, ORIGINAL))


@pytest.fixture(params=ARCHITECTURES)
def decoder(request: pytest.FixtureRequest) -> Decoder:
    return small_decoder(request.param)


@cache
def small_decoder(architecture: str) -> Decoder:
    return from_model(small_model(architecture), LabelsOnly())


@pytest.fixture(autouse=True)
def _spans_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute attention in spans even for trees as small as these."""
    monkeypatch.setattr(tree_attention, "SHORTEST", 2)
    monkeypatch.setattr(tree_attention, "LONGEST", 4)
    monkeypatch.setattr(tree_attention, "WORTHWHILE", 1.0)


@pytest.fixture(autouse=True)
def _nothing_is_printed(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    """Assert that no test here prints or warns."""
    yield
    assert capsys.readouterr() == ("", "")
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


# A plain loop with hooks --------------------------------------------------------------------------


def label_logits(decoder: Decoder, prompt: Tokens) -> Tensor:
    return logits_of_copies(decoder, prompt, 1)[0]


@torch.inference_mode()
def logits_of_copies(decoder: Decoder, prompt: Tokens, copies: int) -> Tensor:
    """Compute [copies, 2] logits of a batch in which a prompt is repeated."""
    for module in dynamic_ropes(decoder):  # remember the prompt before
        module(torch.zeros(1), torch.zeros(1, 1))
    ids = torch.tensor([prompt] * copies)
    logits: Tensor = decoder.model(input_ids=ids, use_cache=False).logits
    return logits[:, -1, list(decoder.labels)]


@cache
def dynamic_ropes(decoder: Decoder) -> list[nn.Module]:
    modules = decoder.model.modules()
    return [module for module in modules if getattr(module, "rope_type", None) == "dynamic"]


def ablated_by_hooks(
    decoder: Decoder,
    prompts: Sequence[Tokens],
    ablation: Ablation,
    chosen: Sequence[Set[int]] | None = None,
) -> Tensor:
    """Compute [1 + targets, prompts, 2] logits, with a copy of the prompt for each target."""
    columns = []
    for number, prompt in enumerate(prompts):
        history = pad_prompts([prompt]).history[0].tolist()
        positions = sorted(range(len(prompt)) if chosen is None else chosen[number])
        with ExitStack() as stack:
            for copy_number, target in enumerate(ablation.targets, 1):
                for layer in target.layers:
                    instead = torch.zeros(len(prompt), WIDTH)
                    if ablation.outputs is not None:
                        samples = ablation.outputs[layer]
                        instead = torch.stack([samples[each % len(samples)] for each in history])
                    block = decoder.blocks[layer]
                    if target.head is None:
                        module = ablated_module(block, ablation.module)
                        hook = module.register_forward_hook(
                            returning(instead, copy_number, positions)
                        )
                    else:
                        own = slice(8 * target.head, 8 * target.head + 8)
                        hook = projection(block.module).register_forward_pre_hook(
                            reading(instead, copy_number, positions, own)
                        )
                    stack.enter_context(hook)
            columns.append(logits_of_copies(decoder, prompt, 1 + len(ablation.targets)))
    return torch.stack(columns, 1)


def returning(instead: Tensor, copy_number: int, positions: Sequence[int]) -> Callable[..., Any]:
    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        replaced = first_tensor(output).clone()
        replaced.view(-1, *instead.shape)[copy_number, positions] = instead[positions]
        is_several = isinstance(output, tuple | list)
        return type(output)([replaced, *output[1:]]) if is_several else replaced

    return hook


def reading(
    instead: Tensor, copy_number: int, positions: Sequence[int], columns: slice
) -> Callable[..., Any]:
    def hook(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        replaced = inputs[0].clone()
        own = replaced.view(-1, *instead.shape)[copy_number]
        own[positions, columns] = instead[positions, columns]
        return (replaced,)

    return hook


def projection(block: nn.Module) -> nn.Module:
    """Return what the heads of a block go into, by the names that libraries give it."""
    (name,) = (
        name
        for name, _ in block.named_modules()
        if name.endswith((".o_proj", ".out_proj", "attn.c_proj", "attention.dense"))
    )
    return block.get_submodule(name)


def patched_by_hooks(
    decoder: Decoder, prompts: Sequence[Tokens], pairs: Sequence[PatchingPair]
) -> PatchedLogits:
    residuals: list[list[Tensor]] = []  # by prompt, before each layer
    plain = []
    for prompt in prompts:
        residuals.append([])
        record = recording(residuals[-1])
        with ExitStack() as stack:
            for block in decoder.blocks:
                stack.enter_context(
                    block.module.register_forward_pre_hook(record, with_kwargs=True)
                )
            plain.append(label_logits(decoder, prompt))
    patched = torch.empty(len(decoder.blocks), len(pairs), 2)
    for column, pair in enumerate(pairs):
        for layer, block in enumerate(decoder.blocks):
            put = putting(residuals[pair.altered][layer], pair.alignment)
            with block.module.register_forward_pre_hook(put, with_kwargs=True):
                patched[layer, column] = label_logits(decoder, prompts[pair.original])
    return PatchedLogits(torch.stack(plain), patched)


def recording(recorded: list[Tensor]) -> Callable[..., None]:
    def hook(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        recorded.append((args[0] if args else kwargs["hidden_states"]).clone())

    return hook


def putting(residuals: Tensor, alignment: Sequence[tuple[int, int]]) -> Callable[..., Any]:
    def hook(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        hidden = (args[0] if args else kwargs["hidden_states"]).clone()
        for target, source in alignment:
            hidden[0, target] = residuals[0, source]
        if args:
            return (hidden, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": hidden}

    return hook


# Agreement ----------------------------------------------------------------------------------------


def replacement_of(module: Module, replacement: Replacement) -> Ablation:
    if replacement == "zero":
        return Ablation(module, TARGETS)
    generator = torch.Generator().manual_seed(0)
    samples = 1 if replacement == "mean" else 7
    outputs = torch.randn(LAYERS, samples, WIDTH, generator=generator)
    return Ablation(module, TARGETS, dict(enumerate(outputs)))


ABLATIONS = [replacement_of(module, each) for module in MODULES for each in REPLACEMENTS]


def by_pyvene(decoder: Decoder, ablation: Ablation) -> Tensor:
    logits: Tensor = reference.reference_ablated_logits(decoder, PROMPTS, ablation)
    return logits


def by_sweeping(decoder: Decoder, ablation: Ablation) -> Tensor:
    return pragworld_interp.engine.ablation.ablated_logits(
        decoder, pad_prompts(PROMPTS), ablation, chunk=40
    )


def sweep_patched(
    decoder: Decoder,
    prompts: Sequence[Tokens],
    pairs: Sequence[PatchingPair],
    trees: bool,
    chunk: int,
) -> PatchedLogits:
    """Return the logits of one group, which runs together with another."""
    _, logits = pragworld_interp.engine.patching.patched_logits(
        decoder, [OTHERS, prompts], [OTHER_PAIRS, pairs], trees, chunk
    )
    return logits


@cache
def takes_trees(decoder: Decoder) -> bool:
    return supports_trees(decoder, PROMPTS)


def layouts(decoder: Decoder) -> dict[str, Batch]:
    batches = {side: pad_prompts(PROMPTS, side) for side in ("right", "left")}
    if takes_trees(decoder):
        batches["one tree"] = pack_trees([build_tree(PROMPTS)], decoder.dtype)
        batches["two trees"] = pack_trees(
            [build_tree(PROMPTS[:5]), build_tree(PROMPTS[5:])], decoder.dtype
        )
    return batches


# Left padding rounds its recurrence differently. Such rounding, of the input, moves logits by 3e-5.
_OF_QWEN3_NEXT = 1e-4


def assert_close(found: Tensor, expected: Tensor, what: object = "", within: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=within, msg=lambda m: f"{what}: {m}")


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@pytest.mark.parametrize("module", MODULES)
def test_ablation(decoder: Decoder, module: Module, replacement: Replacement) -> None:
    ablation = replacement_of(module, replacement)
    # Every layout meets each of the three chunks, with one of the replacements.
    chunks = deque((1, 40, 10_000))
    chunks.rotate(REPLACEMENTS.index(replacement))
    expected = ablated_by_hooks(decoder, PROMPTS, ablation)
    pyvene = reference.reference_ablated_logits(decoder, PROMPTS[:3], ablation)
    assert pyvene.shape == (1 + LAYERS, 3, 2)
    assert pyvene.dtype == torch.float32
    assert_close(pyvene, expected[:, :3])
    for (layout, batch), chunk in zip(layouts(decoder).items(), cycle(chunks), strict=False):
        found = pragworld_interp.engine.ablation.ablated_logits(decoder, batch, ablation, chunk)
        assert_close(found, expected, (layout, chunk))
    for layer in range(LAYERS):
        effects = (expected[1 + layer] - expected[0]).abs().amax(1)
        assert effects.min() > 5e-3, layer
        assert effects.max() > 5e-2, layer


WITH_HEADS = [name for name in (*ARCHITECTURES, *UNUSUAL, *WITHOUT_TREES) if name != "qwen3_next"]
HEADS = tuple(
    Target((layer,), head) for layer, head in ((2, 3), (0, 3), (1, 0), (2, 0), (0, 2), (1, 2))
)
SETS = (Target((1, 2)), Target((2,)), Target((0, 2)), Target((0, 1, 2)), Target((1,)))
SOME_POSITIONS = [{len(PROMPTS[0]) - 1}, {0, 2, 5}, set(), {3, 4}, {1, 15}, {4}]


@pytest.mark.parametrize("architecture", WITH_HEADS)
def test_heads_sets_of_layers_and_positions(architecture: str) -> None:
    decoder = small_decoder(architecture)
    trees = takes_trees(decoder)
    drawn = replacement_of("mlp", "resample").outputs
    ablations = [
        (Ablation("heads", HEADS), None),
        (Ablation("heads", HEADS[:4], drawn), SOME_POSITIONS),
        (Ablation("mlp", SETS), None),
        (Ablation("attention", SETS, drawn), SOME_POSITIONS),
        (Ablation("mlp", SETS[:2], drawn), None),
        (Ablation("mlp", TARGETS), SOME_POSITIONS),
    ]
    for number, (ablation, chosen) in enumerate(ablations):
        expected = ablated_by_hooks(decoder, PROMPTS, ablation, chosen)
        assert (expected[1:] - expected[0]).abs().amax((1, 2)).min() > 1e-3
        # Heads, MLPs, drawn outputs and chosen positions meet both sides.
        batches = [pad_prompts(PROMPTS, "left" if number in (1, 4) else "right", chosen)]
        tree = build_tree(PROMPTS, chosen)
        if trees and (architecture != "gpt_neo" or len(tree.ids) <= 64):
            batches.append(pack_trees([tree], decoder.dtype))
        for batch in batches:
            found = pragworld_interp.engine.ablation.ablated_logits(
                decoder, batch, ablation, chunk=40
            )
            assert_close(found, expected, number)


def test_a_head_is_what_its_values_write() -> None:
    """Without its values, a head adds nothing."""
    decoder = small_decoder("gpt_neox")
    targets = (Target((1,), 2),)
    batch = pad_prompts(PROMPTS)
    found = pragworld_interp.engine.ablation.ablated_logits(
        decoder, batch, Ablation("heads", targets), 40
    )
    without = copy.deepcopy(decoder.model)
    values = without.gpt_neox.layers[1].attention.query_key_value
    with torch.no_grad():  # query, key and value of each head, one head after the other
        for parameter in values.parameters():
            parameter.view(4, 3, 8, -1)[2, 2] = 0
    without = from_model(without, LabelsOnly())
    expected = torch.stack([label_logits(without, prompt) for prompt in PROMPTS])
    assert (found[1] - found[0]).abs().max() > 5e-2
    assert_close(found[1], expected)


def test_linear_attention_has_no_heads_to_ablate() -> None:
    decoder = small_decoder("qwen3_next")
    assert [block.heads and block.heads.count for block in decoder.blocks] == [None, 4, None]
    heads = (Target((1,), 1), Target((1,), 3))
    ablation = Ablation("heads", heads)
    found = pragworld_interp.engine.ablation.ablated_logits(
        decoder, pad_prompts(PROMPTS), ablation, 40
    )
    assert_close(found, ablated_by_hooks(decoder, PROMPTS, ablation), within=_OF_QWEN3_NEXT)
    with pytest.raises(InputError, match=r"GatedDeltaNet: its heads cannot be told apart"):
        ablated_module(decoder.blocks[0], "heads")


def test_adapters_are_within_what_is_ablated() -> None:
    """An adapter's last matrix would otherwise pass for the part that adds to the residuals."""
    names = ["self_attention.dense", "mlp.dense_4h_to_h"]
    settings = peft.LoraConfig(r=2, target_modules=names)
    model = peft.get_peft_model(copy.deepcopy(small_model("bloom")), settings)
    for block in from_model(model, LabelsOnly()).blocks:
        assert [block.attention, block.mlp] == [*map(block.module.get_submodule, names)]
        assert block.heads
        assert block.heads.projection is block.attention


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gpt2", "gemma2"])
def test_engines_agree_on_a_model_in_bfloat16_and_round_no_logits(architecture: str) -> None:
    model = copy.deepcopy(small_model(architecture)).bfloat16()
    decoder = from_model(model, LabelsOnly())
    ablation = Ablation("mlp", TARGETS)
    expected = reference.reference_ablated_logits(decoder, PROMPTS, ablation)
    for layout, batch in layouts(decoder).items():
        found = pragworld_interp.engine.ablation.ablated_logits(decoder, batch, ablation, chunk=40)
        assert torch.equal(found.argmax(2), expected.argmax(2)), layout
        torch.testing.assert_close(found, expected, rtol=0, atol=0.2)
    for logits in (found, expected):
        assert (logits != logits.bfloat16().float()).float().mean() > 0.9


def test_samples_are_drawn_by_position(decoder: Decoder) -> None:
    several = replacement_of("mlp", "resample")
    assert several.outputs is not None
    first = {layer: samples[:1] for layer, samples in several.outputs.items()}
    logits = [
        reference.reference_ablated_logits(decoder, PROMPTS, ablation)
        for ablation in (several, replace(several, outputs=first))
    ]
    assert (logits[0] - logits[1])[1:].abs().amax((1, 2)).min() > 5e-2


def test_patching(decoder: Decoder) -> None:
    expected = patched_by_hooks(decoder, PROMPTS, PAIRS)
    pyvene = reference.reference_patched_logits(decoder, PROMPTS, PAIRS)
    assert pyvene.plain.shape == (len(PROMPTS), 2)
    assert pyvene.patched.shape == (LAYERS, len(PAIRS), 2)
    assert_close(pyvene.plain, expected.plain)
    assert_close(pyvene.patched, expected.patched)
    for trees in {False, takes_trees(decoder)}:
        for chunk in (1, 40, 10_000):
            found = sweep_patched(decoder, PROMPTS, PAIRS, trees=trees, chunk=chunk)
            assert_close(found.plain, pyvene.plain, (trees, chunk))
            assert_close(found.patched, pyvene.patched, (trees, chunk))
    effects = (expected.patched - expected.plain[[pair.original for pair in PAIRS]]).abs().amax(2)
    assert effects[1:, :-1].min() > 5e-3  # at the first layer, tokens that agree are all there is
    assert effects[1:, :-1].amax(1).min() > 5e-2
    assert effects[:, -1].max() == 0  # nothing is aligned in the last pair


@pytest.mark.parametrize("architecture", ["gemma2", "gpt2"])
def test_patching_at_some_positions(architecture: str) -> None:
    decoder = small_decoder(architecture)
    prompts = (PROMPTS[0], PROMPTS[1], PROMPTS[3])
    first, second = frozenset(range(1, 5)), frozenset(range(5, 11))
    parts = [
        PromptParts((first, second | {*range(11, length - 3)}), frozenset({length - 3, length - 2}))
        for length in map(len, prompts)
    ]
    original = replace(generate(groups=1)[0], is_original=True)
    variant = replace(original, is_original=False)
    group = PromptGroup((original, variant, variant), prompts, tuple(parts))
    settings = [*PARTS_OF_PAIRS, "4:9", "-4:"]
    pairs = [pair for setting in settings for pair in patching_pairs(group, setting)]
    assert {len(prompts[pair.original]) for pair in pairs} == {len(ORIGINAL)}
    assert any(not pair.alignment for pair in pairs)
    assert len({tuple(sorted(pair.alignment)) for pair in pairs}) > len(settings)
    expected = patched_by_hooks(decoder, prompts, pairs).patched
    for trees in (False, True):
        found = sweep_patched(decoder, prompts, pairs, trees=trees, chunk=40).patched
        assert_close(found, expected, trees)
    if architecture == "gpt2":
        assert_close(reference.reference_patched_logits(decoder, prompts, pairs).patched, expected)


def test_all_of_these_take_trees(decoder: Decoder) -> None:
    """Otherwise the tests above would not cover trees."""
    assert takes_trees(decoder)


@pytest.mark.parametrize("architecture", ["mistral", "gemma2", "gemma3_text"])
def test_prompts_longer_than_a_sliding_window(architecture: str) -> None:
    decoder = small_decoder(architecture)
    assert decoder.window is not None
    prompts = [[BOS, *(7 + 29 * n % 83 for n in range(start, 90))] for start in (0, 4, 9)]
    assert min(map(len, prompts)) > decoder.window
    pairs = [PatchingPair(0, other, align_tokens(prompts[0], prompts[other])) for other in (1, 2)]
    for ablation in (Ablation("mlp", TARGETS), Ablation("attention", TARGETS)):
        pyvene = reference.reference_ablated_logits(decoder, prompts, ablation)
        assert_close(pyvene, ablated_by_hooks(decoder, prompts, ablation))
        for batch in (pad_prompts(prompts), pad_prompts(prompts, "left")):
            found = pragworld_interp.engine.ablation.ablated_logits(
                decoder, batch, ablation, chunk=200
            )
            assert_close(found, pyvene)
    patched = reference.reference_patched_logits(decoder, prompts, pairs).patched
    assert_close(patched, patched_by_hooks(decoder, prompts, pairs).patched)
    found = sweep_patched(decoder, prompts, pairs, trees=False, chunk=200).patched
    assert_close(found, patched)


@pytest.mark.parametrize("architecture", WITHOUT_TREES)
def test_prompts_that_are_others_in_a_batch(architecture: str) -> None:
    decoder = small_decoder(architecture)
    longest = [BOS, *(7 + 29 * n % 83 for n in range(118))]
    # On both sides of the limit, with a shared beginning.
    prompts = [longest[:50], [*longest[:45], *longest[50:95]], longest]
    pairs = [PatchingPair(0, other, align_tokens(prompts[0], prompts[other])) for other in (1, 2)]
    limit = decoder.window if decoder.window else rope_limit(decoder.model)
    assert limit == 64
    assert longest_prompt(decoder.model) in (None, 256)
    ablation = Ablation("mlp", TARGETS)
    expected = ablated_by_hooks(decoder, prompts, ablation)
    assert_close(reference.reference_ablated_logits(decoder, prompts, ablation), expected)
    for batch in (pad_prompts(prompts), pad_prompts(prompts, "left")):
        found = pragworld_interp.engine.ablation.ablated_logits(decoder, batch, ablation, chunk=200)
        assert_close(found, expected)
    patched = patched_by_hooks(decoder, prompts, pairs).patched
    assert_close(reference.reference_patched_logits(decoder, prompts, pairs).patched, patched)
    found = sweep_patched(decoder, prompts, pairs, trees=False, chunk=200).patched
    assert_close(found, patched)
    assert supports_rows(decoder, prompts)
    assert not supports_trees(decoder, prompts)


@pytest.mark.parametrize("architecture", WITHOUT_TREES)
def test_outputs_are_those_of_prompts_that_run_alone(architecture: str) -> None:
    decoder = small_decoder(architecture)
    longest = [BOS, *(7 + 29 * n % 83 for n in range(118))]
    prompts = [longest, longest[:95], longest[:50]]
    groups = [PromptGroup((generate(groups=1)[0],) * 3, tuple(prompts), (PromptParts(),) * 3)]
    found = build_ablation(decoder, groups, Intervention("attention", "mean"), TARGETS).outputs
    sums = torch.zeros(LAYERS, WIDTH)
    for prompt in prompts:
        for layer, block in enumerate(decoder.blocks):

            def add(_: nn.Module, __: Any, output: Any, layer: int = layer) -> None:
                sums[layer] += first_tensor(output)[0].sum(0)

            with ablated_module(block, "attention").register_forward_hook(add):
                label_logits(decoder, prompt)
    assert found is not None
    assert_close(torch.cat([*found.values()]), sums / sum(map(len, prompts)))


@pytest.mark.parametrize("architecture", UNUSUAL)
def test_blocks_of_other_shapes(architecture: str) -> None:
    within = _OF_QWEN3_NEXT if architecture == "qwen3_next" else 1e-5
    decoder = small_decoder(architecture)
    trees = supports_trees(decoder, PROMPTS[:5])
    assert supports_rows(decoder, PROMPTS[:5])
    for ablation in (
        Ablation("mlp", TARGETS),
        Ablation("attention", TARGETS),
        replacement_of("mlp", "resample"),
    ):
        expected = ablated_by_hooks(decoder, PROMPTS, ablation)
        assert (expected[1:] - expected[0]).abs().amax((1, 2)).min() > 1e-2
        for layout, batch in layouts(decoder).items():
            found = pragworld_interp.engine.ablation.ablated_logits(
                decoder, batch, ablation, chunk=40
            )
            assert_close(found, expected, (ablation.module, layout), within)
    # As many rows as heads.
    found = pragworld_interp.engine.ablation.ablated_logits(
        decoder, pad_prompts(PROMPTS[:4]), Ablation("mlp", TARGETS), chunk=40
    )
    expected = ablated_by_hooks(decoder, PROMPTS[:4], Ablation("mlp", TARGETS))
    assert_close(found, expected, within=within)
    patched = patched_by_hooks(decoder, PROMPTS, PAIRS).patched
    for packed in {False, trees}:
        found = sweep_patched(decoder, PROMPTS, PAIRS, trees=packed, chunk=40).patched
        assert_close(found, patched, packed, within)


def test_there_may_be_no_pairs() -> None:
    decoder = small_decoder("qwen2")
    found = reference.reference_patched_logits(decoder, PROMPTS, [])
    assert found.patched.shape == (LAYERS, 0, 2)
    assert_close(found.plain, torch.stack([label_logits(decoder, each) for each in PROMPTS]))


def test_the_engines_share_no_intervention_code(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = small_decoder("qwen2")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("an engine ran that should not have")

    with monkeypatch.context() as patch:
        patch.setattr(Decoder, "label_logits", refuse)
        for module in ("decoder", "sweep", "ablation", "patching", "reference"):
            for name in (
                "replaced_forward",
                "with_tensor",
                "first_tensor",
                "sweep_layers",
                "LiveBlock",
            ):
                if hasattr(sys.modules[f"pragworld_interp.{module}"], name):
                    patch.setattr(f"pragworld_interp.{module}.{name}", refuse)
        with pytest.raises(AssertionError):
            ours(decoder, PROMPTS, PAIRS)
        reference.reference_ablated_logits(decoder, PROMPTS, Ablation("mlp", TARGETS))
        reference.reference_patched_logits(decoder, PROMPTS, PAIRS)
    monkeypatch.setattr("pyvene.IntervenableModel.forward", refuse)
    with pytest.raises(AssertionError):
        reference.reference_patched_logits(decoder, PROMPTS, PAIRS)
    ours(decoder, PROMPTS, PAIRS)
    by_sweeping(decoder, Ablation("mlp", TARGETS))


# What patching is (PragWorld paper, section 6.1) --------------------------------------------------


def ours(
    decoder: Decoder, prompts: Sequence[Tokens], pairs: Sequence[PatchingPair]
) -> PatchedLogits:
    return sweep_patched(decoder, prompts, pairs, trees=True, chunk=10_000)


both_engines = pytest.mark.parametrize(
    "engine", [reference.reference_patched_logits, ours], ids=["pyvene", "ours"]
)
Engine = Callable[[Decoder, Sequence[Tokens], Sequence[PatchingPair]], PatchedLogits]


@both_engines
def test_patching_a_prompt_with_itself_changes_nothing(decoder: Decoder, engine: Engine) -> None:
    found = engine(decoder, PROMPTS, [SAME])
    assert_close(found.patched[:, 0], found.plain[:1].expand(LAYERS, -1))


@both_engines
def test_patching_everything_gives_the_altered_answer(decoder: Decoder, engine: Engine) -> None:
    altered = [BOS, *TURNS[:3], 50, 51, *TURNS[5:], *QUESTION]
    everywhere = [(position, position) for position in range(len(ORIGINAL))]
    found = engine(decoder, [ORIGINAL, altered], [PatchingPair(0, 1, everywhere)])
    assert (found.plain[0] - found.plain[1]).abs().max() > 5e-3
    assert_close(found.patched[:, 0], found.plain[1:].expand(LAYERS, -1))


def test_patching_the_final_residual_gives_the_altered_answer(decoder: Decoder) -> None:
    final: list[Tensor] = []

    def record(_: nn.Module, __: Any, output: Any) -> None:
        final.append((output[0] if isinstance(output, tuple) else output)[0, -1].clone())

    def put(_: nn.Module, __: Any, output: Any) -> None:
        (output[0] if isinstance(output, tuple) else output)[0, -1] = final[0]

    last = decoder.blocks[-1].module
    with last.register_forward_hook(record):
        altered = label_logits(decoder, PROMPTS[1])
    with last.register_forward_hook(put):
        patched = label_logits(decoder, ORIGINAL)
    assert (altered - label_logits(decoder, ORIGINAL)).abs().max() > 5e-3
    assert_close(patched, altered)
    with torch.inference_mode():
        assert_close(decoder.label_logits(final[0][None])[0], altered)


def altered_at(place: int) -> list[list[int]]:
    """Return the long original with a token replaced, two inserted, or one deleted; without BOS."""
    before, after = LONG[:place], LONG[place:]
    return [[*before, 95, *after[1:]], [*before, 95, 94, *after], [*before, *after[1:]]]


LONG = [7 + 29 * number % 83 for number in range(36)]  # no token twice
VARIANTS = [variant for place in (4, 12, 20, 28) for variant in altered_at(place)]


def test_alignment_without_bos_is_off_by_one(decoder: Decoder) -> None:
    """The released script does this to models whose tokenizer adds BOS.

    It aligns ids without BOS, and patches residuals of runs with it. So every position is taken for
    the one before it: the last is never patched, and where a token was replaced by another, the
    very token that is not to be patched is.
    """
    prompts = [[BOS, *each] for each in (LONG, *VARIANTS)]
    others = range(1, len(prompts))
    right = [PatchingPair(0, other, align_tokens(prompts[0], prompts[other])) for other in others]
    released = [PatchingPair(0, other, align_tokens(LONG, prompts[other][1:])) for other in others]
    last = len(LONG)
    assert all(last in dict(pair.alignment) for pair in right)
    assert not any(last in dict(pair.alignment) for pair in released)

    found = ours(decoder, prompts, [*right, *released])
    yes_over_no = found.plain[:, 0] - found.plain[:, 1]
    patched = (found.patched[..., 0] - found.patched[..., 1]).view(LAYERS, 2, len(VARIANTS))
    plain_original, plain_altered = yes_over_no[0], yes_over_no[1:]
    scale = (plain_original - plain_altered).abs().mean()
    far = (patched - plain_altered).abs().mean(2) / scale  # [layers, 2], from the altered answer
    assert far[-1, 0] < 0.5
    assert far[-1, 1] > 0.6
    # At the first layer a token says nothing but what it is. Aligned ones are the same.
    replaced = slice(None, None, 3)
    # Half of it, because either logit may be that far off.
    assert_close(patched[0, 0, replaced] / 2, plain_original.expand(4) / 2)
    assert_close(patched[0, 1, replaced] / 2, plain_altered[replaced] / 2)


# The model is left as it was ----------------------------------------------------------------------

HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_always_called",
)


def state(model: nn.Module) -> list[object]:
    """Return what an intervention could leave behind."""
    hooks = [dict(getattr(each, name)) for each in model.modules() for name in HOOKS]
    forwards = [each for each in model.modules() if "forward" in vars(each)]
    trained = [each.requires_grad for each in model.parameters()]
    return [hooks, forwards, trained, [each.training for each in model.modules()]]


def test_the_model_is_left_as_it_was(decoder: Decoder) -> None:
    before, logits = state(decoder.model), label_logits(decoder, ORIGINAL)
    assert before[1] == []
    assert True in before[2]  # type: ignore[operator]
    for ablation in ABLATIONS:
        reference.reference_ablated_logits(decoder, [ORIGINAL], ablation)
        by_sweeping(decoder, ablation)
    reference.reference_patched_logits(decoder, PROMPTS, PAIRS[:1])
    ours(decoder, PROMPTS, PAIRS)
    assert state(decoder.model) == before
    assert torch.equal(label_logits(decoder, ORIGINAL), logits)


def test_hooks_of_others_are_kept_and_called() -> None:
    decoder = small_decoder("llama")
    recorded: list[Tensor] = []
    mlp = decoder.blocks[1].mlp
    with (
        mlp.register_forward_pre_hook(recording(recorded), with_kwargs=True),
        mlp.register_forward_hook(lambda _, __, output: 2 * output),
    ):
        before = state(decoder.model)
        ablation = Ablation("attention", TARGETS)
        found = reference.reference_ablated_logits(decoder, PROMPTS, ablation)
        assert len(recorded) == (1 + LAYERS) * len(PROMPTS)
        assert_close(found, ablated_by_hooks(decoder, PROMPTS, ablation))
        assert state(decoder.model) == before
    assert (
        found - reference.reference_ablated_logits(decoder, PROMPTS, ablation)
    ).abs().max() > 5e-2


@pytest.mark.parametrize(
    ("ablate", "patch", "plain_runs"),
    [(by_pyvene, reference.reference_patched_logits, len(PROMPTS)), (by_sweeping, ours, 0)],
    ids=["pyvene", "ours"],
)
@pytest.mark.parametrize("calls", [0, 1])
@pytest.mark.parametrize("where", ["mlp", "norm"])
def test_failing_leaves_nothing_behind(
    ablate: Callable[..., Tensor], patch: Engine, plain_runs: int, calls: int, where: str
) -> None:
    decoder = small_decoder("qwen3")
    before = state(decoder.model)
    left = 0

    def fail(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt

    module = decoder.blocks[1].mlp if where == "mlp" else decoder.model.model.norm
    with module.register_forward_hook(fail):
        during = state(decoder.model)
        for ablation in ABLATIONS:
            left = calls
            with pytest.raises(KeyboardInterrupt):
                ablate(decoder, ablation)
            assert state(decoder.model) == during
        for more in (0, plain_runs):
            left = calls + more
            with pytest.raises(KeyboardInterrupt):
                patch(decoder, PROMPTS, PAIRS)
            assert state(decoder.model) == during
    assert state(decoder.model) == before


# pyvene itself ------------------------------------------------------------------------------------


def test_without_pyvene_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pragworld_interp.engine.pyvene_engine")
    monkeypatch.setitem(sys.modules, "pyvene", None)  # importing it is an ImportError then
    with pytest.raises(InputError) as caught:
        importlib.import_module("pragworld_interp.engine.pyvene_engine")
    assert str(caught.value) == "--engine pyvene needs pyvene: pip install 'pragworld[interp]'"


def test_importing_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # This module prints when it is run; it is run again here.
    for name in (
        "pyvene",
        "pyvene.models.intervenable_base",
        "pragworld_interp.engine.pyvene_engine",
    ):
        monkeypatch.delitem(sys.modules, name)
    importlib.import_module("pragworld_interp.engine.pyvene_engine")
    assert capsys.readouterr() == ("", "")
