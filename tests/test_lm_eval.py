"""The real lm_eval command on our tasks, with a small Hugging Face model made here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SAMPLES, Evaluation, LmEval

from pragworld_tasks.answers import read_answer, read_answer_released
from pragworld_tasks.documents import Document, Split
from pragworld_tasks.harness import PUBLISHED
from pragworld_tasks.metrics import tallies
from pragworld_tasks.prompts import evaluation_prompt, label_prompt
from pragworld_tasks.responses import read_predictions
from pragworld_tasks.scoring import shown_tallies, to_released_run, to_run
from pragworld_tasks.sources import FILES

PAPER = ("pragworld_manual", "pragworld_synthetic", "pragworld_entity_tracking")
TWO_PROCESSES = (
    *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
    str(ROOT / "tests" / "lm_eval_parallel.py"),
)
TASKS = [task + kind for kind in ("", "_label", "_mc") for task in PAPER]


def split_of(task: str) -> Split:
    for split in FILES:
        if task.startswith(f"pragworld_{split}"):
            return split
    raise AssertionError(task)


def documents_of(task: str, folder: Path) -> list[Document]:
    file = FILES[split_of(task)]
    return file.read(folder / file.path)


@pytest.fixture(scope="module")
def model_arguments(tiny_model: Path) -> tuple[str, ...]:
    return "--model", "hf", "--model_args", f"pretrained={tiny_model}", "--batch_size", "64"


@pytest.fixture(scope="module")
def all_groups(lm_eval: LmEval, model_arguments: tuple[str, ...]) -> Evaluation:
    """All three groups on the samples, without a chat template."""
    groups = "pragworld,pragworld_label,pragworld_mc"
    return lm_eval(*model_arguments, "--tasks", groups, "--log_samples")


def assert_table_is_score(evaluation: Evaluation, task: str, folder: Path) -> None:
    """lm-eval's figures are those of the answers in lm-eval's own samples, put together by us."""
    documents = documents_of(task, folder)
    predictions = read_predictions(evaluation.samples_file(task), documents)
    expected = shown_tallies(to_run(documents, predictions.ours), split_of(task))
    if split_of(task) == "manual":
        published = tallies(to_released_run(documents, predictions.released))
        expected |= {f"{name}_published": published[name] for name in PUBLISHED}
    shown = evaluation.metrics(task)
    for name, one in expected.items():
        assert shown.pop(name) == pytest.approx(one.share, nan_ok=True)
        assert shown.pop(f"{name}_stderr") == pytest.approx(one.standard_error, nan_ok=True)
        shown.pop(f"{name}_stderr_stderr", None)  # lm-eval's own N/A
    assert shown == {}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_gives_the_figures_of_its_samples(all_groups: Evaluation, task: str) -> None:
    assert all_groups.returncode == 0, all_groups.log
    assert_table_is_score(all_groups, task, SAMPLES)


@pytest.mark.parametrize("task", TASKS)
def test_prompts_reach_the_model_as_they_are(all_groups: Evaluation, task: str) -> None:
    prompt = evaluation_prompt if task in PAPER[:2] else label_prompt
    for document, sample in zip(documents_of(task, SAMPLES), all_groups.samples(task), strict=True):
        context, request = sample["arguments"]["gen_args_0"].values()
        assert context == prompt({"context": document.context, "question": document.question})
        if task.endswith("_mc"):
            assert request == " yes"
        else:
            greedy = {
                "do_sample": False,
                "temperature": 0.0,
                "max_gen_toks": 200,
                "until": ["</s>"],
            }
            assert request == greedy


def test_the_generated_label_is_the_likelier_one(all_groups: Evaluation) -> None:
    for task in ("pragworld_manual", "pragworld_entity_tracking"):
        written = all_groups.samples(f"{task}_label")
        likelier = all_groups.samples(f"{task}_mc")
        for one, other in zip(written, likelier, strict=True):
            answer = read_answer(one["filtered_resps"][0])
            yes, no = (float(value) for value, _ in other["filtered_resps"])
            assert answer in (None, "yes" if yes > no else "no")


def test_groups_average_over_splits(all_groups: Evaluation) -> None:
    for kind in ("", "_label", "_mc"):
        average = all_groups.metrics(f"pragworld{kind}")
        for metric in ("acc", "yes_acc", "no_acc", "unreadable"):
            values = [all_groups.metrics(task + kind)[metric] for task in PAPER]
            assert average[metric] == pytest.approx(sum(values) / 3)
            errors = [all_groups.metrics(task + kind)[f"{metric}_stderr"] for task in PAPER]
            combined = sum(error**2 for error in errors) ** 0.5 / 3
            assert average[f"{metric}_stderr"] == pytest.approx(combined)


def test_multiple_choice_takes_one_forward_pass_a_document(tiny_model: Path) -> None:
    """Yes and no are single tokens behind the same prompt, which lm-eval then runs once."""
    script = f"""
import os
os.environ["PRAGWORLD_DATA"] = {str(SAMPLES)!r}
from lm_eval.models.huggingface import HFLM
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
model = HFLM(pretrained={str(tiny_model)!r}, batch_size=1, device="cpu")
rows = []
model.model.register_forward_pre_hook(lambda _, args, kwargs: rows.append(len(args[0])), with_kwargs=True)
tasks = TaskManager(include_path={str(ROOT / "task_configs")!r}, include_defaults=False)
simple_evaluate(model=model, tasks=["pragworld_manual_mc"], task_manager=tasks, bootstrap_iters=0)
print("rows", sum(rows))
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "rows 10" in process.stdout


def test_chat_template(lm_eval: LmEval, model_arguments: tuple[str, ...]) -> None:
    tasks = "pragworld_manual,pragworld_manual_label,pragworld_manual_mc"
    evaluation = lm_eval(
        *model_arguments, "--tasks", tasks, "--apply_chat_template", "--log_samples"
    )
    assert evaluation.returncode == 0, evaluation.log
    document = documents_of("pragworld_manual", SAMPLES)[0]
    content = {"context": document.context, "question": document.question}
    for task in tasks.split(","):
        assert_table_is_score(evaluation, task, SAMPLES)
        prompt = evaluation_prompt if task == "pragworld_manual" else label_prompt
        sent = evaluation.samples(task)[0]["arguments"]["gen_args_0"]
        assert sent["arg_0"] == f"<s><|user|>{prompt(content)}<|end|><|assistant|>"
    assert sent["arg_1"] == "yes"  # behind a chat template, without the space


def test_a_limit_leaves_out_the_groups_that_it_cuts(
    lm_eval: LmEval, model_arguments: tuple[str, ...]
) -> None:
    evaluation = lm_eval(
        *model_arguments, "--tasks", "pragworld_manual_mc", "--limit", "6", "--log_samples"
    )
    assert evaluation.returncode == 0, evaluation.log
    assert "robust accuracy is over 1 whole groups; 1 more lack documents" in evaluation.log
    samples = evaluation.samples("pragworld_manual_mc")
    assert len(samples) == 6
    first_group = [sample["acc"] for sample in samples[:4]]
    assert evaluation.metrics("pragworld_manual_mc")["robust_acc"] == float(all(first_group))


def test_few_shot_examples_are_refused(lm_eval: LmEval, model_arguments: tuple[str, ...]) -> None:
    evaluation = lm_eval(*model_arguments, "--tasks", "pragworld_manual", "--num_fewshot", "2")
    assert evaluation.returncode == 1
    assert "Traceback" not in evaluation.log
    last = evaluation.log.splitlines()[-1]
    assert last == "the pragworld tasks are zero-shot; leave out --num_fewshot 2"


def test_data_that_cannot_be_had_is_one_line(
    lm_eval: LmEval, model_arguments: tuple[str, ...], tmp_path: Path
) -> None:
    evaluation = lm_eval(*model_arguments, "--tasks", "pragworld_manual", data=tmp_path / "none")
    assert evaluation.returncode == 1
    assert "Traceback" not in evaluation.log
    assert evaluation.log.splitlines()[-1].endswith("none: no such folder; correct or unset it")


def test_predict_only(lm_eval: LmEval, model_arguments: tuple[str, ...]) -> None:
    tasks = "pragworld_manual,pragworld_manual_mc"
    evaluation = lm_eval(*model_arguments, "--tasks", tasks, "--predict_only")
    assert evaluation.returncode == 0, evaluation.log
    for task in tasks.split(","):
        documents = documents_of(task, SAMPLES)
        predictions = read_predictions(evaluation.samples_file(task), documents)
        assert len(predictions.ours) == 10


def test_two_processes_give_the_result_of_one(lm_eval: LmEval, tiny_model: Path) -> None:
    arguments = ("--model_args", f"pretrained={tiny_model}", "--batch_size", "64", "--log_samples")
    tasks = ("--tasks", "pragworld_manual,pragworld_manual_mc,pragworld_entity_tracking")
    two = lm_eval("--model", "hf-cpu-parallel", *arguments, *tasks, launcher=TWO_PROCESSES)
    assert two.returncode == 0, two.log
    one = lm_eval("--model", "hf", *arguments, *tasks)
    assert one.returncode == 0, one.log
    for task in tasks[1].split(","):
        assert two.metrics(task) == pytest.approx(one.metrics(task))
        assert len(two.samples(task)) == len(one.samples(task))


def test_tasks_groups_and_tags_are_listed() -> None:
    command = [sys.executable, "-m", "lm_eval", "ls", "tasks"]
    command += ["--include_path", str(ROOT / "task_configs")]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    listed = {cell.strip() for line in process.stdout.splitlines() for cell in line.split("|")}
    expected = {*TASKS, "pragworld", "pragworld_label", "pragworld_mc", "pragworld_all"}
    assert expected | {f"pragworld_{split}_all" for split in FILES} <= listed


# The released files -------------------------------------------------------------------------------

ON_RELEASED = (
    "pragworld_manual",
    "pragworld_manual_label",
    "pragworld_manual_mc",
    "pragworld_entity_tracking",
)


@pytest.fixture(scope="module")
def on_released(lm_eval: LmEval, model_arguments: tuple[str, ...], released: Path) -> Evaluation:
    tasks = ",".join(ON_RELEASED)
    return lm_eval(*model_arguments, "--tasks", tasks, "--log_samples", data=released)


@pytest.mark.parametrize("task", ON_RELEASED)
def test_tasks_on_the_released_files(on_released: Evaluation, released: Path, task: str) -> None:
    assert on_released.returncode == 0, on_released.log
    assert_table_is_score(on_released, task, released)
    answers = [read_answer_released(str(s["filtered_resps"][0])) for s in on_released.samples(task)]
    if not task.endswith("_mc"):
        assert set(answers) == {"yes", "no", None}  # else this test would show little


def test_two_processes_on_the_released_manual_split(
    on_released: Evaluation, lm_eval: LmEval, tiny_model: Path, released: Path
) -> None:
    arguments = ("--model", "hf-cpu-parallel", "--model_args", f"pretrained={tiny_model}")
    tasks = ("pragworld_manual", "pragworld_manual_mc")
    two = lm_eval(
        *arguments,
        "--batch_size",
        "64",
        "--tasks",
        ",".join(tasks),
        launcher=TWO_PROCESSES,
        data=released,
    )
    assert two.returncode == 0, two.log
    for task in tasks:
        assert two.metrics(task) == pytest.approx(on_released.metrics(task))


def test_samples_are_valid_json_without_what_json_lacks(on_released: Evaluation) -> None:
    for task in ON_RELEASED:
        for line in on_released.samples_file(task).read_text().splitlines():
            json.loads(line, parse_constant=lambda constant: pytest.fail(constant))
