"""What a training run is: a record of its model, data, losses and settings, and its comparison.

The record is in `pragworld_train.json` beside the weights, in every checkpoint as well. A run that
resumes from a checkpoint must have the same record, except for what doesn't change the weights.
"""

import hashlib
import json
import math
import platform
from collections.abc import Iterator, Mapping
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json
from pragworld_train.config import LayerRegularizedSFTConfig
from pragworld_train.layer_settings import LayerSettings
from pragworld_train.probes import PROBES_MODULE

RUN_FILE = "pragworld_train.json"
SCHEMA = {"schema": "pragworld-train", "version": 2}

_PACKAGES = (
    *("pragworld", "trl", "transformers", "peft", "torch", "accelerate", "datasets"),
    *("tokenizers", "safetensors"),
)
# Parts of a record that a resumed run must share with its checkpoint.
_FIXED = ("model", "adapter", "data", "layers", "training")
# Settings of TRL and transformers that are about where a run happens, what it logs, saves and
# evaluates, or how its batches are divided, and therefore don't change the weights.
_FREE = (
    *("output_dir", "run_name", "project", "trackio", "report_to", "log", "disable_tqdm"),
    *("eval", "per_device", "gradient_accumulation_steps", "prediction_loss_only", "include_"),
    *("batch_eval", "save", "load_best", "metric_for", "greater_is", "hub", "push_to_hub", "do_"),
    *("resume", "restore", "dataloader_num", "dataloader_pin", "dataloader_pers"),
    *("dataloader_pre", "dataloader_multi", "dataset_num_proc", "ddp", "fsdp", "deepspeed"),
    *(
        "local_rank",
        "use_cpu",
        "processes",
        "device",
        "debug",
        "skip_memory",
        "torch_empty_cache",
        "enable_jit",
    ),
)
_FREE_LAYERS = ("report", "selection", "gradient_share_steps")
_DIGEST = "base_weights_digest"  # earlier versions of pragworld don't record it
_LAYER_FIELDS = tuple(LayerSettings.__dataclass_fields__)


def make_record(
    args: LayerRegularizedSFTConfig,
    model: Any,
    data: Mapping[str, Any],
    base_weights: str | None = None,
) -> dict[str, Any]:
    """Return the record of a run, in types that JSON has.

    Args:
        args: The settings of the run.
        model: The model, with or without a PEFT adapter.
        data: What `describe_dataset` returns, and whatever else is known about the data.
        base_weights: What `digest_base_weights` returned before training.
    """
    adapter = getattr(model, "active_peft_config", None)
    config = model.config
    quantization = getattr(config, "quantization_config", None)
    processes = args.world_size
    weights = [
        (weight.numel(), weight.requires_grad)
        for name, weight in model.named_parameters()
        if not name.startswith(PROBES_MODULE)
    ]
    record = {
        **SCHEMA,
        "model": {
            "name": getattr(config, "_name_or_path", ""),
            "revision": (args.model_init_kwargs or {}).get("revision"),
            "architecture": _class_name(model if adapter is None else model.get_base_model()),
            "layers": config.get_text_config().num_hidden_layers,
            "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
            "quantization": getattr(quantization, "to_dict", lambda: quantization)(),
            "weights": sum(count for count, _ in weights),
            "trained_weights": sum(count for count, trained in weights if trained),
            _DIGEST: base_weights,
        },
        "adapter": None if adapter is None else adapter.to_dict(),
        "data": data,
        "layers": {
            "report": args.layers,
            "selection": args.layer_selection if args.layers else None,
            "amplified": args.amplified,
            "suppressed": args.suppressed,
            **{
                name: getattr(args, name)
                for name in _LAYER_FIELDS
                if name not in ("layers", "layer_selection", "useful_layers", "harmful_layers")
            },
        },
        "training": {
            **{name: value for name, value in args.to_dict().items() if name not in _LAYER_FIELDS},
            "batch_size": args.per_device_train_batch_size
            * args.gradient_accumulation_steps
            * processes,
            "processes": processes,
            "device": args.device.type,
        },
        "versions": {"python": platform.python_version(), **dict(_versions())},
    }
    content: dict[str, Any] = plain_values(record)
    return content


def _class_name(model: Any) -> str:
    """Return the class of a model; FSDP 2 puts one in front of it that is named after it."""
    name = type(model).__name__
    bases = [base.__name__ for base in type(model).__bases__]
    return next((base for base in bases if name == f"FSDP{base}"), name)


def check_resumable(checkpoint: Path, record: Mapping[str, Any]) -> None:
    """Refuse to resume a run from a checkpoint of another one.

    Args:
        checkpoint: The folder of the checkpoint.
        record: The record of the run that resumes.

    Raises:
        InputError: The checkpoint has no record, or one that differs; the message says where.
    """
    if found := list(_differences(read_training_record(checkpoint), record)):
        raise InputError(
            f"{checkpoint}: trained with {'; '.join(found)}; resume with the same, or train anew "
            "in another output_dir"
        )


def read_training_record(folder: Path) -> dict[str, Any]:
    """Return the record of the run that left a folder or a checkpoint.

    Raises:
        InputError: The folder has no such record, or one of another version.
    """
    path = folder / RUN_FILE
    if not path.is_file():
        raise InputError(
            f"{folder}: no {RUN_FILE} says how it was trained; name a folder that pragworld-train "
            "wrote, or train anew in another output_dir"
        )
    content = read_json(path)
    if not isinstance(content, dict) or {name: content.get(name) for name in SCHEMA} != SCHEMA:
        raise InputError(
            f"{path}: not a record of this version of pragworld; train anew in another output_dir"
        )
    return content


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for part in _FIXED:
        first, second = before.get(part), now.get(part)
        if not isinstance(first, dict) or not isinstance(second, dict):
            if first != second:
                yield f"{_short(first, part)}, not {_short(second, part)}"
            continue
        for name in sorted({*first, *second}):
            if name == _DIGEST and None in (first.get(name), second.get(name)):
                continue  # not known, or of all weights trained
            free = {"training": _FREE, "layers": _FREE_LAYERS}.get(part, ())
            if first.get(name) != second.get(name) and not name.startswith(free):
                yield f"{name} {_short(first.get(name))}, not {_short(second.get(name))}"


def _short(value: Any, part: str = "") -> str:
    """Return a value as a message shows it."""
    if part and value is None:
        return f"no {part}"
    if part:
        return f"an {part}"
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def digest_base_weights(model: Any) -> str | None:
    """Return a digest of the weights that are not trained, which checkpoints don't have.

    It is made of a sum of the bits of each weight, which is the same on every device and reads each
    weight once, without copying it.

    Args:
        model: The model, before it is distributed among processes. Weights that a library keeps in
            tensors of its own kind do not count.

    Returns:
        The digest; None if all weights are trained, so that checkpoints have all of them, or if
        DeepSpeed's ZeRO-3 partitioned the weights when they were loaded, so that they are empty.
    """
    parameters = [weight for weight in model.parameters() if not weight.requires_grad]
    if not parameters or any(hasattr(weight, "ds_id") for weight in parameters):
        return None
    fixed = [weight.data for weight in parameters]
    sums = [
        _sum_of_bits(weight)
        for weight in fixed
        if type(weight) is torch.Tensor and not weight.is_meta
    ]
    return hashlib.sha256(json.dumps(sums).encode()).hexdigest()[:16]


def _sum_of_bits(weight: torch.Tensor) -> int:
    """Return the sum of a weight's bytes, eight at a time, and of those left over, one at a time.

    Sums of smaller integers would take eight bytes for each, since PyTorch converts them first.
    """
    flat = weight.contiguous().view(-1).view(torch.uint8)
    if flat.storage_offset() % 8:  # it cannot be viewed as longer integers
        flat = flat.clone()
    whole = len(flat) // 8 * 8
    return int(flat[:whole].view(torch.int64).sum()) + int(flat[whole:].sum())


def describe_dataset(dataset: Any) -> dict[str, Any]:
    """Return the number of rows in a dataset, and a digest of their tokens and labels.

    Args:
        dataset: The data as it is trained on: tokenized, and packed where that is set. Neither is
            known of streamed data.
    """
    if not isinstance(dataset, Dataset):
        return {"rows": None, "digest": None}  # streamed
    digest = hashlib.sha256()
    rows = 0
    columns = ("input_ids", "labels", "probe_labels", "seq_lengths")
    present = [name for name in columns if name in dataset.column_names]
    for table in dataset.select_columns(present).with_format("arrow").iter(1000):
        for name in present:
            lists = table[name].combine_chunks()
            for part in (pc.list_value_length(lists), pc.list_flatten(lists)):
                digest.update(np.asarray(part, dtype=np.int64).tobytes())
        rows += len(pc.list_flatten(table[present[-1]])) if "seq_lengths" in present else len(table)
    return {"rows": rows, "digest": digest.hexdigest()[:16]}


def _versions() -> Iterator[tuple[str, str | None]]:
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, None


def plain_values(value: Any) -> Any:
    """Return a value with what JSON doesn't have turned into the nearest that it has."""
    if isinstance(value, Enum):
        return plain_values(value.value)
    if isinstance(value, Mapping):
        return {str(name): plain_values(item) for name, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(plain_values(item) for item in value)
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)
