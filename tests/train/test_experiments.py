"""The scripts of `experiments/`, on runs with known outcomes."""

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pragworld_tasks as pt
from pragworld_tasks.evaluation.statistics import Tally
from pragworld_tasks.tiny import tiny_folder

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SEEDS = (11, 12, 13, 14)


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the scripts importable."""
    monkeypatch.syspath_prepend(EXPERIMENTS)


def arm_names() -> list[str]:
    """Return the arms of the published tables."""
    text = (EXPERIMENTS / "results.md").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"^\| ((?:hidden|shown)-[\w.-]+) +\|", text, re.MULTILINE)))


def write_runs(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Write a file for each run, and return their contents."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    runs = {}
    for arm in arm_names():
        for seed in SEEDS:
            right = {
                stop: {
                    kind: {
                        name: "".join("01"[int(draw < 0.6)] for draw in generator.random(60))
                        for name in ("plain", "ablated")
                    }
                    for kind in ("harmed", "spared")
                }
                for stop in (["0"] if arm.endswith("sft") else []) + ["10", "40"]
            }
            text = {stop: -generator.random() for stop in right if stop != "10"}
            share = {f"{arm.split('-')[1]}_gradient_share": 0.5}
            runs[arm, seed] = {
                "right": right,
                "groups": {kind: [row // 5 for row in range(60)] for kind in ("harmed", "spared")},
                "text": text,
                "log": [] if arm.endswith("sft") else [share],
                "probe": [*generator.random(6)] if arm.startswith("shown") else None,
            }
            path = folder / f"{arm}-seed{seed}.json"
            path.write_text(json.dumps(runs[arm, seed]), encoding="utf-8")
    return runs


def cells(text: str, *first: str) -> list[str]:
    """Return the cells of the first row of the tables that begins with some cells."""
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines())
    return next(row for row in rows if row[: len(first)] == [*first])


def test_the_tables_hold_what_the_runs_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = write_runs(tmp_path / "runs")
    assert len(runs) == 13 * len(SEEDS)
    paths = [str(tmp_path / name) for name in ("runs", "tables.md", "figure.png")]
    monkeypatch.setattr(sys, "argv", ["report", *paths, "--seeds", *map(str, SEEDS)])
    import_module("layer_losses_report").main()
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")

    def accuracy(arm: str, seed: int) -> float:
        answers: str = runs[arm, seed]["right"]["10"]["harmed"]["plain"]
        return 100 * answers.count("1") / len(answers)

    differences = np.array(
        [accuracy("hidden-hls-2-0.01", seed) - accuracy("hidden-sft", seed) for seed in SEEDS]
    )
    spread = differences.std(ddof=1) / len(SEEDS) ** 0.5
    low, high = differences.mean() + np.array([-1, 1]) * 3.182446 * spread  # t, 3 degrees, 97.5 %
    found = cells(tables, "1", "`hidden-hls-2-0.01` above `hidden-sft`")
    assert float(found[3]) == pytest.approx(differences.mean(), abs=0.051)
    assert [float(end) for end in found[4].split(" to ")] == pytest.approx([low, high], abs=0.051)
    robust = np.mean(
        [
            "0" not in runs["shown-sft", seed]["right"]["40"][kind]["plain"][start : start + 5]
            for seed in SEEDS
            for kind in ("harmed", "spared")
            for start in range(0, 60, 5)
        ]
    )
    assert f"{100 * robust:.1f}" in cells(tables, "shown-sft")


def test_a_probe_learns_labels_that_are_not_linearly_separable() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(1200, 6, generator=generator) * torch.tensor([100.0, 1, 1, 1, 1, 0.01]) + 5
    labels = ((states[:, 1] > 5) ^ (states[:, 5] > 5)).long()
    probe = import_module("probing").fit_probe(states[:800], labels[:800], 32, seed=0)
    with torch.no_grad():
        assert (probe(states[800:]).argmax(-1) == labels[800:]).float().mean() > 0.9


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the script of the study of real models, set to a few steps of the small model."""
    monkeypatch.syspath_prepend(EXPERIMENTS / "real_models")
    script = import_module("study")
    settings = script.SETTINGS
    few = {
        "models": {"tiny": {"chat_template": False}},
        "arms": {"sft": {}, "ula-1e-2": {"ula": 1e-2}, "ula-random": {"ula": 1e-2, "random": True}},
        "seeds": [1, 2],
        "swept": ["ula-1e-2"],
        "sweeps": {"groups": 12, "seed": 1, "most_by_sign": 2},
        "training": {**settings["training"], "max_steps": 6},
    }
    for name, value in few.items():
        monkeypatch.setitem(settings, name, value)
    test = pt.generate(groups=3, held_out_alteration="Negation", domains=["household"])
    texts = {kind: [test[0].context, test[-1].context] for kind in ("conversations", "prose")}
    splits = {"test": test, "manual": test, "tracking": test[:4]}
    for module in ("answers", "report"):
        monkeypatch.setattr(import_module(module), "splits", lambda: splits)
        monkeypatch.setattr(import_module(module), "texts", lambda: texts)

    def in_process(_: Any, module: str, *words: str) -> None:
        import_module(f"{module}.cli").main(list(words))

    monkeypatch.setattr(script, "command", in_process)
    monkeypatch.setattr(script, "evaluate_formats", lambda _: None)
    return script


def test_a_study_resumes_and_its_report_names_what_is_missing(
    tmp_path: Path, study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"
    words = ["study", "tiny", str(tiny_folder()), str(tmp_path / "runs"), "--results", str(results)]
    monkeypatch.setattr(sys, "argv", [*words, "--seeds", "1"])
    study.main()
    made = {path: path.stat().st_mtime_ns for path in (results / "tiny").iterdir()}
    assert {path.name for path in made} == {
        *("answers-base.json", "layers-base.json", "patching.json", "layers-ula-1e-2-seed1.json"),
        *(f"answers-{arm}-seed1.json" for arm in study.SETTINGS["arms"]),
    }
    lost = results / "tiny" / "answers-sft-seed1.json"
    kept = lost.read_text(encoding="utf-8")
    lost.unlink()
    study.main()  # which makes this file alone, from the adapter that is still there
    assert lost.read_text(encoding="utf-8") == kept
    assert all(path == lost or path.stat().st_mtime_ns == made[path] for path in made)

    named = study.Study("tiny", tiny_folder(), tmp_path, results / "tiny")
    chosen, drawn = (study.arm_layers(named, arm, 1) for arm in ("ula-1e-2", "ula-random"))
    assert len(chosen["ula"]) == len(drawn["ula"]) > 0
    assert not {*chosen["ula"]} & {*drawn["ula"]}
    monkeypatch.setattr(sys, "argv", ["report", "--results", str(results)])
    report = import_module("report")
    report.main()
    text = (results / "report.md").read_text(encoding="utf-8")
    assert "Missing runs (arm and seed): sft 2, ula-1e-2 2, ula-random 2." in text
    right = [gold > 0.5 for gold in json.loads(kept)["answers"]["manual"]["gold"]]
    assert cells(text, "sft")[5] == f"{100 * sum(right) / len(right):.1f}"


def test_groups_and_seeds_of_a_study_are_drawn_independently(study: Any) -> None:
    generator = np.random.default_rng(0)
    total = generator.integers(1, 9, 50).astype(float)
    rights = [
        1.0 * generator.binomial(total.astype(int), 0.5) + shift * total for shift in (0, 0.1, 0.2)
    ]
    by_loop = []
    for _ in range(2000):
        groups, seeds = generator.integers(50, size=50), generator.integers(3, size=3)
        shares = [rights[seed][groups].sum() / total[groups].sum() for seed in seeds]
        by_loop.append(np.mean(shares))
    draws = import_module("report")._draws([Tally(right, total) for right in rights])
    assert draws.mean() == pytest.approx(np.mean(by_loop), abs=0.01)
    assert draws.std() == pytest.approx(np.std(by_loop), rel=0.08)
