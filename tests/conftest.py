"""Fixtures: the released files, a tiny model, and the real lm_eval command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from lm_eval_runs import Evaluation, LmEval, run_lm_eval
from places import ROOT, SAMPLES

os.environ["HF_HUB_OFFLINE"] = "1"
# No deadlines: a busy machine is no error.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
# Only the tests of the released files may use their folder. Another variable passes it on to the
# processes among which pytest-xdist divides the tests.
if "PRAGWORLD_DATA" in os.environ:
    os.environ["PRAGWORLD_RELEASED"] = os.environ.pop("PRAGWORLD_DATA")


@pytest.fixture(scope="session")
def long_runs() -> None:
    """Skip a test that takes minutes, unless PRAGWORLD_LONG asks for it."""
    if not os.environ.get("PRAGWORLD_LONG"):
        pytest.skip("minutes of time: set PRAGWORLD_LONG=1")


@pytest.fixture(scope="session")
def released() -> Path:
    """The folder of the released files."""
    folder = os.environ.get("PRAGWORLD_RELEASED")
    if not folder:
        pytest.skip("the released PragWorld files: set PRAGWORLD_DATA to their folder")
    return Path(folder).resolve()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model made here, whose answers are a mix of yes, no and nothing."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    command = [sys.executable, str(ROOT / "examples" / "tiny_model.py"), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def lm_eval(tmp_path_factory: pytest.TempPathFactory) -> LmEval:
    """Run the real lm_eval command on our tasks, each time in a process of its own.

    Its task manager scans our folder only, unless a test wants lm-eval's whole index.
    """

    def run(
        *arguments: str, data: Path = SAMPLES, processes: int = 1, whole_index: bool = False
    ) -> Evaluation:
        output = tmp_path_factory.mktemp("lm_eval")
        return run_lm_eval(arguments, output, data, processes, whole_index)

    return run


@pytest.fixture(scope="session")
def model_arguments(tiny_model: Path) -> tuple[str, ...]:
    """The arguments with which lm_eval runs the tiny model."""
    return "--model", "hf", "--model_args", f"pretrained={tiny_model}", "--batch_size", "64"
