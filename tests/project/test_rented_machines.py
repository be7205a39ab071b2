"""The examples for rented machines: the study that they run, and what their parsers say of them."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from command_runs import programs, run_program
from places import ROOT, SAMPLES

from pragworld_tasks.tiny import tiny_folder

STUDY = ROOT / "examples" / "run_study.sh"
METADATA = '{"split":"validation","groups":4}'


def study(out: Path, model: Path, log: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PATH": f"{programs()}{os.pathsep}{os.environ['PATH']}",
        "PRAGWORLD_DATA": str(SAMPLES),
        "OUT": str(out),
        "TASKS": "pragworld_manual_mc",
        "METADATA": METADATA,
        "CHAT_TEMPLATE": "",
        # Four groups give no evidence for any layer.
        "TRAIN": "--layer_selection sign --use_peft --max_steps 4 --save_steps 1 --logging_steps 1"
        ' --use_cpu --report_to none --dataset_config {"groups":4}',
        "TMPDIR": str(log.parent),
    }
    with log.open("wb") as output:
        return subprocess.Popen(
            ["bash", STUDY, model],
            env=environment,
            stdout=output,
            stderr=output,
        )


def switch_off(log: Path) -> None:
    """Kill every process of a study, also those that serve its commands, by where they print."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # another user's, or ended
            if (folder / "fd" / "1").readlink() == log:
                os.kill(int(folder.name), signal.SIGKILL)


def test_a_preempted_study_resumes_on_another_machine(tmp_path: Path) -> None:
    out, model = tmp_path / "bucket", shutil.copytree(tiny_folder(), tmp_path / "model")
    name = str(model).replace("/", "__")
    first, second = (tmp_path / machine / "log" for machine in ("first", "second"))
    first.parent.mkdir()
    process = study(out, model, first)
    while process.poll() is None and not any(out.glob("checkpoints/*/*/complete")):
        time.sleep(0.02)
    assert process.poll() is None, first.read_text()
    switch_off(first)
    process.wait()
    shutil.rmtree(first.parent)
    assert not any(out.glob("trained/*/complete"))
    kept = {path: path.stat().st_mtime_ns for path in out.glob("[!c]*/**/complete")}
    checkpoints = [path.parent.name for path in out.glob("checkpoints/*/*/complete")]
    trained = max(int(name.removeprefix("checkpoint-")) for name in checkpoints)
    half_kept = out / "results" / f"{name}-trained" / "results_0.json"
    half_kept.parent.mkdir(parents=True)
    half_kept.write_text("{")

    second.parent.mkdir()
    assert study(out, model, second).wait() == 0, second.read_text()
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in kept}.items()
    log = second.read_text()
    assert re.findall(r"^\d\d:\d\d:\d\d (.+)$", log, re.MULTILINE) == [
        f"trained/{name}",
        f"results/{name}-trained",
    ]
    assert log.count("'loss'") == 4 - trained
    assert (out / "board" / "index.html").exists()
    single = tmp_path / "layers.json"
    run_program(
        *("pragworld-interp", "ablate", "--model", model, "--split", "generated"),
        *("--metadata", METADATA, "--out", single),
    )
    assert (out / "layers" / name / "layers.json").read_bytes() == single.read_bytes()


def test_the_skypilot_file_runs_the_study() -> None:
    text = (ROOT / "examples" / "skypilot" / "study.yaml").read_text()
    content: dict[str, Any] = yaml.safe_load(text)
    settings = {*content["envs"]} - {"MODELS"}
    assert all(f"#   {name}=" in STUDY.read_text() for name in settings)
    assert str(STUDY.relative_to(ROOT)) in content["run"]
    for part in ("setup", "run"):
        subprocess.run(["bash", "-n"], input=content[part], text=True, check=True)


def test_the_hub_accepts_the_job() -> None:
    process = subprocess.run(
        [ROOT / "examples" / "hub_jobs" / "study.sh", "first/model", "second/model"],
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "BUCKET": "me/bucket",
            "HF_TOKEN": "hf_none",
            "JOB": "--dry-run --flavor l4x1 --timeout 24h",
        },
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert "first/model second/model" in process.stdout
    for line in ("attempts  5", "hf://buckets/me/bucket:/study", f"{ROOT}:/pragworld"):
        assert line in process.stdout
