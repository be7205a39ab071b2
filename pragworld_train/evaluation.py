"""lm-eval tasks on the model before and after training: which ones, on what, and the comparison."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pragworld_interp.run.loading import Model
from pragworld_tasks.command_line import at_least
from pragworld_tasks.data import sources
from pragworld_tasks.errors import InputError
from pragworld_tasks.link import task_folder, task_names
from pragworld_train.arguments import RunSettings, TrainArguments
from pragworld_train.lm_eval_process import run_lm_eval
from pragworld_train.task_changes import TaskChange, compare_tasks

EVALUATION_FOLDER = "pragworld_evaluation"


@dataclass(frozen=True)
class EvaluationPlan:
    """What is evaluated before and after training, and on what.

    Attributes:
        before: The model that training starts from.
        after: What training saved.
        tasks: Names of lm-eval tasks, or YAML files of tasks.
        metadata: Settings for tasks that read them, as the generated ones do.
        batch_size: Batch size of lm-eval.
    """

    before: Model
    after: Model
    tasks: list[str]
    metadata: dict[str, Any]
    batch_size: int


def plan_of_settings(settings: RunSettings) -> EvaluationPlan | None:
    """Return the evaluation that the settings of a run ask for, if they do.

    Raises:
        InputError: lm-eval does not have such a task or cannot load the model as it is trained, or
            there is nothing to evaluate.
    """
    script_args, training_args, model_args = settings
    if not (script_args.evaluate or script_args.evaluate_tasks or script_args.retain):
        return None
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
    after = trained_model(settings, Path(training_args.output_dir))
    return EvaluationPlan(
        base_model(settings),
        after,
        _tasks(script_args),
        evaluation_metadata(script_args),
        script_args.evaluate_batch_size,
    )


def _tasks(script_args: TrainArguments) -> list[str]:
    """Return the tasks that are set, or the usual ones, if lm-eval has them."""
    at_least(script_args, evaluate_groups=1, evaluate_batch_size=1)
    tasks = script_args.evaluate_tasks
    if tasks is None:
        tasks = ["pragworld_generated_label"]
        if script_args.dataset_name != "manual" and sources.locate("manual") is not None:
            tasks.append("pragworld_manual_label")
    if own := [task for task in tasks if task.startswith("pragworld_own")]:
        raise InputError(
            f"--evaluate_tasks {own[0]}: needs a file of documents; run lm_eval with --metadata on "
            "the saved model instead"
        )
    retain = script_args.retain
    tasks = [*tasks, *(["pragworld_generated_perplexity"] if retain is None else retain)]
    if others := set(tasks) - task_names():
        _check_other_tasks(sorted(others))
    return list(dict.fromkeys(tasks))


def _check_other_tasks(tasks: Sequence[str]) -> None:
    """Check that lm-eval has these tasks, for which it reads the files of all of them."""
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(task_folder()))
    for task in tasks:
        if task.endswith((".yaml", ".yml")):
            if not Path(task).is_file():
                raise InputError(f"task {task}: there is no such file; name a YAML file of a task")
        elif not manager.match_tasks([task]):
            raise InputError(
                f"task {task}: lm-eval does not have it; see `lm_eval ls tasks`, or name the YAML "
                "file of a task"
            )


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


def evaluate_before_and_after(plan: EvaluationPlan, out: Path) -> list[TaskChange]:
    """Evaluate the model before and after training, and print and return what has changed.

    Args:
        plan: The evaluation.
        out: The run's folder, in which the results are saved.
    """
    folder = out / EVALUATION_FOLDER
    shutil.rmtree(folder, ignore_errors=True)  # an earlier run's, of other weights
    for stage, model in {"before": plan.before, "after": plan.after}.items():
        print(f"lm_eval {stage} training: {', '.join(plan.tasks)}", flush=True)
        run_lm_eval(model, plan.tasks, folder / stage, plan.metadata, plan.batch_size)
    changes = compare_tasks(folder / "before", folder / "after")
    print("\n".join(change.to_text() for change in changes))
    return changes
