"""The command `pragworld-tasks`."""

import argparse
import dataclasses
from importlib.metadata import version
from pathlib import Path
from typing import get_args

from pragworld_tasks import link as links
from pragworld_tasks.command_line import run_command
from pragworld_tasks.data.documents import ReleasedSplit
from pragworld_tasks.errors import InputError
from pragworld_tasks.sensitivity.collect import add_collect
from pragworld_tasks.sensitivity.decompose import add_decompose
from pragworld_tasks.sensitivity.paraphrase import add_paraphrase

SPLITS: tuple[ReleasedSplit, ...] = get_args(ReleasedSplit)

_DATA_HELP = """\
A split's file is looked for in this order: the folder that PRAGWORLD_DATA names (laid out like
the released repository), the cache (PRAGWORLD_CACHE, else the user's), a download of the file at
the pinned commit (PRAGWORLD_URL names a mirror)."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command with the given arguments, or those of the command line."""
    run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pragworld-tasks",
        description="PragWorld tasks for lm-eval: link them, have data, score responses.",
    )
    parser.add_argument("--version", action="version", version=version("pragworld"))
    commands = parser.add_subparsers(required=True, metavar="command")

    command = commands.add_parser("link", help="make the tasks known to the installed lm-eval")
    command.set_defaults(run=lambda _: print(links.link()))

    command = commands.add_parser("unlink", help="undo link")
    command.set_defaults(run=lambda _: print(links.unlink()))

    command = commands.add_parser("path", help="print the folder of tasks, for --include_path")
    command.set_defaults(run=lambda _: print(links.task_folder()))

    command = commands.add_parser("list", help="list the tasks and groups")
    command.set_defaults(run=_list)

    data = commands.add_parser(
        "data",
        help="where the data is, get it, check it",
        description=_DATA_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    data_commands = data.add_subparsers(required=True, metavar="command")
    for name, run, what in (
        ("status", _data_status, "say where each split is"),
        ("fetch", _data_fetch, "download what is not in the cache"),
        ("check", _data_check, "read every split that is there and print an audit"),
    ):
        command = data_commands.add_parser(name, help=what, description=what)
        command.add_argument("split", nargs="*", help=f"some of {', '.join(SPLITS)}; else all")
        command.set_defaults(run=run)
        if name == "check":
            command.add_argument(
                "--folder", type=Path, help="this folder, laid out like the released repository"
            )

    _add_generate(commands)
    command = commands.add_parser(
        "alter",
        help="the paper's alterations of a conversation of your own",
        description="Alters a conversation as the paper's Algorithms 1 to 5 do, and by negation "
        "and inconsistent data, which the paper did by hand. Prints each altered conversation.",
    )
    command.add_argument(
        "--conversation",
        required=True,
        type=Path,
        metavar="FILE",
        help="an utterance a line, as in 'Alice: Where are the pears?'",
    )
    command.add_argument(
        "--entities",
        required=True,
        type=Path,
        metavar="FILE",
        help="JSON with lists 'agents', 'objects', 'locations' and, of those on which the "
        "questions turn, 'focus_agents', 'focus_objects', 'focus_locations'",
    )
    command.add_argument(
        "--alteration", nargs="+", default=[], metavar="NAME", help="only these; else all seven"
    )
    command.add_argument("--seed", type=int, default=0, help="another one alters other words")
    command.set_defaults(run=_alter)

    command = commands.add_parser("tiny", help="print the folder of the model pragworld-tiny")
    command.set_defaults(run=_tiny)

    command = commands.add_parser(
        "score",
        help="metrics on responses that exist already",
        description="Metrics with intervals, and breakdowns, of responses that exist already.",
    )
    command.add_argument("--split", required=True, choices=SPLITS, help="what was asked")
    command.add_argument(
        "--responses",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="JSON lines with a 'response' each, in row order or with a 'row' each; "
        "or lm-eval's samples_*.jsonl. Several files count as one",
    )
    command.add_argument(
        "--against",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="responses of another run, to compare with",
    )
    command.add_argument("--json", type=Path, metavar="FILE", help="write everything there too")
    command.set_defaults(run=_score)
    add_paraphrase(commands)
    add_collect(commands)
    add_decompose(commands)
    return parser


def _add_generate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "generate",
        help="dialogues made from a world model, as many as you want",
        description="Generates dialogues with a yes/no question each, and altered variants of them "
        "in pairs: one that flips the answer and one that does not. The same settings give the "
        "same documents on every machine.",
    )
    command.add_argument("--groups", type=int, metavar="N", help="default: 200; with --show 20")
    command.add_argument("--seed", type=int, default=0, help="another one, other dialogues")
    command.add_argument(
        "--split",
        default="train",
        help="train (the default), validation, test, test_vocabulary (words that no other split "
        "has) or test_long (longer dialogues than any other's)",
    )
    command.add_argument(
        "--domains", default="household,shop,clinic", metavar="NAMES", help="default: all three"
    )
    command.add_argument(
        "--held-out-alteration",
        metavar="NAME",
        help="train and validation do without it; every group of the other splits has it",
    )
    command.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help=".csv (the released format), .jsonl, .parquet, or a folder for datasets",
    )
    command.add_argument(
        "--show",
        action="store_true",
        help="print groups to be read, with every alteration",
    )
    command.set_defaults(run=_generate)


def _generate(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from pragworld_tasks.data.documents import ALTERATIONS
    from pragworld_tasks.dialogues import display as show
    from pragworld_tasks.dialogues.export import write
    from pragworld_tasks.dialogues.generate import GeneratorSettings, generate

    if bool(options.out) == options.show:
        raise InputError("generate: give either --out FILE, to write, or --show, to read")
    groups = options.groups if options.groups is not None else 20 if options.show else 200
    settings = GeneratorSettings(
        groups=groups,
        seed=options.seed,
        split=options.split,
        domains=tuple(name.strip() for name in options.domains.split(",")),
        held_out_alteration=options.held_out_alteration,
    )
    if options.show:
        more = generate(dataclasses.replace(settings, groups=5 * groups))
        chosen = show.select(more, groups, ALTERATIONS, each=3)
        print("\n\n".join(map(show.to_text, chosen)))
        return
    progress = tqdm(generate(settings), total=groups, unit="group", disable=None)
    print(f"{options.out}: {write(progress, options.out)} documents in {groups} groups")


def _alter(options: argparse.Namespace) -> None:
    from pragworld_tasks.text_alterations.alter import altered_text

    print(altered_text(options.conversation, options.entities, options.alteration, options.seed))


def _tiny(_: argparse.Namespace) -> None:
    from pragworld_tasks.tiny import folder

    print(folder())


def _list(_: argparse.Namespace) -> None:
    descriptions = links.task_descriptions()
    width = max(map(len, descriptions))
    for name, description in descriptions.items():
        print(f"{name:{width}}  {description}")


def _data_status(options: argparse.Namespace) -> None:
    from pragworld_tasks.data.sources import FILES, cache_folder, locate, named_folder

    splits = _splits(options)
    print(f"PRAGWORLD_DATA: {named_folder() or 'not set'}\ncache: {cache_folder()}")
    for split in splits:
        location = locate(split)
        absent = f"not on this machine ({FILES[split].path} of the released repository)"
        print(f"{split}: {location.path} ({location.origin})" if location else f"{split}: {absent}")


def _data_fetch(options: argparse.Namespace) -> None:
    from pragworld_tasks.data.sources import fetch

    for split in _splits(options):
        print(f"{split}: {fetch(split)}")


def _data_check(options: argparse.Namespace) -> None:
    from pragworld_tasks.data.audit import audit, to_text
    from pragworld_tasks.data.sources import FILES, locate

    if options.folder and not options.folder.is_dir():
        raise InputError(
            f"{options.folder}: no such folder; name one laid out like the released repository"
        )
    checked = refused = 0
    for split in _splits(options):
        if options.folder:
            path = options.folder / FILES[split].path
        else:
            location = locate(split)
            path = location.path if location else None
        if path is None or not path.exists():
            print(f"{split}: no {FILES[split].path}")
            continue
        checked += 1
        try:
            found = audit(FILES[split].read(path))
        except InputError as error:
            refused += 1
            print(f"{split}: {error}")
        else:
            print(f"{to_text(split, found)}\n  from {path}")
    if not checked:
        raise InputError("nothing to check; set PRAGWORLD_DATA or run `pragworld-tasks data fetch`")
    if refused:
        raise InputError(f"{refused} of {checked} files cannot be used")


def _splits(options: argparse.Namespace) -> tuple[ReleasedSplit, ...]:
    unknown = [name for name in options.split if name not in SPLITS]
    if unknown:
        raise InputError(f"no split {unknown[0]!r}; there are {', '.join(SPLITS)}")
    return tuple(split for split in SPLITS if not options.split or split in options.split)


def _score(options: argparse.Namespace) -> None:
    from pragworld_tasks.data.sources import load
    from pragworld_tasks.evaluation import reports
    from pragworld_tasks.evaluation.responses import read_predictions
    from pragworld_tasks.evaluation.scoring import compare, score
    from pragworld_tasks.files import write_json

    documents = load(options.split)
    predictions = read_predictions(options.responses, documents)
    report, comparison = score(documents, predictions), None
    if options.against:
        comparison = compare(documents, predictions, read_predictions(options.against, documents))
    if options.json:
        write_json(options.json, reports.to_json(report, comparison))
    print(reports.to_text(report))
    if comparison:
        print(reports.comparison_to_text(comparison))
