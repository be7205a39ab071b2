"""Comparison of runs on the same documents: two in every metric, or many in one table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import (
    LEVEL,
    Interval,
    McNemar,
    SignFlip,
    Tally,
    bootstrap_difference_intervals,
    mcnemar,
    sign_flip_test,
    tallies,
)
from pragworld_tasks.evaluation.scoring import ScoreReport, shown_tallies
from pragworld_tasks.text import (
    format_interval,
    format_percent,
    format_points,
    format_size,
    interval_json,
    markdown_table,
    null_if_nan,
)


@dataclass(frozen=True)
class Difference:
    """First run minus second in one metric, in points of percent, with an interval."""

    points: float
    interval: Interval


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same documents.

    Attributes:
        differences: first run minus second, by metric.
        on_documents: exact McNemar test over documents, right or wrong.
        on_groups: the same over groups, right where all their documents are; None without
            alterations.
        by_group: exact sign-flip test of accuracy that treats groups as independent. Documents of
            one group are not, so that the test over documents finds too much.
    """

    differences: dict[str, Difference]
    on_documents: McNemar
    on_groups: McNemar | None
    by_group: SignFlip

    @property
    def p(self) -> float:
        """The p of the main metric: robust accuracy, or accuracy where there are no alterations."""
        return self.on_groups.p if self.on_groups else self.by_group.p

    def to_json(self) -> dict[str, Any]:
        """Return the comparison for JSON; null for what is not defined."""
        return {
            "differences": {
                name: {
                    "points": null_if_nan(difference.points),
                    **interval_json(difference.interval),
                }
                for name, difference in self.differences.items()
            },
            "mcnemar_documents": self.on_documents._asdict(),
            "mcnemar_groups": self.on_groups._asdict() if self.on_groups else None,
            "sign_flip_groups": self.by_group._asdict(),
        }

    def to_text(self) -> str:
        """Return the differences as a Markdown table, and the tests on a line each."""
        differences = markdown_table(
            "first minus second",
            ["metric", "points", f"{LEVEL:.0%} interval"],
            [
                [name, format_points(difference.points), format_interval(difference.interval)]
                for name, difference in self.differences.items()
            ],
        )
        tests = {"documents": self.on_documents, "groups": self.on_groups}
        return "\n".join(
            [
                differences,
                *(
                    f"exact McNemar test on {what}: only the first right {test.only_first}, "
                    f"only the second {test.only_second}, p = {test.p:.3g}"
                    for what, test in tests.items()
                    if test
                ),
                f"exact sign-flip test of right answers by group: the first ahead in "
                f"{self.by_group.first_ahead}, the second in {self.by_group.second_ahead}, "
                f"p = {self.by_group.p:.3g}",
            ]
        )


def compare_scores(first: ScoreReport, second: ScoreReport) -> Comparison:
    """Compare two runs on the same documents: how much they differ, and whether by chance.

    Args:
        first: what one model answered.
        second: what the other did.

    Returns:
        First minus second. Intervals use the same draws of groups for both runs, so what makes a
        group hard for both cancels out.

    Raises:
        InputError: The runs are on different documents, or on other gold answers.
    """
    check_same_documents(first, second)
    ours, theirs = (shown_tallies(report.run, report.split) for report in (first, second))
    intervals = bootstrap_difference_intervals(ours, theirs)
    return Comparison(
        differences={
            name: Difference(
                100 * (first_tally.share - theirs[name].share),
                Interval(100 * intervals[name].low, 100 * intervals[name].high),
            )
            for name, first_tally in ours.items()
        },
        on_documents=mcnemar(first.run.correct, second.run.correct),
        on_groups=_robust_test(ours, theirs) if first.has_alterations else None,
        by_group=_accuracy_test(ours, theirs),
    )


def runs_table(
    reports: Mapping[str, ScoreReport], against: tuple[str, ScoreReport] | None = None
) -> str:
    """Return a Markdown table of several runs on the same documents, the best first.

    Args:
        reports: the runs' reports by name.
        against: name and report of another run. Each run is then compared with it instead of with
            the next one in the table.

    Returns:
        Robust accuracy with intervals (accuracy for a split without alterations) and beside it how
        the manual split's figures change by the released grouping and without disputed labels. The
        last column is p of an exact test over groups: McNemar's of robust accuracy, or the
        sign-flip test of accuracy.

    Raises:
        InputError: The runs are on different documents.
    """
    names = list(reports)
    first = reports[names[0]]
    others = [*reports.values(), *([against[1]] if against else [])]
    for report in others:
        check_same_documents(first, report)
    main = "robust_acc" if first.has_alterations else "acc"
    columns = [
        name for name in ("robust_acc", "robust_acc_undisputed", "acc") if name in first.metrics
    ]
    names.sort(key=lambda name: (-reports[name].metrics[main].percent, name.casefold()))
    rows = []
    for name, following in zip(names, [*names[1:], None], strict=True):
        report = reports[name]
        cells = [name]
        for column in columns:
            share = report.metrics[column]
            cells += [format_percent(share.percent), format_interval(share.interval)]
        if main in report.shown_published:
            cells.append(format_percent(report.published[main].percent))
        cells.append(str(report.metrics["unreadable"].right))
        other = against[1] if against else reports[following] if following else None
        if against:
            points = report.metrics[main].percent - against[1].metrics[main].percent
            cells.append(format_points(points))
        cells.append(f"{_main_p(report, other):.3g}" if other else "")
        rows.append(cells)
    headers = ["run"]
    for column in columns:
        headers += [column, f"{LEVEL:.0%} interval"]
    headers += [f"{main}, released scoring"] if main in first.shown_published else []
    headers += ["unreadable", *([f"minus {against[0]}"] if against else [])]
    headers.append("p" if against else "p, next row")
    return markdown_table(
        f"{first.split}: {format_size(len(first.documents), first.groups)}",
        headers,
        rows,
    )


def _main_p(first: ScoreReport, second: ScoreReport) -> float:
    """Return `Comparison.p` without the intervals of a comparison."""
    ours, theirs = tallies(first.run), tallies(second.run)
    if first.has_alterations:
        return _robust_test(ours, theirs).p
    return _accuracy_test(ours, theirs).p


def _robust_test(first: Mapping[str, Tally], second: Mapping[str, Tally]) -> McNemar:
    return mcnemar(first["robust_acc"].right > 0, second["robust_acc"].right > 0)


def _accuracy_test(first: Mapping[str, Tally], second: Mapping[str, Tally]) -> SignFlip:
    ahead = first["acc"].right - second["acc"].right
    return SignFlip(int((ahead > 0).sum()), int((ahead < 0).sum()), sign_flip_test(ahead))


def check_same_documents(first: ScoreReport, second: ScoreReport) -> None:
    """Refuse two runs that were not given the same documents with the same gold answers.

    Raises:
        InputError: The runs are on different documents.
    """
    if first.documents is not second.documents and list(first.documents) != list(second.documents):
        raise InputError("the two runs are on different documents; compare runs on the same ones")
    if first.responses_digest != second.responses_digest:
        raise InputError(
            f"the two runs are on different documents (digests {first.responses_digest:.12} and "
            f"{second.responses_digest:.12}): texts or gold answers differ; compare runs on the "
            "same file"
        )
