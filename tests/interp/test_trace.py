"""Traces: one token or one part of a prompt patched at a time."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import pragworld_tasks as pt
from pragworld_interp import (
    Traced,
    TraceReport,
    patching,
    pipeline,
    read_trace,
    trace,
    trace_figure,
)
from pragworld_interp.cli import main
from pragworld_interp.decoder import from_model
from pragworld_interp.loading import model_identity
from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.identities import OwnPrompt
from pragworld_tasks.layers.trace_heatmap import MOST_TOKENS
from pragworld_tasks.layers.trace_report import (
    PART_TITLES,
    Part,
    TracedPart,
    TracedToken,
    select_pair,
)
from pragworld_tasks.tiny import tiny_folder

SETTINGS: dict[str, Any] = {"groups": 1, "seed": 7}
DOCUMENTS = pt.generate(**SETTINGS)
ROW = next(
    document.row
    for document in DOCUMENTS
    if (document.alteration, document.effect) == ("Variable Substitution", "flip")
)
MODEL = ("--model", str(tiny_folder()))
OPTIONS = (*MODEL, "--split", "generated", "--metadata", json.dumps(SETTINGS))


@pytest.fixture(scope="module")
def report(loaded: tuple[Any, Any]) -> Traced:
    return trace(*loaded, DOCUMENTS, ROW)


@torch.inference_mode()
def probability(loaded: tuple[Any, Any], layer: int, alignment: list[tuple[int, int]]) -> float:
    """Return p(y) of the original with some positions patched at a layer, by plain hooks."""
    model, tokenizer = loaded
    pair = select_pair(DOCUMENTS, ROW)
    original, altered = (tokenizer(label_prompt(each), return_tensors="pt") for each in pair)
    block = model.model.layers[layer]
    recorded: list[torch.Tensor] = []
    with block.register_forward_pre_hook(lambda _, args: recorded.append(args[0])):
        model(**altered)

    def put(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden = args[0].clone()
        for target, source in alignment:
            hidden[0, target] = recorded[0][0, source]
        return (hidden, *args[1:])

    with block.register_forward_pre_hook(put):
        logits = model(**original).logits[0, -1]
    answers = [pair[1].answer, "no" if pair[1].answer == "yes" else "yes"]
    gold, other = (tokenizer(f" {answer}", add_special_tokens=False) for answer in answers)
    log_odds = logits[gold["input_ids"][0]] - logits[other["input_ids"][0]]
    return float(log_odds.double().sigmoid())


def test_tokens_and_parts_agree_with_plain_hooks(report: Traced, loaded: tuple[Any, Any]) -> None:
    assert report.original_run == pytest.approx(probability(loaded, 0, []), abs=2e-6)
    altered = [token for token in report.tokens if token.part == "altered" and token.patched]
    assert any(token.text != token.source_text for token in altered)
    telling = [token for token, _ in report.most_telling(4)]
    assert max(abs(p - report.original_run) for p in telling[0].patched or ()) > 0.01
    chosen = {token.position: token for token in [*telling, *altered[:2], report.tokens[-1]]}
    for token in chosen.values():
        assert token.source is not None
        assert token.patched is not None
        for layer in (0, 1, 3):
            expected = probability(loaded, layer, [(token.position, token.source)])
            assert token.patched[layer] == pytest.approx(expected, abs=1e-5)
    for part in report.parts:
        alignment = [
            (token.position, token.source)
            for token in report.tokens
            if token.part == part.part and token.source is not None
        ]
        assert len(alignment) == part.tokens
        for layer in (0, 2, 4):
            expected = probability(loaded, layer, alignment)
            assert part.patched[layer] == pytest.approx(expected, abs=1e-5)


def test_parts_divide_the_prompt(report: Traced, loaded: tuple[Any, Any]) -> None:
    original, _ = select_pair(DOCUMENTS, ROW)
    decode = loaded[1].decode
    ids = loaded[1](label_prompt(original))["input_ids"]
    assert [token.text for token in report.tokens] == [decode([token]) for token in ids]
    assert [token.position for token in report.tokens if token.part == "last"] == [len(ids) - 1]
    question = [token for token in report.tokens if token.place == "question"]
    assert decode([ids[token.position] for token in question]).strip() == original.question
    assert {token.part for token in question} <= {"question", "altered"}
    dialogue = [token for token in report.tokens if token.place == "dialogue"]
    assert decode([ids[token.position] for token in dialogue]) == original.context
    for token in report.tokens:
        if token.part == "utterance":
            assert token.place == "dialogue"
            assert token.text == token.source_text
    frame = report.to_frame()
    assert len(frame) == 5 * sum(token.patched is not None for token in report.tokens)
    shown = frame[frame["layer"] == 4].set_index("position")["direct_effect"]
    for token, _ in report.most_telling():
        assert token.patched is not None
        assert shown[token.position] == token.patched[4] - report.original_run


OWN: dict[str, Any] = {"labels": ["Bob", "Mia"], "answers": ["Bob", "Mia"]}
PROMPTS = ["Bob met Alice. Who met Alice?", "Mia met Alice in Rome. Who met Alice?"]


@pytest.fixture(scope="module")
def inputs(loaded: tuple[Any, Any]) -> pipeline.SweepInputs:
    """A short pair, ready to be traced."""
    labels = loaded[1](" Bob Mia", add_special_tokens=False)["input_ids"]
    decoder = dataclasses.replace(from_model(*loaded), labels=tuple(labels))
    settings: dict[str, Any] = {"adapter": None, "chat_template": False, "quantization": None}
    identity = model_identity(decoder, "tiny", None, **settings)
    names = ("Bob", "Mia")
    pair = [
        OwnPrompt(row, 0, row == 0, names[row], names, (row, 1 - row), PROMPTS[row])
        for row in (0, 1)
    ]
    return pipeline.inputs_of(decoder, identity, pair)


def assert_same(found: TraceReport, expected: TraceReport) -> None:
    for part, other in zip(found.parts, expected.parts, strict=True):
        assert dataclasses.replace(part, patched=()) == dataclasses.replace(other, patched=())
        assert part.patched == pytest.approx(other.patched, abs=1e-5)
    for token, same in zip(found.tokens, expected.tokens, strict=True):
        assert dataclasses.replace(token, patched=None) == dataclasses.replace(same, patched=None)
        assert (token.patched or ()) == pytest.approx(same.patched or (), abs=1e-5)


@pytest.mark.parametrize(
    "changes", [{"trees": False, "budget": 50}, {"budget": 20}, {"engine": "pyvene"}]
)
def test_all_ways_to_run_agree(changes: dict[str, Any], inputs: pipeline.SweepInputs) -> None:
    found = pipeline.trace_layers(dataclasses.replace(inputs, **changes))
    assert_same(found, pipeline.trace_layers(inputs))


def test_fewer_positions_run_together_when_memory_is_short(
    inputs: pipeline.SweepInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = pipeline.trace_layers(inputs)
    patched_logits = patching.patched_logits

    def scarce(decoder: Any, groups: Any, pairs: Any, *rest: Any) -> Any:
        if len(pairs[0]) > 3:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return patched_logits(decoder, groups, pairs, *rest)

    monkeypatch.setattr(patching, "patched_logits", scarce)
    assert_same(pipeline.trace_layers(inputs), expected)


def test_prompts_of_ones_own_are_traced(loaded: tuple[Any, Any]) -> None:
    own = trace(*loaded, prompts=PROMPTS, **OWN)
    assert (own.original, own.altered, own.answer) == (0, 1, "Mia")
    assert {token.place for token in own.tokens} == {"around"}
    assert {part.part for part in own.parts} == {"altered", "last", "rest"}
    (first,) = [token for token in own.tokens if token.part == "altered"]
    assert first.shown.startswith("Bob → ")
    with pytest.raises(InputError, match="prompts must be two, an original and its variant"):
        trace(*loaded, row=1, prompts=PROMPTS, **OWN)
    with pytest.raises(InputError, match="row=None: give the row of an altered variant among"):
        trace(*loaded, DOCUMENTS)


def test_where_tokens_are_only_inserted_the_report_says_so(loaded: tuple[Any, Any]) -> None:
    prompts = [PROMPTS[0], "Bob met Alice and Mia. Who met Alice?"]
    text = trace(*loaded, prompts=prompts, **OWN).to_text()
    assert "No altered token can be patched: the alteration only inserts or deletes" in text


@pytest.mark.parametrize(
    ("text", "source", "shown"),
    [
        (" red", " blue", "red → blue"),
        (" red", " red", "red"),
        ("\n\n", None, "↵↵"),
        (" ", "\r", "␣ → \\r"),
        ("\x1b[2J", "a\u2028b", r"\x1b[2J → a\u2028b"),
    ],
)
def test_tokens_are_shown_on_one_line(text: str, source: str | None, shown: str) -> None:
    at = None if source is None else 0
    assert TracedToken(0, text, "rest", "around", at, source, None).shown == shown


# The file and the figure --------------------------------------------------------------------------


def test_a_file_says_what_was_written(report: Traced, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    report.write(path)
    assert read_trace(path) == report
    with pytest.raises(InputError, match=r"trace\.json exists"):
        report.write(path)
    report.write(path, overwrite=True)


def change(content: Any, path: str, value: object) -> None:
    """Change one value of a file, at a path such as tokens/0/part."""
    *parents, name = (int(part) if part.isdigit() else part for part in path.split("/"))
    for parent in parents:
        content = content[parent]
    content[name] = value


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        ("version", 2, "version 2 of 'pragworld-trace', but this pragworld reads version 1"),
        ("schema", "other", "give a file that `pragworld-interp patch --row` wrote"),
        ("original_run", 1.5, "original_run has a number that is not a probability"),
        ("altered_run", None, "altered_run has a number that is not a probability"),
        ("parts/0/patched", [0.5], "has 1 layers, the model 5"),
        ("parts/0/tokens", 99, "the parts do not have the tokens that are listed"),
        ("parts/0/part", "rest", "parts are rest, .*, not once each and in order"),
        ("tokens/3/position", 4, r"tokens\[3\] has the position 4"),
        ("tokens/3/source", None, r"tokens\[3\] must have source, source_text and patched, or"),
        ("tokens/3/part", "middle", "tokens.3..part is .*not one of altered, utterance, question"),
        ("tokens/3/patched/0", -0.1, r"tokens\[3\]\.patched has a number that is not a probab"),
    ],
)
def test_a_file_that_was_changed_is_refused(
    path: str, value: object, error: str, report: Traced, tmp_path: Path
) -> None:
    report.write(tmp_path / "trace.json")
    content = json.loads((tmp_path / "trace.json").read_text())
    change(content, path, value)
    (tmp_path / "trace.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=error):
        read_trace(tmp_path / "trace.json")


def invented(report: TraceReport, layers: int, tokens: int) -> TraceReport:
    """Return a report with other numbers of layers and tokens; some are of an utterance."""

    def values(number: int) -> tuple[float, ...]:
        return tuple((number * 7 + layer) % 10 / 10 for layer in range(layers))

    parts: list[Part] = ["utterance" if n % 50 < 12 else "rest" for n in range(tokens)]
    listed = tuple(
        TracedToken(n, f"token{n}", part, "dialogue", n, f"token{n}", values(n))
        for n, part in enumerate(parts)
    )
    counts = {name: [token.part for token in listed].count(name) for name in PART_TITLES}
    return dataclasses.replace(
        report,
        model=dataclasses.replace(report.model, layers=layers),
        parts=tuple(TracedPart(name, n, values(n)) for name, n in counts.items() if n),
        tokens=listed,
    )


def heat_map(figure: Any) -> Any:
    """Return the masked array that a figure shows."""
    (image,) = figure.axes[0].get_images()
    return image.get_array()


@pytest.mark.parametrize(("layers", "tokens"), [(5, 3), (32, MOST_TOKENS), (80, 150)])
def test_nothing_of_a_figure_is_clipped(layers: int, tokens: int, report: Traced) -> None:
    drawn = invented(report, layers, tokens)
    figure = trace_figure(drawn)
    whole = tokens <= MOST_TOKENS
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    shown = [token.text for token in drawn.tokens if whole or token.part != "rest"]
    assert labels == ([] if whole else [f"{drawn.parts[1].tokens} other tokens"]) + shown
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    assert min(box.x0, box.y0) >= 0
    assert box.x1 <= figure.get_figwidth()
    assert box.y1 <= figure.get_figheight()
    assert heat_map(figure).shape == (layers, len(labels))


def test_a_figure_shows_the_effects(report: Traced, tmp_path: Path) -> None:
    figure = report.plot(tmp_path / "trace.png")
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")
    values = heat_map(figure)
    (rest,) = [part for part in report.parts if part.part == "rest"]
    effects = [p - report.original_run for p in rest.patched]
    assert values[:, 0].tolist() == pytest.approx(effects)
    shown = [token for token in report.tokens if token.part != "rest"]
    for column, token in enumerate(shown, start=1):
        effects = [p - report.original_run for p in token.patched or ()]
        assert values[:, column].compressed().tolist() == pytest.approx(effects)


# The command --------------------------------------------------------------------------------------


def test_the_command_prints_and_writes_the_trace(
    report: Traced, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, drawn = tmp_path / "new" / "trace.json", tmp_path / "trace.png"
    main(["patch", *OPTIONS, "--row", str(ROW), "--out", str(out)])
    assert capsys.readouterr().out == report.to_text() + "\n"
    written = read_trace(out)
    assert (written.parts, written.tokens) == (report.parts, report.tokens)
    assert written.data.generator is not None
    main(["plot", str(out), "--out", str(drawn)])
    report.plot(tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == drawn.read_bytes()


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    assert caught.value.code == 2
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("--row 700", r"^split generated, row 700: there is no such document; choose a row from 0 to \d+$"),
        ("--row -1", "^split generated, row -1: there is no such document; choose "),
        ("--row 0", "^split generated, row 0: an original; choose one of its variants, rows 1, 2"),
        ("--row 1 --positions last", "^--row patches every token of one variant; leave out --pos"),
        ("--row 1 --limit 2", "^--row patches every token of one variant; leave out --positions"),
    ],
)  # fmt: skip
def test_what_cannot_be_traced_is_refused(
    options: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(capsys, "patch", *OPTIONS, *options.split(), "--out", "trace.json")
    assert re.search(error, message), message


def test_a_row_without_variants_or_without_its_original_is_refused() -> None:
    alone = [dataclasses.replace(DOCUMENTS[0], split="entity_tracking")]
    with pytest.raises(
        InputError, match="entity_tracking, row 0: an original without altered variants; choose a"
    ):
        select_pair(alone, 0)
    with pytest.raises(InputError, match="row 1: its original is not among the documents; add it"):
        select_pair(DOCUMENTS[1:3], 1)


def test_a_figure_of_several_traces_is_refused(
    report: Traced, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "trace.json", tmp_path / "figure.png"
    report.write(path)
    for options in ([path, path], [path, "--depth"]):
        message = refusal(capsys, "plot", *options, "--out", out)
        assert message.startswith("a figure shows one file of `patch --row`; give it alone")
