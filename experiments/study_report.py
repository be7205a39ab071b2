"""The report of a study: means over seeds compared with plain SFT, as tables and a figure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pragworld_tasks.evaluation.statistics import (
    LEVEL,
    Floats,
    Interval,
    Tally,
    robust_tally,
    tally,
)
from pragworld_tasks.figures import figure_file
from pragworld_tasks.layers.ablation_report import read_layers
from pragworld_tasks.text import format_number, format_size, markdown_table

BASE = "base"  # the model before training
REFERENCE = "sft"  # what the others are compared with
RESAMPLES = 2000


@dataclass(frozen=True)
class StudyRun:
    """One way of training with one seed.

    Attributes:
        arm: One of `study.ARMS`, or `BASE`.
        seed: The seed of training; 0 for `BASE`, which is not trained.
        folder: The folder of the run.
    """

    arm: str
    seed: int
    folder: Path


class _Format(NamedTuple):
    """How a measure is shown: its heading, its unit and its number of decimals."""

    heading: str
    scale: float
    digits: int


_ANSWERS = {
    "test_accuracy": _Format("test", 100, 1),
    "test_robust": _Format("test, robust", 100, 1),
    "held_out_accuracy": _Format("held-out alteration", 100, 1),
    "vocabulary_accuracy": _Format("held-out words", 100, 1),
    "vocabulary_robust": _Format("held-out words, robust", 100, 1),
    "manual_accuracy": _Format("manual", 100, 1),
    "manual_robust": _Format("manual, robust", 100, 1),
}
_TEXT = {"log_likelihood": _Format("log-likelihood of a word", 1, 3)}
_LAYERS = {
    "probe_accuracy": _Format("probes of useful layers", 100, 1),
    "mean_square": _Format("mean square, harmful layers", 1, 2),
    "useful_effect": _Format("ablating useful layers", 100, 2),
    "harmful_effect": _Format("ablating harmful layers", 100, 2),
}


@dataclass(frozen=True)
class ArmMeasure:
    """One measure of one arm.

    Attributes:
        by_seed: Its value for each seed.
        interval: Interval of the mean over seeds.
        difference: The mean minus that of plain SFT; None for plain SFT itself, or without it.
        difference_interval: Interval of the difference.
    """

    by_seed: list[float]
    interval: Interval
    difference: float | None
    difference_interval: Interval | None

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return float(np.mean(self.by_seed))


@dataclass(frozen=True)
class StudyReport:
    """The measures of all arms of a study.

    Attributes:
        arms: Measures by arm and name.
        seeds: Seeds of the trained models.
        documents: Number of documents in the test split.
        groups: Number of their groups.
        useful: The layers that were amplified.
        harmful: The layers that were suppressed.
        ablated_again: Useful and harmful layers by sign after training, by arm and seed.
    """

    arms: dict[str, dict[str, ArmMeasure]]
    seeds: list[int]
    documents: int
    groups: int
    useful: tuple[int, ...]
    harmful: tuple[int, ...]
    ablated_again: dict[str, dict[int, tuple[list[int], list[int]]]]

    def to_text(self) -> str:
        """Return Markdown tables of all measures and of their differences from plain SFT."""
        seeds = ", ".join(map(str, self.seeds))
        level = f"{LEVEL:.0%} intervals over groups and seeds"
        answers = {**_ANSWERS, **_TEXT}
        others = {arm: self.arms[arm] for arm in self.arms if arm != REFERENCE}
        compared = REFERENCE in self.arms and others
        parts = [
            _table(
                f"Accuracy in percent, means over seeds {seeds}; test: "
                f"{format_size(self.documents, self.groups)}; documents with the "
                "held-out alteration count there alone",
                self.arms,
                answers,
            )
        ]
        if compared:
            title = f"Minus plain SFT, in points, with {level}"
            parts.append(_table(title, others, answers, differences=True))
        title = (
            f"Layers: useful {_listed(self.useful)}, harmful {_listed(self.harmful)} (accuracy of "
            f"new probes, size of MLP outputs, accuracy ablated minus plain in points, {level})"
        )
        parts.append(_table(title, self.arms, _LAYERS, intervals=True))
        if compared:
            title = "Layers, minus plain SFT, with the same intervals"
            parts.append(_table(title, others, _LAYERS, differences=True))
        parts.append("Ablated again, layers useful and harmful by sign, a pair for each seed:\n")
        for arm, by_seed in self.ablated_again.items():
            pairs = (
                f"{_listed(useful)} and {_listed(harmful)}" for useful, harmful in by_seed.values()
            )
            parts.append(f"- {arm}: {'; '.join(pairs)}")
        return "\n".join([*parts, ""])

    def draw(self, path: Path) -> None:
        """Draw the accuracies of all arms minus those of plain SFT, or as they are without it.

        Points are means over seeds with their intervals, ticks are single seeds.
        """
        reference = self.arms.get(REFERENCE)
        arms = [arm for arm in self.arms if arm != REFERENCE]
        first = next(iter(self.arms.values()))
        formats = {name: shown for name, shown in _ANSWERS.items() if name in first}
        columns = min(4, len(formats))
        rows = -(-len(formats) // columns)
        size = 2.2 * columns + 1, (0.28 * len(arms) + 0.8) * rows + 0.2
        with figure_file(path, *size) as drawing:
            grid = drawing.subplots(rows, columns, sharey=True, squeeze=False)
            for axes in list(grid.flat)[len(formats) :]:
                axes.set_visible(False)
            for axes, (name, shown) in zip(grid.flat, formats.items(), strict=False):
                heading, level = shown.heading, np.zeros(1)
                if reference is not None:
                    level = np.array(reference[name].by_seed)
                    heading += f"\nplain SFT: {shown.scale * level.mean():.{shown.digits}f} %"
                for place, arm in enumerate(arms):
                    measure = self.arms[arm][name]
                    ends = measure.difference_interval or measure.interval
                    seeds = shown.scale * (np.array(measure.by_seed) - level)
                    color = "0.35" if arm == BASE else "#0072B2"
                    axes.plot([shown.scale * end for end in ends], [place] * 2, color=color, lw=1.5)
                    axes.plot(seeds.mean(), place, "o", color=color, markersize=5)
                    ticks = np.full(len(seeds), place - 0.3)
                    axes.plot(seeds, ticks, "|", color=color, markersize=5)
                axes.axvline(0, color="0.35", linestyle=(0, (1, 1)), linewidth=1)
                axes.set_title(heading)
            for axes in grid[:, 0]:
                axes.set_yticks(range(len(arms)), arms)
                axes.set_ylim(len(arms) - 0.4, -0.6)
            unit = "accuracy, %" if reference is None else "minus plain SFT, in points"
            drawing.supxlabel(
                f"{unit}: mean over seeds, {LEVEL:.0%} interval over groups and seeds; ticks: "
                "single seeds",
                fontsize=8,
            )


def make_study_report(
    runs: Sequence[StudyRun],
    useful: Sequence[int],
    harmful: Sequence[int],
    held_out: str | None,
) -> StudyReport:
    """Measure the runs of a study and compare its arms.

    Args:
        runs: The runs, with the same seeds in every trained arm.
        useful: The layers that were amplified.
        harmful: The layers that were suppressed.
        held_out: The alteration that was left out of training.
    """
    tallies: dict[str, dict[str, list[Tally]]] = {}
    ablated_again: dict[str, dict[int, tuple[list[int], list[int]]]] = {}
    for run in runs:
        of_arm = tallies.setdefault(run.arm, {})
        for name, measured in _run_tallies(run.folder, useful, harmful, held_out).items():
            of_arm.setdefault(name, []).append(measured)
        ablated = read_layers(run.folder / "layers.json")
        layers = (
            ablated.selected_layers("useful", by="sign"),
            ablated.selected_layers("harmful", by="sign"),
        )
        ablated_again.setdefault(run.arm, {})[run.seed] = layers
    reference = tallies.get(REFERENCE, {})
    arms = {
        arm: {
            name: _measure(by_seed, reference.get(name) if arm != REFERENCE else None)
            for name, by_seed in measures.items()
        }
        for arm, measures in tallies.items()
    }
    documents = samples(runs[0].folder / "test", "pragworld_generated_mc")
    return StudyReport(
        arms,
        sorted({run.seed for run in runs if run.arm != BASE}),
        len(documents),
        len({sample["doc"]["group"] for sample in documents}),
        tuple(useful),
        tuple(harmful),
        ablated_again,
    )


# Measures of one run ------------------------------------------------------------------------------


def samples(folder: Path, task: str) -> list[dict[str, Any]]:
    """Return the samples of a task in a folder of lm-eval; none if it was not evaluated."""
    return [
        json.loads(line)
        for path in folder.rglob(f"samples_{task}_*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def _run_tallies(
    folder: Path, useful: Sequence[int], harmful: Sequence[int], held_out: str | None
) -> dict[str, Tally]:
    """Return all measures of one run as sums within groups."""
    tallies: dict[str, Tally] = {}
    for name, split, task in (
        ("test", "test", "pragworld_generated_mc"),
        ("vocabulary", "test_vocabulary", "pragworld_generated_mc"),
        ("manual", "test", "pragworld_manual_mc"),
    ):
        answered = samples(folder / split, task)
        if not answered:  # the manual split was not available
            continue
        correct = np.array([sample["acc"] for sample in answered], dtype=np.float64)
        groups = [sample["doc"]["group"] for sample in answered]
        # Every generated group has the held-out alteration, which is measured separately.
        apart = np.array(
            [
                held_out is not None
                and name != "manual"
                and sample["doc"]["alteration"] == held_out
                for sample in answered
            ]
        )
        tallies[f"{name}_accuracy"] = tally(correct, ~apart, groups)
        kept = [group for group, is_apart in zip(groups, apart, strict=True) if not is_apart]
        tallies[f"{name}_robust"] = robust_tally(correct[~apart], kept, kept)
        if name == "test" and held_out is not None:
            tallies["held_out_accuracy"] = tally(correct, apart, groups)
    words = sorted(
        (sample["doc_id"], *sample["word_perplexity"])
        for sample in samples(folder / "test", "pragworld_generated_perplexity")
    )
    log_likelihoods = np.array(words, dtype=np.float64)[:, 1:]
    tallies["log_likelihood"] = Tally(log_likelihoods[:, 0], log_likelihoods[:, 1])
    probes = json.loads((folder / "probes.json").read_text(encoding="utf-8"))
    for name, layers, field in (
        ("probe_accuracy", useful, "right"),
        ("mean_square", harmful, "mean_squares"),
    ):
        if layers:
            values = np.mean([probes["layers"][layer][field] for layer in layers], axis=0)
            tallies[name] = _mean_tally(values, probes["groups"])
    ablated = read_layers(folder / "layers.json").documents
    right = (np.array([document.gold for document in ablated]) > 0.5).astype(np.float64)
    for name, layers in (("useful_effect", useful), ("harmful_effect", harmful)):
        if layers:
            effects = right[:, [1 + layer for layer in layers]].mean(1) - right[:, 0]
            tallies[name] = _mean_tally(effects, [document.group for document in ablated])
    return tallies


def _mean_tally(values: Floats, groups: Sequence[int]) -> Tally:
    """Return the tally of a mean over documents, from [documents] values and groups."""
    return tally(values, np.ones(len(groups)), groups)


# Intervals ----------------------------------------------------------------------------------------


def _measure(runs: Sequence[Tally], reference: Sequence[Tally] | None) -> ArmMeasure:
    draws = _draws(runs)
    shares = [run.share for run in runs]
    if reference is None:
        return ArmMeasure(shares, _percentile_interval(draws), None, None)
    # Runs of one seed see the same documents in the same order, so they are drawn together. The
    # base model has no seed, and is compared with the runs of every seed.
    pairs = runs if len(runs) == len(reference) else list(runs) * len(reference)
    difference = float(np.mean(shares) - np.mean([run.share for run in reference]))
    interval = _percentile_interval(_draws(pairs) - _draws(reference))
    return ArmMeasure(shares, _percentile_interval(draws), difference, interval)


def _draws(runs: Sequence[Tally]) -> Floats:
    """Return [resamples] means over seeds in crossed draws of groups and of seeds."""
    generator = np.random.default_rng(0)  # the same for all arms
    total = np.stack([run.total for run in runs])
    right = np.stack([run.right for run in runs])
    seeds, groups = right.shape
    times = generator.multinomial(groups, np.full(groups, 1 / groups), size=RESAMPLES)
    with np.errstate(invalid="ignore"):
        shares = (times @ right.T) / (times @ total.T)
    drawn = np.random.default_rng(1).integers(seeds, size=(RESAMPLES, seeds))
    means: Floats = np.take_along_axis(shares, drawn, axis=1).mean(1)
    return means


def _percentile_interval(draws: Floats) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.nanquantile(draws, [tail, 1 - tail])
    return Interval(float(low), float(high))


# Tables -------------------------------------------------------------------------------------------


def _table(
    title: str,
    arms: Mapping[str, Mapping[str, ArmMeasure]],
    formats: Mapping[str, _Format],
    differences: bool = False,
    intervals: bool = False,
) -> str:
    shown = {
        name: style
        for name, style in formats.items()
        if any(name in measures for measures in arms.values())
    }
    rows = []
    for arm, measures in arms.items():
        cells = [arm]
        for name, style in shown.items():
            measure = measures[name]
            value = measure.difference if differences else measure.mean
            ends = measure.difference_interval if differences else measure.interval
            assert value is not None
            assert ends is not None
            cell = _number(value, style, "+" if differences else "")
            if differences or intervals:
                cell += f" ({_number(ends.low, style)} to {_number(ends.high, style)})"
            cells.append(cell)
        rows.append(cells)
    return markdown_table(title, ["", *(style.heading for style in shown.values())], rows)


def _number(value: float, style: _Format, sign: str = "") -> str:
    return format_number(style.scale * value, f"{sign}.{style.digits}f")


def _listed(layers: Sequence[int]) -> str:
    return " ".join(map(str, layers)) or "none"
