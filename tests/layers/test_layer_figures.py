"""Figures show the numbers, nothing overlaps or is cut off, and their files are whole."""

import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.colors
import numpy as np
import pytest
from layer_reports import QUICK, make_documents, make_report, random_report, to_yes
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import Floats
from pragworld_tasks.layers.figures import (
    accuracy_figure,
    alterations_figure,
    patching_figure,
)
from pragworld_tasks.layers.layer_report import Intervention, LayerReport, Outcome
from pragworld_tasks.layers.layer_statistics import compute_report
from pragworld_tasks.layers.patching_report import PatchedProbability
from pragworld_tasks.layers.targets import Module, Target

LONG = "a-rather-long-name-of-a-model-v2-Instruct + adapter"
ENDLESS = "a" + "-model-with-a-name-that-does-not-end" * 3
MODELS = {
    "small": random_report(6, seed=1),
    LONG: random_report(12, seed=2),
    "$cost_1$": random_report(9, seed=3),
}
MANY = {
    **MODELS,
    **{f"{ENDLESS}-{seed}": random_report(1 + 7 * seed, seed=seed) for seed in range(3)},
}
TWO = {LONG: MODELS[LONG], ENDLESS: random_report(40, seed=4)}


def patched(
    layers: int, shift: float = 0.0, has_intervals: bool = True, pairs: int = 12
) -> PatchedProbability:
    middle = np.linspace(0.1 + shift, 0.8, layers)
    return PatchedProbability(
        layers=range(layers),
        probability=middle.tolist(),
        low=(middle - 0.1).tolist() if has_intervals else None,
        high=(middle + 0.1).tolist() if has_intervals else None,
        original_run=0.05 + shift,
        altered_run=0.9 - shift,
        pairs=pairs,
    )


def swept_on(layers: int, targets: Sequence[Target], module: Module = "mlp") -> LayerReport:
    documents = make_documents([5] * 40)
    gold = np.random.default_rng(5).random((len(documents), 1 + len(targets)))
    model = dataclasses.replace(MODELS["small"].model, layers=layers)
    data = MODELS["small"].data
    intervention = Intervention(module, "zero", positions="last")
    return compute_report(documents, gold, model, data, intervention, QUICK, tuple(targets))


SOME = swept_on(30, [Target((9,)), Target((2,)), Target(tuple(range(20))), Target((5, 7))])
HEADS = swept_on(30, [Target((layer,), head) for layer in (3, 8) for head in range(4)], "heads")
PANELS = {
    name: {"base": patched(13, pairs=number), LONG: patched(13, 0.2)}
    for number, name in enumerate(("all", *ALTERATIONS))
}
PATCHED = {name: patched(4 + 5 * number) for number, name in enumerate(MANY)}
FIGURES: dict[str, Callable[[Path | None], Any]] = {
    "accuracy": lambda path: accuracy_figure(MODELS, path),
    "accuracy of one": lambda path: accuracy_figure({"small": MODELS["small"]}, path, by="sign"),
    "accuracy of an endless name": lambda path: accuracy_figure({ENDLESS: MODELS["small"]}, path),
    "accuracy of many layers": lambda path: accuracy_figure({"m": random_report(80)}, path),
    "accuracy of many models": lambda path: accuracy_figure(MANY, path),
    "accuracy of some layers": lambda path: accuracy_figure({"m": SOME, LONG: SOME}, path),
    "accuracy of heads": lambda path: accuracy_figure({"m": HEADS, ENDLESS: HEADS}, path),
    "alterations": lambda path: alterations_figure({"small": MODELS["small"]}, path),
    "alterations of models": lambda path: alterations_figure(TWO, path),
    "patching": lambda path: patching_figure({"": PANELS["all"]}, path, title="all pairs"),
    "patching by alteration": lambda path: patching_figure(PANELS, path, title="all pairs"),
    "patching of many models": lambda path: patching_figure({"": PATCHED}, path, "all pairs"),
    "patching of many models by alteration": lambda path: patching_figure(
        {"all": PATCHED, "Negation": {"small": patched(4), ENDLESS: patched(9)}}, path
    ),
    "patching of one pair": lambda path: patching_figure(
        {"": {"base": patched(5, has_intervals=False, pairs=1)}}, path, horizontal="depth"
    ),
}


def panels_of(figure: Figure) -> list[Axes]:
    """Return the panels of a figure, without the scale of colors."""
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]


def lines_of(axes: Axes) -> list[tuple[list[float], list[float]]]:
    """Return the points of each model's line, in the order of models."""
    return [
        (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
        for line in axes.lines
        if line.get_linestyle() != "None" and line.get_marker() not in ("None", "")
        if line.get_transform() == axes.transData and len(np.asarray(line.get_xdata()))
    ]


def levels(axes: Axes) -> list[float]:
    """Return the heights of the horizontal lines."""
    return [
        float(np.asarray(line.get_ydata())[0])
        for line in axes.lines
        if line.get_transform() == axes.get_yaxis_transform() and line.get_marker() == "None"
    ]


def marked(axes: Axes, marker: str, height: float | None = None) -> list[float]:
    """Return where marks are, in the row at a height if there is one."""
    return [
        float(x)
        for line in axes.lines
        if line.get_marker() == marker
        for x, y in zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
        if height is None or y == height
    ]


def cells(axes: Axes) -> dict[str, list[tuple[list[float], list[float]]]]:
    """Return the edges and values of the meshes of each row of a heat map, by its label."""
    rows: dict[str, list[tuple[list[float], list[float]]]] = {}
    labels = [label.get_text() for label in axes.get_yticklabels()]
    for mesh in axes.collections:
        assert isinstance(mesh, QuadMesh)
        corners: Floats = np.asarray(mesh.get_coordinates())
        row = labels[round(float(corners[..., 1].mean()))].replace("\n", " ")
        values = np.asarray(mesh.get_array()).ravel().tolist()
        rows.setdefault(row, []).append((corners[0, :, 0].tolist(), values))
    return rows


def points(outcomes: Iterable[Outcome]) -> list[float]:
    return [outcome.difference.points for outcome in outcomes]


# What they show -----------------------------------------------------------------------------------


def test_accuracy_by_layer() -> None:
    figure = FIGURES["accuracy"](None)
    top, *below = figure.axes
    for report, panel, (at, values) in zip(MODELS.values(), below, lines_of(top), strict=True):
        depth = [layer / (len(report.layers) - 1) for layer in range(len(report.layers))]
        assert at == pytest.approx(depth)
        assert values == [layer.accuracy.share.percent for layer in report.layers]
        assert lines_of(panel) == [(at, points(layer.accuracy for layer in report.layers))]
    answers = [document.answer for document in MODELS["small"].documents]
    constant = 100 * max(answers.count("yes"), answers.count("no")) / len(answers)
    plain = [report.plain.accuracy.percent for report in MODELS.values()]
    assert levels(top) == [*plain, constant]
    looks = {
        (matplotlib.colors.to_hex(line.get_color()), str(line.get_linestyle()), line.get_marker())
        for line in top.lines
        if len(np.asarray(line.get_xdata())) > 2
    }
    assert len(looks) == len({one[0] for one in looks}) == len({one[2] for one in looks}) == 3
    titles = [panel.get_title(loc="left") for panel in below]
    assert titles == [f"{name}, {p:.2f} % without" for name, p in zip(MODELS, plain, strict=True)]
    (legend,) = figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == [
        *MODELS,
        "without ablation",
        f"always the most frequent answer: {constant:.2f} %",
        "95% band of all differences",
        "useful (both Holm p ≤ 0.05)",
        "harmful (both Holm p ≤ 0.05)",
    ]


@pytest.mark.parametrize(("labels", "count"), [((" A", " B"), 2), ((" A", " B", " C"), 1)])
def test_what_one_answer_reaches_is_shown_if_it_is_known(
    labels: tuple[str, ...], count: int
) -> None:
    report = MODELS["small"]
    report = dataclasses.replace(report, model=dataclasses.replace(report.model, labels=labels))
    assert len(levels(accuracy_figure({"m": report}).axes[0])) == count


def test_a_collapsed_layer_leaves_the_others_apart() -> None:
    documents = make_documents([5] * 40)
    plain = np.array([document.row % 4 > 0 for document in documents])
    few = plain.copy()
    few[:2] = False  # one answer in 200 fewer
    right = [plain, ~plain, few, plain]
    report = make_report(documents, to_yes(documents, [row.tolist() for row in right]))
    assert points(layer.accuracy for layer in report.layers) == [-50, -0.5, 0]
    panel = accuracy_figure({"m": report}).axes[1]
    low, high = panel.get_ylim()
    assert low < -50
    assert high > 0
    heights = panel.transAxes.inverted().transform(panel.transData.transform([(0, -0.5), (0, 0)]))
    assert heights[1, 1] - heights[0, 1] > 0.02  # 0.01 if the scale were linear


def test_the_band_is_that_of_all_layers_around_zero() -> None:
    report = MODELS["small"]
    figure = accuracy_figure({"small": report}, horizontal="depth")
    (band,) = figure.axes[1].collections
    corners = np.asarray(band.get_paths()[0].vertices)
    for number, layer in enumerate(report.layers):
        at = number / 5
        heights = {round(float(y), 6) for x, y in corners if abs(x - at) < 1e-9}
        assert heights == {round(end, 6) for end in layer.accuracy.band}


def report_with_roles() -> LayerReport:
    documents = make_documents([1] * 40)
    right, wrong = [True] * 40, [False] * 40
    half = [True, False] * 20
    almost = [not half[0], *half[1:]]
    report = make_report(documents, to_yes(documents, [half, wrong, half, right, wrong, almost]))
    assert report.selected("useful", by="evidence") == [0, 3]
    assert report.selected("useful") == [0, 3, 4]
    return report


def test_layers_are_marked_by_role() -> None:
    report = report_with_roles()
    panel = accuracy_figure({"model": report}).axes[1]
    assert (marked(panel, "v"), marked(panel, "^")) == ([0, 3], [2])
    panel = accuracy_figure({"model": report}, by="sign").axes[1]
    assert (marked(panel, "v"), marked(panel, "^")) == ([0, 3, 4], [2])
    other = make_report(make_documents([1] * 40), np.full((40, 6), 0.9))
    (panel,) = panels_of(accuracy_figure({"a": other, "b": report, **dict.fromkeys("cde", other)}))
    assert (marked(panel, "v", 1), marked(panel, "^", 1)) == ([0, 3], [2])
    assert (marked(panel, "v"), marked(panel, "^")) == ([0, 3], [2])


def test_many_models_are_rows_of_a_heat_map() -> None:
    figure = FIGURES["accuracy of many models"](None)
    (axes,) = panels_of(figure)
    rows = cells(axes)
    shown = [label.replace(" ", "") for label in rows]
    reports = MANY.items()
    assert shown == [f"{n},{r.plain.accuracy.percent:.2f}%".replace(" ", "") for n, r in reports]
    for report, ((edges, values),) in zip(MANY.values(), rows.values(), strict=True):
        changes = points(layer.accuracy for layer in report.layers)
        assert values == changes
        assert (edges[0], edges[-1], len(edges)) == (0, 1, len(changes) + 1)
        depths = [layer / max(len(changes) - 1, 1) for layer in range(len(changes))]
        assert all(edges[n] <= depth <= edges[n + 1] for n, depth in enumerate(depths))
        assert np.max(np.asarray(axes.collections[0].norm(np.array(changes)))) <= 1  # none cut off
    assert "models of 1, 6, 8, 9, 12 and 15 layers, aligned by relative depth" in str(
        figure.get_suptitle()
    )


def test_layers_are_numbered_if_models_have_as_many() -> None:
    report = MODELS["small"]
    figure = accuracy_figure({str(number): report for number in range(8)})
    (axes,) = panels_of(figure)
    ((edges, _),) = cells(axes)[f"7, {report.plain.accuracy.percent:.2f} %"]
    assert edges == [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert axes.get_xticks().tolist() == list(range(6))
    assert "relative depth" not in f"{figure.get_suptitle()} {axes.get_xlabel()}"
    assert accuracy_figure({"m": random_report(80)}).axes[1].get_xticks().max() < 80


def test_chosen_layers_stand_side_by_side() -> None:
    panel = FIGURES["accuracy of some layers"](None).axes[-1]
    places = zip(panel.get_xticks(), [t.get_text() for t in panel.get_xticklabels()], strict=True)
    assert list(places) == [(0, "9"), (1, "2"), (2, "0+1+2+3+4+5…"), (3, "5+7")]
    assert lines_of(panel) == [([0, 1, 2, 3], points(layer.accuracy for layer in SOME.layers))]


def test_heads_are_a_heat_map_of_layers() -> None:
    (axes, _) = panels_of(FIGURES["accuracy of heads"](None))
    changes = points(layer.accuracy for layer in HEADS.layers)
    edges = [-0.5, 0.5, 1.5, 2.5, 3.5]
    assert cells(axes) == {"layer 3": [(edges, changes[:4])], "layer 8": [(edges, changes[4:])]}


def test_a_row_for_each_category() -> None:
    panels = panels_of(FIGURES["alterations of models"](None))
    for report, axes in zip(TWO.values(), panels, strict=True):
        plain = report.plain
        shares = {**plain.by_alteration, "Original": plain.by_effect["original"]}
        expected = [f"{n} ({s.total}), {s.percent:.2f} %" for n, s in shares.items()]
        rows = cells(axes)
        assert list(rows) == expected
        for number, name in enumerate(plain.by_alteration):
            outcomes = [layer.by_alteration[name] for layer in report.layers]
            ((edges, values),) = rows[expected[number]]
            assert values == points(outcomes)
            middles = (np.array(edges[1:]) + np.array(edges[:-1])) / 2
            for marker, sign in (("v", -1), ("^", 1)):
                outside = [min(sign * end for end in outcome.band) > 0 for outcome in outcomes]
                marks = middles[outside]
                assert marked(axes, marker, number) == marks.tolist()


def test_patching_between_the_two_plain_runs() -> None:
    panels = panels_of(FIGURES["patching by alteration"](None))
    titles = [axes.get_title() for axes in panels]
    names = enumerate(PANELS)
    assert [t.replace("\n", " ") for t in titles] == [f"{n} ({i}, 12 pairs)" for i, n in names]
    for axes, models in zip(panels, PANELS.values(), strict=True):
        for model, (at, values) in zip(models.values(), lines_of(axes), strict=True):
            assert at == list(model.layers)
            assert values == list(model.probability)
        runs = [end for model in models.values() for end in (model.original_run, model.altered_run)]
        assert levels(axes) == [0.5, *runs]
        assert len(axes.collections) == 2
    labels = [axes.get_xlabel() for axes in panels_of(patching_figure(PANELS, horizontal="depth"))]
    assert labels == [""] * 4 + ["patched layer, relative depth"] * 4
    (axes,) = FIGURES["patching of one pair"](None).axes
    assert not axes.collections
    assert axes.get_title() == "1 pair"


def test_patching_of_many_models_is_a_heat_map() -> None:
    (axes,) = panels_of(FIGURES["patching of many models"](None))
    places = dict(
        zip([t.get_text() for t in axes.get_xticklabels()], axes.get_xticks(), strict=True)
    )
    for curve, row in zip(PATCHED.values(), cells(axes).values(), strict=True):
        (_, values), *runs = row
        assert values == list(curve.probability)
        for (left, right), [value] in runs:
            name = "OR" if value == curve.original_run else "AR"
            assert value == (curve.original_run if name == "OR" else curve.altered_run)
            assert left < places[name] < right
            assert right < 0 if name == "OR" else left > 1
    panels = panels_of(FIGURES["patching of many models by alteration"](None))
    counts = [list(cells(axes)) for axes in panels]
    assert counts[0] == ["all (12 pairs)", "Negation (12 pairs)"]
    assert counts[1] == ["all (12 pairs)"]


# How they look ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_overlaps_or_is_cut_off(name: str) -> None:
    figure = FIGURES[name](None)
    figure.dpi = 200  # as it is saved
    figure.draw_without_rendering()
    whole = figure.bbox
    panels = [axes.get_tightbbox() for axes in figure.axes if axes.get_visible()]
    others = [legend.get_window_extent() for legend in figure.legends]
    others += [text.get_window_extent() for text in figure.texts if text.get_text()]  # the title
    boxes = [box for box in [*panels, *others] if box]
    assert len(boxes) == len(panels) + len(others) > 1
    for number, box in enumerate(boxes):
        assert whole.x0 <= box.x0
        assert whole.y0 <= box.y0
        assert box.x1 <= whole.x1
        assert box.y1 <= whole.y1
        assert not any(box.overlaps(other) for other in boxes[:number])
    for axes in panels_of(figure):
        inches = axes.get_window_extent().height / figure.dpi
        rows = len(axes.get_yticks())
        assert inches > (0.12 * rows if axes.collections and not axes.get_ylabel() else 0.9)
    for axes in figure.axes:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            ticks = [label.get_window_extent() for label in labels if label.get_text()]
            for number, box in enumerate(ticks):
                assert not any(box.overlaps(other) for other in ticks[:number])


@pytest.mark.parametrize("name", ["accuracy of one", "patching of many models"])
def test_figures_are_pickled(name: str) -> None:
    figure = FIGURES[name](None)
    copy = pickle.loads(pickle.dumps(figure))
    assert copy._repr_png_().startswith(b"\x89PNG")
    assert str(copy.axes[-1].lines) == str(figure.axes[-1].lines)
    assert copy.get_size_inches().tolist() == figure.get_size_inches().tolist()


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "suffix", "begins"),
    [
        ("accuracy of one", ".png", b"\x89PNG"),
        ("accuracy of one", ".pdf", b"%PDF"),
        ("patching of one pair", ".svg", b"<?xml"),
        ("patching of one pair", ".PNG", b"\x89PNG"),
    ],
)
def test_the_file_is_whole_and_the_same_each_time(
    name: str, suffix: str, begins: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"figure{suffix}"
    FIGURES[name](path)
    first = path.read_bytes()
    assert first.startswith(begins)
    FIGURES[name](path)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_a_figure_that_fails_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no memory")

    path = tmp_path / "figure.png"
    path.write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(RuntimeError, match="no memory"):
        FIGURES["accuracy of one"](path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


TRACKING: dict[str, LayerReport] = {"m": random_report(3, "entity_tracking")}
ONE = {"m": random_report(3)}


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda folder: accuracy_figure(ONE, folder / "f.jpg"), r"f\.jpg: unsupported figure format; end the name in \.png, \.svg, \.pdf"),
        (lambda folder: alterations_figure(ONE, folder / "f"), "unsupported figure format; end"),
        (lambda folder: patching_figure(PANELS, folder / "f.txt"), "unsupported figure format; end"),
        (lambda folder: accuracy_figure({}, folder / "f.png"), "there is nothing to draw"),
        (lambda folder: patching_figure({}, folder / "f.png"), "there is nothing to draw"),
        (lambda folder: accuracy_figure({"some": SOME, "heads": HEADS}, folder / "f.png"), "heads was swept with heads zero ablation at positions last"),
        (lambda folder: accuracy_figure({"some": SOME, "a": swept_on(30, SOME.targets[:2])}, folder / "f.png"), "a was swept on other layers or heads than some"),
        (lambda folder: accuracy_figure({**ONE, "t": TRACKING["m"]}, folder / "f.png"), "t was evaluated on other documents"),
        (lambda folder: accuracy_figure(TRACKING, folder / "f.png", metric="robust_accuracy"), "entity_tracking has no alterations"),
        (lambda folder: alterations_figure(TRACKING, folder / "f.png"), "entity_tracking has no alterations"),
        (lambda _: accuracy_figure(ONE, Path(__file__) / "f.png"), "is a file; choose another place"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(
    draw: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        draw(tmp_path)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = """
import sys
import pragworld_tasks.layers.comparison, pragworld_tasks.layers.layer_report, pragworld_tasks.layers.figures
print({"matplotlib", "torch"} & set(sys.modules))
"""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout == "set()\n"
