"""Finding blocks, attention and MLP, refusals, and the logits of the labels."""

import copy
import tomllib
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from places import ROOT
from small_models import _COMMON, ARCHITECTURES, LabelsOnly, small_model

from pragworld_interp.engine.decoder import OLDEST_TRANSFORMERS, from_model
from pragworld_interp.engine.modules import replaced_forward
from pragworld_interp.prompts.labels import label_tokens
from pragworld_tasks.errors import InputError


def test_transformers_that_gives_wrong_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert any(
        needed.startswith(f"transformers>={OLDEST_TRANSFORMERS}")
        for needed in project["optional-dependencies"]["interp"]
    )
    monkeypatch.setattr("pragworld_interp.engine.decoder.transformers.__version__", "4.57.6")
    message = "transformers 4.57.6 is too old for layers; needed is 5.13.0 or newer: pip install -U"
    with pytest.raises(InputError, match=message):
        from_model(small_model("qwen2"), LabelsOnly())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_blocks_and_their_parts_are_found_by_structure(architecture: str) -> None:
    model = small_model(architecture)
    names = {module: name for name, module in model.named_modules()}
    decoder = from_model(model, LabelsOnly())
    assert len(decoder.blocks) == 3
    for number, block in enumerate(decoder.blocks):
        name = names[block.module]
        assert name.endswith(f".{number}")
        assert names[block.mlp] in (f"{name}.mlp", f"{name}.feed_forward")
        own = {"gpt2": "attn", "gptj": "attn", "gpt_neox": "attention"}
        assert names[block.attention] == f"{name}.{own.get(architecture, 'self_attn')}"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_label_logits_are_those_of_the_model(architecture: str) -> None:
    model = small_model(architecture)
    decoder = from_model(model, LabelsOnly())
    seen: list[torch.Tensor] = []

    def listen(_: Any, __: Any, output: Any) -> None:
        seen.append(output[0] if isinstance(output, tuple) else output)

    handle = decoder.blocks[-1].module.register_forward_hook(listen)
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[9, 8, 7, 11], [20, 21, 22, 23]])).logits
        handle.remove()
        # More rows than the prompts had, in one go.
        found = decoder.label_logits(seen[0].flatten(0, 1))
    torch.testing.assert_close(found, logits.flatten(0, 1)[:, [5, 6]], atol=1e-5, rtol=1e-5)


def test_labels_in_bfloat16_are_compared_in_float32() -> None:
    model = copy.deepcopy(small_model("llama")).to(torch.bfloat16)
    decoder = from_model(model, LabelsOnly())
    with torch.no_grad():  # labels that are close to each other
        model.lm_head.weight[6] = model.lm_head.weight[5] + 0.01 * model.lm_head.weight[6]
    hidden = torch.randn(200, 32, generator=torch.manual_seed(0)).to(torch.bfloat16)
    rows = model.lm_head.weight[[5, 6]].float()
    with torch.inference_mode():
        expected = model.model.norm(hidden).float() @ rows.T
    found = decoder.label_logits(hidden)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    rounded = expected.to(torch.bfloat16)
    assert (rounded[:, 0] == rounded[:, 1]).any()  # what would have been a tie
    assert (found[:, 0] != found[:, 1]).all()


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (
            transformers.OPTConfig(
                vocab_size=32,
                hidden_size=16,
                ffn_dim=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                word_embed_proj_dim=16,
            ),
            "opt",
        ),
        (
            transformers.RwkvConfig(
                vocab_size=32, hidden_size=16, attention_hidden_size=16, num_hidden_layers=2
            ),
            "rwkv",
        ),
        (  # whose blocks run again and again
            transformers.AutoConfig.for_model("hrm_text", **_COMMON),
            "hrm_text",
        ),
    ],
)
def test_an_architecture_that_cannot_be_swept_is_refused_by_name(config: Any, why: str) -> None:
    model = transformers.AutoModelForCausalLM.from_config(config)
    with pytest.raises(InputError, match=rf"^{why}, block 0: .*cannot be swept$"):
        from_model(model, LabelsOnly())


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "modernbert"])
def test_a_model_whose_tokens_see_later_ones_is_refused(kind: str) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.AutoConfig.for_model(kind, **sizes, initializer_range=0.3)
    model = transformers.AutoModelForMaskedLM.from_config(config)
    refusal = "its attention is not causal: tokens see later ones; use a causal language model"
    for dtype in (torch.float32, torch.bfloat16):
        with pytest.raises(InputError, match=f"^{kind}: {refusal}$"):
            from_model(model.to(dtype), LabelsOnly())


def tokenizer(**tokens: list[int]) -> Any:
    """Return a tokenizer that knows these words, with underscores for spaces, and nothing else."""

    class Words(SimpleNamespace):
        def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
            label = text.rpartition("Label:")[2].rpartition(">")[2]
            return {"input_ids": [9, *(tokens[label.replace(" ", "_")] if label else [])]}

        def apply_chat_template(self, turns: Any, **settings: Any) -> str:
            assert settings == {"tokenize": False, "add_generation_prompt": True}
            return f"<user>{turns[0]['content']}<assistant>"

    return Words(name_or_path="some/tokenizer", unk_token_id=0)


def test_labels_are_what_lm_eval_puts_behind_a_prompt() -> None:
    words = tokenizer(_yes=[3], _no=[4], yes=[5], no=[6])
    assert label_tokens(words) == (3, 4)
    assert label_tokens(words, chat_template=True) == (5, 6)


@pytest.mark.parametrize("labels", [([3], [4, 5]), ([0], [6]), ([3], [3])])
def test_a_tokenizer_without_single_labels_is_refused_by_name(labels: Any) -> None:
    with pytest.raises(InputError, match=r"^tokenizer some/tokenizer: .*must be single tokens "):
        label_tokens(tokenizer(_yes=labels[0], _no=labels[1]))


def test_what_a_library_put_in_the_place_of_forward_is_put_back() -> None:
    module = torch.nn.Linear(2, 2)
    with replaced_forward(module, lambda _: "ours"):
        assert module(torch.ones(2)) == "ours"
    assert "forward" not in module.__dict__
    module.forward = lambda _: "theirs"  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(ZeroDivisionError), replaced_forward(module, lambda _: 1 / 0):
        module(torch.ones(2))
    assert module(torch.ones(2)) == "theirs"
