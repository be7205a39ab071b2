"""What the files of a study say of themselves, checked against the place that they are in.

A study takes a file that exists for the result of a step. One that was copied there from another
run, split or study would be measured as if it were that result.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from pragworld_interp.loading import Model
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.runs import task_and_date
from pragworld_tasks.files import read_json, read_json_lines
from pragworld_train.lm_eval_process import model_arguments
from pragworld_train.run_record import plain_values, read_training_record


def check_training(out: Path) -> None:
    """Check that a folder holds the run that was trained there.

    Raises:
        InputError: It holds another run.
    """
    trained = read_training_record(out)["training"]
    _compare(out, out.parent, {"output_dir": trained.get("output_dir")}, {"output_dir": str(out)})


def check_evaluation(
    model: Model, tasks: Sequence[str], out: Path, metadata: Mapping[str, Any]
) -> None:
    """Check that a folder holds the evaluation that `run_lm_eval` saves with these arguments.

    Raises:
        InputError: Samples of a task are missing, or they or the results beside them are of another
            evaluation.
    """
    expected = {"peft": None, "revision": None, **model_arguments(model), **metadata}
    for task in tasks:
        files = [path for path in out.rglob("samples_*.jsonl") if task_and_date(path)[0] == task]
        if len(files) != 1:
            _refuse(out, f"holds {len(files)} files of samples of {task}, not one", out)
        (samples,) = files
        results = samples.with_name(f"results_{task_and_date(samples)[1]}.json")
        if not results.is_file():
            _refuse(samples, "lm-eval's results are not beside it", out)
        content = read_json(results)
        try:
            recorded = {**content["configs"][task]["metadata"], **content["config"]["model_args"]}
            metrics = content["results"][task]
        except (KeyError, TypeError):
            _refuse(results, f"not the results of lm-eval on {task}", out)
        _compare(results, out, recorded, expected)
        for name, value in _sampled_metrics(samples).items():
            stated = metrics.get(f"{name},none", value)
            if not np.isclose(stated, value, rtol=1e-6, equal_nan=True):
                _refuse(
                    samples,
                    f"its {name} is {value:.6g}, but {stated:.6g} in the results beside it",
                    out,
                )


def check_layers(path: Path, model: Model, metadata: Mapping[str, Any]) -> None:
    """Check that a file is the sweep of a model on the generated test split.

    Raises:
        InputError: It is another file.
    """
    settings = asdict(GeneratorSettings.from_metadata({**metadata, "split": "test"}))
    content = read_json(path)
    try:
        recorded = {**_model_of(content), **content["data"]["generator"]}
    except (KeyError, TypeError):
        _refuse(path, "not a report of generated documents", path)
    _compare(path, path, recorded, {**_names(model), **plain_values(settings)})


def check_probes(path: Path, model: Model, groups: int) -> None:
    """Check that a file has the probes of a model, tested on some number of groups.

    Raises:
        InputError: It is another file.
    """
    content = read_json(path)
    try:
        recorded = {**_model_of(content), "groups": len({*content["groups"]})}
    except (KeyError, TypeError):
        _refuse(path, "not a report of probes", path)
    _compare(path, path, recorded, {**_names(model), "groups": groups})


def _names(model: Model) -> dict[str, str | None]:
    return {"model": model.name, "adapter": model.adapter}


def _model_of(report: Any) -> dict[str, str | None]:
    """Return the names of the model and its adapter in a report, without the adapter's digest."""
    name, adapter = report["model"]["name"], report["model"]["adapter"]
    return {"model": name, "adapter": adapter and str(adapter).rpartition("@")[0]}


def _sampled_metrics(samples: Path) -> dict[str, float]:
    """Return the metrics that are a mean over samples, and the perplexity of a word."""
    values: dict[str, list[Any]] = {}
    for _, record in read_json_lines(samples):
        for name in record.get("metrics", []):
            if record.get(name) is not None:
                values.setdefault(name, []).append(record[name])
    metrics = {
        name: math.fsum(of_samples) / len(of_samples)
        for name, of_samples in values.items()
        if all(isinstance(value, int | float) for value in of_samples)
    }
    if pairs := values.get("word_perplexity"):
        log_likelihood, words = np.sum(pairs, axis=0)
        metrics["word_perplexity"] = float(np.exp(-log_likelihood / words))
    return metrics


def _compare(
    path: Path, to_remove: Path, recorded: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    """Refuse a file that says something else of itself than is expected."""
    for name, value in expected.items():
        if recorded.get(name) != value:
            _refuse(path, f"its {name} is {recorded.get(name)}, not {value}", to_remove)


def _refuse(path: Path, reason: str, to_remove: Path) -> NoReturn:
    raise InputError(f"{path}: {reason}; remove {to_remove}, and rerun the command to make it anew")
