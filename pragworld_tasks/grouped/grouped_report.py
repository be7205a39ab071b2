"""Scores of grouped documents: accuracy, robust accuracy, worst case and consistency."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pragworld_tasks.errors import InputError, logger
from pragworld_tasks.evaluation.runs import part_of_run, results_beside, task_and_date
from pragworld_tasks.evaluation.scoring import Printed, Share, share_cells, shares_of
from pragworld_tasks.evaluation.statistics import (
    LEVEL,
    Bools,
    Tally,
    detectable_difference,
    robust_tally,
)
from pragworld_tasks.grouped.logged_samples import ScoredDocument, read_scores
from pragworld_tasks.text import format_interval, format_number, format_size, null_if_nan


@dataclass(frozen=True, repr=False, eq=False)
class GroupedReport(Printed):
    """A run of any task by groups of its documents. It prints as a table of its metrics.

    Attributes:
        name, title: what tables call the run, and what stands above its own.
        documents: what tells the documents from others, with lm-eval's digests.
        correct: whether all answers to each document have a score of 1.
        tallies: the metrics that `score_groups` describes.
    """

    name: str
    title: str
    documents: Sequence[tuple[Any, ...]]
    correct: Bools
    tallies: Mapping[str, Tally]
    responses_digest: str = ""

    @cached_property
    def metrics(self) -> dict[str, Share]:
        """The metrics by name, with intervals, in percent."""
        return shares_of(self.tallies)

    @cached_property
    def detectable(self) -> dict[str, float]:
        """The differences, in points, that `detectable_difference` finds for scores of 0 and 1."""
        return detectable_points(self.tallies) if "robust_acc" in self.tallies else {}

    def table(self) -> tuple[str, list[str], list[list[str]]]:
        """Return the metrics as a title, headers and rows."""
        rows = []
        for name, share in self.metrics.items():
            points = format_number(self.detectable.get(name), ".1f")
            rows.append([name, *share_cells(share), format_interval(share.interval), points])
        return self.title, ["metric", "right", "%", f"{LEVEL:.0%} interval", "detectable"], rows

    def to_json(self) -> dict[str, Any]:
        """Return the title, the metrics and the detectable differences for JSON."""
        shares = {name: share.model_dump(mode="json") for name, share in self.metrics.items()}
        points = {name: null_if_nan(of) for name, of in self.detectable.items()}
        return {"title": self.title, "metrics": shares, "detectable": points}


def detectable_points(tallies: Mapping[str, Tally]) -> dict[str, float]:
    """Return the differences, in points, that `detectable_difference` finds in main metrics."""
    names = [name for name in ("robust_acc", "acc") if name in tallies]
    return {name: 100 * detectable_difference(tallies[name]) for name in names}


def score_groups(path: str | Path, group_by: str, metric: str | None = None) -> GroupedReport:
    r"""Score a run of any task of lm-eval by groups of its documents.

    `acc` is the mean score, and `worst_case` the mean over groups of the lowest score. Where scores
    are 0 and 1, `robust_acc` is the share of groups with every answer right, and `consistency` that
    of groups with all right or all wrong. Where documents have several answers (a list of scores by
    `repeats`, or a line for each), `all_right` is the share of documents with every answer right,
    `agreement` that of pairs of answers to a document with the same score, and `same_text` that of
    pairs that are the same text, for which one score and several `resps` are enough.

    Args:
        path: a `samples_*.jsonl` of `lm_eval --log_samples`.
        group_by: a field whose value the documents of a group share, such as `doc.group` or
            `target`; or a field and a pattern for the beginning of its value: `doc.id~(\d+)_`.
        metric: a metric with scores from 0 to 1; default: `acc`, or the only one. With several
            filters, it is named as in lm-eval's results: `exact_match,strict-match`.

    Raises:
        InputError: There is no such field or metric, or each group is a single document.

    Examples:
        >>> import json, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "samples.jsonl"
        >>> samples = [{"doc_id": row, "doc": {"group": row // 2}, "metrics": ["acc"], "acc": right}
        ...            for row, right in enumerate([1, 1, 1, 0])]
        >>> _ = path.write_text("\n".join(map(json.dumps, samples)))
        >>> {name: share.percent for name, share in score_groups(path, "doc.group").metrics.items()}
        {'robust_acc': 50.0, 'acc': 75.0, 'worst_case': 50.0, 'consistency': 50.0}
    """
    path = Path(path)
    metric, documents = read_scores(path, group_by, metric)
    if part := part_of_run(results_beside(path), task_and_date(path)[0]):
        logger.warning("%s: %s; groups may lack documents", path, part)
    groups, answers = len({document.group for document in documents}), len(documents[0].scores)
    if groups == len(documents):
        raise InputError(f"{path}: --group-by {group_by}: no two documents share it; name another")
    title = f"{path.name}, {metric} by {group_by}: {format_size(len(documents), groups)}"
    return GroupedReport(
        path.name,
        title + (f", {answers} answers each" if answers > 1 else ""),
        [(*document.digests, document.group, answers) for document in documents],
        np.array([min(document.scores) == 1 for document in documents]),
        _tallies(documents),
    )


def _tallies(documents: Sequence[ScoredDocument]) -> dict[str, Tally]:
    """Return the metrics that `score_groups` describes."""
    from pandas import factorize

    group, names = factorize(np.array([document.group for document in documents]))
    scores = np.array([document.scores for document in documents])
    answers, right = scores.shape[1], scores.sum(axis=1)
    robust, wrong = (robust_tally((scores == of).all(axis=1), group, group) for of in (1, 0))
    lowest = np.ones(len(names))
    np.minimum.at(lowest, group, scores.min(axis=1))

    def summed(values: ArrayLike, of: int) -> Tally:
        totals = np.full(len(group), of)
        return Tally(*(np.bincount(group, each).astype(np.float64) for each in (values, totals)))

    tallies = {
        "robust_acc": robust,
        "acc": summed(right, answers),
        "worst_case": Tally(lowest, robust.total),
        "consistency": Tally(robust.right + wrong.right, robust.total),
    }
    if pairs := math.comb(answers, 2):
        tallies["all_right"] = summed(right == answers, 1)
        tallies["agreement"] = summed(pairs - right * (answers - right), pairs)
    if not np.isin(scores, (0, 1)).all():
        tallies = {name: tallies[name] for name in ("acc", "worst_case")}
    texts = [Counter(map(str, document.answers)) for document in documents]
    pairs = math.comb(texts[0].total(), 2)
    if pairs and len({text.total() for text in texts}) == 1:
        same = [sum(math.comb(times, 2) for times in text.values()) for text in texts]
        tallies["same_text"] = summed(same, pairs)
    return tallies
