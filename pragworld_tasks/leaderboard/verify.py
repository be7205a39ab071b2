"""Submissions to the leaderboard: a folder with a run record and the samples it was made from.

Whoever submits writes the folder with `write_submission`. Anyone can check it with `verify`: every
metric is computed again from the samples, and the documents, prompts, answers and settings in the
record have to be those in the samples.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.evaluation.runs import RunSource
from pragworld_tasks.files import Where, read_json_lines
from pragworld_tasks.leaderboard.record import RunRecord
from pragworld_tasks.leaderboard.runs import BoardRun, load_runs
from pragworld_tasks.link import task_folder

RECORD = "record.json"


def write_submission(folder: Path, run: BoardRun, source: RunSource) -> list[Path]:
    """Write the record and the samples of a run into a new folder, all of it or nothing.

    Args:
        folder: the folder; it must not exist.
        run: the run, with lm-eval's results.
        source: where its samples are.

    Raises:
        InputError: The folder exists or cannot be written, or the run has no results of lm-eval.
    """
    if run.record.source != "lm-eval":
        raise InputError(
            f"{source.name}: not lm-eval's results; pass a folder that lm_eval wrote with "
            "--log_samples and --output_path"
        )
    if folder.exists():
        raise InputError(f"{folder} exists; remove it, or choose another name")
    partial = folder.with_name(folder.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        run.record.write(partial / RECORD)
        for path in source.files:
            shutil.copyfile(path, partial / path.name)
        partial.rename(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise InputError(f"{folder}: {error.strerror}; choose a folder that can be written") from (
            error
        )
    return sorted(folder.iterdir())


def verify(folder: Path) -> BoardRun:
    """Check a submission and return its run.

    Args:
        folder: a folder with `record.json` and one file of samples.

    Raises:
        InputError: Something is missing, contradicts the rest, or is not what our task asks for.
            The message names the row where there is one.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    samples = sorted(folder.glob("samples_*.jsonl"))
    if not (folder / RECORD).is_file() or len(samples) != 1:
        raise InputError(
            f"{folder}: holds {len(samples)} files samples_*.jsonl and "
            f"{'a' if (folder / RECORD).is_file() else 'no'} {RECORD}; a submission has one of "
            "each, as `pragworld-tasks record` writes them"
        )
    (run,) = load_runs([str(folder / RECORD)])
    _check_answers(run, samples[0])
    _check_requests(run.record, run.documents, samples[0])
    return run


def _check_answers(run: BoardRun, samples: Path) -> None:
    """Refuse samples whose documents or answers are not those of the record."""
    predictions = read_predictions([samples], run.documents)
    if predictions.documents_digest != run.record.data.digest:
        raise InputError(
            f"{samples}: given to other documents (digest {predictions.documents_digest:.12}) than "
            f"the record names ({run.record.data.digest:.12})"
        )
    recorded = run.record.predictions
    for what, in_record, in_samples in (
        ("answer", recorded.ours, predictions.ours),
        ("released reading", recorded.released, predictions.released),
        ("response", recorded.responses, predictions.responses),
        ("probability of yes", recorded.yes, predictions.yes),
    ):
        for row, (first, second) in enumerate(zip(in_record or [], in_samples or [], strict=True)):
            if first != second and not (
                isinstance(first, float)
                and isinstance(second, float)
                and abs(first - second) < 1e-9
            ):
                raise InputError(
                    f"{samples}, row {row}: the {what} is {second!r:.60}, but {first!r:.60} in "
                    f"{RECORD}"
                )


def _check_requests(record: RunRecord, documents: Sequence[Document], samples: Path) -> None:
    """Refuse samples whose prompts or settings are not the task's."""
    write_prompt = _prompt_of_task(record.environment.task or "")
    for where, sample in read_json_lines(samples):
        requests = sample.get("arguments")
        if not isinstance(requests, Mapping) or not requests:
            where.refuse("no 'arguments'; submit the samples as lm-eval wrote them")
        document = documents[sample["doc"]["row"]]
        prompt = write_prompt({"context": document.context, "question": document.question}).strip()
        for request in requests.values():
            if prompt not in _text_of(request.get("arg_0")):
                where.refuse(
                    f"row {document.row}: the prompt is not that of {record.environment.task}"
                )
            settings = request.get("arg_1")
            if isinstance(settings, Mapping) and dict(settings) != record.environment.generation:
                _refuse_settings(where, settings, record.environment.generation)


def _refuse_settings(
    where: Where, settings: Mapping[str, Any], recorded: Mapping[str, Any]
) -> None:
    for name in sorted({*settings, *recorded}):
        if settings.get(name) != recorded.get(name):
            where.refuse(
                f"generated with {name} {settings.get(name)!r}, but {RECORD} says "
                f"{recorded.get(name)!r}"
            )


def _text_of(request: object) -> str:
    """Return the prompt of a logged request: text, or the messages of a chat."""
    if isinstance(request, list):
        return "\n".join(map(_text_of, request))
    if isinstance(request, str) and request.startswith("[{"):
        try:
            messages = json.loads(request)
        except ValueError:
            return request
        return "\n".join(str(message.get("content", "")) for message in messages)
    return str(request)


def _prompt_of_task(task: str) -> Callable[[Mapping[str, Any]], str]:
    """Return the function that writes a task's prompts, from the task's own file."""
    from lm_eval.tasks._yaml_loader import load_yaml

    path = task_folder() / f"{task}.yaml"
    content = load_yaml(path, resolve_func=True) if path.is_file() else {}
    prompt = content.get("doc_to_text")
    if not callable(prompt):
        raise InputError(f"task {task or 'unknown'}: not a task of pragworld with questions")
    write_prompt: Callable[[Mapping[str, Any]], str] = prompt
    return write_prompt
