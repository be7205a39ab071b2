"""What would train a wrong model silently: damaged checkpoints, foreign tokens, mixed sequences."""

import copy
import logging
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow.compute as pc
import torch
import transformers
from datasets import Dataset
from torch import nn
from transformers.utils import logging as transformers_logging

from pragworld_interp.run.loading import check_complete, first_line, load_config
from pragworld_tasks.errors import InputError

_logger = logging.getLogger(__name__)
# Modules that choose experts, by the parts of their names.
_ROUTERS = r"(.*\.)?(router|gate)(\..*)?"


def load_structure(name: str, args: Any) -> Any:
    """Return a model without its weights, after a look at whether its checkpoint has them all.

    Args:
        name: The model on the hub, or its folder.
        args: The settings of TRL.

    Returns:
        The model on the meta device; None if its checkpoint is quantized.

    Raises:
        InputError: The checkpoint is missing, cut off, incomplete, or that of another shape.
    """
    options = args.model_init_kwargs or {}
    source: dict[str, Any] = {
        "revision": options.get("revision"),
        "trust_remote_code": bool(options.get("trust_remote_code", args.trust_remote_code)),
    }
    config = load_config(name, **source)
    if hasattr(config, "quantization_config"):
        return None
    kind = getattr(transformers, (config.architectures or [""])[0], None)
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # the error below says it in one line
    try:
        model, info = (kind or transformers.AutoModelForCausalLM).from_pretrained(
            name,
            device_map="meta",
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **source,
        )
    except Exception as error:  # libraries raise many types for files that they cannot read
        raise InputError(f"model {name}: {first_line(error)}") from error
    finally:
        transformers_logging.set_verbosity(verbosity)
    check_complete(name, model, info)
    return model


def leave_out_routers(peft_config: Any, model: Any) -> Any:
    """Return a PEFT configuration without the routers of experts, if it is for all linear layers.

    An adapter there changes which experts a token visits. To train one, name `target_modules`.
    """
    experts = "expert" in str([*model.config.get_text_config().to_dict()])
    routers = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and re.fullmatch(_ROUTERS, name)
    ]
    is_for_all = getattr(peft_config, "target_modules", None) == "all-linear"
    if not (experts and routers and is_for_all) or peft_config.exclude_modules:
        return peft_config
    _logger.warning(
        "%s: the adapter leaves out the %d routers of experts, such as %s; name target_modules to "
        "train them",
        *(peft_config.peft_type.value, len(routers), routers[0]),
    )
    without = copy.copy(peft_config)
    without.exclude_modules = _ROUTERS
    return without


def check_finite(model: nn.Module, remedy: str) -> None:
    """Refuse a model with weights that are not numbers, of which training would leave nothing.

    Raises:
        InputError: A weight holds NaN or infinity.
    """
    for name, weight in model.named_parameters():
        local = weight.to_local() if hasattr(weight, "to_local") else weight.data
        is_plain = local.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        if is_plain and not local.is_meta and not local.isfinite().all():
            raise InputError(f"model: weight {name} holds NaN or infinity; {remedy}")


def check_tokens(dataset: Any, model: Any) -> None:
    """Refuse tokenized data with tokens that a model has no embedding for.

    Raises:
        InputError: There is such a token. Streamed data are not checked.
    """
    embeddings = len(model.get_input_embeddings().weight)
    if not isinstance(dataset, Dataset) or not embeddings:
        return
    for table in dataset.select_columns("input_ids").with_format("arrow").iter(1000):
        largest = pc.max(pc.list_flatten(table["input_ids"])).as_py() or 0
        if largest >= embeddings:
            raise InputError(
                f"train data: token {largest}, but the model has {embeddings} embeddings; use the "
                "tokenizer of the model"
            )


def warn_of_repeated_rows(dataset: Any, args: Any) -> None:
    """Say that accelerate repeats rows where several processes don't divide them evenly."""
    if args.world_size == 1 or not isinstance(dataset, Dataset) or args.dataloader_drop_last:
        return
    step = args.per_device_train_batch_size * args.world_size
    if repeated := -len(dataset) % step:
        _logger.warning(
            "train data: %d rows are no multiple of %d, the batch size times %d processes; "
            "accelerate trains on %d of them twice in an epoch unless dataloader_drop_last is set",
            *(len(dataset), step, args.world_size, repeated),
        )


@torch.no_grad()
def check_concatenation(model: Any, dataset: Any, collate: Any) -> None:
    """Try whether a model keeps sequences apart that TRL concatenates into one row.

    Attention that takes neither positions nor lengths sees the sequences before as well.

    Args:
        model: The model, with the fused head of TRL.
        dataset: The data, of which the first two rows are tried.
        collate: The collator that concatenates them.

    Raises:
        InputError: A sequence has other log-probabilities than alone.
    """
    rows = list(islice(dataset, 2))
    try:
        packed = _log_probs(model, collate(rows))
    except ValueError as error:  # of a kernel that is not installed
        raise InputError(f"packing or padding_free: {first_line(error)}") from error
    start, errors = 0, [0.0]
    for ids in (part for row in rows for part in _sequences(row)):
        alone = _log_probs(model, {"input_ids": torch.tensor([ids])})
        within = packed[start : start + len(ids) - 1]
        errors.append(((within - alone).norm() / alone.norm().clamp(min=1e-9)).item())
        start += len(ids)
    tolerance = 1e-4 if model.dtype == torch.float32 else 4 * torch.finfo(model.dtype).eps
    if not max(errors) <= tolerance:
        raise InputError(
            f"packing or padding_free: {model.config.model_type} mixes the sequences of a row; "
            f"their log-probabilities are not those alone, by {max(errors):.1%}; leave both out"
        )


def _sequences(row: Mapping[str, Any]) -> list[Sequence[int]]:
    """Return the token ids of each sequence in a row."""
    ids, start, sequences = row["input_ids"], 0, []
    for length in row.get("seq_lengths") or [len(ids)]:
        sequences.append(ids[start : start + length])
        start += length
    return sequences


def _log_probs(model: Any, batch: Mapping[str, Any]) -> torch.Tensor:
    """Return [length - 1] log-probabilities of the tokens of one row, after the first."""
    inputs = {
        name: value.to(model.device) if isinstance(value, torch.Tensor) else value
        for name, value in batch.items()
        if not name.startswith("probe_")
    }
    inputs["labels"] = inputs["input_ids"]
    was_training = model.training
    model.eval()
    try:
        found: torch.Tensor = model(**inputs, use_cache=False, fused_lm_head=True).log_probs
    finally:
        model.train(was_training)
    return found[0].float()
