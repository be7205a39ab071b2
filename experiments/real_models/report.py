"""Compare the arms of a study with plain SFT: tables and a figure for each model with results.

    python experiments/real_models/report.py

writes `results/report.md` and `results/MODEL.png`. Runs that are missing are named; a comparison
has the seeds that both arms have.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from answers import SETTINGS, digest_of, splits, texts
from study import BASE, LOSSES, RESULTS, SFT, TAUGHT, choose

from pragworld_interp import LayerReport, read_layers
from pragworld_tasks.data.documents import Document, documents_digest
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.statistics import (
    Floats,
    Interval,
    Tally,
    robust_tally,
    sign_flip_test,
    tally,
)
from pragworld_tasks.figures import figure_file
from pragworld_tasks.files import read_json, write_whole
from pragworld_tasks.layers.layer_statistics import holm
from pragworld_tasks.text import format_number, format_p, markdown_table

RESAMPLES = 4000
BOUND = {"points": 2.0, "nats": 0.05}  # differences within it are equivalent


class Outcome(NamedTuple):
    """What is measured: its name, its unit, and the share or mean of each run, by arm and seed."""

    name: str
    unit: str
    runs: dict[tuple[str, int], Tally]

    @property
    def scale(self) -> int:
        """What a share is multiplied with to be shown."""
        return 100 if self.unit == "points" else 1


class Comparison(NamedTuple):
    """An arm minus plain SFT: mean over seeds, 95 % and 90 % intervals, and the p of a test."""

    seeds: int
    difference: float
    interval: Interval
    narrow: Interval
    p: float | None


def main() -> None:
    """Write the report of all models that have results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    results: Path = parser.parse_args().results
    documents = splits()
    parts = ["# Results\n"]
    for name in SETTINGS["models"]:
        if any((results / name).glob("*.json")):
            parts += [f"## {name}\n", *report_model(results / name, documents)]
    text = "\n".join(parts)
    write_whole(results / "report.md", text.encode())
    print(text)


def report_model(folder: Path, documents: Mapping[str, list[Document]]) -> Iterator[str]:
    """Yield the tables of one model, and draw its figure."""
    runs = {(name, 0): folder / f"answers-{name}.json" for name in (BASE, TAUGHT)}
    runs |= {
        (arm, seed): folder / f"answers-{arm}-seed{seed}.json"
        for seed in SETTINGS["seeds"]
        for arm in SETTINGS["arms"]
    }
    missing = [f"{arm} {seed}" for (arm, seed), path in runs.items() if not path.exists()]
    yield f"Missing runs (arm and seed): {', '.join(missing) or 'none'}.\n"
    observed = {run: read_json(path) for run, path in runs.items() if path.exists()}
    outcomes = list(measure(observed, documents))
    yield markdown_table(
        "Means over seeds, in percent or nats per token",
        ["arm", "seeds", *(outcome.name for outcome in outcomes)],
        [
            [arm, str(len(seeds)), *(_mean(outcome, seeds) for outcome in outcomes)]
            for arm in (BASE, TAUGHT, *SETTINGS["arms"])
            if (seeds := [run for run in observed if run[0] == arm])
        ],
    )
    compared = {outcome.name: compare(outcome) for outcome in outcomes}
    if any(compared.values()):
        yield "Minus `sft`: 95 % interval, p by Holm over arms; = is equivalent.\n"
        for outcome in outcomes:
            yield from _differences(outcome, compared[outcome.name])
        draw(folder.with_suffix(".png"), outcomes, compared)
    yield from _layers(folder)
    if (folder / "formats.json").exists():
        yield from _formats(read_json(folder / "formats.json"))


def measure(
    observed: Mapping[tuple[str, int], Any], documents: Mapping[str, list[Document]]
) -> Iterator[Outcome]:
    """Yield the outcomes of all runs.

    Raises:
        InputError: A run is on other documents or texts than the settings make now.
    """
    for split, of_split in documents.items():
        _check(observed, "answers", split, documents_digest(of_split))
        groups = np.array([document.group for document in of_split])
        every = np.ones(len(groups))
        right = {
            run: np.array(content["answers"][split]["gold"]) > 0.5
            for run, content in observed.items()
        }
        accuracy = {run: tally(of_run, every, groups) for run, of_run in right.items()}
        yield Outcome(split, "points", accuracy)
        if split in ("test", "manual"):
            robust = {run: robust_tally(of_run, groups, groups) for run, of_run in right.items()}
            yield Outcome(f"{split}, robust", "points", robust)
    for kind, of_kind in texts().items():
        _check(observed, "texts", kind, digest_of(of_kind))
        sums = {
            run: np.array(row["texts"][kind]["sums_and_tokens"]) for run, row in observed.items()
        }
        yield Outcome(kind, "nats", {run: Tally(*pairs.T) for run, pairs in sums.items()})


def _check(observed: Mapping[tuple[str, int], Any], part: str, name: str, digest: str) -> None:
    for (arm, seed), content in observed.items():
        if content[part][name]["digest"] != digest:
            raise InputError(f"{arm} {seed}: {name} has other {part}; delete the file to repeat it")


def compare(outcome: Outcome) -> dict[str, Comparison]:
    """Compare each arm with plain SFT, on the seeds that both have."""
    compared = {}
    for arm in SETTINGS["arms"]:
        seeds = [seed for name, seed in outcome.runs if name == arm and (SFT, seed) in outcome.runs]
        if arm == SFT or not seeds:
            continue
        ours, plain = ([outcome.runs[name, seed] for seed in seeds] for name in (arm, SFT))
        shares = [a.share - b.share for a, b in zip(ours, plain, strict=True)]
        draws = outcome.scale * (_draws(ours) - _draws(plain))
        gains = sum(a.right - b.right for a, b in zip(ours, plain, strict=True))
        compared[arm] = Comparison(
            len(seeds),
            outcome.scale * float(np.mean(shares)),
            Interval(*map(float, np.quantile(draws, [0.025, 0.975]))),
            Interval(*map(float, np.quantile(draws, [0.05, 0.95]))),
            sign_flip_test(gains) if outcome.unit == "points" else None,
        )
    return compared


def _draws(runs: list[Tally]) -> Floats:
    """Return [resamples] means over seeds in crossed draws of groups and of seeds."""
    right, total = (np.stack([getattr(run, part) for run in runs]) for part in ("right", "total"))
    seeds, groups = right.shape
    generator = np.random.default_rng(0)  # the same draws for both arms of a comparison
    times = generator.multinomial(groups, np.full(groups, 1 / groups), size=RESAMPLES)
    shares = (times @ right.T) / (times @ total.T)
    drawn = generator.integers(seeds, size=(RESAMPLES, seeds))
    means: Floats = np.take_along_axis(shares, drawn, axis=1).mean(1)
    return means


# Tables and the figure ----------------------------------------------------------------------------


def _mean(outcome: Outcome, runs: list[tuple[str, int]]) -> str:
    mean = outcome.scale * float(np.mean([outcome.runs[run].share for run in runs]))
    return format_number(mean, ".1f" if outcome.unit == "points" else ".3f")


def _differences(outcome: Outcome, compared: Mapping[str, Comparison]) -> Iterator[str]:
    digits = "+.1f" if outcome.unit == "points" else "+.3f"
    tested = [row.p for row in compared.values() if row.p is not None]
    corrected = iter(holm(tested).tolist() if tested else [])
    rows = []
    for arm, row in compared.items():
        low, high = (format_number(end, digits) for end in row.interval)
        bound = BOUND[outcome.unit]
        equal = "=" * (-bound < row.narrow.low and row.narrow.high < bound)
        p = "" if row.p is None else format_p(next(corrected))
        difference = format_number(row.difference, digits)
        rows.append([arm, str(row.seeds), difference, f"{low} to {high}", p, equal])
    headers = ["arm", "seeds", outcome.unit, "95 % interval", "Holm p", ""]
    yield markdown_table(f"{outcome.name}, minus `sft`", headers, rows)


def _layers(folder: Path) -> Iterator[str]:
    """Yield the layers chosen before training, and those of the same sign in later sweeps."""
    paths = {path.stem.removeprefix("layers-"): path for path in folder.glob("layers-*.json")}
    if TAUGHT not in paths:
        return
    reports = {run: read_layers(paths[run]) for run in (TAUGHT, *sorted({*paths} - {TAUGHT}))}
    before = reports[TAUGHT]
    for role in LOSSES.values():
        layers, rule = choose(before, role)
        yield f"{role.capitalize()} before training, by {rule}: {_listed(layers)}.\n"
    signs = {run: _signs(report) for run, report in reports.items()}
    rows = []
    for run, report in reports.items():
        cells = [run, format_number(report.plain.accuracy.percent, ".1f")]
        for role in LOSSES.values():
            now, then = signs[run][role], signs[TAUGHT][role]
            overlap = len(now & then) / max(1, len(now | then))
            cells += [_listed(sorted(now)), format_number(overlap, ".2f")]
        rows.append(cells)
    headers = ["sweep", "accuracy", "useful by sign", "Jaccard", "harmful by sign", "Jaccard"]
    yield markdown_table(
        "Layers by sign with zeros, and overlap with before training", headers, rows
    )
    yield f"Logit lens before training, percent: {_listed([round(p) for p in before.lens])}.\n"


def _signs(report: LayerReport) -> dict[str, set[int]]:
    zero = report.by_replacement["zero"]
    return {
        role: {layer for layer, result in enumerate(zero) if result.sign == role}
        for role in LOSSES.values()
    }


def _formats(found: Mapping[str, Any]) -> Iterator[str]:
    names = ("acc", "robust_acc", "yes_acc", "no_acc", "unreadable")
    rows = [
        [task, *(_percent(content["metrics"].get(f"{name},none")) for name in names)]
        for task, content in found.items()
    ]
    yield markdown_table("Other formats before training, in percent", ["task", *names], rows)


def _percent(share: float | None) -> str:
    return "" if share is None else format_number(100 * share, ".1f")


def _listed(numbers: list[int]) -> str:
    return " ".join(map(str, numbers)) or "none"


def draw(path: Path, outcomes: list[Outcome], compared: Mapping[str, Any]) -> None:
    """Draw the differences of all arms from plain SFT, an axis for each outcome."""
    arms = [arm for arm in SETTINGS["arms"] if arm in compared[outcomes[0].name]]
    with figure_file(path, 9, 1.4 + 0.5 * len(arms)) as drawing:
        grid = drawing.subplots(2, 4, sharey=True)
        for axes, outcome in zip(grid.flat, outcomes, strict=True):
            for place, arm in enumerate(arms):
                row = compared[outcome.name][arm]
                axes.plot(row.interval, [place] * 2, color="#0072B2", lw=1.5)
                axes.plot(row.difference, place, "o", color="#0072B2", markersize=4)
            bound = BOUND[outcome.unit]
            axes.axvspan(-bound, bound, color="0.9", zorder=0)
            axes.axvline(0, color="0.35", linestyle=(0, (1, 1)), linewidth=1)
            axes.set_title(f"{outcome.name}\n{outcome.unit}")
            axes.set_yticks(range(len(arms)), arms)
            axes.set_ylim(len(arms) - 0.5, -0.5)
        drawing.supxlabel("minus plain SFT: mean over seeds, 95 % interval; grey: equivalent")


if __name__ == "__main__":
    main()
