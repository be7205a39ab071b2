"""What `author` and `review` refuse, each with the line that it prints."""

import json
from pathlib import Path

import pytest
from command_runs import refused

from pragworld_tasks.authoring.pipeline import AuthoredDocuments
from pragworld_tasks.authoring.results import write_votes
from pragworld_tasks.cli import main

SEED = json.dumps({"conversation": "Ann: Where are the plums?\nBen: In the hall."})
AUTHOR = "author --seeds seeds.jsonl --out mine --model writer --base-url http://127.0.0.1:9/v1"
PROMPTS = f"{AUTHOR} --prompts mine.toml"


@pytest.mark.parametrize(
    ("command", "content", "line"),
    [
        (f"{AUTHOR} --turns 3", "", "--turns 3: must be at least 4"),
        (f"{AUTHOR} --out theirs", "", "theirs: has other files than an `author` run's; choose another"),

        (AUTHOR, f"{SEED}\n{{}}", r"line 2\): conversation: Field required$"),
        (AUTHOR, '{"conversation": "Ann: a\\nAnn: b"}', "has 1 speakers; write one of two"),

        (f"{AUTHOR} --prompts none.toml", "", "none.toml: No such file"),
        (PROMPTS, "[lable]\nuser = 'x'", "no prompt 'lable'; choose one of entities_general,"),
        (PROMPTS, "[label]\nuser = '{conversation}'", r"the slot {question} is missing or unknown; use"),
        (PROMPTS, "[label]\nsystem = 'Say {.'", "mine.toml: unmatched '{' in format spec; correct"),
        (PROMPTS, "label = 'x'", "mine.toml: 'str' object is not a mapping; correct that"),

        ("review theirs", "", "theirs/votes.jsonl: No such file"),
        ("review finished --apply ann.json", '{"reviewer": "Ann", "decisions": []}',
         "ann.json: version: Field required; pass a file that review.html saved"),
    ],
)  # fmt: skip
def test_what_is_refused(
    command: str, content: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("theirs").mkdir()
    Path("theirs/notes.txt").write_text("mine")
    Path("finished").mkdir()
    write_votes(Path("finished"), AuthoredDocuments([], []))
    Path("seeds.jsonl").write_text(SEED)
    if content:  # of the file that the command names last
        name = "seeds.jsonl" if command == AUTHOR else command.rpartition(" ")[2]
        Path(name).write_text(content)
    with refused(line):
        main(command.split())
    assert Path("theirs/notes.txt").read_text() == "mine"
    assert not Path("mine/documents.jsonl").exists()


def test_a_folder_without_permissions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)
    Path("seeds.jsonl").write_text(SEED)
    Path("mine").mkdir()
    monkeypatch.setattr(Path, "iterdir", forbid)  # root may do all
    with refused("mine: Permission denied; choose"):
        main(AUTHOR.split())
