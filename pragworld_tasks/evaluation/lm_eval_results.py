"""What lm-eval's results file says of a run: the model, how it ran, and on how many documents."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.evaluation.run_record import (
    EnvironmentRecord,
    ModelRecord,
    model_and_adapter,
    quantization_of,
)
from pragworld_tasks.files import read_json

_SAMPLES = re.compile(r"(?:samples_)?(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+))?")


class _Config(BaseModel):
    """The part `config` of a results file."""

    model: Any = None
    model_args: str | dict[str, Any] | None = None
    gen_kwargs: str | dict[str, Any] | None = None
    limit: float | None = None
    model_num_parameters: int | None = None
    model_dtype: str | None = None
    model_revision: str | None = None
    model_sha: str | None = None


class LoggedResults(BaseModel):
    """A results file of lm-eval: the fields that are read here; all others are ignored."""

    config: _Config
    configs: dict[str, dict[str, Any]] = {}
    sample_counts: dict[str, dict[str, int]] = Field(default={}, alias="n-samples")
    date: float | None = None
    model_name: str | None = None
    chat_template: str | None = None
    system_instruction: str | None = None
    lm_eval_version: str | None = None
    transformers_version: str | None = None
    total_evaluation_time_seconds: float | None = None

    def metadata(self, task: str) -> dict[str, Any]:
        """Return the settings that a task was made with (`--metadata`)."""
        return self.configs.get(task, {}).get("metadata") or {}

    def model(self) -> ModelRecord:
        """Return the model that was evaluated."""
        arguments = _arguments(self.config.model_args)
        name, adapter = model_and_adapter(arguments)
        parameters = self.config.model_num_parameters or 0
        return ModelRecord(
            name=str(name or self.model_name or self.config.model),
            revision=self.config.model_sha or self.config.model_revision or None,
            adapter=adapter,
            dtype=self.config.model_dtype and self.config.model_dtype.removeprefix("torch."),
            quantization=quantization_of(arguments),
            chat_template=self.chat_template is not None,  # "" where a server applies its own
            parameters=parameters if parameters > 0 else None,  # -1: lm-eval can't tell
        )

    def environment(self, task: str) -> EnvironmentRecord:
        """Return how the model ran on a task."""
        settings = self.configs.get(task, {})
        generation = {}
        if settings.get("output_type") != "multiple_choice":
            generation = {
                **(settings.get("generation_kwargs") or {}),
                **_arguments(self.config.gen_kwargs),
            }
        versions = {"lm_eval": self.lm_eval_version, "transformers": self.transformers_version}
        return EnvironmentRecord(
            task=task,
            backend=self.config.model if isinstance(self.config.model, str) else None,
            model_args=_arguments(self.config.model_args),
            generation=json.loads(json.dumps(generation, default=str)),
            system_instruction=self.system_instruction,
            packages={name: version for name, version in versions.items() if version},
            date=None
            if self.date is None
            else datetime.fromtimestamp(self.date, UTC).isoformat(timespec="seconds"),
            seconds=self.total_evaluation_time_seconds,
        )


def task_and_date(samples: Path) -> tuple[str, str | None]:
    """Return the task and the date in the name of a file of lm-eval's samples.

    The results of the run have the same date in theirs.

    Examples:
        >>> task_and_date(Path("samples_pragworld_manual_2026-01-02T03-04-05.678.jsonl"))
        ('pragworld_manual', '2026-01-02T03-04-05.678')
    """
    named = _SAMPLES.fullmatch(samples.stem)
    return (named["task"], named["date"]) if named else (samples.stem, None)


def results_beside(samples: Path) -> LoggedResults | None:
    """Return lm-eval's results of the run that samples are of; None where they are not there.

    Raises:
        InputError: The file beside the samples is not one of lm-eval's results.
    """
    _, date = task_and_date(samples)
    path = samples.with_name(f"results_{date}.json")
    if not (date and path.is_file()):
        return None
    try:
        return LoggedResults.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"{path}: not a results file of lm-eval ({first_problem(error)}); pass the folder that "
            "it wrote"
        ) from error


def part_of_run(samples: Path, documents: int | None = None) -> str:
    """Return what makes samples a part of a run; "" if the results beside them name nothing.

    Args:
        samples: the file that lm-eval wrote.
        documents: how many documents the samples in it are of; None if they were not counted.
    """
    results = results_beside(samples)
    if results is None:
        return ""
    counts = results.sample_counts.get(task_and_date(samples)[0], {})
    whole, evaluated = counts.get("original"), counts.get("effective")
    if results.config.limit and (whole is None or evaluated != whole):
        return f"run with --limit {results.config.limit:g}"
    if evaluated != whole:
        return f"run with --samples, on {evaluated} of {whole} documents"
    if documents is not None and whole is not None and documents != whole:
        return f"has {documents} of the {whole} documents of the run"
    return ""


def _arguments(arguments: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return lm-eval's arguments, which it logs as it got them, as a mapping for JSON."""
    if isinstance(arguments, str):
        pairs = (part.partition("=") for part in arguments.split(",") if part)
        arguments = {name.strip(): value for name, _, value in pairs}
    plain: dict[str, Any] = json.loads(json.dumps(arguments or {}, default=str))
    return plain
