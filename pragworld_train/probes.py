"""The probes of useful layers and their file, `label_probes.safetensors`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_whole
from pragworld_train.losses import LabelProbe

PROBES_FILE = "label_probes.safetensors"
_PARAMETERS = ("inner.weight", "inner.bias", "outer.weight", "outer.bias")
PROBES_MODULE = "label_probes"  # their name in a model that is being trained


def new_probes(
    layers: list[int], width: int, hidden: int, classes: int, seed: int
) -> dict[int, LabelProbe]:
    """Return a new probe in float32 for each layer, leaving torch's random state as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return {layer: LabelProbe(width, hidden, classes).float() for layer in layers}


def write_probes(weights: Mapping[str, Tensor], classes: Sequence[str], folder: Path) -> None:
    """Write the weights of probes, named as in "3.inner.weight", and their classes in order."""
    contiguous = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
    # With a second entry, equal probes would have different files: their order is random.
    content = save(contiguous, metadata={"classes": json.dumps([*classes])})
    write_whole(folder / PROBES_FILE, content)


def read_probe_weights(folder: str | Path) -> dict[str, Tensor]:
    """Return the weights that `write_probes` wrote.

    Raises:
        InputError: The file is missing or cannot be read.
    """
    path = Path(folder) / PROBES_FILE
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: the probes cannot be read ({error})") from error


def load_probes(folder: str | Path) -> dict[int, LabelProbe]:
    """Return the probes that training saved in a folder, by layer.

    Raises:
        InputError: The folder has no readable probes.
    """
    weights = read_probe_weights(folder)
    probes = {}
    for layer in sorted({int(name.partition(".")[0]) for name in weights}):
        own = {name: weights[f"{layer}.{name}"] for name in _PARAMETERS}
        hidden, width = own["inner.weight"].shape
        probe = LabelProbe(width, hidden, len(own["outer.bias"])).to(own["inner.weight"].dtype)
        probe.load_state_dict(own)
        probes[layer] = probe
    return probes
