"""`pragworld-tasks collect`: lm_eval, killed and resumed."""

import json
import signal
import time
from pathlib import Path

import pytest
from answer_server import answer_server
from command_runs import Program, run_program
from warm_client import KILLED

from pragworld_tasks.cli import main
from pragworld_tasks.sensitivity.paraphrases import shipped_paraphrases
from pragworld_tasks.tiny import tiny_folder

TASK = "world_model_travel_commute"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of two paraphrases, which make six prompts."""
    path = tmp_path_factory.mktemp("few") / "few.jsonl"
    wordings = [wording.text for wording in shipped_paraphrases("travel_commute")[:2]]
    path.write_text("".join(json.dumps({"text": wording}) + "\n" for wording in wordings))
    return path


def with_small_model(few: Path, output: Path, *more: str) -> tuple[str, ...]:
    return (
        *("collect", "--tasks", TASK, "--output_path", str(output), "--chunk", "1"),
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "25"),
        *("--gen_kwargs", "max_gen_toks=6", "--metadata", json.dumps({"paraphrases": str(few)})),
        *more,
    )


def over_http(server: str, few: Path, output: Path, *more: str) -> tuple[str, ...]:
    address = f"model=known,base_url={server}/chat/completions,num_concurrent=4,auth_token=key"
    return (
        *("collect", "--tasks", TASK, "--output_path", str(output), "--chunk", "3"),
        *("--model", "local-chat-completions", "--model_args", address, "--apply_chat_template"),
        *("--metadata", json.dumps({"paraphrases": str(few)}), *more),
    )


def responses(output: Path) -> list[list[str]]:
    """The responses to each prompt in the latest samples, in the order of prompts."""
    *_, path = sorted(output.rglob(f"samples_{TASK}_*.jsonl"))
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    return [sample["resps"][0] for sample in sorted(samples, key=lambda sample: sample["doc_id"])]


def lines(output: Path) -> list[bytes]:
    """The whole lines of the journal after its first one."""
    (path,) = output.glob("responses-*.journal")
    return path.read_bytes().split(b"\n")[1:-1]


def test_a_killed_run_resumes_with_the_same_responses(few: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = run_program("pragworld-tasks", *with_small_model(few, whole))
    assert process.returncode == 0, process.stderr
    assert "|world_model_travel_commute|" in process.stdout

    program = Program("pragworld-tasks", *with_small_model(few, killed), log=tmp_path / "log")
    while program.runs() and not (list(killed.glob("*.journal")) and len(lines(killed)) >= 2):
        time.sleep(0.02)
    assert program.stop(signal.SIGKILL) == KILLED, (tmp_path / "log").read_text()
    before = lines(killed)
    assert 2 <= len(before) < 6
    (journal,) = killed.glob("*.journal")
    with journal.open("a") as stream:  # what a kill in the middle of writing leaves
        stream.write('{"chunk": "0a')
    process = run_program("pragworld-tasks", *with_small_model(few, killed))
    assert process.returncode == 0, process.stderr
    assert lines(killed)[: len(before)] == before
    assert lines(killed) == lines(whole)
    assert responses(killed) == responses(whole)
    assert [len(to_prompt) for to_prompt in responses(whole)] == [50] * 6
    assert len({text for to_prompt in responses(whole) for text in to_prompt}) > 100


def test_a_rerun_repeats_no_prompt_and_another_design_takes_no_response(
    few: Path, tmp_path: Path
) -> None:
    with answer_server().running() as server:
        arguments = over_http(server.url, few, tmp_path)
        runs = [run_program("pragworld-tasks", *arguments) for _ in range(2)]
        assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
        assert len(server.bodies) == 6 * 50
        first, again = sorted(tmp_path.rglob(f"samples_{TASK}_*.jsonl"))
        assert first.parent.name == "known"
        assert first.read_bytes() == again.read_bytes()
        assert b"auth_token" not in b"".join(path.read_bytes() for path in tmp_path.glob("*.j*"))

        found = tmp_path / "found.json"
        main(["decompose", str(again), "--json", str(found), "--draws", "20"])
        (task,) = json.loads(found.read_text())["tasks"]
        assert (task["responses"], task["prompts"]) == (6 * 50, 6)

        changed = ("--limit", "3", "--gen_kwargs", "temperature=0.5")
        process = run_program("pragworld-tasks", *arguments, *changed)
        assert process.returncode == 0, process.stderr
        assert len(server.bodies) == 9 * 50
