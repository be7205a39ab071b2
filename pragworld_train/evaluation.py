"""lm-eval tasks on the model before and after training: which ones, on what, and the comparison."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pragworld_interp.loading import Model
from pragworld_tasks.command_line import at_least
from pragworld_tasks.data import sources
from pragworld_tasks.errors import InputError
from pragworld_tasks.link import is_linked, task_descriptions, task_folder
from pragworld_train.arguments import RunSettings, TrainArguments
from pragworld_train.lm_eval_process import run_lm_eval
from pragworld_train.task_changes import TaskChange, compare_tasks

EVALUATION_FOLDER = "pragworld_evaluation"


def tasks_to_evaluate(settings: RunSettings) -> list[str]:
    """Return the names of the lm-eval tasks that the settings ask for.

    Raises:
        InputError: lm-eval does not have such a task or cannot load the model as it is trained, or
            there is nothing to evaluate.
    """
    script_args, training_args, model_args = settings
    if not (script_args.evaluate or script_args.evaluate_tasks or script_args.retain):
        return []
    at_least(script_args, evaluate_groups=1, evaluate_batch_size=1)
    if model_args.load_in_4bit or model_args.load_in_8bit:
        raise InputError(
            "--load_in_4bit and --load_in_8bit: lm-eval would load the model without them; leave "
            "out --evaluate and run lm_eval afterwards"
        )
    if script_args.chat_template and training_args.chat_template_path:
        raise InputError(
            "--chat_template_path: lm-eval would apply the model's own template; leave out "
            "--evaluate and run lm_eval afterwards"
        )
    tasks = script_args.evaluate_tasks
    if tasks is None:
        tasks = ["pragworld_generated_label"]
        if script_args.dataset_name != "manual" and sources.locate("manual") is not None:
            tasks.append("pragworld_manual_label")
    retain = script_args.retain
    tasks = [*tasks, *(["pragworld_generated_perplexity"] if retain is None else retain)]
    if others := set(tasks) - set(task_descriptions()):
        _check_other_tasks(sorted(others))
    return list(dict.fromkeys(tasks))


def _check_other_tasks(tasks: Sequence[str]) -> None:
    """Check that lm-eval has these tasks, for which it reads the files of all of them."""
    from lm_eval.tasks import TaskManager

    # Included as well, linked tasks would make lm-eval warn about each of them.
    manager = TaskManager(include_path=None if is_linked() else str(task_folder()))
    for task in tasks:
        if not manager.match_tasks([task]):
            raise InputError(f"task {task}: lm-eval does not have it; see `lm_eval ls tasks`")


def base_model(settings: RunSettings) -> Model:
    """Return the model that training starts from, as it is evaluated."""
    script_args, training_args, model_args = settings
    return Model(
        str(model_args.model_name_or_path),
        revision=None if model_args.model_revision == "main" else model_args.model_revision,
        dtype=str(model_args.dtype),
        chat_template=script_args.chat_template,
        trust_remote_code=training_args.trust_remote_code,
    )


def trained_model(settings: RunSettings, folder: Path) -> Model:
    """Return what training saved in a folder: an adapter on the base model, or a whole model."""
    base = base_model(settings)
    if settings.model_args.use_peft:
        return replace(base, adapter=str(folder))
    return replace(base, name=str(folder), revision=None)


def evaluation_metadata(script_args: TrainArguments) -> dict[str, Any]:
    """Return the settings of the generated documents to evaluate."""
    generator = json.loads(script_args.dataset_config)
    metadata = {name: generator[name] for name in ("seed", "domains") if name in generator}
    if script_args.held_out_alteration:
        metadata["held_out_alteration"] = script_args.held_out_alteration
    return {**metadata, "groups": script_args.evaluate_groups}


def evaluate_before_and_after(settings: RunSettings, tasks: Sequence[str]) -> list[TaskChange]:
    """Evaluate the base model and the trained model, and print and return what has changed."""
    script_args = settings.script_args
    out = Path(settings.training_args.output_dir)
    folder = out / EVALUATION_FOLDER
    shutil.rmtree(folder, ignore_errors=True)  # an earlier run's, of other weights
    models = {"before": base_model(settings), "after": trained_model(settings, out)}
    for stage, model in models.items():
        print(f"lm_eval {stage} training: {', '.join(tasks)}", flush=True)
        metadata = evaluation_metadata(script_args)
        run_lm_eval(model, tasks, folder / stage, metadata, script_args.evaluate_batch_size)
    changes = compare_tasks(folder / "before", folder / "after")
    print("\n".join(change.to_text() for change in changes))
    return changes
