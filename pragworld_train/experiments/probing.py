"""What probes read off a model's MLPs, and how large their outputs are: `pragworld-train probe`.

The probes are of the kind that useful layer amplification trains, but new ones, fitted to a model
that stays as it is, on documents that it was not trained on. So models can be compared whether or
not they were trained with probes: does amplification make the label easier to read, does
suppression make outputs smaller.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from pragworld_interp.decoder import Decoder, first_of
from pragworld_interp.loading import Model, fed, load
from pragworld_interp.packing import batches, padded
from pragworld_interp.serialization import check_schema
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation import reports
from pragworld_tasks.evaluation.metrics import LEVEL, Interval, bootstrap_intervals, tally
from pragworld_tasks.files import read_text, write_json
from pragworld_train.data import chosen
from pragworld_train.losses import LabelProbe, at_ends, ula_loss

SCHEMA: dict[str, Any] = {"schema": "pragworld-probes", "version": 1}
_TOKENS = 8192  # that go through the model in one go
_STEPS = 300
_LEARNING_RATE = 1e-2
_WEIGHT_DECAY = 1e-2


@dataclass(frozen=True)
class Readings:
    """What one model's MLPs do with documents.

    Attributes:
        ends: [layers, documents, width] their outputs at the last token of each prompt.
        mean_squares: [layers, documents] of their outputs, over the tokens of a prompt and over
            features.
    """

    ends: Tensor
    mean_squares: Tensor


@torch.inference_mode()
def read(decoder: Decoder, documents: Sequence[Document], chat_template: bool) -> Readings:
    """Runs the prompts of some documents through a model."""
    prompts = [prompt.ids for prompt in fed(decoder, documents, chat_template)]
    layers = len(decoder.blocks)
    ends: list[list[Tensor]] = [[] for _ in range(layers)]
    squares: list[list[Tensor]] = [[] for _ in range(layers)]
    seen: dict[int, Tensor] = {}

    def keep(layer: int) -> Any:
        return lambda _, __, output: seen.__setitem__(layer, first_of(output))

    handles = [
        block.mlp.register_forward_hook(keep(layer)) for layer, block in enumerate(decoder.blocks)
    ]
    try:
        sizes = [(1, len(prompt)) for prompt in prompts]
        with tqdm(total=len(prompts), desc="reading MLPs", unit="document", disable=None) as bar:
            for some in batches(sizes, _TOKENS):
                batch = padded([prompts[number] for number in some])
                mask = batch.mask.to(decoder.device)
                decoder.model(
                    input_ids=batch.ids.to(decoder.device), attention_mask=mask, use_cache=False
                )
                for layer in range(layers):
                    output = seen[layer].view(*mask.shape, -1).float()
                    here = mask.to(output.device)
                    ends[layer].append(at_ends(output, batch.ends.to(output.device)).cpu())
                    sums = (output.square().mean(-1) * here).sum(1) / here.sum(1)
                    squares[layer].append(sums.cpu())
                bar.update(len(some))
    finally:
        for handle in handles:
            handle.remove()
    return Readings(
        torch.stack([torch.cat(each) for each in ends]),
        torch.stack([torch.cat(each) for each in squares]),
    )


def fitted(states: Tensor, labels: Tensor, hidden: int, seed: int) -> LabelProbe:
    """A probe fitted to an MLP's outputs.

    Args:
        states: [documents, width]. They are brought to mean 0 and variance 1 first: the outputs of
            layers differ in size, and with it would differ how fast their probes learn.
        labels: [documents] 0 for yes and 1 for no.
        hidden: width of the probe's inner layer.
        seed: of its weights.
    """
    mean, scale = states.mean(0), states.std(0).clamp(min=1e-6)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        probe = LabelProbe(states.shape[1], hidden)
    optimizer = torch.optim.AdamW(probe.parameters(), _LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _STEPS)
    normed = (states - mean) / scale
    for _ in range(_STEPS):
        optimizer.zero_grad()
        ula_loss(probe(normed)[None], labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    with torch.no_grad():  # so that it takes outputs as they are
        probe.inner.weight.div_(scale)
        probe.inner.bias.sub_(probe.inner.weight @ mean)
    return probe


# The file -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProbedLayer:
    """One layer.

    Attributes:
        layer: its number.
        right: [documents] whether its probe was right about each.
        mean_squares: [documents] of its MLP's outputs.
    """

    layer: int
    right: list[bool]
    mean_squares: list[float]


@dataclass(frozen=True)
class Probed:
    """All layers of a model, and the groups of the documents that they were asked about."""

    groups: list[int]
    layers: list[ProbedLayer]


def probed(
    decoder: Decoder,
    training: Sequence[Document],
    asked: Sequence[Document],
    hidden: int,
    seed: int,
    chat_template: bool = False,
) -> Probed:
    """Fits a probe to every layer and asks it.

    Args:
        decoder: the model.
        training: documents to fit to.
        asked: others, to ask about.
        hidden: width of the probes' inner layer.
        seed: of their weights.
        chat_template: whether prompts go through the model's.
    """
    fit, test = (read(decoder, documents, chat_template) for documents in (training, asked))
    labels, answers = (
        torch.tensor([int(document.answer == "no") for document in documents])
        for documents in (training, asked)
    )
    layers = []
    for layer in range(len(decoder.blocks)):
        probe = fitted(fit.ends[layer], labels, hidden, seed)
        with torch.no_grad():
            right = probe(test.ends[layer]).argmax(-1) == answers
        layers.append(ProbedLayer(layer, right.tolist(), test.mean_squares[layer].tolist()))
    return Probed([document.group for document in asked], layers)


def read_probed(path: Path) -> Probed:
    """What `pragworld-train probe` wrote.

    Raises:
        InputError: there is nothing of the kind in this file.
    """
    try:
        content = json.loads(read_text(path))
        check_schema(path, content, SCHEMA["schema"], SCHEMA["version"], "pragworld-train probe")
        return Probed(content["groups"], [ProbedLayer(**layer) for layer in content["layers"]])
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not what `pragworld-train probe` writes ({error})") from error


def to_text(found: Probed) -> str:
    """A Markdown table, a row for each layer."""
    groups = np.unique(found.groups, return_inverse=True)[1]
    everything = np.ones(len(groups))
    shares = {
        (layer.layer, what): tally(values, everything, groups)
        for layer in found.layers
        for what, values in (("right", layer.right), ("size", layer.mean_squares))
    }
    intervals = bootstrap_intervals(shares)
    rows = []
    for layer in found.layers:
        cells = [str(layer.layer)]
        for what, scale in (("right", 100), ("size", 1)):
            low, high = intervals[layer.layer, what]
            cells.append(f"{scale * shares[layer.layer, what].share:.4g}")
            cells.append(reports.interval(Interval(scale * low, scale * high)))
        rows.append(cells)
    level = f"{LEVEL:.0%} interval"
    return reports.table(
        f"{len(groups)} documents, {int(groups.max()) + 1} groups",
        ["layer", "probe accuracy %", level, "mean square of MLP outputs", level],
        rows,
    )


def main(arguments: Sequence[str]) -> None:
    """Runs `pragworld-train probe`."""
    parser = argparse.ArgumentParser(
        prog="pragworld-train probe",
        description="Fits new probes to the MLP outputs of every layer on generated dialogues, and "
        "says how often they are right on others and how large the outputs are.",
    )
    parser.add_argument(
        "--model", required=True, help="a name on the Hugging Face hub, or a folder"
    )
    parser.add_argument("--revision", help="a branch, tag or commit on the hub")
    parser.add_argument("--adapter", help="a PEFT adapter on top: a name or a folder")
    parser.add_argument(
        "--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16")
    )
    parser.add_argument("--chat_template", action="store_true")
    parser.add_argument("--trust_remote_code", "--trust-remote-code", action="store_true")
    parser.add_argument(
        "--groups",
        type=int,
        default=200,
        help="of the validation split to fit to, and as many of the test split to ask about",
    )
    parser.add_argument("--held_out_alteration", help="that the groups fitted to do without")
    parser.add_argument("--probe_hidden_size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0, help="of the probes")
    parser.add_argument("--out", type=Path, help="write all of it there, as JSON")
    options = parser.parse_args(arguments)
    if options.probe_hidden_size < 1:
        raise InputError("--probe_hidden_size: at least 1 is needed")
    settings = json.dumps({"groups": options.groups})
    training, asked = (
        chosen("generated", settings, split, options.held_out_alteration).documents
        for split in ("validation", "test")
    )
    names = ("revision", "adapter", "dtype", "chat_template", "trust_remote_code")
    model = Model(options.model, **{name: getattr(options, name) for name in names})
    decoder, identity = load(model)
    found = probed(
        decoder, training, asked, options.probe_hidden_size, options.seed, options.chat_template
    )
    if options.out:
        write_json(options.out, {**SCHEMA, "model": asdict(identity), **asdict(found)})
    print(to_text(found))
