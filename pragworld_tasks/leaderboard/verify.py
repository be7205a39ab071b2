"""Submissions to the leaderboard: a folder with a run record and the samples it was made from.

Whoever submits writes the folder with `write_submission`. Anyone can check it with `verify`: every
metric is computed again from the samples, and the documents, prompts, answers and settings in the
record have to be those in the samples.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.evaluation.runs import RunSource, task_and_date
from pragworld_tasks.files import Where, read_json, read_json_lines, refusing, write_folder
from pragworld_tasks.leaderboard.private_values import is_folder, public_values
from pragworld_tasks.leaderboard.record import RunRecord
from pragworld_tasks.leaderboard.runs import BoardRun, load_runs
from pragworld_tasks.link import task_descriptions, task_folder

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
    with refusing(folder):
        if folder.exists():
            raise InputError(f"{folder} exists; remove it, or choose another name")
    samples = {path.name: path.read_bytes() for path in source.files}
    write_folder(folder, {RECORD: run.record.to_bytes(), **samples}, overwrite=False)
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
    if is_folder(run.record.model.name):
        raise InputError(
            f"{folder / RECORD}: the model {run.record.model.name} is a folder, which nobody else "
            "can evaluate; submit a run of a public model"
        )
    if run.record.source != "lm-eval":
        raise InputError(
            f"{folder / RECORD}: from {run.record.source}; a submission is a run of lm_eval"
        )
    _check_privacy(run.record, folder / RECORD)
    _check_answers(run, samples[0])
    _check_requests(run.record, run.documents, samples[0])
    return run


def _check_privacy(record: RunRecord, path: Path) -> None:
    """Refuse a file with what a record leaves out: it is not seen again once it is read."""
    content, public = read_json(path), record.model_dump(mode="json")
    for part in ("model", "environment"):
        for name, value in content[part].items():
            if value != public[part][name]:
                raise InputError(
                    f"{path}: {part}, {name}: holds a secret, or a folder or an address that only "
                    "one machine knows; write it again with `pragworld-tasks record`"
                )


def _check_answers(run: BoardRun, samples: Path) -> None:
    """Refuse samples whose documents or answers are not those of the record."""
    predictions = read_predictions([samples], run.documents)
    if predictions.documents_digest != run.record.data.digest:
        raise InputError(
            f"{samples}: given to other documents (digest {predictions.documents_digest!s:.12}) "
            f"than the record names ({run.record.data.digest:.12})"
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
    """Refuse samples whose prompts or settings are not the task's.

    What a chat template puts around a prompt is the same for all documents.
    """
    write_prompt = _prompt_of_task(record, samples)
    around: tuple[str, str] | None = None
    for where, sample in read_json_lines(samples):
        requests = sample.get("arguments")
        if not isinstance(requests, Mapping) or not requests:
            where.refuse("no 'arguments'; submit the samples as lm-eval wrote them")
        document = documents[sample["doc"]["row"]]
        prompt = write_prompt({"context": document.context, "question": document.question}).strip()
        for request in requests.values():
            if not isinstance(request, Mapping):
                where.refuse("'arguments' are not lm-eval's; submit the samples as it wrote them")
            before, found, behind = _text_of(request.get("arg_0")).partition(prompt)
            around = around or (before, behind)
            if not found or (before, behind) != around:
                where.refuse(
                    f"row {document.row}: the prompt is not that of {record.environment.task}, or "
                    "other text stands around it than around the first"
                )
            settings = request.get("arg_1")
            if not isinstance(settings, str):
                _check_settings(where, settings, record.environment.generation)


def _check_settings(where: Where, settings: object, recorded: Mapping[str, Any]) -> None:
    """Refuse settings of generation that are not those of the record."""
    if not isinstance(settings, Mapping):
        where.refuse("no settings of generation; submit the samples as lm-eval wrote them")
    public = public_values(settings)
    for name in sorted({*public, *recorded}):
        if public.get(name) != recorded.get(name):
            where.refuse(
                f"generated with {name} {public.get(name)!r}, but {RECORD} says "
                f"{recorded.get(name)!r}"
            )


def _text_of(request: object) -> str:
    """Return the prompt of a logged request: text, or the messages of a chat."""
    if isinstance(request, list):
        return "\n".join(map(_text_of, request))
    if isinstance(request, Mapping):
        return f"{request.get('role')}: {request.get('content')}"
    if isinstance(request, str) and request.startswith("[{"):
        try:
            return _text_of(json.loads(request))
        except ValueError:
            return request
    return str(request)


def _prompt_of_task(record: RunRecord, samples: Path) -> Callable[[Mapping[str, Any]], str]:
    """Return the function that writes a task's prompts, from the task's own file.

    The name comes from a stranger. Only one of our tasks is ever loaded: reading a task's file runs
    the code that it names.
    """
    from lm_eval.tasks._yaml_loader import load_yaml

    task = record.environment.task
    if task not in task_descriptions() or task != task_and_date(samples)[0]:
        raise InputError(f"{samples}: not samples of the task {task!r:.80}, which {RECORD} names")
    prompt = load_yaml(task_folder() / f"{task}.yaml", resolve_func=True).get("doc_to_text")
    if not callable(prompt):
        raise InputError(f"{samples}: {task} is not a task with questions")
    write_prompt: Callable[[Mapping[str, Any]], str] = prompt
    return write_prompt
