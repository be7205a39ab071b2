"""The world_model tasks through lm_eval: known components over HTTP, and small models."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from answer_server import VARIANCES, answer_server
from lm_eval.tasks import TaskManager
from lm_eval_runs import Evaluation, LmEval
from places import ROOT

from pragworld_tasks.cli import main
from pragworld_tasks.sensitivity.open_questions import questions
from pragworld_tasks.sensitivity.paraphrases import shipped_paraphrases
from pragworld_tasks.sensitivity.world_model_tasks import (
    WORLD_MODEL_METRICS,
    estimate,
    score_responses,
)
from pragworld_tasks.tiny import tiny_folder

TASK = "world_model_travel_commute"
WORDINGS = shipped_paraphrases("travel_commute")[:8]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of a server whose answers have known components."""
    with answer_server().running() as server:
        yield server.url


@pytest.fixture(scope="module")
def options(server: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The arguments for an evaluation on 8 paraphrases, with lm_eval's cache."""
    folder = tmp_path_factory.mktemp("wordings")
    lines = [json.dumps({"text": wording.text}) + "\n" for wording in WORDINGS]
    (folder / "wordings.jsonl").write_text("".join(lines))
    address = f"model=known,base_url={server}/chat/completions"
    return (
        *("--model", "local-chat-completions", "--apply_chat_template"),
        *("--model_args", f"{address},num_concurrent=8,tokenized_requests=False"),
        *("--metadata", json.dumps({"paraphrases": str(folder / "wordings.jsonl")})),
        *("--tasks", TASK, "--log_samples", "--use_cache", str(folder / "responses")),
    )


@pytest.fixture(scope="module")
def known(lm_eval: LmEval, options: tuple[str, ...]) -> Evaluation:
    """An evaluation of 3 intents, 8 paraphrases and 50 responses."""
    return lm_eval(*options)


def test_all_responses_to_all_prompts_are_in_the_samples(known: Evaluation) -> None:
    assert known.returncode == 0, known.log
    samples = known.samples(TASK)
    question = questions()["travel_commute"]
    assert [sample["doc"]["prompt"] for sample in samples] == [
        wording.text.replace("{distance_km}", value)
        for wording in WORDINGS
        for value in question.values
    ]
    for sample in samples:
        (responses,) = sample["resps"]
        assert len(responses) == 50
        assert len(set(responses)) > 40
        settings = sample["arguments"]["gen_args_0"]["arg_1"]
        assert (settings["temperature"], settings["max_gen_toks"]) == (1.0, 600)


def test_known_components_come_back_in_lm_evals_table_and_from_decompose(
    known: Evaluation, tmp_path: Path
) -> None:
    out = tmp_path / "found.json"
    main(["decompose", str(known.samples_file(TASK)), "--json", str(out)])
    (found,) = json.loads(out.read_text())["tasks"]
    total = sum(VARIANCES.values())
    for name, variance in VARIANCES.items():
        interval = found["unbiased"][name]
        assert interval["low"] < variance / total < interval["high"]
        assert interval["high"] - interval["low"] < 0.35  # else this test would show little
    assert found["unbiased"]["variance"]["low"] < total < found["unbiased"]["variance"]["high"]
    assert 0.03 < found["unreadable"] / found["responses"] < 0.07
    assert found["as_p"] < 0.01

    shown = known.metrics(TASK)
    assert {name for name in shown if not name.endswith("_stderr")} == {*WORLD_MODEL_METRICS}
    for name in ("variance", "ps", "as", "mu", "mvs"):
        assert shown[name] == pytest.approx(found["published"][name]["value"])
        assert shown[f"{name}_stderr"] == pytest.approx(found["published"][name]["standard_error"])
    for name in ("ps", "as", "mu"):
        assert shown[f"{name}_unbiased"] == pytest.approx(found["unbiased"][name]["value"])
    assert shown["unreadable"] == found["unreadable"] / found["responses"]


def test_lm_evals_cache_does_not_turn_fifty_responses_into_one(
    known: Evaluation, lm_eval: LmEval, options: tuple[str, ...]
) -> None:
    limited = lm_eval(*options, "--limit", "3")
    assert limited.returncode == 0, limited.log
    for sample, before in zip(limited.samples(TASK), known.samples(TASK)[:3], strict=True):
        assert len(set(sample["resps"][0])) > 40
        assert sample["resps"] != before["resps"]


def test_identical_responses_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    prompt = {"intent": 0, "paraphrase": 0, "unit": "minute", "prompt": "How long?"}
    item = score_responses(prompt, [["About 5 minutes."] * 50])["mu"]
    other = score_responses({**prompt, "paraphrase": 1}, [["6 minutes."] * 50])["mu"]
    with caplog.at_level("WARNING", logger="lm_eval"):
        assert estimate([item, other]) == 0
    assert "all responses to a prompt are identical" in caplog.text


def test_the_small_group_with_a_small_model(lm_eval: LmEval) -> None:
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "64"),
        *("--tasks", "world_model_small", "--limit", "1", "--log_samples"),
        *("--gen_kwargs", "max_gen_toks=4"),
    )
    assert evaluation.returncode == 0, evaluation.log
    for name in questions():
        samples = evaluation.samples(f"world_model_{name}")
        assert [len(sample["resps"][0]) for sample in samples] == [10]
    groups = evaluation.results["groups"]
    assert {"world_model_small", "world_model_health", "world_model_travel"} <= set(groups)


def test_a_question_of_ones_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text("".join(json.dumps({"text": one.text}) + "\n" for one in WORDINGS[:4]))
    metadata = {"paraphrases": str(mine), "values": [5, 60], "unit": "hour"}
    folder = str(ROOT / "task_configs")
    manager = TaskManager(include_path=folder, include_defaults=False, metadata=metadata)
    task = manager.load(["world_model_own"])["tasks"]["world_model_own"]
    asked = list(task.eval_docs)
    assert [one["value"] for one in asked] == ["5", "60"] * 4
    assert {one["question"] for one in asked} == {"mine"}
    items = [task.process_results(one, [["90 minutes.", "2 hours"]])["ps"] for one in asked]
    assert {item.values for _, item in items} == {(1.5, 2.0)}
