"""Plan all commands for published models of 1B to 400B: the table of docs/plan.md.

    python benchmarks/plan_sizes.py --tokenizer NAME  # a minute; nothing but a tokenizer is loaded

The documents are those of the manual split (PRAGWORLD_DATA, or the cache). All models are planned
with one tokenizer: that of Llama 3 is the page's.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from pragworld_interp.devices import DEVICES
from pragworld_interp.plan import RunPlan, format_prefixed, plan_model
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.formatting import markdown_table

_LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "dtype": "bfloat16",
    "vocab_size": 128_256,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
    "tie_word_embeddings": False,
}


def _llama(layers: int, width: int, inner: int, heads: int, **other: Any) -> dict[str, Any]:
    return {
        **_LLAMA,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        **other,
    }


# The shapes in the config.json of each model on the Hugging Face hub.
CONFIGS: dict[str, dict[str, Any]] = {
    "Llama-3.2-1B": _llama(16, 2048, 8192, 32, head_dim=64, tie_word_embeddings=True),
    "Llama-3.1-8B": _llama(32, 4096, 14_336, 32),
    "Qwen3-30B-A3B": {
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "dtype": "bfloat16",
        "vocab_size": 151_936,
        "num_hidden_layers": 48,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "max_position_embeddings": 40_960,
        "tie_word_embeddings": False,
    },
    "Llama-3.1-70B": _llama(80, 8192, 28_672, 64),
    "Llama-3.1-405B": _llama(126, 16_384, 53_248, 128),
}


def plan_of(name: str, tokenizer: str, **settings: Any) -> RunPlan:
    """Return the plan of a published model for the manual split."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
        return plan_model(
            folder, load_split("manual"), tokenizer=tokenizer, devices=[*DEVICES], **settings
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokenizer", required=True, help="name or folder")
    parser.add_argument("--batch-tokens", type=int, default=8192, help="default: 8192")
    parser.add_argument("--batch-size", type=int, default=16, help="default: 16")
    options = parser.parse_args()
    shown = ("l4", "a100", "h100", "rtx4090")
    rows = []
    for name in CONFIGS:
        plan = plan_of(
            name,
            options.tokenizer,
            batch_tokens=options.batch_tokens,
            batch_size=options.batch_size,
        )
        for work in plan.works:
            needs = [plan.need(work, device) for device in shown]
            rows.append(
                [
                    f"{name}: {work.command}",
                    f"{work.tokens:,}",
                    format_prefixed(work.flops),
                    f"{format_prefixed(work.held_bytes)}B",
                    f"{format_prefixed(work.working_bytes)}B",
                    *map(str, needs),
                ]
            )
    headers = ["model and command", "tokens", "FLOPs", "weights, states", "other memory"]
    titles = [DEVICES[device].title for device in shown]
    print(markdown_table("The manual split, 500 documents", [*headers, *titles], rows))


if __name__ == "__main__":
    main()
