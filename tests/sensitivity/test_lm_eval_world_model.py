"""The world_model tasks through `collect` and lm_eval: known components, resumption, small models."""

import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from answer_server import VARIANCES, answer_server
from command_runs import Program, refused, run_program
from json_lines import write_lines
from lm_eval_runs import Evaluation
from servers import ChatServer
from warm_client import KILLED

from pragworld_tasks.cli import main
from pragworld_tasks.sensitivity.open_questions import questions
from pragworld_tasks.sensitivity.paraphrases import shipped_paraphrases
from pragworld_tasks.sensitivity.world_model_tasks import (
    WORLD_MODEL_METRICS,
    estimate,
    own_question_records,
    score_quantities,
)
from pragworld_tasks.tiny import tiny_folder

TASK = "world_model_travel_commute"
WORDINGS = shipped_paraphrases("travel_commute")[:8]


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with answer_server().running() as server:
        yield server


def write_wordings(path: Path, number: int) -> str:
    return str(write_lines(path, ({"text": text} for text in WORDINGS[:number])))


def over_http(server: ChatServer, wordings: str, output: Path, *more: str) -> Evaluation:
    address = f"model=known,base_url={server.url}/chat/completions,num_concurrent=8,auth_token=key"
    process = run_program(
        *("pragworld-tasks", "collect", "--tasks", TASK, "--output_path", output, "--chunk", "3"),
        *("--model", "local-chat-completions", "--model_args", address, "--apply_chat_template"),
        *("--metadata", json.dumps({"paraphrases": wordings}), *more),
    )
    return Evaluation(process, output)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("known")


@pytest.fixture(scope="module")
def known(server: ChatServer, folder: Path) -> Evaluation:
    """An evaluation of 3 intents, 8 paraphrases and 50 responses."""
    return over_http(server, write_wordings(folder / "wordings.jsonl", 8), folder)


def test_all_responses_to_all_prompts_are_in_the_samples(known: Evaluation) -> None:
    samples = known.samples(TASK)
    assert [sample["doc"]["prompt"] for sample in samples] == [
        text.replace("{distance_km}", value)
        for text in WORDINGS
        for value in questions()["travel_commute"].values
    ]
    for sample in samples:
        (responses,) = sample["resps"]
        assert len(responses) == 50
        assert len(set(responses)) > 40
        settings = sample["arguments"]["gen_args_0"]["arg_1"]
        assert (settings["temperature"], settings["max_gen_toks"]) == (1.0, 600)
        assert settings["do_sample"]  # or lm-eval's cache would turn fifty responses into one


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
    assert found["model"] == "known"

    shown = known.metrics(TASK)
    assert {name for name in shown if not name.endswith("_stderr")} == {*WORLD_MODEL_METRICS}
    for name in ("variance", "ps", "as", "mu", "mvs"):
        assert shown[name] == pytest.approx(found["published"][name]["value"])
        assert shown[f"{name}_stderr"] == pytest.approx(found["published"][name]["standard_error"])
    for name in ("ps", "as", "mu"):
        assert shown[f"{name}_unbiased"] == pytest.approx(found["unbiased"][name]["value"])
    assert shown["unreadable"] == found["unreadable"] / found["responses"]


def test_a_rerun_repeats_no_prompt_and_another_design_takes_no_response(
    known: Evaluation, server: ChatServer, folder: Path, tmp_path: Path
) -> None:
    asked, wordings = len(server.bodies), str(folder / "wordings.jsonl")
    assert asked == 24 * 50
    (journal,) = folder.glob("responses-*.journal")
    shutil.copy(journal, tmp_path)
    again = over_http(server, wordings, tmp_path)
    assert len(server.bodies) == asked
    assert again.samples_file(TASK).read_bytes() == known.samples_file(TASK).read_bytes()
    assert b"auth_token" not in journal.read_bytes()
    over_http(server, wordings, tmp_path, "--limit", "3", "--gen_kwargs", "temperature=0.5")
    assert len(server.bodies) == asked + 3 * 50
    *_, limited = sorted(tmp_path.rglob("samples_*.jsonl"))
    with refused("run with --limit 3; pass a whole run"):
        main(["decompose", str(limited)])


def lines(output: Path) -> list[bytes]:
    """The whole lines of the journal after its first one."""
    (path,) = output.glob("responses-*.journal")
    return path.read_bytes().split(b"\n")[1:-1]


def test_a_killed_run_resumes_with_the_same_responses(tmp_path: Path) -> None:
    metadata = json.dumps({"paraphrases": write_wordings(tmp_path / "few.jsonl", 2)})
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = (
        *("collect", "--tasks", TASK, "--chunk", "1", "--metadata", metadata, "--model", "hf"),
        *("--model_args", f"pretrained={tiny_folder()}", "--batch_size", "25"),
        *("--gen_kwargs", "max_gen_toks=6", "--output_path"),
    )
    process = run_program("pragworld-tasks", *options, whole)
    assert "|world_model_travel_commute|" in process.stdout

    program = Program("pragworld-tasks", *options, killed, log=tmp_path / "log")
    while program.runs() and not (list(killed.glob("*.journal")) and len(lines(killed)) >= 2):
        time.sleep(0.02)
    assert program.stop(signal.SIGKILL) == KILLED, (tmp_path / "log").read_text()
    before = lines(killed)
    assert 2 <= len(before) < 6
    (journal,) = killed.glob("*.journal")
    with journal.open("a") as stream:  # what a kill in the middle of writing leaves
        stream.write('{"chunk": "0a')
    process = run_program("pragworld-tasks", *options, killed)
    assert lines(killed)[: len(before)] == before
    assert lines(killed) == lines(whole)
    expected, found = (Evaluation(process, folder).samples(TASK) for folder in (whole, killed))
    assert found == expected
    assert len({text for sample in found for text in sample["resps"][0]}) > 100


def test_identical_responses_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    prompt = {"question": "own", "intent": 0, "value": "a", "unit": "minute", "prompt": "How long?"}
    item, other = (
        score_quantities({**prompt, "paraphrase": number}, [[f"{number} minutes."] * 50])["mu"]
        for number in (5, 6)
    )
    with caplog.at_level("WARNING", logger="lm_eval"):
        assert estimate([item, other]) == 0
    assert "all responses to a prompt are identical" in caplog.text


def test_a_question_of_ones_own(tmp_path: Path) -> None:
    mine = write_wordings(tmp_path / "mine.jsonl", 4)
    asked = own_question_records(paraphrases=mine, values=[5, 60], unit="hour")
    assert [one["value"] for one in asked] == ["5", "60"] * 4
    assert {one["question"] for one in asked} == {"mine"}
    items = [score_quantities(one, [["90 minutes.", "2 hours"]])["ps"] for one in asked]
    assert {item.values for _, item in items} == {(1.5, 2.0)}
