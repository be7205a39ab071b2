"""Compare the runs of `layer_losses.py`, and write tables and a figure.

    python experiments/layer_losses_report.py runs/losses experiments/layer_losses.md

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

from pragworld_interp.layer_statistics import holm
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json, write_whole
from pragworld_tasks.formatting import markdown_table

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


HARMED = Outcome("accuracy where harmed", POINTS)
SPARED = Outcome("accuracy elsewhere", POINTS)
ROBUST = Outcome("robust accuracy", POINTS)
RELIANCE = Outcome("reliance", POINTS)
TEXT = Outcome("log-likelihood of a token", NATS, 3)
PROBE = Outcome("new probe", POINTS)
AT_END = (ROBUST, TEXT, PROBE)
AMPLIFIED = Arm("shown", "ula", HOLDING, 1.0)
SHUFFLED = Arm("shown", "ula", HOLDING, 1.0, "shuffled")


def outcomes_of(run: dict[str, Any], stop: int) -> dict[str, float]:
    """Return what was measured in a run after some steps, accuracies in percent."""
    right = {
        (kind, name): np.array([*answers], dtype=int)
        for kind, both in run["right"][str(stop)].items()
        for name, answers in both.items()
    }
    plain, ablated = (
        np.concatenate([right[kind, name] for kind in DOMAINS]) for name in ("plain", "ablated")
    )
    robust = []
    for kind in DOMAINS:
        groups = np.array(run["groups"][kind])
        robust += [right[kind, "plain"][groups == group].all() for group in np.unique(groups)]
    found = {
        HARMED.name: right["harmed", "plain"].mean(),
        SPARED.name: right["spared", "plain"].mean(),
        ROBUST.name: np.mean(robust),
        RELIANCE.name: plain.mean() - ablated.mean(),
    }
    if stop == STOPS[-1] and run["probe"]:
        found[PROBE.name] = run["probe"][HOLDING]
    found = {name: 100 * float(value) for name, value in found.items()}
    if str(stop) in run["text"]:
        found[TEXT.name] = run["text"][str(stop)]
    return found


@dataclass(frozen=True)
class Compared:
    """An outcome of an arm, compared with plain SFT over seeds.

    Attributes:
        difference: Its mean difference.
        low: The lower end of its interval, by Student's t.
        high: The upper end.
        p: The p of a two-sided t test that it is 0.
        equivalence: The p of two one-sided t tests that it is at least the smallest of interest.
    """

    difference: float
    low: float
    high: float
    p: float
    equivalence: float


def compare(differences: Sequence[float], smallest: float) -> Compared:
    """Compare an arm with plain SFT.

    Args:
        differences: [seeds] of an outcome.
        smallest: The smallest difference of interest.
    """
    if not any(differences):  # no test has a spread to go by
        return Compared(0.0, 0.0, 0.0, 1.0, 0.0)
    test = stats.ttest_1samp(differences, 0)
    low, high = test.confidence_interval(LEVEL)
    above = stats.ttest_1samp(differences, -smallest, alternative="greater").pvalue
    below = stats.ttest_1samp(differences, smallest, alternative="less").pvalue
    return Compared(float(np.mean(differences)), low, high, test.pvalue, max(above, below))


class Results:
    """The runs of all arms and seeds."""

    def __init__(self, folder: Path, seeds: Sequence[int]) -> None:
        """Read the runs of a folder.

        Raises:
            InputError: One is missing or cannot be read.
        """
        self.seeds = seeds
        self.runs = {
            (arm, seed): read_json(path_of(folder, arm, seed))
            for arm in ARMS.values()
            for seed in seeds
        }

    def values(self, arm: Arm, outcome: Outcome, stop: int) -> list[float]:
        """Return [seeds] of an outcome after some steps."""
        return [outcomes_of(self.runs[arm, seed], stop)[outcome.name] for seed in self.seeds]

    def compared(self, arm: Arm, other: Arm, outcome: Outcome, stop: int) -> Compared:
        """Compare an arm with another."""
        pairs = zip(self.values(arm, outcome, stop), self.values(other, outcome, stop), strict=True)
        return compare([own - others for own, others in pairs], outcome.smallest)

    def gradient_share(self, arm: Arm) -> float:
        """Return the mean of a loss's gradient over that of the cross-entropy, over training."""
        logs = [row for seed in self.seeds for row in self.runs[arm, seed]["log"]]
        name = f"{arm.loss}_gradient_share"
        return float(np.mean([row[name] for row in logs if name in row]))


def means_table(results: Results) -> str:
    """Return a table of means over seeds: along training, and at its end."""
    columns = [
        *product((HARMED, SPARED, RELIANCE), STOPS),
        *((outcome, STOPS[-1]) for outcome in AT_END),
    ]
    before = [(outcome, 0) for outcome, _ in columns]
    rows = [means_row(results, "before training", Arm("shown"), before)]
    rows += [means_row(results, name, arm, columns) for name, arm in ARMS.items()]
    headers = ["arm", "gradient share"]
    headers += [f"{outcome.name}, {stop} steps" for outcome, stop in columns[: 3 * len(STOPS)]]
    headers += [outcome.name for outcome in AT_END]
    return markdown_table(f"means over {len(results.seeds)} seeds", headers, rows)


def means_row(
    results: Results, title: str, arm: Arm, columns: Sequence[tuple[Outcome, int]]
) -> list[str]:
    """Return a row of means; cells of what was not measured are empty."""
    cells = [title, f"{results.gradient_share(arm):.2g}" if arm.loss else ""]
    for outcome, stop in columns:
        measured = outcome.name in outcomes_of(results.runs[arm, results.seeds[0]], stop)
        mean = np.mean(results.values(arm, outcome, stop)) if measured else None
        cells.append("" if mean is None else f"{mean:.{outcome.decimals}f}")
    return cells


def differences_table(
    results: Results, arms: Sequence[Arm], other: Arm, outcome: Outcome, stop: int
) -> str:
    """Return a table of differences between arms and another one, and what can be said of each."""
    found = [results.compared(arm, other, outcome, stop) for arm in arms]
    unequal = holm([item.p for item in found])
    equal = holm([item.equivalence for item in found])
    rows = []
    for arm, item, p, equivalence in zip(arms, found, unequal, equal, strict=True):
        numbers = (item.difference, item.low, item.high)
        mean, low, high = (f"{number:+.{outcome.decimals}f}" for number in numbers)
        tests = [f"{p:.4f}", f"{equivalence:.4f}", verdict(item, p, equivalence)]
        rows.append([arm.name, mean, f"{low} to {high}", *tests])
    return markdown_table(
        f"{outcome.name} after {stop} steps: difference from {other.name}",
        ["arm", "mean", f"{LEVEL:.0%} interval", "p", f"p, within {outcome.smallest:g}", "verdict"],
        rows,
    )


def verdict(item: Compared, p: float, equivalence: float) -> str:
    """Return what the tests say, at the level of 5 % after Holm's correction."""
    words = []
    if p <= 1 - LEVEL:
        words.append("higher" if item.difference > 0 else "lower")
    if equivalence <= 1 - LEVEL:
        words.append("equivalent")
    return ", ".join(words) or "undecided"


def draw(results: Results, path: Path) -> None:
    """Draw accuracies along training, as differences from plain SFT on the same data."""
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    for column, data in enumerate(("hidden", "shown")):
        for row, outcome in enumerate((HARMED, SPARED)):
            panel = panels[row, column]
            panel.axhspan(-outcome.smallest, outcome.smallest, color="0.93")
            panel.axhline(0, color="black", linewidth=1)
            for number, arm in enumerate(others(data)):
                found = [results.compared(arm, Arm(data), outcome, stop) for stop in STOPS]
                means = [item.difference for item in found]
                reach = [item.high - item.difference for item in found]
                places = [stop * 1.04 ** (number - 3) for stop in STOPS]  # side by side
                label = arm.name.removeprefix(f"{data}-")
                panel.errorbar(places, means, reach, marker=".", linewidth=1, label=label)
            panel.set(xscale="log", xticks=STOPS, xticklabels=STOPS)
            panel.minorticks_off()
        panels[0, column].set(title=f"trained on data in which the harm is {data}")
        panels[0, column].legend(fontsize="small", frameon=False, ncols=2)
        panels[1, column].set(xlabel="steps")
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
    parser.add_argument("--seeds", type=int, nargs="+", default=[*SEEDS], help="default: 1 to 10")
    options = parser.parse_args()
    try:
        results = Results(options.runs, options.seeds)
    except InputError as error:
        parser.error(str(error))
    last, tables = STOPS[-1], [means_table(results)]
    for data in ("hidden", "shown"):
        for outcome, stop in (
            *product((HARMED, SPARED, RELIANCE), STOPS),
            *((item, last) for item in AT_END),
        ):
            if outcome is not PROBE or data == "shown":
                tables.append(differences_table(results, others(data), Arm(data), outcome, stop))
    for outcome in (HARMED, SPARED, PROBE):
        tables.append(differences_table(results, [AMPLIFIED], SHUFFLED, outcome, last))
    write_whole(options.out, "\n\n".join(tables).encode())
    draw(results, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
