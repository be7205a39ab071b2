"""The command `pragworld-interp`: the effect of its options, and what it needs installed."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_runs import refused
from small_models import TABLES
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from pragworld_interp import EXAMPLES
from pragworld_interp.cli import main
from pragworld_interp.engine import one_pass
from pragworld_tasks import generate
from pragworld_tasks.layers.ablation_report import LayerReport, read_layers
from pragworld_tasks.layers.patching_report import PatchingReport, read_patching
from pragworld_tasks.layers.settings import Intervention
from pragworld_tasks.tiny import tiny_folder

SETTINGS = {"groups": 4, "seed": 391, "domains": "shop"}
FOUR = ("--split", "generated", "--metadata", json.dumps(SETTINGS))
TINY = ("--model", str(tiny_folder()), *FOUR)
Run = Callable[..., Path]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run `ablate` or `patch` on the first of four groups and return the file; cached by arguments."""
    made: dict[tuple[str, ...], Path] = {}

    def run(*arguments: str, model: str = str(tiny_folder()), limit: int = 1) -> Path:
        key = (*arguments, model, str(limit))
        if key not in made:
            made[key] = tmp_path_factory.mktemp("run") / "results"
            shared = ["--model", model, *FOUR, "--limit", str(limit)]
            main([*arguments, *shared, "--out", str(made[key])])
            assert [path.name for path in made[key].parent.iterdir()] == ["results"]
        return made[key]

    return run


def yes(report: LayerReport) -> torch.Tensor:
    """Return p(yes), [documents, 1 + layers]."""
    gold = torch.tensor([document.gold for document in report.documents])
    is_yes = torch.tensor([[document.answer == "yes"] for document in report.documents])
    return torch.where(is_yes, gold, 1 - gold)


def assert_same(one: Path, other: Path) -> None:
    is_layers = "pragworld-layers" in one.read_text()
    read: Callable[[Path], Any] = read_layers if is_layers else read_patching
    first, second = read(one), read(other)
    assert first.data == second.data
    assert numbers(first).numel() > 20
    torch.testing.assert_close(numbers(first), numbers(second), atol=1e-5, rtol=0)


def numbers(report: LayerReport | PatchingReport) -> torch.Tensor:
    if isinstance(report, LayerReport):
        return yes(report)
    return torch.tensor(
        [(pair.original_run, pair.altered_run, *pair.patched) for pair in report.pairs]
    )


def test_a_limit_takes_the_first_groups_whole(run: Run) -> None:
    chosen = [document for document in generate(**SETTINGS) if document.group < 2]
    report = read_layers(run("ablate", limit=2))
    assert (report.data.groups, report.data.documents) == (2, len(chosen))
    assert [result.row for result in report.documents] == [d.row for d in chosen]
    effects = read_patching(run("patch", limit=2))
    assert [pair.altered for pair in effects.pairs] == [d.row for d in chosen if not d.is_original]


def test_options_are_used_and_recorded(run: Run) -> None:
    seeds = [
        read_layers(run("ablate", "--replacement", "resample", "--seed", seed)) for seed in "56"
    ]
    assert [report.intervention.seed for report in seeds] == [5, 6]
    assert (yes(seeds[0]) - yes(seeds[1]))[:, 1:].abs().amax(0).min() > 1e-4  # every layer
    settings = ("--module", "heads", "--layers", "0,2-3", "--positions", "-3:")
    report = read_layers(run("ablate", *settings, "--replacement", "mean"))
    assert report.intervention == Intervention("heads", "mean", None, "-3:")
    heads = AutoConfig.from_pretrained(tiny_folder()).num_attention_heads
    names = [f"{layer}.{head}" for layer in (0, 2, 3) for head in range(heads)]
    assert [target.name for target in report.targets] == names
    settings = ("--module", "heads", "--layers", "3", "--into", "altered")
    patched = read_patching(run("patch", *settings))
    assert (patched.module, patched.into) == ("heads", "altered")
    assert [target.name for target in patched.targets] == [f"3.{head}" for head in range(heads)]
    whole = read_patching(run("patch", "--into", "altered"))
    for pair in whole.pairs:  # the original's answer in the variant's run
        assert pair.patched[0] == pytest.approx(pair.altered_run, abs=1e-5)
        assert pair.patched[-1] == pytest.approx(pair.original_run, abs=1e-2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("ablate", "--layers", "4,0-2"),
        ("ablate", "--layers", "3,1", "--replacement", "mean"),
        ("patch", "--positions", "altered"),
        ("patch", "--module", "mlp", "--into", "altered"),
        ("ablate", "--replacement", "counterfactual", "--positions", "utterance"),
        ("ablate", "--revert", str(tiny_folder())),
    ],
)
def test_pyvene_gives_the_same(
    arguments: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = run(*arguments, "--engine", "sweep")
    monkeypatch.setattr(one_pass, "sweep_layers", None)  # so that it cannot be the same engine
    assert_same(swept, run(*arguments, "--engine", "pyvene"))


def test_a_model_that_takes_no_trees_is_swept_without_them_and_a_line_says_so(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
    tokenizer.save_pretrained(tmp_path)
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 512, "sliding_window": 32}
    settings = {**TABLES["common"], **TABLES["sizes"], **sizes}
    config = AutoConfig.for_model("mistral", **settings)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    capsys.readouterr()
    swept = run("ablate", model=str(tmp_path))
    why = r"its layers see 32 tokens, and the longest prompt has \d{2,3}"
    line = f"^{tmp_path}: prompts are padded to one length, not packed as trees: {why}$"
    assert len(re.findall(line, capsys.readouterr().err, re.MULTILINE)) == 1
    pyvene = run("ablate", "--engine", "pyvene", model=str(tmp_path))
    assert "as trees" not in capsys.readouterr().err  # it never has any
    assert_same(swept, pyvene)


def test_another_attention_gives_the_same(run: Run) -> None:
    assert_same(run("ablate", "--attn-implementation", "eager"), run("ablate"))


def test_help_figures_and_comparisons_do_without_torch(run: Run, tmp_path: Path) -> None:
    layers, patching = str(run("ablate")), str(run("patch"))
    figures = [str(tmp_path / "new" / name) for name in ("layers.png", "patching.png")]
    code = f"""
import sys
from pragworld_interp.cli import main
for command in ([], ["ablate"], ["patch"], ["plot"], ["compare"]):
    try:
        main([*command, "--help"])
    except SystemExit as end:
        assert end.code == 0
main(["plot", {layers!r}, "--out", {figures[0]!r}])
main(["plot", {patching!r}, "--out", {figures[1]!r}])
main(["compare", {layers!r}, {layers!r}])
print({{"torch", "transformers", "pyvene"}} & set(sys.modules))
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("usage: pragworld-interp") == 5
    assert all(Path(figure).read_bytes().startswith(b"\x89PNG") for figure in figures)
    assert process.stdout.endswith("\nset()\n")


@pytest.mark.parametrize(
    ("missing", "importer", "words", "line"),
    [
        ("torch", "run.sweeps", "ablate", "`ablate` and `patch` need torch"),
        ("torch", "lm_eval_models", "lm_eval --model hf-ablated", "--model hf-ablated needs torch"),
        ("pyvene", "engine.pyvene_engine", "patch --engine pyvene", "the engine pyvene needs pyvene"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named_with_the_extra_that_installs_it(
    missing: str,
    importer: str,
    words: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"pragworld_interp.{importer}"
    package, _, module = name.rpartition(".")
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr(sys.modules[package], module, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)  # importing it is an ImportError then
    command, *options = words.split()
    options += [] if command == "lm_eval" else [*TINY, "--out", str(tmp_path / "out")]
    with refused(re.escape(f"{line}: pip install 'pragworld[interp]'") + "$"):
        main([command, *options])


@pytest.mark.parametrize(
    ("command", "name"), [("ablate", "layers.json"), ("patch", "patching.json")]
)
def test_the_shipped_examples_are_what_the_commands_write(
    command: str, name: str, tmp_path: Path
) -> None:
    out = tmp_path / name
    out.write_text("mine")
    settings = {"groups": 8, "seed": 7, "domains": "household,shop,clinic"}
    options = ["--split", "generated", "--metadata", json.dumps(settings), "--overwrite"]
    main([command, "--model", str(tiny_folder()), *options, "--out", str(out)])
    assert_same(out, EXAMPLES / name)
