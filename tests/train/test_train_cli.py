"""The command `pragworld-train`: help, settings, refusals, a complete run, and resuming."""

import json
import re
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest
import torch
from command_runs import refused, run_in_two_processes
from lm_eval_runs import LmEval
from peft import PeftModel
from places import ROOT
from train_runs import contents
from transformers import AutoModelForCausalLM, AutoTokenizer, MambaConfig, MambaForCausalLM

from pragworld_tasks.tiny import tiny_folder
from pragworld_train.arguments import make_parser, parse_settings
from pragworld_train.cli import help_parser, main
from pragworld_train.data import DEFAULT_GROUPS
from pragworld_train.probes import load_probes
from pragworld_train.run_record import RUN_FILE
from pragworld_train.trainer import LayerRegularizedSFTTrainer
from pragworld_train.training_run import last_checkpoint

MODEL = str(tiny_folder())
LAYERS = ("--useful_layers", "1", "--harmful_layers", "4")
WEIGHTS = ("--ula_weight", "1e-3", "--hls_weight", "1e-2")


def without(packages: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process in which some packages cannot be imported."""
    code = f"import sys; sys.modules.update(dict.fromkeys({packages!r}))\n"
    code += f"from pragworld_train.cli import main; main({arguments!r})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_help_needs_no_torch_and_shows_an_example() -> None:
    process = without(("torch", "transformers", "trl"), "--help")
    assert process.returncode == 0, process.stderr
    words = ("--ula_weight", "--held_out_alteration", "--lora_r", "--config", "--help-all")
    for word in ("example:\n  pragworld-train", *words):
        assert word in process.stdout
    assert len(process.stdout.splitlines()) < 100


@pytest.mark.parametrize(("package", "command"), [("torch", ()), ("trl", ("--help-all",))])
def test_a_missing_package_is_one_line(package: str, command: tuple[str, ...]) -> None:
    process = without((package,), *command)
    assert process.returncode == 2
    assert process.stderr == (
        f"`pragworld-train` needs the {package} package: pip install 'pragworld[train]'\n"
    )


def options(parser: ArgumentParser) -> dict[str, object]:
    return {action.dest: action.default for action in parser._actions if action.help}


def test_the_short_help_shows_the_defaults_that_are_used() -> None:
    every, shown = options(make_parser()), options(help_parser())
    own = {name: shown[name] for name in shown if name in every}
    assert own == {name: every[name] for name in own}
    assert shown.keys() - every.keys() == {"config", "help_all", "version"}
    text = " ".join(help_parser().format_help().split())
    assert f"groups (default {DEFAULT_GROUPS})" in text


def test_defaults_are_those_of_the_paper() -> None:
    script, training, model = parse_settings(["--model_name_or_path", "some/model", "--use_peft"])
    assert (script.dataset_name, script.dataset_train_split) == ("generated", "train")
    assert (training.learning_rate, training.num_train_epochs) == (1e-4, 3)
    assert (training.warmup_steps, model.lora_r, model.lora_dropout) == (0.1, 8, 0)
    assert model.lora_target_modules == "all-linear"
    assert (training.amplified, training.suppressed) == ([], [])


REFUSED = [
    ("", "^--model_name_or_path is missing; name a model on the hub or a folder$"),
    ("--config", "^--config needs the name of a YAML file$"),
    ("--config nowhere.yaml", "^settings: .*No such file or directory: 'nowhere.yaml'"),
    ("--config typo.yaml", "^no setting --ula_wait; `pragworld-train --help-all` lists all of "),
    ("--ula_wait 1", "^no setting --ula_wait; `pragworld-train --help-all` lists all of them$"),
    ("MODEL --chat-template", "^model .*: no chat template; leave out --chat-template$"),
    ("MODEL --dataset_name manual --dataset_train_split test", "^--dataset_train_split: has no "),
    ("MODEL --documents own.jsonl --dataset_name manual", "^--dataset_name: has no effect on --d"),
    ("MODEL --evaluate_tasks mine.yaml", "^--evaluate_tasks: Spec 'mine.yaml' is not .*; see `lm"),
    ("MODEL --evaluate_tasks pragworld_own_label", "metadata"),
    ("MODEL --evaluate --chat-template --chat_template_path own", "^--chat_template_path: the mo"),
    ("MODEL --evaluate --evaluate_groups 0", "^--evaluate-groups 0: must be at least 1$"),
    ("MODEL --resume_from_checkpoint none", "^--resume_from_checkpoint none: not a checkpoint; "),
    ("MODEL --gradient_accumulation_steps 0", "^--gradient-accumulation-steps 0: must be at least"),
    ("MODEL --per_device_eval_batch_size 0", "^--per-device-eval-batch-size 0: must be at least 1"),
    ("MODEL --learning_rate -1", "^before the first step: Invalid learning rate: -1.0$"),
    ("MODEL --num_train_epochs 0", "^settings: they leave no step to train; change num_train_"),
    ("MODEL --num_train_epochs inf", "^before the first step: OverflowError: cannot "),
    ("MODEL --model_revision v1", "a folder has no revisions, but revision v1 is given"),
    ("--model_name_or_path ./nowhere", r"^model \./nowhere: .*"),
    ("--model_name_or_path mamba --useful_layers 0", "this architecture cannot be swept"),
    ("--model_name_or_path thinking --chat-template", "^--chat-template: that of thinking puts "),
    ("--model_name_or_path out", "^out: holds the model to train; choose another --output_dir$"),
    ("MODEL --output_dir notes", "^notes: holds README.md already; choose another --output_dir$"),
    ("MODEL --output_dir notes --resume_from_checkpoint last", "^notes: holds README.md already"),
    ("MODEL --output_dir list.yaml/out", "Not a directory"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with models that cannot be trained, settings and notes."""
    folder = tmp_path_factory.mktemp("refused")
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    tokenizer.save_pretrained(folder / "mamba")
    config = MambaConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2)
    MambaForCausalLM(config).save_pretrained(folder / "mamba")
    # training would answer behind the block, and lm-eval would read before it
    shutil.copytree(MODEL, folder / "thinking")
    turn = "{% if turn.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}{{ turn.content }}"
    (folder / "thinking" / "chat_template.jinja").write_text(
        "{% for turn in messages %}{{ turn.role }}: " + turn + "\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    (folder / "list.yaml").write_text("[1, 2]")
    (folder / "typo.yaml").write_text("model_name_or_path: a/b\nula_wait: 0.1\n")
    (folder / "notes").mkdir()
    (folder / "notes" / "README.md").write_text("my notes")
    return folder


@pytest.mark.parametrize(("words", "message"), REFUSED)
@pytest.mark.usefixtures("our_tasks_only")
def test_mistakes_are_one_line_and_leave_nothing(
    words: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = contents(folder)
    words = words.replace("MODEL", f"--model_name_or_path {MODEL}")
    common = ("--output_dir", "out", "--report_to", "none", "--use_cpu", "--disable_tqdm", "true")
    generated = () if "--documents" in words else ("--dataset_config", '{"groups": 2}')
    with refused(message):
        main([*common, *generated, *words.split()])
    assert contents(folder) == before


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "train").glob("*.yaml")))
def test_examples_are_the_setting_of_the_paper(path: Path) -> None:
    script, training, model = parse_settings(["--config", str(path)])
    assert (script.dataset_name, model.use_peft, model.lora_r) == ("synthetic", True, 8)
    assert training.ula_weight == training.hls_weight == 1e-3
    assert training.amplified
    assert training.suppressed
    assert f"--config examples/train/{path.name} " in path.read_text()


def test_launched_processes_that_are_not_connected_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with refused("^2 processes were launched, but transformers sees 1; on CPUs add --use_cpu$"):
        main(["--model_name_or_path", MODEL, "--report_to", "none"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run in two processes that uses every feature."""
    out = tmp_path_factory.mktemp("train") / "out"
    arguments = (
        *("--model_name_or_path", MODEL, *LAYERS, *WEIGHTS, "--use_peft", "--output_dir", out),
        *("--dataset_config", '{"groups": 8}', "--held_out_alteration", "Negation"),
        *("--max_steps", "4", "--report_to", "none", "--logging_steps", "2", "--use_cpu"),
        *("--eval_strategy", "steps", "--eval_steps", "4", "--learning_rate", "1e-2"),
        *("--evaluate_groups", "4", "--evaluate_tasks"),
        *("pragworld_generated_mc", "pragworld_generated_perplexity"),
    )
    process = run_in_two_processes("pragworld-train", *arguments)
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


def test_the_run_file_and_the_card_have_the_settings_and_the_evaluation(trained: Path) -> None:
    content = json.loads((trained / RUN_FILE).read_text())
    assert content["data"]["rows"] == content["data"]["documents"]
    assert content["training"]["processes"] == 2
    assert content["data"]["generator"]["held_out_alteration"] == "Negation"
    logged = {name for line in content["log"] for name in line}
    assert {"ula_loss", "probe_accuracy", "hls_loss", "eval_loss", "eval_hls_loss"} <= logged
    card = (trained / "README.md").read_text()
    _, evaluation = card.split("## Before and after")
    assert "pragworld_generated_mc: " in evaluation
    assert "pragworld_generated_perplexity: 4 documents" in evaluation
    assert "| word_perplexity (log-likelihood) | -" in evaluation


def test_the_adapter_is_evaluated_as_by_the_lm_eval_command(trained: Path, lm_eval: LmEval) -> None:
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={MODEL},peft={trained},dtype=float32"),
        *("--tasks", "pragworld_generated_mc", "--batch_size", "16"),
        *("--metadata", '{"groups": 4, "held_out_alteration": "Negation"}'),
    )
    (results,) = (trained / "evaluation" / "after").rglob("results_*.json")
    task = "pragworld_generated_mc"
    assert json.loads(results.read_text())["results"][task] == evaluation.results["results"][task]
    found, card = evaluation.metrics(task), (trained / "README.md").read_text()
    for name in ("acc", "robust_acc", "yes_acc"):
        rows = re.findall(rf"^\| {name} +\| +\S+ \| +(\S+) \|", card, re.MULTILINE)
        assert rows == [f"{100 * found[name]:.2f}"]


def tiny_run(out: Path, *arguments: str) -> tuple[str, ...]:
    return (
        *("--model_name_or_path", MODEL, *LAYERS, "--use_peft", "--output_dir", str(out)),
        *("--max_steps", "2", "--save_steps", "1", "--report_to", "none", "--use_cpu"),
        *("--per_device_train_batch_size", "2", "--disable_tqdm", "true"),
        *("--dataset_config", '{"groups": 4}', *arguments),
    )


def test_a_run_is_never_replaced_and_resumed_only_as_the_same(tmp_path: Path) -> None:
    out = tmp_path / "out"
    main(tiny_run(out))
    before = contents(out)
    record = json.loads((out / RUN_FILE).read_text())
    assert (record["layers"]["ula_weight"], record["layers"]["hls_weight"]) == (1e-3, 1e-3)
    assert record["adapter"]["lora_dropout"] == 0
    again = ("--resume_from_checkpoint", "last")
    with refused(f"^{out}: holds {RUN_FILE} already; pass --resume_from_checkpoint last to resume"):
        main(tiny_run(out))
    with refused(rf"^{out}/checkpoint-2: trained with rows \d+, not \d+; digest "):
        main(tiny_run(out, *again, "--dataset_config", '{"groups": 5}'))
    assert contents(out) == before
    main(tiny_run(out, *again))
    assert json.loads((out / RUN_FILE).read_text())["steps"] == 2
    other = tmp_path / "other"
    main(tiny_run(other, "--resume_from_checkpoint", str(out / "checkpoint-2")))
    name = "adapter_model.safetensors"
    assert (other / name).read_bytes() == (out / name).read_bytes() == before[out / name]


def test_an_error_after_the_first_step_has_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(LayerRegularizedSFTTrainer, "log", fail)
    with pytest.raises(ValueError, match=r"^a bug$"):
        main(tiny_run(tmp_path / "out", "--logging_steps", "1"))


def test_a_run_that_was_killed_before_its_first_checkpoint_can_be_run_again(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "README.md").write_text("TRL writes it before a checkpoint")
    with refused(f"^{tmp_path}: holds README.md already; pass --resume_from_checkpoint last"):
        main(tiny_run(tmp_path))
    main(tiny_run(tmp_path, "--resume_from_checkpoint", "last"))
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-2"


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
