"""The tasks as a folder of lm-eval's own: the same prompts, answers and metrics without pragworld."""

import ast
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import lm_eval
import pytest
from command_runs import refused, run_program
from datasets import load_dataset
from lm_eval_runs import Evaluation, assert_table_is_score, documents_of
from places import ROOT, SAMPLES

from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Document, ReleasedSplit
from pragworld_tasks.data.sources import FILES, is_released
from pragworld_tasks.evaluation import answers, prompts, task_metrics
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.link import task_descriptions

TASKS = (
    *("pragworld_manual", "pragworld_manual_mc", "pragworld_synthetic_mc"),
    "pragworld_entity_tracking_mc",
)
SPLITS: list[ReleasedSplit] = [split for split in FILES if is_released(split)]


def export(data: Path, folder: Path) -> Path:
    """Write the dataset and the task folder, and return the latter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(data))
        main(["dataset", "--out", str(folder / "data")])
    main(["export-lm-eval", str(folder / "pragworld"), "--dataset", str(folder / "data")])
    return folder / "pragworld"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(SAMPLES, tmp_path_factory.mktemp("export"))


@pytest.fixture(scope="module")
def utilities(folder: Path) -> ModuleType:
    return load(folder / "utils.py")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("exported_utils", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def processed(utilities: ModuleType, data: Path, split: str, cache: Path) -> list[dict[str, Any]]:
    dataset = load_dataset(str(data), split, split="test", cache_dir=str(cache))
    records: list[dict[str, Any]] = utilities.process_docs(dataset).to_list()
    return records


def assert_same_figures(
    utilities: ModuleType, records: list[dict[str, Any]], documents: list[Document]
) -> None:
    """Random answers get the same items and the same metrics from both."""
    ours = task_metrics.to_records(documents)
    draw = random.Random(0)
    theirs, items = [], []
    for record, our_record in zip(records, ours, strict=True):
        assert {key: record[key] for key in our_record} == our_record
        response = [draw.choice(["(Yes)", "No, because", "Answer: yes", "Perhaps"])]
        theirs.append(utilities.score_response(record, response))
        items.append(task_metrics.score_response(our_record, response))
    assert theirs == items
    for metric in items[0]:
        kind = "robust_share" if metric.startswith("robust") else "share"
        aggregation = kind + "_stderr" * metric.endswith("_stderr")
        for last in (None, len(items) // 2):  # a whole split, and one that is cut off
            ours_of_metric = [item[metric] for item in items[:last]]
            theirs_of_metric = [item[metric] for item in theirs[:last]]
            assert getattr(utilities, aggregation)(theirs_of_metric) == getattr(
                task_metrics, aggregation
            )(ours_of_metric)


@pytest.mark.parametrize("split", SPLITS)
def test_documents_and_metrics_are_ours(
    folder: Path, utilities: ModuleType, tmp_path: Path, split: ReleasedSplit
) -> None:
    records = processed(utilities, folder.parent / "data", split, tmp_path)
    documents = FILES[split].read(SAMPLES / FILES[split].path)
    assert_same_figures(utilities, records, documents)
    for record, document in zip(records, documents, strict=True):
        for prompt in ("evaluation_prompt", "label_prompt"):
            assert getattr(utilities, prompt)(record) == getattr(prompts, prompt)(document)
    likelihoods = [(-1.5, False), (-0.5, False)]
    ours = task_metrics.to_records(documents)[0]
    assert utilities.score_likelihoods(records[0], likelihoods) == task_metrics.score_likelihoods(
        ours, likelihoods
    )


def test_metrics_on_released_labels_are_ours(released: Path, tmp_path: Path) -> None:
    folder = export(released, tmp_path)
    utilities = load(folder / "utils.py")
    records = processed(utilities, tmp_path / "data", "manual", tmp_path / "cache")
    assert sum(bool(record["disputed"]) for record in records) == 17
    assert_same_figures(utilities, records, documents_of("pragworld_manual", released))


def test_answers_are_read_alike(utilities: ModuleType) -> None:
    phrases = read_package_toml("pragworld_tasks.evaluation", "answer_phrases.toml")
    assert phrases == utilities._PHRASES
    for path in sorted((ROOT / "tests" / "answers").glob("yes_no_*.jsonl")):
        for line in path.read_text().splitlines():
            response = json.loads(line)["response"]
            for reader in ("read_answer", "read_answer_released"):
                assert getattr(utilities, reader)(response) == getattr(answers, reader)(response)


def test_nothing_in_the_folder_needs_pragworld(folder: Path) -> None:
    for path in filter(Path.is_file, folder.iterdir()):
        assert "pragworld_tasks" not in path.read_text(), path
    code = (folder / "utils.py").read_text()
    defined = [
        name.id if isinstance(name, ast.Name) else name.name
        for node in ast.parse(code).body
        for name in (node.targets if isinstance(node, ast.Assign) else [node])
        if isinstance(name, ast.Name | ast.FunctionDef | ast.ClassDef)
    ]
    assert len(defined) == len(set(defined))
    for style in (["check", "--select", "E,F,I,B,UP", "--ignore", "E501"], ["format", "--diff"]):
        ruff = [sys.executable, "-m", "ruff", *style, "--isolated", "--line-length", "100"]
        command = [*ruff, "--target-version", "py311", str(folder / "utils.py")]
        process = subprocess.run(command, capture_output=True, text=True)
        assert process.returncode == 0, process.stdout
    described = (folder / "README.md").read_text()
    names = [path.stem for path in folder.glob("*.yaml") if not path.stem.startswith("_")]
    assert len(names) == 12
    assert set(names) <= set(task_descriptions())
    assert [name for name in names if f"* `{name}`: " not in described] == []


def test_lm_eval_without_pragworld_gives_our_figures(
    folder: Path, model_arguments: tuple[str, ...], tmp_path: Path
) -> None:
    arguments = [*model_arguments, "--tasks", ",".join(TASKS), "--log_samples"]
    arguments += ["--include_path", str(folder), "--output_path", str(tmp_path / "out")]
    script = ROOT / "tests" / "lm_eval_without_pragworld.py"
    process = run_program("python", script, *arguments, HF_DATASETS_CACHE=str(tmp_path / "cache"))
    assert process.returncode == 0, process.stderr
    for task in TASKS:
        assert_table_is_score(Evaluation(process, tmp_path / "out"), task, SAMPLES)


def test_it_works_among_the_tasks_of_a_copy_of_lm_eval(
    folder: Path, model_arguments: tuple[str, ...], tmp_path: Path, long_runs: None
) -> None:
    source = Path(str(lm_eval.__file__)).parent
    shutil.copytree(source, tmp_path / "lm_eval")
    shutil.copytree(folder, tmp_path / "lm_eval" / "tasks" / "pragworld")
    script = tmp_path / "run.py"  # its folder comes first on the path
    shutil.copy(ROOT / "tests" / "lm_eval_without_pragworld.py", script)
    arguments = [*model_arguments, "--tasks", ",".join(TASKS), "--log_samples"]
    process = subprocess.run(
        [sys.executable, str(script), *arguments, "--output_path", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_DATASETS_CACHE": str(tmp_path / "cache")},
    )
    assert process.returncode == 0, process.stderr
    for task in TASKS:
        assert_table_is_score(Evaluation(process, tmp_path / "out"), task, SAMPLES)


def test_a_dataset_that_is_none_is_refused(tmp_path: Path) -> None:
    command = ["export-lm-eval", str(tmp_path / "out"), "--dataset"]
    with refused("holds no manual/test.*pass a folder that `pragworld-tasks dataset` wrote"):
        main([*command, str(tmp_path)])
    with refused("--dataset ./nowhere/else: no such folder, and not a name on the Hub"):
        main([*command, "./nowhere/else"])
    assert not (tmp_path / "out").exists()


def test_the_dataset_may_be_one_of_the_hub(tmp_path: Path) -> None:
    main(["export-lm-eval", str(tmp_path / "out"), "--dataset", "me/mine"])
    assert 'dataset_path: "me/mine"' in (tmp_path / "out" / "_pragworld.yaml").read_text()
