"""The Python API: five lines from documents to figures, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_runs import run_command
from places import SAMPLES

import pragworld_tasks as pt
from pragworld_tasks.evaluation.run_record import ModelRecord, to_record


@pytest.fixture
def manual(monkeypatch: pytest.MonkeyPatch) -> list[pt.Document]:
    """The sample manual split: 10 documents in 3 groups."""
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    return pt.load("manual")


def test_the_published_figures_in_five_lines(
    released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(released))
    documents = pt.load("manual")
    responses = pt.read_predictions(released / "manual_gpt35_responses.jsonl", documents)
    result = pt.score(documents, responses)
    assert result.robust_acc == pytest.approx(100 * 37 / 88)
    assert result.no_acc == pytest.approx(100 * 209 / 223)
    assert result.published["robust_acc"].percent == pytest.approx(100 * 42 / 98)
    low, high = result.interval("robust_acc")
    assert low < result.robust_acc < high
    assert sum(
        share.total for by_gold in result.by("alteration").values() for share in by_gold.values()
    ) == len(documents)


def test_the_command_prints_what_the_api_returns(manual: list[pt.Document], tmp_path: Path) -> None:
    responses = ["(yes)" if document.row % 3 else "hm" for document in manual]
    other = ["no"] * len(manual)
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path, texts in zip(paths, (responses, other), strict=True):
        path.write_text("".join(json.dumps({"response": text}) + "\n" for text in texts))
    out = tmp_path / "out.json"
    process = run_command(
        *("score", "--split", "manual", paths[0], "--against", paths[1]),
        *("--json", out),
        PRAGWORLD_DATA=str(SAMPLES),
    )
    assert process.returncode == 0, process.stderr
    result = pt.score(manual, responses)
    comparison = pt.compare(result, pt.score(manual, other))
    assert process.stdout == f"{result.to_text()}\n{comparison.to_text()}\n"
    assert json.loads(out.read_text()) == to_record(result, ModelRecord(name="a")).to_json()


def test_the_frame_has_a_row_for_each_metric(manual: list[pt.Document]) -> None:
    result = pt.score(manual, [document.answer for document in manual])
    frame = result.to_frame()
    assert list(frame.index) == list(result.metrics)
    assert frame.loc["acc", "percent"] == result.acc == 100
    assert frame.loc["unreadable", "right"] == 0
    assert tuple(frame.loc["robust_acc", ["low", "high"]]) == result.interval("robust_acc")


def test_generated_documents_need_no_settings_object() -> None:
    documents = pt.generate(groups=3, seed=5, domains="shop")
    assert documents == pt.generate(groups=3, seed=5, domains=["shop"])
    assert {document.split for document in documents} == {"generated"}


def test_mistakes_are_value_errors_with_a_remedy(manual: list[pt.Document]) -> None:
    responses = ["yes"] * len(manual)
    result = pt.score(manual, responses)
    generated = pt.generate(groups=2)
    mistakes: list[tuple[Callable[[], object], str]] = [
        (
            lambda: pt.load("automatic"),
            "there is no released split 'automatic'; choose from manual, ",
        ),
        (lambda: pt.generate(group=3), "setting 'group' does not exist; choose from groups, "),
        (lambda: pt.score(manual, responses[1:]), "the run: 9 responses for 10 documents; pass a "),
        (lambda: pt.score([], []), "the documents to score are missing; pass those of one split"),
        (
            lambda: pt.score([*manual, *generated], []),
            "the documents to score are of the splits generated, manual; pass those of one split",
        ),
        (
            lambda: pt.compare(result, pt.score(generated, ["yes"] * len(generated))),
            "the two runs are on different documents; compare runs on the same ones",
        ),
        (lambda: result.interval("accuracy"), "metric 'accuracy' does not exist; choose from rob"),
        (lambda: result.by("size"), "breakdown 'size' does not exist; choose from alteration, "),
    ]
    for mistake, message in mistakes:
        with pytest.raises(ValueError, match=f"^{message}") as refusal:
            mistake()
        assert isinstance(refusal.value, pt.InputError)
        assert "\n" not in str(refusal.value)


def test_metrics_are_attributes_of_the_splits_that_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    documents = pt.load("entity_tracking")
    result = pt.score(documents, ["yes"] * len(documents))
    assert result.yes_acc == 100
    with pytest.raises(AttributeError, match="of the split entity_tracking has no 'robust_acc'"):
        _ = result.robust_acc


def test_prompts_take_documents_and_records(manual: list[pt.Document]) -> None:
    document = manual[0]
    record = {"context": document.context, "question": document.question}
    assert pt.evaluation_prompt(document) == pt.evaluation_prompt(record)
    assert pt.label_prompt(document) == pt.label_prompt(record)
