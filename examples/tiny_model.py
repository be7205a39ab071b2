"""Make a tiny, randomly initialized Llama with a tokenizer and a chat template.

    python examples/tiny_model.py FOLDER

Its answers are random. The tests use it, and it lets you try a tool on a model with a chat template
without a download.
"""

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pragworld_tasks.data.prompts import evaluation_prompt, label_prompt

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_TEXTS = (
    "Alice: did you see the apples in the kitchen\nBob: yes, Mia left them there",
    "Alice: are all of the oranges in the garage\nBob: no, some of them are in the cellar",
    "Are the oranges in the garage? Yes yes no No",
)
_PROMPTS = [
    prompt({"context": text, "question": text})
    for text in _TEXTS
    for prompt in (evaluation_prompt, label_prompt)
]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer that adds BOS and has " yes" and " no" as tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        min_frequency=1,
        special_tokens=["<s>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_PROMPTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="<|end|>",
        pad_token="<|end|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=4096,
    )


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return a Llama of two layers that answers yes, no or nothing at random, and then stops."""
    torch.manual_seed(3)  # this seed gives both answers about equally often
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.3,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config).eval()
    yes = tokenizer.convert_tokens_to_ids(["yes", "Ġyes"])
    no = tokenizer.convert_tokens_to_ids(["no", "Ġno"])
    with torch.no_grad():
        inputs = (tokenizer(prompt, return_tensors="pt") for prompt in _PROMPTS)
        last_states = torch.stack(
            [model.model(**tokens).last_hidden_state[0, -1] for tokens in inputs]
        )
        # Yes and no are opposite in the direction in which the prompts differ most.
        direction = torch.linalg.svd(last_states - last_states.mean(0)).Vh[0]
        center = last_states.mean(0) / last_states.mean(0).norm()
        direction = direction - (direction @ center) * center
        model.lm_head.weight.zero_()
        model.lm_head.weight[yes] = 10 * direction
        model.lm_head.weight[no] = -10 * direction
        # After either answer, the residual stream predicts the end.
        stop = torch.randn(config.hidden_size)
        model.model.embed_tokens.weight[yes + no] = 100 * stop
        model.lm_head.weight[tokenizer.eos_token_id] = 100 * (stop - (stop @ center) * center)
    return model


def save_tiny_model(folder: Path) -> None:
    """Save the model and its tokenizer in `folder`."""
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder to save the model in")
    save_tiny_model(parser.parse_args().folder)
