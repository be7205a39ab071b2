"""Draw the robust accuracy of the 14 released runs on the manual split, counted in three ways.

Each model has three marks with 95 % intervals: by the grouping of the released scoring (98 groups),
by the file's own groups (88), and without the documents whose label is disputed (87 groups).
Vertical lines show what the readers of the labels reach, counted in the same three ways.

    python examples/plot_published_results.py FILE.png
"""

import argparse
from pathlib import Path

from pragworld_tasks.data.sources import load_split
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.published import (
    majority_answers,
    published_answers,
    published_models,
)
from pragworld_tasks.evaluation.scoring import ScoreReport, Share, score
from pragworld_tasks.figures import LOOKS, figure_file

WAYS = ("published: 98 groups", "corrected: 88 groups", "undisputed: 87 groups")


def robust_shares(report: ScoreReport) -> dict[str, Share]:
    """Return the robust accuracy of a run on the manual split by each of `WAYS`."""
    shares = (
        report.released["robust_acc"],
        report.metrics["robust_acc"],
        report.metrics["robust_acc_undisputed"],
    )
    return dict(zip(WAYS, shares, strict=True))


def plot(path: Path) -> None:
    """Draw the figure and write it to a file."""
    documents = load_split("manual")
    reports = {model: score(documents, published_answers(model)) for model in published_models()}
    models = sorted(reports, key=lambda model: (-reports[model].robust_acc, model.casefold()))[::-1]
    readers = robust_shares(score(documents, majority_answers()))
    with figure_file(path, width=7, height=5.6) as figure:
        axes = figure.subplots()
        for place, (way, look) in enumerate(zip(WAYS, LOOKS, strict=False)):
            for row, model in enumerate(models):
                share = robust_shares(reports[model])[way]
                height = row + 0.24 * (1 - place)
                axes.plot(share.interval, [height, height], color=look.color, linewidth=1)
                axes.plot(
                    share.percent,
                    height,
                    look.marker,
                    color=look.color,
                    markersize=4.5,
                    label="" if row else way,
                )
            axes.axvline(readers[way].percent, color=look.color, linewidth=1, linestyle=look.line)
        axes.set_xlim(0, 100)
        axes.set_ylim(-0.6, len(models) - 0.4)
        axes.set_yticks(range(len(models)), models)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(
            "robust accuracy on the manual split (%); vertical lines: readers of the labels"
        )
        figure.legend(loc="outside upper center", ncols=len(WAYS))


def main() -> None:
    """Read the arguments and draw the figure."""
    parser = argparse.ArgumentParser(description="Draw the released runs on the manual split.")
    parser.add_argument("file", type=Path, help="the figure, a .png, .svg or .pdf")
    options = parser.parse_args()
    try:
        plot(options.file)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
