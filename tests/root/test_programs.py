"""How many commands and options the three programs have, and that one thing has one name."""

import argparse
from collections.abc import Iterator

import pytest

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


def commands_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return the names of a program's commands; one without a name if it has none."""
    choices = [
        name
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name in action.choices
    ]
    return choices or [""]


def test_the_programs_have_few_commands(programs: dict[str, argparse.ArgumentParser]) -> None:
    commands = [
        f"{program} {name}" for program in programs for name in commands_of(programs[program])
    ]
    assert len(commands) <= MOST_COMMANDS, commands


def test_the_programs_have_few_options(programs: dict[str, argparse.ArgumentParser]) -> None:
    options = {
        (*action.option_strings, action.help): name
        for program, parser in programs.items()
        for name, action in leaves(parser, program)
        if program != "pragworld-train" or action.dest not in OF_TRL
    }
    assert len(options) <= MOST_OPTIONS, "\n".join(
        f"{name} {key[0]}" for key, name in options.items()
    )


def test_one_thing_has_one_name(programs: dict[str, argparse.ArgumentParser]) -> None:
    wrong = [
        f"{name} {option}: is called {OTHER_NAMES[option]} elsewhere"
        for program, parser in programs.items()
        for name, action in leaves(parser, program)
        for option in action.option_strings
        if option in OTHER_NAMES
    ]
    assert not wrong
