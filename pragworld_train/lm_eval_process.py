"""lm-eval and other commands in processes of their own, and the samples that lm-eval saves."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pragworld_interp.run.loading import Model
from pragworld_tasks.errors import InputError
from pragworld_tasks.link import task_folder, task_names

# Variables by which launchers connect several processes. The commands here run on their own.
_LAUNCHER_VARIABLES = (
    *("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_"),
    *("ACCELERATE_", "FSDP_", "PMI_", "MPI_", "OMPI_"),
)


def run_lm_eval(
    model: Model,
    tasks: Sequence[str],
    out: Path,
    metadata: Mapping[str, Any],
    batch_size: int,
) -> Path:
    """Evaluate a model with `lm_eval`, and save its results and samples in a folder.

    Args:
        model: The model, with or without an adapter.
        tasks: Names of tasks. Those of pragworld need not be linked.
        out: The folder, which must not exist.
        metadata: Settings for tasks that read them, as the generated ones do.
        batch_size: Batch size of lm-eval.

    Raises:
        InputError: lm-eval fails; the message names its log.
    """
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    ours = set(tasks) <= task_names()  # which need no index of lm-eval's own tasks
    program = "pragworld_train.lm_eval_ours" if ours else "lm_eval"
    command = [sys.executable, "-m", program, "--model", "hf"]
    command += ["--model_args", json.dumps(model_arguments(model))]
    command += ["--metadata", json.dumps(dict(metadata))]
    command += ["--include_path", str(task_folder()), "--tasks", ",".join(tasks)]
    command += ["--batch_size", str(batch_size), "--log_samples", "--output_path", str(partial)]
    command += ["--apply_chat_template"] if model.chat_template else []
    name = f"lm_eval on {', '.join(tasks)}"
    _run_logged(command, partial / "log.txt", name)
    partial.rename(out)
    return out


def model_arguments(model: Model) -> dict[str, Any]:
    """Return a model as lm-eval's `--model_args`."""
    arguments: dict[str, Any] = {"pretrained": model.name, "dtype": model.dtype}
    arguments |= {"revision": model.revision} if model.revision else {}
    arguments |= {"peft": model.adapter} if model.adapter else {}
    arguments |= {"trust_remote_code": True} if model.trust_remote_code else {}
    return arguments


def _run_logged(command: Sequence[str], log: Path, name: str) -> None:
    """Run a command outside any distributed launcher, and write its output to a file.

    Raises:
        InputError: The command fails; the message has its last line and names the log.
    """
    inherited = {
        variable: value
        for variable, value in os.environ.items()
        if not variable.startswith(_LAUNCHER_VARIABLES)
    }
    with log.open("w") as output:
        process = subprocess.run(command, stdout=output, stderr=output, env=inherited)
    if process.returncode:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        last = lines[-1] if lines else f"exit status {process.returncode} and no output"
        raise InputError(f"{name}: {last:.300} (see {log})")


def sample_files(folder: Path) -> dict[str, Path]:
    """Return the files of samples in a folder by task; lm-eval adds a date to their names."""
    return {
        path.stem.removeprefix("samples_").rpartition("_")[0]: path
        for path in sorted(folder.rglob("samples_*.jsonl"))
    }
