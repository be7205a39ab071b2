"""The vLLM examples, against a server of several processes that is called and answers as vLLM."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_runs import programs
from lm_eval_runs import LmEval
from places import ROOT

from pragworld_tasks.sensitivity.paraphrases import shipped_paraphrases
from pragworld_tasks.tiny import tiny_folder

LABEL, LIKELIER = "pragworld_generated_label", "pragworld_generated_mc"
QUESTION = "world_model_travel_commute"
GENERATED = ("--metadata", '{"groups": 2}')
DOCUMENTS = 14
CONCURRENT = 8


class Study:
    """Runs of the examples, in a folder of their own, with a server that can be killed."""

    def __init__(self, model: Path, folder: Path, copies: int, concurrent: int) -> None:
        self.answers = folder / "out" / "answers"
        self.model = str(model)
        self._results = folder / "out" / "results"
        self._requests = folder / "requests.jsonl"
        program = folder / "vllm"
        script = ROOT / "tests" / "vllm_stand_in.py"
        program.write_text(f'#!/bin/sh\nexec "{programs()}/python" "{script}" "$@"\n')
        program.chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.server = f"http://127.0.0.1:{port}"
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(folder), str(programs()), os.environ["PATH"]]),
            **{"PORT": str(port), "COPIES": str(copies), "GPUS": "2"},
            **{"OUT": str(folder / "out"), "SERVER": self.server, "CONCURRENT": str(concurrent)},
            **{"WRITTEN": LABEL, "LIKELIHOODS": LIKELIER, "TASKS": QUESTION},
            "LOG": str(self._requests),
        }

    def start(self, script: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start one of the examples."""
        path = ROOT / "examples" / "vllm" / script
        command = [str(path), self.model, *arguments]
        return subprocess.Popen(command, env=self._environment, text=True, **options)

    @contextmanager
    def serve(self) -> Iterator[None]:
        """Serve the model, and end the server if it still runs."""
        self._requests.unlink(missing_ok=True)
        process = self.start("serve.sh", "--max-model-len", "4096")
        while not self._requests.exists():
            assert process.poll() is None
            time.sleep(0.01)
        yield
        if process.poll() is None:
            self.kill_server()
        process.wait()

    def kill_server(self) -> None:
        """Kill the first of the server's processes, whose end ends the others."""
        os.kill(json.loads(self._requests.read_text().split("\n")[0]), signal.SIGKILL)

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests to the server that was started last."""
        lines = self._requests.read_text().splitlines() if self._requests.exists() else []
        return [json.loads(line) for line in lines[1:]]

    def run(self, script: str, *arguments: str) -> None:
        """Run one of the examples to its end."""
        process = self.start(script, *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, _ = process.communicate()
        assert process.returncode == 0, output

    def lose_server(self, after: int, script: str, *arguments: str) -> str:
        """Run one of the examples, kill the server after some requests; return what is printed."""
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with self.serve():
            process = self.start(script, *arguments, **pipes)
            while len(self.requests()) < after:
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            self.kill_server()
            _, errors = process.communicate()
        assert process.returncode != 0
        return errors

    def metrics(self, task: str) -> dict[str, Any]:
        """Return the metrics of a task."""
        files = [json.loads(path.read_text()) for path in self._results.rglob("results_*.json")]
        (found,) = (file["results"][task] for file in files if task in file["results"])
        return {name: value for name, value in found.items() if name != "sample_len"}

    def samples(self, task: str) -> list[dict[str, Any]]:
        """Return a task's samples, in the order of the documents."""
        (path,) = self._results.rglob(f"samples_{task}_2*.jsonl")
        lines = map(json.loads, path.read_text().splitlines())
        return sorted(lines, key=lambda sample: sample["doc_id"])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model that comes with pragworld, with a chat template."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    shutil.copytree(tiny_folder(), folder)
    (folder / "chat_template.jinja").write_text(
        "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
    )
    return folder


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The arguments of a greedy run of `collect` on three prompts, in as many chunks."""
    path = tmp_path_factory.mktemp("few") / "few.jsonl"
    path.write_text(json.dumps({"text": shipped_paraphrases("travel_commute")[0].text}) + "\n")
    metadata = json.dumps({"paraphrases": str(path)})
    greedy = "temperature=0,do_sample=False,max_gen_toks=16"
    return "--gen_kwargs", greedy, "--chunk", "1", "--metadata", metadata


@pytest.fixture(scope="module")
def single(
    model: Path, collected: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Study:
    """A study with one copy of the model, and one request at a time."""
    study = Study(model, tmp_path_factory.mktemp("single"), copies=1, concurrent=1)
    with study.serve():
        study.run("evaluate.sh", *GENERATED)
        study.run("collect.sh", *collected)
    return study


@pytest.fixture
def several(model: Path, tmp_path: Path) -> Study:
    """A study with two copies of the model, and several requests at a time."""
    return Study(model, tmp_path, copies=2, concurrent=CONCURRENT)


def test_an_evaluation_that_lost_its_server_ends_like_one_without_concurrency(
    several: Study, single: Study
) -> None:
    several.lose_server(DOCUMENTS // 2, "evaluate.sh", *GENERATED)
    answered = len(several.requests())
    with several.serve():
        several.run("evaluate.sh", *GENERATED)
    requests = several.requests()
    assert {request["copy"] for request in requests} == {0, 1}
    # Each document has one request of the first task, and two of the second.
    assert len(requests) <= 3 * DOCUMENTS - answered + CONCURRENT
    assert {(request["temperature"], request["seed"]) for request in requests} == {(0, 1234)}
    for task in (LABEL, LIKELIER):
        assert several.metrics(task) == single.metrics(task)
        assert several.samples(task) == single.samples(task)
    assert len({sample["resps"][0][0] for sample in single.samples(LABEL)}) > 1


def test_a_collection_that_lost_its_server_ends_like_one_without_concurrency(
    several: Study, single: Study, collected: tuple[str, ...]
) -> None:
    errors = several.lose_server(51, "collect.sh", *collected)
    *_, last = errors.splitlines()
    assert last.startswith(f"{QUESTION}: lm_eval failed with ")
    assert last.endswith("; correct that, then rerun the command to resume")
    # Each of fifty requests fails three times, in a few ways.
    assert 0 < errors.count("retrying.") < 10
    (found,), (expected,) = (study.answers.rglob("samples_*") for study in (several, single))
    kept = len(found.read_text().splitlines())
    assert 0 < kept < 3
    with several.serve():
        several.run("collect.sh", *collected)
    assert len(several.requests()) == (3 - kept) * 50
    assert found.read_bytes() == expected.read_bytes()
    responses = [json.loads(line)["resps"][0][0] for line in found.read_text().splitlines()]
    assert len(set(responses)) > 1


def test_a_served_model_has_the_results_of_the_same_model_in_the_process(
    single: Study, lm_eval: LmEval
) -> None:
    inside = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={single.model}", "--batch_size", "16"),
        *("--tasks", f"{LABEL},{LIKELIER}", "--apply_chat_template", "--log_samples", *GENERATED),
    )
    assert inside.returncode == 0, inside.log
    for task in (LABEL, LIKELIER):
        metrics = {name: value for name, value in single.metrics(task).items() if "," in name}
        assert metrics == pytest.approx({f"{n},none": v for n, v in inside.metrics(task).items()})
    for found, expected in zip(single.samples(LABEL), inside.samples(LABEL), strict=True):
        assert found["filtered_resps"] == expected["filtered_resps"]
    _assert_equal_likelihoods(single.samples(LIKELIER), inside.samples(LIKELIER))


def test_a_served_base_model_has_the_likelihoods_of_the_same_model_in_the_process(
    single: Study, lm_eval: LmEval
) -> None:
    task = ("--tasks", LIKELIER, "--log_samples", *GENERATED)
    inside = lm_eval("--model", "hf", "--model_args", f"pretrained={single.model}", *task)
    assert inside.returncode == 0, inside.log
    address = f"model={single.model},base_url={single.server}/v1/completions,num_concurrent=8"
    tokens = "tokenizer_backend=huggingface,add_bos_token=True"
    with single.serve():
        single.run("collect.sh", "--help")  # waits for the server
        served = lm_eval(
            "--model", "local-completions", "--model_args", f"{address},{tokens}", *task
        )
    assert served.returncode == 0, served.log
    _assert_equal_likelihoods(served.samples(LIKELIER), inside.samples(LIKELIER))


def _assert_equal_likelihoods(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    pairs = [
        [float(value) for sample in samples for value, _ in sample["filtered_resps"]]
        for samples in (found, expected)
    ]
    assert pairs[0] == pytest.approx(pairs[1], abs=1e-4)
