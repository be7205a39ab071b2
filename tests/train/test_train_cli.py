"""The command `pragworld-train`: help, settings, refusals, a complete run, and resuming."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import yaml
from command_runs import run_in_two_processes, run_program
from lm_eval_runs import LmEval
from peft import PeftModel
from places import ROOT
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, MambaConfig, MambaForCausalLM

from pragworld_tasks.errors import InputError
from pragworld_tasks.tiny import tiny_folder
from pragworld_train import training_run
from pragworld_train.arguments import make_parser, parse_settings
from pragworld_train.cli import help_parser, main
from pragworld_train.data import DEFAULT_GROUPS
from pragworld_train.probes import load_probes
from pragworld_train.trainer import LayerRegularizedSFTTrainer
from pragworld_train.training_run import full_disk_in_one_line, last_checkpoint

MODEL = str(tiny_folder())
LAYERS = ("--useful_layers", "1", "--harmful_layers", "4")
WEIGHTS = ("--ula_weight", "1e-3", "--hls_weight", "1e-2")
HEAVY = ("torch", "transformers", "trl")


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must be refused, and return its error message, which is one line."""

    def refused(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        message = capsys.readouterr().err.splitlines()[-1]
        assert message
        return message

    return refused


# Help ---------------------------------------------------------------------------------------------


def without(packages: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process in which some packages cannot be imported."""
    code = f"import sys; sys.modules.update(dict.fromkeys({packages!r}))\n"
    code += f"from pragworld_train.cli import main; main({arguments!r})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_help_needs_no_torch_and_shows_an_example() -> None:
    process = without(HEAVY, "--help")
    assert process.returncode == 0, process.stderr
    words = ("--ula_weight", "--held_out_alteration", "--lora_r", "--config", "--help-all")
    for word in ("example:\n  pragworld-train", *words):
        assert word in process.stdout
    assert len(process.stdout.splitlines()) < 100


@pytest.mark.parametrize("package", ["torch", "trl"])
@pytest.mark.parametrize("command", [(), ("--help-all",)])
def test_a_missing_package_is_one_line(command: tuple[str, ...], package: str) -> None:
    process = without((package,), *command)
    assert process.returncode == 2
    assert process.stderr == (
        f"`pragworld-train` needs the {package} package: pip install 'pragworld[train]'\n"
    )


def options(parser: ArgumentParser) -> dict[str, object]:
    """Return the default of each setting of a parser."""
    return {action.dest: action.default for action in parser._actions if action.help}


def test_the_short_help_shows_the_defaults_that_are_used() -> None:
    every, shown = options(make_parser()), options(help_parser())
    own = {name: shown[name] for name in shown if name in every}
    assert own == {name: every[name] for name in own}
    assert shown.keys() - every.keys() == {"config", "help_all", "version"}
    text = " ".join(help_parser().format_help().split())
    assert f"groups (default {DEFAULT_GROUPS})" in text


def test_help_all_shows_the_settings_of_trl(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help-all"])
    shown = capsys.readouterr().out
    for name in ("--ula_weight", "--held_out_alteration", "--lora_r", "--optim", "--max_length"):
        assert name in shown


def test_the_package_is_imported_without_torch() -> None:
    code = "import sys, pragworld_train; print({'torch', 'trl'} & {*sys.modules})\n"
    code += "pragworld_train.ula_loss; print('torch' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.stdout == "set()\nTrue\n"


def test_an_interrupt_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training_run, "train", interrupt)
    with pytest.raises(SystemExit) as ended:
        main(["--model_name_or_path", MODEL, "--report_to", "none"])
    assert ended.value.code == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted"


# Settings -----------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_paper() -> None:
    script, training, model = parse_settings(["--model_name_or_path", "some/model", "--use_peft"])
    assert (script.dataset_name, script.dataset_train_split) == ("generated", "train")
    assert (training.learning_rate, training.num_train_epochs) == (1e-4, 3)
    assert (training.warmup_steps, model.lora_r, model.lora_dropout) == (0.1, 8, 0)
    assert model.lora_target_modules == "all-linear"
    assert (training.amplified, training.suppressed) == ([], [])


def test_settings_come_from_a_yaml_file_and_the_command_line_overrides_it(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    settings = {"model_name_or_path": "a/b", "useful_layers": [2, 1], "ula_weight": 0.5, "seed": 7}
    file.write_text(yaml.safe_dump(settings))
    _, training, model = parse_settings(["--config", str(file), "--seed", "8"])
    assert (training.amplified, training.ula_weight, training.seed) == ([1, 2], 0.5, 8)
    assert model.model_name_or_path == "a/b"
    assert training.learning_rate == 1e-4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "^--model_name_or_path is missing; name a model on the hub or a folder$"),
        (("--model_name_or_path", "./nowhere"), r"^model \./nowhere: .*"),
        (
            ("--model_name_or_path", MODEL, "--ula_weight", "2"),
            "^ula_weight 2.0: must be between 0 and 1$",
        ),
        (
            ("--model_name_or_path", MODEL, "--useful_layers", "5", "--ula_weight", "1e-3"),
            "^useful layer 5: the model has layers 0 to 4 only$",
        ),
        (
            ("--model_name_or_path", MODEL, "--layers", "none.json", "--ula_weight", "1e-3"),
            r"^none\.json: No such file or directory",
        ),
        (
            ("--model_name_or_path", MODEL, "--held_out_alteration", "Swap"),
            "^alteration 'Swap' does not exist; choose from Negation, ",
        ),
        (
            ("--model_name_or_path", MODEL, "--evaluate", "--evaluate_tasks", "pragworld_manuel"),
            "^task pragworld_manuel: lm-eval does not have it; see `lm_eval ls tasks`, or name ",
        ),
        (
            ("--model_name_or_path", MODEL, "--chat-template"),
            "^model .*: no chat template; leave out --chat-template$",
        ),
        (
            ("--model_name_or_path", MODEL, "--ula_wait", "1"),
            "^no setting --ula_wait; `pragworld-train --help-all` lists all of them$",
        ),
        (("--config",), "^--config needs the name of a YAML file$"),
        (("--config", "nowhere.yaml"), "^--config nowhere.yaml: .*No such file or directory"),
    ],
)
@pytest.mark.usefixtures("our_tasks_only")
def test_mistakes_are_one_line_and_leave_nothing(
    arguments: tuple[str, ...],
    message: str,
    refused: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("--output_dir", "out", "--report_to", "none", *arguments)
    said = refused("--dataset_config", '{"groups": 2}', *arguments)
    assert re.search(message, said), said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "train").glob("*.yaml")))
def test_examples_are_the_setting_of_the_paper(path: Path) -> None:
    script, training, model = parse_settings(["--config", str(path)])
    assert (script.dataset_name, model.use_peft, model.lora_r) == ("synthetic", True, 8)
    assert training.ula_weight == training.hls_weight == 1e-3
    assert training.amplified
    assert training.suppressed
    assert f"--config examples/train/{path.name} " in path.read_text()


def test_an_unknown_setting_in_a_yaml_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text("model_name_or_path: a/b\nula_wait: 0.1\n")
    with pytest.raises(InputError, match=r"^no setting --ula_wait; "):
        parse_settings(["--config", str(file)])


def test_a_mistake_ends_the_command_without_a_traceback() -> None:
    process = run_program("pragworld-train", "--model_name_or_path", MODEL, "--ula_weight", "1e-3")
    assert process.returncode == 2
    assert process.stderr.splitlines()[-1] == (
        "ula_weight 0.001 needs useful layers; set useful_layers or layers"
    )
    assert "Traceback" not in process.stderr


@pytest.mark.skipif(find_spec("deepspeed") is not None, reason="deepspeed is installed")
def test_a_setting_whose_package_is_missing_is_one_line() -> None:
    process = run_program("pragworld-train", "--model_name_or_path", MODEL, "--deepspeed", "x.json")
    assert process.returncode == 2
    assert process.stderr.splitlines()[-1].startswith("settings: No package metadata was found")
    assert "Traceback" not in process.stderr


def test_launched_processes_that_are_not_connected_are_refused(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = refused("--model_name_or_path", MODEL, "--report_to", "none")
    assert said.startswith("2 processes were launched, but transformers sees 1; on")


def test_a_chat_template_that_thinks_is_refused(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    """Training would answer behind the block, and lm-eval would read before it."""
    model = shutil.copytree(MODEL, tmp_path / "model")
    turn = "{% if turn.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}{{ turn.content }}"
    (model / "chat_template.jinja").write_text(
        "{% for turn in messages %}{{ turn.role }}: " + turn + "\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    arguments = ("--model_name_or_path", str(model), "--output_dir", str(tmp_path / "out"))
    data = ("--dataset_config", '{"groups": 2}')
    said = refused(*arguments, *data, "--chat-template", "--report_to", "none")
    assert said.startswith(f"--chat-template: that of {model} puts '<think>")
    assert said.endswith("leave it out, or set --chat_template_path")


# A complete run -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run in two processes that uses every feature."""
    out = tmp_path_factory.mktemp("train") / "out"
    arguments = (
        *("--model_name_or_path", MODEL, *LAYERS, *WEIGHTS, "--use_peft", "--output_dir", out),
        *("--dataset_config", '{"groups": 8}', "--held_out_alteration", "Negation"),
        *("--max_steps", "4", "--report_to", "none", "--logging_steps", "2", "--use_cpu"),
        *("--eval_strategy", "steps", "--eval_steps", "4", "--learning_rate", "1e-2"),
        *("--evaluate", "--evaluate_groups", "4", "--evaluate_tasks", "pragworld_generated_mc"),
    )
    process = run_in_two_processes("pragworld-train", *arguments)
    assert process.returncode == 0, process.stderr
    for printed in ("pragworld_generated_mc: ", "pragworld_generated_perplexity: 4 documents"):
        assert process.stdout.count(printed) == 1  # by the first process only
    return out


def test_a_run_saves_probes_and_an_adapter_that_peft_loads(trained: Path) -> None:
    base = AutoModelForCausalLM.from_pretrained(MODEL)
    ids = torch.tensor([[5, 6, 7]])
    before = base(ids).logits
    adapted = PeftModel.from_pretrained(base, trained)
    assert not torch.allclose(adapted(ids).logits, before)
    assert set(load_probes(trained)) == {1}
    names = {path.name for path in trained.iterdir()}
    assert {"README.md", "pragworld_train.json", "label_probes.safetensors"} <= names


def test_the_run_file_has_the_settings_and_the_evaluation(trained: Path) -> None:
    content = json.loads((trained / "pragworld_train.json").read_text())
    assert content["layers"] | {"report": None} == {
        "report": None,
        "selection": None,
        "amplified": [1],
        "suppressed": [4],
        "ula_weight": 1e-3,
        "hls_weight": 1e-2,
        "hls_reduction": "mean",
        "probe_hidden_size": 128,
        "probe_classes": ["yes", "no"],
        "probe_learning_rate": None,
        "gradient_share_steps": 0,
    }
    assert content["data"]["rows"] == content["data"]["documents"]
    assert content["training"]["processes"] == 2
    assert content["data"]["generator"]["held_out_alteration"] == "Negation"
    logged = {name for line in content["log"] for name in line}
    assert {"ula_loss", "probe_accuracy", "hls_loss", "eval_loss", "eval_hls_loss"} <= logged
    assert [task["task"] for task in content["evaluation"]] == [
        "pragworld_generated_mc",
        "pragworld_generated_perplexity",
    ]
    card = (trained / "README.md").read_text()
    assert "`L = L_CE + 0.001 · L_amplify + 0.01 · L_suppress`" in card
    assert "of PragWorld's generated split, without Negation" in card
    assert "## Before and after" in card
    rows = re.findall(r"^\| (.*\(log-likelihood\)) *\|(.*)\|$", card, re.MULTILINE)
    assert len(rows) == len({values for _, values in rows}) > 0  # no metric under two names
    assert all(re.search(r"-\d+\.\d{4} ", values) for _, values in rows)


def test_the_adapter_is_evaluated_by_the_real_lm_eval(trained: Path, lm_eval: LmEval) -> None:
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={MODEL},peft={trained},dtype=float32"),
        *("--tasks", "pragworld_generated_mc", "--batch_size", "16"),
        *("--metadata", '{"groups": 4, "held_out_alteration": "Negation"}'),
    )
    assert evaluation.returncode == 0, evaluation.log
    content = json.loads((trained / "pragworld_train.json").read_text())
    (change,) = [task for task in content["evaluation"] if task["task"] == "pragworld_generated_mc"]
    found = evaluation.metrics("pragworld_generated_mc")
    for name in ("acc", "robust_acc", "yes_acc"):
        assert 100 * found[name] == pytest.approx(change["metrics"][name]["after"])


def test_a_trained_adapter_can_be_ablated_again(trained: Path, tmp_path: Path) -> None:
    process = run_program(
        *("pragworld-interp", "ablate", "--model", MODEL, "--adapter", trained),
        *("--split", "generated", "--metadata", '{"groups": 3}', "--out", tmp_path / "layers.json"),
    )
    assert process.returncode == 0, process.stderr


FULL = os.strerror(errno.ENOSPC)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, FULL),
        SafetensorError(f"Error while serializing: I/O error: {FULL} (os error 28)"),
    ],
)
def test_a_full_disk_is_one_line(tmp_path: Path, error: Exception) -> None:
    with (
        pytest.raises(InputError, match="no space is left on the disk; free some, and rerun"),
        full_disk_in_one_line(tmp_path),
    ):
        raise error


def test_other_errors_are_not_those_of_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"), full_disk_in_one_line(tmp_path):
        (tmp_path / "missing").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--evaluate_groups", "0"), "--evaluate_groups 0: must be at least 1"),
        (("--retain", "mine.yaml"), "task mine.yaml: there is no such file; name a YAML"),
    ],
)
@pytest.mark.usefixtures("our_tasks_only")
def test_what_cannot_be_evaluated_is_refused(
    arguments: tuple[str, ...], message: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    out = ("--output_dir", str(tmp_path / "out"), "--use_cpu")
    settings = ("--model_name_or_path", MODEL, "--dataset_config", '{"groups": 4}', *out)
    assert refused(*settings, "--evaluate", *arguments).startswith(message)


def tiny_run(out: Path, *arguments: str) -> tuple[str, ...]:
    """Return the arguments of a run of two steps on four groups."""
    return (
        *("--model_name_or_path", MODEL, *LAYERS, "--use_peft", "--output_dir", str(out)),
        *("--max_steps", "2", "--save_steps", "1", "--report_to", "none", "--use_cpu"),
        *("--per_device_train_batch_size", "2", "--disable_tqdm", "true"),
        *("--dataset_config", '{"groups": 4}', *arguments),
    )


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_replaced_or_resumed_only_if_told_to(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    out = tmp_path / "out"
    main(tiny_run(out))
    before = contents(out)
    record = json.loads((out / "pragworld_train.json").read_text())
    assert (record["layers"]["ula_weight"], record["layers"]["hls_weight"]) == (1e-3, 1e-3)
    assert record["adapter"]["lora_dropout"] == 0
    again = ("--resume_from_checkpoint", "last")
    said = refused(*tiny_run(out))
    assert said.startswith(f"{out}: holds a run already; pass --resume_from_checkpoint last")
    said = refused(*tiny_run(out, *again, "--dataset_config", '{"groups": 5}'))
    assert said.startswith(f"{out}/checkpoint-2: trained with digest ")
    assert "groups 4, not 5" in said
    assert contents(out) == before
    main(tiny_run(out, *again))
    assert json.loads((out / "pragworld_train.json").read_text())["steps"] == 2
    main(tiny_run(out, "--overwrite", "--max_steps", "1", "--ula_weight", "0"))
    assert [path.name for path in out.glob("checkpoint-*")] == ["checkpoint-1"]
    assert not (out / "label_probes.safetensors").exists()


@pytest.mark.parametrize("further", [(), ("--overwrite",)])
def test_the_model_to_train_and_files_of_no_run_are_never_replaced(
    further: tuple[str, ...], tmp_path: Path, refused: Callable[..., str]
) -> None:
    model, notes = tmp_path / "model", tmp_path / "notes"
    shutil.copytree(MODEL, model)
    notes.mkdir()
    (notes / "README.md").write_text("my notes")
    before = contents(tmp_path)
    message = refused(*tiny_run(model, "--model_name_or_path", str(model), *further))
    assert message == f"{model}: holds the model to train; choose another --output_dir"
    message = refused(*tiny_run(notes, *further))
    assert message.startswith(f"{notes}: holds README.md, which is of no run here and would be")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model_name_or_path", "/nowhere/model"), "no such folder"),
        (("--useful_layers", "99"), "useful layer 99: the model has layers 0 to 4 only"),
        (("--model_revision", "v1"), "a folder has no revisions, but revision v1 is given"),
    ],
)
def test_a_run_is_not_removed_before_its_successor_can_start(
    arguments: tuple[str, ...], message: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    for name in ("README.md", "adapter_config.json", "pragworld_train.json"):
        (tmp_path / name).write_text("{}")
    before = contents(tmp_path)
    assert message in refused(*tiny_run(tmp_path, "--overwrite", *arguments))
    assert contents(tmp_path) == before


def test_a_run_is_restored_if_its_successor_fails_before_it_saves(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    for name in ("README.md", "adapter_config.json", "pragworld_train.json", "checkpoint-best.pt"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1" / "weights").write_text("w")
    before = contents(tmp_path)
    for impossible in (("--learning_rate", "-1"), ("--num_train_epochs", "0", "--max_steps", "-1")):
        refused(*tiny_run(tmp_path, "--overwrite", *impossible))
        found = contents(tmp_path)
        assert {path: found.get(path) for path in before} == before
        assert not [path for path in tmp_path.iterdir() if path.name.startswith("_")]
    main(tiny_run(tmp_path, "--overwrite"))
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == [
        "checkpoint-1",
        "checkpoint-2",
        "checkpoint-best.pt",
    ]
    assert not (tmp_path / "checkpoint-1" / "weights").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("_")]


def test_a_run_is_replaced_by_a_checkpoint_that_leaves_no_step(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    main(tiny_run(first))
    second.mkdir()
    (second / "pragworld_train.json").write_text("{}")
    resume = ("--resume_from_checkpoint", str(first / "checkpoint-2"))
    main(tiny_run(second, "--overwrite", *resume))
    assert json.loads((second / "pragworld_train.json").read_text())["steps"] == 2
    assert not [path for path in second.iterdir() if path.name.startswith("_")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--learning_rate", "-1"), "before the first step: Invalid learning rate: -1.0"),
        (("--adam_beta1", "2"), "before the first step: Invalid beta parameter at index 0: 2.0"),
        (
            ("--per_device_train_batch_size", "0"),
            "before the first step: batch_size should be a positive ",
        ),
        (
            ("--lr_scheduler_type", "cosine_with_min_lr"),
            "before the first step: One of min_lr or min_lr_rate ",
        ),
        (("--max_steps", "-1", "--num_train_epochs", "0"), "settings: they leave no step to "),
        (
            ("--max_steps", "-1", "--num_train_epochs", "inf"),
            "before the first step: OverflowError: cannot ",
        ),
        (("--gradient_accumulation_steps", "0"), "--gradient_accumulation_steps 0: must be at "),
        (("--per_device_eval_batch_size", "0"), "--per_device_eval_batch_size 0: must be at "),
    ],
)
def test_settings_that_cannot_be_trained_with_are_one_line_and_leave_nothing(
    arguments: tuple[str, ...], message: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    assert refused(*tiny_run(tmp_path / "runs" / "out", *arguments)).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    (tmp_path / "file").touch()
    for out, reason in ((tmp_path / "file", "File exists"), (tmp_path / "file" / "x", "Not a dir")):
        assert refused(*tiny_run(out)).startswith(f"{out}: {reason}")


def test_an_error_after_the_first_step_has_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(LayerRegularizedSFTTrainer, "log", fail)
    with pytest.raises(ValueError, match=r"^a bug$"):
        main(tiny_run(tmp_path / "out", "--logging_steps", "1"))


@pytest.mark.parametrize("further", [(), ("--resume_from_checkpoint", "last"), ("--overwrite",)])
def test_a_run_that_was_killed_while_it_was_saved_can_be_run_again(
    further: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    arguments = tiny_run(out, "--save_strategy", "no", "--max_steps", "1")
    main(arguments)
    (out / "pragworld_train.json").unlink()
    (out / "label_probes.safetensors").unlink()
    (out / "_training").touch()
    main((*arguments, *further))
    assert (out / "pragworld_train.json").is_file()
    assert not list(out.glob("_*"))


def test_a_model_that_is_refused_once_it_is_loaded_leaves_no_folder(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    tokenizer.save_pretrained(tmp_path / "mamba")
    config = MambaConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2)
    MambaForCausalLM(config).save_pretrained(tmp_path / "mamba")
    command = ("--model_name_or_path", str(tmp_path / "mamba"), "--useful_layers", "0")
    settings = ("--ula_weight", "1e-3", "--dataset_config", '{"groups": 2}')
    said = refused(*command, *settings, "--output_dir", str(tmp_path / "runs" / "out"))
    assert "this architecture cannot be swept" in said
    assert not (tmp_path / "runs").exists()


# Resuming ----------------------------------------------------------------------------------------


def checkpoint(folder: Path, step: int, state: str | None) -> None:
    place = folder / f"checkpoint-{step}"
    place.mkdir()
    if state is not None:
        (place / "trainer_state.json").write_text(state)


def test_a_run_resumes_from_its_last_complete_checkpoint(tmp_path: Path) -> None:
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
