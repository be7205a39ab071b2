"""A leaderboard: all runs on the same documents, ranked, and each pair of them compared."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pragworld_tasks.data.documents import check_yes_no
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.comparison import Comparison, compare_scores
from pragworld_tasks.evaluation.metrics import METRIC_TEXTS
from pragworld_tasks.evaluation.run_record import RunRecord
from pragworld_tasks.evaluation.runs import common_split, find_runs
from pragworld_tasks.evaluation.scoring import ScoreReport, Share
from pragworld_tasks.evaluation.statistics import Rank, rank_runs
from pragworld_tasks.grouped.grouped_report import GroupedReport, score_groups
from pragworld_tasks.grouped.item_analysis import Item, analyze_items

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class BoardRun:
    """A run under a name that no other run on the same documents has, and its files."""

    name: str
    record: RunRecord
    report: ScoreReport
    files: Sequence[Path] = ()

    @property
    def answers(self) -> Sequence[Any]:
        """The answer to each document; of a run by groups, scores and texts."""
        report = self.report
        return report.scored if isinstance(report, GroupedReport) else report.predictions.ours

    @property
    def columns(self) -> dict[str, Share | None]:
        """The metrics, with the main one by the released scoring after it if tables show that."""
        columns: dict[str, Share | None] = {}
        for metric in (name for name in METRIC_TEXTS if name in self.report.metrics):
            columns[metric] = self.report.metrics[metric]
            if metric == self.report.main_metric and self.report.shows_released:
                columns[f"{metric}-released"] = self.report.released.get(metric)
        return columns


@dataclass(frozen=True)
class Board:
    """All runs on the same documents, the best by the main metric first, readers of labels last.

    The title is the split, with the digest of its documents where two boards have the same split.
    """

    title: str
    runs: Sequence[BoardRun]

    @property
    def slug(self) -> str:
        """The title as a part of file names."""
        return _slug(self.title)

    @property
    def report(self) -> ScoreReport:
        """The report of the best run: split, documents and main metric are those of all runs."""
        return self.runs[0].report

    @property
    def dialogues_page(self) -> str:
        """The file name of the page of dialogues; "" for runs by groups, which have none."""
        return "" if isinstance(self.report, GroupedReport) else f"{self.slug}-dialogues.html"

    @property
    def models(self) -> list[BoardRun]:
        """The runs of models: all but those of the readers of the labels."""
        return [run for run in self.runs if run.record.source != "readings"]

    @property
    def added(self) -> list[BoardRun]:
        """The runs of models that stand beside released ones; none where nothing is released."""
        added = [run for run in self.models if run.record.source != "published"]
        return added if len(added) < len(self.models) else []

    @cached_property
    def ranks(self) -> dict[str, Rank]:
        """The rank of each model by the main metric; readers of the labels have none."""
        metric = self.report.main_metric
        return rank_runs({run.name: run.report.tallies[metric] for run in self.models})

    @cached_property
    def comparisons(self) -> dict[tuple[str, str], Comparison]:
        """Each pair of runs compared: the first minus the second, in the order of `runs`."""
        return {
            (first.name, second.name): compare_scores(first.report, second.report)
            for first, second in itertools.combinations(self.runs, 2)
        }

    def alike(self, name: str) -> dict[str, float]:
        """Return p for each other model that an exact test cannot tell from this one."""
        models = {run.name for run in self.models}
        return {
            second if name == first else first: comparison.p
            for (first, second), comparison in self.comparisons.items()
            if name in (first, second) and {first, second} <= models
            if comparison.p >= SIGNIFICANT
        }

    @cached_property
    def run_pages(self) -> dict[str, str]:
        """The file name of each run's page, by the run's name."""
        pages: dict[str, str] = {}
        for number, run in enumerate(self.runs):
            page = f"{self.slug}-run-{_slug(run.name)}.html"
            pages[run.name] = f"{number}-{page}" if page in pages.values() else page
        return pages

    @cached_property
    def items(self) -> list[Item]:
        """How the models answer each document; the readers where there is no model."""
        return analyze_items({run.name: run.report for run in self.models or self.runs})


def load_runs(
    arguments: Sequence[str], group_by: str | None = None, metric: str | None = None
) -> list[BoardRun]:
    """Return the runs that `find_runs` finds, the second of a name as `NAME (2)`.

    With `group_by`, they are samples of any task, as `score_groups` takes them.
    """
    times: Counter[tuple[str, str]] = Counter()
    runs = []
    for run in _grouped_runs(arguments, group_by, metric) if group_by else _split_runs(arguments):
        names = filter(None, (run.record.model.name, run.record.model.adapter))
        name = " + ".join(name.rpartition("/")[2] for name in names)
        times[name, run.record.data.digest] += 1
        if (number := times[name, run.record.data.digest]) > 1:
            name = f"{name} ({number})"
        runs.append(replace(run, name=name))
    return runs


def _grouped_runs(paths: Sequence[str], group_by: str, metric: str | None) -> Iterator[BoardRun]:
    for path in paths:
        report = score_groups(path, group_by, metric)
        yield BoardRun(report.name, report.run.to_record(report), report, report.run.files)


def _split_runs(arguments: Sequence[str]) -> Iterator[BoardRun]:
    for run in find_runs(arguments):
        on = common_split([run])
        documents = run.documents()
        if documents is None:
            raise InputError(f"{run.name}: the responses do not hold their documents")
        check_yes_no(documents, "a board")
        report = run.score(documents)
        if report.responses_digest != report.documents_digest:
            raise InputError(f"{run.name}: texts or gold answers are not those of the split {on}")
        yield BoardRun(run.name, run.to_record(report), report, run.files)


def make_boards(runs: Iterable[BoardRun]) -> list[Board]:
    """Return a board for each set of documents that runs answered, in the order of the runs."""
    by_data: dict[tuple[str, str], list[BoardRun]] = {}
    for run in runs:
        board = by_data.setdefault((run.record.data.split, run.record.data.digest), [])
        board.append(run)
        first = board[0].report
        if [*run.report.documents, *run.report.tallies] != [*first.documents, *first.tallies]:
            raise InputError(
                f"{run.name} and {board[0].name}: the same texts, but other groups, alterations, "
                "effects or metrics; put them on boards of their own"
            )
    splits, boards = [split for split, _ in by_data], []
    for (split, digest), board in by_data.items():
        title = split if splits.count(split) == 1 else f"{split} {digest:.8}"
        boards.append(Board(title, sorted(board, key=_order)))
    return boards


def _slug(name: str) -> str:
    """Return a name in lower-case ASCII letters, digits and hyphens, for names of files."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "run"


def _order(run: BoardRun) -> tuple[bool, float, str]:
    percent = run.report.metrics[run.report.main_metric].percent
    return run.record.source == "readings", -percent, run.name.casefold()
