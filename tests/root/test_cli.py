"""The three programs: how many commands and options they have, and what they may not replace.

Their commands are tested with what they do.
"""

from pathlib import Path

import pytest
from command_runs import parsers, refused

from pragworld_interp import cli as interp
from pragworld_tasks import cli as tasks
from pragworld_train import cli as train

MOST_COMMANDS, MOST_OPTIONS = 20, 130
# Settings of pragworld-train that are TRL's: in its scripts, or named in `_TRL_SETTINGS`.
OF_TRL = {
    *("dataset_name", "dataset_config", "dataset_train_split", "dataset_test_split"),
    *("config", "resume_from_checkpoint", *train._TRL_SETTINGS),
}


def test_the_programs_have_few_commands_and_options() -> None:
    commands = parsers()
    assert len(commands) - 1 < MOST_COMMANDS  # pragworld-train is none
    options = {
        (*action.option_strings, action.help): name
        for name, parser in commands.items()
        for action in parser._actions
        if action.option_strings and action.dest not in ("help", "version")
        if name != "pragworld-train" or action.dest not in OF_TRL
    }
    assert len(options) <= MOST_OPTIONS, options


def test_no_command_replaces_what_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    samples = "samples_pragworld_manual.jsonl"
    texts = {
        "answers.jsonl": '{"response": "Yes."}\n',
        "own.jsonl": '{"context": "A: Hi.", "question": "Does A greet?", "answer": "yes"}\n',
        samples: "{}\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("link.jsonl").symlink_to("answers.jsonl")
    own = ["--documents", "own.jsonl"]
    for run, arguments in (
        (tasks.main, ["score", *own, "answers.jsonl", "--items", "answers.jsonl"]),
        (tasks.main, ["score", *own, "answers.jsonl", "--items", "link.jsonl"]),
        (tasks.main, ["score", *own, "answers.jsonl", "--json", "own.jsonl"]),
        (tasks.main, ["score", "manual:answers.jsonl", "--json", "answers.jsonl"]),
        (tasks.main, ["decompose", samples, "--json", samples]),
        (interp.main, ["compare", "own.jsonl", "--json", "own.jsonl"]),
        (interp.main, ["ablate", *own, "--model", "gone", "--out", "own.jsonl"]),
    ):
        with refused(": an input of this command, which would be lost; use another name$"):
            run([*arguments, "--overwrite"])
    assert {name: Path(name).read_text() for name in texts} == texts
    score = ["score", *own, "answers.jsonl", "--json", "results/score.json"]
    tasks.main(score)
    tasks.main([*score, "--overwrite"])
