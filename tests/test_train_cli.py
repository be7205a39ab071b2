"""The command `pragworld-train`: settings, a whole run, what it refuses, where it goes on."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from command_runs import run_train
from lm_eval_runs import LmEval
from peft import PeftModel
from places import ROOT
from transformers import AutoModelForCausalLM

from pragworld_tasks.errors import InputError
from pragworld_tasks.tiny import tiny_folder
from pragworld_train.checkpoints import last_checkpoint
from pragworld_train.cli import main, parsed
from pragworld_train.probes import load_probes

MODEL = str(tiny_folder())
LAYERS = ("--useful_layers", "1", "--harmful_layers", "4")
WEIGHTS = ("--ula_weight", "1e-3", "--hls_weight", "1e-2")


def test_defaults_are_those_of_the_paper() -> None:
    script, training, model = parsed(["--model_name_or_path", "some/model", "--use_peft"])
    assert (script.dataset_name, script.dataset_train_split) == ("generated", "train")
    assert (training.learning_rate, training.num_train_epochs) == (1e-4, 3)
    assert (training.warmup_steps, model.lora_r) == (0.1, 8)
    assert model.lora_target_modules == "all-linear"
    assert (training.amplified, training.suppressed) == ([], [])


def test_settings_come_from_a_yaml_file_and_the_command_line_overrides_it(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    settings = {"model_name_or_path": "a/b", "useful_layers": [2, 1], "ula_weight": 0.5, "seed": 7}
    file.write_text(yaml.safe_dump(settings))
    _, training, model = parsed(["--config", str(file), "--seed", "8"])
    assert (training.amplified, training.ula_weight, training.seed) == ([1, 2], 0.5, 8)
    assert model.model_name_or_path == "a/b"
    assert training.learning_rate == 1e-4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "^--model_name_or_path: a name on the Hugging Face hub, or a folder$"),
        (("--model_name_or_path", "./nowhere"), r"^model \./nowhere: no such folder$"),
        (("--model_name_or_path", MODEL, "--ula_weight", "2"), "^ula_weight 2.0: not from 0 to 1$"),
        (
            ("--model_name_or_path", MODEL, "--useful_layers", "5", "--ula_weight", "1e-3"),
            "^useful layer 5: the model has layers 0 to 4 only$",
        ),
        (
            ("--model_name_or_path", MODEL, "--layers", "none.json", "--ula_weight", "1e-3"),
            r"^none\.json: No such file or directory$",
        ),
        (
            ("--model_name_or_path", MODEL, "--held_out_alteration", "Swap"),
            "^no alteration 'Swap'; there are Negation, ",
        ),
        (
            ("--model_name_or_path", MODEL, "--evaluate", "--evaluate_tasks", "pragworld_manuel"),
            "^task pragworld_manuel: lm-eval has none of that name; see `lm_eval ls tasks`$",
        ),
        (
            ("--model_name_or_path", MODEL, "--chat_template"),
            "^model .*: its tokenizer has no chat template; leave --chat_template out$",
        ),
        (("--config",), "^--config: name a YAML file$"),
        (("--config", "nowhere.yaml"), "^--config nowhere.yaml: .*No such file or directory"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("--output_dir", "out", "--report_to", "none", *arguments)
    data = ("--dataset_config", '{"groups": 2}')
    with pytest.raises(InputError) as refused:
        main([*data, *arguments])
    assert re.search(message, str(refused.value)), refused.value
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_setting_in_a_yaml_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text("model_name_or_path: a/b\nula_wait: 0.1\n")
    with pytest.raises(InputError, match=r"^settings: .*ula_wait"):
        parsed(["--config", str(file)])


def test_a_mistake_ends_the_command_without_a_traceback() -> None:
    process = run_train("--model_name_or_path", MODEL, "--ula_weight", "1e-3")
    assert process.returncode == 2
    assert process.stderr.splitlines()[-1] == (
        "ula_weight 0.001: no useful layers given; name them, or a layers.json"
    )
    assert "Traceback" not in process.stderr


def test_processes_that_do_not_know_of_each_other_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        InputError, match=r"^2 processes were launched, and transformers sees 1; on"
    ):
        main(["--model_name_or_path", MODEL, "--report_to", "none"])


def test_help_names_the_other_commands() -> None:
    process = run_train("--help")
    assert process.returncode == 0
    for word in ("--ula_weight", "--held_out_alteration", "--lora_r", "study", "probe"):
        assert word in process.stdout


# A whole run --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run with everything left, of two processes."""
    out = tmp_path_factory.mktemp("train") / "out"
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    arguments = (
        *("--model_name_or_path", MODEL, *LAYERS, *WEIGHTS, "--use_peft", "--output_dir", out),
        *("--dataset_config", '{"groups": 8}', "--held_out_alteration", "Negation"),
        *("--max_steps", "4", "--report_to", "none", "--logging_steps", "2", "--use_cpu"),
        *("--eval_strategy", "steps", "--eval_steps", "4", "--learning_rate", "1e-2"),
        *("--evaluate", "--evaluate_groups", "4", "--evaluate_tasks", "pragworld_generated_mc"),
    )
    command = [sys.executable, *launcher, "-m", "pragworld_train", *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("pragworld_generated_mc: ") == 1  # the first process alone says it
    assert process.stdout.count("pragworld_generated_perplexity: 4 documents") == 1
    return out


def test_it_leaves_an_adapter_that_plain_peft_loads_and_probes(trained: Path) -> None:
    base = AutoModelForCausalLM.from_pretrained(MODEL)
    ids = torch.tensor([[5, 6, 7]])
    before = base(ids).logits
    adapted = PeftModel.from_pretrained(base, trained)
    assert not torch.allclose(adapted(ids).logits, before)
    assert set(load_probes(trained)) == {1}
    names = {path.name for path in trained.iterdir()}
    assert {"README.md", "pragworld_train.json", "label_probes.safetensors"} <= names


def test_its_file_says_what_was_done(trained: Path) -> None:
    content = json.loads((trained / "pragworld_train.json").read_text())
    assert content["layers"] | {"report": None} == {
        "report": None,
        "selection": None,
        "amplified": [1],
        "suppressed": [4],
        "ula_weight": 1e-3,
        "hls_weight": 1e-2,
        "hls_reduction": "mean",
    }
    assert content["data"]["generator"]["held_out_alteration"] == "Negation"
    logged = {name for line in content["log"] for name in line}
    assert {"ula_loss", "probe_accuracy", "hls_loss", "eval_loss", "eval_hls_loss"} <= logged
    assert [one["task"] for one in content["evaluation"]] == [
        "pragworld_generated_mc",
        "pragworld_generated_perplexity",
    ]
    card = (trained / "README.md").read_text()
    assert "- Amplified (ULA): layers 1, weight 0.001\n" in card
    assert "## Before and after" in card


def test_the_adapter_is_evaluated_by_the_real_lm_eval(trained: Path, lm_eval: LmEval) -> None:
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={MODEL},peft={trained},dtype=float32"),
        *("--tasks", "pragworld_generated_mc", "--batch_size", "16"),
        *("--metadata", '{"groups": 4, "held_out_alteration": "Negation"}'),
    )
    assert evaluation.returncode == 0, evaluation.log
    content = json.loads((trained / "pragworld_train.json").read_text())
    (change,) = [one for one in content["evaluation"] if one["task"] == "pragworld_generated_mc"]
    found = evaluation.metrics("pragworld_generated_mc")
    for name in ("acc", "robust_acc", "yes_acc"):
        assert 100 * found[name] == pytest.approx(change["metrics"][name]["after"])


def test_a_trained_adapter_can_be_ablated_again(trained: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pragworld_interp", "ablate", "--model", MODEL]
    command += ["--adapter", str(trained), "--split", "generated", "--metadata", '{"groups": 3}']
    process = subprocess.run(
        [*command, "--out", str(tmp_path / "layers.json")], capture_output=True, text=True, cwd=ROOT
    )
    assert process.returncode == 0, process.stderr


# Where it goes on ---------------------------------------------------------------------------------


def checkpoint(folder: Path, step: int, state: str | None) -> None:
    place = folder / f"checkpoint-{step}"
    place.mkdir()
    if state is not None:
        (place / "trainer_state.json").write_text(state)


def test_the_last_whole_checkpoint_is_where_a_run_goes_on(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    assert last_checkpoint(tmp_path / "nowhere") is None
    checkpoint(tmp_path, 9, json.dumps({"global_step": 9}))
    checkpoint(tmp_path, 10, json.dumps({"global_step": 10}))
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    checkpoint(tmp_path, 11, None)
    checkpoint(tmp_path, 12, '{"global_step": 12, "log_hist')
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    shutil.rmtree(tmp_path / "checkpoint-10")
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-9"
