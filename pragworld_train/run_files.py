"""The files that a training run leaves beside its weights: `pragworld_train.json`, a model card."""

import json
import math
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pragworld_tasks.files import write_json, write_whole
from pragworld_train.arguments import RunSettings
from pragworld_train.data import DocumentSet
from pragworld_train.evaluation import EVALUATION_FOLDER
from pragworld_train.task_changes import TaskChange

RUN_FILE = "pragworld_train.json"
_SCHEMA = {"schema": "pragworld-train", "version": 1}
_HEADING = "## Layer regularization"


def write_run_files(
    folder: Path,
    settings: RunSettings,
    data: DocumentSet,
    history: Sequence[dict[str, Any]],
    changes: Sequence[TaskChange],
) -> None:
    """Write `pragworld_train.json`, and add a section to the model card that TRL wrote.

    Args:
        folder: Where the model or adapter is saved.
        settings: The settings of the run.
        data: The documents trained on.
        history: The trainer's log.
        changes: The evaluation before and after training, if there was one.
    """
    script_args, training_args, model_args = settings

    def named(source: Any, *names: str) -> dict[str, Any]:
        return {name: getattr(source, name) for name in names}

    content = {
        **_SCHEMA,
        "pragworld": version("pragworld"),
        "model": model_args.model_name_or_path,
        "adapter": bool(model_args.use_peft),
        "data": {
            "split": data.name,
            "documents": len(data.documents),
            "groups": len({document.group for document in data.documents}),
            **named(script_args, "held_out_alteration", "originals_only", "chat_template"),
            "generator": data.generator,
        },
        "layers": {
            "report": training_args.layers,
            "selection": training_args.layer_selection if training_args.layers else None,
            **named(training_args, "amplified", "suppressed"),
            **named(training_args, "ula_weight", "hls_weight", "hls_reduction"),
        },
        "training": named(
            training_args, "learning_rate", "num_train_epochs", "max_steps", "warmup_steps", "seed"
        ),
        "log": [_finite(line) for line in history],
        "evaluation": [change.to_json() for change in changes],
    }
    write_json(folder / RUN_FILE, content)
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8") if card.is_file() else ""
    text = text.partition(_HEADING)[0].rstrip()
    write_whole(card, f"{text}\n\n{_card_section(content, changes)}".encode())


def push_to_hub(folder: Path, repository: str, token: str | None) -> None:
    """Upload a folder to the Hugging Face hub, without checkpoints and evaluations."""
    from huggingface_hub import HfApi

    HfApi(token=token).upload_folder(
        repo_id=repository,
        folder_path=folder,
        commit_message="Layer-regularized SFT by pragworld",
        ignore_patterns=["checkpoint-*", f"{EVALUATION_FOLDER}/*"],
    )


def _finite(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the log with None for numbers that JSON does not have."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in line.items()
    }


def _card_section(content: dict[str, Any], changes: Sequence[TaskChange]) -> str:
    data, layers = content["data"], content["layers"]
    without = f", without {data['held_out_alteration']}" if data["held_out_alteration"] else ""
    lines = [
        f"{_HEADING}\n",
        f"Trained by pragworld {content['pragworld']} on {data['documents']} documents in "
        f"{data['groups']} groups of PragWorld's {data['split']} split{without}.\n",
    ]
    for loss, numbers, weight in (
        ("Amplified (ULA)", layers["amplified"], layers["ula_weight"]),
        ("Suppressed (HLS)", layers["suppressed"], layers["hls_weight"]),
    ):
        listed = ", ".join(map(str, numbers))
        lines.append(f"- {loss}: " + (f"layers {listed}, weight {weight:g}" if numbers else "none"))
    if data["generator"]:
        lines.append(f"- Generated with `{json.dumps(data['generator'])}`")
    lines += ["", f"All settings and the log are in `{RUN_FILE}`.", ""]
    if changes:
        lines += ["## Before and after\n", *(change.to_text() for change in changes)]
    return "\n".join(lines)
