"""Sweeps of models that two processes share by tensor parallelism are those of one process."""

import json
from pathlib import Path

import pytest
import torch
from command_runs import refused, run_in_two_processes
from divided_models import ARCHITECTURES, COMMANDS, logits, model_of, prepare, run_command
from places import ROOT
from small_models import LabelsOnly

from pragworld_interp.cli import main
from pragworld_interp.decoder import Heads, from_model
from pragworld_tasks.tiny import tiny_folder

ABLATE = ("ablate", "--model", str(tiny_folder()), "--tensor-parallel")
SPLIT = ("--split", "generated", "--metadata", '{"groups": 1}')


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of what two processes found together."""
    folder = tmp_path_factory.mktemp("divided")
    prepare(folder)
    process = run_in_two_processes("python", ROOT / "tests" / "divided_models.py", folder)
    assert process.returncode == 0, process.stderr
    return folder


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_sweep_of_a_divided_model_is_that_of_a_whole_one(
    architecture: str, divided: Path
) -> None:
    one = logits(from_model(model_of(architecture), LabelsOnly()))
    for process in (0, 1):
        two = torch.load(divided / f"{architecture}.{process}.pt")
        assert two.keys() == one.keys()
        for name, expected in one.items():
            error = (two[name] - expected).abs().max() / expected.abs().max()
            assert error < 1e-5, (name, error)


def test_a_head_has_its_columns_in_the_process_that_holds_them() -> None:
    """The second of two processes holds the last 6 of the 12 columns of 3 heads."""
    heads = Heads(torch.nn.Linear(12, 12), 3, 4, before=6)
    mine = list(range(6, 12))
    assert [mine[heads.columns(head)] for head in range(3)] == [[], [6, 7], [8, 9, 10, 11]]


def probabilities(file: Path) -> torch.Tensor:
    """Return what a report says about each document or pair."""
    if file.name == "layers":
        return torch.tensor([row["gold"] for row in json.loads(file.read_text())["documents"]])
    pairs = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    return torch.tensor([[row["original_run"], *row["patched"]] for row in pairs])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_report_of_a_divided_model_is_that_of_a_whole_one(
    name: str, divided: Path, tmp_path: Path
) -> None:
    run_command(name, divided, tmp_path / name)
    one, two = (probabilities(folder / name) for folder in (tmp_path, divided))
    torch.testing.assert_close(two, one, atol=2e-5, rtol=0)


def test_merged_shards_of_a_divided_model_are_the_run_without_shards(
    divided: Path, tmp_path: Path
) -> None:
    """A unit of the first shard comes from a run that was interrupted."""
    shards = sorted((divided / "shards").iterdir())
    assert [path.name for path in shards] == ["layers.shard-1-of-2", "layers.shard-2-of-2"]
    main(["merge", *map(str, shards), "--out", str(tmp_path / "merged")])
    assert (tmp_path / "merged").read_bytes() == (divided / "layers").read_bytes()


def test_all_processes_return_the_report_in_python(divided: Path) -> None:
    first, second = (divided / f"ablated.{process}.json" for process in (0, 1))
    assert first.read_bytes() == second.read_bytes()


def test_models_that_cannot_be_divided_are_refused(divided: Path) -> None:
    for process in (0, 1):
        refusals = json.loads((divided / f"refusals.{process}.json").read_text())
        assert "no plan for tensor parallelism" in refusals["gpt2"]
        assert "cannot be divided among 2 processes" in refusals["one head of keys"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "there is one; start more, as in `torchrun"),
        (["--engine", "pyvene"], "--engine pyvene takes whole models; leave out"),
    ],
)
def test_what_cannot_be_divided_is_refused(options: list[str], error: str, tmp_path: Path) -> None:
    with refused(error):
        main([*ABLATE, *SPLIT, *options, "--out", str(tmp_path / "out")])
