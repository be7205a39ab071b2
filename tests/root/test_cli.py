"""The three programs: how many commands and options they have, and that one thing has one name.

Their commands are tested with what they do.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_runs import refused

from pragworld_interp import cli as interp
from pragworld_tasks import cli as tasks
from pragworld_train import cli as train

MOST_COMMANDS, MOST_OPTIONS = 20, 130
# Settings of pragworld-train that are TRL's: in its scripts, or named in `_TRL_SETTINGS`.
OF_TRL = {
    *("dataset_name", "dataset_config", "dataset_train_split", "dataset_test_split"),
    *("config", "resume_from_checkpoint", *train._TRL_SETTINGS),
}
# What an option may not be called, because another name is used for the same everywhere.
OTHER_NAMES = {
    "--output": "--out",
    "--output-path": "--out",
    "--force": "--overwrite",
    "--model-args": "--model",
    "--apply-chat-template": "--chat-template",
    "--settings": "--metadata",
}


def leaves(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.Action]]:
    """Yield the options of a program or a command, and of the commands below, with their names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, below in action.choices.items():
                yield from leaves(below, f"{name} {command}")
        elif action.option_strings and action.dest not in ("help", "version"):
            yield name, action


@pytest.fixture(scope="module")
def programs() -> dict[str, argparse.ArgumentParser]:
    found: list[argparse.ArgumentParser] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "run_command", lambda parser, _: found.append(parser))
        tasks.main([])
    return {
        "pragworld-tasks": found[0],
        "pragworld-interp": interp._parser(),
        "pragworld-train": train.help_parser(),
    }


def test_the_programs_have_few_commands_and_options(
    programs: dict[str, argparse.ArgumentParser],
) -> None:
    options = {
        (*action.option_strings, action.help): name
        for program, parser in programs.items()
        for name, action in leaves(parser, program)
        if program != "pragworld-train" or action.dest not in OF_TRL
    }
    assert len(options) <= MOST_OPTIONS, options
    commands = ["pragworld-train"] + [
        f"{program} {command}"
        for program, parser in programs.items()
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for command in action.choices
    ]
    assert len(commands) <= MOST_COMMANDS, commands


def test_one_thing_has_one_name(programs: dict[str, argparse.ArgumentParser]) -> None:
    wrong = [
        f"{name} {option}: is called {OTHER_NAMES[option]} elsewhere"
        for program, parser in programs.items()
        for name, action in leaves(parser, program)
        for option in action.option_strings
        if option in OTHER_NAMES
    ]
    assert not wrong


def test_an_unknown_option_is_refused() -> None:
    with refused("^pragworld-tasks: error: unrecognized arguments: --wrong$"):
        tasks.main(["data", "status", "--wrong"])


def test_no_command_replaces_what_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    samples = Path("results", "samples_pragworld_manual.jsonl")
    documents = '{"context": "A: Hi.", "question": "Does A greet?", "answer": "yes"}\n'
    texts = {Path("answers.jsonl"): '{"response": "Yes."}\n', Path("own.jsonl"): documents}
    texts[samples] = "{}\n"
    for path, text in texts.items():
        path.write_text(text)
    Path("link.jsonl").symlink_to("answers.jsonl")
    own = ["--documents", "own.jsonl"]
    for run, arguments in (
        (tasks.main, ["score", *own, "answers.jsonl", "--items", "answers.jsonl"]),
        (tasks.main, ["score", *own, "answers.jsonl", "--items", "link.jsonl"]),
        (tasks.main, ["score", *own, "answers.jsonl", "--json", "own.jsonl"]),
        (tasks.main, ["score", "manual:answers.jsonl", "--json", "answers.jsonl"]),
        (tasks.main, ["decompose", str(samples), "--json", str(samples)]),
        (interp.main, ["compare", "own.jsonl", "--json", "own.jsonl"]),
        (interp.main, ["ablate", *own, "--model", "gone", "--out", "own.jsonl"]),
    ):
        with refused(": an input of this command, which would be lost; use another name$"):
            run([*arguments, "--overwrite"])
    assert {path: path.read_text() for path in texts} == texts
    score = ["score", *own, "answers.jsonl", "--json", "results/score.json"]
    tasks.main(score)
    tasks.main([*score, "--overwrite"])
