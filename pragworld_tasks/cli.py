"""The command `pragworld-tasks`."""

import argparse
import dataclasses
import sys
from importlib.metadata import version
from pathlib import Path

from pragworld_tasks import link as links
from pragworld_tasks.authoring.author_command import add_author
from pragworld_tasks.authoring.review_command import add_author_review
from pragworld_tasks.command_line import Commands, add_command, add_commands, run_command
from pragworld_tasks.data.documents import ALTERATIONS, ReleasedSplit
from pragworld_tasks.data.sources import (
    FILES,
    cache_folder,
    fetch,
    file_in,
    is_released,
    locate,
    named_folder,
    read_split,
)
from pragworld_tasks.dialogues.vocabulary import DOMAINS
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.score_command import add_score
from pragworld_tasks.leaderboard.board_command import add_board
from pragworld_tasks.leaderboard.submit_command import add_submit
from pragworld_tasks.leaderboard.verify_command import add_verify
from pragworld_tasks.sensitivity.collect_command import add_collect
from pragworld_tasks.sensitivity.decompose_command import add_decompose
from pragworld_tasks.sensitivity.paraphrase_command import add_paraphrase

_SPLITS = ", ".join(FILES)


def main(arguments: list[str] | None = None) -> None:
    """Run the command with the given arguments, or with those of the command line."""
    run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pragworld-tasks",
        description="PragWorld for lm-eval: make its tasks known, fetch and check the data, "
        "generate and alter dialogues, score responses.",
        epilog="`pragworld-tasks COMMAND --help` describes a command and shows an example.",
    )
    parser.add_argument("--version", action="version", version=version("pragworld"))
    commands = add_commands(parser)
    _add_link(commands)
    _add_data(commands)
    add_score(commands)
    add_board(commands)
    _add_generate(commands)
    _add_alter(commands)
    add_author(commands)
    add_author_review(commands)
    add_command(
        commands,
        "tiny",
        _tiny,
        "print the folder of the small model pragworld-tiny",
        example="lm_eval --model hf --model_args pretrained=$(pragworld-tasks tiny) "
        "--tasks pragworld_generated",
    )
    add_collect(commands)
    add_decompose(commands)
    add_paraphrase(commands)
    add_verify(commands)
    add_submit(commands)
    return parser


def _tiny(_: argparse.Namespace) -> None:
    from pragworld_tasks.tiny import tiny_folder

    print(tiny_folder())


# Tasks --------------------------------------------------------------------------------------------


def _add_link(commands: Commands) -> None:
    add_command(
        commands,
        "link",
        lambda _: print(links.link()),
        "make the tasks known to the installed lm-eval",
        example="pragworld-tasks link\n"
        "lm_eval --model hf --model_args pretrained=… --tasks pragworld_manual",
    )
    add_command(
        commands,
        "unlink",
        lambda _: print(links.unlink()),
        "undo `link`",
        example="pragworld-tasks unlink",
    )
    add_command(
        commands,
        "path",
        _path,
        "print the folder of the tasks, for lm-eval's --include_path",
        example='lm_eval --include_path "$(pragworld-tasks path)" --tasks pragworld_manual …',
    )
    add_command(
        commands,
        "list",
        _list,
        "list the tasks and groups",
        example="pragworld-tasks list",
    )


def _path(_: argparse.Namespace) -> None:
    print(links.task_folder())
    if links.is_linked():
        print(
            "the tasks are linked into lm-eval: leave out --include_path, or lm-eval warns about "
            "each of them; `pragworld-tasks unlink` undoes the linking",
            file=sys.stderr,
        )


def _list(_: argparse.Namespace) -> None:
    descriptions = links.task_descriptions()
    width = max(map(len, descriptions))
    for name, description in descriptions.items():
        print(f"{name:{width}}  {description}")


# Data ---------------------------------------------------------------------------------------------


def _add_data(commands: Commands) -> None:
    data = commands.add_parser(
        "data",
        help="locate, download or check the released data",
        description="Locate, download or check the released data. A split's file is looked for in "
        "the folder that PRAGWORLD_DATA names (laid out like the released repository, or one "
        "that `scripts/hub_dataset.py` wrote), then in the cache (PRAGWORLD_CACHE, or the "
        "user's), and is otherwise downloaded at the pinned commit (PRAGWORLD_URL names a mirror).",
        epilog="example: pragworld-tasks data status",
    )
    data_commands = add_commands(data)
    for name, run, summary in (
        ("status", _data_status, "show where each split is"),
        ("fetch", _data_fetch, "download what is not in the cache"),
        ("check", _data_check, "read every split that is on this machine and print an audit"),
    ):
        command = add_command(
            data_commands, name, run, summary, example=f"pragworld-tasks data {name} manual"
        )
        command.add_argument(
            "splits", nargs="*", metavar="SPLIT", help=f"any of {_SPLITS}; all by default"
        )
        if name == "check":
            command.add_argument(
                "--folder",
                type=Path,
                help="check this folder, laid out like the released repository",
            )
    labels = add_command(
        data_commands,
        "labels",
        _data_labels,
        "print the disputed labels of the manual split",
        description="Three language-model annotators of one family answered all questions of the "
        "manual split without seeing the labels. Prints the documents on which all three "
        "contradict the gold answer, with their reasons. No label is changed; "
        "robust_acc_undisputed and acc_undisputed leave these documents out.",
        example="pragworld-tasks data labels",
    )
    labels.add_argument(
        "--undetermined",
        action="store_true",
        help="print the documents whose conversation leaves the answer open instead: their label "
        "rests on a convention, mostly that what was never said is no (undetermined_acc)",
    )


def _data_labels(options: argparse.Namespace) -> None:
    from pragworld_tasks.data.label_readings import readings_of
    from pragworld_tasks.data.sources import load_split

    documents = load_split("manual")
    read = [
        (document, readings)
        for document, readings in zip(documents, readings_of(documents), strict=True)
        if readings
    ]
    if not read:
        raise InputError(
            "no document was read by the readers of the labels; use the released manual split"
        )
    kind = "undetermined" if options.undetermined else "disputed"
    shown = [
        readings.to_text(document)
        for document, readings in read
        if (readings.is_undetermined if options.undetermined else readings.is_disputed)
    ]
    print("\n\n".join([f"{len(shown)} of {len(documents)} documents: {kind} labels", *shown]))


def _data_status(options: argparse.Namespace) -> None:
    splits = _splits(options)
    print(f"PRAGWORLD_DATA: {named_folder() or 'not set'}\ncache: {cache_folder()}")
    for split in splits:
        location = locate(split)
        absent = f"not on this machine ({FILES[split].path} of the released repository)"
        print(f"{split}: {location.path} ({location.origin})" if location else f"{split}: {absent}")


def _data_fetch(options: argparse.Namespace) -> None:
    for split in _splits(options):
        print(f"{split}: {fetch(split)}")


def _data_check(options: argparse.Namespace) -> None:
    from pragworld_tasks.data.audit import audit

    if options.folder and not options.folder.is_dir():
        raise InputError(
            f"{options.folder}: no such folder; pass one laid out like the released repository"
        )
    checked = refused = 0
    for split in _splits(options):
        if options.folder:
            path = file_in(options.folder, split)
        else:
            location = locate(split)
            path = location.path if location else None
        if path is None:
            print(f"{split}: not on this machine (no {FILES[split].path})")
            continue
        checked += 1
        try:
            found = audit(read_split(split, path))
        except InputError as error:
            refused += 1
            print(f"{split}: {error}")
        else:
            print(f"{found.to_text()}\n  from {path}")
    if not checked:
        raise InputError("no data to check; set PRAGWORLD_DATA or run `pragworld-tasks data fetch`")
    if refused:
        raise InputError(f"{refused} of {checked} files cannot be used; see above")


def _splits(options: argparse.Namespace) -> list[ReleasedSplit]:
    if unknown := [name for name in options.splits if not is_released(name)]:
        raise InputError(f"split {unknown[0]!r} does not exist; choose from {_SPLITS}")
    names = options.splits or list(FILES)
    return [name for name in FILES if is_released(name) and name in names]


# Dialogues ----------------------------------------------------------------------------------------


def _add_generate(commands: Commands) -> None:
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
        default=",".join(DOMAINS),
        metavar="NAMES",
        help="domains, separated by commas; default: %(default)s. There is also conversation",
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
        help=".csv (the released format), .jsonl, .parquet, or a folder for `datasets`",
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace the file or folder --out if it exists"
    )
    command.add_argument(
        "--show", action="store_true", help="print groups to read, with every alteration"
    )


def _generate(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from pragworld_tasks.dialogues.display import group_to_text, select_groups
    from pragworld_tasks.dialogues.export import write_groups
    from pragworld_tasks.dialogues.generate import generate
    from pragworld_tasks.dialogues.settings import GeneratorSettings
    from pragworld_tasks.text import format_count

    if bool(options.out) == options.show:
        raise InputError("generate: pass either --out FILE, to write, or --show, to read")
    groups = options.groups if options.groups is not None else 20 if options.show else 200
    names = ("seed", "split", "domains", "held_out_alteration", "alterations", "flips")
    given = {name: getattr(options, name) for name in (*names, "undetermined")}
    settings = GeneratorSettings.from_metadata(
        {"groups": groups, **{name: value for name, value in given.items() if value is not None}}
    )
    if options.show:
        more = generate(dataclasses.replace(settings, groups=5 * groups))
        chosen = select_groups(more, groups, ALTERATIONS, least=3)
        print("\n\n".join(map(group_to_text, chosen)))
        return
    progress = tqdm(generate(settings), total=groups, unit="group", delay=1, disable=None)
    rows = write_groups(progress, options.out, options.overwrite)
    count = f"{format_count(rows, 'document')} in {format_count(groups, 'group')}"
    print(f"{options.out}: {count}")


def _add_alter(commands: Commands) -> None:
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
