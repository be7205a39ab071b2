"""Evaluation before and after training: lm-eval's tasks on both models, compared by document."""

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lm_eval import simple_evaluate
from lm_eval.api.task import Task
from lm_eval.loggers import EvaluationTracker
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import get_quantization_config

from pragworld_tasks.command_line import at_least
from pragworld_tasks.data import sources
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.runs import find_runs, task_and_date
from pragworld_tasks.evaluation.statistics import (
    LEVEL,
    Bools,
    Tally,
    bootstrap_differences,
    mcnemar,
    percentile_interval,
)
from pragworld_tasks.files import read_json_lines
from pragworld_tasks.link import task_folder, task_names
from pragworld_tasks.text import format_interval, format_number, markdown_table
from pragworld_train.arguments import RunSettings

# Metrics whose samples are log-likelihoods. Bits per byte have those of the perplexity of a byte.
_LIKELIHOODS = ("perplexity", "word_perplexity", "byte_perplexity")


def load_tasks(settings: RunSettings) -> list[Task]:
    """Load the tasks to evaluate, if any, so that impossible ones are refused before training.

    Raises:
        InputError: lm-eval does not have such a task, or would give it another chat template.
    """
    script_args, training_args, _ = settings
    names = script_args.evaluate_tasks
    if names is None and not script_args.evaluate:
        return []
    if script_args.chat_template and training_args.chat_template_path:
        raise InputError(
            "--chat_template_path: the model before training has its own template; leave out "
            "--evaluate and run lm_eval afterwards"
        )
    at_least(script_args, evaluate_groups=1, evaluate_batch_size=1)
    if names is None:
        names = ["pragworld_generated_label", "pragworld_generated_perplexity"]
        if script_args.dataset_name != "manual" and sources.locate("manual") is not None:
            names.append("pragworld_manual_label")
    generator = json.loads(script_args.dataset_config)
    metadata = {name: generator[name] for name in ("seed", "domains") if name in generator}
    metadata["groups"] = script_args.evaluate_groups
    if script_args.held_out_alteration:
        metadata["held_out_alteration"] = script_args.held_out_alteration
    manager = TaskManager(
        include_path=str(task_folder()),
        include_defaults=not set(names) <= task_names(),  # their files take seconds to read
        metadata=metadata,
    )
    try:
        return [*manager.load(list(dict.fromkeys(names)))["tasks"].values()]
    except KeyError as error:
        raise InputError(
            f"--evaluate_tasks: {error.args[0]}; see `lm_eval ls tasks`, or name the YAML file of "
            "a task"
        ) from error


def evaluate_before_and_after(settings: RunSettings, tasks: Sequence[Task], out: Path) -> str:
    """Evaluate the model before and after training, and return tables of what has changed.

    The model or adapter is in the folder `out`, and lm-eval's results are written there.
    """
    script_args, _, model_args = settings
    folder = out / "evaluation"
    shutil.rmtree(folder, ignore_errors=True)  # an earlier run's, of other weights
    name, revision = str(model_args.model_name_or_path), model_args.model_revision
    arguments = {"pretrained": name, "revision": revision, "dtype": str(model_args.dtype)}
    lm = _load(settings, name, revision)
    _evaluate(lm, arguments, tasks, script_args.chat_template, folder / "before")
    if model_args.use_peft:
        adapted = PeftModel.from_pretrained(lm.model, out)
        lm = HFLM(adapted, tokenizer=lm.tokenizer, batch_size=script_args.evaluate_batch_size)
        arguments = {**arguments, "peft": str(out)}
    else:
        del lm  # to free the device
        lm = _load(settings, str(out), None)
        arguments = {"pretrained": str(out), "dtype": str(model_args.dtype)}
    _evaluate(lm, arguments, tasks, script_args.chat_template, folder / "after")
    return compare_tasks(folder / "before", folder / "after")


def _load(settings: RunSettings, name: str, revision: str | None) -> HFLM:
    """Load a model as it is trained, but on one device, whose other processes have ended.

    lm-eval would wait for them if it loaded the model itself.
    """
    script_args, training_args, model_args = settings
    shared = {"revision": revision, "trust_remote_code": training_args.trust_remote_code}
    model = AutoModelForCausalLM.from_pretrained(
        name,
        device_map={"": training_args.device},
        quantization_config=get_quantization_config(model_args),
        **{**(training_args.model_init_kwargs or {}), **shared},
    )
    tokenizer = AutoTokenizer.from_pretrained(name, **shared)
    return HFLM(model, tokenizer=tokenizer, batch_size=script_args.evaluate_batch_size)


def _evaluate(
    lm: HFLM, arguments: dict[str, str], tasks: Sequence[Task], chat_template: bool, out: Path
) -> None:
    """Evaluate a model in this process, and save results and samples as `lm_eval` does."""
    print(f"lm-eval {out.name} training: {', '.join(task.task_name for task in tasks)}", flush=True)
    tracker = EvaluationTracker(output_path=str(out))
    results = simple_evaluate(
        lm,
        model_args=arguments,
        tasks=list(tasks),
        task_manager=TaskManager(include_defaults=False),
        apply_chat_template=chat_template,
        evaluation_tracker=tracker,
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results, samples)
    for task, of_task in samples.items():
        tracker.save_results_samples(task, of_task)


# Comparison ---------------------------------------------------------------------------------------


class _Metric(NamedTuple):
    """A metric of one run: what documents or groups add to it, and which are right, if any are."""

    tally: Tally
    percent: bool  # whether it is a share, which is shown in percent
    right: Bools | None = None


def compare_tasks(before: Path, after: Path) -> str:
    """Compare two folders of lm-eval's results on the same tasks, with a Markdown table for each.

    Metrics of pragworld's tasks, and those that are right or wrong for each document, are in
    percent. Perplexities are mean log-likelihoods in nats, per word, byte or document. Intervals of
    the differences are from a bootstrap over groups of documents, or over documents if a task has
    no groups. Exact McNemar tests pair documents; that of robust accuracy pairs groups.
    """
    files = [
        {task_and_date(path)[0]: path for path in sorted(folder.rglob("samples_*.jsonl"))}
        for folder in (before, after)
    ]
    headers = ["metric", "before", "after", "difference", f"{LEVEL:.0%} interval"]
    headers += ["right before only", "right after only", "p"]
    tables = []
    for task in files[0]:
        (documents, first), (_, second) = (_metrics_of(by_task[task]) for by_task in files)
        rows = [
            [name, *_change(metric, second[name])]
            for name, metric in first.items()
            if not math.isnan(metric.tally.share)
        ]
        tables.append(markdown_table(f"{task}: {documents} documents", headers, rows))
    return "\n".join(tables)


def _change(before: _Metric, after: _Metric) -> list[str]:
    """Return the cells of a metric that has changed."""
    scale, digits = (100, ".2f") if before.percent and after.percent else (1, ".4f")
    shares = scale * before.tally.share, scale * after.tally.share
    (drawn,) = bootstrap_differences({"": after.tally}, {"": before.tally}).values()
    groups = after.tally.groups if scale == 100 else 0  # means have no bounds
    low, high = percentile_interval(drawn, groups=groups, lowest=-1)
    tested = [""] * 3
    if before.right is not None and after.right is not None:
        test = mcnemar(before.right, after.right)
        tested = [str(test.only_first), str(test.only_second), format(test.p, ".3g")]
    return [
        *(format(share, digits) for share in shares),
        format_number(shares[1] - shares[0], f"+{digits}"),
        format_interval((scale * low, scale * high), digits),
        *tested,
    ]


def _metrics_of(path: Path) -> tuple[int, dict[str, _Metric]]:
    """Return the number of documents and the metrics in a file of lm-eval's samples."""
    records = [record for _, record in read_json_lines(path)]
    if {"row", "group", "answer"} <= records[0]["doc"].keys() and "unreadable" in records[0]:
        (run,) = find_runs([str(path)])
        report = run.score(run.documents() or [])
        right = {"acc": report.arrays.correct}
        if report.main_metric == "robust_acc":
            right["robust_acc"] = report.tallies["robust_acc"].right > 0
        return len(report.documents), {
            name: _Metric(counted, True, right.get(name))
            for name, counted in report.tallies.items()
        }
    values: dict[tuple[str, str], list[Any]] = {}  # by metric, and how lm-eval reads the response
    for record in sorted(records, key=lambda record: record["doc_id"]):
        for metric in record["metrics"]:
            values.setdefault((metric, record.get("filter", "none")), []).append(record[metric])
    filters = {filter_name for _, filter_name in values}
    metrics = {}
    for (metric, filter_name), of_documents in values.items():
        name = metric if len(filters) == 1 else f"{metric}, {filter_name}"
        if metric in _LIKELIHOODS:  # alone, or with the number of units that each is a sum over
            pairs = [value if isinstance(value, list) else (value, 1) for value in of_documents]
            sums, units = np.array(pairs, dtype=float).T
            metrics[f"{name} (log-likelihood)"] = _Metric(Tally(sums, units), False)
        elif all(isinstance(value, bool | int | float) for value in of_documents):
            numbers = np.array(of_documents, dtype=float)
            is_right = numbers > 0 if {*numbers} <= {0.0, 1.0} else None
            tally = Tally(numbers, np.ones_like(numbers))
            metrics[name] = _Metric(tally, is_right is not None, is_right)
        # Others are no means over documents, such as pairs of a gold answer and a response for F1.
    return len({record["doc_id"] for record in records}), metrics
