"""What tests share: the data folders, a tiny model, and the real lm_eval command."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "tests" / "samples"

os.environ["HF_HUB_OFFLINE"] = "1"
# What the user of the test run has set is for the tests of the released files alone.
_RELEASED = os.environ.pop("PRAGWORLD_DATA", None)


@pytest.fixture(scope="session")
def released() -> Path:
    """The folder of the released files."""
    if not _RELEASED:
        pytest.skip("the released PragWorld files: set PRAGWORLD_DATA to their folder")
    return Path(_RELEASED).resolve()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model made here, whose answers are a mix of yes, no and nothing."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    command = [sys.executable, str(ROOT / "examples" / "tiny_model.py"), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


class Evaluation:
    """What a run of lm_eval gave: its output, its results and its samples."""

    def __init__(self, process: subprocess.CompletedProcess[str], output: Path) -> None:
        self.returncode = process.returncode
        self.stdout = process.stdout
        self.log = process.stderr
        results = sorted(output.rglob("results_*.json"))
        self.results: dict[str, Any] = json.loads(results[-1].read_text()) if results else {}
        self._output = output

    def metrics(self, task: str) -> dict[str, float]:
        """The metrics of a task or group, by name."""
        found = self.results["results"][task].items()
        return {key.removesuffix(",none"): value for key, value in found if key.endswith(",none")}

    def samples_file(self, task: str) -> Path:
        """The file of a task's samples."""
        (path,) = self._output.rglob(f"samples_{task}_2*.jsonl")
        return path

    def samples(self, task: str) -> list[dict[str, Any]]:
        """A task's samples, in the order of the documents."""
        lines = self.samples_file(task).read_text().splitlines()
        return sorted((json.loads(line) for line in lines), key=lambda sample: sample["doc_id"])


LmEval = Callable[..., Evaluation]


@pytest.fixture(scope="session")
def lm_eval(tmp_path_factory: pytest.TempPathFactory) -> LmEval:
    """Runs the real lm_eval command on our tasks in a process of its own."""

    def run(
        *arguments: str,
        data: Path = SAMPLES,
        launcher: tuple[str, ...] = (sys.executable, "-m", "lm_eval"),
        environment: dict[str, str] | None = None,
    ) -> Evaluation:
        output = tmp_path_factory.mktemp("lm_eval")
        command = [*launcher, "--include_path", str(ROOT / "task_configs"), *arguments]
        command += ["--output_path", str(output)]
        environment = {**os.environ, "PRAGWORLD_DATA": str(data), **(environment or {})}
        process = subprocess.run(command, capture_output=True, text=True, env=environment)
        return Evaluation(process, output)

    return run
