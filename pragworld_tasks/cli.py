"""The command `pragworld-tasks`. Each command is defined in the room whose work it does."""

import argparse
from importlib.metadata import version

from pragworld_tasks.authoring.commands import add_author, add_review
from pragworld_tasks.command_line import add_commands, run_command
from pragworld_tasks.data.commands import add_data
from pragworld_tasks.dialogues.command import add_generate
from pragworld_tasks.evaluation.score_command import add_score
from pragworld_tasks.leaderboard.board_command import add_board
from pragworld_tasks.leaderboard.submit_command import add_submit, add_verify
from pragworld_tasks.link import add_link, add_path
from pragworld_tasks.sensitivity.collect_command import add_collect
from pragworld_tasks.sensitivity.decompose_command import add_decompose
from pragworld_tasks.sensitivity.paraphrase_command import add_paraphrase
from pragworld_tasks.text_alterations.command import add_alter

_GROUPS = {
    "set up": (add_link, add_path, add_data),
    "evaluate": (add_score, add_board),
    "make data": (add_generate, add_alter, add_author, add_review),
    "sensitivity to wording": (add_collect, add_decompose, add_paraphrase),
    "publish": (add_verify, add_submit),
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command with the given arguments, or with those of the command line."""
    parser = _Program(
        prog="pragworld-tasks",
        description="PragWorld for lm-eval: its tasks, data, fresh dialogues, scores and a board.",
        epilog="`pragworld-tasks COMMAND --help` describes a command and shows an example.",
    )
    parser.add_argument("--version", action="version", version=version("pragworld"))
    commands = add_commands(parser)
    for title, additions in _GROUPS.items():
        present = {*commands.choices}
        for add in additions:
            add(commands)
        parser.summaries[title] = {
            name: command.get_default("summary")
            for name, command in commands.choices.items()
            if name not in present
        }
    run_command(parser, arguments)


class _Program(argparse.ArgumentParser):
    """Lists its commands by what one wants to do, for which argparse has no headings.

    Attributes:
        summaries: Summaries of the commands, by heading and name.
    """

    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.summaries: dict[str, dict[str, str]] = {}

    def format_help(self) -> str:
        """Return the help of the program."""
        width = max(len(name) for commands in self.summaries.values() for name in commands)
        lists = [
            "\n".join(
                [f"{title}:", *(f"  {name:{width}}  {text}" for name, text in commands.items())]
            )
            for title, commands in self.summaries.items()
        ]
        usage = self.format_usage().rstrip()
        return "\n\n".join([usage, str(self.description), *lists, str(self.epilog)]) + "\n"
