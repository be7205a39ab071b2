"""Numbers and tables as people read them, and as JSON has them."""

import math
from collections.abc import Sequence


def markdown_table(title: str, headers: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table under its title; the first column is text, the others are numbers.

    A cell may hold anything: a `|` in it is escaped, and a line break becomes a space.

    >>> print(markdown_table("Two models", ["model", "acc"], [["a", "71.00"], ["b", "9.50"]]))
    Two models
    <BLANKLINE>
    | model |   acc |
    | :---- | ----: |
    | a     | 71.00 |
    | b     |  9.50 |
    <BLANKLINE>
    >>> print(markdown_table("A letter", ["model", "J"], [["a", "1"]]).splitlines()[3])
    | :---- | -: |
    """
    lines = [
        [cell.replace("|", r"\|").replace("\n", " ") for cell in cells]
        for cells in (headers, *rows)
    ]
    # A rule of one column has two characters at least.
    widths = [max(2, *map(len, column)) for column in zip(*lines, strict=True)]

    def line(cells: list[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        aligned = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        return f"| {' | '.join(aligned)} |"

    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    head, *body = map(line, lines)
    return "\n".join([f"{title}\n", head, line(rule), *body, ""])


def format_count(number: int, noun: str) -> str:
    """Return a number and what is counted, in the singular for one.

    >>> format_count(1, "group"), format_count(1200, "group")
    ('1 group', '1,200 groups')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def format_size(documents: int, groups: int) -> str:
    """Return how many documents there are, and in how many groups.

    >>> format_size(1200, 1)
    '1,200 documents, 1 group'
    """
    return f"{format_count(documents, 'document')}, {format_count(groups, 'group')}"


def join_names(names: Sequence[str]) -> str:
    """Return names as a phrase.

    >>> join_names(["Ann"]), join_names(["Ann", "Ben", "Eve"])
    ('Ann', 'Ann, Ben and Eve')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def format_number(number: float | None, digits: str = ".3f") -> str:
    """Return a number without a sign if it rounds to 0, or a dash where it is None or NaN.

    Args:
        number: the number.
        digits: a format that may begin with a sign.

    >>> format_number(0.5), format_number(-0.0001), format_number(-0.001, "+.2f")
    ('0.500', '0.000', '+0.00')
    """
    rest = digits.lstrip("+")
    undefined = number is None or math.isnan(number)
    return "-" if undefined else format(number, f"{digits.removesuffix(rest)}z{rest}")


def format_percent(percent: float) -> str:
    """Return a percentage with two decimals, or a dash where it is not defined (NaN)."""
    return format_number(percent, ".2f")


def format_points(points: float) -> str:
    """Return a difference in points with its sign, or a dash where it is not defined (NaN)."""
    return format_number(points, "+.2f")


def format_interval(interval: tuple[float, float], digits: str = ".2f") -> str:
    """Return the two ends of an interval, or a dash where it is not defined (NaN).

    >>> format_interval((1.5, 20.25)), format_interval((1.5, 20.25), "#.3g")
    ('1.50 to 20.25', '1.50 to 20.2')
    """
    if math.isnan(interval[0]):
        return "-"
    return " to ".join(format_number(end, digits) for end in interval)


def interval_json(interval: tuple[float, float]) -> dict[str, float | None]:
    """Return the two ends of an interval for JSON; null where they are not defined."""
    low, high = interval
    return {"low": null_if_nan(low), "high": null_if_nan(high)}


def null_if_nan(value: float) -> float | None:
    """Return a number for JSON, which has no NaN: None (null) in its place."""
    return None if math.isnan(value) else value
