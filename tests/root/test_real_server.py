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

import pragworld_tasks as pt
from pragworld_tasks.cli import main

FOLDERS = [*filter(None, os.environ.get("PRAGWORLD_REAL_MODELS", "").split(":"))]
if not FOLDERS:
    pytest.skip("PRAGWORLD_REAL_MODELS names no model", allow_module_level=True)
SERVE = os.environ.get("PRAGWORLD_SERVER", "transformers serve {model} --port {port}")
TOKENS = "40"


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
def documents(released_data: Path, tmp_path: Path) -> Path:
    """Three documents of the manual split's first group, as documents of one's own."""
    group = [document for document in pt.load("manual") if document.group == 0]
    fields = ("context", "question", "answer", "group", "alteration")
    lines = [{name: getattr(document, name) for name in fields} for document in group[:3]]
    return write_lines(tmp_path / "documents.jsonl", lines)


def api(model: str, url: str) -> tuple[str, ...]:
    """Return the options of lm_eval for the server."""
    arguments = f"model={model},base_url={url}/chat/completions,num_concurrent=2"
    options = ("--model", "local-chat-completions", "--model_args", arguments)
    return (*options, "--apply_chat_template", "--log_samples", "--gen_kwargs")


def test_an_evaluation_is_scored(
    served: Any, documents: Path, lm_eval: LmEval, capsys: Any
) -> None:
    metadata = json.dumps({"documents": str(documents)})
    tasks = ("--tasks", "pragworld_own", "--metadata", metadata)
    run = lm_eval(*api(*served), f"max_gen_toks={TOKENS}", *tasks)
    main(["score", str(run.samples_file("pragworld_own")), "--documents", str(documents)])
    assert "3 documents, 1 group" in capsys.readouterr().out


def test_a_collection_resumes_and_is_decomposed(served: Any, tmp_path: Path, capsys: Any) -> None:
    texts = ("From {city} to Rome: how long?", "How much time does it take from {city} to Rome?")
    wordings = write_lines(tmp_path / "rome.jsonl", [{"text": text} for text in texts])
    settings = {"paraphrases": str(wordings), "values": ["Oslo", "Lima"], "unit": "hour"}
    metadata = json.dumps({**settings, "repeats": 2})
    arguments = (*api(*served), f"max_gen_toks={TOKENS},temperature=1", "--metadata", metadata)
    for _ in range(2):  # the second time without a request
        run = run_program(
            *("pragworld-tasks", "collect", "--tasks", "world_model_own", *arguments),
            *("--output_path", tmp_path / "runs"),
        )
        assert run.returncode == 0, run.stderr
    first, second = sorted((tmp_path / "runs").rglob("samples_*"))
    assert first.read_bytes() == second.read_bytes()
    main(["decompose", str(second)])
    is_greedy = all(len({*line["resps"][0]}) == 1 for line in read_lines(second))
    assert is_greedy == ("all responses to a prompt are identical" in capsys.readouterr().out)


def authoring(served: tuple[str, str], out: Path, *more: str) -> list[str]:
    model, url = served
    return ["author", "--base-url", url, "--model", model, "--out", str(out), *more]


def test_documents_are_labelled_or_it_is_said_why_not(
    served: Any, documents: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    panel = ("--panel", *3 * [served[0]], "--max-tokens", TOKENS)
    main(authoring(served, out, "--documents", str(documents), *panel))
    report, votes = (out / "report.md").read_text(), read_lines(out / "votes.jsonl")
    cast = [vote for line in votes for vote in line["votes"]]
    assert len(cast) == 3 * len(votes)
    problems = [vote["problem"] for vote in cast if not vote["answer"]]
    assert all(problems)
    is_greedy = all(len({json.dumps(vote) for vote in line["votes"]}) == 1 for line in votes)
    assert ("All samples of" in report) == is_greedy
    assert ("votes failed, as" in report) == (2 * len(problems) > len(cast))


def outcome(command: list[str], capsys: Any) -> tuple[int, str]:
    """Return a command's exit status and the last line that it prints."""
    status = 0
    try:
        main(command)
    except SystemExit as end:
        status = int(end.code or 0)
    printed = capsys.readouterr()
    *_, line = (printed.err if status else printed.out).splitlines()
    return status, line


def test_a_seed_leads_to_documents_or_to_reasons(served: Any, tmp_path: Path, capsys: Any) -> None:
    seed = "Ann: Where did Mia put the pears?\nBen: In the pantry. Noah took two to the cellar."
    seeds, out = write_lines(tmp_path / "seeds.jsonl", [{"conversation": seed}]), tmp_path / "mine"
    limits = ("--groups", "1", "--turns", "4", "--variants", "2", "--max-tokens", "200")
    status, line = outcome(authoring(served, out, "--seeds", str(seeds), *limits), capsys)
    dropped = read_lines(out / "dropped.jsonl")
    print(line, *dropped, sep="\n")
    if status:
        assert "only 0 of 1 groups have labels; see" in line
        assert dropped


def test_paraphrases_are_written_or_rejected(served: Any, tmp_path: Path, capsys: Any) -> None:
    model, url = served
    arguments = ["paraphrase", "--base-url", url, "--model", model, "--max-tokens", TOKENS]
    places = ["--embeddings", model, "--out", str(tmp_path / "rome.jsonl")]
    command = [*arguments, *places, "--number", "1", "--prompt", "travel_commute"]
    status, line = outcome(command, capsys)
    written = (tmp_path / "rome.jsonl").exists()
    assert (status, written) in ((0, True), (2, False))
    assert written or line.startswith("0 paraphrases were accepted, but --number is 1; correct the")
