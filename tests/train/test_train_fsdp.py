"""The configurations in `examples/accelerate` train the same weights as a single process.

There is no GPU here, so sharding is done on the CPU (see `fsdp_on_cpu.py`), in float32.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from fsdp_on_cpu import KINDS, train
from places import ROOT
from safetensors.torch import load_file
from torch import Tensor
from train_runs import assert_close, distance, same_bits
from transformers import AutoModelForCausalLM


@pytest.fixture(scope="module", params=["fsdp", "deepspeed_zero2"])
def sharded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, long_runs: None
) -> Path:
    if request.param == "deepspeed_zero2" and find_spec("deepspeed") is None:
        pytest.skip("DeepSpeed: not installed")
    folder = tmp_path_factory.mktemp(request.param)
    configuration = str(ROOT / "examples" / "accelerate" / f"{request.param}.yaml")
    launcher = ["-m", "accelerate.commands.launch", "--config_file", configuration]
    launcher += ["--num_processes", "2", "--mixed_precision", "no", "--main_process_port", "0"]
    launcher += [str(Path(__file__).with_name("fsdp_on_cpu.py")), str(folder), *KINDS]
    process = subprocess.run(
        [sys.executable, *launcher],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "DS_ACCELERATOR": "cpu",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{ROOT}:{ROOT}/tests",
        },
        timeout=300,
    )
    assert process.returncode == 0, process.stdout
    return folder


def written(folder: Path) -> dict[str, Tensor]:
    probes = load_file(folder / "label_probes.safetensors")
    adapter = folder / "adapter_model.safetensors"
    if adapter.exists():
        return {**load_file(adapter), **probes}
    model = AutoModelForCausalLM.from_pretrained(folder)
    return {**{name: weight.detach() for name, weight in model.named_parameters()}, **probes}


@pytest.mark.parametrize("kind", KINDS)
def test_sharded_training_equals_one_process(sharded: Path, tmp_path: Path, kind: str) -> None:
    found = written(sharded / kind)
    train(tmp_path / "one", kind)
    assert_close(found, written(tmp_path / "one"), 1e-4)


def test_a_resumed_sharded_run_equals_an_uninterrupted_one(sharded: Path) -> None:
    saved, resumed = written(sharded / "saved"), written(sharded / "resumed")
    assert same_bits(saved, resumed)
    assert distance(written(sharded / "saved" / "checkpoint-3"), saved) > 0.01
