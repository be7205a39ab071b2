"""The command `pragworld-interp`: what it refuses, and the effect of its options."""

import dataclasses
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from places import SAMPLES
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from pragworld_interp import EXAMPLES
from pragworld_interp.cli import main
from pragworld_interp.engine import ablation, patching
from pragworld_interp.engine.decoder import Decoder
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.layers.ablation_report import LayerReport, read_layers
from pragworld_tasks.layers.patching_report import PatchingReport, read_patching
from pragworld_tasks.layers.settings import Intervention
from pragworld_tasks.tiny import tiny_folder

SEED = 389  # whose first groups are small
FOUR = ("--split", "generated", "--metadata", f'{{"groups": 4, "seed": {SEED}}}')
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


# What is refused ----------------------------------------------------------------------------------


@pytest.fixture
def refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Run a command that must be refused, and return the one line that it ends with.

    It must write nothing to stdout and leave no file in `tmp_path`.
    """
    monkeypatch.setenv("PRAGWORLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PRAGWORLD_DATA", raising=False)

    def refused(*arguments: str | Path) -> str:
        before = contents(tmp_path)
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        assert caught.value.code == 2
        assert contents(tmp_path) == before
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "Traceback" not in printed.err
        *progress, message = printed.err.splitlines()
        assert message
        assert all("Loading weights" in line or not line for line in progress), progress
        return message

    return refused


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Return the content of all files outside the cache, where a lock stays."""
    return {
        path: path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if "cache" not in path.relative_to(folder).parts
    }


@pytest.mark.parametrize("command", ["ablate", "patch"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metadata", "{groups: 3}"], r"^--metadata '{groups: 3}': not a JSON object, such as "),
        (["--metadata", "{\n"], r"^--metadata '{\\n': not a JSON object, such as "),
        (["--metadata", "[3]"], r"^--metadata '\[3\]': not a JSON object, such as "),
        (["--metadata", '{"grups": 3}'], r"^setting 'grups' does not exist; choose from groups, seed, "),
        (["--metadata", '{"groups": 0}'], "^groups must be at least 1, not 0$"),
        (["--metadata", '{"split": "tset"}'], "^there is no generated split 'tset'; use train, "),
        (["--split", "manual", "--metadata", '{"groups": 3}'], "^manual: only the split generated has settings; leave them out$"),
        (["--limit", "0"], "^--limit 0: must be at least 1$"),
        (["--batch-tokens", "0"], "^--batch-tokens 0: must be at least 1$"),
        (["--model", "./no-such-folder"], r"^model \./no-such-folder: there is no such folder$"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(
    command: str, options: list[str], message: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    refusal = refused(command, *TINY, *options, "--out", tmp_path / "runs" / "results")
    assert re.search(message, refusal), refusal


@pytest.mark.parametrize("engine", ["sweep", "pyvene"])
@pytest.mark.parametrize("command", ["ablate", "patch"])
def test_a_model_that_overflows_is_refused_with_its_layer(
    command: str, engine: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_folder())
    with torch.no_grad():
        model.model.layers[3].mlp.down_proj.weight *= 1e38
    model.save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(tiny_folder()).save_pretrained(tmp_path / "model")
    # With layer 3 ablated, its answers would be those of any other model.
    options = ["--model", tmp_path / "model", *FOUR, "--limit", "1", "--engine", engine]
    assert refused(command, *options, "--out", tmp_path / "results") == (
        "split generated, row 0: the residuals after layer 3 are not finite in torch.float32; "
        "check its weights"
    )


@pytest.mark.parametrize("command", ["ablate", "patch"])
@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("file/results", r"file/results: Not a directory; choose a file that can be written$"),
        ("file/deeper/results", r"results: Not a directory; choose a file that can be written$"),
        ("there", "there: Is a directory; choose a file that can be written$"),
        ("x" * 300, "File name too long; choose a file that can be written$"),
        (f"{'x' * 300}/results", "File name too long; choose a file that can be written$"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_refused_before_anything_is_loaded(
    command: str, out: str, message: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "there").mkdir()
    options = ["--model", "no/such-model", *FOUR]
    refusal = refused(command, *options, "--out", tmp_path / out)
    assert re.search(message, refusal), refusal


def test_data_that_is_nowhere_is_refused_with_what_to_do(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRAGWORLD_URL", "nowhere")  # no address; nothing goes over the network
    model = ("--model", str(tiny_folder()))
    refusal = refused("ablate", *model, "--split", "manual", "--out", tmp_path / "out")
    assert refusal.startswith("split 'manual' is not on this machine and ")
    assert "Set PRAGWORLD_DATA to a clone of" in refusal


def test_where_nothing_is_altered_there_is_nothing_to_patch(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    options = (
        "--model",
        str(tiny_folder()),
        "--split",
        "entity_tracking",
        "--out",
        tmp_path / "out",
    )
    refusal = refused("patch", *options)
    assert (
        refusal
        == "split entity_tracking has no altered variants to patch from; choose another split"
    )


def test_where_the_dialogue_is_not_known_its_positions_are_refused(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    """Otherwise nothing would be patched, and every effect would be zero."""
    target = tmp_path / "model"
    shutil.copytree(tiny_folder(), target, ignore=shutil.ignore_patterns("__pycache__"))
    tokenizer = AutoTokenizer.from_pretrained(target)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] | upper }}{% endfor %}"
    tokenizer.save_pretrained(target)
    options = ("--model", target, *FOUR, "--limit", "1", "--chat-template")
    refusal = refused("patch", *options, "--positions", "dialogue", "--out", tmp_path / "out")
    assert refusal == (
        "split generated, row 0: the tokenizer or the chat template does not tell which positions "
        "hold the dialogue; use positions all, last or a span"
    )


@pytest.fixture
def files(tmp_path: Path, run: Run) -> Path:
    """Return a folder with results and with files of other kinds."""
    layers, patching = run("ablate"), run("patch")
    target = tmp_path / "files"
    target.mkdir()
    shutil.copy(layers, target / "layers.json")
    shutil.copy(patching, target / "patching.json")
    shutil.copy(run("ablate", limit=3), target / "three.json")
    shutil.copy(run("patch", "--positions", "dialogue"), target / "dialogue.json")
    (target / "text.json").write_text("hello")
    (target / "cut-off.json").write_text(layers.read_text()[:-30])
    (target / "folder.png").mkdir()
    report = read_patching(patching)
    unkept = [pair for pair in report.pairs if not pair.kept]
    dataclasses.replace(report, pairs=tuple(unkept)).write(target / "unkept.json")
    return target


ABLATE = "give a file that `pragworld-interp ablate` wrote$"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("plot text.json --out f.png", rf"/text\.json: {ABLATE}"),
        ("plot cut-off.json --out f.png", r"/cut-off\.json: Invalid JSON: EOF while .*; write the file again$"),
        ("plot missing.json --out f.png", r"missing\.json: No such file or directory$"),
        ("plot folder.png --out f.png", r"folder\.png: Is a directory$"),
        ("plot unkept.json --out f.png", "^tiny: no pair is kept, so there is nothing to show$"),
        ("plot layers.json patching.json --out f.png", rf"/patching\.json: written by `pragworld-interp patch`; {ABLATE}"),
        ("plot layers.json three.json --out f.png", r"^tiny \(2\) was swept with other documents than tiny; use the same for both$"),
        ("plot patching.json dialogue.json --out f.png", r"^tiny \(2\) was swept with other positions than tiny; use the same for both$"),
        ("plot patching.json --by sign --out f.png", "^--by applies to files that `ablate` wrote, without --by-alteration; leave it out$"),
        ("plot layers.json --by-alteration --by sign --out f.png", "^--by applies to files that `ablate` wrote, without --by-alteration; leave it out$"),
        ("plot layers.json --out f.jpg", r"f\.jpg: unsupported figure format; end the name in \.png, \.svg, \.pdf$"),
        ("plot layers.json --out folder.png", r"folder\.png: Is a directory; choose a file that can be written$"),
        ("compare layers.json", "^a comparison needs at least 2 layer reports, not 1$"),
        ("compare layers.json patching.json", rf"/patching\.json: written by `pragworld-interp patch`; {ABLATE}"),
        ("compare layers.json three.json", r"^tiny \(2\) was swept with other documents than tiny; use the same for both$"),
    ],
)  # fmt: skip
def test_what_cannot_be_plotted_or_compared_is_named(
    words: str, message: str, refused: Callable[..., str], files: Path
) -> None:
    command, *others = words.split()
    paths = [word if "." not in word else files / word for word in others]
    refusal = refused(command, *paths)
    assert re.search(message, refusal), refusal


def test_a_comparison_goes_where_it_can_be_written(
    refused: Callable[..., str], files: Path
) -> None:
    two = (files / "layers.json", files / "layers.json")
    refusal = refused("compare", *two, "--json", files / "text.json" / "comparison.json")
    assert re.search(r"comparison\.json: Not a directory; choose a file that", refusal), refusal
    before = (files / "text.json").read_text()
    refusal = refused("compare", *two, "--json", files / "text.json")
    assert re.search(r"text\.json exists; pass --overwrite, or another name$", refusal), refusal
    assert (files / "text.json").read_text() == before


# What options do ----------------------------------------------------------------------------------


def test_a_limit_takes_the_first_groups_whole(run: Run) -> None:
    generated = documents(generate(GeneratorSettings(groups=4, seed=SEED)))
    chosen = [document for document in generated if document.group < 2]
    report = read_layers(run("ablate", limit=2))
    assert (report.data.groups, report.data.documents) == (2, len(chosen))
    assert [result.row for result in report.documents] == [d.row for d in chosen]
    effects = read_patching(run("patch", limit=2))
    assert [pair.altered for pair in effects.pairs] == [d.row for d in chosen if not d.is_original]


def test_another_module_and_replacement_run_and_are_recorded(run: Run) -> None:
    zero = read_layers(run("ablate"))
    assert zero.intervention == Intervention("mlp", "zero", None)
    mean = read_layers(run("ablate", "--module", "attention", "--replacement", "mean"))
    assert mean.intervention == Intervention("attention", "mean", None)
    torch.testing.assert_close(yes(zero)[:, 0], yes(mean)[:, 0], atol=1e-5, rtol=0)
    assert (yes(zero)[:, 1:] - yes(mean)[:, 1:]).abs().amax(0).min() > 1e-3  # every layer


def test_chosen_layers_and_heads_run_and_are_recorded(run: Run) -> None:
    settings = ("--module", "heads", "--layers", "0,2-3", "--positions", "-3:")
    report = read_layers(run("ablate", *settings, "--replacement", "mean"))
    assert report.intervention == Intervention("heads", "mean", None, "-3:")
    heads = AutoConfig.from_pretrained(tiny_folder()).num_attention_heads
    assert [target.name for target in report.targets] == [
        f"{layer}.{head}" for layer in (0, 2, 3) for head in range(heads)
    ]


def test_the_seed_of_resampling_is_used_and_recorded(run: Run) -> None:
    first, second = (
        read_layers(run("ablate", "--replacement", "resample", "--seed", seed)) for seed in "56"
    )
    assert first.intervention == Intervention("mlp", "resample", 5)
    assert second.intervention == Intervention("mlp", "resample", 6)
    torch.testing.assert_close(yes(first)[:, 0], yes(second)[:, 0], atol=1e-5, rtol=0)
    assert (yes(first)[:, 1:] - yes(second)[:, 1:]).abs().amax(0).min() > 1e-4


def test_patching_of_the_dialogue_alone_runs_and_is_recorded(run: Run) -> None:
    everywhere = read_patching(run("patch"))
    dialogue = read_patching(run("patch", "--positions", "dialogue"))
    assert (everywhere.positions, dialogue.positions) == ("all", "dialogue")
    assert everywhere.data == dialogue.data
    assert everywhere.pairs
    for one, other in zip(everywhere.pairs, dialogue.pairs, strict=True):
        # At the bottom aligned tokens are the same; at the top the last one holds the answer.
        for pair in (one, other):
            assert pair.patched[0] == pytest.approx(pair.original_run, abs=1e-5)
        assert one.patched[-1] == pytest.approx(one.altered_run, abs=1e-2)
        assert other.patched[-1] == pytest.approx(other.original_run, abs=1e-2)


def test_a_span_may_count_from_the_end(run: Run, refused: Callable[..., str]) -> None:
    spans = [read_patching(run("patch", "--positions", span)) for span in ("-1:", "last")]
    assert [report.positions for report in spans] == ["-1:", "last"]
    assert spans[0].pairs == spans[1].pairs  # all prompts end in one token
    refusal = refused("patch", "--positions", "-1", *TINY, "--out", "out")
    assert refusal.startswith("positions -1: must be all, ")
    refusal = refused("patch", "--positions", "ends", *TINY, "--out", "out")
    assert refusal.startswith("positions ends: must be all, dialogue, ")
    refusal = refused("patch", "--positions", "-1:-3", *TINY, "--out", "out")
    assert refusal.endswith(" tokens, none of them in -1:-3; choose another span")


@pytest.mark.parametrize(
    "arguments",
    [
        ("ablate",),
        ("ablate", "--module", "attention", "--replacement", "resample"),
        ("ablate", "--layers", "4,0-2"),
        ("ablate", "--layers", "3,1", "--replacement", "mean"),
        ("patch",),
        ("patch", "--positions", "dialogue"),
        ("patch", "--positions", "altered"),
    ],
)
def test_pyvene_gives_the_same(
    arguments: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = run(*arguments, "--engine", "sweep", limit=1)
    monkeypatch.setattr(ablation, "sweep_layers", None)  # so that it cannot be the same engine
    monkeypatch.setattr(patching, "sweep_layers", None)
    assert_same(swept, run(*arguments, "--engine", "pyvene", limit=1))


def assert_same(one: Path, other: Path) -> None:
    """Assert that two files hold the same numbers up to rounding."""
    read: Callable[[Path], Any] = read_layers if is_layers(one) else read_patching
    first, second = (numbers(read(path)) for path in (one, other))
    assert first.numel() > 20
    torch.testing.assert_close(first, second, atol=1e-5, rtol=0)


def is_layers(path: Path) -> bool:
    return "pragworld-layers" in path.read_text()


def numbers(report: LayerReport | PatchingReport) -> torch.Tensor:
    if isinstance(report, LayerReport):
        return yes(report)
    return torch.tensor(
        [(pair.original_run, pair.altered_run, *pair.patched) for pair in report.pairs]
    )


@pytest.mark.parametrize(
    ("architecture", "config", "why"),
    [
        (
            "mistral",
            {"sliding_window": 32},
            r"its layers see 32 tokens, and the longest prompt has \d{2,3}",
        ),
        (
            "minimax",  # its linear attention knows no mask of four dimensions
            {"layer_types": ["linear_attention", "full_attention"], "num_local_experts": 2},
            "its residuals in a tree are not those of each prompt",
        ),
        (
            "gpt_neo",
            {
                "num_layers": 2,
                "num_heads": 4,
                "attention_types": [[["global", "local"], 1]],
                "window_size": 32,
            },
            r"its layers see 32 tokens, and the longest prompt has \d{2,3}",
        ),
        (
            "phi3",
            {
                "rope_parameters": {
                    "rope_type": "longrope",
                    "rope_theta": 10_000.0,
                    "short_factor": [1.0] * 4,
                    "long_factor": [4.0] * 4,
                    "original_max_position_embeddings": 117,
                    "factor": 4.0,
                },
                "original_max_position_embeddings": 117,
            },
            "its rotary embeddings are those of the longest prompt beyond 117 tokens",
        ),
    ],
)
@pytest.mark.parametrize("command", ["ablate", "patch"])
def test_a_model_that_takes_no_trees_is_swept_without_them_and_a_line_says_so(
    architecture: str,
    config: dict[str, Any],
    why: str,
    command: str,
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
    torch.manual_seed(0)
    settings = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 512,
        "initializer_range": 0.3,
        "pad_token_id": 2,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    made = AutoConfig.for_model(architecture, **settings, **config)
    AutoModelForCausalLM.from_config(made).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    capsys.readouterr()
    swept = run(command, model=str(tmp_path))
    lines = capsys.readouterr().err.splitlines()
    (refusal,) = (line for line in lines if line.startswith(f"{tmp_path}: "))
    assert re.search(
        rf": prompts are padded to one length, not packed as trees: {why}$", refusal
    ), refusal
    pyvene = run(command, "--engine", "pyvene", model=str(tmp_path))
    assert "as trees" not in capsys.readouterr().err  # it never has any
    assert_same(swept, pyvene)


def causal_attention(
    _: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *__: Any, **___: Any
) -> tuple[torch.Tensor, None]:
    """Return the outputs of attention to everything before, whatever the mask."""
    output = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=True
    )
    return output.transpose(1, 2), None


@pytest.mark.parametrize("command", ["ablate", "patch"])
@pytest.mark.parametrize(
    ("attention", "why"),
    [
        ("eager", ""),
        ("causal", "its residuals in a tree are not those of each prompt"),
        ("unpadded", "flash does not support the mask of a tree"),
    ],
)
def test_a_chosen_attention_runs_with_trees_where_it_supports_them(
    attention: str,
    why: str,
    command: str,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def attend(*arguments: Any, **settings: Any) -> Any:
        assert attention == "causal" or arguments[4] is None  # the mask
        return causal_attention(*arguments, **settings)

    expected = run(command)
    capsys.readouterr()
    if attention != "eager":
        monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention, attend)
    if attention == "unpadded":
        monkeypatch.setattr(Decoder, "attention", "flash")
    chosen = run(command, "--attn-implementation", attention)
    printed = capsys.readouterr().err
    assert (f"not packed as trees: {why}\n" if why else "") in printed
    assert ("as trees" in printed) == bool(why)
    assert_same(chosen, expected)


def test_a_figure_shows_every_model_of_patching_by_its_adapter(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pragworld_tasks.layers import patching_report

    patching = run("patch")
    report = read_patching(patching)
    model = dataclasses.replace(report.model, adapter="runs/adapter")
    dataclasses.replace(report, model=model).write(tmp_path / "adapted")
    shown: list[str] = []

    monkeypatch.setattr(
        patching_report, "patching_figure", lambda reports, *_: shown.extend(reports)
    )
    main(["plot", str(patching), str(tmp_path / "adapted"), "--out", str(tmp_path / "x.png")])
    assert shown == ["tiny", "tiny + adapter"]


# The command itself -------------------------------------------------------------------------------


def test_help_figures_and_comparisons_do_without_torch(run: Run, tmp_path: Path) -> None:
    layers, patching = str(run("ablate")), str(run("patch"))
    figures = [str(tmp_path / name) for name in ("layers.png", "patching.png")]
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


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_sweep_names_the_extra_that_installs_what_is_missing(
    package: str, tmp_path: Path
) -> None:
    arguments = ["ablate", *TINY, "--limit", "1", "--out", str(tmp_path / "out")]
    code = f"""
import sys
sys.modules[{package!r}] = None  # importing it is an ImportError then
from pragworld_interp.cli import main
main({arguments!r})
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 2
    remedy = "pip install 'pragworld[interp]'"
    assert process.stderr == f"`ablate` and `patch` need {package}: {remedy}\n"


def test_lm_eval_names_the_extra_that_installs_what_is_missing() -> None:
    code = """
import sys
sys.modules["torch"] = None  # importing it is an ImportError then
from pragworld_interp.cli import main
main(["lm_eval", "--model", "hf-ablated", "--tasks", "hellaswag"])
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 2
    refusal = process.stderr.splitlines()[-1]
    assert refusal == "--model hf-ablated needs torch: pip install 'pragworld[interp]'"
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize(
    ("command", "name"), [("ablate", "layers.json"), ("patch", "patching.json")]
)
def test_the_shipped_examples_are_what_the_commands_write(
    command: str, name: str, tmp_path: Path
) -> None:
    settings = ["--split", "generated", "--metadata", '{"groups": 8, "seed": 4}']
    main([command, "--model", str(tiny_folder()), *settings, "--out", str(tmp_path / name)])
    assert_same(tmp_path / name, EXAMPLES / name)
    read: Callable[[Path], Any] = read_layers if command == "ablate" else read_patching
    assert read(tmp_path / name).data == read(EXAMPLES / name).data


def test_without_pyvene_only_its_engine_is_refused(
    run: Run, refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyvene", None)  # importing it is an ImportError then
    monkeypatch.delitem(sys.modules, "pragworld_interp.engine.pyvene_engine", raising=False)
    monkeypatch.delattr("pragworld_interp.engine.pyvene_engine", raising=False)
    for command in ("ablate", "patch"):
        arguments = (command, *TINY, "--limit", "1")
        main([*arguments, "--out", str(tmp_path / command)])
        assert_same(tmp_path / command, run(command, limit=1))
        refusal = refused(*arguments, "--engine", "pyvene", "--out", tmp_path / "other")
        assert refusal == "the engine pyvene needs pyvene: pip install 'pragworld[interp]'"


def test_a_reader_that_has_gone_is_no_error(run: Run) -> None:
    layers = str(run("ablate"))
    command = [sys.executable, "-m", "pragworld_interp", "compare", layers, layers]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    process.stdout.close()  # before it writes
    _, printed = process.communicate()
    assert process.returncode == 141
    assert printed == ""


@pytest.mark.parametrize("command", ["ablate", "patch"])
def test_a_finished_report_is_replaced_only_with_overwrite(
    command: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    path = tmp_path / "report"
    path.write_text("mine")
    message = f"{path} exists; pass --overwrite, or another name"
    assert refused(command, "--model", "no/such-model", *FOUR, "--out", path) == message
    main([command, *TINY, "--limit", "1", "--out", str(path), "--overwrite"])
    assert "pragworld-" in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_a_figure_makes_its_folder(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "new" / "figures" / "layers.png"
    main(["plot", str(run("ablate")), "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
