"""Scores of grouped documents: accuracy, robust accuracy, worst case and consistency."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from pragworld_tasks.errors import InputError, logger
from pragworld_tasks.evaluation.responses import Predictions
from pragworld_tasks.evaluation.runs import (
    NamedRun,
    logged_run,
    part_of_run,
    results_beside,
    task_and_date,
)
from pragworld_tasks.evaluation.scoring import ScoreReport, Share
from pragworld_tasks.evaluation.statistics import Bools, Tally, robust_tally
from pragworld_tasks.grouped.logged_samples import ScoredDocument, read_scores


@dataclass(frozen=True, repr=False, eq=False)
class GroupedReport(ScoreReport):
    """A run of any task by groups of its documents, which are a split of their own."""

    documents: Sequence[Any]  # lm-eval's number and digests, the group, and how many answers
    scored: Sequence[ScoredDocument] = field(kw_only=True)
    run: NamedRun = field(kw_only=True)

    @property
    def split(self) -> Any:
        """Metric and groups, such as `acc by doc.group`, after the task if it is known."""
        return self.run.split

    @cached_property
    def group_names(self) -> Sequence[str]:
        """The groups, in the order of the tallies."""
        return [str(json.loads(name)) for name in dict.fromkeys(of.group for of in self.scored)]

    @property
    def documents_digest(self) -> str:
        """The digest of what tells the documents from others."""
        return str(self.predictions.documents_digest)

    @cached_property
    def correct(self) -> Bools:
        """Whether all answers to each document have a score of 1."""
        return np.array([min(document.scores) == 1 for document in self.scored])

    @property
    def detectable(self) -> str:
        """The line of a run whose scores are 0 and 1."""
        return super().detectable if "robust_acc" in self.tallies else ""

    @property
    def released(self) -> dict[str, Share]:
        """Nothing: the released scoring is of PragWorld's splits."""
        return {}

    @property
    def breakdowns(self) -> dict[str, Any]:
        """Nothing: classes of documents are of PragWorld's splits."""
        return {}

    @cached_property
    def tallies(self) -> dict[str, Tally]:
        """The metrics that `score_groups` describes."""
        from pandas import factorize

        group, names = factorize(np.array([document.group for document in self.scored]))
        scores = np.array([document.scores for document in self.scored])
        answers, right = scores.shape[1], scores.sum(axis=1)
        robust, wrong = (robust_tally((scores == of).all(axis=1), group, group) for of in (1, 0))
        lowest = np.ones(len(names))
        np.minimum.at(lowest, group, scores.min(axis=1))

        def summed(values: ArrayLike, of: int) -> Tally:
            totals = np.full(len(group), of)
            return Tally(
                *(np.bincount(group, each).astype(np.float64) for each in (values, totals))
            )

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
        texts = [Counter(map(str, document.answers)) for document in self.scored]
        pairs = math.comb(texts[0].total(), 2)
        if pairs and len({text.total() for text in texts}) == 1:
            same = [sum(math.comb(times, 2) for times in text.values()) for text in texts]
            tallies["same_text"] = summed(same, pairs)
        return tallies


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
    metric, scored = read_scores(path, group_by, metric)
    task, date = task_and_date(path)
    results = results_beside(path)
    if part := part_of_run(results, task):
        logger.warning("%s: %s; groups may lack documents", path, part)
    if len({document.group for document in scored}) == len(scored):
        raise InputError(f"{path}: --group-by {group_by}: no two documents share it; name another")
    documents = [(*of.digests, of.group, len(of.scores)) for of in scored]
    title = f"{task}, {metric} by {group_by}" if date else f"{metric} by {group_by}"
    title += f", {count} answers each" if (count := documents[0][-1]) > 1 else ""
    digest = hashlib.sha256(json.dumps(documents).encode()).hexdigest()
    answers = Predictions([], digest, digest)
    run = logged_run(path, results, answers, cast(Any, title), path.name)
    return GroupedReport(documents, answers, path.name, scored=scored, run=run)
