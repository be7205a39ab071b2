"""The command `pragworld-tasks author-review`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.text import format_count


def add_author_review(commands: Commands) -> None:
    """Add the command `author-review`."""
    command = add_command(
        commands,
        "author-review",
        _author_review,
        "write a page on which people review the documents of `author`, or apply their decisions",
        description="Without --apply, writes FOLDER/review.html. It needs no server: open it in a "
        "browser, decide by key or button, and save your decisions as a file. With --apply, labels "
        "follow the decisions: more than half of a document's reviewers decide, otherwise it stays "
        "in review. Labels, documents, audit and page are written anew, and decisions that were "
        "applied before stay.",
        example="pragworld-tasks author-review mine/\n"
        "pragworld-tasks author-review mine/ --apply decisions-ann.json decisions-ben.json",
    )
    command.add_argument("folder", type=Path, metavar="FOLDER", help="the --out of `author`")
    command.add_argument(
        "--apply",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="files of decisions, as the page saves them",
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace a review.html with other content"
    )


def _author_review(options: argparse.Namespace) -> None:
    if options.apply:
        _apply(options.folder, options.apply)
    else:
        _write_page(options.folder, options.overwrite)


def _write_page(folder: Path, overwrite: bool) -> None:
    from pragworld_tasks.authoring.decisions import is_in_review, read_reviews
    from pragworld_tasks.authoring.folder import read_stages
    from pragworld_tasks.authoring.review import PAGE, REPORT, page_of
    from pragworld_tasks.files import check_output, read_text, write_whole

    records = read_stages(folder)
    report = read_text(folder / REPORT)
    content = page_of(folder, records, read_reviews(folder), report).encode()
    path = folder / PAGE
    if not path.is_file() or path.read_bytes() != content:
        check_output(path, overwrite)
        write_whole(path, content)
    in_review = sum(map(is_in_review, records.labels))
    print(f"{path}: {format_count(len(records.labels), 'document')}, {in_review} in review")


def _apply(folder: Path, paths: list[Path]) -> None:
    from dataclasses import replace

    from pragworld_tasks.authoring.decisions import (
        add_decisions,
        agreement_text,
        change_texts,
        check_unedited,
        is_in_review,
        panel_labels,
        read_decisions,
        read_reviews,
    )
    from pragworld_tasks.authoring.folder import check_labelled, locked, read_run, read_stages
    from pragworld_tasks.authoring.results import write_results

    check_labelled(folder)
    with locked(folder):
        before = read_stages(folder)
        run = read_run(folder)
        reviews = read_reviews(folder)
        check_unedited(folder / "labels.jsonl", before.labels, reviews, run.goal["agree"])
        panel = panel_labels(before.labels, reviews)
        files = {path: read_decisions(path) for path in paths}
        panel_records = replace(before, labels=tuple(panel))
        reviews = add_decisions(panel_records, reviews, files)
        after = write_results(folder, panel_records, reviews, run)
    for text in change_texts(before.labels, after.labels):
        print(text)
    if agreement := agreement_text(reviews):
        print(agreement)
    decided = sum(len(file.decisions) for file in files.values())
    in_review = sum(map(is_in_review, after.labels))
    for path, file in files.items():
        if not file.decisions:
            print(f"{path}: no decisions in it")
    print(
        f"{folder}: {format_count(decided, 'decision')} applied, "
        f"{format_count(in_review, 'document')} in review"
    )
