"""The benchmark as a dataset of the Hub: what it holds, and who can read it."""

from pathlib import Path
from typing import Any

import hub_dataset
import pytest
import yaml
from datasets import load_dataset
from huggingface_hub import DatasetCard
from places import SAMPLES

from pragworld_tasks.data.documents import Document, ReleasedSplit, documents_digest
from pragworld_tasks.data.label_readings import label_readings
from pragworld_tasks.data.prompts import evaluation_prompt, label_prompt
from pragworld_tasks.data.sources import FILES, is_released, load_split, read_split

SPLITS: list[ReleasedSplit] = [split for split in FILES if is_released(split)]


def written(data: Path, out: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(data))
        hub_dataset.main(["--out", str(out), "--name", "me/mine"])
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(SAMPLES, tmp_path_factory.mktemp("dataset") / "hub")


def loaded(data: Path, split: ReleasedSplit, cache: Path) -> list[dict[str, Any]]:
    return [*load_dataset(str(data), split, split="test", cache_dir=str(cache))]


def document_of(row: dict[str, Any]) -> Document:
    readings = {"disputed", "undetermined", "readings", "readings_sure", "reasons"}
    return Document(**{name: value for name, value in row.items() if name not in readings})


@pytest.mark.parametrize("split", SPLITS)
def test_datasets_and_our_own_reader_give_back_the_very_documents(
    folder: Path, tmp_path: Path, split: ReleasedSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = read_split(split, SAMPLES / FILES[split].path)
    assert list(map(document_of, loaded(folder, split, tmp_path))) == documents
    monkeypatch.setenv("PRAGWORLD_DATA", str(folder))
    assert load_split(split) == documents


def test_the_released_labels_come_with_their_readings(released: Path, tmp_path: Path) -> None:
    folder = written(released, tmp_path / "hub")
    rows = loaded(folder, "manual", tmp_path / "cache")
    assert documents_digest(list(map(document_of, rows))) == FILES["manual"].digest
    for row, readings in zip(rows, label_readings(), strict=True):
        assert row["answer"] == readings.gold
        assert row["disputed"] == readings.is_disputed
        assert row["undetermined"] == readings.is_undetermined
        assert row["readings"] == readings.readings
        assert row["readings_sure"] == readings.sure
        assert row["reasons"] == readings.reasons
    card = (folder / "README.md").read_text()
    assert "(17 documents)" in card
    assert "(21 documents)" in card
    assert "not written from the released file" not in card


def test_the_card_says_that_samples_are_not_the_released_files(folder: Path) -> None:
    card = DatasetCard.load(folder / "README.md")
    assert card.data.license == "mit"
    for split in SPLITS:
        documents = read_split(split, SAMPLES / FILES[split].path)
        assert f"| `{split}` | {len(documents)} |" in card.text
        assert f"**`{split}` was not written from the released file**" in card.text
    assert "Sachin Vashistha" in (folder / "LICENSE").read_text()


def test_the_description_for_the_hub_gives_the_papers_prompts(folder: Path) -> None:
    described = yaml.safe_load((folder / "eval.yaml").read_text())
    assert described["evaluation_framework"] == "inspect-ai"
    assert [task["id"] for task in described["tasks"]] == [
        *("pragworld_manual_robust_acc", "pragworld_manual_acc", "pragworld_entity_tracking_acc"),
        *("pragworld_synthetic_robust_acc", "pragworld_synthetic_acc"),
    ]
    for task in described["tasks"]:
        split = task["config"]
        document = read_split(split, SAMPLES / FILES[split].path)[0]
        template = task["solvers"][0]["args"]["template"]
        prompt = template.replace("{prompt}", document.question)
        expected = label_prompt if split == "entity_tracking" else evaluation_prompt
        assert prompt.replace("{context}", document.context) == expected(document)


def test_a_folder_that_exists_is_refused(folder: Path) -> None:
    with pytest.raises(SystemExit):
        written(SAMPLES, folder)
