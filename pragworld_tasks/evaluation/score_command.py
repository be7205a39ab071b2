"""The command `pragworld-tasks score`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.data.splits import GENERATED, OWN, SPLIT_NAMES, named_documents

if TYPE_CHECKING:
    from pragworld_tasks.data.documents import Document
    from pragworld_tasks.evaluation.runs import RunSource

_TRACKING = "generated_entity_tracking"


def add_score(commands: Commands) -> None:
    """Add the command `score`."""
    command = add_command(
        commands,
        "score",
        _score,
        "score existing responses, or compare runs",
        description="For one run, prints every metric with a 95 % interval, the released "
        "scoring's figures beside it, and accuracy by alteration, length and type of question. For "
        "several runs, prints one table, the best run first. A run is a file of responses, a "
        "folder that lm_eval wrote, or one of the released runs whose answers come with this "
        "package: published:MODEL, or published:all. readings:majority scores the three blind "
        "readings of the labels: the ceiling of the manual split.",
        example="pragworld-tasks score --responses results/\n"
        "pragworld-tasks score --split manual --responses answers.jsonl "
        "--against published:Llama-3.3-70B-Instruct\n"
        "pragworld-tasks score --responses published:all --items items.csv",
    )
    command.add_argument(
        "--responses",
        required=True,
        nargs="+",
        metavar="RUN",
        help="lm-eval's samples_*.jsonl or its folder; JSON lines with a 'response' each, in row "
        "order or with a 'row' each; published:MODEL; readings:majority. Files that hold a part "
        "of the split each count as one run",
    )
    command.add_argument(
        "--split",
        choices=(*SPLIT_NAMES, _TRACKING, OWN),
        help="the split that the responses are to; default: the one that lm-eval's samples name",
    )
    command.add_argument(
        "--metadata",
        metavar="JSON",
        help='settings of generated documents, as for lm_eval: \'{"groups": 20, "seed": 7}\'; '
        "default: the documents in lm-eval's samples",
    )
    command.add_argument(
        "--documents",
        type=Path,
        metavar="PATH",
        help="a file with documents of your own that the responses are to; default: the "
        "documents in lm-eval's samples",
    )
    command.add_argument(
        "--against",
        nargs="+",
        metavar="RUN",
        help="another run, to compare with",
    )
    command.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    command.add_argument(
        "--items",
        type=Path,
        metavar="FILE",
        help="also write a CSV with a line for each document: how many runs answer it right, and "
        "which variants break their group",
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace the files of --json and --items"
    )


def _score(options: argparse.Namespace) -> None:
    from pragworld_tasks.errors import InputError
    from pragworld_tasks.evaluation.comparison import compare_scores, runs_table
    from pragworld_tasks.evaluation.items import analyze_items, items_csv
    from pragworld_tasks.evaluation.runs import common_split, find_runs, read_runs
    from pragworld_tasks.evaluation.scoring import SCHEMA_VERSION, score
    from pragworld_tasks.files import check_output, write_json, write_whole

    outputs = [path for path in (options.json, options.items) if path]
    for path in outputs:
        check_output(path, options.overwrite)
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise InputError(f"--json and --items: both name {outputs[0]}; choose two files")
    wanted = options.split or (OWN if options.documents else None)
    sources = find_runs(options.responses, wanted)
    split = wanted or common_split(sources)
    others = find_runs(options.against or [], split)
    documents = _documents(split, options, [*sources, *others])
    reports = {
        name: score(documents, answers) for name, answers in read_runs(sources, documents).items()
    }
    against = [
        (name, score(documents, answers)) for name, answers in read_runs(others, documents).items()
    ]
    if len(against) > 1:
        raise InputError(
            f"--against names {len(against)} runs ({', '.join(name for name, _ in against)}); "
            "name one"
        )
    if len(reports) == 1:
        (report,) = reports.values()
        content = report.to_json()
        text = report.to_text()
    else:
        content = {
            "schema_version": SCHEMA_VERSION,
            "runs": {name: report.to_json() for name, report in reports.items()},
        }
        text = runs_table(reports, *against)
    if against:
        comparisons = {
            name: compare_scores(report, against[0][1]) for name, report in reports.items()
        }
        as_json = {name: comparison.to_json() for name, comparison in comparisons.items()}
        if len(reports) == 1:
            (content["comparison"],) = as_json.values()
            text += "\n" + "\n".join(comparison.to_text() for comparison in comparisons.values())
        else:
            content["comparisons"] = as_json
    items = items_csv(analyze_items(reports)) if options.items else ""
    if options.json:
        write_json(options.json, content)
    if options.items:
        write_whole(options.items, items.encode())
    print(text)


def _documents(
    split: str, options: argparse.Namespace, runs: "list[RunSource]"
) -> "list[Document]":
    """Return the documents that the runs are on."""
    from pragworld_tasks.errors import InputError
    from pragworld_tasks.evaluation.runs import documents_in_samples

    metadata = options.metadata
    if split in (_TRACKING, OWN) and metadata is not None:
        raise InputError(f"--metadata: it makes no documents of the split {split}; leave it out")
    if options.documents:
        from pragworld_tasks.data.own_documents import read_documents

        if split != OWN:
            raise InputError(f"--documents: not for the split {split}; leave one of them out")
        return read_documents(options.documents)
    if split in (_TRACKING, OWN) or (
        split == GENERATED and metadata is None and any(run.split for run in runs)
    ):
        return documents_in_samples(runs)
    documents, _ = named_documents(split, metadata or "{}", "--metadata")
    return documents
