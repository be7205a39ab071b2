"""The commands `pragworld-tasks submit` and `pragworld-tasks verify`."""

import argparse
from datetime import datetime
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.data.sources import HUB_DATASET
from pragworld_tasks.errors import InputError, printable


def add_submit(commands: Commands) -> None:
    """Add the command `submit`."""
    command = add_command(
        commands,
        "submit",
        _submit,
        "write a run in the form in which it is published",
        description="Writes the results of one model as a submission to our leaderboard, as "
        "evaluation results of the Hugging Face Hub, into the metadata of a model card, or in the "
        "schema of Every Eval Ever. Metrics are always computed from the answers.",
        example="pragworld-tasks submit results/ --to leaderboard --out submissions/me",
    )
    add = command.add_argument
    add("runs", nargs="+", metavar="RUN", help="runs of one model, as `score` takes them")
    sites = ("leaderboard", "hub", "model-card", "every-eval-ever")
    add("--to", required=True, choices=sites, help="the form")
    add("--out", required=True, type=Path, metavar="DIR", help="folder; model-card: its README.md")
    add("--overwrite", action="store_true", help="replace what exists")
    when = "when the model answered, as in 2026-01-31, if the run does not say it"
    add("--date", type=datetime.fromisoformat, help=when)
    for option, value, description in (
        ("--model", "DEVELOPER/MODEL", "the model's name; default: the one it was loaded by"),
        ("--source-url", "URL", "where others can read your run, such as a repository"),
        ("--evaluator", "RELATIONSHIP:NAME", "every-eval-ever: you, as in 'third_party:My lab'"),
    ):
        add(option, metavar=value, help=description)
    data_set = "the benchmark's on the Hub; default: %(default)s"
    add("--dataset", metavar="OWNER/DATASET", default=HUB_DATASET, help=data_set)


def _submit(options: argparse.Namespace) -> None:
    from pragworld_tasks.files import check_output, write_whole
    from pragworld_tasks.leaderboard import hub
    from pragworld_tasks.leaderboard.boards import load_runs
    from pragworld_tasks.leaderboard.every_eval_ever import every_eval_ever_files
    from pragworld_tasks.leaderboard.submission import to_submissions
    from pragworld_tasks.leaderboard.verify import submission_files

    runs = load_runs(options.runs)
    files: dict[Path, bytes] = {}
    if options.to == "leaderboard":
        files = submission_files(runs)
    else:
        submissions = to_submissions(runs, options.model, options.date, options.source_url)
    if options.to == "hub":
        files[Path(hub.RESULTS_PATH)] = hub.hub_results(submissions, options.dataset)
    elif options.to == "model-card":
        card = options.out / "README.md"
        files[Path(card.name)] = hub.card_with_results(card, submissions, options.dataset)
    elif options.to == "every-eval-ever":
        for submission in submissions:
            files |= every_eval_ever_files(submission, options.evaluator)
    written = {options.out / path: content for path, content in files.items()}
    for path in written:
        check_output(path, options.overwrite)
    for path, content in written.items():
        write_whole(path, content)
        print(printable(path))


def add_verify(commands: Commands) -> None:
    """Add the command `verify`."""
    command = add_command(
        commands,
        "verify",
        _verify,
        "check submissions to the leaderboard",
        description="Computes every metric again from the samples, and checks that documents, "
        "prompts, answers and settings are those of the record. Exits with 2 and names the row "
        "where something differs.",
        example="pragworld-tasks verify leaderboard/submissions/*",
    )
    command.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="submissions")


def _verify(options: argparse.Namespace) -> None:
    from pragworld_tasks.leaderboard.boards import BoardRun
    from pragworld_tasks.leaderboard.verify import verify

    runs: list[BoardRun] = []
    for folder in options.folders:
        try:
            runs.append(run := verify(folder, runs))
        except (ValueError, RecursionError) as error:  # of a stranger's JSON, or an `InputError`
            print(printable(f"{folder}: refused: {error}"))
        else:
            metric, split = run.report.main_metric, run.record.data.split
            percent = run.report.metrics[metric].percent
            print(printable(f"{folder}: {run.name}, {split}: {metric} {percent:.2f} %"))
    if failed := len(options.folders) - len(runs):
        raise InputError(f"{failed} of {len(options.folders)} submissions are refused; see above")
