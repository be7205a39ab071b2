"""The free-form tasks through the real lm_eval command: a small model, and a server over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from answer_server import VARIANCES, answer_server
from command_runs import run_command
from lm_eval.tasks import TaskManager
from lm_eval_runs import Evaluation, LmEval
from places import ROOT

from pragworld_tasks.quantities import read_quantity
from pragworld_tasks.sensitivity.open_questions import questions
from pragworld_tasks.sensitivity.paraphrases import shipped_paraphrases
from pragworld_tasks.sensitivity.world_model_tasks import (
    estimate,
    score_responses,
)
from pragworld_tasks.tiny import tiny_folder

TASK = "world_model_travel_commute"
METRICS = {
    *("ps", "as", "mu", "mvs", "ps_unbiased", "as_unbiased", "mu_unbiased"),
    *("variance", "unreadable"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of a server whose answers have known components."""
    with answer_server().running() as server:
        yield server.url


def over_http(server: str) -> tuple[str, ...]:
    """Return the arguments with which lm_eval uses the server."""
    address = f"model=known,base_url={server}/chat/completions"
    return (
        *("--model", "local-chat-completions", "--apply_chat_template"),
        *("--model_args", f"{address},num_concurrent=8,tokenized_requests=False"),
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place for lm_eval's cache of responses."""
    return tmp_path_factory.mktemp("cache") / "responses"


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The `--metadata` that names a file of 12 paraphrases."""
    path = tmp_path_factory.mktemp("twelve") / "twelve.jsonl"
    wordings = [wording.text for wording in shipped_paraphrases("travel_commute")[:12]]
    path.write_text("".join(json.dumps({"text": wording}) + "\n" for wording in wordings))
    return json.dumps({"paraphrases": str(path)})


@pytest.fixture(scope="module")
def known(lm_eval: LmEval, server: str, cache: Path, twelve: str) -> Evaluation:
    """An evaluation of 3 intents, 12 paraphrases and 50 responses."""
    return lm_eval(
        *over_http(server),
        *("--tasks", TASK, "--log_samples", "--metadata", twelve, "--use_cache", str(cache)),
    )


def test_all_responses_to_all_prompts_are_in_the_samples(known: Evaluation) -> None:
    assert known.returncode == 0, known.log
    samples = known.samples(TASK)
    question = questions()["travel_commute"]
    wordings = [wording.text for wording in shipped_paraphrases("travel_commute")[:12]]
    assert [sample["doc"]["prompt"] for sample in samples] == [
        wording.replace("{distance_km}", value) for wording in wordings for value in question.values
    ]
    for sample in samples:
        (responses,) = sample["resps"]
        assert len(responses) == 50
        assert len(set(responses)) > 40
        assert sample["filtered_resps"] == [responses]
        settings = sample["arguments"]["gen_args_0"]["arg_1"]
        assert settings["temperature"] == 1.0
        assert settings["max_gen_toks"] == 600


@pytest.fixture(scope="module")
def found(known: Evaluation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `decompose` finds in the samples."""
    report = tmp_path_factory.mktemp("decompose") / "found.json"
    process = run_command("decompose", known.samples_file(TASK), "--json", report)
    assert process.returncode == 0, process.stderr
    (task,) = json.loads(report.read_text())["tasks"]
    return cast("dict[str, Any]", task)


def test_known_components_come_back_within_their_intervals(found: dict[str, Any]) -> None:
    total = sum(VARIANCES.values())
    for name, variance in VARIANCES.items():
        interval = found["unbiased"][name]
        assert interval["low"] < variance / total < interval["high"]
        assert interval["high"] - interval["low"] < 0.2  # else this test would show little
    assert found["unbiased"]["variance"]["low"] < total < found["unbiased"]["variance"]["high"]
    assert 0.03 < found["unreadable"] / found["responses"] < 0.07
    assert found["as_p"] < 0.01


def test_the_table_is_what_decompose_finds(known: Evaluation, found: dict[str, Any]) -> None:
    shown = known.metrics(TASK)
    assert {name for name in shown if not name.endswith("_stderr")} == METRICS
    for name in ("variance", "ps", "as", "mu", "mvs"):
        assert shown[name] == pytest.approx(found["published"][name]["value"])
        assert shown[f"{name}_stderr"] == pytest.approx(found["published"][name]["standard_error"])
    for name in ("ps", "as", "mu"):
        assert shown[f"{name}_unbiased"] == pytest.approx(found["unbiased"][name]["value"])
    assert shown["unreadable"] == found["unreadable"] / found["responses"]
    assert shown["ps"] + shown["as"] + shown["mu"] == pytest.approx(1)


@pytest.fixture(scope="module")
def limited(
    known: Evaluation, lm_eval: LmEval, server: str, cache: Path, twelve: str
) -> Evaluation:
    """The first three prompts of `known`, evaluated again with its cache."""
    return lm_eval(
        *over_http(server),
        *("--tasks", TASK, "--limit", "3", "--log_samples", "--metadata", twelve),
        *("--use_cache", str(cache)),
    )


def test_lm_evals_cache_does_not_turn_fifty_responses_into_one(
    known: Evaluation, limited: Evaluation, cache: Path
) -> None:
    assert list(cache.parent.iterdir())
    assert limited.returncode == 0, limited.log
    for sample, before in zip(limited.samples(TASK), known.samples(TASK)[:3], strict=True):
        assert len(set(sample["resps"][0])) > 40
        assert sample["resps"] != before["resps"]


def test_identical_responses_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    prompt = {"intent": 0, "paraphrase": 0, "unit": "minute", "prompt": "How long?"}
    item = score_responses(prompt, [["About 5 minutes."] * 50])["mu"]
    other = score_responses({**prompt, "paraphrase": 1}, [["6 minutes."] * 50])["mu"]
    warn_once = "all responses to a prompt are identical, for each of 2 prompts"
    with caplog.at_level("WARNING", logger="lm_eval"):
        assert estimate([item, other]) == 0
    assert warn_once in caplog.text


def test_the_small_group_with_a_small_model(lm_eval: LmEval) -> None:
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "64"),
        *("--tasks", "world_model_small", "--limit", "1", "--log_samples"),
        *("--gen_kwargs", "max_gen_toks=8"),
    )
    assert evaluation.returncode == 0, evaluation.log
    for name, question in questions().items():
        samples = evaluation.samples(f"world_model_{name}")
        assert [len(sample["resps"][0]) for sample in samples] == [10]
        readable = [
            read_quantity(response, question.unit, sample["doc"]["prompt"]) is not None
            for sample in samples
            for response in sample["resps"][0]
        ]
        shown = evaluation.metrics(f"world_model_{name}")
        assert shown["unreadable"] == pytest.approx(1 - sum(readable) / len(readable))
    groups = evaluation.results["groups"]
    assert {"world_model_small", "world_model_health", "world_model_travel"} <= set(groups)


def test_a_question_of_ones_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    wordings = [wording.text for wording in shipped_paraphrases("travel_commute")[:4]]
    mine.write_text("".join(json.dumps({"text": wording}) + "\n" for wording in wordings))
    metadata = {"paraphrases": str(mine), "values": [5, 60], "unit": "hour"}
    folder_ = str(ROOT / "task_configs")
    manager = TaskManager(include_path=folder_, include_defaults=False, metadata=metadata)
    task = manager.load(["world_model_own"])["tasks"]["world_model_own"]
    asked = list(task.eval_docs)
    assert [one["value"] for one in asked] == ["5", "60"] * 4
    assert {one["question"] for one in asked} == {"mine"}
    items = [task.process_results(one, [["90 minutes.", "2 hours"]])["ps"] for one in asked]
    assert {item.values for _, item in items} == {(1.5, 2.0)}
