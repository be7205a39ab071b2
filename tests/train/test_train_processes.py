"""Runs in several processes and resumed runs, compared with an uninterrupted run in one process."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import run_in_two_processes, run_program
from safetensors.torch import load_file
from train_runs import BOTH, assert_close, run, same_bits, weights
from warm_client import KILLED

ONE: dict[str, Any] = {**BOTH, "max_steps": 10, "learning_rate": 0.01}
# The same batches of eight, half of each in either process.
TWO: dict[str, Any] = {
    **ONE,
    "per_device_train_batch_size": 4,
    "per_device_eval_batch_size": 4,
}
ROWS = 80

# Random batches and dropout, which a resumed run must draw again.
DRAWN: dict[str, Any] = {
    **BOTH,
    "max_steps": 8,
    "save_strategy": "steps",
    "save_steps": 2,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "train_sampling_strategy": "random",
    "gradient_checkpointing": True,
    "optim": "adamw_torch",
    "lr_scheduler_type": "linear",
    "warmup_steps": 3,
    "learning_rate": 1e-2,
    "max_grad_norm": 1.0,
}

EVALUATED: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 5}
TOGETHER: dict[str, Any] = {
    f"{kind}, {name}": {"rows": ROWS, "with_lora": kind == "lora", "options": {**TWO, **options}}
    for kind, name, options in (
        ("full", "as it comes", EVALUATED),
        ("full", "none unused", {"ddp_find_unused_parameters": False}),
        (
            "full",
            "accumulated",
            {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4},
        ),
        ("full", "checkpointed", {"gradient_checkpointing": True}),
        ("lora", "as it comes", EVALUATED),
        ("lora", "none unused", {"ddp_find_unused_parameters": False}),
        ("lora", "checkpointed", {"gradient_checkpointing": True}),
    )
}
TOGETHER["drawn"] = {"rows": 30, "with_lora": True, "options": DRAWN, "dropout": 0.2}
TOGETHER["resumed"] = {**TOGETHER["drawn"], "resume": "drawn/checkpoint-4"}


def script(folder: Path, runs: Mapping[str, Any]) -> tuple[Path, Path]:
    """Return the arguments with which Python does these runs."""
    folder.mkdir(exist_ok=True)
    path = folder / "runs.json"
    path.write_text(json.dumps(runs))
    return Path(__file__).with_name("train_runs.py"), path


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    run_in_two_processes("python", *script(folder, TOGETHER))
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("one")
    return {
        kind: run(folder / kind, ROWS, kind == "lora", {**ONE, **EVALUATED})
        for kind in ("full", "lora")
    }


def read(folder: Path, name: str, kind: str) -> list[Any]:
    if kind == "trained":
        return [load_file(folder / name / f"trained.{rank}.safetensors") for rank in (0, 1)]
    return [json.loads((folder / name / f"{kind}.{rank}.json").read_text()) for rank in (0, 1)]


def steps_of(log: Sequence[Mapping[str, float]], name: str) -> list[float]:
    return [line[name] for line in log if name in line]


@pytest.mark.parametrize("name", [name for name in TOGETHER if ", " in name])
def test_two_processes_train_the_weights_and_log_the_metrics_of_one(
    together: Path, alone: dict[str, Any], name: str
) -> None:
    one = alone[name.partition(",")[0]]
    found = read(together, name, "trained")
    assert same_bits(*found)
    assert any("label_probes" in weight for weight in found[0])
    assert_close(found[0], weights(one), 1e-4)  # for float32 after that many steps
    log = read(together, name, "log")[0]
    names = ["loss", "ula_loss", "hls_loss", "probe_accuracy"]
    if "as it comes" in name:
        names += [f"eval_{metric}" for metric in names]
    for metric in names:
        logged = steps_of(log, metric)
        assert logged == pytest.approx(steps_of(one.state.log_history, metric), rel=1e-3), metric


def test_a_resumed_run_in_two_processes_equals_an_uninterrupted_one(together: Path) -> None:
    for resumed, drawn in zip(
        read(together, "resumed", "trained"), read(together, "drawn", "trained"), strict=True
    ):
        assert same_bits(resumed, drawn)


LAST = "checkpoint-4"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    settings = {"rows": 30, "options": DRAWN, "dropout": 0.2, "kill_at": 5}
    for kind in ("full", "lora"):
        runs = {"killed": {**settings, "with_lora": kind == "lora"}}
        run_program("python", *script(folder / kind, runs), status=KILLED)
    return folder


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    warned: list[str] = []
    monkeypatch.setattr("transformers.trainer.logger.warning", lambda text, *_: warned.append(text))
    folder = killed / kind
    left = sorted(path.name for path in (folder / "killed").glob("checkpoint-*"))
    assert left == ["checkpoint-2", LAST]
    arguments = (30, kind == "lora", DRAWN, 0.2)
    alone = run(tmp_path / "alone", *arguments)
    resumed = run(folder / "resumed", *arguments, resume=f"killed/{LAST}")
    assert not [text for text in warned if "keys" in text]  # probes are not weights of the model
    assert not any(resumed.seen[:4])
    assert resumed.seen[4:] == alone.seen[4:]
    assert same_bits(weights(resumed), weights(alone))
    for name in ("loss", "ula_loss", "hls_loss"):
        losses = [steps_of(trainer.state.log_history, name) for trainer in (resumed, alone)]
        assert losses[0][-4:] == losses[1][-4:]
