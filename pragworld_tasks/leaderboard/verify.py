"""Submissions to the leaderboard: a folder with a run record and the samples it was made from.

`verify` computes the record again from the samples and compares the two, and each sample with what
the record's task and settings give: its document, prompt, settings of generation, and scores.
"""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from pragworld_tasks.data.documents import Document, Split
from pragworld_tasks.data.splits import generator_settings, split_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.responses import LoggedSample, read_predictions, without_repeats
from pragworld_tasks.evaluation.run_record import RunRecord, read_run_records
from pragworld_tasks.evaluation.runs import RECORD, NamedRun, loaded_model, task_and_date
from pragworld_tasks.evaluation.scoring import score
from pragworld_tasks.files import Where, read_json, read_json_lines
from pragworld_tasks.leaderboard.boards import BoardRun
from pragworld_tasks.leaderboard.submission import check_repeatable
from pragworld_tasks.link import task_folder, task_names

_MOST_GROUPS = 2000  # of generated documents, which take a second for each few hundred groups
# Random ends of intervals, which depend on NumPy, and what older records lack.
_NOT_COMPARED = ("low", "high", "reason", "unreadable_reasons")


class _Request(BaseModel):
    """A prompt, and its continuation or settings; of a chat, its messages as JSON in a list."""

    arg_0: str | list[str]
    arg_1: str | dict[str, Any]


class _Sample(LoggedSample):
    """A sample with all that is checked; the metrics are among what else it has."""

    model_config = ConfigDict(extra="allow")

    resps: list[Any]
    filter: str
    target: str
    arguments: dict[str, _Request]


def verify(folder: Path) -> BoardRun:
    """Check the submission in a folder and return its run."""
    path, samples = folder / RECORD, sorted(folder.glob("samples_*.jsonl"))
    if not path.is_file() or len(samples) != 1 or len([*folder.iterdir()]) != 2:
        raise InputError(
            f"{folder}: a submission has {RECORD}, one file samples_*.jsonl and nothing else; "
            "write it with `pragworld-tasks submit --to leaderboard`"
        )
    (record,) = read_run_records(path).values()
    check_repeatable(record)
    data, split = record.data, cast(Split, record.data.split)
    generator = data.generator and generator_settings(split, data.generator)
    if max(data.groups, (generator or {}).get("groups", 0)) > _MOST_GROUPS:
        raise InputError(f"{path}: data.generator: a submission has at most {_MOST_GROUPS} groups")
    documents = split_documents(split, generator or {})
    report = score(documents, read_predictions(samples[0]), str(samples[0]))
    model = record.model.model_copy(update=loaded_model(record.environment.model_args))
    ran = samples, record.environment, generator
    run = NamedRun("", "lm-eval", split, report.predictions, model, *ran)
    if differences := [*_differences(read_json(path), run.to_record(report).to_json())]:
        # An answer says more than the metrics that it changes.
        first = min(differences, key=lambda difference: not difference.startswith("answers"))
        raise InputError(f"{path}: {first}; write it again with `pragworld-tasks submit`")
    _check_samples(record, documents, samples[0])
    return BoardRun(record.model.name, record, report, samples)


def _differences(recorded: Any, computed: Any, place: str = "") -> Iterator[str]:
    """Yield where the JSON of a record differs from what its samples give."""
    if isinstance(recorded, dict) and isinstance(computed, dict):
        for name in {**computed, **recorded}:
            if name not in _NOT_COMPARED:
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
    from pragworld_tasks.evaluation.task_metrics import data_set_rows

    task, logged_documents = _task_settings(record, path), data_set_rows(documents)
    choices = task.get("doc_to_choice", [])
    around: set[tuple[str, str]] = set()
    for where, content in read_json_lines(path):
        sample = where.validate(_Sample, content)
        document = logged_documents[sample.doc["row"]]
        if sample.doc != document:
            where.refuse(f"'doc' is not the document of row {document['row']} of the task")
        if (sample.target, sample.filter) != (document["answer"], "none"):
            where.refuse("'target' is not the gold answer, or 'filter' is not none")
        results = without_repeats(sample.filtered_resps)
        if [[result] for result in results] != sample.resps:
            where.refuse(
                "'filtered_resps' are not the responses in 'resps', though nothing filters"
            )
        if choices:  # lm-eval logs likelihoods as text
            results = [(float(likelihood), is_greedy) for likelihood, is_greedy in results]
        items = json.loads(json.dumps(task["process_results"](document, results)))
        for name, value in (sample.model_extra or {}).items():
            if name in items and value != items[name]:
                where.refuse(f"{name!r} is {value!r:.40}, but by the response {items[name]}")
        if len(sample.arguments) != (len(choices) or 1):
            where.refuse(f"{len(sample.arguments)} requests, but the task has another number")
        for number, request in enumerate(sample.arguments.values()):
            around.add(_around_prompt(where, record, request, task["doc_to_text"](document)))
            if len(around) > 1:
                where.refuse("other text stands around the prompt than around the first")
            # lm-eval puts a space before a continuation, unless a chat template was applied.
            asked = request.arg_1
            asked = asked.removeprefix(" ") if isinstance(asked, str) else asked
            expected = choices[number] if choices else record.environment.generation
            if asked != expected:
                where.refuse(f"asked for {asked!r:.80}, but task and record say {expected!r:.80}")


def _around_prompt(
    where: Where, record: RunRecord, request: _Request, prompt: str
) -> tuple[str, str]:
    """Return what stands before and behind the task's prompt, and refuse what the record lacks."""
    text, instruction = request.arg_0, record.environment.system_instruction or ""
    if isinstance(text, list):
        text = "".join(text)
        prompt, instruction = (
            json.dumps(part, ensure_ascii=False)[1:-1] for part in (prompt, instruction)
        )
    before, found, behind = text.partition(prompt.strip())  # a chat template may strip it
    if not found:
        where.refuse("the prompt is not the task's")
    if not record.model.chat_template and text != instruction + prompt:
        where.refuse(f"around the prompt stands something else than {RECORD} names")
    if record.model.chat_template and (text == prompt or instruction.strip() not in before):
        where.refuse(f"the prompt lacks the chat template or system prompt that {RECORD} names")
    return before, behind


def _task_settings(record: RunRecord, samples: Path) -> dict[str, Any]:
    """Return the settings of the record's task, which a stranger names, from its own file.

    It must be one of ours: reading a task's file runs the code that it names.
    """
    from lm_eval.tasks._yaml_loader import load_yaml

    task = record.environment.task
    if task not in task_names() or task != task_and_date(samples)[0]:
        raise InputError(f"{samples}: not samples of the task {task!r:.80}, which {RECORD} names")
    settings: dict[str, Any] = load_yaml(task_folder() / f"{task}.yaml", resolve_func=True)
    if not callable(settings.get("doc_to_text")):
        raise InputError(f"{samples}: {task} is not a task with questions")
    return settings
