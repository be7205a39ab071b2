"""The files of a training run with its evaluation, and their upload."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pragworld_tasks.files import write_json, write_whole
from pragworld_train.evaluation import EVALUATION_FOLDER
from pragworld_train.model_card import make_model_card
from pragworld_train.run_record import RUN_FILE
from pragworld_train.task_changes import TaskChange


def write_evaluation(
    folder: Path, record: Mapping[str, Any], name: str, changes: Sequence[TaskChange]
) -> None:
    """Write a run's record and model card again, with its evaluation.

    Args:
        folder: Where the model or adapter is saved.
        record: The record of the run.
        name: The name of the model.
        changes: The evaluation before and after training.
    """
    evaluation = [change.to_json() for change in changes]
    write_json(folder / RUN_FILE, {**record, "evaluation": evaluation})
    tables = "\n".join(change.to_text() for change in changes)
    write_whole(folder / "README.md", make_model_card(record, name, tables).encode())


def push_to_hub(folder: Path, repository: str, token: str | None) -> None:
    """Upload a folder to the Hugging Face hub, without checkpoints and evaluations."""
    from huggingface_hub import HfApi

    HfApi(token=token).upload_folder(
        repo_id=repository,
        folder_path=folder,
        commit_message="Layer-regularized SFT by pragworld",
        ignore_patterns=["checkpoint-*", f"{EVALUATION_FOLDER}/*"],
    )
