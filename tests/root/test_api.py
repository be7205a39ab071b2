"""The Python API: what it returns is what the command prints, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from places import SAMPLES

import pragworld_tasks as pt
from pragworld_tasks.cli import main
from pragworld_tasks.evaluation.run_record import ModelRecord, to_record


@pytest.fixture
def manual(monkeypatch: pytest.MonkeyPatch) -> list[pt.Document]:
    """The sample manual split: 10 documents in 3 groups."""
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    return pt.load("manual")


def test_the_command_prints_what_the_api_returns(
    manual: list[pt.Document], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    responses = [
        ["(yes)" if document.row % 3 else "hm" for document in manual],
        ["no"] * len(manual),
    ]
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path, texts in zip(paths, responses, strict=True):
        path.write_text("".join(json.dumps({"response": text}) + "\n" for text in texts))
    first, second, out = *map(str, paths), str(tmp_path / "out.json")
    main(["score", "--split", "manual", first, "--against", second, "--json", out])
    result, other = (pt.score(manual, texts) for texts in responses)
    printed = f"{result.to_text()}\n{pt.compare(result, other).to_text()}\n"
    assert capsys.readouterr().out == printed
    assert json.loads(Path(out).read_text()) == to_record(result, ModelRecord(name="a")).to_json()


def test_generated_documents_need_no_settings_object() -> None:
    documents = pt.generate(groups=3, seed=5, domains="shop")
    assert documents == pt.generate(groups=3, seed=5, domains=["shop"])
    assert {document.split for document in documents} == {"generated"}


def test_mistakes_are_value_errors_with_a_remedy(manual: list[pt.Document]) -> None:
    mixed = [*manual, *pt.generate(groups=2)]
    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: pt.generate(group=3), "setting 'group' does not exist; choose from groups, "),
        (lambda: pt.score([], []), "the documents to score are missing; pass those of one split"),
        (
            lambda: pt.score(mixed, []),
            "the documents to score are of the splits generated, manual; ",
        ),
    ]
    for mistake, message in mistakes:
        with pytest.raises(ValueError, match=f"^{message}") as refusal:
            mistake()
        assert isinstance(refusal.value, pt.InputError)


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
