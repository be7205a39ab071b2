"""Finding blocks, attention and MLP, and the tokens of the labels."""

import tomllib

import pytest
from places import ROOT
from small_models import ARCHITECTURES, LabelsOnly, small_model
from transformers import AutoTokenizer

from pragworld_interp.engine.decoder import OLDEST_TRANSFORMERS, from_model
from pragworld_interp.prompts.labels import label_tokens
from pragworld_tasks.errors import InputError
from pragworld_tasks.tiny import tiny_folder


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


def test_labels_are_what_lm_eval_puts_behind_a_prompt() -> None:
    """A space stands before them, unless a chat template is used."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
    tokenizer.chat_template = "{{ messages[0]['content'] }}<s>"
    for chat_template, texts in ((False, [" yes", " no"]), (True, ["yes", "no"])):
        (yes,), (no,) = tokenizer(texts, add_special_tokens=False)["input_ids"]
        assert label_tokens(tokenizer, chat_template) == (yes, no)
