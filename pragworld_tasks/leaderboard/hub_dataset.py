"""The benchmark as a dataset repository of the Hugging Face Hub.

Parquet files, a dataset card, a licence, and the `eval.yaml` by which the Hub knows a benchmark
(https://huggingface.co/docs/hub/eval-results).
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from pragworld_tasks.data.documents import Document, ReleasedSplit, documents_digest
from pragworld_tasks.data.label_readings import readings_of
from pragworld_tasks.data.parquet import parquet_path, to_parquet
from pragworld_tasks.data.sources import COMMIT, FILES, HUB_DATASET, REPOSITORY, deviations
from pragworld_tasks.evaluation.prompts import evaluation_prompt, label_prompt
from pragworld_tasks.leaderboard.hub_names import hub_task_ids
from pragworld_tasks.leaderboard.templating import fill_template, template_text


def dataset_files(
    splits: Mapping[ReleasedSplit, Sequence[Document]], name: str = HUB_DATASET
) -> dict[str, bytes]:
    """Return the files of the repository by their paths.

    Args:
        splits: the documents of each split that the repository shall have.
        name: name of the repository on the Hub, for the examples of its card.
    """
    described = [_description(split, documents) for split, documents in splits.items()]
    card = fill_template(
        "dataset_card.md.jinja",
        name=name,
        splits=described,
        readings=_reading_counts(splits.get("manual", ())),
        size=_size(sum(map(len, splits.values()))),
        repository=REPOSITORY,
        commit=COMMIT,
        version=version("pragworld"),
    )
    return {
        "README.md": card.encode(),
        "LICENSE": template_text("dataset_license.txt").encode(),
        "eval.yaml": fill_template("eval.yaml.jinja", splits=described).encode(),
        **{parquet_path(split): to_parquet(documents) for split, documents in splits.items()},
    }


def _description(split: ReleasedSplit, documents: Sequence[Document]) -> dict[str, Any]:
    """Return what the card and `eval.yaml` say about a split.

    The prompt is the paper's for the split. Inspect replaces `{prompt}` by the question, which is
    the sample's input, and `{context}` by the sample's metadata.
    """
    prompt = label_prompt if split == "entity_tracking" else evaluation_prompt
    return {
        "name": split,
        "path": parquet_path(split),
        "released": FILES[split].path,
        "documents": len(documents),
        "groups": len({document.group for document in documents}),
        "yes": sum(document.answer == "yes" for document in documents),
        "digest": documents_digest(documents),
        "deviations": "; ".join(deviations(documents)),
        "tasks": list(hub_task_ids(f"pragworld_{split}").values()),
        "prompt": prompt({"context": "{context}", "question": "{prompt}"}),
    }


def _reading_counts(documents: Sequence[Document]) -> dict[str, int]:
    readings = [read for read in readings_of(documents) if read]
    if not readings:
        return {}
    return {
        "disputed": sum(read.is_disputed for read in readings),
        "undetermined": sum(read.is_undetermined for read in readings),
    }


def _size(documents: int) -> str:
    """Return the Hub's category of a dataset's size."""
    return "n<1K" if documents < 1000 else "1K<n<10K"
