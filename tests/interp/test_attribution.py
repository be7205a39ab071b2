"""Attribution patching: a linear approximation of patching, and its agreement with it."""

import copy
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from small_models import LabelsOnly, small_model
from torch import Tensor, nn

import pragworld_tasks as pt
from pragworld_interp import Patched, patch, read_patching, read_patching_panels
from pragworld_interp.alignment import align_altered, align_tokens
from pragworld_interp.attribution import attributed_logits
from pragworld_interp.cli import main
from pragworld_interp.decoder import Decoder, from_model
from pragworld_interp.patching import PatchingPair
from pragworld_interp.pipeline import sample_pairs
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.patching_report import compare_estimates
from pragworld_tasks.tiny import tiny_folder

ARCHITECTURES = ("llama", "gpt2", "gemma2", "gptj", "bloom")
BOS, TURNS, QUESTION = 1, [40, 8, 23, 61, 9, 77, 34, 18, 52, 90], [14, 66, 31]
PROMPTS = [
    [BOS, *TURNS, *QUESTION],
    [BOS, *TURNS[:5], 33, 44, *TURNS[5:], *QUESTION],
    [BOS, *TURNS[:3], 50, *TURNS[4:], *QUESTION, 12, 13],
]
PAIRS = [
    PatchingPair(0, 1, align_tokens(PROMPTS[0], PROMPTS[1])),
    PatchingPair(0, 2, align_tokens(PROMPTS[0], PROMPTS[2])),
    PatchingPair(0, 2, align_altered(PROMPTS[0], PROMPTS[2])),
    PatchingPair(1, 0, align_tokens(PROMPTS[1], PROMPTS[0])),
    PatchingPair(0, 1, []),
]
COLUMNS = [(0, 1), (1, 0), (0, 1)]


def estimates(decoder: Decoder) -> Tensor:
    """Return the [layers, pairs] estimated log-odds."""
    patched = attributed_logits(decoder, PROMPTS, PAIRS, COLUMNS).patched
    golds = [COLUMNS[pair.altered][0] for pair in PAIRS]
    others = [COLUMNS[pair.altered][1] for pair in PAIRS]
    pairs = range(len(PAIRS))
    assert not patched[:, pairs, others].any()
    return patched[:, pairs, golds]


class Interpolated:
    """Plain runs of a model with the residuals of a layer moved towards another prompt's."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder

    @torch.inference_mode()
    def log_odds(self, layer: int, pair: PatchingPair, share: float) -> float:
        block = self.decoder.blocks[layer].module
        recorded: list[Tensor] = []

        def hidden_of(args: Any, kwargs: Any) -> Tensor:
            hidden: Tensor = args[0] if args else kwargs["hidden_states"]
            return hidden

        def record(_: nn.Module, args: Any, kwargs: Any) -> None:
            recorded.append(hidden_of(args, kwargs))

        def move(_: nn.Module, args: Any, kwargs: Any) -> Any:
            hidden = hidden_of(args, kwargs).clone()
            for target, source in pair.alignment:
                hidden[0, target] += share * (recorded[0][0, source] - hidden[0, target])
            return (
                ((hidden, *args[1:]), kwargs)
                if args
                else (args, {**kwargs, "hidden_states": hidden})
            )

        with block.register_forward_pre_hook(record, with_kwargs=True):
            self._logits(pair.altered)
        with block.register_forward_pre_hook(move, with_kwargs=True):
            logits = self._logits(pair.original)
        gold, other = COLUMNS[pair.altered]
        return float(logits[gold] - logits[other])

    def _logits(self, prompt: int) -> Tensor:
        output = self.decoder.model(input_ids=torch.tensor([PROMPTS[prompt]]), use_cache=False)
        logits: Tensor = output.logits[0, -1, list(self.decoder.labels)]
        return logits


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_estimates_are_derivatives(architecture: str) -> None:
    decoder = from_model(copy.deepcopy(small_model(architecture)).double(), LabelsOnly())
    check_derivatives(decoder, step=2e-3, tolerance=1e-4)


def test_estimates_are_derivatives_in_single_precision() -> None:
    """As experts are multiplied in."""
    check_derivatives(from_model(small_model("qwen3_moe"), LabelsOnly()), step=3e-3, tolerance=1e-2)


def check_derivatives(decoder: Decoder, step: float, tolerance: float) -> None:
    found = estimates(decoder)
    plain = Interpolated(decoder)
    for layer in range(len(decoder.blocks)):
        for number, pair in enumerate(PAIRS):
            ahead, here, behind = (plain.log_odds(layer, pair, at) for at in (step, 0, -step))
            expected = here + (ahead - behind) / (2 * step)
            close = pytest.approx(expected, abs=10 * tolerance, rel=tolerance)
            assert found[layer, number] == close, (layer, pair)
    assert (found[1:, 0] - found[0, 0]).abs().min() > 1e-2


class Linear(nn.Module):
    """A block that is linear in its input, and mixes positions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.3 * torch.randn(width, width))

    def forward(self, hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
        return hidden_states + hidden_states.cumsum(1) @ self.weight


def test_estimates_of_a_linear_model_are_exact() -> None:
    model = copy.deepcopy(small_model("llama"))
    torch.manual_seed(0)
    decoder = from_model(model, LabelsOnly())
    model.model.layers = nn.ModuleList([Linear(32) for _ in range(3)])
    model.model.norm = nn.Identity()
    blocks = [
        dataclasses.replace(block, module=module)
        for block, module in zip(decoder.blocks, model.model.layers, strict=True)
    ]
    linear = dataclasses.replace(decoder, blocks=tuple(blocks))
    found = estimates(linear)
    plain = Interpolated(linear)
    for layer in range(3):
        for number, pair in enumerate(PAIRS):
            expected = plain.log_odds(layer, pair, 1)
            assert found[layer, number] == pytest.approx(expected, rel=1e-4, abs=1e-3)


def test_plain_runs_are_those_of_prompts_alone() -> None:
    decoder = from_model(small_model("qwen2"), LabelsOnly())
    found = attributed_logits(decoder, PROMPTS, PAIRS[:1], COLUMNS).plain
    with torch.inference_mode():
        for prompt, logits in zip(PROMPTS, found, strict=True):
            plain = decoder.model(input_ids=torch.tensor([prompt])).logits[0, -1]
            torch.testing.assert_close(logits, plain[list(decoder.labels)], rtol=0, atol=1e-5)


@pytest.mark.parametrize("is_inference", [False, True])
def test_the_model_is_left_as_it_was(is_inference: bool) -> None:
    model = copy.deepcopy(small_model("llama"))
    model.model.norm.weight.requires_grad_(False)
    trained = [parameter.requires_grad for parameter in model.parameters()]
    decoder = from_model(model, LabelsOnly())
    with torch.inference_mode(is_inference):
        estimates(decoder)
    assert [parameter.requires_grad for parameter in model.parameters()] == trained
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_pre_hooks for module in model.modules())

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    with model.model.norm.register_forward_hook(fail), pytest.raises(KeyboardInterrupt):
        estimates(decoder)
    assert [parameter.requires_grad for parameter in model.parameters()] == trained
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert "forward" not in vars(model.lm_head)


# Sweeps -------------------------------------------------------------------------------------------

DOCUMENTS = pt.generate(groups=3, seed=5)


@pytest.fixture(scope="module")
def exact(loaded: tuple[Any, Any]) -> Patched:
    return patch(*loaded, DOCUMENTS)


@pytest.fixture(scope="module")
def estimated(loaded: tuple[Any, Any]) -> Patched:
    return patch(*loaded, DOCUMENTS, method="attribution", check_pairs=1000)


def test_a_report_says_how_estimates_agree(exact: Patched, estimated: Patched) -> None:
    assert (exact.method, exact.agreement) == ("exact", None)
    assert estimated.method == "attribution"
    kept = [number for number, pair in enumerate(exact.pairs) if pair.kept]
    assert len(kept) > 1
    estimates, patched = (
        numpy.array([report.pairs[number].patched for number in kept])
        for report in (estimated, exact)
    )
    agreement = estimated.agreement
    assert agreement is not None
    assert agreement.pairs == len(kept)
    assert agreement.difference == pytest.approx(abs(estimates - patched).mean(), abs=2e-6)
    expected = numpy.corrcoef(estimates.mean(0), patched.mean(0))[0, 1]
    assert agreement.correlation == pytest.approx(expected, abs=1e-4)
    text = estimated.to_text()
    assert "residuals patched at all aligned positions, estimated by attribution: generated" in text
    assert (
        f"on {len(kept)} pairs: correlation over layers {agreement.correlation:.3f}, mean" in text
    )
    for pair, other in zip(estimated.pairs, exact.pairs, strict=True):
        assert dataclasses.replace(pair, patched=()) == dataclasses.replace(
            other, patched=(), original_run=pair.original_run, altered_run=pair.altered_run
        )
        assert pair.original_run == pytest.approx(other.original_run, abs=1e-5)
        # All aligned tokens are the same at the first layer.
        assert pair.patched[0] == pytest.approx(pair.original_run, abs=1e-5)


def test_labels_of_ones_own_are_estimated(loaded: tuple[Any, Any]) -> None:
    prompts = ["Bob is in the hall. Who is it?", "Alice is in the hall. Who is it?"]
    own: dict[str, Any] = {
        "labels": ["Bob", "Alice", "Mia"],
        "answers": ["Bob", "Alice"],
        "groups": [0, 0],
    }
    (found,), (expected,) = (
        patch(*loaded, prompts=prompts, **own, method=method, positions="last").pairs
        for method in ("attribution", "exact")
    )
    assert found.original_run == pytest.approx(expected.original_run, abs=1e-5)
    assert found.patched[0] == pytest.approx(expected.patched[0], abs=1e-5)
    assert found.patched[1] != pytest.approx(found.original_run, abs=1e-3)


def test_estimates_are_written_and_read(exact: Patched, estimated: Patched, tmp_path: Path) -> None:
    estimated.write(tmp_path / "estimated.jsonl")
    exact.write(tmp_path / "exact.jsonl")
    assert read_patching(tmp_path / "estimated.jsonl") == estimated
    with pytest.raises(InputError, match=r"exact\.jsonl: effects of the method exact, but those"):
        read_patching_panels([tmp_path / "estimated.jsonl", tmp_path / "exact.jsonl"])
    head, *rest = (tmp_path / "estimated.jsonl").read_text().splitlines()
    changes: tuple[dict[str, Any], ...] = (
        {"method": "exact"},
        {"method": "guess"},
        {"agreement": {"pairs": 0, "correlation": 0.5, "difference": 0.1}},
        {"agreement": {"pairs": 3, "correlation": 1.5, "difference": 0.1}},
        {"agreement": {"pairs": 3, "correlation": None, "difference": None}},
    )
    for change in changes:
        lines = [json.dumps({**json.loads(head), **change}), *rest]
        (tmp_path / "changed.jsonl").write_text("\n".join(lines))
        with pytest.raises(
            InputError, match=r"changed\.jsonl, line 1: (method|agreement) is .*not"
        ):
            read_patching(tmp_path / "changed.jsonl")


def test_the_command_estimates(estimated: Patched, tmp_path: Path) -> None:
    settings = json.dumps({"groups": 3, "seed": 5})
    model = ("--model", str(tiny_folder()), "--split", "generated", "--metadata", settings)
    out = tmp_path / "patching.jsonl"
    options = ["--method", "attribution", "--check-pairs", "1000", "--out", str(out)]
    main(["patch", *model, *options])
    assert read_patching(out).pairs == estimated.pairs
    assert read_patching(out).agreement == estimated.agreement


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("--check-pairs -1", "--check-pairs -1: must be at least 0"),
        (
            "--method attribution --engine pyvene",
            "--method attribution: not one of --engine pyvene",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    options: str, error: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = [
        "patch",
        "--model",
        "no/such",
        "--split",
        "generated",
        "--out",
        str(tmp_path / "x"),
    ]
    with pytest.raises(SystemExit):
        main([*arguments, *options.split()])
    assert capsys.readouterr().err.startswith(error)


def test_a_sample_is_of_kept_pairs_if_there_are_any(exact: Patched) -> None:
    kept = [pair for pair in exact.pairs if pair.kept]
    lost = [pair for pair in exact.pairs if not pair.kept]
    assert sample_pairs(exact.pairs, 2) == sample_pairs(exact.pairs, 2)
    assert all(pair in kept for pair in sample_pairs(exact.pairs, 2))
    assert len(sample_pairs(exact.pairs, 1000)) == len(kept)
    assert len(sample_pairs(lost, 2)) == 2
    assert sample_pairs(exact.pairs, 0) == sample_pairs([], 5) == []


def test_agreement_of_a_model_with_one_layer_has_no_correlation(exact: Patched) -> None:
    short = [dataclasses.replace(pair, patched=pair.patched[:1]) for pair in exact.pairs]
    agreement = compare_estimates(short, short)
    assert math.isnan(agreement.correlation)
    assert agreement.difference == 0
    assert agreement.to_text().startswith(f"agreement with exact patching on {len(short)} pairs: ")
