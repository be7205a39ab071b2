"""Report a study: tables and figures of every model with results.

    python experiments/real_models/report.py

prints the tables, writes them to `results/report.md`, and draws what lessons do, what each layer of
each model does, and the arms minus plain SFT. Runs that are missing are named; a comparison has the
seeds that both arms have.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from agreement import agreements
from answers import SETTINGS, splits
from study import BASE, LOSSES, RESULTS, SFT, TAUGHT, choose

from pragworld_interp import LayerReport, PatchingReport, read_layers, read_patching
from pragworld_tasks.data.documents import Document, documents_digest
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.statistics import (
    Floats,
    Interval,
    Tally,
    bootstrap_intervals,
    percentile_interval,
    robust_tally,
    sign_flip_test,
    tally,
)
from pragworld_tasks.figures import LOOKS, figure_file
from pragworld_tasks.files import read_json, write_whole
from pragworld_tasks.layers.figures import Changes, change_lines
from pragworld_tasks.layers.layer_statistics import holm
from pragworld_tasks.sensitivity.report import SensitivityReport, read_decompositions
from pragworld_tasks.text import format_interval, format_number, format_p, markdown_table

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
RESAMPLES = 4000
LEVELS = (0.95, 0.9)  # of the interval that is shown, and of the one that shows equivalence
BOUND = {"points": 2.0, "nats": 0.05}  # differences within it are equivalent
DIGITS = {"points": ".1f", "nats": ".3f"}
YES = "always yes"  # a run that no model made

Run = tuple[str, int]  # arm and seed, which is 0 before all arms


class Results(NamedTuple):
    """What a study has left of one model so far.

    Attributes:
        runs: The answers of each run.
        missing: The runs that are still to come.
        left_out: The arms that cannot be trained, as a loss of theirs has no layers.
        sweeps: Those of all models, that of the taught one first.
        formats: The metrics of the bare model in other formats, by task.
        more: Patching of the taught model, and decompositions of the bare one's sampled answers.
    """

    runs: dict[Run, Any]
    missing: list[str]
    left_out: list[str]
    sweeps: dict[str, LayerReport]
    formats: dict[str, Any]
    more: list[PatchingReport | SensitivityReport]


class Outcome(NamedTuple):
    """What is measured: its name, its unit, and the share or mean of each run."""

    name: str
    unit: str
    runs: dict[Run, Tally]

    @property
    def scale(self) -> int:
        """What a share is multiplied with to be shown."""
        return 100 if self.unit == "points" else 1

    def interval(self, run: Run) -> Interval:
        """Return the interval of a run, over groups or texts."""
        return self.scaled(*bootstrap_intervals({run: self.runs[run]}).values())

    def scaled(self, interval: Interval) -> Interval:
        """Return an interval of shares as it is shown."""
        return Interval(*(self.scale * end for end in interval))

    def interval_text(self, run: Run) -> str:
        """Return the interval of a run as it is printed."""
        return format_interval(self.interval(run), DIGITS[self.unit])


class Comparison(NamedTuple):
    """An arm minus plain SFT: mean over seeds, 95 % and 90 % intervals, and the p of a test.

    Where no answer differs, intervals say how many groups with other answers may have been missed.
    """

    seeds: int
    difference: float
    interval: Interval
    narrow: Interval
    p: float | None


class Measured(NamedTuple):
    """The outcomes of a model, and the comparisons of each by the outcome's name and the arm."""

    outcomes: list[Outcome]
    compared: dict[str, dict[str, Comparison]]


def main() -> None:
    """Write the report of all models that have results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="folder of the figures")
    options = parser.parse_args()
    documents = splits()
    parts = ["# Results\n"]
    studied = {name: read_results(options.results / name) for name in SETTINGS["models"]}
    measured = {}
    for name, results in studied.items():
        if results.runs:
            outcomes = list(measure(results.runs, documents))
            compared = {outcome.name: compare(outcome) for outcome in outcomes}
            measured[name] = Measured(outcomes, compared)
            parts += [f"## {name}\n", *report_model(results, *measured[name])]
        if TAUGHT in results.sweeps:
            draw_layers(options.figures / f"{name}_layers.svg", name, results.sweeps[TAUGHT])
            others = {
                other: of_other.sweeps[TAUGHT]
                for other, of_other in studied.items()
                if other != name and TAUGHT in of_other.sweeps
            }
            parts.append(agreements(results.sweeps, others))
    if measured:
        draw_lessons(options.figures / "real_models_lessons.svg", measured)
    draw_arms(options.figures / "real_models_arms.svg", measured)
    text = "\n".join(parts)
    write_whole(options.results / "report.md", text.encode())
    print(text)


def read_results(folder: Path) -> Results:
    """Read all results of a model that are there."""
    swept = sorted(folder.glob("layers-*.json"), key=lambda path: TAUGHT not in path.stem)
    sweeps = {path.stem.removeprefix("layers-"): read_layers(path) for path in swept}
    roles = LOSSES.items() if TAUGHT in sweeps else ()
    lacking = {loss for loss, role in roles if not choose(sweeps[TAUGHT], role)[0]}
    left_out = [arm for arm, losses in SETTINGS["arms"].items() if lacking & {*losses}]
    runs = {(name, 0): folder / f"answers-{name}.json" for name in (BASE, TAUGHT)}
    runs |= {
        (arm, seed): folder / f"answers-{arm}-seed{seed}.json"
        for seed in SETTINGS["seeds"]
        for arm in SETTINGS["arms"]
        if arm not in left_out
    }
    return Results(
        {run: read_json(path) for run, path in runs.items() if path.exists()},
        [f"{arm} {seed}" for (arm, seed), path in runs.items() if not path.exists()],
        left_out,
        sweeps,
        {
            path.stem.removeprefix("format-"): read_json(path)
            for path in sorted(folder.glob("format-*.json"))
        },
        [
            *map(read_patching, folder.glob("patching.json")),
            *read_decompositions(sorted(folder.glob("world-model-*.json"))),
        ],
    )


def report_model(
    results: Results, outcomes: list[Outcome], compared: Mapping[str, dict[str, Comparison]]
) -> Iterator[str]:
    """Yield the tables of one model."""
    yield f"Missing runs (arm and seed): {', '.join(results.missing) or 'none'}.\n"
    if results.left_out:
        yield f"Left out, for want of layers: {', '.join(results.left_out)}.\n"
    yield markdown_table(
        "Means over seeds, in percent or nats per token",
        ["model", "runs", *(outcome.name for outcome in outcomes)],
        [
            [arm, str(len(seeds)), *(_mean(outcome, seeds) for outcome in outcomes)]
            for arm in (YES, BASE, TAUGHT, *SETTINGS["arms"])
            if (seeds := [run for run in outcomes[0].runs if run[0] == arm])
        ],
    )
    before = [run for run in results.runs if run[0] in (BASE, TAUGHT)]
    yield markdown_table(
        "95 % intervals over groups or texts",
        ["outcome", *(arm for arm, _ in before)],
        [[outcome.name, *map(outcome.interval_text, before)] for outcome in outcomes],
    )
    if any(compared.values()):
        yield "Minus `sft`: 95 % interval, p by Holm over arms; = is equivalent.\n"
        for outcome in outcomes:
            yield from _differences(outcome, compared[outcome.name])
        yield _changed(results.runs)
    if TAUGHT in results.sweeps:
        yield from _layers(results.sweeps)
    if results.formats:
        yield from _formats(results.formats)
    yield from (f"```text\n{report.to_text()}\n```\n" for report in results.more)


def measure(
    observed: Mapping[Run, Any], documents: Mapping[str, list[Document]]
) -> Iterator[Outcome]:
    """Yield the outcomes of all runs.

    Raises:
        InputError: A run is on other documents than the settings make now, or on other texts than
            the first run.
    """
    for split, of_split in documents.items():
        _check(observed, "answers", split, documents_digest(of_split))
        groups = np.array([document.group for document in of_split])
        every = np.ones(len(groups))
        right = {
            run: np.array(content["answers"][split]["gold"]) > 0.5
            for run, content in observed.items()
        }
        right[YES, 0] = np.array([document.answer == "yes" for document in of_split])
        accuracy = {run: tally(of_run, every, groups) for run, of_run in right.items()}
        yield Outcome(split.replace("_", " "), "points", accuracy)
        if split in ("test", "manual"):
            robust = {run: robust_tally(of_run, groups, groups) for run, of_run in right.items()}
            yield Outcome(f"{split}, robust", "points", robust)
    for kind, of_first in next(iter(observed.values()))["texts"].items():
        _check(observed, "texts", kind, of_first["digest"])
        sums = {
            run: np.array(row["texts"][kind]["sums_and_tokens"]) for run, row in observed.items()
        }
        yield Outcome(kind, "nats", {run: Tally(*pairs.T) for run, pairs in sums.items()})


def _check(observed: Mapping[Run, Any], part: str, name: str, digest: str) -> None:
    for (arm, seed), content in observed.items():
        if content[part][name]["digest"] != digest:
            raise InputError(f"{arm} {seed}: {name} has other {part}; delete the file to repeat it")


def compare(outcome: Outcome) -> dict[str, Comparison]:
    """Compare each arm, and the taught model, with plain SFT, on the seeds that both have."""
    compared = {}
    for arm in (*SETTINGS["arms"], TAUGHT):
        pairs = [
            (ours, plain)
            for (name, seed), plain in outcome.runs.items()
            if name == SFT and (ours := outcome.runs.get((arm, 0 if arm == TAUGHT else seed)))
        ]
        if arm == SFT or not pairs:
            continue
        shares = [ours.share - plain.share for ours, plain in pairs]
        gains = sum(ours.right - plain.right for ours, plain in pairs)
        draws = _draws([ours for ours, _ in pairs]) - _draws([plain for _, plain in pairs])
        groups = pairs[0][1].groups if outcome.unit == "points" else 0
        wide, narrow = (percentile_interval(draws, level, groups, lowest=-1) for level in LEVELS)
        tested = outcome.unit == "points" and arm != TAUGHT
        compared[arm] = Comparison(
            len(pairs),
            outcome.scale * float(np.mean(shares)),
            outcome.scaled(wide),
            outcome.scaled(narrow),
            sign_flip_test(gains) if tested else None,
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


# Tables -------------------------------------------------------------------------------------------


def _mean(outcome: Outcome, runs: list[Run]) -> str:
    shares = [outcome.runs[run].share for run in runs if run in outcome.runs]
    mean = outcome.scale * float(np.mean(shares)) if shares else None
    return format_number(mean, DIGITS[outcome.unit])


def _differences(outcome: Outcome, compared: Mapping[str, Comparison]) -> Iterator[str]:
    digits = "+" + DIGITS[outcome.unit]
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


def _changed(observed: Mapping[Run, Any]) -> str:
    """Return a table of how many answers of each run differ from those of plain SFT."""
    right = {
        run: np.concatenate([np.array(one["gold"]) > 0.5 for one in content["answers"].values()])
        for run, content in observed.items()
    }
    seeds = [seed for arm, seed in right if arm == SFT]
    rows = []
    for (arm, seed), answers in right.items():
        if seed in seeds:
            counts = [np.count_nonzero(answers != right[SFT, other]) for other in seeds]
            rows.append([f"{arm} {seed}", *map(str, counts)])
    headers = ["run", *(f"{SFT} {seed}" for seed in seeds)]
    return markdown_table(
        f"Answers that differ, of {len(next(iter(right.values())))}", headers, rows
    )


def _layers(reports: Mapping[str, LayerReport]) -> Iterator[str]:
    """Yield the layers chosen before training, and those of the same sign in later sweeps."""
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
    names = ("acc", "robust_acc", "yes_acc", "no_acc", "unreadable", "ps", "as", "mu")
    rows = []
    for task, content in found.items():
        metrics = content["metrics"]
        if "ps,none" in metrics:  # it was run in bfloat16, where labels are often equally likely
            metrics = {name: metrics[name] for name in ("ps,none", "as,none", "mu,none")}
        shares = [metrics.get(f"{name},none", np.nan) for name in names]
        rows.append([task, *(format_number(100 * share, ".1f") for share in shares)])
    yield markdown_table("Other formats before training, in percent", ["task", *names], rows)


def _listed(numbers: list[int]) -> str:
    return " ".join(map(str, numbers)) or "none"


# Figures ------------------------------------------------------------------------------------------


def draw_lessons(path: Path, measured: Mapping[str, Measured]) -> None:
    """Draw the shares of right answers before and after the lessons, and what guessing gives."""
    with figure_file(path, 9, 3.4) as drawing:
        grid = drawing.subplots(1, len(measured), sharey=True, squeeze=False)[0]
        for axes, (name, (outcomes, _)) in zip(grid, measured.items(), strict=True):
            shown = [outcome for outcome in outcomes if outcome.unit == "points"]
            places = np.arange(len(shown))
            for look, (run, above) in zip(LOOKS, ((BASE, 0.15), (TAUGHT, -0.15)), strict=False):
                if (run, 0) in shown[0].runs:
                    shares = np.array([100 * outcome.runs[run, 0].share for outcome in shown])
                    ends = np.array([outcome.interval((run, 0)) for outcome in shown]).T
                    style: dict[str, Any] = {"fmt": look.marker, "color": look.color, "label": run}
                    axes.errorbar(shares, places - above, xerr=np.abs(ends - shares), **style)
            always = [100 * outcome.runs[YES, 0].share for outcome in shown]
            axes.scatter(always, places, 300, "black", marker="|", linewidths=2, label=YES)
            axes.axvline(50, color="0.35", linestyle=":", linewidth=1, label="chance (accuracy)")
            axes.set_yticks(places, [outcome.name for outcome in shown])
            axes.set(xlim=(-2, 100), ylim=(len(shown) - 0.5, -0.5))
            axes.set(title=name, xlabel="right answers (%)")
        drawing.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def draw_layers(path: Path, name: str, report: LayerReport) -> None:
    """Draw what ablating the MLP of each layer changes, under every replacement."""
    panels = []
    for null, rows in report.by_replacement.items():
        marked = [row.evidence != "neutral" for row in rows]
        outcomes = [row.accuracy for row in rows]
        panels.append(Changes(null, report.plain.accuracy.percent, outcomes, marked))
    title = f"MLPs of the taught {name} replaced: {report.data.documents} validation documents"
    marks = {-1: "useful by evidence", 1: "harmful by evidence"}
    change_lines(path, title, panels, (), report.settings.level, marks)


def draw_arms(path: Path, measured: Mapping[str, Measured]) -> None:
    """Draw the differences of all arms from plain SFT, if any, an axis for each outcome."""
    rows = [
        (f"{name} {arm}", look, of_model.compared, arm)
        for look, (name, of_model) in zip(LOOKS, measured.items(), strict=False)
        for arm in SETTINGS["arms"]
        if arm in of_model.compared[of_model.outcomes[0].name]
    ]
    if not rows:
        return
    outcomes = next(iter(measured.values())).outcomes
    with figure_file(path, 9, 1.6 + 0.4 * len(rows)) as drawing:
        grid = drawing.subplots(2, 4, sharey=True)
        for axes, outcome in zip(grid.flat, outcomes, strict=True):
            for place, (_, look, compared, arm) in enumerate(rows):
                row = compared[outcome.name][arm]
                axes.plot(row.interval, [place] * 2, color=look.color, lw=1.5)
                axes.plot(row.difference, place, look.marker, color=look.color, markersize=4)
            bound = BOUND[outcome.unit]
            axes.axvspan(-bound, bound, color="0.9", zorder=0)
            axes.axvline(0, color="0.35", linestyle=(0, (1, 1)), linewidth=1)
            axes.set_title(f"{outcome.name}\n{outcome.unit}")
            axes.locator_params("x", nbins=4)
            axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
            axes.set_ylim(len(rows) - 0.5, -0.5)
        drawing.supxlabel("minus plain SFT: mean over seeds, 95 % interval; grey: equivalent")


if __name__ == "__main__":
    main()
