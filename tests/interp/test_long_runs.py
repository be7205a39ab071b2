"""Sweeps that are interrupted, short of memory or shared by processes give the same results."""

import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from command_runs import Program, refused, run_in_two_processes, run_program
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from pragworld_interp.cli import main
from pragworld_interp.engine import one_pass
from pragworld_interp.engine.sweep import sweep_layers
from pragworld_interp.run.observations import SweepPlan, observe, recorded
from pragworld_interp.run.processes import progress_bar
from pragworld_tasks.errors import InputError
from pragworld_tasks.tiny import tiny_folder

SETTINGS = ("--model", str(tiny_folder()), "--split", "generated", "--metadata", '{"groups": 6}')
ABLATE = ("ablate", *SETTINGS, "--replacement", "resample", "--batch-tokens", "256")
PATCH = ("patch", *SETTINGS, "--batch-tokens", "256")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    found = {}
    for name, command in (("ablate", ABLATE), ("patch", PATCH)):
        out = tmp_path_factory.mktemp(name) / f"{name}.out"
        run_program("pragworld-interp", *command, "--out", out)
        assert [path.name for path in out.parent.iterdir()] == [out.name]  # no journal is left
        found[name] = out.read_bytes()
    return found


@pytest.mark.parametrize(
    ("name", "command", "how"),
    [("ablate", ABLATE, signal.SIGKILL), ("patch", PATCH, signal.SIGINT)],
)
def test_an_interrupted_run_resumes_and_gives_the_same_bytes(
    name: str,
    command: tuple[str, ...],
    how: signal.Signals,
    whole: dict[str, bytes],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    out = tmp_path / "results"
    journal = tmp_path / ".results.journal-0"
    log = tmp_path_factory.mktemp("log") / "log"
    program = Program("pragworld-interp", *command, "--out", out, log=log)
    while program.runs():
        if journal.exists() and journal.read_bytes().count(b"\n") > 2:
            break
        time.sleep(0.005)
    status = program.stop(how)
    if how == signal.SIGINT:
        printed = log.read_text()
        assert status == 130
        assert printed.endswith("\ninterrupted\n")
        assert "Traceback" not in printed
    assert not out.exists()
    lines = journal.read_bytes().splitlines(keepends=True)
    assert 2 < len(lines) < 7
    # As if the kill had come in the middle of a write.
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:-7])
    run_program("pragworld-interp", *command, "--out", out)
    assert out.read_bytes() == whole[name]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize(("name", "command"), [("ablate", ABLATE), ("patch", PATCH)])
def test_two_processes_give_the_same_file_as_one(
    name: str, command: tuple[str, ...], whole: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "results"
    run_in_two_processes("pragworld-interp", *command, "--out", out)
    assert out.read_bytes() == whole[name]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that interrupts a sweep of a model after its first unit."""

    def run(command: str, model: Path, *options: str) -> list[str]:
        data = ("--split", "generated", "--metadata", '{"groups": 3}', "--batch-tokens", "1")
        out = tmp_path / "out" / "results"
        words = [command, "--model", str(model), *data, "--out", str(out)]
        with monkeypatch.context() as patched:
            once = mock.Mock(wraps=sweep_layers, side_effect=[mock.DEFAULT, KeyboardInterrupt])
            patched.setattr(one_pass, "sweep_layers", once)
            with pytest.raises(SystemExit, match="130"):
                main([*words, *options])
        journal = out.parent / ".results.journal-0"
        assert journal.read_bytes().count(b"\n") > 1
        return words

    return run


@pytest.mark.parametrize(
    ("command", "first", "second", "named"),
    [
        ("ablate", "--layers=0", "--layers=1", "targets"),
        ("ablate", "--positions=all", "--positions=last", "intervention"),
        ("patch", "--positions=all", "--positions=last", "positions"),
    ],
)
def test_a_run_does_not_resume_with_other_settings(
    command: str, first: str, second: str, named: str, interrupted: Any
) -> None:
    words = interrupted(command, tiny_folder(), first)
    with refused(rf"journal-0: written with {named}"):
        main([*words, second])


@pytest.mark.parametrize("adapted", [False, True])  # whether the model is the base of an adapter
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "chat_template.jinja"])
def test_a_run_does_not_resume_with_other_files_of_the_model(
    name: str, adapted: bool, interrupted: Any, tmp_path: Path
) -> None:
    model = base = tmp_path / "base"
    shutil.copytree(tiny_folder(), base)
    (base / "chat_template.jinja").write_text("{{ messages[0]['content'] }}\n")
    if adapted:
        model = tmp_path / "adapter"
        network = AutoModelForCausalLM.from_pretrained(base)
        get_peft_model(network, LoraConfig(target_modules=["q_proj"])).save_pretrained(model)
        for file in (*base.glob("tokenizer*"), base / "chat_template.jinja"):
            shutil.copy(file, model)
    command = interrupted("ablate", model, "--chat-template")
    (model / "layers.json").write_text("{}")  # what another sweep wrote is no part of the model
    file = base / name
    content = file.read_bytes()
    file.write_bytes(content[:-4] + bytes(4) if file.suffix == ".safetensors" else content + b"\n")
    with refused(rf"written with files\.{file} \["):
        main([*command, "--chat-template"])


def test_a_log_shows_the_progress_of_a_long_run_only(capsys: pytest.CaptureFixture[str]) -> None:
    for seconds, shown in ((0, False), (60, True)):
        with progress_bar(total=2, desc="sweep") as progress:
            progress.start_t -= seconds
            progress.last_print_t -= seconds
            progress.update()
        assert ("sweep:  50%" in capsys.readouterr().err) == shown


def planned(units: Sequence[Sequence[int]], work: Callable[..., list[Any]]) -> SweepPlan[int]:
    return SweepPlan(units, work, 256, lambda item: f"item {item}", "a test")


def run_some(target: Path, identity: dict[str, str], stop: int = 5) -> list[int]:
    """Run five units of one item each up to a unit, and return the numbers of those that ran."""
    ran: list[int] = []

    def work(items: Sequence[int], budget: int) -> list[Any]:
        if items[0] == stop:
            raise KeyboardInterrupt
        ran.extend(items)
        return [{"p": [0.5, number]} for number in items]

    plan = planned([[number] for number in range(5)], work)
    with suppress(KeyboardInterrupt):
        results = recorded(plan, target, identity)
        assert results == [{"p": [0.5, number]} for number in range(5)]
    return ran


def test_a_run_resumes_wherever_its_journal_was_cut_off(tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert run_some(target, {"model": "one"}, stop=3) == [0, 1, 2]
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        done = max(0, sum(end <= length for end in ends) - 1)  # the first line is the identity
        assert run_some(target, {"model": "one"}) == list(range(done, 5))
        assert path.read_bytes().startswith(content[: ends[done]])


@pytest.mark.parametrize("room", [1, 3, 100])
def test_when_memory_is_short_units_and_the_budget_are_halved(room: int) -> None:
    tried: list[tuple[int, int]] = []

    def work(items: Sequence[int], budget: int) -> list[Any]:
        tried.append((len(items), budget))
        assert len(tried) < 30  # or it would never end
        if len(items) > room or budget > 64:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return list(items)

    found = observe(planned([range(5), range(5, 10)], work))
    assert [*found] == [(0, [*range(5)]), (1, [*range(5, 10)])]
    # What was found out once is not found out again.
    assert [budget for _, budget in tried] == sorted((b for _, b in tried), reverse=True)
    failed = [one for one in tried if one[0] > room or one[1] > 64]
    assert len(failed) == len(set(failed))


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (InputError, "DefaultCPUAllocator: can't allocate memory", "^out of memory on item 7, e"),
        (RuntimeError, "mat1 and mat2 shapes cannot be multiplied", "shapes"),
    ],
)
def test_a_lack_of_memory_is_named_and_no_other_error_taken_for_it(
    kind: type[Exception], error: str, message: str
) -> None:
    def work(items: Sequence[int], budget: int) -> list[Any]:
        raise RuntimeError(error)

    with pytest.raises(kind, match=message):
        list(observe(planned([[7]], work)))
