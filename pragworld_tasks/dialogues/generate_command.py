"""The command `pragworld-tasks generate`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.dialogues.settings import ALL_DOMAINS
from pragworld_tasks.errors import InputError
from pragworld_tasks.text import format_size

if TYPE_CHECKING:
    from pragworld_tasks.dialogues.generate import Group


def add_generate(commands: Commands) -> None:
    """Add the command to those of `pragworld-tasks`."""
    command = add_command(
        commands,
        "generate",
        _generate,
        "generate dialogues from a world model",
        description="Each dialogue comes with a yes/no question and with altered variants, some of "
        "which flip the answer. The same settings give the same documents on every machine.",
        example="pragworld-tasks generate --show\n"
        "pragworld-tasks generate --groups 2000 --seed 1 --out train.csv",
    )
    command.add_argument(
        "--groups", type=int, metavar="N", help="number of groups; default: 200, or 20 with --show"
    )
    command.add_argument("--seed", type=int, default=0, help="default: 0")
    command.add_argument(
        "--split",
        default="train",
        help="train (the default), validation, test, test_vocabulary (things that no other split "
        "is about) or test_long (longer dialogues than any other's)",
    )
    command.add_argument(
        "--domains",
        metavar="NAMES",
        help=f"domains, separated by commas; default: {', '.join(ALL_DOMAINS)}",
    )
    command.add_argument(
        "--held-out-alteration",
        metavar="NAME",
        help="leave this alteration out of train and validation, and put it into every group of "
        f"the other splits: one of {', '.join(ALTERATIONS)}",
    )
    command.add_argument(
        "--alterations",
        metavar="NAMES",
        help="alterations, separated by commas, each with a weight such as 'Negation=2' or with "
        "weight 1; default: all, with about their shares in the manual split",
    )
    command.add_argument(
        "--flips",
        type=float,
        metavar="SHARE",
        help="share of the variants whose answer is not the original's, from 0.2 to 0.5; "
        "default: 0.34, as in the manual split",
    )
    command.add_argument(
        "--undetermined",
        default="keep",
        metavar="keep|drop",
        help="whether to ask what was said leaves undetermined, to which the answer is no by "
        "convention; default: keep",
    )
    command.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="a file that ends in .csv (the released format) or .jsonl",
    )
    command.add_argument("--overwrite", action="store_true", help="replace what exists")
    command.add_argument("--show", action="store_true", help="print groups to read")


def _generate(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from pragworld_tasks.data.document_files import write_documents
    from pragworld_tasks.dialogues.generate import documents, generate
    from pragworld_tasks.dialogues.settings import GeneratorSettings

    if bool(options.out) == options.show:
        raise InputError("generate: pass either --out FILE, to write, or --show, to read")
    groups = options.groups if options.groups is not None else 20 if options.show else 200
    names = ("seed", "split", "domains", "held_out_alteration", "alterations", "flips")
    given = {name: getattr(options, name) for name in (*names, "undetermined")}
    settings = GeneratorSettings.from_metadata(
        {"groups": groups, **{name: value for name, value in given.items() if value is not None}}
    )
    if options.show:
        print("\n\n".join(map(group_to_text, generate(settings))))
        return
    progress = tqdm(generate(settings), total=groups, unit="group", delay=1, disable=None)
    rows = write_documents(documents(progress), options.out, options.overwrite)
    print(f"{options.out}: {format_size(rows, groups)}")


def group_to_text(group: "Group") -> str:
    """Return the group as text to read: the dialogue, the question, and the changes."""
    original, *variants = group.variants
    kind = filter(None, (group.domain, getattr(group.question, "form", "")))
    lines = [f"Group {group.number} ({', '.join(kind)})", ""]
    lines += [f"{index:>3}  {line}" for index, line in enumerate(original.dialogue.lines)]
    lines += ["", f"     {group.question_text} {original.answer}", ""]
    for variant in variants:
        lines.append(f"     {variant.alteration}, {variant.effect}: {variant.answer}")
        lines += [
            f"{change.utterance:>8}  {_quoted(change.old)} -> {_quoted(change.new)}"
            for change in variant.changes
        ]
    return "\n".join(lines)


def _quoted(words: str) -> str:
    return f'"{words}"' if words else "(nothing)"
