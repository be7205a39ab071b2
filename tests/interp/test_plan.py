"""`pragworld-interp plan`: its counts are those of real runs, and its memory is close to theirs."""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from peft import LoraConfig
from plan_sizes import CONFIGS
from small_models import LabelsOnly, small_model
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry
from transformers import AutoTokenizer, TrainerCallback
from trl import ModelConfig, SFTConfig, SFTTrainer

import pragworld_tasks as pt
from pragworld_interp import workload
from pragworld_interp.ablation import Ablation, ablated_logits
from pragworld_interp.cli import main
from pragworld_interp.decoder import Decoder, from_model
from pragworld_interp.devices import DEVICES
from pragworld_interp.layer_report import Intervention
from pragworld_interp.lm_eval_models import TreeLM
from pragworld_interp.loading import Model, load_decoder
from pragworld_interp.model_costs import LiveBytes, model_costs
from pragworld_interp.packing import group_batch, work_units
from pragworld_interp.patching import patched_logits, patching_pairs
from pragworld_interp.patching_report import Method
from pragworld_interp.pipeline import ablate_layers, inputs_of, patch_layers
from pragworld_interp.plan import DeviceNeed, device_need, plan_model
from pragworld_interp.positions import PromptParts
from pragworld_interp.targets import every_layer
from pragworld_interp.tokenization import PromptGroup
from pragworld_interp.workload import (
    Phase,
    PlanInputs,
    Total,
    Workload,
    plan_ablation,
    plan_attribution,
    plan_inputs,
    plan_likelihoods,
    plan_patching,
    plan_training,
    plan_tree_likelihoods,
    plan_writing,
)
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.tiny import tiny_folder
from pragworld_train import to_dataset
from pragworld_train.arguments import DEFAULTS

CLOSE = 0.02
CLOSE_MEMORY = 0.25
BUDGET = 1024
SEED = 22  # whose first groups are small


def _scores(query: Tensor, key: Tensor) -> int:
    """Return the FLOPs of the scores of all heads, and of the values that they weigh."""
    rows, heads, queries, width = query.shape
    return 4 * rows * heads * queries * key.shape[-2] * width


# PyTorch counts these for GPUs only.
_FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Measured(TorchDispatchMode):
    """The FLOPs of matrix products while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.tokens = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        operation = function._overloadpacket
        if operation not in flop_registry:
            with self:
                parts = function.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        output = function(*args, **kwargs)
        if operation is _FORWARD:
            self.flops += _scores(args[0], args[1])
        elif operation is _BACKWARD:
            self.flops += 5 * _scores(args[1], args[2]) // 2
        elif operation in flop_registry:
            self.flops += flop_registry[operation](*args, **kwargs, out_val=output)
        return output


@contextmanager
def measured(decoder: Decoder) -> Iterator[Measured]:
    """Measure FLOPs, and the tokens that go through blocks."""

    def count(_: Any, args: Any) -> None:
        counter.tokens += args[0].shape[:-1].numel()

    with ExitStack() as stack:
        for block in decoder.blocks:
            norm = next(m for m in block.module.children() if "Norm" in type(m).__name__)
            stack.callback(norm.register_forward_pre_hook(count).remove)
        counter = stack.enter_context(Measured())
        yield counter


def assert_agrees(work: Workload, counter: Measured) -> None:
    assert work.block_tokens == counter.tokens
    assert work.flops == pytest.approx(counter.flops, rel=CLOSE)


@cache
def tiny_inputs(groups: int = 3) -> PlanInputs:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
    config = transformers.AutoConfig.from_pretrained(tiny_folder())
    decoder, costs = model_costs(config, torch.float32, tokenizer)
    return plan_inputs(decoder, costs, pt.generate(groups=groups, seed=SEED), BUDGET)


# Sweeps -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["ablate", "patch", "attribution"])
def test_counts_are_those_of_a_sweep(command: str, tmp_path: Path) -> None:
    decoder, identity = load_decoder(Model(str(tiny_folder())))
    with measured(decoder) as counter:
        sweep = inputs_of(decoder, identity, pt.generate(groups=3, seed=SEED), budget=BUDGET)
        if command == "ablate":
            ablate_layers(sweep, Intervention("mlp", "zero"), tmp_path / "out")
        else:
            method: Method = "exact" if command == "patch" else "attribution"
            patch_layers(sweep, "all", tmp_path / "out", method, check_pairs=0)
    plans = {"ablate": plan_ablation, "patch": plan_patching, "attribution": plan_attribution}
    assert_agrees(plans[command](tiny_inputs()), counter)


def random_groups() -> list[PromptGroup]:
    """Return groups of variants of random prompts of 100 tokens, the first of each the original."""
    generator = random.Random(0)
    groups = []
    for group in range(3):
        original = [generator.randrange(7, 96) for _ in range(100 - group)]
        prompts = [list(original) for _ in range(4)]
        for prompt in prompts[1:]:
            prompt[generator.randrange(10, 90)] = 5
        documents = [
            Document(row, "c", "q", "yes", group, not row, None, None, "manual", group, not row)
            for row in range(4)
        ]
        groups.append(PromptGroup(tuple(documents), tuple(prompts), (PromptParts(),) * 4))
    return groups


@pytest.mark.parametrize("architecture", ["gpt2", "gemma2", "qwen3_moe", "phi3, longrope"])
def test_counts_are_those_of_other_architectures(architecture: str) -> None:
    model = deepcopy(small_model(architecture))
    model.set_experts_implementation("eager")  # whose products PyTorch counts
    decoder = from_model(model, LabelsOnly())
    groups = random_groups()
    trees = architecture in ("gpt2", "qwen3_moe")
    planned = PlanInputs(*model_costs(model.config, torch.float32), groups, [], trees, BUDGET)
    assert planned.costs.parameters == sum(weight.numel() for weight in model.parameters())
    probed = Total(planned.costs)
    probed.add_probe([group.prompts for group in groups])
    layers = Ablation("mlp", every_layer(3))
    for plan in (plan_ablation, plan_patching):
        with measured(decoder) as counter:
            for unit in work_units(groups, trees, BUDGET):
                prompts = [group.prompts for group in unit]
                pairs = [patching_pairs(group, "all") for group in unit]
                if plan is plan_ablation:
                    ablated_logits(decoder, group_batch(unit, trees, torch.float32), layers, 60)
                else:
                    patched_logits(decoder, prompts, pairs, trees, 60)
        work = plan(planned)
        assert work.block_tokens - probed.block_tokens == counter.tokens
        assert work.flops - probed.flops == pytest.approx(counter.flops, rel=CLOSE)


@pytest.mark.parametrize("trees", [True, False])
@pytest.mark.parametrize("plan", [plan_ablation, plan_patching])
def test_memory_is_close_to_that_of_a_sweep(
    plan: Callable[[PlanInputs], Workload], trees: bool
) -> None:
    inputs = replace(tiny_inputs(), trees=trees)
    decoder, _ = load_decoder(Model(str(tiny_folder())))
    peak = 0
    for unit in work_units(inputs.groups, trees, BUDGET):
        prompts = [group.prompts for group in unit]
        with LiveBytes() as live:
            if plan is plan_ablation:
                batch = group_batch(unit, trees, torch.float32)
                ablated_logits(decoder, batch, Ablation("mlp", every_layer(5)), BUDGET)
            else:
                pairs = [patching_pairs(group, "all") for group in unit]
                patched_logits(decoder, prompts, pairs, trees, BUDGET)
        peak = max(peak, live.peak)
    assert plan(inputs).working_bytes == pytest.approx(peak, rel=CLOSE_MEMORY)


# Evaluation ---------------------------------------------------------------------------------------


def test_counts_are_those_of_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "GENERATED_TOKENS", 4)
    inputs = tiny_inputs()
    documents = pt.generate(groups=3, seed=SEED)
    asked = [
        Instance("loglikelihood", {}, (pt.label_prompt(document), answer), number)
        for number, document in enumerate(documents)
        for answer in (" yes", " no")
    ]
    settings = {"max_gen_toks": 4, "min_new_tokens": 4, "do_sample": False, "until": []}
    written = [
        Instance("generate_until", {}, (pt.evaluation_prompt(document), settings), number)
        for number, document in enumerate(documents)
    ]
    for plan, kind, requests in (
        (plan_likelihoods(inputs, 4), HFLM, asked),
        (plan_tree_likelihoods(inputs), TreeLM, asked),
        (plan_writing(inputs, 4), HFLM, written),
    ):
        lm = kind(pretrained=str(tiny_folder()), device="cpu", batch_size=4)
        monkeypatch.setattr("pragworld_interp.lm_eval_models.default_budget", lambda _: BUDGET)
        with measured(from_model(lm.model, lm.tokenizer)) as counter:
            getattr(lm, requests[0].request_type)(requests, disable_tqdm=True)
        assert plan.block_tokens == pytest.approx(counter.tokens, rel=CLOSE), plan.command
        assert plan.flops == pytest.approx(counter.flops, rel=CLOSE), plan.command


# Training -----------------------------------------------------------------------------------------


class Held(TrainerCallback):
    """The bytes of weights, gradients and states when the optimizer has made a step."""

    def on_optimizer_step(self, *_: Any, model: Any, optimizer: Any, **__: Any) -> None:
        """Sum them up."""
        weights = list(model.parameters())
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        states = [state for moments in optimizer.state.values() for state in moments.values()]
        self.bytes = sum(tensor.nbytes for tensor in (*weights, *gradients, *states))


@pytest.mark.parametrize("adapter", [True, False], ids=["LoRA", "all weights"])
def test_counts_and_states_are_those_of_training(
    adapter: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "EPOCHS", 1)
    monkeypatch.setattr(workload, "TRAINED_ROWS", 2)
    # Logits of labels only, as on GPUs.
    monkeypatch.setattr("trl.trainer.utils._use_triton", lambda device: True)
    lora = LoraConfig(r=workload.LORA_RANK, target_modules="all-linear", task_type="CAUSAL_LM")
    held = Held()
    trainer = SFTTrainer(
        str(tiny_folder()),
        SFTConfig(
            str(tmp_path), per_device_train_batch_size=2, use_cpu=True, report_to=[], max_steps=1
        ),
        train_dataset=to_dataset(pt.generate(groups=40, seed=SEED)),
        processing_class=AutoTokenizer.from_pretrained(tiny_folder()),
        peft_config=lora if adapter else None,
        callbacks=[held],
    )
    epoch = plan_training(tiny_inputs(40), adapter)
    sizes = [batch["input_ids"].shape for batch in trainer.get_train_dataloader()]
    assert epoch.tokens == pytest.approx(sum(map(torch.Size.numel, sizes)), rel=CLOSE)

    shapes: list[torch.Size] = []
    embed = trainer.model.get_input_embeddings()
    counted = Measured()
    with embed.register_forward_pre_hook(lambda _, args: shapes.append(args[0].shape)), counted:
        trainer.train()
    ((rows, length),) = shapes
    prompts = [[0] * (length - workload._TRAINED_TOKENS)] * rows
    step = plan_training(with_prompts(tiny_inputs(40), prompts), adapter)
    flops = step.flops
    if not adapter:  # nothing needs the last product of a layer, which PyTorch does not repeat
        config = trainer.model.config
        last = 2 * config.intermediate_size * config.hidden_size * config.num_hidden_layers
        flops -= last * rows * length
    assert flops == pytest.approx(counted.flops, rel=CLOSE)
    assert step.held_bytes == pytest.approx(held.bytes, rel=1e-3)


def with_prompts(inputs: PlanInputs, prompts: list[list[int]]) -> PlanInputs:
    """Return inputs with a single group of other prompts."""
    group = replace(inputs.groups[0], prompts=tuple(prompts))
    return replace(inputs, groups=[group])


def test_training_is_planned_with_its_defaults() -> None:
    settings = SFTConfig(bf16=False)
    assert ModelConfig().dtype == "float32"
    assert DEFAULTS["lora_r"] == workload.LORA_RANK
    assert DEFAULTS["num_train_epochs"] == workload.EPOCHS
    assert settings.per_device_train_batch_size == workload.TRAINED_ROWS
    assert settings.max_length == workload.LONGEST_ROW
    assert settings.gradient_checkpointing


# The command --------------------------------------------------------------------------------------

PUBLISHED = {  # the weights that the models' cards tell, in billions
    "Llama-3.2-1B": 1.24,
    "Llama-3.1-8B": 8.03,
    "Qwen3-30B-A3B": 30.5,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_their_size(name: str) -> None:
    one, two = (
        model_costs(
            transformers.AutoConfig.for_model(**CONFIGS[name] | {"num_hidden_layers": layers}),
            torch.bfloat16,
        )[1]
        for layers in (1, 2)  # all would take long
    )
    more = CONFIGS[name]["num_hidden_layers"] - 1
    parameters = one.parameters + more * (two.parameters - one.parameters)
    assert parameters / 1e9 == pytest.approx(PUBLISHED[name], rel=0.005)
    assert two.weight_bytes == 2 * two.parameters


def test_the_command_prints_the_plan_and_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Nothing but the configuration and the tokenizer is there.
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_folder() / name, tmp_path)
    out = tmp_path / "plan.json"
    settings = json.dumps({"groups": 3, "seed": SEED})
    data = ("--split", "generated", "--metadata", settings, "--batch-tokens", str(BUDGET))
    main(["plan", "--model", str(tmp_path), *data, "--device", "h100", "--json", str(out)])
    printed = capsys.readouterr().out
    work = plan_ablation(tiny_inputs())
    assert f"| ablate                                  | {work.tokens:>6,} |" in printed
    plan = json.loads(out.read_text())
    assert (plan["parameters"], plan["layers"], plan["groups"]) == (1_018_560, 5, 3)
    assert [command["command"] for command in plan["commands"]] == [
        "lm_eval pragworld_generated",
        "lm_eval pragworld_generated_mc",
        "lm_eval pragworld_generated_mc, hf-tree",
        "ablate",
        "patch",
        "patch --method attribution",
        "train, LoRA",
        "train, all weights",
    ]
    (ablate,) = [command for command in plan["commands"] if command["command"] == "ablate"]
    assert ablate["flops"] == work.flops
    assert list(ablate["devices"]) == ["h100"]


def test_devices_and_time_follow_from_the_work() -> None:
    phases = (Phase(312 * 10**12), Phase(0, 4078 * 10**9))  # a second, and two of reading
    work = Workload("evaluate", 1, 1, phases, 100 * 10**9, 22 * 10**9)
    a100 = DEVICES["a100"]
    # 50 of the 72 GB that can be used are left for a half of the weights each.
    assert device_need(work, a100, 0.5, is_single=False, layers=2) == DeviceNeed(2, 6.0)
    assert device_need(work, a100, 0.5, is_single=False, layers=1) == DeviceNeed(None, 6.0)
    single = device_need(work, a100, 1.0, is_single=True, layers=2)
    assert single.seconds == pytest.approx(312 / 19.5 + 2)
    assert device_need(replace(work, working_bytes=72 * 10**9), a100, 1.0, False, 2).devices is None
    training = replace(work, phases=phases[:1], is_training=True)
    assert device_need(training, a100, 1.0, is_single=True, layers=2) == DeviceNeed(2, 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--utilization", "0"], "--utilization 0.0: must be above 0 and at most 1"),
        (["--batch-size", "0"], "--batch-size 0: must be at least 1"),
        (["--model", "./none"], "model ./none: there is no such folder"),
        (["--tokenizer", "./none"], "tokenizer ./none: there is no such folder"),
        (["--chat-template"], f"tokenizer {tiny_folder()}: no chat template; leave out --chat-template"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = ["--model", str(tiny_folder()), "--split", "generated", "--metadata", '{"groups": 1}']
    with pytest.raises(SystemExit):
        main(["plan", *shared, *options])
    assert capsys.readouterr().err == f"{message}\n"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size=0: must be at least 1"),
        ({"batch_size": 1.5}, "batch_size=1.5: must be an integer, not float"),
        ({"batch_tokens": -5}, "batch_tokens=-5: must be at least 1"),
        ({"batch_tokens": "x"}, "batch_tokens='x': must be an integer, not str"),
        ({"devices": ["v100"]}, "devices=['v100']: must be some of a10g, a100,"),
        ({"devices": "a100"}, "devices is of type str, but must be a list"),
        ({"devices": []}, "devices=[]: must be some of a10g, a100,"),
        ({"utilization": 0}, "utilization=0: must be above 0 and at most 1"),
        ({"utilization": float("nan")}, "utilization=nan: must be above 0 and at most 1"),
        ({"utilization": "x"}, "utilization='x': must be above 0 and at most 1"),
        ({"dtype": "int8"}, "dtype='int8': must be one of auto, float32, bfloat16, float16"),
        ({"documents": []}, "documents is empty; give at least one document"),
        ({"documents": ["x"]}, "documents[0] is of type str, but must be of type Document"),
        ({"documents": pt.generate(groups=1) * 2}, "row 0: the document occurs twice"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        plan_model(**{"name": str(tiny_folder()), "documents": pt.generate(groups=1), **settings})


def test_a_plan_takes_any_iterable_of_documents_and_numbers_of_numpy() -> None:
    documents = pt.generate(groups=1)
    size: Any = np.int64(2)
    plan = plan_model(str(tiny_folder()), iter(documents), batch_size=size)
    assert plan == plan_model(str(tiny_folder()), documents, batch_size=2)
    json.dumps(plan.to_json())


def test_a_model_with_an_encoder_has_no_plan() -> None:
    with pytest.raises(InputError, match="type t5: Unrecognized configuration class"):
        model_costs(transformers.T5Config(num_layers=1), torch.float32)
