"""Reports and comparisons as tables for people and as JSON for programs."""

import math
from collections.abc import Mapping
from typing import Any

from pragworld_tasks.evaluation.metrics import LEVEL, RESAMPLES, Interval, McNemar
from pragworld_tasks.evaluation.scoring import Comparison, Report, Share

SCHEMA_VERSION = 1


def to_json(report: Report, comparison: Comparison | None = None) -> dict[str, Any]:
    """Everything in a report, and in a comparison if there is one; null for what is not defined.

    A metric has the keys right, total, percent, and low and high, its interval in percent.
    """
    shown: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "split": report.split,
        "documents": report.documents,
        "groups": report.groups,
        "intervals": f"{LEVEL:.0%}, percentile bootstrap over groups, {RESAMPLES} resamples",
        "metrics": _shares_json(report.metrics),
        "published": _shares_json(report.published),
        "breakdowns": {
            breakdown: {name: _shares_json(by_gold) for name, by_gold in classes.items()}
            for breakdown, classes in report.breakdowns.items()
        },
    }
    if comparison:
        shown["comparison"] = {
            "differences": {
                name: {"points": defined(difference.points), **interval_json(difference.interval)}
                for name, difference in comparison.differences.items()
            },
            "mcnemar_documents": comparison.on_documents._asdict(),
            "mcnemar_groups": comparison.on_groups._asdict() if comparison.on_groups else None,
        }
    return shown


def to_text(report: Report) -> str:
    """The metrics and the breakdowns as Markdown tables."""
    metrics = table(
        f"{report.split}: {report.documents} documents, {report.groups} groups",
        ["metric", "right", "%", f"{LEVEL:.0%} interval"]
        + (["released scoring", "%"] if report.published else []),
        [
            [name, _count(share), percent(share), interval(share.interval)]
            + [show(report.published[name]) for show in (_count, percent) if report.published]
            for name, share in report.metrics.items()
        ],
    )
    breakdowns = [
        table(
            f"accuracy by {breakdown}",
            [breakdown, "gold yes", "%", "gold no", "%"],
            [
                [name, *(show(share) for share in by_gold.values() for show in (_count, percent))]
                for name, by_gold in classes.items()
            ],
        )
        for breakdown, classes in report.breakdowns.items()
    ]
    return "\n".join([metrics, *breakdowns])


def comparison_to_text(comparison: Comparison) -> str:
    """The differences as a Markdown table, and the tests in a line each."""
    differences = table(
        "first minus second",
        ["metric", "points", f"{LEVEL:.0%} interval"],
        [
            [name, points(difference.points), interval(difference.interval)]
            for name, difference in comparison.differences.items()
        ],
    )
    tests = {"documents": comparison.on_documents, "groups": comparison.on_groups}
    return "\n".join([differences, *(_test(name, test) for name, test in tests.items() if test)])


def table(title: str, headers: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; the first column is words, the others are numbers."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]

    def line(cells: list[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        aligned = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        return f"| {' | '.join(aligned)} |"

    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([f"{title}\n", line(headers), line(rule), *map(line, rows), ""])


def percent(share: Share) -> str:
    """Of right answers, or a dash where none was asked for."""
    return f"{share.percent:.2f}" if share.total else "-"


def points(points: float) -> str:
    """A difference with its sign, or a dash where it is not defined."""
    return "-" if math.isnan(points) else f"{points:+.2f}"


def interval(interval: Interval) -> str:
    """Its two ends, or a dash where it is not defined."""
    return "-" if math.isnan(interval.low) else f"{interval.low:.2f} to {interval.high:.2f}"


def _test(what: str, test: McNemar) -> str:
    return (
        f"exact McNemar test on {what}: only the first right {test.only_first}, "
        f"only the second {test.only_second}, p = {test.p:.3g}"
    )


def _count(share: Share) -> str:
    return f"{share.right}/{share.total}"


def _shares_json(shares: Mapping[Any, Share]) -> dict[str, Any]:
    return {
        name: {
            "right": share.right,
            "total": share.total,
            "percent": defined(share.percent),
            **interval_json(share.interval),
        }
        for name, share in shares.items()
    }


def interval_json(interval: Interval) -> dict[str, float | None]:
    """Its two ends, null where they are not defined."""
    return {"low": defined(interval.low), "high": defined(interval.high)}


def defined(value: float) -> float | None:
    """A number for JSON, which knows no NaN: null in its place."""
    return None if math.isnan(value) else value
