"""A model before and after training on lm-eval's tasks, and what the difference is worth.

The tasks are run by the real `lm_eval` command in a process of its own, on the base model and on
the adapter (or the model) that training left. What it wrote is compared document by document.
"""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from pragworld_interp.loading import Model
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation import reports
from pragworld_tasks.evaluation.metrics import (
    LEVEL,
    Interval,
    McNemar,
    Tally,
    bootstrap_difference_intervals,
    mcnemar,
)
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.evaluation.scoring import compare, shown_tallies, to_run
from pragworld_tasks.files import read_json_lines
from pragworld_tasks.link import task_folder

# What launchers tell a process of its fellows. The command runs alone.
_OF_LAUNCHERS = (
    *("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_"),
    *("ACCELERATE_", "FSDP_", "PMI_", "MPI_", "OMPI_"),
)

# What lm-eval makes of log-likelihoods.
_LIKELIHOODS = ("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte")


def run_lm_eval(
    model: Model,
    tasks: Sequence[str],
    out: Path,
    metadata: Mapping[str, Any],
    batch_size: int,
    environment: Mapping[str, str] | None = None,
    held: Sequence[int] = (),
) -> Path:
    """Runs `lm_eval` on a model, and leaves its results and samples in a folder.

    Args:
        model: a name or a folder, with an adapter or without.
        tasks: names; ours are found without being linked.
        out: the folder. What is in it already is taken for the same run, and left.
        metadata: for tasks that read it, as the generated ones do.
        batch_size: of lm-eval.
        environment: variables of its process, besides ours.
        held: open files that it holds as long as it runs.

    Raises:
        InputError: lm-eval fails; says where its output is.
    """
    if out.is_dir():
        return out
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    arguments: dict[str, Any] = {"pretrained": model.name, "dtype": model.dtype}
    for name, value in (("revision", model.revision), ("peft", model.adapter)):
        if value is not None:
            arguments[name] = value
    if model.trust_remote_code:
        arguments["trust_remote_code"] = True
    command = [sys.executable, "-m", "lm_eval", "--model", "hf"]
    command += ["--model_args", json.dumps(arguments), "--metadata", json.dumps(dict(metadata))]
    command += ["--include_path", str(task_folder()), "--tasks", ",".join(tasks)]
    command += ["--batch_size", str(batch_size), "--log_samples", "--output_path", str(partial)]
    command += ["--apply_chat_template"] if model.chat_template else []
    run_logged(command, partial / "log.txt", f"lm_eval on {', '.join(tasks)}", environment, held)
    partial.rename(out)
    return out


def run_logged(
    command: Sequence[str],
    log: Path,
    what: str,
    environment: Mapping[str, str] | None = None,
    held: Sequence[int] = (),
) -> None:
    """Runs a command alone, its output in a file.

    Args:
        command: to be run.
        log: the file; it is begun anew.
        what: the command is called in messages.
        environment: variables of its process, besides ours.
        held: open files that it holds as long as it runs.

    Raises:
        InputError: it fails; says its last line, and where the others are.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(_OF_LAUNCHERS)}
    own |= environment or {}
    with log.open("w") as output:
        process = subprocess.run(command, stdout=output, stderr=output, env=own, pass_fds=held)
    if process.returncode:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        said = lines[-1] if lines else f"ended by {process.returncode} without a word"
        raise InputError(f"{what}: {said:.300} (all of it in {log})")


def samples_files(folder: Path) -> dict[str, Path]:
    """The files of samples, by task."""
    found = {}
    for path in sorted(folder.rglob("samples_*.jsonl")):
        # samples_<task>_<date>.jsonl; the date has no underscore.
        found[path.stem.removeprefix("samples_").rpartition("_")[0]] = path
    return found


# Before and after ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class MetricChange:
    """One metric of a task, before and after.

    Attributes:
        before, after: its values.
        interval: of after minus before, from a bootstrap over groups of documents (over documents
            where a task has no groups).
    """

    before: float
    after: float
    interval: Interval

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before


@dataclass(frozen=True)
class TaskChange:
    """One task, before and after.

    Attributes:
        task: its name.
        documents: how many.
        metrics: by name. Those of pragworld's tasks, and what is right or wrong, in percent.
            Perplexities as the mean log-likelihood, in nats, of what they are per.
        tests: exact McNemar tests by what they pair: documents, groups, or a metric that is right
            or wrong; before first.
    """

    task: str
    documents: int
    metrics: dict[str, MetricChange]
    tests: dict[str, McNemar]


def changes(before: Path, after: Path) -> list[TaskChange]:
    """What became of every task, document by document.

    Args:
        before: the folder of a run of `run_lm_eval`.
        after: that of one on the same tasks.
    """
    first, second = samples_files(before), samples_files(after)
    return [
        (_pragworld_change if _is_ours(first[task]) else _other_change)(
            task, first[task], second[task]
        )
        for task in first
        if task in second
    ]


def asked(path: Path) -> list[Document]:
    """The documents of a pragworld task, from its samples, in order of their rows."""
    names = [field.name for field in fields(Document)]
    found = [
        Document(**{name: record["doc"][name] for name in names})
        for _, record in read_json_lines(path)
    ]
    return sorted(found, key=lambda document: document.row)


def _is_ours(path: Path) -> bool:
    _, record = next(iter(read_json_lines(path)))
    return "unreadable" in record and {"row", "group", "answer"} <= set(record["doc"])


def _pragworld_change(task: str, before: Path, after: Path) -> TaskChange:
    documents = asked(before)
    first, second = (read_predictions([path], documents) for path in (before, after))
    comparison = compare(documents, second, first)
    shown = [
        shown_tallies(to_run(documents, one.ours), documents[0].split) for one in (first, second)
    ]
    metrics = {
        name: MetricChange(100 * shown[0][name].share, 100 * shown[1][name].share, one.interval)
        for name, one in comparison.differences.items()
    }
    tests = {"documents": _turned(comparison.on_documents)}
    if comparison.on_groups is not None:
        tests["groups"] = _turned(comparison.on_groups)
    return TaskChange(task, len(documents), metrics, tests)


def _turned(test: McNemar) -> McNemar:
    return McNemar(test.only_second, test.only_first, test.p)


def _other_change(task: str, before: Path, after: Path) -> TaskChange:
    runs = [_by_document(path) for path in (before, after)]
    shared = sorted(runs[0].keys() & runs[1].keys())
    metrics: dict[str, MetricChange] = {}
    tests: dict[str, McNemar] = {}
    filters = sorted({of for _, of in shared})
    for of in filters:  # ways in which lm-eval reads the same responses
        pairs = [[run[key] for run in runs] for key in shared if key[1] == of]
        for name in pairs[0][0].get("metrics", []):
            shown = name if len(filters) == 1 else f"{name}, {of}"
            first = _tally(name, [before.get(name) for before, _ in pairs])
            second = _tally(name, [after.get(name) for _, after in pairs])
            if first is None or second is None:
                continue
            scale = 1.0
            if name in _LIKELIHOODS:
                shown += " (log-likelihood)"
            elif {*first.right, *second.right} <= {0.0, 1.0}:
                scale = 100.0
                tests[shown] = mcnemar(first.right > 0, second.right > 0)
            (interval,) = bootstrap_difference_intervals({"": second}, {"": first}).values()
            metrics[shown] = MetricChange(
                scale * first.share,
                scale * second.share,
                Interval(scale * interval.low, scale * interval.high),
            )
    return TaskChange(task, len({document for document, _ in shared}), metrics, tests)


def _by_document(path: Path) -> dict[tuple[int, str], dict[str, Any]]:
    """The samples of a file by the number of their document and the filter."""
    return {
        (record["doc_id"], str(record.get("filter", ""))): record
        for _, record in read_json_lines(path)
    }


def _tally(name: str, values: Sequence[Any]) -> Tally | None:
    """What the documents add to a metric; None of one that is no mean over documents.

    Perplexities come as a log-likelihood, alone or with how much it is over. Other pairs are of
    an answer and the right one, which F1 and the like are made of.
    """
    pairs = [value if isinstance(value, list) else (value, 1) for value in values]
    if name not in _LIKELIHOODS and any(isinstance(value, list) for value in values):
        return None
    try:
        array = np.array([[float(right), float(total)] for right, total in pairs])
    except (TypeError, ValueError):
        return None
    return Tally(array[:, 0], array[:, 1])


def to_text(change: TaskChange) -> str:
    """A Markdown table, and the tests in a line each."""
    rows = [
        [
            name,
            f"{one.before:.2f}",
            f"{one.after:.2f}",
            reports.points(one.difference),
            reports.interval(one.interval),
        ]
        for name, one in change.metrics.items()
        if not math.isnan(one.before)
    ]
    headers = ["metric", "before", "after", "difference", f"{LEVEL:.0%} interval"]
    table = reports.table(f"{change.task}: {change.documents} documents", headers, rows)
    tests = [
        f"exact McNemar test on {what}: only before right {test.only_first}, "
        f"only after right {test.only_second}, p = {test.p:.3g}\n"
        for what, test in change.tests.items()
    ]
    return "\n".join([table, *tests])


def to_json(change: TaskChange) -> dict[str, Any]:
    """The change as JSON has it."""
    return {
        "task": change.task,
        "documents": change.documents,
        "metrics": {
            name: {
                "before": one.before,
                "after": one.after,
                "low": one.interval.low,
                "high": one.interval.high,
            }
            for name, one in change.metrics.items()
            if not math.isnan(one.before)
        },
        "tests": {name: test._asdict() for name, test in change.tests.items()},
    }
