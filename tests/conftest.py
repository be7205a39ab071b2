"""Fixtures: the released files, a tiny model, and the real lm_eval command."""

import functools
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser_pages import open_browser
from command_runs import run_program, serve_programs
from hypothesis import settings
from lm_eval_runs import Evaluation, LmEval, run_lm_eval
from places import ROOT, SAMPLES

from pragworld_interp.run import round_repeatably
from pragworld_tasks.tiny import tiny_folder

if TYPE_CHECKING:
    from pragworld_tasks.leaderboard.boards import Board

os.environ["HF_HUB_OFFLINE"] = "1"
round_repeatably()  # as our commands do, for tests that compare bits
# Last, because some benchmarks share their names with installed packages.
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "scripts")]
# No deadlines: a busy machine is no error. Half of the usual examples keep the suite short.
settings.register_profile("suite", deadline=None, max_examples=50)
settings.load_profile("suite")
# Only the tests of the released files may use their folder. Another variable passes it on to the
# processes among which pytest-xdist divides the tests.
if "PRAGWORLD_DATA" in os.environ:
    os.environ["PRAGWORLD_RELEASED"] = os.environ.pop("PRAGWORLD_DATA")


def pytest_configure(config: pytest.Config) -> None:
    """Serve our commands to all processes among which pytest-xdist divides the tests."""
    running = ExitStack()
    running.enter_context(serve_programs())
    config.add_cleanup(running.close)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the objects of imported modules, which live as long as we do.

    transformers collects all garbage after each training, which takes longer than the training.
    """
    gc.freeze()


@pytest.fixture(scope="session")
def long_runs() -> None:
    """Skip a test that takes minutes, unless PRAGWORLD_LONG asks for it."""
    if not os.environ.get("PRAGWORLD_LONG"):
        pytest.skip("minutes of time: set PRAGWORLD_LONG=1")


@pytest.fixture
def our_tasks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep lm-eval from reading the files of all its own tasks, which takes seconds."""
    from lm_eval.tasks import TaskManager

    scan = functools.partialmethod(TaskManager.__init__, include_defaults=False)
    monkeypatch.setattr(TaskManager, "__init__", scan)


@pytest.fixture(scope="session")
def released() -> Path:
    folder = os.environ.get("PRAGWORLD_RELEASED")
    if not folder:
        pytest.skip("the released PragWorld files: set PRAGWORLD_DATA to their folder")
    return Path(folder).resolve()


@pytest.fixture
def released_data(released: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the released files, which PRAGWORLD_DATA names."""
    monkeypatch.setenv("PRAGWORLD_DATA", str(released))
    return released


@pytest.fixture
def sample_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PRAGWORLD_DATA name our own small files in the released formats."""
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def board() -> "Board":
    from board_sites import small_board

    return small_board()


@pytest.fixture(scope="session")
def site(board: "Board", tmp_path_factory: pytest.TempPathFactory) -> Path:
    from board_sites import write_board

    return write_board(board, tmp_path_factory.mktemp("board") / "site")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model made here, whose answers are a mix of yes, no and nothing."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    run_program("python", ROOT / "examples" / "tiny_model.py", folder)
    return folder


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    """The small model that comes with pragworld, and its tokenizer; a test may change the model."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tiny_folder()
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def lm_eval(tmp_path_factory: pytest.TempPathFactory) -> LmEval:
    """Run the real lm_eval command on our tasks, each time in a new process.

    The process is a fork that has imported torch, and its task manager scans our folder only,
    unless a test wants lm-eval's whole index.
    """

    def run(*arguments: str, **options: Any) -> Evaluation:
        return run_lm_eval(tmp_path_factory.mktemp("lm_eval"), *arguments, **options)

    return run


@pytest.fixture(scope="session")
def model_arguments(tiny_model: Path) -> tuple[str, ...]:
    """The arguments with which lm_eval runs the tiny model."""
    return "--model", "hf", "--model_args", f"pretrained={tiny_model}", "--batch_size", "64"
