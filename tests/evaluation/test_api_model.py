"""Models behind an API: the real lm_eval command against a real OpenAI-compatible server process."""

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from command_runs import Program
from lm_eval_runs import LmEval
from places import SAMPLES


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `transformers serve` with the tiny model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = ("-m", "transformers.cli.transformers", "serve", tiny_model, "--device", "cpu")
    process = Program("python", *command, "--host", "127.0.0.1", "--port", str(port), log=log)
    try:
        for _ in range(600):
            time.sleep(0.1)
            assert process.runs(), log.read_text()
            try:
                requests.get(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except requests.ConnectionError:
                continue
        yield f"http://127.0.0.1:{port}/v1/chat/completions"
    finally:
        process.stop(signal.SIGTERM)


def evaluate_both(lm_eval: LmEval, server: str, model: Path, task: str, data: Path) -> None:
    """Runs a task over HTTP and in the process, and expects the same of both."""
    arguments = ("--tasks", task, "--apply_chat_template", "--log_samples")
    over_http = lm_eval(
        *("--model", "local-chat-completions"),
        *("--model_args", f"model={model},base_url={server},num_concurrent=1,max_retries=1"),
        *arguments,
        data=data,
    )
    assert over_http.returncode == 0, over_http.log
    inside = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={model}", "--batch_size", "64"),
        *arguments,
        data=data,
    )
    assert inside.returncode == 0, inside.log
    responses = [
        [sample["filtered_resps"][0].strip() for sample in evaluation.samples(task)]
        for evaluation in (over_http, inside)
    ]
    assert responses[0] == responses[1]
    assert len(set(responses[0])) > 1  # else this test would show little
    assert over_http.metrics(task) == pytest.approx(inside.metrics(task), nan_ok=True)


def test_a_model_behind_an_api(lm_eval: LmEval, server: str, tiny_model: Path) -> None:
    evaluate_both(lm_eval, server, tiny_model, "pragworld_manual_label", SAMPLES)


def test_a_model_behind_an_api_on_the_released_manual_split(
    lm_eval: LmEval, server: str, tiny_model: Path, released: Path, long_runs: None
) -> None:
    evaluate_both(lm_eval, server, tiny_model, "pragworld_manual", released)
