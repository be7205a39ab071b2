"""A training run from its settings to the files it leaves: `pragworld-train`."""

import errno
import gc
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from accelerate import PartialState
from safetensors import SafetensorError
from transformers import AutoTokenizer
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import TrainerCallback, TrainerState
from trl import get_peft_config, get_quantization_config

from pragworld_interp.prompts.labels import text_before_answer
from pragworld_interp.run.loading import first_line, load_config
from pragworld_tasks.command_line import at_least
from pragworld_tasks.data.splits import GENERATED
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import refusing
from pragworld_train.arguments import RunSettings, TrainArguments
from pragworld_train.config import LayerRegularizedSFTConfig
from pragworld_train.data import DocumentSet, load_document_set, load_own_document_set, to_dataset
from pragworld_train.evaluation import (
    evaluate_before_and_after,
    plan_of_settings,
)
from pragworld_train.probes import PROBES_FILE
from pragworld_train.run_files import push_to_hub, write_evaluation
from pragworld_train.run_record import RUN_FILE
from pragworld_train.trainer import LayerRegularizedSFTTrainer

# What a run that was killed may leave. Uploads leave out names that begin with an underscore.
_BEGUN, _REPLACED = "_training", "_replaced-"
_LEAST_FREE = 2**16  # bytes on a disk; with less, writing failed because it is full
# What a run leaves: of another run, some would be taken for a part of the new one.
_RUN_FILES = (
    *("checkpoint-[0-9]*", RUN_FILE, PROBES_FILE, "README.md", "adapter_*", "model*.safetensors*"),
    *("pytorch_model*.bin*", "config.json", f"{_REPLACED}*"),
)


def train(settings: RunSettings) -> None:
    """Train a model, save it with its run files, and evaluate and upload it if asked to.

    Raises:
        InputError: The settings, the data and the model do not fit together.
    """
    script_args, training_args, _ = settings
    launched = int(os.environ.get("WORLD_SIZE", "1"))  # by torchrun or another launcher
    if training_args.world_size != launched:  # each would do all of it, in the same folder
        raise InputError(
            f"{launched} processes were launched, but transformers sees "
            f"{training_args.world_size}; on CPUs add --use_cpu"
        )
    main_process = training_args.process_index == 0
    out = Path(training_args.output_dir)
    checkpoint = _checkpoint_to_resume(training_args)
    is_new = checkpoint is None or Path(checkpoint).resolve().parent != out.resolve()
    if is_new:
        _check_output(out, script_args.overwrite, str(settings[2].model_name_or_path))
    data = _load_data(script_args)
    plan = plan_of_settings(settings)
    # Neither torch nor transformers checks these before it computes with them.
    at_least(training_args, gradient_accumulation_steps=1, per_device_eval_batch_size=1)
    PartialState().wait_for_everyone()  # all have checked the output folder
    with _without_empty_folders(out):
        with refusing(out):  # transformers would make it while it loads the model
            out.mkdir(parents=True, exist_ok=True)
        trainer = _make_trainer(settings, data)
        replaced = _set_aside(out) if is_new and main_process else None
        first_step = _FirstStep(replaced)
        trainer.add_callback(first_step)
        PartialState().wait_for_everyone()
        repository, name = trainer.hub_model_id, trainer.hub_model_id or out.name
        with (
            _begun(out, main_process),
            _restored_unless_begun(out, replaced),
            full_disk_in_one_line(out),
        ):
            with _refusals_in_one_line(first_step, checkpoint):
                trainer.train(resume_from_checkpoint=checkpoint)
            if not trainer.state.global_step:
                raise InputError(
                    "settings: they leave no step to train; change num_train_epochs, or the "
                    "size of a batch"
                )
            trainer.save_model(training_args.output_dir)
            trainer.create_model_card(name)
            first_step.remove_replaced()  # if the checkpoint left no step
    record = trainer.run_record()
    trainer.accelerator.end_training()
    if not main_process:
        return
    if plan is not None:
        del trainer  # to free the device for the evaluation
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        write_evaluation(out, record, name, evaluate_before_and_after(plan, out))
    if training_args.push_to_hub:
        push_to_hub(out, repository, training_args.hub_token)
    print(f"{training_args.output_dir}: saved")


@contextmanager
def full_disk_in_one_line(folder: Path) -> Iterator[None]:
    """Turn what the libraries that save models say of a full disk into one line.

    Raises:
        InputError: The disk that a folder is on is full.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        # Safetensors and torch raise errors of their own, and torch's has no reason.
        full = os.strerror(errno.ENOSPC) in str(error)
        if full or shutil.disk_usage(folder).free < _LEAST_FREE:
            raise InputError(
                f"{folder}: no space is left on the disk; free some, and rerun the command with "
                "--resume_from_checkpoint last"
            ) from error
        raise


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint in a run's folder; None if there is none.

    A run that is killed while saving leaves an incomplete checkpoint. The trainer's state is the
    last file that it writes.
    """
    checkpoints = {
        int(number): path
        for path in folder.glob("checkpoint-*")
        if (number := path.name.removeprefix("checkpoint-")).isdecimal()
    }
    for step, path in sorted(checkpoints.items(), reverse=True):
        try:
            state = TrainerState.load_from_json(str(path / TRAINER_STATE_NAME))
        except (OSError, json.JSONDecodeError, TypeError):
            continue
        if state.global_step == step:
            return path
    return None


def _checkpoint_to_resume(training_args: LayerRegularizedSFTConfig) -> str | None:
    """Return the checkpoint that `resume_from_checkpoint` means, if there is one."""
    value = str(training_args.resume_from_checkpoint or "false")
    if value.lower() == "false":
        return None
    if value.lower() in ("last", "true"):
        checkpoint = last_checkpoint(Path(training_args.output_dir))
        return str(checkpoint) if checkpoint else None
    if not (Path(value) / TRAINER_STATE_NAME).is_file():
        raise InputError(
            f"--resume_from_checkpoint {value}: not a checkpoint; name one, or use last"
        )
    return value


@contextmanager
def _without_empty_folders(folder: Path) -> Iterator[None]:
    """Remove a folder, and those that it is in, if an error leaves them new and empty."""
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for path in created:
                path.rmdir()
        raise


def _check_output(out: Path, overwrite: bool, model: str) -> None:
    """Refuse a folder with the model to train, or with files of its own; a run, unless told to."""
    source = Path(model).resolve()
    places = (source, source.parent if source.match("checkpoint-*") else source)
    if source.is_dir() and out.resolve() in places:
        raise InputError(f"{out}: holds the model to train; choose another --output_dir")
    has_run = (out / RUN_FILE).is_file() or last_checkpoint(out) is not None
    if has_run and not overwrite:
        raise InputError(
            f"{out}: holds a run already; pass --resume_from_checkpoint last to resume it, "
            "--overwrite to replace it, or another --output_dir"
        )
    signs = (_BEGUN, PROBES_FILE, "checkpoint-[0-9]*", f"{_REPLACED}*")  # of a run that was killed
    others = [path.name for path in _run_files(out)]
    if others and not has_run and not any(any(out.glob(sign)) for sign in signs):
        raise InputError(
            f"{out}: holds {others[0]}, which is of no run here and would be replaced; choose "
            "another --output_dir"
        )


def _run_files(out: Path) -> list[Path]:
    return [path for pattern in _RUN_FILES for path in out.glob(pattern)]


def _set_aside(out: Path) -> Path | None:
    """Move the files of a run that is replaced, if there are any, to a hidden folder."""
    if not (files := _run_files(out)):
        return None
    folder = Path(mkdtemp(prefix=_REPLACED, dir=out))
    for path in files:
        path.rename(folder / path.name)
    return folder


class _FirstStep(TrainerCallback):  # type: ignore[misc]  # it has no types
    """Removes a run that was set aside when the first step of its successor is about to begin.

    Attributes:
        has_begun: Whether it has, so that everything that steps need has been made.
    """

    def __init__(self, replaced: Path | None) -> None:
        """Create a callback that removes a folder, if there is one."""
        self.has_begun = False
        self._replaced = replaced

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Remove the folder before the first step."""
        self.remove_replaced()
        self.has_begun = True

    def remove_replaced(self) -> None:
        """Remove the folder if it is still there."""
        if self._replaced and self._replaced.is_dir():
            shutil.rmtree(self._replaced)


@contextmanager
def _refusals_in_one_line(first_step: _FirstStep, checkpoint: str | None) -> Iterator[None]:
    """Turn an error before the first step of a new run into one line.

    Libraries refuse settings of the optimizer, its schedule and the batches there, and missing
    packages. Errors of the data and the collator come there as well.

    Raises:
        InputError: There is one.
    """
    try:
        yield
    except (ValueError, ArithmeticError, ImportError) as error:
        if isinstance(error, InputError) or checkpoint or first_step.has_begun:
            raise
        raise InputError(f"before the first step: {first_line(error)}") from error


@contextmanager
def _restored_unless_begun(out: Path, replaced: Path | None) -> Iterator[None]:
    """Put a run that was set aside back if an error comes before the first step."""
    try:
        yield
    except BaseException:
        if replaced and replaced.is_dir():
            for path in replaced.iterdir():
                path.rename(out / path.name)
            replaced.rmdir()
        raise


@contextmanager
def _begun(out: Path, main_process: bool) -> Iterator[None]:
    """Mark a folder as that of a run until the run is saved, in case it is killed before."""
    if main_process:
        (out / _BEGUN).touch()
    try:
        yield
    except BaseException:
        if main_process and ((out / RUN_FILE).is_file() or not _run_files(out)):
            (out / _BEGUN).unlink(missing_ok=True)
        raise
    if main_process:
        (out / _BEGUN).unlink(missing_ok=True)


def _load_data(script_args: TrainArguments) -> DocumentSet:
    """Return the documents to train on: those of a user's own file, or of a split."""
    left_out = (script_args.held_out_alteration, script_args.originals_only)
    split = script_args.dataset_train_split
    is_released = script_args.documents is None and script_args.dataset_name != GENERATED
    if is_released and split != TrainArguments().dataset_train_split:
        raise InputError(
            f"--dataset_train_split {split}: --dataset_name {script_args.dataset_name} is a split "
            "by itself; leave one of them out"
        )
    if script_args.documents is None:
        return load_document_set(
            script_args.dataset_name,
            script_args.dataset_config,
            script_args.dataset_train_split,
            *left_out,
        )
    defaults = TrainArguments()
    for name in ("dataset_name", "dataset_config", "dataset_train_split"):
        if getattr(script_args, name) != getattr(defaults, name):
            raise InputError(f"--{name}: not of documents of your own; leave it or --documents out")
    return load_own_document_set(script_args.documents, *left_out)


def _describe(data: DocumentSet, script_args: TrainArguments) -> dict[str, Any]:
    return {
        "split": data.name,
        "documents": len(data.documents),
        "groups": len({document.group for document in data.documents}),
        "held_out_alteration": script_args.held_out_alteration,
        "originals_only": script_args.originals_only,
        "chat_template": script_args.chat_template,
        "generator": data.generator,
    }


def _check_template(tokenizer: Any) -> None:
    """Refuse a chat template by which training would answer elsewhere than evaluations read."""
    between = text_before_answer(tokenizer, [{"role": "user", "content": "Hi."}], "yes")
    if between:
        raise InputError(
            f"--chat-template: that of {tokenizer.name_or_path} puts {between!r:.80} between "
            "prompt and answer, but sweeps and lm-eval read directly behind the prompt; leave it "
            "out, or set --chat_template_path"
        )


def _make_trainer(settings: RunSettings, data: DocumentSet) -> LayerRegularizedSFTTrainer:
    script_args, training_args, model_args = settings
    name = model_args.model_name_or_path
    eval_dataset = None
    if training_args.eval_strategy != "no":
        evaluated = data.other_split(script_args.dataset_test_split)
        eval_dataset = to_dataset(evaluated.documents, script_args.chat_template)
    load_config(name, model_args.model_revision, training_args.trust_remote_code)
    training_args.model_init_kwargs = {
        "revision": model_args.model_revision,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
        **(training_args.model_init_kwargs or {}),
    }
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            name,
            revision=model_args.model_revision,
            trust_remote_code=training_args.trust_remote_code,
        )
        has_template = tokenizer.chat_template or training_args.chat_template_path
        if script_args.chat_template and not has_template:
            raise InputError(f"model {name}: no chat template; leave out --chat-template")
        if script_args.chat_template and not training_args.chat_template_path:
            _check_template(tokenizer)
        return LayerRegularizedSFTTrainer(
            model=name,
            args=training_args,
            train_dataset=to_dataset(data.documents, script_args.chat_template),
            eval_dataset=eval_dataset,
            processing_class=tokenizer,
            quantization_config=get_quantization_config(model_args),
            peft_config=get_peft_config(model_args),
            data_description=_describe(data, script_args),
        )
    except InputError:
        raise
    except (OSError, ImportError) as error:  # missing files and packages
        raise InputError(f"model {name}: {first_line(error)}") from error
    except ValueError as error:  # settings that TRL refuses
        raise InputError(f"settings: {first_line(error)}") from error
