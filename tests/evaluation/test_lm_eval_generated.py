"""Test the real lm_eval command on generated dialogues, with the model `pragworld-tiny`."""

import json

import pytest
from lm_eval_runs import Evaluation, LmEval, metrics_of

from pragworld_tasks.data.prompts import conventions_prompt, evaluation_prompt, label_prompt
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings, TrackingSettings
from pragworld_tasks.dialogues.tracking import tracking_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.evaluation.runs import find_runs
from pragworld_tasks.evaluation.task_metrics import TURNS_METRICS
from pragworld_tasks.tiny import tiny_folder

SETTINGS = GeneratorSettings(groups=8, seed=7)
TRACKING_SETTINGS = TrackingSettings(groups=8, seed=7)
PROMPTS = {
    "pragworld_generated": evaluation_prompt,
    "pragworld_generated_conventions": conventions_prompt,
    "pragworld_generated_label": label_prompt,
    "pragworld_generated_mc": label_prompt,
}
TRACKING = ("pragworld_generated_entity_tracking", "pragworld_generated_entity_tracking_mc")
TASKS = (*PROMPTS, *TRACKING)


@pytest.fixture(scope="module")
def fresh(lm_eval: LmEval) -> Evaluation:
    return lm_eval(
        "--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "64",
        "--tasks", "pragworld_generated_written,pragworld_generated_likelihood", "--log_samples",
        "--metadata", json.dumps({"seed": SETTINGS.seed, "groups": SETTINGS.groups}),
    )  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
def test_metadata_and_prompts_reach_the_model_and_the_table_follows_from_its_answers(
    fresh: Evaluation, task: str
) -> None:
    made = documents(generate(SETTINGS))
    if task in TRACKING:
        made = tracking_documents(TRACKING_SETTINGS)
    predictions = read_predictions(fresh.samples_file(task))
    assert predictions.logged == list(made)
    prompt = PROMPTS.get(task, label_prompt)
    for sample in fresh.samples(task):
        assert sample["arguments"]["gen_args_0"]["arg_0"] == prompt(sample["doc"])
    expected, shown = metrics_of(predictions.logged, predictions), fresh.metrics(task)
    assert {name: shown[name] for name in expected} == expected


@pytest.mark.parametrize("task", TRACKING)
def test_accuracy_is_broken_down_by_turns_ago(fresh: Evaluation, task: str) -> None:
    by_turns: dict[int | None, list[bool]] = {}
    predictions = read_predictions(fresh.samples_file(task))
    for document, answer in zip(predictions.logged or (), predictions.ours, strict=True):
        by_turns.setdefault(document.turns_ago, []).append(answer == document.answer)
    shown = fresh.metrics(task)
    for name, turns in TURNS_METRICS.items():
        correct = [item for turn, items in by_turns.items() if turn in turns for item in items]
        assert shown[name] == pytest.approx(sum(correct) / len(correct))


def test_perplexity_is_no_run_of_answers(fresh: Evaluation) -> None:
    samples = fresh.samples_file("pragworld_generated_perplexity")
    with pytest.raises(InputError, match="does not answer each question once"):
        find_runs([str(samples)], None)
    tasks = {run.name.partition("/")[2] for run in find_runs([str(samples.parent)], "generated")}
    assert tasks == {*PROMPTS}
