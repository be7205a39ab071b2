"""Useful layer amplification (ULA) and harmful layer suppression (HLS) for any trainer.

While the model is trained, evaluated or saved, and only then, its MLPs have hooks and the probes
of useful layers are a submodule of it, so that the optimizer, distributed training, mixed precision
and checkpoints treat them like its other weights. They are saved to a file of their own, never as
a part of the model.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import TrainOutput, get_last_checkpoint

from pragworld_interp.engine.decoder import find_blocks
from pragworld_tasks.errors import InputError
from pragworld_train.checks import check_adapter, check_losses, check_parallelism
from pragworld_train.hooks import MlpReader, find_positions, token_mask
from pragworld_train.losses import LabelProbe, gradient_shares, ula_loss
from pragworld_train.probes import PROBES_MODULE, new_probes, read_probe_weights, write_probes

_Base: Any = object  # a trainer, once it is mixed in


class LayerLossesMixin(_Base):  # type: ignore[misc]
    """Adds ULA and HLS to the training loss of a trainer, all from its one forward pass.

    Put it before a `transformers.Trainer`, or a trainer that inherits from it, and `LayerSettings`
    before its arguments. The trainer's `compute_loss` must run the model once. For ULA, batches
    need `probe_labels`, which `ProbeLabelCollator` pads. The evaluation loss stays that of the
    trainer; the losses and the accuracy of the probes are logged in training and in evaluation.

    Args:
        model: The decoder to train.
        args: The trainer's arguments, with the fields of `LayerSettings`.
        *arguments: Other positional arguments of the trainer.
        **options: Other keyword arguments of the trainer.

    Attributes:
        probes: The probes by layer.

    Raises:
        InputError: The settings do not fit the model, or make a loss wrong.
    """

    def __init__(self, model: Any, args: Any, *arguments: Any, **options: Any) -> None:
        self._signature_columns: list[str] | None = None
        self._reader: MlpReader | None = None
        self._attached_now = False
        self.probes: dict[int, LabelProbe] = {}
        self._probes = nn.ModuleDict()
        # Rows of `_record`: in training one for each step, in evaluation one for all batches.
        self._sums: dict[str, list[Tensor]] = {"train": [], "eval": []}
        self._measured_shares: dict[str, list[float]] = defaultdict(list)
        self._totals: tuple[Tensor, Tensor] | None = None
        self._measures_shares = False  # of the next batch
        regularized = bool(args.amplified or args.suppressed)
        if regularized:
            check_losses(args)
            # With other keyword arguments alone, transformers would choose the reentrant kind.
            (args.gradient_checkpointing_kwargs or {}).setdefault("use_reentrant", False)
        super().__init__(model, args, *arguments, **options)
        if regularized:
            self._make_probes_and_reader()

    def _make_probes_and_reader(self) -> None:
        self.args.check_model(self.model.config)
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
        self.probes = new_probes(
            self.args.amplified,
            network.config.get_text_config().hidden_size,
            self.args.probe_hidden_size,
            len(self.args.probe_classes),
            self.args.seed,
        )
        self._bare_model = self.model  # later, `model` may be wrapped
        self._probes = nn.ModuleDict({str(layer): self.probes[layer] for layer in self.probes})
        self._probes.to(trained.device)
        suppressed, reduction = self.args.suppressed, self.args.hls_reduction
        self._reader = MlpReader(self.model, blocks, self.probes, suppressed, reduction)

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
                    names = [name for name, _ in self._probes.named_parameters(PROBES_MODULE)]
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
        """Train with the probes in the model. A complete run is loaded and not trained further."""
        checkpoint = resume_from_checkpoint
        if checkpoint is True:
            checkpoint = get_last_checkpoint(self.args.output_dir)
        if checkpoint:
            self._check_checkpoint(Path(checkpoint))
        with self._attached():
            if checkpoint and not self._is_sharded:
                state = TrainerState.load_from_json(str(Path(checkpoint) / TRAINER_STATE_NAME))
                if state.global_step >= state.max_steps:  # transformers would train one step more
                    self.state = state
                    self._load_from_checkpoint(str(checkpoint))
                    if self.args.load_best_model_at_end and state.best_model_checkpoint:
                        self._load_best_model()
                    return TrainOutput(state.global_step, 0.0, {})
            return super().train(resume_from_checkpoint, *arguments, **options)

    def _check_checkpoint(self, checkpoint: Path) -> None:
        """Refuse a checkpoint that this run cannot resume from."""

    def evaluation_loop(self, *arguments: Any, **options: Any) -> Any:
        """Evaluate or predict with the probes in the model."""
        self._sums["eval"].clear()
        with self._attached():
            return super().evaluation_loop(*arguments, **options)

    def create_optimizer(self, *arguments: Any, **options: Any) -> Any:
        """Create the optimizer of the model and its probes, perhaps before training."""
        with self._attached():
            return super().create_optimizer(*arguments, **options)

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        columns = [*(self._signature_columns or []), "probe_labels"]
        self._signature_columns = [*dict.fromkeys(columns)]

    # Loss -----------------------------------------------------------------------------------------

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """Return the batches of a step, and count the examples and tokens in all of them."""
        batches, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        if self._reader is not None and batches:
            counts = torch.stack([_counts(batch) for batch in batches]).sum(0)
            examples, tokens = self.accelerator.gather(counts.to(device)[None]).sum(0)
            self._totals = examples, tokens
            self._sums["train"].append(torch.zeros(5, device=device))
            every = self.args.gradient_share_steps
            self._measures_shares = bool(every) and self.state.global_step % every == 0
        return batches, items

    def training_step(self, *arguments: Any, **options: Any) -> Any:
        """Compute a loss and its gradient, then stop reading the model."""
        try:
            return super().training_step(*arguments, **options)
        finally:
            if self._reader is not None:
                self._reader.stop()

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the trainer's own loss, and in training add ULA and HLS."""
        if self._reader is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        training = self.model.training
        counts = _counts(inputs)
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
        # are averaged over processes, and over accumulation steps where transformers does that.
        scale = self.accelerator.num_processes
        is_whole = getattr(self, "loss_is_scaled_for_ga", None)  # since transformers 5.19
        if is_whole is None:
            is_whole = num_items_in_batch is not None or self.compute_loss_func is not None
        if not is_whole:
            scale *= self.current_gradient_accumulation_steps
        terms = {name: scale * weights[name] * loss for name, loss in losses.items()}
        cross_entropy = result[0] if return_outputs else result
        if self._measures_shares:
            self._measure_shares(cross_entropy, terms)
        loss = cross_entropy + sum(terms.values())
        return (loss, result[1]) if return_outputs else loss

    def _measure_shares(self, cross_entropy: Tensor, terms: Mapping[str, Tensor]) -> None:
        """Measure the shares of gradients in the first batch of a step, for `log`."""
        self._measures_shares = False
        own = {*self._probes.parameters()}
        trained = [
            part for part in self.model.parameters() if part.requires_grad and part not in own
        ]
        shares = gradient_shares(cross_entropy, terms, trained, self.accelerator)
        for name, share in shares.items():
            self._measured_shares[name.replace("_loss", "_gradient_share")].append(share)

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
        rows[-1] += self.accelerator.gather(torch.cat([sums, counts])[None]).sum(0)

    def log(self, logs: dict[str, float], *arguments: Any, **options: Any) -> None:
        """Log each loss of whole steps, or of all data evaluated, too."""
        mode, prefix = ("train", "") if self.model.training else ("eval", "eval_")
        metrics: dict[str, list[float]] = defaultdict(list)
        if mode == "train":
            metrics, self._measured_shares = self._measured_shares, metrics
        for row in self._sums[mode]:
            ula, right, hls, examples, tokens = row.tolist()
            if self._probes and examples:
                metrics["ula_loss"].append(ula / examples)
                metrics["probe_accuracy"].append(right / examples)
            if self.args.suppressed and tokens:
                metrics["hls_loss"].append(hls / tokens)
        self._sums[mode].clear()
        logs.update({prefix + name: sum(found) / len(found) for name, found in metrics.items()})
        super().log(logs, *arguments, **options)

    # Files ----------------------------------------------------------------------------------------

    @property
    def _is_sharded(self) -> bool:
        """Whether FSDP or DeepSpeed saves and restores the probes with the weights they shard."""
        return bool(self.is_fsdp_enabled or self.is_deepspeed_enabled)

    def save_model(self, *arguments: Any, **options: Any) -> None:
        """Save the model, and its probes to their own file."""
        with self._attached():  # what is sharded is collected from all processes, probes included
            super().save_model(*arguments, **options)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if self._probes:
            prefix = f"{PROBES_MODULE}."
            probes = self._probes.state_dict()
            if state_dict is not None:  # collected from all processes
                probes = {
                    name.removeprefix(prefix): state_dict.pop(name)
                    for name in [*state_dict]  # none where others save
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
        if self.probes and not self._is_sharded:
            self._probes.load_state_dict(read_probe_weights(folder))


def _counts(batch: Mapping[str, Any]) -> Tensor:
    """Return [2], the number of examples and the number of tokens in a batch."""
    tokens = token_mask(batch).sum()
    examples = len(batch["probe_positions"]) if "probe_positions" in batch else 0
    return torch.stack([torch.full_like(tokens, examples), tokens])
