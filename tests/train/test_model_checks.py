"""What would train a wrong model silently is refused, or said."""

import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import load_file, save_file
from train_runs import (
    BOTH,
    EOS,
    YES,
    fresh_model,
    make_rows,
    make_trainer,
    settings,
    small_tokenizer,
)

from pragworld_tasks.errors import InputError
from pragworld_train.checks import warn_of_repeated_rows

ROWS = make_rows(8)
MIXING = ("gpt_oss", "bloom", "mpt", "opt", "xglm", "openai-gpt", "xlstm")


def refusal(model: Any, folder: Path, rows: Any = ROWS, **options: Any) -> str:
    """Return what a trainer says to a model."""
    with pytest.raises(InputError) as refused:
        make_trainer(model, settings(folder / "out", **options), rows)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return the folder of a small model with its tokenizer."""
    fresh_model().save_pretrained(tmp_path / "model")
    small_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def damage(folder: Path, kind: str) -> str:
    """Damage a checkpoint, and return the weight that it concerns."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = "model.layers.1.mlp.up_proj.weight"
    if kind == "cut off":
        path.write_bytes(path.read_bytes()[:-1000])
        return "incomplete metadata, file not fully covered"
    if kind == "missing":
        del weights[name]
    elif kind == "another shape":
        weights[name] = weights[name][:, :8].contiguous()
    else:
        weights[name][3, 4] = float(kind)
    save_file(weights, path, metadata={"format": "pt"})
    return name


@pytest.mark.parametrize("options", [{}, BOTH], ids=["plain", "regularized"])
@pytest.mark.parametrize("kind", ["cut off", "missing", "another shape", "nan", "inf"])
def test_a_damaged_checkpoint_is_refused(
    saved: Path, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    name = damage(saved, kind)
    said = refusal(str(saved), tmp_path, **options)
    assert name in said
    if kind in ("nan", "inf"):
        assert said.endswith("holds NaN or infinity; use an intact checkpoint")
    else:
        assert said.startswith(f"model {saved}: ")


def test_a_run_that_diverges_is_no_success(tmp_path: Path) -> None:
    """Transformers logs a loss of 0 for steps whose loss is NaN."""
    trainer = make_trainer(fresh_model(), settings(tmp_path, learning_rate=1e30, max_steps=3), ROWS)
    with pytest.raises(InputError, match="holds NaN or infinity; training diverged: lower learn"):
        trainer.train()


def test_tokens_without_an_embedding_are_refused(tmp_path: Path) -> None:
    row = {"input_ids": [1, 96, YES, EOS], "labels": [-100, -100, YES, EOS]}
    said = refusal(fresh_model(), tmp_path, Dataset.from_list([row]))
    assert said == (
        "train data: token 96, but the model has 96 embeddings; use the tokenizer of the model"
    )


@pytest.mark.parametrize(
    "options",
    [{"packing": True, "max_length": 64}, {"padding_free": True, "max_length": None}],
    ids=["packing", "padding_free"],
)
@pytest.mark.parametrize("architecture", MIXING)
def test_models_that_mix_concatenated_sequences_are_refused(
    tmp_path: Path, architecture: str, options: dict[str, Any]
) -> None:
    """Those that don't are trained in rows of several sequences in `test_trainer.py`."""
    said = refusal(fresh_model(architecture), tmp_path, **options)
    kind = fresh_model(architecture).config.model_type
    assert re.fullmatch(
        f"packing or padding_free: {kind} mixes the sequences of a row; their log-probabilities "
        r"are not those alone, by \d+\.\d%; leave both out",
        said,
    )


@pytest.mark.parametrize(("processes", "size", "rows"), [(2, 4, 8), (1, 3, 8), (2, 3, 8)])
def test_rows_that_processes_repeat_are_a_warning(
    processes: int, size: int, rows: int, caplog: pytest.LogCaptureFixture
) -> None:
    args = SimpleNamespace(
        world_size=processes, per_device_train_batch_size=size, dataloader_drop_last=False
    )
    warn_of_repeated_rows(ROWS.select(range(rows)), args)
    said = [
        "train data: 8 rows are no multiple of 6, the batch size times 2 processes; accelerate "
        "trains on 4 of them twice in an epoch unless dataloader_drop_last is set"
    ]
    messages = [record.getMessage() for record in caplog.records]
    assert messages == (said if (processes, size) == (2, 3) else [])


@pytest.mark.parametrize(
    ("architecture", "targets", "left_out"),
    [
        ("llama4_text", "all-linear", True),
        ("jetmoe", "all-linear", True),
        ("llama4_text", ["router"], False),
        ("qwen3", "all-linear", False),
    ],
)
def test_an_adapter_of_all_linear_layers_leaves_out_routers(
    tmp_path: Path,
    architecture: str,
    targets: str | list[str],
    left_out: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An explicit name of a router trains it."""
    model = fresh_model(architecture)
    if architecture == "llama4_text":
        model.base_model_prefix = "model"  # TRL fails with its own prefix, which is wrong
    if architecture == "qwen3":
        model.config.num_experts = None  # as in dense models of families that have others
    config = LoraConfig(r=2, target_modules=targets)
    with caplog.at_level(logging.WARNING):
        trainer = make_trainer(model, settings(tmp_path), ROWS, peft_config=config)
    names = [name for name, module in trainer.model.named_modules() if hasattr(module, "lora_A")]
    assert names
    assert any("router" in name for name in names) == (targets == ["router"])
    said = "LORA: the adapter leaves out the routers of experts"
    assert (said in caplog.text) == left_out
    assert config.exclude_modules is None
