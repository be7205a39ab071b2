"""A table of several runs on the same documents, each compared with the next or with another."""

from collections.abc import Mapping

from pragworld_tasks.evaluation.comparison import Comparison, check_same_documents
from pragworld_tasks.evaluation.scoring import NOT_APPLICABLE, ScoreReport
from pragworld_tasks.evaluation.statistics import LEVEL
from pragworld_tasks.text import (
    format_interval,
    format_percent,
    format_points,
    format_size,
    markdown_table,
)


def runs_table(reports: Mapping[str, ScoreReport], against: ScoreReport | None = None) -> str:
    """Return a Markdown table of several runs on the same documents, the best first.

    It has robust accuracy with intervals (accuracy for a split without alterations) and beside it
    how the manual split's figures change by the released grouping and without disputed labels. The
    last column is p of an exact test over groups (McNemar's of robust accuracy, or the sign-flip
    test of accuracy) of each run and the next one, or the run of `against`.
    """
    first = next(iter(reports.values()))
    check_same_documents(*reports.values(), *([against] if against else []))
    main = first.main_metric
    columns = [
        name for name in ("robust_acc", "robust_acc_undisputed", "acc") if name in first.metrics
    ]
    names = sorted(
        reports, key=lambda name: (-reports[name].metrics[main].percent, name.casefold())
    )
    rows = []  # of headers and cells
    for name, following in zip(names, [*names[1:], None], strict=True):
        report = reports[name]
        row = [("run", name)]
        for column in columns:
            share = report.metrics[column]
            row.append((column, format_percent(share.percent)))
            row.append((f"{LEVEL:.0%} interval", format_interval(share.interval)))
        if report.shows_released:
            by_released = report.released.get(main)
            shown = format_percent(by_released.percent) if by_released else NOT_APPLICABLE
            row.append((f"{main}, released scoring", shown))
        row.append(("unreadable", report.unreadable_text))
        other = against or (reports[following] if following else None)
        p = f"{Comparison(report, other).p:.3g}" if other else ""
        if against:
            percent = against.metrics[main].percent
            points = format_points(report.metrics[main].percent - percent)
            row.append((f"minus {against.name} ({format_percent(percent)})", points))
        row.append(("p" if against else "p, next row", p))
        rows.append(row)
    return markdown_table(
        f"{first.split}: {format_size(len(first.documents), first.groups)}",
        [header for header, _ in rows[0]],
        [[cell for _, cell in row] for row in rows],
    )
