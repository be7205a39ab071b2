"""The trainer in one process: the gradients of a step, the log and the files."""

import json
import shutil
from collections import Counter
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import PeftModel, get_peft_model
from safetensors import safe_open
from safetensors.torch import load_file
from small_models import ARCHITECTURES
from torch import Tensor, nn
from torch import _dynamo as dynamo
from train_runs import (
    BOTH,
    HLS,
    ULA,
    USEFUL,
    assert_close,
    by_hand,
    fresh_model,
    gradients,
    gradients_by_hand,
    lora,
    make_rows,
    make_trainer,
    plain_settings,
    same_bits,
    saved_model,
    settings,
    small_tokenizer,
    trained,
    weights,
)
from transformers import (
    AutoModelForCausalLM,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from pragworld_tasks.errors import InputError
from pragworld_train import LayerLossesMixin, LayerSettings, ProbeLabelCollator
from pragworld_train.hooks import token_mask
from pragworld_train.probes import PROBES_FILE, load_probes

ROWS = make_rows(8)
LENGTHS = [len(ids) for ids in ROWS["input_ids"]]


@pytest.fixture
def as_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let TRL leave out the logits of tokens without a label, as it does on GPUs alone."""
    monkeypatch.setattr("trl.trainer.utils._use_triton", lambda _: True)


# A step -------------------------------------------------------------------------------------------


def both_losses(folder: Path, model: Any = None, peft_config: Any = None, **options: Any) -> Any:
    """Return a trainer on our rows with both losses."""
    args = settings(folder, **{**BOTH, **options})
    return make_trainer(model or fresh_model(), args, ROWS, peft_config=peft_config)


def step(folder: Path, model: Any = None, **options: Any) -> Any:
    """Return the gradients of a step, its log, and the probes as they were before it."""
    trainer = both_losses(folder, model, **options)
    probes = deepcopy(trainer.probes)
    return gradients(trainer), trainer.state.log_history[0], probes


@pytest.mark.parametrize("with_lora", [False, True], ids=["full", "lora"])
def test_a_micro_batch_is_one_forward_pass(tmp_path: Path, with_lora: bool) -> None:
    args = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 3}
    trainer = both_losses(tmp_path, peft_config=lora() if with_lora else None, **args)
    model = trainer.model.get_base_model() if with_lora else trainer.model
    passes: Counter[str] = Counter()
    model.model.register_forward_hook(lambda *_: passes.update(["backbone"]))
    model.model.layers[0].mlp.register_forward_hook(lambda *_: passes.update(["mlp"]))
    trainer.train()
    assert passes == {"backbone": 6, "mlp": 6}


@pytest.mark.parametrize("with_lora", [False, True], ids=["full", "lora"])
def test_logits_are_computed_for_labelled_tokens_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_lora: bool
) -> None:
    """The gradients are those of TRL, which computes the logits of all tokens on a CPU."""
    tokens: list[int] = []
    kernel = import_module("trl.trainer.utils")._ChunkedLogProbFunction

    class Counted:
        @staticmethod
        def apply(states: Tensor, *arguments: Any) -> Any:
            tokens.append(len(states))
            return kernel.apply(states, *arguments)

    monkeypatch.setattr("trl.trainer.utils._ChunkedLogProbFunction", Counted)
    found = []
    for make in (plain_settings, settings):
        peft = lora() if with_lora else None
        args = make(tmp_path, per_device_train_batch_size=8)
        found.append(gradients(make_trainer(fresh_model(), args, ROWS, peft_config=peft)))
    assert tokens == [8 * (max(LENGTHS) - 1), 8 * 2]  # an answer, and the end of the text
    assert_close(found[1], found[0])


@pytest.mark.parametrize("reduction", ["mean", "norm"])
@pytest.mark.parametrize("optimised", ["ula", "hls", "both"])
def test_gradients_equal_those_of_losses_computed_by_hand(
    tmp_path: Path, reduction: str, optimised: str
) -> None:
    ula, hls = (ULA if optimised != "hls" else 0.0), (HLS if optimised != "ula" else 0.0)
    if reduction == "norm":
        hls /= 32
    options = {"ula_weight": ula, "hls_weight": hls, "hls_reduction": reduction}
    found, log, probes = step(tmp_path, **options)
    assert [*probes] == (USEFUL if ula else [])
    expected, losses = gradients_by_hand(
        fresh_model(), ROWS, probes, ula=ula, hls=hls, reduction=reduction
    )
    assert_close(found, expected)
    assert log["loss"] == pytest.approx(losses["loss"], rel=1e-5)
    for name, weight in (("ula_loss", ula), ("hls_loss", hls)):
        assert (name in log) == bool(weight)
        if weight:
            assert log[name] == pytest.approx(losses[name], rel=1e-5)


MLP_OF = {
    "gpt2": "transformer.h.{}.mlp",
    "gpt_neox": "gpt_neox.layers.{}.mlp",
    "gptj": "transformer.h.{}.mlp",
    "llama4_text": "model.layers.{}.feed_forward",
    "falcon": "transformer.h.{}.mlp",
}


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "falcon"])
def test_gradients_equal_those_by_hand_on_every_architecture(
    tmp_path: Path, architecture: str
) -> None:
    path = MLP_OF.get(architecture, "model.layers.{}.mlp")
    regularized, model = fresh_model(architecture), fresh_model(architecture)
    if architecture == "llama4_text":
        regularized.base_model_prefix = "model"  # TRL fails with its own prefix, which is wrong
    # The load-balancing loss of a mixture of experts is not computed by hand.
    found, log, probes = step(tmp_path, regularized, router_aux_loss_coef=0.0)
    expected, losses = gradients_by_hand(
        model, ROWS, probes, mlp=lambda layer: model.get_submodule(path.format(layer))
    )
    for name in ("loss", "ula_loss", "hls_loss"):
        assert log[name] == pytest.approx(losses[name], rel=1e-4), name
    assert_close(found, expected, 1e-4)


def test_a_mixture_of_experts_keeps_its_load_balancing_loss(tmp_path: Path) -> None:
    plain = trained(
        fresh_model("qwen3_moe"), plain_settings(tmp_path, router_aux_loss_coef=0.1), ROWS
    )
    _, log, _ = step(tmp_path, fresh_model("qwen3_moe"), router_aux_loss_coef=0.1)
    expected = plain.state.log_history[0]
    assert log["aux_loss"] == pytest.approx(expected["aux_loss"])
    added = ULA * log["ula_loss"] + HLS * log["hls_loss"]
    assert log["loss"] == pytest.approx(expected["loss"] + added, rel=1e-5)


@dataclass
class Arguments(LayerSettings, TrainingArguments):
    """The arguments of a trainer of transformers, with layers."""


class LayerTrainer(LayerLossesMixin, Trainer):
    """A trainer of transformers with the losses of layers."""


@pytest.mark.parametrize("size", [8, 3])
def test_any_trainer_can_have_the_losses(tmp_path: Path, size: int) -> None:
    plain = plain_settings(tmp_path)
    args = Arguments(
        str(tmp_path),
        **{name: getattr(plain, name) for name in ("use_cpu", "optim", "learning_rate")},
        **{name: getattr(plain, name) for name in ("max_grad_norm", "max_steps", "logging_steps")},
        **BOTH,
        report_to="none",
        train_sampling_strategy="sequential",
        per_device_train_batch_size=size,
        gradient_accumulation_steps=-(-8 // size),
    )
    collator = ProbeLabelCollator(DataCollatorForSeq2Seq(small_tokenizer()))
    trainer = LayerTrainer(fresh_model(), args, data_collator=collator, train_dataset=ROWS)
    probes = deepcopy(trainer.probes)
    found = gradients(trainer)
    expected, losses = gradients_by_hand(fresh_model(), ROWS, probes)
    assert_close(found, expected)
    for name in ("loss", "ula_loss", "hls_loss"):
        assert trainer.state.log_history[0][name] == pytest.approx(losses[name], rel=1e-5)
    trainer.save_model()
    assert_same_probes(load_probes(tmp_path), trainer.probes)
    assert trainer.evaluate(ROWS)["eval_hls_loss"] > 0
    assert not [name for name, _ in trainer.model.named_modules() if "probe" in name]


def test_any_trainer_refuses_layers_that_its_model_lacks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="harmful layer 9: the model has layers 0 to 2"):
        LayerTrainer(fresh_model(), Arguments(str(tmp_path), use_cpu=True, harmful_layers=[9]))


def test_an_optimizer_made_before_training_trains_the_probes(tmp_path: Path) -> None:
    trainer, usual = both_losses(tmp_path), both_losses(tmp_path)
    trainer.create_optimizer()
    trainer.train()
    usual.train()
    assert same_bits(weights(trainer), weights(usual))


OTHER_WAYS: dict[str, dict[str, Any]] = {
    "checkpointed": {"gradient_checkpointing": True},
    "checkpointed with options": {
        "activation_checkpointing": True,
        "activation_checkpointing_kwargs": {"preserve_rng_state": True},
    },
    "checkpointed selectively": {
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"selective": True},
    },
    "every second layer checkpointed": {
        "activation_checkpointing": True,
        "activation_checkpointing_kwargs": {"every_n_layers": 2},
    },
    "compiled": {"torch_compile": True, "torch_compile_backend": "aot_eager"},
}


def shallow_model(layers: int) -> Any:
    model = fresh_model()
    model.model.layers = model.model.layers[:layers]
    model.config.num_hidden_layers = layers
    model.config.layer_types = model.config.layer_types[:layers]
    return model


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_checkpointing_and_compilation_do_not_change_gradients(tmp_path: Path, way: str) -> None:
    layers = {"useful_layers": [0], "harmful_layers": [1]}
    expected, log, _ = step(tmp_path, shallow_model(2), **layers)
    dynamo.reset()
    dynamo.utils.counters.clear()
    found, other, _ = step(tmp_path, shallow_model(2), **layers, **OTHER_WAYS[way])
    assert_close(found, expected)
    # Hooks must not interrupt a compiled graph. TRL's loss does, for want of a contiguous `out`.
    interruptions = dynamo.utils.counters["graph_break"]
    assert not [reason for reason in interruptions if "non-contiguous `out=`" not in reason]
    for name in ("loss", "ula_loss", "hls_loss", "probe_accuracy"):
        assert other[name] == pytest.approx(log[name], rel=1e-4)


@pytest.mark.usefixtures("as_on_gpus")
def test_a_probe_that_is_detached_leaves_plain_training(tmp_path: Path) -> None:
    """Its loss is there, and the model's weights are those of plain SFT bit by bit."""
    plain = trained(fresh_model(), plain_settings(tmp_path, max_steps=2), ROWS)
    args = settings(tmp_path, useful_layers=USEFUL, ula_weight=ULA, max_steps=2)
    ours = make_trainer(fresh_model(), args, ROWS)
    for probe in ours.probes.values():
        probe.register_forward_pre_hook(lambda _, outputs: outputs[0].detach())
    ours.train()
    assert ours.state.log_history[0]["ula_loss"] > 0
    assert same_bits(dict(ours.model.named_parameters()), dict(plain.model.named_parameters()))


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a compiler")
def test_compiled_by_inductor(tmp_path: Path, long_runs: None) -> None:
    """Inductor of torch 2.13 once dropped the gradient of ULA, unlike the backend above."""
    found = []
    for options in ({}, {"torch_compile": True}):
        args = settings(tmp_path, useful_layers=[0], ula_weight=ULA, **options)
        found.append(gradients(make_trainer(shallow_model(1), args, ROWS)))
    assert_close(found[1], found[0])


def test_checkpointing_does_not_change_the_gradients_of_an_adapter(tmp_path: Path) -> None:
    found = []
    for checkpointing in (False, True):
        trainer = both_losses(tmp_path, peft_config=lora(), gradient_checkpointing=checkpointing)
        found.append(gradients(trainer))
    assert_close(found[1], found[0])


def test_the_model_may_already_have_an_adapter(tmp_path: Path) -> None:
    expected = gradients(trainer := both_losses(tmp_path, peft_config=lora()))
    torch.manual_seed(trainer.args.seed)
    found = gradients(both_losses(tmp_path, get_peft_model(fresh_model(), lora())))
    assert same_bits(found, expected)
    assert any("label_probes" in name for name in found)


def test_hooks_do_not_disable_checkpointing(tmp_path: Path) -> None:
    """Each layer runs a second time for its gradient."""
    trainer = both_losses(tmp_path, gradient_checkpointing=True)
    calls: list[int] = []
    for layer in trainer.model.model.layers:
        # A second run ends once all tensors that the gradient needs exist, which may be before
        # forward hooks of the MLP are called, so this is a pre-hook.
        layer.mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    trainer.train()
    assert len(calls) == 2 * 3


def test_bfloat16_is_close(tmp_path: Path) -> None:
    """Probes compute in their own precision, HLS sums up in float32."""
    expected, log, _ = step(tmp_path)
    found, other, _ = step(tmp_path, bf16=True)
    for name in ("loss", "ula_loss", "hls_loss"):
        assert other[name] == pytest.approx(log[name], rel=3e-2)
    assert found.keys() == expected.keys()
    far, near = (
        torch.cat([tensors[name].flatten() for name in expected]) for tensors in (found, expected)
    )
    assert torch.cosine_similarity(far, near, dim=0) > 0.999


def test_probes_of_a_model_in_bfloat16_are_in_float32_and_move(tmp_path: Path) -> None:
    """At the paper's learning rate, a step is lost in the rounding of bfloat16."""
    options = {"optim": "adamw_torch", "learning_rate": 1e-4, "bf16": True}
    _, log, _ = step(tmp_path)
    trainer = both_losses(tmp_path, fresh_model().bfloat16(), **options)
    before = deepcopy(trainer.probes)
    trainer.train()
    for layer, probe in trainer.probes.items():
        for name, weight in probe.named_parameters():
            assert weight.dtype == torch.float32
            moved = (weight != before[layer].get_parameter(name)).float().mean()
            assert moved > 0.9, name
    for name in ("ula_loss", "hls_loss"):
        assert trainer.state.log_history[0][name] == pytest.approx(log[name], rel=5e-2)


# Without padding ----------------------------------------------------------------------------------

WITHOUT_PADDING: dict[str, dict[str, Any]] = {
    "padding-free": {"padding_free": True, "max_length": None},
    "padded at the end": {"padding_free": True, "max_length": None, "pad_to_multiple_of": 64},
    "packed": {"packing": True, "max_length": 64},
    "packed, padded": {"packing": True, "max_length": 64, "pad_to_multiple_of": 32},
    "padded to multiples": {"pad_to_multiple_of": 16},
}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("layout", WITHOUT_PADDING)
def test_concatenated_sequences_give_the_same_gradients(
    tmp_path: Path, layout: str, attention: str
) -> None:
    expected, log, _ = step(tmp_path)
    model = fresh_model()
    model.set_attn_implementation(attention)
    found, other, _ = step(tmp_path, model, **WITHOUT_PADDING[layout])
    for name in ("loss", "ula_loss", "hls_loss", "probe_accuracy"):
        assert other[name] == pytest.approx(log[name], rel=1e-5), name
    assert_close(found, expected)


def test_padding_after_sequences_differs_from_sequences_of_one_token(tmp_path: Path) -> None:
    """Cutting 17 tokens at 16 leaves one, whose position is 0 like those of padding."""
    packed = {"packing": True, "packing_strategy": "bfd_split", "max_length": 16}
    options = {"harmful_layers": [2], "hls_weight": 0.1, "pad_to_multiple_of": 32, **packed}
    rows = Dataset.from_dict({"input_ids": [list(range(3, 20))] * 4})
    trainer = make_trainer(fresh_model(), settings(tmp_path, **options), rows)
    batches = list(trainer.get_train_dataloader())
    assert sum(int(token_mask(batch).sum()) for batch in batches) == 4 * 17
    assert all(torch.equal(token_mask(batch), batch["input_ids"] != 0) for batch in batches)


# Accumulation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_lora", [False, True], ids=["full", "lora"])
def test_accumulated_steps_equal_those_of_whole_batches(tmp_path: Path, with_lora: bool) -> None:
    rows = make_rows(20)  # the third step of an epoch has half as many examples
    found = []
    for size, steps in ((8, 1), (4, 2), (1, 8)):
        sizes = {"per_device_train_batch_size": size, "gradient_accumulation_steps": steps}
        args = settings(tmp_path, **BOTH, **sizes, max_steps=6)
        trainer = trained(fresh_model(), args, rows, peft_config=lora() if with_lora else None)
        assert trainer.state.epoch == 2
        found.append(weights(trainer))
        losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
        if steps == 1:
            whole = losses
        assert losses == pytest.approx(whole, rel=1e-4)
    for other in found[1:]:
        assert_close(other, found[0], 1e-4)


@pytest.mark.parametrize("scaled", [None, False, True])
@pytest.mark.parametrize("counts_items", [False, True])
def test_both_losses_are_whole_however_a_trainer_scales_its_own(
    tmp_path: Path, counts_items: bool, scaled: bool | None
) -> None:
    args = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    trainer = both_losses(tmp_path, **args)
    trainer.model_accepts_loss_kwargs, trainer.loss_is_scaled_for_ga = counts_items, scaled
    probes = deepcopy(trainer.probes)
    found = gradients(trainer)
    expected, _ = gradients_by_hand(fresh_model(), ROWS, probes)
    of_probes = {name: expected[name] for name in expected if "label_probes" in name}
    assert_close({name: found[name] for name in of_probes}, of_probes)


def test_logged_losses_add_up_over_several_steps(tmp_path: Path) -> None:
    logs = []
    for every in (1, 3):
        options = {"max_steps": 6, "logging_steps": every, "per_device_train_batch_size": 3}
        trainer = both_losses(tmp_path, **options)
        trainer.train()
        logs.append(trainer.state.log_history)  # of batches of 3, 3 and 2 in each epoch
    for name in ("loss", "ula_loss", "hls_loss"):
        single, of_three = ([line[name] for line in log if name in line] for log in logs)
        assert of_three == pytest.approx([sum(single[:3]) / 3, sum(single[3:]) / 3])


SHARED: dict[str, dict[str, Any]] = {
    "one batch": {},
    "accumulated": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4},
    "checkpointed": {"gradient_checkpointing": True},
}


@pytest.mark.parametrize("way", SHARED)
def test_gradient_shares_are_those_of_separate_backward_passes(tmp_path: Path, way: str) -> None:
    plain, log, _ = step(tmp_path, **SHARED[way])
    assert not [name for name in log if "share" in name]
    found, log, probes = step(tmp_path, **SHARED[way], gradient_share_steps=1)
    assert_close(found, plain)
    norms = {}
    rows = list(ROWS)[: SHARED[way].get("per_device_train_batch_size")]  # of the first batch
    for name, weight in (("ce", 1), ("ula_loss", ULA), ("hls_loss", HLS)):
        model = fresh_model()
        loss = weight * by_hand(model, probes, rows)[name]
        torch.autograd.backward(loss)
        squares = [part.grad.square().sum() for part in model.parameters() if part.grad is not None]
        norms[name] = sum(squares) ** 0.5
    # Its part of the whole batch's HLS is by tokens, and that of the other losses by rows.
    tokens, all_tokens = (sum(len(row["input_ids"]) for row in part) for part in (rows, ROWS))
    norms["hls_loss"] *= tokens / all_tokens * len(ROWS) / len(rows)
    for name in ("ula", "hls"):
        expected = (norms[f"{name}_loss"] / norms["ce"]).item()
        assert log[f"{name}_gradient_share"] == pytest.approx(expected, rel=1e-4)


def test_gradient_shares_are_measured_every_so_many_steps(tmp_path: Path) -> None:
    options = {"max_steps": 5, "per_device_train_batch_size": 4, "gradient_share_steps": 2}
    trainer = both_losses(tmp_path, peft_config=lora(), **options)
    trainer.train()
    steps = [line["step"] for line in trainer.state.log_history if "ula_gradient_share" in line]
    assert steps == [1, 3, 5]


# Compared with plain SFT --------------------------------------------------------------------------

DRAWN: dict[str, Any] = {  # with everything that is random
    "train_sampling_strategy": "random",
    "optim": "adamw_torch",
    "learning_rate": 1e-3,
    "max_steps": 5,
    "per_device_train_batch_size": 3,
    "max_grad_norm": 1.0,
}


@pytest.mark.usefixtures("as_on_gpus")
@pytest.mark.parametrize("with_lora", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("weight", [0.0, 1e-30])
def test_without_weights_training_is_plain_sft_bit_by_bit(
    tmp_path: Path, weight: float, with_lora: bool
) -> None:
    """The same holds for a weight so small that it is lost in rounding: nothing else is added."""
    peft = [lora(0.1) if with_lora else None for _ in range(2)]
    # With probes, gradients are not clipped, because their norm would be summed in another order.
    options = {"gradient_checkpointing": True, **DRAWN, "max_grad_norm": 0.0 if weight else 1.0}
    plain = make_trainer(
        fresh_model(), plain_settings(tmp_path, **options), ROWS, peft_config=peft[0]
    )
    plain_state, plain_weights = torch.get_rng_state(), weights(plain)
    ours = make_trainer(
        fresh_model(),
        settings(tmp_path, **{**BOTH, **options, "ula_weight": weight, "hls_weight": weight}),
        ROWS,
        peft_config=peft[1],
    )
    assert torch.equal(torch.get_rng_state(), plain_state)

    def without_probes(trainer: Any) -> dict[str, Tensor]:
        return {
            name: weight for name, weight in weights(trainer).items() if "label_probes" not in name
        }

    assert bool(ours.probes) == bool(weight)
    assert same_bits(without_probes(ours), plain_weights)
    for trainer in (plain, ours):
        torch.set_rng_state(plain_state)
        trainer.train()
    assert same_bits(without_probes(ours), weights(plain))
    assert not same_bits(weights(plain), plain_weights)
    # The logged loss is a sum over tokens, which TRL takes in another order.
    logs = [trainer.state.log_history for trainer in (plain, ours)]
    losses = [[line["loss"] for line in log if "loss" in line] for log in logs]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


@pytest.mark.parametrize("outputs", [False, True], ids=["loss only", "with logits"])
def test_the_evaluation_loss_is_that_of_plain_sft(tmp_path: Path, outputs: bool) -> None:
    held_out = make_rows(10, seed=1)
    options: dict[str, Any] = {"eval_dataset": held_out}
    if outputs:
        options["compute_metrics"] = lambda found: {"sum": float(abs(found.predictions).sum())}
    metrics = []
    for make in (plain_settings, settings):
        args = make(tmp_path, per_device_eval_batch_size=4, **(BOTH if make is settings else {}))
        trainer = make_trainer(fresh_model(), args, ROWS, **options)
        metrics.append(trainer.evaluate())
    assert metrics[1]["eval_loss"] == pytest.approx(metrics[0]["eval_loss"], rel=1e-6)
    if outputs:
        assert metrics[1]["eval_sum"] == metrics[0]["eval_sum"]
    assert "eval_ula_loss" not in metrics[0]
    logged = trainer.state.log_history[-1]
    losses = by_hand(fresh_model(), trainer.probes, list(held_out))  # of all batches at once
    for name in ("ula_loss", "hls_loss"):
        assert logged[f"eval_{name}"] == pytest.approx(losses[name].item(), rel=1e-5)
    assert 0 <= logged["eval_probe_accuracy"] <= 1


def test_evaluation_between_steps_does_not_change_training(tmp_path: Path) -> None:
    found = []
    for evaluated in ("no", "steps"):
        sizes = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
        evaluation = {"eval_strategy": evaluated, "eval_steps": 1}
        args = settings(tmp_path, **BOTH, **sizes, **evaluation, max_steps=4)
        found.append(trained(fresh_model(), args, ROWS, eval_dataset=make_rows(5, seed=1)))
    assert same_bits(*map(weights, found))


def test_the_accuracy_of_probes_is_logged(tmp_path: Path) -> None:
    """One probe always says yes and the other always no, so half of their answers are right."""
    trainer = both_losses(tmp_path)
    with torch.no_grad():
        for layer, answer in zip(USEFUL, ([1e3, 0], [0, 1e3]), strict=True):
            trainer.probes[layer].outer.bias.copy_(torch.tensor(answer))
    trainer.train()
    assert trainer.state.log_history[0]["probe_accuracy"] == pytest.approx(0.5)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_model_can_be_called_between_and_after_steps(
    tmp_path: Path, checkpointing: bool
) -> None:
    trainer = both_losses(tmp_path, gradient_checkpointing=checkpointing)
    other = {"input_ids": torch.randint(7, 96, (3, 5))}
    for act in (lambda: None, trainer.train, lambda: trainer.evaluate(ROWS)):
        act()
        trainer.model.eval()
        plain = fresh_model()
        plain.load_state_dict(trainer.model.state_dict(), strict=False)
        found = trainer.model(**other)
        torch.testing.assert_close(found.logits, plain(**other).logits)
        assert "probe_logits" not in found
        assert trainer.model.generate(**other, max_new_tokens=3, do_sample=False).shape[0] == 3


def test_the_model_can_be_called_after_a_step_that_failed(tmp_path: Path) -> None:
    trainer = both_losses(tmp_path)

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    with trainer.model.model.norm.register_forward_hook(fail), pytest.raises(KeyboardInterrupt):
        trainer.train()
    trainer.model(input_ids=torch.ones(2, 3, dtype=torch.long))


class _Save(TrainerCallback):
    """A callback that saves the model during training, as users do, and may then stop it."""

    def __init__(self, folder: Path, error: type[BaseException] | None = None) -> None:
        self.folder, self.error = folder, error

    def on_step_end(self, *_: Any, model: Any, **__: Any) -> None:
        model.save_pretrained(self.folder)
        if self.error:
            raise self.error("during training")


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("with_lora", [False, True], ids=["full", "lora"])
def test_training_leaves_no_trace_in_the_model(
    tmp_path: Path, with_lora: bool, error: type[BaseException] | None
) -> None:
    trainer = both_losses(tmp_path, peft_config=lora() if with_lora else None)
    trainer.add_callback(_Save(tmp_path / "during", error))
    trainer.model.save_pretrained(tmp_path / "before")
    with pytest.raises(error) if error else nullcontext():
        trainer.train()
    trainer.model.save_pretrained(tmp_path / "after")
    trainer.evaluate(ROWS)
    assert not any(module._forward_hooks for module in trainer.model.modules())
    assert not [name for name, _ in trainer.model.named_modules() if "probe" in name]
    names = [
        {*load_file(path)}
        for stage in ("before", "during", "after")
        for path in (tmp_path / stage).glob("*.safetensors")
    ]
    assert len(names) == 3
    assert names[0] == names[1] == names[2]
    assert not any("probe" in name for name in names[0])


# Files --------------------------------------------------------------------------------------------


SAVED: dict[str, Any] = {
    **BOTH,
    "max_steps": 4,
    "save_strategy": "steps",
    "save_steps": 2,
    "per_device_train_batch_size": 4,
}


def assert_same_probes(found: dict[int, Any], expected: dict[int, Any]) -> None:
    assert found.keys() == expected.keys()
    for layer, probe in expected.items():
        assert same_bits(found[layer].state_dict(), probe.state_dict())


def test_a_trained_model_is_saved_without_its_probes(tmp_path: Path) -> None:
    base = saved_model(tmp_path / "base")
    trainer = trained(str(base), settings(tmp_path / "out", **SAVED), ROWS, processing_class=None)
    trainer.save_model()
    for folder in (tmp_path / "out", tmp_path / "out" / "checkpoint-4"):
        assert {name.partition(".")[0] for name in load_file(folder / "model.safetensors")} == {
            name.partition(".")[0] for name in load_file(base / "model.safetensors")
        }
        model, told = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
        assert not any(told.values())
        assert same_bits(dict(model.named_parameters()), dict(trainer.model.named_parameters()))
        assert_same_probes(load_probes(folder), trainer.probes)
    earlier = load_probes(tmp_path / "out" / "checkpoint-2")
    assert not same_bits(earlier[0].state_dict(), trainer.probes[0].state_dict())
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForCausalLM"]


def test_an_adapter_is_saved_without_its_probes(tmp_path: Path) -> None:
    base = saved_model(tmp_path / "base")
    trainer = trained(
        str(base),
        settings(tmp_path / "out", **SAVED),
        ROWS,
        processing_class=None,
        peft_config=lora(),
    )
    trainer.save_model()
    batch = {"input_ids": torch.tensor([ROWS[0]["input_ids"]])}
    expected = trainer.model.eval()(**batch).logits
    for folder in (tmp_path / "out", tmp_path / "out" / "checkpoint-4"):
        saved = load_file(folder / "adapter_model.safetensors")
        assert all("lora" in name for name in saved)
        plain = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), folder)
        torch.testing.assert_close(plain(**batch).logits, expected)
        assert_same_probes(load_probes(folder), trainer.probes)


def test_the_file_of_probes_has_plain_names_shapes_and_classes(tmp_path: Path) -> None:
    both_losses(tmp_path, probe_hidden_size=7).save_model()
    shapes = {"inner.weight": [7, 32], "inner.bias": [7], "outer.weight": [2, 7], "outer.bias": [2]}
    with safe_open(tmp_path / PROBES_FILE, "pt") as file:
        assert json.loads(file.metadata()["classes"]) == ["yes", "no"]
    found = {name: [*weight.shape] for name, weight in load_file(tmp_path / PROBES_FILE).items()}
    assert found == {f"{layer}.{name}": shape for layer in USEFUL for name, shape in shapes.items()}


def test_without_ula_no_probes_are_saved(tmp_path: Path) -> None:
    trainer = both_losses(tmp_path, ula_weight=0.0)
    trainer.save_model()
    assert trainer.probes == {}
    assert not (tmp_path / PROBES_FILE).exists()
    with pytest.raises(InputError, match="the probes cannot be read"):
        load_probes(tmp_path)


@pytest.mark.parametrize("with_lora", [False, True], ids=["full", "lora"])
def test_loading_the_best_model_loads_its_probes(tmp_path: Path, with_lora: bool) -> None:
    options = {
        **SAVED,
        "save_steps": 1,
        "eval_strategy": "steps",
        "eval_steps": 1,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_hls_loss",  # it falls
        "greater_is_better": True,
    }
    trainer = trained(
        fresh_model(),
        settings(tmp_path, **options),
        ROWS,
        eval_dataset=make_rows(4, seed=1),
        peft_config=lora() if with_lora else None,
    )
    best = Path(trainer.state.best_model_checkpoint)
    assert best.name == "checkpoint-1"
    assert_same_probes(trainer.probes, load_probes(best))
    last = load_probes(tmp_path / "checkpoint-4")
    assert not same_bits(last[0].state_dict(), trainer.probes[0].state_dict())
    assert all(isinstance(probe, nn.Module) for probe in trainer.probes.values())


def test_all_layers_can_be_suppressed(tmp_path: Path) -> None:
    options = {"ula_weight": 0.0, "hls_weight": HLS, "useful_layers": None}
    found, log, probes = step(tmp_path, **{**options, "harmful_layers": [0, 1, 2]})
    expected, losses = gradients_by_hand(fresh_model(), ROWS, probes, harmful=[0, 1, 2], ula=0.0)
    assert_close(found, expected)
    assert log["hls_loss"] == pytest.approx(losses["hls_loss"], rel=1e-5)
