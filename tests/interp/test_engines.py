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
    ablated_by_hooks,
    group_of,
    label_logits,
    patched_by_hooks,
    recording,
    small_decoder,
)
from small_models import ARCHITECTURES, UNUSUAL, WITHOUT_TREES, LabelsOnly, small_model
from torch import Tensor, nn

from pragworld_interp.engine import tree_attention
from pragworld_interp.engine.agreement import supports_rows, supports_trees
from pragworld_interp.engine.decoder import Decoder, from_model
from pragworld_interp.engine.interventions import (
    Ablation,
    Engine,
    PatchedLogits,
    ablated_module,
)
from pragworld_interp.engine.modules import first_tensor
from pragworld_interp.engine.one_pass import OnePassEngine
from pragworld_interp.engine.pyvene_engine import PyveneEngine
from pragworld_interp.engine.rope import longest_prompt, rope_limit
from pragworld_interp.prompts.alignment import PatchingPair, Tokens, align_tokens
from pragworld_interp.run.replacements import build_ablation
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import (
    Intervention,
    Module,
    Replacement,
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

REPLACEMENTS: tuple[Replacement, ...] = get_args(Replacement)
OPTIONS: list[tuple[Module, Replacement, str]] = list(
    product(get_args(Module), REPLACEMENTS, ("all", "last", "2:7"))
)


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


def engines(decoder: Decoder, positions: str = "all") -> dict[str, Engine]:
    """Return pyvene's engine, and ours with every layout that the model takes."""
    ours = {"rows": OnePassEngine(decoder, False, positions)}
    if takes_trees(decoder):
        ours["trees"] = OnePassEngine(decoder, True, positions)
    return {"pyvene": PyveneEngine(decoder), **ours}


def close_to(architecture: str) -> float:
    """Return how far logits may be apart.

    Rounding moves those of two models by 2e-5 and 3e-5: attention of gpt_neo is not scaled, and
    qwen3_next has a recurrence. In float64, gpt_neo's agree to 1e-6.
    """
    return 1e-4 if architecture in ("gpt_neo", "qwen3_next") else 1e-5


def assert_close(found: Tensor, expected: Tensor, what: object = "", within: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=within, msg=lambda m: f"{what}: {m}")


def assert_ablates(
    architecture: str,
    option: tuple[Module, Replacement, str],
    targets: tuple[Target, ...],
    budget: int = 40,
) -> Tensor:
    """Assert that all engines ablate as hooks do, and return the logits."""
    module, replacement, positions = option
    decoder = small_decoder(architecture)
    intervention = Intervention(module, replacement, 0, positions)
    ablation = build_ablation(decoder, GROUPS, intervention, targets)
    expected = ablated_by_hooks(decoder, GROUPS, ablation)
    for name, engine in engines(decoder, positions).items():
        found = engine.ablated_logits(GROUPS, ablation, budget)
        assert found.dtype == torch.float32
        assert_close(found, expected, (name, option, targets), close_to(architecture))
    return expected


def own_targets(architecture: str, module: Module) -> tuple[Target, ...]:
    if module != "heads":
        return SETS
    blocks = small_decoder(architecture).blocks
    return tuple(target for target in HEADS if blocks[target.layers[0]].heads)


@pytest.mark.parametrize("architecture", EVERY)
def test_every_module_is_ablated_as_by_hooks(architecture: str) -> None:
    """Each architecture meets three of the options, or all of them in a long run."""
    step = 1 if os.environ.get("PRAGWORLD_LONG") else 9
    for option in OPTIONS[EVERY.index(architecture) % step :: step]:
        targets = own_targets(architecture, option[0])
        if not targets:  # no heads that can be told apart
            continue
        logits = assert_ablates(architecture, option, targets)
        effects = (logits[1:] - logits[0]).abs().amax((1, 2)).tolist()
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
    architecture: str, option: Any, sets: list[Target], heads: list[Target], budget: int
) -> None:
    targets = heads if option[0] == "heads" else sets
    assert_ablates(architecture, option, tuple(targets), budget)


@pytest.mark.parametrize("architecture", EVERY)
def test_patching(architecture: str) -> None:
    decoder = small_decoder(architecture)
    own = [PAIRS, OTHER_PAIRS]
    expected = [
        patched_by_hooks(decoder, group.prompts, pairs)
        for group, pairs in zip(GROUPS, own, strict=True)
    ]
    for name, engine in engines(decoder).items():
        for budget in (1, 40, 10_000) if name != "pyvene" else (40,):
            found = engine.patched_logits(GROUPS, own, budget)
            for one, other in zip(found, expected, strict=True):
                assert_close(one.plain, other.plain, (name, budget), close_to(architecture))
                assert_close(one.patched, other.patched, (name, budget), close_to(architecture))
    patched, plain = expected[0].patched, expected[0].plain
    effects = (patched - plain[[pair.original for pair in PAIRS]]).abs().amax(2)
    assert effects[1:, :-1].min() > 5e-4  # at the first layer, tokens that agree are all there is
    assert effects[:, -1].max() == 0  # nothing is aligned in the last pair


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_of_these_take_trees(architecture: str) -> None:
    """Otherwise the tests above would not cover trees."""
    assert takes_trees(small_decoder(architecture))


def test_there_may_be_no_pairs() -> None:
    decoder = small_decoder("qwen2")
    for engine in engines(decoder).values():
        (found,) = engine.patched_logits(GROUPS[:1], [[]], 40)
        assert found.patched.shape == (LAYERS, 0, 2)
        assert_close(found.plain, torch.stack([label_logits(decoder, each) for each in PROMPTS]))


# Heads and modules --------------------------------------------------------------------------------


def test_a_head_is_what_its_values_write() -> None:
    """Without its values, a head adds nothing."""
    decoder = small_decoder("gpt_neox")
    ablation = Ablation("heads", (Target((1,), 2),))
    found = OnePassEngine(decoder, False).ablated_logits(GROUPS[:1], ablation, 40)
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
    decoder, group = small_decoder("bloom"), [group_of(PROMPTS[:4])]
    found = OnePassEngine(decoder, False).ablated_logits(group, Ablation("mlp", TARGETS), 40)
    assert_close(found, ablated_by_hooks(decoder, group, Ablation("mlp", TARGETS)))


# Numbers of other precision, and long prompts -----------------------------------------------------


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gpt2", "gemma2"])
def test_engines_agree_on_a_model_in_bfloat16_and_round_no_logits(architecture: str) -> None:
    decoder = from_model(copy.deepcopy(small_model(architecture)).bfloat16(), LabelsOnly())
    pyvene, *ours = [
        engine.ablated_logits(GROUPS, Ablation("mlp", TARGETS), 40)
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
    groups, ablation = [group_of(prompts)], Ablation("attention", TARGETS)
    for engine in (PyveneEngine(decoder), OnePassEngine(decoder, False)):
        found = engine.ablated_logits(groups, ablation, 200)
        assert_close(found, ablated_by_hooks(decoder, groups, ablation))
        (patched,) = engine.patched_logits(groups, [pairs], 200)
        assert_close(patched.patched, patched_by_hooks(decoder, prompts, pairs).patched)


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
    found = build_ablation(decoder, [group_of(prompts)], intervention, TARGETS).outputs
    sums = torch.zeros(LAYERS, WIDTH)
    for prompt in prompts:
        for layer, block in enumerate(decoder.blocks):

            def add(_: nn.Module, __: Any, output: Any, layer: int = layer) -> None:
                sums[layer] += first_tensor(output)[0].sum(0)

            with ablated_module(block, "attention").register_forward_hook(add):
                label_logits(decoder, prompt)
    assert found is not None
    assert_close(torch.cat([*found.values()]), sums / sum(map(len, prompts)))


# What patching is (PragWorld paper, section 6.1) --------------------------------------------------


def patched(
    decoder: Decoder, prompts: Sequence[Tokens], pairs: Sequence[PatchingPair], pyvene: bool = False
) -> PatchedLogits:
    engine: Engine = PyveneEngine(decoder) if pyvene else OnePassEngine(decoder, True)
    (found,) = engine.patched_logits([group_of(prompts)], [pairs], 10_000)
    return found


both_engines = pytest.mark.parametrize("pyvene", [True, False], ids=["pyvene", "ours"])


@both_engines
def test_patching_a_prompt_with_itself_changes_nothing(pyvene: bool) -> None:
    found = patched(small_decoder("gemma2"), PROMPTS, [SAME], pyvene)
    assert_close(found.patched[:, 0], found.plain[:1].expand(LAYERS, -1))


@both_engines
@pytest.mark.parametrize("architecture", ["gpt_neox", "qwen3_moe"])
def test_patching_everything_gives_the_altered_answer(architecture: str, pyvene: bool) -> None:
    altered = [BOS, *TURNS[:3], 50, 51, *TURNS[5:], *QUESTION]
    everywhere = [(position, position) for position in range(len(ORIGINAL))]
    pair = PatchingPair(0, 1, everywhere)
    found = patched(small_decoder(architecture), [ORIGINAL, altered], [pair], pyvene)
    assert (found.plain[0] - found.plain[1]).abs().max() > 5e-3
    assert_close(found.patched[:, 0], found.plain[1:].expand(LAYERS, -1))


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
    differences = (found.patched[..., 0] - found.patched[..., 1]).view(LAYERS, 2, len(VARIANTS))
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


ABLATIONS = [Ablation("mlp", TARGETS), Ablation("attention", SETS[:1]), Ablation("heads", HEADS)]


def run_everything(engine: Engine) -> None:
    for ablation in ABLATIONS:
        engine.ablated_logits(GROUPS[:1], ablation, 40)
    engine.patched_logits(GROUPS[:1], [PAIRS], 40)


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen3_moe", "gpt_oss", "phi3"])
def test_the_model_is_left_as_it_was(architecture: str) -> None:
    decoder = small_decoder(architecture)
    before, logits = state(decoder.model), label_logits(decoder, ORIGINAL)
    assert before[1] == []
    assert True in before[2]  # type: ignore[operator]
    for engine in engines(decoder).values():
        run_everything(engine)
    assert state(decoder.model) == before
    assert torch.equal(label_logits(decoder, ORIGINAL), logits)


def test_hooks_of_others_are_kept_and_called() -> None:
    decoder, ablation = small_decoder("llama"), Ablation("attention", TARGETS)
    recorded: list[Tensor] = []
    mlp = decoder.blocks[1].mlp
    engine = PyveneEngine(decoder)
    with (
        mlp.register_forward_pre_hook(recording(recorded), with_kwargs=True),
        mlp.register_forward_hook(lambda _, __, output: 2 * output),
    ):
        before = state(decoder.model)
        found = engine.ablated_logits(GROUPS[:1], ablation, 40)
        assert len(recorded) == (1 + LAYERS) * len(PROMPTS)
        assert_close(found, ablated_by_hooks(decoder, GROUPS[:1], ablation))
        assert state(decoder.model) == before
    assert (found - engine.ablated_logits(GROUPS[:1], ablation, 40)).abs().max() > 5e-2


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
        for ablation in ABLATIONS:
            left = calls
            with pytest.raises(KeyboardInterrupt):
                engine.ablated_logits(GROUPS[:1], ablation, 40)
            assert state(decoder.model) == during
        for more in (0, len(PROMPTS) if name == "pyvene" else 0):
            left = calls + more
            with pytest.raises(KeyboardInterrupt):
                engine.patched_logits(GROUPS[:1], [PAIRS], 40)
            assert state(decoder.model) == during
    assert state(decoder.model) == before
