"""The command `pragworld-tasks data`."""

import argparse
from collections.abc import Callable, Sequence

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.data.audit import audit_text
from pragworld_tasks.data.documents import ReleasedSplit
from pragworld_tasks.data.label_readings import readings_of
from pragworld_tasks.data.sources import (
    FILES,
    cache_folder,
    fetch,
    is_released,
    load_split,
    locate,
    named_folder,
    read_split,
)
from pragworld_tasks.errors import InputError


def add_data(commands: Commands) -> None:
    """Add the command to those of `pragworld-tasks`."""
    command = add_command(
        commands,
        "data",
        _data,
        "locate, download or check the released data",
        description="A split's file is looked for in the folder that PRAGWORLD_DATA names (laid "
        "out like the released repository, or as scripts/hub_dataset.py writes it), then in the "
        "cache (PRAGWORLD_CACHE, or the user's), and is otherwise downloaded at the pinned commit "
        "(PRAGWORLD_URL names a mirror).",
        example="pragworld-tasks data status\npragworld-tasks data fetch manual",
    )
    command.add_argument(
        "action",
        choices=_ACTIONS,
        help="show where each split is; download what is not in the cache; read every split that "
        "is on this machine and print an audit; or print the labels of the manual split that "
        "three blind annotators dispute, and those that rest on a convention",
    )
    command.add_argument(
        "splits", nargs="*", metavar="SPLIT", help=f"any of {', '.join(FILES)}; all by default"
    )


def _data(options: argparse.Namespace) -> None:
    if unknown := [name for name in options.splits if not is_released(name)]:
        raise InputError(f"split {unknown[0]!r} does not exist; choose from {', '.join(FILES)}")
    names = options.splits or list(FILES)
    _ACTIONS[options.action]([name for name in FILES if is_released(name) and name in names])


def _show_status(splits: Sequence[ReleasedSplit]) -> None:
    print(f"PRAGWORLD_DATA: {named_folder() or 'not set'}\ncache: {cache_folder()}")
    for split in splits:
        location = locate(split)
        absent = f"not on this machine ({FILES[split].path} of the released repository)"
        print(f"{split}: {location.path} ({location.origin})" if location else f"{split}: {absent}")


def _fetch(splits: Sequence[ReleasedSplit]) -> None:
    for split in splits:
        print(f"{split}: {fetch(split)}")


def _check(splits: Sequence[ReleasedSplit]) -> None:
    checked = refused = 0
    for split in splits:
        location = locate(split)
        if location is None:
            print(f"{split}: not on this machine (no {FILES[split].path})")
            continue
        checked += 1
        try:
            print(f"{audit_text(read_split(split, location.path))}\n  from {location.path}")
        except InputError as error:
            refused += 1
            print(f"{split}: {error}")
    if not checked:
        raise InputError("no data to check; set PRAGWORLD_DATA or run `pragworld-tasks data fetch`")
    if refused:
        raise InputError(f"{refused} of {checked} files cannot be used; see above")


def _show_labels(_: Sequence[ReleasedSplit]) -> None:

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
    for kind in ("disputed", "undetermined"):
        shown = [
            readings.to_text(document)
            for document, readings in read
            if (readings.is_disputed if kind == "disputed" else readings.is_undetermined)
        ]
        print("\n\n".join([f"{len(shown)} of {len(documents)} documents: {kind} labels", *shown]))


_ACTIONS: dict[str, Callable[[Sequence[ReleasedSplit]], None]] = {
    "status": _show_status,
    "fetch": _fetch,
    "check": _check,
    "labels": _show_labels,
}
