"""Runs in two processes, one of which meets an error.

    torchrun --nproc_per_node 2 tests/failing_processes.py FOLDER

Each process writes to FOLDER what it printed and how it ended, but for the last run, which ends it.
"""

import io
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.distributed import DistributedConfig
from transformers.utils import logging

from pragworld_interp import ablate, ablation, processes
from pragworld_interp.cli import main
from pragworld_interp.runs import process_state
from pragworld_tasks.data.splits import named_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.journal import Journal
from pragworld_tasks.tiny import tiny_folder
from pragworld_train import training_run
from pragworld_train.cli import main as train

GROUPS = '{"groups": 3}'
DATA = ("--model", str(tiny_folder()), "--split", "generated", "--metadata", GROUPS)
SWEEP = ("ablate", *DATA, "--batch-tokens", "1")
DIVIDED = (*SWEEP, "--tensor-parallel")
TRAIN = ("--model_name_or_path", str(tiny_folder()), "--use_cpu", "--dataset_config", GROUPS)


@dataclass(frozen=True)
class Run:
    """A run that one of the processes cannot finish.

    Attributes:
        words: The command line, without the folder or file that it writes.
        failing: The number of the process.
        cause: What is different for the process, beside the path that it writes.
        line: The end of what the process prints.
    """

    words: tuple[str, ...]
    failing: int
    cause: Callable[[Path], AbstractContextManager[object]]
    line: str


def finished_report(out: Path) -> AbstractContextManager[object]:
    """Put a report in the place of --out."""
    out.touch()
    return nullcontext()


def foreign_journal(out: Path) -> AbstractContextManager[object]:
    """Put the journals of another run beside --out."""
    for process in (0, 1):
        journal = out.with_name(f".{out.name}.journal-{process}")
        journal.write_text('{"model": "another"}\n[0, []]\n')
    return nullcontext()


def full_disk(_: Path) -> AbstractContextManager[object]:
    """Let the disk be full when a unit is done."""
    full = InputError("No space left on device")
    return mock.patch.object(Journal, "append", side_effect=full)


def no_memory(_: Path) -> AbstractContextManager[object]:
    """Let the memory not suffice for any unit."""
    short = torch.OutOfMemoryError("CUDA out of memory")
    return mock.patch.object(ablation, "ablated_logits", side_effect=short)


def no_data(_: Path) -> AbstractContextManager[object]:
    """Let the documents to train on be missing."""
    missing = InputError("no documents")
    return mock.patch.object(training_run, "_load_data", side_effect=missing)


RUNS = {
    "report": Run(SWEEP, 0, finished_report, "/0/out exists; pass --overwrite, or another name"),
    "journal": Run(
        DIVIDED, 0, foreign_journal, "remove the file to start over, or choose another place"
    ),
    "disk": Run((*SWEEP, "--replacement", "mean"), 1, full_disk, "No space left on device"),
    "disk, divided": Run(DIVIDED, 0, full_disk, "No space left on device"),
    "training": Run(TRAIN, 1, no_data, "no documents"),
}


def run_command(words: Sequence[str], out: Path) -> tuple[Any, list[str]]:
    """Run a command, and return its exit status and the lines on stderr."""
    status: Any = 0
    with redirect_stderr(io.StringIO()) as stderr:
        try:
            if "ablate" in words:
                main([*words, "--out", str(out)])
            else:
                train([*words, "--output_dir", str(out)])
        except SystemExit as end:
            status = end.code
    return status, stderr.getvalue().splitlines()


def run_in_python(fails: bool) -> list[str]:
    """Ablate a divided model, without documents where it fails, and return the error."""
    settings = DistributedConfig(tp_plan="auto")
    model = AutoModelForCausalLM.from_pretrained(tiny_folder(), distributed_config=settings)
    documents, _ = named_documents("generated", GROUPS, "")
    try:
        ablate(model, AutoTokenizer.from_pretrained(tiny_folder()), [] if fails else documents)
    except InputError as error:
        return [str(error)]
    return []


def run(folder: Path) -> None:
    """Do all runs in this process and the one that shares them, and write what happened."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    process = process_state().process_index
    found: dict[str, Any] = {}
    for name, own in RUNS.items():
        out = folder / name / str(process) / "out"
        out.parent.mkdir(parents=True)
        with own.cause(out) if process == own.failing else nullcontext():
            found[name] = run_command(own.words, out)
    found["python"] = run_in_python(fails=process == 1)
    (folder / f"found.{process}.json").write_text(json.dumps(found))
    # The other process is within the divided model then, and waits there until this one has ended.
    with (
        mock.patch.object(processes, "_LONGEST_STAY", 0.1),
        no_memory(folder) if process == 1 else nullcontext(),
    ):
        main([*DIVIDED, "--out", str(folder / "out")])


if __name__ == "__main__":
    run(Path(sys.argv[1]))
