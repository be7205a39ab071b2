"""The pages of a leaderboard, rendered from templates with everything escaped."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from jinja2 import Environment

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.evaluation.comparison import Comparison
from pragworld_tasks.evaluation.metric_texts import METRIC_TEXTS
from pragworld_tasks.evaluation.metrics import Interval, Rank
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.layers.ablation_report import p_text
from pragworld_tasks.layers.page import LayerSweeps, layers_content, ranges
from pragworld_tasks.leaderboard.boards import SIGNIFICANT, Board
from pragworld_tasks.leaderboard.dialogues_page import dialogues_content
from pragworld_tasks.leaderboard.published_figures import published_rows
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

_TEMPLATES = "site_templates"
_LABELS = {name: text.label for name, text in METRIC_TEXTS.items()}
_MEANINGS = {name: text.meaning for name, text in METRIC_TEXTS.items()}
_RELEASED = "as the released code groups documents and reads responses, for the paper's tables"
_SHOWN_AT_FIRST = ("robust_acc", "robust_acc_undisputed", "acc", "unreadable")


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


def _columns(board: Board) -> list[dict[str, Any]]:
    """Return key, label and meaning of each column, whether it is shown at first, and with bars."""
    report = board.runs[0].report
    columns = []
    for metric in (name for name in _LABELS if name in report.metrics):
        column = {"key": metric, "label": _LABELS[metric], "meaning": _MEANINGS[metric]}
        shown, bars = metric in _SHOWN_AT_FIRST, metric != "unreadable"
        columns.append({**column, "shown": shown, "bars": bars})
        if metric == board.main_metric and metric in report.shown_published:
            label = f"{_LABELS[metric]}, released scoring"
            released = {"key": f"{metric}-released", "label": label, "meaning": _RELEASED}
            columns.append({**released, "shown": True, "bars": True})
    return columns


def _published(split: str) -> dict[str, Any]:
    rows = published_rows(split)
    metrics = [name for name in _LABELS if any(name in row.percents for row in rows)]
    return {"split": split, "metrics": metrics, "rows": rows}


def _pairs(board: Board) -> dict[str, Any]:
    """Return what the page of two runs shows, with all figures as text.

    Which groups two runs differ in follows from which of them each gets right; a split without
    alterations has no groups that are right or wrong, and its documents stand in their place.
    """
    metrics = list(board.runs[0].report.metrics)
    place = {run.name: number for number, run in enumerate(board.runs)}
    pairs = {}
    for (first, second), comparison in board.comparisons.items():
        pairs[f"{place[first]}-{place[second]}"] = _pair(comparison, 1)
        pairs[f"{place[second]}-{place[first]}"] = _pair(comparison, -1)
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


def _pair(comparison: Comparison, sign: Literal[1, -1]) -> dict[str, Any]:
    """Return differences (as text and for drawing) and tests as the page's script reads them.

    Args:
        comparison: two runs.
        sign: 1 for the first minus the second, -1 for the second minus the first.
    """
    differences = []
    for difference in comparison.differences.values():
        points = sign * difference.points + 0.0  # no negative zero
        low, high = sorted(sign * end + 0.0 for end in difference.interval)
        texts = [format_points(points), format_interval(Interval(low, high))]
        drawn = [null_if_nan(round(end, 2)) for end in (points, low, high)]
        differences.append([*texts, *drawn])
    tests = {
        "groups, all right or not (McNemar)": comparison.on_groups,
        "groups, by right answers (sign flip)": comparison.by_group,
        "documents (McNemar)": comparison.on_documents,
    }
    return {
        "p": f"{comparison.p:.3g}",
        "differ": comparison.p < SIGNIFICANT,
        "differences": differences,
        "tests": [
            [unit, *test[:2][::sign], f"{test.p:.3g}"] for unit, test in tests.items() if test
        ],
    }


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
