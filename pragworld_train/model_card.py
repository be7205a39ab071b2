"""The model card of a training run: TRL's, from our template, with what the run was."""

import json
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard

# TRL looks for the template of a card in a folder of its own.
TEMPLATE = os.path.relpath(
    str(files("pragworld_train") / "model_card.md"), str(files("trl") / "templates")
)
_MARK = "<!-- run -->"  # sections are written before it


def add_section(folder: Path, title: str, text: str) -> ModelCard:
    """Write a section into the card in a folder, after others, and return the card."""
    card: ModelCard = ModelCard.load(folder / "README.md")
    card.content = card.content.replace(_MARK, f"## {title}\n\n{text.strip()}\n\n{_MARK}")
    card.save(folder / "README.md")
    return card


def describe_run(record: Mapping[str, Any]) -> str:
    """Return the loss of a run as a formula, its layers, its data and its steps."""
    layers, batch_size = record["layers"], record["training"]["batch_size"]
    data = {name: value for name, value in record["data"].items() if value and name != "digest"}
    terms, lines = ["L_CE"], ["- `L_CE` is the cross-entropy of the completions, as in TRL."]
    if layers["amplified"]:
        terms.append(f"{layers['ula_weight']:g} · L_amplify")
        lines.append(
            "- `L_amplify` (useful layer amplification, ULA) is the mean cross-entropy of probes "
            f"that predict the label from the MLP outputs of layers {layers['amplified']} at the "
            "token before it."
        )
    if layers["suppressed"]:
        terms.append(f"{layers['hls_weight']:g} · L_suppress")
        lines.append(
            "- `L_suppress` (harmful layer suppression, HLS) is the "
            f"{'mean square' if layers['hls_reduction'] == 'mean' else 'squared norm'} of the MLP "
            f"outputs of layers {layers['suppressed']}."
        )
    lines.append(f"- Data: `{json.dumps(data)}`.")
    lines.append(f"- Training: {record['steps']} steps of {batch_size} examples.")
    return "\n".join([f"`L = {' + '.join(terms)}`; layers are counted from 0.", "", *lines])
