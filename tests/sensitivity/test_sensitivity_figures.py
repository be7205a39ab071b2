"""The figures of `decompose --plot` show every number, and mark what they do not show."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from test_decompose import write_samples

from pragworld_tasks.sensitivity.figures import draw_figures
from pragworld_tasks.sensitivity.open_questions import questions
from pragworld_tasks.sensitivity.report import SensitivityReport, decompose_samples
from pragworld_tasks.sensitivity.samples import ModelSamples, SampledPrompt, read_samples

PARAPHRASES = 6


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Figures by the first word of their file's name; drawn, but not written."""
    figures: dict[str, Figure] = {}
    order = iter(("variance", "shares", "mvs"))

    def keep(figure: Figure, *_: object, **__: object) -> None:
        figure.draw_without_rendering()
        figures[next(order, "densities")] = figure

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def sampled(
    question: str,
    seed: int = 0,
    purpose: float = 10,
    wording: float = 3,
    chance: float = 8,
    scale: float = 1,
    absurd: float | None = None,
) -> ModelSamples:
    """Return responses with these effects; the first one to the second intent may be absurd."""
    generator = np.random.default_rng(seed)
    prompts = []
    for intent, slot in enumerate(questions()[question].values):
        for paraphrase in range(PARAPHRASES):
            mean = 50 + purpose * intent + wording * generator.normal()
            values = (scale * generator.normal(mean, chance, 30)).tolist()
            if absurd is not None and (intent, paraphrase) == (1, 0):
                values[0] = absurd
            responses = tuple(map(str, values))
            prompts.append(SampledPrompt(intent, paraphrase, slot, responses, tuple(values)))
    return ModelSamples(Path(question), "a model", question, "unit", tuple(prompts))


def draw(tmp_path: Path, *samples: ModelSamples) -> SensitivityReport:
    report = decompose_samples(samples, draws=50)
    draw_figures(report, samples, tmp_path)
    return report


def legend(figure: Figure) -> list[str]:
    (found,) = figure.legends
    return [found.get_title().get_text(), *(text.get_text() for text in found.get_texts())]


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def lines(axes: Axes, label: str) -> list[Line2D]:
    return [line for line in axes.lines if line.get_label() == label]


def ends(line: Line2D) -> list[float]:
    return sorted(map(float, np.asarray(line.get_xdata())))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_figures_are_the_same_each_time(tmp_path: Path, suffix: str) -> None:
    paths = [
        write_samples(tmp_path / "a$b", "travel_commute"),
        write_samples(tmp_path / "few", "travel_commute", repeats=1, readable=1.0),
        write_samples(tmp_path / "none", "travel_commute", readable=0.0),
    ]
    samples = [*read_samples(paths), sampled("travel_miami")]
    samples[-1] = ModelSamples(Path(), "two", "/../../evil", "unit", samples[-1].prompts)
    report = decompose_samples(samples, draws=20)
    first, again = (draw_figures(report, samples, tmp_path / name, suffix) for name in "ab")
    figures = ("variance", "shares", "mvs", "densities_travel_commute", "densities__.._.._evil")
    assert [path.name for path in first] == [f"{figure}{suffix}" for figure in figures]
    for one, other in zip(first, again, strict=True):
        assert one.parent == tmp_path / "a"
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_size > 1000
    assert suffix != ".svg" or "a$b" in first[1].read_text()


def test_densities_have_a_legend(drawn: dict[str, Figure], tmp_path: Path) -> None:
    draw(tmp_path, sampled("travel_commute"))
    figure = drawn["densities"]
    assert legend(figure)[1:] == ["responses to a paraphrase", "their mean", "mean of the means"]
    # Nothing lies on anything else.
    above = figure.legends[0].get_window_extent()
    below = figure._supxlabel.get_window_extent()  # type: ignore[attr-defined]
    for axes in figure.axes:
        panel = axes.get_tightbbox()
        assert panel is not None
        assert not panel.overlaps(above)
        assert not panel.overlaps(below)


def test_means_beyond_the_axis_are_counted(drawn: dict[str, Figure], tmp_path: Path) -> None:
    """One absurd answer of 30 moves the means of its prompt and of its intent."""
    draw(tmp_path, sampled("travel_commute", absurd=4.5e6))
    first, second, third = drawn["densities"].axes
    (shown,) = lines(second, "their mean")
    assert len(ends(shown)) == PARAPHRASES - 1
    assert lines(second, "mean of the means") == []
    assert texts(second) == ["1 of 6 means beyond the axis"]
    assert texts(first) == texts(third) == []


@pytest.mark.parametrize("scales", [(1e-3, 1e4), (0.3, 1), (1e5, 2e5)])
def test_ticks_of_variances_are_written_out(
    drawn: dict[str, Figure], tmp_path: Path, scales: tuple[float, float]
) -> None:
    names = ("travel_commute", "travel_miami")
    draw(tmp_path, *(sampled(name, scale=scale) for name, scale in zip(names, scales, strict=True)))
    (axes,) = drawn["variance"].axes
    low, high = axes.get_xlim()
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    shown = [(at, tick.get_text()) for at, tick in ticks if low <= at <= high]
    assert len(shown) >= 2
    assert [float(text.replace(",", "")) for _, text in shown] == pytest.approx(
        [at for at, _ in shown]
    )


def test_shares_have_intervals(drawn: dict[str, Figure], tmp_path: Path) -> None:
    report = draw(tmp_path, sampled("travel_commute"), sampled("travel_miami", seed=1))
    (axes,), (domain,) = drawn["shares"].axes, report.domains
    label = "95% intervals: PS above, AS in the middle, MU below"
    purpose, articulation, chance = (domain.published[name] for name in ("ps", "as", "mu"))
    heights = [float(np.asarray(line.get_ydata())[0]) for line in lines(axes, label)]
    assert heights == sorted(heights)  # the axis points down
    assert [ends(line) for line in lines(axes, label)] == [
        pytest.approx(purpose.interval),
        pytest.approx([purpose.value + end for end in articulation.interval]),
        pytest.approx([1 - chance.high, 1 - chance.low]),
    ]
    (floor,) = lines(axes, "AS that chance alone would give")
    assert ends(floor) == pytest.approx([purpose.value + domain.floor] * 2)


def test_questions_that_are_not_in_a_mean_are_marked(
    drawn: dict[str, Figure], tmp_path: Path
) -> None:
    unreadable = sampled("finance_car")
    draw(
        tmp_path,
        *(sampled("travel_commute"), sampled("finance_tax")),
        unreadable.with_values([None] * len(unreadable.values)),
        sampled("health_hike", seed=2, purpose=0, wording=0),
    )
    marked = {
        name: [
            (axes.get_title(loc="left"), label.get_text())
            for axes in drawn[name].axes
            for label in axes.get_yticklabels()
            if label.get_text().endswith(" *")
        ]
        for name in ("variance", "shares", "mvs")
    }
    assert marked == {
        "variance": [("", "finance_car *")],
        "shares": [("finance", "a model *")],
        "mvs": [("health", "a model *"), ("finance", "a model *")],
    }
    for name in marked:
        assert legend(drawn[name])[0].startswith("* without questions where it is undefined")
    assert texts(drawn["mvs"].axes[0]) == ["undefined"]  # the unbiased one
    assert legend(drawn["densities"])[0] == ""
