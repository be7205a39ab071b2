"""The real lm_eval command on our tasks, with a small Hugging Face model made here."""

import re
from pathlib import Path

import pytest
from lm_eval_runs import Evaluation, LmEval, assert_table_is_score, documents_of
from places import SAMPLES

from pragworld_tasks.data.prompts import conventions_prompt, evaluation_prompt, label_prompt
from pragworld_tasks.link import task_files
from pragworld_tasks.sensitivity.open_questions import questions

PAPER = ("pragworld_manual", "pragworld_synthetic", "pragworld_entity_tracking")
TASKS = [task + kind for kind in ("", "_label", "_mc") for task in PAPER]


@pytest.fixture(scope="module")
def all_groups(lm_eval: LmEval, model_arguments: tuple[str, ...]) -> Evaluation:
    """All three groups on the samples, without a chat template, by lm_eval's whole index."""
    groups = "pragworld,pragworld_label,pragworld_mc"
    return lm_eval(*model_arguments, "--tasks", groups, "--log_samples", whole_index=True)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_puts_its_prompt_and_gives_the_figures_of_its_samples(
    all_groups: Evaluation, task: str
) -> None:
    assert_table_is_score(all_groups, task, SAMPLES)
    prompt = evaluation_prompt if task in PAPER[:2] else label_prompt
    for document, sample in zip(documents_of(task, SAMPLES), all_groups.samples(task), strict=True):
        context, request = sample["arguments"]["gen_args_0"].values()
        assert context == prompt(document)
        if task.endswith("_mc"):
            assert request == " yes"
        else:
            greedy = {"do_sample": False, "temperature": 0.0}
            assert request == {**greedy, "max_gen_toks": 200, "until": ["</s>"]}


def test_groups_average_over_splits(all_groups: Evaluation) -> None:
    for kind in ("", "_label", "_mc"):
        average = all_groups.metrics(f"pragworld{kind}")
        for metric in ("acc", "yes_acc", "no_acc", "unreadable"):
            values = [all_groups.metrics(task + kind)[metric] for task in PAPER]
            assert average[metric] == pytest.approx(sum(values) / 3)


def test_chat_template(lm_eval: LmEval, model_arguments: tuple[str, ...]) -> None:
    prompts = {
        "pragworld_manual": evaluation_prompt,
        "pragworld_manual_conventions": conventions_prompt,
        "pragworld_manual_label": label_prompt,
        "pragworld_manual_mc": label_prompt,
    }
    evaluation = lm_eval(
        *model_arguments, "--tasks", ",".join(prompts), "--apply_chat_template", "--log_samples"
    )
    unreadable = [evaluation.metrics(task)["unreadable"] for task in [*prompts][:3]]
    warned = re.findall(
        r"(\d+) of 10 responses .* have no readable .* max_gen_toks", evaluation.log
    )
    assert sorted(map(int, warned)) == sorted(round(10 * part) for part in unreadable if part) != []
    document = documents_of("pragworld_manual", SAMPLES)[0]
    for task, prompt in prompts.items():
        assert_table_is_score(evaluation, task, SAMPLES)
        sent = evaluation.samples(task)[0]["arguments"]["gen_args_0"]
        assert sent["arg_0"] == f"<s><|user|>{prompt(document)}<|end|><|assistant|>"
    assert sent["arg_1"] == "yes"  # behind a chat template, without the space


def test_metrics_without_documents_are_not_available(lm_eval: LmEval, tmp_path: Path) -> None:
    """With one document a task, most metrics cover none. The results are JSON all the same."""
    for path in task_files():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "both.yaml").write_text(
        "group: both\ntask: [pragworld_generated, pragworld_generated_mc]\n"
        "aggregate_metric_list: [{metric: acc}, {metric: robust_acc}, {metric: altered_acc}]\n"
    )
    groups = ("both", "pragworld", "pragworld_mc", "world_model_small")
    tasks = (*groups, "pragworld_generated_entity_tracking", "pragworld_manual_articulation")
    evaluation = lm_eval(
        *("--model", "dummy", "--tasks", ",".join(tasks), "--limit", "1"),
        *(
            "--include_path",
            str(tmp_path),
            "--metadata",
            '{"groups": 2, "seed": 2}',
            "--log_samples",
        ),
    )
    assert set(evaluation.results["groups"]) >= {*groups, "world_model_travel"}
    of_group = evaluation.metrics("both")
    assert isinstance(of_group["acc"], float)
    assert of_group["robust_acc"] == of_group["robust_acc_stderr"] == "N/A"
    assert of_group["altered_acc"] == "N/A"
    for name in ("yes_acc", "no_acc"):
        values = [evaluation.metrics(task)[name] for task in PAPER]
        assert (evaluation.metrics("pragworld")[name] == "N/A") == ("N/A" in values)
    assert "N/A" in values
    tracking = evaluation.metrics("pragworld_generated_entity_tracking")
    assert [tracking[name] for name in tracking if name.endswith("_ago")].count("N/A") == 3  # of 4
    assert evaluation.metrics("pragworld_manual_articulation")["robust_acc"] == "N/A"
    for task in (f"world_model_{name}" for name in questions()):
        assert evaluation.metrics(task)["ps"] == "N/A"
        assert [len(sample["resps"][0]) for sample in evaluation.samples(task)] == [10]
    assert re.search(r"robust_acc *\|↑ *\|N/A *\|± *\| *N/A", evaluation.stdout)


def test_data_that_cannot_be_had_is_one_line(
    lm_eval: LmEval, model_arguments: tuple[str, ...], tmp_path: Path
) -> None:
    task = ("--tasks", "pragworld_manual")
    evaluation = lm_eval(*model_arguments, *task, data=tmp_path / "none", status=1)
    assert "Traceback" not in evaluation.log
    assert evaluation.log.splitlines()[-1].endswith("none: no such folder; correct or unset it")


def test_two_processes_give_the_result_of_one(
    lm_eval: LmEval, all_groups: Evaluation, model_arguments: tuple[str, ...]
) -> None:
    tasks = ("pragworld_manual", "pragworld_manual_mc", "pragworld_entity_tracking")
    two = lm_eval(*model_arguments, "--tasks", ",".join(tasks), "--log_samples", two_processes=True)
    for task in tasks:
        assert two.metrics(task) == pytest.approx(all_groups.metrics(task), nan_ok=True)
        assert len(two.samples(task)) == len(all_groups.samples(task))
