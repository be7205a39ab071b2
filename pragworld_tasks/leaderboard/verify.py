"""Submissions to the leaderboard: a folder with a run record and the samples it was made from.

`verify` computes the record again from the samples and compares the two, and each sample with what
lm-eval logs of its response, given the record's task and settings.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, StrictInt

from pragworld_tasks.data.documents import Document, Split
from pragworld_tasks.data.splits import generator_settings, split_documents
from pragworld_tasks.errors import InputError, printable
from pragworld_tasks.evaluation.responses import LoggedSample, read_predictions, without_repeats
from pragworld_tasks.evaluation.run_record import RunRecord, read_run_records
from pragworld_tasks.evaluation.runs import RECORD, NamedRun, loaded_model, task_and_date
from pragworld_tasks.evaluation.scoring import score
from pragworld_tasks.files import Where, read_json, read_json_lines
from pragworld_tasks.leaderboard.boards import BoardRun
from pragworld_tasks.leaderboard.submission import check_repeatable
from pragworld_tasks.link import task_folder, task_names

_MOST_GROUPS = 2000  # of generated documents, which take a second for each few hundred groups
_LARGEST_FILE = 200_000_000  # bytes
# Random ends of intervals, which depend on NumPy, and what older records lack.
_NOT_COMPARED = ("low", "high", "reason", "unreadable_reasons")


class _Request(BaseModel):
    """A prompt, and its continuation or settings; of a chat, its messages as JSON in a list."""

    arg_0: str | list[str]
    arg_1: str | dict[str, Any]


class _Sample(LoggedSample):
    """A sample with what follows from no other field."""

    doc_id: StrictInt
    arguments: dict[str, _Request]


def submission_files(runs: Sequence[BoardRun]) -> dict[Path, bytes]:
    """Return the files of a submission to the leaderboard, by their names; `runs` has one run."""
    run, *others = runs
    if others:
        raise InputError(f"{len(runs)} runs, of {run.name} first; pass the samples_*.jsonl of one")
    check_repeatable(run.record)
    if run.record.source != "lm-eval" or run.files[0].suffix != ".jsonl":
        raise InputError(f"{run.name}: no samples of lm-eval; pass the folder that it wrote")
    check_files(run.files)
    check_samples(run.record, run.report.documents, run.files[0])
    return {
        Path(RECORD): (json.dumps(run.record.to_json(), indent=2, allow_nan=False) + "\n").encode(),
        **{Path(path.name): path.read_bytes() for path in run.files},
    }


def verify(folder: Path, others: Iterable[BoardRun] = ()) -> BoardRun:
    """Check the submission in a folder and return its run, which none of the others may be."""
    path, samples = folder / RECORD, sorted(folder.glob("samples_*.jsonl"))
    if len(samples) != 1 or {*folder.glob("*")} != {path, *samples} or folder.is_symlink():
        raise InputError(
            f"{folder}: a submission has {RECORD}, one file samples_*.jsonl and nothing else; "
            "write it with `pragworld-tasks submit --to leaderboard`"
        )
    check_files([path, *samples])
    (record,) = read_run_records(path).values()
    check_repeatable(record)
    data, split = record.data, cast(Split, record.data.split)
    generator = data.generator and generator_settings(split, data.generator)
    if max(data.groups, (generator or {}).get("groups", 0)) > _MOST_GROUPS:
        raise InputError(f"{path}: data.generator: a submission has at most {_MOST_GROUPS} groups")
    documents = split_documents(split, generator or {})
    report = score(documents, read_predictions(samples[0]), printable(samples[0]))
    model = record.model.model_copy(update=loaded_model(record.environment.model_args))
    ran = samples, record.environment, generator
    run = NamedRun("", "lm-eval", split, report.predictions, model, *ran)
    recorded = read_json(path)
    json.dumps(recorded, ensure_ascii=False).encode()  # half a character is a `ValueError`
    if differences := [*_differences(recorded, run.to_record(report).to_json())]:
        # An answer says more than the metrics that it changes.
        first = min(differences, key=lambda difference: not difference.startswith("answers"))
        raise InputError(f"{path}: {first}; write it again with `pragworld-tasks submit`")
    check_samples(record, documents, samples[0])
    said = {(answer.response, answer.yes) for answer in record.answers}
    for other in others:
        same = [(of.answers, of.data, of.environment.task) for of in (record, other.record)]
        if same[0] == same[1] and len(said) > 1:  # two models may always say the same
            raise InputError(f"{folder}: the run of {other.files[0].parent}; submit it once")
    return BoardRun(record.model.name, record, report, samples)


def check_files(paths: Iterable[Path]) -> None:
    """Refuse links, pipes and devices, which may lead elsewhere or never end, and large files."""
    for path in paths:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            raise InputError(f"{path}: not a regular file of 200 MB or less; pass one")


def _differences(recorded: Any, computed: Any, place: str = "") -> Iterator[str]:
    """Yield where JSON differs from what it should be."""
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
            yield f"{place} is {recorded}, but should be {computed}"
    elif recorded != computed:
        yield f"{place} is {recorded!r:.60}, but should be {computed!r:.60}"


def check_samples(record: RunRecord, documents: Sequence[Document], path: Path) -> None:
    """Refuse samples that are not what the record's task and settings give."""
    from lm_eval.utils import hash_string

    from pragworld_tasks.evaluation.task_metrics import data_set_rows

    task, rows = _task_settings(record, path), dict(enumerate(data_set_rows(documents)))
    choices = task.get("doc_to_choice", [])
    around: set[tuple[str, str]] = set()
    for where, content in read_json_lines(path):
        sample = where.validate(_Sample, content)
        document = rows.get(sample.doc_id) or where.refuse(f"the task has no row {sample.doc_id}")
        requests, results = [*sample.arguments.values()], without_repeats(sample.filtered_resps)
        if not len(requests) == len(results) == (len(choices) or 1):
            where.refuse("the task has another number of requests and responses to a document")
        # lm-eval logs likelihoods as text.
        read = [(float(own), is_greedy) for own, is_greedy in results] if choices else results
        if choices and any(own > 1e-3 for own, _ in read):  # servers round a little
            where.refuse("a log-likelihood is above 0")
        logged = {
            "doc": document,
            "target": document["answer"],
            "resps": [[result] for result in results],
            "filter": "none",
            "doc_hash": hash_string(json.dumps(sample.doc, indent=2, ensure_ascii=False)),
            "prompt_hash": hash_string("".join(requests[0].arg_0)),
            "target_hash": hash_string(document["answer"]),
            **json.loads(json.dumps(task["process_results"](document, read))),
        }
        for difference in _differences({name: content.get(name) for name in logged}, logged):
            where.refuse(difference)
        for number, request in enumerate(requests):
            around.add(_around_prompt(where, record, request, task["doc_to_text"](document)))
            if len(around) > 1:
                where.refuse("other text stands around the prompt than around the first")
            expected = choices[number] if choices else record.environment.generation
            # lm-eval puts a space before a continuation, unless a chat template was applied.
            if request.arg_1 not in (expected, f" {expected}"):
                where.refuse(f"asked for {request.arg_1!r:.80}, not for {expected!r:.80}")


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
    """Return the settings of the record's task: one of ours, as a task's file can run any code."""
    from lm_eval.tasks._yaml_loader import load_yaml

    task, split = record.environment.task, record.data.split
    named, date = task_and_date(samples)
    if date and date > (datetime.now() + timedelta(days=1)).isoformat():
        raise InputError(f"{samples}: logged on a day that is yet to come")
    if task not in task_names() or task != named:
        raise InputError(f"{samples}: not samples of the task {task!r:.80}, which {RECORD} names")
    settings: dict[str, Any] = load_yaml(task_folder() / f"{task}.yaml", resolve_func=True)
    is_on_split = settings.get("dataset_kwargs") == {"pragworld_split": split}
    if not is_on_split or not callable(settings.get("doc_to_text")):
        raise InputError(f"{samples}: {task} is not a task with questions on the split {split}")
    return settings
