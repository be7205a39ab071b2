"""The pages of a leaderboard, rendered from templates with everything escaped."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import Environment

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.evaluation.comparison import Comparison
from pragworld_tasks.evaluation.metrics import METRIC_TEXTS
from pragworld_tasks.evaluation.published import published_rows
from pragworld_tasks.layers.page import ranges
from pragworld_tasks.leaderboard.boards import SIGNIFICANT, Board
from pragworld_tasks.leaderboard.dialogues_page import dialogues_content
from pragworld_tasks.leaderboard.run_page import lm_eval_command, run_content
from pragworld_tasks.sensitivity.report import SensitivityReport, share_text
from pragworld_tasks.text import (
    format_count,
    format_interval,
    format_number,
    format_p,
    format_percent,
    format_points,
    null_if_nan,
)
from pragworld_tasks.web.environment import page_environment, style_of

_TEMPLATES = "site_templates"
_PACKAGES = ("pragworld_tasks.leaderboard", "pragworld_tasks.layers")
_LABELS = {name: text["label"] for name, text in METRIC_TEXTS.items()}
_MEANINGS = {name: text["meaning"] for name, text in METRIC_TEXTS.items()}


def render_site(
    boards: Sequence[Board],
    sweeps: Mapping[str, Any] | None = None,
    sensitivity: Sequence[SensitivityReport] = (),
) -> Iterator[tuple[str, str]]:
    """Yield name and content of each file of the site, the page to open first.

    `sweeps`, as `layers.page.read_sweeps` returns them, and `sensitivity` have pages of their own.
    """
    environment = _environment()
    views = [name for name, given in (("layers", sweeps), ("sensitivity", sensitivity)) if given]

    def page(template: str, board: Board | None, **content: Any) -> str:
        return environment.get_template(template).render(
            boards=boards, views=views, board=board, **content
        )

    published = {split: _published(split) for split in FILES}
    yield "index.html", page("leaderboard.html", None, published=published)
    for board in boards:
        if board.dialogues_page:
            dialogues = page("dialogues.html", board, **dialogues_content(board))
            yield board.dialogues_page, dialogues
        if len(board.runs) > 1:
            yield f"{board.slug}-compare.html", page("compare.html", board, data=_pairs(board))
        for run in board.runs:
            yield board.run_pages[run.name], page("run.html", board, run=run, **run_content(run))
    if sweeps:
        yield "layers.html", page("layers.html", None, **sweeps)
    if sensitivity:
        yield "sensitivity.html", page("sensitivity.html", None, reports=sensitivity)
    yield "style.css", style_of("pragworld_tasks.leaderboard", _TEMPLATES)
    script = files("pragworld_tasks.leaderboard") / _TEMPLATES / "script.js"
    yield "script.js", script.read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = page_environment(_TEMPLATES, *_PACKAGES)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    environment.filters |= {
        "percent": format_percent,
        "interval": format_interval,
        "points": format_points,
        "counted": format_count,
        "number": format_number,
        "p": format_p,
        "share": share_text,
        "ranges": ranges,
        "command": lm_eval_command,
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


def _published(split: str) -> dict[str, Any]:
    rows = published_rows(split)
    named = {name for row in rows for name in row.percents}
    return {"split": split, "metrics": [name for name in _LABELS if name in named], "rows": rows}


def _pairs(board: Board) -> dict[str, Any]:
    """Return what the page of two runs shows; each pair once, the better run minus the other.

    Where no groups are right as a whole, as of a split without alterations, documents take their
    place.
    """
    metrics = list(board.report.metrics)
    place = {run.name: number for number, run in enumerate(board.runs)}
    unit, numbers = "row", [*range(len(board.report.documents))]
    right: list[Any] = [run.report.correct for run in board.runs]
    if board.report.main_metric == "robust_acc":
        unit, numbers = "group", [*board.report.group_names]
        right = [run.report.tallies["robust_acc"].right for run in board.runs]
    return {
        "runs": list(place),
        "percents": [
            [format_percent(run.report.metrics[name].percent) for name in metrics]
            for run in board.runs
        ],
        "pairs": {
            f"{place[first]}-{place[second]}": _pair(comparison)
            for (first, second), comparison in board.comparisons.items()
        },
        "unit": unit,
        "numbers": numbers,
        "slugs": [board.run_pages[run.name].removesuffix(".html") for run in board.runs],
        "right": ["".join(str(int(is_right)) for is_right in of_run) for of_run in right],
    }


def _pair(comparison: Comparison) -> dict[str, Any]:
    """Return differences in points with the ends of their intervals, and tests."""
    tests = {
        "groups, all right or not (McNemar)": comparison.on_groups,
        "groups, by right answers (sign flip)": comparison.by_group,
        "documents (McNemar)": comparison.on_documents,
    }
    return {
        "p": f"{comparison.p:.3g}",
        "differ": comparison.p < SIGNIFICANT,
        "differences": [
            [null_if_nan(round(value, 2)) for value in (of.points, of.low, of.high)]
            for of in comparison.figures.values()
        ],
        "tests": [[unit, *test[:2], f"{test.p:.3g}"] for unit, test in tests.items() if test],
    }
