"""The one door for runs: whatever a user names becomes answers and what is known of them.

A run is lm-eval's samples or the folder that it wrote, JSON lines with a response each, a run
record, or answers that ship with this package.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_args

from pragworld_tasks.data.documents import (
    GENERATED,
    Document,
    Split,
    documents_digest,
    texts_digest,
)
from pragworld_tasks.data.sources import is_released
from pragworld_tasks.data.splits import generator_settings, split_documents
from pragworld_tasks.errors import InputError, logger, printable
from pragworld_tasks.evaluation.published import (
    majority_answers,
    published_answers,
    published_models,
)
from pragworld_tasks.evaluation.responses import Predictions, read_predictions
from pragworld_tasks.evaluation.run_record import (
    DataRecord,
    EnvironmentRecord,
    ModelRecord,
    RunKind,
    RunRecord,
    read_run_records,
)
from pragworld_tasks.evaluation.scoring import ScoreReport, score
from pragworld_tasks.files import read_json, read_json_lines

RECORD = "record.json"  # in the folder of a submission
# The arguments that name a model, in the order in which lm-eval looks for them.
_NAMED_BY = ("delta", "pretrained", "model", "path", "engine")
_SAMPLES = re.compile(r"(?:samples_)?(?:.*::)?(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+))?")


@dataclass(frozen=True)
class NamedRun:
    """A run that a user names.

    Attributes:
        split: the split that its answers are to; None where the files do not say.
        model: the model that answered; the name of the run where that is not known.
        files: the files of its responses, or of its record.
    """

    name: str
    source: RunKind
    split: Split | None
    predictions: Predictions
    model: ModelRecord
    files: Sequence[Path] = ()
    environment: EnvironmentRecord = field(default_factory=EnvironmentRecord)
    generator: dict[str, Any] | None = None

    def documents(self) -> list[Document] | None:
        """Return the documents that the run is on; None where it does not say."""
        if self.split and is_released(self.split):
            return split_documents(self.split, {})
        if logged := self.predictions.logged:
            if self.predictions.documents_digest != documents_digest(logged):
                raise InputError(
                    f"{self.name}: not all documents are there, or it holds two runs; pass a whole "
                    "run, without --limit"
                )
            return logged
        if self.split and self.generator:
            return split_documents(self.split, self.generator)
        return None

    def score(self, documents: Sequence[Document]) -> ScoreReport:
        """Return the run's metrics, and warn if it was given to other gold answers."""
        report = score(documents, self.predictions, self.name)
        if report.responses_digest != report.documents_digest:
            logger.warning(
                "%s: given to other documents than these: gold answers differ", self.name
            )
        return report

    def to_record(self, report: ScoreReport) -> RunRecord:
        """Return the record of the run, with the metrics of its report."""
        return RunRecord(
            source=self.source,
            model=self.model,
            environment=self.environment,
            data=DataRecord(
                split=report.split,
                documents=len(report.documents),
                groups=report.groups,
                digest=report.documents_digest,
                responses_digest=report.responses_digest,
                texts_digest=report.predictions.texts_digest or texts_digest(report.documents),
                generator=self.generator,
            ),
            metrics=report.metrics,
            published=report.released,
            breakdowns=report.breakdowns,
            unreadable_reasons=report.unreadable_reasons,
            answers=report.predictions.answers,
        )


def find_runs(arguments: Sequence[str], split: Split | None = None) -> list[NamedRun]:
    """Read the runs that a user names; the second of a name is `NAME (2)`.

    Args:
        arguments: files of responses, folders of lm-eval's results, run records (`.json`, or a
            folder with a `record.json`), `published:MODEL` for the paper's released answers of a
            model (`published:all` for all models), and `readings:majority` for the readers of the
            labels. The split of a run may stand before it: `entity_tracking:published:all`,
            `manual:outputs.jsonl`.
        split: the split that the responses are to; None to take it from the samples.
    """
    times: Counter[str] = Counter()
    runs = []
    for argument in arguments:
        stated = next((name for name in get_args(Split) if argument.startswith(f"{name}:")), None)
        named = stated or split
        for run in _runs_of(argument.removeprefix(f"{stated}:"), named):
            on = run.split or named
            for wanted in (stated, split):
                if wanted not in (None, on):
                    raise InputError(f"{run.name}: responses to the split {on}, not to {wanted}")
            times[run.name] += 1
            name = f"{run.name} ({times[run.name]})" if times[run.name] > 1 else run.name
            runs.append(replace(run, name=printable(name), split=on))
    return runs


def common_split(runs: Sequence[NamedRun]) -> Split:
    """Return the one split that runs are on; refuse several, and runs that do not say."""
    splits = {run.split for run in runs if run.split}
    if len(splits) != 1:
        held = f"are to the splits {', '.join(sorted(splits))}" if splits else "name no split"
        names = ", ".join(run.name for run in runs)
        raise InputError(
            f"{names:.200}: the responses {held}; pass --split, or put it before the name of a "
            "run, as in manual:outputs.jsonl"
        )
    return splits.pop()


def _runs_of(argument: str, split: Split | None) -> list[NamedRun]:
    kind, _, name = argument.partition(":")
    path = Path(argument)
    if kind == "published":
        on = split or "manual"
        models = (published_models(on) if name == "all" else []) or [name]
        return [
            NamedRun(f"published:{model}", "published", on, answers, ModelRecord(name=model))
            for model in models
            for answers in [published_answers(model, on)]
        ]
    if argument == "readings:majority":
        readers = ModelRecord(name="label readers (majority)")
        return [NamedRun(argument, "readings", "manual", majority_answers(), readers)]
    if path.is_dir():
        record = path / RECORD
        return _recorded_runs(record) if record.is_file() else _runs_in_folder(path, split)
    return _recorded_runs(path) if path.suffix == ".json" else [_run_in_file(path)]


def _recorded_runs(path: Path) -> list[NamedRun]:
    """Return the runs in a file that `score --json` wrote."""
    names_results = not path.exists() and any(path.parent.glob(f"{path.stem}_????-??-??T*.json"))
    if names_results or task_and_date(path)[1]:
        raise InputError(
            f"{path}: lm-eval's results, which hold no answers; pass their folder, or the "
            "samples_*.jsonl beside them"
        )
    return [
        NamedRun(
            name or record.model.name,
            record.source,
            cast(Split, record.data.split),
            record.predictions,
            record.model,
            [path],
            record.environment,
            record.data.generator,
        )
        for name, record in read_run_records(path).items()
    ]


def _runs_in_folder(folder: Path, split: Split | None) -> list[NamedRun]:
    """Return a run for each file of samples below a folder of lm-eval's results.

    Others, such as runs with `--limit`, are left out with a warning.
    """
    runs, errors = [], []
    for path in sorted(folder.rglob("samples_*.jsonl")):
        _, first = next(iter(read_json_lines(path)))
        sampled = first.get("doc", {}).get("split")
        if sampled and split in (None, sampled):
            try:
                runs.append(_run_in_file(path, f"{path.parent.name}/{task_and_date(path)[0]}"))
            except InputError as error:
                errors.append(error)
    if not runs and errors:
        raise errors[0]
    if not runs:
        wanted = f"of the split {split}" if split else "of a pragworld task"
        raise InputError(
            f"{folder}: no samples_*.jsonl {wanted}; run lm_eval with --log_samples and "
            "--output_path and without --limit, and pass that folder"
        )
    for problem in errors:
        logger.warning("left out: %s", printable(problem))
    return runs


def _run_in_file(path: Path, name: str = "") -> NamedRun:
    """Return the run in a file of responses or of lm-eval's samples."""
    results = results_beside(path)
    if part := part_of_run(results, task_and_date(path)[0]):
        raise InputError(f"{path}: {part}; pass a whole run")
    predictions = read_predictions(path)
    split = predictions.logged[0].split if predictions.logged else None
    return logged_run(path, results, predictions, split, name or path.name)


def logged_run(
    path: Path, results: dict[str, Any], predictions: Predictions, split: Split | None, name: str
) -> NamedRun:
    """Return the run in a file, with what lm-eval's results beside it say of it."""
    task, model = task_and_date(path)[0], ModelRecord(name=path.stem)
    run = NamedRun(name, "responses", split, predictions, model, [path])
    if not results or split is None:
        return run
    generator = None
    if split in get_args(Split) and split.startswith(GENERATED):
        settings = _of_task(results, "configs", task)
        generator = generator_settings(split, settings.get("metadata") or {})
    return replace(
        run,
        source="lm-eval",
        model=_logged_model(results),
        environment=_logged_environment(results, task),
        generator=generator,
    )


# Results of lm-eval ------------------------------------------------------------------------------


def task_and_date(samples: Path) -> tuple[str, str | None]:
    """Return the task and the date in the name of a file of lm-eval's samples.

    Examples:
        >>> task_and_date(Path("samples_pragworld_manual_2026-01-02T03-04-05.678.jsonl"))
        ('pragworld_manual', '2026-01-02T03-04-05.678')
    """
    named = _SAMPLES.fullmatch(samples.stem)
    return (named["task"], named["date"]) if named else (samples.stem, None)


def results_beside(samples: Path) -> dict[str, Any]:
    """Return lm-eval's results of the run that samples are of; none where they are not there.

    They are named `results_` with the date, or as `--output_path` was if it names a JSON file.
    """
    _, date = task_and_date(samples)
    path = next(samples.parent.glob(f"*_{date}.json"), None)
    if not path:
        return {}
    results: dict[str, Any] = read_json(path)
    if not isinstance(results, dict) or not isinstance(results.get("config"), dict):
        raise InputError(f"{path}: not a results file of lm-eval; pass the folder that it wrote")
    return results


def _of_task(results: Mapping[str, Any], key: str, task: str) -> dict[str, Any]:
    """Return a task's part of results; lm-eval 0.5 puts the group before the name, as in `a::b`."""
    parts: dict[str, Any] = results.get(key, {})
    return next((part for name, part in parts.items() if name.split("::")[-1] == task), {})


def part_of_run(results: Mapping[str, Any], task: str, documents: int | None = None) -> str:
    """Return what makes the samples of a task a part of a run; "" if its results name nothing.

    `documents` is how many documents the samples are of; None if they were not counted.
    """
    counts = _of_task(results, "n-samples", task)
    whole, evaluated = counts.get("original"), counts.get("effective")
    limit = results.get("config", {}).get("limit")
    if limit and (whole is None or evaluated != whole):
        return f"run with --limit {limit:g}"
    if evaluated != whole:
        return f"run with --samples, on {evaluated} of {whole} documents"
    if whole and documents not in (None, whole):
        return f"has {documents} of the {whole} documents of the run"
    return ""


def _logged_model(results: Mapping[str, Any]) -> ModelRecord:
    config = results["config"]
    loaded = loaded_model(config.get("model_args"))
    unnamed = results.get("model_name") or config.get("model")
    parameters = config.get("model_num_parameters") or 0
    dtype = config.get("model_dtype")
    return ModelRecord(
        **{**loaded, "name": loaded["name"] or str(unnamed)},
        revision=config.get("model_sha") or config.get("model_revision") or None,
        dtype=str(dtype).removeprefix("torch.") if dtype else None,
        chat_template=results.get("chat_template") is not None,  # "" where a server applies its own
        parameters=parameters if parameters > 0 else None,  # -1: lm-eval can't tell
    )


def loaded_model(model_args: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return name, adapter and quantization of the model that lm-eval's arguments load."""
    arguments = model_arguments(model_args)
    named = [printable(arguments[key]) for key in _NAMED_BY if arguments.get(key)]
    adapter = arguments.get("peft")
    bits = [bits for bits in ("4bit", "8bit") if str(arguments.get(f"load_in_{bits}")) == "True"]
    return {
        "name": named[0] if named else None,
        "adapter": printable(adapter) if adapter else None,
        "quantization": bits[0] if bits else arguments.get("quantization"),
    }


def _logged_environment(results: Mapping[str, Any], task: str) -> EnvironmentRecord:
    config, settings = results["config"], _of_task(results, "configs", task)
    is_generated = settings.get("output_type") != "multiple_choice"
    versions = {name: results.get(f"{name}_version") for name in ("lm_eval", "transformers")}
    date = results.get("date")
    return EnvironmentRecord(
        task=task,
        backend=config.get("model"),
        model_args=model_arguments(config.get("model_args")),
        generation=(settings.get("generation_kwargs") or {}) if is_generated else {},
        system_instruction=results.get("system_instruction"),
        packages={name: version for name, version in versions.items() if version},
        date=date and datetime.fromtimestamp(date, UTC).isoformat(timespec="seconds"),
        seconds=results.get("total_evaluation_time_seconds"),
    )


def model_arguments(arguments: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return lm-eval's arguments, which it logs as it got them, as a mapping."""
    if isinstance(arguments, str):
        pairs = (part.partition("=") for part in arguments.split(",") if part)
        return {name.strip(): value for name, _, value in pairs}
    return dict(arguments or {})
