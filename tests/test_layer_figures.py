"""Figures show the numbers, nothing overlaps or is cut off, and their files are whole."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.colors
import numpy as np
import pytest
from layer_reports import make_documents, make_report, random_report, to_yes
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pragworld_interp.figures import (
    accuracy_figure,
    alterations_figure,
    patching_figure,
)
from pragworld_interp.layer_report import LayerReport
from pragworld_interp.patching_report import PatchedProbability
from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.errors import InputError

LONG = "a-rather-long-name-of-a-model-v2-Instruct + adapter"
MODELS = {
    "small": random_report(6, seed=1),
    LONG: random_report(12, seed=2),
    "$cost_1$": random_report(9, seed=3),
}


def patched(layers: int, shift: float = 0.0, of_pairs: bool = True) -> PatchedProbability:
    middle = np.linspace(0.1 + shift, 0.8, layers)
    return PatchedProbability(
        layers=range(layers),
        probability=middle.tolist(),
        low=(middle - 0.1).tolist() if of_pairs else None,
        high=(middle + 0.1).tolist() if of_pairs else None,
        original_run=0.05 + shift,
        altered_run=0.9 - shift,
    )


PANELS = {
    f"{name} ({number + 10} pairs)": {"base": patched(13), LONG: patched(13, 0.2)}
    for number, name in enumerate(ALTERATIONS)
}
FIGURES: dict[str, Callable[[Path], Any]] = {
    "accuracy": lambda path: accuracy_figure(MODELS, path),
    "accuracy of one": lambda path: accuracy_figure({"small": MODELS["small"]}, path, by="sign"),
    "accuracy of seven": lambda path: accuracy_figure(
        {f"{LONG} {number}": random_report(1 + number, seed=number) for number in range(7)}, path
    ),
    "accuracy by depth": lambda path: accuracy_figure(MODELS, path, horizontal="depth"),
    "robust accuracy": lambda path: accuracy_figure(MODELS, path, metric="robust_accuracy"),
    "alterations": lambda path: alterations_figure(MODELS, path),
    "alterations by depth": lambda path: alterations_figure(MODELS, path, horizontal="depth"),
    "patching": lambda path: patching_figure(PANELS, path, title="all pairs"),
    "patching of one": lambda path: patching_figure(
        {"one pair": {"base": patched(5, of_pairs=False)}}, path, horizontal="depth"
    ),
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Return the figures that were saved, with their layout."""
    found: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *arguments: object, **options: object) -> None:
        save(figure, *arguments, **options)  # type: ignore[arg-type]
        found.append(figure)

    monkeypatch.setattr(Figure, "savefig", keep)
    return found


def curves(axes: Axes) -> list[tuple[list[float], list[float]]]:
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


# What they show -----------------------------------------------------------------------------------


def test_accuracy_by_layer(drawn: list[Figure], tmp_path: Path) -> None:
    accuracy_figure(MODELS, tmp_path / "figure.png")
    (axes,) = drawn[0].axes
    for report, (at, values) in zip(MODELS.values(), curves(axes), strict=True):
        assert at == list(range(len(report.layers)))
        assert values == [layer.accuracy.share.percent for layer in report.layers]
    assert levels(axes) == [report.plain.accuracy.percent for report in MODELS.values()]
    looks = {
        (matplotlib.colors.to_hex(line.get_color()), str(line.get_linestyle()), line.get_marker())
        for line in axes.lines
        if len(np.asarray(line.get_xdata())) > 2
    }
    assert len(looks) == len({one[0] for one in looks}) == len({one[2] for one in looks}) == 3
    (legend,) = drawn[0].legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words[0] == f"small ({MODELS['small'].plain.accuracy.percent:.2f} % without)"
    assert words[3:] == [
        "without ablation",
        "95% band of all differences",
        "useful (both Holm p ≤ 0.05)",
        "harmful (both Holm p ≤ 0.05)",
    ]


def test_the_band_is_that_of_all_layers_around_the_base_line(
    drawn: list[Figure], tmp_path: Path
) -> None:
    report = MODELS["small"]
    accuracy_figure({"small": report}, tmp_path / "figure.png", horizontal="depth")
    (band,) = drawn[0].axes[0].collections
    corners = np.asarray(band.get_paths()[0].vertices)
    plain = report.plain.accuracy.percent
    for number, layer in enumerate(report.layers):
        at = number / 5
        heights = {round(float(y), 6) for x, y in corners if abs(x - at) < 1e-9}
        assert heights == {round(plain + end, 6) for end in layer.accuracy.band}


def test_layers_are_marked_by_role(drawn: list[Figure], tmp_path: Path) -> None:
    documents = make_documents([1] * 40)
    right, wrong = [True] * 40, [False] * 40
    half = [True, False] * 20
    almost = [not half[0], *half[1:]]
    report = make_report(documents, to_yes(documents, [half, wrong, half, right, wrong, almost]))
    assert report.selected("useful", by="evidence") == [0, 3]
    assert report.selected("useful") == [0, 3, 4]

    def marked(marker: str) -> list[float]:
        (line,) = (line for line in drawn[-1].axes[0].lines if line.get_marker() == marker)
        return [float(at) for at in np.asarray(line.get_xdata())]

    accuracy_figure({"model": report}, tmp_path / "figure.png")
    assert (marked("v"), marked("^")) == ([0, 3], [2])
    accuracy_figure({"model": report}, tmp_path / "figure.png", by="sign")
    assert (marked("v"), marked("^")) == ([0, 3, 4], [2])


def test_a_panel_for_each_category(drawn: list[Figure], tmp_path: Path) -> None:
    alterations_figure(MODELS, tmp_path / "figure.png")
    panels = {axes.get_title().replace("\n", " "): axes for axes in drawn[0].axes}
    first = MODELS["small"].plain
    expected = [f"{name} ({share.total})" for name, share in first.by_alteration.items()]
    expected.append(f"Original ({first.by_effect['original'].total})")
    assert list(panels) == expected
    axes = panels[expected[2]]
    name = expected[2].partition(" (")[0]
    for report, (_, values) in zip(MODELS.values(), curves(axes), strict=True):
        assert values == [layer.by_alteration[name].share.percent for layer in report.layers]
    assert levels(axes) == [report.plain.by_alteration[name].percent for report in MODELS.values()]


def test_patching_between_the_two_plain_runs(drawn: list[Figure], tmp_path: Path) -> None:
    patching_figure(PANELS, tmp_path / "figure.png", title="all pairs")
    shown = [axes for axes in drawn[0].axes if axes.get_visible()]
    assert len(shown) == 7
    for axes, models in zip(shown, PANELS.values(), strict=True):
        for model, (at, values) in zip(models.values(), curves(axes), strict=True):
            assert at == list(model.layers)
            assert values == list(model.probability)
        assert levels(axes) == [
            end for model in models.values() for end in (model.original_run, model.altered_run)
        ]
        assert len(axes.collections) == 2
    patching_figure({"x": {"m": patched(4, of_pairs=False)}}, tmp_path / "figure.png")
    assert not drawn[1].axes[0].collections


# How they look ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_overlaps_or_is_cut_off(name: str, drawn: list[Figure], tmp_path: Path) -> None:
    FIGURES[name](tmp_path / "figure.png")
    (figure,) = drawn
    figure.dpi = 200  # as it was saved
    whole = figure.bbox
    panels = [axes.get_tightbbox() for axes in figure.axes if axes.get_visible()]
    others = [legend.get_window_extent() for legend in figure.legends]
    others += [text.get_window_extent() for text in figure.texts]  # the title above all
    boxes = [box for box in [*panels, *others] if box]
    assert len(boxes) == len(panels) + len(others) > 1
    for number, box in enumerate(boxes):
        assert whole.x0 <= box.x0
        assert whole.y0 <= box.y0
        assert box.x1 <= whole.x1
        assert box.y1 <= whole.y1
        assert not any(box.overlaps(other) for other in boxes[:number])
    for axes in figure.axes:
        inches = axes.get_window_extent().height / figure.dpi
        assert inches > (2.4 if len(figure.axes) == 1 else 0.95)


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "suffix", "begins"),
    [
        ("accuracy of one", ".png", b"\x89PNG"),
        ("accuracy of one", ".pdf", b"%PDF"),
        ("patching of one", ".svg", b"<?xml"),
        ("patching of one", ".PNG", b"\x89PNG"),
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
        (lambda folder: accuracy_figure({str(n): ONE["m"] for n in range(8)}, folder / "f.png"), "a figure shows at most 7 models, not 8"),
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
import pragworld_interp.comparison, pragworld_interp.layer_report, pragworld_interp.figures
print({"matplotlib", "torch"} & set(sys.modules))
"""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout == "set()\n"
