"""The commands `pragworld-tasks record` and `pragworld-tasks verify`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command


def add_verify(commands: Commands) -> None:
    """Add the commands `record` and `verify`."""
    record = add_command(
        commands,
        "record",
        _record,
        "write a run of lm_eval as a record that can be checked",
        description="Writes a submission to the leaderboard: record.json, with the model, how it "
        "ran, every answer and every metric, and the samples that it was made from. Arguments of "
        "the model that look like secrets, folders but for their names, and addresses of your "
        "network are left out of the record.",
        example="pragworld-tasks record results/ --out leaderboard/submissions/my-model",
    )
    record.add_argument(
        "results", metavar="RUN", help="a folder that lm_eval wrote, or its samples"
    )
    record.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="a new folder")
    record.add_argument("--split", help="the split, if the folder holds several")
    verify = add_command(
        commands,
        "verify",
        _verify,
        "check submissions to the leaderboard",
        description="Computes every metric again from the samples, and checks that documents, "
        "prompts, answers and settings are those of the record. Exits with 2 and names the row "
        "where something differs.",
        example="pragworld-tasks verify leaderboard/submissions/*",
    )
    verify.add_argument(
        "folders", nargs="+", type=Path, metavar="FOLDER", help="folders that `record` wrote"
    )


def _record(options: argparse.Namespace) -> None:
    from pragworld_tasks.errors import InputError
    from pragworld_tasks.evaluation.runs import find_runs
    from pragworld_tasks.leaderboard.runs import load_runs
    from pragworld_tasks.leaderboard.verify import write_submission

    sources = find_runs([options.results], options.split)
    if len(sources) != 1:
        names = ", ".join(source.name for source in sources)
        raise InputError(
            f"{options.results}: {len(sources)} runs ({names}); pass the samples_*.jsonl of one"
        )
    (run,) = load_runs([options.results], options.split)
    for path in write_submission(options.out, run, sources[0]):
        print(path)


def _verify(options: argparse.Namespace) -> None:
    from pragworld_tasks.errors import InputError
    from pragworld_tasks.leaderboard.submitted_texts import escape_unprintable
    from pragworld_tasks.leaderboard.verify import verify

    failed = 0
    for folder in options.folders:
        try:
            run = verify(folder)
        except InputError as error:
            failed += 1
            line = f"{folder}: refused: {error}"
        else:
            metric = "robust_acc" if "robust_acc" in run.record.metrics else "acc"
            percent = run.record.metrics[metric].percent
            shown = "not defined" if percent is None else f"{percent:.2f} %"
            line = f"{folder}: {run.name}, {run.record.data.split}: {metric} {shown}"
        print(escape_unprintable(line))
    if failed:
        raise InputError(f"{failed} of {len(options.folders)} submissions are refused; see above")
