"""The benchmark as a dataset of the Hub: what it holds, who can read it, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import yaml
from command_runs import refused
from datasets import load_dataset
from huggingface_hub import DatasetCard
from places import SAMPLES
from pyarrow import parquet

from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Document, ReleasedSplit, documents_digest
from pragworld_tasks.data.label_readings import label_readings
from pragworld_tasks.data.parquet import parquet_path, to_parquet
from pragworld_tasks.data.sources import FILES, is_released, load_split
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.prompts import evaluation_prompt, label_prompt

SPLITS: list[ReleasedSplit] = [split for split in FILES if is_released(split)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples as the command writes them."""
    folder = tmp_path_factory.mktemp("dataset") / "hub"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(SAMPLES))
        main(["dataset", "--out", str(folder), "--name", "me/mine"])
    return folder


def documents_in(data: Path, split: ReleasedSplit) -> list[Document]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(data))
        return load_split(split)


def loaded(data: Path, split: ReleasedSplit, cache: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = load_dataset(
        str(data), split, split="test", cache_dir=str(cache)
    ).to_list()
    return rows


def document_of(row: dict[str, Any]) -> Document:
    readings = {"disputed", "undetermined", "readings", "readings_sure", "reasons"}
    return Document(**{name: value for name, value in row.items() if name not in readings})


@pytest.mark.parametrize("split", SPLITS)
def test_datasets_and_our_own_reader_give_back_the_very_documents(
    folder: Path, tmp_path: Path, split: ReleasedSplit
) -> None:
    documents = FILES[split].read(SAMPLES / FILES[split].path)
    assert list(map(document_of, loaded(folder, split, tmp_path))) == documents
    assert documents_in(folder, split) == documents


def test_the_released_labels_come_with_their_readings(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(released))
    main(["dataset", "--out", str(tmp_path / "hub")])
    rows = loaded(tmp_path / "hub", "manual", tmp_path / "cache")
    assert documents_digest(list(map(document_of, rows))) == FILES["manual"].digest
    for row, readings in zip(rows, label_readings(), strict=True):
        assert row["answer"] == readings.gold
        assert (row["disputed"], row["undetermined"]) == (
            readings.is_disputed,
            readings.is_undetermined,
        )
        assert tuple(row["readings"]) == readings.readings
        assert tuple(row["readings_sure"]) == readings.sure
        assert tuple(row["reasons"]) == readings.reasons
    card = (tmp_path / "hub" / "README.md").read_text()
    assert "(17 documents)" in card
    assert "(21 documents)" in card
    assert "not written from the released file" not in card


def test_the_card_says_what_is_inside_and_that_samples_are_not_the_released_files(
    folder: Path,
) -> None:
    card = DatasetCard.load(folder / "README.md")
    data = card.data.to_dict()
    assert {config["config_name"] for config in data["configs"]} == set(SPLITS)
    for config in data["configs"]:
        assert (folder / config["data_files"][0]["path"]).is_file()
    assert data["license"] == "mit"
    assert data["size_categories"] == ["n<1K"]
    for split in SPLITS:
        documents = documents_in(folder, split)
        assert f"| `{split}` | {len(documents)} |" in card.text
        assert documents_digest(documents) in card.text
        assert (
            f"**`{split}` was not written from the released file**: {len(documents)}" in card.text
        )
    assert 'load_dataset("me/mine", "manual"' in card.text
    assert "inspect eval hf/me/mine/pragworld_manual_acc" in card.text
    assert "Sachin Vashistha" in (folder / "LICENSE").read_text()


def test_the_description_for_the_hub_gives_the_papers_prompts(folder: Path) -> None:
    described = yaml.safe_load((folder / "eval.yaml").read_text())
    assert set(described) == {"name", "description", "evaluation_framework", "tasks"}
    assert described["evaluation_framework"] == "inspect-ai"
    assert [task["id"] for task in described["tasks"]] == [
        *("pragworld_manual_robust_acc", "pragworld_manual_acc", "pragworld_entity_tracking_acc"),
        *("pragworld_synthetic_robust_acc", "pragworld_synthetic_acc"),
    ]
    for task in described["tasks"]:
        document = documents_in(folder, task["config"])[0]
        template = task["solvers"][0]["args"]["template"]
        prompt = template.replace("{prompt}", document.question)
        expected = label_prompt if task["config"] == "entity_tracking" else evaluation_prompt
        assert prompt.replace("{context}", document.context) == expected(document)


def test_a_changed_label_is_noticed(
    folder: Path, released: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents = documents_in(released, "manual")
    table = pyarrow.BufferReader(to_parquet(documents))
    rows = parquet.read_table(table).to_pylist()
    rows[0]["question"] += "?"
    write_rows(tmp_path, rows)
    documents_in(tmp_path, "manual")
    assert "is not the released file: texts or gold answers differ" in caplog.text


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / parquet_path("manual")
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda rows: [row | {"answer": "maybe"} for row in rows], r"row 0: answer: Input should"),
        (lambda rows: [row | {"group": None} for row in rows], "row 0: group: Input should"),
        (lambda rows: [row | {"split": "synthetic"} for row in rows], "row 0 of the split synth"),
        (lambda rows: rows[1:], "row 0: holds row 1 of the split manual, not row 0 of manual"),
        (lambda rows: rows[:0], "no documents"),
        (lambda rows: [{"row": row["row"]} for row in rows], "no column 'context'"),
    ],
)
def test_a_malformed_table_is_refused(
    folder: Path,
    tmp_path: Path,
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    problem: str,
) -> None:
    rows = parquet.read_table(folder / parquet_path("manual")).to_pylist()
    path = write_rows(tmp_path, change(rows))
    with pytest.raises(InputError, match=problem) as refusal:
        documents_in(tmp_path, "manual")
    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)


def test_text_that_is_not_utf8_is_refused(folder: Path, tmp_path: Path) -> None:
    table = parquet.read_table(folder / parquet_path("manual"))
    contexts = pyarrow.array([b"caf\xe9"] * len(table), pyarrow.binary())
    unchecked = pyarrow.Array.from_buffers(pyarrow.string(), len(table), contexts.buffers())
    path = tmp_path / parquet_path("manual")
    path.parent.mkdir()
    place = table.schema.get_field_index("context")
    parquet.write_table(table.set_column(place, "context", unchecked), path)
    with pytest.raises(InputError, match="holds text that is not UTF-8; write it again with"):
        documents_in(tmp_path, "manual")


def test_a_name_that_the_hub_does_not_have_is_refused(tmp_path: Path) -> None:
    with refused("--name pragworld: not the name of a repository on a hub; it must have the form"):
        main(["dataset", "--out", str(tmp_path / "out"), "--name", "pragworld"])
    assert not list(tmp_path.iterdir())


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path, [{"row": 0}])
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError, match="not a Parquet file; download it again"):
        documents_in(tmp_path, "manual")


def test_a_folder_is_replaced_only_when_told_and_when_nothing_else_is_in_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    out = tmp_path / "hub"
    command = ["dataset", "--out", str(out)]
    (tmp_path / "hub.partial").mkdir()  # of a run that was killed
    (tmp_path / "hub.partial" / "README.md").touch()
    main(command)
    files = {path.relative_to(out) for path in out.rglob("*")}
    assert files == {path.relative_to(folder) for path in folder.rglob("*")}
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]
    with refused(r"hub exists; pass --overwrite"):
        main(command)
    (out / "README.md").write_text("old")
    main([*command, "--overwrite"])
    assert (out / "README.md").read_text() != "old"
    (out / "notes.txt").touch()
    (out / "README.md").write_text("mine")
    with refused("holds notes.txt, which would be lost"):
        main([*command, "--overwrite"])
    assert (out / "README.md").read_text() == "mine"
    (tmp_path / "file").touch()
    with refused("file cannot be written"):
        main(["dataset", "--out", str(tmp_path / "file"), "--overwrite"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "hub"]
