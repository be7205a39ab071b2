"""What a training run is: a record of its model, data, losses and settings, and its comparison.

The record is in `pragworld_train.json` beside the weights, and in every checkpoint as well. A run
that resumes from a checkpoint must agree with its record in what changes the weights.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from datasets import Dataset
from transformers import TrainerState

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json
from pragworld_train.layer_settings import LayerSettings

RUN_FILE = "pragworld_train.json"
SCHEMA = {"schema": "pragworld-train", "version": 3}
_PACKAGES = ("pragworld", "trl", "transformers", "peft", "torch", "accelerate", "datasets")
# What a run that resumes must share with its checkpoint, by part of the record.
_FIXED = {
    "model": "name revision type dtype quantization",
    "adapter": "peft_type r lora_alpha lora_dropout target_modules use_rslora use_dora",
    "data": "rows digest",
    "layers": "amplified suppressed ula_weight hls_weight hls_reduction probe_hidden_size "
    "probe_classes",
    "training": "batch_size max_steps num_train_epochs seed data_seed bf16 fp16 optim "
    "learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps weight_decay adam_beta1 "
    "adam_beta2 adam_epsilon max_grad_norm",
}


def make_record(
    args: Any, model: Any, data: Mapping[str, Any], state: TrainerState
) -> dict[str, Any]:
    """Return the record of a run, in types that JSON has: null for numbers that are not finite.

    Args:
        args: The settings of the run, with those of layers.
        model: The model, with or without a PEFT adapter.
        data: What `describe_dataset` returns, and whatever else is known about the data.
        state: How far the run is, and its log.
    """
    config, adapter = model.config, getattr(model, "active_peft_config", None)
    size = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    settings = args.to_dict()
    layers = {name: settings.pop(name) for name in LayerSettings.__dataclass_fields__}
    content = {
        **SCHEMA,
        "model": {
            "name": getattr(config, "_name_or_path", ""),
            "revision": getattr(config, "_commit_hash", None),
            "type": config.model_type,
            "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
            "quantization": config.to_dict().get("quantization_config"),
        },
        "adapter": None if adapter is None else adapter.to_dict(),
        "data": data,
        "layers": {**layers, "amplified": args.amplified, "suppressed": args.suppressed},
        "training": {**settings, "batch_size": size, "processes": args.world_size},
        "versions": {package: version(package) for package in _PACKAGES},
        "steps": state.global_step,
        "log": state.log_history,
    }
    text = json.dumps(
        content, default=lambda value: sorted(value) if isinstance(value, set) else str(value)
    )
    record: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)
    return record


def check_resumable(checkpoint: Path, record: Mapping[str, Any]) -> None:
    """Refuse to resume a run from a checkpoint of another one.

    Raises:
        InputError: The checkpoint has no record, or one that differs; the message says where.
    """
    before = read_json(checkpoint / RUN_FILE)
    different = ["another version of pragworld"]
    if {name: before.get(name) for name in SCHEMA} == SCHEMA:
        pairs = [
            (name, *((content[part] or {}).get(name) for content in (before, record)))
            for part, names in _FIXED.items()
            for name in names.split()
        ]
        different = [f"{name} {old!r}, not {new!r}" for name, old, new in pairs if old != new]
    if different:
        raise InputError(
            f"{checkpoint}: trained with {'; '.join(different)}; resume with the same, or train "
            "anew in another output_dir"
        )


def describe_dataset(dataset: Any) -> dict[str, Any]:
    """Return the number of rows in tokenized data and a digest of them; None of streamed data."""
    if not isinstance(dataset, Dataset):
        return {"rows": None, "digest": None}
    digest = hashlib.sha256()
    columns = sorted({"input_ids", "labels", "probe_labels"} & {*dataset.column_names})
    for table in dataset.select_columns(columns).with_format("arrow").iter(1000):
        for name in columns:
            for part in (pc.list_value_length(table[name]), pc.list_flatten(table[name])):
                digest.update(part.to_numpy().astype("int64").tobytes())
    return {"rows": len(dataset), "digest": digest.hexdigest()[:16]}
