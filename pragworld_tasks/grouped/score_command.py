"""The command `pragworld-tasks score`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.data.documents import OWN, Document, Split
from pragworld_tasks.data.splits import named_documents
from pragworld_tasks.errors import InputError, printable
from pragworld_tasks.files import check_output, json_object, write_json, write_whole

if TYPE_CHECKING:
    from pragworld_tasks.evaluation.runs import NamedRun


def add_score(commands: Commands) -> None:
    """Add the command `score`."""
    command = add_command(
        commands,
        "score",
        _score,
        "score existing responses, or compare runs",
        description="For one run, prints every metric with a 95 % interval, and accuracy by "
        "alteration, length and type of question. For several, prints one table, the best first.",
        example="pragworld-tasks score results/\n"
        "pragworld-tasks score answers.jsonl --split manual --against published:gpt-3.5-turbo\n"
        "pragworld-tasks score published:all --items items.csv\n"
        "pragworld-tasks score samples_my_task.jsonl --group-by doc.group",
    )
    add = command.add_argument
    add(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a samples_*.jsonl of lm-eval, or the folder that it wrote; JSON lines with a "
        "'response' each, in row order or with a 'row' each; a file of --json; published:MODEL or "
        "published:all for released answers; readings:majority for the readers of the labels",
    )
    add("--split", choices=get_args(Split), help="default: the one that lm-eval's samples name")
    for option, value, description in (
        ("--metadata", "JSON", 'of generated documents, as for lm_eval: {"groups": 20, "seed": 7}'),
        ("--group-by", "FIELD", r"what a group's samples share: doc.group, or 'doc.id~(\d+)_'"),
        ("--metric", "NAME", "with --group-by, scores from 0 to 1; default: acc, or the only one"),
        ("--against", "RUN", "another run, to compare with"),
    ):
        add(option, metavar=value, help=description)
    for option, description in (
        ("--documents", "a file of your own documents; default: those in lm-eval's samples"),
        ("--json", "also write the run records, with every answer"),
        ("--items", "also write a CSV: which runs are right on each document, what breaks a group"),
    ):
        add(option, type=Path, metavar="FILE", help=description)
    add("--overwrite", action="store_true", help="replace what exists")


def _score(options: argparse.Namespace) -> None:
    grouped = options.group_by is not None
    for option in ("split", "metadata", "documents", "items") if grouped else ("metric",):
        if getattr(options, option):
            raise InputError(f"--{option}: not {'with' if grouped else 'without'} --group-by")
    inputs = [name.partition(":")[2] or name for name in (*options.runs, options.against) if name]
    inputs += [options.documents] if options.documents else []
    for path in filter(None, (options.json, options.items)):
        check_output(path, options.overwrite, inputs)
    (_score_groups if grouped else _score_splits)(options)


def _score_groups(options: argparse.Namespace) -> None:
    from pragworld_tasks.evaluation.comparison import compare_scores
    from pragworld_tasks.grouped.grouped_report import score_groups

    paths = [*options.runs, *filter(None, [options.against])]
    reports = [score_groups(path, options.group_by, options.metric) for path in paths]
    records = {}
    for path, report in zip(options.runs, reports, strict=False):  # the last may be `--against`
        print(f"{printable(report.name)}, {report.to_text()}")
        records[path] = report.run.to_record(report).to_json()
        for other in reports[len(options.runs) :]:
            comparison = compare_scores(report, other)
            print(comparison.to_text())
            records[path]["against"] = comparison.to_json()
    if options.json:
        (first, *others) = records.values()
        write_json(options.json, {"runs": records} if others else first)


def _score_splits(options: argparse.Namespace) -> None:
    from pragworld_tasks.evaluation.comparison import compare_scores
    from pragworld_tasks.evaluation.runs import common_split, find_runs
    from pragworld_tasks.grouped.item_analysis import analyze_items, items_csv
    from pragworld_tasks.grouped.runs_table import runs_table

    wanted = options.split or (OWN if options.documents else None)
    runs = find_runs(options.runs, wanted)
    split = wanted or common_split(runs)
    others = find_runs([options.against], split) if options.against else []
    if len(others) > 1:
        names = ", ".join(run.name for run in others)
        raise InputError(f"--against names {len(others)} runs ({names}); name one")
    documents = _scored_documents(split, options, [*runs, *others])
    reports = {run.name: run.score(documents) for run in runs}
    against = [run.score(documents) for run in others]
    compared = {
        name: compare_scores(report, other) for name, report in reports.items() for other in against
    }
    if options.json:
        records = {run.name: run.to_record(reports[run.name]).to_json() for run in runs}
        for name, comparison in compared.items():
            records[name]["against"] = comparison.to_json()
        write_json(options.json, {"runs": records} if len(runs) > 1 else records[runs[0].name])
    if options.items:
        write_whole(options.items, items_csv(analyze_items(reports)).encode())
    if len(runs) > 1:
        print(runs_table(reports, *against))
    else:
        report = reports[runs[0].name]
        print(report.to_text(), *(one.to_text() for one in compared.values()), sep="\n")


def _scored_documents(
    split: str, options: argparse.Namespace, runs: "list[NamedRun]"
) -> list[Document]:
    from pragworld_tasks.data.document_files import read_documents

    if options.documents and split != OWN:
        raise InputError(f"--documents: not for the split {split}; leave one of them out")
    if options.documents:
        return read_documents(options.documents)
    if options.metadata:
        return named_documents(split, json_object(options.metadata, "--metadata"))[0]
    for run in runs:
        if documents := run.documents():
            return documents
    raise InputError(
        "the responses do not hold their documents; pass lm-eval's samples, --metadata with the "
        "settings of generated documents, or --documents with a file of your own"
    )
