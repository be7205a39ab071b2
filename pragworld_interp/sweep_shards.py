"""The shards of a sweep: their files, and the report that they make together.

A file has a line for the run and a line for each document, or for each pair of `patch`. The report
follows from these lines as it does in a run that is not divided.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json_lines, write_whole
from pragworld_tasks.layers.identities import DataIdentity, ModelIdentity
from pragworld_tasks.layers.layer_report import DocumentResult, Intervention, SweepSettings
from pragworld_tasks.layers.layer_statistics import report_from_results
from pragworld_tasks.layers.patching_report import Method, PairEffect
from pragworld_tasks.layers.report_files import check_layer_report, check_patching_report
from pragworld_tasks.layers.reports import Ablated, Patched
from pragworld_tasks.layers.serialization import (
    UnfitError,
    check_schema,
    check_writer,
    decode,
    encode,
)
from pragworld_tasks.layers.targets import Target
from pragworld_tasks.shards import Shard, check_shards

SCHEMA = "pragworld-sweep-shard"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class SweepShard:
    """What the first line of a shard's file says.

    Attributes:
        command: The command that wrote it.
        shard: The shard.
        results: How many lines follow.
        run: What the results depend on: the model, the documents, the settings and the versions of
            the libraries.
    """

    command: Literal["ablate", "patch"]
    shard: Shard
    results: int
    run: dict[str, Any]


@dataclass(frozen=True)
class _Ablation:
    """What `SweepShard.run` says, among others, about a run of `ablate`."""

    model: ModelIdentity
    data: DataIdentity
    intervention: Intervention
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class _Patching:
    """What `SweepShard.run` says, among others, about a run of `patch`."""

    model: ModelIdentity
    data: DataIdentity
    positions: str
    method: Method


def write_shard(
    path: Path, head: SweepShard, results: Sequence[DocumentResult] | Sequence[PairEffect]
) -> None:
    """Write the file of a shard.

    Raises:
        InputError: The file cannot be written.
    """
    content = {"schema": SCHEMA, "version": SCHEMA_VERSION, **encode(head)}
    lines = [json.dumps(line, allow_nan=False) for line in (content, *map(encode, results))]
    write_whole(path, "".join(f"{line}\n" for line in lines).encode())


def merge_shards(paths: Sequence[str | Path]) -> Ablated | Patched:
    """Join what `pragworld-interp ablate` or `patch` wrote with `--shard`.

    Args:
        paths: The files of all shards, in any order.

    Returns:
        The report of the run, the same as if it had not been divided.

    Raises:
        InputError: A file is missing, malformed, cut off or of another version, or the files are
            not all shards of one run, each once, or contradict each other.
    """
    read = [(path, *_read_shard(path)) for path in map(Path, paths)]
    first, *_ = check_shards(
        [(path, head.shard, {"command": head.command, **head.run}) for path, head, _ in read]
    )
    # Each group is in one shard as a whole, and reports have the order of the groups.
    joined = sorted(
        (result for _, _, own in read for result in own), key=lambda result: result.group
    )
    head = next(head for path, head, _ in read if path == first)
    run = _run_of(head)
    try:
        if isinstance(run, _Patching):
            stated = head.run.get("pairs", len(joined))  # older shards do not say
            if len(joined) != stated:
                raise UnfitError(f"there are {len(joined)} pairs, but the run has {stated}")
            patched = Patched(run.model, run.data, run.positions, tuple(joined), run.method)
            check_patching_report(patched)
            return patched
        report = report_from_results(
            tuple(joined), run.model, run.data, run.intervention, SweepSettings(), run.targets
        )
        check_layer_report(report)
    except ValueError as error:
        raise InputError(f"{first} and the other shards: {error}; write them again") from error
    return Ablated(**vars(report))


def _read_shard(path: Path) -> tuple[SweepShard, list[Any]]:
    """Return what a file says about its shard, and its results."""
    check_writer(path, SCHEMA)
    (_, content), *lines = read_json_lines(path)
    check_schema(path, content, SCHEMA, SCHEMA_VERSION)
    try:
        head: SweepShard = decode(SweepShard, content, "")
        run = _run_of(head)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}, line 1: {error}; write the file again") from error
    if head.results != len(lines):
        raise InputError(
            f"{path}: {len(lines)} results, but line 1 states {head.results}; is the file cut off?"
        )
    results, known = [], set()
    for where, record in lines:
        try:
            if isinstance(run, _Ablation):
                result = decode(DocumentResult, record, "")
                rows: tuple[int, ...] = (result.row,)
                counts = len(result.gold), 1 + len(run.targets)
                probabilities = result.gold
            else:
                result = decode(PairEffect, record, "")
                rows = result.original, result.altered
                counts = len(result.patched), run.model.layers
                probabilities = (result.original_run, result.altered_run, *result.patched)
        except (UnfitError, OverflowError) as error:
            where.refuse(f"{error}; write the file again")
        if counts[0] != counts[1] or not all(0 <= p <= 1 for p in probabilities):
            where.refuse(f"not {counts[1]} probabilities; write the file again")
        if rows in known:
            where.refuse("a result that is here twice; write the file again")
        known.add(rows)
        results.append(result)
    return head, results


def _run_of(head: SweepShard) -> _Ablation | _Patching:
    """Return what a shard says about its run.

    Raises:
        UnfitError: It says something else.
    """
    run: _Ablation | _Patching = decode(
        _Ablation if head.command == "ablate" else _Patching, head.run, "run"
    )
    return run
