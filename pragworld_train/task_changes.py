"""A model's scores on lm-eval tasks before and after training, compared document by document."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pragworld_tasks.evaluation.comparison import compare_scores
from pragworld_tasks.evaluation.metrics import (
    LEVEL,
    Interval,
    McNemar,
    Tally,
    bootstrap_differences,
    mcnemar,
    percentile_interval,
)
from pragworld_tasks.evaluation.runs import find_runs
from pragworld_tasks.evaluation.scoring import shown_tallies
from pragworld_tasks.files import read_json_lines
from pragworld_tasks.text import format_interval, format_number, markdown_table, null_if_nan
from pragworld_train.lm_eval_process import sample_files

# Metrics that lm-eval computes from log-likelihoods.
_LIKELIHOODS = ("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte")


@dataclass(frozen=True)
class MetricChange:
    """One metric of a task before and after training.

    Attributes:
        before: Its value before training.
        after: Its value after training.
        interval: Interval of after minus before, from a bootstrap over groups of documents (over
            documents, if a task has no groups). NaN for fewer than two of them.
        digits: Format to show them in.
    """

    before: float
    after: float
    interval: Interval
    digits: str = ".2f"

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before


@dataclass(frozen=True)
class TaskChange:
    """One task before and after training.

    Attributes:
        task: Name of the task.
        documents: Number of documents.
        metrics: Changes by metric. Metrics of pragworld's tasks, and those that are right or wrong
            for each document, are in percent. Perplexities are mean log-likelihoods in nats, per
            word, byte or document.
        tests: Exact McNemar tests, before training first, by what they pair: documents, groups, or
            a metric that is right or wrong.
    """

    task: str
    documents: int
    metrics: dict[str, MetricChange]
    tests: dict[str, McNemar]

    def to_text(self) -> str:
        """Return a Markdown table of the metrics, and a line for each test."""
        rows = [
            [
                name,
                format(change.before, change.digits),
                format(change.after, change.digits),
                format_number(change.difference, f"+{change.digits}"),
                format_interval(change.interval, change.digits),
            ]
            for name, change in self._defined()
        ]
        headers = ["metric", "before", "after", "difference", f"{LEVEL:.0%} interval"]
        table = markdown_table(f"{self.task}: {self.documents} documents", headers, rows)
        tests = [
            f"exact McNemar test on {name}: only before right {test.only_first}, "
            f"only after right {test.only_second}, p = {test.p:.3g}\n"
            for name, test in self.tests.items()
        ]
        return "\n".join([table, *tests])

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON objects; null for an interval that is not defined."""
        metrics = {
            name: {
                "before": change.before,
                "after": change.after,
                "low": null_if_nan(change.interval[0]),
                "high": null_if_nan(change.interval[1]),
            }
            for name, change in self._defined()
        }
        tests = {name: test._asdict() for name, test in self.tests.items()}
        return {
            "task": self.task,
            "documents": self.documents,
            "metrics": metrics,
            "tests": tests,
        }

    def _defined(self) -> list[tuple[str, MetricChange]]:
        return [item for item in self.metrics.items() if not math.isnan(item[1].before)]


def compare_tasks(before: Path, after: Path) -> list[TaskChange]:
    """Compare two runs of lm-eval on the same tasks.

    Args:
        before: The folder of one run of `run_lm_eval`.
        after: The folder of the other.
    """
    first, second = sample_files(before), sample_files(after)
    return [
        (_pragworld_change if _is_pragworld(first[task]) else _other_change)(
            task, first[task], second[task]
        )
        for task in first
        if task in second
    ]


def _is_pragworld(path: Path) -> bool:
    _, record = next(iter(read_json_lines(path)))
    return "unreadable" in record and {"row", "group", "answer"} <= set(record["doc"])


def _pragworld_change(task: str, before: Path, after: Path) -> TaskChange:
    runs = find_runs([str(before), str(after)])
    documents = runs[0].documents() or []
    first, second = (run.score(documents) for run in runs)
    comparison = compare_scores(second, first)
    tallies = [shown_tallies(report.run, report.split) for report in (first, second)]
    metrics = {
        name: MetricChange(
            100 * tallies[0][name].share, 100 * tallies[1][name].share, difference.interval
        )
        for name, difference in comparison.differences.items()
    }
    tests = {"documents": comparison.on_documents, "groups": comparison.on_groups}
    before_first = {
        name: McNemar(test.only_second, test.only_first, test.p)
        for name, test in tests.items()
        if test is not None
    }
    return TaskChange(task, len(documents), metrics, before_first)


def _other_change(task: str, before: Path, after: Path) -> TaskChange:
    runs = [_by_document(path) for path in (before, after)]
    shared = sorted(runs[0].keys() & runs[1].keys())
    metrics: dict[str, MetricChange] = {}
    tests: dict[str, McNemar] = {}
    filters = sorted({filter_name for _, filter_name in shared})
    for filter_name in filters:  # ways in which lm-eval reads the same responses
        keys = [key for key in shared if key[1] == filter_name]
        for metric in runs[0][keys[0]].get("metrics", []):
            first, second = (_tally(metric, [run[key].get(metric) for key in keys]) for run in runs)
            if first is None or second is None:
                continue
            name = metric if len(filters) == 1 else f"{metric}, {filter_name}"
            if metric in _LIKELIHOODS and _repeats(metric, keys, runs):
                continue
            scale = 1.0
            if metric in _LIKELIHOODS:
                name += " (log-likelihood)"
            elif {*first.right, *second.right} <= {0.0, 1.0}:
                scale = 100.0
                tests[name] = mcnemar(first.right > 0, second.right > 0)
            (drawn,) = bootstrap_differences({"": second}, {"": first}).values()
            interval = percentile_interval(drawn)
            metrics[name] = MetricChange(
                scale * first.share,
                scale * second.share,
                Interval(scale * interval.low, scale * interval.high),
                digits=".2f" if scale > 1 else ".4f",
            )
    return TaskChange(task, len({document for document, _ in shared}), metrics, tests)


def _by_document(path: Path) -> dict[tuple[int, str], dict[str, Any]]:
    """Return the samples in a file by the number of their document and their filter."""
    return {
        (record["doc_id"], str(record.get("filter", ""))): record
        for _, record in read_json_lines(path)
    }


def _repeats(
    metric: str, keys: Sequence[tuple[int, str]], runs: Sequence[Mapping[tuple[int, str], Any]]
) -> bool:
    """Return whether a metric has the samples of one before it, as bits per byte and per byte."""
    earlier = _LIKELIHOODS[: _LIKELIHOODS.index(metric)]
    return any(
        all(run[key].get(metric) == run[key].get(other) for run in runs for key in keys)
        for other in earlier
        if other in runs[0][keys[0]].get("metrics", [])
    )


def _tally(metric: str, values: Sequence[Any]) -> Tally | None:
    """Return what each document adds to a metric; None if it is not a mean over documents.

    Perplexities are saved as a log-likelihood, alone or with the number of units that it is a sum
    over. Other pairs are a gold answer and a response, from which F1 and the like are computed.
    """
    if metric not in _LIKELIHOODS and any(isinstance(value, list) for value in values):
        return None
    pairs = [value if isinstance(value, list) else (value, 1) for value in values]
    try:
        array = np.array([[float(right), float(total)] for right, total in pairs])
    except (TypeError, ValueError):
        return None
    return Tally(array[:, 0], array[:, 1])
