"""Traces: one token or one part of a prompt patched at a time."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from plain_hooks import by_hooks, group_of

import pragworld_tasks as pt
from pragworld_interp import TokenReport, read_patched_tokens, trace
from pragworld_interp.cli import main
from pragworld_interp.engine.decoder import from_model
from pragworld_interp.engine.interventions import ModuleChange
from pragworld_interp.prompts.alignment import Alignment, PatchingPair
from pragworld_interp.prompts.examples import Example
from pragworld_interp.run.inputs import select_pair
from pragworld_interp.run.loading import model_identity
from pragworld_interp.run.sweeps import Sweep, make_sweep
from pragworld_interp.run.tracing import trace_layers
from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.layers.settings import every_layer
from pragworld_tasks.layers.token_report import PatchedToken
from pragworld_tasks.tiny import tiny_folder

SETTINGS: dict[str, Any] = {"groups": 1, "seed": 3, "domains": "household"}
DOCUMENTS = pt.generate(**SETTINGS)
ROW = next(
    document.row
    for document in DOCUMENTS
    if (document.alteration, document.effect) == ("Variable Substitution", "flip")
)
MODEL = ("--model", str(tiny_folder()))
OPTIONS = (*MODEL, "--split", "generated", "--metadata", json.dumps(SETTINGS))


@pytest.fixture(scope="module")
def report(loaded: tuple[Any, Any]) -> TokenReport:
    return trace(*loaded, DOCUMENTS, ROW)


def probabilities(loaded: tuple[Any, Any], alignment: Alignment) -> Any:
    """Return p(y) of the original with some positions patched at each layer, by plain hooks."""
    original, altered = select_pair(DOCUMENTS, ROW)
    prompts = [loaded[1](label_prompt(each))["input_ids"] for each in (original, altered)]
    decoder = from_model(*loaded)
    pairs = {0: [PatchingPair(0, 1, alignment)]}
    change = ModuleChange("residual", every_layer(len(decoder.blocks)), pairs=pairs)
    logits = by_hooks(decoder, [group_of(prompts)], change).changed[:, 0]
    yes, no = logits.double().softmax(1).T.tolist()
    return pytest.approx(yes if altered.answer == "yes" else no, abs=1e-5)


def test_tokens_and_parts_agree_with_plain_hooks(
    report: TokenReport, loaded: tuple[Any, Any]
) -> None:
    assert [report.original_run] * report.model.layers == probabilities(loaded, [])
    altered = [token for token in report.tokens if token.part == "altered" and token.patched]
    assert any(token.text != token.source_text for token in altered)
    effects = {
        position: max(abs(p - report.original_run) for p in token.patched)
        for position, token in enumerate(report.tokens)
        if token.patched
    }
    telling = sorted(effects, key=effects.__getitem__)[-4:]
    assert effects[telling[-1]] > 0.01
    for position in {*telling, *map(report.tokens.index, altered[:2]), len(report.tokens) - 1}:
        token = report.tokens[position]
        assert token.source is not None
        assert token.patched == probabilities(loaded, [(position, token.source)])
    for part, patched in report.parts.items():
        alignment = [
            (position, token.source)
            for position, token in enumerate(report.tokens)
            if token.part == part and token.source is not None
        ]
        assert len(alignment) == report.count(part)
        assert patched == probabilities(loaded, alignment)


OWN: dict[str, Any] = {"labels": ["Bob", "Mia"], "answers": ["Bob", "Mia"]}
PROMPTS = ["Bob met Alice. Who met Alice?", "Mia met Alice in Rome. Who met Alice?"]


@pytest.fixture(scope="module")
def inputs(loaded: tuple[Any, Any]) -> Sweep:
    """A short pair, ready to be traced."""
    labels = loaded[1](" Bob Mia", add_special_tokens=False)["input_ids"]
    decoder = dataclasses.replace(from_model(*loaded), labels=tuple(labels))
    identity = model_identity(decoder, "tiny", None, None, False)
    names = ("Bob", "Mia")
    pair = [
        Example(row, 0, row == 0, names[row], PROMPTS[row], (row, 1 - row), names) for row in (0, 1)
    ]
    return make_sweep(decoder, identity, pair)


def assert_same(found: TokenReport, expected: TokenReport) -> None:
    assert [*found.parts] == [*expected.parts]
    for part, patched in found.parts.items():
        assert patched == pytest.approx(expected.parts[part], abs=1e-5)
    for token, same in zip(found.tokens, expected.tokens, strict=True):
        assert dataclasses.replace(token, patched=None) == dataclasses.replace(same, patched=None)
        assert (token.patched or ()) == pytest.approx(same.patched or (), abs=1e-5)


@pytest.mark.parametrize(
    ("trees", "changes"),
    [(False, {"budget": 50}), (True, {"budget": 20}), (True, {"engine": "pyvene"})],
)
def test_all_ways_to_run_agree(
    trees: bool, changes: dict[str, Any], inputs: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = trace_layers(inputs)
    monkeypatch.setattr(Sweep, "_takes_trees", lambda *_: trees)
    assert_same(trace_layers(dataclasses.replace(inputs, **changes)), expected)


def test_prompts_of_ones_own_are_traced(loaded: tuple[Any, Any]) -> None:
    own = trace(*loaded, prompts=PROMPTS, **OWN)
    assert (own.original, own.altered, own.answer) == (0, 1, "Mia")
    assert {*own.parts} == {"altered", "last", "rest"}
    (first,) = [token for token in own.tokens if token.part == "altered"]
    assert first.shown.startswith("Bob → ")
    inserted = [PROMPTS[0], "Bob met Alice and Mia. Who met Alice?"]
    assert "altered" not in trace(*loaded, prompts=inserted, **OWN).parts


@pytest.mark.parametrize(
    ("text", "source", "shown"),
    [
        (" red", " blue", "red → blue"),
        (" red", " red", "red"),
        ("\n\n", None, r"\n\n"),
        (" ", "\r", "␣ → \\r"),
        ("\x1b[2J", "a\u2028b", r"\x1b[2J → a\u2028b"),
    ],
)
def test_tokens_are_shown_on_one_line(text: str, source: str | None, shown: str) -> None:
    at = None if source is None else 0
    assert PatchedToken(text, "rest", at, source, None).shown == shown


def test_a_figure_shows_the_effects(report: TokenReport, tmp_path: Path) -> None:
    figure = report.plot(tmp_path / "trace.png")
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    assert min(box.x0, box.y0) >= 0
    assert box.x1 <= figure.get_figwidth()
    assert box.y1 <= figure.get_figheight()
    (image,) = figure.axes[0].get_images()
    values: Any = image.get_array()
    effects = [p - report.original_run for p in report.parts["rest"]]
    assert values[:, 0].tolist() == pytest.approx(effects)
    shown = [token for token in report.tokens if token.part != "rest"]
    for column, token in enumerate(shown, start=1):
        effects = [p - report.original_run for p in token.patched or ()]
        assert values[:, column].compressed().tolist() == pytest.approx(effects)


def test_the_command_prints_and_writes_the_trace(
    report: TokenReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, drawn = tmp_path / "new" / "trace.json", tmp_path / "trace.png"
    main(["patch", *OPTIONS, "--row", str(ROW), "--out", str(out)])
    assert capsys.readouterr().out == report.to_text() + "\n"
    written = read_patched_tokens(out)
    assert (written.parts, written.tokens) == (report.parts, report.tokens)
    assert written.data.generator is not None
    main(["plot", str(out), "--out", str(drawn)])
    report.plot(tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == drawn.read_bytes()
