"""Small random decoders of many architectures, and a tokenizer for them."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ARCHITECTURES, WITHOUT_TREES, UNUSUAL = (
    tuple(TABLES[kind]) for kind in ("usual", "without_trees", "unusual")
)


@cache
def small_model(architecture: str, seed: int = 0) -> Any:
    """Return a random causal language model with three layers, in float32."""
    torch.manual_seed(seed)
    own = {**TABLES["usual"], **TABLES["without_trees"], **TABLES["unusual"]}[architecture]
    sizes = {} if "n_embd" in own else TABLES["sizes"]
    settings = {**TABLES["common"], **sizes, **own}
    for name in settings.pop("without", []):
        del settings[name]
    config = transformers.AutoConfig.for_model(architecture.partition(",")[0], **settings)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # Norms, biases and matrices that do nothing would hide mistakes.
            if parameter.ndim == 1 or not parameter.any():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


class LabelsOnly:
    """A tokenizer that knows the labels only."""

    name_or_path = "labels only"
    unk_token_id = None

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        """Return 4 for a prompt, and behind it 5 for yes and 6 for no."""
        labels = {" yes": [5], " no": [6]}
        found = (ids for label, ids in labels.items() if text.endswith(label))
        return {"input_ids": [4, *next(found, [])]}

    def decode(self, ids: list[int]) -> str:
        return str(ids)
