"""Submissions to the sites of others: what they say equals the run, and their formats hold."""

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from board_sites import likelier, make_run
from command_runs import refused
from hub_dataset import dataset_files
from huggingface_hub import EvalResult, ModelCard, parse_eval_result_entries
from pandas import Series
from places import SAMPLES

from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.responses import Predictions
from pragworld_tasks.evaluation.run_record import EnvironmentRecord, ModelRecord, RunKind
from pragworld_tasks.files import write_json
from pragworld_tasks.leaderboard.boards import BoardRun
from pragworld_tasks.leaderboard.every_eval_ever import RELATIONSHIPS, every_eval_ever_files
from pragworld_tasks.leaderboard.hub import card_with_results, hub_results
from pragworld_tasks.leaderboard.submission import Submission, to_submissions

DATASET = "someone/pragworld"
EVALUATOR = "third_party:A lab"
GENERATED = generate_documents(groups=3, seed=5)
DOCUMENTS = read_split("manual", SAMPLES / FILES["manual"].path)
MODEL = ModelRecord(name="someone/model", dtype="bfloat16", chat_template=True, parameters=1000)
ENVIRONMENT = {
    "backend": "hf",
    "model_args": {"pretrained": "someone/model", "max_length": 2048},
    "generation": {"temperature": 0.5, "max_gen_toks": 1024, "do_sample": True},
    "date": "2026-01-02T03:04:05+00:00",
}


def to_run(
    documents: Sequence[Document] = DOCUMENTS,
    answers: Predictions | None = None,
    source: RunKind = "lm-eval",
    model: ModelRecord = MODEL,
    **changes: Any,
) -> BoardRun:
    """A run with right answers but for every third; to row 4 none, to row 5 nothing readable."""
    responses: list[str | None] = [
        document.answer if document.row % 3 else {"yes": "No.", "no": "Yes."}[document.answer]
        for document in documents
    ]
    responses[4:6] = [None, "Perhaps <script>"]
    settings = {**ENVIRONMENT, "task": f"pragworld_{documents[0].split}", **changes}
    ran = {"environment": EnvironmentRecord(**settings)} if source == "lm-eval" else {}
    return make_run("the run", documents, answers or responses, model, source=source, **ran)


def submitted(run: BoardRun, *arguments: Any) -> Submission:
    (submission,) = to_submissions([run], *arguments)
    return submission


def published() -> Submission:
    """A released run: only its answers are known."""
    answers = to_run().record.answers
    known = Predictions([answer.model_copy(update={"response": None}) for answer in answers])
    run = to_run(answers=known, source="published", model=ModelRecord(name="gpt-3.5-turbo"))
    return submitted(run, "openai/gpt-3.5-turbo", datetime(2025, 11, 17))


def by_label() -> BoardRun:
    """A run that chose the likelier label; at row 2 both are as likely."""
    yes = [(0.25, 0.9, 0.5, 0.75)[row % 4] for row in range(len(DOCUMENTS))]
    return to_run(answers=likelier(yes), task="pragworld_manual_mc", generation={})


def test_hub_results_round_trip_through_huggingface_hub() -> None:
    submission = submitted(to_run(), None, None, "https://example.org/runs")
    content = yaml.safe_load(hub_results([submission], DATASET))
    by_task = {entry.task_id: entry for entry in parse_eval_result_entries(content)}
    tasks = yaml.safe_load(dataset_files({"manual": DOCUMENTS}, DATASET)["eval.yaml"])["tasks"]
    assert by_task.keys() == {task["id"] for task in tasks}
    for metric in ("robust_acc", "acc"):
        share, entry = submission.run.report.metrics[metric], by_task[f"pragworld_manual_{metric}"]
        assert entry.dataset_id == DATASET
        assert entry.value == pytest.approx(100 * share.right / share.total, abs=0.005)
        assert entry.date == ENVIRONMENT["date"]
        assert entry.source_url == "https://example.org/runs"
        assert f"{share.right} of {share.total}; 95 % interval {share.low:.2f}" in str(entry.notes)


def test_released_runs_are_marked_as_the_papers() -> None:
    for entry in yaml.safe_load(hub_results([published()], DATASET)):
        assert entry["source"]["url"] == "https://arxiv.org/abs/2511.13021"
        assert "PragWorld paper" in entry["source"]["name"]
    (content,) = map(json.loads, every_eval_ever_files(published(), None).values())
    assert content["source_metadata"]["source_type"] == "documentation"
    assert content["source_metadata"]["additional_details"]["source_url"].endswith("2511.13021")
    assert "detailed_evaluation_results" not in content  # no responses are known


@pytest.fixture
def record(sample_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write_json(Path("record.json"), to_run().record.to_json())
    return "record.json"


CARD = """---
license: mit
model-index: [{name: Model, results: [{task: {type: text-generation}, dataset: {name: Beans,
  type: beans}, metrics: [{type: accuracy, value: 0.9}]}]}]
---
# A model

\ttab, ünïcode
"""


def test_a_card_keeps_its_text_and_other_results(tmp_path: Path) -> None:
    path, run = tmp_path / "README.md", to_run()
    path.write_text(CARD)
    merged = card_with_results(path, [submitted(run)], DATASET).decode()
    assert merged.endswith(CARD.split("---\n")[-1])
    data: Any = ModelCard(merged).data
    assert (data.license, data.model_name) == ("mit", "Model")
    results: list[EvalResult] = data.eval_results
    values = {result.metric_type: result.metric_value for result in results}
    assert values["accuracy"] == 0.9
    assert values["robust_acc"] == round(run.report.metrics["robust_acc"].percent, 2)
    path.write_text(merged)
    assert card_with_results(path, [submitted(run)], DATASET).decode() == merged  # not repeated
    label = submitted(to_run(task="pragworld_manual_label"))
    more: Any = ModelCard(card_with_results(path, [label], DATASET).decode()).data
    assert len(more.eval_results) == 2 * len(results) - 1


def aggregate_and_samples(submission: Submission) -> tuple[Any, list[Any]]:
    files = every_eval_ever_files(submission, EVALUATOR)
    *samples, aggregate = (files[path].splitlines() for path in files)
    lines = [json.loads(line) for part in samples for line in part]
    return json.loads(b"".join(aggregate)), lines


def test_every_eval_ever_files_fit_its_schemas() -> None:
    folder = Path(__file__).with_name("every_eval_ever")
    names = ("eval.schema.json", "instance_level_eval.schema.json")
    contents = [json.loads((folder / name).read_text()) for name in names]
    aggregates, instances = map(jsonschema.Draft7Validator, contents)
    assert [content["version"] for content in contents] == ["0.3.0", "0.3.0"]
    for submission in (published(), *to_submissions([to_run(), by_label(), to_run(GENERATED)])):
        aggregate, samples = aggregate_and_samples(submission)
        aggregates.validate(aggregate)
        for sample in samples:
            instances.validate(sample)
    source = contents[0]["properties"]["source_metadata"]["properties"]
    assert tuple(source["evaluator_relationship"]["enum"]) == RELATIONSHIPS


def test_metrics_of_every_eval_ever_follow_from_its_samples() -> None:
    submission = submitted(to_run())
    files = every_eval_ever_files(submission, EVALUATOR)
    assert every_eval_ever_files(submission, EVALUATOR) == files
    aggregate, samples = aggregate_and_samples(submission)
    details = aggregate["detailed_evaluation_results"]
    assert Path(details["file_path"]).parts[:4] == ("data", "pragworld", "someone", "model")
    assert details["checksum"] == hashlib.sha256(files[Path(details["file_path"])]).hexdigest()
    assert details["total_rows"] == len(samples) == len(DOCUMENTS)
    assert {sample["evaluation_id"] for sample in samples} == {aggregate["evaluation_id"]}
    scores = {
        result["metric_config"]["metric_name"]: result["score_details"]
        for result in aggregate["evaluation_results"]
    }
    right = [sample["evaluation"]["is_correct"] for sample in samples]
    assert scores["acc"]["score"] == sum(right) / len(right)
    groups = [sample["metadata"]["group"] for sample in samples]
    assert scores["robust_acc"]["score"] == Series(right).groupby(groups).all().mean()
    share = submission.run.report.metrics["acc"]
    interval = scores["acc"]["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == (share.low / 100, share.high / 100)
    assert scores["acc"]["uncertainty"]["standard_error"]["value"] == share.stderr / 100
    assert [samples[row]["output"]["raw"] for row in (4, 5)] == [[], ["Perhaps <script>"]]
    assert samples[5]["answer_attribution"][0]["extracted_value"] == ""
    generation = aggregate["evaluation_results"][0]["generation_config"]
    assert generation["generation_args"] == {"temperature": 0.5, "max_tokens": 1024}


def test_the_likelier_label_is_the_output() -> None:
    _, samples = aggregate_and_samples(submitted(by_label()))
    assert samples[3]["output"]["raw"] == ["yes"]
    assert samples[3]["metadata"]["probability_of_yes"] == "0.75"
    assert samples[2]["answer_attribution"][0]["extracted_value"] == ""


def test_a_card_is_replaced_and_files_get_folders(record: str) -> None:
    Path("README.md").write_text(CARD)
    main(["submit", record, "--to", "model-card", "--out", ".", "--overwrite"])
    assert "robust_acc" in Path("README.md").read_text()
    main(["submit", record, "--to", "every-eval-ever", "--evaluator", EVALUATOR, "--out", "new"])
    assert {path.suffix for path in Path("new/data").rglob("*.json*")} == {".json", ".jsonl"}


CARD_COMMAND = "submit record.json --to model-card --overwrite --out"


@pytest.mark.parametrize(
    ("command", "metadata", "line"),
    [
        ("board --out", "", "name runs, or pass --demo"),
        ("submit record.json --to every-eval-ever --out", "", "--evaluator RELATIONSHIP:NAME, where"),
        ("submit record.json --to leaderboard --out", "", "no samples of lm-eval; pass the folder that"),
        ("submit record.json --to model-card --out", "license: mit", "README.md exists; pass --over"),
        (CARD_COMMAND, "license: [", "README.md: metadata that cannot be read: "),
        (CARD_COMMAND, "model-index: [{name: a, results: []}, {name: b, results: []}]",
         "README.md: model-index has several models"),
    ],
)  # fmt: skip
def test_commands_that_are_refused(record: str, command: str, metadata: str, line: str) -> None:
    out = Path("out")
    if metadata:
        out.mkdir()
        (out / "README.md").write_text(f"---\n{metadata}\n---\n# A model\n")
    with refused(line):
        main([*command.split(), "out"])
    assert bool(metadata) is out.exists()


@pytest.mark.parametrize(
    ("runs", "model", "line"),
    [
        ([to_run(source="readings")], None, "not what a model answers; submit a run of the model as it"),
        ([to_run(source="responses")], None, "not a name by which others find the model; pass --model"),
        ([to_run()], "a/../b", "a/../b: not a name by which others find the model"),
        ([to_run(), to_run(model=ModelRecord(name="someone/other"))], None,
         "the runs are of someone/model, someone/other on .*; submit one model"),
        ([to_run(), to_run()], None, "on pragworld_manual, pragworld_manual; submit .* one run of each"),
        ([by_label()], None, "the dataset's eval.yaml has no task pragworld_manual_mc"),
    ],
)  # fmt: skip
def test_runs_that_are_refused(runs: list[BoardRun], model: str | None, line: str) -> None:
    with pytest.raises(InputError, match=line):
        hub_results(to_submissions(runs, model), DATASET)
