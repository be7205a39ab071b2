"""What the trainer refuses: what would make a loss or the trained model wrong without a word.

Each check raises `InputError` with what is wrong and what to do.
"""

import copy
import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow.compute as pc
import torch
import transformers
from accelerate.utils import DistributedType
from datasets import Dataset
from torch import nn
from transformers.utils import logging as transformers_logging

from pragworld_interp.run.loading import check_complete, first_line
from pragworld_tasks.errors import InputError

_logger = logging.getLogger(__name__)
# Modules that choose experts, by the parts of their names.
_ROUTERS = r"(.*\.)?(router|gate)(\..*)?"


# Settings -----------------------------------------------------------------------------------------


def check_losses(args: Any) -> None:
    """Refuse arguments of a trainer that would make the losses wrong."""
    distributed = args.distributed_state.distributed_type
    shards = args.deepspeed_plugin is not None or distributed == DistributedType.FSDP
    reentrant = (args.gradient_checkpointing_kwargs or {}).get("use_reentrant")
    _refuse_first(
        {
            "gradient_checkpointing_kwargs use_reentrant: it drops the gradients of what hooks "
            "read inside a layer, and with them both losses; leave it out": reentrant
            and args.gradient_checkpointing,
            "gradient_share_steps: it needs several backward passes, which torch_compile, "
            "activation_offloading, FSDP and DeepSpeed do not allow; leave it out": (
                args.gradient_share_steps
            )
            and (args.torch_compile or getattr(args, "activation_offloading", False) or shards),
            "DeepSpeed ZeRO stage 3: no process has a whole MLP to read; use stage 1 or 2, or "
            "FSDP": args.deepspeed_plugin is not None and args.deepspeed_plugin.zero_stage == 3,
        }
    )


def check_settings(args: Any, compute_loss_func: Any) -> None:
    """Refuse settings of TRL that would make the losses wrong, before a model is loaded."""
    two_passes = "TRL needs a second forward pass for it, and the losses use one; leave it out"
    _refuse_first(
        {
            f"compute_loss_func: {two_passes}": compute_loss_func is not None,
            f"label_smoothing_factor: {two_passes}": args.label_smoothing_factor,
            "packing_strategy wrapped: it separates prompts from their labels; use bfd, the "
            "default": args.packing and args.packing_strategy == "wrapped",
            "packing without max_length: set max_length, to which rows are packed": args.packing
            and args.max_length is None,
            "dataset_kwargs skip_prepare_dataset: the data must be checked before training; leave "
            "it out": (args.dataset_kwargs or {}).get("skip_prepare_dataset"),
        }
    )


def _refuse_first(messages: Mapping[str, Any]) -> None:
    for message, applies in messages.items():
        if applies:
            raise InputError(message)


def check_adapter(peft_config: Any) -> None:
    """Refuse adapters that change the length of a prompt."""
    if peft_config is not None and peft_config.is_prompt_learning:
        raise InputError(
            f"{peft_config.peft_type.value}: it puts tokens before the prompt; use an adapter "
            "inside the model's modules, such as LoRA"
        )


def check_parallelism(accelerator: Any, peft_config: Any, trained_dtype: torch.dtype) -> None:
    """Refuse ways to distribute a model in which a loss or a saved file would be incomplete."""
    parallel = accelerator.parallelism_config
    if parallel is not None and parallel.total_size > parallel.data_parallel_size:
        raise InputError(
            "tensor, context or sequence parallelism splits what the losses are computed from; "
            "use data parallelism, FSDP or DeepSpeed ZeRO stage 1 or 2"
        )
    plugin = getattr(accelerator.state, "fsdp_plugin", None)
    if plugin is None:
        return
    example = "as in examples/accelerate/fsdp.yaml"
    if trained_dtype != torch.float32:
        raise InputError(
            f"FSDP with weights in {str(trained_dtype).removeprefix('torch.')}: probes are in "
            "float32, and it shards one type only; load the model in float32 and train with bf16"
        )
    if plugin.fsdp_version == 1 and peft_config is not None:
        raise InputError(
            f"FSDP 1 with an adapter: it would be saved empty; use fsdp_version 2, {example}"
        )
    kind = str(plugin.state_dict_type).rpartition(".")[2]
    if kind != "FULL_STATE_DICT":
        raise InputError(
            f"fsdp_state_dict_type {kind}: transformers would not save the model, and accelerate "
            f"leaves out the probes of an adapter; use FULL_STATE_DICT, {example}"
        )


# Models and data ----------------------------------------------------------------------------------


def check_weights(name: str, config: Any, source: Mapping[str, Any]) -> None:
    """Check that a checkpoint has all weights of its model, without reading them.

    Args:
        name: The model on the hub, or its folder.
        config: Its configuration. A quantized checkpoint is not checked.
        source: Its revision, and whether its own code is trusted.
    """
    if hasattr(config, "quantization_config"):
        return
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


def leave_out_routers(peft_config: Any, config: Any) -> Any:
    """Return a PEFT configuration without the routers of experts, if it is for all linear layers.

    An adapter there changes which experts a token visits. To train one, name `target_modules`.
    """
    named = config.get_text_config().to_dict().items()
    has_experts = any(value and "expert" in name for name, value in named)
    is_for_all = getattr(peft_config, "target_modules", None) == "all-linear"
    if not (has_experts and is_for_all) or peft_config.exclude_modules:
        return peft_config
    _logger.warning(
        "%s: the adapter leaves out the routers of experts; name target_modules to train them",
        peft_config.peft_type.value,
    )
    without = copy.copy(peft_config)
    without.exclude_modules = _ROUTERS
    return without


def check_finite(model: nn.Module, remedy: str) -> None:
    """Refuse a model with weights that are not numbers, of which training would leave nothing."""
    for name, weight in model.named_parameters():
        local = weight.to_local() if hasattr(weight, "to_local") else weight.data
        is_plain = local.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        if is_plain and not local.is_meta and not local.isfinite().all():
            raise InputError(f"model: weight {name} holds NaN or infinity; {remedy}")


def check_tokens(dataset: Any, model: Any) -> None:
    """Refuse tokenized data with tokens that a model has no embedding for."""
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
