"""The files that training leaves: equal for equal runs, and true to what ran."""

from pathlib import Path

import torch

from pragworld_train.probes import PROBES_FILE, new_probes, write_probes


def test_equal_probes_make_equal_files(tmp_path: Path) -> None:
    """Safetensors writes metadata of more than one entry in an order that differs between files."""
    probes = new_probes([0, 2], 8, 4, 0, torch.float32)
    weights = {
        f"{layer}.{name}": weight
        for layer, probe in probes.items()
        for name, weight in probe.state_dict().items()
    }
    contents = set()
    for _ in range(20):
        write_probes(weights, tmp_path)
        contents.add((tmp_path / PROBES_FILE).read_bytes())
    assert len(contents) == 1
