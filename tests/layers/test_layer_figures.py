"""Figures show the numbers, nothing overlaps or is cut off, and their files are whole."""

import dataclasses
import math
import pickle
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layer_reports import QUICK, make_documents, make_report, random_report, to_yes
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pragworld_interp.prompts.examples import document_examples
from pragworld_interp.run.inputs import document_results
from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.evaluation.statistics import Interval
from pragworld_tasks.layers import EXAMPLES
from pragworld_tasks.layers.ablation_report import LayerReport, accuracy_figure
from pragworld_tasks.layers.figures import patching_lines, patching_maps
from pragworld_tasks.layers.layer_statistics import By, Outcome
from pragworld_tasks.layers.patching_report import read_patching
from pragworld_tasks.layers.settings import Intervention, Module, Target

LONG = "a-rather-long-name-of-a-model-v2-Instruct + adapter"
ENDLESS = "a" + "-model-with-a-name-that-does-not-end" * 3
MODELS = {
    "small": random_report(6, seed=1),
    LONG: random_report(12, seed=2),
    "$cost_1$": random_report(9, seed=3),
}


def swept_on(layers: int, targets: Sequence[Target], module: Module = "mlp") -> LayerReport:
    documents = make_documents([5] * 40)
    gold = np.random.default_rng(5).random((len(documents), 1 + len(targets)))
    model = dataclasses.replace(MODELS["small"].model, layers=layers)
    data = MODELS["small"].data
    intervention = Intervention(module, "zero", positions="last")
    results = document_results(document_examples(documents), gold)
    return LayerReport(model, data, intervention, tuple(targets), results, QUICK)


SOME = swept_on(30, [Target((9,)), Target((2,)), Target(tuple(range(20))), Target((5, 7))])
HEADS = swept_on(30, [Target((layer,), head) for layer in (3, 8) for head in range(4)], "heads")
AVERAGES = read_patching(EXAMPLES / "patching.json").averages()
CURVES = {"base": AVERAGES["all"], LONG: AVERAGES[ALTERATIONS[3]]}
BY_MODEL = {model: dict.fromkeys(("layer 3", "layer 8"), curve) for model, curve in CURVES.items()}
ONE_GROUP = dataclasses.replace(CURVES["base"], intervals=[Interval(math.nan, math.nan)] * 5)
FIGURES: dict[str, Callable[[Path | None], Any]] = {
    "accuracy": lambda path: accuracy_figure(MODELS, path),
    "accuracy of one": lambda path: accuracy_figure({"small": MODELS["small"]}, path, by="sign"),
    "accuracy of an endless name": lambda path: accuracy_figure({ENDLESS: MODELS["small"]}, path),
    "accuracy of some layers": lambda path: accuracy_figure({"m": SOME, LONG: SOME}, path),
    "accuracy of heads": lambda path: accuracy_figure({"m": HEADS, ENDLESS: HEADS}, path),
    "patching": lambda path: patching_lines(path, "all pairs", CURVES),
    "patching of heads": lambda path: patching_maps(path, "all pairs", BY_MODEL),
    "patching of one group": lambda path: patching_lines(path, "", {"base": ONE_GROUP}),
}


def lines_of(axes: Axes) -> list[list[float]]:
    """Return the heights of each model's line, which begins at layer 0."""
    lines = [line for line in axes.lines if line.get_linestyle() != "None"]
    return [np.asarray(line.get_ydata()).tolist() for line in lines if line.get_marker() != "None"]


def levels(axes: Axes) -> list[float]:
    lines = [line for line in axes.lines if line.get_marker() == "None"]
    return [float(np.asarray(line.get_ydata())[0]) for line in lines]


def marked(axes: Axes, marker: str) -> list[float]:
    marks = [np.asarray(line.get_xdata()) for line in axes.lines if line.get_marker() == marker]
    return [float(x) for mark in marks for x in mark]


def cells(axes: Axes) -> dict[str, list[float]]:
    """Return the values of each row of a heat map, by its label."""
    labels = [label.get_text().replace("\n", " ") for label in axes.get_yticklabels()]
    (image,) = axes.get_images()
    return dict(zip(labels, np.asarray(image.get_array()).tolist(), strict=True))


def legend_of(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text().replace("\n", " ") for text in legend.get_texts()]


def points(outcomes: Iterable[Outcome]) -> list[float]:
    return [outcome.points for outcome in outcomes]


def test_accuracy_by_layer() -> None:
    figure = FIGURES["accuracy"](None)
    top, *panels = figure.axes
    for report, panel, heights in zip(MODELS.values(), panels, lines_of(top), strict=True):
        assert heights == [layer.accuracy.share.percent for layer in report.layers]
        assert lines_of(panel) == [points(layer.accuracy for layer in report.layers)]
        (band,) = panel.collections
        corners = np.asarray(band.get_paths()[0].vertices)
        for number, layer in enumerate(report.layers):
            assert {*corners[corners[:, 0] == number, 1]} == {*layer.accuracy.band}
    plain = [report.plain.accuracy.percent for report in MODELS.values()]
    assert levels(top) == plain
    assert [panel.get_title(loc="left") for panel in panels] == [
        f"{name}, {p:.2f} % without ablation" for name, p in zip(MODELS, plain, strict=True)
    ]
    # The random reports have no marks.
    assert {*legend_of(figure)} == {*MODELS, "without ablation", "95% band"}


def test_a_collapsed_layer_leaves_the_others_apart() -> None:
    documents = make_documents([5] * 40)
    plain = np.array([document.row % 4 > 0 for document in documents])
    few = plain.copy()
    few[:2] = False  # one answer in 200 fewer
    right = [plain, ~plain, few, plain]
    report = make_report(documents, to_yes(documents, [row.tolist() for row in right]))
    panel = accuracy_figure({"m": report}).axes[1]
    places = panel.transData.transform([*enumerate(points(x.accuracy for x in report.layers))])
    collapsed, lower, same = panel.transAxes.inverted().transform(places)[:, 1]
    assert collapsed > 0
    assert same - lower > 0.02  # 0.01 if the scale were linear


def test_layers_are_marked_by_role_and_the_legend_says_so() -> None:
    documents = make_documents([1] * 40)
    right, wrong, half = [True] * 40, [False] * 40, [True, False] * 20
    almost = [not half[0], *half[1:]]
    report = make_report(documents, to_yes(documents, [half, wrong, half, right, wrong, almost]))
    useful: dict[By, list[int]] = {"evidence": [0, 3], "sign": [0, 3, 4]}
    for by, layers in useful.items():
        figure = accuracy_figure({"model": report}, by=by)
        panel = figure.axes[1]
        assert (marked(panel, "v"), marked(panel, "^")) == (layers, [2])
        assert {f"useful by {by}", f"harmful by {by}"} < {*legend_of(figure)}


def test_chosen_layers_stand_side_by_side_and_heads_below_each_other() -> None:
    panel = FIGURES["accuracy of some layers"](None).axes[-1]
    places = zip(panel.get_xticks(), [t.get_text() for t in panel.get_xticklabels()], strict=True)
    assert list(places) == [(0, "9"), (1, "2"), (2, "0+…+19"), (3, "5+7")]
    assert lines_of(panel) == [points(layer.accuracy for layer in SOME.layers)]
    axes = FIGURES["accuracy of heads"](None).axes[0]
    changes = points(layer.accuracy for layer in HEADS.layers)
    assert cells(axes) == {"layer 3": changes[:4], "layer 8": changes[4:]}


def test_patching_between_the_two_plain_runs() -> None:
    figure = FIGURES["patching"](None)
    (axes,) = figure.axes
    assert lines_of(axes) == [curve.probability for curve in CURVES.values()]
    runs = [end for curve in CURVES.values() for end in (curve.original_run, curve.altered_run)]
    assert levels(axes) == [*runs, 0.5]
    assert len(axes.collections) == 2
    assert {*legend_of(figure)} == {
        *(f"{name}, {curve.pairs} pairs" for name, curve in CURVES.items()),
        *("original run (OR)", "altered run (AR)", "95% interval", "one half"),
    }
    (axes,) = FIGURES["patching of one group"](None).axes
    assert not axes.collections


def test_layers_are_rows_of_a_heat_map_of_heads() -> None:
    *panels, _ = FIGURES["patching of heads"](None).axes
    for axes, (model, curves) in zip(panels, BY_MODEL.items(), strict=True):
        assert axes.get_title(loc="left") == model
        assert cells(axes) == {
            f"{name} ({p.pairs} pairs, OR {p.original_run:.2f}, AR {p.altered_run:.2f})": p.probability
            for name, p in curves.items()
        }


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_overlaps_or_is_cut_off(name: str) -> None:
    figure = FIGURES[name](None)
    figure.dpi = 200  # as it is saved
    figure.draw_without_rendering()
    whole = figure.bbox
    panels = [axes.get_tightbbox() for axes in figure.axes]
    others = [legend.get_window_extent() for legend in figure.legends]
    others += [text.get_window_extent() for text in figure.texts if text.get_text()]  # the title
    boxes = [box for box in [*panels, *others] if box]
    for number, box in enumerate(boxes):
        assert whole.x0 <= box.x0
        assert whole.y0 <= box.y0
        assert box.x1 <= whole.x1
        assert box.y1 <= whole.y1
        assert not any(box.overlaps(other) for other in boxes[:number])
    for axes in figure.axes:
        inches = axes.get_window_extent().height / figure.dpi
        rows = len(axes.get_yticks())
        assert inches > (0.12 * rows if axes.get_images() else 0.9)
    for axes in figure.axes:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            ticks = [label.get_window_extent() for label in labels if label.get_text()]
            for number, box in enumerate(ticks):
                assert not any(box.overlaps(other) for other in ticks[:number])


def test_figures_are_pickled() -> None:
    copy = pickle.loads(pickle.dumps(FIGURES["accuracy of one"](None)))
    assert copy._repr_png_().startswith(b"\x89PNG")
