"""Submissions: what they say equals the run, their formats hold, and nothing leaks or is lost."""

import base64
import hashlib
import json
import os
import re
import sys
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import huggingface_hub.constants
import jsonschema
import pytest
import yaml
from command_runs import refused, run_command
from hub_dataset import dataset_files
from huggingface_hub import EvalResult, ModelCard, parse_eval_result_entries
from places import SAMPLES
from servers import JsonHandler, LocalServer

from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metric_texts import METRIC_TEXTS
from pragworld_tasks.evaluation.metrics import tallies
from pragworld_tasks.evaluation.responses import Predictions
from pragworld_tasks.evaluation.run_record import ModelRecord, RunRecord, to_record
from pragworld_tasks.evaluation.scoring import score
from pragworld_tasks.files import write_files
from pragworld_tasks.leaderboard.every_eval_ever import Evaluator, every_eval_ever_files
from pragworld_tasks.leaderboard.hub_results import hub_results
from pragworld_tasks.leaderboard.model_card import merge_into_card, merge_into_card_file
from pragworld_tasks.leaderboard.runs import BoardRun
from pragworld_tasks.leaderboard.site_folder import write_site
from pragworld_tasks.leaderboard.submission import Submission, to_submissions
from pragworld_tasks.leaderboard.submit_command import RELATIONSHIPS

TOKEN = "hf_never_shown_anywhere"
DATASET = "someone/pragworld"
EVALUATOR = Evaluator("A lab", "third_party", "https://example.org/runs")
MODEL = {
    "name": "someone/model",
    "dtype": "bfloat16",
    "chat_template": True,
    "parameters": 1000,
}
ENVIRONMENT = {
    "task": "pragworld_manual",
    "backend": "hf",
    "model_args": {
        "pretrained": "/models/someone",
        "max_length": 2048,
        "tokenizer": "/models/other",
    },
    "generation": {"temperature": 0.5, "max_gen_toks": 1024, "do_sample": True},
    "packages": {"lm_eval": "0.4.13", "transformers": "5.23.0"},
    "date": "2026-01-02T03:04:05+00:00",
}


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    """A few documents of the manual split."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(SAMPLES))
        return load_split("manual")


def to_run(
    documents: Sequence[Document],
    predictions: Predictions,
    source: str = "lm-eval",
    **changes: dict[str, Any],
) -> BoardRun:
    """A run with these answers; changes are to the record's model and environment."""
    record = to_record(score(documents, predictions), ModelRecord(name="answers.jsonl"))
    content = record.model_dump(mode="json") | {"source": source}
    if source == "lm-eval":
        content["model"] |= MODEL
        content["environment"] |= ENVIRONMENT | {"task": f"pragworld_{record.data.split}"}
    for part, new in changes.items():
        content[part] |= new
    changed = RunRecord.model_validate(content)
    return BoardRun("the run", changed, changed.report(documents))


def responses(documents: Sequence[Document]) -> list[str | None]:
    """Right answers but for every third; to row 4 none, and to row 5 nothing readable."""
    given: list[str | None] = [
        document.answer if document.row % 3 else {"yes": "No.", "no": "Yes."}[document.answer]
        for document in documents
    ]
    given[4:6] = [None, "Perhaps <script>"]
    return given


@pytest.fixture(scope="module")
def run(documents: list[Document]) -> BoardRun:
    return to_run(documents, Predictions.from_responses(responses(documents)))


@pytest.fixture(scope="module")
def submission(run: BoardRun) -> Submission:
    (only,) = to_submissions([run])
    return only


@pytest.fixture(scope="module")
def published(documents: list[Document]) -> Submission:
    """A released run: only its answers are known."""
    read = Predictions.from_responses(responses(documents))
    read = Predictions(read.ours, read.released)
    run = to_run(documents, read, "published", model={"name": "gpt-3.5-turbo"})
    (only,) = to_submissions([run], "openai/gpt-3.5-turbo", "2025-11-17")
    return only


# What is submitted --------------------------------------------------------------------------------


def test_every_metric_that_a_run_can_have_is_described(run: BoardRun) -> None:
    assert METRIC_TEXTS.keys() == tallies(run.report.run).keys()


def test_metrics_and_their_standard_errors_are_those_of_the_run(submission: Submission) -> None:
    metrics = {metric.name: metric for metric in submission.metrics()}
    report = submission.run.report
    for name, share in report.metrics.items():
        if share.total == 0:
            assert name not in metrics
            continue
        submitted = metrics[name].share
        assert (submitted.right, submitted.total) == (share.right, share.total)
        expected = tallies(report.run)[name].standard_error
        assert submitted.stderr == pytest.approx(100 * expected)
    assert metrics["robust_acc_published"].share.right == report.published["robust_acc"].right
    assert [name for name in metrics if metrics[name].lower_is_better] == [
        "unreadable",
        "unreadable_published",
    ]


@pytest.mark.parametrize(
    ("changes", "arguments", "expected"),
    [
        ({"source": "readings"}, (), "readings of the labels are no model's results; submit"),
        (
            {"environment": {"backend": "hf-ablated"}},
            (),
            "--model hf-ablated changes what the model computes, .* submit a run of --model hf",
        ),
        ({"source": "responses"}, (), "does not name its model; pass --model-name DEVELOPER/MODEL"),
        ({"model": {"name": str(SAMPLES)}}, (), ": a folder of one machine, .* --model-name"),
        ({"model": {"name": "gpt-4o"}}, (), "gpt-4o: does not name the model's developer; pass"),
        ({"model": {"adapter": "./out"}}, (), "./out: a folder of one machine"),
        ({}, ("model",), "--model-name model: not the name of a repository on a hub; it must"),
        ({}, ("a/../b",), "--model-name a/../b: not the name"),
        ({}, ("a/b", "2026-01-01"), "--date 2026-01-01: .* began at .*; leave out --date"),
        ({"environment": {"date": None}}, (None, "soon"), "--date soon: not a date; it must be"),
        ({}, (None, None, ["f1"]), "no metric 'f1'; choose from robust_acc, acc,"),
    ],
)
def test_what_cannot_be_submitted_is_refused_in_one_line(
    documents: list[Document], changes: Any, arguments: tuple[Any, ...], expected: str
) -> None:
    run = to_run(documents, Predictions.from_responses(responses(documents)), **changes)
    with pytest.raises(InputError, match=expected) as refusal:
        to_submissions([run], *arguments)[0].metrics()
    assert "\n" not in str(refusal.value)


def test_runs_of_several_models_or_of_one_task_are_refused(
    documents: list[Document], run: BoardRun
) -> None:
    other = to_run(
        documents,
        Predictions.from_responses(responses(documents)),
        model={"name": "someone/other"},
    )
    with pytest.raises(InputError, match=r"2 models \(someone/model, someone/other\); submit one"):
        to_submissions([run, other])
    with pytest.raises(InputError, match="2 runs of pragworld_manual; name one of them"):
        to_submissions([run, run])


def test_an_adapter_is_the_model_that_ran(documents: list[Document]) -> None:
    read = Predictions.from_responses(responses(documents))
    (submission,) = to_submissions([to_run(documents, read, model={"adapter": "me/adapter"})])
    assert submission.model == "me/adapter"
    *_, aggregate = every_eval_ever_files(submission, EVALUATOR).values()
    details = json.loads(aggregate)["model_info"]["additional_details"]
    assert details["base_model"] == "someone/model"


# Hub ----------------------------------------------------------------------------------------------


def test_hub_results_round_trip_through_huggingface_hub(submission: Submission) -> None:
    content = hub_results([submission], DATASET, "https://example.org/runs")
    entries = parse_eval_result_entries(yaml.safe_load(content))
    by_task = {entry.task_id: entry for entry in entries}
    assert len(by_task) == len(entries) == 2
    for metric in ("robust_acc", "acc"):
        share, entry = submission.record.metrics[metric], by_task[f"pragworld_manual_{metric}"]
        assert entry.dataset_id == DATASET
        assert entry.value == pytest.approx(100 * share.right / share.total, abs=0.005)
        assert entry.date == ENVIRONMENT["date"]
        assert entry.source_url == "https://example.org/runs"
        assert f"{share.right} of {share.total}; 95 % interval {share.low:.2f} to" in str(
            entry.notes
        )
    assert by_task["pragworld_manual_acc"].value == round(submission.run.report.acc, 2)


def test_every_submitted_task_is_one_of_the_datasets_eval_yaml(
    documents: list[Document], submission: Submission
) -> None:
    described = yaml.safe_load(dataset_files({"manual": documents}, DATASET)["eval.yaml"])
    submitted = yaml.safe_load(hub_results([submission], DATASET))
    assert {entry["dataset"]["task_id"] for entry in submitted} == {
        task["id"] for task in described["tasks"]
    }


def test_only_chosen_metrics_are_written(run: BoardRun) -> None:
    chosen = to_submissions([run], metrics=["robust_acc"])
    (entry,) = yaml.safe_load(hub_results(chosen, DATASET))
    assert entry["dataset"]["task_id"] == "pragworld_manual_robust_acc"


def test_what_the_dataset_has_no_task_for_is_refused(
    documents: list[Document], run: BoardRun
) -> None:
    with pytest.raises(InputError, match=r"has no task for flip_acc; choose from robust_acc, acc$"):
        hub_results(to_submissions([run], metrics=["acc", "flip_acc"]), DATASET)
    with pytest.raises(InputError, match="a run of pragworld_manual_mc, but the dataset's eval"):
        hub_results(to_submissions([likelier(documents)]), DATASET)


def test_released_runs_are_marked_as_the_papers(published: Submission) -> None:
    for entry in yaml.safe_load(hub_results([published], DATASET, "https://example.org/mine")):
        assert entry["source"]["url"] == "https://arxiv.org/abs/2511.13021"
        assert "PragWorld paper" in entry["source"]["name"]
        assert "the paper's released run" in entry["notes"]
    (path,) = (files := every_eval_ever_files(published, None))
    content = json.loads(files[path])
    assert content["source_metadata"]["source_type"] == "documentation"
    assert content["source_metadata"]["source_organization_url"].endswith("2511.13021")
    assert "detailed_evaluation_results" not in content  # no responses are known
    assert "evaluation_timestamp" not in content


def test_generated_documents_are_no_task_of_the_hub() -> None:
    documents = generate_documents(groups=3, seed=5)
    read = Predictions.from_responses(responses(documents))
    submissions = to_submissions([to_run(documents, read)])
    with pytest.raises(InputError, match="the run: a run on generated documents, which no dataset"):
        hub_results(submissions, DATASET)


def test_an_old_huggingface_hub_is_named(
    submission: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", ModuleType("huggingface_hub"))
    with pytest.raises(InputError, match=r"needs huggingface_hub 1.4 or later: pip install"):
        hub_results([submission], DATASET)


# Pushing ------------------------------------------------------------------------------------------


class Hub(LocalServer):
    """What a Hub does when a pull request is opened, as far as huggingface_hub asks it.

    Attributes:
        requests: path and authorization of each.
        commits: the operations of each.
        refusal: the status with which to refuse a commit; 0 to accept it.
        is_hub: whether it answers as the Hub does, and not as a proxy with a page of its own.
    """

    def __init__(self) -> None:
        super().__init__(_HubHandler)
        self.requests: list[tuple[str, str]] = []
        self.commits: list[list[dict[str, Any]]] = []
        self.refusal = 0
        self.is_hub = True

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class _HubHandler(JsonHandler):
    server: Hub

    def read_body(self) -> Any:
        """Return the lines of a request as JSON."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        return [json.loads(line) for line in body.splitlines()]

    def post(self, body: list[Any]) -> None:
        """Take part in a commit."""
        authorization = self.headers["Authorization"]
        self.server.requests.append((self.path, authorization))
        if not self.server.is_hub:
            self.send(200, b"<html>Log in to this network", "text/html")
            return
        if "/preupload/" in self.path:
            (content,) = body
            modes = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in content["files"]
            ]
            self.reply(200, {"files": modes})
        elif self.server.refusal:
            self.reply(self.server.refusal, {"error": f"not allowed with {authorization}"})
        else:
            self.server.commits.append(body)
            url = f"{self.server.url}/someone/model"
            self.reply(
                200,
                {
                    "commitUrl": f"{url}/commit/{'0' * 40}",
                    "commitOid": "0" * 40,
                    "pullRequestUrl": f"{url}/discussions/1",
                },
            )


@contextmanager
def serving() -> Iterator[Hub]:
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield hub
        hub.shutdown()
        thread.join()


def test_push_opens_a_pull_request_and_shows_no_token(run: BoardRun, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_bytes(run.record.to_bytes())
    out = tmp_path / "out"
    arguments = ("--to", "hub", "--dataset-id", DATASET, "--out", out, "--push", "someone/model")
    with serving() as hub:
        process = run_command(
            *("submit", tmp_path / "record.json", *arguments),
            HF_ENDPOINT=hub.url,
            HF_HUB_OFFLINE="0",
            HF_HUB_DISABLE_TELEMETRY="1",
            HF_TOKEN=TOKEN,
            HF_HOME=str(tmp_path / "home"),
            PRAGWORLD_DATA=str(SAMPLES),
        )
    path = out / ".eval_results" / "pragworld.yaml"
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == [f"{hub.url}/someone/model/discussions/1", str(path)]
    (commit_path, authorization) = hub.requests[-1]
    assert commit_path == "/api/models/someone/model/commit/main?create_pr=1"
    assert authorization == f"Bearer {TOKEN}"
    ((header, file),) = hub.commits
    assert header["value"]["summary"] == "Add PragWorld evaluation results"
    assert file["value"]["path"] == ".eval_results/pragworld.yaml"
    assert base64.b64decode(file["value"]["content"]) == path.read_bytes()
    assert TOKEN not in process.stdout + process.stderr
    for written in filter(Path.is_file, tmp_path.rglob("*")):
        assert TOKEN.encode() not in written.read_bytes()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub that huggingface_hub uses in this process."""
    with serving() as server:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.url)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        # Without telemetry its requests do not name the version of torch, which takes an import.
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_TELEMETRY", True)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


def test_a_refused_push_writes_nothing_and_shows_no_token(
    run: BoardRun, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    (tmp_path / "record.json").write_bytes(run.record.to_bytes())
    out = tmp_path / "out"
    hub.refusal = 403
    arguments = ["submit", str(tmp_path / "record.json"), "--to", "hub", "--dataset-id", DATASET]
    with refused("--push someone/model: the pull request could not be opened .*403") as stderr:
        main([*arguments, "--out", str(out), "--push", "someone/model"])
    assert "not allowed with Bearer …" in stderr.getvalue()
    assert TOKEN not in stderr.getvalue()
    assert not out.exists()
    hub.is_hub = False
    with refused("--push someone/model: the pull request could not be opened .*Expecting value"):
        main([*arguments, "--out", str(out), "--push", "someone/model"])
    assert not out.exists()
    requests = len(hub.requests)
    with refused("--push someone/other: the run is of someone/model; push to that repository"):
        main([*arguments, "--out", str(out), "--push", "someone/other"])
    assert len(hub.requests) == requests


# Model card ---------------------------------------------------------------------------------------

HEAD = 'license: "mit"  # as the base model\ntags:\n  - b\n  - a\n  - b\n'
BODY = "\n# A model\n\n---\nmodel-index: not metadata\n\ttab, ünïcode  \n\n"
OTHER = """model-index:  # from elsewhere
- name: Model
  results:
  - task: {type: text-generation}
    dataset: {name: Beans, type: beans}
    metrics:
    - {type: accuracy, value: 0.9, extra: kept}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (HEAD, ""),
        (HEAD + OTHER, ""),
        (HEAD + OTHER, "# of the model\nlanguage: en\n"),
        (HEAD + OTHER, "\n# of the model\nlanguage: en"),
        (HEAD + "model-index: []\n", "language: [en, de]\n"),
        (HEAD + "model-index:\n", "language: [en, de]\n"),
        (OTHER, "pipeline_tag: text-generation\n"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_card_keeps_everything_else_byte_for_byte(
    submission: Submission, before: str, after: str, newline: str
) -> None:
    card = f"---\n{before}{after}".rstrip("\n") + "\n---\n" + BODY
    card = card.replace("\n", newline)
    merged = merge_into_card(card, [submission], DATASET)
    kept, _, _ = before.partition("model-index")
    assert merged.startswith(f"---\n{kept}".replace("\n", newline))
    ending = f"{after.rstrip()}\n---\n{BODY}" if after else f"\n---\n{BODY}"
    assert merged.endswith(ending.replace("\n", newline))
    assert merged.count("\n") == merged.count(newline)
    results: list[EvalResult] = ModelCard(merged).data.get("eval_results")
    values = {result.metric_type: result.metric_value for result in results}
    assert values["robust_acc"] == round(submission.run.report.robust_acc, 2)
    assert values["acc"] == round(submission.run.report.acc, 2)
    assert ("accuracy" in values) == ("Beans" in before)
    assert ("extra: kept" in merged) == ("Beans" in before)
    assert merge_into_card(merged, [submission], DATASET) == merged  # replaced, not repeated


def test_results_of_another_task_are_added_to_those_of_the_first(
    documents: list[Document], submission: Submission
) -> None:
    read = Predictions.from_responses(responses(documents))
    run = to_run(documents, read, environment={"task": "pragworld_manual_label"})
    merged = merge_into_card(merge_into_card(BODY, [submission]), to_submissions([run]))
    metadata = yaml.safe_load(merged.split("---\n")[1])
    (entry,) = metadata["model-index"]
    assert entry["name"] == "model"
    assert [result["task"]["name"] for result in entry["results"]] == [
        "pragworld_manual",
        "pragworld_manual_label",
    ]
    assert merged.endswith(f"---\n{BODY}")


def test_results_are_never_added_to_another_model_of_the_card(submission: Submission) -> None:
    others: list[dict[str, Any]] = [{"name": name, "results": []} for name in ("small", "large")]
    metadata = yaml.safe_dump({"model-index": others})
    merged = merge_into_card(f"---\n{metadata}---\n", [submission])
    *kept, added = yaml.safe_load(merged.split("---\n")[1])["model-index"]
    assert kept == others
    assert added["name"] == "model"
    assert len(added["results"]) == 1


def test_a_card_without_metadata_gets_some(submission: Submission, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_bytes(b"\xef\xbb\xbf# A model\r\n")
    merged = merge_into_card_file(path, [submission])
    assert merged.startswith(b"\xef\xbb\xbf---\r\nmodel-index:\r\n")
    assert merged.endswith(b"\r\n---\r\n# A model\r\n")
    assert path.read_bytes() == b"\xef\xbb\xbf# A model\r\n"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("license: [", "the metadata of the card cannot be read: "),
        ("- a\n- b", "the metadata of the card cannot be read: .* should be a dict"),
        ("model-index: [{name: x}]", "cannot be read: Invalid `model_index` in metadata"),
        ("1: a number", "the metadata of the card cannot be read: .* must be strings"),
        ("tags: 3", "the metadata of the card cannot be read: .* not iterable"),
        ("{license: mit}", "cannot be added to, because it is not a list of `key: value` lines"),
    ],
)
def test_metadata_that_cannot_be_merged_is_refused(
    submission: Submission, tmp_path: Path, metadata: str, expected: str
) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"---\n{metadata}\n---\n# A model\n")
    with pytest.raises(InputError, match=f"README.md: .*{expected}") as refusal:
        merge_into_card_file(path, [submission])
    assert "\n" not in str(refusal.value)


# Every Eval Ever ----------------------------------------------------------------------------------


def aggregate_and_samples(files: dict[Path, bytes]) -> tuple[Any, list[Any]]:
    (aggregate,) = (json.loads(files[path]) for path in files if path.suffix == ".json")
    lines = (files[path].splitlines() for path in files if path.suffix == ".jsonl")
    return aggregate, [json.loads(line) for part in lines for line in part]


def likelier(documents: list[Document]) -> BoardRun:
    """A run that chose the likelier label; at row 2 both are as likely."""
    yes: list[float | None] = [0.5 if row == 2 else (row % 4) / 3 for row in range(len(documents))]
    answers: list[Any] = [None if p == 0.5 else "yes" if p and p > 0.5 else "no" for p in yes]
    return to_run(
        documents,
        Predictions(answers, answers, yes=yes),
        environment={"task": "pragworld_manual_mc", "generation": {}},
    )


def test_every_eval_ever_files_fit_its_schemas(
    documents: list[Document], submission: Submission, published: Submission, released: Path
) -> None:
    folder = released.parent.parent / "reference" / "every_eval_ever"
    schemas = [folder / name for name in ("eval.schema.json", "instance_level_eval.schema.json")]
    if missing := [str(schema) for schema in schemas if not schema.is_file()]:
        pytest.skip(f"the schemas of Every Eval Ever: {', '.join(missing)}")
    contents = [json.loads(schema.read_text()) for schema in schemas]
    aggregates, instances = map(jsonschema.Draft7Validator, contents)
    assert [content["version"] for content in contents] == ["0.3.0", "0.3.0"]
    generated = generate_documents(groups=3, seed=5)
    other = to_run(generated, Predictions.from_responses(responses(generated)))
    for submitted, dataset_id in (
        (submission, None),
        (submission, DATASET),
        (published, None),
        *((run, None) for run in to_submissions([likelier(documents), other])),
    ):
        files = every_eval_ever_files(submitted, EVALUATOR, dataset_id, "open")
        aggregate, samples = aggregate_and_samples(files)
        aggregates.validate(aggregate)
        for sample in samples:
            instances.validate(sample)
    relationship = contents[0]["properties"]["source_metadata"]["properties"]
    assert tuple(relationship["evaluator_relationship"]["enum"]) == RELATIONSHIPS


def test_metrics_and_samples_of_every_eval_ever_point_to_each_other(
    submission: Submission,
) -> None:
    files = every_eval_ever_files(submission, EVALUATOR)
    aggregate, samples = aggregate_and_samples(files)
    details = aggregate["detailed_evaluation_results"]
    path = Path(details["file_path"])
    assert path in files
    assert path.parts[:4] == ("data", "pragworld", "someone", "model")
    assert path.with_name(path.name.replace("_samples.jsonl", ".json")) in files
    name = uuid.UUID(path.name.removesuffix("_samples.jsonl"))
    assert (name.version, name.variant) == (4, uuid.RFC_4122)
    assert details["total_rows"] == len(samples) == len(submission.run.documents)
    assert details["checksum"] == hashlib.sha256(files[path]).hexdigest()
    assert {sample["evaluation_id"] for sample in samples} == {aggregate["evaluation_id"]}
    assert {sample["model_id"] for sample in samples} == {aggregate["model_info"]["id"]}
    results = {result["evaluation_result_id"]: result for result in aggregate["evaluation_results"]}
    assert len(results) == len(aggregate["evaluation_results"])
    (result_id,) = {sample["evaluation_result_id"] for sample in samples}
    assert results[result_id]["metric_config"]["metric_id"] == "accuracy"
    assert len({sample["sample_id"] for sample in samples}) == len(samples)


def test_metrics_of_every_eval_ever_follow_from_its_samples(submission: Submission) -> None:
    aggregate, samples = aggregate_and_samples(every_eval_ever_files(submission, EVALUATOR))
    scores = {
        result["metric_config"]["metric_name"]: result["score_details"]
        for result in aggregate["evaluation_results"]
    }
    right = [sample["evaluation"]["is_correct"] for sample in samples]
    assert scores["acc"]["score"] == sum(right) / len(right)
    groups = defaultdict(list)
    for sample in samples:
        groups[sample["metadata"]["group"]].append(sample["evaluation"]["score"])
    assert scores["robust_acc"]["score"] == sum(map(all, groups.values())) / len(groups)
    flips = [sample for sample in samples if sample["metadata"].get("effect") == "flip"]
    flipped = [sample["evaluation"]["score"] for sample in flips]
    assert scores["flip_acc"]["score"] == sum(flipped) / len(flipped)
    for result in aggregate["evaluation_results"]:
        config, details = result["metric_config"], result["score_details"]
        interval = details["uncertainty"]["confidence_interval"]
        assert config["min_score"] <= interval["lower"] <= interval["upper"] <= config["max_score"]
        low, high = submission.run.report.metrics["acc"].interval
        if config["metric_name"] == "acc":
            assert (100 * interval["lower"], 100 * interval["upper"]) == pytest.approx((low, high))
    error = scores["acc"]["uncertainty"]["standard_error"]["value"]
    assert error == pytest.approx(tallies(submission.run.report.run)["acc"].standard_error)


def test_samples_hold_responses_and_how_they_were_read(
    documents: list[Document], submission: Submission
) -> None:
    _, samples = aggregate_and_samples(every_eval_ever_files(submission, EVALUATOR))
    refused_by_api, unreadable = samples[4], samples[5]
    assert (refused_by_api["output"]["raw"], refused_by_api["error"]) == (
        [],
        "the API gave no response",
    )
    assert unreadable["output"]["raw"] == ["Perhaps <script>"]
    assert unreadable["answer_attribution"][0]["extracted_value"] == ""
    assert not unreadable["evaluation"]["is_correct"]
    (chosen,) = to_submissions([likelier(documents)])
    _, samples = aggregate_and_samples(every_eval_ever_files(chosen, EVALUATOR))
    assert samples[3]["output"]["raw"] == ["yes"]
    assert samples[3]["metadata"]["probability_of_yes"] == "1.0"
    assert samples[3]["input"]["choices"] == ["yes", "no"]
    assert samples[2]["answer_attribution"][0]["extracted_value"] == ""


def test_every_eval_ever_says_how_the_model_ran_but_no_path_of_the_machine(
    submission: Submission,
) -> None:
    aggregate, _ = aggregate_and_samples(every_eval_ever_files(submission, EVALUATOR))
    model, result = aggregate["model_info"], aggregate["evaluation_results"][0]
    assert model["inference_engine"] == {"name": "transformers", "version": "5.23.0"}
    assert model["additional_details"]["dtype"] == "bfloat16"
    assert model["additional_details"]["deployment_type"] == "self_deployed"
    generation = result["generation_config"]
    assert generation["generation_args"] == {"temperature": 0.5, "max_tokens": 1024}
    assert json.loads(generation["additional_details"]["generation"]) == {"do_sample": True}
    assert json.loads(generation["additional_details"]["model_args"]) == {
        "max_length": 2048,
        "tokenizer": "./other",
    }
    assert aggregate["eval_library"]["version"] == "0.4.13"
    assert aggregate["evaluation_timestamp"] == "1767323045"
    assert "/models/" not in json.dumps(aggregate)


def test_every_eval_ever_names_the_engine_of_shared_prefixes(documents: list[Document]) -> None:
    read = Predictions.from_responses(responses(documents))
    run = to_run(documents, read, environment={"backend": "hf-tree"})
    (shared,) = to_submissions([run])
    aggregate, _ = aggregate_and_samples(every_eval_ever_files(shared, EVALUATOR))
    assert aggregate["model_info"]["inference_engine"]["name"] == "transformers"


def test_the_same_run_gives_the_same_files_and_another_run_others(
    documents: list[Document], submission: Submission
) -> None:
    files = every_eval_ever_files(submission, EVALUATOR)
    assert every_eval_ever_files(submission, EVALUATOR) == files
    changed = responses(documents)
    changed[0] = "It is so."
    (other,) = to_submissions([to_run(documents, Predictions.from_responses(changed))])
    assert not every_eval_ever_files(other, EVALUATOR).keys() & files.keys()


def test_every_eval_ever_needs_a_date_and_an_evaluator(
    documents: list[Document], submission: Submission
) -> None:
    with pytest.raises(InputError, match="who evaluated the model; pass --organization and"):
        every_eval_ever_files(submission, None)
    read = Predictions.from_responses(responses(documents))
    (undated,) = to_submissions([to_run(documents, read, "responses")], "me/model")
    with pytest.raises(InputError, match="does not say when the model answered; pass --date"):
        every_eval_ever_files(undated, EVALUATOR)


# The command --------------------------------------------------------------------------------------


@pytest.fixture
def record(run: BoardRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a run record."""
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    path = tmp_path / "record.json"
    path.write_bytes(run.record.to_bytes())
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--to hub", "--to hub needs --dataset-id"),
        ("--to hub --dataset-id pragworld", "--dataset-id pragworld: not the name of"),
        ("--to model-card", "--to model-card needs --card"),
        ("--to model-card --card no.md", "no.md: No such file"),
        ("--to every-eval-ever", "pass --organization and --relationship"),
        ("--to every-eval-ever --organization Lab", "belong together; pass both"),
        ("--to every-eval-ever --organization \udcff --relationship other", "not UTF-8; set the"),
        ("--to every-eval-ever --push a/b", "--push is an option of --to hub, not of"),
        ("--to hub --dataset-id a/b --card x.md", "--card is an option of --to model-card"),
        ("--to hub --dataset-id a/b --weights open", "--weights is an option of --to every-eval"),
    ],
)
def test_options_that_do_not_fit_are_refused_and_nothing_is_written(
    record: str, tmp_path: Path, arguments: str, expected: str
) -> None:
    with refused(re.escape(expected)):
        main(["submit", record, "--out", str(tmp_path / "out"), *arguments.split()])
    assert not (tmp_path / "out").exists()


def test_files_are_replaced_only_if_asked_for(
    record: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = tmp_path / "README.md"
    card.write_text(f"---\n{HEAD}---\n{BODY}")
    arguments = ["submit", record, "--to", "model-card", "--card", str(card), "--out"]
    with refused("README.md exists; pass --overwrite, or another folder"):
        main([*arguments, str(tmp_path)])
    assert card.read_text() == f"---\n{HEAD}---\n{BODY}"
    main([*arguments, str(tmp_path / "new" / "folder")])
    assert capsys.readouterr().out == f"{tmp_path / 'new' / 'folder' / 'README.md'}\n"
    main([*arguments, str(tmp_path), "--overwrite"])
    assert card.read_text() == (tmp_path / "new" / "folder" / "README.md").read_text()


def test_the_command_writes_every_eval_ever_files(record: str, tmp_path: Path) -> None:
    arguments = ["--organization", "A lab", "--relationship", "other", "--weights", "open"]
    out = ["--out", str(tmp_path / "out")]
    main(["submit", record, "--to", "every-eval-ever", *out, *arguments])
    written = {path.suffix for path in (tmp_path / "out" / "data").rglob("*.json*")}
    assert written == {".json", ".jsonl"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_are_written_all_or_none(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").write_text("in the way")
    files = {tmp_path / "new" / "folder" / "one": b"1", tmp_path / "file" / "two": b"2"}
    if overwrite:
        (tmp_path / "old").write_text("0")
        files = {tmp_path / "old": b"1", **files}
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"file/two cannot be written \(.*\); use another"):
        write_files(files, overwrite)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_files_that_cannot_all_be_put_in_place_leave_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where one of them is another user's, in a folder in which only owners may rename."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"old {name}")
    replace = Path.replace

    def refuse_two(path: Path, target: Path) -> Path:
        assert (tmp_path / "one").exists()  # a kill now would leave every file in its place
        assert (tmp_path / "two").exists()
        if path.name == "two.partial":
            raise PermissionError(1, "Operation not permitted")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refuse_two)
    files = {tmp_path / "new" / "three": b"3", tmp_path / "one": b"1", tmp_path / "two": b"2"}
    with pytest.raises(InputError, match=r"two cannot be written \(Operation not permitted\)"):
        write_files(files, overwrite=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "one": "old one",
        "two": "old two",
    }
    monkeypatch.undo()
    write_files(files, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "new"}
    assert (tmp_path / "two").read_text() == "2"
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="folder is a folder; remove it, or pass another"):
        write_files({tmp_path / "folder": b""}, overwrite=True)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_whoever_the_umask_lets_can_read_a_site(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_site([("index.html", "a site")], tmp_path / "site")
        write_site([("index.html", "another")], tmp_path / "site")
    finally:
        os.umask(before)
    paths = [tmp_path / "site", *(tmp_path / "site").iterdir()]
    allowed = {path.name: path.stat().st_mode & 0o777 for path in paths}
    assert allowed.pop("site") == 0o777 & ~umask
    assert set(allowed.values()) == {0o666 & ~umask}
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
