"""The figures that the paper prints, for splits and models whose answers were not released."""

import csv
from importlib.resources import files
from typing import NamedTuple


class PublishedRow(NamedTuple):
    """A row of one of the paper's tables, with the figures by metric as they are printed."""

    table: int
    model: str
    fine_tuned: bool
    percents: dict[str, str]


def published_rows(split: str) -> list[PublishedRow]:
    """Return the rows of Tables 1, 2, 3 and 15 of the paper that are on a split, in their order.

    All figures on the manual split are by the released grouping (98 groups).

    Examples:
        >>> published_rows("manual")[0].percents["robust_acc"]
        '42.86'
    """
    rows: dict[tuple[int, str, bool], PublishedRow] = {}
    text = (files("pragworld_tasks.data") / "published_results.csv").read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        if line["split"] == split:
            key = (int(line["table"]), line["model"], line["fine_tuned"] == "yes")
            row = rows.setdefault(key, PublishedRow(*key, {}))
            row.percents[line["metric"]] = line["percent"]
    return list(rows.values())
