"""The command `pragworld-tasks board`."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.errors import InputError, printable
from pragworld_tasks.files import refusing

_MARKER = "pragworld-board.txt"  # names the files that --overwrite replaces
_DEMO = ("published:all", "readings:majority")


def add_board(commands: Commands) -> None:
    """Add the command `board`."""
    command = add_command(
        commands,
        "board",
        _board,
        "write a leaderboard of runs as a folder of web pages",
        description="Ranks the runs on each split with intervals, compares them in pairs, and "
        "shows every dialogue and what each run answered. Open index.html: no server is needed.",
        example="pragworld-tasks board results/ published:all readings:majority --out board",
    )
    add = command.add_argument
    add(
        "runs",
        nargs="*",
        metavar="RUN",
        help="whatever `score` takes; put the split before a run whose file does not name it: "
        "entity_tracking:outputs.jsonl",
    )
    add(
        "--demo",
        action="store_true",
        help="show what comes with the package: the paper's released answers, the readers of the "
        "labels, and the layers of the small model",
    )
    for option, description in (
        ("--layers", "files of `pragworld-interp ablate` and `patch`: adds a page of heat maps"),
        ("--sensitivity", "files of `decompose --json`: adds a page of PS, AS and MU"),
    ):
        add(option, nargs="+", type=Path, default=[], metavar="FILE", help=description)
    add("--group-by", metavar="FIELD", help="the runs are samples of any task, as for `score`")
    add("--metric", help="with --group-by, scores from 0 to 1, as for `score`")
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    add("--overwrite", action="store_true", help="replace a leaderboard")


def _board(options: argparse.Namespace) -> None:
    from pragworld_tasks.layers import EXAMPLES
    from pragworld_tasks.layers.page import read_sweeps
    from pragworld_tasks.leaderboard.boards import load_runs, make_boards
    from pragworld_tasks.leaderboard.pages import render_site
    from pragworld_tasks.sensitivity.report import read_decompositions
    from pragworld_tasks.text import format_count

    files = options.layers + options.sensitivity
    if options.metric and not options.group_by:
        raise InputError("--metric: not without --group-by")
    if options.demo and (options.runs or files or options.group_by):
        raise InputError("--demo shows what comes with the package; leave it out to show your own")
    if not (options.demo or options.runs or files):
        raise InputError("board: name runs, or pass --demo to see what comes with the package")
    sweeps = list(EXAMPLES.glob("*.json*")) if options.demo else options.layers
    runs = _DEMO if options.demo else options.runs
    boards = make_boards(load_runs(runs, options.group_by, options.metric))
    site = render_site(
        boards, read_sweeps(sweeps) if sweeps else None, read_decompositions(options.sensitivity)
    )
    size = write_site(site, options.out, options.overwrite)
    shown = [f"{format_count(len(board.runs), 'run')} on {board.title}" for board in boards]
    print(printable(f"{options.out / 'index.html'}: {', '.join([*shown, f'{size / 1e6:.1f} MB'])}"))


def write_site(files: Iterable[tuple[str, str]], folder: Path, overwrite: bool) -> int:
    """Write a site, in place of the files of an older one, and return its size in bytes."""
    marker = folder / _MARKER
    if folder.exists() and not marker.is_file():
        raise InputError(f"{folder} is no site that `board` wrote; pass another folder")
    if folder.exists() and not overwrite:
        raise InputError(f"{folder} exists; pass --overwrite, or another folder")
    contents = {name: content.encode() for name, content in files}
    with refusing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        written = marker.read_text().splitlines() if marker.exists() else []
        for path in {*folder.iterdir()} & {folder / name for name in written}:
            path.unlink()
        for name, content in {_MARKER: "\n".join(contents).encode(), **contents}.items():
            (folder / name).write_bytes(content)
    return sum(map(len, contents.values()))
