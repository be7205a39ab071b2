"""The command `pragworld-tasks alter`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json, read_text
from pragworld_tasks.text import format_count

if TYPE_CHECKING:
    from pragworld_tasks.text_alterations.tokens import AlteredConversation


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
        "--conversation", required=True, type=Path, metavar="FILE", help="one utterance per line"
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
        "--alteration", nargs="+", default=ALTERATIONS, metavar="NAME", help="default: all seven"
    )
    command.add_argument("--seed", type=int, default=0, help="default: 0")
    command.add_argument(
        "--explain", action="store_true", help="tell the likeliest reasons for no exchange"
    )


def _alter(options: argparse.Namespace) -> None:
    from pragworld_tasks.text_alterations.alter import alter, alteration_name
    from pragworld_tasks.text_alterations.entities import Conversation, Entities
    from pragworld_tasks.text_alterations.swap import exchange_refusals

    text = read_text(options.conversation).strip("\r\n")
    if not text.strip():
        raise InputError(f"{options.conversation}: empty; write one utterance per line")
    entities = Entities.from_lists(read_json(options.entities), options.entities)
    names = [alteration_name(alteration) for alteration in options.alteration]
    shown = list[str]()
    for name in names:
        try:
            shown.append(_shown(alter(text, entities, name, options.seed)))
        except InputError as error:
            lines = [str(error)]
            refusals = exchange_refusals(Conversation(text, entities), name)
            for reason, pair, count in refusals[:3] if options.explain else []:
                lines.append(f"  {format_count(count, 'pair')}, such as {pair}: {reason}")
            shown.append("\n".join(lines))
    print("\n\n".join(shown))


def _shown(altered: "AlteredConversation") -> str:
    """Return an altered conversation below its replacements."""
    effects = {None: "", True: " (answers can change)", False: " (answers cannot change)"}
    lines = [f"{altered.alteration}{effects[altered.answers_can_change]}"]
    for each in altered.replacements:
        lines.append(f'  line {each.utterance + 1}: "{each.old}" -> "{each.new}"')
    return "\n".join([*lines, "", altered.text])
