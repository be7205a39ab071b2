"""What generated dialogues refuse, and the line that says why."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_runs import refused

from pragworld_tasks.cli import main
from pragworld_tasks.data.document_files import write_documents
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.dialogues.settings import TrackingSettings
from pragworld_tasks.errors import InputError

EITHER = "pass either --out FILE, to write, or --show, to read"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", EITHER),
        ("--out x.csv --show", EITHER),
        ("--out x.txt", "x.txt: unknown format; end the name in .csv or .jsonl"),
        ("--out mine.csv", "mine.csv exists; pass --overwrite, or another name"),
        ("--out x.csv --groups 0", "groups: Input should be greater than or equal to 1"),
        ("--out x.csv --domains house", "domains.0: Input should be 'household', 'shop', 'clinic' or"),
        ("--out x.csv --flips 0.9", "flips: Input should be less than or equal to 0.5"),
        ("--out x.csv --flips nan", "flips: Input should be"),
        ("--out x.csv --held-out-alteration Swap", "there is no alteration 'Swap'; use Negation,"),
        ("--out x.csv --alterations Swap", "there is no alteration 'Swap'; use"),
        ("--out x.csv --alterations Negation=2,Negation=3", "alterations: Negation=2,Negation=3 has two weights for an alteration; leave"),
        ("--out x.csv --alterations Negation=-1", "alterations.Negation: Input should be greater than or equal to 0.000001"),
        ("--out x.csv --alterations Negation --held-out-alteration Negation", "the only alteration, 'Negation', is held out of split 'train'; add others"),
        ("--out x.csv --domains conversation --split test_long", "the domain 'conversation' has no split 'test_long'; use train, validation"),
        ("--out x.csv --alterations 'Negation=1,Quantity Change=1e16'", "alterations.Quantity Change: Input should be less than or equal to 1000000"),
        ("--out x.csv --domains shop --alterations 'Quantity Change'", "in the domain 'shop', only these alterations change an answer: Logical Connective Change,"),
        ("--out x.csv --domains conversation --alterations Negation", "most conversations have one place for the alteration 'Negation'"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_run_says_why_and_writes_nothing(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("mine")
    with refused(re.escape(message)):
        main(["generate", *shlex.split(arguments)])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("mine.csv", "mine")]


def test_entity_tracking_has_no_conversations() -> None:
    with pytest.raises(InputError, match="entity tracking has no domain 'conversation'"):
        TrackingSettings.from_metadata({"domains": "household,conversation"})


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_what_exists_is_overwritten_only_when_told_to_and_before_any_work(
    tmp_path: Path, name: str
) -> None:
    def failing_documents() -> Iterator[Document]:
        yield from generate_documents(groups=2)
        raise InputError("half way")

    first, second = (generate_documents(groups=2, seed=seed) for seed in (1, 2))
    target, twin = tmp_path / name, tmp_path / f"other{Path(name).suffix}"
    with pytest.raises(InputError, match="half way"):
        write_documents(failing_documents(), target)
    assert not list(tmp_path.iterdir())
    write_documents(first, target)
    with pytest.raises(InputError, match=f"{name} exists; pass --overwrite, or another name"):
        write_documents(failing_documents(), target)
    write_documents(second, target, overwrite=True)
    write_documents(second, twin)
    assert target.read_bytes() == twin.read_bytes()
