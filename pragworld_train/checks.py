"""What the trainer refuses, because a loss would be wrong or could not be computed."""

from typing import Any

from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from pragworld_tasks.errors import InputError
from pragworld_train.config import LayerRegularizedSFTConfig

_YES = (" yes", "yes", " Yes", "Yes")
_NO = (" no", "no", " No", "No")


def check_settings(
    args: LayerRegularizedSFTConfig, peft_config: Any, compute_loss_func: Any
) -> None:
    """Refuse settings that would make the losses wrong, before a model is loaded.

    Raises:
        InputError: There is such a setting.
    """
    check_adapter(peft_config)
    reentrant = (args.gradient_checkpointing_kwargs or {}).get("use_reentrant")
    two_passes = "TRL needs a second forward pass for it, and the losses use one; leave it out"
    refused = {
        "gradient_checkpointing_kwargs use_reentrant: it drops the gradients of what hooks read "
        "inside a layer, and with them both losses; leave it out": args.gradient_checkpointing
        and reentrant,
        f"compute_loss_func: {two_passes}": compute_loss_func is not None,
        f"label_smoothing_factor: {two_passes}": args.label_smoothing_factor,
        "packing_strategy wrapped: it separates prompts from their labels; use bfd, the "
        "default": args.packing and args.packing_strategy == "wrapped",
        "dataset_kwargs skip_prepare_dataset: the data must be checked before training; leave it "
        "out": (args.dataset_kwargs or {}).get("skip_prepare_dataset"),
        "DeepSpeed ZeRO stage 3: no process has a whole MLP to read; use stage 1 or 2, or "
        "FSDP": args.deepspeed_plugin is not None and args.deepspeed_plugin.zero_stage == 3,
    }
    for message, applies in refused.items():
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


def check_parallelism(accelerator: Any, peft_config: Any) -> None:
    """Refuse ways to distribute a model in which a loss or a saved file would be incomplete.

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
    if "FULL" not in str(plugin.state_dict_type):
        raise InputError(
            "fsdp_state_dict_type SHARDED_STATE_DICT: neither the model nor its probes would be "
            f"saved; use FULL_STATE_DICT, {example}"
        )
    if plugin.fsdp_version == 1 and peft_config is not None:
        raise InputError(
            f"FSDP 1 with an adapter: it would be saved empty; use fsdp_version 2, {example}"
        )


def check_examples(
    dataset: Dataset, name: str, labels: set[int], max_length: int | None, ula: bool
) -> None:
    """Refuse examples that TRL would truncate, and for ULA those without exactly one label.

    Args:
        dataset: Tokenized examples, neither truncated nor packed.
        name: What to call the data in messages: "train" or "eval".
        labels: Ids of the tokens that say yes or no.
        max_length: Of an example, in tokens; None if there is no limit.
        ula: Whether useful layers are amplified.

    Raises:
        InputError: There is such an example; the message names its row.
    """
    for row, example in enumerate(dataset.select_columns(["input_ids", "labels"])):
        length = len(example["input_ids"])
        if max_length is not None and length > max_length:
            raise InputError(
                f"{name} data, row {row}: {length} tokens, and max_length is {max_length}; the "
                "question would be truncated, so increase max_length"
            )
        count = sum(token in labels for token in example["labels"])
        if ula and count != 1:
            raise InputError(
                f"{name} data, row {row}: {count} tokens that say yes or no in the completion; ULA "
                "needs exactly one, as in ' yes'"
            )


def label_ids(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Return the ids of the tokens that say yes, and of those that say no.

    Raises:
        InputError: The tokenizer has no such tokens.
    """
    ids = []
    for spellings in (_YES, _NO):
        tokens = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in spellings]
        single = {token[0] for token in tokens if len(token) == 1}
        ids.append(sorted(single - {tokenizer.unk_token_id}))
    if not all(ids):
        raise InputError(
            f"tokenizer {tokenizer.name_or_path}: yes and no must each be a single token, with or "
            "without a leading space; use another model"
        )
    return ids[0], ids[1]
