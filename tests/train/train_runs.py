"""Fine-tuning of small models for tests: data, settings, runs, and the losses computed by hand.

    PYTHONPATH=tests python tests/train/train_runs.py RUNS.json

runs what a file describes, one run after the other, in as many processes as torchrun starts.
"""

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import save_file
from small_models import small_model
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

from pragworld_tasks.errors import InputError
from pragworld_train import LayerRegularizedSFTConfig, LayerRegularizedSFTTrainer

torch.set_num_threads(1)  # so that sums have the same order and are equal bit by bit

EOS, YES, NO = 2, 5, 6
USEFUL, HARMFUL = [0, 2], [1]
ULA, HLS = 0.7, 0.9  # large, so that a mistake in either shows
BOTH: dict[str, Any] = {
    "useful_layers": USEFUL,
    "harmful_layers": HARMFUL,
    "ula_weight": ULA,
    "hls_weight": HLS,
}


@cache
def small_tokenizer(*last: str) -> Any:
    """Return a tokenizer with words for the 96 ids of the small models, of which some are last."""
    words = ["<pad>", "<s>", "</s>", "<unk>", "maybe", "yes", "no"]
    words += [f"word{number}" for number in range(len(words), 96 - len(last))]
    words += last
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def make_rows(count: int, seed: int = 0) -> Dataset:
    """Return prompts of different lengths, each followed by yes or no and the end."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        prompt = [1, *(generator.randrange(7, 96) for _ in range(generator.randrange(3, 30)))]
        completion = [generator.choice([YES, NO]), EOS]
        labels = [-100] * len(prompt) + completion
        probe_labels = [-100] * (len(labels) - 3) + [completion[0] - YES, -100, -100]
        rows.append(
            {"input_ids": prompt + completion, "labels": labels, "probe_labels": probe_labels}
        )
    return Dataset.from_list(rows)


def fresh_model(architecture: str = "qwen3") -> Any:
    """Return a small model without dropout, so that results of two runs can be compared."""
    model = deepcopy(small_model(architecture))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def saved_model(folder: Path) -> Path:
    fresh_model().save_pretrained(folder)
    small_tokenizer().save_pretrained(folder)
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def refused(pattern: str) -> Iterator[None]:
    """Expect a refusal of one line that has the pattern."""
    with pytest.raises(InputError, match=pattern) as caught:
        yield
    assert "\n" not in str(caught.value)


def lora(dropout: float = 0.0) -> Any:
    return LoraConfig(
        r=4, target_modules=["q_proj", "v_proj", "up_proj", "down_proj"], lora_dropout=dropout
    )


def settings(folder: Path, **options: Any) -> LayerRegularizedSFTConfig:
    """Return settings of one step of SGD without randomness, clipping or saving, with changes."""
    return LayerRegularizedSFTConfig(**_plain_settings(folder, options))


def plain_settings(folder: Path, **options: Any) -> Any:
    return SFTConfig(**_plain_settings(folder, options))


def _plain_settings(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "optim": "sgd",
        "learning_rate": 0.05,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "gradient_checkpointing": False,
        "train_sampling_strategy": "sequential",
        "max_steps": 1,
        "logging_steps": 1,
        **options,
    }


def make_trainer(model: Any, args: Any, rows: Dataset, **options: Any) -> Any:
    """Return our trainer or TRL's, depending on the settings."""
    kind = LayerRegularizedSFTTrainer if type(args) is LayerRegularizedSFTConfig else SFTTrainer
    return kind(
        model, args, train_dataset=rows, **{"processing_class": small_tokenizer(), **options}
    )


def trained(model: Any, args: Any, rows: Dataset, **options: Any) -> Any:
    trainer = make_trainer(model, args, rows, **options)
    trainer.train()
    return trainer


def weights(trainer: Any) -> dict[str, Tensor]:
    """Return the trained weights by name, including those of probes."""
    found = dict(trainer.model.named_parameters())
    for layer, probe in getattr(trainer, "probes", {}).items():
        found |= {f"label_probes.{layer}.{name}": item for name, item in probe.named_parameters()}
    return {name: item.detach().clone() for name, item in found.items() if item.requires_grad}


def assert_close(
    found: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float = 1e-5
) -> None:
    """Compare tensors, relative to the largest number in each."""
    assert found.keys() == expected.keys()
    assert found
    for name, tensor in expected.items():
        scale = max(tensor.abs().max().item(), 1e-3)
        far = (found[name] - tensor).abs().max().item()
        assert far <= tolerance * scale, f"{name}: {far} of {scale}"


def distance(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> float:
    """Return the largest difference between tensors, as `assert_close` measures it."""
    return max(
        (first[name] - second[name]).abs().max().item() / max(second[name].abs().max().item(), 1e-3)
        for name in second
    )


def same_bits(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


# Parts of a step ----------------------------------------------------------------------------------


class _Gradients(TrainerCallback):  # type: ignore[misc]
    """A callback that keeps the gradients of the first step."""

    def __init__(self) -> None:
        self.found: dict[str, Tensor] = {}

    def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
        if not self.found:
            named = model.named_parameters()
            self.found = {
                name: weight.grad.clone() for name, weight in named if weight.grad is not None
            }


def gradients(trainer: Any) -> dict[str, Tensor]:
    """Train, and return the gradients of the first step by name."""
    callback = _Gradients()
    trainer.add_callback(callback)
    trainer.train()
    return callback.found


def by_hand(
    model: Any,
    probes: Mapping[int, Any],
    rows: Sequence[Mapping[str, Any]],
    mlp: Callable[[int], nn.Module] | None = None,
    harmful: Sequence[int] = HARMFUL,
    ula: float = ULA,
    hls: float = HLS,
    reduction: str = "mean",
    answers: Sequence[Sequence[tuple[int, int]]] | None = None,
) -> dict[str, Tensor]:
    """Return the three losses of a batch and their sum, computed one example at a time.

    The answers of each row are the positions before its labels, and their classes. If they are
    not set, each row ends with yes or no and one more token.
    """
    mlp = mlp or (lambda layer: model.model.layers[layer].mlp)
    outputs: dict[int, Tensor] = {}

    def keep(layer: int) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            # A copy, because a block may add to the output in place.
            outputs[layer] = (output[0] if isinstance(output, tuple) else output).clone()

        return hook

    handles = [mlp(layer).register_forward_hook(keep(layer)) for layer in {*probes, *harmful}]
    tokens = targets = answered = 0
    ce = amplify = suppress = torch.zeros(())
    for number, row in enumerate(rows):
        ids, labels = torch.tensor(row["input_ids"]), torch.tensor(row["labels"])
        logits = model(input_ids=ids[None]).logits[0]
        for place in (labels != -100).nonzero()[:, 0].tolist():
            ce = ce - logits[place - 1].float().log_softmax(-1)[ids[place]]
            targets += 1
        end = len(ids) - 3  # the prompt's last token; the label and the end follow
        own = [(end, [YES, NO].index(int(ids[-2])))] if answers is None else answers[number]
        for layer, probe in probes.items():
            for place, label in own:
                hidden = outputs[layer].view(len(ids), -1)[place]
                inner = (hidden @ probe.inner.weight.T + probe.inner.bias).clamp(min=0)
                answer = inner @ probe.outer.weight.T + probe.outer.bias
                amplify = amplify - answer.log_softmax(-1)[label]
        answered += len(own)
        for layer in harmful:
            suppress = suppress + (outputs[layer] ** 2).sum() / len(harmful)
        tokens += len(ids)
    for handle in handles:
        handle.remove()
    losses = {"ce": ce / targets}
    losses["ula_loss"] = amplify / max(len(probes), 1) / max(answered, 1)
    losses["hls_loss"] = suppress / tokens
    if harmful and reduction == "mean":
        losses["hls_loss"] = losses["hls_loss"] / outputs[harmful[0]].shape[-1]
    losses["loss"] = losses["ce"] + ula * losses["ula_loss"] + hls * losses["hls_loss"]
    return losses


def gradients_by_hand(
    model: Any, rows: Any, probes: Mapping[int, Any], **options: Any
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Return the gradients of a step, by the trainer's names, and the losses."""
    losses = by_hand(model, probes, rows, **options)
    torch.autograd.backward(losses["loss"])
    named = dict(model.named_parameters())
    for layer, probe in probes.items():
        prefix = f"label_probes.{layer}."
        named |= {prefix + name: weight for name, weight in probe.named_parameters()}
    found = {name: weight.grad for name, weight in named.items() if weight.grad is not None}
    return found, {name: loss.item() for name, loss in losses.items()}


# Runs in processes of their own -------------------------------------------------------------------


class _Kill(TrainerCallback):  # type: ignore[misc]
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def run(
    folder: Path,
    rows: int,
    with_lora: bool,
    options: Mapping[str, Any],
    dropout: float = 0.0,
    kill_at: int | None = None,
    resume: str | None = None,
) -> Any:
    """Return a trainer that has trained; `resume` is relative to the parent of `folder`."""
    trainer = make_trainer(
        fresh_model(),
        settings(folder, **options),
        make_rows(rows),
        eval_dataset=make_rows(16, seed=1),
        peft_config=lora(dropout) if with_lora else None,
        callbacks=[] if kill_at is None else [_Kill(kill_at)],
    )
    # The examples of each step in all micro-batches of this process.
    seen: list[list[list[int]]] = [[] for _ in range(trainer.args.max_steps)]
    training_step = trainer.training_step

    def seeing(model: Any, inputs: dict[str, Any], *arguments: Any, **others: Any) -> Any:
        found = [ids[ids != 0].tolist() for ids in inputs["input_ids"]]
        seen[trainer.state.global_step].extend(found)
        return training_step(model, inputs, *arguments, **others)

    trainer.training_step = seeing
    trainer.seen = seen
    trainer.train(resume_from_checkpoint=None if resume is None else str(folder.parent / resume))
    return trainer


def main(path: Path) -> None:
    """Run what a file describes, and write the trained weights and the log."""
    for name, arguments in json.loads(path.read_text()).items():
        folder = path.parent / name
        trainer = run(folder, **arguments)
        rank = trainer.accelerator.process_index
        save_file(weights(trainer), folder / f"trained.{rank}.safetensors")
        (folder / f"log.{rank}.json").write_text(json.dumps(trainer.state.log_history))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
