"""TRL's SFT trainer with useful layer amplification (ULA) and harmful layer suppression (HLS)."""

import copy
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list
from datasets import Dataset
from peft import PeftModel
from trl import SFTConfig, SFTTrainer, pack_dataset

from pragworld_interp.run.loading import load_config
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_json
from pragworld_train.checks import (
    check_adapter,
    check_concatenation,
    check_finite,
    check_losses,
    check_settings,
    check_tokens,
    check_weights,
    leave_out_routers,
    warn_of_repeated_rows,
)
from pragworld_train.layer_losses import LayerLossesMixin
from pragworld_train.layer_settings import LayerSettings
from pragworld_train.model_card import TEMPLATE, add_section, describe_run
from pragworld_train.probe_labels import (
    ProbeLabelCollator,
    RowLabels,
    check_label_column,
    check_labels,
)
from pragworld_train.run_record import RUN_FILE, check_resumable, describe_dataset, make_record

_logger = logging.getLogger(__name__)


@dataclass
class LayerRegularizedSFTConfig(LayerSettings, SFTConfig):
    """The configuration of `LayerRegularizedSFTTrainer`: `trl.SFTConfig` with `LayerSettings`."""


class LayerRegularizedSFTTrainer(LayerLossesMixin, SFTTrainer):
    """Trainer for supervised fine-tuning with layer regularization.

    The training loss is that of `trl.SFTTrainer`, plus `ula_weight` times ULA, plus `hls_weight`
    times HLS, all from one forward pass. The evaluation loss is that of `trl.SFTTrainer`, so it
    can be compared with plain SFT. In addition to TRL's metrics the trainer logs `ula_loss` and
    `probe_accuracy`, or `hls_loss`, for each loss with a weight.

    ```python
    import pragworld_tasks as pt
    from pragworld_train import LayerRegularizedSFTConfig, LayerRegularizedSFTTrainer, to_dataset

    trainer = LayerRegularizedSFTTrainer(
        model="Qwen/Qwen2.5-0.5B-Instruct",
        args=LayerRegularizedSFTConfig(
            useful_layers=[0, 3], harmful_layers=[19], ula_weight=1e-3, hls_weight=1e-3
        ),
        train_dataset=to_dataset(pt.generate(groups=2000, split="train")),
    )
    trainer.train()
    ```

    Args:
        model: The decoder to train: a model, or its name or folder.
        args: The settings.
        *arguments: Other positional arguments of `trl.SFTTrainer`.
        peft_config: The PEFT configuration of the adapter to train, if any. Prompt tuning and
            prefix tuning are not supported.
        data_description: What is known about the training data, for the run file and the model
            card.
        **options: Other keyword arguments of `trl.SFTTrainer`. For ULA, training data must have
            labels: a column `probe_labels`, a column `label`, or completions and turns of the
            assistant that are a class; see `RowLabels`. Some rows may have none, and evaluation
            data needs none.

    Raises:
        InputError: The settings contradict each other, or do not fit the model or the data.
    """

    _tag_names = ["trl", "sft", "layer-regularized"]  # noqa: RUF012
    _name = "layer-regularized SFT"
    _template_file = TEMPLATE

    def __init__(
        self,
        model: Any,
        args: LayerRegularizedSFTConfig,
        *arguments: Any,
        peft_config: Any = None,
        data_description: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._data_description = dict(data_description or {})
        init = args.model_init_kwargs or {}
        source: dict[str, Any] = {
            "revision": init.get("revision"),
            "trust_remote_code": bool(init.get("trust_remote_code", args.trust_remote_code)),
        }
        config = load_config(model, **source) if isinstance(model, str) else model.config
        if args.amplified or args.suppressed:  # before a model is loaded
            check_adapter(peft_config)
            check_settings(args, options.get("compute_loss_func"))
            check_losses(args)
            args.check_model(config)
        if isinstance(model, str):
            check_weights(model, config, source)
        if peft_config is not None:
            peft_config = leave_out_routers(peft_config, config)
        super().__init__(model, args, *arguments, peft_config=peft_config, **options)
        if args.amplified or (args.suppressed and self.padding_free):
            self.data_collator: Any = ProbeLabelCollator(self.data_collator)
        self._try_model()

    def _try_model(self) -> None:
        """Try the model on the data in the first process, and refuse both in all if it fails."""
        refusal = None
        if self.is_world_process_zero():
            warn_of_repeated_rows(self.train_dataset, self.args)
            try:
                check_finite(self.model, "use an intact checkpoint")
                check_tokens(self.train_dataset, self.model)
                if self.padding_free:
                    check_concatenation(self.model, self.train_dataset, self.data_collator)
            except InputError as error:
                refusal = str(error)
        (refusal,) = broadcast_object_list([refusal])
        if refusal:
            raise InputError(refusal)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Compute TRL's loss, on CPUs too without the logits of tokens that have no label."""
        compute_loss = super().compute_loss
        needs_all = return_outputs or self.label_smoother or self.compute_loss_func
        if needs_all or self.args.device.type != "cpu" or self.args.torch_compile:
            return compute_loss(model, inputs, return_outputs, num_items_in_batch)
        following = inputs["labels"][:, 1:]
        is_labelled = following != -100

        def keep_labelled(_: Any, __: Any, output: Any) -> None:
            tokens = output.last_hidden_state[:, -1 - following.shape[1] : -1]
            output.last_hidden_state = tokens[is_labelled][None]

        network = self.model.get_base_model() if isinstance(self.model, PeftModel) else self.model
        with network.base_model.register_forward_hook(keep_labelled):
            inputs = {**inputs, "shift_labels": following[is_labelled][None]}
            return compute_loss(model, inputs, return_outputs, num_items_in_batch)

    def _prepare_dataset(
        self,
        dataset: Any,
        processing_class: Any,
        args: Any,
        packing: bool,
        formatting_func: Any,
        dataset_name: str,
    ) -> Any:
        """Prepare data as TRL does, with the labels of probes where there are useful layers."""
        prepare = super()._prepare_dataset
        if not args.amplified:
            made = prepare(dataset, processing_class, args, packing, formatting_func, dataset_name)
            if isinstance(made, Dataset) and not packing and len(made) < len(dataset):
                _logger.warning(
                    "%s data: %d of %d rows left out, of which max_length leaves only the prompt",
                    *(dataset_name, len(dataset) - len(made), len(dataset)),
                )
            return made
        check_label_column(dataset, args.probe_classes)
        labels = RowLabels(
            self._tokenizer,
            args.probe_classes,
            dataset_name,
            reads_text="input_ids" not in next(iter(dataset)),
            chat_template=self.chat_template,
            max_length=args.max_length,
            truncated=not packing,
        )
        whole = copy.copy(args)  # TRL would leave out the columns that labels are found in
        whole.max_length, whole.shuffle_dataset = None, packing and args.shuffle_dataset
        dataset = prepare(dataset, processing_class, whole, False, formatting_func, dataset_name)
        more = {"num_proc": args.dataset_num_proc} if isinstance(dataset, Dataset) else {}
        dataset = dataset.map(labels, with_indices=True, **more)
        if dataset_name == "train":
            check_labels(dataset, args.probe_classes)
        if not packing:
            return prepare(dataset, processing_class, args, False, None, dataset_name)
        dataset = dataset.select_columns(["input_ids", "labels", "probe_labels"])
        packed = pack_dataset(dataset, args.max_length, args.packing_strategy)
        return packed.shuffle(seed=args.seed) if args.shuffle_dataset else packed

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *arguments: Any, **options: Any
    ) -> Any:
        """Train as TRL does, with the probes in the model.

        Raises:
            InputError: The checkpoint to resume from is of a run with another model, other data,
                or other settings that change the weights; or training diverged.
        """
        output = super().train(resume_from_checkpoint, *arguments, **options)
        check_finite(self.model, "training diverged: lower learning_rate, or use bf16, not fp16")
        return output

    def _check_checkpoint(self, checkpoint: Path) -> None:
        record = self.run_record()
        check_resumable(checkpoint, record)
        if record["data"]["digest"] is None:
            _logger.warning(
                "%s: streamed data have no digest, so it is not known whether they are the same "
                "as before; make sure that they are",
                checkpoint,
            )

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model, its probes and the record of the run."""
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            write_json(Path(output_dir or self.args.output_dir) / RUN_FILE, self.run_record())

    def run_record(self) -> dict[str, Any]:
        """Return what the run is: its model, data, losses, settings, versions and log."""
        data = {**self._data_description, **self._data_digest}
        return make_record(self.args, self.model, data, self.state)

    @cached_property
    def _data_digest(self) -> dict[str, Any]:
        return describe_dataset(self.train_dataset)

    def create_model_card(self, *arguments: Any, **options: Any) -> None:
        """Write TRL's model card, with the losses, layers and data of the run."""
        super().create_model_card(*arguments, **options)
        if self.is_world_process_zero():
            add_section(Path(self.args.output_dir), "Training", describe_run(self.run_record()))
