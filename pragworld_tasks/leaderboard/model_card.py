"""Results merged into a model card's metadata, under `model-index`.

The parser and the writer of the metadata are huggingface_hub's. Its card class would write all
metadata anew, without comments and in its own style, so that here only the lines of `model-index`
are replaced.
"""

import codecs
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pragworld_tasks.data.sources import is_released
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_text
from pragworld_tasks.leaderboard.submission import PAPER_NAME, PAPER_URL, Submission

_KEY = "model-index"


def merge_into_card_file(
    path: Path,
    submissions: Sequence[Submission],
    dataset_id: str | None = None,
    source_url: str | None = None,
) -> bytes:
    """Return what `merge_into_card` does for a file, which stays as it is.

    Raises:
        InputError: The file cannot be read, or its metadata not be added to.
    """
    card = read_text(path)
    mark = codecs.BOM_UTF8 if path.read_bytes().startswith(codecs.BOM_UTF8) else b""
    try:
        return mark + merge_into_card(card, submissions, dataset_id, source_url).encode()
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def merge_into_card(
    card: str,
    submissions: Sequence[Submission],
    dataset_id: str | None = None,
    source_url: str | None = None,
) -> str:
    """Return a model card with the results of runs among its metadata, otherwise unchanged.

    Results of the same task, dataset and source that the card has already are replaced.

    Args:
        card: the text of the card, with its line breaks.
        submissions: the runs of the model.
        dataset_id: the Hub repository of the benchmark's dataset.
        source_url: where the runs can be read, for runs of one's own.

    Raises:
        InputError: The metadata of the card cannot be read, or not be added to.
    """
    from huggingface_hub import ModelCard
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    block = REGEX_YAML_BLOCK.search(card)
    newline = "\r\n" if "\r\n" in card else "\n"
    if not block:
        card = f"---{newline}---{newline}{card}"
        start = end = len(f"---{newline}")
        metadata: dict[str, Any] = {}
    else:
        try:
            # It checks what it knows of the metadata, an existing model-index among it.
            ModelCard(card)
            metadata = yaml.safe_load(block[2]) or {}
            start, end = (block.start(2) + place for place in _place(block[2]))
        except (yaml.YAMLError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"the metadata of the card cannot be read: {reason}") from error
    results = [_result(submission, dataset_id, source_url) for submission in submissions]
    index = _merge(metadata.get(_KEY) or [], results, submissions[0].model)
    written: str = yaml.safe_dump(
        {_KEY: index}, sort_keys=False, allow_unicode=True, line_break=newline
    ).strip()
    before = newline if block and start and card[start - 1] not in "\r\n" else ""
    after = "" if card[end:].startswith(("\r", "\n")) else newline
    merged = card[:start] + before + written + after + card[end:]
    try:
        changed = REGEX_YAML_BLOCK.search(merged)
        is_merged = changed and yaml.safe_load(changed[2]) == {**metadata, _KEY: index}
    except yaml.YAMLError:
        is_merged = False
    if not is_merged:
        raise InputError(
            "the metadata of the card cannot be added to, because it is not a list of `key: value` "
            f"lines; write it so, or add `{_KEY}` by hand"
        )
    return merged


def _place(metadata: str) -> tuple[int, int]:
    """Return where in the metadata `model-index` is, or, if it is missing, where it can be put."""
    node = yaml.compose(metadata, Loader=yaml.SafeLoader)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == _KEY:
                return key.start_mark.index, _end(value)
    return len(metadata), len(metadata)


def _end(node: yaml.Node) -> int:
    """Return where the text of a node ends: of a list or mapping, without comments behind it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return end


def _merge(
    index: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]], model: str
) -> list[dict[str, Any]]:
    """Return a model index with results added, in the place of older ones of the same kind.

    They are added to the entry of the model, or to the only one, whatever the card calls the model.
    """
    short = model.rpartition("/")[2]
    entries = [dict(entry) for entry in index]
    own = [entry for entry in entries if len(entries) == 1 or entry["name"] in (model, short)]
    if not own:
        own = [{"name": short, "results": []}]
        entries += own
    replaced = [_kind(result) for result in results]
    kept = [result for result in own[0]["results"] if _kind(result) not in replaced]
    own[0]["results"] = [*kept, *results]
    return entries


def _kind(result: Mapping[str, Any]) -> tuple[Any, ...]:
    dataset = result["dataset"]
    return (
        result["task"],
        dataset.get("type"),
        dataset.get("config"),
        dataset.get("args"),
        result.get("source"),
    )


def _result(
    submission: Submission, dataset_id: str | None, source_url: str | None
) -> dict[str, Any]:
    """Return the results of a run as an entry of a model index."""
    from huggingface_hub import EvalResult
    from huggingface_hub.repocard_data import eval_results_to_model_index

    data = submission.record.data
    results = [
        EvalResult(
            task_type="text-generation",
            task_name=submission.task,
            dataset_type=dataset_id or "pragworld",
            dataset_name=f"PragWorld ({data.split})",
            dataset_config=data.split,
            dataset_split="test" if dataset_id and is_released(data.split) else None,
            dataset_args={"documents_digest": data.digest, **(data.generator or {})},
            metric_type=metric.name,
            metric_value=round(metric.share.percent or 0.0, 2),
            metric_name=f"{metric.description} (%)",
            metric_args={
                "right": metric.share.right,
                "total": metric.share.total,
                "interval_low": _rounded(metric.share.low),
                "interval_high": _rounded(metric.share.high),
                "interval": submission.record.intervals,
            },
            source_name=PAPER_NAME if submission.is_published else None,
            source_url=PAPER_URL if submission.is_published else source_url,
        )
        for metric in submission.metrics()
    ]
    (entry,) = eval_results_to_model_index(submission.model, results)
    result: dict[str, Any] = entry["results"][0]
    return result


def _rounded(percent: float | None) -> float | None:
    return None if percent is None else round(percent, 2)
