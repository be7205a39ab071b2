"""The command `pragworld-tasks`. Each command is defined in the room whose work it does."""

import argparse
from importlib.metadata import version

from pragworld_tasks.authoring.author_command import add_author, add_review
from pragworld_tasks.command_line import run_command
from pragworld_tasks.data.data_command import add_data
from pragworld_tasks.dialogues.generate_command import add_generate
from pragworld_tasks.evaluation.collect_command import add_collect
from pragworld_tasks.grouped.score_command import add_score
from pragworld_tasks.leaderboard.board_command import add_board
from pragworld_tasks.leaderboard.submit_command import add_submit, add_verify
from pragworld_tasks.link import add_link, add_path
from pragworld_tasks.sensitivity.decompose_command import add_decompose
from pragworld_tasks.sensitivity.paraphrase_command import add_paraphrase
from pragworld_tasks.text_alterations.alter_command import add_alter

GROUPS = {
    "evaluate": (add_collect, add_score, add_board),
    "make data": (add_generate, add_alter, add_author, add_review),
    "sensitivity to wording": (add_decompose, add_paraphrase),
    "publish": (add_verify, add_submit),
    "set up": (add_link, add_path, add_data),
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command with the given arguments, or with those of the command line."""
    parser = argparse.ArgumentParser(
        prog="pragworld-tasks",
        description="PragWorld for lm-eval: its tasks, data, fresh dialogues, scores and a board.",
        epilog="`pragworld-tasks COMMAND --help` describes a command and shows an example.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version("pragworld"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for title, additions in GROUPS.items():
        for add in additions:
            add(commands)
        names = ", ".join([*commands.choices][-len(additions) :])
        parser.description = f"{parser.description}\n  {title + ':':24}{names}"
    run_command(parser, arguments)
