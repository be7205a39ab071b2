"""Sweeps from Python give what the commands write, leave the model as it was, and show themselves."""

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from small_models import small_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

import pragworld_tasks as pt
from pragworld_interp import Ablated, ablate, patch, read_layers, read_patching
from pragworld_interp.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.tiny import tiny_folder

SETTINGS: dict[str, Any] = {"seed": 3, "groups": 4}
DOCUMENTS = pt.generate(**SETTINGS)
KINDS: dict[str, tuple[Any, Any]] = {
    "ablate": (ablate, read_layers),
    "patch": (patch, read_patching),
}


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    folder = tiny_folder()
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def report(loaded: tuple[Any, Any]) -> Ablated:
    return ablate(*loaded, DOCUMENTS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_from_python_is_that_of_the_command(
    kind: str, loaded: tuple[Any, Any], tmp_path: Path
) -> None:
    sweep, read = KINDS[kind]
    loaded[0].train()
    by_python = sweep(*loaded, DOCUMENTS)
    assert loaded[0].training
    options = ["--model", str(tiny_folder()), "--split", "generated"]
    main([kind, *options, "--metadata", json.dumps(SETTINGS), "--out", str(tmp_path / "command")])
    by_python.write(tmp_path / "python")
    own, expected = (read(tmp_path / name) for name in ("python", "command"))
    assert expected.data.generator is not None
    assert own.model == expected.model
    assert own.data.fingerprint == expected.data.fingerprint
    assert own.to_text() == expected.to_text() == by_python.to_text()
    with pytest.raises(InputError, match="python exists; pass"):
        by_python.write(tmp_path / "python")
    by_python.write(tmp_path / "python", overwrite=True)


def test_parts_of_a_model_stay_in_their_mode(loaded: tuple[Any, Any]) -> None:
    model = loaded[0].train()
    model.model.layers[1].eval()  # as a user does to switch off its dropout alone
    modes = [module.training for module in model.modules()]
    ablate(*loaded, DOCUMENTS)
    assert [module.training for module in model.modules()] == modes


def test_adapters_around_a_model_count(loaded: tuple[Any, Any]) -> None:
    targets = ["q_proj", "up_proj"]
    config = LoraConfig(r=4, target_modules=targets, init_lora_weights=False)
    adapted = get_peft_model(copy.deepcopy(loaded[0]), config)
    report = ablate(adapted, loaded[1], DOCUMENTS)
    merged = ablate(copy.deepcopy(adapted).merge_and_unload(), loaded[1], DOCUMENTS)
    assert (report.model.adapter, merged.model.adapter) == ("default", None)
    for own, expected in zip(report.layers, merged.layers, strict=True):
        assert own.log_odds.change == pytest.approx(expected.log_odds.change, abs=1e-3)
    virtual = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    with pytest.raises(InputError, match="adapter default: it adds tokens before the prompt"):
        ablate(get_peft_model(copy.deepcopy(loaded[0]), virtual), loaded[1], DOCUMENTS)


def test_a_report_lists_its_layers(report: Ablated) -> None:
    frame = report.to_frame()
    assert frame.index.tolist() == [layer.layer for layer in report.layers]
    assert frame.index[frame["sign"] == "useful"].tolist() == report.useful()
    assert frame.index[frame["evidence"] == "harmful"].tolist() == report.harmful(by="evidence")
    for column in ("percent", "points", "robust_points", "holm", "log_odds"):
        assert torch.tensor(frame[column]).isfinite().all()
    assert report.useful() == report.selected("useful")


def test_reports_show_themselves(report: Ablated, loaded: tuple[Any, Any], tmp_path: Path) -> None:
    patched = patch(*loaded, pt.generate(groups=12, seed=5))
    for shown in (report, patched):
        image = shown.plot()._repr_png_()  # type: ignore[attr-defined]
        assert image.startswith(b"\x89PNG")
        shown.plot(tmp_path / "figure.png")
        assert (tmp_path / "figure.png").read_bytes() == image
        assert shown._repr_markdown_() == shown.to_text()


@pytest.mark.parametrize(
    ("kind", "settings", "error"),
    [
        ("ablate", {"module": "MLP"}, "module='MLP': must be one of mlp, attention"),
        ("ablate", {"replacement": "zeros"}, "must be one of zero, mean, resample"),
        ("patch", {"positions": "dialog"}, "positions='dialog': must be one of all, dialogue"),
        ("ablate", {"batch_tokens": 0}, "batch_tokens=0: must be at least 1"),
        ("patch", {"batch_tokens": -1}, "batch_tokens=-1: must be at least 1"),
        ("ablate", {"chat_template": True}, "has no chat template; leave out chat_template=True"),
    ],
)
def test_unknown_settings_are_refused(
    kind: str, settings: dict[str, Any], error: str, loaded: tuple[Any, Any]
) -> None:
    sweep, _ = KINDS[kind]
    with pytest.raises(InputError, match=error):
        sweep(*loaded, DOCUMENTS, **settings)


def test_documents_are_of_one_split_and_there_once(loaded: tuple[Any, Any]) -> None:
    other = [dataclasses.replace(document, split="manual") for document in DOCUMENTS]
    with pytest.raises(
        InputError, match=r"documents of splits generated and manual, .* each split"
    ):
        ablate(*loaded, DOCUMENTS + other)
    row = DOCUMENTS[1].row
    with pytest.raises(InputError, match=f"split generated, row {row}: .* twice; .* once"):
        ablate(*loaded, [*DOCUMENTS, DOCUMENTS[1]])


def test_what_cannot_be_swept_is_refused(loaded: tuple[Any, Any]) -> None:
    with pytest.raises(InputError, match="there are no documents to sweep on; give at least one"):
        ablate(*loaded, [])
    for other, name in ((str(tiny_folder()), "str"), (loaded[0].model, "Qwen3Model")):
        with pytest.raises(InputError, match=f"{name}: not a causal language model in memory"):
            ablate(other, loaded[1], DOCUMENTS)
    config = T5Config(vocab_size=96, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    with pytest.raises(InputError, match=r"t5: the model has an encoder, .* decoders only"):
        ablate(T5ForConditionalGeneration(config), loaded[1], DOCUMENTS)
    model = small_model("llama").train()
    with pytest.raises(InputError, match="must be single tokens behind a prompt"):
        ablate(
            model,
            PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"?": 0}, unk_token="?"))),
            DOCUMENTS,
        )
    assert model.training
    model.eval()
