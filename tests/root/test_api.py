"""The Python API: what it returns is what the command prints, and what it refuses."""

import json
from pathlib import Path

import pytest
from json_lines import write_lines

import pragworld_tasks as pt
from pragworld_tasks.cli import main
from pragworld_tasks.evaluation.runs import find_runs


@pytest.fixture
def manual(sample_data: None) -> list[pt.Document]:
    """The sample manual split: 10 documents in 3 groups."""
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
        write_lines(path, ({"response": text} for text in texts))
    first, second, out = *map(str, paths), str(tmp_path / "out.json")
    main(["score", "--split", "manual", first, "--against", second, "--json", out])
    names = ("a.jsonl", "b.jsonl")
    result, other = map(pt.score, (manual, manual), responses, names)
    comparison = pt.compare(result, other)
    assert capsys.readouterr().out == f"{result.to_text()}\n{comparison.to_text()}\n"
    (run,) = find_runs([first])
    record = run.to_record(result).to_json()
    assert json.loads(Path(out).read_text()) == {**record, "against": comparison.to_json()}


def test_generated_documents_need_no_settings_object() -> None:
    documents = pt.generate(groups=3, seed=5, domains="shop")
    assert documents == pt.generate(groups=3, seed=5, domains=["shop"])
    assert {document.split for document in documents} == {"generated"}


def test_mistakes_are_value_errors_with_a_remedy() -> None:
    assert issubclass(pt.InputError, ValueError)
    with pytest.raises(pt.InputError, match=r"^setting 'group' does not exist; choose from g"):
        pt.generate(group=3)


def test_metrics_are_attributes_of_the_splits_that_have_them(sample_data: None) -> None:
    documents = pt.load("entity_tracking")
    result = pt.score(documents, ["yes"] * len(documents))
    assert result.yes_acc == 100
    with pytest.raises(AttributeError, match="of the split entity_tracking has no 'robust_acc'"):
        _ = result.robust_acc
