"""Reading result files: one report, or those of several models for a figure or a comparison.

A layer report follows from its probabilities. It is computed from them again when it is read, and
a file that says something else is refused.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pragworld_tasks.data.documents import ALTERATIONS, Answer
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json, read_json_lines
from pragworld_tasks.layers.identities import DataIdentity, ModelIdentity, model_titles
from pragworld_tasks.layers.layer_report import SCHEMA, SCHEMA_VERSION, LayerReport
from pragworld_tasks.layers.layer_statistics import recompute_report, settings_problem
from pragworld_tasks.layers.patching_report import SCHEMA as PATCHING_SCHEMA
from pragworld_tasks.layers.patching_report import SCHEMA_VERSION as PATCHING_VERSION
from pragworld_tasks.layers.patching_report import (
    Agreement,
    Method,
    PairEffect,
    PatchedProbability,
    PatchingReport,
)
from pragworld_tasks.layers.positions import PARTS_OF_PAIRS, positions_problem
from pragworld_tasks.layers.reports import Ablated, Patched, patching_panels
from pragworld_tasks.layers.serialization import UnfitError, check_schema, check_writer, decode

_TOLERANCE = 1e-6
_DRAWN = ("low", "high", "both_halves")


def read_layers(path: str | Path) -> Ablated:
    """Read the report that `pragworld-interp ablate` or `write_layers` wrote.

    Raises:
        InputError: The file is missing, malformed or of another version, or it contradicts its
            probabilities.
    """
    check_writer(path, SCHEMA)
    content = read_json(path)
    check_schema(path, content, SCHEMA, SCHEMA_VERSION)
    try:
        report: Ablated = decode(Ablated, content, "")
        check_layer_report(report)
        report = recompute_report(report)
        if unknown := content.keys() - report.to_json():
            raise UnfitError(f"unknown {min(unknown)!r:.40}")
    except (UnfitError, OverflowError) as error:
        raise InputError(f"{path}: {error}; write the file again") from error
    for place, value, computed in _contradictions(content, report.to_json(), ""):
        raise InputError(
            f"{path}: {place} is {value!s:.40}, but the probabilities in the file give "
            f"{computed!s:.40}; write the file again"
        )
    return report


def read_patching(path: str | Path) -> Patched:
    """Read the report that `pragworld-interp patch` or `write_patching` wrote.

    Raises:
        InputError: The file is missing, malformed, inconsistent, or of another version.
    """
    check_writer(path, PATCHING_SCHEMA)
    (_, head), *rest = read_json_lines(path)
    check_schema(path, head, PATCHING_SCHEMA, PATCHING_VERSION)
    try:
        model = decode(ModelIdentity, head.get("model"), "model")
        data = decode(DataIdentity, head.get("data"), "data")
        positions = decode(str, head.get("positions"), "positions")
        if problem := positions_problem(positions, PARTS_OF_PAIRS):
            raise UnfitError(f"positions is {positions!r:.40}: {problem}")
        method = decode(Method, head.get("method"), "method")
        agreement = decode(Agreement | None, head.get("agreement"), "agreement")
        if agreement and (method == "exact" or agreement.pairs < 1 or not _is_share(agreement)):
            raise UnfitError("agreement is not that of estimates with exact patching")
    except (UnfitError, OverflowError) as error:
        raise InputError(f"{path}, line 1: {error}; write the file again") from error
    pairs: list[PairEffect] = []
    for where, record in rest:
        try:
            pair: PairEffect = decode(PairEffect, record, "")
        except (UnfitError, OverflowError) as error:
            where.refuse(f"{error}; write the file again")
        if record.get("kept", pair.kept) != pair.kept:  # written for people
            where.refuse(
                f"kept is {record['kept']!s:.40}, but the probabilities of the pair give "
                f"{pair.kept}; write the file again"
            )
        pairs.append(pair)
    if head.get("pairs") != len(pairs):
        raise InputError(
            f"{path}: {len(pairs)} pairs, but line 1 states {head.get('pairs')}; is the file cut "
            "off?"
        )
    report = Patched(model, data, positions, tuple(pairs), method, agreement)
    for (where, _), problem in zip(rest, pair_problems(report), strict=True):
        if problem:
            where.refuse(f"{problem}; write the file again")
    try:
        check_patching_report(report)
    except UnfitError as error:
        raise InputError(f"{path}: {error}; write the file again") from error
    return report


def check_patching_report(report: PatchingReport) -> None:
    """Raise `UnfitError` if parts of a report contradict each other."""
    if len({*report.model.labels}) < 2:
        raise UnfitError(f"model.labels has {len({*report.model.labels})} values, not at least 2")
    for problem in pair_problems(report):
        if problem:
            raise UnfitError(problem)
    counts = {
        "documents": len({row for pair in report.pairs for row in (pair.original, pair.altered)}),
        "groups": len({pair.group for pair in report.pairs}),
    }
    for what, count in counts.items():
        stated = getattr(report.data, what)
        if stated < max(1, count):
            raise UnfitError(f"line 1 states {stated} {what}, but the pairs are of more")


def pair_problems(report: PatchingReport) -> Iterator[str | None]:
    """Yield for each pair what contradicts the model, the documents or the pairs before it."""
    known: set[tuple[int, int]] = set()
    groups: dict[int, int] = {}
    originals: dict[int, int] = {}
    layers = report.model.layers
    for pair in report.pairs:
        rows = pair.original, pair.altered
        if len(pair.patched) != layers:
            yield f"the pair has {len(pair.patched)} layers, the model {layers}"
        elif not all(0 <= p <= 1 for p in (pair.original_run, pair.altered_run, *pair.patched)):
            yield "the pair has a number that is not a probability"
        elif rows in known or min(rows) < 0 or rows[0] == rows[1]:
            yield f"rows {rows[0]} and {rows[1]} are no pair, or here twice"
        elif any(groups.setdefault(row, pair.group) != pair.group for row in rows):
            yield f"rows {rows[0]} and {rows[1]} are in group {pair.group} and in another one"
        elif originals.setdefault(pair.group, pair.original) != pair.original:
            yield (
                f"group {pair.group} has the originals {originals[pair.group]} and {pair.original}"
            )
        elif pair.alteration not in (None, *ALTERATIONS):
            yield f"alteration is {pair.alteration!r:.40}, not one of {', '.join(ALTERATIONS)}"
        else:
            yield _answer_problem(pair.answer, report.data)
        known.add(rows)


def _answer_problem(answer: str, data: DataIdentity) -> str | None:
    """Return why an answer is none that a report has; None if it may be one."""
    if data.split == "own":  # with any labels, which the tokenizer may have changed
        return None if answer else "answer is empty"
    labels = get_args(Answer)
    return (
        None if answer in labels else f"answer is {answer!r:.40}, not one of {', '.join(labels)!r}"
    )


def _is_share(agreement: Agreement) -> bool:
    correlation = 0 if math.isnan(agreement.correlation) else agreement.correlation
    return -1 <= correlation <= 1 and 0 <= agreement.difference <= 1


def read_layer_files(paths: Sequence[str | Path]) -> dict[str, Ablated]:
    """Read layer reports and return them by a short, unique title of each model.

    Raises:
        InputError: A file is not a layer report.

    Examples:
        >>> from pragworld_interp import EXAMPLES, read_layer_files
        >>> list(read_layer_files([EXAMPLES / "layers.json"]))
        ['tiny']
    """
    reports = [read_layers(path) for path in paths]
    return dict(zip(model_titles([report.model for report in reports]), reports, strict=True))


def read_patching_panels(
    paths: Sequence[str | Path], by_alteration: bool = False
) -> tuple[str, dict[str, dict[str, PatchedProbability]]]:
    """Read patching reports and average the effects of the pairs that are kept.

    Args:
        paths: The files.
        by_alteration: Whether each alteration gets a panel, next to the one of all pairs.

    Returns:
        A title, and the panels of `figures.patching_figure`.

    Raises:
        InputError: There are no files, or one is not a patching report, keeps no pair, or is of
            other documents or positions than the first one.
    """
    if not paths:
        raise InputError("there are no patching reports to read; give at least one")
    reports = [read_patching(path) for path in paths]
    for path, report in zip(paths, reports, strict=True):
        if (report.data, report.positions) != (reports[0].data, reports[0].positions):
            raise InputError(
                f"{path}: patched on other documents or positions than {paths[0]}; patch all "
                "models on the same"
            )
        if report.method != reports[0].method:
            raise InputError(
                f"{path}: effects of the method {report.method}, but those of {paths[0]} are of "
                f"{reports[0].method}; patch all models by one method"
            )
        if not report.kept_by_alteration():
            raise InputError(f"{path}: no pair is kept, so there is nothing to show")
    return patching_panels(reports, by_alteration)


def check_layer_report(report: LayerReport) -> None:
    """Raise `UnfitError` if parts of a report contradict each other, or cannot be computed with."""
    if problem := settings_problem(report.settings):
        raise UnfitError(problem)
    labels = report.model.labels
    if len({*labels}) < 2 or len({*labels}) < len(labels):
        raise UnfitError(f"model.labels has {len({*labels})} values, not at least 2, each once")
    if (report.intervention.replacement == "resample") != (report.intervention.seed is not None):
        raise UnfitError(
            f"intervention.seed is {report.intervention.seed}, with replacement "
            f"{report.intervention.replacement}"
        )
    if problem := positions_problem(report.intervention.positions):
        raise UnfitError(f"intervention.positions is {report.intervention.positions!r}: {problem}")
    targets = report.targets
    if not targets:
        raise UnfitError("layers is empty")
    counts = {
        "documents": (len(report.documents), report.data.documents),
        "groups": (len({document.group for document in report.documents}), report.data.groups),
    }
    for what, (count, stated) in counts.items():
        if count != stated or not stated:
            raise UnfitError(f"{count} {what}, but the file states {stated}")
    rows = {document.row for document in report.documents}
    if len(rows) < len(report.documents) or min(rows) < 0:
        raise UnfitError("a row is negative, or here twice")
    for number, target in enumerate(targets):
        has_heads = report.intervention.module == "heads"
        is_sorted = target.layers == tuple(sorted({*target.layers})) != ()
        if target in targets[:number]:
            raise UnfitError(f"layers[{number}].target is {target.name}, as one before")
        if not is_sorted or target.layers[-1] >= report.model.layers or target.layers[0] < 0:
            raise UnfitError(
                f"layers[{number}].target.layers is {list(target.layers)}, which are not different "
                f"layers of {report.model.layers}"
            )
        is_head = target.head is not None and target.head >= 0 and len(target.layers) == 1
        if is_head != has_heads or (target.head is not None and not is_head):
            raise UnfitError(f"layers[{number}].target.head is {target.head}")
    for number, document in enumerate(report.documents):
        if problem := _answer_problem(document.answer, report.data):
            raise UnfitError(f"documents[{number}].{problem}")
        if len(document.gold) != 1 + len(targets):
            raise UnfitError(
                f"documents[{number}].gold has {len(document.gold)} numbers instead of "
                f"{1 + len(targets)}"
            )
        if not all(0 <= value <= 1 for value in document.gold):
            raise UnfitError(f"documents[{number}].gold has a number that is not a probability")


def _contradictions(stated: Any, computed: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield place and values of what a file states and its probabilities do not give.

    Ends of intervals and `both_halves` come from random draws, which another version of NumPy may
    draw differently: they are not compared, and a reader gets the computed ones.
    """
    if isinstance(computed, dict) and isinstance(stated, dict):
        for key in computed:
            if key not in _DRAWN:
                yield from _contradictions(
                    stated.get(key), computed[key], f"{place}.{key}".lstrip(".")
                )
    elif isinstance(computed, list) and isinstance(stated, list) and len(stated) == len(computed):
        for number, (value, other) in enumerate(zip(stated, computed, strict=True)):
            yield from _contradictions(value, other, f"{place}[{number}]")
    elif isinstance(computed, float) and isinstance(stated, int | float):
        if abs(stated - computed) > _TOLERANCE:
            yield place, stated, computed
    elif stated != computed:
        yield place, stated, computed
