"""The scripts of `experiments/`, on runs with known outcomes."""

import json
import shutil
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import spearmanr
from transformers import AutoModelForCausalLM, AutoTokenizer

import pragworld_tasks as pt
from pragworld_interp import read_layers
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.evaluation.statistics import Tally
from pragworld_tasks.tiny import tiny_folder

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXPERIMENTS)


def cells(text: str, *first: str) -> list[str]:
    """Return the cells of the first row of the tables that begins with some cells."""
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines())
    return next(row for row in rows if row[: len(first)] == [*first])


def test_a_probe_learns_labels_that_are_not_linearly_separable() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(1200, 6, generator=generator) * torch.tensor([100.0, 1, 1, 1, 1, 0.01]) + 5
    labels = ((states[:, 1] > 5) ^ (states[:, 5] > 5)).long()
    probe = import_module("probing").fit_probe(states[:800], labels[:800], 32, seed=0)
    with torch.no_grad():
        assert (probe(states[800:]).argmax(-1) == labels[800:]).float().mean() > 0.9


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the script of the study of real models, set to a few steps of the small model."""
    monkeypatch.syspath_prepend(EXPERIMENTS / "real_models")
    script = import_module("study")
    settings = script.SETTINGS
    few = {
        "models": {"tiny": {"chat_template": False}},
        "arms": {"sft": {}, "ula-1e-2": {"ula": 1e-2}, "ula-random": {"ula": 1e-2, "random": True}},
        "seeds": [1, 2],
        "swept": ["ula-1e-2"],
        "sweeps": {"groups": 12, "seed": 1, "most_by_sign": 2, "pilot_groups": 2},
        "lessons": {**settings["lessons"], "steps": 4, "cool_down": 2, "logged": 2, "dialogues": 2},
        "training": {**settings["training"], "max_steps": 6},
        "formats": {"tasks": [], "more": []},
    }
    for name, value in few.items():
        monkeypatch.setitem(settings, name, value)
    test = pt.generate(groups=3, held_out_alteration="Negation", domains=["household"])
    texts = {kind: [test[0].context, test[-1].context] for kind in ("conversations", "prose")}
    splits = {"test": test, "held_out": test[:1], "manual": test, "tracking": test[:4]}
    monkeypatch.setattr(import_module("answers"), "texts", lambda: texts)
    for module in ("answers", "report"):
        monkeypatch.setattr(import_module(module), "splits", lambda: splits)

    def in_process(_: Any, module: str, *words: str) -> None:
        import_module(f"{module}.cli").main(list(words))

    monkeypatch.setattr(script, "command", in_process)
    monkeypatch.setattr(script, "decompose_answers", lambda *_: None)
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
        *("answers-base.json", "lessons.json", "lessons"),
        *("answers-taught.json", "layers-taught.json"),
        *("patching.json", "layers-ula-1e-2-seed1.json"),
        *(f"answers-{arm}-seed1.json" for arm in study.SETTINGS["arms"]),
    }
    lost = results / "tiny" / "answers-sft-seed1.json"
    kept = lost.read_text(encoding="utf-8")
    lost.unlink()
    shutil.rmtree(tmp_path / "runs" / "ula-random-seed1")  # an adapter that is needed no more
    study.main()  # which makes this file alone, from the adapter that is still there
    assert not (tmp_path / "runs" / "ula-random-seed1").exists()
    assert lost.read_text(encoding="utf-8") == kept
    assert all(path == lost or path.stat().st_mtime_ns == made[path] for path in made)

    monkeypatch.setattr(sys, "argv", [*words, "--pilot", "101"])
    study.main()
    assert (tmp_path / "runs" / "sft-seed101" / "adapter_model.safetensors").exists()

    named = study.Study("tiny", tiny_folder(), tmp_path, results / "tiny")
    chosen, drawn = (study.arm_layers(named, arm, 1) for arm in ("ula-1e-2", "ula-random"))
    assert len(chosen["ula"]) == len(drawn["ula"]) > 0
    assert not {*chosen["ula"]} & {*drawn["ula"]}
    options = ["--results", str(results), "--figures", str(tmp_path / "figures")]
    monkeypatch.setattr(sys, "argv", ["report", *options])
    import_module("report").main()
    drawn = {
        path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "figures").iterdir()
    }
    assert {*drawn} == {"real_models_lessons.svg", "tiny_layers.svg", "real_models_arms.svg"}
    assert all("ula-random" in text for name, text in drawn.items() if "arms" in name)
    text = (results / "report.md").read_text(encoding="utf-8")
    assert "Missing runs (arm and seed): sft 2, ula-1e-2 2, ula-random 2." in text
    right = [gold > 0.5 for gold in json.loads(kept)["answers"]["manual"]["gold"]]
    assert cells(text, "sft")[5] == f"{100 * sum(right) / len(right):.1f}"
    assert cells(text, "always yes")[6] == "0.0"  # every group has a flip
    run = "ula-1e-2-seed1"
    swept = [read_layers(results / "tiny" / f"layers-{name}.json") for name in ("taught", run)]
    points = [[row.accuracy.points for row in one.by_replacement["zero"]] for one in swept]
    assert cells(text, f"before and after {run}")[1] == f"{spearmanr(*points).statistic:.2f}"


def test_lessons_are_plain_prompts_and_resume(
    tmp_path: Path, study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons = import_module("lessons")
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
    model = AutoModelForCausalLM.from_pretrained(tiny_folder(), dtype=torch.float32)
    drawn = [lessons.make_lesson(StableRandom(seed), 0.2, 2, 4) for seed in "ab"]
    trees = [lessons.make_tree(lesson, tokenizer, False) for lesson in drawn]
    inputs, targets = lessons.batch(trees)
    with torch.no_grad():
        together = model(**inputs).logits
        for row, (lesson, tree) in enumerate(zip(drawn, trees, strict=True)):
            for branch, question in enumerate(lesson.questions, 1):
                own = [place for place, of in enumerate(tree.branch) if of in (0, branch)]
                plain = model(inputs["input_ids"][row, own][None]).logits[0]
                torch.testing.assert_close(together[row, own], plain, rtol=0, atol=1e-4)
                wanted = targets[row, own]
                assert tokenizer.decode(wanted[wanted >= 0]).strip() == question.answer.strip(" )")

    whole, parts, merged = (tmp_path / name for name in ("whole", "parts", "merged"))
    teach = partial(lessons.teach, study.SETTINGS["lessons"], tiny_folder())
    teach(whole, whole, False)
    steps = iter(range(3))
    make = lessons.batch
    with monkeypatch.context() as stopped:
        stopped.setattr(lessons, "batch", lambda of_step: (next(steps), make(of_step))[1])
        with pytest.raises(StopIteration):
            teach(parts, parts, False)
    teach(parts, parts, False)
    kept, again = (load_file(of / "lessons/adapter_model.safetensors") for of in (whole, parts))
    assert all(torch.equal(tensor, again[name]) for name, tensor in kept.items())
    lessons.merge(tiny_folder(), whole / lessons.ADAPTER, merged)
    before, after = (load_file(folder / "model.safetensors") for folder in (tiny_folder(), merged))
    first = "model.layers.0.self_attn.q_proj"
    a, b = (kept[f"base_model.model.{first}.lora_{part}.weight"].float() for part in "AB")
    expected = before[f"{first}.weight"].float() + 4 * (b @ a)  # alpha / rank
    torch.testing.assert_close(after[f"{first}.weight"], expected.bfloat16())


def test_groups_and_seeds_of_a_study_are_drawn_independently(study: Any) -> None:
    generator = np.random.default_rng(0)
    total = generator.integers(1, 9, 50).astype(float)
    rights = generator.binomial(total.astype(int), 0.5, (3, 50)) + [[0.0], [0.1], [0.2]] * total
    by_loop = []
    for _ in range(2000):
        groups, seeds = generator.integers(50, size=50), generator.integers(3, size=3)
        by_loop.append(np.mean(rights[seeds][:, groups].sum(1) / total[groups].sum()))
    report, tallies = import_module("report"), [Tally(right, total) for right in rights]
    draws = report._draws(tallies)
    assert draws.mean() == pytest.approx(np.mean(by_loop), abs=0.01)
    assert draws.std() == pytest.approx(np.std(by_loop), rel=0.08)
    same = report.Outcome("", "points", dict.fromkeys([("sft", 1), ("ula-1e-2", 1)], tallies[0]))
    assert report.compare(same)["ula-1e-2"].narrow.high == pytest.approx(100 - 100 * 0.05**0.02)
