"""What a study found: means over seeds, beside plain SFT, as tables and a figure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pragworld_interp.layer_report import read_layers, selected
from pragworld_tasks.evaluation import reports
from pragworld_tasks.evaluation.metrics import LEVEL, Floats, Interval, Tally, robust_tally, tally
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.evaluation.scoring import to_run
from pragworld_tasks.figures import figure_file
from pragworld_tasks.files import read_json_lines
from pragworld_train.evaluation import asked, samples_files
from pragworld_train.experiments.probing import read_probed

REFERENCE = "sft"  # what the others are compared with
RESAMPLES = 2000

# What is measured: the heading, what it is multiplied by, and how many decimals are shown.
_SHOWN: dict[str, tuple[str, float, int]] = {
    "test_accuracy": ("test", 100, 1),
    "test_robust": ("test, robust", 100, 1),
    "held_out_accuracy": ("held-out alteration", 100, 1),
    "vocabulary_accuracy": ("held-out words", 100, 1),
    "vocabulary_robust": ("held-out words, robust", 100, 1),
    "manual_accuracy": ("manual", 100, 1),
    "manual_robust": ("manual, robust", 100, 1),
    "log_likelihood": ("log-likelihood of a word", 1, 3),
    "probe_accuracy": ("probes of useful layers", 100, 1),
    "mean_square": ("mean square, harmful layers", 1, 2),
    "useful_effect": ("ablating useful layers", 100, 2),
    "harmful_effect": ("ablating harmful layers", 100, 2),
}
_ANSWERS = (
    *("test_accuracy", "test_robust", "held_out_accuracy"),
    *("vocabulary_accuracy", "vocabulary_robust", "manual_accuracy", "manual_robust"),
)
_LAYERS = ["probe_accuracy", "mean_square", "useful_effect", "harmful_effect"]


@dataclass(frozen=True)
class Result:
    """One run of a study.

    Attributes:
        arm: how it was trained.
        seed: of training.
        folder: what it left.
    """

    arm: str
    seed: int
    folder: Path


@dataclass(frozen=True)
class Measured:
    """One measure of one arm.

    Attributes:
        by_seed: its value for each seed.
        interval: of their mean.
        difference: the mean minus that of plain SFT; None of plain SFT itself, or without it.
        difference_interval: of that.
    """

    by_seed: list[float]
    interval: Interval
    difference: float | None
    difference_interval: Interval | None

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(np.mean(self.by_seed))


@dataclass(frozen=True)
class Report:
    """All arms, by name, and their measures.

    Attributes:
        arms: measures by arm.
        seeds: of the trained ones.
        documents, groups: of the test split.
        useful, harmful: the layers that were found.
        found: useful and harmful layers by sign, when ablated again: arm, then seed.
    """

    arms: dict[str, dict[str, Measured]]
    seeds: list[int]
    documents: int
    groups: int
    useful: tuple[int, ...]
    harmful: tuple[int, ...]
    found: dict[str, dict[int, tuple[list[int], list[int]]]]


def report(
    results: Sequence[Result],
    useful: Sequence[int],
    harmful: Sequence[int],
    held_out: str | None,
) -> Report:
    """Puts the runs of a study together.

    Args:
        results: its runs, those of one arm with the same seeds as those of another.
        useful: the layers that were found to be.
        harmful: those that were found to be harmful.
        held_out: the alteration that training did without.
    """
    tallies: dict[str, dict[str, list[Tally]]] = {}
    found: dict[str, dict[int, tuple[list[int], list[int]]]] = {}
    for one in results:
        of_arm = tallies.setdefault(one.arm, {})
        for name, measured in _measures(one.folder, useful, harmful, held_out).items():
            of_arm.setdefault(name, []).append(measured)
        ablated = read_layers(one.folder / "layers.json")
        found.setdefault(one.arm, {})[one.seed] = (
            selected(ablated, "useful"),
            selected(ablated, "harmful"),
        )
    reference = tallies.get(REFERENCE, {})
    arms = {
        arm: {
            name: _measured(runs, reference.get(name) if arm != REFERENCE else None)
            for name, runs in measures.items()
        }
        for arm, measures in tallies.items()
    }
    documents = asked(samples_files(results[0].folder / "test")["pragworld_generated_mc"])
    return Report(
        arms,
        sorted({one.seed for one in results if one.arm in _trained(tallies)}),
        len(documents),
        len({document.group for document in documents}),
        tuple(useful),
        tuple(harmful),
        found,
    )


def _trained(arms: Mapping[str, Any]) -> list[str]:
    return [arm for arm in arms if arm != "base"]


# Measures of one run ------------------------------------------------------------------------------


def _measures(
    folder: Path, useful: Sequence[int], harmful: Sequence[int], held_out: str | None
) -> dict[str, Tally]:
    """Everything that is measured, as sums within groups."""
    found: dict[str, Tally] = {}
    for name, place, task in (
        ("test", "test", "pragworld_generated_mc"),
        ("vocabulary", "test_vocabulary", "pragworld_generated_mc"),
        ("manual", "test", "pragworld_manual_mc"),
    ):
        path = samples_files(folder / place).get(task)
        if path is None:  # the manual split was not on this machine
            continue
        documents = asked(path)
        run = to_run(documents, read_predictions([path], documents).ours)
        group = np.unique(run.group, return_inverse=True)[1]
        # Of generated documents every group has the alteration that was held out: it is apart.
        apart = np.array([name != "manual" and one.alteration == held_out for one in documents])
        apart &= held_out is not None  # originals have none either
        found[f"{name}_accuracy"] = tally(run.correct, ~apart, group)
        found[f"{name}_robust"] = robust_tally(run.correct[~apart], group[~apart], group[~apart])
        if name == "test" and held_out is not None:
            found["held_out_accuracy"] = tally(run.correct, apart, group)
    found["log_likelihood"] = _log_likelihood(folder)
    probes = read_probed(folder / "probes.json")
    group = np.unique(probes.groups, return_inverse=True)[1]
    for name, numbers, field in (
        ("probe_accuracy", useful, "right"),
        ("mean_square", harmful, "mean_squares"),
    ):
        if numbers:
            values = np.mean([getattr(probes.layers[number], field) for number in numbers], axis=0)
            found[name] = tally(values, np.ones(len(group)), group)
    return found | _effects(folder, useful, harmful)


def _log_likelihood(folder: Path) -> Tally:
    """Of generated text, a sum over words in each document."""
    path = samples_files(folder / "test")["pragworld_generated_perplexity"]
    pairs = {record["doc_id"]: record["word_perplexity"] for _, record in read_json_lines(path)}
    array = np.array([pairs[number] for number in sorted(pairs)], dtype=np.float64)
    return Tally(array[:, 0], array[:, 1])


def _effects(folder: Path, useful: Sequence[int], harmful: Sequence[int]) -> dict[str, Tally]:
    """Accuracy with a layer ablated minus accuracy without, a mean over layers of a kind."""
    ablated = read_layers(folder / "layers.json")
    yes = np.array([document.yes for document in ablated.documents])
    is_yes = np.array([document.answer == "yes" for document in ablated.documents])
    right = np.where(is_yes[:, None], yes > 0.5, yes < 0.5).astype(np.float64)
    group = np.unique([document.group for document in ablated.documents], return_inverse=True)[1]
    return {
        f"{name}_effect": tally(
            right[:, [1 + number for number in numbers]].mean(1) - right[:, 0],
            np.ones(len(group)),
            group,
        )
        for name, numbers in (("useful", useful), ("harmful", harmful))
        if numbers
    }


# Intervals ----------------------------------------------------------------------------------------


def _measured(runs: Sequence[Tally], reference: Sequence[Tally] | None) -> Measured:
    first = _draws(runs)
    shares = [run.share for run in runs]
    if reference is None:
        return Measured(shares, _middle(first), None, None)
    # Runs of one seed see the same order of the same documents, so they are drawn together; the
    # base model goes with every seed.
    pairs = runs if len(runs) == len(reference) else list(runs) * len(reference)
    difference = float(np.mean(shares) - np.mean([run.share for run in reference]))
    return Measured(shares, _middle(first), difference, _middle(_draws(pairs) - _draws(reference)))


def _draws(runs: Sequence[Tally]) -> Floats:
    """[resamples] means over seeds, of draws of groups and of seeds, which are crossed."""
    generator = np.random.default_rng(0)  # the same for what is compared
    total = np.stack([run.total for run in runs])
    right = np.stack([run.right for run in runs])
    seeds, groups = right.shape
    times = generator.multinomial(groups, np.full(groups, 1 / groups), size=RESAMPLES)
    with np.errstate(invalid="ignore"):
        shares = (times @ right.T) / (times @ total.T)
    drawn = np.random.default_rng(1).integers(seeds, size=(RESAMPLES, seeds))
    means: Floats = np.take_along_axis(shares, drawn, axis=1).mean(1)
    return means


def _middle(draws: Floats) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.nanquantile(draws, [tail, 1 - tail])
    return Interval(float(low), float(high))


# Shown --------------------------------------------------------------------------------------------


def to_text(found: Report) -> str:
    """Three Markdown tables, and how to read them."""
    seeds = ", ".join(map(str, found.seeds))
    title = (
        f"Accuracy in percent, means over seeds {seeds}; test: {found.documents} documents, "
        f"{found.groups} groups; what a held-out alteration made of them counts there alone"
    )
    against = {arm: found.arms[arm] for arm in found.arms if arm != REFERENCE}
    layers = (
        f"Layers: useful {_listed(found.useful)}, harmful {_listed(found.harmful)} (accuracy of "
        "new probes, size of MLP outputs, accuracy ablated minus plain in points)"
    )
    parts = [_table(title, found.arms, [*_ANSWERS, "log_likelihood"], differences=False)]
    minus = f"Minus plain SFT, in points, with {LEVEL:.0%} intervals over groups and seeds"
    compared = REFERENCE in found.arms and against
    if compared:
        parts.append(_table(minus, against, [*_ANSWERS, "log_likelihood"], differences=True))
    parts.append(_table(layers, found.arms, _LAYERS, differences=False, intervals=True))
    if compared:
        parts.append(
            _table(
                "Layers, minus plain SFT, with the same intervals",
                against,
                _LAYERS,
                differences=True,
            )
        )
    parts.append(_ablated_again(found))
    return "\n".join(parts)


def _table(
    title: str,
    arms: Mapping[str, Mapping[str, Measured]],
    wanted: Sequence[str],
    differences: bool,
    intervals: bool = False,
) -> str:
    names = [name for name in wanted if any(name in measures for measures in arms.values())]
    rows = []
    for arm, measures in arms.items():
        cells = [arm]
        for name in names:
            one = measures[name]
            value = one.difference if differences else one.mean
            ends = one.difference_interval if differences else one.interval
            assert value is not None
            assert ends is not None
            sign = "+" if differences else ""
            shown = _number(value, name, sign)
            if differences or intervals:
                low, high = (_number(end, name, "") for end in ends)
                shown += f" ({low} to {high})"
            cells.append(shown)
        rows.append(cells)
    return reports.table(title, ["", *(_SHOWN[name][0] for name in names)], rows)


def _number(value: float, name: str, sign: str) -> str:
    _, scale, digits = _SHOWN[name]
    return "-" if math.isnan(value) else f"{scale * value:{sign}.{digits}f}"


def _ablated_again(found: Report) -> str:
    """Which layers are useful and harmful now."""
    lines = ["Ablated again, layers useful and harmful by sign, a pair for each seed:\n"]
    for arm, by_seed in found.found.items():
        pairs = "; ".join(
            f"{_listed(useful)} and {_listed(harmful)}" for useful, harmful in by_seed.values()
        )
        lines.append(f"- {arm}: {pairs}")
    return "\n".join([*lines, ""])


def _listed(layers: Sequence[int]) -> str:
    return " ".join(map(str, layers)) or "none"


def to_json(found: Report) -> dict[str, Any]:
    """The report as JSON has it, shares as they are (not in percent)."""
    return {
        "seeds": found.seeds,
        "documents": found.documents,
        "groups": found.groups,
        "useful": list(found.useful),
        "harmful": list(found.harmful),
        "intervals": f"{LEVEL:.0%}, bootstrap over groups and seeds, {RESAMPLES} resamples",
        "arms": {
            arm: {
                name: {
                    "by_seed": one.by_seed,
                    "mean": one.mean,
                    "interval": list(one.interval),
                    "difference": one.difference,
                    "difference_interval": one.difference_interval
                    and list(one.difference_interval),
                }
                for name, one in measures.items()
            }
            for arm, measures in found.arms.items()
        },
        "ablated_again": {
            arm: {str(seed): list(pair) for seed, pair in by_seed.items()}
            for arm, by_seed in found.found.items()
        },
    }


def figure(found: Report, path: Path) -> None:
    """Draws how far the answers of every arm are from those of plain SFT.

    Means over seeds with their intervals, and the seeds as ticks; without plain SFT, from 0.
    """
    first = next(iter(found.arms.values()))
    names = [name for name in _ANSWERS if name in first]
    reference = found.arms.get(REFERENCE)
    arms = [arm for arm in found.arms if arm != REFERENCE]
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    with figure_file(path, 2.2 * columns + 1, (0.28 * len(arms) + 0.8) * rows + 0.2) as drawing:
        grid = drawing.subplots(rows, columns, sharey=True, squeeze=False)
        for axes in list(grid.flat)[len(names) :]:
            axes.set_visible(False)
        for axes, name in zip(grid.flat, names, strict=False):
            heading, scale, digits = _SHOWN[name]
            level = np.zeros(1)
            if reference is not None:
                level = np.array(reference[name].by_seed)
                heading += f"\nplain SFT: {scale * level.mean():.{digits}f} %"
            for place, arm in enumerate(arms):
                one = found.arms[arm][name]
                ends = one.difference_interval or one.interval
                color = "0.35" if arm == "base" else "#0072B2"
                seeds = scale * (np.array(one.by_seed) - level)
                axes.plot([scale * end for end in ends], [place] * 2, color=color, linewidth=1.5)
                axes.plot(seeds.mean(), place, "o", color=color, markersize=5)
                axes.plot(seeds, np.full(len(seeds), place - 0.3), "|", color=color, markersize=5)
            axes.axvline(0, color="0.35", linestyle=(0, (1, 1)), linewidth=1)
            axes.set_title(heading)
        for axes in grid[:, 0]:
            axes.set_yticks(range(len(arms)), arms)
            axes.set_ylim(len(arms) - 0.4, -0.6)
        what = "accuracy, %" if reference is None else "minus plain SFT, in points"
        drawing.supxlabel(
            f"{what}: mean over seeds, {LEVEL:.0%} interval over groups and seeds; ticks: single "
            "seeds",
            fontsize=8,
        )
