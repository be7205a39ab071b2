"""The figures of `decompose --plot` show every number, and mark what they do not show."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from test_decompose import write_samples

from pragworld_tasks.sensitivity.figures import draw_figures
from pragworld_tasks.sensitivity.report import SensitivityReport, decompose_samples
from pragworld_tasks.sensitivity.samples import ModelSamples, read_samples


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Figures by the first word of their file's name; drawn, but not written."""
    figures: dict[str, Figure] = {}
    order = iter(("shares", "mvs"))

    def keep(figure: Figure, *_: object, **__: object) -> None:
        figure.draw_without_rendering()
        figures[next(order, "densities")] = figure

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def sampled(folder: Path, question: str, readable: float = 1.0) -> ModelSamples:
    return read_samples([write_samples(folder / "a model", question, readable=readable)])[0]


def draw(folder: Path, **readable: float) -> tuple[SensitivityReport, list[ModelSamples]]:
    samples = [sampled(folder, question, share) for question, share in readable.items()]
    report = decompose_samples(samples, draws=50)
    draw_figures(report, samples, folder)
    return report, samples


def lines(axes: Axes, label: str) -> list[Line2D]:
    return [line for line in axes.lines if line.get_label() == label]


def ends(line: Line2D) -> list[float]:
    return sorted(map(float, np.asarray(line.get_xdata())))


def test_figures_are_the_same_each_time(tmp_path: Path) -> None:
    samples = [
        replace(sampled(tmp_path, "travel_commute"), model="a$b"),
        replace(sampled(tmp_path, "travel_commute", 0.0), model="none"),
        replace(sampled(tmp_path, "travel_miami"), question="/../../evil"),
    ]
    report = decompose_samples(samples, draws=20)
    first, again = (draw_figures(report, samples, tmp_path / name, ".svg") for name in "ab")
    figures = ("shares", "mvs", "densities_travel_commute", "densities__.._.._evil")
    assert [path.name for path in first] == [f"{figure}.svg" for figure in figures]
    for one, other in zip(first, again, strict=True):
        assert one.parent == tmp_path / "a"
        assert one.read_bytes() == other.read_bytes()
    assert "a$b" in first[0].read_text()


def test_densities_show_the_responses_to_each_paraphrase(
    drawn: dict[str, Figure], tmp_path: Path
) -> None:
    _, (samples,) = draw(tmp_path, travel_commute=1.0)
    figure = drawn["densities"]
    for intent, axes in enumerate(figure.axes):
        means = [np.mean(one.values) for one in samples.prompts if one.intent == intent]  # type: ignore[arg-type]
        assert len(lines(axes, "responses to a paraphrase")) == 6
        assert ends(lines(axes, "their mean")[0]) == pytest.approx(sorted(means))
        assert ends(lines(axes, "mean of the means")[0]) == pytest.approx([np.mean(means)] * 2)
    # Nothing lies on anything else.
    above = figure.legends[0].get_window_extent()
    below = figure._supxlabel.get_window_extent()  # type: ignore[attr-defined]
    for axes in figure.axes:
        panel = axes.get_tightbbox()
        assert panel is not None
        assert not panel.overlaps(above)
        assert not panel.overlaps(below)


def test_shares_have_intervals(drawn: dict[str, Figure], tmp_path: Path) -> None:
    report, _ = draw(tmp_path, travel_commute=1.0, travel_miami=0.5)
    (axes,), (domain,) = drawn["shares"].axes, report.domains
    label = "95% intervals: PS above, AS in the middle, MU below"
    purpose, articulation, chance = (domain.published[name] for name in ("ps", "as", "mu"))
    heights = [float(np.asarray(line.get_ydata())[0]) for line in lines(axes, label)]
    assert heights == sorted(heights)  # the axis points down
    assert [ends(line) for line in lines(axes, label)] == [
        pytest.approx([purpose.low, purpose.high]),
        pytest.approx([purpose.value + end for end in (articulation.low, articulation.high)]),
        pytest.approx([1 - chance.high, 1 - chance.low]),
    ]
    (floor,) = lines(axes, "AS that chance alone would give")
    assert ends(floor) == pytest.approx([purpose.value + domain.floor] * 2)


def test_domains_without_a_question_are_marked(drawn: dict[str, Figure], tmp_path: Path) -> None:
    draw(tmp_path, travel_commute=1.0, finance_tax=1.0, finance_car=0.0)
    for name in ("shares", "mvs"):
        labels = {
            axes.get_title(loc="left"): [label.get_text() for label in axes.get_yticklabels()]
            for axes in drawn[name].axes
        }
        assert labels == {"finance": ["a model *"], "travel": ["a model"]}
        (legend,) = drawn[name].legends
        assert legend.get_title().get_text().startswith("* a share is undefined for a question")
