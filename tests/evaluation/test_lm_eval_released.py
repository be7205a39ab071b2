"""The real lm_eval command on the released files, with a small Hugging Face model made here."""

import json
from pathlib import Path

import pytest
from lm_eval_runs import Evaluation, LmEval, assert_table_is_score

from pragworld_tasks.evaluation.answers import read_answer_released

TASKS = ("pragworld_manual", "pragworld_manual_mc", "pragworld_entity_tracking")
ARGUMENTS = ("--tasks", ",".join(TASKS), "--log_samples")


@pytest.fixture(scope="module")
def evaluation(lm_eval: LmEval, model_arguments: tuple[str, ...], released: Path) -> Evaluation:
    """All tasks by one process."""
    return lm_eval(*model_arguments, *ARGUMENTS, data=released)


@pytest.mark.parametrize("task", TASKS)
def test_tasks_give_the_figures_of_their_samples(
    evaluation: Evaluation, released: Path, task: str
) -> None:
    assert evaluation.returncode == 0, evaluation.log
    assert_table_is_score(evaluation, task, released)
    if not task.endswith("_mc"):
        responses = [sample["filtered_resps"][0] for sample in evaluation.samples(task)]
        # Else this test would show little.
        assert {read_answer_released(response) for response in responses} == {"yes", "no", None}


def test_two_processes_give_the_result_of_one(
    evaluation: Evaluation,
    lm_eval: LmEval,
    model_arguments: tuple[str, ...],
    released: Path,
    long_runs: None,
) -> None:
    two = lm_eval(*model_arguments, *ARGUMENTS, data=released, two_processes=True)
    assert two.returncode == 0, two.log
    for task in TASKS:
        assert two.metrics(task) == pytest.approx(evaluation.metrics(task))
        assert [sample["doc"] for sample in two.samples(task)] == [
            sample["doc"] for sample in evaluation.samples(task)
        ]


def test_samples_are_json_without_what_json_lacks(evaluation: Evaluation) -> None:
    for task in TASKS:
        for line in evaluation.samples_file(task).read_text().splitlines():
            json.loads(line, parse_constant=lambda constant: pytest.fail(constant))
