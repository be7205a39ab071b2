"""The real lm_eval command on the released files, with a small Hugging Face model made here."""

import json
from pathlib import Path

import pytest
from lm_eval_runs import LmEval, assert_table_is_score

from pragworld_tasks.evaluation.answers import read_answer_released

TASKS = ("pragworld_manual", "pragworld_manual_mc", "pragworld_entity_tracking")


def test_tasks_give_the_figures_of_their_samples(
    lm_eval: LmEval, model_arguments: tuple[str, ...], released: Path
) -> None:
    arguments = ("--tasks", ",".join(TASKS), "--log_samples")
    evaluation = lm_eval(*model_arguments, *arguments, data=released)
    assert evaluation.returncode == 0, evaluation.log
    for task in TASKS:
        assert_table_is_score(evaluation, task, released)
        if not task.endswith("_mc"):
            responses = [sample["filtered_resps"][0] for sample in evaluation.samples(task)]
            # Else this test would show little.
            assert {read_answer_released(response) for response in responses} == {"yes", "no", None}
        for line in evaluation.samples_file(task).read_text().splitlines():
            json.loads(line, parse_constant=lambda constant: pytest.fail(constant))
