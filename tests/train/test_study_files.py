"""What the files of a study say of themselves: files of another run or split are refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from lm_eval_runs import LmEval

from pragworld_interp.loading import Model
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.errors import InputError
from pragworld_tasks.tiny import tiny_folder
from pragworld_train.experiments.study_files import (
    check_evaluation,
    check_layers,
    check_probes,
    check_training,
)
from pragworld_train.lm_eval_process import model_arguments, sample_files
from pragworld_train.run_record import SCHEMA

TASKS = ["pragworld_generated_mc", "pragworld_generated_perplexity"]
BASE = Model(str(tiny_folder()), dtype="float32")
TRAINED = replace(BASE, adapter="study/ula-seed1/model")
SETTINGS: dict[str, Any] = {"groups": 3, "seed": 5}


@pytest.fixture(scope="module")
def evaluated(lm_eval: LmEval) -> Callable[[str], Path]:
    """Return the folder that lm-eval wrote for the base model on a split."""
    folders = {}
    for split in ("test", "test_vocabulary"):
        evaluation = lm_eval(
            *("--model", "hf", "--model_args", json.dumps(model_arguments(BASE))),
            *("--tasks", ",".join(TASKS), "--batch_size", "16", "--log_samples"),
            *("--metadata", json.dumps({**SETTINGS, "split": split})),
        )
        assert evaluation.returncode == 0, evaluation.log
        folders[split] = evaluation.samples_file(TASKS[0]).parent
    return folders.__getitem__


def check(out: Path, model: Model = BASE, **settings: Any) -> None:
    check_evaluation(model, TASKS, out, {**SETTINGS, "split": "test", **settings})


def refused(check: Callable[..., None], *arguments: Any, **options: Any) -> str:
    """Return the message of a check that refuses, which is one line."""
    with pytest.raises(InputError) as error:
        check(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_evaluation_of_another_model_or_other_documents_is_refused(
    evaluated: Callable[[str], Path],
) -> None:
    out = evaluated("test")
    check(out)
    check(evaluated("test_vocabulary"), split="test_vocabulary")
    (results,) = out.glob("results_*.json")
    remedy = f"remove {out}, and rerun the command to make it anew"
    said = refused(check, evaluated("test_vocabulary"))
    assert "its split is test_vocabulary, not test; remove " in said
    said = refused(check, out, TRAINED)
    assert said == f"{results}: its peft is None, not study/ula-seed1/model; {remedy}"
    said = refused(check, out, replace(BASE, name="org/other"))
    assert said == f"{results}: its pretrained is {BASE.name}, not org/other; {remedy}"
    assert "its groups is 3, not 4;" in refused(check, out, groups=4)
    assert "its held_out_alteration is None, not" in refused(
        check, out, held_out_alteration="Negation"
    )


def test_an_evaluation_that_is_not_whole_is_refused(
    evaluated: Callable[[str], Path], tmp_path: Path
) -> None:
    out = shutil.copytree(evaluated("test"), tmp_path / "test")
    samples = sample_files(out)[TASKS[0]]
    content = samples.read_bytes()
    second = samples.with_name(samples.name.replace("_20", "_19"))
    second.write_bytes(content)
    assert refused(check, out).startswith(f"{out}: holds 2 files of samples of {TASKS[0]}, not one")
    samples.unlink()
    said = refused(check, out)
    assert said.startswith(f"{second}: lm-eval's results are not beside it; remove {out}, and ")
    second.unlink()
    assert refused(check, out).startswith(f"{out}: holds 0 files of samples of {TASKS[0]}, not one")
    samples.write_bytes(content)
    check(out)
    (results,) = out.glob("results_*.json")
    results.write_text("[]")
    assert refused(check, out).startswith(f"{results}: not the results of lm-eval on {TASKS[0]}; ")


@pytest.mark.parametrize("task", TASKS)
def test_samples_of_another_evaluation_under_the_same_name_are_refused(
    task: str, evaluated: Callable[[str], Path], tmp_path: Path
) -> None:
    """They do not name their model, but their metrics are not those of the results."""
    out = shutil.copytree(evaluated("test"), tmp_path / "test")
    samples, other = (sample_files(folder)[task] for folder in (out, evaluated("test_vocabulary")))
    shutil.copyfile(other, samples)
    said = refused(check, out)
    assert said.startswith(f"{samples}: its ")
    assert f" in the results beside it; remove {out}, and rerun" in said


def test_a_report_of_another_model_or_other_documents_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "layers.json"
    model = {"name": TRAINED.name, "adapter": f"{TRAINED.adapter}@0123abcd"}
    data = {"generator": asdict(GeneratorSettings(**SETTINGS))}
    report = {"model": model, "data": data, "groups": [0, 0, 1, 2]}
    path.write_text(json.dumps(report))
    check_layers(path, TRAINED, SETTINGS)
    check_probes(path, TRAINED, 3)
    remedy = f"remove {path}, and rerun the command to make it anew"
    for check, argument in ((check_layers, SETTINGS), (check_probes, 3)):
        said = refused(check, path, replace(TRAINED, adapter="study/sft-seed1/model"), argument)
        assert said == (
            f"{path}: its adapter is study/ula-seed1/model, not study/sft-seed1/model; {remedy}"
        )
        assert "its adapter is study/ula-seed1/model, not None" in refused(
            check, path, BASE, argument
        )
    said = refused(check_layers, path, TRAINED, {**SETTINGS, "domains": "shop"})
    assert "its domains is ['household', " in said
    assert "its groups is 3, not 4;" in refused(check_probes, path, TRAINED, 4)
    path.write_text("[]")
    assert refused(check_layers, path, TRAINED, SETTINGS).startswith(f"{path}: not a report of ")
    assert refused(check_probes, path, TRAINED, 3) == f"{path}: not a report of probes; {remedy}"


def test_a_model_of_another_run_is_refused(tmp_path: Path) -> None:
    out, other = tmp_path / "ula-seed1" / "model", tmp_path / "sft-seed1" / "model"
    out.mkdir(parents=True)
    record = {**SCHEMA, "training": {"output_dir": str(out)}}
    (out / "pragworld_train.json").write_text(json.dumps(record))
    check_training(out)
    shutil.copytree(out, other)
    assert refused(check_training, other) == (
        f"{other}: its output_dir is {out}, not {other}; remove {other.parent}, and rerun the "
        "command to make it anew"
    )
