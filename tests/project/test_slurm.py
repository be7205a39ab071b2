"""The SLURM example, on a cluster of one machine that is started for it."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_runs import run_program
from places import ROOT

from pragworld_tasks.sensitivity.paraphrases import shipped_paraphrases
from pragworld_tasks.tiny import tiny_folder

_DAEMONS = ("slurmctld", "slurmd")
_METADATA = '{"split":"validation","groups":12}'
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2
PartitionName=main Nodes={host} Default=YES
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Yield a function that runs one of SLURM's commands and returns what it prints."""
    if not os.environ.get("PRAGWORLD_SLURM"):
        pytest.skip("minutes of time, and a cluster of its own: set PRAGWORLD_SLURM=1")
    for daemon in _DAEMONS:
        if not shutil.which(daemon):
            pytest.skip(f"needs {daemon}")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    file = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    file.write_text(_CONFIGURATION.format(host=host, ports=_free_ports(2), folder=folder))
    environment = {
        **os.environ,
        "SLURM_CONF": str(file),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }

    def run(*command: str | Path, **variables: str) -> str:
        process = subprocess.run(
            command, env={**environment, **variables}, text=True, capture_output=True
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    daemons = [
        subprocess.Popen([daemon, "-D"], env=environment, stderr=subprocess.DEVNULL)
        for daemon in _DAEMONS
    ]
    try:
        _wait(lambda: "idle" in run("sinfo", "--noheader", "--format=%T"), "a node")
        yield run
    finally:
        subprocess.run(["scancel", "--user=root"], env=environment)
        for process in daemons:
            process.terminate()
            process.wait()


def test_a_preempted_study_ends_like_single_runs(slurm: Callable[..., str], tmp_path: Path) -> None:
    models = [shutil.copytree(tiny_folder(), tmp_path / name) for name in ("first", "second")]
    out = tmp_path / "study"
    variables = {
        "OUT": str(out),
        "PROCESSES": "2",
        "TASKS": "pragworld_generated_mc",
        "METADATA": _METADATA,
        "CHAT_TEMPLATE": "",
        "TRAIN": '--max_steps 2 --use_cpu --report_to none --dataset_config {"groups":4}',
    }
    slurm("bash", ROOT / "examples" / "slurm" / "submit.sh", *models, **variables)
    folders = [out / "sweeps" / str(model).replace("/", "__") for model in models]
    _wait(lambda: any(folders[0].glob(".*.journal-*")), "a journal of the first sweep")
    _preempt(slurm, "sweep")
    jobs = slurm("scontrol", "show", "job")
    assert {*re.findall(r"JobState=(\w+)", jobs)} == {"COMPLETED"}
    assert sorted(re.findall(r"Restarts=(\d+)", jobs))[-2:] == ["0", "1"]
    names = re.findall(r"JobName=(\w+)", jobs)
    counts = {"evaluate": 2, "sweep": 2, "train": 2, "board": 1}
    assert {name: names.count(name) for name in names} == counts
    single = tmp_path / "layers.json"
    for model, folder in zip(models, folders, strict=True):
        process = run_program(
            *("pragworld-interp", "ablate", "--model", model, "--split", "generated"),
            *("--metadata", _METADATA, "--out", single, "--overwrite"),
        )
        assert process.returncode == 0, process.stderr
        assert (folder / "layers.json").read_bytes() == single.read_bytes()
        trained = out / "trained" / folder.name
        assert (trained / "adapter_model.safetensors").exists() or any(trained.glob("model*"))
        assert (trained / "pragworld_train.json").exists()
    assert (out / "board" / "index.html").exists()


def test_a_preempted_collection_ends_like_a_single_run(
    slurm: Callable[..., str], tmp_path: Path
) -> None:
    wording, few = shipped_paraphrases("travel_commute")[0], tmp_path / "few.jsonl"
    few.write_text(json.dumps({"text": wording}) + "\n")
    task, model = "world_model_travel_commute", str(tiny_folder())
    metadata = json.dumps({"paraphrases": str(few)})
    settings = ("--gen_kwargs", "max_gen_toks=6", "--chunk", "1", "--metadata", metadata)
    script = ROOT / "examples" / "slurm" / "collect.sbatch"
    command = ("sbatch", f"--output={tmp_path}/log", script, model, *settings)
    slurm(*command, OUT=str(tmp_path), TASKS=task)
    _wait(lambda: any(tmp_path.rglob("responses-*.journal")), "a response")
    _preempt(slurm, "collect")
    single = ("--model", "hf", "--model_args", f"pretrained={model}", "--batch_size", "16")
    whole = ("--tasks", task, "--output_path", tmp_path / "single", *settings)
    process = run_program("pragworld-tasks", "collect", *single, *whole)
    assert process.returncode == 0, process.stderr
    resumed, expected = (
        [*(tmp_path / folder).rglob("samples_*")] for folder in ("answers", "single")
    )
    assert [path.read_bytes() for path in resumed] == [path.read_bytes() for path in expected]


def _preempt(slurm: Callable[..., str], name: str) -> None:
    """Requeue the first running job of a name, and wait for the end of all jobs."""
    running = slurm("squeue", "--noheader", f"--name={name}", "--states=RUNNING", "--format=%i")
    (job, *_) = running.split()
    slurm("scontrol", "requeue", job)
    slurm("scontrol", "update", f"JobId={job}", "StartTime=now")  # it would wait two minutes
    _wait(lambda: not slurm("squeue", "--noheader"), "the end of all jobs", 1200)


def _wait(condition: Callable[[], object], what: str, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    with_sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in with_sockets]
    for each in with_sockets:
        each.close()
    return ports
