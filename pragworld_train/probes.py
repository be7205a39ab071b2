"""The probes of useful layers as a file: safetensors, a layer's weights under its number."""

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pragworld_tasks.errors import InputError
from pragworld_train.losses import LabelProbe

FILE = "label_probes.safetensors"


def write_probes(weights: Mapping[str, Tensor], folder: Path) -> None:
    """Writes weights by name, as "3.inner.weight" of layer 3, into `FILE`; all or nothing."""
    path = folder / FILE
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    own = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
    save_file(own, beside, metadata={"format": "pt", "outputs": "yes, no"})
    beside.replace(path)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """What `write_probes` wrote.

    Raises:
        InputError: it is not there, or cannot be read.
    """
    path = folder / FILE
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: the probes cannot be read ({error})") from error


def load_probes(folder: Path) -> dict[int, LabelProbe]:
    """The probes that training left in a folder, by the number of their layer.

    Raises:
        InputError: there are none.
    """
    weights = read_weights(folder)
    probes = {}
    for layer in sorted({int(name.partition(".")[0]) for name in weights}):
        own = {
            name.partition(".")[2]: weight
            for name, weight in weights.items()
            if name.startswith(f"{layer}.")
        }
        hidden, width = own["inner.weight"].shape
        probe = LabelProbe(width, hidden).to(own["inner.weight"].dtype)
        probe.load_state_dict(own)
        probes[layer] = probe
    return probes


def new_probes(
    layers: list[int], width: int, hidden: int, seed: int, dtype: torch.dtype
) -> dict[int, LabelProbe]:
    """A probe for each layer. All that is drawn elsewhere stays as it would be without them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return {layer: LabelProbe(width, hidden).to(dtype) for layer in layers}
