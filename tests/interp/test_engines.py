"""Both engines and plain hooks agree on every architecture and option; properties of patching."""

import copy
import logging
import os
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, get_args

import peft
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_hooks import (
    by_hooks,
    group_of,
    label_logits,
    small_decoder,
)
from small_models import ARCHITECTURES, UNUSUAL, WITHOUT_TREES, LabelsOnly, small_model
from torch import Tensor, nn

from pragworld_interp.engine import tree_attention
from pragworld_interp.engine.agreement import supports_rows, supports_trees
from pragworld_interp.engine.decoder import Decoder, from_model
from pragworld_interp.engine.interventions import Engine, Logits, ModuleChange, ablated_module
from pragworld_interp.engine.modules import first_tensor
from pragworld_interp.engine.one_pass import OnePassEngine
from pragworld_interp.engine.pyvene_engine import PyveneEngine
from pragworld_interp.engine.rope import longest_prompt, rope_limit
from pragworld_interp.prompts.alignment import (
    KINDS,
    PatchingPair,
    Tokens,
    align_tokens,
    position_kinds,
)
from pragworld_interp.prompts.tokenization import PromptGroup
from pragworld_interp.run.replacements import build_changes
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import (
    NULLS,
    Intervention,
    Module,
    PatchedModule,
    Target,
    every_layer,
)

EVERY = (*ARCHITECTURES, *WITHOUT_TREES, *UNUSUAL)
LAYERS, WIDTH = 3, 32
TARGETS = every_layer(LAYERS)
SETS = (Target((1, 2)), Target((2,)), Target((0, 2)), Target((0, 1, 2)), Target((1,)), Target((0,)))
HEADS = tuple(
    Target((layer,), head) for layer, head in ((2, 3), (0, 3), (1, 0), (2, 0), (0, 2), (1, 2))
)
BOS, TURNS, QUESTION = 1, [40, 8, 23, 61, 9, 77, 34, 18, 52, 90], [14, 66, 31]
ORIGINAL = [BOS, *TURNS, *QUESTION]
PROMPTS = [
    ORIGINAL,
    [BOS, *TURNS[:5], 33, 44, *TURNS[5:], *QUESTION],  # inserted
    [BOS, *TURNS[:4], *TURNS[6:], *QUESTION],  # deleted
    [BOS, *TURNS[:3], 50, *TURNS[4:], *QUESTION, 12, 13],  # replaced, and other last tokens
    [BOS, *TURNS[:2], 88, *TURNS[1:], *QUESTION],  # the shared beginning continues after 88
]
PAIRS = [
    PatchingPair(0, other, align_tokens(ORIGINAL, PROMPTS[other])) for other in (1, 2, 3, 4)
] + [
    # An original need not be the first prompt, nor do positions have to be in order.
    PatchingPair(2, 1, align_tokens(PROMPTS[2], PROMPTS[1])),
    PatchingPair(0, 1, [(2, 9), (13, 1), (5, 0)]),
    PatchingPair(0, 2, []),
]
OTHERS = [
    [BOS, 70, 71, 7, *TURNS[:4]],
    [BOS, *range(30, 41), *range(42, 60)],
    [BOS, *range(30, 41)],  # begins the second
]
OTHER_PAIRS = [PatchingPair(1, 0, [(0, 0), (3, 2)])]
GROUPS = [group_of(PROMPTS), group_of(OTHERS, 1)]
SAME = PatchingPair(0, 0, align_tokens(ORIGINAL, ORIGINAL))

# A module, what replaces it (or pairs of prompts, of which one is patched), and where.
Option = tuple[Any, Any, str]
OPTIONS: list[Option] = [
    *product(get_args(Module), NULLS, ("all", "last", "2:7")),
    *product(get_args(PatchedModule), ("pairs",), ("all",)),
    ("block", "revert", "all"),
]


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


@cache
def takes_trees(decoder: Decoder) -> bool:
    return supports_trees(decoder, PROMPTS)


def engines(decoder: Decoder) -> dict[str, Engine]:
    """Return pyvene's engine, and ours with every layout that the model takes."""
    ours = {"rows": OnePassEngine(decoder, False)}
    if takes_trees(decoder):
        ours["trees"] = OnePassEngine(decoder, True)
    return {"pyvene": PyveneEngine(decoder), **ours}


def close_to(architecture: str) -> float:
    """Return how far logits may be apart.

    Rounding moves those of two models by 2e-5 and 3e-5: attention of gpt_neo is not scaled, and
    qwen3_next has a recurrence. In float64, gpt_neo's agree to 1e-6.
    """
    return 1e-4 if architecture in ("gpt_neo", "qwen3_next") else 1e-5


def assert_close(found: Tensor, expected: Tensor, what: object = "", within: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=within, msg=lambda m: f"{what}: {m}")


def assert_agree(
    decoder: Decoder,
    groups: Sequence[PromptGroup],
    change: ModuleChange,
    within: float,
    budget: int = 40,
) -> Logits:
    """Assert that all engines change what hooks do, and return the logits."""
    expected = by_hooks(decoder, groups, change)
    for name, engine in engines(decoder).items():
        found = engine.logits(groups, change, budget)
        for what, logits in found._asdict().items():
            assert logits.dtype == torch.float32
            described = name, what, change.module, change.replacement, change.targets
            assert_close(logits, getattr(expected, what), described, within)
    return expected


def change_of(architecture: str, option: Option, targets: tuple[Target, ...]) -> ModuleChange:
    decoder, (module, replacement, positions) = small_decoder(architecture), option
    if replacement == "pairs":
        return ModuleChange(module, targets, pairs={0: PAIRS, 1: OTHER_PAIRS})
    if replacement == "revert":
        base = small_model(architecture, seed=1)
        return ModuleChange(module, targets, base=from_model(base, LabelsOnly()).blocks)
    intervention = Intervention(module, replacement, 0, positions)
    (change,) = build_changes(decoder, GROUPS, intervention, targets)
    return change


def own_targets(architecture: str, module: PatchedModule) -> tuple[Target, ...]:
    if module != "heads":
        return SETS
    blocks = small_decoder(architecture).blocks
    return tuple(target for target in HEADS if blocks[target.layers[0]].heads)


@pytest.mark.parametrize("architecture", EVERY)
def test_every_module_is_changed_as_by_hooks(architecture: str) -> None:
    """Each architecture meets four of the options, or all of them in a long run."""
    decoder = small_decoder(architecture)
    step = 1 if os.environ.get("PRAGWORLD_LONG") else 11
    for option in OPTIONS[EVERY.index(architecture) % step :: step]:
        targets = own_targets(architecture, option[0])
        if not targets:  # no heads that can be told apart
            continue
        change = change_of(architecture, option, targets)
        logits = assert_agree(decoder, GROUPS, change, close_to(architecture))
        if option[1] in ("pairs", "counterfactual", "revert"):
            continue
        effects = (logits.changed - logits.plain).abs().amax((1, 2)).tolist()
        for target, effect in zip(targets, effects, strict=True):
            # What the last layer does before the last token is not read.
            assert (effect > 3e-6) == (option[2] != "2:7" or target.layers[0] < 2), (option, target)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.sampled_from(["llama", "gpt2", "qwen3_moe", "falcon", "bloom", "phi3, longrope"]),
    st.sampled_from(OPTIONS),
    st.lists(st.sampled_from(SETS), min_size=1, unique=True),
    st.lists(st.sampled_from(HEADS), min_size=1, unique=True),
    st.sampled_from([1, 40, 10_000]),
)
def test_any_options_together(
    architecture: str, option: Option, sets: list[Target], heads: list[Target], budget: int
) -> None:
    decoder = small_decoder(architecture)
    targets = tuple(heads if option[0] == "heads" else sets)
    assert_agree(decoder, GROUPS, change_of(architecture, option, targets), 1e-5, budget)


@pytest.mark.parametrize("architecture", EVERY)
def test_patching_residuals(architecture: str) -> None:
    decoder = small_decoder(architecture)
    change = change_of(architecture, ("residual", "pairs", "all"), TARGETS)
    logits = assert_agree(decoder, GROUPS, change, close_to(architecture))
    originals = logits.plain[[pair.target for pair in PAIRS]]
    effects = (logits.changed[:, : len(PAIRS)] - originals).abs().amax(2)
    assert effects[1:, :-1].min() > 5e-4  # at the first layer, tokens that agree are all there is
    assert effects[:, -1].max() == 0  # nothing is aligned in the last pair


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_of_these_take_trees(architecture: str) -> None:
    """Otherwise the tests above would not cover trees."""
    assert takes_trees(small_decoder(architecture))


def test_there_may_be_no_pairs() -> None:
    decoder = small_decoder("qwen2")
    change = ModuleChange("residual", TARGETS, pairs={0: []})
    assert assert_agree(decoder, GROUPS[:1], change, 1e-5).changed.shape == (LAYERS, 0, 2)


# Heads and modules --------------------------------------------------------------------------------


def test_linear_attention_has_no_heads_to_ablate() -> None:
    decoder = small_decoder("qwen3_next")
    assert [block.heads and block.heads.count for block in decoder.blocks] == [None, 4, None]
    with pytest.raises(InputError, match=r"GatedDeltaNet: its heads cannot be told apart"):
        ablated_module(decoder.blocks[0], "heads")


def test_adapters_are_within_what_is_ablated() -> None:
    """An adapter's last matrix would otherwise pass for the part that adds to the residuals."""
    names = ["self_attention.dense", "mlp.dense_4h_to_h"]
    config = peft.LoraConfig(r=2, target_modules=names)
    model = peft.get_peft_model(copy.deepcopy(small_model("bloom")), config)
    for block in from_model(model, LabelsOnly()).blocks:
        assert [block.attention, block.mlp] == [*map(block.module.get_submodule, names)]
        assert block.heads
        assert block.heads.projection is block.attention


def test_as_many_rows_as_heads() -> None:
    """Biases of BLOOM have a row for each head of each prompt."""
    assert_agree(
        small_decoder("bloom"), [group_of(PROMPTS[:4])], ModuleChange("mlp", TARGETS), 1e-5
    )


@pytest.mark.parametrize("name", ["pyvene", "trees"])
def test_reverting_the_layer_that_training_changed_undoes_everything(name: str) -> None:
    """Bit by bit; any other layer changes nothing."""
    config = peft.LoraConfig(r=2, layers_to_transform=[1], init_lora_weights=False)
    base = small_decoder("llama")
    tuned = from_model(peft.get_peft_model(copy.deepcopy(base.model), config), LabelsOnly())
    change = ModuleChange("block", (*TARGETS, Target((0, 1))), base=base.blocks)
    found = engines(tuned)[name].logits(GROUPS[:1], change, 1)
    plain = engines(base)[name].logits(GROUPS[:1], ModuleChange("mlp", TARGETS), 1).plain
    assert (found.plain - plain).abs().max() > 1e-3
    for changed, expected in zip(
        found.changed, (found.plain, plain, found.plain, plain), strict=True
    ):
        assert torch.equal(changed, expected)


# Numbers of other precision, and long prompts -----------------------------------------------------


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gpt2", "gemma2"])
def test_engines_agree_on_a_model_in_bfloat16_and_round_no_logits(architecture: str) -> None:
    decoder = from_model(copy.deepcopy(small_model(architecture)).bfloat16(), LabelsOnly())
    pyvene, *ours = [
        engine.logits(GROUPS, ModuleChange("mlp", TARGETS), 40).changed
        for engine in engines(decoder).values()
    ]
    for found in ours:
        assert torch.equal(found.argmax(2), pyvene.argmax(2))
        torch.testing.assert_close(found, pyvene, rtol=0, atol=0.2)
    for logits in (pyvene, *ours):
        assert (logits != logits.bfloat16().float()).float().mean() > 0.9


def assert_agree_on(decoder: Decoder, prompts: list[list[int]]) -> None:
    """Assert that both engines agree with hooks on long prompts, padded to one length."""
    pairs = [PatchingPair(0, other, align_tokens(prompts[0], prompts[other])) for other in (1, 2)]
    groups = [group_of(prompts)]
    for change in (
        ModuleChange("attention", TARGETS),
        ModuleChange("residual", TARGETS, pairs={0: pairs}),
    ):
        expected = by_hooks(decoder, groups, change)
        for engine in (PyveneEngine(decoder), OnePassEngine(decoder, False)):
            assert_close(engine.logits(groups, change, 200).changed, expected.changed)


@pytest.mark.parametrize("architecture", ["mistral", "gemma2", "gemma3_text"])
def test_prompts_longer_than_a_sliding_window(architecture: str) -> None:
    decoder = small_decoder(architecture)
    prompts = [[BOS, *(7 + 29 * n % 83 for n in range(start, 90))] for start in (0, 4, 9)]
    assert decoder.window is not None
    assert min(map(len, prompts)) > decoder.window
    assert_agree_on(decoder, prompts)


@pytest.mark.parametrize("architecture", WITHOUT_TREES)
def test_prompts_that_are_others_in_a_batch(architecture: str) -> None:
    decoder = small_decoder(architecture)
    longest = [BOS, *(7 + 29 * n % 83 for n in range(118))]
    # On both sides of the limit, with a shared beginning.
    prompts = [longest[:50], [*longest[:45], *longest[50:95]], longest]
    limit = decoder.window if decoder.window else rope_limit(decoder.model)
    assert limit == 64
    assert longest_prompt(decoder.model) in (None, 256)
    assert_agree_on(decoder, prompts)
    assert supports_rows(decoder, prompts)
    assert not supports_trees(decoder, prompts)


@pytest.mark.parametrize("architecture", WITHOUT_TREES)
def test_outputs_are_those_of_prompts_that_run_alone(architecture: str) -> None:
    decoder = small_decoder(architecture)
    longest = [BOS, *(7 + 29 * n % 83 for n in range(118))]
    prompts = [longest, longest[:95], longest[:50]]
    intervention = Intervention("attention", "mean")
    group = group_of(prompts)
    found = build_changes(decoder, [group], intervention, TARGETS)[0].outputs
    kinds = torch.tensor([kind for own in position_kinds(group) for kind in own])
    assert {*kinds.tolist()} == {0, KINDS.index("altered"), KINDS.index("last")}
    for layer, block in enumerate(decoder.blocks):
        outputs: list[Tensor] = []
        with ablated_module(block, "attention").register_forward_hook(
            lambda _, __, output, kept=outputs: kept.append(first_tensor(output)[0])
        ):
            for prompt in prompts:
                label_logits(decoder, prompt)
        for kind in {*kinds.tolist()}:
            assert found is not None
            assert_close(found[layer][kind], torch.cat(outputs)[kinds == kind].mean(0))


# What patching is (PragWorld paper, section 6.1) --------------------------------------------------


def patched(
    decoder: Decoder, prompts: Sequence[Tokens], pairs: Sequence[PatchingPair], pyvene: bool = False
) -> Logits:
    engine: Engine = PyveneEngine(decoder) if pyvene else OnePassEngine(decoder, True)
    change = ModuleChange("residual", TARGETS, pairs={0: pairs})
    return engine.logits([group_of(prompts)], change, 10_000)


both_engines = pytest.mark.parametrize("pyvene", [True, False], ids=["pyvene", "ours"])


@both_engines
def test_patching_a_prompt_with_itself_changes_nothing(pyvene: bool) -> None:
    found = patched(small_decoder("gemma2"), PROMPTS, [SAME], pyvene)
    assert_close(found.changed[:, 0], found.plain[:1].expand(LAYERS, -1))


@both_engines
@pytest.mark.parametrize("architecture", ["gpt_neox", "qwen3_moe"])
def test_patching_everything_gives_the_altered_answer(architecture: str, pyvene: bool) -> None:
    altered = [BOS, *TURNS[:3], 50, 51, *TURNS[5:], *QUESTION]
    everywhere = [(position, position) for position in range(len(ORIGINAL))]
    pair = PatchingPair(0, 1, everywhere)
    found = patched(small_decoder(architecture), [ORIGINAL, altered], [pair], pyvene)
    assert (found.plain[0] - found.plain[1]).abs().max() > 5e-3
    assert_close(found.changed[:, 0], found.plain[1:].expand(LAYERS, -1))


def altered_at(place: int) -> list[list[int]]:
    """Return the long original with a token replaced, two inserted, or one deleted; without BOS."""
    before, after = LONG[:place], LONG[place:]
    return [[*before, 95, *after[1:]], [*before, 95, 94, *after], [*before, *after[1:]]]


LONG = [7 + 29 * number % 83 for number in range(36)]  # no token twice
VARIANTS = [variant for place in (4, 12, 20, 28) for variant in altered_at(place)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_alignment_without_bos_is_off_by_one(architecture: str) -> None:
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

    found = patched(small_decoder(architecture), prompts, [*right, *released])
    yes_over_no = found.plain[:, 0] - found.plain[:, 1]
    differences = (found.changed[..., 0] - found.changed[..., 1]).view(LAYERS, 2, len(VARIANTS))
    plain_original, plain_altered = yes_over_no[0], yes_over_no[1:]
    scale = (plain_original - plain_altered).abs().mean()
    far = (differences - plain_altered).abs().mean(2) / scale  # [layers, 2], from the altered one
    assert far[-1, 0] < 0.5
    assert far[-1, 1] > 0.6
    # At the first layer a token says nothing but what it is. Aligned ones are the same.
    replaced = slice(None, None, 3)
    # Half of it, because either logit may be that far off.
    assert_close(differences[0, 0, replaced] / 2, plain_original.expand(4) / 2)
    assert_close(differences[0, 1, replaced] / 2, plain_altered[replaced] / 2)


# The engines leave the model as it was, and nothing of them is shared -----------------------------

HOOKS = [name for name in vars(nn.Module()) if name.startswith("_forward_")]


def state(model: nn.Module) -> list[object]:
    """Return what an intervention could leave behind."""
    hooks = [dict(getattr(each, name)) for each in model.modules() for name in HOOKS]
    forwards = [each for each in model.modules() if "forward" in vars(each)]
    trained = [each.requires_grad for each in model.parameters()]
    return [hooks, forwards, trained, [each.training for each in model.modules()]]


CHANGES = [
    ModuleChange("mlp", TARGETS),
    ModuleChange("attention", SETS[:1]),
    ModuleChange("heads", HEADS),
    ModuleChange("mlp", TARGETS, pairs={0: PAIRS}),
    ModuleChange("residual", TARGETS, pairs={0: PAIRS}),
]


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen3_moe", "gpt_oss", "phi3"])
def test_the_model_is_left_as_it_was(architecture: str) -> None:
    decoder = small_decoder(architecture)
    before, logits = state(decoder.model), label_logits(decoder, ORIGINAL)
    assert before[1] == []
    assert True in before[2]  # type: ignore[operator]
    for engine, change in product(engines(decoder).values(), CHANGES):
        engine.logits(GROUPS[:1], change, 40)
    assert state(decoder.model) == before
    assert torch.equal(label_logits(decoder, ORIGINAL), logits)


def test_hooks_of_others_are_kept_and_called() -> None:
    decoder, change = small_decoder("llama"), ModuleChange("attention", TARGETS)
    called: list[object] = []
    mlp = decoder.blocks[1].mlp
    engine = PyveneEngine(decoder)
    with (
        mlp.register_forward_pre_hook(lambda *args: called.append(args)),
        mlp.register_forward_hook(lambda _, __, output: 2 * output),
    ):
        before = state(decoder.model)
        found = engine.logits(GROUPS[:1], change, 40).changed
        assert len(called) == (1 + LAYERS) * len(PROMPTS)
        assert_close(found, by_hooks(decoder, GROUPS[:1], change).changed)
        assert state(decoder.model) == before
    assert (found - engine.logits(GROUPS[:1], change, 40).changed).abs().max() > 5e-2


@pytest.mark.parametrize("calls", [0, 1])
@pytest.mark.parametrize("where", ["mlp", "norm"])
@pytest.mark.parametrize("name", ["pyvene", "rows", "trees"])
def test_failing_leaves_nothing_behind(name: str, calls: int, where: str) -> None:
    decoder = small_decoder("qwen3")
    engine = engines(decoder)[name]
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
        for change, more in product(CHANGES, {0, len(PROMPTS) if name == "pyvene" else 0}):
            left = calls + more
            with pytest.raises(KeyboardInterrupt):
                engine.logits(GROUPS[:1], change, 40)
            assert state(decoder.model) == during
    assert state(decoder.model) == before
