"""The pages of a leaderboard, rendered from templates with everything escaped."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

from jinja2 import Environment

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.evaluation.comparison import Comparison, Difference
from pragworld_tasks.evaluation.metric_texts import METRIC_TEXTS
from pragworld_tasks.evaluation.metrics import Interval, McNemar, Rank, SignFlip
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.layers.layer_report import p_text
from pragworld_tasks.layers.page import LayerSweeps, layers_content, ranges
from pragworld_tasks.leaderboard.boards import SIGNIFICANT, Board
from pragworld_tasks.leaderboard.dialogues_page import dialogues_content
from pragworld_tasks.leaderboard.published_figures import PublishedRow, published_rows
from pragworld_tasks.leaderboard.rebuilt_command import lm_eval_command
from pragworld_tasks.leaderboard.run_page import run_content
from pragworld_tasks.leaderboard.runs import BoardRun
from pragworld_tasks.sensitivity.report import SensitivityReport, share_text
from pragworld_tasks.text import (
    format_count,
    format_interval,
    format_number,
    format_percent,
    format_points,
    null_if_nan,
)
from pragworld_tasks.web.environment import page_environment, style_of

Test = TypeVar("Test", McNemar, SignFlip)

_TEMPLATES = "site_templates"
_LABELS = {name: text.label for name, text in METRIC_TEXTS.items()}
_MEANINGS = {name: text.meaning for name, text in METRIC_TEXTS.items()}
_RELEASED = "as the released code groups documents and reads responses, for the paper's tables"
_SHOWN_AT_FIRST = ("robust_acc", "robust_acc_undisputed", "acc", "unreadable")


class Column(NamedTuple):
    """A column of a leaderboard: a metric, by our scoring or the released one."""

    key: str
    label: str
    meaning: str
    shown: bool
    bars: bool


class LeaderboardRow(NamedTuple):
    """A row of a leaderboard.

    Attributes:
        run: the run.
        page: file name of the run's own page.
        rank: its rank; None for readers of the labels.
        shares: its metrics by key of the column.
        alike: p of the models that a paired test cannot tell from it, by their names.
        command: the command that repeats it, where it is known.
    """

    run: BoardRun
    page: str
    rank: Rank | None
    shares: Mapping[str, Share]
    alike: Mapping[str, float]
    command: str | None


class PublishedTable(NamedTuple):
    """The paper's figures on a split: the metrics that they are of, and the rows."""

    split: str
    metrics: list[str]
    rows: list[PublishedRow]


def render_site(
    boards: Sequence[Board],
    sweeps: LayerSweeps | None = None,
    sensitivity: Sequence[SensitivityReport] = (),
) -> Iterator[tuple[str, str]]:
    """Yield name and content of each file of the site, the page to open first.

    Args:
        boards: the leaderboards, one for each set of documents.
        sweeps: sweeps over layers, for a page of their own.
        sensitivity: decompositions, for a page of their own.
    """
    environment = _environment()
    views = [name for name, given in (("layers", sweeps), ("sensitivity", sensitivity)) if given]

    def page(template: str, board: Board | None, **content: Any) -> str:
        return environment.get_template(template).render(
            boards=boards, views=views, board=board, **content
        )

    splits = {board.split for board in boards}
    rows = [leaderboard_rows(board) for board in boards]
    yield (
        "index.html",
        page(
            "leaderboard.html",
            None,
            tables=[
                (board, _columns(board), of_board, _published(board.split))
                for board, of_board in zip(boards, rows, strict=True)
            ],
            published=[_published(split) for split in FILES if split not in splits],
        ),
    )
    for board, of_board in zip(boards, rows, strict=True):
        yield (
            f"{board.slug}-dialogues.html",
            page("dialogues.html", board, **dialogues_content(board)),
        )
        if len(board.runs) > 1:
            yield f"{board.slug}-compare.html", page("compare.html", board, data=_pairs(board))
        for row in of_board:
            yield row.page, page("run.html", board, row=row, **run_content(row.run))
    if sweeps:
        yield "layers.html", page("layers.html", None, **layers_content(sweeps))
    if sensitivity:
        yield "sensitivity.html", page("sensitivity.html", None, reports=sensitivity)
    yield "style.css", style_of("pragworld_tasks.leaderboard", _TEMPLATES)
    script = files("pragworld_tasks.leaderboard") / _TEMPLATES / "script.js"
    yield "script.js", script.read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = page_environment("pragworld_tasks.leaderboard", _TEMPLATES)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    environment.filters |= {
        "percent": format_percent,
        "interval": format_interval,
        "points": format_points,
        "counted": format_count,
        "number": format_number,
        "p": p_text,
        "share": share_text,
        "ranges": ranges,
    }
    environment.tests["nan"] = math.isnan
    environment.globals |= {
        "labels": _LABELS,
        "meanings": _MEANINGS,
        "alterations": ALTERATIONS,
        "significant": SIGNIFICANT,
        "version": version("pragworld"),
    }
    return environment


def leaderboard_rows(board: Board) -> list[LeaderboardRow]:
    """Return the rows of a leaderboard, the best run first and readers of the labels last."""
    return [
        LeaderboardRow(
            run,
            board.run_pages[run.name],
            board.ranks.get(run.name),
            {
                **run.report.metrics,
                **{f"{metric}-released": share for metric, share in run.report.published.items()},
            },
            board.alike(run.name),
            lm_eval_command(run.record),
        )
        for run in board.runs
    ]


def _columns(board: Board) -> list[Column]:
    report = board.runs[0].report
    columns = []
    for metric in (name for name in _LABELS if name in report.metrics):
        bars = metric != "unreadable"
        shown = metric in _SHOWN_AT_FIRST
        columns.append(Column(metric, _LABELS[metric], _MEANINGS[metric], shown, bars))
        if metric == board.main_metric and metric in report.shown_published:
            label = f"{_LABELS[metric]}, released scoring"
            columns.append(Column(f"{metric}-released", label, _RELEASED, True, True))
    return columns


def _published(split: str) -> PublishedTable:
    rows = published_rows(split)
    metrics = [name for name in _LABELS if any(name in row.percents for row in rows)]
    return PublishedTable(split, metrics, rows)


def _pairs(board: Board) -> dict[str, Any]:
    """Return what the page of two runs shows, with all figures as text.

    Which groups two runs differ in follows from which of them each gets right; a split without
    alterations has no groups that are right or wrong, and its documents stand in their place.
    """
    metrics = list(board.runs[0].report.metrics)
    place = {run.name: number for number, run in enumerate(board.runs)}
    pairs = {}
    for (first, second), comparison in board.comparisons.items():
        pairs[f"{place[first]}-{place[second]}"] = _pair(comparison)
        pairs[f"{place[second]}-{place[first]}"] = _pair(_turned(comparison))
    return {
        "runs": list(place),
        "metrics": [[_LABELS[name], _MEANINGS[name]] for name in metrics],
        "percents": [
            [format_percent(run.report.metrics[name].percent) for name in metrics]
            for run in board.runs
        ],
        "pairs": pairs,
        "unit": "group" if board.has_alterations else "row",
        "numbers": _groups(board) if board.has_alterations else [*range(len(board.documents))],
        "slugs": [board.run_pages[run.name].removesuffix(".html") for run in board.runs],
        "right": [_right(board, run) for run in board.runs],
    }


def _pair(comparison: Comparison) -> dict[str, Any]:
    """Return differences (as text and for drawing) and tests as the page's script reads them."""
    tests = {
        "groups, all right or not (McNemar)": comparison.on_groups,
        "groups, by right answers (sign flip)": comparison.by_group,
        "documents (McNemar)": comparison.on_documents,
    }
    return {
        "p": f"{comparison.p:.3g}",
        "differ": comparison.p < SIGNIFICANT,
        "differences": [
            [
                format_points(difference.points),
                format_interval(difference.interval),
                *map(_drawn, (difference.points, *difference.interval)),
            ]
            for difference in comparison.differences.values()
        ],
        "tests": [[unit, *test[:2], f"{test.p:.3g}"] for unit, test in tests.items() if test],
    }


def _drawn(points: float) -> float | None:
    return null_if_nan(round(points, 2))


def _turned(comparison: Comparison) -> Comparison:
    """Return the comparison of the second run with the first."""
    return Comparison(
        {
            name: Difference(
                0 - difference.points,
                Interval(0 - difference.interval.high, 0 - difference.interval.low),
            )
            for name, difference in comparison.differences.items()
        },
        _turned_test(comparison.on_documents),
        comparison.on_groups and _turned_test(comparison.on_groups),
        _turned_test(comparison.by_group),
    )


def _turned_test(test: Test) -> Test:
    first, second, p = test
    return type(test)(second, first, p)


def _right(board: Board, run: BoardRun) -> str:
    """Return a digit for each group, 1 where the run answers all of it right; see `_pairs`."""
    correct = run.report.run.correct
    if not board.has_alterations:
        return "".join(str(int(right)) for right in correct)
    right = dict.fromkeys(_groups(board), True)
    for document, answered in zip(board.documents, correct, strict=True):
        right[document.group] &= bool(answered)
    return "".join(str(int(is_right)) for is_right in right.values())


def _groups(board: Board) -> list[int]:
    """Return the numbers of the groups in their order; own documents may have any numbers."""
    return [*dict.fromkeys(document.group for document in board.documents)]
