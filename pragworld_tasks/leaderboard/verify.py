"""Submissions to the leaderboard: a folder with a run record and the samples it was made from.

Whoever submits writes the folder with `pragworld-tasks submit`. Anyone can check it with `verify`:
the record is computed again from the samples and compared, and each sample has to hold the
document, the prompt and the settings of generation that the record's task and settings give.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import generator_settings, split_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.lm_eval_results import task_and_date
from pragworld_tasks.evaluation.responses import (
    LoggedSample,
    check_logged,
    read_predictions,
    validated,
)
from pragworld_tasks.evaluation.run_record import (
    RunRecord,
    is_folder,
    model_and_adapter,
    quantization_of,
    read_run_records,
    to_record,
)
from pragworld_tasks.evaluation.runs import RECORD
from pragworld_tasks.evaluation.scoring import score
from pragworld_tasks.files import Where, read_json, read_json_lines
from pragworld_tasks.leaderboard.runs import BoardRun
from pragworld_tasks.leaderboard.submission import check_submittable
from pragworld_tasks.link import task_descriptions, task_folder

_MOST_GROUPS = 2000  # of generated documents, which take a second for each few hundred groups
_RANDOM = ("low", "high")  # ends of intervals: NumPy's random numbers depend on its version


class _Request(BaseModel):
    """A request as lm-eval logs it: the prompt, and the continuation or settings of generation."""

    model_config = ConfigDict(extra="forbid")

    arg_0: Any
    arg_1: str | dict[str, Any]


class _Sample(LoggedSample):
    """A sample with all that is checked; the metrics are among what else it has."""

    model_config = ConfigDict(extra="allow")

    target: str
    arguments: dict[str, _Request]


@dataclass(frozen=True)
class _Task:
    """What a task asks for.

    Attributes:
        write_prompt: returns the prompt to a document.
        choices: the continuations that are compared; empty where the model writes its answer.
        score: returns the items of a document by metric, from what the model said.
    """

    write_prompt: Callable[[Mapping[str, Any]], str]
    choices: Sequence[str]
    score: Callable[[Mapping[str, Any], Sequence[Any]], Mapping[str, Any]]


def submission_files(runs: Sequence[BoardRun]) -> dict[Path, bytes]:
    """Return the files of a submission to the leaderboard, by their names.

    Args:
        runs: the one run to submit.

    Raises:
        InputError: The run has no results of lm-eval, or is not one that others can repeat.
    """
    if len(runs) != 1:
        names = ", ".join(run.name for run in runs)
        raise InputError(f"{len(runs)} runs ({names}); pass the samples_*.jsonl of one")
    (run,) = runs
    _check_repeatable(run.record)
    if not run.files or run.files[0].suffix != ".jsonl":
        raise InputError(f"{run.name}: no samples of lm-eval; pass the folder that it wrote")
    return {
        Path(RECORD): run.record.to_bytes(),
        **{Path(path.name): path.read_bytes() for path in run.files},
    }


def verify(folder: Path) -> RunRecord:
    """Check a submission and return its record.

    Args:
        folder: a folder with `record.json` and one file of samples.

    Raises:
        InputError: Something is missing, contradicts the rest, or is not what our task asks for.
            The message names the row where there is one.
    """
    path, samples = folder / RECORD, sorted(folder.glob("samples_*.jsonl"))
    if not path.is_file() or len(samples) != 1 or len([*folder.iterdir()]) != 2:
        raise InputError(
            f"{folder}: a submission has {RECORD}, one file samples_*.jsonl and nothing else; "
            "write it with `pragworld-tasks submit --to leaderboard`"
        )
    (record,) = read_run_records(path).values()
    _check_repeatable(record)
    data = record.data
    generator = data.generator and generator_settings(data.split, data.generator)
    if max(data.groups, (generator or {}).get("groups", 0)) > _MOST_GROUPS:
        raise InputError(f"{path}: data.generator: a submission has at most {_MOST_GROUPS} groups")
    documents = split_documents(data.split, generator)
    report = score(documents, read_predictions(samples, documents))
    arguments = record.environment.model_args
    name, adapter = model_and_adapter(arguments)
    loaded = {"name": name, "adapter": adapter, "quantization": quantization_of(arguments)}
    model = record.model.model_copy(update=loaded)
    computed = to_record(report, model, "lm-eval", record.environment, generator)
    if differences := [*_differences(read_json(path), computed.to_json())]:
        # An answer says more than the metrics that it changes.
        first = min(differences, key=lambda difference: not difference.startswith("answers"))
        raise InputError(f"{path}: {first}; write it again with `pragworld-tasks submit`")
    _check_samples(record, documents, samples[0])
    return record


def _check_repeatable(record: RunRecord) -> None:
    """Refuse a record that is not of a run of lm-eval on a model that others can evaluate."""
    check_submittable(record)
    if record.source != "lm-eval":
        raise InputError(
            f"{record.model.name}: from {record.source}; pass the folder that lm_eval wrote with "
            "--log_samples and --output_path"
        )
    for name in filter(is_folder, (record.model.name, record.model.adapter or "")):
        raise InputError(
            f"{name}: a folder, which nobody else can evaluate; publish the model, and evaluate it "
            "by its name on the Hub"
        )


def _differences(recorded: Any, computed: Any, place: str = "") -> Iterator[str]:
    """Yield where the JSON of a record differs from what its samples give."""
    if isinstance(recorded, dict) and isinstance(computed, dict):
        for name in {**computed, **recorded}:
            if name not in _RANDOM:
                inner = f"{place}.{name}" if place else name
                yield from _differences(recorded.get(name), computed.get(name), inner)
    elif isinstance(recorded, list) and isinstance(computed, list):
        for row, (first, second) in enumerate(zip_longest(recorded, computed)):
            yield from _differences(first, second, f"{place}, row {row}")
    elif isinstance(recorded, float) and isinstance(computed, float):
        if not math.isclose(recorded, computed, abs_tol=1e-6):  # files may round
            yield f"{place} is {recorded}, but by the samples {computed}"
    elif recorded != computed:
        yield f"{place} is {recorded!r:.60}, but by the samples {computed!r:.60}"


def _check_samples(record: RunRecord, documents: Sequence[Document], path: Path) -> None:
    """Refuse samples that are not what the record's task and settings give."""
    from pragworld_tasks.evaluation.task_metrics import to_records

    task, logged_documents = _task_of(record, path), to_records(documents)
    around: tuple[str, str] | None = None
    for where, content in read_json_lines(path):
        sample = validated(_Sample, content, where)
        check_logged(where, sample)
        document = logged_documents[sample.doc["row"]]
        if sample.doc != document:
            where.refuse(f"'doc' is not the document of row {document['row']} of the task")
        if sample.target != document["answer"]:
            where.refuse(f"'target' is {sample.target!r:.40}, not {document['answer']!r}")
        if sample.filter != "none":
            where.refuse(f"'filter' is {sample.filter!r:.40}, but our tasks have none")
        _check_items(where, sample, task.score(document, _results(sample, task)))
        if len(sample.arguments) != (len(task.choices) or 1):
            where.refuse(f"{len(sample.arguments)} requests, but the task has another number")
        prompt = task.write_prompt(document)
        for number, request in enumerate(sample.arguments.values()):
            text = _prompt_text(request.arg_0)
            before, found, behind = text.partition(prompt.strip())  # a chat template may strip it
            around = around or (before, behind)
            if not found or (before, behind) != around:
                where.refuse(
                    "the prompt is not the task's, or has other text around it than the first has"
                )
            _check_system_prompt(where, record, text, prompt)
            asked = request.arg_1
            # lm-eval puts a space before a continuation, unless a chat template was applied.
            expected = task.choices[number] if task.choices else record.environment.generation
            if (asked.removeprefix(" ") if isinstance(asked, str) else asked) != expected:
                where.refuse(f"asked for {asked!r:.80}, but task and record say {expected!r:.80}")


def _results(sample: _Sample, task: _Task) -> list[Any]:
    """Return what the model said, as the task scores it: lm-eval logs likelihoods as text."""
    if not task.choices:
        return sample.filtered_resps
    return [(float(likelihood), is_greedy) for likelihood, is_greedy in sample.filtered_resps]


def _check_items(where: Where, sample: _Sample, items: Mapping[str, Any]) -> None:
    """Refuse scores of a document that its response does not give."""
    logged, computed = sample.model_extra or {}, json.loads(json.dumps(items))  # JSON has no tuples
    for name in items:
        if name in logged and logged[name] != computed[name]:
            where.refuse(f"{name!r} is {logged[name]!r:.40}, but by the response {computed[name]}")


def _check_system_prompt(where: Where, record: RunRecord, text: str, prompt: str) -> None:
    """Refuse a prompt without the system prompt that the record names, or with another text."""
    instruction = record.environment.system_instruction or ""
    if record.model.chat_template:
        if instruction.strip() not in text or text == prompt:
            where.refuse(f"the prompt lacks the chat template or system prompt that {RECORD} names")
    elif text != instruction + prompt:
        where.refuse(f"around the prompt stands something else than {RECORD} names")


def _prompt_text(logged: object) -> str:
    """Return the prompt of a logged request; each message of a chat begins with its role.

    lm-eval logs text, or the messages as JSON in a list of one.

    Examples:
        >>> _prompt_text(['[{"role": "user", "content": "Is it?"}]'])
        'user: Is it?'
    """
    if isinstance(logged, list) and logged and isinstance(logged[0], str):
        messages = json.loads(logged[0])
        return "\n".join(f"{message['role']}: {message['content']}" for message in messages)
    return str(logged)


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
    if not callable(settings.get("doc_to_text")):
        raise InputError(f"{samples}: {task} is not a task with questions")
    choices = settings.get("doc_to_choice", [])
    return _Task(settings["doc_to_text"], choices, settings["process_results"])
