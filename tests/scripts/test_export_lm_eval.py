"""The tasks as a folder of lm-eval's own: the same prompts, answers and metrics without pragworld."""

import importlib.util
import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import export_lm_eval
import hub_dataset
import pytest
from command_runs import run_program
from datasets import load_dataset
from lm_eval_runs import Evaluation, assert_table_is_score
from places import ROOT, SAMPLES

from pragworld_tasks.data import prompts
from pragworld_tasks.data.documents import ReleasedSplit
from pragworld_tasks.data.sources import FILES, is_released, read_split
from pragworld_tasks.evaluation import answers, task_metrics
from pragworld_tasks.files import read_package_toml

TASKS = (
    *("pragworld_manual", "pragworld_manual_mc", "pragworld_synthetic_mc"),
    "pragworld_entity_tracking_mc",
)
SPLITS: list[ReleasedSplit] = [split for split in FILES if is_released(split)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The task folder, beside the dataset that it names."""
    folder = tmp_path_factory.mktemp("export")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(SAMPLES))
        hub_dataset.main(["--out", str(folder / "data")])
    export_lm_eval.main([str(folder / "pragworld"), "--dataset", str(folder / "data")])
    return folder / "pragworld"


@pytest.fixture(scope="module")
def utilities(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("exported_utils", folder / "utils.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("split", SPLITS)
def test_documents_prompts_and_metrics_are_ours(
    folder: Path, utilities: ModuleType, tmp_path: Path, split: ReleasedSplit
) -> None:
    """Random answers get the same items and the same metrics from both."""
    dataset = load_dataset(
        str(folder.parent / "data"), split, split="test", cache_dir=str(tmp_path)
    )
    records = utilities.process_docs(dataset).to_list()
    ours = task_metrics.data_set_rows(read_split(split, SAMPLES / FILES[split].path))
    draw = random.Random(0)
    theirs, items = [], []
    for record, our_record in zip(records, ours, strict=True):
        assert {key: record[key] for key in our_record} == our_record
        for prompt in ("evaluation_prompt", "label_prompt"):
            assert getattr(utilities, prompt)(record) == getattr(prompts, prompt)(our_record)
        response = [draw.choice(["(Yes)", "No, because", "Answer: yes", "Perhaps"])]
        theirs.append(utilities.score_response(record, response))
        items.append(task_metrics.score_response(our_record, response))
    assert theirs == items
    for metric in items[0]:
        kind = "robust_share" if metric.startswith("robust") else "share"
        aggregation = kind + "_stderr" * metric.endswith("_stderr")
        for last in (None, len(items) // 2):  # a whole split, and one that is cut off
            values: list[Any] = [
                getattr(module, aggregation)([item[metric] for item in of_module[:last]])
                for module, of_module in ((utilities, theirs), (task_metrics, items))
            ]
            assert values[0] == values[1]
    likelihoods = [(-1.5, False), (-0.5, False)]
    assert utilities.score_likelihoods(records[0], likelihoods) == task_metrics.score_likelihoods(
        ours[0], likelihoods
    )


def test_answers_are_read_alike(utilities: ModuleType) -> None:
    phrases = read_package_toml("pragworld_tasks.evaluation", "answer_phrases.toml")
    assert phrases == utilities._PHRASES
    for path in sorted((ROOT / "tests" / "answers").glob("yes_no_*.jsonl")):
        for line in path.read_text().splitlines():
            response = json.loads(line)["response"]
            for reader in ("read_answer", "read_answer_released"):
                assert getattr(utilities, reader)(response) == getattr(answers, reader)(response)


def test_lm_eval_without_pragworld_gives_our_figures(
    folder: Path, model_arguments: tuple[str, ...], tmp_path: Path
) -> None:
    arguments = [*model_arguments, "--tasks", ",".join(TASKS), "--log_samples"]
    arguments += ["--include_path", str(folder), "--output_path", str(tmp_path / "out")]
    script = Path(__file__).with_name("lm_eval_without_pragworld.py")
    process = run_program("python", script, *arguments, HF_DATASETS_CACHE=str(tmp_path / "cache"))
    for task in TASKS:
        assert_table_is_score(Evaluation(process, tmp_path / "out"), task, SAMPLES)
