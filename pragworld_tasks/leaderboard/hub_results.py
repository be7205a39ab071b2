"""Evaluation results in the form that a model's page on the Hugging Face Hub reads.

A file `.eval_results/*.yaml` in the model's repository holds an entry for each benchmark task, and
the Hub shows it on the model's page and on the leaderboard of the benchmark's dataset. It takes
those tasks only that the `eval.yaml` of the dataset's repository defines
(https://huggingface.co/docs/hub/eval-results).
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import yaml

from pragworld_tasks.data.sources import is_released
from pragworld_tasks.errors import InputError
from pragworld_tasks.leaderboard.hub_names import hub_task_ids
from pragworld_tasks.leaderboard.submission import (
    PAPER_NAME,
    PAPER_URL,
    Submission,
    SubmittedMetric,
)

if TYPE_CHECKING:
    from huggingface_hub import EvalResultEntry

RESULTS_PATH = ".eval_results/pragworld.yaml"


def hub_results(
    submissions: Sequence[Submission], dataset_id: str, source_url: str | None = None
) -> bytes:
    """Return the content of `.eval_results/pragworld.yaml`: an entry for each task and metric.

    Args:
        submissions: the runs of a model.
        dataset_id: the Hub repository of the benchmark's dataset.
        source_url: where the runs can be read, for runs of one's own.

    Raises:
        InputError: The dataset's `eval.yaml` has no task for a run or for a metric to submit, or
            the installed huggingface_hub is too old.
    """
    try:
        from huggingface_hub import eval_result_entries_to_yaml
    except ImportError as error:
        raise InputError(
            "submit --to hub needs huggingface_hub 1.4 or later: pip install 'pragworld[hub]'"
        ) from error
    entries = [
        _entry(submission, task_id, metric, dataset_id, source_url)
        for submission in submissions
        for task_id, metric in _ranked_metrics(submission).items()
    ]
    content: str = yaml.safe_dump(
        eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True
    )
    return content.encode()


def push_results(repository: str, content: bytes, submissions: Sequence[Submission]) -> str:
    """Open a pull request with the results in the model's repository and return its address.

    The token is the one of `hf auth login` or of the environment variable HF_TOKEN.

    Args:
        repository: the model's repository on the Hub.
        content: what `hub_results` returned.
        submissions: the runs that the content is of.

    Raises:
        InputError: The repository is another model's, or the Hub does not answer or refuses.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError

    for submission in submissions:
        if submission.model != repository:
            raise InputError(
                f"--push {repository}: the run is of {submission.model}; push to that repository, "
                "or pass --model-name if both are the same model"
            )
    tasks = ", ".join(submission.task for submission in submissions)
    # A lost connection raises one of the bases, whichever HTTP library huggingface_hub builds upon;
    # names that are none, and pages that are not JSON, raise a ValueError.
    failures: tuple[type[BaseException], ...] = (*HfHubHTTPError.__bases__, ValueError)
    try:
        commit = HfApi().create_commit(
            repository,
            [CommitOperationAdd(RESULTS_PATH, content)],
            commit_message="Add PragWorld evaluation results",
            commit_description=f"Results of {tasks}, written by pragworld-tasks.",
            create_pr=True,
        )
    except failures as error:
        reason = " ".join(str(error).split())
        if token := get_token():  # a server's message may quote the request
            reason = reason.replace(token, "…")
        raise InputError(
            f"--push {repository}: the pull request could not be opened ({reason}); check the "
            "name, and log in with `hf auth login`"
        ) from None
    return commit.pr_url or commit.commit_url


def _ranked_metrics(submission: Submission) -> dict[str, SubmittedMetric]:
    """Return the metrics to submit by the id of their task on the Hub."""
    name, elsewhere = submission.run.name, "submit it --to every-eval-ever or --to model-card"
    if not is_released(submission.record.data.split):
        raise InputError(
            f"{name}: a run on generated documents, which no dataset repository holds; {elsewhere}"
        )
    ids = hub_task_ids(submission.task)
    if not ids:
        raise InputError(
            f"{name}: a run of {submission.task}, but the dataset's eval.yaml has tasks for the "
            f"paper's evaluation only, pragworld_{submission.record.data.split}; {elsewhere}"
        )
    metrics = {metric.name: metric for metric in submission.metrics()}
    if unknown := [metric for metric in submission.only or () if metric not in ids]:
        raise InputError(
            f"{name}: the dataset's eval.yaml has no task for {unknown[0]}; choose from "
            f"{', '.join(ids)}"
        )
    return {ids[metric]: metrics[metric] for metric in metrics if metric in ids}


def _entry(
    submission: Submission,
    task_id: str,
    metric: SubmittedMetric,
    dataset_id: str,
    source_url: str | None,
) -> "EvalResultEntry":
    from huggingface_hub import EvalResultEntry

    share = metric.share
    return EvalResultEntry(
        dataset_id=dataset_id,
        task_id=task_id,
        value=round(share.percent, 2),
        date=submission.date.isoformat() if submission.date else None,
        source_url=PAPER_URL if submission.is_published else source_url,
        source_name=PAPER_NAME if submission.is_published else None,
        notes=_notes(submission, metric),
    )


def _notes(submission: Submission, metric: SubmittedMetric) -> str:
    share, model = metric.share, submission.record.model
    parts = [f"{metric.description}, in percent: {share.right} of {share.total}"]
    if not math.isnan(share.low):
        parts.append(f"95 % interval {share.low:.2f} to {share.high:.2f}")
    if submission.is_published:
        parts.append("computed by pragworld from the answers of the paper's released run")
    elif submission.record.source == "responses":
        parts.append("computed by pragworld from responses")
    else:
        version = submission.record.environment.packages.get("lm_eval", "")
        parts.append(f"lm-eval {version} task {submission.task}".replace("  ", " "))
    parts += [
        f"{name} {value}"
        for name, value in (("dtype", model.dtype), ("quantization", model.quantization))
        if value
    ]
    return "; ".join(parts)
