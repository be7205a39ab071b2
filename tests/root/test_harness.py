"""What lm-eval calls, called as it calls it: items of single documents, aggregations of lists."""

import json
import pickle
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.tasks import TaskManager
from lm_eval_runs import metrics_of
from places import SAMPLES

from pragworld_tasks import harness
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.evaluation.responses import Predictions
from pragworld_tasks.evaluation.task_metrics import data_set_rows, unreadable_share
from pragworld_tasks.link import task_folder

DOCUMENTS = read_split("manual", SAMPLES / FILES["manual"].path)
RECORDS = data_set_rows(DOCUMENTS)
responses = st.lists(
    st.sampled_from(["(yes)", "No\nbecause", "hm", "yes or no", None]),
    min_size=len(DOCUMENTS),
    max_size=len(DOCUMENTS),
)


def load(name: str) -> Any:
    """A task as lm-eval makes it, on our samples."""
    folder = str(task_folder())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(SAMPLES))
        manager = TaskManager(include_path=folder, include_defaults=False, metadata={"groups": 1})
        task = manager.load([name])["tasks"][name]
        assert task.eval_docs  # lm-eval 0.5 makes them when they are asked for
        return task


AGGREGATION = load("pragworld_manual").aggregation()


@given(responses, st.randoms())
def test_items_in_any_order_give_the_metrics_of_the_run(
    answers: list[str | None], order: random.Random
) -> None:
    items = [harness.score_response(row, [one]) for row, one in zip(RECORDS, answers, strict=True)]
    order.shuffle(items)
    metrics = {metric: [item[metric] for item in items] for metric in items[0]}
    found = {metric: AGGREGATION[metric](values) for metric, values in metrics.items()}
    assert found == metrics_of(DOCUMENTS, Predictions.from_responses(answers))


@pytest.mark.parametrize(
    "split", ["manual", "synthetic", "entity_tracking", "generated", "generated_entity_tracking"]
)
def test_a_task_has_the_metrics_that_its_documents_have(split: str) -> None:
    task = load(f"pragworld_{split}")
    items = task.process_results(task.eval_docs[0], ["No"])
    assert set(task.aggregation()) == set(items) == set(task.higher_is_better())
    worse = {metric for metric, higher in task.higher_is_better().items() if not higher}
    assert worse == {"unreadable", *(metric for metric in items if metric.endswith("_stderr"))}


def test_data_set_is_documents_whatever_else_lm_eval_passes(sample_data: None) -> None:
    ignored = {"version": 1.0, "split": "other", "pretrained": "some/model"}
    documents = harness.split_dataset("manual", **ignored)["test"]
    assert list(documents) == RECORDS
    columns = {name: documents[0][name] for name in DOCUMENTS[0].to_dict()}
    assert Document(**columns) == DOCUMENTS[0]


def test_a_run_that_the_released_scoring_cannot_read_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ties = [harness.score_likelihoods(row, [(-1.0, False)] * 2)["unreadable"] for row in RECORDS]
    assert unreadable_share(ties, written=False) == 1  # as rounding in bfloat16 often makes them
    assert "dtype=float32" in caplog.text
    for response, words in (("The answer is no.", "reads 0 answers of the 10"), ("No.", "")):
        caplog.clear()
        items = [harness.score_response(record, [response])["unreadable"] for record in RECORDS]
        assert json.dumps(items) == json.dumps([0.0] * 10)
        assert unreadable_share(pickle.loads(pickle.dumps(items)), written=True) == 0
        assert words in caplog.text
        assert bool(words) == ("released scoring" in caplog.text)


def test_repeats_may_come_without_a_list_around_them() -> None:
    task = load("world_model_travel_commute")
    document, responses = task.eval_docs[0], ["9 minutes"] * 50
    items = task.process_results(document, [responses])
    assert task.process_results(document, responses) == items  # of lm-eval 0.5
    with pytest.raises(SystemExit, match="one response of travel_commute, not a list of all"):
        task.process_results(document, responses[:1])
