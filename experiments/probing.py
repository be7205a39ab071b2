"""New label probes on the MLP outputs of every layer, and the size of these outputs.

The probes are of the kind that useful layer amplification trains, but fitted to a finished model,
on documents that it was not trained on. Any two models can thus be compared: whether amplification
makes the label easier to read, and whether suppression makes outputs smaller.
"""

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.modules import first_tensor
from pragworld_interp.engine.packing import Batch, pad_prompts, token_batches
from pragworld_interp.prompts.examples import document_examples
from pragworld_interp.prompts.tokenization import tokenize_prompts
from pragworld_interp.run.loading import Model, load_decoder
from pragworld_tasks.data.documents import Document
from pragworld_tasks.evaluation.statistics import LEVEL, bootstrap_intervals, tally
from pragworld_tasks.files import write_json
from pragworld_tasks.text import (
    format_interval,
    format_number,
    format_size,
    markdown_table,
)
from pragworld_train.arguments import TrainArguments
from pragworld_train.data import load_document_set
from pragworld_train.losses import LabelProbe, at_ends, ula_loss

_TOKENS = 8192  # in a batch
_STEPS = 300
_LEARNING_RATE = 1e-2
_WEIGHT_DECAY = 1e-2


@dataclass(frozen=True)
class ProbedLayer:
    """One layer.

    Attributes:
        layer: Its number.
        right: [documents] whether its probe predicts the label of each document.
        mean_squares: [documents] of its MLP outputs, over tokens and features.
    """

    layer: int
    right: list[bool]
    mean_squares: list[float]


@dataclass(frozen=True)
class ProbeReport:
    """All layers of a model.

    Attributes:
        groups: [documents] the group of each.
        layers: The layers, from 0.
    """

    groups: list[int]
    layers: list[ProbedLayer]

    def to_text(self) -> str:
        """Return a Markdown table with a row for each layer."""
        everything = np.ones(len(self.groups))
        columns = {"right": (100, ".2f"), "mean_squares": (1, "#.4g")}
        tallies = {
            (layer.layer, name): tally(getattr(layer, name), everything, self.groups)
            for layer in self.layers
            for name in columns
        }
        intervals = bootstrap_intervals(tallies)
        rows = []
        for layer in self.layers:
            cells = [str(layer.layer)]
            for name, (scale, digits) in columns.items():
                low, high = intervals[layer.layer, name]
                cells.append(format_number(scale * tallies[layer.layer, name].share, digits))
                cells.append(format_interval((scale * low, scale * high), digits))
            rows.append(cells)
        level = f"{LEVEL:.0%} interval"
        return markdown_table(
            format_size(len(self.groups), len({*self.groups})),
            ["layer", "probe accuracy %", level, "mean square of MLP outputs", level],
            rows,
        )


def main() -> None:
    """Probe a model, write the report and print its table."""
    parser = argparse.ArgumentParser(description="Fit label probes to every layer of a model.")
    add = parser.add_argument
    add("--model", required=True, help="name on the Hugging Face hub, or a folder")
    add("--adapter", help="name or folder of a PEFT adapter on top")
    add("--dtype", default="auto", help="type of the weights")
    add("--chat-template", action="store_true", help="apply the model's chat template to prompts")
    add("--groups", type=int, default=200, help="groups to fit the probes to, and to test them on")
    add("--held-out-alteration", help="an alteration to leave out of fitting")
    add("--seed", type=int, default=0, help="seed of the probes")
    add("--out", type=Path, metavar="FILE", help="also write everything as JSON")
    options = parser.parse_args()
    settings = json.dumps({"groups": options.groups})
    training, test = (
        load_document_set(
            TrainArguments(
                dataset_config=settings,
                dataset_train_split=split,
                held_out_alteration=options.held_out_alteration,
            )
        ).documents
        for split in ("validation", "test")
    )
    names = ("adapter", "dtype", "chat_template")
    model = Model(options.model, **{name: getattr(options, name) for name in names})
    decoder, identity = load_decoder(model)
    report = probe_layers(decoder, training, test, 128, options.seed, options.chat_template)
    if options.out:
        write_json(options.out, {"model": asdict(identity), **asdict(report)})
    print(report.to_text())


def probe_layers(
    decoder: Decoder,
    training: Sequence[Document],
    test: Sequence[Document],
    hidden: int,
    seed: int,
    chat_template: bool = False,
) -> ProbeReport:
    """Fit a probe to the MLP outputs of every layer, and test it on other documents.

    Args:
        decoder: The model.
        training: Documents to fit the probes to.
        test: Documents to test them on.
        hidden: Hidden width of the probes.
        seed: Seed of their initial weights.
        chat_template: Whether to apply the model's chat template to prompts.
    """
    (states, _), (test_states, mean_squares) = (
        read_mlp_outputs(decoder, documents, chat_template) for documents in (training, test)
    )
    labels, test_labels = (
        torch.tensor([int(document.answer == "no") for document in documents])
        for documents in (training, test)
    )
    layers = []
    for layer in range(len(decoder.blocks)):
        probe = fit_probe(states[layer], labels, hidden, seed)
        with torch.no_grad():
            right = probe(test_states[layer]).argmax(-1) == test_labels
        layers.append(ProbedLayer(layer, right.tolist(), mean_squares[layer].tolist()))
    return ProbeReport([document.group for document in test], layers)


@torch.inference_mode()
def read_mlp_outputs(
    decoder: Decoder, documents: Sequence[Document], chat_template: bool
) -> tuple[Tensor, Tensor]:
    """Return a model's MLP outputs on the prompts of some documents.

    Returns:
        [layers, documents, width] at the last token of each prompt, and [layers, documents] mean
        squares over the tokens of a prompt and over features.
    """
    prompts = [
        prompt.ids
        for prompt in tokenize_prompts(
            decoder.tokenizer, document_examples(documents), chat_template
        )
    ]
    ends: list[list[Tensor]] = [[] for _ in decoder.blocks]
    mean_squares: list[list[Tensor]] = [[] for _ in decoder.blocks]
    order: list[int] = []  # in which the prompts run

    def read(layer: int, batch: Batch, _: Any, __: Any, returned: Any) -> None:
        # While the output is what the MLP returned: some blocks add to it in place.
        output = first_tensor(returned).view(*batch.mask.shape, -1).float()
        mask = batch.mask.to(output.device)
        ends[layer].append(at_ends(output, batch.ends.to(output.device)).cpu())
        means = (output.square().mean(-1) * mask).sum(1) / mask.sum(1)
        mean_squares[layer].append(means.cpu())

    with tqdm(total=len(prompts), desc="reading MLPs", unit="document", disable=None) as progress:
        for numbers in token_batches([(1, len(prompt)) for prompt in prompts], _TOKENS):
            batch = pad_prompts([prompts[number] for number in numbers])
            ids, mask = batch.ids.to(decoder.device), batch.mask.to(decoder.device)
            with ExitStack() as hooks:
                for layer, block in enumerate(decoder.blocks):
                    hook = block.mlp.register_forward_hook(partial(read, layer, batch))
                    hooks.callback(hook.remove)
                decoder.model(input_ids=ids, attention_mask=mask, use_cache=False)
            order += numbers
            progress.update(len(numbers))
    as_given = torch.tensor(order).argsort()
    at_end, means = (
        torch.stack([torch.cat(parts)[as_given] for parts in by_layer])
        for by_layer in (ends, mean_squares)
    )
    return at_end, means


def fit_probe(states: Tensor, labels: Tensor, hidden: int, seed: int) -> LabelProbe:
    """Fit a probe to the MLP outputs of a layer.

    Args:
        states: [documents, width]. They are standardized for fitting, since probes of layers with
            outputs of different size would learn at different rates.
        labels: [documents] 0 for yes and 1 for no.
        hidden: Hidden width of the probe.
        seed: Seed of its initial weights.

    Returns:
        A probe of outputs that are not standardized.
    """
    mean, scale = states.mean(0), states.std(0).clamp(min=1e-6)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        probe = LabelProbe(states.shape[1], hidden)
    optimizer = torch.optim.AdamW(probe.parameters(), _LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _STEPS)
    standardized = (states - mean) / scale
    for _ in range(_STEPS):
        optimizer.zero_grad()
        ula_loss(probe(standardized)[None], labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        probe.inner.weight.div_(scale)
        probe.inner.bias.sub_(probe.inner.weight @ mean)
    return probe


if __name__ == "__main__":
    main()
