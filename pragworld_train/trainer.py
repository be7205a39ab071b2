"""TRL's SFT trainer with useful layer amplification (ULA) and harmful layer suppression (HLS).

While the model is trained, evaluated or saved, and only then, its MLPs have hooks and the probes
of useful layers are a submodule of it, so that the optimizer, distributed training, mixed precision
and checkpoints treat them like its other weights. They are saved to a file of their own, never as
a part of the model.
"""

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import PreTrainedModel, TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import TrainOutput, get_last_checkpoint
from trl import SFTTrainer, pack_dataset
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from pragworld_interp.engine.decoder import find_blocks
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_json
from pragworld_train.checks import (
    check_adapter,
    check_parallelism,
    check_settings,
)
from pragworld_train.config import LayerRegularizedSFTConfig, check_model
from pragworld_train.gradient_shares import GradientShares
from pragworld_train.hooks import MlpReader, find_positions, token_mask
from pragworld_train.losses import LabelProbe, ula_loss
from pragworld_train.model_card import TEMPLATE, add_section, describe_run
from pragworld_train.probe_labels import (
    ProbeLabelCollator,
    RowOptions,
    count_labels,
    label_rows,
)
from pragworld_train.probes import (
    PROBES_MODULE,
    give_learning_rate,
    new_probes,
    read_probe_weights,
    write_probes,
)
from pragworld_train.run_record import (
    RUN_FILE,
    check_resumable,
    describe_dataset,
    make_record,
)

_logger = logging.getLogger(__name__)


class LayerRegularizedSFTTrainer(SFTTrainer):
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
        compute_loss_func: Not supported together with ULA or HLS.
        **options: Other keyword arguments of `trl.SFTTrainer`. For ULA, training data must have
            labels: a column `probe_labels`, or text in which `add_probe_labels` finds them. Some
            rows may have none, and evaluation data needs none.

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
        compute_loss_func: Any = None,
        data_description: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.data_collator: Any = None
        self._signature_columns: list[str] | None = None
        self._reader: MlpReader | None = None
        self._data_description = dict(data_description or {})
        self._attached_now = False
        self._probes_have_own_rate = False
        self._probes = nn.ModuleDict()
        # Rows of `_record`: in training one for each step, in evaluation one for all batches.
        self._sums: dict[str, list[Tensor]] = {"train": [], "eval": []}
        self._totals: tuple[Tensor, Tensor] | None = None
        self._shares: GradientShares | None = None  # while a step is measured
        self._unmeasured = 0  # micro-batches of that step
        self._regularized = bool(args.amplified or args.suppressed)
        if self._regularized:
            check_settings(args, peft_config, compute_loss_func)
            # With other keyword arguments alone, transformers would choose the reentrant kind.
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
        """Make the probes, and a reader of the model's MLPs."""
        peft_config = getattr(self.model, "active_peft_config", None)
        check_adapter(peft_config)
        trained = next(weight for weight in self.model.parameters() if weight.requires_grad)
        check_parallelism(self.accelerator, peft_config, trained.dtype)
        if self.args.amplified and self.optimizer is not None:
            raise InputError(
                "optimizers: it lacks the weights of the probes; use optim or "
                "optimizer_cls_and_kwargs"
            )
        network = self.model if peft_config is None else self.model.get_base_model()
        was_training = network.training
        network.eval()
        blocks = find_blocks(network)
        network.train(was_training)
        self.args.check_layer_count(len(blocks))
        probes = new_probes(
            self.args.amplified,
            network.config.get_text_config().hidden_size,
            self.args.probe_hidden_size,
            len(self.args.probe_classes),
            self.args.seed,
        )
        self._bare_model = self.model  # later, `model` may be wrapped
        self._probes = nn.ModuleDict({str(layer): probe for layer, probe in probes.items()})
        self._probes.to(trained.device)
        self._reader = MlpReader(
            self.model,
            blocks,
            probes,
            self.args.suppressed,
            self.args.hls_reduction,
        )
        collator = self.data_collator
        is_of_trl = isinstance(collator, DataCollatorForLanguageModeling)
        if probes or (is_of_trl and collator.padding_free):
            self.data_collator = ProbeLabelCollator(self.data_collator)

    @property
    def probes(self) -> dict[int, LabelProbe]:
        """The probes by layer."""
        return {
            int(layer): probe
            for layer, probe in self._probes.items()
            if isinstance(probe, LabelProbe)
        }

    # Probes and hooks, which the model has only while they are needed -----------------------------

    @contextmanager
    def _attached(self) -> Iterator[None]:
        """Have the probes in the model and hooks on its MLPs, and remove both whatever happens."""
        if self._reader is None or self._attached_now:
            yield
            return
        model, self._attached_now = self._bare_model, True
        kept_out = getattr(model, "_keys_to_ignore_on_save", None)
        try:
            with self._reader.attached():
                if self._probes:
                    model.add_module(PROBES_MODULE, self._probes)
                if isinstance(model, PreTrainedModel):  # PEFT saves nothing but adapters
                    names = {
                        f"{PROBES_MODULE}.{name}" for name, _ in self._probes.named_parameters()
                    }
                    model._keys_to_ignore_on_save = {*(kept_out or ()), *names}
                yield
        finally:
            self._attached_now = False
            model._modules.pop(PROBES_MODULE, None)
            if isinstance(model, PreTrainedModel):
                model._keys_to_ignore_on_save = kept_out

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *arguments: Any, **options: Any
    ) -> Any:
        """Train as TRL does, with the probes in the model.

        Raises:
            InputError: The checkpoint to resume from is of a run with another model, other data,
                or other settings that change the weights.
        """
        checkpoint = resume_from_checkpoint
        if checkpoint is True:
            checkpoint = get_last_checkpoint(self.args.output_dir)
        if checkpoint:
            record = self.run_record()
            check_resumable(Path(checkpoint), record)
            if record["data"]["digest"] is None:
                _logger.warning(
                    "%s: streamed data have no digest, so it is not known whether they are the "
                    "same as before; make sure that they are",
                    checkpoint,
                )
        with self._attached():
            if checkpoint and not (self.is_fsdp_enabled or self.is_deepspeed_enabled):
                state = TrainerState.load_from_json(str(Path(checkpoint) / TRAINER_STATE_NAME))
                if state.global_step >= state.max_steps:
                    return self._load_finished(checkpoint, state)
            return super().train(resume_from_checkpoint, *arguments, **options)

    def _load_finished(self, checkpoint: str, state: TrainerState) -> TrainOutput:
        """Load a run that has no steps left; transformers would train one more."""
        self.state = state
        self._load_from_checkpoint(checkpoint)
        if self.args.load_best_model_at_end and state.best_model_checkpoint:
            self._load_best_model()
        return TrainOutput(state.global_step, 0.0, {})

    def evaluate(self, *arguments: Any, **options: Any) -> Any:
        """Evaluate as TRL does, with the probes in the model."""
        self._sums["eval"].clear()
        with self._attached():
            return super().evaluate(*arguments, **options)

    def predict(self, *arguments: Any, **options: Any) -> Any:
        """Predict as TRL does, with the probes in the model."""
        with self._attached():
            return super().predict(*arguments, **options)

    def create_optimizer(self, *arguments: Any, **options: Any) -> Any:
        """Create the optimizer of the model and its probes."""
        with self._attached():
            optimizer = super().create_optimizer(*arguments, **options)
        rate = self.args.probe_learning_rate
        if rate is not None and not self._probes_have_own_rate:
            give_learning_rate(optimizer, self._probes.parameters(), rate)
            self._probes_have_own_rate = True
        return optimizer

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
        if formatting_func is not None:
            raise InputError("formatting_func: it hides the labels from probes; format rows before")
        options = RowOptions(
            self.completion_only_loss,
            args.assistant_only_loss,
            self.chat_template,
            args.max_length,
            truncated=not packing,
        )
        dataset = label_rows(
            dataset,
            self._tokenizer,
            args.probe_classes,
            options,
            dataset_name,
            args.dataset_num_proc,
        )
        if dataset_name == "train":
            _check_labels(dataset, args.probe_classes)
        if not packing:
            return prepare(dataset, processing_class, args, False, None, dataset_name)
        # TRL's own packing would drop the column.
        whole = copy.copy(args)
        whole.max_length = None
        dataset = prepare(dataset, processing_class, whole, False, None, dataset_name)
        dataset = dataset.select_columns(["input_ids", "labels", "probe_labels"])
        packed = pack_dataset(dataset, args.max_length, args.packing_strategy)
        return packed.shuffle(seed=args.seed) if args.shuffle_dataset else packed

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        columns = self._signature_columns or []
        self._signature_columns = [*dict.fromkeys([*columns, "probe_labels"])]

    # Loss -----------------------------------------------------------------------------------------

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """Return the batches of a step, and count the examples and tokens in all of them."""
        batches, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        if self._reader is not None and batches:
            counts = torch.stack([self._counts(batch) for batch in batches]).sum(0)
            examples, tokens = self._over_processes(counts.to(device))
            self._totals = examples, tokens
            self._sums["train"].append(torch.zeros(5, device=device))
            self._shares, every = None, self.args.gradient_share_steps
            if every and self.state.global_step % every == 0:
                trained = [weight for weight in self.model.parameters() if weight.requires_grad]
                own = {id(weight) for weight in self._probes.parameters()}
                self._shares = GradientShares(
                    [weight for weight in trained if id(weight) not in own]
                )
                self._unmeasured = len(batches)
        return batches, items

    def training_step(self, *arguments: Any, **options: Any) -> Any:
        """Compute a loss and its gradient as TRL does, then stop reading the model."""
        try:
            return super().training_step(*arguments, **options)
        finally:
            if self._reader is not None:
                self._reader.stop()

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Return TRL's loss, and in training add ULA and HLS."""
        if self._reader is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        training = self.model.training
        counts = self._counts(inputs)
        examples, tokens = counts if self._totals is None or not training else self._totals
        positions = find_positions(inputs, tokens)
        inputs = {name: inputs[name] for name in inputs if not name.startswith("probe_")}
        self._reader.start(positions)
        result = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        logits, suppressed = self._reader.readings()
        losses: dict[str, Tensor] = {}
        if logits is not None:
            losses["ula_loss"] = ula_loss(logits, positions.labels, examples)
        if suppressed is not None:
            losses["hls_loss"] = suppressed.mean()
        self._record(losses, logits, positions.labels, counts, (examples, tokens))
        if not training:
            self._reader.stop()
            return result
        weights = {"ula_loss": self.args.ula_weight, "hls_loss": self.args.hls_weight}
        # These losses are shares of those of the whole batch, to be summed up. Gradients, however,
        # are averaged over processes, and without `num_items_in_batch` over accumulation steps.
        scale = self.accelerator.num_processes
        if num_items_in_batch is None:
            scale *= self.current_gradient_accumulation_steps
        terms = {name: scale * weights[name] * loss for name, loss in losses.items()}
        if self._shares is not None:
            self._measure_shares(result[0] if return_outputs else result, terms)
        added = sum(terms.values())
        if return_outputs:
            return result[0] + added, result[1]
        return result + added

    def _measure_shares(self, cross_entropy: Tensor, terms: Mapping[str, Tensor]) -> None:
        """Add a micro-batch to the gradients of the step, and log their shares with the last."""
        assert self._shares is not None
        self._shares.add(cross_entropy, terms)
        self._unmeasured -= 1
        if not self._unmeasured:
            for name, share in self._shares.shares(self.accelerator).items():
                key = name.replace("_loss", "_gradient_share")
                self._metrics["train"][key].append(share)
            self._shares = None

    def _counts(self, batch: Mapping[str, Any]) -> Tensor:
        """Return [2], the number of examples and the number of tokens in a batch."""
        tokens = token_mask(batch).sum()
        examples = len(batch["probe_positions"]) if "probe_positions" in batch else 0
        return torch.stack([torch.full_like(tokens, examples), tokens])

    def _over_processes(self, counts: Tensor) -> Tensor:
        sums: Tensor = self.accelerator.gather(counts[None]).sum(0)
        return sums

    def _record(
        self,
        losses: Mapping[str, Tensor],
        logits: Tensor | None,
        labels: Tensor,
        counts: Tensor,
        totals: tuple[Tensor, Tensor],
    ) -> None:
        """Add sums of this pass over all processes to those that `log` divides.

        They are those of ULA and of right answers over examples and of HLS over tokens, and the
        numbers of examples and tokens.
        """
        sums = torch.zeros(3, device=labels.device)
        if logits is not None:
            right = (logits.argmax(-1) == labels).float().mean(0).sum()
            sums[:2] = torch.stack([losses["ula_loss"].detach() * totals[0], right])
        if "hls_loss" in losses:
            sums[2] = losses["hls_loss"].detach() * totals[1]
        rows = self._sums["train" if self.model.training else "eval"]
        if not rows:
            rows.append(torch.zeros(5, device=labels.device))
        rows[-1] += self._over_processes(torch.cat([sums, counts]))

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, with each loss of whole steps, or of all data evaluated."""
        mode = "train" if self.model.training else "eval"
        metrics = self._metrics[mode]
        for row in self._sums[mode]:
            ula, right, hls, examples, tokens = row.tolist()
            if self._probes and examples:
                metrics["ula_loss"].append(ula / examples)
                metrics["probe_accuracy"].append(right / examples)
            if self.args.suppressed and tokens:
                metrics["hls_loss"].append(hls / tokens)
        self._sums[mode].clear()
        super().log(logs, start_time)

    # Files ----------------------------------------------------------------------------------------

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model, its probes and the record of the run."""
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        with self._attached():  # what is sharded is collected from all processes, probes included
            # Where FSDP keeps sharded states, transformers saves no model that could be loaded.
            if "SHARDED" in str(getattr(plugin, "state_dict_type", None)):
                self._save(output_dir, self.accelerator.get_state_dict(self.model))
                if self.args.push_to_hub and not _internal_call:
                    self.push_to_hub(commit_message="Model save", revision=self.args.hub_revision)
            else:
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

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save the model without its probes, and the probes to their own file."""
        if self._probes:
            prefix = f"{PROBES_MODULE}."
            if state_dict is None:
                probes = self._probes.state_dict()
            else:  # collected from all processes
                probes = {
                    name.removeprefix(prefix): state_dict.pop(name)
                    for name in [*state_dict]
                    if name.startswith(prefix)
                }
            if self.args.should_save:
                folder = Path(output_dir or self.args.output_dir)
                folder.mkdir(parents=True, exist_ok=True)
                write_probes(probes, self.args.probe_classes, folder)
        super()._save(output_dir, state_dict)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        self._load_probes(Path(resume_from_checkpoint))

    def _load_best_model(self) -> None:
        super()._load_best_model()
        self._load_probes(Path(self.state.best_model_checkpoint))

    def _load_probes(self, folder: Path) -> None:
        # FSDP and DeepSpeed restore the probes together with the other weights that they shard.
        if self.probes and not (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            self._probes.load_state_dict(read_probe_weights(folder))

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        missing = [name for name in load_result.missing_keys if not name.startswith(PROBES_MODULE)]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))


def _check_labels(dataset: Any, classes: Sequence[str]) -> None:
    """Refuse training data without a label, and say how many rows have one."""
    if not isinstance(dataset, Dataset):
        return  # streamed
    labelled, rows = count_labels(dataset)
    if not labelled:
        raise InputError(
            f"train data: no row has a label among {', '.join(classes)}; set probe_classes, or add "
            "the column probe_labels or label"
        )
    if labelled < rows:
        _logger.warning("train data: %d of %d rows have a label for probes", labelled, rows)
