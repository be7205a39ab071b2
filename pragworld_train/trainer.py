"""TRL's SFT trainer with two losses more, from the one forward pass that it makes anyway.

    trainer = LayerRegularizedSFTTrainer(
        model="Qwen/Qwen2.5-0.5B-Instruct",
        args=LayerRegularizedSFTConfig(
            layers="runs/qwen/layers.json", ula_weight=1e-3, hls_weight=1e-3
        ),
        train_dataset=dataset,  # as `pragworld_train.data.to_dataset` makes it
    )

The probes of useful layers are a part of the model while it trains, so that the optimizer, several
processes, mixed precision and checkpoints treat them as they treat its weights. They are written
beside a model and never into it.
"""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase
from trl import SFTTrainer

from pragworld_interp.decoder import find_blocks
from pragworld_tasks.errors import InputError
from pragworld_train.config import LayerRegularizedSFTConfig, check_layers, check_model
from pragworld_train.hooks import MlpReader, places, token_mask
from pragworld_train.losses import LabelProbe, ula_loss
from pragworld_train.probes import new_probes, read_weights, write_probes

_PROBES = "label_probes"  # the name of the model's part that they are
_YES = (" yes", "yes", " Yes", "Yes")
_NO = (" no", "no", " No", "No")


class LayerRegularizedSFTTrainer(SFTTrainer):
    """Trainer for supervised fine-tuning with layer regularisation (ULA and HLS).

    Takes what [`~trl.SFTTrainer`] takes. In training the loss is what TRL computes, plus
    `ula_weight` times ULA plus `hls_weight` times HLS; in evaluation it is what TRL computes,
    comparable with plain SFT. Beside TRL's metrics it logs `ula_loss`, `probe_accuracy` and
    `hls_loss`, for those with a weight.

    Every example must hold exactly one token among those trained on that says yes or no.
    """

    _tag_names = ("trl", "sft", "layer-regularized")
    _name = "Layer-regularized SFT"

    def __init__(
        self,
        model: Any,
        args: LayerRegularizedSFTConfig,
        *arguments: Any,
        peft_config: Any = None,
        compute_loss_func: Any = None,
        **options: Any,
    ) -> None:
        """Takes the arguments of `SFTTrainer`.

        Raises:
            InputError: the settings do not go together, or not with the model or the data.
        """
        self._reader: MlpReader | None = None
        self._totals: tuple[Tensor, Tensor] | None = None
        self._regularized = bool(args.amplified or args.suppressed)
        if self._regularized:
            _check_settings(args, peft_config, compute_loss_func)
            # Told anything else, transformers takes the reentrant kind, which is refused.
            (args.gradient_checkpointing_kwargs or {}).setdefault("use_reentrant", False)
            check_model(args, model)
        super().__init__(
            model,
            args,
            *arguments,
            peft_config=peft_config,
            compute_loss_func=compute_loss_func,
            **options,
        )
        if self._regularized:
            self._regularize()

    def _regularize(self) -> None:
        """Gives the model probes, and hooks that read its MLPs."""
        parallel = self.accelerator.parallelism_config
        if parallel is not None and parallel.total_size > parallel.data_parallel_size:
            raise InputError(
                "tensor, context or sequence parallelism splits what the losses are computed from; "
                "take data parallelism, FSDP or DeepSpeed ZeRO stage 1 or 2"
            )
        peft_config = getattr(self.model, "active_peft_config", None)
        _check_adapter(peft_config)
        _check_sharding(getattr(self.accelerator.state, "fsdp_plugin", None), peft_config)
        network = self.model if peft_config is None else self.model.get_base_model()
        was_training = network.training
        network.eval()
        blocks = find_blocks(network)
        network.train(was_training)
        check_layers(self.args, len(blocks))
        trained = next(one for one in self.model.parameters() if one.requires_grad)
        probes = new_probes(
            self.args.amplified,
            network.config.get_text_config().hidden_size,
            self.args.probe_hidden_size,
            self.args.seed,
            trained.dtype,
        )
        if probes:
            part = nn.ModuleDict({str(layer): probe for layer, probe in probes.items()})
            self.model.add_module(_PROBES, part.to(trained.device))
        self._reader = MlpReader(
            self.model,
            [block.mlp for block in blocks],
            probes,
            self.args.suppressed,
            self.args.hls_reduction,
        )

    @property
    def probes(self) -> dict[int, LabelProbe]:
        """The probes, by the number of their layer."""
        part = getattr(self.model, _PROBES, {})
        return {int(layer): probe for layer, probe in part.items()}

    # Data -----------------------------------------------------------------------------------------

    def _prepare_dataset(
        self,
        dataset: Any,
        processing_class: Any,
        args: Any,
        packing: bool,
        formatting_func: Any,
        dataset_name: str,
    ) -> Any:
        """TRL's preparation, with a look at what is in it before anything is cut or packed."""
        if not self._regularized:
            return super()._prepare_dataset(
                dataset, processing_class, args, packing, formatting_func, dataset_name
            )
        if not isinstance(dataset, Dataset):
            raise InputError(
                f"{dataset_name} data: streamed, so that it cannot be checked before training; "
                "take a `datasets.Dataset`"
            )
        whole = copy.copy(args)
        whole.max_length, whole.shuffle_dataset = None, False
        dataset = super()._prepare_dataset(
            dataset, processing_class, whole, False, formatting_func, dataset_name
        )
        yes, no = _label_ids(self._tokenizer)
        _check_examples(dataset, dataset_name, {*yes, *no}, args.max_length, bool(args.amplified))
        self._yes, self._no = torch.tensor(yes), torch.tensor(no)
        return super()._prepare_dataset(
            dataset, processing_class, args, packing, formatting_func, dataset_name
        )

    # Loss -----------------------------------------------------------------------------------------

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """The batches of one step. How many examples and tokens they have is counted here."""
        batches, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        if self._reader is not None and batches:
            counts = torch.stack([self._counts(batch) for batch in batches]).sum(0)
            examples, tokens = self._over_processes(counts.to(device))
            self._totals = examples, tokens
        return batches, items

    def training_step(self, *arguments: Any, **options: Any) -> Any:
        """TRL's step: a pass and its gradient."""
        try:
            return super().training_step(*arguments, **options)
        finally:
            if self._reader is not None:
                self._reader.forget()

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """TRL's loss, and in training the two of the layers besides."""
        if self._reader is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        training = self.model.training
        where = places(inputs, self._yes, self._no)
        here = self._counts(inputs)
        examples, tokens = here if self._totals is None or not training else self._totals
        self._reader.listen(where, tokens)
        result = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        reading = self._reader.take()
        losses: dict[str, Tensor] = {}
        if reading.logits is not None:
            losses["ula_loss"] = ula_loss(reading.logits, where.labels, examples)
        if reading.suppressed is not None:
            losses["hls_loss"] = reading.suppressed.mean()
        self._record(losses, reading.logits, where.labels, here, (examples, tokens))
        if not training:
            self._reader.forget()
            return result
        weights = {"ula_loss": self.args.ula_weight, "hls_loss": self.args.hls_weight}
        added = sum(weights[name] * loss for name, loss in losses.items())
        # The losses are shares of those of the whole batch. What is done to them on their way to
        # the weights, a mean over processes and one over steps of accumulation, is undone here.
        added = added * self.accelerator.num_processes
        if num_items_in_batch is None:
            added = added * self.current_gradient_accumulation_steps
        if return_outputs:
            return result[0] + added, result[1]
        return result + added

    def _counts(self, batch: Mapping[str, Any]) -> Tensor:
        """[2] how many examples and how many tokens a batch has."""
        targets = batch["labels"]
        labels = torch.cat([self._yes, self._no]).to(targets.device)
        return torch.stack([torch.isin(targets, labels).sum(), token_mask(batch).sum()])

    def _over_processes(self, counts: Tensor) -> Tensor:
        sums: Tensor = self.accelerator.gather(counts[None]).sum(0)
        return sums

    def _record(
        self,
        losses: Mapping[str, Tensor],
        logits: Tensor | None,
        labels: Tensor,
        here: Tensor,
        totals: tuple[Tensor, Tensor],
    ) -> None:
        """Keeps the metrics of this pass, means over all processes, for TRL's log."""
        sums = torch.zeros(3, device=labels.device)
        if logits is not None:
            right = (logits.argmax(-1) == labels).float().mean(0).sum()
            sums[:2] = torch.stack([losses["ula_loss"].detach() * totals[0], right])
        if "hls_loss" in losses:
            sums[2] = losses["hls_loss"].detach() * totals[1]
        ula, right, hls, examples, tokens = self._over_processes(torch.cat([sums, here])).tolist()
        metrics = self._metrics["train" if self.model.training else "eval"]
        if logits is not None and examples:
            metrics["ula_loss"].append(ula / examples)
            metrics["probe_accuracy"].append(right / examples)
        if "hls_loss" in losses:
            metrics["hls_loss"].append(hls / tokens)

    # Files ----------------------------------------------------------------------------------------

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Writes the model without the probes, and these beside it."""
        if self.probes:
            weights = self.model.state_dict() if state_dict is None else state_dict
            prefix = f"{_PROBES}."
            own = {name: weights[name] for name in weights if name.startswith(prefix)}
            state_dict = {name: weights[name] for name in weights if name not in own}
            if self.args.should_save:
                folder = Path(output_dir or self.args.output_dir)
                folder.mkdir(parents=True, exist_ok=True)
                write_probes(
                    {name.removeprefix(prefix): weight for name, weight in own.items()}, folder
                )
        super()._save(output_dir, state_dict)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        self._load_probes(Path(resume_from_checkpoint))

    def _load_best_model(self) -> None:
        super()._load_best_model()
        self._load_probes(Path(self.state.best_model_checkpoint))

    def _load_probes(self, folder: Path) -> None:
        # What shards weights between processes has shards of the probes among them.
        if self.probes and not (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            getattr(self.model, _PROBES).load_state_dict(read_weights(folder))

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        missing = [name for name in load_result.missing_keys if not name.startswith(_PROBES)]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))


# What is refused ----------------------------------------------------------------------------------


def _check_settings(
    args: LayerRegularizedSFTConfig, peft_config: Any, compute_loss_func: Any
) -> None:
    """Refuses what would make the losses wrong, before there is a model."""
    _check_adapter(peft_config)
    if args.gradient_checkpointing and (args.gradient_checkpointing_kwargs or {}).get(
        "use_reentrant"
    ):
        raise InputError(
            "gradient_checkpointing_kwargs use_reentrant: it drops the gradient of what is read "
            "inside a layer, and with it both losses; leave it out"
        )
    if compute_loss_func is not None or args.label_smoothing_factor:
        given = "compute_loss_func" if compute_loss_func is not None else "label_smoothing_factor"
        raise InputError(
            f"{given}: TRL runs the model twice for it, and the losses are of one pass; leave it "
            "out"
        )
    if args.packing and args.packing_strategy == "wrapped":
        raise InputError(
            "packing_strategy wrapped: it cuts prompts from their labels; take bfd, the default"
        )
    if (args.dataset_kwargs or {}).get("skip_prepare_dataset"):
        raise InputError(
            "dataset_kwargs skip_prepare_dataset: the data would not be checked; leave it out"
        )
    if args.deepspeed_plugin is not None and args.deepspeed_plugin.zero_stage == 3:
        raise InputError(
            "DeepSpeed ZeRO stage 3: no process has a whole layer whose MLP could be found; take "
            "stage 1 or 2, or FSDP"
        )


def _check_adapter(peft_config: Any) -> None:
    if peft_config is not None and peft_config.is_prompt_learning:
        raise InputError(
            f"{peft_config.peft_type.value}: it puts tokens before the prompt; take an adapter in "
            "the model's own modules, as LoRA"
        )


def _check_sharding(plugin: Any, peft_config: Any) -> None:
    """Refuses what FSDP would write without the probes, or empty."""
    if plugin is None:
        return
    if "FULL" not in str(plugin.state_dict_type):
        raise InputError(
            "fsdp_state_dict_type SHARDED_STATE_DICT: neither the model nor its probes would be "
            "written; take FULL_STATE_DICT, as examples/accelerate/fsdp.yaml has it"
        )
    if plugin.fsdp_version == 1 and peft_config is not None:
        raise InputError(
            "FSDP 1 with an adapter: it would be written empty; take fsdp_version 2, as "
            "examples/accelerate/fsdp.yaml has it"
        )


def _check_examples(
    dataset: Dataset, name: str, labels: set[int], max_length: int | None, ula: bool
) -> None:
    """Refuses examples that would be cut, and those without one label."""
    columns = dataset.select_columns(["input_ids", "labels"])
    for row, example in enumerate(columns):
        length = len(example["input_ids"])
        if max_length is not None and length > max_length:
            raise InputError(
                f"{name} data, row {row}: {length} tokens, and max_length is {max_length}; the "
                "question would be cut off, so take a larger one"
            )
        found = sum(token in labels for token in example["labels"])
        if ula and found != 1:
            raise InputError(
                f"{name} data, row {row}: {found} tokens that say yes or no among those trained "
                "on; ULA needs one, as in the completion ' yes'"
            )


def _label_ids(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The ids of tokens that say yes, and of those that say no.

    Raises:
        InputError: there are none.
    """
    found = []
    for words in (_YES, _NO):
        ids = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
        unknown = tokenizer.unk_token_id
        found.append(sorted({each[0] for each in ids if len(each) == 1 and each[0] != unknown}))
    if not (found[0] and found[1]):
        raise InputError(
            f"tokenizer {tokenizer.name_or_path}: neither ' yes' and ' no' nor 'yes' and 'no' are "
            "one token"
        )
    return found[0], found[1]
