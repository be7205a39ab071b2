"""Samples that lm-eval logged of any task: the scores of each document, and its group."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.responses import LoggedSample
from pragworld_tasks.files import Where, read_json_lines

_SCORES = TypeAdapter(list[Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]])


class ScoredDocument(NamedTuple):
    """A document by lm-eval's number and digests; of several requests, it has no answers."""

    digests: tuple[Any, ...]
    group: str  # as JSON
    scores: list[float]
    answers: list[Any]


def read_scores(path: Path, group_by: str, metric: str | None) -> tuple[str, list[ScoredDocument]]:
    """Return the metric and the documents that it covers, in the order of their numbers."""
    lines = [*read_json_lines(path)]
    filters = {sample.get("filter") for _, sample in lines}
    known = {
        f"{name},{sample['filter']}" if len(filters) > 1 else name
        for where, sample in lines
        for name in where.validate(LoggedSample, sample).metrics
        if not name.endswith("_stderr") and _scores(sample, name)
    }
    metric = metric or (min(known) if len(known) == 1 else "acc")
    if metric not in known:
        raise InputError(f"{path}: no scores {metric!r} from 0 to 1; choose from {sorted(known)}")
    name, _, kept = metric.partition(",")
    documents: dict[Any, ScoredDocument] = {}
    for where, sample in lines:
        if sample.get(name) is None or (kept and kept != sample["filter"]):
            continue
        if not (scores := _scores(sample, name)):
            where.refuse(f"{name} is {sample[name]!r:.40}, not from 0 to 1; use another metric")
        digests = tuple(sample.get(key) for key in ("doc_id", "doc_hash", "target_hash"))
        read = ScoredDocument(digests, _group(sample, group_by, where), [], [])
        document = documents.setdefault(digests[0], read)
        if document[:2] != read[:2]:
            where.refuse(f"another document has doc_id {digests[0]}; pass samples of one task")
        document.scores.extend(scores)
        document.answers.extend(_answers(sample))
    if len({len(document.scores) for document in documents.values()}) > 1:
        raise InputError(f"{path}: some documents have more answers than others; pass whole runs")
    return metric, [documents[number] for number in sorted(documents)]


def _answers(sample: dict[str, Any]) -> list[Any]:
    """Return the answers to the one request of a document, as many as `repeats`; else none."""
    requests = sample.get("resps", [])
    return requests[0] if len(requests) == 1 and isinstance(requests[0], list) else []


def _scores(sample: dict[str, Any], metric: str) -> list[float]:
    """Return one score, or one for each answer, or none.

    A list of another length is none: some metrics log the pair of a label and an answer.
    """
    value = sample.get(metric)
    repeats = isinstance(value, list) and len(value) == len(_answers(sample)) > 1
    try:
        return _SCORES.validate_python(value if repeats else [value])
    except ValidationError:
        return []


def _group(sample: dict[str, Any], group_by: str, where: Where) -> str:
    """Return the group of a sample: the value of a field, or what a pattern finds in it."""
    path, _, pattern = group_by.partition("~")
    value: Any = sample
    for name in path.split("."):
        fields = value if isinstance(value, dict) else {}
        if (value := fields.get(name)) is None:
            where.refuse(f"--group-by {group_by}: no field {name!r}; choose from {[*fields]}")
    if pattern:
        try:
            found = re.match(pattern, str(value))
        except re.error as error:
            raise InputError(f"--group-by {group_by}: not a pattern: {error}") from error
        if not found:
            where.refuse(f"--group-by {group_by}: {value!r:.40} does not begin with the pattern")
        value = found.group(*range(1, found.re.groups + 1))  # the whole, if the pattern has none
    return json.dumps(value, sort_keys=True)
