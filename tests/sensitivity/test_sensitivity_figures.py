"""The figures of `decompose --plot` show every number, and say what they do not show."""

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pragworld_tasks.sensitivity.figures import draw_figures
from pragworld_tasks.sensitivity.open_questions import questions
from pragworld_tasks.sensitivity.report import SensitivityReport, decompose_samples
from pragworld_tasks.sensitivity.samples import ModelSamples, SampledPrompt

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
            prompts.append(
                SampledPrompt(intent, paraphrase, slot, "", responses, values=tuple(values))
            )
    return ModelSamples(Path(question), "a model", question, "unit", tuple(prompts))


def draw(tmp_path: Path, *samples: ModelSamples) -> SensitivityReport:
    report = decompose_samples(samples, draws=50)
    draw_figures(report, tmp_path)
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


def test_densities_have_a_legend(drawn: dict[str, Figure], tmp_path: Path) -> None:
    draw(tmp_path, sampled("travel_commute"))
    figure = drawn["densities"]
    assert legend(figure)[1:] == ["responses to a paraphrase", "their mean", "mean of the means"]
    (handles,) = [found.legend_handles for found in figure.legends]
    colors = {line.get_label(): line.get_color() for axes in figure.axes for line in axes.lines}
    for handle in handles:
        assert isinstance(handle, Line2D)
        assert handle.get_color() == colors[handle.get_label()]
    # Nothing lies on anything else.
    above = figure.legends[0].get_window_extent()
    below = figure._supxlabel.get_window_extent()  # type: ignore[attr-defined]
    for axes in figure.axes:
        panel = axes.get_tightbbox()
        assert panel is not None
        assert not panel.overlaps(above)
        assert not panel.overlaps(below)


@pytest.mark.parametrize(("absurd", "arrow"), [(-40.0, "<"), (200.0, ">")])
def test_means_beyond_the_axis_are_pointed_to(
    drawn: dict[str, Figure], tmp_path: Path, absurd: float, arrow: str
) -> None:
    """One absurd answer of 30 moves its prompt's mean, or also the mean of the intent."""
    samples = sampled("travel_commute", purpose=0, wording=0, chance=0.3, absurd=absurd)
    draw(tmp_path, samples)
    first, second, third = drawn["densities"].axes
    (mark,) = lines(second, "means beyond the axis")
    assert mark.get_marker() == arrow
    assert not mark.get_clip_on()
    assert second.get_xlim()[arrow == ">"] == pytest.approx(50, abs=2)
    (shown,) = lines(second, "their mean")
    assert len(ends(shown)) == PARAPHRASES - 1
    assert texts(second)[0] == "1"
    assert texts(first) == texts(third) == []
    assert "means beyond the axis" in legend(drawn["densities"])


def test_a_mean_of_means_beyond_the_axis_is_written_down(
    drawn: dict[str, Figure], tmp_path: Path
) -> None:
    draw(tmp_path, sampled("travel_commute", absurd=4.5e6))
    _, second, _ = drawn["densities"].axes
    assert lines(second, "mean of the means") == []
    value = 4.5e6 / 30 / PARAPHRASES + 60 * (1 - 1 / 30 / PARAPHRASES)
    assert [float(text.replace(",", "")) for text in texts(second)] == [
        1,
        pytest.approx(value, rel=0.01),
    ]
    assert "mean of the means beyond it" in legend(drawn["densities"])


def test_a_panel_without_a_readable_response_says_so(
    drawn: dict[str, Figure], tmp_path: Path
) -> None:
    samples = sampled("travel_commute")
    draw(tmp_path, samples.with_values([None] * len(samples.values)))
    assert [texts(axes) for axes in drawn["densities"].axes] == [["no readable response"]] * 3


def test_marks_at_the_edge_are_whole(drawn: dict[str, Figure], tmp_path: Path) -> None:
    """MVS of 1 and the floor of AS beside a PS of 1."""
    report = draw(tmp_path, sampled("travel_commute", purpose=1e3, wording=0.01, chance=0.01))
    (domain,) = report.domains
    assert domain.published["mvs"].value == pytest.approx(1)
    for name in ("mvs", "shares"):
        (axes,) = drawn[name].axes
        marks = [line for line in axes.lines if len(line.get_xdata())]  # type: ignore[arg-type]
        assert marks
        for line in marks:
            assert not line.get_clip_on()
            assert 0 <= min(ends(line)) <= max(ends(line)) <= 1


@pytest.mark.parametrize("scales", [(1e-3, 1e4), (0.1, 10), (0.3, 1), (300, 2e3), (1e5, 2e5)])
def test_ticks_of_variances_have_one_format(
    drawn: dict[str, Figure], tmp_path: Path, scales: tuple[float, float]
) -> None:
    names = ("travel_commute", "travel_miami")
    draw(tmp_path, *(sampled(name, scale=scale) for name, scale in zip(names, scales, strict=True)))
    (axes,) = drawn["variance"].axes
    low, high = axes.get_xlim()
    shown = [
        (at, tick.get_text())
        for at, tick in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if low <= at <= high
    ]
    assert len(shown) >= 2
    power = re.compile(r"(?:(?P<factor>[25])·)?10(?P<power>[⁻⁰¹²³⁴-⁹]+)")
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    powers = [power.fullmatch(text) for _, text in shown]
    assert all(powers) or not any(powers)
    for (at, text), found in zip(shown, powers, strict=True):
        value = (
            float(found["factor"] or 1) * 10.0 ** int(found["power"].translate(raised))
            if found
            else float(text.replace(",", ""))
        )
        assert value == pytest.approx(at)
        assert "e" not in text


def test_models_with_equal_variances_do_not_hide_each_other(
    drawn: dict[str, Figure], tmp_path: Path
) -> None:
    first = sampled("travel_commute")
    second = ModelSamples(first.path, "another model", *("travel_commute", "unit", first.prompts))
    draw(tmp_path, first, second)
    (axes,) = drawn["variance"].axes
    heights = [float(np.asarray(line.get_ydata())[0]) for line in axes.lines]
    assert len(set(heights)) == 2
    assert np.mean(heights) == pytest.approx(0)


def test_shares_have_intervals(drawn: dict[str, Figure], tmp_path: Path) -> None:
    report = draw(tmp_path, sampled("travel_commute"), sampled("travel_miami", seed=1))
    (axes,), (domain,) = drawn["shares"].axes, report.domains
    label = "95% intervals: PS above, AS in the middle, MU below"
    assert label in legend(drawn["shares"])
    purpose, articulation, chance = (domain.published[name] for name in ("ps", "as", "mu"))
    heights = [float(np.asarray(line.get_ydata())[0]) for line in lines(axes, label)]
    assert heights == sorted(heights)  # the axis points down
    assert [ends(line) for line in lines(axes, label)] == [
        pytest.approx(purpose.interval),
        pytest.approx([purpose.value + end for end in articulation.interval]),
        pytest.approx([1 - chance.interval.high, 1 - chance.interval.low]),
    ]


def test_questions_that_are_not_in_a_mean_are_named(
    drawn: dict[str, Figure], tmp_path: Path
) -> None:
    unreadable = sampled("finance_car")
    constant = sampled("finance_tax", purpose=0, wording=0, chance=0)
    by_chance = sampled("finance_rent", seed=2, purpose=0, wording=0)
    report = draw(
        tmp_path,
        *(sampled("travel_commute"), constant, by_chance),
        unreadable.with_values([None] * len(unreadable.values)),
    )
    assert report.domains[0].left_out["unbiased"]["mvs"] == (
        *("finance_tax", "finance_car", "finance_rent"),
    )
    starred = {
        "variance": ["finance_tax", "finance_car"],
        "shares": ["finance"],
        "mvs": ["finance"],
    }
    notes = {
        "variance": "* variance 0 or undefined, so not shown: finance_tax of a model; finance_car "
        "of a model",
        "shares": "* undefined, so not in the mean: finance_tax of a model; finance_car of a model",
        "mvs": "* undefined, so not in the mean: finance_tax of a model (published and unbiased); "
        "finance_car of a model (published and unbiased); finance_rent of a model (unbiased)",
    }
    for name, note in notes.items():
        figure = drawn[name]
        assert legend(figure)[0].replace("\n", " ") == note
        labels = [
            (axes.get_title(loc="left"), tick.get_text())
            for axes in figure.axes
            for tick in axes.get_yticklabels()
        ]
        found = [title or text.removesuffix(" *") for title, text in labels if text.endswith(" *")]
        assert found == starred[name]
    assert texts(drawn["mvs"].axes[0]) == ["undefined"]  # the unbiased one


def test_figures_without_a_gap_have_no_note(drawn: dict[str, Figure], tmp_path: Path) -> None:
    draw(tmp_path, sampled("travel_commute"))
    for figure in drawn.values():
        assert legend(figure)[0] == ""
        assert "*" not in "".join(
            tick.get_text() for axes in figure.axes for tick in axes.get_yticklabels()
        )
