"""The paper's figures (arXiv 2506.16584): variances, shares, MVS, densities of responses.

These are Figure 2 (variance by model), Figure 5a (purpose, articulation and uncertainty by domain
and model, with the floor of AS added), Figure 5b (MVS) and Figure 3 (densities of the responses to
each prompt, by intent).
"""

import math
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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

_PARTS = {  # label, colour, hatch (for print), and how far below the middle its interval is
    "ps": ("purpose", "#0072B2", "", -0.22),
    "as": ("articulation", "#E69F00", "////", 0.0),
    "mu": ("uncertainty", "0.85", "", 0.22),
}
_ESTIMATORS = {  # marker, face, and distance below the middle of a row
    "published": ("o", "white", -0.15),
    "unbiased": ("D", LOOKS[0].color, 0.15),
}
_LINE = 0.16  # inches
_BAR = 0.8  # share of a row that its bar fills
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
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
    names = list(dict.fromkeys(task.samples.question for task in report.tasks))
    unmarked = [
        task for task in report.tasks if not task.decomposition.published["variance"].value > 0
    ]
    note = _note(
        "variance 0 or undefined, so not shown",
        [f"{task.samples.question} of {task.samples.model}" for task in unmarked],
    )
    starred = {task.samples.question for task in unmarked}
    height = 1.3 + len(names) * max(0.25, 0.09 * len(report.models))
    with figure_file(path, 7, height + _LINE * len(note.splitlines())) as figure:
        axes = figure.subplots()
        for number, model in enumerate(report.models):
            look = LOOKS[number % len(LOOKS)]
            shift = 0.6 * ((number + 0.5) / len(report.models) - 0.5)
            tasks = [task for task in report.tasks if task.samples.model == model]
            axes.plot(
                [task.decomposition.published["variance"].value or math.nan for task in tasks],
                [names.index(task.samples.question) + shift for task in tasks],
                look.marker,
                color=look.color,
                label=model,
            )
        if len(unmarked) < len(report.tasks):
            _scale_by_powers(axes)
        axes.set_yticks(
            range(len(names)), [f"{name} *" * (name in starred) or name for name in names]
        )
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel(
            "variance, in the square of each question's unit"
            if report.scale == "raw"
            else f"variance of {report.scale} values"
        )
        _legend(figure, note)


def _scale_by_powers(axes: "Axes") -> None:
    """Give an axis a logarithmic scale, with ticks that are all plain or all powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    narrow = high / low < 1000  # powers of ten would be too few ticks
    plain = low > 1e-3 and high < 1e6

    def text(value: float, _: float) -> str:
        if plain:
            return f"{value:,g}"
        power = math.floor(math.log10(value) + 1e-9)
        factor = round(value / 10.0**power)
        return ("" if factor == 1 else f"{factor}·") + "10" + f"{power}".translate(_RAISED)

    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
    axes.xaxis.set_major_formatter(text)
    axes.xaxis.set_minor_formatter(NullFormatter())


def _shares(report: SensitivityReport, path: Path) -> None:
    """Draw Figure 5a: shares of the variance by domain and model, and the floor of AS."""

    def draw(axes: "Axes", row: int, domain: DomainReport) -> None:
        if math.isnan(domain.published["ps"].value):
            axes.text(0.01, row, "undefined", va="center")
            return
        purpose, articulation = (domain.published[name].value for name in ("ps", "as"))
        begins = {"ps": 0.0, "as": purpose, "mu": purpose + articulation}
        for name, (part, color, hatch, below) in _PARTS.items():
            estimate, begin = domain.published[name], begins[name]
            axes.barh(
                *(row, estimate.value, _BAR, begin),
                color=color,
                hatch=hatch,
                edgecolor="white",
                lw=0.5,
                label=f"{part} ({name.upper()})",
            )
            # The interval is drawn at the end of the bar that can move: the left one of MU.
            ends = np.array(estimate.interval)
            axes.plot(
                1 - ends if name == "mu" else begin + ends,
                [row + below] * 2,
                color="black",
                lw=0.8,
                marker="|",
                ms=3.5,
                clip_on=False,
                zorder=3,
                label=f"{LEVEL:.0%} intervals: PS above, AS in the middle, MU below",
            )
        axes.plot(
            [purpose + _floor(report, domain)] * 2,
            [row - _BAR / 2, row + _BAR / 2],
            color="black",
            lw=1.2,
            clip_on=False,
            label="AS that chance alone would give",
        )

    label = "share of the variance, mean over questions (published estimator)"
    _by_domain(report, path, draw, label, ("published",), "ps")


def _mvs(report: SensitivityReport, path: Path) -> None:
    """Draw Figure 5b: meaningful variability share, PS / (PS + AS), by domain and model."""

    def draw(axes: "Axes", row: int, domain: DomainReport) -> None:
        for estimator, (marker, face, shift) in _ESTIMATORS.items():
            number = getattr(domain, estimator)["mvs"]
            if math.isnan(number.value):
                axes.text(0.01, row + shift, "undefined", va="center", fontsize="x-small")
                continue
            axes.plot(number.interval, [row + shift] * 2, color="0.35", lw=1.2, clip_on=False)
            axes.plot(
                *(number.value, row + shift, marker),
                color="#0072B2",
                markerfacecolor=face,
                label=estimator,
                clip_on=False,  # whole at 0 and 1, too
                zorder=3,
            )

    label = f"MVS = PS / (PS + AS), mean over questions, {LEVEL:.0%} intervals"
    _by_domain(report, path, draw, label, tuple(_ESTIMATORS), "mvs")


def _densities(report: SensitivityReport, question: str, path: Path) -> None:
    """Draw Figure 3: the density of the responses to each prompt, with a row for each intent.

    Ticks at the bottom are the means of the prompts; the line is the mean of these. An arrow at
    either end stands for means beyond the axis.
    """
    tasks = [task for task in report.tasks if task.samples.question == question]
    slots = list(dict.fromkeys(prompt.slot for task in tasks for prompt in task.samples.prompts))
    width = max(4.5, 3 * len(tasks))
    with figure_file(path, width, 1.6 + 1.2 * len(slots)) as figure:
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
        scale = "" if report.scale == "raw" else f", {report.scale}"
        figure.supxlabel(
            f"{question} ({tasks[0].samples.unit}{scale})\n"
            f"the middle {_MIDDLE:.0%} of the responses",
            fontsize="medium",
        )
        _legend(figure, end="upper")


def _draw_densities(axes: "Axes", prompts: Sequence[Floats], limits: tuple[float, float]) -> None:
    """Draw an intent: a curve and a tick for each prompt's values, and a line."""
    low, high = limits
    axes.set_xlim(low, high)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.set_yticks([])
    if not prompts:
        axes.text(0.5, 0.5, "no readable response", ha="center", transform=axes.transAxes)
        return
    points = np.linspace(low, high, _GRID)
    for values in prompts:
        # Scott's rule, but never too narrow to be seen, as for identical responses.
        width = max(values.std() * values.size**-0.2, (high - low) / 100)
        density = np.exp(-(((points[:, None] - values) / width) ** 2) / 2).mean(axis=1) / width
        axes.plot(
            *(points, density),
            color=LOOKS[0].color,
            alpha=0.3,
            lw=0.8,
            label="responses to a paraphrase",
        )
    means = np.array([values.mean() for values in prompts])
    shown = means[(low <= means) & (means <= high)]
    axes.plot(
        *(shown, np.full(shown.shape, 0.03), "|"),
        color=LOOKS[1].color,
        ms=8,
        transform=axes.get_xaxis_transform(),
        label="their mean",
    )
    for count, end in ((np.sum(means < low), 0), (np.sum(means > high), 1)):
        if count:
            _point_beyond(axes, end, 0.1, LOOKS[1].color, "means beyond the axis", f"{count}")
    mean = float(means.mean())
    if low <= mean <= high:
        axes.axvline(mean, color="black", lw=1, label="mean of the means")
    else:
        rounded = f"{float(f'{mean:.3g}'):,.10g}"  # without an exponent, unless it is absurd
        _point_beyond(axes, int(mean > high), 0.9, "black", "mean of the means beyond it", rounded)


def _point_beyond(axes: "Axes", end: int, height: float, color: str, label: str, text: str) -> None:
    """Draw an arrow with a text at an end of the axis, 0 or 1, for what lies beyond it."""
    axes.plot(
        *(end, height, "<>"[end]),
        color=color,
        ms=5,
        clip_on=False,
        transform=axes.transAxes,
        label=label,
    )
    axes.annotate(
        *(text, (end, height)),
        xycoords="axes fraction",
        xytext=(6 - 12 * end, 0),
        textcoords="offset points",
        color=color,
        fontsize="small",
        ha=("left", "right")[end],
        va="center",
    )


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
    """Return the mean floor of AS over the questions whose AS is in a domain's mean."""
    left_out = domain.left_out["published"].get("as", ())
    floors = [
        task.decomposition.floor
        for task in report.tasks
        if (task.samples.model, domain_of(task.samples.question)) == (domain.model, domain.domain)
        and task.samples.question not in left_out
    ]
    return math.fsum(floors) / len(floors)


def _by_domain(
    report: SensitivityReport,
    path: Path,
    draw: Callable[["Axes", int, DomainReport], None],
    label: str,
    estimators: Sequence[str],
    name: str,
) -> None:
    """Draw a panel for each domain, with a row for each model and an axis from 0 to 1.

    A row gets a star, and a note below, if a question is not in its mean of `name`.

    Args:
        report: The report.
        path: The file.
        draw: What draws a row.
        label: The label of the axis.
        estimators: The estimators that `draw` shows.
        name: The share, or one of the shares, that it shows.
    """
    panels = [
        [row for row in report.domains if row.domain == domain]
        for domain in dict.fromkeys(row.domain for row in report.domains)
    ]
    heights = [len(rows) for rows in panels]
    left_out: dict[str, list[str]] = {}
    for domain in report.domains:
        for estimator in estimators:
            for question in domain.left_out[estimator].get(name, ()):
                left_out.setdefault(f"{question} of {domain.model}", []).append(estimator)
    note = _note(
        "undefined, so not in the mean",
        [
            f"{question} ({' and '.join(undefined)})" if len(estimators) > 1 else question
            for question, undefined in left_out.items()
        ],
    )
    height = 1.2 + 0.28 * sum(heights) + 0.3 * len(panels) + _LINE * len(note.splitlines())
    with figure_file(path, 7, height) as figure:
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
        for axes, rows in zip(grid[:, 0], panels, strict=True):
            labels = []
            for row, domain in enumerate(rows):
                draw(axes, row, domain)
                starred = any(name in domain.left_out[estimator] for estimator in estimators)
                labels.append(domain.model + " *" * starred)
            axes.set_yticks(range(len(rows)), labels)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_title(rows[0].domain.replace("_", " ") or "own", loc="left")
            axes.grid(visible=False, axis="y")
        axes.set_xlim(0, 1)
        axes.set_xlabel(label)
        _legend(figure, note)


def _note(what: str, items: Sequence[str]) -> str:
    """Return a note in lines that fit a figure's width, on what is not in it; empty if all is."""
    return textwrap.fill(f"* {what}: {'; '.join(items)}", 100) if items else ""


def _legend(figure: "Figure", note: str = "", end: Literal["upper", "lower"] = "lower") -> None:
    """Draw a legend of all labelled artists, bars first, each label once, under a note."""
    from matplotlib.lines import Line2D

    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    labels = sorted(handles, key=lambda label: isinstance(handles[label], Line2D))
    figure.legend(
        [handles[label] for label in labels],
        labels,
        loc="outside upper center" if end == "upper" else "outside lower center",
        ncols=2,
        title=note or None,
        title_fontsize="small",
        alignment="left",
    )
