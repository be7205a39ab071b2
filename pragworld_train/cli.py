"""The command `pragworld-train`: TRL's conventions, pragworld's data.

pragworld-train --model_name_or_path Qwen/Qwen2.5-0.5B-Instruct --use_peft --output_dir out
pragworld-train --config train.yaml
accelerate launch --num_processes 4 -m pragworld_train …
pragworld-train study …
pragworld-train probe …
"""

import gc
import json
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers.utils import is_torch_bf16_gpu_available
from trl import ModelConfig, TrlParser

from pragworld_tasks.command_line import clean_exit
from pragworld_tasks.data.splits import GENERATED, NAMES
from pragworld_tasks.errors import InputError
from pragworld_train.config import LayerRegularizedSFTConfig, model_config

if TYPE_CHECKING:
    from pragworld_train.data import Chosen
    from pragworld_train.trainer import LayerRegularizedSFTTrainer

# SPEC.md, section 3, after the paper's appendix H.
DEFAULTS: dict[str, Any] = {
    "learning_rate": 1e-4,
    "num_train_epochs": 3.0,
    "warmup_steps": 0.1,
    "lora_r": 8,
    "lora_alpha": 16,
    "lora_target_modules": ["all-linear"],
    "output_dir": "pragworld-train",
}
_COMMANDS = {
    "study": "plain SFT, ULA, HLS and their controls side by side over several seeds",
    "probe": "what probes read off every layer's MLP, and how large its outputs are",
}


@dataclass
class TrainArguments:
    """Arguments of the script: the data, under the names that TRL's scripts have, and the tasks.

    Args:
        dataset_name (`str`, *optional*, defaults to `"generated"`):
            The split that is trained on: `generated`, or a released one (`manual`, `synthetic`,
            `entity_tracking`).
        dataset_config (`str`, *optional*, defaults to `"{}"`):
            Settings of generated documents, as JSON: groups (2000 here), seed, domains.
        dataset_train_split (`str`, *optional*, defaults to `"train"`):
            Which generated split is trained on.
        dataset_test_split (`str`, *optional*, defaults to `"validation"`):
            Which generated split the loss is evaluated on, where `eval_strategy` asks for it. It
            has a tenth of the groups.
        held_out_alteration (`str`, *optional*):
            An alteration that training does without, and that evaluation has.
        originals_only (`bool`, *optional*, defaults to `False`):
            Whether altered documents are left out of training.
        chat_template (`bool`, *optional*, defaults to `False`):
            Whether prompts go through the model's chat template, in training and evaluation.
        evaluate (`bool`, *optional*, defaults to `False`):
            Whether lm-eval tasks are run before and after, and compared document by document.
        evaluate_tasks (`list[str]`, *optional*):
            Which tasks. By default `pragworld_generated_label`, and `pragworld_manual_label` where
            the manual split is on this machine.
        retain (`list[str]`, *optional*):
            Other lm-eval tasks, to see what training costs. By default the perplexity of generated
            dialogues.
        evaluate_groups (`int`, *optional*, defaults to `200`):
            How many generated groups the tasks ask about.
        evaluate_batch_size (`int`, *optional*, defaults to `16`):
            Batch size of lm-eval.
    """

    dataset_name: str = field(
        default=GENERATED,
        metadata={"help": "The split that is trained on.", "choices": list(NAMES)},
    )
    dataset_config: str = field(
        default="{}",
        metadata={
            "help": "Settings of generated documents, as JSON: groups (2000 here), seed, domains."
        },
    )
    dataset_train_split: str = field(
        default="train", metadata={"help": "Which generated split is trained on."}
    )
    dataset_test_split: str = field(
        default="validation",
        metadata={
            "help": "Which generated split the loss is evaluated on, where --eval_strategy asks "
            "for it. It has a tenth of the groups."
        },
    )
    held_out_alteration: str | None = field(
        default=None,
        metadata={"help": "An alteration that training does without, and that evaluation has."},
    )
    originals_only: bool = field(
        default=False, metadata={"help": "Whether altered documents are left out of training."}
    )
    chat_template: bool = field(
        default=False,
        metadata={
            "help": "Whether prompts go through the model's chat template, in training and "
            "evaluation."
        },
    )
    evaluate: bool = field(
        default=False,
        metadata={
            "help": "Whether lm-eval tasks are run before and after, and compared document by "
            "document."
        },
    )
    evaluate_tasks: list[str] | None = field(
        default=None,
        metadata={
            "help": "Which tasks. By default pragworld_generated_label, and pragworld_manual_label "
            "where the manual split is on this machine."
        },
    )
    retain: list[str] | None = field(
        default=None,
        metadata={
            "help": "Other lm-eval tasks, to see what training costs. By default the perplexity "
            "of generated dialogues."
        },
    )
    evaluate_groups: int = field(
        default=200, metadata={"help": "How many generated groups the tasks ask about."}
    )
    evaluate_batch_size: int = field(default=16, metadata={"help": "Batch size of lm-eval."})


Parsed = tuple[TrainArguments, LayerRegularizedSFTConfig, ModelConfig]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command with the given arguments, or those of the command line."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # TRL's own use of it, which nobody who reads this could change.
    warnings.filterwarnings("ignore", ".*gradient_checkpointing` is deprecated", FutureWarning)
    with clean_exit():
        if words[:1] == ["study"]:
            from pragworld_train.experiments import study

            study.main(words[1:])
        elif words[:1] == ["probe"]:
            from pragworld_train.experiments import probing

            probing.main(words[1:])
        else:
            _train(*parsed(words))


def parser() -> TrlParser:
    """TRL's parser of our settings, with the defaults of the paper."""
    made = TrlParser(
        (TrainArguments, LayerRegularizedSFTConfig, ModelConfig),
        prog="pragworld-train",
        description="Fine-tunes a model on PragWorld dialogues, amplifies its useful layers and "
        "suppresses its harmful ones. Settings may come from a YAML file: --config FILE.",
        epilog="Other commands, each with its own --help:\n"
        + "\n".join(f"  pragworld-train {name}: {what}" for name, what in _COMMANDS.items()),
    )
    made.set_defaults_with_config(**DEFAULTS)
    if not is_torch_bf16_gpu_available():  # where TRL's own default is refused
        made.set_defaults_with_config(bf16=False)
    return made


def parsed(words: Sequence[str]) -> Parsed:
    """The settings on a command line, and in the YAML file that it names.

    Raises:
        InputError: the file cannot be read, or a setting in it or on the line is impossible.
    """
    words = list(words)
    if "--config" in words:
        _check_config(words)
    try:
        script, training, model = parser().parse_args_and_config(words)
    except (ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"settings: {error}") from error
    # A YAML file may have a mapping, and one name where a list may stand.
    if isinstance(script.dataset_config, dict):
        script.dataset_config = json.dumps(script.dataset_config)
    for name in ("evaluate_tasks", "retain"):
        if isinstance(getattr(script, name), str):
            setattr(script, name, [getattr(script, name)])
    if not model.model_name_or_path:
        raise InputError("--model_name_or_path: a name on the Hugging Face hub, or a folder")
    return script, training, model


def _check_config(words: list[str]) -> None:
    import yaml

    place = words.index("--config") + 1
    if place == len(words):
        raise InputError("--config: name a YAML file")
    try:
        content = yaml.safe_load(Path(words[place]).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"--config {words[place]}: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise InputError(f"--config {words[place]}: not a mapping of settings to values")


# Training -----------------------------------------------------------------------------------------


def _train(script: TrainArguments, training: LayerRegularizedSFTConfig, model: ModelConfig) -> None:
    import torch

    from pragworld_train import artifacts as outcome
    from pragworld_train import data

    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if training.world_size != launched:  # each would do all of it, in the same folder
        raise InputError(
            f"{launched} processes were launched, and transformers sees {training.world_size}; on "
            "CPUs add --use_cpu"
        )
    main_process = training.process_index == 0
    out = Path(training.output_dir)
    chosen = data.chosen(
        script.dataset_name,
        script.dataset_config,
        script.dataset_train_split,
        script.held_out_alteration,
        script.originals_only,
    )
    tasks = outcome.tasks(script, training, model)
    resume = _resumed_from(training)
    trainer = _trainer(script, training, model, chosen)
    trainer.train(resume_from_checkpoint=resume)
    trainer.save_model(training.output_dir)
    trainer.create_model_card(model_name=out.name)
    history, hub = trainer.state.log_history, trainer.hub_model_id
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()
    if not main_process:
        return
    outcome.write(out, script, training, model, chosen, history, [])
    if tasks:
        # What evaluates has the machine for itself.
        del trainer
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        found = outcome.before_and_after(script, training, model, tasks)
        outcome.write(out, script, training, model, chosen, history, found)
    if training.push_to_hub:
        outcome.push(out, hub, training.hub_token)
    print(f"{training.output_dir}: saved")


def _resumed_from(training: LayerRegularizedSFTConfig) -> str | None:
    """The checkpoint that training goes on from, if there is one."""
    from pragworld_train.checkpoints import STATE, last_checkpoint

    wanted = str(training.resume_from_checkpoint or "false")
    if wanted.lower() == "false":
        return None
    if wanted.lower() in ("last", "true"):
        found = last_checkpoint(Path(training.output_dir))
        return str(found) if found else None
    if not (Path(wanted) / STATE).is_file():
        raise InputError(f"--resume_from_checkpoint {wanted}: no checkpoint; name one, or last")
    return wanted


def _trainer(
    script: TrainArguments,
    training: LayerRegularizedSFTConfig,
    model: ModelConfig,
    chosen: "Chosen",
) -> "LayerRegularizedSFTTrainer":
    from transformers import AutoTokenizer
    from trl import get_peft_config, get_quantization_config

    from pragworld_interp.loading import first_line
    from pragworld_train.data import held_out, to_dataset
    from pragworld_train.trainer import LayerRegularizedSFTTrainer

    name = model.model_name_or_path
    assert name is not None
    evaluated = None
    if training.eval_strategy != "no":
        documents = held_out(chosen, script.dataset_test_split).documents
        evaluated = to_dataset(documents, script.chat_template)
    model_config(name, model.model_revision, training.trust_remote_code)
    training.model_init_kwargs = {
        "revision": model.model_revision,
        "attn_implementation": model.attn_implementation,
        "dtype": model.dtype,
        **(training.model_init_kwargs or {}),
    }
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            name, revision=model.model_revision, trust_remote_code=training.trust_remote_code
        )
        if script.chat_template and not (tokenizer.chat_template or training.chat_template_path):
            raise InputError(
                f"model {name}: its tokenizer has no chat template; leave --chat_template out"
            )
        return LayerRegularizedSFTTrainer(
            model=name,
            args=training,
            train_dataset=to_dataset(chosen.documents, script.chat_template),
            eval_dataset=evaluated,
            processing_class=tokenizer,
            quantization_config=get_quantization_config(model),
            peft_config=get_peft_config(model),
        )
    except (OSError, ImportError) as error:  # files and packages that are not there
        raise InputError(f"model {name}: {first_line(error)}") from error
    except ValueError as error:  # settings that TRL refuses
        if isinstance(error, InputError):
            raise
        raise InputError(f"settings: {first_line(error)}") from error
