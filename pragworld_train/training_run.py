"""A training run from its settings to the files it leaves: `pragworld-train`."""

import gc
import json
import os
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import AutoTokenizer
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import TrainerState
from trl import get_peft_config, get_quantization_config

from pragworld_interp.prompts.labels import text_before_answer
from pragworld_interp.run.loading import first_line, load_config
from pragworld_tasks.command_line import at_least
from pragworld_tasks.errors import InputError
from pragworld_train.arguments import RunSettings, TrainArguments
from pragworld_train.data import DocumentSet, load_document_set, to_dataset
from pragworld_train.evaluation import evaluate_before_and_after, load_tasks
from pragworld_train.model_card import add_section
from pragworld_train.run_record import RUN_FILE
from pragworld_train.trainer import LayerRegularizedSFTTrainer

# What a run would replace in its folder.
_WRITTEN = (RUN_FILE, "README.md", "*config.json", "*.safetensors", "checkpoint-*")


def train(settings: RunSettings) -> None:
    """Train a model, save it with its run files, and evaluate and upload it if asked to."""
    script_args, training_args, _ = settings
    launched = int(os.environ.get("WORLD_SIZE", "1"))  # by torchrun or another launcher
    if training_args.world_size != launched:  # each would do all of it, in the same folder
        raise InputError(
            f"{launched} processes were launched, but transformers sees "
            f"{training_args.world_size}; on CPUs add --use_cpu"
        )
    # Neither torch nor transformers checks these before it computes with them.
    at_least(training_args, gradient_accumulation_steps=1, per_device_eval_batch_size=1)
    out = Path(training_args.output_dir)
    checkpoint = _checkpoint_to_resume(settings)
    data = load_document_set(script_args)
    tasks = load_tasks(settings)
    PartialState().wait_for_everyone()  # all have checked the output folder
    trainer = _make_trainer(settings, data)
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except (ValueError, ArithmeticError, ImportError) as error:
        if isinstance(error, InputError) or trainer.state.global_step:
            raise
        # Libraries refuse settings of the optimizer, its schedule and the batches there.
        raise InputError(f"before the first step: {first_line(error)}") from error
    if not trainer.state.global_step:
        raise InputError(
            "settings: they leave no step to train; change num_train_epochs, or the size of a batch"
        )
    trainer.save_model()  # which uploads, too, if asked to
    repository = trainer.hub_model_id
    trainer.create_model_card(repository or out.name)
    # If gloo ends while it still holds what it gathered, it may wait for itself forever.
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()
    if training_args.process_index:
        return
    if tasks:
        del trainer  # to free the device for the evaluation
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        tables = evaluate_before_and_after(settings, tasks, out)
        print(tables)
        card = add_section(out, "Before and after", tables)
        if training_args.push_to_hub:
            card.push_to_hub(repository, token=training_args.hub_token)
    print(f"{out}: saved")


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint in a run's folder; None if there is none.

    A run that is killed while saving leaves an incomplete checkpoint. The trainer's state is the
    last file that it writes.
    """
    numbers = [path.name.partition("-")[2] for path in folder.glob("checkpoint-*")]
    for step in sorted((int(number) for number in numbers if number.isdecimal()), reverse=True):
        path = folder / f"checkpoint-{step}"
        try:
            TrainerState.load_from_json(str(path / TRAINER_STATE_NAME))
        except (OSError, json.JSONDecodeError, TypeError):
            continue
        return path
    return None


def _checkpoint_to_resume(settings: RunSettings) -> str | None:
    """Return the checkpoint that `resume_from_checkpoint` means, if there is one.

    Refuse an output folder that holds another run, the model to train, or files to be replaced.
    """
    _, training_args, model_args = settings
    out = Path(training_args.output_dir)
    asked = str(training_args.resume_from_checkpoint or "false")
    resumed: Path | None = None
    if asked.lower() in ("last", "true"):
        resumed = last_checkpoint(out)
    elif asked.lower() != "false":
        resumed = Path(asked)
    if resumed and not (resumed / TRAINER_STATE_NAME).is_file():
        raise InputError(
            f"--resume_from_checkpoint {asked}: not a checkpoint; name one, or use last"
        )
    if out.resolve() == Path(str(model_args.model_name_or_path)).resolve():
        raise InputError(f"{out}: holds the model to train; choose another --output_dir")
    begun = any(out.glob("checkpoint-*"))
    is_own = resumed is not None and resumed.resolve().parent == out.resolve()
    # It may have been killed before its first checkpoint.
    is_own |= begun and asked.lower() != "false" and not (out / RUN_FILE).exists()
    held = [path.name for pattern in _WRITTEN for path in out.glob(pattern)]
    if held and not is_own:
        resume = "pass --resume_from_checkpoint last to resume it, or " if begun else ""
        raise InputError(f"{out}: holds {held[0]} already; {resume}choose another --output_dir")
    return str(resumed) if resumed else None


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
