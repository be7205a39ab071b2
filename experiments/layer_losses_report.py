"""Compare the runs of `layer_losses.py`, and write tables and a figure.

    python experiments/layer_losses_report.py runs/losses experiments/results.md figure.png

Each arm is compared with plain SFT on the same data, seed by seed, since runs of a seed share their
training documents, their order and their test documents. What is tested is said in README.md next
to this script.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from layer_losses import ARMS, DOMAINS, HOLDING, SEEDS, STOPS, Arm, path_of
from matplotlib.figure import Figure
from scipy import stats

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import check_output, read_json, write_whole
from pragworld_tasks.layers.layer_statistics import holm
from pragworld_tasks.text import markdown_table

LEVEL = 0.95
POINTS = 2.0  # the smallest difference in accuracy that is of interest
NATS = 0.05  # and in the log-likelihood of a token


@dataclass(frozen=True)
class Outcome:
    """Something measured in every run.

    Attributes:
        name: What it is.
        smallest: The smallest difference of interest.
        decimals: The number of decimals to show.
    """

    name: str
    smallest: float
    decimals: int = 1


ACCURACY = Outcome("accuracy", POINTS)
HARMED = Outcome("accuracy where harmed", POINTS)
SPARED = Outcome("accuracy elsewhere", POINTS)
ROBUST = Outcome("robust accuracy", POINTS)
RELIANCE = Outcome("reliance where harmed", POINTS)
WITHOUT = Outcome("where harmed, layer 2 ablated", POINTS)
TEXT = Outcome("log-likelihood of a token", NATS, 3)
PROBE = Outcome("new probe", POINTS)
ALONG = (HARMED, SPARED, RELIANCE)
AT_END = (ACCURACY, ROBUST, WITHOUT, TEXT, PROBE)


def outcomes_of(run: dict[str, Any], stop: int) -> dict[Outcome, float]:
    """Return what was measured in a run after some steps, accuracies in percent."""
    right = {
        (kind, name): np.array([*answers], dtype=int)
        for kind, both in run["right"][str(stop)].items()
        for name, answers in both.items()
    }
    robust = []
    for kind in DOMAINS:
        groups = np.array(run["groups"][kind])
        robust += [right[kind, "plain"][groups == group].all() for group in np.unique(groups)]
    harmed, without = right["harmed", "plain"].mean(), right["harmed", "ablated"].mean()
    shares = {
        ACCURACY: np.concatenate([right[kind, "plain"] for kind in DOMAINS]).mean(),
        HARMED: harmed,
        SPARED: right["spared", "plain"].mean(),
        ROBUST: np.mean(robust),
        RELIANCE: harmed - without,
        WITHOUT: without,
    }
    if stop == STOPS[-1] and run["probe"]:
        shares[PROBE] = run["probe"][HOLDING]
    outcomes = {outcome: 100 * float(share) for outcome, share in shares.items()}
    if str(stop) in run["text"]:
        outcomes[TEXT] = run["text"][str(stop)]
    return outcomes


@dataclass(frozen=True)
class Difference:
    """The difference between two arms over seeds.

    Attributes:
        mean: The mean.
        low: The lower end of its interval, by Student's t.
        high: The upper end.
        p: The p of a two-sided t test that it is 0.
        within: The p of two one-sided t tests that it is at least as large as the smallest
            difference of interest, either way.
    """

    mean: float
    low: float
    high: float
    p: float
    within: float

    def cells(self, decimals: int) -> list[str]:
        """Return the mean and the interval as text."""
        mean, low, high = (f"{end:+.{decimals}f}" for end in (self.mean, self.low, self.high))
        return [mean, f"{low} to {high}"]


def measure(differences: Sequence[float], smallest: float) -> Difference:
    """Return the mean difference between two arms, with tests.

    Args:
        differences: [seeds], two at least.
        smallest: The smallest difference of interest.
    """
    if not any(differences):  # no test has a spread to go by
        return Difference(0.0, 0.0, 0.0, 1.0, 0.0)
    test = stats.ttest_1samp(differences, 0)
    low, high = test.confidence_interval(LEVEL)
    within = max(p_above(differences, -smallest), p_below(differences, smallest))
    return Difference(float(np.mean(differences)), low, high, test.pvalue, within)


def p_above(differences: Sequence[float], bound: float) -> float:
    """Return the p of a one-sided t test that the mean difference is not above a bound."""
    return float(stats.ttest_1samp(differences, bound, alternative="greater").pvalue)


def p_below(differences: Sequence[float], bound: float) -> float:
    """Return the p of a one-sided t test that the mean difference is not below a bound."""
    return float(stats.ttest_1samp(differences, bound, alternative="less").pvalue)


class Results:
    """The runs of all arms and seeds."""

    def __init__(self, folder: Path, seeds: Sequence[int]) -> None:
        """Read the runs of a folder.

        Raises:
            InputError: One is missing or cannot be read.
        """
        self.seeds = seeds
        self._runs = {
            (arm, seed): read_json(path_of(folder, arm, seed))
            for arm in ARMS.values()
            for seed in seeds
        }
        self._outcomes = {
            (arm, seed, int(stop)): outcomes_of(run, int(stop))
            for (arm, seed), run in self._runs.items()
            for stop in run["right"]
        }

    def has(self, arm: Arm, outcome: Outcome, stop: int) -> bool:
        """Return whether an outcome was measured after some steps."""
        return outcome in self._outcomes[arm, self.seeds[0], stop]

    def values(self, arm: Arm, outcome: Outcome, stop: int) -> list[float]:
        """Return [seeds] of an outcome after some steps."""
        return [self._outcomes[arm, seed, stop][outcome] for seed in self.seeds]

    def differences(self, arm: Arm, other: Arm, outcome: Outcome, stop: int) -> list[float]:
        """Return [seeds] of the difference between two arms."""
        pairs = zip(self.values(arm, outcome, stop), self.values(other, outcome, stop), strict=True)
        return [first - second for first, second in pairs]

    def gradient_shares(self, arm: Arm) -> str:
        """Return a loss's gradient over that of the cross-entropy, each time it was measured."""
        name = f"{arm.loss}_gradient_share"
        logs = [self._runs[arm, seed]["log"] for seed in self.seeds]
        shares = [[row[name] for row in log if name in row] for log in logs]
        return " to ".join(f"{share:.2g}" for share in np.mean(shares, 0)) if arm.loss else ""


# The expectations of README.md --------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """A test that an expectation consists of.

    Attributes:
        number: The number of the expectation.
        relation: "above" the other arm; "far below" it, by more than the smallest
            difference of interest; "not far above" it; or "within" that difference.
        arm: The arm.
        other: The arm that it is compared with.
        outcome: What is compared.
        stop: After how many steps.
    """

    number: int
    relation: str
    arm: str
    other: str
    outcome: Outcome
    stop: int


EXPECTED = (
    Expected(1, "above", "hidden-hls-2-0.01", "hidden-sft", HARMED, 10),
    Expected(1, "above", "hidden-hls-2-0.01", "hidden-sft", RELIANCE, 10),
    Expected(2, "within", "hidden-hls-2-0.01", "hidden-sft", HARMED, 40),
    Expected(3, "within", "hidden-hls-2-0.0001", "hidden-sft", HARMED, 10),
    Expected(4, "not far above", "hidden-hls-3-0.01", "hidden-sft", HARMED, 10),
    Expected(5, "within", "shown-hls-2-0.01", "shown-sft", HARMED, 10),
    Expected(5, "within", "shown-hls-2-0.01", "shown-sft", HARMED, 40),
    Expected(6, "far below", "hidden-hls-2-0.01", "hidden-sft", TEXT, 40),
    Expected(6, "far below", "hidden-hls-2-0.1", "hidden-sft", TEXT, 40),
    Expected(6, "far below", "hidden-hls-2-1", "hidden-sft", TEXT, 40),
    Expected(7, "not far above", "shown-ula-3-0.1", "shown-sft", ACCURACY, 40),
    Expected(7, "not far above", "shown-ula-3-0.1", "shown-sft", ROBUST, 40),
    Expected(7, "not far above", "shown-ula-3-1", "shown-sft", ACCURACY, 40),
    Expected(7, "not far above", "shown-ula-3-1", "shown-sft", ROBUST, 40),
    Expected(8, "above", "shown-ula-3-1", "shown-sft", PROBE, 40),
    Expected(8, "above", "shown-ula-3-1", "shown-ula-3-1-shuffled", PROBE, 40),
    Expected(9, "within", "shown-ula-3-1-shuffled", "shown-sft", ACCURACY, 40),
    Expected(9, "within", "shown-ula-0-1", "shown-sft", ACCURACY, 40),
)


def p_of(test: Expected, differences: Sequence[float]) -> float:
    """Return the p of an expectation's test."""
    smallest = test.outcome.smallest
    if test.relation == "above":
        return p_above(differences, 0)
    if test.relation == "far below":
        return p_below(differences, -smallest)
    if test.relation == "not far above":
        return p_below(differences, smallest)
    return measure(differences, smallest).within


def expectations_table(results: Results) -> str:
    """Return a table of the preregistered tests."""
    rows = []
    for test in EXPECTED:
        outcome = test.outcome
        seeds = results.differences(ARMS[test.arm], ARMS[test.other], outcome, test.stop)
        difference, p = measure(seeds, outcome.smallest), p_of(test, seeds)
        relation = {
            "far below": f"more than {outcome.smallest:g} below",
            "not far above": f"less than {outcome.smallest:g} above",
            "within": f"within {outcome.smallest:g} of",
        }.get(test.relation, test.relation)
        claim = f"`{test.arm}` {relation} `{test.other}`"
        supported = "yes" if p <= 1 - LEVEL else "no"
        cells = [str(test.number), claim, f"{outcome.name}, {test.stop} steps"]
        rows.append([*cells, *difference.cells(outcome.decimals), f"{p:.4f}", supported])
    headers = ["no.", "expected", "in", "difference", f"{LEVEL:.0%} interval", "p", "supported"]
    return markdown_table(f"what was expected, {len(results.seeds)} seeds", headers, rows)


# All arms -----------------------------------------------------------------------------------------


def means_table(results: Results) -> str:
    """Return a table of means over seeds: along training, and at its end."""
    columns = [
        *product(ALONG, STOPS),
        *((outcome, STOPS[-1]) for outcome in AT_END),
    ]
    before = [(outcome, 0) for outcome, _ in columns]
    rows = [means_row(results, "before training", Arm("shown"), before)]
    rows += [means_row(results, name, arm, columns) for name, arm in ARMS.items()]
    headers = ["arm", "gradient share"]
    headers += [f"{outcome.name}, {stop} steps" for outcome, stop in product(ALONG, STOPS)]
    headers += [outcome.name for outcome in AT_END]
    return markdown_table(f"means over {len(results.seeds)} seeds", headers, rows)


def means_row(
    results: Results, title: str, arm: Arm, columns: Sequence[tuple[Outcome, int]]
) -> list[str]:
    """Return a row of means; cells of what was not measured are empty."""
    cells = [title, results.gradient_shares(arm)]
    for outcome, stop in columns:
        if results.has(arm, outcome, stop):
            mean = np.mean(results.values(arm, outcome, stop))
            cells.append(f"{mean:.{outcome.decimals}f}")
        else:
            cells.append("")
    return cells


def differences_table(
    results: Results, arms: Sequence[Arm], other: Arm, outcome: Outcome, stop: int
) -> str:
    """Return a table of differences between arms and another one, and what can be said of each."""
    compared = [
        measure(results.differences(arm, other, outcome, stop), outcome.smallest) for arm in arms
    ]
    unequal = holm([difference.p for difference in compared])
    equal = holm([difference.within for difference in compared])
    rows = []
    for arm, difference, p, within in zip(arms, compared, unequal, equal, strict=True):
        tests = [f"{p:.4f}", f"{within:.4f}", verdict(difference.mean, p, within)]
        rows.append([arm.name, *difference.cells(outcome.decimals), *tests])
    return markdown_table(
        f"{outcome.name} after {stop} steps: difference from {other.name}",
        ["arm", "mean", f"{LEVEL:.0%} interval", "p", f"p, within {outcome.smallest:g}", "verdict"],
        rows,
    )


def verdict(mean: float, p: float, within: float) -> str:
    """Return what the tests of a difference say, both p after Holm's correction."""
    words = []
    if p <= 1 - LEVEL:
        words.append("higher" if mean > 0 else "lower")
    if within <= 1 - LEVEL:
        words.append("equivalent")
    return ", ".join(words) or "undecided"


def draw(results: Results, path: Path) -> None:
    """Draw accuracies along training, as differences from plain SFT on the same data."""
    figure = Figure(figsize=(10, 6.8), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    for column, data in enumerate(("hidden", "shown")):
        for row, outcome in enumerate((HARMED, SPARED)):
            panel = panels[row, column]
            panel.axhspan(-outcome.smallest, outcome.smallest, color="0.93")
            panel.axhline(0, color="black", linewidth=1)
            for number, arm in enumerate(others(data)):
                compared = [
                    measure(results.differences(arm, Arm(data), outcome, stop), outcome.smallest)
                    for stop in STOPS
                ]
                means = [difference.mean for difference in compared]
                reach = [difference.high - difference.mean for difference in compared]
                places = [stop * 1.04 ** (number - 3) for stop in STOPS]  # side by side
                label = arm.name.removeprefix(f"{data}-")
                panel.errorbar(places, means, reach, marker=".", linewidth=1, label=label)
            panel.set(xscale="log", xticks=STOPS, xticklabels=STOPS)
            panel.minorticks_off()
        panels[0, column].set(title=f"trained on data in which the harm is {data}")
        panels[1, column].set(xlabel="steps")
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2)}
        panels[1, column].legend(fontsize="small", frameon=False, ncols=3, **below)
    for row, outcome in enumerate((HARMED, SPARED)):
        panels[row, 0].set(ylabel=f"{outcome.name}, points from SFT")
    figure.savefig(path, dpi=120)


def others(data: str) -> list[Arm]:
    """Return the arms on some data without plain SFT."""
    return [arm for arm in ARMS.values() if arm.data == data and arm.loss]


def main() -> None:
    """Write the tables, and the figure next to them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, help="the folder of `layer_losses.py train`")
    parser.add_argument("out", type=Path, help="a Markdown file for the tables")
    parser.add_argument("figure", type=Path, help="a file for the figure")
    parser.add_argument("--seeds", type=int, nargs="+", default=[*SEEDS], help="default: 11 to 20")
    parser.add_argument("--overwrite", action="store_true", help="replace the two files")
    options = parser.parse_args()
    if len(options.seeds) < 3:
        parser.error("--seeds: tests need at least 3")
    try:
        check_output(options.out, options.overwrite)
        check_output(options.figure, options.overwrite)
        results = Results(options.runs, options.seeds)
    except InputError as error:
        parser.error(str(error))
    last, tables = STOPS[-1], [expectations_table(results), means_table(results)]
    for data in ("hidden", "shown"):
        along = product(ALONG, STOPS)
        for outcome, stop in (*along, *((outcome, last) for outcome in AT_END)):
            if outcome is not PROBE or data == "shown":
                tables.append(differences_table(results, others(data), Arm(data), outcome, stop))
    draw(results, options.figure)
    write_whole(options.out, "\n\n".join(tables).encode())


if __name__ == "__main__":
    main()
