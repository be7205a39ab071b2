"""What the trainer refuses, because a loss would be wrong or could not be computed."""

from collections.abc import Mapping
from typing import Any

import torch
from accelerate.utils import DistributedType

from pragworld_tasks.errors import InputError
from pragworld_train.config import LayerRegularizedSFTConfig


def check_losses(args: Any) -> None:
    """Refuse arguments of a trainer that would make the losses wrong.

    Raises:
        InputError: There is such an argument.
    """
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


def check_settings(args: LayerRegularizedSFTConfig, compute_loss_func: Any) -> None:
    """Refuse settings of TRL that would make the losses wrong, before a model is loaded.

    Raises:
        InputError: There is such a setting.
    """
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
    """Refuse adapters that change the length of a prompt.

    Raises:
        InputError: The adapter is of that kind.
    """
    if peft_config is not None and peft_config.is_prompt_learning:
        raise InputError(
            f"{peft_config.peft_type.value}: it puts tokens before the prompt; use an adapter "
            "inside the model's modules, such as LoRA"
        )


def check_parallelism(accelerator: Any, peft_config: Any, dtype: torch.dtype) -> None:
    """Refuse ways to distribute a model in which a loss or a saved file would be incomplete.

    Args:
        accelerator: The accelerator.
        peft_config: The adapter's configuration, if there is one.
        dtype: Type of the trained weights.

    Raises:
        InputError: Training is distributed in such a way.
    """
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
    if dtype != torch.float32:
        raise InputError(
            f"FSDP with weights in {str(dtype).removeprefix('torch.')}: probes are in float32, and "
            "it shards one type only; load the model in float32 and train with bf16"
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
