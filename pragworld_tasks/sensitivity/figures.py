"""The paper's figures (arXiv 2506.16584): shares, MVS, densities of responses.

These are Figure 5a (purpose, articulation and uncertainty by domain and model, with the floor of AS
added), Figure 5b (MVS) and Figure 3 (densities of the responses to each prompt, by intent).
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pragworld_tasks.evaluation.statistics import LEVEL, Floats
from pragworld_tasks.figures import LOOKS, figure_file
from pragworld_tasks.sensitivity.components import Scale, rescale
from pragworld_tasks.sensitivity.report import DomainReport, SensitivityReport
from pragworld_tasks.sensitivity.samples import ModelSamples, nest_prompts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Style: TypeAlias = dict[str, Any]  # options of matplotlib

_PARTS = {  # label, colour, hatch (for print), and how far below the middle its interval is
    "ps": ("purpose", "#0072B2", "", -0.22),
    "as": ("articulation", "#E69F00", "////", 0.0),
    "mu": ("uncertainty", "0.85", "", 0.22),
}
_ESTIMATORS = {  # marker, face, and distance below the middle of a row
    "published": ("o", "white", -0.15),
    "unbiased": ("D", LOOKS[0].color, 0.15),
}
_BAR = 0.8  # share of a row that its bar fills
_WHOLE: _Style = {"clip_on": False, "zorder": 3}  # also at 0 and 1
_INTERVAL: _Style = {"color": "black", "lw": 0.8, "marker": "|", "ms": 3.5, **_WHOLE}
_MIDDLE = 0.98  # share of the responses shown; single absurd ones would squeeze all others


def draw_figures(
    report: SensitivityReport, samples: Sequence[ModelSamples], folder: Path, suffix: str = ".png"
) -> list[Path]:
    """Draw `shares`, `mvs` and `densities_<question>` as .png, .svg or .pdf; return the files."""
    drawn = [folder / f"shares{suffix}", folder / f"mvs{suffix}"]
    label = "share of the variance, mean over questions (published estimator)"
    _by_domain(report, drawn[0], _draw_shares, label)
    label = f"MVS = PS / (PS + AS), mean over questions, {LEVEL:.0%} intervals"
    _by_domain(report, drawn[1], _draw_mvs, label)
    for question in dict.fromkeys(task.question for task in report.tasks):
        name = re.sub(r"[^\w.-]", "_", question)  # from the samples, so it may be anything
        drawn.append(folder / f"densities_{name}{suffix}")
        of_question = [of_model for of_model in samples if of_model.question == question]
        _densities(of_question, report.scale, drawn[-1])
    return drawn


def _draw_shares(axes: "Axes", row: int, domain: DomainReport) -> None:
    """Draw a row of Figure 5a: shares of the variance, and the floor of AS."""
    purpose, articulation = (domain.published[name].value for name in ("ps", "as"))
    begins = {"ps": 0.0, "as": purpose, "mu": purpose + articulation}
    for name, (part, color, hatch, below) in _PARTS.items():
        estimate, begin = domain.published[name], begins[name]
        bar = axes.barh(row, estimate.value, _BAR, begin, color=color, hatch=hatch, lw=0.5)
        bar.set_label(f"{part} ({name.upper()})")
        bar[0].set_edgecolor("white")
        # The interval is drawn at the end of the bar that can move: the left one of MU.
        ends = np.array([estimate.low, estimate.high])
        ends = 1 - ends if name == "mu" else begin + ends
        label = f"{LEVEL:.0%} intervals: PS above, AS in the middle, MU below"
        axes.plot(ends, [row + below] * 2, label=label, **_INTERVAL)
    floor, label = [purpose + domain.floor] * 2, "AS that chance alone would give"
    heights = [row - _BAR / 2, row + _BAR / 2]
    axes.plot(floor, heights, label=label, color="black", lw=1.2, clip_on=False)


def _draw_mvs(axes: "Axes", row: int, domain: DomainReport) -> None:
    """Draw a row of Figure 5b: the meaningful variability share, PS / (PS + AS)."""
    for estimator, (marker, face, shift) in _ESTIMATORS.items():
        number = domain.by(estimator)["mvs"]
        axes.plot([number.low, number.high], [row + shift] * 2, color="0.35", lw=1.2, clip_on=False)
        look: _Style = {"color": "#0072B2", "markerfacecolor": face, "label": estimator}
        axes.plot(number.value, row + shift, marker, **look, **_WHOLE)


def _by_domain(
    report: SensitivityReport,
    path: Path,
    draw: Callable[["Axes", int, DomainReport], None],
    label: str,
) -> None:
    """Draw a panel for each domain, with a row for each model and an axis from 0 to 1.

    A row, which `draw` draws, gets a star if a question is not in all means.
    """
    panels: dict[str, list[DomainReport]] = {}
    for domain in report.domains:
        panels.setdefault(domain.domain, []).append(domain)
    heights = [len(rows) for rows in panels.values()]
    height = 1.4 + 0.28 * sum(heights) + 0.3 * len(panels)
    with figure_file(path, 7, height) as figure:
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
        for axes, rows in zip(grid[:, 0], panels.values(), strict=True):
            for row, domain in enumerate(rows):
                draw(axes, row, domain)
            names = [domain.model + " *" * bool(domain.notes) for domain in rows]
            axes.set_yticks(range(len(rows)), names)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_title(rows[0].domain.replace("_", " "), loc="left")
            axes.grid(visible=False, axis="y")
        axes.set_xlim(0, 1)
        axes.set_xlabel(label)
        starred = any(domain.notes for domain in report.domains)
        _legend(figure, "* a share is undefined for a question: see the tables" if starred else "")


def _densities(samples: Sequence[ModelSamples], scale: Scale, path: Path) -> None:
    """Draw Figure 3: the density of the responses to each prompt, with a row for each intent.

    Ticks at the bottom are the means of the prompts; the line is the mean of these.
    """
    slots = list(dict.fromkeys(prompt.slot for of_model in samples for prompt in of_model.prompts))
    with figure_file(path, max(4.5, 3 * len(samples)), 1.6 + 1.2 * len(slots)) as figure:
        grid = figure.subplots(len(slots), len(samples), sharex=True, squeeze=False)
        values = [_values(of_model, scale) for of_model in samples]
        limits = _limits([of_prompt for of_model in values for _, of_prompt in of_model])
        for column, of_model in enumerate(samples):
            for row, slot in enumerate(slots):
                prompts = [of_prompt for name, of_prompt in values[column] if name == slot]
                _draw_densities(grid[row][column], prompts, limits)
                if column == 0:
                    grid[row][column].set_ylabel(slot, wrap=True)
            grid[0][column].set_title(of_model.model)
        on_scale = "" if scale == "raw" else f", {scale}"
        figure.supxlabel(
            f"{samples[0].question} ({samples[0].unit}{on_scale})\n"
            f"the middle {_MIDDLE:.0%} of the responses",
            fontsize="medium",
        )
        _legend(figure)


def _draw_densities(axes: "Axes", prompts: Sequence[Floats], limits: tuple[float, float]) -> None:
    """Draw an intent: a curve and a tick for each prompt's values, and a line."""
    low, high = limits
    axes.set_xlim(low, high)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.set_yticks([])
    points = np.linspace(low, high, 256)
    for values in prompts:
        # Scott's rule, but never too narrow to be seen, as for identical responses.
        width = max(values.std() * values.size**-0.2, (high - low) / 100)
        density = np.exp(-(((points[:, None] - values) / width) ** 2) / 2).mean(axis=1) / width
        look: _Style = {"color": LOOKS[0].color, "alpha": 0.3, "lw": 0.8}
        axes.plot(points, density, label="responses to a paraphrase", **look)
    if prompts:
        means = np.array([values.mean() for values in prompts])
        tick: _Style = {"color": LOOKS[1].color, "ms": 8, "transform": axes.get_xaxis_transform()}
        axes.plot(means, np.full(means.shape, 0.03), "|", label="their mean", **tick)
        axes.axvline(means.mean(), color="black", lw=1, label="mean of the means")


def _values(samples: ModelSamples, scale: Scale) -> list[tuple[str, Floats]]:
    """Return the slot and the values of each prompt that has values."""
    responses = rescale(nest_prompts(samples.prompts), scale)  # keeps the order of the prompts
    slots = [prompt.slot for prompt in samples.prompts if {*prompt.values} != {None}]
    ends = responses.first + responses.count
    places = zip(slots, responses.first, ends, strict=True)
    return [(slot, responses.values[first:end]) for slot, first, end in places]


def _limits(prompts: Sequence[Floats]) -> tuple[float, float]:
    """Return the limits of the middle of all values, with a margin."""
    if not prompts:
        return 0.0, 1.0
    ends = [(1 - _MIDDLE) / 2, (1 + _MIDDLE) / 2]
    low, high = np.quantile(np.concatenate(prompts), ends)
    margin = 0.05 * (high - low) or max(abs(high), 1.0) * 0.05
    return float(low - margin), float(high + margin)


def _legend(figure: "Figure", note: str = "") -> None:
    """Draw a legend of all labelled artists above the figure, each label once, under a note."""
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    place: _Style = {"loc": "outside upper center", "ncols": 2, "alignment": "left"}
    figure.legend(handles.values(), handles, title=note or None, title_fontsize="small", **place)
