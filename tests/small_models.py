"""Small random decoders of many architectures, and a tokenizer for them."""

from functools import cache
from typing import Any

import torch
import transformers

_COMMON = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,  # so that what happens in a layer is seen in the answer
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_OWN: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "phi3": {},
    "mistral": {"sliding_window": 64},
    "gemma2": {"sliding_window": 64, "query_pre_attn_scalar": 8, "final_logit_softcapping": 5.0},
    "gemma3_text": {"sliding_window": 64, "query_pre_attn_scalar": 8},
    "olmo2": {},
    "gpt2": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256},
    "gpt_neox": {"num_key_value_heads": 4, "rotary_pct": 0.5},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "gptj": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256, "rotary_dim": 4},
    "cohere": {"logit_scale": 0.25},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 64},
    "llama4_text": {"num_local_experts": 4, "intermediate_size_mlp": 48},
}
ARCHITECTURES = tuple(_OWN)
# For these, a prompt alone is not what it is in a batch or a tree with others.
_LONG_PROMPTS: dict[str, dict[str, Any]] = {
    "gpt_neo": {
        "num_layers": 3,
        "num_heads": 4,
        "attention_types": [[["global", "local", "local"], 1]],
        "window_size": 64,
    },
    "phi3, longrope": {
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [1.0, 4.0, 8.0, 16.0],
            "original_max_position_embeddings": 64,
            "factor": 4.0,
        },
        "original_max_position_embeddings": 64,
    },
    "llama, dynamic": {
        "max_position_embeddings": 64,
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0},
    },
}
WITHOUT_TREES = tuple(_LONG_PROMPTS)
# Whose parts are not one module each that returns what it adds to the residuals.
_UNUSUAL: dict[str, dict[str, Any]] = {
    "bloom": {"n_layer": 3, "n_head": 4},
    "mpt": {"d_model": 32, "n_layers": 3, "n_heads": 4, "max_seq_len": 256},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "falcon": {"head_dim": None},  # adds the output of attention to that of the MLP, in place
    "xglm": {"d_model": 32, "ffn_dim": 48, "num_layers": 3, "attention_heads": 4, "dropout": 0.0},
    "openai-gpt": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256},
    "qwen3_next": {
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    },
    # Blocks return a second value, which nothing reads.
    "bamba": {
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_d_state": 8,
        "mamba_chunk_size": 16,  # to which prompts are padded
        "attn_layer_indices": [1],
    },
    "glm_moe_dsa": {
        "num_key_value_heads": 4,
        "head_dim": 4,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "q_lora_rank": 16,
        "kv_lora_rank": 8,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 4,
        "v_head_dim": 8,
        "index_n_heads": 2,
        "index_head_dim": 8,
        "index_topk": 64,
        "first_k_dense_replace": 1,
    },
    "xlstm": {
        "num_heads": 4,
        "embedding_dim": 32,
        "num_blocks": 3,
        "qk_dim_factor": 0.5,
        "chunk_size": 16,
    },
    # Experts within attention, and views of keys that have to be contiguous.
    "jetmoe": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "kv_channels": 8,
        "num_layers": 3,
    },
    "gpt_neox_japanese": {"intermediate_multiple_size": 2},
}
UNUSUAL = tuple(_UNUSUAL)


@cache
def small_model(architecture: str, seed: int = 0) -> Any:
    """Return a random causal language model with three layers, in float32."""
    torch.manual_seed(seed)
    own = (_OWN | _LONG_PROMPTS | _UNUSUAL)[architecture]
    settings = {name: value for name, value in (_COMMON | own).items() if value is not None}
    architecture = architecture.partition(",")[0]
    if "n_embd" in settings:  # these have names of their own for what the rest agree on
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim"):
            del settings[name]
        del settings["num_key_value_heads"], settings["max_position_embeddings"]
        del settings["intermediate_size"]
    config = transformers.AutoConfig.for_model(architecture, **settings)
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
        """Return the numbers of tokens."""
        return str(ids)
