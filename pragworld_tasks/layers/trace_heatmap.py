"""The heat map of a trace: layer by token."""

import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pragworld_tasks.figures import figure_file
from pragworld_tasks.layers.identities import model_titles
from pragworld_tasks.layers.trace_report import TraceReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_TOKENS = 40  # of a prompt that is shown as a whole

_COLORS = "PuOr_r"  # diverging, and distinct for color-blind readers
_WITHOUT = "0.85"  # of tokens without a counterpart
_TITLED = 3  # columns of a section that a title fits above
_LONGEST_LABEL = 30  # in characters
_LEAST_RANGE = 0.01  # of colors, so that rounding errors stay pale


class _Column(NamedTuple):
    """A column of the heat map.

    Attributes:
        label: The token.
        section: The number of the stretch of tokens that it is in, and the title of the stretch.
        patched: The probabilities by layer, if it was patched.
        is_altered: Whether the token is an altered one.
    """

    label: str
    section: tuple[int, str]
    patched: Sequence[float] | None
    is_altered: bool


def trace_figure(report: TraceReport, path: str | Path | None = None) -> "Figure":
    """Draw how p of the altered prompt's gold answer changes, by layer and patched token.

    A prompt of more than `MOST_TOKENS` tokens is shown by its altered utterances, the question and
    the last token. The other tokens are patched together, in one column.

    Args:
        report: The trace.
        path: The file to write; .png, .svg or .pdf. None to return the figure only.

    Raises:
        InputError: The file cannot be written.
    """
    columns = _columns(report)
    layers = report.model.layers
    values = np.full((layers, len(columns)), np.nan)
    for number, column in enumerate(columns):
        if column.patched:
            values[:, number] = np.array(column.patched) - report.original_run
    most = max(float(np.nanmax(np.abs(values))), _LEAST_RANGE)
    longest = max(len(column.label) for column in columns)
    width = max(5.0, 1.6 + 0.2 * len(columns))
    height = max(2.9, 2.1 + 0.13 * layers) + 0.06 * longest
    with figure_file(None if path is None else Path(path), width, height) as figure:
        axes = figure.subplots()
        axes.set_facecolor(_WITHOUT)
        image = axes.imshow(
            values,
            cmap=_COLORS,
            vmin=-most,
            vmax=most,
            origin="lower",
            aspect="auto",
            interpolation="nearest",
        )
        axes.grid(visible=False)
        _label_layers(axes)
        axes.set_xticks(range(len(columns)), [column.label for column in columns], rotation=90)
        for label, column in zip(axes.get_xticklabels(), columns, strict=True):
            label.set_fontsize(7)
            label.set_fontweight("bold" if column.is_altered else "normal")
        axes.set_xlabel("patched token (bold: altered; gray: nothing to patch it from)", fontsize=7)
        _draw_sections(axes, [column.section for column in columns])
        bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=30)
        bar.set_label(f"p({report.answer}) patched minus OR")
        what, _, runs = f"{model_titles([report.model])[0]}: {report.title}".rpartition("; ")
        figure.suptitle(f"{textwrap.fill(what, int(width * 14))}\n{runs}", fontsize=9)
    return figure


def _columns(report: TraceReport) -> list[_Column]:
    whole = len(report.tokens) <= MOST_TOKENS
    titles = {"dialogue": "dialogue" if whole else "altered\nutterance", "question": "question"}
    columns: list[_Column] = []
    section, before = 0, -1
    for token in report.tokens:
        if whole or token.part != "rest":
            title = titles.get(token.place, "")
            starts = token.position > before + 1 or (columns and columns[-1].section[1] != title)
            section, before = section + bool(starts), token.position
            is_altered = token.part == "altered"
            label = textwrap.shorten(token.shown, _LONGEST_LABEL, placeholder="…")
            columns.append(_Column(label, (section, title), token.patched, is_altered))
    together = [part for part in report.parts if part.part == "rest"]
    if together and not whole:
        label = f"{together[0].tokens} other tokens"
        columns.insert(0, _Column(label, (-1, ""), together[0].patched, False))
    return columns


def _label_layers(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(12, steps=[1, 2, 5, 10], integer=True))
    axes.set_ylabel("patched layer")


def _draw_sections(axes: "Axes", sections: Sequence[tuple[int, str]]) -> None:
    """Separate the sections by lines and put their titles above."""
    start = 0
    for (_, title), members in groupby(sections):
        stop = start + len(list(members))
        if start:
            axes.axvline(start - 0.5, color="black", linewidth=1.2)
        axes.annotate(
            title if stop - start >= _TITLED else "",
            ((start + stop - 1) / 2, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=7,
        )
        start = stop
