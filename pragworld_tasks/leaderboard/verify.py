"""Submissions to the leaderboard: a folder with a run record and the samples it was made from.

Whoever submits writes the folder with `write_submission`. Anyone can check it with `verify`: every
metric is computed again from the samples, and the documents, prompts, answers and settings in the
record have to be those in the samples.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import GENERATED, generator_settings
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.lm_eval_results import task_and_date
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.evaluation.run_record import (
    RunRecord,
    is_folder,
    model_and_adapter,
    quantization_of,
    read_run_records,
)
from pragworld_tasks.evaluation.runs import RECORD, NamedRun
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.evaluation.task_metrics import task_metric_names
from pragworld_tasks.files import Where, read_json, read_json_lines, refusing, write_folder
from pragworld_tasks.leaderboard.logged_requests import logged_prompt
from pragworld_tasks.leaderboard.runs import BoardRun, check_common_documents, load_runs
from pragworld_tasks.leaderboard.submitted_texts import check_texts
from pragworld_tasks.link import task_descriptions, task_folder

_TOLERANCE = 1e-6  # percent; files may round
_MOST_GROUPS = 2000  # of generated documents, which take a second for each few hundred groups
# What lm-eval logs for each document, besides its metrics.
_SAMPLE_FIELDS = {
    *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
    *("doc_hash", "prompt_hash", "target_hash"),
}


@dataclass(frozen=True)
class _Task:
    """What a task asks for.

    Attributes:
        name: its name.
        write_prompt: returns the prompt to a document.
        choices: the continuations that are compared; empty where the model writes its answer.
        metrics: names of its metrics.
        score: returns the items of a document by metric, from what the model said.
    """

    name: str
    write_prompt: Callable[[Mapping[str, Any]], str]
    choices: Sequence[str]
    metrics: frozenset[str]
    score: Callable[[Mapping[str, Any], Sequence[Any]], Mapping[str, Any]]


def write_submission(folder: Path, run: BoardRun, source: NamedRun) -> list[Path]:
    """Write the record and the samples of a run into a new folder, all of it or nothing.

    Args:
        folder: the folder; it must not exist.
        run: the run, with lm-eval's results.
        source: where its samples are.

    Raises:
        InputError: The folder exists or cannot be written, or the run has no results of lm-eval, is
            on documents of one's own, or is of a model in a folder.
    """
    if run.record.source != "lm-eval":
        raise InputError(
            f"{source.name}: not lm-eval's results; pass a folder that lm_eval wrote with "
            "--log_samples and --output_path"
        )
    check_common_documents(run.record)
    _check_public(run.record, source.name)
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
    try:
        return _verify(folder)
    except RecursionError as error:  # JSON can be nested more deeply than a walk over it can go
        raise InputError(
            f"{folder}: values are nested too deeply; submit the files that "
            "`pragworld-tasks record` wrote"
        ) from error


def _verify(folder: Path) -> BoardRun:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    path, samples = folder / RECORD, sorted(folder.glob("samples_*.jsonl"))
    if not path.is_file() or len(samples) != 1:
        raise InputError(
            f"{folder}: holds {len(samples)} files samples_*.jsonl and "
            f"{'a' if path.is_file() else 'no'} {RECORD}; a submission has one of each, as "
            "`pragworld-tasks record` writes them"
        )
    if others := sorted({*folder.iterdir()} - {path, *samples}):
        raise InputError(
            f"{folder}: holds {others[0].name}; a submission has {RECORD}, its samples and nothing "
            "else; remove it"
        )
    (record,) = read_run_records(path).values()
    check_common_documents(record)
    _check_source(record, path)
    _check_privacy(record, path)
    check_texts(record, path)
    _check_generator(record, path)
    (run,) = load_runs([str(path)])
    _check_metrics(run, record, path)
    _check_answers(run, samples[0])
    _check_requests(run.record, run.documents, samples[0])
    return run


def _check_source(record: RunRecord, path: Path) -> None:
    """Refuse a record that is not of a run of lm-eval on a model that others can evaluate."""
    if record.source != "lm-eval":
        raise InputError(f"{path}: from {record.source}; a submission is a run of lm_eval")
    _check_public(record, str(path))
    recorded, arguments = record.model, record.environment.model_args
    loaded, quantization = model_and_adapter(arguments), quantization_of(arguments)
    if (recorded.name, recorded.adapter) != loaded:
        raise InputError(
            f"{path}: the record is of the model {_joined(recorded.name, recorded.adapter):.80}, "
            f"but its environment.model_args load {_joined(*loaded):.80}; write it again with "
            "`pragworld-tasks record`"
        )
    if recorded.quantization != quantization:
        raise InputError(
            f"{path}: model.quantization: {recorded.quantization!s:.80}, but the record's "
            f"environment.model_args give {quantization!s:.80}; write it again with "
            "`pragworld-tasks record`"
        )


def _check_public(record: RunRecord, place: str) -> None:
    """Refuse a model or an adapter in a folder."""
    for name in filter(is_folder, (record.model.name, record.model.adapter or "")):
        raise InputError(
            f"{place}: the model {name} is a folder, which nobody else can evaluate; publish the "
            "model, and evaluate it by its name on the Hub"
        )


def _joined(model: str | None, adapter: str | None) -> str:
    return " + ".join(filter(None, (model, adapter))) or "none"


def _check_privacy(record: RunRecord, path: Path) -> None:
    """Refuse a file with what a record leaves out: it is not seen again once it is read."""
    content, public = read_json(path), record.to_json()
    for part in ("model", "environment"):
        for name, value in content[part].items():
            if value != public[part][name]:
                raise InputError(
                    f"{path}: {part}, {name}: holds a secret, or a folder or an address that only "
                    "one machine knows; write it again with `pragworld-tasks record`"
                )


def _check_metrics(run: BoardRun, recorded: RunRecord, path: Path) -> None:
    """Refuse figures that do not follow from the answers; intervals rest on random draws."""
    changed = {"low", "high"}
    for part in ("metrics", "published", "breakdowns"):
        written, computed = (_figures(getattr(record, part)) for record in (recorded, run.record))
        for place in {**computed, **written}:
            first, second = written.get(place), computed.get(place)
            if place[-1] not in changed and not _is_close(first, second):
                raise InputError(
                    f"{path}: {part}, {', '.join(place)}: {first} in the record, but its answers "
                    f"give {second}"
                )


def _figures(shares: Mapping[str, Any]) -> dict[tuple[str, ...], float | None]:
    """Return each figure by its place in nested shares."""
    figures: dict[tuple[str, ...], float | None] = {}
    for name, share in shares.items():
        if isinstance(share, Share):
            figures |= {(name, key): value for key, value in share.model_dump(mode="json").items()}
        else:
            figures |= {(name, *place): value for place, value in _figures(share).items()}
    return figures


def _is_close(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return first is second
    return abs(first - second) <= _TOLERANCE


def _check_generator(record: RunRecord, path: Path) -> None:
    """Refuse settings that would generate other documents than the record has, or for too long."""
    generator = record.data.generator
    if generator is None:
        return
    names = [field.name for field in fields(GeneratorSettings)]
    if set(generator) != set(names) or not record.data.split.startswith(GENERATED):
        raise InputError(
            f"{path}: data.generator: must have {', '.join(names)} for generated documents, and "
            "be null for others; write it again with `pragworld-tasks record`"
        )
    try:
        groups = generator_settings(record.data.split, generator)["groups"]
    except InputError as error:
        raise InputError(f"{path}: data.generator: {error}") from error
    # A dialogue of entity tracking may have no question, and so no group.
    if groups < record.data.groups or (
        groups != record.data.groups and record.data.split == GENERATED
    ):
        raise InputError(
            f"{path}: data.groups: {record.data.groups}, but data.generator makes {groups} groups"
        )
    if groups > _MOST_GROUPS:
        raise InputError(
            f"{path}: data.generator: {groups} groups; a submission has at most {_MOST_GROUPS}"
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
    """Refuse samples that are not what the record's task and settings give."""
    from pragworld_tasks.evaluation.task_metrics import to_records

    task, logged_documents = _task_of(record, samples), to_records(documents)
    if task.choices and record.environment.generation:
        raise InputError(
            f"{samples.with_name(RECORD)}: environment.generation: {task.name} generates nothing; "
            "write it again with `pragworld-tasks record`"
        )
    around: tuple[str, str] | None = None
    for where, sample in read_json_lines(samples):
        if unknown := sorted(sample.keys() - _SAMPLE_FIELDS - task.metrics):
            where.refuse(f"has {unknown[0]!r:.40}, which lm-eval does not log; leave it out")
        document = logged_documents[sample["doc"]["row"]]
        if sample["doc"] != document:
            where.refuse(f"'doc' is not the document of row {document['row']} of {task.name}")
        if (target := sample.get("target", document["answer"])) != document["answer"]:
            where.refuse(
                f"'target' is {target!r:.40}, but the gold answer is {document['answer']!r}"
            )
        _check_responses(where, sample)
        results = sample["filtered_resps"]
        if task.choices:  # lm-eval logs log-likelihoods as text
            results = [(float(likelihood), is_greedy) for likelihood, is_greedy in results]
        items = json.loads(json.dumps(task.score(document, results)))  # JSON has no tuples
        for name in sorted(task.metrics & sample.keys()):
            if sample[name] != items.get(name):
                where.refuse(
                    f"{name!r} is {sample[name]!r:.40}, but by the response {items.get(name)!r:.40}"
                )
        requests = sample.get("arguments")
        if not isinstance(requests, Mapping) or not requests:
            where.refuse("no 'arguments'; submit the samples as lm-eval wrote them")
        if len(requests) != (len(task.choices) or 1):
            where.refuse(f"{len(requests)} requests instead of {len(task.choices) or 1}")
        for number, request in enumerate(requests.values()):
            if not isinstance(request, Mapping) or set(request) != {"arg_0", "arg_1"}:
                where.refuse("'arguments' are not lm-eval's; submit the samples as it wrote them")
            text = logged_prompt(request["arg_0"]) or ""
            if around is None:
                around = _check_first_prompt(where, record, text, task.write_prompt(document))
            # A chat template may strip a message.
            if text != task.write_prompt(document).strip().join(around):
                where.refuse(
                    f"row {document['row']}: the prompt is not that of {task.name}, or other text "
                    "stands around it than around the first"
                )
            if task.choices:
                _check_continuation(where, request["arg_1"], task.choices[number])
            else:
                _check_settings(where, request["arg_1"], record.environment.generation)


def _check_first_prompt(where: Where, record: RunRecord, text: str, prompt: str) -> tuple[str, str]:
    """Return what stands before and behind the prompt, which has to be what the record says."""
    environment = record.environment
    before, found, behind = text.partition(prompt.strip())
    if not found:
        where.refuse(f"the prompt is not that of {environment.task}")
    instruction = environment.system_instruction or ""
    if record.model.chat_template:
        if not (before or behind):
            where.refuse(f"{RECORD} says that a chat template was applied, but none is there")
        if instruction.strip() not in before:
            where.refuse(f"the prompt does not have the system instruction that {RECORD} names")
    elif text != instruction + prompt:
        where.refuse(
            f"{RECORD} names no chat template, but around the prompt stands something else than "
            "its system instruction"
        )
    return before, behind


def _check_responses(where: Where, sample: Mapping[str, Any]) -> None:
    """Refuse responses that no filter of our tasks makes of what the model said."""
    if sample.get("filter") != "none":
        where.refuse(f"'filter' is {sample.get('filter')!r:.40}, but our tasks have none")
    if [[response] for response in sample["filtered_resps"]] != sample.get("resps"):
        where.refuse("'filtered_resps' are not the responses in 'resps', though nothing filters")


def _check_continuation(where: Where, continuation: object, choice: str) -> None:
    """Refuse a continuation that is not the task's, behind the space that lm-eval puts there."""
    if not isinstance(continuation, str) or continuation.removeprefix(" ") != choice:
        where.refuse(f"the continuation is {continuation!r:.40} instead of {choice!r}")


def _check_settings(where: Where, settings: object, recorded: Mapping[str, Any]) -> None:
    """Refuse settings of generation that are not those of the record."""
    if not isinstance(settings, Mapping):
        where.refuse("no settings of generation; submit the samples as lm-eval wrote them")
    for name in sorted({*settings, *recorded}):
        if settings.get(name) != recorded.get(name):
            where.refuse(
                f"generated with {name} {settings.get(name)!r:.80}, but {RECORD} says "
                f"{recorded.get(name)!r:.80}"
            )


def _task_of(record: RunRecord, samples: Path) -> _Task:
    """Return what a task asks for, from the task's own file.

    The name comes from a stranger. Only one of our tasks is ever loaded: reading a task's file runs
    the code that it names.
    """
    from lm_eval.tasks._yaml_loader import load_yaml

    task = record.environment.task
    if task not in task_descriptions() or task != task_and_date(samples)[0]:
        raise InputError(f"{samples}: not samples of the task {task!r:.80}, which {RECORD} names")
    settings = load_yaml(task_folder() / f"{task}.yaml", resolve_func=True)
    choices = settings.get("doc_to_choice", [])
    if not callable(settings.get("doc_to_text")) or settings.get("output_type") != (
        "multiple_choice" if choices else "generate_until"
    ):
        raise InputError(f"{samples}: {task} is not a task with questions")
    names = task_metric_names(record.data.split)
    metrics = frozenset(name + suffix for name in names for suffix in ("", "_stderr"))
    return _Task(task, settings["doc_to_text"], choices, metrics, settings["process_results"])
