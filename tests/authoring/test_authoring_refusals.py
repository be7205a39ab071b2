"""What `author` and `review` refuse, each with the line that it prints."""

import json
from pathlib import Path

import pytest
from command_runs import refused

from pragworld_tasks import chat
from pragworld_tasks.authoring.pipeline import AuthoredDocuments
from pragworld_tasks.authoring.results import write_votes
from pragworld_tasks.cli import main

NOWHERE = "http://127.0.0.1:9/v1"
SEED = json.dumps({"conversation": "Ann: Where are the plums?\nBen: In the hall."})
AUTHOR = "author --seeds seeds.jsonl --out mine --model writer"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("author --out mine --base-url url --model writer", "one of the arguments .*--seeds --documents.* is required"),
        ("author --seeds seeds.jsonl", "are required: .*--base-url, --model"),
        (f"{AUTHOR} --base-url localhost:8000", "base URL localhost:8000: must look like"),
        (f"{AUTHOR} --groups 0", "--groups 0: must be at least 1"),
        (f"{AUTHOR} --turns 3", "--turns 3: must be at least 4"),
        (f"{AUTHOR} --variants 0", "--variants 0: must be at least 1"),
        (f"{AUTHOR} --temperature -1", "--temperature -1: must be at least 0"),
        (f"{AUTHOR} --temperature nan", "--temperature nan: must be at least 0"),
        (f"{AUTHOR} --prompts none.toml", "none.toml: No such file"),
        (f"{AUTHOR}", "http://127.0.0.1:9/v1: .*; check the server, the URL, the model"),
        (f"{AUTHOR} --out theirs", "theirs: has other files than an `author` run's; choose another"),
        ("review theirs", "theirs: no dropped.jsonl in it; pass the --out of a finished `author`"),
        ("review finished --apply notes.json", "notes.json: version: Field required; pass a file"),
        ("review finished --apply other.json", "other.json: decides about another document than "
         "finished has as conversation 3, variant 1; apply it to the folder that its page is from"),
    ],
)  # fmt: skip
def test_commands_that_are_refused(
    command: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(chat, "RETRIES", 0)
    Path("seeds.jsonl").write_text(SEED)
    Path("theirs").mkdir()
    Path("theirs/notes.txt").write_text("mine")
    Path("finished").mkdir()
    write_votes(Path("finished"), AuthoredDocuments([], []))
    Path("notes.json").write_text('{"reviewer": "Ann", "decisions": []}')
    decision = {"conversation": 3, "variant": 1, "digest": "other", "decision": "no"}
    content = {"version": 1, "reviewer": "Ann", "decisions": [decision]}
    Path("other.json").write_text(json.dumps(content))
    words = command.split()
    if "--model" in words and "--base-url" not in words:
        words += ["--base-url", NOWHERE]
    with refused(line):
        main(words)
    assert Path("theirs/notes.txt").read_text() == "mine"
    assert not Path("mine/documents.jsonl").exists()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "seeds.jsonl.*empty"),
        (f"{SEED}\n{{}}", r"line 2\): conversation: Field required; a seed is a line such as"),
        (
            '{"conversation": "Ann: a\\nAnn: b"}',
            "the conversation has 1 speakers; write one of two",
        ),
        ('{"conversation": "hello\\nthere"}', "the conversation has 0 speakers; write one of two"),
        ('{"conversation": "A: a\\nB: b\\nC: c"}', "the conversation has 3 speakers; write one"),
        ('{"conversation": "Ann: a\\nBen: b", "kind": "poem"}', r"line 1\): kind: Input should be"),
        ('{"conversation": "Ann: a\\nBen: b", "topic": "x"}', r"line 1\): topic: Extra inputs"),
        ("Ann: Where?", "seeds.jsonl.*JSON"),
    ],
)
def test_seeds_that_are_refused(content: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "seeds.jsonl"
    path.write_text(content)
    with refused(line):
        main(["author", "--seeds", str(path), "--out", str(tmp_path / "mine"),
              "--base-url", NOWHERE, "--model", "writer"])  # fmt: skip


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("[lable]\nuser = 'x'", "no prompt 'lable'; choose one of entities_general,"),
        (
            "[label]\nuser = '{conversation}'",
            r"the slot {question} is missing or unknown; use conv",
        ),
        (
            "[label]\nsystem = 'Say {answer}.'",
            r"the slot {answer} is missing or unknown; .* {{ for",
        ),
        (
            "[label]\nsystem = 'Say {.'",
            "prompt 'label': unmatched '{' in format spec; correct that",
        ),
        ("[label]\nsystem = ' '", "prompt 'label': system: String should match"),
        ("[label]\ntext = 'x'", "prompt 'label': text: Extra inputs are not permitted"),
        ("label = 'x'", "prompt 'label': 'str' object is not a mapping; correct that"),
        ("[label", "prompts.toml: not TOML"),
    ],
)
def test_prompts_that_are_refused(content: str, line: str, tmp_path: Path) -> None:
    seeds, prompts = tmp_path / "seeds.jsonl", tmp_path / "prompts.toml"
    seeds.write_text(SEED)
    prompts.write_text(content)
    with refused(line):
        main(["author", "--seeds", str(seeds), "--out", str(tmp_path / "mine"),
              "--base-url", NOWHERE, "--model", "writer", "--prompts", str(prompts)])  # fmt: skip
