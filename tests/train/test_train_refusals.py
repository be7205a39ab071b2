"""What the trainer refuses with a message of one line, if possible before it loads a model."""

import logging
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from layer_reports import random_report
from peft import LoraConfig, PromptTuningConfig
from safetensors.torch import load_file, save_file
from train_runs import (
    BOTH,
    EOS,
    NO,
    YES,
    fresh_model,
    make_rows,
    make_trainer,
    refused,
    saved_model,
    settings,
    small_tokenizer,
    trained,
)

from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.ablation_report import LayerReport
from pragworld_tasks.layers.settings import Intervention
from pragworld_train.checks import warn_of_repeated_rows

ROWS = make_rows(8)
# For layers from a file.
WEIGHTS: dict[str, Any] = {"ula_weight": 1e-3, "hls_weight": 1e-3, "layer_selection": "sign"}


@pytest.fixture
def weightless(tmp_path: Path) -> Path:
    """Return the folder of a model of three layers without weights, so that loading it fails."""
    folder = tmp_path / "model"
    config = fresh_model().config
    config.architectures = ["Qwen3ForCausalLM"]
    config.save_pretrained(folder)
    small_tokenizer().save_pretrained(folder)
    return folder


# Settings -----------------------------------------------------------------------------------------

_CLASSES = "must be two or more different texts$"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hls_weight": 1.5}, "^hls_weight 1.5: must be between 0 and 1$"),
        ({"ula_weight": -0.1}, "^ula_weight -0.1: must be between 0 and 1$"),
        ({"ula_weight": float("nan")}, "^ula_weight nan: must be between 0 and 1$"),
        ({"useful_layers": None}, "^ula_weight 0.7 needs useful layers; set useful_layers or lay"),
        ({"useful_layers": []}, "^ula_weight 0.7 needs useful layers; set useful_layers or layers"),
        ({"harmful_layers": None}, "^hls_weight 0.9 needs harmful layers; set harmful_layers or "),
        ({"useful_layers": [1, 2]}, "^layer 1 is both useful and harmful; it must be one of them$"),
        ({"useful_layers": [2, 2]}, r"^useful_layers \[2, 2\]: must be different and at least 0$"),
        ({"harmful_layers": [-1]}, r"^harmful_layers \[-1\]: must be different and at least 0$"),
        ({"useful_layers": 3}, "^useful_layers 3: must be a list of integers$"),
        ({"harmful_layers": [1.5]}, r"^harmful_layers \[1.5\]: must be a list of integers$"),
        ({"probe_hidden_size": 0}, "^probe_hidden_size 0: must be at least 1$"),
        ({"hls_reduction": "sum"}, "^hls_reduction 'sum': must be one of mean, norm$"),
        ({"layer_selection": "all"}, "^layer_selection 'all': must be one of sign, evidence$"),
        ({"probe_classes": "yes"}, f"^probe_classes 'yes': {_CLASSES}"),
        ({"probe_classes": ["A"]}, rf"^probe_classes \['A'\]: {_CLASSES}"),
        ({"probe_classes": ["A", "B", "A"]}, rf"^probe_classes \['A', 'B', 'A'\]: {_CLASSES}"),
        ({"probe_classes": ["", "no"]}, rf"^probe_classes \['', 'no'\]: {_CLASSES}"),
        ({"probe_classes": [True, False]}, rf"^probe_classes \[True, False\]: {_CLASSES}"),
        ({"gradient_share_steps": -1}, "^gradient_share_steps -1: must be at least 0$"),
    ],
)
def test_impossible_settings_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with refused(message):
        settings(tmp_path, **{**BOTH, **options})


_REENTRANT = {"use_reentrant": True}
_DROPS = "use_reentrant: it drops the gradients of what hooks read inside a layer"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"useful_layers": [0, 3]}, "^useful layer 3: the model has layers 0 to 2 only$"),
        ({"gradient_checkpointing": True, "gradient_checkpointing_kwargs": _REENTRANT}, _DROPS),
        ({"activation_checkpointing": True, "activation_checkpointing_kwargs": _REENTRANT}, _DROPS),
        ({"label_smoothing_factor": 0.1}, "^label_smoothing_factor: TRL needs a second forward"),
        ({"packing": True, "packing_strategy": "wrapped"}, "^packing_strategy wrapped: it separat"),
        ({"packing": True, "max_length": None}, "^packing without max_length: set max_length"),
        ({"gradient_share_steps": 5, "torch_compile": True}, "^gradient_share_steps: it needs sev"),
        ({"dataset_kwargs": {"skip_prepare_dataset": True}}, "skip_prepare_dataset: the data "),
    ],
)
def test_settings_that_make_losses_wrong_are_refused_before_a_model_is_loaded(
    weightless: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    args = settings(tmp_path / "out", **{**BOTH, **options})
    with refused(message):
        make_trainer(str(weightless), args, ROWS)


def test_layers_without_weights_have_those_of_the_paper(tmp_path: Path) -> None:
    args = settings(tmp_path, useful_layers=[2, 0])
    assert (args.amplified, args.suppressed) == ([0, 2], [])
    assert (args.ula_weight, args.hls_weight) == (1e-3, 0.0)
    args = settings(tmp_path, harmful_layers=np.array([1]))
    assert (args.ula_weight, args.hls_weight) == (0.0, 1e-3)
    assert args.suppressed == [1]


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ({}, "no useful and no harmful layers: training is plain SFT"),
        ({**BOTH, "ula_weight": 0.0}, "ula_weight 0: the useful layers [0, 2] have no effect"),
        ({**BOTH, "hls_weight": 0.0}, "hls_weight 0: the harmful layers [1] have no effect"),
        (BOTH, ""),
    ],
)
def test_a_loss_that_does_nothing_is_a_warning(
    tmp_path: Path, options: dict[str, Any], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings(tmp_path, **options)
    assert caplog.messages == [warning] * bool(warning)


# Layer reports ------------------------------------------------------------------------------------


def report_of(name: str | Path, layers: int = 3, **changes: Any) -> LayerReport:
    """Return a report of a model with at least one useful and one harmful layer."""
    report = random_report(layers, seed=3, name=str(name))
    assert {"useful", "harmful"} <= {layer.sign for layer in report.layers}
    return replace(report, **changes)


def written(folder: Path, report: LayerReport) -> str:
    report.write(folder / "layers.json")
    return str(folder / "layers.json")


def test_the_layers_of_a_report_are_used(tmp_path: Path) -> None:
    base = saved_model(tmp_path / "base")
    report = report_of(base)
    args = settings(tmp_path, **WEIGHTS, layers=written(tmp_path, report))
    assert args.suppressed == report.selected_layers("harmful", by="sign")
    # The same folder under another name.
    trainer = make_trainer(str(base / ".." / "base"), args, ROWS)
    assert [*trainer.probes] == args.amplified == report.selected_layers("useful", by="sign")


def test_layers_are_selected_by_evidence_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = report_of("org/model")
    path = written(tmp_path, report)
    with refused(
        f"^layers {path}: no layer is useful or harmful by evidence .corrected p at most 0.05.; "
        "sweep more documents, .* or set layer_selection to sign for the paper's recipe$"
    ):
        settings(tmp_path, layers=path)
    # With all p at most 1, evidence is as good as the sign.
    report = replace(report, settings=replace(report.settings, alpha=1.0))
    report.write(Path(path), overwrite=True)
    args = settings(tmp_path, layers=path)
    assert args.amplified == report.selected("useful") == report.selected("useful", "sign")
    assert "; by evidence (corrected p at most 1) in " in caplog.records[-1].getMessage()


_OTHERS = "ablate .*, or set useful_layers and harmful_layers$"


@pytest.mark.parametrize(
    ("swept", "options", "message"),
    [
        ({}, {"useful_layers": [1]}, "use either the file or the numbers$"),
        ({}, {"harmful_layers": [1]}, "use either the file or the numbers$"),
        ({"module": "attention"}, {}, "of attention ablation; .*, so ablate with --module mlp$"),
        ({"name": "org/model"}, {}, f"a report of model org/model, not of .*; {_OTHERS}"),
        ({"layers": 2}, {}, f"a report of a model of 2 layers, not of .*; {_OTHERS}"),
        (
            {"adapter": "tuned"},
            {},
            f"a report of model .* with adapter tuned, not of .*; {_OTHERS}",
        ),
        (None, {}, "layers.json"),  # not a report
        (None, {"layers": "missing.json"}, "^missing.json: No such file or directory"),
    ],
)
def test_reports_that_cannot_be_used_are_refused_before_a_model_is_loaded(
    weightless: Path,
    tmp_path: Path,
    swept: dict[str, Any] | None,
    options: dict[str, Any],
    message: str,
) -> None:
    path = tmp_path / "layers.json"
    path.write_text("{}")
    if swept is not None:
        report = report_of(swept.get("name", weightless), swept.get("layers", 3))
        model = replace(report.model, adapter=swept.get("adapter"))
        intervention = Intervention(swept.get("module", "mlp"), "zero")
        replace(report, model=model, intervention=intervention).write(path, overwrite=True)
    with refused(message):
        args = settings(tmp_path / "out", **{**WEIGHTS, "layers": str(path), **options})
        make_trainer(str(weightless), args, ROWS)


# Data ---------------------------------------------------------------------------------------------


def row(*completion: int, prompt: int = 6, label: int | None = 0) -> dict[str, list[int]]:
    """Return a row that ends with some tokens, the first of which is a label."""
    none = [-100] * len(completion)
    predicted = -100 if label is None else label
    return {
        "input_ids": [1] * prompt + [*completion],
        "labels": [-100] * prompt + [*completion],
        "probe_labels": [-100] * (prompt - 1) + [predicted] + none,
    }


RIGHT = row(YES, EOS)
SHORT = {**RIGHT, "probe_labels": [-100]}


@pytest.mark.parametrize("part", ["train", "eval"])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (row(YES, EOS, label=2), "probe label 2; there are 2 probe_classes"),
        (row(YES, EOS, label=-1), "probe label -1; there are 2 probe_classes"),
        (SHORT, "1 probe_labels and 8 input_ids; there must be as many"),
        (row(NO, EOS, prompt=19), "21 tokens, and max_length is 20; a row with a label must not"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(
    tmp_path: Path, wrong: dict[str, list[int]], said: str, part: str
) -> None:
    right, rows = (Dataset.from_list([RIGHT, RIGHT, last]) for last in (RIGHT, wrong))
    train, held_out = (rows, right) if part == "train" else (right, rows)
    args = settings(tmp_path, **BOTH, max_length=20)
    with refused(f"{part} data, row 2: {said}"):
        make_trainer(fresh_model(), args, train, eval_dataset=held_out)


def test_a_row_that_comes_after_the_trainer_is_made_is_named(tmp_path: Path) -> None:
    wrong = Dataset.from_list([RIGHT, row(YES, EOS, label=7)])
    trainer = make_trainer(fresh_model(), settings(tmp_path, **BOTH), wrong.to_iterable_dataset())
    with refused("train data, row 1: probe label 7"):
        trainer.train()
    with refused("eval data, row 1: probe label 7"):
        trainer.evaluate(wrong)


def test_rows_that_trl_drops_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = Dataset.from_list([RIGHT, row(YES, EOS, prompt=19), RIGHT])
    args = settings(tmp_path, **{**BOTH, "ula_weight": None, "useful_layers": None}, max_length=16)
    trainer = make_trainer(fresh_model(), args, rows)
    assert len(trainer.train_dataset) == 2
    said = "train data: 1 of 3 rows left out, of which max_length leaves only the prompt"
    assert said in caplog.messages


LARGE = Dataset.from_list([row(96, EOS)])
LONG = Dataset.from_list([RIGHT, row(YES, EOS, prompt=19)])
VIRTUAL = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
SGD = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])


@pytest.mark.parametrize(
    ("options", "rows", "others", "message"),
    [
        ({}, LARGE, {}, "^train data: token 96, but the model has 96 embeddings; use the tok"),
        ({}, ROWS.remove_columns("probe_labels"), {}, "^train data: no row has a label among yes"),
        ({"packing": True, "max_length": 20}, LONG, {}, "^train data, row 1: 21 tokens, and max_l"),
        ({}, ROWS, {"optimizers": (SGD, None)}, "^optimizers: it lacks the weights of the probes"),
        ({}, ROWS, {"compute_loss_func": len}, "^compute_loss_func: TRL needs a second forward "),
        ({}, ROWS, {"peft_config": VIRTUAL}, "^PROMPT_TUNING: it puts tokens before the prompt"),
    ],
)
def test_what_does_not_fit_a_model_is_refused(
    tmp_path: Path, options: dict[str, Any], rows: Dataset, others: dict[str, Any], message: str
) -> None:
    with refused(message):
        make_trainer(fresh_model(), settings(tmp_path, **{**BOTH, **options}), rows, **others)


def test_suppression_alone_needs_no_labels(tmp_path: Path) -> None:
    args = settings(tmp_path, **{**BOTH, "ula_weight": 0.0})
    rows = Dataset.from_list([row(9, EOS), row(YES, NO)]).remove_columns("probe_labels")
    log = trained(fresh_model(), args, rows).state.log_history[0]
    assert log["hls_loss"] > 0
    assert "ula_loss" not in log


# Checkpoints, tokens and architectures ------------------------------------------------------------

MIXING = ("gpt_oss", "bloom", "mpt", "opt", "xglm", "openai-gpt", "xlstm")


def refusal(model: Any, folder: Path, rows: Any = ROWS, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        make_trainer(model, settings(folder / "out", **options), rows)
    return str(caught.value)


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
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    saved = saved_model(tmp_path / "model")
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


def test_rows_that_processes_repeat_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    for processes, size in ((2, 4), (1, 3), (2, 3)):
        assert not caplog.messages
        sizes = {"world_size": processes, "per_device_train_batch_size": size}
        warn_of_repeated_rows(ROWS, SimpleNamespace(**sizes, dataloader_drop_last=False))
    assert caplog.messages == [
        "train data: 8 rows are no multiple of 6, the batch size times 2 processes; accelerate "
        "trains on 4 of them twice in an epoch unless dataloader_drop_last is set"
    ]


@pytest.mark.parametrize(
    ("architecture", "targets", "left_out"),
    [
        ("llama4_text", "all-linear", True),
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
