"""A real model behind a real server: lm_eval, `collect`, `author` and `paraphrase` to their ends.

PRAGWORLD_REAL_MODELS names folders of models, with colons between them; PRAGWORLD_SERVER may name
another command that serves one, with {model} and {port} in it. A small model takes some minutes.
"""

import json
import os
import shlex
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_runs import run_program
from json_lines import read_lines, write_lines
from lm_eval_runs import LmEval

from pragworld_tasks.cli import main

FOLDERS = [*filter(None, os.environ.get("PRAGWORLD_REAL_MODELS", "").split(":"))]
if not FOLDERS:
    pytest.skip("PRAGWORLD_REAL_MODELS names no model", allow_module_level=True)
SERVE = os.environ.get("PRAGWORLD_SERVER", "transformers serve {model} --port {port}")
SEED = "Ann: Where did Mia put the pears?\nBen: In the pantry. Noah took two to the cellar."
TEXTS = ("From {city} to Rome: how long?", "How much time does it take from {city} to Rome?")


@pytest.fixture(scope="module", params=FOLDERS)
def served(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[tuple[str, str]]:
    """A model's folder, which is its name on the server, and the server's base URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = shlex.split(SERVE.format(model=request.param, port=port))
    log = (tmp_path_factory.mktemp("server") / "log").open("w")
    with log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        while True:
            assert server.poll() is None, log.name
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health")
                break
            except OSError:
                time.sleep(0.1)
        yield request.param, f"http://127.0.0.1:{port}/v1"
        server.kill()


@pytest.fixture
def documents(tmp_path: Path) -> str:
    questions = ("Are all the pears in the cellar?", "Is Noah in the pantry?")
    texts = [{"context": SEED, "question": question, "answer": "no"} for question in questions]
    return str(write_lines(tmp_path / "documents.jsonl", texts))


def of_lm_eval(served: tuple[str, str], generation: str, **metadata: Any) -> tuple[str, ...]:
    arguments = "model={},base_url={}/chat/completions,num_concurrent=2".format(*served)
    options = ("--model", "local-chat-completions", "--model_args", arguments)
    asked = ("--gen_kwargs", f"max_gen_toks=40{generation}", "--metadata", json.dumps(metadata))
    return (*options, *asked, "--apply_chat_template", "--log_samples")


def end(served: tuple[str, str], capsys: Any, command: str, *more: str) -> tuple[int, str]:
    """Return a command's exit status and the last line that it prints."""
    model, url = served
    status = 0
    try:
        main([command, "--base-url", url, "--model", model, *more])
    except SystemExit as end:
        status = int(end.code or 0)
    printed = capsys.readouterr()
    return status, (printed.err if status else printed.out).splitlines()[-1]


def test_an_evaluation_is_scored(served: Any, documents: str, lm_eval: LmEval, capsys: Any) -> None:
    options = of_lm_eval(served, "", documents=documents)
    samples = lm_eval("--tasks", "pragworld_own", *options).samples_file("pragworld_own")
    main(["score", str(samples), "--documents", documents])
    assert "2 documents" in capsys.readouterr().out


def test_a_collection_resumes_and_is_decomposed(served: Any, tmp_path: Path, capsys: Any) -> None:
    wordings = write_lines(tmp_path / "rome.jsonl", [{"text": text} for text in TEXTS])
    asked = {"paraphrases": str(wordings), "values": ["Oslo", "Lima"], "unit": "hour", "repeats": 2}
    options = of_lm_eval(served, ",temperature=1", **asked)
    command = ("collect", "--tasks", "world_model_own", "--output_path", tmp_path / "runs")
    for _ in range(2):  # the second time without a request
        run_program("pragworld-tasks", *command, *options)
    first, second = sorted((tmp_path / "runs").rglob("samples_*"))
    assert first.read_bytes() == second.read_bytes()
    main(["decompose", str(second)])
    is_greedy = all(len({*line["resps"][0]}) == 1 for line in read_lines(second))
    assert is_greedy == ("all responses to a prompt are identical" in capsys.readouterr().out)


def test_documents_are_labelled_or_it_is_said_why_not(
    served: Any, documents: str, tmp_path: Path, capsys: Any
) -> None:
    places = ("--documents", documents, "--out", str(tmp_path / "mine"), "--max-tokens", "40")
    status, _ = end(served, capsys, "author", *places, "--panel", *3 * [served[0]])
    lines = read_lines(tmp_path / "mine/votes.jsonl")
    votes = [vote for line in lines for vote in line["votes"]]
    assert (status, len(votes)) == (0, 3 * len(lines))
    problems = [vote["problem"] for vote in votes if not vote["answer"]]
    assert all(problems)
    report = (tmp_path / "mine/report.md").read_text()
    is_greedy = all(len({json.dumps(vote) for vote in line["votes"]}) == 1 for line in lines)
    assert ("All samples of" in report) == is_greedy
    assert ("votes failed, as" in report) == (2 * len(problems) > len(votes))


def test_a_seed_leads_to_documents_or_to_reasons(served: Any, tmp_path: Path, capsys: Any) -> None:
    seeds = write_lines(tmp_path / "seeds.jsonl", [{"conversation": SEED}])
    places = ("--seeds", str(seeds), "--out", str(tmp_path / "mine"), "--max-tokens", "200")
    limits = ("--groups", "1", "--turns", "4", "--variants", "2")
    status, line = end(served, capsys, "author", *places, *limits)
    assert status == 0 or "only 0 of 1 groups have labels; see" in line
    assert status == 0 or read_lines(tmp_path / "mine/dropped.jsonl")


def test_paraphrases_are_written_or_rejected(served: Any, tmp_path: Path, capsys: Any) -> None:
    out, prompt = tmp_path / "rome.jsonl", ("--prompt", "travel_commute", "--number", "1")
    places = ("--embeddings", served[0], "--out", str(out), "--max-tokens", "40")
    status, line = end(served, capsys, "paraphrase", *places, *prompt)
    assert (status, out.exists()) in ((0, True), (2, False))
    assert out.exists() or line.startswith(
        "0 paraphrases were accepted, but --number is 1; correct"
    )
