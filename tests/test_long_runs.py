"""Sweeps that are killed, run out of memory, or are shared by processes: the results are the same."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import run_interp

from pragworld_interp import runs
from pragworld_interp.journal import Journal
from pragworld_interp.runs import Group
from pragworld_tasks.errors import InputError
from pragworld_tasks.tiny import folder

SETTINGS = ("--model", str(folder()), "--split", "generated", "--metadata", '{"groups": 30}')
ABLATE = ("ablate", *SETTINGS, "--batch-tokens", "256")
PATCH = ("patch", *SETTINGS)
# Of every process: with other numbers of threads a CPU rounds otherwise.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What runs give that nothing happens to."""
    found = {}
    for name, command in (("ablate", ABLATE), ("patch", PATCH)):
        out = tmp_path_factory.mktemp(name) / f"{name}.out"
        process = run_interp(*command, "--out", out, OMP_NUM_THREADS="1")
        assert process.returncode == 0, process.stderr
        assert [path.name for path in out.parent.iterdir()] == [out.name]  # no journal is left
        found[name] = out.read_bytes()
    return found


@pytest.mark.parametrize(("name", "command"), [("ablate", ABLATE), ("patch", PATCH)])
def test_a_killed_run_goes_on_and_gives_the_same_bytes(
    name: str, command: tuple[str, ...], whole: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "results"
    journal = tmp_path / ".results.journal-0"
    arguments = [sys.executable, "-m", "pragworld_interp", *command, "--out", str(out)]
    process = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
    )
    while process.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") > 4:
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    lines = journal.read_bytes().splitlines(keepends=True)
    assert 4 < len(lines) < 31
    # As if the kill had come in the middle of a write.
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:-7])
    process_again = run_interp(*command, "--out", out, OMP_NUM_THREADS="1")
    assert process_again.returncode == 0, process_again.stderr
    assert out.read_bytes() == whole[name]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize(("name", "command"), [("ablate", ABLATE), ("patch", PATCH)])
def test_two_processes_give_the_same_file_as_one(
    name: str, command: tuple[str, ...], whole: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "results"
    # On a CPU, where `accelerate launch` would want MPI.
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    arguments = [*launch, "-m", "pragworld_interp", *command, "--out", str(out)]
    process = subprocess.run(arguments, capture_output=True, text=True, env=ENVIRONMENT)
    assert process.returncode == 0, process.stderr
    assert out.read_bytes() == whole[name]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_run_does_not_go_on_with_weights_that_have_changed(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(folder(), model)
    out = tmp_path / "out" / "layers.json"
    data = ("--split", "generated", "--metadata", '{"groups": 4}', "--batch-tokens", "1")
    command = ("ablate", "--model", str(model), *data, "--out", str(out))
    arguments = [sys.executable, "-m", "pragworld_interp", *command]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = out.parent / ".layers.json.journal-0"
    while process.poll() is None and not (journal.exists() and journal.stat().st_size):
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not out.exists()
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + bytes(4))
    again = run_interp(*command)
    assert again.returncode == 2
    assert "results of another run (model, " in again.stderr


def test_the_journal_of_another_run_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "out", {"model": "one"}) as journal:
        journal.add(0, "result")
    with pytest.raises(InputError, match=r"journal-0: results of another run .* remove it"):
        Journal(tmp_path / "out", {"model": "another"})
    assert Journal(tmp_path / "out", {"model": "one"}).done == {0: "result"}


def test_a_journal_is_read_up_to_where_it_was_cut_off_wherever_that_is(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with Journal(target, {"model": "one"}) as journal:
        for unit in range(3):
            journal.add(unit, {"p": [0.5, unit]})
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        with Journal(target, {"model": "one"}) as journal:
            whole_lines = sum(end <= length for end in ends)
            assert set(journal.done) == set(range(whole_lines - 1))
            journal.add(9, "more")
        assert path.read_bytes().endswith(b'[9, "more"]\n')
        assert path.read_bytes().startswith(content[: ends[0]])


def group(number: int) -> Group:
    return Group((), ([number],), (frozenset(),))


@pytest.mark.parametrize("room", [1, 3, 100])
def test_when_memory_is_short_units_are_halved_then_the_budget(room: int, tmp_path: Path) -> None:
    tried: list[tuple[int, int]] = []

    def work(groups: Sequence[Group], budget: int) -> list[Any]:
        tried.append((len(groups), budget))
        if len(groups) > room or budget > 64:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return [one.prompts[0][0] for one in groups]

    units = [[group(number) for number in range(start, start + 5)] for start in (0, 5)]
    found = runs.run(units, work, tmp_path / "out", {}, 256, "a test")
    assert found == list(range(10))
    # What was found out once is not found out again.
    assert [budget for _, budget in tried] == sorted((b for _, b in tried), reverse=True)
    failed = [one for one in tried if one[0] > room or one[1] > 64]
    assert len(failed) == len(set(failed))


def test_where_memory_does_not_do_at_all_one_line_says_so(tmp_path: Path) -> None:
    def work(groups: Sequence[Group], budget: int) -> list[Any]:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    with pytest.raises(InputError, match=r"^group 7: out of memory, alone as it is; take"):
        runs.run([[documented(7)]], work, tmp_path / "out", {}, 256, "a test")


def test_another_error_is_not_taken_for_a_lack_of_memory(tmp_path: Path) -> None:
    def work(groups: Sequence[Group], budget: int) -> list[Any]:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        runs.run([[group(0), group(1)]], work, tmp_path / "out", {}, 256, "a test")


def documented(number: int) -> Group:
    from pragworld_tasks.data.documents import Document

    document = Document(0, "c", "q", "yes", number, True, None, None, "manual", number, True)
    return Group((document,), ([1],), (frozenset(),))


def test_results_are_those_of_the_documents_whatever_the_units(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    """Another budget makes other batches, and the same predictions."""
    out = tmp_path / "layers.json"
    process = run_interp(
        "ablate", *SETTINGS, "--batch-tokens", "5000", "--out", out, OMP_NUM_THREADS="1"
    )
    assert process.returncode == 0, process.stderr
    first, second = json.loads(whole["ablate"]), json.loads(out.read_bytes())
    for one, other in zip(first["documents"], second["documents"], strict=True):
        assert one["row"] == other["row"]
        assert one["yes"] == pytest.approx(other["yes"], abs=1e-5)
