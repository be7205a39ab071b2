"""The study: a real run with one arm, killed and resumed, and its refusals."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.responses import sampled_documents
from pragworld_tasks.layers.report_files import read_layers
from pragworld_tasks.tiny import tiny_folder
from pragworld_train.cli import main
from pragworld_train.experiments import study as study_module
from pragworld_train.experiments.probing import read_probe_report
from pragworld_train.lm_eval_process import sample_files

MODEL = ("--model_name_or_path", str(tiny_folder()))
LAYERS = ("--useful_layers", "1", "2", "--harmful_layers", "4")
WEIGHTS = ("--ula_weight", "1e-2", "--hls_weight", "1e-2")
DATA = ("--dataset_config", '{"groups": 6}', "--held_out_alteration", "Negation")
SMALL = ("--max_steps", "3", "--evaluate_groups", "6", "--use_peft", "--learning_rate", "1e-2")
ARM = "random_layers"


def command(out: Path) -> list[str]:
    """Return the command of a study with one arm and one seed."""
    words = [*MODEL, *LAYERS, *WEIGHTS, *DATA, *SMALL, "--output_dir", str(out)]
    study = ["study", *words, "--arms", ARM, "--seeds", "7", "--jobs", "2"]
    return [sys.executable, "-m", "pragworld_train", *study]


def results(folder: Path) -> dict[str, dict[str, float]]:
    """Return lm-eval's own metrics by task."""
    (path,) = folder.rglob("results_*.json")
    found: dict[str, dict[str, float]] = json.loads(path.read_text())["results"]
    return found


def files(folder: Path) -> dict[str, int]:
    """Return all files that are complete, and the time they were written."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.name != "config.yaml" and "partial" not in str(path)
        if path.suffix != ".txt" and path.name != ".lock" and "/model/" not in str(path)
    }


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, long_runs: None) -> Path:
    """Run a study that is killed once and resumed, and return its folder."""
    out = tmp_path_factory.mktemp("study") / "out"
    process = subprocess.Popen(command(out), stderr=subprocess.PIPE, start_new_session=True)
    until = time.monotonic() + 300
    while not (out / "base" / "test").is_dir():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = files(out)
    again = subprocess.run(command(out), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    after = files(out)
    assert before.items() <= after.items()  # completed steps were not repeated
    assert (out / "study.md").read_text() == again.stdout.removesuffix("\n")
    return out


def test_random_layers_are_in_the_settings_of_their_run(study: Path) -> None:
    settings = yaml.safe_load((study / f"{ARM}-seed7" / "config.yaml").read_text())
    drawn = settings["useful_layers"], settings["harmful_layers"]
    assert [len(layers) for layers in drawn] == [2, 1]
    assert len({*drawn[0], *drawn[1]}) == 3
    assert drawn != ([1, 2], [4])
    made = json.loads((study / f"{ARM}-seed7" / "model" / "pragworld_train.json").read_text())
    assert (made["layers"]["amplified"], made["layers"]["suppressed"]) == drawn


def test_the_report_agrees_with_the_files_of_each_run(study: Path) -> None:
    content = json.loads((study / "study.json").read_text())
    assert set(content["arms"]) == {"base", ARM}
    for arm, folder in (("base", study / "base"), (ARM, study / f"{ARM}-seed7")):
        found = {name: measure["mean"] for name, measure in content["arms"][arm].items()}
        shown = results(folder / "test")
        path = sample_files(folder / "test")["pragworld_generated_mc"]
        right = {record["doc"]["row"]: record["acc"] for record in map(json.loads, path.open())}
        trained_on = [
            document for document in sampled_documents(path) if document.alteration != "Negation"
        ]
        assert found["test_accuracy"] == pytest.approx(
            np.mean([right[document.row] for document in trained_on])
        )
        groups = {document.group for document in trained_on}
        wrong = {document.group for document in trained_on if not right[document.row]}
        assert found["test_robust"] == pytest.approx(1 - len(wrong) / len(groups))
        perplexity = shown["pragworld_generated_perplexity"]["word_perplexity,none"]
        assert math.exp(-found["log_likelihood"]) == pytest.approx(perplexity)
        ablated = read_layers(folder / "layers.json")
        plain = ablated.plain.accuracy.percent
        effects = [ablated.layers[layer].accuracy.share.percent - plain for layer in (1, 2)]
        assert 100 * found["useful_effect"] == pytest.approx(np.mean(effects))
        whole = shown["pragworld_generated_mc"]["acc,none"]
        assert plain == pytest.approx(100 * whole)  # the same documents, two engines
        probes = read_probe_report(folder / "probes.json")
        assert found["mean_square"] == pytest.approx(np.mean(probes.layers[4].mean_squares))


def test_the_held_out_alteration_is_measured_separately(study: Path) -> None:
    path = sample_files(study / "base" / "test")["pragworld_generated_mc"]
    documents = sampled_documents(path)
    right = {
        record["doc"]["row"]: record["acc"]
        for record in map(json.loads, path.read_text().splitlines())
    }
    held_out = [right[document.row] for document in documents if document.alteration == "Negation"]
    content = json.loads((study / "study.json").read_text())
    assert held_out
    assert content["arms"]["base"]["held_out_accuracy"]["mean"] == pytest.approx(np.mean(held_out))


def test_a_study_draws_a_figure(study: Path) -> None:
    assert (study / "study.png").read_bytes().startswith(b"\x89PNG")


def refusal(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """Run a command that must be refused, and return its error message."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_other_settings_in_the_same_folder_are_refused(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, [*command(study)[3:], "--weight_decay", "0.5"])
    assert "config.yaml: a study with other settings; choose another" in said


def test_what_is_there_is_checked_before_any_step_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file of samples, or one of another run, would otherwise show after hours."""
    out = tmp_path / "out"
    samples = out / f"{ARM}-seed7" / "test"
    samples.mkdir(parents=True)
    assert refusal(capsys, command(out)[3:]) == (
        f"{samples}: holds 0 files of samples of pragworld_generated_mc, not one; remove "
        f"{samples}, and rerun the command to make it anew"
    )
    assert [path.name for path in (out / "base").iterdir()] == ["config.yaml"]


def test_a_folder_that_cannot_be_made_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    said = refusal(capsys, command(tmp_path / "file")[3:])
    assert said.startswith(f"{tmp_path / 'file' / 'base'} cannot be written (Not a directory);")


def test_a_study_stops_at_the_first_step_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run would begin before the error is shown, and train for hours."""

    def fail(*_: object) -> None:
        raise InputError("lm_eval: out of memory")

    ran: list[str] = []
    monkeypatch.setattr(study_module, "run_lm_eval", fail)
    monkeypatch.setattr(study_module, "run_logged", lambda *words: ran.append(words[2]))
    assert refusal(capsys, [*command(tmp_path / "out")[3:], "--jobs", "1"]) == (
        "lm_eval: out of memory"
    )
    assert ran == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (MODEL, "^study: ula needs --ula_weight and layers; set both, or choose other --arms$"),
        ((*MODEL, *LAYERS, *WEIGHTS, "--seeds", "1", "1"), "^--seeds 1 1: must all be different$"),
        (
            (*MODEL, *LAYERS, *WEIGHTS, "--arms", "sft", "sft"),
            "^--arms sft sft: must all be different$",
        ),
        (
            (*MODEL, "--dataset_name", "manual"),
            "^--dataset_name: a study trains on generated dialogues; leave it out$",
        ),
        ((*MODEL, "--seed", "5"), "^--seed: not a setting of a study; use --seeds$"),
        ((*MODEL, "--retain", "arc_easy"), "^--retain: not a setting of a study; leave it out$"),
        ((*MODEL, "--evaluate_groups", "0"), "^--evaluate_groups 0: must be at least 1$"),
        ((*MODEL, "--jobs", "0"), "^--jobs 0: must be at least 1$"),
        ((*MODEL, "--seeds", "1", "-1"), "^--seeds 1 -1: must be from 0 to 4294967295$"),
        (
            (*MODEL, "--arms", "sft", "--dataset_config", '{"domains": ["conversation"]}'),
            "^the domain 'conversation' has no split 'test_vocabulary'; use ",
        ),
        (
            (*MODEL, *LAYERS, *WEIGHTS, "--model_revision", "v1"),
            "^model .*: a folder has no revisions, but revision v1 is given; leave it out, or name",
        ),
    ],
)
def test_impossible_studies_are_refused(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = refusal(capsys, ["study", *arguments, "--output_dir", str(tmp_path / "out")])
    assert re.search(message, said), said
    assert not (tmp_path / "out").exists()
