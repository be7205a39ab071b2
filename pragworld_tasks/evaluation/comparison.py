"""Comparison of runs on the same documents: two in every metric, or many in one table."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import BaseModel

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.scoring import Percent, Printed, ScoreReport
from pragworld_tasks.evaluation.statistics import (
    LEVEL,
    McNemar,
    SignFlip,
    bootstrap_differences,
    mcnemar,
    percentile_interval,
    sign_flip_test,
)
from pragworld_tasks.text import format_interval, format_percent, format_points


class Figures(BaseModel, frozen=True):
    """Both runs in one metric, in percent, and their difference in points with its interval."""

    first: Percent
    second: Percent
    points: Percent
    low: Percent
    high: Percent


@dataclass(frozen=True, repr=False)
class Comparison(Printed):
    """Two runs on the same documents; differences are the first run minus the second.

    It prints as a table of the differences.
    """

    first: ScoreReport
    second: ScoreReport

    @property
    def names(self) -> tuple[str, str]:
        """The names of the runs."""
        return self.first.name or "first", self.second.name or "second"

    @cached_property
    def figures(self) -> dict[str, Figures]:
        """The figures by metric, whose intervals use the same draws of groups for both runs."""
        second = self.second.tallies
        first = {name: of for name, of in self.first.tallies.items() if name in second}
        figures = {}
        for name, drawn in bootstrap_differences(first, second).items():
            low, high = percentile_interval(drawn, LEVEL, first[name].groups, lowest=-1)
            figures[name] = Figures(
                first=self.first.metrics[name].percent,
                second=self.second.metrics[name].percent,
                points=100 * (first[name].share - second[name].share),
                low=100 * low,
                high=100 * high,
            )
        return figures

    @cached_property
    def on_documents(self) -> McNemar:
        """The exact McNemar test over documents, right or wrong."""
        return mcnemar(self.first.correct, self.second.correct)

    @cached_property
    def on_groups(self) -> McNemar | None:
        """The same over groups, right where all documents are; None without alterations."""
        first, second = (run.tallies.get("robust_acc") for run in (self.first, self.second))
        return mcnemar(first.right > 0, second.right > 0) if first and second else None

    @cached_property
    def by_group(self) -> SignFlip:
        """The exact sign-flip test of accuracy, which treats groups as independent.

        Documents of one group are not, so that the test over documents finds too much. Of scores
        between 0 and 1, it counts in how many groups each run is ahead.
        """
        ahead = (self.first.tallies["acc"].right - self.second.tallies["acc"].right).round(9)
        if (ahead % 1).any():
            ahead = np.sign(ahead)
        return SignFlip(int((ahead > 0).sum()), int((ahead < 0).sum()), sign_flip_test(ahead))

    @property
    def p(self) -> float:
        """The p of the main metric: robust accuracy, or accuracy where there are no alterations."""
        return self.on_groups.p if self.on_groups else self.by_group.p

    def table(self) -> tuple[str, list[str], list[list[str]]]:
        """Return the figures as a title, headers and rows."""
        headers = ["metric", *self.names, "points", f"{LEVEL:.0%} interval"]
        rows = [
            [
                name,
                *map(format_percent, (figures.first, figures.second)),
                format_points(figures.points),
                format_interval((figures.low, figures.high)),
            ]
            for name, figures in self.figures.items()
        ]
        return " minus ".join(self.names), headers, rows

    def to_text(self) -> str:
        """Return the differences as a Markdown table, and the tests on a line each."""
        tests = {"documents": self.on_documents, "groups": self.on_groups}
        lines = [
            f"exact McNemar test on {what}: only the first right {test.only_first}, only the "
            f"second {test.only_second}, p = {test.p:.3g}"
            for what, test in tests.items()
            if test
        ]
        by_group = (
            f"exact sign-flip test of right answers by group: the first ahead in "
            f"{self.by_group.first_ahead}, the second in {self.by_group.second_ahead}, "
            f"p = {self.by_group.p:.3g}"
        )
        return "\n".join([repr(self), *lines, by_group])

    def to_json(self) -> dict[str, Any]:
        """Return names, figures and tests for JSON; null for what is not defined."""
        return {
            "names": [*self.names],
            "figures": {name: of.model_dump(mode="json") for name, of in self.figures.items()},
            "on_documents": self.on_documents._asdict(),
            "on_groups": self.on_groups and self.on_groups._asdict(),
            "by_group": self.by_group._asdict(),
        }


def compare_scores(first: ScoreReport, second: ScoreReport) -> Comparison:
    """Compare two runs on the same documents: how much they differ, and whether by chance."""
    check_same_documents(first, second)
    return Comparison(first, second)


def check_same_documents(first: ScoreReport, *others: ScoreReport) -> None:
    """Refuse runs that were not given the same documents with the same gold answers."""
    for other in others:
        same = list(first.documents) == list(other.documents)
        if not same or first.responses_digest != other.responses_digest:
            raise InputError(
                "two runs are on different documents: texts, groups or gold answers differ; "
                "compare runs on the same file"
            )
