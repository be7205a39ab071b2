"""What lm-eval's results file says of a run: the model, how it ran, and on how many documents."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.run_record import (
    EnvironmentRecord,
    ModelRecord,
    model_and_adapter,
    quantization_of,
)
from pragworld_tasks.files import read_json

_SAMPLES = re.compile(r"(?:samples_)?(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+))?")


def task_and_date(samples: Path) -> tuple[str, str | None]:
    """Return the task and the date in the name of a file of lm-eval's samples.

    The results of the run have the same date in theirs.

    Examples:
        >>> task_and_date(Path("samples_pragworld_manual_2026-01-02T03-04-05.678.jsonl"))
        ('pragworld_manual', '2026-01-02T03-04-05.678')
    """
    named = _SAMPLES.fullmatch(samples.stem)
    return (named["task"], named["date"]) if named else (samples.stem, None)


def results_beside(samples: Path) -> dict[str, Any] | None:
    """Return lm-eval's results of the run that samples are of; None where they are not there.

    Raises:
        InputError: The file beside the samples is not one of lm-eval's results.
    """
    _, date = task_and_date(samples)
    path = samples.with_name(f"results_{date}.json")
    if not (date and path.is_file()):
        return None
    results = read_json(path)
    if not isinstance(results, dict) or not isinstance(results.get("config"), dict):
        raise InputError(f"{path}: not a results file of lm-eval; pass the folder that it wrote")
    return results


def part_of_run(samples: Path, documents: int | None = None) -> str:
    """Return what makes samples a part of a run; "" if the results beside them name nothing.

    Args:
        samples: the file that lm-eval wrote.
        documents: how many documents the samples in it are of; None if they were not counted.
    """
    results = results_beside(samples)
    if results is None:
        return ""
    counts = results.get("n-samples", {}).get(task_and_date(samples)[0], {})
    whole, evaluated = counts.get("original"), counts.get("effective")
    limit = results["config"].get("limit")
    if limit and (whole is None or evaluated != whole):
        return f"run with --limit {limit:g}"
    if evaluated != whole:
        return f"run with --samples, on {evaluated} of {whole} documents"
    if whole and documents not in (None, whole):
        return f"has {documents} of the {whole} documents of the run"
    return ""


def logged_model(results: Mapping[str, Any]) -> ModelRecord:
    """Return the model that was evaluated."""
    config = results["config"]
    arguments = _arguments(config.get("model_args"))
    name, adapter = model_and_adapter(arguments)
    parameters = config.get("model_num_parameters") or 0
    dtype = config.get("model_dtype")
    return ModelRecord(
        name=str(name or results.get("model_name") or config.get("model")),
        revision=config.get("model_sha") or config.get("model_revision") or None,
        adapter=adapter,
        dtype=str(dtype).removeprefix("torch.") if dtype else None,
        quantization=quantization_of(arguments),
        chat_template=results.get("chat_template") is not None,  # "" where a server applies its own
        parameters=parameters if parameters > 0 else None,  # -1: lm-eval can't tell
    )


def logged_environment(results: Mapping[str, Any], task: str) -> EnvironmentRecord:
    """Return how the model ran on a task."""
    config, settings = results["config"], results.get("configs", {}).get(task, {})
    is_generated = settings.get("output_type") != "multiple_choice"
    versions = {name: results.get(f"{name}_version") for name in ("lm_eval", "transformers")}
    date = results.get("date")
    return EnvironmentRecord(
        task=task,
        backend=config.get("model"),
        model_args=_arguments(config.get("model_args")),
        generation=(settings.get("generation_kwargs") or {}) if is_generated else {},
        system_instruction=results.get("system_instruction"),
        packages={name: version for name, version in versions.items() if version},
        date=date and datetime.fromtimestamp(date, UTC).isoformat(timespec="seconds"),
        seconds=results.get("total_evaluation_time_seconds"),
    )


def _arguments(arguments: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return lm-eval's arguments, which it logs as it got them, as a mapping."""
    if isinstance(arguments, str):
        pairs = (part.partition("=") for part in arguments.split(",") if part)
        return {name.strip(): value for name, _, value in pairs}
    return dict(arguments or {})
