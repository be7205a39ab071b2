"""An error that one process of a run meets is one line, once, and ends all of them."""

import json
from typing import Any

import pytest
from command_runs import run_in_two_processes
from failing_processes import RUNS
from places import ROOT

Ended = tuple[list[dict[str, Any]], str]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return what happened in each process, and what the last run printed."""
    folder = tmp_path_factory.mktemp("failing")
    process = run_in_two_processes("python", ROOT / "tests" / "failing_processes.py", folder)
    files = [folder / f"found.{number}.json" for number in (0, 1)]
    assert all(file.exists() for file in files), process.stderr
    return [json.loads(file.read_text()) for file in files], process.stderr


@pytest.mark.parametrize("name", RUNS)
def test_one_process_prints_the_error_and_all_end_with_its_status(name: str, ended: Ended) -> None:
    found, _ = ended
    failing = RUNS[name].failing
    (status, lines), (other_status, other_lines) = found[failing][name], found[1 - failing][name]
    assert (status, other_status) == (2, 2)
    assert lines[-1].endswith(RUNS[name].line)
    assert other_lines == lines[:-1]  # notes, which go before the error


def test_all_processes_raise_the_error_in_python(
    ended: Ended,
) -> None:
    found, _ = ended
    assert found[0]["python"] == found[1]["python"]
    assert found[0]["python"] == ["a sweep needs either documents or prompts; give one of them"]


def test_a_process_that_others_wait_for_in_the_model_ends_them(
    ended: Ended,
) -> None:
    _, printed = ended
    ours = printed.partition("torch/distributed/elastic")[0]
    assert ours.count("out of memory on group") == 1
    assert "Traceback" not in ours
