"""The vLLM examples, against a server that is called and answers as vLLM."""

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
from json_lines import read_lines, write_lines
from lm_eval_runs import LmEval, Output
from places import ROOT

from pragworld_tasks.sensitivity.paraphrases import shipped_paraphrases
from pragworld_tasks.tiny import tiny_folder

LABEL, LIKELIER = "pragworld_generated_label", "pragworld_generated_mc"
QUESTION = "world_model_travel_commute"
GENERATED = ("--metadata", '{"groups": 2}')
DOCUMENTS = 14
CONCURRENT = 8


class Study(Output):
    """Runs of the examples, in a folder of their own, with a server that can be killed."""

    def __init__(self, model: Path, folder: Path, concurrent: int) -> None:
        super().__init__(folder / "out" / "results")
        self.answers = folder / "out" / "answers"
        self.model = str(model)
        self._requests = folder / "requests.jsonl"
        program = folder / "vllm"
        script = Path(__file__).with_name("vllm_stand_in.py")
        program.write_text(f'#!/bin/sh\nexec "{programs()}/python" "{script}" "$@"\n')
        program.chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])
        self.server = f"http://127.0.0.1:{self._port}"
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(folder), str(programs()), os.environ["PATH"]]),
            **{"COPIES": "3", "GPUS": "2"},
            **{"OUT": str(folder / "out"), "SERVER": self.server, "CONCURRENT": str(concurrent)},
            **{"WRITTEN": LABEL, "LIKELIHOODS": LIKELIER, "TASKS": QUESTION},
            "LOG": str(self._requests),
        }

    def start(self, script: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        path = ROOT / "examples" / "vllm" / script
        command = [str(path), self.model, *arguments]
        return subprocess.Popen(command, env=self._environment, text=True, **options)

    @contextmanager
    def serve(self) -> Iterator[None]:
        self._requests.unlink(missing_ok=True)
        process = self.start("serve.sh", "--port", self._port)
        while not self._requests.exists():
            assert process.poll() is None
            time.sleep(0.01)
        try:
            yield
        finally:
            if process.poll() is None:
                self.kill_server()
            process.wait()

    def kill_server(self) -> None:
        """Kill the server, which need not be the process that was started."""
        os.kill(self.logged()[0]["process"], signal.SIGKILL)

    def logged(self) -> list[dict[str, Any]]:
        """Return the options of the server that was started last, and the requests to it."""
        return read_lines(self._requests)

    def run(self, script: str, *arguments: str) -> None:
        process = self.start(script, *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, _ = process.communicate()
        assert process.returncode == 0, output

    def lose_server(self, after: int, script: str, *arguments: str) -> str:
        """Run one of the examples, kill the server after some requests; return what is printed."""
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with self.serve():
            process = self.start(script, *arguments, **pipes)
            while self._requests.read_text().count("\n") <= after:
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            self.kill_server()
            _, errors = process.communicate()
        assert process.returncode != 0
        return errors


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
    wording = {"text": shipped_paraphrases("travel_commute")[0]}
    path = write_lines(tmp_path_factory.mktemp("few") / "few.jsonl", [wording])
    metadata = json.dumps({"paraphrases": str(path)})
    greedy = "temperature=0,do_sample=False,max_gen_toks=16"
    return "--gen_kwargs", greedy, "--chunk", "1", "--metadata", metadata


@pytest.fixture(scope="module")
def single(
    model: Path, collected: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Study:
    study = Study(model, tmp_path_factory.mktemp("single"), concurrent=1)
    with study.serve():
        study.run("evaluate.sh", *GENERATED)
        study.run("collect.sh", *collected)
    return study


@pytest.fixture
def several(model: Path, tmp_path: Path) -> Study:
    return Study(model, tmp_path, concurrent=CONCURRENT)


def test_an_evaluation_that_lost_its_server_ends_like_one_without_concurrency(
    several: Study, single: Study
) -> None:
    several.lose_server(DOCUMENTS // 2, "evaluate.sh", *GENERATED)
    _, *answered = several.logged()
    with several.serve():
        several.run("evaluate.sh", *GENERATED)
    options, *requests = several.logged()
    assert (options["data_parallel_size"], options["tensor_parallel_size"]) == (3, 2)
    # Each document has one request of the first task, and two of the second.
    assert len(requests) <= 3 * DOCUMENTS - len(answered) + CONCURRENT
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
    assert last.startswith("lm_eval failed with ")
    assert last.endswith("; correct that, then rerun the command to resume")
    (journal,) = several.answers.glob("responses-*.journal")
    kept = len(journal.read_text().splitlines()) - 1
    assert 0 < kept < 3
    with several.serve():
        several.run("collect.sh", *collected)
    assert len(several.logged()) == 1 + (3 - kept) * 50
    (found,), (expected,) = (study.answers.rglob("samples_*") for study in (several, single))
    assert found.read_bytes() == expected.read_bytes()
    lines = read_lines(found)
    assert len(lines) == 3
    assert all(response for line in lines for each in line["resps"] for response in each)


def test_a_served_model_has_the_results_of_the_same_model_in_the_process(
    single: Study, lm_eval: LmEval
) -> None:
    inside = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={single.model}", "--log_samples"),
        *("--tasks", f"{LABEL},{LIKELIER}", "--apply_chat_template", *GENERATED),
    )
    for task in (LABEL, LIKELIER):
        assert single.metrics(task) == pytest.approx(inside.metrics(task))
    texts, likelihoods = (
        [[sample["filtered_resps"] for sample in run.samples(task)] for run in (single, inside)]
        for task in (LABEL, LIKELIER)
    )
    assert texts[0] == texts[1]
    values = [[float(value) for pairs in run for value, _ in pairs] for run in likelihoods]
    assert values[0] == pytest.approx(values[1], abs=1e-4)
