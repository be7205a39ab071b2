"""The files that training leaves: equal for equal runs, and true to what ran."""

import json
import re
import shutil
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from peft import LoraConfig
from train_runs import (
    BOTH,
    fresh_model,
    lora,
    make_rows,
    make_trainer,
    same_bits,
    settings,
    small_tokenizer,
    trained,
    weights,
)
from transformers import BitsAndBytesConfig

from pragworld_tasks.errors import InputError
from pragworld_train.layer_settings import LayerSettings
from pragworld_train.model_card import make_model_card
from pragworld_train.probes import PROBES_FILE, new_probes, write_probes
from pragworld_train.run_record import RUN_FILE, digest_base_weights, make_record


def test_equal_probes_make_equal_files(tmp_path: Path) -> None:
    """Safetensors writes metadata of more than one entry in an order that differs between files."""
    probes = new_probes([0, 2], 8, 4, 2, 0)
    weights = {
        f"{layer}.{name}": weight
        for layer, probe in probes.items()
        for name, weight in probe.state_dict().items()
    }
    contents = set()
    for _ in range(20):
        write_probes(weights, ["yes", "no"], tmp_path)
        contents.add((tmp_path / PROBES_FILE).read_bytes())
    assert len(contents) == 1


# Resuming -----------------------------------------------------------------------------------------

SAVED: dict[str, Any] = {**BOTH, "save_strategy": "steps", "save_steps": 1, "max_steps": 1}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the checkpoint of a finished run."""
    folder = tmp_path_factory.mktemp("saved")
    trained(fresh_model(), settings(folder, **SAVED), make_rows(8))
    return folder / "checkpoint-1"


OTHER_RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "weight": ({"hls_weight": 0.5}, "hls_weight 0.9, not 0.5;"),
    "useful layers": ({"useful_layers": [0]}, "amplified [0, 2], not [0];"),
    "no useful layers": ({"useful_layers": None, "ula_weight": None}, "amplified [0, 2], not [];"),
    "harmful layers": ({"harmful_layers": None, "hls_weight": 0.0}, "suppressed [1], not [];"),
    "width of probes": ({"probe_hidden_size": 7}, "probe_hidden_size 128, not 7;"),
    "learning rate": ({"learning_rate": 0.5}, "learning_rate 0.05, not 0.5;"),
    "steps": ({"max_steps": 3}, "max_steps 1, not 3;"),
    "batch size": ({"per_device_train_batch_size": 2}, "batch_size 8, not 2;"),
    "seed": ({"seed": 3}, "seed 42, not 3;"),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("change", OTHER_RUNS)
def test_another_run_is_not_resumed(checkpoint: Path, change: str) -> None:
    """It would train no step, and then describe weights that it has not trained."""
    options, message = OTHER_RUNS[change]
    before = contents(checkpoint.parent)
    trainer = make_trainer(
        fresh_model(), settings(checkpoint.parent, **{**SAVED, **options}), make_rows(8)
    )
    with pytest.raises(InputError) as refused:
        trainer.train(resume_from_checkpoint=str(checkpoint))
    assert str(refused.value).startswith(f"{checkpoint}: trained with ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert contents(checkpoint.parent) == before


def test_a_run_with_other_data_or_another_model_is_not_resumed(checkpoint: Path) -> None:
    args = settings(checkpoint.parent, **SAVED)
    for model, rows, adapter, message in (
        (fresh_model(), make_rows(9), None, "rows 8, not 9;"),
        (fresh_model(), make_rows(8, seed=1), None, "digest "),
        (fresh_model(), make_rows(8), lora(), "no adapter, not an adapter;"),
        (fresh_model("llama"), make_rows(8), None, '"Qwen3ForCausalLM", not "LlamaForCausalLM"'),
    ):
        trainer = make_trainer(model, args, rows, peft_config=adapter)
        with pytest.raises(InputError) as refused:
            trainer.train(resume_from_checkpoint=True)  # the last one
        assert message in str(refused.value)


def test_an_adapter_is_not_resumed_on_other_base_weights(tmp_path: Path) -> None:
    """Checkpoints of adapters don't have them, so the result would be a mixture of two models."""
    args = settings(tmp_path, **SAVED)
    trained(fresh_model(), args, make_rows(8), peft_config=lora())
    other = fresh_model()
    with torch.no_grad():
        other.model.layers[1].mlp.up_proj.weight[0, 0] += 1e-4
    trainer = make_trainer(other, args, make_rows(8), peft_config=lora())
    with pytest.raises(InputError) as refused:
        trainer.train(resume_from_checkpoint=True)
    found = r'checkpoint-1: trained with base_weights_digest "\w+", not "\w+"; resume with the same'
    assert re.search(found, str(refused.value))
    make_trainer(fresh_model(), args, make_rows(8), peft_config=lora()).train(True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("size", [0, 7, 8, 37])
def test_a_digest_depends_on_the_bits_of_weights_alone(dtype: torch.dtype, size: int) -> None:
    def digest(tensor: torch.Tensor) -> str | None:
        weight = torch.nn.Parameter(tensor, requires_grad=False)
        return digest_base_weights(torch.nn.ParameterList([weight]))

    values = torch.arange(1, size + 1).repeat(3, 1).to(dtype)
    expected = digest(values)
    behind_another = torch.cat([torch.zeros(1, dtype=dtype), values.flatten()])[1:]
    for same in (behind_another.view(3, size), values.T.contiguous().T):
        assert digest(same) == expected
    if size:
        values[-1, -1] += 1
        assert digest(values) != expected


def test_a_digest_copies_no_weights() -> None:
    weight = torch.nn.Parameter(torch.ones(2**20, dtype=torch.bfloat16), requires_grad=False)
    with torch.profiler.profile(profile_memory=True) as profile:
        digest_base_weights(torch.nn.ParameterList([weight]))
    assert sum(max(event.cpu_memory_usage, 0) for event in profile.events()) < 2**10


@pytest.mark.parametrize("is_partitioned", [True, False])
def test_an_adapter_is_resumed_where_a_digest_of_base_weights_is_not_known(
    is_partitioned: bool, tmp_path: Path
) -> None:
    """Earlier versions didn't record it, and weights that ZeRO-3 partitions have none."""
    args = settings(tmp_path, **SAVED)
    trained(fresh_model(), args, make_rows(8), peft_config=lora())
    model = fresh_model()
    if is_partitioned:
        model.get_input_embeddings().weight.ds_id = 0
    else:
        path = tmp_path / "checkpoint-1" / RUN_FILE
        record = json.loads(path.read_text())
        del record["model"]["base_weights_digest"]
        path.write_text(json.dumps(record))
    trainer = make_trainer(model, args, make_rows(8), peft_config=lora())
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert (trainer.run_record()["model"]["base_weights_digest"] is None) == is_partitioned


def test_checkpoints_of_all_weights_replace_those_that_a_run_starts_from(
    checkpoint: Path,
) -> None:
    other = fresh_model()
    with torch.no_grad():
        other.model.layers[1].mlp.up_proj.weight[0, 0] += 1e-4
    trainer = make_trainer(other, settings(checkpoint.parent, **SAVED), make_rows(8))
    trainer.train(resume_from_checkpoint=True)
    assert trainer.run_record()["model"]["base_weights_digest"] is None


def test_streamed_data_may_be_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They have no digest, so a resumed run says that it cannot know."""
    args = settings(tmp_path, **SAVED)
    rows = make_rows(8).to_iterable_dataset()
    trained(fresh_model(), args, rows)
    assert "streamed" not in caplog.text
    make_trainer(fresh_model(), args, rows).train(resume_from_checkpoint=True)
    assert "checkpoint-1: streamed data have no digest" in caplog.text


def test_settings_that_do_not_change_weights_may_differ(checkpoint: Path, tmp_path: Path) -> None:
    """The batch may be divided in another way, too."""
    options = {"logging_steps": 5, "save_steps": 3, "eval_strategy": "steps", "eval_steps": 1}
    divided = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    args = settings(tmp_path, **{**SAVED, **options, **divided})
    trainer = make_trainer(fresh_model(), args, make_rows(8), eval_dataset=make_rows(2))
    trainer.train(resume_from_checkpoint=str(checkpoint))
    assert trainer.state.global_step == 1


def test_a_finished_run_trains_no_more(tmp_path: Path) -> None:
    """By itself, transformers trains one more step where `max_steps` ends within an epoch."""
    options = {**SAVED, "per_device_train_batch_size": 2, "max_steps": 2}
    first = trained(fresh_model(), settings(tmp_path, **options), make_rows(8))
    again = make_trainer(fresh_model(), settings(tmp_path, **options), make_rows(8))
    again.train(resume_from_checkpoint=True)
    assert same_bits(weights(again), weights(first))
    record = again.run_record()
    assert (record["steps"], record["log"]) == (2, first.run_record()["log"][:-1])


def test_a_checkpoint_without_a_record_is_not_resumed(checkpoint: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(checkpoint, tmp_path / "checkpoint-1")
    trainer = make_trainer(fresh_model(), settings(tmp_path, **SAVED), make_rows(8))
    for content, message in ((None, f"no {RUN_FILE} says how"), ("{}", "not a record of this")):
        (copy / RUN_FILE).unlink()
        if content:
            (copy / RUN_FILE).write_text(content)
        with pytest.raises(InputError, match=message):
            trainer.train(resume_from_checkpoint=str(copy))
        (copy / RUN_FILE).touch()


# Records and cards --------------------------------------------------------------------------------


def test_the_record_of_a_run_is_what_ran(tmp_path: Path) -> None:
    rows = make_rows(8)
    base = tmp_path / "base"
    fresh_model().save_pretrained(base)
    small_tokenizer().save_pretrained(base)
    options = {
        **BOTH,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 3,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 1,
        "max_steps": 2,
        "probe_hidden_size": 7,
        "hls_reduction": "norm",
    }
    adapter = LoraConfig(r=3, lora_alpha=5, lora_dropout=0.25, target_modules=["q_proj"])
    trainer = trained(
        str(base),
        settings(tmp_path / "out", **options),
        rows,
        peft_config=adapter,
        data_description={"name": "drawn"},
    )
    trainer.save_model()
    record = json.loads((tmp_path / "out" / RUN_FILE).read_text())
    assert record == trainer.run_record()
    assert record["model"] == {
        "name": str(base),
        "revision": None,
        "architecture": "Qwen3ForCausalLM",
        "layers": 3,
        "dtype": "float32",
        "quantization": None,
        "weights": sum(weight.numel() for weight in trainer.model.parameters()),
        "trained_weights": 3 * 3 * (32 + trainer.model.get_parameter(Q_B).shape[0]),
        "base_weights_digest": digest_base_weights(trainer.model),
    }
    for name, value in {"r": 3, "lora_alpha": 5, "lora_dropout": 0.25}.items():
        assert record["adapter"][name] == value
    assert record["adapter"]["target_modules"] == ["q_proj"]
    assert record["data"] | {"digest": ""} == {"name": "drawn", "rows": 8, "digest": ""}
    assert record["layers"] == {
        "report": None,
        "selection": None,
        "amplified": [0, 2],
        "suppressed": [1],
        **{name: getattr(trainer.args, name) for name in ("ula_weight", "hls_weight")},
        **{name: options[name] for name in ("hls_reduction", "probe_hidden_size")},
        "probe_classes": ["yes", "no"],
        "probe_learning_rate": None,
        "gradient_share_steps": 0,
    }
    every = {field.name for field in fields(trainer.args) if field.init}
    own = {*LayerSettings.__dataclass_fields__}
    assert every - own <= record["training"].keys()
    for name in every - own - {"hub_token"}:
        value = getattr(trainer.args, name)
        if value is None or isinstance(value, str | int | float):
            found = record["training"][name]
            assert found == getattr(value, "value", value) or name.endswith("_token"), name
    assert record["training"]["batch_size"] == 6
    for package in ("trl", "transformers", "peft", "torch", "datasets", "accelerate"):
        assert record["versions"][package] == version(package)
    assert (record["steps"], len(record["log"])) == (2, 3)


def test_the_record_says_how_the_model_was_quantized(tmp_path: Path) -> None:
    model = fresh_model()
    model.config.quantization_config = BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=5.0)
    found = make_record(settings(tmp_path), model, {})["model"]["quantization"]
    assert found["quant_method"] == "bitsandbytes"
    assert found["load_in_8bit"] is True
    assert found["llm_int8_threshold"] == 5.0


Q_B = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.default.weight"


@pytest.mark.parametrize("with_lora", [False, True], ids=["full", "lora"])
def test_the_card_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_lora: bool) -> None:
    base = tmp_path / "base"
    fresh_model().save_pretrained(base)
    small_tokenizer().save_pretrained(base)
    monkeypatch.chdir(tmp_path)
    trainer = trained(
        "base",
        settings(Path("out"), **{**BOTH, "ula_weight": 0.02}, lr_scheduler_type="cosine"),
        make_rows(8),
        peft_config=LoraConfig(r=3, lora_dropout=0.25) if with_lora else None,
    )
    trainer.save_model()
    trainer.create_model_card("out")
    card = ModelCard.load("out/README.md")
    assert card.data.base_model is None  # it is not on the hub
    assert card.data.library_name == ("peft" if with_lora else "transformers")
    text = card.text
    for part in (
        "fine-tuned from the local model `base` on 8 examples",
        "It trained for 1 steps of 8 examples",
        "`L = L_CE + 0.02 · L_amplify + 0.9 · L_suppress`",
        "MLP outputs of layers 0, 2 at the token",
        "MLP outputs of layers 1.",
        "arXiv:2511.13021",
        "vonwerra2020trl",
        *(f"| {name} " for name in ("learning_rate", "lr_scheduler_type", "seed", "transformers")),
    ):
        assert part in text, part
    found = dict(re.findall(r"^\| (\S+) +\| +(\S+) \|$", text, re.M))
    assert found["lr_scheduler_type"] == "cosine"
    assert float(found["learning_rate"]) == 0.05
    if with_lora:
        assert (found["r"], found["lora_dropout"]) == ("3", "0.25")
    assert "None" not in text
    assert "time machine" not in text
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    loaded: dict[str, Any] = {}
    exec(code, loaded)
    ids = torch.tensor([[1, 9, 12]])
    torch.testing.assert_close(loaded["model"](ids).logits, trainer.model.eval()(ids).logits)


def test_the_card_of_a_model_from_the_hub_links_to_it(tmp_path: Path) -> None:
    trainer = make_trainer(fresh_model(), settings(tmp_path), make_rows(2))
    record = trainer.run_record()
    record["model"] |= {"name": "org/model", "revision": "v2"}
    _, header, text = make_model_card(record, "me/mine", dataset="org/data").split("---\n", 2)
    metadata = yaml.safe_load(header)
    assert (metadata["base_model"], metadata["datasets"]) == ("org/model", ["org/data"])
    assert "[org/model](https://huggingface.co/org/model), revision v2 on 2 examples" in text
    assert "so this is plain SFT" in text
