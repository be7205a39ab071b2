"""Results on the Hugging Face Hub: evaluation results, and the metadata of a model card.

The Hub shows what `.eval_results/*.yaml` in a model's repository says of those tasks that the
`eval.yaml` of a dataset's repository defines (https://huggingface.co/docs/hub/eval-results).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from pragworld_tasks.data.documents import has_alterations
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.errors import InputError, printable
from pragworld_tasks.files import read_text
from pragworld_tasks.leaderboard.submission import Submission, SubmittedMetric

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, ModelCardData

RESULTS_PATH = ".eval_results/pragworld.yaml"


def hub_task_ids(task: str) -> dict[str, str]:
    """Return the ids of an lm-eval task in the `eval.yaml` of the benchmark's dataset, by metric.

    There, each metric is a task, and only the paper's evaluation of a released split has any.

    Examples:
        >>> hub_task_ids("pragworld_manual")["robust_acc"]
        'pragworld_manual_robust_acc'
    """
    split = task.removeprefix("pragworld_")
    if task == split or split not in FILES:
        return {}
    metrics = ("robust_acc", "acc") if has_alterations(split) else ("acc",)
    return {metric: f"{task}_{metric}" for metric in metrics}


def hub_results(submissions: Sequence[Submission], dataset: str) -> bytes:
    """Return the content of `.eval_results/pragworld.yaml`: an entry for each task and metric."""
    try:
        from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    except ImportError as error:
        raise InputError(
            "--to hub needs huggingface_hub 1.4 or later: pip install 'pragworld[hub]'"
        ) from error
    entries = []
    for submission in submissions:
        task_ids, model = hub_task_ids(submission.task), submission.run.record.model
        if not task_ids:
            raise InputError(
                f"{submission.run.name}: the dataset's eval.yaml has no task {submission.task}; "
                "submit it --to every-eval-ever or --to model-card"
            )
        entries += [
            EvalResultEntry(
                dataset_id=dataset,
                task_id=task_ids[metric],
                value=round(share.percent, 2),
                date=submission.date.isoformat() if submission.date else None,
                source_url=submission.source_url,
                source_name=submission.source_name,
                notes=f"{description}, in percent: {share.right} of {share.total}; 95 % interval "
                f"{share.low:.2f} to {share.high:.2f}; dtype {model.dtype}; quantization "
                f"{model.quantization}",
            )
            for metric, description, share in submission.metrics()
            if metric in task_ids
        ]
    content = eval_result_entries_to_yaml(entries)
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True)).encode()


def card_with_results(path: Path, submissions: Sequence[Submission], dataset: str) -> bytes:
    """Return the model card in a file, or a new one, with the results of runs in its metadata.

    Results of the same metric, task, documents and source that the card has already are replaced.
    """
    from huggingface_hub import ModelCard, metadata_load

    name = submissions[0].model.rpartition("/")[2]
    text = read_text(path) if path.exists() else f"# {name}\n"
    try:
        card = ModelCard(text)
        metadata = metadata_load(path) if path.exists() else None
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise InputError(f"{path}: metadata that cannot be read: {printable(error)}") from error
    if len((metadata or {}).get("model-index") or ()) > 1:
        raise InputError(f"{path}: model-index has several models; write to another --out")
    data = cast("ModelCardData", card.data)
    results = [
        _card_result(submission, metric, dataset)
        for submission in submissions
        for metric in submission.metrics()
    ]
    replaced = [*map(_measured, results)]
    kept = [one for one in data.eval_results or () if _measured(one) not in replaced]
    data.model_name = data.model_name or name
    data.eval_results = [*kept, *results]
    return str(card).encode()


def _measured(result: "EvalResult") -> tuple[Any, ...]:
    """Return what a result is of, apart from its value."""
    documents = (result.dataset_type, result.dataset_config, result.dataset_args)
    return (result.metric_type, result.task_name, result.source_url, *documents)


def _card_result(submission: Submission, metric: SubmittedMetric, dataset: str) -> "EvalResult":
    from huggingface_hub import EvalResult

    data = submission.run.record.data
    return EvalResult(
        task_type="text-generation",
        task_name=submission.task,
        dataset_type=dataset,
        dataset_name=f"PragWorld ({data.split})",
        dataset_config=data.split,
        dataset_args={"documents_digest": data.digest, **(data.generator or {})},
        metric_type=metric.name,
        metric_value=round(metric.share.percent, 2),
        metric_name=f"{metric.description} (%)",
        metric_args=metric.share.model_dump(mode="json", exclude={"percent"}),
        source_name=submission.source_name,
        source_url=submission.source_url,
    )
