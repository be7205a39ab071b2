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
from huggingface_hub import ModelCard
from peft import LoraConfig
from train_runs import (
    BOTH,
    contents,
    fresh_model,
    lora,
    make_rows,
    make_trainer,
    refused,
    same_bits,
    saved_model,
    settings,
    trained,
    weights,
)
from transformers import BitsAndBytesConfig, TrainerState

from pragworld_tasks.errors import InputError
from pragworld_train.layer_settings import LayerSettings
from pragworld_train.probes import PROBES_FILE, new_probes, write_probes
from pragworld_train.run_record import RUN_FILE, make_record


def test_equal_probes_make_equal_files(tmp_path: Path) -> None:
    """Safetensors writes metadata of more than one entry in an order that differs between files."""
    probes = new_probes([0, 2], 8, 4, 2, 0)
    weights = {
        f"{layer}.{name}": weight
        for layer, probe in probes.items()
        for name, weight in probe.state_dict().items()
    }
    found = set()
    for _ in range(20):
        write_probes(weights, ["yes", "no"], tmp_path)
        found.add((tmp_path / PROBES_FILE).read_bytes())
    assert len(found) == 1


SAVED: dict[str, Any] = {**BOTH, "save_strategy": "steps", "save_steps": 1, "max_steps": 1}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    trained(fresh_model(), settings(folder, **SAVED), make_rows(8))
    return folder / "checkpoint-1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hls_weight": 0.5}, "hls_weight 0.9, not 0.5"),
        ({"useful_layers": [0]}, r"amplified \[0, 2\], not \[0\]"),
        ({"ula_weight": 0.0}, r"amplified \[0, 2\], not \[\]; ula_weight 0.7, not 0.0"),
        ({"hls_weight": 0.0}, r"suppressed \[1\], not \[\]; hls_weight 0.9, not 0.0"),
        ({"probe_hidden_size": 7}, "probe_hidden_size 128, not 7"),
        ({"learning_rate": 0.5}, "learning_rate 0.05, not 0.5"),
        ({"max_steps": 3}, "max_steps 1, not 3"),
        ({"per_device_train_batch_size": 2}, "batch_size 8, not 2"),
        ({"seed": 3}, "seed 42, not 3"),
        ({"rows": make_rows(9)}, "rows 8, not 9; digest "),
        ({"rows": make_rows(8, seed=1)}, "digest "),
        ({"peft_config": lora()}, "peft_type None, not 'LORA'; r None, not 4"),
        ({"architecture": "llama"}, "type 'qwen3', not 'llama'"),
    ],
)
def test_another_run_is_not_resumed(checkpoint: Path, change: dict[str, Any], message: str) -> None:
    """It would train no step, and then describe weights that it has not trained."""
    before, options = contents(checkpoint.parent), {**SAVED, **change}
    model = fresh_model(options.pop("architecture", "qwen3"))
    rows, adapter = options.pop("rows", make_rows(8)), options.pop("peft_config", None)
    trainer = make_trainer(model, settings(checkpoint.parent, **options), rows, peft_config=adapter)
    with refused(f"^{checkpoint}: trained with .*{message}"):
        trainer.train(resume_from_checkpoint=True)  # the last one
    assert contents(checkpoint.parent) == before


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
    (copy / RUN_FILE).write_text("{}")
    with pytest.raises(InputError, match="trained with another version of pragworld; resume with"):
        trainer.train(resume_from_checkpoint=str(copy))
    (copy / RUN_FILE).unlink()
    with pytest.raises(InputError, match=f"{RUN_FILE}: No such file or directory"):
        trainer.train(resume_from_checkpoint=str(copy))


def test_the_record_of_a_run_is_what_ran(tmp_path: Path) -> None:
    base = saved_model(tmp_path / "base")
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
        make_rows(8),
        peft_config=adapter,
        data_description={"name": "drawn"},
    )
    trainer.save_model()
    record = json.loads((tmp_path / "out" / RUN_FILE).read_text())
    assert record == trainer.run_record()
    assert record["model"] == {
        "name": str(base),
        "revision": None,
        "type": "qwen3",
        "dtype": "float32",
        "quantization": None,
    }
    lora_settings = {"r": 3, "lora_alpha": 5, "lora_dropout": 0.25, "target_modules": ["q_proj"]}
    assert lora_settings.items() <= record["adapter"].items()
    assert record["data"] | {"digest": ""} == {"name": "drawn", "rows": 8, "digest": ""}
    regularization = {
        name: getattr(trainer.args, name) for name in LayerSettings.__dataclass_fields__
    }
    resolved = {"amplified": [0, 2], "suppressed": [1]}
    assert record["layers"] == {**regularization, **resolved}
    assert record["layers"]["hls_reduction"] == "norm"
    every = {field.name for field in fields(trainer.args) if field.init}
    assert every - regularization.keys() <= record["training"].keys()
    asked = ("per_device_train_batch_size", "gradient_accumulation_steps", "warmup_steps", "seed")
    assert [record["training"][name] for name in asked] == [2, 3, 1, trainer.args.seed]
    assert record["training"]["lr_scheduler_type"] == "cosine"
    assert record["training"]["batch_size"] == 6
    for package in ("trl", "transformers", "peft", "torch", "datasets", "accelerate"):
        assert record["versions"][package] == version(package)
    assert (record["steps"], len(record["log"])) == (2, 3)


def test_the_record_says_how_the_model_was_quantized(tmp_path: Path) -> None:
    model = fresh_model()
    model.config.quantization_config = BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=5.0)
    record = make_record(settings(tmp_path), model, {}, TrainerState())
    quantization = {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_threshold": 5.0}
    assert quantization.items() <= record["model"]["quantization"].items()


@pytest.mark.parametrize("with_lora", [False, True], ids=["full", "lora"])
def test_the_card_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_lora: bool) -> None:
    saved_model(tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    trainer = trained(
        "base",
        settings(Path("out"), **{**BOTH, "ula_weight": 0.02}),
        make_rows(8),
        peft_config=LoraConfig(r=3, lora_dropout=0.25) if with_lora else None,
    )
    trainer.save_model()
    trainer.create_model_card("out")
    card = ModelCard.load("out/README.md")
    assert card.data.base_model is None  # it is not on the hub
    assert {"trl", "layer-regularized"} <= {*card.data.tags}
    for part in (
        "fine-tuned from a local model by layer-regularized SFT",
        '`{"rows": 8}`',
        "- Training: 1 steps of 8 examples.",
        "`L = L_CE + 0.02 · L_amplify + 0.9 · L_suppress`",
        "MLP outputs of layers [0, 2] at the token",
        "mean square of the MLP outputs of layers [1].",
        "arXiv:2511.13021",
        "{{TRL: Transformers Reinforcement Learning}}",
    ):
        assert part in card.text, part
    assert "None" not in card.text
    (code,) = re.findall(r"```python\n(.*?)```", card.text, re.S)
    loaded: dict[str, Any] = {}
    exec(code, loaded)
    ids = torch.tensor([[1, 9, 12]])
    torch.testing.assert_close(loaded["model"](ids).logits, trainer.model.eval()(ids).logits)


def test_the_card_of_a_model_from_the_hub_links_to_it(tmp_path: Path) -> None:
    trainer = make_trainer(fresh_model(), settings(tmp_path), make_rows(2))
    trainer.model.config._name_or_path = "org/model"
    trainer.create_model_card("mine", dataset_name="org/data")
    card = ModelCard.load(tmp_path / "README.md")
    assert (card.data.base_model, card.data.datasets) == ("org/model", "org/data")
    assert (
        "fine-tuned from [org/model](https://huggingface.co/org/model) on [org/data](" in card.text
    )
    assert "`L = L_CE`; layers" in card.text
