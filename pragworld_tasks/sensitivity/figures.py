"""The paper's figures (arXiv 2506.16584): variances, shares, MVS, densities of responses.

These are Figure 2 (variance by model), Figure 5a (purpose, articulation and uncertainty by domain
and model, with the floor of AS added), Figure 5b (MVS) and Figure 3 (densities of the responses to
each prompt, by intent).
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import LEVEL, Floats
from pragworld_tasks.figures import LOOKS, figure_file
from pragworld_tasks.sensitivity.components import Scale, rescale
from pragworld_tasks.sensitivity.open_questions import domain_of
from pragworld_tasks.sensitivity.report import DomainReport, SensitivityReport, TaskReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PARTS = {  # label, colour and hatch, which tells them apart in print
    "ps": ("purpose", "#0072B2", ""),
    "as": ("articulation", "#E69F00", "////"),
    "mu": ("uncertainty", "0.85", ""),
}
_ESTIMATORS = {  # marker, face, and distance below the middle of a row
    "published": ("o", "white", -0.15),
    "unbiased": ("D", LOOKS[0].color, 0.15),
}
_BAR = 0.8  # share of a row that its bar fills
_GRID = 256  # points of a density
_MIDDLE = 0.98  # share of the responses shown; single absurd ones would squeeze all others


def draw_figures(report: SensitivityReport, folder: Path, suffix: str = ".png") -> list[Path]:
    """Draw all figures of a report.

    Args:
        report: The report.
        folder: The folder for the files, created if need be.
        suffix: .png, .svg or .pdf.

    Returns:
        The files: `variance`, `shares`, `mvs`, and `densities_<question>` for each question.

    Raises:
        InputError: The folder or a file cannot be written, or matplotlib is not installed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; choose another folder") from error
    drawn = [folder / f"{name}{suffix}" for name in ("variance", "shares", "mvs")]
    for path, draw in zip(drawn, (_variances, _shares, _mvs), strict=True):
        draw(report, path)
    for question in dict.fromkeys(task.samples.question for task in report.tasks):
        name = re.sub(r"[^\w.-]", "_", question)  # from the samples, so it may be anything
        drawn.append(folder / f"densities_{name}{suffix}")
        _densities(report, question, drawn[-1])
    return drawn


def _variances(report: SensitivityReport, path: Path) -> None:
    """Draw Figure 2: the variance of responses by question, with a mark for each model."""
    from matplotlib.ticker import LogLocator, NullFormatter

    names = list(dict.fromkeys(task.samples.question for task in report.tasks))
    with figure_file(path, 7, 1.3 + 0.25 * len(names)) as figure:
        axes = figure.subplots()
        for number, model in enumerate(report.models):
            look = LOOKS[number % len(LOOKS)]
            tasks = [task for task in report.tasks if task.samples.model == model]
            axes.plot(
                [task.decomposition.published["variance"].value or math.nan for task in tasks],
                [names.index(task.samples.question) for task in tasks],
                look.marker,
                color=look.color,
                label=model,
            )
        if any(task.decomposition.published["variance"].value > 0 for task in report.tasks):
            axes.set_xscale("log")
            low, high = axes.get_xlim()
            narrow = high / low < 1000  # powers of ten would be too few ticks
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel(
            "variance, in the square of each question's unit"
            if report.scale == "raw"
            else f"variance of {report.scale} values"
        )
        figure.legend(loc="outside lower center", ncols=2)


def _shares(report: SensitivityReport, path: Path) -> None:
    """Draw Figure 5a: shares of the variance by domain and model, and the floor of AS."""

    def draw(axes: "Axes", row: int, domain: DomainReport) -> None:
        left = 0.0
        for name, (_, color, hatch) in _PARTS.items():
            width = np.nan_to_num(domain.published[name].value)
            axes.barh(row, width, _BAR, left, color=color, hatch=hatch, edgecolor="white", lw=0.5)
            if name == "as":
                floor = left + _floor(report, domain)
                axes.plot([floor, floor], [row - _BAR / 2, row + _BAR / 2], color="black", lw=1.2)
            left += width

    label = "share of the variance, mean over questions (published estimator)"
    with _by_domain(report, path, draw, label) as figure:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles: list[Any] = [
            Patch(
                facecolor=color, hatch=hatch, edgecolor="white", label=f"{label} ({name.upper()})"
            )
            for name, (label, color, hatch) in _PARTS.items()
        ]
        handles.append(
            Line2D([], [], color="black", lw=1.2, label="AS that chance alone would give")
        )
        figure.legend(handles=handles, loc="outside lower center", ncols=2)


def _mvs(report: SensitivityReport, path: Path) -> None:
    """Draw Figure 5b: meaningful variability share, PS / (PS + AS), by domain and model."""

    def draw(axes: "Axes", row: int, domain: DomainReport) -> None:
        for estimator, (marker, face, shift) in _ESTIMATORS.items():
            number = getattr(domain, estimator)["mvs"]
            if math.isnan(number.value):
                continue
            axes.plot(number.interval, [row + shift] * 2, color="0.35", lw=1.2)
            axes.plot(number.value, row + shift, marker, color="#0072B2", markerfacecolor=face)

    label = f"MVS = PS / (PS + AS), mean over questions, {LEVEL:.0%} intervals"
    with _by_domain(report, path, draw, label) as figure:
        from matplotlib.lines import Line2D

        handles = [
            Line2D([], [], color="#0072B2", marker=marker, markerfacecolor=face, ls="", label=name)
            for name, (marker, face, _) in _ESTIMATORS.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)


def _densities(report: SensitivityReport, question: str, path: Path) -> None:
    """Draw Figure 3: the density of the responses to each prompt, with a row for each intent.

    Ticks at the bottom are the means of the prompts; the line is the mean of these.
    """
    tasks = [task for task in report.tasks if task.samples.question == question]
    slots = list(dict.fromkeys(prompt.slot for task in tasks for prompt in task.samples.prompts))
    with figure_file(path, max(4.5, 3 * len(tasks)), 1.1 + 1.2 * len(slots)) as figure:
        grid = figure.subplots(len(slots), len(tasks), sharex=True, squeeze=False)
        values = [_values(task, report.scale) for task in tasks]
        limits = _limits([of_prompt for of_task in values for _, of_prompt in of_task])
        for column, task in enumerate(tasks):
            for row, slot in enumerate(slots):
                axes = grid[row][column]
                prompts = [of_prompt for name, of_prompt in values[column] if name == slot]
                _draw_densities(axes, prompts, limits)
                if column == 0:
                    axes.set_ylabel(slot, wrap=True)
            grid[0][column].set_title(task.samples.model)
        unit = tasks[0].samples.unit
        scale = "" if report.scale == "raw" else f" ({report.scale})"
        figure.supxlabel(f"{question}: {unit}{scale}, the middle {_MIDDLE:.0%} of the responses")


def _draw_densities(axes: "Axes", prompts: Sequence[Floats], limits: tuple[float, float]) -> None:
    """Draw an intent: a curve and a tick for each prompt's values, and a line."""
    low, high = limits
    points = np.linspace(low, high, _GRID)
    for values in prompts:
        # Scott's rule, but never too narrow to be seen, as for identical responses.
        width = max(values.std() * values.size**-0.2, (high - low) / 100)
        density = np.exp(-(((points[:, None] - values) / width) ** 2) / 2).mean(axis=1) / width
        axes.plot(points, density, color=LOOKS[0].color, alpha=0.3, lw=0.8)
    means = [float(values.mean()) for values in prompts]
    floor = axes.get_xaxis_transform()
    axes.plot(means, [0.03] * len(means), "|", color=LOOKS[1].color, ms=8, transform=floor)
    if means:
        axes.axvline(math.fsum(means) / len(means), color="black", lw=1)
    axes.set_xlim(low, high)
    axes.set_yticks([])


def _values(task: TaskReport, scale: Scale) -> list[tuple[str, Floats]]:
    """Return the slot and the values of each prompt that has values."""
    responses = rescale(task.samples.nested(), scale)
    readable = [
        prompt
        for prompt in task.samples.prompts  # in the order of `nested`
        if any(value is not None for value in prompt.values)
    ]
    return [
        (prompt.slot, responses.values[first : first + count])
        for prompt, first, count in zip(readable, responses.first, responses.count, strict=True)
    ]


def _limits(prompts: Sequence[Floats]) -> tuple[float, float]:
    """Return the limits of the middle of all values, with a margin."""
    if not prompts:
        return 0.0, 1.0
    ends = [(1 - _MIDDLE) / 2, (1 + _MIDDLE) / 2]
    low, high = np.quantile(np.concatenate(prompts), ends)
    margin = 0.05 * (high - low) or max(abs(high), 1.0) * 0.05
    return float(low - margin), float(high + margin)


def _floor(report: SensitivityReport, domain: DomainReport) -> float:
    """Return the mean floor of AS over a domain's questions."""
    floors = [
        task.decomposition.floor
        for task in report.tasks
        if (task.samples.model, domain_of(task.samples.question)) == (domain.model, domain.domain)
        and not math.isnan(task.decomposition.floor)
    ]
    return math.fsum(floors) / len(floors) if floors else 0.0


@contextmanager
def _by_domain(
    report: SensitivityReport,
    path: Path,
    draw: Callable[["Axes", int, DomainReport], None],
    label: str,
) -> Iterator["Figure"]:
    """Draw a panel for each domain, with a row for each model and an axis from 0 to 1."""
    panels = [
        [row for row in report.domains if row.domain == domain]
        for domain in dict.fromkeys(row.domain for row in report.domains)
    ]
    heights = [len(rows) for rows in panels]
    with figure_file(path, 7, 1.2 + 0.28 * sum(heights) + 0.3 * len(panels)) as figure:
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
        for axes, rows in zip(grid[:, 0], panels, strict=True):
            for row, domain in enumerate(rows):
                draw(axes, row, domain)
            axes.set_yticks(range(len(rows)), [domain.model for domain in rows])
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_title(rows[0].domain.replace("_", " ") or "own", loc="left")
            axes.grid(visible=False, axis="y")
        axes.set_xlim(0, 1)
        axes.set_xlabel(label)
        yield figure
