"""The command `pragworld-tasks`. Each command is defined in the room whose work it does."""

import argparse
from importlib.metadata import version

from pragworld_tasks.authoring.author_command import add_author, add_review
from pragworld_tasks.command_line import run_command
from pragworld_tasks.data.data_command import add_data
from pragworld_tasks.dialogues.generate_command import add_generate
from pragworld_tasks.evaluation.score_command import add_score
from pragworld_tasks.leaderboard.board_command import add_board
from pragworld_tasks.leaderboard.submit_command import add_submit, add_verify
from pragworld_tasks.link import add_link, add_path
from pragworld_tasks.sensitivity.collect_command import add_collect
from pragworld_tasks.sensitivity.decompose_command import add_decompose
from pragworld_tasks.sensitivity.paraphrase_command import add_paraphrase
from pragworld_tasks.text_alterations.alter_command import add_alter

# To evaluate, make data, measure the sensitivity to wording, publish, and set up.
COMMANDS = (
    *(add_score, add_board),
    *(add_generate, add_alter, add_author, add_review),
    *(add_collect, add_decompose, add_paraphrase),
    *(add_verify, add_submit),
    *(add_link, add_path, add_data),
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command with the given arguments, or with those of the command line."""
    parser = argparse.ArgumentParser(
        prog="pragworld-tasks",
        description="PragWorld for lm-eval: its tasks, data, fresh dialogues, scores and a board.",
        epilog="`pragworld-tasks COMMAND --help` describes a command and shows an example.",
    )
    parser.add_argument("--version", action="version", version=version("pragworld"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    run_command(parser, arguments)
