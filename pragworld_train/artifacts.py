"""What a training run leaves beside its weights: an evaluation, its settings, a model card."""

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pragworld_interp.loading import Model
from pragworld_tasks.command_line import at_least
from pragworld_tasks.data import sources
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_json, write_whole
from pragworld_tasks.link import task_folder
from pragworld_train import evaluation
from pragworld_train.data import Chosen

if TYPE_CHECKING:
    from trl import ModelConfig

    from pragworld_train.cli import TrainArguments
    from pragworld_train.config import LayerRegularizedSFTConfig

EVALUATE = ["pragworld_generated_label"]
RETAIN = ["pragworld_generated_perplexity"]
FOLDER = "pragworld_evaluation"
FILE = "pragworld_train.json"
SCHEMA = {"schema": "pragworld-train", "version": 1}


def tasks(
    script: "TrainArguments", training: "LayerRegularizedSFTConfig", model: "ModelConfig"
) -> list[str]:
    """The lm-eval tasks that are asked for.

    Raises:
        InputError: there is none of that name, or lm-eval cannot run what is trained.
    """
    if not (script.evaluate or script.evaluate_tasks or script.retain):
        return []
    check_counts(script)
    if model.load_in_4bit or model.load_in_8bit:
        raise InputError(
            "--load_in_4bit and --load_in_8bit: lm-eval would not load the model as it is trained; "
            "leave out --evaluate and run lm_eval afterwards"
        )
    if script.chat_template and training.chat_template_path:
        raise InputError(
            "--chat_template_path: lm-eval would take the model's own; leave out --evaluate and "
            "run lm_eval afterwards"
        )
    wanted = script.evaluate_tasks
    if wanted is None:
        manual = script.dataset_name != "manual" and sources.locate("manual") is not None
        wanted = EVALUATE + (["pragworld_manual_label"] if manual else [])
    found = [*wanted, *(RETAIN if script.retain is None else script.retain)]
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(task_folder()))
    for name in found:
        if not manager.match_tasks([name]):
            raise InputError(f"task {name}: lm-eval has none of that name; see `lm_eval ls tasks`")
    return list(dict.fromkeys(found))


def trained_model(base: Model, folder: Path, use_peft: bool) -> Model:
    """What training left in a folder: an adapter on the base model, or a model of its own."""
    if use_peft:
        return replace(base, adapter=str(folder))
    return replace(base, name=str(folder), revision=None)


def base_model(training: "LayerRegularizedSFTConfig", model: "ModelConfig") -> Model:
    """What training began with."""
    return Model(
        str(model.model_name_or_path),
        revision=None if model.model_revision == "main" else model.model_revision,
        dtype=str(model.dtype),
        trust_remote_code=training.trust_remote_code,
    )


def asked_for(script: "TrainArguments") -> dict[str, Any]:
    """The settings of the generated documents that are asked after training."""
    given = json.loads(script.dataset_config)
    settings = {name: given[name] for name in ("seed", "domains") if name in given}
    if script.held_out_alteration:
        settings["held_out_alteration"] = script.held_out_alteration
    return {**settings, "groups": script.evaluate_groups}


def check_counts(script: "TrainArguments") -> None:
    """Refuses an evaluation of nothing."""
    at_least(script, evaluate_groups=1, evaluate_batch_size=1)


def before_and_after(
    script: "TrainArguments",
    training: "LayerRegularizedSFTConfig",
    model: "ModelConfig",
    names: Sequence[str],
) -> list[evaluation.TaskChange]:
    """Runs the tasks on the base model and on the trained one; prints what has changed."""
    metadata = asked_for(script)
    base = replace(base_model(training, model), chat_template=script.chat_template)
    out = Path(training.output_dir)
    place = out / FOLDER
    shutil.rmtree(place, ignore_errors=True)  # an earlier run's, of other weights
    folders = []
    for stage, one in (
        ("before", base),
        ("after", trained_model(base, out, bool(model.use_peft))),
    ):
        print(f"lm_eval {stage} training: {', '.join(names)}", flush=True)
        folders.append(
            evaluation.run_lm_eval(one, names, place / stage, metadata, script.evaluate_batch_size)
        )
    found = evaluation.changes(*folders)
    print("\n".join(evaluation.to_text(change) for change in found))
    return found


def write(
    folder: Path,
    script: "TrainArguments",
    training: "LayerRegularizedSFTConfig",
    model: "ModelConfig",
    data: Chosen,
    history: Sequence[dict[str, Any]],
    found: Sequence[evaluation.TaskChange],
) -> None:
    """Writes `FILE`, and completes the model card that TRL has written.

    Args:
        folder: with the model or adapter.
        script: the settings of data and evaluation.
        training: those of training.
        model: those of the model.
        data: what was trained on.
        history: what was logged.
        found: the evaluation, if there was one.
    """
    documents = len(data.documents)
    content = {
        **SCHEMA,
        "pragworld": version("pragworld"),
        "model": model.model_name_or_path,
        "adapter": bool(model.use_peft),
        "data": {
            "split": data.name,
            "documents": documents,
            "groups": len({document.group for document in data.documents}),
            "held_out_alteration": script.held_out_alteration,
            "originals_only": script.originals_only,
            "chat_template": script.chat_template,
            "generator": data.generator,
        },
        "layers": {
            "report": training.layers,
            "selection": training.layer_selection if training.layers else None,
            "amplified": training.amplified,
            "suppressed": training.suppressed,
            "ula_weight": training.ula_weight,
            "hls_weight": training.hls_weight,
            "hls_reduction": training.hls_reduction,
        },
        "training": {
            name: getattr(training, name)
            for name in ("learning_rate", "num_train_epochs", "max_steps", "warmup_steps", "seed")
        },
        "log": [_finite(line) for line in history],
        "evaluation": [evaluation.to_json(change) for change in found],
    }
    write_json(folder / FILE, content)
    card = folder / "README.md"
    begun = card.read_text(encoding="utf-8") if card.is_file() else ""
    begun = begun.partition(_HEADING)[0].rstrip()
    write_whole(card, f"{begun}\n\n{_section(content, found)}".encode())


def push(folder: Path, repository: str, token: str | None) -> None:
    """Uploads what training left to the Hugging Face hub, checkpoints and evaluations aside."""
    from huggingface_hub import HfApi

    HfApi(token=token).upload_folder(
        repo_id=repository,
        folder_path=folder,
        commit_message="Layer-regularized SFT by pragworld",
        ignore_patterns=["checkpoint-*", f"{FOLDER}/*"],
    )


def _finite(line: dict[str, Any]) -> dict[str, Any]:
    """What was logged, with None for what JSON has no number for."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in line.items()
    }


_HEADING = "## Layer regularisation"


def _section(content: dict[str, Any], found: Sequence[evaluation.TaskChange]) -> str:
    data, layers = content["data"], content["layers"]
    held = f", without {data['held_out_alteration']}" if data["held_out_alteration"] else ""
    lines = [
        f"{_HEADING}\n",
        f"Trained by pragworld {content['pragworld']} on {data['documents']} documents in "
        f"{data['groups']} groups of PragWorld's {data['split']} split{held}.\n",
    ]
    for what, numbers, weight in (
        ("Amplified (ULA)", layers["amplified"], layers["ula_weight"]),
        ("Suppressed (HLS)", layers["suppressed"], layers["hls_weight"]),
    ):
        named = ", ".join(map(str, numbers))
        lines.append(f"- {what}: " + (f"layers {named}, weight {weight:g}" if numbers else "none"))
    if data["generator"]:
        lines.append(f"- Generated with `{json.dumps(data['generator'])}`")
    lines += ["", f"All settings and the log are in `{FILE}`.", ""]
    if found:
        lines += ["## Before and after\n", *(evaluation.to_text(change) for change in found)]
    return "\n".join(lines)
