"""The command `pragworld-tasks alter`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command


def add_alter(commands: Commands) -> None:
    """Add the command to those of `pragworld-tasks`."""
    command = add_command(
        commands,
        "alter",
        _alter,
        "alter a conversation of your own",
        description="Alters a conversation by the paper's Algorithms 1 to 5, and by negation and "
        "inconsistent data, which the paper did by hand, and prints each altered conversation.",
        example="pragworld-tasks alter --conversation my.txt --entities my.json",
    )
    command.add_argument(
        "--conversation",
        required=True,
        type=Path,
        metavar="FILE",
        help="one utterance per line, as in 'Alice: Where are the pears?'",
    )
    command.add_argument(
        "--entities",
        required=True,
        type=Path,
        metavar="FILE",
        help="JSON with the lists 'agents', 'objects' and 'locations', and optionally "
        "'focus_agents', 'focus_objects' and 'focus_locations': those that the questions are "
        "about; 'female' and 'male': agents; and 'exchangeable': groups that are alike",
    )
    command.add_argument(
        "--alteration",
        nargs="+",
        default=[],
        metavar="NAME",
        help="only these, in quotes and separated by spaces; default: all seven",
    )
    command.add_argument("--seed", type=int, default=0, help="default: 0")
    command.add_argument(
        "--explain",
        action="store_true",
        help="tell why each change was allowed, and why entities were not exchanged",
    )


def _alter(options: argparse.Namespace) -> None:
    from pragworld_tasks.text_alterations.alter import altered_text

    text = altered_text(
        options.conversation,
        options.entities,
        options.alteration,
        options.seed,
        explain=options.explain,
    )
    print(text)
