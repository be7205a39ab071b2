"""Runs of the real lm_eval command, and what is expected of every one of them."""

import json
import math
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from command_runs import run_in_two_processes, run_program
from places import ROOT, SAMPLES
from warm_commands import WHOLE_INDEX

from pragworld_tasks.data.documents import Document, ReleasedSplit
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.evaluation.metrics import shown_tallies, tallies, to_arrays
from pragworld_tasks.evaluation.responses import Predictions, read_predictions, without_repeats
from pragworld_tasks.evaluation.task_metrics import RELEASED_SCORING


class Output:
    """A folder in which runs of lm_eval write their results and samples."""

    def __init__(self, output: Path) -> None:
        self._output = output

    def metrics(self, task: str) -> dict[str, Any]:
        """The metrics of a task or group by name, of the last run that had it."""
        results = (read_strictly(path.read_text())["results"] for path in self._result_files())
        tasks = ((name, file[name]) for file in results for name in file)
        # lm-eval 0.5 puts the group before a task's name.
        *_, found = (metrics for name, metrics in tasks if name.split("::")[-1] == task)
        return {name.removesuffix(",none"): found[name] for name in found if name.endswith(",none")}

    def _result_files(self) -> list[Path]:
        return sorted(self._output.rglob("results_*.json"))

    def samples_file(self, task: str) -> Path:
        paths = self._output.rglob(f"samples_*{task}_2*.jsonl")
        (path,) = (path for path in paths if re.search(rf"(samples_|::){task}_2", path.name))
        return path

    def samples(self, task: str) -> list[dict[str, Any]]:
        """A task's samples, in the order of the documents."""
        samples = [read_strictly(line) for line in self.samples_file(task).open()]
        for sample in samples:
            sample["filtered_resps"] = without_repeats(sample["filtered_resps"])
        return sorted(samples, key=lambda sample: sample["doc_id"])


class Evaluation(Output):
    """What a run of lm_eval gave: its output, its results and its samples."""

    def __init__(self, process: subprocess.CompletedProcess[str], output: Path) -> None:
        super().__init__(output)
        self.stdout = process.stdout
        self.log = process.stderr
        files = self._result_files()
        self.results: dict[str, Any] = read_strictly(files[-1].read_text()) if files else {}


def read_strictly(text: str) -> Any:
    """Read JSON, and refuse NaN and infinities, which Python writes although JSON has none."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in a JSON file")

    return json.loads(text, parse_constant=refuse)


LmEval = Callable[..., Evaluation]


def run_lm_eval(
    output: Path,
    *arguments: str,
    data: Path = SAMPLES,
    two_processes: bool = False,
    whole_index: bool = False,
    status: int = 0,
) -> Evaluation:
    """Run lm_eval on our tasks; in two processes, with `hf` replaced by its twin for CPUs."""
    words = ["--include_path", str(ROOT / "pragworld_tasks" / "task_configs"), *arguments]
    words += ["--output_path", str(output)]
    environment = {"PRAGWORLD_DATA": str(data)} | ({WHOLE_INDEX: "1"} if whole_index else {})
    if two_processes:
        script = str(ROOT / "tests" / "lm_eval_parallel.py")
        words = ["hf-cpu-parallel" if word == "hf" else word for word in words]
        process = run_in_two_processes("python", script, *words, **environment)
    else:
        process = run_program("lm_eval", *words, status=status, **environment)
    return Evaluation(process, output)


def documents_of(task: str, folder: Path) -> list[Document]:
    (split,) = (one for one in get_args(ReleasedSplit) if task.startswith(f"pragworld_{one}"))
    return read_split(split, folder / FILES[split].path)


def metrics_of(documents: Sequence[Document], predictions: Predictions) -> dict[str, Any]:
    """Return the metrics that a task shows of answers, put together by us, within rounding."""
    split = documents[0].split
    tallied = shown_tallies(to_arrays(documents, predictions.ours), split)
    if split == "manual":
        released = tallies(to_arrays(documents, predictions.released, released_grouping=True))
        tallied |= {f"{name}_published": released[name] for name in RELEASED_SCORING}
    return {
        metric: "N/A" if math.isnan(value) else pytest.approx(value)
        for name, one in tallied.items()
        for metric, value in ((name, one.share), (f"{name}_stderr", one.standard_error))
    }


def assert_table_is_score(evaluation: Evaluation, task: str, folder: Path) -> None:
    """lm-eval's figures are those of the answers in lm-eval's own samples."""
    documents = documents_of(task, folder)
    predictions = read_predictions(evaluation.samples_file(task))
    shown = evaluation.metrics(task)
    of_lm_eval = {name for name in shown if name.endswith("_stderr_stderr")}  # N/A
    ours = {name: shown[name] for name in shown.keys() - of_lm_eval}
    assert ours == metrics_of(documents, predictions)
