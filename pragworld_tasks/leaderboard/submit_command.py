"""The command `pragworld-tasks submit`."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.command_line import Commands, add_command

if TYPE_CHECKING:
    from pragworld_tasks.leaderboard.submission import Submission

_HUB, _EVERY_EVAL_EVER, _MODEL_CARD = "hub", "every-eval-ever", "model-card"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
# Options that only some destinations have.
_DESTINATIONS = {
    "push": (_HUB,),
    "card": (_MODEL_CARD,),
    "metrics": (_HUB, _MODEL_CARD),
    "organization": (_EVERY_EVAL_EVER,),
    "relationship": (_EVERY_EVAL_EVER,),
    "weights": (_EVERY_EVAL_EVER,),
}


def add_submit(commands: Commands) -> None:
    """Add the command `submit`."""
    command = add_command(
        commands,
        "submit",
        _submit,
        "write a run in the form that other sites publish",
        description="Writes the results of one model as evaluation results of the Hugging Face Hub "
        "(hub), into the metadata of a model card (model-card), or in the schema of Every Eval "
        "Ever (every-eval-ever). Metrics are always computed from the answers. A released run of "
        "the paper, published:MODEL, is marked as such.",
        example="pragworld-tasks submit results/ --to hub --dataset-id OWNER/DATASET --out model\n"
        "pragworld-tasks submit results/ --to model-card --card model/README.md --out new\n"
        "pragworld-tasks submit results/ --to every-eval-ever --organization 'My lab' "
        "--relationship third_party --weights open --out datastore",
    )
    command.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="what `score` takes (folders that lm_eval wrote, files of responses, "
        "published:MODEL), and run records (.json); all of one model, one for each task",
    )
    command.add_argument(
        "--to", required=True, choices=(_HUB, _EVERY_EVAL_EVER, _MODEL_CARD), help="the form"
    )
    command.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="folder to write the files into"
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace the files that exist in --out"
    )
    command.add_argument("--split", help="the split of responses that do not name theirs")
    command.add_argument(
        "--model-name",
        metavar="DEVELOPER/MODEL",
        help="the model's name on the Hub; default: the one that it was loaded by",
    )
    command.add_argument(
        "--date", metavar="DATE", help="when the model answered, if the run does not say it"
    )
    command.add_argument(
        "--dataset-id",
        metavar="OWNER/DATASET",
        help="the Hub repository of the benchmark's dataset; required for hub",
    )
    command.add_argument(
        "--source-url", metavar="URL", help="where others can read your run, such as a repository"
    )
    command.add_argument(
        "--metrics",
        nargs="+",
        metavar="NAME",
        help="hub, model-card: only these metrics; default: for hub robust_acc and acc, which the "
        "dataset's eval.yaml has tasks for; for model-card all that the run has",
    )
    command.add_argument(
        "--push",
        metavar="REPO",
        help="hub: also open a pull request in the model's repository, with the token of "
        "`hf auth login` or HF_TOKEN",
    )
    command.add_argument(
        "--card", type=Path, metavar="FILE", help="model-card: the README.md to add the results to"
    )
    command.add_argument(
        "--organization", metavar="NAME", help="every-eval-ever: who evaluated the model"
    )
    command.add_argument(
        "--relationship",
        choices=RELATIONSHIPS,
        help="every-eval-ever: what the organization is to the model's developer",
    )
    command.add_argument(
        "--weights",
        choices=("open", "closed"),
        help="every-eval-ever: whether the model's weights are open; default: unknown",
    )


def _submit(options: argparse.Namespace) -> None:
    from pragworld_tasks.errors import InputError
    from pragworld_tasks.files import check_new, whole_characters, write_files
    from pragworld_tasks.leaderboard.hub_names import check_repository
    from pragworld_tasks.leaderboard.runs import load_runs
    from pragworld_tasks.leaderboard.submission import to_submissions

    for name, destinations in _DESTINATIONS.items():
        if getattr(options, name) is not None and options.to not in destinations:
            raise InputError(
                f"--{name} is an option of --to {' and --to '.join(destinations)}, not of "
                f"--to {options.to}; leave it out"
            )
    for name, destination in (("dataset_id", _HUB), ("card", _MODEL_CARD)):
        if options.to == destination and not getattr(options, name):
            raise InputError(f"--to {destination} needs --{name.replace('_', '-')}")
    if bool(options.organization) != bool(options.relationship):
        raise InputError("--organization and --relationship belong together; pass both")
    for text in filter(None, (options.organization, options.source_url)):
        if text != whole_characters(text):
            raise InputError(f"{text!r:.80}: not UTF-8; set the terminal to that")
    if options.dataset_id:
        check_repository(options.dataset_id, "--dataset-id")
    runs = load_runs(options.runs, options.split)
    submissions = to_submissions(runs, options.model_name, options.date, options.metrics)
    written = {
        _HUB: _hub_files,
        _MODEL_CARD: _model_card_files,
        _EVERY_EVAL_EVER: _every_eval_ever_files,
    }[options.to](options, submissions)
    files = {options.out / path: content for path, content in written.items()}
    check_new(files, options.overwrite)
    if options.push:
        from pragworld_tasks.leaderboard.hub_results import push_results

        (content,) = files.values()
        print(push_results(options.push, content, submissions))
    write_files(files, options.overwrite)
    print(*files, sep="\n")


def _hub_files(
    options: argparse.Namespace, submissions: "list[Submission]"
) -> Mapping[Path, bytes]:
    from pragworld_tasks.leaderboard.hub_results import RESULTS_PATH, hub_results

    content = hub_results(submissions, options.dataset_id, options.source_url)
    return {Path(RESULTS_PATH): content}


def _model_card_files(
    options: argparse.Namespace, submissions: "list[Submission]"
) -> Mapping[Path, bytes]:
    from pragworld_tasks.leaderboard.model_card import merge_into_card_file

    content = merge_into_card_file(
        options.card, submissions, options.dataset_id, options.source_url
    )
    return {Path("README.md"): content}


def _every_eval_ever_files(
    options: argparse.Namespace, submissions: "list[Submission]"
) -> Mapping[Path, bytes]:
    from pragworld_tasks.leaderboard.every_eval_ever import Evaluator, every_eval_ever_files

    evaluator = (
        Evaluator(options.organization, options.relationship, options.source_url)
        if options.organization
        else None
    )
    files: dict[Path, bytes] = {}
    for submission in submissions:
        files |= every_eval_ever_files(submission, evaluator, options.dataset_id, options.weights)
    return files
